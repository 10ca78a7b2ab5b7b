"""The effects of a run's events, tick by tick: inputs as keys and deltas, frames as a chain. Knows no ledger.

`simulate` stores what this makes; `audit --resimulate` makes it again and compares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coord.frames.frame import DecisionFrame
from coord.frames.inputs import Inputs, encode, is_key
from coord.planning.plan import Plan


@dataclass(frozen=True)
class Entry:
    """One planned tick: the effects of its `coord.inputs` parts and of its `coord.frame`."""

    tick: int
    parts: list[bytes]
    frame: DecisionFrame
    rows: npt.NDArray[np.void]

    def frame_effect(self) -> bytes:
        """128 bytes of frame, then 32 a row."""
        return self.frame.encode() + self.rows.tobytes()


class Chronicle:
    """Numbers and chains the frames of one run and remembers the inputs of the planned tick before."""

    def __init__(self) -> None:
        self.frames = 0
        self._prev_digest = bytes(16)
        self._before: Inputs | None = None

    def entry(self, tick: int, inputs: Inputs, plan: Plan, *, with_inputs: bool = True) -> Entry:
        """The entry of the next planned tick; with_inputs=False leaves the inputs out (a run without a ledger)."""
        parts: list[bytes] = []
        if with_inputs:
            base = None if is_key(self._before, inputs, self.frames) else self._before
            parts = encode(inputs, tick, base)
            self._before = inputs.copy()
        frame = plan.frame(self.frames, self._prev_digest)
        self._prev_digest = frame.digest()
        self.frames += 1
        return Entry(tick, parts, frame, plan.rows)

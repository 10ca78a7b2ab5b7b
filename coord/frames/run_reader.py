"""RunReader: a run read from its ledger, tick by tick or at one tick, without planning anything again."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from coord.auditing.tick_seek import first_at_or_after, kind_of, last_frame_before, last_key_before
from coord.errors import InputsError, RunError
from coord.frames.frame import DecisionFrame, decode_frame_event
from coord.frames.inputs import Inputs, apply
from coord.frames.kinds import CHANGE, FRAME, INPUTS
from coord.ground.grid import Grid
from coord.records import PlanConfig
from coord.simulation.events import FleetEvent
from coord.simulation.setup import Setup, setup_from_map

if TYPE_CHECKING:
    from coord.explaining.explain import Explanation
    from coord.stl import CoordinationStl, Event, Ledger, PublishedLedger

Records = npt.NDArray[np.void]


class FrameView(NamedTuple):
    """One planned tick as the ledger tells it. `inputs` changes with the next step of the iterator: copy to keep."""

    rank: int
    inputs: Inputs
    frame: DecisionFrame
    rows: Records

    def explain(self, *, agent: int | None = None, zone: int | None = None, exact: int | None = None) -> Explanation:
        """`coord.explain` of this decision, with the config, rings and grid of its own inputs and with its rows.

        Where a planner of somebody else's made the rows, nobody knows what would win. Raises UnknownIdError.
        """
        from coord.explaining.explain import EXACT
        from coord.explaining.explain_inputs import explain

        now = self.inputs
        return explain(
            now.agents,
            now.zones,
            now.obstacles,
            now.kernels,
            PlanConfig.decode(now.config),
            now_tick=self.frame.tick,
            rings=now.ring_arrays(),
            grid=Grid.decode(now.grid) if now.grid else None,
            agent=agent,
            zone=zone,
            rows=self.rows,
            exact=EXACT if exact is None else exact,
        )


class RunReader:
    """A run read from its ledger, without planning anything again.

    Raises RunError where the ledger holds no run; what the bytes prove is `coord.audit`'s business.
    """

    def __init__(self, ledger: Ledger | PublishedLedger, *, owned: bool = False) -> None:
        self._ledger = ledger
        self._owned = owned
        self._setup: Setup | None = None
        self._skipped_tick: int | None = None
        self.skipped = 0  # frames that the last walk left out, as something that they depend on is retired

    def __enter__(self) -> RunReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the ledger when `open_run` opened it."""
        if self._owned:
            self._ledger.close()

    @property
    def ledger(self) -> Ledger | PublishedLedger:
        """The ledger itself."""
        return self._ledger

    @property
    def size(self) -> int:
        """Events in the ledger."""
        return self._ledger.head().size

    @property
    def root(self) -> bytes:
        """RFC 6962 root of the ledger."""
        return self._ledger.head().root

    @property
    def scenario(self) -> Setup:
        """What the run was made from."""
        if self._setup is None:
            if self.size == 0:
                raise RunError("the ledger is empty: no run")
            from coord import stl

            value = stl.scenario_map(self._ledger.at(0))
            first = next(self._inputs(), None)
            agents, zones = (None, None) if first is None else (first.agents.copy(), first.zones.copy())
            self._setup = setup_from_map(value, agents, zones)
        return self._setup

    def _inputs(self) -> Iterator[Inputs]:
        for view in self.frames():
            yield view.inputs

    def frames(self) -> Iterator[FrameView]:
        """Every planned tick in order, the inputs rebuilt from keys and deltas, in bounded memory.

        A tick whose inputs, or those that they change, are retired is left out and counted in `skipped`.
        """
        self.skipped = 0
        for rank, state, effect in self._planned():
            yield FrameView(rank, state, *decode_frame_event(effect))

    def _planned(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Inputs, bytes]]:
        """Rank, inputs and effect of each frame at ranks [start, stop) that stands on inputs that are all there."""
        state: Inputs | None = None
        parts: list[Event] = []
        hole, number = False, 0
        for rank, event in self._ledger.scan(start, stop, retired=True):
            kind = kind_of(event)
            if kind is None:
                hole = True
            elif kind == INPUTS:
                parts.append(cast("Event", event))
            elif kind == FRAME:
                frame = cast("Event", event)
                if hole:
                    own = [part for part in parts if part.id in frame.parents]
                    if frame.effect[8:16] != number.to_bytes(8, "little") or len(own) != len(parts):
                        state, parts = None, own
                try:
                    state = apply(state, [part.effect for part in parts], tick=frame.tick)
                except InputsError:
                    if not hole:
                        raise
                    state = None
                else:
                    hole = False
                    yield rank, state, frame.effect
                if state is None:
                    self.skipped, self._skipped_tick = self.skipped + 1, frame.tick
                parts, number = [], int.from_bytes(frame.effect[8:16], "little") + 1

    def changes(self) -> Iterator[FleetEvent]:
        """What came to the fleet from outside, in the order in which it was applied; retired events are left out."""
        from coord import stl

        for _, event in self._ledger.scan(retired=True):
            if kind_of(event) == CHANGE:
                yield stl.fleet_event(cast("Event", event))

    def kinds(self) -> dict[str, int]:
        """How many events of each kind the ledger holds, in the order of their first event; "retired" are those whose
        payload was removed."""
        counts: dict[str, int] = {}
        for _, event in self._ledger.scan(retired=True):
            kind = kind_of(event) or "retired"
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def state_at(self, tick: int) -> FrameView:
        """The last planned tick at or before `tick` whose inputs are there. Raises RunError when there is none.

        It is sought, not read up to: what is read is the key of inputs before it, and what follows that.
        """
        self.skipped, self._skipped_tick = 0, None
        stop = first_at_or_after(self._scan, self.size, tick + 1)
        last = last_frame_before(self._scan, stop)
        key = None if last is None else last_key_before(self._scan, last)
        while True:
            found: tuple[int, Inputs, bytes] | None = None
            for step in self._planned(key or 0, stop):
                found, self._skipped_tick = step, None
            if key is None or (found is not None and found[0] == last and not self.skipped):
                break
            # Something is retired there: which decisions can be shown is known from the start only.
            key, self.skipped, self._skipped_tick = None, 0, None
        if self._skipped_tick is not None:
            raise RunError(f"the decision at tick {self._skipped_tick} can't be shown: what it depends on is retired")
        if found is None:
            raise RunError(f"no frame at or before tick {tick}")
        return FrameView(found[0], found[1], *decode_frame_event(found[2]))

    def _scan(self, start: int, stop: int) -> Iterator[tuple[int, object]]:
        return self._ledger.scan(start, stop, retired=True)

    def coordination_stl(self) -> CoordinationStl:
        """The decisions of this run behind the narrow door. RunError for a published one: nothing is appended there."""
        from coord import stl

        url = getattr(self._ledger, "url", None)
        if url is not None:
            raise RunError(f"{url}: is published: the narrow door needs the ledger itself")
        return stl.coordination_stl(cast("Ledger", self._ledger))

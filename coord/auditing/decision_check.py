"""DecisionCheck: one frame against the decision made again, or against its own rules and its place in the chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from coord.auditing.divergence import FRAME_DTYPE, Divergence, compare_frames, compare_rows
from coord.auditing.place import AuditPlace
from coord.auditing.report import Problem, Report
from coord.checks import EXTERNAL
from coord.errors import BadInput, CoordError, FrameError, RowsError
from coord.frames.digest import input_digest
from coord.frames.frame import DECISION_FRAME_BYTES, decode_frame_event
from coord.frames.inputs import ARRAYS, Inputs, differences
from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.planning.external import checked_plan
from coord.planning.plan import Plan, plan
from coord.planning.situation import situation
from coord.records import CONFIG_DTYPE, RING_DTYPE, PlanConfig
from coord.simulation.chronicle import Entry

if TYPE_CHECKING:
    from coord.stl import Event

Records = npt.NDArray[np.void]


class DecisionCheck:
    """Compares frames and writes into the report what differs; `at` is where the audit stands, of which the chain of
    frames is read here.
    """

    def __init__(self, report: Report, at: AuditPlace) -> None:
        self._report = report
        self.at = at
        self._geometry: tuple[bytes, Grid | None, bytes, Rings | None] = (b"", None, b"", None)

    def inputs(self, rank: int, event: Event, expected: Inputs, got: Inputs) -> bool:
        """Inputs that should be others; True when they differ."""
        return self._report.add_divergences(self._input_divergences(rank, event, expected, got))

    def made_inputs(
        self, rank: int, event: Event, pending: Sequence[tuple[int, Event]], entry: Entry, expected: Inputs, got: Inputs
    ) -> bool:
        """Stored parts of inputs against those made again; True when they differ."""
        first = pending[0][0] if pending else rank
        if [part.effect for _, part in pending] == entry.parts:
            return False
        if self.inputs(first, event, expected, got):
            return True
        shown = (f"{len(entry.parts)} parts made again", f"{len(pending)} parts with the same records but other bytes")
        return self._report.add_divergences(
            iter([Divergence(first, self.at.frame_id, event.tick, None, "inputs.bytes", *shown)])
        )

    def plan_again(self, rank: int, event: Event, got: np.void, rows: Records, now: Inputs) -> bool:
        """Make the plan of the stored inputs again and compare every byte; True when it differs.

        What an external planner chose is checked, and all that follows from it computed again.
        """
        try:
            grid, rings = self._decoded(now)
            config = PlanConfig.decode(now.config)
            tables = (now.agents, now.zones, now.obstacles, now.kernels, config)
            if config.planner == EXTERNAL:
                seen = situation(*tables, now_tick=event.tick, rings=rings, grid=grid)
                again = checked_plan(seen, rows, compare=False)
            else:
                again = plan(*tables, now_tick=event.tick, rings=rings, grid=grid)
        except RowsError as error:
            place = (rank, self.at.frame_id, event.tick)
            self._report.add_decision(external=True, planned=True)
            found = Divergence(*place, error.agent, error.field or "rows", error.expected, error.got)
            return self._report.add_divergences(iter([found]))
        except BadInput as error:
            agent = None
            if error.table == "agents" and error.row is not None:
                agent = int(now.agents["id"][error.row])
            where = f"inputs.{error.table}.{error.field}"
            found = Divergence(
                rank, self.at.frame_id, event.tick, agent, where, "an input that can be planned", str(error)
            )
            return self._report.add_divergences(iter([found]))
        except CoordError as error:
            self._report.add_problem(
                Problem(rank, "config.planner", "a planner of this version", "another", str(error))
            )
            self.only(rank, event, got, now)
            return False
        self._report.add_decision(external=config.planner == EXTERNAL, planned=True)
        return self.compare(rank, event, got, rows, again)

    def compare(self, rank: int, event: Event, got: np.void, rows: Records, again: Plan) -> bool:
        """A stored frame and its rows against a plan; True when they differ."""
        frame = again.frame(self.at.frame_id, self.at.prev_digest)
        expected_bytes = frame.encode()
        if event.effect == expected_bytes + again.rows.tobytes():
            return False
        expected = np.frombuffer(expected_bytes, FRAME_DTYPE)[0]
        place = (rank, self.at.frame_id, event.tick)

        def all_of() -> Iterator[Divergence]:
            yield from compare_rows(place, again.rows, rows)
            yield from compare_frames(place, expected, got)

        return self._report.add_divergences(all_of())

    def chain(self, rank: int, event: Event) -> None:
        """A frame whose inputs are not known: its own rules and its place in the chain."""
        self._report.unplanned += 1
        try:
            decode_frame_event(event.effect)
        except FrameError as error:
            self._report.add_problem(Problem(rank, "frame", "a well-formed frame", "another", str(error)))
            return
        got = np.frombuffer(event.effect[:DECISION_FRAME_BYTES], FRAME_DTYPE)[0]
        self._report.same(rank, "frame_id", self.at.frame_id, int(got["frame_id"]))
        self._report.same(rank, "prev_digest", self.at.prev_digest.hex(), got["prev_digest"].tobytes().hex())
        self._report.same(rank, "tick", event.tick, int(got["tick"]))

    def only(self, rank: int, event: Event, got: np.void, now: Inputs) -> None:
        """Structure without planning: rules, chain, and the digests of what the frame names."""
        self.chain(rank, event)
        expected = int.from_bytes(blake3(now.config).digest(8), "little")
        self._report.same(rank, "config_hash", expected, int(got["config_hash"]))
        self._report.same(
            rank, "planner", int(np.frombuffer(now.config, CONFIG_DTYPE)["planner"][0]), int(got["planner"])
        )
        self._report.same(rank, "input_digest", _digest_of(now).hex(), got["input_digest"].tobytes().hex())

    def _input_divergences(self, rank: int, event: Event, expected: Inputs, inputs: Inputs) -> Iterator[Divergence]:
        for array, identity, name, old, new in differences(expected, inputs):
            agent = identity if array == "agents" else None
            label = (
                f"inputs.{array}.{name}"
                if identity is None or agent is not None
                else f"inputs.{array}[{identity}].{name}"
            )
            yield Divergence(rank, self.at.frame_id, event.tick, agent, label, old, new)

    def _decoded(self, now: Inputs) -> tuple[Grid | None, Rings | None]:
        grid_bytes, grid, ring_bytes, rings = self._geometry
        if now.grid != grid_bytes:
            grid = Grid.decode(now.grid) if now.grid else None
        if now.rings != ring_bytes:
            cut = now.ring_count * RING_DTYPE.itemsize
            table = np.frombuffer(now.rings[:cut], RING_DTYPE)
            rings = Rings(table, np.frombuffer(now.rings[cut:], "<f4").reshape(-1, 2)) if now.ring_count else None
        self._geometry = (now.grid, grid, now.rings, rings)
        return grid, rings


def _digest_of(now: Inputs) -> bytes:
    cut = now.ring_count * RING_DTYPE.itemsize
    rings = Rings(np.frombuffer(now.rings[:cut], RING_DTYPE), np.frombuffer(now.rings[cut:], "<f4").reshape(-1, 2))
    arrays = [now.array(name) for name, _ in ARRAYS]
    return input_digest(arrays[0], arrays[1], arrays[2], arrays[3], rings, now.grid)

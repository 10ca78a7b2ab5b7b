"""Auditor: takes the events of a run in order, as its ledger's own check shows them, and keeps what the next one needs.

What an event must be by itself, where it must stand, and what is known behind events that are damaged or retired. The
decisions themselves are compared by `decision_check.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from coord.auditing.change_check import ChangeCheck
from coord.auditing.decision_check import DecisionCheck
from coord.auditing.divergence import FRAME_DTYPE, Divergence
from coord.auditing.place import AuditPlace
from coord.auditing.report import Problem, Report
from coord.auditing.run_twin import RunTwin
from coord.errors import CoordError, InputsError, RunError
from coord.frames.frame import DECISION_FRAME_BYTES
from coord.frames.inputs import Inputs, apply
from coord.frames.kinds import CHANGE, FRAME, INPUTS, PREFIX, SCENARIO, SCHEMA
from coord.records import ROW_DTYPE
from coord.simulation.setup import Setup, external_names, setup_from_map
from coord.sites.scenario_schema import U64_MAX

if TYPE_CHECKING:
    from coord.stl import Event

Records = npt.NDArray[np.void]


class Auditor:
    """Takes the events in order and keeps what the next one needs; a visitor of the ledger's own check, too."""

    prefix = PREFIX

    def __init__(self, report: Report, replan: bool, resimulate: bool, told: set[int | None]) -> None:
        self.shown = 0  # events so far
        self.lead_until = 0  # decisions below this rank are checked by themselves, not made again
        self.lead_frames = 0
        self.at = AuditPlace(any_ledger=not replan and not resimulate)
        self._report = report  # of what the events say; the ledger's own damage comes before it
        self._told = told  # ranks that the ledger's own check found damaged
        self._replan = replan
        self._resimulate = resimulate
        self._check = DecisionCheck(report, self.at)
        self._changes = ChangeCheck(report)
        self._scenario: Event | None = None
        self._map: Mapping[str, Any] | None = None
        self._pending: list[tuple[int, Event]] = []
        self._inputs: Inputs | None = None
        self._twin: RunTwin | None = None
        self._setup: Setup | None = None

    def begin_at(self, at: AuditPlace, scenario: Event, setup: Setup) -> None:
        """Stand in front of a key of inputs inside a ledger, as if all before it had been shown and was in order.

        Raises RunError where the scenario is none.
        """
        from coord import stl

        self.at = self._check.at = at
        self._scenario, self._map, self._setup = scenario, stl.scenario_map(scenario), setup
        self._report.name = str(self._map.get("name", ""))
        self._report.external = external_names(self._map)

    def begin_behind(self, at: AuditPlace) -> None:
        """As `begin_at` where the scenario or the first inputs can't be read: what stands in them is not compared."""
        self.at = self._check.at = replace(at, lost=True)

    def stands_at(self, place: AuditPlace) -> bool:
        """Whether from here on nothing else is found than from a place where `begin_at` put an auditor."""
        known = self._map is not None and self._setup is not None and not self.open_inputs and self._twin is None
        return known and replace(self.at, lost=False) == place  # with the first inputs known, lost ones change nothing

    def jump(self, found: Report, ended: AuditPlace, events: int) -> None:
        """Go on behind events that another auditor went through from where this one stands."""
        self._report.take_over(found)
        self.shown += events
        self._inputs, self.at = None, ended
        self._check.at = ended

    @property
    def open_inputs(self) -> bool:
        """Whether inputs, or changes from outside, wait for their frame."""
        return bool(self._pending) or self._changes.last_tick is not None

    def take(self, rank: int, event: Event | str | None) -> None:
        """One event, as `stl.read_events` gives it: the text of what is wrong with it, None for a retired one."""
        if isinstance(event, str):
            self.skip(event, rank)
        elif event is None:
            self.retired(rank)
        else:
            self.event(rank, event)

    def event(self, rank: int, event: Event) -> None:
        """One event."""
        if event.kind == CHANGE and self._scenario is not None and event.producer == self.at.producer:
            self.shown += 1
            self._in_sequence(rank, event.producer, event.sequence)
            self._envelope(rank, event)
            self._no_parents(rank, event)
            self._changes.add(rank, event)
            return
        if event.kind not in (SCENARIO, INPUTS, FRAME):
            self.others(rank, 1, event.producer, event.kind, event.sequence)
            return
        self.at.any_ledger = False
        self.shown += 1
        if rank == 0:
            self.at.producer, self.at.sequence = event.producer, event.sequence
            if event.kind == SCENARIO:
                self._begin(event)
                return
        self._in_sequence(rank, event.producer, event.sequence)
        self._envelope(rank, event)
        if event.kind == SCENARIO:
            self._report.tell(rank, "kind", "the scenario at rank 0 only", event.kind)
        elif event.kind == INPUTS:
            self._no_parents(rank, event)
            self._pending.append((rank, event))
        else:
            self._frame(rank, event)

    def others(self, rank: int, count: int, producer: str, kind: str, sequence: int) -> None:
        """`count` events in a row, numbered from `sequence` on, of other parts of a run or of other producers: no
        decision depends on them.
        """
        self.shown += count
        if rank == 0:
            self.at.producer, self.at.sequence = producer, sequence
        if producer == self.at.producer:
            self._in_sequence(rank, producer, sequence)
            self.at.sequence = sequence + count
        if not kind.startswith(PREFIX) or kind == CHANGE:
            self._report.add_other(kind, count)
            return
        self.at.any_ledger = False
        for at in range(rank, rank + count):
            self._report.tell(at, "kind", "a known kind", kind)

    def _envelope(self, rank: int, event: Event) -> None:
        """What every event of ours has in common; the tick of inputs is their frame's, the parents differ by kind."""
        self._report.same(rank, "schema", SCHEMA, event.schema)
        self._report.same(rank, "wall_ns", None, event.wall_ns)

    def _no_parents(self, rank: int, event: Event) -> None:
        self._report.same(rank, "parents", "none", f"{len(event.parents)}" if event.parents else "none")

    def _in_sequence(self, rank: int, producer: str, sequence: int) -> None:
        """The run's producer numbers all its events, of whatever kind: a number left out is an event left out."""
        if self.at.producer is not None:
            self._report.same(rank, "producer", self.at.producer, producer)
        elif self.at.hole is not None and self.at.hole[0] == 0:
            self.at.producer = producer
        slack, self.at.slack = self.at.slack, 0
        if not self.at.sequence <= sequence <= self.at.sequence + slack:
            self._report.same(rank, "sequence", self.at.sequence, sequence)
            self._forget()
        self.at.sequence = sequence + 1

    def skip(self, text: str, rank: int) -> None:
        """An event that can't be read: nothing is known until the next key."""
        if rank not in self._told:
            self._report.add_problem(Problem(rank, "event", "a readable event", "damage", text))
        self._forget()
        self.at.sequence += 1

    def retired(self, rank: int) -> None:
        """An event whose payload was removed. What it was shows in what follows."""
        self.shown += 1
        self.at.hole = (rank if self.at.hole is None else self.at.hole[0], rank)
        self.at.slack += 1

    def _forget(self) -> None:
        """Events are missing: what a delta would change is not known until the next key."""
        self._inputs, self._pending, self._twin = None, [], None
        self._changes.forget()
        self._resimulate, self.at.gap, self.at.lost, self.at.resume = False, True, True, True

    def conclude(self, report: Report) -> None:
        """After the last event: what was found goes into the report of the ledger."""
        if self.at.any_ledger:
            report.take_over(Report(other_events=self._report.other_events))
            return
        if self._scenario is None and not (report.retired and report.retired[0][0] == 0):
            self._report.tell(None, "scenario", "a coord.scenario event at rank 0", "none")
        self._end_changes()
        if self.at.hole is not None:
            self._not_replayable(*self.at.hole, 0)
        self._tell_not_replayable()
        for rank, _ in self._pending if self.at.hole is None else ():
            self._report.tell(rank, "inputs", "a frame after them", "the end of the ledger")
        report.take_over(self._report)

    def _end_changes(self) -> None:
        """Changes after the last frame are made again up to the last of them."""
        last = self._changes.last_tick
        if self._twin is not None and last is not None:
            self._twin.go_on(last)
        self._changes.end(None if self._twin is None else self._twin.changes(), self.at.hole is None)

    def _begin(self, event: Event) -> None:
        from coord import stl

        self._scenario = event
        self.at.sequence = event.sequence + 1
        self._envelope(0, event)
        self._report.same(0, "tick", 0, event.tick)
        self._no_parents(0, event)
        try:
            self._map = stl.scenario_map(event)
        except CoordError as error:
            self._report.add_problem(Problem(0, "scenario", "a scenario", "another", str(error)))
            return
        self._report.name = str(self._map.get("name", ""))
        self._report.external = external_names(self._map)
        self._report.same(0, "producer", f"sim/{self._report.name}", event.producer)
        self._report.same(0, "sequence", 0, event.sequence)

    def _frame(self, rank: int, event: Event) -> None:
        report = self._report
        pending, self._pending = self._pending, []
        report.frames += 1
        self.lead_frames += rank < self.lead_until
        whole = known = self.at.hole is None
        if self.at.hole is not None:
            pending, whole = self._cross(self.at.hole, event, pending)
            self.at.hole = None
        parents = tuple(sorted(part.id for _, part in pending))
        if self.at.resume:
            known = False
            self._resume_from(event)
        elif event.parents != parents and whole:
            self._report.tell(
                rank, "parents", f"{len(parents)} inputs before it", f"{len(event.parents)} other parents"
            )
        if not self._rebuild(rank, event, pending):
            made_again = self._made_again(rank, event)
            self._compare_changes(event, known)
            if not made_again:
                self._check.chain(rank, event)
                if self.at.unreplayable is not None:
                    self._not_replayable(rank, rank, 1)
            self._chain_on(event)
            return
        assert self._inputs is not None
        self._tell_not_replayable()
        diverged = self._setup is None and not self.at.lost and self._start(rank, event)
        frame_bytes, rows = event.effect[:DECISION_FRAME_BYTES], self._rows(rank, event)
        if len(frame_bytes) < DECISION_FRAME_BYTES or rows is None:
            self._report.tell(rank, "frame", "128 bytes and whole rows of 32", f"{len(event.effect)} bytes")
            self._chain_on(event)
            return
        got = np.frombuffer(frame_bytes, FRAME_DTYPE)[0]
        self._in_step(rank, event)
        entry = None if self._twin is None else self._twin.entry(event.tick, rows)
        self._compare_changes(event, known)
        if entry is not None and self._twin is not None:
            diverged = (
                self._check.made_inputs(rank, event, pending, entry, self._twin.world.inputs, self._inputs) or diverged
            )
            report.resimulated += 1
        if entry is not None and not diverged and self._twin is not None and self._twin.plan is not None:
            diverged = self._check.compare(rank, event, got, rows, self._twin.plan) or diverged
            report.add_decision(external=self._twin.external, planned=self._replan)
        elif self._replan and rank >= self.lead_until:
            diverged = self._check.plan_again(rank, event, got, rows, self._inputs) or diverged
        else:
            self._check.only(rank, event, got, self._inputs)
        report.frames_diverged += diverged
        if self._twin is not None:
            self._twin.advance()
        self._chain_on(event)

    def _cross(
        self, hole: tuple[int, int], event: Event, pending: list[tuple[int, Event]]
    ) -> tuple[list[tuple[int, Event]], bool]:
        """The first frame after retired events: the inputs that it stands on, and whether they are all there.

        Where something that it depends on is retired nothing is known until the next key.
        """
        mine = [entry for entry in pending if entry[1].id in event.parents]
        others = [entry for entry in pending if entry[1].id not in event.parents]
        whole = len(mine) == len(event.parents)
        stored = event.effect[:DECISION_FRAME_BYTES]
        if len(stored) < DECISION_FRAME_BYTES:
            return pending, False
        frame = np.frombuffer(stored, FRAME_DTYPE)[0]
        missing = int(frame["frame_id"]) - self.at.frame_id  # frames that are retired themselves
        if whole and missing == 0 and not others:
            if hole[0] == 0:  # the scenario: the decisions stand on their inputs, the world can't be made again
                self._report.add_not_replayable(0, 0, 0)
            return mine, True  # of other parts of a run: no decision depended on them
        self._not_replayable(*hole, 0)
        self.at.resume = 0 < missing <= hole[1] - hole[0] + 1
        if not (whole and self._apply_others(others, missing)):
            self._inputs, self.at.gap = None, True
            self.at.lost = self.at.lost or self._setup is None
        return mine, whole

    def _apply_others(self, others: list[tuple[int, Event]], frames: int) -> bool:
        """Inputs of frames that are retired themselves; False where some are missing."""
        ticks: dict[int, list[bytes]] = {}
        for _, part in others:
            ticks.setdefault(part.tick, []).append(part.effect)
        if len(ticks) != frames:
            return False
        try:
            for tick, parts in ticks.items():
                self._inputs = apply(self._inputs, parts, tick=tick)
        except InputsError:
            return False
        self.at.lost = self.at.lost or self._setup is None
        return True

    def _not_replayable(self, first: int, last: int, frames: int) -> None:
        start, _, count = self.at.unreplayable or (first, last, 0)
        self.at.unreplayable = (start, last, count + frames)

    def _tell_not_replayable(self) -> None:
        if self.at.unreplayable is not None:
            self._report.add_not_replayable(*self.at.unreplayable)
            self.at.unreplayable = None

    def _made_again(self, rank: int, event: Event) -> bool:
        """A frame whose inputs are retired, made again from scenario and seed: it names its inputs by their ids."""
        from coord import stl

        self._in_step(rank, event)
        rows = self._rows(rank, event)
        entry = None if self._twin is None else self._twin.entry(event.tick, rows)
        if entry is None or self._twin is None or self._twin.plan is None or rows is None or self.at.producer is None:
            return False
        self._report.resimulated += 1
        self._report.add_decision(external=self._twin.external, planned=self._replan)
        first = event.sequence - len(entry.parts)
        again = stl.entry_events(entry, self.at.producer, first)[-1] if first >= 0 else None
        if again is not None and again.encode() == event.encode():
            self._inputs, self.at.gap = self._twin.world.inputs.copy(), False
            self._tell_not_replayable()
        else:
            got = np.frombuffer(event.effect[:DECISION_FRAME_BYTES], FRAME_DTYPE)[0]
            if not self._check.compare(rank, event, got, rows, self._twin.plan):
                shown = ("the ids of inputs made again", "others")
                self._report.add_divergences(
                    iter([Divergence(rank, self.at.frame_id, event.tick, None, "parents", *shown)])
                )
            self._report.frames_diverged += 1
        self._twin.advance()
        return True

    def _resume_from(self, event: Event) -> None:
        """The first frame after a gap that has been told: what it should follow is lost, it is taken at its word."""
        self.at.resume = False
        if self._setup is not None:
            self.at.tick_before = (event.tick - 1) // self._setup.every_ticks * self._setup.every_ticks
        stored = event.effect[:DECISION_FRAME_BYTES]
        if len(stored) == DECISION_FRAME_BYTES:
            frame = np.frombuffer(stored, FRAME_DTYPE)[0]
            self.at.frame_id, self.at.prev_digest = int(frame["frame_id"]), frame["prev_digest"].tobytes()

    def _rebuild(self, rank: int, event: Event, pending: list[tuple[int, Event]]) -> bool:
        try:
            for part_rank, part in pending:
                self._report.same(part_rank, "tick", event.tick, part.tick)
            self._inputs = apply(self._inputs, [part.effect for _, part in pending], tick=event.tick)
        except InputsError as error:
            first = pending[0][0] if pending else rank
            if self.at.gap:
                self._inputs = None
                return False
            self._inputs, self._twin, self.at.lost = None, None, True
            self.at.gap = True
            text = f"rank {first}: {error}"
            self._report.add_problem(Problem(first, error.field, str(error.expected), str(error.got), text))
            return False
        self.at.gap = False
        return True

    def _start(self, rank: int, event: Event) -> bool:
        """The first frame: its inputs must be what the scenario says. True when they are not."""
        assert self._inputs is not None
        if self._map is None:
            return False
        try:
            self._setup = setup_from_map(self._map, self._inputs.agents.copy(), self._inputs.zones.copy())
        except RunError as error:
            self._report.add_problem(Problem(0, "scenario", "the first inputs", "others", str(error)))
            self._map, self._resimulate = None, False
            return False
        twin = RunTwin(self._setup)
        if not self._resimulate:
            return self._check.inputs(rank, event, twin.world.inputs, self._inputs)
        from coord import stl

        assert self._scenario is not None
        if stl.scenario_event(self._setup).encode() != self._scenario.encode():
            self._report.tell(0, "scenario", "the bytes made from its own content", "others")
        if twin.inputs_are_external:
            self._report.not_resimulated = f"inputs after those of tick 0 ({twin.inputs_are_external})"
            return self._check.inputs(rank, event, twin.world.inputs, self._inputs)
        self._twin = twin
        return False

    def _rows(self, rank: int, event: Event) -> Records | None:
        size = len(event.effect) - DECISION_FRAME_BYTES
        if size < 0 or size % ROW_DTYPE.itemsize:
            return None
        return np.frombuffer(event.effect, ROW_DTYPE, offset=DECISION_FRAME_BYTES)

    def _in_step(self, rank: int, event: Event) -> None:
        if self._setup is None:
            return
        before, every = self.at.tick_before, self._setup.every_ticks
        last = 0 if before is None else (before // every + 1) * every
        first = last if before is None or not self._setup.on_events else before + 1
        if not first <= event.tick <= last:
            expected = str(last) if first == last else f"{first} to {last}"
            self._report.tell(rank, "tick", expected, str(event.tick))
            self._twin = None

    def _compare_changes(self, event: Event, known: bool) -> None:
        """What happened since the frame before, against what is made again; the twin stands at the frame's tick."""
        made = None if self._twin is None else self._twin.changes()
        on_events = self._setup is not None and self._setup.on_events
        self._changes.frame(self.at.tick_before, event.tick, on_events, made, known)

    def _chain_on(self, event: Event) -> None:
        """The next frame follows the stored one, so that one divergence is not told again at every later frame."""
        stored = event.effect[:DECISION_FRAME_BYTES]
        self.at.prev_digest = blake3(stored).digest(16)
        self.at.frame_id += 1
        if len(stored) == DECISION_FRAME_BYTES:
            self.at.frame_id = (int(np.frombuffer(stored, FRAME_DTYPE)[0]["frame_id"]) + 1) & U64_MAX
        self.at.tick_before = event.tick

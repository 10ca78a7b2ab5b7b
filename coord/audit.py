"""audit: read a run's ledger, make every decision again, and name the first byte that differs.

Source: `docs/formats/coord-scenario.md`, section "Three audits". The ledger is streamed: memory is bounded by one tick.
What each audit proves, and what only a checkpoint kept elsewhere can show, is written there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from coord.chronicle import Chronicle, Entry
from coord.divergence import FRAME_DTYPE, Divergence, compare_frames, compare_rows
from coord.errors import BadInput, CoordError, FrameError, InputsError, RunError
from coord.frame import DECISION_FRAME_BYTES, decode_frame_event
from coord.grid import Grid
from coord.inputs import ARRAYS, Inputs, apply, differences
from coord.kinds import CHANGE, FRAME, INPUTS, PREFIX, SCENARIO, SCHEMA
from coord.plan import Plan, plan
from coord.records import CONFIG_DTYPE, RING_DTYPE, ROW_DTYPE, PlanConfig
from coord.report import Problem, Report, parse_checkpoint
from coord.rings import Rings
from coord.scenario_schema import U64_MAX
from coord.setup import Setup, setup_from_map
from coord.world import World
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from coord.stl import Event, Ledger, PublishedLedger

Records = npt.NDArray[np.void]
Progress = Callable[[int, int], None]


@plain_mode()
def audit(
    run: Ledger | PublishedLedger | str | Path,
    *,
    replan: bool = True,
    resimulate: bool = False,
    expect: tuple[int, bytes | str] | str | None = None,
    keys: Sequence[str] = (),
    progress: Progress | None = None,
    now_ns: int | None = None,
) -> Report:
    """Check a run, or one that is published at a URL: its ledger, its structure, and every decision.

    `replan` rebuilds the stored inputs and makes each plan again. `resimulate` makes every event again from scenario
    and seed. Without both a ledger that holds no run is checked too, its events counted by kind. `expect` is
    (size, root), or the text of a checkpoint, kept elsewhere: the ledger must contain it.
    `keys` are verifier keys of the log: every checkpoint that the ledger keeps must be signed by one of them, and it
    must keep one.
    `now_ns` is what the time is: wall times more than a day ahead of it are warned of.
    `progress` is called with steps done and steps in all, two an event: its bytes, and what it says. Both are done in
    one pass; a ledger in which events are damaged or missing is gone through again, past the damage.

    Never raises for damage; it raises ValueError for a malformed `expect` or key, NotALedgerError (of storage) where
    there is no ledger, ObjectStoreError where a URL can't be reached.

    >>> import tempfile
    >>> from coord import Scenario, simulate
    >>> site = Scenario.loads('version = 1\\nname = "two"\\n[agents]\\nrandom = 2\\n[zones]\\nrandom = 3\\n')
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = simulate(site, 3, ledger=folder + "/run")
    ...     report = audit(folder + "/run", resimulate=True, expect=(run.size, run.root))
    >>> report.ok, report.planned, report.first_divergence
    (True, 3, None)
    """
    from coord import stl

    wanted = None if expect is None else parse_checkpoint(expect)
    report = Report()
    place = run if isinstance(run, str | Path) else run.path
    auditor = _Auditor(Report(), replan, resimulate, set())
    first = None if progress is None else lambda done, size: progress(done + auditor.shown, 2 * size)
    told: set[int | None] = set()
    for problem in stl.ledger_problems(place, report, wanted, first, keys, auditor, now_ns):
        report.add_problem(problem)
        told.add(problem.rank)
    if not isinstance(run, str | Path):
        _conclude(run, report, auditor, replan, resimulate, progress, told)
        return report
    if report.ok and auditor.shown == report.size:
        auditor.conclude(report)
        return report
    ledger = stl.try_open(place, report)
    if ledger is not None:
        with ledger:
            _conclude(ledger, report, auditor, replan, resimulate, progress, told)
    return report


def _conclude(
    ledger: Ledger | PublishedLedger,
    report: Report,
    auditor: _Auditor,
    replan: bool,
    resimulate: bool,
    progress: Progress | None,
    told: set[int | None],
) -> None:
    """What the auditor found where it was shown all events; otherwise the events are gone through again."""
    from coord import stl

    # A live writer may have appended since the ledger itself was checked: its new events are for the next audit.
    size = min(ledger.head().size, report.size)
    if auditor.shown == size:
        auditor.conclude(report)
        return
    shown = auditor.shown
    auditor = _Auditor(Report(), replan, resimulate, told)
    for rank, event in stl.read_events(ledger, size):
        if isinstance(event, str):
            auditor.skip(event, rank)
        elif event is None:
            auditor.retired(rank)
        else:
            auditor.event(rank, event)
        if progress is not None:
            progress(size + max(shown, rank + 1), 2 * size)
    auditor.conclude(report)


class _Auditor:
    """Takes the events in order and keeps what the next one needs; a visitor of the ledger's own check, too."""

    prefix = PREFIX

    def __init__(self, report: Report, replan: bool, resimulate: bool, told: set[int | None]) -> None:
        self.shown = 0  # events so far
        self._report = report  # of what the events say; the ledger's own damage comes before it
        self._told = told  # ranks that the ledger's own check found damaged
        self._replan = replan
        self._any_ledger = not replan and not resimulate  # with no event of ours it is whole as it is
        self._resimulate = resimulate
        self._scenario: Event | None = None
        self._map: Mapping[str, Any] | None = None
        self._producer: str | None = None
        self._sequence = 0
        self._pending: list[tuple[int, Event]] = []
        self._inputs: Inputs | None = None
        self._frame_id = 0
        self._prev_digest = bytes(16)
        self._tick_before: int | None = None
        self._twin: _Twin | None = None
        self._gap = False  # events are missing, and no key has come since
        self._lost = False  # events were missing at some time: the first inputs may be among them
        self._resume = False  # events are missing, and no frame has come since
        self._hole: tuple[int, int] | None = None  # first and last retired rank since the frame before
        self._slack = 0  # retired events since the last one of the run's producer: they may be its
        self._unreplayable: tuple[int, int, int] | None = None  # first rank, last rank, frames among them
        self._setup: Setup | None = None
        self._geometry: tuple[bytes, Grid | None, bytes, Rings | None] = (b"", None, b"", None)

    def event(self, rank: int, event: Event) -> None:
        """One event."""
        if event.kind not in (SCENARIO, INPUTS, FRAME):
            self.others(rank, 1, event.producer, event.kind, event.sequence)
            return
        self._any_ledger = False
        self.shown += 1
        if rank == 0:
            self._producer, self._sequence = event.producer, event.sequence
            if event.kind == SCENARIO:
                self._begin(event)
                return
        self._in_sequence(rank, event.producer, event.sequence)
        self._envelope(rank, event)
        if event.kind == SCENARIO:
            self._problem(rank, "kind", "the scenario at rank 0 only", event.kind)
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
            self._producer, self._sequence = producer, sequence
        if producer == self._producer:
            self._in_sequence(rank, producer, sequence)
            self._sequence = sequence + count
        if not kind.startswith(PREFIX) or kind == CHANGE:
            self._report.add_other(kind, count)
            return
        self._any_ledger = False
        for at in range(rank, rank + count):
            self._problem(at, "kind", "a known kind", kind)

    def _envelope(self, rank: int, event: Event) -> None:
        """What every event of ours has in common; the tick of inputs is their frame's, the parents differ by kind."""
        self._same(rank, "schema", SCHEMA, event.schema)
        self._same(rank, "wall_ns", None, event.wall_ns)

    def _no_parents(self, rank: int, event: Event) -> None:
        self._same(rank, "parents", "none", f"{len(event.parents)}" if event.parents else "none")

    def _in_sequence(self, rank: int, producer: str, sequence: int) -> None:
        """The run's producer numbers all its events, of whatever kind: a number left out is an event left out."""
        if self._producer is not None:
            self._same(rank, "producer", self._producer, producer)
        elif self._hole is not None and self._hole[0] == 0:
            self._producer = producer
        slack, self._slack = self._slack, 0
        if not self._sequence <= sequence <= self._sequence + slack:
            self._same(rank, "sequence", self._sequence, sequence)
            self._forget()
        self._sequence = sequence + 1

    def skip(self, text: str, rank: int) -> None:
        """An event that can't be read: nothing is known until the next key."""
        if rank not in self._told:
            self._report.add_problem(Problem(rank, "event", "a readable event", "damage", text))
        self._forget()
        self._sequence += 1

    def retired(self, rank: int) -> None:
        """An event whose payload was removed. What it was shows in what follows."""
        self.shown += 1
        self._hole = (rank if self._hole is None else self._hole[0], rank)
        self._slack += 1

    def _forget(self) -> None:
        """Events are missing: what a delta would change is not known until the next key."""
        self._inputs, self._pending, self._twin = None, [], None
        self._resimulate, self._gap, self._lost, self._resume = False, True, True, True

    def conclude(self, report: Report) -> None:
        """After the last event: what was found goes into the report of the ledger."""
        if self._any_ledger:
            report.take_over(Report(other_events=self._report.other_events))
            return
        if self._scenario is None and not (report.retired and report.retired[0][0] == 0):
            self._problem(None, "scenario", "a coord.scenario event at rank 0", "none")
        if self._hole is not None:
            self._not_replayable(*self._hole, 0)
        self._tell_not_replayable()
        for rank, _ in self._pending if self._hole is None else ():
            self._problem(rank, "inputs", "a frame after them", "the end of the ledger")
        report.take_over(self._report)

    def _begin(self, event: Event) -> None:
        from coord import stl

        self._scenario = event
        self._sequence = event.sequence + 1
        self._envelope(0, event)
        self._same(0, "tick", 0, event.tick)
        self._no_parents(0, event)
        try:
            self._map = stl.scenario_map(event)
        except CoordError as error:
            self._report.add_problem(Problem(0, "scenario", "a scenario", "another", str(error)))
            return
        self._report.name = str(self._map.get("name", ""))
        self._same(0, "producer", f"sim/{self._report.name}", event.producer)
        self._same(0, "sequence", 0, event.sequence)

    def _frame(self, rank: int, event: Event) -> None:
        report = self._report
        pending, self._pending = self._pending, []
        report.frames += 1
        whole = self._hole is None
        if self._hole is not None:
            pending, whole = self._cross(self._hole, event, pending)
            self._hole = None
        parents = tuple(sorted(part.id for _, part in pending))
        if self._resume:
            self._resume_from(event)
        elif event.parents != parents and whole:
            self._problem(rank, "parents", f"{len(parents)} inputs before it", f"{len(event.parents)} other parents")
        if not self._rebuild(rank, event, pending):
            if not self._made_again(rank, event):
                self._check_chain(rank, event)
                if self._unreplayable is not None:
                    self._not_replayable(rank, rank, 1)
            self._chain_on(event)
            return
        self._tell_not_replayable()
        diverged = self._setup is None and not self._lost and self._start(rank, event)
        frame_bytes, rows = event.effect[:DECISION_FRAME_BYTES], self._rows(rank, event)
        if len(frame_bytes) < DECISION_FRAME_BYTES or rows is None:
            self._problem(rank, "frame", "128 bytes and whole rows of 32", f"{len(event.effect)} bytes")
            self._chain_on(event)
            return
        got = np.frombuffer(frame_bytes, FRAME_DTYPE)[0]
        self._in_step(rank, event)
        entry = None if self._twin is None else self._twin.entry(event.tick)
        if entry is not None and self._twin is not None:
            diverged = self._compare_inputs(rank, event, pending, entry) or diverged
            report.resimulated += 1
        if entry is not None and not diverged and self._twin is not None and self._twin.plan is not None:
            diverged = self._compare(rank, event, got, rows, self._twin.plan) or diverged
            report.planned += self._replan
        elif self._replan:
            diverged = self._plan_again(rank, event, got, rows) or diverged
        else:
            self._check_only(rank, event, got)
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
        missing = int(frame["frame_id"]) - self._frame_id  # frames that are retired themselves
        if whole and missing == 0 and not others:
            if hole[0] == 0:  # the scenario: the decisions stand on their inputs, the world can't be made again
                self._report.add_not_replayable(0, 0, 0)
            return mine, True  # of other parts of a run: no decision depended on them
        self._not_replayable(*hole, 0)
        self._resume = 0 < missing <= hole[1] - hole[0] + 1
        if not (whole and self._apply_others(others, missing)):
            self._inputs, self._gap = None, True
            self._lost = self._lost or self._setup is None
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
        self._lost = self._lost or self._setup is None
        return True

    def _not_replayable(self, first: int, last: int, frames: int) -> None:
        start, _, count = self._unreplayable or (first, last, 0)
        self._unreplayable = (start, last, count + frames)

    def _tell_not_replayable(self) -> None:
        if self._unreplayable is not None:
            self._report.add_not_replayable(*self._unreplayable)
            self._unreplayable = None

    def _made_again(self, rank: int, event: Event) -> bool:
        """A frame whose inputs are retired, made again from scenario and seed: it names its inputs by their ids."""
        from coord import stl

        self._in_step(rank, event)
        entry = None if self._twin is None else self._twin.entry(event.tick)
        rows = self._rows(rank, event)
        if entry is None or self._twin is None or self._twin.plan is None or rows is None or self._producer is None:
            return False
        self._report.resimulated += 1
        self._report.planned += self._replan
        first = event.sequence - len(entry.parts)
        again = stl.entry_events(entry, self._producer, first)[-1] if first >= 0 else None
        if again is not None and again.encode() == event.encode():
            self._inputs, self._gap = self._twin.world.inputs.copy(), False
            self._tell_not_replayable()
        else:
            got = np.frombuffer(event.effect[:DECISION_FRAME_BYTES], FRAME_DTYPE)[0]
            if not self._compare(rank, event, got, rows, self._twin.plan):
                shown = ("the ids of inputs made again", "others")
                self._report.add_divergences(
                    iter([Divergence(rank, self._frame_id, event.tick, None, "parents", *shown)])
                )
            self._report.frames_diverged += 1
        self._twin.advance()
        return True

    def _resume_from(self, event: Event) -> None:
        """The first frame after a gap that has been told: what it should follow is lost, it is taken at its word."""
        self._resume = False
        if self._setup is not None:
            self._tick_before = event.tick - self._setup.every_ticks
        stored = event.effect[:DECISION_FRAME_BYTES]
        if len(stored) == DECISION_FRAME_BYTES:
            frame = np.frombuffer(stored, FRAME_DTYPE)[0]
            self._frame_id, self._prev_digest = int(frame["frame_id"]), frame["prev_digest"].tobytes()

    def _rebuild(self, rank: int, event: Event, pending: list[tuple[int, Event]]) -> bool:
        try:
            for part_rank, part in pending:
                self._same(part_rank, "tick", event.tick, part.tick)
            self._inputs = apply(self._inputs, [part.effect for _, part in pending], tick=event.tick)
        except InputsError as error:
            first = pending[0][0] if pending else rank
            if self._gap:
                self._inputs = None
                return False
            self._inputs, self._twin, self._lost = None, None, True
            self._gap = True
            text = f"rank {first}: {error}"
            self._report.add_problem(Problem(first, error.field, str(error.expected), str(error.got), text))
            return False
        self._gap = False
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
        twin = _Twin(self._setup)
        if not self._resimulate:
            return self._report.add_divergences(self._input_divergences(rank, event, twin.world.inputs))
        from coord import stl

        assert self._scenario is not None
        if stl.scenario_event(self._setup).encode() != self._scenario.encode():
            self._problem(0, "scenario", "the bytes made from its own content", "others")
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
        expected = 0 if self._tick_before is None else self._tick_before + self._setup.every_ticks
        if event.tick != expected:
            self._problem(rank, "tick", str(expected), str(event.tick))
            self._twin = None

    def _input_divergences(self, rank: int, event: Event, expected: Inputs) -> Iterator[Divergence]:
        assert self._inputs is not None
        for array, identity, name, old, new in differences(expected, self._inputs):
            agent = identity if array == "agents" else None
            label = (
                f"inputs.{array}.{name}"
                if identity is None or agent is not None
                else f"inputs.{array}[{identity}].{name}"
            )
            yield Divergence(rank, self._frame_id, event.tick, agent, label, old, new)

    def _compare_inputs(self, rank: int, event: Event, pending: list[tuple[int, Event]], entry: Entry) -> bool:
        assert self._inputs is not None
        assert self._twin is not None
        first = pending[0][0] if pending else rank
        if [part.effect for _, part in pending] == entry.parts:
            return False
        if self._report.add_divergences(self._input_divergences(first, event, self._twin.world.inputs)):
            return True
        shown = (f"{len(entry.parts)} parts made again", f"{len(pending)} parts with the same records but other bytes")
        return self._report.add_divergences(
            iter([Divergence(first, self._frame_id, event.tick, None, "inputs.bytes", *shown)])
        )

    def _plan_again(self, rank: int, event: Event, got: np.void, rows: Records) -> bool:
        now = self._inputs
        assert now is not None
        try:
            grid, rings = self._decoded(now)
            config = PlanConfig.decode(now.config)
            again = plan(
                now.agents, now.zones, now.obstacles, now.kernels, config, now_tick=event.tick, rings=rings, grid=grid
            )
        except BadInput as error:
            agent = None
            if error.table == "agents" and error.row is not None:
                agent = int(now.agents["id"][error.row])
            where = f"inputs.{error.table}.{error.field}"
            found = Divergence(
                rank, self._frame_id, event.tick, agent, where, "an input that can be planned", str(error)
            )
            return self._report.add_divergences(iter([found]))
        except CoordError as error:
            self._report.add_problem(
                Problem(rank, "config.planner", "a planner of this version", "another", str(error))
            )
            self._check_only(rank, event, got)
            return False
        self._report.planned += 1
        return self._compare(rank, event, got, rows, again)

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

    def _compare(self, rank: int, event: Event, got: np.void, rows: Records, again: Plan) -> bool:
        frame = again.frame(self._frame_id, self._prev_digest)
        expected_bytes = frame.encode()
        if event.effect == expected_bytes + again.rows.tobytes():
            return False
        expected = np.frombuffer(expected_bytes, FRAME_DTYPE)[0]
        place = (rank, self._frame_id, event.tick)

        def all_of() -> Iterator[Divergence]:
            yield from compare_rows(place, again.rows, rows)
            yield from compare_frames(place, expected, got)

        return self._report.add_divergences(all_of())

    def _check_chain(self, rank: int, event: Event) -> None:
        """A frame whose inputs are not known: its own rules and its place in the chain."""
        self._report.unplanned += 1
        try:
            decode_frame_event(event.effect)
        except FrameError as error:
            self._report.add_problem(Problem(rank, "frame", "a well-formed frame", "another", str(error)))
            return
        got = np.frombuffer(event.effect[:DECISION_FRAME_BYTES], FRAME_DTYPE)[0]
        self._same(rank, "frame_id", self._frame_id, int(got["frame_id"]))
        self._same(rank, "prev_digest", self._prev_digest.hex(), got["prev_digest"].tobytes().hex())
        self._same(rank, "tick", event.tick, int(got["tick"]))

    def _check_only(self, rank: int, event: Event, got: np.void) -> None:
        """Structure without planning: rules, chain, and the digests of what the frame names."""
        now = self._inputs
        assert now is not None
        self._check_chain(rank, event)
        expected = int.from_bytes(blake3(now.config).digest(8), "little")
        self._same(rank, "config_hash", expected, int(got["config_hash"]))
        self._same(rank, "planner", int(np.frombuffer(now.config, CONFIG_DTYPE)["planner"][0]), int(got["planner"]))
        self._same(rank, "input_digest", _digest_of(now).hex(), got["input_digest"].tobytes().hex())

    def _chain_on(self, event: Event) -> None:
        """The next frame follows the stored one, so that one divergence is not told again at every later frame."""
        stored = event.effect[:DECISION_FRAME_BYTES]
        self._prev_digest = blake3(stored).digest(16)
        self._frame_id += 1
        if len(stored) == DECISION_FRAME_BYTES:
            self._frame_id = (int(np.frombuffer(stored, FRAME_DTYPE)[0]["frame_id"]) + 1) & U64_MAX
        self._tick_before = event.tick

    def _same(self, rank: int, where: str, expected: object, got: object) -> None:
        if expected != got:
            self._problem(rank, where, str(expected), str(got))

    def _problem(self, rank: int | None, where: str, expected: str, got: str) -> None:
        place = "ledger" if rank is None else f"rank {rank}"
        self._report.add_problem(
            Problem(rank, where, expected, got, f"{place}: {where}: expected {expected}, got {got}")
        )


class _Twin:
    """The run made again from its setup, one planned tick at a time."""

    def __init__(self, setup: Setup) -> None:
        self.world = World(setup)
        self.plan: Plan | None = None
        self._chronicle = Chronicle()
        self._entry: Entry | None = None

    def entry(self, tick: int) -> Entry | None:
        """The entry of a planned tick; None where the tick can't be reached or planned."""
        self.plan = self._entry = None
        while self.world.tick < tick:
            if self.world.is_planned():  # a tick whose events are retired
                try:
                    self._entry = self._chronicle.entry(self.world.tick, self.world.inputs, self.world.plan_tick())
                except BadInput:
                    return None
                self.world.assign(self._entry.rows)
            self.world.advance()
        if self.world.tick != tick or not self.world.is_planned():
            return None
        try:
            self.plan = self.world.plan_tick()
        except BadInput:
            return None
        self._entry = self._chronicle.entry(tick, self.world.inputs, self.plan)
        return self._entry

    def advance(self) -> None:
        """Give out the plan and end the tick."""
        if self._entry is not None:
            self.world.assign(self._entry.rows)
            self.world.advance()


def _digest_of(now: Inputs) -> bytes:
    from coord.digest import input_digest

    cut = now.ring_count * RING_DTYPE.itemsize
    rings = Rings(np.frombuffer(now.rings[:cut], RING_DTYPE), np.frombuffer(now.rings[cut:], "<f4").reshape(-1, 2))
    arrays = [now.array(name) for name, _ in ARRAYS]
    return input_digest(arrays[0], arrays[1], arrays[2], arrays[3], rings, now.grid)

"""Audit of a range of ticks: found by seeking, begun at the key of inputs before it, led to the root of the whole.

What it proves, and what only an audit of the whole ledger can show: docs/formats/coord-scenario.md, "Three audits".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coord.auditing.auditor import Auditor
from coord.auditing.crew import AuditCrew
from coord.auditing.part import place_after
from coord.auditing.report import RangeChecked, Report
from coord.auditing.tick_seek import first_at_or_after, kind_of, last_frame_before, last_key_before
from coord.frames.frame import DECISION_FRAME_BYTES
from coord.frames.kinds import FRAME

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from coord.stl import Ledger, PublishedLedger

NEXT_EVENTS_MAX = 1024  # behind the range; further away the next frame is not looked for


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Ranks: where reading starts, where the range starts, where it stops; the frame before is at `before`."""

    start: int
    first: int
    stop: int
    before: int | None


def audit_range(
    run: Ledger | PublishedLedger | str | Path,
    report: Report,
    first_tick: int,
    last_tick: int | None,
    *,
    replan: bool,
    expect: tuple[int, bytes] | None,
    jobs: int | Executor = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Check the decisions of the ticks [first_tick, last_tick], the last included; findings go into the report.

    Raises NotALedgerError (of storage) where there is no ledger, ObjectStoreError where a URL can't be reached.
    """
    from coord import stl

    if not isinstance(run, str | Path):
        _check(run, report, first_tick, last_tick, replan, expect, jobs, progress)
        return
    stl.require_ledger(run)
    ledger = stl.try_open(run, report)
    if ledger is not None:
        with ledger:
            _check(ledger, report, first_tick, last_tick, replan, expect, jobs, progress)


def _check(
    ledger: Ledger | PublishedLedger,
    report: Report,
    first_tick: int,
    last_tick: int | None,
    replan: bool,
    expect: tuple[int, bytes] | None,
    jobs: int | Executor,
    progress: Callable[[int, int], None] | None,
) -> None:
    from coord import stl

    head = ledger.head()
    report.size, report.root = head.size, head.root
    for problem in stl.head_problems(ledger, report, expect):
        report.add_problem(problem)
    auditor = Auditor(Report(), replan, False, set())
    for rank, event in stl.read_events(ledger, min(head.size, 1)):
        auditor.take(rank, event)
    bounds = _bounds(ledger, head.size, first_tick, last_tick)
    _say_what_is_there(ledger, report, bounds, first_tick, last_tick)
    if bounds.before is not None:
        _begin(ledger, auditor, bounds, report)
    auditor.lead_until = bounds.first
    with AuditCrew(jobs) as crew:
        crew.begin(ledger, str(ledger.path), bounds.first, bounds.stop, replan=replan)
        crew.join(auditor, ledger, bounds.start, bounds.stop, set(), progress)
        follows = _next_frame(ledger, auditor, bounds, report)
    tiles = 0
    for tile in stl.inclusion(ledger, [(0, min(head.size, 1)), (bounds.start, bounds.stop)]):
        tiles += 1
        if tile is not None:
            report.add_problem(tile)
    report.checked_range = RangeChecked(
        first_tick, last_tick, bounds.start, bounds.stop, auditor.lead_frames, tiles, follows
    )
    auditor.conclude(report)


def _bounds(ledger: Ledger | PublishedLedger, size: int, first_tick: int, last_tick: int | None) -> _Bounds:
    from coord import stl

    def scan(start: int, stop: int) -> Iterator[tuple[int, object]]:
        return stl.read_events(ledger, stop, start)

    first = first_at_or_after(scan, size, first_tick)
    stop = size if last_tick is None else first_at_or_after(scan, size, last_tick + 1)
    stop = max(first, stop)
    key = last_key_before(scan, min(first + 1, size)) if first < stop else first
    before = None if key is None or key == 0 else last_frame_before(scan, key)
    start = first if first == stop else min(1, size) if before is None else before + 1
    return _Bounds(start, first, stop, before if first < stop else None)


def _say_what_is_there(
    ledger: Ledger | PublishedLedger, report: Report, bounds: _Bounds, first_tick: int, last_tick: int | None
) -> None:
    """A range behind the end is a problem, as decisions that were asked for are not there; one that is cut short by it,
    or holds no planned tick, a warning."""
    from coord import stl

    if bounds.stop < report.size:
        if bounds.first == bounds.stop:
            report.warnings.append(f"no tick of {_shown(first_tick, last_tick)} was planned")
        return
    last = last_frame_before(lambda start, stop: stl.read_events(ledger, stop, start), report.size)
    event = None if last is None else next(stl.read_events(ledger, report.size, last))[1]
    tick = None if event is None or isinstance(event, str) else event.tick
    if bounds.first == bounds.stop:
        got = "no decision at all" if tick is None else f"a run whose last decision is of tick {tick}"
        report.tell(None, "ticks", f"a decision at tick {first_tick} or later", got)
    elif last_tick is not None and tick is not None and tick < last_tick:
        report.warnings.append(f"the last decision of the run is of tick {tick}, asked was to tick {last_tick}")


def _shown(first_tick: int, last_tick: int | None) -> str:
    return f"{first_tick} and later" if last_tick is None else f"{first_tick} to {last_tick}"


def _begin(ledger: Ledger | PublishedLedger, auditor: Auditor, bounds: _Bounds, report: Report) -> None:
    """Stand behind the frame before the first key. What lies before it is not read, but for the scenario."""
    from coord import stl

    assert bounds.before is not None
    frame = next(stl.read_events(ledger, report.size, bounds.before))[1]
    scenario = next(stl.read_events(ledger, report.size))[1]
    assert frame is not None
    assert not isinstance(frame, str)
    if scenario is None or isinstance(scenario, str):
        auditor.begin_behind(place_after(frame, frame.producer))
        return
    setup = stl.setup_of(ledger)
    if isinstance(setup, str):
        auditor.begin_behind(place_after(frame, scenario.producer))
        report.warnings.append(f"the first inputs can't be told ({setup}): the ticks of the range were not counted")
        return
    auditor.begin_at(place_after(frame, scenario.producer), scenario, setup)


def _next_frame(ledger: Ledger | PublishedLedger, auditor: Auditor, bounds: _Bounds, report: Report) -> bool:
    """Hold the frame behind the range against the last one in it; whether there is one that can be read."""
    from coord import stl

    last = auditor.at
    if last.tick_before is None or last.gap or last.hole is not None or bounds.first == bounds.stop:
        return False
    for rank, event in stl.read_events(ledger, min(report.size, bounds.stop + NEXT_EVENTS_MAX), bounds.stop):
        if kind_of(event) != FRAME:
            continue
        stored = event.effect[:DECISION_FRAME_BYTES]  # type: ignore[union-attr]  # it has a kind, so it is an event
        if len(stored) < DECISION_FRAME_BYTES:
            return False
        report.same(rank, "frame_id", last.frame_id, int.from_bytes(stored[8:16], "little"))
        report.same(rank, "prev_digest", last.prev_digest.hex(), stored[64:80].hex())
        return True
    return False

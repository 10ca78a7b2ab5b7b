"""audit: read a run's ledger, make every decision again, and name the first byte that differs.

Source: `docs/formats/coord-scenario.md`, section "Three audits". The ledger is streamed: memory is bounded by one tick.
What each audit proves, and what only a checkpoint kept elsewhere can show, is written there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from coord.auditing.auditor import Auditor
from coord.auditing.crew import AuditCrew, jobs_of
from coord.auditing.range_audit import audit_range
from coord.auditing.report import Report, parse_checkpoint
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from coord.stl import Ledger, PublishedLedger

Progress = Callable[[int, int], None]


@plain_mode()
def audit(
    run: Ledger | PublishedLedger | str | Path,
    *,
    replan: bool = True,
    resimulate: bool = False,
    first_tick: int | None = None,
    last_tick: int | None = None,
    jobs: int | Executor = 1,
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

    `first_tick`, `last_tick`: the decisions of these ticks only, the last one included. They are sought, not read up
    to; `Report.checked_range` says what was read, and what of the ledger was left unchecked. A range that begins behind
    the last decision is a problem: what was asked for is not there.
    `jobs`: so many processes, or an executor of `concurrent.futures`, share the decisions; the report is that of one.
    A module that is run as a script must guard its calls by `if __name__ == "__main__":`, as the processes import it.
    With `resimulate` the ticks of one world follow from each other: one process does that.

    Never raises for damage. It raises ValueError for a malformed `expect` or key, for a range with last_tick below
    first_tick, and for a range together with keys or `resimulate`, which are about the whole ledger; NotALedgerError
    (of storage) where there is no ledger, ObjectStoreError where a URL can't be reached.

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
    jobs = jobs_of(jobs)
    if first_tick is not None or last_tick is not None:
        _require_range(first_tick, last_tick, keys, resimulate)
        audit_range(run, report, first_tick or 0, last_tick, replan=replan, expect=wanted, jobs=jobs, progress=progress)
        return report
    place = run if isinstance(run, str | Path) else run.path
    if jobs != 1 and not resimulate:
        _audit_in_parts(run, report, wanted, keys, replan, jobs, progress, now_ns)
        return report
    auditor = Auditor(Report(), replan, resimulate, set())
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
    auditor: Auditor,
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
    auditor = Auditor(Report(), replan, resimulate, told)
    for rank, event in stl.read_events(ledger, size):
        auditor.take(rank, event)
        if progress is not None:
            progress(size + max(shown, rank + 1), 2 * size)
    auditor.conclude(report)


def _audit_in_parts(
    run: Ledger | PublishedLedger | str | Path,
    report: Report,
    wanted: tuple[int, bytes] | None,
    keys: Sequence[str],
    replan: bool,
    jobs: int | Executor,
    progress: Progress | None,
    now_ns: int | None,
) -> None:
    """The whole audit, the decisions by several processes while this one checks the ledger itself."""
    from coord import stl

    place = run if isinstance(run, str | Path) else run.path
    with ExitStack() as stack:
        crew = stack.enter_context(AuditCrew(jobs))
        # What can't be opened here is told by the check of the ledger, and then there are no parts.
        before = stl.try_open(place, Report())
        if before is not None:
            with before:
                crew.begin(before, str(place), 0, before.head().size, replan=replan)
        told: set[int | None] = set()
        first = None if progress is None else lambda done, size: progress(done, 2 * size)
        for problem in stl.ledger_problems(place, report, wanted, first, keys, None, now_ns):
            report.add_problem(problem)
            told.add(problem.rank)
        ledger = stl.try_open(place, report) if isinstance(run, str | Path) else run
        if ledger is None:
            return
        if ledger is not run:
            stack.enter_context(ledger)
        size = min(ledger.head().size, report.size)
        auditor = Auditor(Report(), replan, False, told)
        second = None if progress is None else lambda done, stop: progress(size + done, 2 * size)
        crew.join(auditor, ledger, 0, size, told, second)
        auditor.conclude(report)


def _require_range(first_tick: int | None, last_tick: int | None, keys: Sequence[str], resimulate: bool) -> None:
    for name, tick in (("first_tick", first_tick), ("last_tick", last_tick)):
        if tick is not None and (isinstance(tick, bool) or not isinstance(tick, int) or tick < 0):
            raise ValueError(f"audit: {name} must be a tick of at least 0, got {tick!r}")
    if last_tick is not None and last_tick < (first_tick or 0):
        raise ValueError(f"audit: last_tick must be at least first_tick, got {first_tick or 0} and {last_tick}")
    if keys:
        raise ValueError("audit: keys are about the checkpoints of the whole ledger, not about a range of ticks")
    if resimulate:
        raise ValueError("audit: a run is made again from its first tick, not from the first tick of a range")

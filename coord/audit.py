"""audit: read a run's ledger, make every decision again, and name the first byte that differs.

Source: `docs/formats/coord-scenario.md`, section "Three audits". The ledger is streamed: memory is bounded by one tick.
What each audit proves, and what only a checkpoint kept elsewhere can show, is written there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coord.auditor import Auditor
from coord.report import Report, parse_checkpoint
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from coord.stl import Ledger, PublishedLedger

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
        if isinstance(event, str):
            auditor.skip(event, rank)
        elif event is None:
            auditor.retired(rank)
        else:
            auditor.event(rank, event)
        if progress is not None:
            progress(size + max(shown, rank + 1), 2 * size)
    auditor.conclude(report)

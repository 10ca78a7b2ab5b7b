"""AuditCrew: processes that go through parts of a ledger, and the joining of what they found into one audit."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from coord.auditing.auditor import Auditor
from coord.auditing.part import AuditPart, PartFound, audit_part, begin_process, cuts

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from coord.stl import Ledger, PublishedLedger

Progress = Callable[[int, int], None]
PARTS_A_JOB = 4  # a part takes longer than another; more of them share the work more evenly
PARTS_OF_AN_EXECUTOR = 16
KINDS_FOLDED = "…"


class AuditCrew:
    """`jobs` processes, or an executor of the caller's; nobody for one job. A context manager.

    Processes are started afresh (spawned), as a forked copy of a process with threads may never run. Each holds one
    tick, on one thread.
    """

    def __init__(self, jobs: int | Executor) -> None:
        self._own: Executor | None = None
        self._executor = None if isinstance(jobs, int) else jobs
        self._jobs = jobs if isinstance(jobs, int) else 1
        self._parts: list[tuple[AuditPart, Future[PartFound | None]]] = []

    def __enter__(self) -> AuditCrew:
        if self._executor is None and self._jobs > 1:
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            self._own = ProcessPoolExecutor(self._jobs, get_context("spawn"), begin_process)
            self._executor = self._own
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, future in self._parts:
            future.cancel()
        if self._own is not None:
            self._own.shutdown(cancel_futures=True)

    def begin(self, ledger: Ledger | PublishedLedger, path: str, start: int, stop: int, *, replan: bool) -> None:
        """Give out the ranks [start, stop), from the first key behind `start` on; the caller keeps what lies before."""
        if self._executor is None:
            return
        head = ledger.head()
        count = PARTS_OF_AN_EXECUTOR if self._own is None else PARTS_A_JOB * self._jobs
        found = list(cuts(ledger, start, stop, count))
        ends = [*(rank for rank, _ in found), stop][1:]
        for (rank, place), end in zip(found, ends, strict=False):  # no cut, no part
            part = AuditPart(path, head.size, head.root, rank, end, place, replan)
            self._parts.append((part, self._executor.submit(audit_part, part)))

    def join(
        self,
        auditor: Auditor,
        ledger: Ledger | PublishedLedger,
        start: int,
        stop: int,
        told: set[int | None],
        progress: Progress | None = None,
    ) -> None:
        """Take the auditor from rank `start` to `stop`, by what the parts found where that is what it would find."""
        rank = start
        for part, future in self._parts:
            if part.stop > stop or not _feed(auditor, ledger, rank, part.start, progress):
                break
            rank = part.start
            found = None if _any_of(told, part) or not auditor.stands_at(part.begun) else _result(future)
            if found is None or found.open_inputs or KINDS_FOLDED in found.report.other_events:
                continue
            auditor.jump(found.report, found.ended, part.stop - part.start)
            rank = part.stop
            if progress is not None:
                progress(rank, stop)
        _feed(auditor, ledger, rank, stop, progress)


def _feed(auditor: Auditor, ledger: Ledger | PublishedLedger, start: int, stop: int, progress: Progress | None) -> bool:
    """Show ranks [start, stop) to the auditor; False where they are given up before the end."""
    from coord import stl

    at = start
    for rank, event in stl.read_events(ledger, stop, start):
        auditor.take(rank, event)
        at = rank + 1
        if progress is not None:
            progress(at, stop)
    return at >= stop


def _any_of(told: set[int | None], part: AuditPart) -> bool:
    return any(rank is not None and part.start <= rank < part.stop for rank in told)


def _result(future: Future[PartFound | None]) -> PartFound | None:
    """What a part found; None where its process died: then the part is gone through here."""
    from concurrent.futures import BrokenExecutor

    try:
        return future.result()
    except BrokenExecutor:
        return None


def jobs_of(jobs: int | Executor) -> int | Executor:
    """Raises ValueError unless it is a number of processes from 1 to 1024, or an executor."""
    if not isinstance(jobs, int | float | str | None):
        from concurrent.futures import Executor

        if isinstance(jobs, Executor):
            return jobs
    if isinstance(jobs, bool) or not isinstance(jobs, int) or not 1 <= jobs <= 1024:
        raise ValueError(f"audit: jobs must be a number of processes from 1 to 1024, or an executor, got {jobs!r}")
    return jobs


__all__ = ["AuditCrew", "jobs_of"]

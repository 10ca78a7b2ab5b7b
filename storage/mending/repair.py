"""Repairing a RUN directory: what can be known is put right, byte for byte; what is lost is named. See docs/repair.md.

The store is copied (tables are linked: they never change), or, where the engine can't read it, salvaged into a new one.
The new store is put in order and checked, then the two folders change places in one step; the old one stays beside RUN
as `RUN.damaged-N`. Killed at any point, RUN holds the old store or the new one, whole, and a second repair ends it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from storage import head as head_file
from storage import layout, opening
from storage.engine import engines
from storage.engine.files import Engine, engine_of
from storage.engine.patched_store import PatchedStore
from storage.engine.store import Store
from storage.engine.writer_lock import WriterLock
from storage.errors import IntegrityError, StorageError
from storage.ledger_check import LedgerReport, verify_ledger
from storage.mending.event_recovery import Source
from storage.mending.rebuilding import GAP_RANKS_MAX, Mended, mend
from storage.mending.retire import ranges
from storage.mending.run_folders import copy, swap, sync_tree
from storage.replaced_file import sync
from storage.system_errors import mapped_os_error
from storage.tree import EMPTY_ROOT, Head

UNFINISHED = "UNFINISHED"
FOLDERS_MAX = 10_000
FROM_FILES = "older entries in the files of the database"

Range = tuple[int, int]


@dataclass(slots=True)
class RepairReport:
    """What a repair found and did. Ranges are first and last rank.

    ranks_lost: of these nothing can be read; the leaf hash of some is still in the tree.  ranks_restored: by where the
    bytes came from.  ranks_without_payload: the event is lost, its leaf was found again: as if retired.
    rebuilt: entries put right, by family or record ("ids", "tree", "cursors", "head", "HEAD").
    evidence: where the store as it was lies now.  problems: what is still wrong.
    """

    path: str
    head_seen: Head | None = None
    size_before: int = 0
    root_before: bytes = EMPTY_ROOT
    size: int = 0
    root: bytes = EMPTY_ROOT
    ranks_lost: list[Range] = field(default_factory=list)
    ranks_restored: dict[str, list[Range]] = field(default_factory=dict)
    ranks_without_payload: list[Range] = field(default_factory=list)
    rebuilt: dict[str, int] = field(default_factory=dict)
    bytes_dropped: int = 0
    salvaged: bool = False
    evidence: Path | None = None
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the ledger is whole again: nothing lost, no payload lost, nothing still wrong."""
        return not self.ranks_lost and not self.ranks_without_payload and not self.problems

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return self.evidence is not None or bool(self.rebuilt)

    def add_lost(self, first: int, last: int) -> None:
        """Ranks at the end of the ledger of which nothing can be read."""
        if self.ranks_lost and self.ranks_lost[-1][1] >= first - 1:
            first, last = self.ranks_lost[-1][0], max(last, self.ranks_lost.pop()[1])
        self.ranks_lost.append((first, last))

    def take(self, done: Mended) -> None:
        """What mending the store did."""
        self.ranks_lost = ranges(done.lost)
        if done.lost_tail is not None:
            self.add_lost(*done.lost_tail)
        self.ranks_restored = {name: ranges(ranks) for name, ranks in done.restored.items()}
        self.ranks_without_payload = ranges(done.without_payload)
        self.rebuilt = dict(done.rebuilt)
        self.bytes_dropped += done.bytes_dropped
        self.problems += done.problems


Named = AbstractContextManager[tuple[str, Source]]  # name and reader of another copy, opened where it is needed


def repair_run(
    run: Path,
    sources: Sequence[Named] = (),
    *,
    accept_loss: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> RepairReport:
    """Repair a RUN directory; see `repair_ledger`."""
    step = on_step if on_step is not None else _no_step
    _end_interrupted(run)
    with _looked_at(run, sources) as (report, found, named):
        if not found.ok:
            _repair(run, report, found, named, accept_loss, step)
        for name, source in named:
            size = _size(source)
            if size > report.size and not report.ranks_lost:
                report.notes.append(
                    f"{name} holds {size} events, {size - report.size} more than are named here: they were not taken"
                )
    return report


def salvage_run(run: Path, new: Path, sources: Sequence[Named] = ()) -> RepairReport:
    """Write what can be read into a new RUN directory; see `salvage_ledger`."""
    opening.require_run(run)
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise ValueError(f"salvage_ledger: into must be a folder that does not exist yet or is empty, got {new}")
    with _looked_at(run, sources) as (report, found, named):
        try:
            new.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise mapped_os_error(error, new) from error
        noted = _checkpoint_head(run)
        seen = max((found.head_seen, noted), key=lambda head: -1 if head is None else head.size)
        done = _new_store(run, new, report, seen, named, True, _no_step)
        report.size, report.root = done.head.size, done.head.root
        if not done.problems:
            _check(run, new, report, done, done.head)
    return report


@contextmanager
def _looked_at(
    run: Path, sources: Sequence[Named]
) -> Iterator[tuple[RepairReport, LedgerReport, list[tuple[str, Source]]]]:
    """What there is of a run, while nobody else writes to it and its sources are open."""
    opening.require_run(run)
    report = RepairReport(str(run))
    with ExitStack() as stack:
        if opening.has_store(run):
            lock = WriterLock(layout.store_path(run))
            stack.callback(lock.release)
        named = [stack.enter_context(source) for source in sources]
        found = verify_ledger(run)
        report.head_seen, report.size_before, report.root_before = found.head_seen, found.size, found.root
        report.size, report.root = found.size, found.root
        yield report, found, named


def repair_open(store: Store, path: str, head: Head, patched: PatchedStore | None) -> RepairReport:
    """Rebuild in an open store what is derived from its log. Raises IntegrityError where events are damaged."""
    report = RepairReport(path, head, head.size, head.root)
    tiles = patched.settle() if patched is not None else 0
    try:
        done = mend(store, path, seen=head, events=False)
    except IntegrityError as error:
        error.hint = f"close the ledger; {opening.repair_hint(Path(path))}"
        raise
    store.sync()
    report.take(done)
    if tiles:
        report.rebuilt["tree"] = report.rebuilt.get("tree", 0) + tiles
    report.size, report.root = done.head.size, done.head.root
    return report


def _no_step(_: str) -> None:
    pass


def _size(source: Source) -> int:
    """Events of a source; 0 where it does not say."""
    head = getattr(source, "head", None)
    return 0 if head is None else int(head().size)


def _repair(
    run: Path,
    report: RepairReport,
    found: LedgerReport,
    sources: list[tuple[str, Source]],
    accept_loss: bool,
    step: Callable[[str], None],
) -> None:
    beside = _new_folder(run, "repair")
    try:
        (beside / UNFINISHED).touch()
        sync(beside)
        step("copy")
        noted = _checkpoint_head(run)
        seen = max((found.head_seen, noted), key=lambda head: -1 if head is None else head.size)
        done = _new_store(run, beside, report, seen, sources, accept_loss, step)
        if not done.problems and 0 < found.size - done.head.size <= GAP_RANKS_MAX and done.lost_tail is None:
            report.add_lost(done.head.size, found.size - 1)  # the store's own head named them
        head = _head_after(report, done, found.head_seen, seen, accept_loss)
        refuted = noted is not None and accept_loss and noted.size > done.head.size
        changed = bool(done.writes or report.salvaged or head != found.head_seen or refuted)
        if refuted and noted is not None:
            report.notes.append(f"a checkpoint names {noted.size} events: it is kept with the run as it was")
        if done.problems or not changed:
            report.problems += [problem.text for problem in found.problems if problem.rank is None and not done.writes]
            shutil.rmtree(beside)
            return
        if refuted:
            from storage.notes import checkpoint_store

            with _opened_store(layout.store_path(beside)) as store:
                checkpoint_store.set_aside(store, run)
        step("check")
        _check(run, beside, report, done, head)
        step("exchange")
        _exchange(run, beside, report, head, step, drop_checkpoint=refuted)
    except BaseException:
        if (beside / UNFINISHED).exists():
            shutil.rmtree(beside, ignore_errors=True)
        raise


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One way to a store in order: of a copy, or of what could be salvaged from the files of the database."""

    folder: Path
    done: Mended
    notes: list[str]
    bytes_dropped: int
    salvaged: bool

    def rank(self) -> tuple[bool, int, int, int]:
        """What makes one better than another: no contradiction, more events, fewer of them lost."""
        done = self.done
        return not done.problems, done.head.size, -len(done.lost), -len(done.without_payload)

    def is_whole(self) -> bool:
        """Whether nothing is lost."""
        done = self.done
        return not (done.problems or done.lost or done.lost_tail or done.without_payload)


def _new_store(
    run: Path,
    beside: Path,
    report: RepairReport,
    seen: Head | None,
    sources: list[tuple[str, Source]],
    accept_loss: bool,
    step: Callable[[str], None],
) -> Mended:
    """A store in order in `beside`. The files are salvaged where the engine can't read them, and where it may have
    left out some of them: it opens what a shortened list of its tables or a cut log says, without a word."""
    old, new = layout.store_path(run), layout.store_path(beside)
    attempts: list[_Attempt] = []
    refused: list[str] = []
    try:
        if not old.is_dir() or (engine_of(old) != "lmdb" and not (old / "CURRENT").exists()):
            raise IntegrityError(f"{old}: CURRENT is missing", file="CURRENT")
        copy(old, new)
        with _opened_store(new) as store:
            step("mend")
            done = mend(store, str(run), seen=seen, sources=sources, accept_loss=accept_loss)
        attempts.append(_Attempt(new, done, [], 0, salvaged=False))
    except IntegrityError as error:
        refused.append(str(error).replace(str(new), str(old)))
    if seen is None or not attempts or not attempts[0].is_whole():
        step("salvage")
        attempts += _salvaged(old, beside / "salvaged", run, seen, sources, accept_loss)
    if not attempts:
        done = Mended(problems=refused)
        if seen is not None and seen.size:
            done.lost_tail = (0, seen.size - 1)
        report.take(done)
        return done
    best = max(attempts, key=_Attempt.rank)  # the first of equals
    if best.folder != new:
        shutil.rmtree(new, ignore_errors=True)
        best.folder.rename(new)
        report.notes += refused + best.notes
    if best.salvaged and len(attempts) > 1:  # what the engine no longer gives out was still in its files
        first = attempts[0].done
        found = {*first.lost, *first.without_payload} - {*best.done.lost, *best.done.without_payload}
        if found:
            best.done.restored[FROM_FILES] = sorted(found)
    report.salvaged, report.bytes_dropped = best.salvaged, best.bytes_dropped
    report.take(best.done)
    return best.done


def _salvaged(
    old: Path,
    new: Path,
    run: Path,
    seen: Head | None,
    sources: list[tuple[str, Source]],
    accept_loss: bool,
) -> list[_Attempt]:
    from storage.mending.salvage import Tally, salvage_store

    engine = engine_of(old)
    tally = Tally()
    new.mkdir()
    with _opened_store(new, engine) as store:
        salvage_store(old, store, tally)
        if not tally.files and not sources:
            return []
        done = mend(store, str(run), seen=seen, sources=sources, accept_loss=accept_loss)
    if done.head.size == 0 and not done.problems and not accept_loss:
        return []
    return [_Attempt(new, done, tally.notes, tally.bytes_dropped, salvaged=True)]


@contextmanager
def _opened_store(path: Path, engine: Engine | None = None) -> Iterator[Store]:
    store = engines.open_store(path, read_only=False, engine=engine)
    try:
        yield store
        store.flush()
    finally:
        store.close()


def _checkpoint_head(run: Path) -> Head | None:
    """The largest head that a checkpoint names, kept in the store or beside it."""
    from storage.notes import checkpoint, checkpoint_store

    with suppress(StorageError), ExitStack() as stack:
        store = engines.open_store(layout.store_path(run), read_only=True, paranoid=False)
        stack.callback(store.close)
        return checkpoint_store.newest(store, checkpoint_store.file_head(run))
    with suppress(StorageError):
        data = checkpoint_store.read_file(checkpoint_store.file_path(run))
        return None if data is None else checkpoint.decode(data)[0].head()
    return None


def _head_after(
    report: RepairReport, done: Mended, head_seen: Head | None, named: Head | None, accept_loss: bool
) -> Head | None:
    """What HEAD shall name: the new head, unless events are lost that HEAD, or a checkpoint, names (`named`) and that
    was not accepted."""
    seen = head_seen
    report.size, report.root = done.head.size, done.head.root
    if done.problems:
        report.size, report.root = report.size_before, report.root_before
        return seen
    if named is not None and named.size > done.head.size and not accept_loss:
        return seen
    if seen is None:
        report.rebuilt["HEAD"] = 1
        report.notes.append("HEAD was missing or damaged: what it named is not known")
    elif seen.size <= done.head.size:
        return seen
    else:
        report.rebuilt["HEAD"] = 1
    return done.head


def _check(run: Path, beside: Path, report: RepairReport, done: Mended, head: Head | None) -> None:
    """The new store must be in order but for what is reported as lost."""
    if head is not None:
        head_file.write(layout.head_path(beside), head)
    lost = {*done.lost} | ({done.head.size} if done.lost_tail else set())
    for problem in verify_ledger(beside).problems:
        if problem.rank not in lost:
            report.problems.append(problem.text.replace(str(beside), str(run)))


def _exchange(
    run: Path,
    beside: Path,
    report: RepairReport,
    head: Head | None,
    step: Callable[[str], None],
    *,
    drop_checkpoint: bool,
) -> None:
    new, old = layout.store_path(beside), layout.store_path(run)
    lock = WriterLock(new)
    try:
        sync_tree(new)
        if layout.head_path(run).exists():  # kept with the store that it belonged to
            with suppress(FileNotFoundError):
                layout.head_path(beside).unlink()
            shutil.copy2(layout.head_path(run), layout.head_path(beside))
        if (run / "checkpoint").exists():
            shutil.copy2(run / "checkpoint", beside / "checkpoint")
        (beside / UNFINISHED).unlink()
        sync(beside)
        step("rename")
        if old.exists():
            swap(new, old)
        else:
            new.rename(old)
        sync(run)
        step("head")
        if head is not None and head != report.head_seen:
            head_file.write(layout.head_path(run), head)
        if drop_checkpoint:
            (run / "checkpoint").unlink(missing_ok=True)
        step("evidence")
        report.evidence = _to_evidence(run, beside)
    finally:
        lock.release()


def _end_interrupted(run: Path) -> None:
    """End what an interrupted repair left: an unfinished copy goes, a store that was replaced becomes evidence, and one
    that was to replace it comes in where there is none."""
    for number in range(1, FOLDERS_MAX):
        beside = run.with_name(f"{run.name}.repair-{number}")
        if not beside.exists():
            return
        if (beside / UNFINISHED).exists():
            shutil.rmtree(beside)
        elif layout.store_path(beside).is_dir() and not layout.store_path(run).exists():
            layout.store_path(beside).rename(layout.store_path(run))
            _to_evidence(run, beside)
        else:
            _to_evidence(run, beside)


def _new_folder(run: Path, kind: str) -> Path:
    for number in range(1, FOLDERS_MAX):
        folder = run.with_name(f"{run.name}.{kind}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise mapped_os_error(error, folder) from error
        return folder
    raise StorageError(f"{run}: {FOLDERS_MAX} folders {run.name}.{kind}-N lie beside it: move some away")


def _to_evidence(run: Path, beside: Path) -> Path:
    folder = _new_folder(run, "damaged")
    beside.rename(folder)  # onto an empty folder: taken by nobody else in between
    sync(folder.parent)
    return folder

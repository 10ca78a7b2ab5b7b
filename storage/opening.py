"""Opening a RUN directory: what is looked at before anything is trusted, or altered."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from storage import head as head_file
from storage import layout, regular_file, replaced_file, state
from storage.engine import engines
from storage.engine.files import Engine, engine_of
from storage.engine.lost_store import LostStore
from storage.engine.patched_store import PatchedStore, tiles_from_log
from storage.engine.store import Store
from storage.errors import (
    ForkError,
    IntegrityError,
    LockedError,
    NotALedgerError,
    RollbackError,
    StorageError,
)
from storage.state import EMPTY, TreeState
from storage.system_errors import mapped_os_error
from storage.tree import EMPTY_ROOT, Head

HEALTHY = "HEALTHY"
DEGRADED = "DEGRADED"  # `ids`, or tiles, disagree with the log; reading by rank and appending work
RECOVERY_DEGRADED = "RECOVERY_DEGRADED"  # fewer events than HEAD names, or damaged files
ROOM_BYTES = 1 << 20  # what is free again before a ledger that met a full disk goes on
SEVERITY = (HEALTHY, DEGRADED, RECOVERY_DEGRADED)


@dataclass(slots=True)
class Opened:
    """What opening found out."""

    head: Head
    tree: TreeState
    head_seen: Head | None
    recovered: int = 0  # events in the store above the size in HEAD: appended after HEAD was last written
    dropped_bytes: int = 0  # of the write-ahead log: the torn end of a commit that a crash interrupted
    status: str = HEALTHY
    patched: PatchedStore | None = None  # to be used instead of the store: its tiles are wrong
    problems: list[StorageError] = field(default_factory=list)

    def note(self, status: str, error: StorageError) -> None:
        """Remember a problem and the worse of two states."""
        self.status = max(self.status, status, key=SEVERITY.index)
        self.problems.append(error)


def has_store(run: Path) -> bool:
    """Whether a RUN directory holds a store, whole or damaged, and not one whose making was interrupted."""
    return engine_of(layout.store_path(run)) is not None


def require_run(run: Path) -> None:
    """Raises NotALedgerError unless the path is a directory with a store, or with a HEAD that lost its store."""
    try:
        if not run.exists():
            raise NotALedgerError(f"{run}: expected to read it, got: no such file or directory")
        if not run.is_dir():
            raise NotALedgerError(f"{run}: expected a directory that holds a ledger, got a file")
        if not has_store(run) and not layout.head_path(run).exists():
            raise NotALedgerError(f"{run}: holds no ledger (expected {layout.store_path(run)} and HEAD)")
    except OSError as error:
        raise StorageError(f"{run}: can't be read: {error.strerror}: {error.filename}") from error


def open_run(
    run: Path,
    *,
    writable: bool,
    expect: Head | None,
    engine: Engine | None = None,
    durable: bool = True,
) -> tuple[Store, Opened]:
    """Open the store of a RUN directory; see `Ledger.open` for what is raised."""
    try:
        new = writable and _is_new(run)
    except OSError as error:
        raise mapped_os_error(error, run) from error
    if new:
        return _create(run, expect, engine, durable)
    require_run(run)
    if not has_store(run):
        seen = head_file.read(layout.head_path(run))
        size = 0 if seen is None else seen.size
        gone = RollbackError(f"{run}: HEAD names {size} events, the store is gone", size, 0)
        gone.hint = repair_hint(run)
        raise gone
    if engine is not None and (found := engine_of(layout.store_path(run))) != engine:
        raise StorageError(f"{run}: the engine of this ledger is {found}, asked for was {engine}")
    if not writable:
        return _open_to_read(run, expect)
    # A writable opening replays the log and so alters evidence: everything is checked read-only before.
    checked, looked = _open_to_read(run, expect, strict=True)
    checked.close()
    store, opened = _open_to_write(run, expect, engine, durable)
    opened.dropped_bytes = max(opened.dropped_bytes, looked.dropped_bytes)
    return store, opened


def _is_new(run: Path) -> bool:
    if not run.exists():
        return True
    if not run.is_dir() or has_store(run) or layout.head_path(run).exists():
        return False
    return {entry.name for entry in run.iterdir()} <= {"ledger", "HEAD.tmp"}


def _create(run: Path, expect: Head | None, engine: Engine | None, durable: bool) -> tuple[Store, Opened]:
    _refuse_other_than(expect, None, Head(0, EMPTY_ROOT), run)
    was_there = run.exists()
    try:
        try:
            layout.store_path(run).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise mapped_os_error(error, run) from error
        return _open_to_write(run, expect, engine, durable)
    except BaseException:
        _remove_unfinished(run, was_there)
        raise


def _remove_unfinished(run: Path, was_there: bool) -> None:
    """Leave nothing of a ledger whose making failed; one that another process makes, or has made, is not touched, nor
    one whose database could not be closed: it is known as unfinished when it is opened again.
    """
    from storage.engine.writer_lock import WriterLock

    store = layout.store_path(run)
    rocks = sys.modules.get("storage.engine.rocks")
    if rocks is not None and rocks.is_unclosed(store):
        return
    with suppress(OSError, LockedError):
        lock = WriterLock(store)
        try:
            if not layout.head_path(run).exists():
                for file in store.iterdir():
                    file.unlink()
                store.rmdir()
        finally:
            lock.release()
        if not was_there:
            run.rmdir()


def _open_to_write(run: Path, expect: Head | None, engine: Engine | None, durable: bool) -> tuple[Store, Opened]:
    seen, signed = _head_seen(run), _checkpoint_in_file(run)
    store = engines.open_store(layout.store_path(run), read_only=False, engine=engine, durable=durable)
    try:
        if state.read_head(store, str(run)) is None:
            empty = Head(0, EMPTY_ROOT)
            store.write(
                [("meta", layout.FORMAT_KEY, layout.FORMAT), ("meta", layout.HEAD_KEY, layout.pack_head(empty))],
                sync=True,
            )
            head_file.write(layout.head_path(run), empty)
            replaced_file.sync(run.parent)
            seen = empty
        opened = _examine(run, store, seen, signed, expect, strict=True)
        return opened.patched or store, opened
    except OSError as error:
        store.close()
        raise mapped_os_error(error, run) from error
    except BaseException:
        store.close()
        raise


def _open_to_read(run: Path, expect: Head | None, *, strict: bool = False) -> tuple[Store, Opened]:
    refused: StorageError | None = None
    seen, signed = _head_seen(run), _checkpoint_in_file(run)
    try:
        store = engines.open_store(layout.store_path(run), read_only=True)
    except IntegrityError as error:
        error.hint = repair_hint(run)
        if strict:
            raise
        refused = error
        try:
            store = engines.open_store(layout.store_path(run), read_only=True, paranoid=False)
        except IntegrityError:
            named = _largest(seen, signed)
            if named is None or expect is not None:
                raise error from None
            return _lost(run, named, error)
        except StorageError:
            raise error from None
    try:
        opened = _examine(run, store, seen, signed, expect, strict=strict)
    except BaseException:
        store.close()
        raise
    if refused is not None:
        opened.note(RECOVERY_DEGRADED, refused)
    return opened.patched or store, opened


def _largest(seen: Head | IntegrityError | None, signed: Head | None) -> Head | None:
    heads = [head for head in (seen, signed) if isinstance(head, Head) and head.size]
    return max(heads, key=lambda head: head.size, default=None)


def _lost(run: Path, named: Head, why: IntegrityError) -> tuple[Store, Opened]:
    """A ledger whose database can't be opened: its head is what HEAD or the checkpoint names, no event can be read."""
    opened = Opened(named, EMPTY, named)
    opened.note(RECOVERY_DEGRADED, why)
    opened.note(RECOVERY_DEGRADED, missing(run, named.size, why))
    return LostStore(why), opened


def missing(run: Path, size: int, why: IntegrityError) -> IntegrityError:
    """That of a database that can't be opened, all events are missing."""
    error = IntegrityError(f"{run}: {size} events are known of: ranks 0..{size - 1} are missing", range(size), why.file)
    error.hint = repair_hint(run)
    return error


def repair_hint(run: Path) -> str:
    """What to do about a ledger that can't be opened for writing."""
    return f"droveway repair {shlex.quote(str(run))} puts right what can be, and names what is lost"


def _checkpoint_in_file(run: Path) -> Head | None:
    """What the checkpoint file names; read, as HEAD is, before the store is opened."""
    if not (run / "checkpoint").exists():
        return None
    from storage.notes import checkpoint_store

    return checkpoint_store.file_head(run)


def _checkpoint_seen(store: Store, in_file: Head | None) -> Head | None:
    """The largest head that a kept checkpoint names."""
    if next(store.scan("meta", b"checkpoint/", b"checkpoint0"), None) is None:
        return in_file
    from storage.notes import checkpoint_store

    return checkpoint_store.newest(store, in_file)


def _head_seen(run: Path) -> Head | IntegrityError | None:
    """What HEAD holds. Read before the store is opened: a live writer moves the store first, HEAD after it."""
    try:
        return head_file.read(layout.head_path(run))
    except IntegrityError as error:
        return error


def _examine(
    run: Path,
    store: Store,
    seen: Head | IntegrityError | None,
    signed: Head | None,
    expect: Head | None,
    *,
    strict: bool,
) -> Opened:
    """Compare the store's head, log, tree, `ids`, HEAD and the last checkpoint.

    `strict` raises what is found, else it is noted.
    """
    head = state.read_head(store, str(run)) or Head(0, EMPTY_ROOT)
    opened = Opened(head, EMPTY, None, dropped_bytes=getattr(store, "dropped_bytes", 0))

    def found(status: str, error: StorageError) -> None:
        if strict and status != DEGRADED:
            error.hint = repair_hint(run)
            raise error
        opened.note(status, error)

    try:
        try:
            opened.tree = state.load_tree(store, head, str(run))
        except IntegrityError as error:
            opened.tree, tiles = tiles_from_log(store, head, str(run))
            store = opened.patched = PatchedStore(store, tiles)
            found(DEGRADED, error)
        state.check_log_end(store, head.size, str(run))
        # Below the size in HEAD a gap is found when it is read, or by verifying: looking for it takes as long.
        named = seen.size if isinstance(seen, Head) else 0
        state.check_no_gap(store, max(0, named - layout.TILE_HASHES), head.size, str(run))
    except IntegrityError as error:
        found(RECOVERY_DEGRADED, error)
    try:
        ids_agree = state.check_ids_end(store, head.size)
    except IntegrityError:
        ids_agree = False
    if not ids_agree:
        found(DEGRADED, IntegrityError(f"{run}: ids does not know the last event of the log", (), "ids"))
    if isinstance(seen, IntegrityError):
        found(RECOVERY_DEGRADED, seen)
        seen = None
    elif seen is None and head.size:
        found(RECOVERY_DEGRADED, IntegrityError(f"{run}: HEAD is missing", (), str(layout.head_path(run))))
    opened.head_seen = seen
    try:
        _refuse_other_than(seen, store, head, run)
        _refuse_other_than(_checkpoint_seen(store, signed), store, head, run, "of a checkpoint")
    except (IntegrityError, RollbackError, ForkError) as error:
        found(RECOVERY_DEGRADED, error)
    if seen is not None:
        opened.recovered = max(0, head.size - seen.size)
    _refuse_other_than(expect, store, head, run, "expected")
    return opened


def _refuse_other_than(seen: Head | None, store: Store | None, head: Head, run: Path, who: str = "in HEAD") -> None:
    """Raises RollbackError or ForkError unless the ledger contains the head `seen`."""
    if seen is None:
        return
    if seen.size > head.size:
        raise RollbackError(
            f"{run}: the ledger has {head.size} events, the head {who} has {seen.size}: "
            f"ranks {head.size}..{seen.size - 1} are missing",
            seen.size,
            head.size,
        )
    root = head.root if seen.size == head.size or store is None else state.root_at(store, seen.size)
    if root != seen.root:
        raise ForkError(f"{run}: the root of {seen.size} events is {root.hex()}, the head {who} has {seen.root.hex()}")


def require_room(run: Path) -> None:
    """Raises StorageFullError unless the disk has room for opening the store again: its logs as tables, and more."""
    store = layout.store_path(run.absolute())
    probe = store / "room.tmp"
    try:
        logs = sum(entry.stat().st_size for entry in os.scandir(store) if entry.name.endswith(".log"))
        descriptor = regular_file.create(probe, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, ROOM_BYTES + logs)
        finally:
            os.close(descriptor)
            probe.unlink()
    except OSError as error:
        raise mapped_os_error(error, layout.store_path(run)) from error

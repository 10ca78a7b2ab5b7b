"""The LMDB engine open for writing: the C library writes, our own reader reads. Only here a ledger imports lmdb.

LMDB reuses a page only when no reader in its own table can see it. Our readers are not in it: the writer keeps one of
its own there (the pin), and moves it forward only while nobody holds the shared lock on the data file. So the pages of
a state that a reader began with stay as they are until it closes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage import _kernels, regular_file
from storage.engine.files import engine_of
from storage.engine.lmdb_check import check_pages
from storage.engine.lmdb_map import FileMap
from storage.engine.lmdb_pages import View, read_meta
from storage.engine.lmdb_reader import DATA_FILE, LIMIT_NUMBERS, SUMMED, LmdbReader, is_read, opened
from storage.engine.lmdb_tree import checksum
from storage.engine.store import Entry
from storage.engine.writer_lock import WriterLock
from storage.errors import IntegrityError, LimitError, ReadOnlyError, StorageError, StorageFullError, SyncError
from storage.layout import FAMILIES
from storage.replaced_file import sync as sync_path

if TYPE_CHECKING:
    import lmdb

LOCK_FILE, NEW_FOLDER = "lock.mdb", "compacting"
MAP_BYTES = 1 << 36  # address space, not memory or disk; more for a large file, halved where the system gives less
MAP_BYTES_MIN = 1 << 20
COMPACT_BATCH_BYTES = 4 << 20
PUTS_PER_GIVING_BACK = 128  # each may bring 64 KiB of the map into memory
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LmdbStore(LmdbReader):
    """An LMDB store opened to write.

    durable: every commit is on the disk when it returns, data before the page that names it, so that a power cut at
    any moment leaves the last or the one before. Without, nothing is synced but by `sync`: a kill loses nothing, a
    power cut may leave a file that is damaged (found at the next opening).
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self._durable = durable
        self._pin: lmdb.Transaction[bytes] | None = None
        self._environment: lmdb.Environment | None = None
        try:
            self._lock = WriterLock(folder)
        except OSError as error:
            raise mapped(error, folder, "open") from error
        try:
            self._begin(folder)
        except OSError as error:
            self._lock.release()
            raise mapped(error, folder, "open") from error
        except BaseException:
            self._lock.release()
            raise

    def _begin(self, folder: Path) -> None:
        absolute = self._lock.nameable(folder)
        for name in (DATA_FILE, LOCK_FILE):
            _refuse_irregular(absolute / name)
        _remove_new(absolute)  # of a compaction that was interrupted
        data = absolute / DATA_FILE
        self._absolute = absolute
        self.path = folder
        if engine_of(absolute) == "lmdb":
            # Before the C library sees it. Nobody else writes: the lock is ours.
            file = opened(data)
            try:
                check_pages(View(file, read_meta(file)))
                read = is_read(file)
            finally:
                file.close()
            if read:
                self._leave_to_readers(data)
        elif data.exists():
            data.unlink()
        try:
            self._open_environment()
            super().__init__(folder)
            fcntl.flock(self._file.descriptor, fcntl.LOCK_UN)
        except BaseException:
            self._close_environment()
            raise
        self._file.path = folder / DATA_FILE

    def _leave_to_readers(self, data: Path) -> None:
        """Go on with a copy. Who reads by now began beside an earlier writer, whose pin is gone: pages that a state
        from then needs may count as free."""
        new = self._absolute / NEW_FOLDER
        new.mkdir()
        shutil.copyfile(data, new / DATA_FILE)
        sync_path(new / DATA_FILE)
        self._replace()

    def _replace(self) -> None:
        """Put the file in the new folder in the place of the old one, which its readers keep."""
        (self._absolute / NEW_FOLDER / DATA_FILE).replace(self._absolute / DATA_FILE)
        _remove_new(self._absolute)
        sync_path(self._absolute)

    def _open_environment(self) -> None:
        import lmdb

        new = not (self._absolute / DATA_FILE).exists()
        self._databases: dict[str, Any] = {}
        size = MAP_BYTES
        if not new:
            size = max(size, 4 * (self._absolute / DATA_FILE).stat().st_size)
        while self._environment is None:
            try:
                self._environment = lmdb.open(
                    str(self._absolute),
                    map_size=size,
                    metasync=self._durable,
                    sync=self._durable,
                    mode=0o644,
                    readahead=False,
                    max_readers=8,
                    max_dbs=len(FAMILIES),
                )
            except lmdb.MemoryError as error:
                size //= 2
                if size < MAP_BYTES_MIN:
                    raise mapped(error, self.path, "open") from error
            except (lmdb.Error, OSError) as error:
                raise mapped(error, self.path, "open") from error
        self._map_bytes = size
        try:
            with self._environment.begin(write=True) as transaction:
                for name in FAMILIES:
                    self._databases[name] = self._environment.open_db(name.encode(), txn=transaction)
            if new:
                sync_path(self._absolute)
            self._move_pin()
            self._map = FileMap(self._absolute / DATA_FILE)
        except (lmdb.Error, OSError) as error:
            raise mapped(error, self.path, "open") from error

    def _move_pin(self) -> None:
        assert self._environment is not None
        if self._pin is not None:
            self._pin.abort()
        self._pin = self._environment.begin()
        self._safe_from = self._pin.id()

    def write(self, entries: Sequence[Entry], *, sync: bool) -> None:
        import lmdb

        self._now()
        try:
            while not self._written(entries):
                self._grow()
            if sync and not self._durable:
                self._environment.sync(True)  # type: ignore[union-attr]
        except (lmdb.Error, OSError) as error:
            raise mapped(self._cause(error, entries), self.path, "write") from error
        finally:
            self._look()

    def _cause(self, error: Exception, entries: Sequence[Entry]) -> Exception:
        """What lies behind LMDB's EIO, its word for a write that came short: a file beside is written to find out."""
        if getattr(error, "code", 0) != errno.EIO:
            return error
        size = sum(len(value or b"") for _, _, value in entries) + (1 << 16)
        probe = self._absolute / "write.tmp"
        try:
            descriptor = regular_file.create(probe, 0o600)
            try:
                at = self._file.size()
                while size > 0:
                    written = os.pwrite(descriptor, bytes(min(size, 1 << 20)), at)
                    at, size = at + written, size - written
            finally:
                os.close(descriptor)
                probe.unlink()
        except OSError as refused:
            return refused
        return error

    def _written(self, entries: Sequence[Entry]) -> bool:
        """Whether the map was large enough; nothing is written where not."""
        import lmdb

        assert self._environment is not None
        if not is_read(self._file):
            # While the lock is ours nobody begins to read; who begins after it sees this state or a later one.
            try:
                self._move_pin()
            finally:
                fcntl.flock(self._file.descriptor, fcntl.LOCK_UN)
        try:
            with self._environment.begin(write=True) as transaction:
                if transaction.id() != self._view.meta.transaction + 1:
                    raise IntegrityError(f"{self.path}: another program has written to {DATA_FILE}")
                self._put(transaction, entries, self.last_key("log") or b"")
        except lmdb.MapFullError:
            return False
        self._map.give_back()
        return True

    def _put(self, transaction: lmdb.Transaction[bytes], entries: Sequence[Entry], last: bytes) -> None:
        """Family by family; ids in their order, as neighbours share pages."""
        families: dict[str, list[tuple[bytes, bytes | None]]] = {name: [] for name in FAMILIES}
        for family, key, value in entries:
            families[family].append((key, value))
        families["ids"].sort(key=itemgetter(0))
        for family, pairs in families.items():
            database, summed = self._databases[family], family in SUMMED
            for i, (key, value) in enumerate(pairs, 1):
                if value is None:
                    transaction.delete(key, db=database)
                elif summed:
                    transaction.put(key, value + checksum(key, value), db=database)
                elif key > last:
                    transaction.put(key, value, append=True, db=database)
                    last = key
                else:
                    transaction.put(key, value, db=database)
                if i % PUTS_PER_GIVING_BACK == 0:
                    self._map.give_back()

    def _grow(self) -> None:
        """Twice the map. The pin does not outlive that, so nobody may be reading."""
        assert self._environment is not None and self._pin is not None
        if is_read(self._file):
            raise LimitError(f"{self.path}: the map of {self._map_bytes} bytes is full and can't grow beside readers")
        try:
            self._pin.abort()
            self._pin = None
            self._map_bytes *= 2
            self._environment.set_mapsize(self._map_bytes)
            self._move_pin()
            self._map = FileMap(self._absolute / DATA_FILE)
        finally:
            fcntl.flock(self._file.descriptor, fcntl.LOCK_UN)

    def sync(self) -> None:
        import lmdb

        self._now()
        try:
            self._environment.sync(True)  # type: ignore[union-attr]
        except lmdb.Error as error:
            raise mapped(error, self.path, "sync") from error

    flush = sync

    def compact(self) -> None:
        """A new file with what there is, and the old one is gone: no page holds a remnant of an older one."""
        import lmdb

        self._now()
        try:
            self._copy_to(self._absolute / NEW_FOLDER)
            self._close_environment()
            self._replace()
            old, self._file = self._file, opened(self._absolute / DATA_FILE)
            self._file.path = self.path / DATA_FILE
            self._open_environment()
            self._look()
            old.close()  # who reads in it meanwhile reads again
        except (lmdb.Error, OSError) as error:
            raise mapped(error, self.path, "compact") from error

    def _copy_to(self, folder: Path) -> None:
        """Write all entries, in order, into a new synced file."""
        import lmdb

        _remove_new(self._absolute)
        folder.mkdir()
        with lmdb.open(
            str(folder), lock=False, map_size=self._map_bytes, sync=False, mode=0o644, max_dbs=len(FAMILIES)
        ) as new:
            for name in FAMILIES:
                database = new.open_db(name.encode())
                for batch in _batches(self._view_of(name)):
                    with new.begin(database, write=True) as transaction:
                        for key, stored in batch:
                            transaction.put(key, stored, append=True)
            new.sync(True)

    def _view_of(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a family as they are stored, checked."""
        for key, value in self.scan(family):
            yield key, value + checksum(key, value) if family in SUMMED else value

    def _close_environment(self) -> None:
        if self._pin is not None:
            self._pin.abort()
            self._pin = None
        if self._environment is not None:
            self._environment.close()
            self._environment = None

    def close(self) -> None:
        if self._closed:
            return
        super().close()
        try:
            self._close_environment()
        finally:
            self._lock.release()

    def abandon(self) -> None:
        super().abandon()
        self._lock.release()
        _kernels.leak(self._pin)
        _kernels.leak(self._environment)
        self._pin = self._environment = None


def _refuse_irregular(path: Path) -> None:
    """Raises IntegrityError for a link, a pipe, a folder or a device: the C library would follow it, or wait."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise IntegrityError(
            f"{path}: expected a regular file, got a link, a folder, a pipe or a device", file=str(path)
        )


def _batches(entries: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """Entries in lists of about COMPACT_BATCH_BYTES."""
    batch: list[tuple[bytes, bytes]] = []
    held = 0
    for entry in entries:
        batch.append(entry)
        held += len(entry[1])
        if held >= COMPACT_BATCH_BYTES:
            yield batch
            batch, held = [], 0
    yield batch


def _remove_new(folder: Path) -> None:
    new = folder / NEW_FOLDER
    if new.is_dir() and not new.is_symlink():
        (new / DATA_FILE).unlink(missing_ok=True)
        new.rmdir()


def mapped(error: Exception, path: Path, doing: str) -> StorageError:
    """The one place where LMDB's errors become ours."""
    if isinstance(error, StorageError):
        return error
    number = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    reason = os.strerror(number) if number is not None and number > 0 else str(error)
    if number in _FULL:
        return StorageFullError(f"{path}: no space left, found in {doing}: {reason}")
    if number in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ReadOnlyError(f"{path}: can't be written, found in {doing}: {reason}")
    if number in LIMIT_NUMBERS:
        return LimitError(f"{path}: {doing}: {reason}")
    if number == errno.EIO:
        return SyncError(f"{path}: not on the disk, found in {doing}: {reason}")
    return StorageError(f"{path}: {doing}: {error}")

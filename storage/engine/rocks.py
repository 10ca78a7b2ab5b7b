"""The RocksDB engine. The only module that imports rocksdict, and always in raw mode: the default one unpickles."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import rocksdict
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    BottommostLevelCompaction,
    Cache,
    CompactOptions,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from storage import _kernels, regular_file
from storage.engine import torn_log
from storage.engine.engine_logs import check_engine_logs
from storage.engine.log_sync import LogSync
from storage.engine.snapshot import Snapshot
from storage.engine.sst_file import SstFile
from storage.engine.store import Entry
from storage.engine.torn_log import TornTail, torn_manifest, torn_tail
from storage.engine.writer_lock import WriterLock
from storage.errors import (
    ClosedError,
    IntegrityError,
    LimitError,
    LockedError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    SyncError,
)
from storage.layout import CURSOR_PREFIX, FAMILIES, HEAD_KEY, log_key
from storage.system_errors import mapped_os_error

MIB = 1 << 20
WRITE_BUFFER_BYTES = {"log": 4 * MIB, "ids": 2 * MIB, "tree": 2 * MIB, "meta": MIB // 4, "default": MIB // 16}
WRITE_BUFFERS_BYTES_MAX = 6 * MIB  # all families together
WAL_BYTES_MAX = 8 * MIB  # above this the families that hold old log files are flushed; bounds what a reader replays
CACHE_BYTES = 4 * MIB
LOG_BLOCK_BYTES = 32 << 10  # large blocks keep the index small; the ledger is read in order
READAHEAD_BYTES = MIB // 4  # fits the processor's second-level cache; from 2 MiB on, each refill is fresh memory
OPEN_FILES_MAX = 64
FILE_BUFFER_BYTES = 64 << 10  # with the next one 3 MB less memory than the defaults, measured over 40 MB of events
COMPACTION_READAHEAD_BYTES = 128 << 10

_FILE = re.compile(r"([^\s:]*(?:\d{6}\.(?:sst|log|blob)|MANIFEST-\d{6}|CURRENT|OPTIONS-\d{6}|IDENTITY))")
_LOCKED = ("lock hold by current process", "Resource temporarily unavailable")
_KINDS: tuple[tuple[tuple[str, ...], type[StorageError], str], ...] = (
    (("No space left on device", "File too large", "Disk quota exceeded"), StorageFullError, "no space left"),
    (("Read-only file system", "Permission denied", "read only mode"), ReadOnlyError, "can't be written"),
)
_LIMITS = ("Too many open files", "Cannot allocate memory", "memory limit")
_LIMIT_NUMBERS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_DAMAGED = ("Corruption", "No such file", "Input/output error", "mismatch")


def _family_options(family: str, cache: Cache, *, read_only: bool, paranoid: bool) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(WRITE_BUFFER_BYTES[family])
    options.set_max_write_buffer_number(2)
    options.set_arena_block_size(64 << 10)
    options.set_paranoid_checks(paranoid)
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_block_size(LOG_BLOCK_BYTES if family == "log" else 4 << 10)
    if family == "ids":
        blocks.set_bloom_filter(10, False)
    options.set_block_based_table_factory(blocks)
    # for the whole database
    options.set_db_write_buffer_size(WRITE_BUFFERS_BYTES_MAX)
    options.set_max_total_wal_size(WAL_BYTES_MAX)
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    # A reader beside a live writer keeps its files open: the writer may delete them at any time.
    options.set_max_open_files(-1 if read_only else OPEN_FILES_MAX)
    options.set_max_file_opening_threads(1)
    options.set_writable_file_max_buffer_size(FILE_BUFFER_BYTES)
    options.set_compaction_readahead_size(COMPACTION_READAHEAD_BYTES)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(64 << 10)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_manifest_preallocation_size(64 << 10)
    options.set_is_fd_close_on_exec(True)
    return options


class RocksStore:
    """A RocksDB database with the ledger's four families."""

    def __init__(self, path: Path, folder: Path, database: Rdict, snapshot: Snapshot | None = None) -> None:
        self.path = path
        self._folder = folder  # what the engine calls it
        self._snapshot = snapshot
        self._database = database
        _remember_use()
        self._families = {name: database.get_column_family(name) for name in FAMILIES}
        self._handles = {name: database.get_column_family_handle(name) for name in FAMILIES}
        self._lock: WriterLock | None = None
        self._closed = False
        self._failed = False
        # Opened to read: families that no ledger has, and the engine's own where it holds a key. Nobody reads them.
        self.strangers: list[str] = []
        self._logs = LogSync(folder)
        self.dropped_bytes = 0  # of the last log, torn by a crash, when the database was opened

    @classmethod
    def open(cls, path: Path, *, read_only: bool, paranoid: bool = True) -> RocksStore:
        """Open the database; a read-only one changes no byte on the disk and may stand beside a live writer.

        `paranoid=False` also opens a database with damaged files, whose keys then raise when they are read.
        Raises IntegrityError, LockedError, ReadOnlyError, StorageFullError.
        """
        if not read_only:
            return cls._open_to_write(path)
        try:
            snapshot = Snapshot(path)
        except OSError as error:
            raise _unreadable(error, path) from error
        try:
            database, dropped = _database(path, snapshot.named, snapshot.shorten, read_only=True, paranoid=paranoid)
            store = cls(path, snapshot.named, database, snapshot)
            store.dropped_bytes = sum(torn.dropped_bytes for torn in dropped)
            if paranoid:
                store.strangers = store._find_strangers()
            if any(torn.file.startswith("MANIFEST") for torn in dropped):
                store._refuse_newer_tables()
        except BaseException:
            snapshot.release()
            raise
        if paranoid:
            snapshot.release()  # every table is open by now, every log was read
        return store

    @classmethod
    def _open_to_write(cls, path: Path) -> RocksStore:
        if _first_used_in and _first_used_in[0] != os.getpid():
            raise StorageError(
                f"{path}: RocksDB was used before this process was forked, and the threads that it writes with are not "
                'here: open it in a process that is started anew (multiprocessing: "spawn")'
            )
        try:
            lock = WriterLock(path)
        except OSError as error:
            raise mapped(error, path, "open") from error
        try:
            folder = lock.nameable(path)
            _refuse_irregular(path)
            _close_unclosed(folder)
            database, dropped = _database(
                path, folder, lambda torn: torn_log.cut(folder, torn), read_only=False, paranoid=True
            )
            store = cls(path, folder, database)
            store.dropped_bytes = sum(torn.dropped_bytes for torn in dropped)
        except BaseException:
            lock.release()
            raise
        store._lock = lock
        return store

    def _family(self, name: str) -> Rdict:
        if self._closed:
            raise ClosedError(f"{self.path}: the ledger is closed")
        return self._families[name]

    def get(self, family: str, key: bytes) -> bytes | None:
        try:
            return self._family(family).get(key)
        except Exception as error:
            raise self._mapped(error, f"{family}/{key.hex()}") from error

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            return self._family(family).get(list(keys))  # type: ignore[return-value]
        except Exception as error:
            raise self._mapped(error, family) from error

    def scan(self, family: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        options = ReadOptions()  # held here to the end: the binding's iterators point into it
        options.set_readahead_size(READAHEAD_BYTES)
        options.fill_cache(False)  # type: ignore[call-arg]  # what is read once needs no place in it
        if stop is not None:
            options.set_iterate_upper_bound(stop)
        pair = None
        try:
            pairs: Iterator[tuple[bytes, bytes]] = self._family(family).items(from_key=start, read_opt=options)  # type: ignore[assignment]
            for pair in pairs:
                yield pair
            # The quick iterator ends without a word at a damaged block. This one, set behind it, says so.
            iterator = self._family(family).iter(options)
            iterator.seek(start if pair is None else pair[0] + b"\0")
            while iterator.valid():
                yield iterator.key(), iterator.value()
                iterator.next()
            iterator.status()
        except Exception as error:
            raise self._mapped(error, family) from error

    def _refuse_newer_tables(self) -> None:
        """After the end of the manifest was dropped: raises IntegrityError where a table that it may have named holds
        events that are nowhere else. A crash before the manifest's sync leaves them in the log, too.
        """
        head = self.get("meta", HEAD_KEY)
        size = 0 if head is None else int.from_bytes(head[:8], "big")
        live = {Path(file["name"]).name for file in self._database.live_files()}
        for file in sorted(self._folder.glob("*.sst")):
            if file.name in live:
                continue
            table = SstFile(file)
            try:
                newer = [cell.key for cell in table.cells() if _is_rank(cell.key) and cell.key >= log_key(size)]
            finally:
                table.close()
            if newer:
                raise IntegrityError(
                    f"{self.path}: damaged, found in open: the manifest's last record is damaged, and {file.name} "
                    f"holds events from rank {int.from_bytes(min(newer), 'big')} on that no log holds",
                    file=file.name,
                )

    def _find_strangers(self) -> list[str]:
        try:
            found = [name for name in Rdict.list_cf(str(self._folder)) if name not in (*FAMILIES, "default")]
            iterator = self._database.iter()
            iterator.seek_to_first()
        except Exception as error:
            raise self._mapped(error, "open") from error
        return found + ["default"] * iterator.valid()

    def last_key(self, family: str) -> bytes | None:
        try:
            iterator = self._family(family).iter()
            iterator.seek_to_last()
            if iterator.valid():
                return iterator.key()  # type: ignore[no-any-return]
            iterator.status()
        except Exception as error:
            raise self._mapped(error, family) from error
        return None

    def write(self, entries: Sequence[Entry], *, sync: bool) -> None:
        if self._closed:
            raise ClosedError(f"{self.path}: the ledger is closed")
        batch = WriteBatch(raw_mode=True)
        put, handles = batch.put, self._handles
        try:
            for family, key, value in entries:
                if value is None:
                    batch.delete(key, handles[family])
                else:
                    put(key, value, handles[family])
            self._database.write(batch)
        except Exception as error:
            self._failed = True
            raise self._mapped(error, "write") from error
        if sync:
            self.sync()

    def sync(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.path}: the ledger is closed")
        try:
            self._logs.sync()
        except OSError as error:
            self._failed = True
            raise _unsynced(error, self.path) from error

    def flush(self) -> None:
        try:
            for name in FAMILIES:
                self._family(name).flush(True)
        except Exception as error:
            self._failed = True
            raise self._mapped(error, "flush") from error

    def compact(self) -> None:
        self.flush()  # of all families: the write-ahead logs go only then
        options = CompactOptions()
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force_optimized())
        try:
            self._family("log").compact_range(None, None, options)
        except Exception as error:
            self._failed = True
            raise self._mapped(error, "compact") from error

    def faults(self) -> list[tuple[str, str]]:
        return [
            (where, f"{where}: expected the families {', '.join(FAMILIES)}, got another with content")
            for where in self.strangers
        ]

    def close(self) -> None:
        if self._closed:
            return
        refused = self._no_file_can_be_made()
        if refused is not None:
            # Closing and dropping flush. A flush that can't begin a new log crashes the process at the next one.
            _unclosed.append((os.getpid(), _place(self._folder), self))
            self.abandon()
            raise mapped_os_error(refused, self.path)
        self._closed = True
        self._close_database()

    def _close_database(self) -> None:
        try:
            for family in self._families.values():
                family.close()
            self._database.close()
        except Exception as error:
            # After a failed write RocksDB refuses to close too. What was confirmed lies in its log.
            if not self._failed:
                raise self._mapped(error, "close") from error
        finally:
            # Dropping the last references releases the lock, also where closing failed.
            self._handles.clear()
            self._families.clear()
            del self._database
            self._release()

    def _no_file_can_be_made(self) -> OSError | None:
        """Why a writer can make no file in the folder: it is gone, read-only, or the disk has no room for a name."""
        return None if self._lock is None else _no_file_can_be_made(self._folder)

    def _release(self) -> None:
        self._logs.close()
        if self._lock is not None:
            self._lock.release()
        if self._snapshot is not None:
            self._snapshot.release()

    def abandon(self) -> None:
        self._closed = True
        self._logs.close()
        if self._lock is not None:
            self._lock.release()
        # A destructor would wait for threads that a fork does not copy, or write into the parent's files.
        for held in (self._database, *self._families.values(), *self._handles.values()):
            _kernels.leak(held)

    def _mapped(self, error: Exception, doing: str) -> StorageError:
        if self._closed and isinstance(error, KeyError):  # closed by another thread at this moment
            return ClosedError(f"{self.path}: the ledger is closed")
        return mapped(error, self.path, doing, self._folder)


# RocksDB's threads begin with its first use and are of the whole process. In a forked child the first flush would wait
# for them for ever.
_first_used_in: list[int] = []  # the process, if any


def _remember_use() -> None:
    if not _first_used_in:
        _first_used_in.append(os.getpid())


def _refuse_irregular(folder: Path) -> None:
    """Raises IntegrityError for what is no regular file: RocksDB and its binding write through links, and wait for
    pipes."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                text = f"{folder / entry.name}: expected a regular file, got a link, a folder, a pipe or a device"
                raise IntegrityError(text, file=str(folder / entry.name))


def _unreadable(error: OSError, path: Path) -> StorageError:
    """Why the files of a database could not be opened to read them."""
    text = f"{path}: can't be read: {error.strerror}: {error.filename}"
    if error.errno in _LIMIT_NUMBERS:
        return LimitError(f"{text} (hint: ulimit -n)")
    if error.errno == errno.EIO:
        return IntegrityError(text, file=str(error.filename))
    return StorageError(text)


# Databases that could not be closed when they were to be, because no file could be made: process, place of the folder.
# RocksDB holds their locks in this process: who opens such a folder again closes them first.
_unclosed: list[tuple[int, tuple[int, int] | None, RocksStore]] = []


def _place(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_unclosed(folder: Path) -> bool:
    """Whether this process could not close a database in the folder."""
    return any(entry[:2] == (os.getpid(), _place(folder)) for entry in _unclosed)


def _close_unclosed(folder: Path) -> None:
    """Close the databases that this process could not close before. Raises StorageError where it still can't."""
    for entry in [entry for entry in _unclosed if entry[:2] == (os.getpid(), _place(folder))]:
        refused = _no_file_can_be_made(folder)
        if refused is not None:
            raise mapped_os_error(refused, folder)
        import ctypes

        _unclosed.remove(entry)
        store = entry[2]
        for held in (store._database, *store._families.values(), *store._handles.values()):
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(held))  # what `abandon` leaked
        store._failed = True  # what it wrote is in its log, whatever closing says
        store._close_database()


def _no_file_can_be_made(folder: Path) -> OSError | None:
    probe = folder / "close.tmp"
    try:
        os.close(regular_file.create(probe, 0o600))
        probe.unlink()
    except OSError as error:
        return error
    return None


def _unsynced(error: OSError, path: Path) -> StorageError:
    """Why what was written may not be on the disk."""
    if error.errno in _LIMIT_NUMBERS:
        return LimitError(f"{path}: sync: {error.strerror} (hint: ulimit -n)")
    full = mapped_os_error(error, path)
    return full if isinstance(full, StorageFullError) else SyncError(f"{path}: not on the disk: {error.strerror}")


def _database(
    path: Path, folder: Path, shorten: Callable[[TornTail], None], *, read_only: bool, paranoid: bool
) -> tuple[Rdict, list[TornTail]]:
    """The opened database, and the ends of its logs that were dropped first, with `shorten`, as torn."""
    cache = Cache(CACHE_BYTES)
    families = {
        name: _family_options(name, cache, read_only=read_only, paranoid=paranoid) for name in (*FAMILIES, "default")
    }
    access = AccessType.read_only(False) if read_only else AccessType.read_write()
    dropped: list[TornTail] = []
    try:
        torn = torn_tail(folder) if check_engine_logs(folder) else None
        while True:
            if torn is not None:
                shorten(torn)
                dropped.append(torn)
            try:
                return Rdict(str(folder), families["default"], families, access), dropped
            except Exception as error:
                if not isinstance(mapped(error, path, "open", folder), IntegrityError):
                    raise
                torn = torn_tail(folder) or torn_manifest(folder)
                if torn is None or torn in dropped:
                    raise
    except IntegrityError as error:
        raise IntegrityError(f"{path}: damaged, found in open: {error}", file=error.file) from error
    except Exception as error:
        raise mapped(error, path, "open", folder) from error


def _is_rank(key: bytes) -> bool:
    return len(key) == 8 and not key.startswith(CURSOR_PREFIX)


def mapped(error: Exception, path: Path, doing: str, folder: Path | None = None) -> StorageError:
    """The one place where the engine's texts become our errors. Raises what is no error of the engine's or of the
    system's, as it is: a signal handler's exception, for one.
    """
    if isinstance(error, StorageError):
        return error
    late = isinstance(error, TimeoutError) and error.errno is None
    if late or not (type(error) in (Exception, rocksdict.DbClosedError) or isinstance(error, OSError)):
        raise error
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    if folder is not None:
        text = text.replace(str(folder), str(path))
    text = re.sub(r"\s*\n\s*", " ", text.strip())  # an error is one line
    if isinstance(error, rocksdict.DbClosedError):
        return ClosedError(f"{path}: the ledger is closed")
    if "LOCK" in text and any(word in text for word in _LOCKED):
        return LockedError(f"{path}: another program holds the database: {text}", None)
    for words, kind, what in _KINDS:
        if any(word in text for word in words):
            return kind(f"{path}: {what}, found in {doing}: {text}")
    if any(word in text for word in _LIMITS):
        return LimitError(f"{path}: {doing}: {text}")
    if doing == "open" or any(word in text for word in _DAMAGED):
        named = _FILE.search(text)
        file = named.group(1) if named else getattr(error, "filename", None)
        return IntegrityError(f"{path}: damaged, found in {doing}: {text}", file=None if file is None else str(file))
    return StorageError(f"{path}: {doing}: {text}")

"""The catalog: byte keys and checksummed values in key order, in LMDB, made from a ledger and made again when in doubt.

Layout and what is checked when: docs/formats/catalog.md.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from storage import _kernels, catalog_state
from storage.catalog_state import CHECKSUM_BYTES, DATA_FILE, NAME_BYTES_MAX, STATE_KEY, CatalogState
from storage.engine.writer_lock import WriterLock
from storage.errors import (
    ClosedError,
    IntegrityError,
    LockedError,
    NotALedgerError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
)
from storage.event import Event
from storage.reader import Reader
from storage.replay.cursor import Cursor, require_before
from storage.system_errors import mapped_os_error
from storage.tree import Head

if TYPE_CHECKING:
    import lmdb

T = TypeVar("T")
Transaction = Any  # lmdb's stubs say memoryview where, with buffers=False, there are only bytes
Pair = tuple[bytes, bytes | None]  # None deletes the key
Rebuild = Callable[[Iterator[tuple[int, Event]]], Iterable[Pair]]

KEY_BYTES_MAX = 511
VALUE_BYTES_MAX = 16 << 20
MAP_BYTES = 4 << 20
MAP_BYTES_MAX = 1 << 40
WRITE_ENTRIES = 4096
WRITE_BYTES = 4 << 20
SCAN_ENTRIES = 256
SCAN_BYTES = 1 << 20
_U64 = (1 << 64) - 1
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")


class Catalog:
    """An open catalog; use `Catalog.open`. Any thread may read and write, one at a time.

    >>> import tempfile
    >>> from storage import Ledger
    >>> def latest(events):
    ...     for rank, event in events:
    ...         yield event.producer.encode(), event.effect
    >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(folder + "/run") as ledger:
    ...     _ = ledger.append(Event(producer="pump", effect=b"on", kind="note.text", sequence=0, tick=3))
    ...     with Catalog.open(folder + "/latest", ledger, latest, name="latest/1") as catalog:
    ...         _ = ledger.append(Event(producer="pump", effect=b"off", kind="note.text", sequence=1, tick=9))
    ...         before = catalog.get(b"pump")
    ...         head = catalog.catch_up()
    ...         before, catalog.get(b"pump"), head.size, list(catalog.scan())
    (b'on', b'off', 2, [(b'pump', b'off')])
    """

    def __init__(self, path: Path, lock: WriterLock, ledger: Reader | None, rebuild: Rebuild | None, name: str) -> None:
        self.path = path
        self.rebuilt: str | None = None  # why the catalog was made again, the last time that it was
        self._folder = path.absolute()
        self._lock = lock
        self._ledger = ledger
        self._rebuild = rebuild
        self._name = name
        self._mutex = threading.RLock()
        self._closed: str | None = None
        self._environment: lmdb.Environment | None = None
        self._values: Any = None
        self._meta: Any = None
        self._state = CatalogState(name=name)
        self._writable = False
        self._sealed = False
        self._whole_now = False  # what is there is known to be whole: only then CATALOG may say so at the end
        self._map_bytes_max = MAP_BYTES_MAX
        weakref.finalize(self, lock.release)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        ledger: Reader | None = None,
        rebuild: Rebuild | None = None,
        *,
        name: str = "",
        map_bytes_max: int = MAP_BYTES_MAX,
    ) -> Catalog:
        """Open the catalog in a folder, or make it there.

        With a ledger and `rebuild`, a function that turns its events (rank, event) into entries (key, value; None
        deletes), the catalog holds what the function says of all events: it is made where it is missing, made again
        where anything in it is damaged or has another `name`, and brought up to the ledger's head. The function then
        gets the events that are new; what it says of them may depend on earlier ones only through what it keeps
        itself. Without a ledger it is a plain store of entries, each change durable when it returns.

        Raises LockedError where another catalog object has the folder, NotALedgerError where it holds something else,
        IntegrityError for damage without a ledger, RollbackError and ForkError where the catalog was made from more
        events, or others, than the ledger has; RetiredError where the payload of an event that is needed was removed;
        ReadOnlyError, StorageFullError.
        """
        if (ledger is None) != (rebuild is None):
            raise TypeError("Catalog.open: ledger and rebuild go together")
        if len(name.encode()) > NAME_BYTES_MAX:
            raise ValueError(f"Catalog.open: name must have at most {NAME_BYTES_MAX} bytes of UTF-8, got {name!r}")
        folder = Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not catalog_state.is_catalog(folder):
                strange = [file.name for file in folder.iterdir() if file.name != "CATALOG.tmp"]
                if strange:
                    raise NotALedgerError(f"{folder}: expected a catalog or an empty folder, got {min(strange)}")
            lock = WriterLock(folder)
        except FileExistsError:
            raise NotALedgerError(f"{folder}: expected a folder, got a file") from None
        except LockedError as error:
            raise LockedError(str(error).replace("the ledger for writing", "the catalog"), error.pid) from None
        except OSError as error:
            raise mapped_os_error(error, folder) from error
        catalog = cls(folder, lock, ledger, rebuild, name)
        catalog._map_bytes_max = map_bytes_max
        try:
            catalog._begin()
        except BaseException:
            catalog._release()
            raise
        catalog._whole_now = True
        _open_catalogs.add(catalog)
        return catalog

    def _begin(self) -> None:
        fault = self._look()
        if fault is None:
            self.catch_up()
        elif self._ledger is None and catalog_state.is_catalog(self._folder):
            raise IntegrityError(f"{self.path}: {fault}", file=str(self.path / DATA_FILE))
        else:
            self._make_again(fault)

    def _look(self) -> str | None:
        """Open what is there once it is known to be whole; else say what is wrong with it."""
        data = self._folder / DATA_FILE
        try:
            if not data.exists():
                return f"{DATA_FILE} is missing"
            self._sealed = catalog_state.is_as_closed(self._folder)
            if not self._sealed and self._ledger is not None:
                return "it was not closed, or its bytes have changed since"
            if not self._sealed:
                _check_pages(data)
            self._map(os.access(data, os.W_OK))
            self._state = self._read(self._stored_state)
            if self._state.name != self._name:
                return f"holds {self._state.name!r}, not {self._name!r}"
            if self._state.unfinished:
                return "a change of it was interrupted"
            if not self._sealed:
                self._check_entries()
        except IntegrityError as error:
            return str(error)
        except OSError as error:
            raise mapped_os_error(error, self.path) from error
        return None

    def _stored_state(self, txn: Transaction) -> CatalogState:
        stored = txn.get(STATE_KEY, db=self._meta)
        if stored is None:
            raise IntegrityError("meta/state is missing", file="meta/state")
        return CatalogState.unpack(stored)

    def _map(self, writable: bool) -> None:
        import lmdb

        data = self._folder / DATA_FILE
        held = data.stat().st_size if data.exists() else 0
        self._writable = writable
        durable = self._ledger is None
        try:
            self._environment = lmdb.open(
                os.fsencode(self._folder), max_dbs=2, lock=False, readonly=not writable, sync=durable,
                metasync=durable, map_size=min(max(MAP_BYTES, 2 * held), self._map_bytes_max),
            )  # fmt: skip
            self._values = self._environment.open_db(b"values", create=not held)
            self._meta = self._environment.open_db(b"meta", create=not held)
        except lmdb.Error as error:
            raise self._mapped(error) from error

    def _unmap(self) -> None:
        environment, self._environment = self._environment, None
        if environment is not None:
            environment.close()

    def _make_again(self, why: str) -> None:
        """Delete the database and derive every entry."""
        self._whole_now = False
        self._unmap()
        try:
            if self._folder.joinpath(DATA_FILE).exists():
                self.rebuilt = why
            self._unseal()
            self._folder.joinpath(DATA_FILE).unlink(missing_ok=True)
        except OSError as error:
            raise mapped_os_error(error, self.path) from error
        self._map(writable=True)
        self._state = CatalogState(name=self._name)
        self._commit([], self._state)
        self.catch_up()
        self._whole_now = True

    def catch_up(self) -> Head:
        """Add what the ledger has got since; the head up to which the catalog now speaks.

        Raises RollbackError and ForkError for another history than the one it was made from, and what the ledger and
        the function raise: the catalog is then as before, or made again when it is next opened.
        """
        with self._mutex:
            self._check_open()
            if self._ledger is None or self._rebuild is None:
                return self._state.head
            head, done = self._ledger.head(), self._state.head
            require_before(self._ledger, Cursor(done.size, done.root))
            if head == done:
                return head
            try:
                self._derive(head, self._rebuild(self._ledger.scan(done.size, head.size)))
            except BaseException:
                if self._state.unfinished:
                    self._whole_now = False
                    self._closed = "was closed by an error in catch_up: open it again"
                    self._release()
                raise
            return head

    def _derive(self, head: Head, pairs: Iterable[Pair]) -> None:
        held: list[Pair] = []
        held_bytes = 0
        for key, value in pairs:
            _check_pair("rebuild", key, value)
            held.append((key, value))
            held_bytes += len(key) + len(value or b"")
            if len(held) >= WRITE_ENTRIES or held_bytes >= WRITE_BYTES:
                self._commit(held, replace(self._state, unfinished=True))
                held, held_bytes = [], 0
        self._commit(held, replace(self._state, unfinished=False, head=head))

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None. Raises IntegrityError where it is damaged and can't be made again."""
        return self.get_many((key,))[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of several keys as of one moment, None for each that isn't there. Raises as `get`."""
        for key in keys:
            _check_key("get", key)

        def read(txn: Transaction) -> list[bytes | None]:
            return [self._whole(key, txn.get(key, db=self._values)) for key in keys]

        return self._read_whole(read)

    def scan(
        self, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values from `start` up to but not including `stop`, ascending, or descending with `reverse`.

        A piece at a time (256 entries, 1 MiB): each is of one moment, and entries changed meanwhile may show in later
        ones. Nothing stays open between them. Raises as `get`.
        """
        while True:
            low, high = start, stop

            def read(txn: Transaction, low: bytes = low, high: bytes | None = high) -> list[tuple[bytes, bytes]]:
                found = []
                held = 0
                with txn.cursor(db=self._values) as cursor:
                    for key, stored in _stored_between(cursor, low, high, reverse=reverse):
                        found.append((key, self._whole(key, stored) or b""))
                        held += len(stored)
                        if len(found) == SCAN_ENTRIES or held >= SCAN_BYTES:
                            break
                return found

            piece = self._read_whole(read)
            if not piece:
                return
            yield from piece
            if reverse:
                stop = piece[-1][0]
            else:
                start = piece[-1][0] + b"\0"

    def __len__(self) -> int:
        self._check_open()
        return self._state.entries

    @property
    def head(self) -> Head:
        """Size and root of the ledger up to which the entries speak."""
        return self._state.head

    def put(self, key: bytes, value: bytes) -> None:
        """Put one entry; see `put_many`."""
        self.put_many(((key, value),))

    def put_many(self, pairs: Iterable[Pair]) -> None:
        """Put entries in one transaction, all or none; a value of None deletes its key. Durable when this returns.

        Raises ReadOnlyError for a catalog made from a ledger (its entries are what the ledger says), StorageFullError.
        """
        pairs = list(pairs)
        for key, value in pairs:
            _check_pair("put", key, value)
        with self._mutex:
            self._check_open()
            if self._rebuild is not None or self._state.head.size:
                raise ReadOnlyError(f"{self.path}: the entries are made from a ledger, none can be put")
            self._commit(pairs, self._state)

    def delete(self, key: bytes) -> bool:
        """Delete a key; whether it was there. Raises as `put_many`."""
        with self._mutex:
            before = len(self)
            self.put_many(((key, None),))
            return len(self) < before

    def _commit(self, pairs: Sequence[Pair], state: CatalogState) -> None:
        if not self._writable:
            raise ReadOnlyError(f"{self.path}: its files can't be written")
        self._unseal()

        def write(txn: Transaction) -> CatalogState:
            entries, total = state.entries, state.sum
            for key, value in pairs:
                if value is None:
                    old = txn.pop(key, db=self._values)
                else:
                    stored = catalog_state.sealed(key, value)
                    old = txn.replace(key, stored, db=self._values)
                    entries, total = entries + 1, total + _number(stored)
                if old is not None:
                    entries, total = entries - 1, total - _number(old)
            after = replace(state, entries=entries, sum=total & _U64)
            txn.put(STATE_KEY, after.pack(), db=self._meta)
            return after

        self._state = self._written(write)

    def _written(self, write: Callable[[Transaction], T]) -> T:
        """Run a function in a transaction; where the map is full, again in a larger one."""
        import lmdb

        while True:
            environment = self._environment
            assert environment is not None
            try:
                with environment.begin(write=True) as txn:
                    return write(txn)
            except lmdb.MapFullError:
                size = environment.info()["map_size"]
                if 2 * size > self._map_bytes_max:
                    raise StorageFullError(
                        f"{self.path}: the catalog has reached map_bytes_max = {self._map_bytes_max}"
                    ) from None
                environment.set_mapsize(2 * size)
            except lmdb.Error as error:
                raise self._mapped(error) from error

    def _read(self, read: Callable[[Transaction], T]) -> T:
        import lmdb

        environment = self._environment
        assert environment is not None
        try:
            with environment.begin() as txn:
                return read(txn)
        except lmdb.Error as error:
            raise self._mapped(error) from error

    def _read_whole(self, read: Callable[[Transaction], T]) -> T:
        """Read; what is damaged is made again once, where there is a ledger."""
        with self._mutex:
            self._check_open()
            try:
                return self._read(read)
            except IntegrityError as error:
                if self._ledger is None:
                    raise
                try:
                    self._make_again(str(error))
                except BaseException:
                    self._closed = "was closed by an error in making it again: open it again"
                    self._release()
                    raise
            return self._read(read)

    def _whole(self, key: bytes, stored: bytes | None) -> bytes | None:
        if stored is None:
            return None
        value = catalog_state.unsealed(key, stored)
        if value is None:
            raise IntegrityError(
                f"{self.path}: the value of key {key.hex()} has another checksum", file=f"values/{key.hex()}"
            )
        return value

    def _check_entries(self) -> None:
        """All entries against their checksums, their number and sum against the state."""

        def read(txn: Transaction) -> tuple[int, int]:
            entries = total = 0
            with txn.cursor(db=self._values) as cursor:
                for key, stored in cursor:
                    self._whole(key, stored)
                    entries, total = entries + 1, total + _number(stored)
            return entries, total & _U64

        found, said = self._read(read), (self._state.entries, self._state.sum)
        if found != said:
            raise IntegrityError(f"{self.path}: entries and their sum must be {said}, got {found}", file="values")

    def _unseal(self) -> None:
        """Before the first change: CATALOG says that the data is no longer what it was."""
        if self._sealed or not catalog_state.is_catalog(self._folder):
            try:
                catalog_state.write_seal(self._folder, closed=False)
            except OSError as error:
                raise mapped_os_error(error, self.path) from error
            self._sealed = False

    def _mapped(self, error: lmdb.Error) -> StorageError:
        text = f"{self.path}: {error}"
        if any(words in text for words in _FULL):
            return StorageFullError(text)
        if "Read-only file system" in text or "Permission denied" in text:
            return ReadOnlyError(text)
        return IntegrityError(text, file=str(self.path / DATA_FILE))

    def close(self) -> None:
        """Bring everything to the disk and say so in CATALOG. A second call does nothing."""
        with self._mutex:
            if self._closed is None:
                self._closed = "is closed"
                self._release()

    def _release(self) -> None:
        _open_catalogs.discard(self)
        environment = self._environment
        try:
            if environment is not None and self._writable and not self._sealed and self._whole_now:
                environment.sync(True)
                self._unmap()
                catalog_state.write_seal(self._folder, closed=True)
        except OSError as error:
            raise mapped_os_error(error, self.path) from error
        finally:
            self._unmap()
            self._lock.release()

    def _after_fork(self) -> None:
        self._closed = "was opened before this process was forked: open it again here"
        self._mutex = threading.RLock()
        environment, self._environment = self._environment, None
        if environment is not None:
            _kernels.leak(environment)
        self._lock.release()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(f"{self.path}: the catalog {self._closed}")

    def __enter__(self) -> Catalog:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_pages(data: Path) -> None:
    """Raises IntegrityError unless LMDB can map the file."""
    from storage.engine.lmdb_check import check_pages
    from storage.engine.lmdb_pages import PageFile, View, read_meta

    file = PageFile(data)
    try:
        check_pages(View(file, read_meta(file)))
    finally:
        file.close()


def _stored_between(cursor: Any, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    if not reverse:
        found = cursor.set_range(start) if start else cursor.first()
        while found and (stop is None or cursor.key() < stop):
            yield cursor.item()
            found = cursor.next()
        return
    found = cursor.prev() if stop is not None and cursor.set_range(stop) else cursor.last()
    while found and cursor.key() >= start:
        yield cursor.item()
        found = cursor.prev()


def _number(stored: bytes) -> int:
    return int.from_bytes(stored[-CHECKSUM_BYTES:], "big")


def _check_key(doing: str, key: bytes) -> None:
    if type(key) is not bytes:
        raise TypeError(f"Catalog.{doing}: a key must be bytes, got {type(key).__name__}")
    if not 1 <= len(key) <= KEY_BYTES_MAX:
        raise ValueError(f"Catalog.{doing}: a key must have 1 to {KEY_BYTES_MAX} bytes, got {len(key)}")


def _check_pair(doing: str, key: bytes, value: bytes | None) -> None:
    _check_key(doing, key)
    if value is not None and type(value) is not bytes:
        raise TypeError(f"Catalog.{doing}: a value must be bytes or None, got {type(value).__name__}")
    if value is not None and len(value) > VALUE_BYTES_MAX:
        raise ValueError(f"Catalog.{doing}: a value has at most {VALUE_BYTES_MAX} bytes, got {len(value)}")


_open_catalogs: weakref.WeakSet[Catalog] = weakref.WeakSet()


def _abandon_all() -> None:
    for catalog in list(_open_catalogs):
        with suppress(AttributeError):
            catalog._after_fork()
    _open_catalogs.clear()


os.register_at_fork(after_in_child=_abandon_all)

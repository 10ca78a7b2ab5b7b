"""The store of a ledger that is open for writing: it can be closed and opened again beneath its readers."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from storage.engine.store import Entry, Store
from storage.errors import ClosedError, StorageError

_T = TypeVar("_T")
SCANS_END_SECONDS_MAX = 1.0


class LiveStore:
    """Passes everything on to a store, remembers the first failed write, and can change to another store.

    A read that meets the change waits and is done again. A scan ends there, as at the end of what was stored: who
    counts what a scan gave out asks again for the rest.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._change = threading.Lock()
        self._changing = False
        self._scans_lock = threading.Lock()
        self._scans: weakref.WeakSet[Iterator[tuple[bytes, bytes]]] = weakref.WeakSet()
        self.failure: StorageError | None = None

    def _read(self, read: Callable[[Store], _T]) -> _T:
        while True:
            store = self._store
            try:
                return read(store)
            except ClosedError:
                with self._change:
                    if self._store is store:
                        raise

    def get(self, family: str, key: bytes) -> bytes | None:
        return self._read(lambda store: store.get(family, key))

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._read(lambda store: store.get_many(family, keys))

    def last_key(self, family: str) -> bytes | None:
        return self._read(lambda store: store.last_key(family))

    def faults(self) -> list[tuple[str, str]]:
        return self._read(lambda store: store.faults())

    def scan(self, family: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        while True:
            with self._scans_lock:
                if not self._changing:
                    found = self._store.scan(family, start, stop)
                    self._scans.add(found)
                    return found
            with self._change:
                pass

    def write(self, entries: Sequence[Entry], *, sync: bool) -> None:
        try:
            self._store.write(entries, sync=sync)
        except StorageError as error:
            self._note(error)
            raise

    def sync(self) -> None:
        self._change_by(lambda store: store.sync())

    def flush(self) -> None:
        self._change_by(lambda store: store.flush())

    def compact(self) -> None:
        self._change_by(lambda store: store.compact())

    def _change_by(self, change: Callable[[Store], None]) -> None:
        try:
            change(self._store)
        except StorageError as error:
            self._note(error)
            raise

    def _note(self, error: StorageError) -> None:
        if self.failure is None:
            self.failure = error

    def replace(self, open_again: Callable[[], Store], open_to_read: Callable[[], Store]) -> None:
        """Close the store and go on with another one. Where that can't be opened, one to read from stands in for it.

        Raises what opening raised.
        """
        with self._change:
            with self._scans_lock:
                self._changing = True  # no scan begins until it is False
            try:
                self._replace(open_again, open_to_read)
            finally:
                self._changing = False

    def _replace(self, open_again: Callable[[], Store], open_to_read: Callable[[], Store]) -> None:
        self._end_scans()
        with suppress(StorageError):  # what it could not keep was never confirmed: the next opening finds out
            self._store.close()
        try:
            self._store = open_again()
        except BaseException:
            self._store = open_to_read()
            raise
        self.failure = None

    def _end_scans(self) -> None:
        """End the iterators into the engine, which would keep it open."""
        patience = time.monotonic() + SCANS_END_SECONDS_MAX
        for scan in list(self._scans):
            while time.monotonic() < patience:
                try:
                    scan.close()  # type: ignore[attr-defined]
                    break
                except ValueError:  # another thread is in it at this moment
                    time.sleep(0.0005)
                except AttributeError:  # no generator: a store of a test
                    break

    def close(self) -> None:
        self._store.close()

    def abandon(self) -> None:
        self._store.abandon()

"""Reading objects before they are asked for, so that a scan of a distant store does not wait for each."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from storage.errors import IntegrityError
from storage.publication.object_store import Found, ObjectStore

THREADS = 8


class ReadAhead:
    """Objects of a store, some of them asked for earlier by `want`; reads as the store does."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="read-ahead")
        self._wanted: dict[str, Future[Found | None]] = {}

    def want(self, path: str, bytes_max: int) -> None:
        """Begin to read an object that `get` will be asked for."""
        if path not in self._wanted:
            self._wanted[path] = self._pool.submit(self.store.get, path, bytes_max)

    def get(self, path: str, bytes_max: int) -> Found | None:
        """The object, as `ObjectStore.get`."""
        wanted = self._wanted.pop(path, None)
        found = self.store.get(path, bytes_max) if wanted is None else wanted.result()
        if found is not None and len(found.data) > bytes_max:
            raise IntegrityError(f"{path}: expected at most {bytes_max} bytes, got {len(found.data)}", file=path)
        return found

    def forget(self) -> None:
        """Nothing that was wanted will be asked for."""
        for wanted in self._wanted.values():
            wanted.cancel()
        self._wanted.clear()

    def close(self) -> None:
        """Stop reading. The store stays open."""
        self.forget()
        self._pool.shutdown(cancel_futures=True)

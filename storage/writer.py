"""The one place that changes a ledger: group commits, what follows a failed one, and HEAD.

HEAD takes two syncs of its own, so it is written beside the next commit, of a state that is on the disk by then. Where
that fails, or the state is not on the disk, it is written before the next commit, which raises what goes wrong: nothing
that was confirmed is lost by it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import repeat
from pathlib import Path

from storage import event_batch, layout, opening, state
from storage import head as head_file
from storage.batch import Batch, Cursor
from storage.committer import Request
from storage.engine.live_store import LiveStore
from storage.engine.store import Store
from storage.errors import IntegrityError, LimitError, ReadOnlyError, StorageError, StorageFullError, SyncError
from storage.receipt import Receipt
from storage.state import TreeState
from storage.system_errors import mapped_os_error
from storage.tree import Head

COMMITS_PER_HEAD = 64
CURSORS_CACHED_MAX = 4096
LEAVE_SECONDS_MAX = 10.0


Reopen = Callable[[bool, Head], tuple[Store, opening.Opened]]


class Writer:
    """What a ledger open for writing holds in memory. One thread at a time may call, with the `lock` held.

    reopen: called with whether to open for writing, and the head that must be in the ledger.
    """

    def __init__(self, path: Path, store: Store, opened: opening.Opened, reopen: Reopen, *, durable: bool) -> None:
        self.path = path
        self.store = LiveStore(store)
        self._reopen = reopen
        self.degraded = opened.status != opening.HEALTHY
        self.patched = opened.patched
        self.head = opened.head
        self.lock = threading.Lock()
        self._head_path = layout.head_path(path.absolute())  # the current folder may change
        self.tree = opened.tree
        self._durable = durable
        self._written_head = opened.head_seen
        self._commits = 0
        self._commits_in_head = 0
        self._head_due: tuple[Head, int] | None = None  # on the disk, and which commit it was; to be written to HEAD
        self._head_in_hand = False  # somebody is in keep_head
        self._head_failed = False
        self._head_lock = threading.Lock()
        self._unsynced = True  # what is in the store may not be on the disk
        self._cursors: dict[str, Cursor | None] = {}
        self._pending: TreeState | None = None  # handed to the store; it is not known whether it is there

    @property
    def sync_error(self) -> SyncError | None:
        """The failed sync since which nothing is appended."""
        failure = self.store.failure
        return failure if isinstance(failure, SyncError) else None

    def commit(self, requests: Sequence[Request]) -> None:
        """Write the events of all requests as one batch; each request gets its receipts or its error.

        An interruption (KeyboardInterrupt) comes through: the next commit finds out what was written.
        """
        with self.lock:
            try:
                self.recover()
                if self._head_is_late():
                    self.rewrite_head(durable=self._durable)
                self._commit(requests)
                if self._commits - self._commits_in_head >= COMMITS_PER_HEAD and not (self._durable and self._unsynced):
                    self._head_due = self.head, self._commits
            except Exception as error:
                for request in requests:
                    if not request.done:
                        request.error = error
                        error = _copy(error)

    def _commit(self, requests: Sequence[Request]) -> None:
        batch = Batch(str(self.path), self.head.size, self._cursor, self._rank_of)
        placed: list[tuple[Request, Sequence[int]]] = []
        for request in requests:
            try:
                placed.append((request, batch.place(request.events, request.prepared)))
            except StorageError as error:
                request.error = error
        durable = any(request.durable for request, _ in placed)
        if batch.ids:
            self._write(batch, durable)
        elif durable:
            self.sync()
        size, root = self.head.size, self.head.root
        for request, ranks in placed:
            ids = request.prepared.ids
            if isinstance(ranks, range):
                request.receipts = event_batch.receipts(ranks.start, ids, size, root)
            else:
                request.receipts = list(map(Receipt, ranks, ids, repeat(size), repeat(root)))

    def _write(self, batch: Batch, durable: bool) -> None:
        tree, tiles = self.tree.extended(b"".join(batch.leaves))
        head = tree.head()
        entries = batch.entries()
        entries += tiles
        entries.append(("meta", layout.HEAD_KEY, layout.pack_head(head)))
        self._pending = tree
        self.store.write(entries, sync=durable)
        if len(self._cursors) > CURSORS_CACHED_MAX:
            self._cursors.clear()
        self._cursors.update(batch.cursors)
        self._adopt(tree, head, unsynced=not durable)

    def _adopt(self, tree: TreeState, head: Head, *, unsynced: bool) -> None:
        self.tree, self.head = tree, head
        self._commits += 1
        self._unsynced = unsynced
        self._pending = None

    def sync(self) -> None:
        """Return after everything that was written is on the disk."""
        if not self._unsynced:
            return
        self.store.sync()
        self._unsynced = False

    def recover(self) -> None:
        """After a commit whose end is not known: find out what the store has, and open it again after a full disk.

        Raises StorageFullError while the disk is full, ReadOnlyError after a failed sync, else what failed.
        """
        failure = self.store.failure
        if isinstance(failure, SyncError):
            raise ReadOnlyError(f"{self.path}: read-only since a sync failed, open the ledger again: {failure}")
        if isinstance(failure, StorageFullError):
            self._open_again()
        elif failure is not None and not isinstance(failure, LimitError):
            raise type(failure)(f"{self.path}: no append after a failed one, open the ledger again: {failure}")
        elif self._pending is not None:
            self._look()
        self.store.failure = None

    def _open_again(self) -> None:
        """Close the engine, which goes on failing after a full disk, and open it anew, checked as any opening is."""
        opening.require_room(self.path)
        found: list[opening.Opened] = []

        def again() -> Store:
            store, opened = self._reopen(True, self.head)
            found.append(opened)
            return store

        self.store.replace(again, lambda: self._reopen(False, self.head)[0])
        (opened,) = found
        if opened.head != self.head and (self._pending is None or opened.head != self._pending.head()):
            raise IntegrityError(f"{self.path}: meta/head is not what was written: {opened.head}", file="meta/head")
        self._written_head = opened.head_seen
        self.patched = opened.patched
        self._take_over(opened.tree, opened.head)

    def _take_over(self, tree: TreeState, head: Head) -> None:
        self._cursors.clear()
        self._adopt(tree, head, unsynced=True)

    def repaired(self) -> None:
        """Forget what was known of a ledger that was not in order."""
        self._cursors.clear()
        self.degraded = False

    def _look(self) -> None:
        assert self._pending is not None
        found, pending = state.read_head(self.store, str(self.path)), self._pending.head()
        if found == pending:
            self._take_over(self._pending, pending)
        elif found != self.head:
            raise IntegrityError(f"{self.path}: meta/head is not what was written: {found}", file="meta/head")
        self._pending = None

    def cursor(self, producer: str) -> Cursor | None:
        """The last sequence number and id of a producer, or None. Any thread may ask."""
        try:
            return self._cursors[producer]
        except KeyError:  # in one step: the writer may clear them at any moment
            return state.read_cursor(self.store, producer)

    def _cursor(self, producer: str) -> Cursor | None:
        if producer not in self._cursors:
            self._cursors[producer] = state.read_cursor(self.store, producer)
        return self._cursors[producer]

    def _rank_of(self, event_id: bytes) -> int | None:
        value = self.store.get("ids", event_id)
        if value is None and self.degraded:  # `ids` may lack it: the log itself is searched
            for key, stored in self.store.scan("log"):
                if state.stored_id(stored) == event_id:
                    return int.from_bytes(key, "big")
        return None if value is None else int.from_bytes(value, "big")

    def _head_is_late(self) -> bool:
        """Whether HEAD must be written before the next commit, as it could not be beside one."""
        commits = self._commits - self._commits_in_head
        if commits >= 2 * COMMITS_PER_HEAD:
            return True
        return commits >= COMMITS_PER_HEAD and (self._head_failed or (self._durable and self._unsynced))

    def keep_head(self) -> None:
        """Write HEAD if it is due: beside the next commit, so without the `lock`. A failure is left to that commit."""
        if self._head_due is None or self._head_in_hand:
            return
        try:
            self._head_in_hand = True
            due, self._head_due = self._head_due, None
            with self._head_lock:
                if due is not None and (self._written_head is None or due[0].size > self._written_head.size):
                    try:
                        self._put_head(*due, durable=self._durable)
                    except OSError:
                        self._head_failed = True
        finally:
            self._head_in_hand = False

    def rewrite_head(self, *, durable: bool) -> None:
        """Make HEAD name what there is. Raises StorageFullError, StorageError."""
        if durable:
            self.sync()  # the store first: HEAD names what must be there
        try:
            with self._head_lock:
                self._put_head(self.head, self._commits, durable=durable)
        except OSError as error:
            raise mapped_os_error(error, layout.head_path(self.path)) from error

    def _put_head(self, head: Head, commits: int, *, durable: bool) -> None:
        head_file.write(self._head_path, head, durable=durable)
        self._written_head = head
        self._commits_in_head = commits
        self._head_due = None
        self._head_failed = False

    def close(self) -> None:
        """Rewrite HEAD and close the store."""
        with self.lock:
            try:
                if self.store.failure is None and self._pending is not None:
                    self._look()
                if self.store.failure is None and self._written_head != self.head:
                    self.rewrite_head(durable=True)
            finally:
                self.store.close()

    def leave(self) -> None:
        """Close the store without rewriting HEAD, once no thread is in it: when the interpreter ends, others still
        append. Where one stays, the store is left to the system.
        """
        if self.lock.acquire(timeout=LEAVE_SECONDS_MAX):
            try:
                self.store.close()
            finally:
                self.lock.release()


def _copy(error: Exception) -> Exception:
    """The same error for another thread: each has its own traceback."""
    new = type(error).__new__(type(error), *error.args)
    new.__dict__.update(error.__dict__)
    return new

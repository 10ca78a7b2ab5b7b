"""The ledger: an append-only sequence of events that anybody can check."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, overload

from storage import hashing, layout, opening, state
from storage import head as head_file
from storage.errors import (
    ClosedError,
    EquivocationError,
    IntegrityError,
    ReadOnlyError,
    RetiredError,
    StorageError,
    StorageFullError,
)
from storage.event import Event
from storage.retire import Retired, is_retired, retire_events
from storage.store import Entry, Store
from storage.tree import HASH_BYTES, Head

if TYPE_CHECKING:
    from storage.keys import Signer
    from storage.note import Signature

Mode = Literal["rw", "r"]
Sync = Literal["fsync", "os"]

COMMITS_PER_HEAD = 64
SCAN_CHUNK_BYTES = 1 << 20
CURSORS_CACHED_MAX = 4096


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where an event lies, and the head of the commit that holds it."""

    rank: int
    id: bytes
    size: int
    root: bytes


class _Request:
    """Events of one caller on their way into a group commit."""

    __slots__ = ("error", "events", "ids", "receipts", "values")

    def __init__(self, events: Sequence[Event], values: list[bytes], ids: list[bytes]) -> None:
        self.events = events
        self.values = values
        self.ids = ids
        self.receipts: list[Receipt] | None = None
        self.error: BaseException | None = None


class Ledger:
    """An open ledger; use `Ledger.open`. Any thread may append and read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(folder + "/run") as ledger:
    ...     receipt = ledger.append(Event(producer="a", effect=b"hello", kind="note.text", sequence=0, tick=0))
    ...     receipt.rank, receipt.size, ledger.at(0).effect
    (0, 1, b'hello')
    """

    def __init__(self, path: Path, mode: Mode, sync: Sync, store: Store, opened: opening.Opened) -> None:
        self.path = path
        self._head_path = layout.head_path(path.absolute())  # the current folder may change
        self.mode = mode
        self.manifest_status = opened.status
        self.problems = opened.problems
        self.recovered = opened.recovered
        self._sync = sync == "fsync"
        self._store = store
        self._head = opened.head
        self._tree = opened.tree
        self._written_head = opened.head_seen
        self._commits = 0
        self._cursors: dict[str, tuple[int, bytes] | None] = {}
        self._queue: list[_Request] = []
        self._queue_lock = threading.Lock()
        self._commit_lock = threading.Lock()
        self._failed: StorageError | None = None
        self._signs_for: str | None = None  # the origin whose kept checkpoints were all held against the tree
        self._closed: str | None = None
        self._finalizer = weakref.finalize(self, store.close)
        _open_ledgers.add(self)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], mode: Mode = "rw", sync: Sync = "fsync", expect: Head | None = None
    ) -> Ledger:
        """Open the ledger of a RUN directory; mode "rw" makes one where there is nothing yet, "r" alters no byte.

        sync: "fsync" returns from an append after the disk has it, "os" after the system has it (a power cut may
        lose the last events, which HEAD then shows).  expect: a head that the ledger must contain.

        Raises NotALedgerError, IntegrityError for damage and gaps, RollbackError for a ledger shorter than its HEAD
        or than `expect`, ForkError for another root than `expect`, and with mode "rw" LockedError, ReadOnlyError,
        StorageFullError. Mode "r" opens a damaged or shortened ledger too: `manifest_status` and `problems` say so.
        """
        if mode not in ("rw", "r"):
            raise ValueError(f'Ledger.open: mode must be "rw" or "r", got {mode!r}')
        if sync not in ("fsync", "os"):
            raise ValueError(f'Ledger.open: sync must be "fsync" or "os", got {sync!r}')
        if expect is not None and not isinstance(expect, Head):
            raise TypeError(f"Ledger.open: expect must be a Head, got {type(expect).__name__}")
        run = Path(path)
        store, opened = opening.open_run(run, writable=mode == "rw", expect=expect)
        return cls(run, mode, sync, store, opened)

    def append(self, event: Event) -> Receipt:
        """Append one event. The same event again returns its first rank.

        Raises EquivocationError, EventTooLargeError, ReadOnlyError, StorageFullError, ClosedError.
        """
        return self.append_many((event,))[0]

    def append_many(self, events: Sequence[Event]) -> list[Receipt]:
        """Append events as one atomic batch: all or none. Raises as `append`.

        Callers in several threads share one commit, and with it one sync.
        """
        self._check_open()
        if self.mode != "rw":
            raise ReadOnlyError(f'{self.path}: opened with mode "r", append needs "rw"')
        events = tuple(events)
        values = [event.encode() for event in events]
        request = _Request(events, values, hashing.event_ids(values))
        with self._queue_lock:
            self._queue.append(request)
        with self._commit_lock:
            if request.receipts is None and request.error is None:
                self._commit()
        if request.error is not None:
            raise request.error
        assert request.receipts is not None
        return request.receipts

    def _commit(self) -> None:
        """Write all queued requests as one batch. The caller holds the commit lock."""
        with self._queue_lock:
            requests, self._queue = self._queue, []
        try:
            self._check_open()
            if self._failed is not None:
                raise type(self._failed)(
                    f"{self.path}: no append after a failed one, open the ledger again: {self._failed}"
                )
            self._rewrite_head_when_due()
            self._commit_requests(requests)
        except BaseException as error:
            for request in requests:
                if request.receipts is None and request.error is None:
                    request.error = error
            if not isinstance(error, Exception):
                raise

    def _commit_requests(self, requests: list[_Request]) -> None:
        batch = _Batch(self._head.size)
        placed = [(request, self._place(request, batch)) for request in requests]
        head, tree = self._head, self._tree
        if batch.ids:
            lengths = [len(value) for value in batch.values]
            tree, tiles = tree.extended(state.leaf_hashes(batch.ids, lengths))
            head = tree.head()
            entries = batch.entries(self._head.size)
            entries += tiles
            entries.append(("meta", layout.HEAD_KEY, layout.pack_head(head)))
            # Until the state in memory agrees with the store again, an interruption leaves the ledger unusable.
            self._failed = StorageError("the append was interrupted")
            try:
                self._store.write(entries, sync=self._sync)
            except StorageError as error:
                self._failed = error
                raise
            if len(self._cursors) > CURSORS_CACHED_MAX:
                self._cursors.clear()
            self._cursors.update(batch.cursors)
            self._head, self._tree = head, tree
            self._commits += 1
            self._failed = None
        for request, ranks in placed:
            if ranks is not None:
                request.receipts = [
                    Receipt(rank, event_id, head.size, head.root)
                    for rank, event_id in zip(ranks, request.ids, strict=True)
                ]

    def _place(self, request: _Request, batch: _Batch) -> list[int] | None:
        """Give each event of a request its rank; None, and an error in the request, when one is refused."""
        mark = len(batch.ids)
        before = dict(batch.cursors)
        ranks = []
        for event, value, event_id in zip(request.events, request.values, request.ids, strict=True):
            producer = event.producer
            cursor = batch.cursors[producer] if producer in batch.cursors else self.cursor(producer)
            if cursor is None or event.sequence > cursor[0]:
                ranks.append(batch.add(producer, event.sequence, event_id, value))
                continue
            rank = batch.ranks.get(event_id)
            if rank is None:
                stored = self._store.get("ids", event_id)
                rank = None if stored is None else int.from_bytes(stored, "big")
            if rank is None:
                batch.forget(mark, before)
                request.error = EquivocationError(
                    f"{self.path}: producer {producer!r} used sequence {event.sequence} for event {event_id.hex()}, "
                    f"but has reached sequence {cursor[0]} (event {cursor[1].hex()})"
                )
                return None
            ranks.append(rank)
        return ranks

    def at(self, rank: int) -> Event:
        """The event at a rank, checked against its id and its leaf.

        Raises IndexError unless 0 <= rank < size, IntegrityError with the rank for a damaged event, RetiredError for
        one whose payload was removed.
        """
        return self._present(rank, self._read(rank))

    def _read(self, rank: int) -> Event | Retired:
        self._check_open()
        size = self._head.size
        if not 0 <= rank < size:
            raise IndexError(f"Ledger.at: rank must be in [0, {size}), got {rank}")
        try:
            value = self._store.get("log", layout.log_key(rank))
            tile = self._store.get("tree", layout.tile_key(0, rank // layout.TILE_HASHES)) or b""
        except IntegrityError as error:
            raise IntegrityError(f"{self.path}: rank {rank} can't be read: {error}", (rank,), error.file) from error
        at = rank % layout.TILE_HASHES * HASH_BYTES
        return self._checked(rank, value, None, tile[at : at + HASH_BYTES] or None)

    def _present(self, rank: int, found: Event | Retired) -> Event:
        if isinstance(found, Retired):
            raise RetiredError(
                f"{self.path}: rank {rank} is retired: the {found.length} bytes of event {found.id.hex()} were removed",
                (rank,),
            )
        return found

    def _checked(self, rank: int, value: bytes | None, hashed: bytes | None, leaf: bytes | None) -> Event | Retired:
        fault = state.check_event(rank, value, hashed, leaf)
        if fault is not None:
            raise IntegrityError(
                f"{self.path}: rank {rank} (log/{layout.log_key(rank).hex()}) {fault}",
                (rank,),
                f"log/{layout.log_key(rank).hex()}",
            )
        assert value is not None
        if is_retired(value):
            return Retired.decode(value)
        try:
            return Event.decode(value[32:])
        except StorageError as error:
            raise IntegrityError(
                f"{self.path}: rank {rank} holds no event: {error}", (rank,), f"log/{layout.log_key(rank).hex()}"
            ) from error

    def get(self, event_id: bytes) -> Event:
        """The event with an id of 32 bytes. Raises KeyError for an unknown one, else as `at`."""
        return self.at(self.rank_of(event_id))

    def rank_of(self, event_id: bytes) -> int:
        """The rank of the event with an id. Raises KeyError for an unknown one.

        Where `ids` disagrees with the log (status DEGRADED) the log itself is searched.
        """
        self._check_open()
        if type(event_id) is not bytes or len(event_id) != 32:
            raise ValueError(f"Ledger.get: an id is 32 bytes, got {event_id!r}")
        try:
            value = self._store.get("ids", event_id)
        except IntegrityError:
            value = None
            self.manifest_status = max(self.manifest_status, opening.DEGRADED, key=opening.SEVERITY.index)
        if value is not None:
            rank = int.from_bytes(value, "big")
            if rank < self._head.size and state.stored_id(self._store.get("log", value) or b"") == event_id:
                return rank
            self.manifest_status = max(self.manifest_status, opening.DEGRADED, key=opening.SEVERITY.index)
        if self.manifest_status != opening.HEALTHY:
            for key, stored in self._store.scan("log"):
                if state.stored_id(stored) == event_id:
                    return int.from_bytes(key, "big")
        raise KeyError(f"no event has the id {event_id.hex()}")

    @overload
    def scan(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Event]]: ...

    @overload
    def scan(
        self, start: int = 0, stop: int | None = None, *, retired: bool
    ) -> Iterator[tuple[int, Event | Retired]]: ...

    def scan(
        self, start: int = 0, stop: int | None = None, *, retired: bool = False
    ) -> Iterator[tuple[int, Event]] | Iterator[tuple[int, Event | Retired]]:
        """Ranks and events in order, each checked as `at` does; about 1 MiB is held at a time.

        retired: give out `Retired(id, length)` for an event whose payload was removed, instead of raising there.

        Raises ValueError unless 0 <= start <= stop <= size; IntegrityError at the first damaged rank, RetiredError at
        the first retired one, after all events before it were given out. Scanning on from the next rank is possible.
        """
        self._check_open()
        size = self._head.size
        stop = size if stop is None else stop
        if not 0 <= start <= stop <= size:
            raise ValueError(f"Ledger.scan: need 0 <= start <= stop <= {size}, got {start} and {stop}")
        found = self._scan(start, stop)
        return found if retired else ((rank, self._present(rank, event)) for rank, event in found)

    def _scan(self, start: int, stop: int) -> Iterator[tuple[int, Event | Retired]]:
        self._check_open()
        rank = start
        while rank < stop:
            for found, event in self._chunks(rank, stop):
                self._check_open()
                yield found, event
                rank = found + 1
            if rank < stop:
                yield rank, self._read(rank)  # the engine gave out fewer than there are: this raises, or goes on
                rank += 1

    def _chunks(self, start: int, stop: int) -> Iterator[tuple[int, Event | Retired]]:
        """Events from `start`, ending early where the engine fails or leaves a rank out."""
        values: list[bytes] = []
        held, first = 0, start
        try:
            for key, value in self._store.scan("log", layout.log_key(start), layout.log_key(stop)):
                if key != layout.log_key(first + len(values)) or len(value) > state.VALUE_BYTES_MAX:
                    break
                values.append(value)
                held += len(value)
                if held >= SCAN_CHUNK_BYTES or (first + len(values)) % layout.TILE_HASHES == 0:
                    yield from self._checked_chunk(first, values)
                    first, held, values = first + len(values), 0, []
        except IntegrityError as error:
            if error.ranks:
                raise
        yield from self._checked_chunk(first, values)

    def _checked_chunk(self, first: int, values: list[bytes]) -> Iterator[tuple[int, Event | Retired]]:
        if not values:
            return
        hashed = hashing.event_ids([value[32:] for value in values])
        try:
            tile = self._store.get("tree", layout.tile_key(0, first // layout.TILE_HASHES)) or b""
        except IntegrityError as error:
            text = f"{self.path}: rank {first} can't be checked: {error}"
            raise IntegrityError(text, (first,), error.file) from error
        at = first % layout.TILE_HASHES * HASH_BYTES
        for i, (value, event_id) in enumerate(zip(values, hashed, strict=True)):
            leaf = tile[at + HASH_BYTES * i : at + HASH_BYTES * (i + 1)]
            yield first + i, self._checked(first + i, value, event_id, leaf or None)

    def retire(self, ranks: Iterable[int]) -> list[int]:
        """Remove the payloads of events from the ledger and from its files; the ranks that had one, ascending.

        The leaves stay, and so do root, ids, cursors and every proof. Retiring twice changes nothing. Files that a
        reader, a copy or the disk itself still holds are beyond it.

        Raises IndexError for a rank outside [0, size), IntegrityError for a damaged event, before anything is written;
        ReadOnlyError, StorageFullError, ClosedError as `append`.
        """
        self._check_open()
        if self.mode != "rw":
            raise ReadOnlyError(f'{self.path}: opened with mode "r", retire needs "rw"')
        with self._commit_lock:
            self._check_open()
            done = retire_events(self._store, str(self.path), self._head.size, ranks)
            self._store.compact()
        return done

    def head(self) -> Head:
        """Size and root."""
        self._check_open()
        return self._head

    def prove(self, rank: int, size: int | None = None) -> list[bytes]:
        """The hashes, leaf to root, that prove the event at `rank` in the tree of the first `size` events (of all).

        Raises ValueError unless 0 <= rank < size <= the ledger's size, IntegrityError for damaged tiles.
        """
        from storage import proving

        self._check_open()
        head = self._head
        return proving.inclusion(self._store, self._tree, head, rank, head.size if size is None else size)

    def consistency(self, m: int, n: int | None = None) -> list[bytes]:
        """The hashes that prove the first m events a prefix of the first n (of all); empty for m = 0 and m = n.

        Raises ValueError unless 0 <= m <= n <= the ledger's size, IntegrityError for damaged tiles.
        """
        from storage import proving

        self._check_open()
        head = self._head
        return proving.consistency(self._store, self._tree, head, m, head.size if n is None else n)

    def checkpoint(self, signer: Signer) -> bytes:
        """Sign size and root as a C2SP checkpoint whose origin is the key's name; the note, kept here and in
        RUN/checkpoint before this returns. The same size again gives the same note, with all that signed it since.

        What is signed is on the disk, also with sync "os". Raises ForkError or RollbackError, and signs nothing, where
        a checkpoint of this origin that is kept here is not one of this tree; IntegrityError where one can't be read;
        ReadOnlyError, StorageFullError, ClosedError as `append`.
        """
        from storage import checkpoint_store

        with self._commit_lock:
            self._check_signing()
            if not self._sync:
                self._store.sync()
            if self._signs_for != signer.name:
                checkpoint_store.require_consistent(self._store, self._head, signer.name, self._head_path.parent)
            note = checkpoint_store.sign(self._store, self._head, signer, self._head_path.parent)
            self._signs_for = signer.name
            self._rewrite_head(durable=True)
        return note

    def checkpoints(self) -> list[bytes]:
        """The notes of all checkpoints that are kept, by size. Their signatures are not verified here."""
        from storage import checkpoint_store

        self._check_open()
        return [note for _, note in checkpoint_store.stored(self._store)]

    def add_signatures(self, size: int, signatures: Sequence[Signature]) -> bytes:
        """Add cosignatures to the kept checkpoint of a size; the note. Raises KeyError where none is kept."""
        from storage import checkpoint_store

        with self._commit_lock:
            self._check_signing()
            return checkpoint_store.add_signatures(self._store, size, tuple(signatures), self._head_path.parent)

    def _check_signing(self) -> None:
        self._check_open()
        if self.mode != "rw":
            raise ReadOnlyError(f'{self.path}: opened with mode "r", a checkpoint needs "rw"')
        if self._failed is not None:
            raise type(self._failed)(f"{self.path}: nothing is signed after a failed append: {self._failed}")

    def cursor(self, producer: str) -> tuple[int, bytes] | None:
        """The last sequence number and id of a producer, or None."""
        self._check_open()
        if producer not in self._cursors:
            key = layout.cursor_key(producer)
            value = self._store.get("meta", key)
            if self.mode != "rw":
                return None if value is None else layout.unpack_cursor(key, value)
            self._cursors[producer] = None if value is None else layout.unpack_cursor(key, value)
        return self._cursors[producer]

    def _rewrite_head_when_due(self) -> None:
        """Before a commit, not after it: a failure then loses nothing that was confirmed."""
        if self._commits >= COMMITS_PER_HEAD:
            self._rewrite_head(durable=self._sync)

    def _rewrite_head(self, *, durable: bool) -> None:
        if durable and not self._sync:
            self._store.sync()  # the store first: HEAD names what must be there
        try:
            head_file.write(self._head_path, self._head, durable=durable)
        except OSError as error:
            raise opening.mapped_os_error(error, layout.head_path(self.path)) from error
        self._written_head = self._head
        self._commits = 0

    def close(self) -> None:
        """Rewrite HEAD and release the store. A second call does nothing."""
        if self._closed is not None:
            return
        with self._commit_lock:
            if self._closed is not None:
                return
            try:
                if self.mode == "rw" and self._failed is None and self._written_head != self._head:
                    self._rewrite_head(durable=True)
            finally:
                self._closed = "is closed"
                _open_ledgers.discard(self)
                self._finalizer.detach()
                self._store.close()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(f"{self.path}: the ledger {self._closed}")

    def _after_fork(self) -> None:
        self._closed = "was opened before this process was forked: open it again here"
        self._commit_lock = threading.Lock()
        self._queue_lock = threading.Lock()
        self._finalizer.detach()
        self._store.abandon()

    def __enter__(self) -> Ledger:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StorageFullError:
            if error is None:
                raise


class _Batch:
    """The new events of a group commit."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.ids: list[bytes] = []
        self.values: list[bytes] = []
        self.ranks: dict[bytes, int] = {}
        self.cursors: dict[str, tuple[int, bytes]] = {}

    def add(self, producer: str, sequence: int, event_id: bytes, value: bytes) -> int:
        rank = self.size + len(self.ids)
        self.ids.append(event_id)
        self.values.append(value)
        self.ranks[event_id] = rank
        self.cursors[producer] = (sequence, event_id)
        return rank

    def forget(self, mark: int, cursors: dict[str, tuple[int, bytes]]) -> None:
        """Back to `mark` events."""
        for event_id in self.ids[mark:]:
            del self.ranks[event_id]
        del self.ids[mark:]
        del self.values[mark:]
        self.cursors = cursors

    def entries(self, size: int) -> list[Entry]:
        out: list[Entry] = []
        for rank, (event_id, value) in enumerate(zip(self.ids, self.values, strict=True), size):
            key = layout.log_key(rank)
            out.append(("log", key, event_id + value))
            out.append(("ids", event_id, key))
        for producer, (sequence, event_id) in self.cursors.items():
            out.append(("meta", layout.cursor_key(producer), layout.pack_cursor(sequence, event_id)))
        return out


_open_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _abandon_all() -> None:
    for ledger in list(_open_ledgers):
        ledger._after_fork()
    _open_ledgers.clear()


os.register_at_fork(after_in_child=_abandon_all)

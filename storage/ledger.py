"""The ledger: an append-only sequence of events that anybody can check."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, overload

from storage import event_batch, layout, opening, state
from storage.closing import Closing
from storage.committer import Committer, Request
from storage.engine.files import ENGINES, Engine
from storage.engine.store import Store
from storage.errors import (
    ClosedError,
    EventTooLargeError,
    IntegrityError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
)
from storage.event import EVENT_BYTES_MAX, Event
from storage.mending.retire import Retired, retire_events
from storage.receipt import Receipt
from storage.state import TreeState
from storage.stored_events import StoredEvents
from storage.tree import Head
from storage.writer import Writer

if TYPE_CHECKING:
    from concurrent.futures import Future

    from storage.mending.repair import RepairReport
    from storage.notes.keys import Signer
    from storage.notes.note import Signature
    from storage.publication.publish import PublishReport
    from storage.reader import Reader
    from storage.replay.cursor import Cursor
    from storage.replay.exporting import ExportReport
    from storage.replay.merging import MergedEvent

Mode = Literal["rw", "r"]
Sync = Literal["fsync", "os"]

BYTES_BESIDE_EFFECT_MAX = 1024  # 2 names of 64 bytes, 16 parents of 34, 4 numbers of 9, keys and headers: 744


class Ledger:
    """An open ledger; use `Ledger.open`. Any thread may append and read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(folder + "/run") as ledger:
    ...     receipt = ledger.append(Event(producer="a", effect=b"hello", kind="note.text", sequence=0, tick=0))
    ...     receipt.rank, receipt.size, ledger.at(0).effect
    (0, 1, b'hello')
    """

    def __init__(
        self,
        path: Path,
        sync: Sync,
        store: Store,
        opened: opening.Opened,
        writer: Writer | None,
        *,
        max_event_bytes: int,
    ) -> None:
        self.path = path
        self.manifest_status = opened.status
        self.problems = opened.problems
        self.recovered = opened.recovered
        self.dropped_bytes = opened.dropped_bytes
        self._head_path = layout.head_path(path.absolute())  # the current folder may change
        self._sync: Sync = sync
        self._max_event_bytes = max_event_bytes
        self._signs_for: str | None = None  # the origin whose kept checkpoints were all held against the tree
        self._closed: str | None = None
        self._closing: Closing | None = Closing()  # None in a forked child
        self._store = store
        self._events = StoredEvents(store, path)
        self._opened = opened
        self._writer = writer
        self._committer = None if writer is None else Committer(writer.commit, writer.keep_head)
        self._finalizer = weakref.finalize(self, _release, self._committer, writer, store)
        _open_ledgers.add(self)

    @property
    def mode(self) -> Mode:
        """ "rw", or "r" for a ledger opened to read, and for one that can't be appended to since a sync failed."""
        return "r" if self._writer is None or self._writer.sync_error is not None else "rw"

    @property
    def _tree(self) -> TreeState:
        return self._opened.tree if self._writer is None else self._writer.tree

    @property
    def _head(self) -> Head:
        return self._opened.head if self._writer is None else self._writer.head

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mode: Mode = "rw",
        sync: Sync = "fsync",
        expect: Head | None = None,
        *,
        engine: Engine | None = None,
        max_event_bytes: int = EVENT_BYTES_MAX,
        through: Callable[[Store], Store] | None = None,
    ) -> Ledger:
        """Open the ledger of a RUN directory; mode "rw" makes one where there is nothing yet, "r" alters no byte.

        sync: "fsync" returns from an append after the disk has it, "os" after the system has it (a power cut may
        lose the last events, which HEAD then shows).  expect: a head that the ledger must contain.
        engine: "rocksdb" or "lmdb" for a new ledger (else RocksDB); where there is one already, what it must be.
        max_event_bytes: longer events are refused before they are hashed.  through: a function that puts another store
        in front of the engine's, for tests and measurements.

        Raises NotALedgerError, IntegrityError for damage and gaps, RollbackError for a ledger shorter than its HEAD
        or than `expect`, ForkError for another root than `expect`, StorageError for another engine, and with mode "rw"
        LockedError, ReadOnlyError, StorageFullError. Mode "r" opens a damaged or shortened ledger too:
        `manifest_status` and `problems` say so.
        """
        if mode not in ("rw", "r"):
            raise ValueError(f'Ledger.open: mode must be "rw" or "r", got {mode!r}')
        if sync not in ("fsync", "os"):
            raise ValueError(f'Ledger.open: sync must be "fsync" or "os", got {sync!r}')
        if expect is not None and not isinstance(expect, Head):
            raise TypeError(f"Ledger.open: expect must be a Head, got {type(expect).__name__}")
        if engine is not None and engine not in ENGINES:
            raise ValueError(f"Ledger.open: engine must be one of {', '.join(ENGINES)}, got {engine!r}")
        if not 0 < max_event_bytes <= EVENT_BYTES_MAX:
            raise ValueError(f"Ledger.open: max_event_bytes must be in [1, {EVENT_BYTES_MAX}], got {max_event_bytes!r}")

        def open_run(run: Path, writable: bool, expect: Head | None) -> tuple[Store, opening.Opened]:
            store, opened = opening.open_run(
                run, writable=writable, expect=expect, engine=engine, durable=sync == "fsync"
            )
            if through is None:
                return store, opened
            try:
                return through(store), opened
            except BaseException:
                store.close()
                raise

        run = Path(path)
        try:
            whole = run.absolute()  # the current folder may change
        except OSError as error:
            raise StorageError(f"{run}: the current folder is gone, nothing can be opened in it") from error
        store, opened = open_run(run, mode == "rw", expect)
        if mode == "r":
            return cls(run, sync, store, opened, None, max_event_bytes=max_event_bytes)
        writer = Writer(run, store, opened, partial(open_run, whole), durable=sync == "fsync")
        return cls(run, sync, writer.store, opened, writer, max_event_bytes=max_event_bytes)

    def append(self, event: Event, sync: Sync | None = None) -> Receipt:
        """Append one event. The same event again returns its first rank.

        sync: "fsync" or "os", for this event instead of the ledger's. Where it is "fsync", the event and all before
        it are on the disk when the receipt comes.

        Raises EquivocationError, EventTooLargeError, ReadOnlyError, StorageFullError, SyncError, ClosedError.
        """
        committer, request = self._request((event,), sync)
        return committer.run(request)[0]

    def append_many(self, events: Sequence[Event], sync: Sync | None = None) -> list[Receipt]:
        """Append events as one atomic batch: all or none. `sync` and what is raised as `append`.

        Callers in several threads share one commit, and with it one sync.
        """
        committer, request = self._request(tuple(events), sync)
        return committer.run(request)

    def submit(self, events: Sequence[Event], sync: Sync | None = None) -> Future[list[Receipt]]:
        """Queue events as one atomic batch and return at once, or when the queue, 8 MiB, has room.

        The future's result is what `append_many` returns or raises. `close` first commits what was submitted.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(folder + "/run") as ledger:
        ...     events = [Event(producer="a", effect=b"", kind="note.text", sequence=i, tick=0) for i in range(3)]
        ...     futures = [ledger.submit([event]) for event in events]
        ...     [future.result()[0].rank for future in futures]
        [0, 1, 2]
        """
        committer, request = self._request(tuple(events), sync)
        return committer.submit(request)

    def _request(self, events: tuple[Event, ...], sync: Sync | None) -> tuple[Committer, Request]:
        self._check_open()
        if self._writer is None or self._committer is None:
            raise ReadOnlyError(f'{self.path}: opened with mode "r", append needs "rw"')
        if sync is None:
            sync = self._sync
        elif sync not in ("fsync", "os"):
            raise ValueError(f'Ledger.append: sync must be "fsync" or "os", got {sync!r}')
        if self._max_event_bytes < EVENT_BYTES_MAX:
            _check_sizes(events, self._max_event_bytes)
        return self._committer, Request(events, event_batch.prepare(events), sync == "fsync")

    def at(self, rank: int) -> Event:
        """The event at a rank, checked against its id and its leaf.

        Raises IndexError unless 0 <= rank < size, IntegrityError with the rank for a damaged event, RetiredError for
        one whose payload was removed.
        """
        return self._events.present(rank, self._read(rank))

    def _read(self, rank: int) -> Event | Retired:
        self._check_open()
        size = self._head.size
        if not 0 <= rank < size:
            raise IndexError(f"Ledger.at: rank must be in [0, {size}), got {rank}")
        return self._events.read(rank)

    def get(self, event_id: bytes) -> Event:
        """The event with an id of 32 bytes. Raises KeyError for an unknown one, else as `at`."""
        return self.at(self.rank_of(event_id))

    def rank_of(self, event_id: bytes) -> int:
        """The rank of the event with an id. Raises KeyError for an unknown one.

        Where `ids` disagrees with the log (status DEGRADED) the log itself is searched; IntegrityError, naming the
        ranks, where it isn't found and may be that of an event which can't be read.
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
            if rank >= self._head.size and self._is_on_its_way(rank):
                raise KeyError(f"no event has the id {event_id.hex()}")
            if rank < self._head.size and state.stored_id(self._store.get("log", value) or b"") == event_id:
                return rank
            self.manifest_status = max(self.manifest_status, opening.DEGRADED, key=opening.SEVERITY.index)
        if self.manifest_status != opening.HEALTHY:
            found = self._events.find(event_id, self._head.size)
            if found is not None:
                return found
        raise KeyError(f"no event has the id {event_id.hex()}")

    def _is_on_its_way(self, rank: int) -> bool:
        """Whether the store has an event that the ledger has not yet: its commit waits for the disk."""
        stored = None if self._writer is None else state.read_head(self._store, str(self.path))
        return stored is not None and rank < stored.size

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
        return self._scan(start, stop, retired)

    def _scan(self, start: int, stop: int, retired: bool) -> Iterator[tuple[int, Event | Retired]]:
        self._check_open()
        rank = start
        while rank < stop:
            for chunk in self._events.chunks(rank, stop, retired):
                for pair in chunk:
                    if self._closed is not None:
                        self._check_open()
                    yield pair
                rank += len(chunk)
            if rank < stop:
                # The engine gave out fewer than there are: this raises, or goes on.
                found = self._read(rank)
                yield rank, found if retired else self._events.present(rank, found)
                rank += 1

    def retire(self, ranks: Iterable[int]) -> list[int]:
        """Remove the payloads of events from the ledger and from its files; the ranks that had one, ascending.

        The leaves stay, and so do root, ids, cursors and every proof. Retiring twice changes nothing. Files that a
        reader, a copy or the disk itself still holds are beyond it.

        Raises IndexError for a rank outside [0, size), IntegrityError for a damaged event, before anything is written;
        ReadOnlyError, StorageFullError, ClosedError as `append`.
        """
        with self._alone("retire"):
            done = retire_events(self._store, str(self.path), self._head.size, ranks)
            self._store.compact()
        return done

    def salvage(self, into: str | os.PathLike[str]) -> RepairReport:
        """Write what can be read of a ledger opened with mode "r" into a new RUN directory; see `salvage_ledger`."""
        from storage.mending import repair

        self._check_open()
        if self._writer is not None:
            raise StorageError(f'{self.path}: salvage needs a ledger opened with mode "r"')
        return repair.salvage_run(self.path, Path(into))

    def repair(self) -> RepairReport:
        """Rebuild what is derived from the log (`ids`, tiles, cursors), byte for byte; then the ledger is HEALTHY.

        For a ledger that was opened to write and is DEGRADED. Damaged or missing events need `repair_ledger`, which
        works on a closed ledger: IntegrityError says so and nothing is changed. Raises ReadOnlyError, ClosedError.
        """
        from storage.mending import repair

        with self._alone("repair") as writer:
            report = repair.repair_open(self._store, str(self.path), writer.head, writer.patched)
            writer.repaired()
            self.manifest_status = opening.HEALTHY
            self.problems.clear()
        return report

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
        from storage.notes import checkpoint_store

        with self._alone("a checkpoint") as writer:
            writer.sync()
            if self._signs_for != signer.name:
                checkpoint_store.require_consistent(self._store, self._head, signer.name, self._head_path.parent)
            note = checkpoint_store.sign(self._store, self._head, signer, self._head_path.parent)
            self._signs_for = signer.name
            writer.rewrite_head(durable=True)
        return note

    def checkpoints(self) -> list[bytes]:
        """The notes of all checkpoints that are kept, by size. Their signatures are not verified here."""
        from storage.notes import checkpoint_store

        self._check_open()
        return [note for _, note in checkpoint_store.stored(self._store)]

    def add_signatures(self, size: int, signatures: Sequence[Signature]) -> bytes:
        """Add cosignatures to the kept checkpoint of a size; the note. Raises KeyError where none is kept."""
        from storage.notes import checkpoint_store

        with self._alone("a checkpoint"):
            return checkpoint_store.add_signatures(self._store, size, tuple(signatures), self._head_path.parent)

    def publish(
        self,
        url: str,
        signer: Signer | None = None,
        *,
        every: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> PublishReport:
        """Publish to a folder (a path, file:///…) or an object store (s3://bucket/prefix, …): immutable tiles, leaves
        and payloads, then the signed checkpoint. Only what is new is written; a publication that was cut short is
        finished by the next one. The layout: docs/formats/published.md.

        signer: signs the present head, which needs mode "rw"; without it the largest kept checkpoint is published, and
        what it covers.  every: look at every object again, and write those that are missing.

        Raises SignatureError where there is neither, PublishConflict where another log is published there or another
        publication came first, RollbackError and ForkError where more or other events of this log are; ObjectStoreError
        where the place can't be reached, MissingExtraError without obstore; IntegrityError for damaged events.
        """
        from storage.publication import publish

        self._check_open()
        return publish.publish(self, url, signer, every=every, progress=progress)

    def export(
        self,
        *,
        jsonl: str | os.PathLike[str] | None = None,
        mcap: str | os.PathLike[str] | None = None,
        tick_ns: int = 1,
        progress: Callable[[int, int], None] | None = None,
    ) -> ExportReport:
        """Write all events to one file, JSON lines or MCAP (docs/formats/events-jsonl.md, events-mcap.md), which is
        there whole or not at all. Retired events are told as such.

        tick_ns: nanoseconds of a tick, for the times of MCAP.

        Raises IntegrityError for a damaged event, ReadOnlyError and StorageFullError where the file can't be written,
        MissingExtraError without the package mcap.
        """
        from storage.replay import exporting

        self._check_open()
        return exporting.export(self, jsonl=jsonl, mcap=mcap, tick_ns=tick_ns, progress=progress)

    @contextmanager
    def _alone(self, what: str) -> Iterator[Writer]:
        """The writer, while nobody commits. Raises ReadOnlyError, ClosedError, and what a failed commit left."""
        self._check_open()
        if self._writer is None:
            raise ReadOnlyError(f'{self.path}: opened with mode "r", {what} needs "rw"')
        with self._writer.lock:
            self._check_open()
            self._writer.recover()
            yield self._writer

    def flush(self, *, head_file: bool = False) -> Head:
        """Return after everything appended is on the disk, also with sync "os"; with `head_file` HEAD names it, too.

        The head up to which that holds. Raises ReadOnlyError, StorageFullError, SyncError, ClosedError.
        """
        with self._alone("a flush") as writer:
            if head_file:
                writer.rewrite_head(durable=True)
            else:
                writer.sync()
            return writer.head

    def frontier(self) -> bytes:
        """The hashes of the complete subtrees of the tree, largest first: what a tree needs to grow on."""
        self._check_open()
        return self._tree.frontier

    def cursor_at(self, rank: int) -> Cursor:
        """The cursor before the event at a rank; see `storage.replay.cursor`. Raises IndexError, IntegrityError."""
        from storage.replay.cursor import cursor_at

        return cursor_at(self, rank)

    def scan_from(self, cursor: Cursor, stop: int | None = None) -> Iterator[tuple[int, Event]]:
        """`scan` from a cursor on, once everything before it is known to be what it was.

        Raises RollbackError for a ledger shorter than the cursor, ForkError for another history; else as `scan`.
        """
        from storage.replay.cursor import require_before

        require_before(self, cursor)
        return self.scan(cursor.rank, stop)

    def merge(self, others: Iterable[Reader]) -> Iterator[MergedEvent]:
        """This ledger and others as one sequence, whatever their order: see `storage.merge`."""
        from storage.replay.merging import merge

        return merge((self, *others))

    def cursor(self, producer: str) -> tuple[int, bytes] | None:
        """The last sequence number and id of a producer, or None."""
        self._check_open()
        return state.read_cursor(self._store, producer) if self._writer is None else self._writer.cursor(producer)

    def close(self) -> None:
        """Commit what is queued, rewrite HEAD and release the store. A second call waits until the first is done."""
        closing = self._closing
        if closing is None:
            return
        if self._closed is None and self._committer is not None:
            self._committer.close(f"{self.path}: the ledger is closed")
        if not closing.begin():
            return
        try:
            self._closed = "is closed"
            _open_ledgers.discard(self)
            self._finalizer.detach()
            if self._writer is not None:
                self._writer.close()
            else:
                self._store.close()
        finally:
            closing.end()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(f"{self.path}: the ledger {self._closed}")

    def _after_fork(self) -> None:
        self._closed = "was opened before this process was forked: open it again here"
        self._closing = None
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


def _release(committer: Committer | None, writer: Writer | None, store: Store) -> None:
    """Close the store of a ledger that nobody closed: collected, or open when the interpreter ends."""
    if committer is None or writer is None:
        store.close()
    else:
        committer.finish(writer.leave)


def _check_sizes(events: Sequence[Event], most: int) -> None:
    for event in events:
        if len(event.effect) + BYTES_BESIDE_EFFECT_MAX > most and (size := len(event.encode())) > most:
            raise EventTooLargeError(f"Event: {size} bytes, the limit of this ledger is {most}")


_open_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _abandon_all() -> None:
    for ledger in list(_open_ledgers):
        ledger._after_fork()
    _open_ledgers.clear()


os.register_at_fork(after_in_child=_abandon_all)

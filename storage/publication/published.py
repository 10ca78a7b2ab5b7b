"""Reading a published ledger: nothing it returns is believed, all is checked against the root of the checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, overload

from storage import event_batch, hashing, tree
from storage.errors import (
    ClosedError,
    ForkError,
    IntegrityError,
    NotALedgerError,
    NoteError,
    RollbackError,
    StorageError,
)
from storage.event import EVENT_BYTES_MAX, Event
from storage.layout import TILE_BYTES, TILE_HASHES
from storage.mending.retire import Retired, retired_error
from storage.notes import checkpoint as checkpoints
from storage.notes.note import NOTE_BYTES_MAX
from storage.publication import payload_bundle, tiles
from storage.publication.object_store import ObjectReader, ObjectStore
from storage.publication.payload_bundle import Elsewhere, Payload
from storage.publication.places import folder_of, holds_run, is_url, open_store
from storage.publication.published_tree import PublishedTree
from storage.publication.read_ahead import ReadAhead
from storage.tree import HASH_BYTES, Head

if TYPE_CHECKING:
    from storage.notes.keys import VerifierKey
    from storage.replay.exporting import ExportReport

CHECKPOINT: Final = "checkpoint"
READ_AHEAD_BYTES: Final = 4 << 20


def is_published(place: str) -> bool:
    """Whether a text names a published ledger and no run: any URL, or the path of a folder with a checkpoint.

    >>> is_published("s3://bucket/run"), is_published("/no/such/folder")
    (True, False)
    """
    if is_url(place):
        return True
    with suppress(OSError):
        folder = Path(place)
        return (folder / CHECKPOINT).is_file() and not holds_run(folder)
    return False


def open_published(url: str, key: VerifierKey | str | None = None, expect: Head | None = None) -> PublishedLedger:
    """Open the ledger that is published at a URL (or path) to read it.

    key: the log's verifier key; without it nobody is known to have signed the checkpoint.  expect: a head that the
    ledger must contain.

    Raises ObjectStoreError where the place can't be reached, NotALedgerError where nothing is published there,
    NoteError and SignatureError for a checkpoint that is none or not signed by the key, IntegrityError where the tiles
    don't lead to its root, RollbackError and ForkError for another history than `expect`.
    """
    from storage.notes.keys import VerifierKey

    if isinstance(key, str):
        key = VerifierKey.parse(key)
    store = open_store(url, writable=False)
    try:
        ledger = PublishedLedger(store, read_checkpoint(store), key)
        if expect is not None:
            ledger.require(expect)
    except BaseException:
        store.close()
        raise
    return ledger


def read_checkpoint(store: ObjectStore) -> bytes:
    """The checkpoint of a place. Raises NotALedgerError where there is none."""
    try:
        found = store.get(CHECKPOINT, NOTE_BYTES_MAX)
    except IntegrityError as error:
        raise NoteError(f"{store.url}: {error}") from error
    if found is None:
        raise NotALedgerError(f"{store.url}: no ledger is published there (expected {CHECKPOINT})")
    return found.data


class PublishedLedger:
    """A ledger read from where it is published; use `open_published`. Reads as `Ledger` does, in bounded memory, from
    one thread at a time.

    url: where.  origin: the log's name.  note: the bytes of its checkpoint.  problems: damage that was met and did not
    hinder reading.
    """

    mode: Literal["r"] = "r"

    def __init__(self, store: ObjectStore, note: bytes, key: VerifierKey | None = None) -> None:
        self.url = store.url
        self.path = store.url
        self.note = note
        try:
            checkpoint = checkpoints.decode(note)[0] if key is None else checkpoints.opened(note, key)[0]
        except StorageError as error:
            raise type(error)(f"{self.url}: checkpoint: {error}") from error
        self.origin = checkpoint.origin
        self._ahead = ReadAhead(store) if folder_of(store.url) is None else None
        self._wanted: set[int] = set()  # tiles that were asked for ahead
        self._bundle_bytes = READ_AHEAD_BYTES  # of the last bundle that was read
        self._place = store
        self._store: ObjectReader = self._ahead or store
        self._head = checkpoint.head()
        self._closed = False
        self.tree = PublishedTree(self._store, self.url, self._head)
        self._leaves: tuple[int, list[bytes | None]] | None = None
        self._bundle: tuple[int, list[Payload]] | None = None

    @property
    def problems(self) -> list[IntegrityError]:
        """Damage that was met and did not hinder reading: tiles that were made again from what lies below."""
        return self.tree.problems

    def head(self) -> Head:
        """Size and root that the checkpoint names."""
        self._check_open()
        return self._head

    def require(self, expect: Head) -> None:
        """Raises RollbackError or ForkError unless this ledger contains the head `expect`."""
        self._check_open()
        if expect.size > self._head.size:
            raise RollbackError(
                f"{self.url}: the ledger has {self._head.size} events, the head expected has {expect.size}: "
                f"ranks {self._head.size}..{expect.size - 1} are missing",
                expect.size,
                self._head.size,
            )
        root = self.root_at(expect.size)
        if root != expect.root:
            raise ForkError(
                f"{self.url}: the root of {expect.size} events is {root.hex()}, the head expected has "
                f"{expect.root.hex()}"
            )

    def root_at(self, size: int) -> bytes:
        """The root of the first `size` events."""
        return tree.frontier_root(tree.frontier_at(size, self.tree.hash_at))

    def at(self, rank: int) -> Event:
        """The event at a rank. Raises IndexError, IntegrityError and RetiredError as `Ledger.at`."""
        found = self._at(rank)
        if isinstance(found, Retired):
            raise retired_error(self.url, rank, found)
        return found

    def _at(self, rank: int) -> Event | Retired:
        self._check_open()
        if not 0 <= rank < self._head.size:
            raise IndexError(f"PublishedLedger.at: rank must be in [0, {self._head.size}), got {rank}")
        leaves, payloads = self._tile(rank // TILE_HASHES)
        i = rank % TILE_HASHES
        payload = payloads[i]
        event_id = hashing.event_id(payload) if isinstance(payload, bytes) else None
        return self._checked(rank, leaves[i], payload, event_id)

    def get(self, event_id: bytes) -> Event:
        """The event with an id, looked for in all leaves. Raises KeyError for an unknown one, else as `at`."""
        return self.at(self.rank_of(event_id))

    def rank_of(self, event_id: bytes) -> int:
        """The rank of the event with an id, looked for in all leaves. Raises KeyError for an unknown one.

        Raises IntegrityError, naming the ranks, where it isn't found and may be that of an event which can't be read.
        """
        self._check_open()
        if type(event_id) is not bytes or len(event_id) != 32:
            raise ValueError(f"PublishedLedger.get: an id is 32 bytes, got {event_id!r}")
        lost: list[int] = []
        for index in range(-(-self._head.size // TILE_HASHES)):
            for i, record in enumerate(self.tree.leaves(index)):
                if record is None:
                    lost.append(index * TILE_HASHES + i)
                elif record[1:33] == event_id:
                    return index * TILE_HASHES + i
        unread: list[int] = []
        for rank in lost:  # the payload may prove what the leaf would have said
            try:
                if self._at(rank).id == event_id:
                    return rank
            except IntegrityError:
                unread.append(rank)
        if unread:
            text = f"{self.url}: the id {event_id.hex()} isn't found, and {len(unread)} events can't be read"
            raise IntegrityError(f"{text}, the first at rank {unread[0]}", unread)
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
        """Ranks and events in order, as `Ledger.scan`; the events of one tile, at most 16 MiB, are held at a time."""
        self._check_open()
        size = self._head.size
        stop = size if stop is None else stop
        if not 0 <= start <= stop <= size:
            raise ValueError(f"PublishedLedger.scan: need 0 <= start <= stop <= {size}, got {start} and {stop}")
        return self._scan(start, stop, retired)

    def _scan(self, start: int, stop: int, retired: bool) -> Iterator[tuple[int, Event]]:
        rank = start
        while rank < stop:
            self._check_open()
            index = rank // TILE_HASHES
            tile_stop = min(stop, (index + 1) * TILE_HASHES)
            self.read_ahead(index, stop)
            for found, event in self._tile_events(rank, tile_stop):
                if isinstance(event, Retired) and not retired:
                    raise retired_error(self.url, found, event)
                yield found, event  # type: ignore[misc]
            rank = tile_stop

    def _tile_events(self, rank: int, stop: int) -> Iterator[tuple[int, Event | Retired]]:
        """The events of a part of one tile: those that lie in its bundle and are good in one call of the kernel."""
        first = rank - rank % TILE_HASHES
        leaves, payloads = self._tile(first // TILE_HASHES)
        hashes = self.tree.tile(first // TILE_HASHES)
        values = [
            record[1:33] + payload if record is not None and isinstance(payload, bytes) else None
            for record, payload in zip(leaves, payloads, strict=True)
        ]
        while rank < stop:
            whole = list(takewhile(lambda value: value is not None, values[rank - first : stop - first]))
            good = event_batch.checked(rank, whole, hashes[HASH_BYTES * (rank - first) :])  # type: ignore[arg-type]
            yield from good
            rank += len(good)
            if rank < stop:  # retired, in an object of its own, or damaged
                yield rank, self._at(rank)
                rank += 1

    def read_ahead(self, index: int, stop: int) -> None:
        """Begin to read the objects of a tile and of the next ones up to a rank, some 4 MiB of them."""
        if self._ahead is None:
            return
        if index not in self._wanted:  # not where reading went on
            self._ahead.forget()
            self._wanted.clear()
        size = max(1, self._bundle_bytes)
        for each in range(index, min(index + max(2, min(8, READ_AHEAD_BYTES // size)), -(-stop // TILE_HASHES))):
            if each in self._wanted:
                continue
            self._wanted.add(each)
            width = self.tree.width(0, each)
            if width == TILE_HASHES:
                self._ahead.want(tiles.tile_path(0, each), TILE_BYTES)
            self._ahead.want(tiles.entries_path(each, width), width * tiles.ENTRY_BYTES)
            self._ahead.want(tiles.payload_path(each, width), payload_bundle.BUNDLE_BYTES_MAX)
        self._wanted.discard(index - 1)

    def leaves(self, index: int) -> list[bytes | None]:
        """The leaves of a tile that are in the tree, None for others. Raises IntegrityError. The last ones are kept."""
        if self._leaves is None or self._leaves[0] != index:
            self._leaves = (index, self.tree.leaves(index))
        return self._leaves[1]

    def _tile(self, index: int) -> tuple[list[bytes | None], list[Payload]]:
        """Leaves and payloads of a tile; the last one is kept."""
        leaves = self.leaves(index)
        if self._bundle is None or self._bundle[0] != index:
            self._bundle = None  # two are never in memory
            self._bundle = (index, self._payloads(index, leaves))
        return leaves, self._bundle[1]

    def _payloads(self, index: int, leaves: list[bytes | None]) -> list[Payload]:
        """The bundle of a tile, its events unchecked. Raises IntegrityError with the ranks where it can't be read."""
        width = len(leaves)
        lengths = [None if record is None else tiles.leaf_parts(record)[1] for record in leaves]
        known = [length for length in lengths if length is not None]
        path = tiles.payload_path(index, width)
        bytes_max = payload_bundle.BUNDLE_BYTES_MAX if len(known) < width else payload_bundle.bytes_max(known)
        try:
            found, more = self._store.get(path, bytes_max), False
            if found is None and width < TILE_HASHES:
                found, more = self._store.get(tiles.payload_path(index), payload_bundle.BUNDLE_BYTES_MAX), True
            if found is None:
                raise IntegrityError(f"{path}: expected the events of a tile, got no object", file=path)
            self._bundle_bytes = len(found.data)
            return payload_bundle.unpack(found.data, lengths, path, more=more)
        except IntegrityError as error:
            first = index * TILE_HASHES
            raise IntegrityError(f"{self.url}: {error}", range(first, first + width), path) from error

    def _checked(self, rank: int, record: bytes | None, payload: Payload, event_id: bytes | None) -> Event | Retired:
        """The event of a payload whose id and leaf are those of the tree. Raises IntegrityError with the rank."""
        data, where = payload, tiles.payload_path(rank // TILE_HASHES, self.tree.width(0, rank // TILE_HASHES))
        if payload is Elsewhere.RETIRED:
            if record is None:
                path = tiles.entries_path(rank // TILE_HASHES, self.tree.width(0, rank // TILE_HASHES))
                raise self._damaged(rank, path, "a retired event without its leaf")
            return Retired(*tiles.leaf_parts(record))
        if payload is Elsewhere.BLOB and record is not None:
            data, where = self._blob(rank, record), tiles.blob_path(record[1:33])
            event_id = hashing.event_id(data)
        if not isinstance(data, bytes) or event_id is None:
            raise self._damaged(rank, where, "a number that is not the length in the leaf")
        at = rank % TILE_HASHES * HASH_BYTES
        computed = tree.leaf_hash(tree.leaf(event_id, len(data)))
        if computed != self.tree.tile(rank // TILE_HASHES)[at : at + HASH_BYTES]:
            raise self._damaged(rank, where, f"an event with the id {event_id.hex()}, which is not in the tree")
        try:
            return Event.decode(data)
        except StorageError as error:
            raise self._damaged(rank, where, str(error)) from error

    def _blob(self, rank: int, record: bytes) -> bytes:
        event_id, length = tiles.leaf_parts(record)
        path = tiles.blob_path(event_id)
        if length > EVENT_BYTES_MAX:
            raise self._damaged(rank, path, f"a leaf that names {length} bytes, above {EVENT_BYTES_MAX}")
        try:
            found = self._store.get(path, length)
        except IntegrityError as error:
            raise self._damaged(rank, path, str(error)) from error
        if found is None:
            raise self._damaged(rank, path, "no object")
        return found.data

    def _damaged(self, rank: int, where: str, text: str) -> IntegrityError:
        return IntegrityError(f"{self.url}: rank {rank} ({where}): {text}", (rank,), where)

    def prove(self, rank: int, size: int | None = None) -> list[bytes]:
        """The inclusion proof of a rank in the tree of `size` events (default: all), hashes leaf to root.

        Raises ValueError unless 0 <= rank < size <= the ledger's size, IntegrityError for damaged tiles.
        """
        self._check_open()
        size = self._head.size if size is None else size
        if not 0 <= rank < size <= self._head.size:
            raise ValueError(
                f"PublishedLedger.prove: need 0 <= rank < size <= {self._head.size}, got {rank} and {size}"
            )
        return tree.inclusion_proof(rank, size, self.tree.hash_at)

    def consistency(self, m: int, n: int | None = None) -> list[bytes]:
        """The proof that the first m events are a prefix of the first n (default: all); empty for m = 0 and m = n.

        Raises ValueError unless 0 <= m <= n <= the ledger's size, IntegrityError for damaged tiles.
        """
        self._check_open()
        n = self._head.size if n is None else n
        if not 0 <= m <= n <= self._head.size:
            raise ValueError(f"PublishedLedger.consistency: need 0 <= m <= n <= {self._head.size}, got {m} and {n}")
        return tree.consistency_proof(m, n, self.tree.hash_at) if m else []

    def export(
        self,
        *,
        jsonl: str | os.PathLike[str] | None = None,
        mcap: str | os.PathLike[str] | None = None,
        tick_ns: int = 1,
        progress: Callable[[int, int], None] | None = None,
    ) -> ExportReport:
        """Write all events to one file, as `Ledger.export`."""
        from storage.replay import exporting

        self._check_open()
        return exporting.export(self, jsonl=jsonl, mcap=mcap, tick_ns=tick_ns, progress=progress)

    def close(self) -> None:
        """Release the place. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._leaves = self._bundle = None
            if self._ahead is not None:
                self._ahead.close()
            self._place.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.url}: the ledger is closed")

    def __enter__(self) -> PublishedLedger:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

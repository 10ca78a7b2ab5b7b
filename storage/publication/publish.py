"""Publishing a ledger: immutable objects first, one signed checkpoint last. Written in docs/formats/published.md."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from storage import hashing, layout, state
from storage.errors import (
    ForkError,
    IntegrityError,
    NoteError,
    PublishConflict,
    RollbackError,
    SignatureError,
)
from storage.layout import TILE_HASHES
from storage.mending import retired_list
from storage.mending.retire import is_retired, ranges
from storage.notes import checkpoint as checkpoints
from storage.notes import checkpoint_store
from storage.notes.note import NOTE_BYTES_MAX, Note
from storage.opening import RECOVERY_DEGRADED
from storage.publication import payload_bundle, tiles
from storage.publication.object_store import Found, ObjectStore
from storage.publication.payload_bundle import Elsewhere, Payload
from storage.publication.places import open_store
from storage.publication.uploads import Uploads
from storage.tree import HASH_BYTES, leaf

if TYPE_CHECKING:
    from storage.ledger import Ledger
    from storage.notes.checkpoint import Checkpoint
    from storage.notes.keys import Signer

CHECKPOINT = "checkpoint"
GROUP = 1000  # tiles in one folder
Progress = Callable[[int, int], None]
TakeBlob = Callable[[bytes, bytes], None]


@dataclass(slots=True)
class PublishReport:
    """What a publication did.

    size, root: what the place's checkpoint names now.  ledger_size: events of the ledger.  size_before: events that
    were published before.  objects_written, bytes_written: new objects.  objects_there: those that an earlier attempt
    had left.  objects_deleted: partial tiles that full ones replace.  ranks_retired: payloads taken out, as ranges.
    """

    url: str
    origin: str = ""
    size: int = 0
    root: bytes = b""
    ledger_size: int = 0
    size_before: int = 0
    objects_written: int = 0
    bytes_written: int = 0
    objects_there: int = 0
    objects_deleted: int = 0
    ranks_retired: list[retired_list.Range] = field(default_factory=list)


def publish(
    ledger: Ledger, url: str, signer: Signer | None = None, *, every: bool = False, progress: Progress | None = None
) -> PublishReport:
    """Publish to a URL; see `Ledger.publish`."""
    store = open_store(url, writable=True)
    try:
        return publish_to(ledger, store, signer, every=every, progress=progress)
    finally:
        store.close()


def publish_to(
    ledger: Ledger,
    store: ObjectStore,
    signer: Signer | None = None,
    *,
    every: bool = False,
    progress: Progress | None = None,
) -> PublishReport:
    """Publish to an open place; see `Ledger.publish`."""
    if ledger.manifest_status == RECOVERY_DEGRADED:
        raise ledger.problems[0]
    found = store.get(CHECKPOINT, NOTE_BYTES_MAX)
    before = None if found is None else _read(found.data, store.url)
    checkpoint, note = _to_publish(ledger, signer)
    if before is not None:
        _require_prefix(ledger, before[0], checkpoint, store.url)
        if before[0].size > checkpoint.size:  # somebody published more of the same ledger
            checkpoint, note = before
    publication = _Publication(ledger, store, checkpoint, 0 if before is None else before[0].size)
    publication.upload(0 if every else publication.report.size_before, progress)
    if before is not None and before[1].text == note.text:
        note = before[1].with_signatures(tuple(one for one in note.signatures if one not in before[1].signatures))
    data = note.encode()
    if found is None or data != found.data:
        publication.replace(CHECKPOINT, data, found)
    publication.collect()
    publication.retire()
    return publication.report


def _read(data: bytes, url: str) -> tuple[Checkpoint, Note]:
    try:
        return checkpoints.decode(data)
    except NoteError as error:
        raise PublishConflict(f"{url}: checkpoint: {error}") from error


def _to_publish(ledger: Ledger, signer: Signer | None) -> tuple[Checkpoint, Note]:
    """The checkpoint to publish: a new one, or the largest that is kept in the ledger."""
    if signer is not None:
        return checkpoints.decode(ledger.checkpoint(signer))
    kept = [data for _, data in checkpoint_store.stored(ledger._store)]
    file = checkpoint_store.read_file(checkpoint_store.file_path(ledger.path))
    notes = [checkpoints.decode(data) for data in (*kept[-1:], *([] if file is None else [file]))]
    if not notes:
        raise SignatureError(f"{ledger.path}: publishing needs a signed checkpoint, the ledger has none")
    checkpoint, note = max(notes, key=lambda one: one[0].size)
    wrong = checkpoint_store.fault(ledger._store, ledger.head(), checkpoint, str(ledger.path))
    if wrong is not None:
        raise wrong
    return checkpoint, note


def _require_prefix(ledger: Ledger, there: Checkpoint, ours: Checkpoint, url: str) -> None:
    """Raises unless what is published is a prefix of this ledger."""
    if there.origin != ours.origin:
        raise PublishConflict(f"{url}: the ledger of {there.origin!r} is published there, got one of {ours.origin!r}")
    size = ledger.head().size
    if there.size > size:
        raise RollbackError(
            f"{url}: {there.size} events are published there, the ledger {ledger.path} has {size}", there.size, size
        )
    root = state.root_at(ledger._store, there.size)
    if root != there.root:
        raise ForkError(
            f"{url}: the checkpoint of {there.size} events there has the root {there.root.hex()}, the ledger "
            f"{ledger.path} {root.hex()}"
        )


class _Publication:
    """One publication of the first `size` events of a ledger."""

    def __init__(self, ledger: Ledger, store: ObjectStore, checkpoint: Checkpoint, size_before: int) -> None:
        self.ledger = ledger
        self.store = store
        self.size = checkpoint.size
        self._lock = threading.Lock()
        self.report = PublishReport(
            store.url,
            checkpoint.origin,
            checkpoint.size,
            checkpoint.root,
            ledger.head().size,
            size_before,
        )

    def upload(self, start: int, progress: Progress | None) -> None:
        """Every object of the ranks from `start` on, and of the tiles that cover them."""
        first = start // TILE_HASHES
        indices = range(first, -(-self.size // TILE_HASHES)) if start < self.size else range(0)
        with Uploads() as uploads:
            for index in indices:
                self._upload_events(uploads, index)
                if progress is not None:
                    progress(min(self.size, (index + 1) * TILE_HASHES) - start, self.size - start)
        with Uploads() as uploads:
            for path, data in self._tree_objects(start) if indices else ():
                uploads.add(len(data), self._put, path, data)
        self.store.flush()

    def _upload_events(self, uploads: Uploads, index: int) -> None:
        def add_blob(event_id: bytes, data: bytes) -> None:
            uploads.add(len(data), self._put, tiles.blob_path(event_id), data)

        leaves, bundle = self._tile(index, add_blob)
        lengths = [tiles.leaf_parts(record)[1] for record in leaves]
        size = payload_bundle.bytes_max(lengths)
        uploads.add(size, self._put_payload, tiles.payload_path(index, len(leaves)), lengths, bundle)
        entries = tiles.pack_entries(leaves)
        uploads.add(len(entries), self._put, tiles.entries_path(index, len(leaves)), entries)

    def _tile(self, index: int, take_blob: TakeBlob | None = None) -> tuple[list[bytes], list[Payload]]:
        """Leaves and bundle of a tile, checked against ids and tree: what is damaged is not published.

        A long event is handed on as it comes; the rest is at most 16 MiB.
        """
        first = index * TILE_HASHES
        stop = min(self.size, first + TILE_HASHES)
        hashes = self._hashes(0, index, stop - first)
        leaves: list[bytes] = []
        bundle: list[Payload] = []
        for rank, value in self._values(first, stop):
            if is_retired(value):
                leaves.append(value)
                bundle.append(Elsewhere.RETIRED)
                continue
            leaves.append(leaf(value[:32], len(value) - 32))
            if not payload_bundle.is_blob(len(value) - 32):
                bundle.append(value[32:])
                continue
            bundle.append(Elsewhere.BLOB)
            if take_blob is not None:
                at = HASH_BYTES * (rank - first)
                self._require(rank, state.check_event(rank, value, None, hashes[at : at + HASH_BYTES]))
                take_blob(value[:32], value[32:])
        found = hashing.event_ids([payload for payload in bundle if isinstance(payload, bytes)])
        stored = [record[1:33] for record, payload in zip(leaves, bundle, strict=True) if isinstance(payload, bytes)]
        if found != stored or tiles.leaf_hashes(leaves) != hashes:
            for _ in self.ledger.scan(first, stop, retired=True):
                pass  # raises at the rank that is damaged
            raise IntegrityError(f"{self.ledger.path}: ranks {first}..{stop - 1} changed while they were read")
        return leaves, bundle

    def _values(self, first: int, stop: int) -> Iterator[tuple[int, bytes]]:
        rank = first
        for key, value in self.ledger._store.scan("log", layout.log_key(first), layout.log_key(stop)):
            self._require(rank, None if key == layout.log_key(rank) else "is missing")
            yield rank, value
            rank += 1
        self._require(rank, None if rank == stop else "is missing")

    def _require(self, rank: int, fault: str | None) -> None:
        if fault is not None:
            where = f"log/{layout.log_key(rank).hex()}"
            raise IntegrityError(f"{self.ledger.path}: rank {rank} ({where}) {fault}", (rank,), where)

    def _hashes(self, level: int, index: int, width: int) -> bytes:
        key = layout.tile_key(level, index)
        data = (self.ledger._store.get("tree", key) or b"")[: width * HASH_BYTES]
        if len(data) != width * HASH_BYTES:
            where = f"tree/{key.hex()}"
            raise IntegrityError(
                f"{self.ledger.path}: {where} must have {width * HASH_BYTES} bytes, got {len(data)}", file=where
            )
        return data

    def _tree_objects(self, start: int) -> Iterator[tuple[str, bytes]]:
        for level, full, partial in tiles.widths(self.size):
            first = start >> (8 * level) >> 8
            for index in range(first, full):
                yield tiles.tile_path(level, index), self._hashes(level, index, TILE_HASHES)
            if partial:
                yield tiles.tile_path(level, full, partial), self._hashes(level, full, partial)

    def _put(self, path: str, data: bytes) -> None:
        if self.store.put_new(path, data):
            self._wrote(data)
            return
        try:
            there = self.store.get(path, len(data))
        except IntegrityError:
            there = None
        if there is None or there.data != data:
            raise PublishConflict(
                f"{self.store.url}: {path} is there with other bytes than those of {self.ledger.path}"
            )
        with self._lock:
            self.report.objects_there += 1

    def _put_payload(self, path: str, lengths: list[int], bundle: list[Payload]) -> None:
        data = payload_bundle.pack(bundle)
        if self.store.put_new(path, data):
            self._wrote(data)
        else:
            self._settle(path, lengths, bundle)
            with self._lock:
                self.report.objects_there += 1

    def _settle(self, path: str, lengths: list[int], ours: list[Payload]) -> None:
        """Make the bundle that is there ours, less what was retired here or there."""
        try:
            there = self.store.get(path, payload_bundle.bytes_max(lengths))
        except IntegrityError:
            there = None
        theirs: list[Payload] = []
        if there is not None:
            try:
                theirs = payload_bundle.unpack(there.data, lengths, path)
            except IntegrityError:
                theirs = []
        merged = [
            Elsewhere.RETIRED if i < len(theirs) and theirs[i] is Elsewhere.RETIRED else payload
            for i, payload in enumerate(ours)
        ]
        data = payload_bundle.pack(merged)
        if there is None or there.data != data:
            self.replace(path, data, there)

    def replace(self, path: str, data: bytes, there: Found | None) -> None:
        """Write an object in the place of the version that was read.

        A store may have written it and lost its answer: then what is there now is ours, and no conflict.
        """
        try:
            self.store.replace(path, data, None if there is None else there.etag)
        except PublishConflict:
            now = self.store.get(path, max(len(data), NOTE_BYTES_MAX))
            if now is None or now.data != data:
                raise
        self._wrote(data)

    def _wrote(self, data: bytes) -> None:
        with self._lock:
            self.report.objects_written += 1
            self.report.bytes_written += len(data)

    def collect(self) -> None:
        """Delete partial tiles whose full one is there and named by the checkpoint.

        Looked for where this publication, or one before it that was cut short, can have left any.
        """
        kinds = [(f"tile/{level}", 8 * level + 8) for level, _, _ in tiles.widths(self.size)]
        for top, shift in (*kinds, ("tile/entries", 8), ("payload", 8)):
            full = self.size >> shift
            first = max(0, (self.report.size_before >> shift) // GROUP - 1)
            for group in range(first, -(-full // GROUP)):
                folder = f"{top}/{tiles.number(group * GROUP)}"[:-4]  # without the last group of digits
                for name in self.store.folders(folder):
                    found = tiles.parse_path(f"{folder}/{name}/1") if name.endswith(".p") else None
                    if found is not None and found.index < full:
                        self._delete_all(f"{folder}/{name}")

    def _delete_all(self, folder: str) -> None:
        for path in list(self.store.list(folder)):
            self.store.delete(path)
            self.report.objects_deleted += 1

    def retire(self) -> None:
        """Take out the payloads of events that were retired since they were published."""
        found = self.store.get(retired_list.PATH, retired_list.BYTES_MAX)
        done = [] if found is None else retired_list.unpack(found.data)
        new = retired_list.without(self._retired(), done)
        done_with = -1
        for first, last in new:
            for index in range(max(done_with + 1, first // TILE_HASHES), last // TILE_HASHES + 1):
                self._retire_in(index)
                done_with = index
        if new:
            data = retired_list.pack(retired_list.union(done, new))
            self.replace(retired_list.PATH, data, found)
        self.report.ranks_retired = new

    def _retired(self) -> list[retired_list.Range]:
        scan = self.ledger._store.scan("log", layout.log_key(0), layout.log_key(self.size))
        return ranges(int.from_bytes(key, "big") for key, value in scan if is_retired(value))

    def _retire_in(self, index: int) -> None:
        """Make the bundles of a tile, and the blobs of its events, what the ledger still has."""
        leaves, bundle = self._tile(index)
        lengths = [tiles.leaf_parts(record)[1] for record in leaves]
        for record, payload in zip(leaves, bundle, strict=True):
            event_id, length = tiles.leaf_parts(record)
            if payload is Elsewhere.RETIRED and payload_bundle.is_blob(length):
                self.store.delete(tiles.blob_path(event_id))
        for path, width in self._bundles(index, len(leaves)):
            self._settle(path, lengths[:width], bundle[:width])

    def _bundles(self, index: int, width: int) -> list[tuple[str, int]]:
        """The payload bundles of a tile that are there; of an unfinished one also those of earlier sizes."""
        if width == TILE_HASHES:
            return [(tiles.payload_path(index), width)]
        listed = [(path, tiles.parse_path(path)) for path in self.store.list(f"payload/{tiles.number(index)}.p")]
        return [(path, name.width) for path, name in listed if name is not None and name.width <= width]

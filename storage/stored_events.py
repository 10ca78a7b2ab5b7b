"""What a store holds at the ranks of a ledger, each event checked against its id and its leaf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from storage import event_batch, layout, state
from storage.engine.store import Store
from storage.errors import IntegrityError, StorageError
from storage.event import Event
from storage.mending.retire import Retired, is_retired, retired_error
from storage.tree import HASH_BYTES

CHUNK_BYTES = 1 << 20
UNREAD_MAX = 1 << 12  # of so many ranks a search tries each alone; a size that never was has more
CHUNK_EVENTS = 64  # divides a tile; values and events of more leave the processor's second-level cache


class StoredEvents:
    """Reads `log` and the leaves of `tree`; `path` is what errors name. Ranks must be those of the ledger."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path

    def read(self, rank: int) -> Event | Retired:
        """What is stored at a rank. Raises IntegrityError naming it."""
        try:
            value = self._store.get("log", layout.log_key(rank))
            tile = self._store.get("tree", layout.tile_key(0, rank // layout.TILE_HASHES)) or b""
        except IntegrityError as error:
            raise IntegrityError(f"{self._path}: rank {rank} can't be read: {error}", (rank,), error.file) from error
        at = rank % layout.TILE_HASHES * HASH_BYTES
        return self._checked(rank, value, tile[at : at + HASH_BYTES] or None)

    def present(self, rank: int, found: Event | Retired) -> Event:
        """What was found, unless it is retired: then RetiredError."""
        if isinstance(found, Retired):
            raise retired_error(self._path, rank, found)
        return found

    def _checked(self, rank: int, value: bytes | None, leaf: bytes | None) -> Event | Retired:
        fault = state.check_event(rank, value, None, leaf)
        if fault is not None:
            raise IntegrityError(
                f"{self._path}: rank {rank} (log/{layout.log_key(rank).hex()}) {fault}",
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
                f"{self._path}: rank {rank} holds no event: {error}", (rank,), f"log/{layout.log_key(rank).hex()}"
            ) from error

    def find(self, event_id: bytes, size: int) -> int | None:
        """The rank of an id among the first `size`, by searching the log; None where no event has it.

        Raises IntegrityError naming the ranks that can't be read, where it may be one of theirs.
        """
        unread: list[int] = []
        rank = 0
        while rank < size and len(unread) < UNREAD_MAX:
            try:
                for key, stored in self._store.scan("log", layout.log_key(rank), layout.log_key(size)):
                    if key != layout.log_key(rank):
                        break
                    if state.stored_id(stored) == event_id:
                        return rank
                    rank += 1
            except IntegrityError:
                pass
            if rank == size:
                break
            # Here the scan ended early or left a rank out: alone it may be there.
            try:
                alone = self._store.get("log", layout.log_key(rank))
            except IntegrityError:
                alone = None
            if alone is None:
                unread.append(rank)
            elif state.stored_id(alone) == event_id:
                return rank
            rank += 1
        if unread:
            text = f"{self._path}: the id {event_id.hex()} isn't found, and rank {unread[0]} can't be read"
            more = f", nor {len(unread) - 1} others" if len(unread) > 1 else ""
            raise IntegrityError(text + more, unread, "log")
        return None

    def chunks(self, start: int, stop: int, retired: bool) -> Iterator[Sequence[tuple[int, Event | Retired]]]:
        """Events from `start`, ending early where the engine fails or leaves a rank out."""
        pairs, first, end = self._store.scan("log", layout.log_key(start), layout.log_key(stop)), start, None
        tile, tile_number = b"", -1
        while end is None:
            count = CHUNK_EVENTS - first % CHUNK_EVENTS
            values, end = event_batch.take(pairs, first, count, CHUNK_BYTES, state.VALUE_BYTES_MAX)
            if values:
                if tile_number != first // layout.TILE_HASHES:
                    tile, tile_number = self._tile_of(first), first // layout.TILE_HASHES
                yield from self._checked_chunk(first, values, tile[first % layout.TILE_HASHES * HASH_BYTES :], retired)
            first += len(values)
        if isinstance(end, BaseException) and not isinstance(end, IntegrityError):
            raise end

    def _tile_of(self, rank: int) -> bytes:
        """The leaf hashes that the tree holds for a rank and its neighbours."""
        try:
            return self._store.get("tree", layout.tile_key(0, rank // layout.TILE_HASHES)) or b""
        except IntegrityError as error:
            text = f"{self._path}: rank {rank} can't be checked: {error}"
            raise IntegrityError(text, (rank,), error.file) from error

    def _checked_chunk(
        self, first: int, values: list[bytes], leaves: bytes, retired: bool
    ) -> Iterator[Sequence[tuple[int, Event | Retired]]]:
        while values:
            good = event_batch.checked(first, values, leaves)
            if good:
                yield good
            first, values, leaves = first + len(good), values[len(good) :], leaves[HASH_BYTES * len(good) :]
            if values:
                # The first that is not good: retired, or damaged, which raises.
                found = self._checked(first, values[0], leaves[:HASH_BYTES] or None)
                yield ((first, found if retired else self.present(first, found)),)
                first, values, leaves = first + 1, values[1:], leaves[HASH_BYTES:]

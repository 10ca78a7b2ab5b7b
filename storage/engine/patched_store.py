"""A store whose tiles are wrong, read as if they were right: the tiles made again from the log stand in front of it.

Only the tiles that differ are held. Nothing is written before `settle`, so that a ledger opened to read alters no byte.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import itemgetter

from storage import hashing, layout, state
from storage.engine.store import Entry, Store
from storage.errors import IntegrityError
from storage.state import EMPTY, TreeState
from storage.tree import HASH_BYTES, Head

BATCH_BYTES = 1 << 20


class PatchedStore:
    """Tiles by key in front of a store."""

    def __init__(self, inner: Store, tiles: dict[bytes, bytes]) -> None:
        self.inner = inner
        self._tiles = tiles
        self.dropped_bytes: int = getattr(inner, "dropped_bytes", 0)

    def settle(self) -> int:
        """Write the tiles into the store, in one synced batch; how many."""
        count = len(self._tiles)
        self.inner.write([("tree", key, tile) for key, tile in self._tiles.items()], sync=True)
        self._tiles.clear()
        return count

    def get(self, family: str, key: bytes) -> bytes | None:
        if family == "tree" and key in self._tiles:
            return self._tiles[key]
        return self.inner.get(family, key)

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        if family == "tree" and self._tiles:
            return [self.get(family, key) for key in keys]
        return self.inner.get_many(family, keys)

    def scan(self, family: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        found = self.inner.scan(family, start, stop)
        if family != "tree" or not self._tiles:
            yield from found
            return
        waiting = sorted(key for key in self._tiles if start <= key and (stop is None or key < stop))
        for key, value in heapq.merge(found, ((key, b"") for key in waiting), key=itemgetter(0)):
            if key in self._tiles:
                if waiting and waiting[0] == key:  # twice where the store has the key too
                    yield waiting.pop(0), self._tiles[key]
            elif value:
                yield key, value

    def last_key(self, family: str) -> bytes | None:
        last = self.inner.last_key(family)
        if family != "tree" or not self._tiles:
            return last
        return max(self._tiles) if last is None else max(last, *self._tiles)

    def write(self, entries: Sequence[Entry], *, sync: bool) -> None:
        self.inner.write(entries, sync=sync)
        if self._tiles:
            for family, key, _ in entries:
                if family == "tree":
                    self._tiles.pop(key, None)

    def sync(self) -> None:
        self.inner.sync()

    def flush(self) -> None:
        self.inner.flush()

    def compact(self) -> None:
        self.inner.compact()

    def faults(self) -> list[tuple[str, str]]:
        return self.inner.faults()

    def close(self) -> None:
        self.inner.close()

    def abandon(self) -> None:
        self.inner.abandon()


def tiles_from_log(store: Store, head: Head, path: str) -> tuple[TreeState, dict[bytes, bytes]]:
    """The tree made again from the log, and the tiles of it that the store has not, or has otherwise.

    Reads the whole log. Raises IntegrityError unless the events are all there and lead to the root of the head.
    """
    built = EMPTY
    wrong: dict[bytes, bytes] = {}
    for leaves in _tiles_of_leaves(store, head.size, path):
        built, tiles = built.extended(leaves)
        for _, key, tile in tiles:
            assert tile is not None
            if _stored(store, key) == tile:
                wrong.pop(key, None)
            else:
                wrong[key] = tile
    if built.head() != head:
        raise IntegrityError(
            f"{path}: neither the stored tiles nor the events of the log give the root of meta/head, {head.root.hex()}",
            file="tree",
        )
    return built, wrong


def _stored(store: Store, key: bytes) -> bytes | None:
    try:
        return store.get("tree", key)
    except IntegrityError:
        return None


def _tiles_of_leaves(store: Store, size: int, path: str) -> Iterator[bytes]:
    """The leaf hashes of the events, a tile at a time."""
    tile, values, held = bytearray(), list[bytes](), 0
    rank = 0
    for key, value in store.scan("log", b"", layout.log_key(size)):
        if key != layout.log_key(rank):
            break
        values.append(value)
        held += len(value)
        rank += 1
        if held >= BATCH_BYTES or rank % layout.TILE_HASHES == 0:
            tile += _leaves(values, rank - len(values), path)
            values, held = [], 0
        if len(tile) == layout.TILE_BYTES:
            yield bytes(tile)
            tile.clear()
    if rank < size:
        where = f"log/{layout.log_key(rank).hex()}"
        raise IntegrityError(f"{path}: rank {rank} is missing from the log", (rank,), where)
    tile += _leaves(values, rank - len(values), path)
    if tile:
        yield bytes(tile)


def _leaves(values: list[bytes], first: int, path: str) -> bytes:
    ids = hashing.event_ids([value[32:] if state.may_be_event(value) else b"" for value in values])
    out = bytearray()
    for i, (value, event_id) in enumerate(zip(values, ids, strict=True)):
        leaf = state.leaf_of(value, event_id)
        if leaf is None:
            where = f"log/{layout.log_key(first + i).hex()}"
            raise IntegrityError(f"{path}: rank {first + i} ({where}) is not what was written", (first + i,), where)
        out += leaf
    assert len(out) == HASH_BYTES * len(values)
    return bytes(out)

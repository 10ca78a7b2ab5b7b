"""Inclusion and consistency proofs from the stored tiles (RFC 9162): at most one tile is read a level."""

from __future__ import annotations

from functools import lru_cache
from weakref import WeakKeyDictionary

from storage import hashing, layout, tree
from storage.engine.store import Store
from storage.errors import IntegrityError
from storage.state import TreeState
from storage.tree import HASH_BYTES, Head


def _subtrees(tile: bytes) -> list[bytes]:
    """The hashes of the complete subtrees of a tile, joined, by level: of its hashes, of pairs of them, and so on."""
    levels = [tile]
    while len(levels[-1]) >= 2 * HASH_BYTES:
        levels.append(hashing.node_hashes(levels[-1][: len(levels[-1]) // (2 * HASH_BYTES) * (2 * HASH_BYTES)]))
    return levels


_subtrees_of_unfinished = lru_cache(maxsize=16)(_subtrees)
TILES_REMEMBERED_MAX = 256  # of a store: 4 MB, and the level above the leaves' tiles of 16 million events
_remembered: WeakKeyDictionary[Store, dict[tuple[int, int], list[bytes]]] = WeakKeyDictionary()


class TileReader:
    """Hashes of complete subtrees from the tiles of a store; a tile that was read is kept for the proof at hand.

    The unfinished tiles, which every proof of the newest size ends in, come from memory. Full tiles above those of the
    leaves never change, and each serves many proofs: they are remembered as long as the store is open.
    """

    def __init__(self, store: Store, grown: TreeState) -> None:
        self._store = store
        self._grown = grown
        self._read: dict[tuple[int, int], list[bytes]] = {}
        self._upper = _remembered.setdefault(store, {})

    def hash_at(self, level: int, index: int) -> bytes:
        """The hash of the complete subtree at (level, index). Raises IntegrityError where its tile is short."""
        tile_level, rest = divmod(level, 8)
        tile_index = index << rest >> 8
        levels = self._levels(tile_level, tile_index)
        at = (index - (tile_index << 8 >> rest)) * HASH_BYTES
        found = levels[rest][at : at + HASH_BYTES] if rest < len(levels) else b""
        if len(found) != HASH_BYTES:
            name = f"tree/{layout.tile_key(tile_level, tile_index).hex()}"
            needed = (at + HASH_BYTES) << rest
            raise IntegrityError(f"{name} must have {needed} bytes, got {len(levels[0])}", file=name)
        return found

    def _levels(self, level: int, index: int) -> list[bytes]:
        place = (level, index)
        levels = self._read.get(place) or self._upper.get(place)
        if levels is None:
            if index == self._grown.size >> 8 * (level + 1) and level < len(self._grown.tiles):
                levels = _subtrees_of_unfinished(self._grown.tiles[level])
            else:
                tile = self._store.get("tree", layout.tile_key(level, index)) or b""
                levels = _subtrees(tile)
                if level and len(tile) == layout.TILE_BYTES:
                    if len(self._upper) >= TILES_REMEMBERED_MAX:
                        self._upper.clear()
                    self._upper[place] = levels
            self._read[place] = levels
        return levels

    def path(self, index: int, size: int) -> list[bytes]:
        """What `tree.inclusion_proof` gives, a tile at a time."""
        proof: list[bytes] = []
        at, last, level = index, size - 1, 0
        while last:
            levels = self._levels(level >> 3, at >> 8)
            if at >> 8 != last >> 8 and len(levels[0]) == layout.TILE_BYTES:  # it has all eight
                inside = at & 0xFF
                for hashes in levels[:8]:
                    start = (inside ^ 1) * HASH_BYTES
                    proof.append(hashes[start : start + HASH_BYTES])
                    inside >>= 1
                at, last, level = at >> 8, last >> 8, level + 8
                continue
            for rest in range(8):
                sibling = at ^ 1
                if sibling < last or (sibling == last and (last + 1) << level <= size):
                    start = (sibling & 0xFF >> rest) * HASH_BYTES
                    found = levels[rest][start : start + HASH_BYTES] if rest < len(levels) else b""
                    proof.append(found if len(found) == HASH_BYTES else self.hash_at(level, sibling))
                elif sibling == last:
                    proof.append(self._edge(level, last, size))
                at, last, level = at >> 1, last >> 1, level + 1
                if not last:
                    break
        return proof

    def _edge(self, level: int, last: int, size: int) -> bytes:
        """The hash over the leaves from `last` << level on, fewer than 1 << level."""
        if size != self._grown.size:
            return tree.range_hash(last << level, size, self.hash_at)
        pieces = (size & (1 << level) - 1).bit_count()  # the last of the frontier
        return tree.frontier_root(self._grown.frontier[-HASH_BYTES * pieces :])

    def forget(self) -> None:
        """Read every tile again the next time: one of them was wrong."""
        self._upper.clear()


def inclusion(store: Store, grown: TreeState, head: Head, rank: int, size: int) -> list[bytes]:
    """The hashes, leaf to root, that prove the event at `rank` in the tree of `size` events.

    Raises ValueError unless 0 <= rank < size <= the ledger's size, and IntegrityError where a tile is damaged so that
    the proof would not hold: of the newest size, since that root is known.
    """
    if not 0 <= rank < size <= head.size:
        raise ValueError(f"Ledger.prove: need 0 <= rank < size <= {head.size}, got {rank} and {size}")
    reader = TileReader(store, grown)
    proof = reader.path(rank, size)
    if size == head.size:
        leaf = reader.hash_at(0, rank)
        if hashing.inclusion_root(rank, size, leaf, b"".join(proof)) != head.root:
            reader.forget()
            text = f"the stored tiles prove no event at rank {rank} of {size}: a tile is damaged"
            raise IntegrityError(text, (rank,), "tree")
    return proof


def consistency(store: Store, grown: TreeState, head: Head, m: int, n: int) -> list[bytes]:
    """The hashes that prove the first m events a prefix of the first n; empty for m = 0 and for m = n.

    Raises ValueError unless 0 <= m <= n <= the ledger's size.
    """
    if not 0 <= m <= n <= head.size:
        raise ValueError(f"Ledger.consistency: need 0 <= m <= n <= {head.size}, got {m} and {n}")
    return tree.consistency_proof(m, n, TileReader(store, grown).hash_at) if m else []

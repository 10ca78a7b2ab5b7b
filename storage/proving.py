"""Inclusion and consistency proofs from the stored tiles (RFC 9162): at most one tile is read a level."""

from __future__ import annotations

from functools import lru_cache

from storage import hashing, layout, tree
from storage.errors import IntegrityError
from storage.state import TreeState
from storage.store import Store
from storage.tree import HASH_BYTES, Head


def _subtrees(tile: bytes) -> list[bytes]:
    """The hashes of the complete subtrees of a tile, joined, by level: of its hashes, of pairs of them, and so on."""
    levels = [tile]
    while len(levels[-1]) >= 2 * HASH_BYTES:
        levels.append(hashing.node_hashes(levels[-1][: len(levels[-1]) // (2 * HASH_BYTES) * (2 * HASH_BYTES)]))
    return levels


_remembered = lru_cache(maxsize=64)(_subtrees)


class TileReader:
    """Hashes of complete subtrees from the tiles of a store; a tile that was read is kept for the proof at hand.

    The unfinished tiles, which every proof of the newest size ends in, come from memory. What lies above the leaves'
    own tiles is remembered beyond a proof: by their bytes, so that a tile that changed is another one.
    """

    def __init__(self, store: Store, grown: TreeState) -> None:
        self._store = store
        self._grown = grown
        self._read: dict[tuple[int, int], list[bytes]] = {}

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
        levels = self._read.get((level, index))
        if levels is None:
            if index == self._grown.size >> 8 * (level + 1) and level < len(self._grown.tiles):
                levels = _remembered(self._grown.tiles[level])
            else:
                tile = self._store.get("tree", layout.tile_key(level, index)) or b""
                levels = _remembered(tile) if level else _subtrees(tile)
            self._read[level, index] = levels
        return levels


def inclusion(store: Store, grown: TreeState, head: Head, rank: int, size: int) -> list[bytes]:
    """The hashes, leaf to root, that prove the event at `rank` in the tree of `size` events.

    Raises ValueError unless 0 <= rank < size <= the ledger's size, and IntegrityError where a tile is damaged so that
    the proof would not hold: of the newest size, since that root is known.
    """
    if not 0 <= rank < size <= head.size:
        raise ValueError(f"Ledger.prove: need 0 <= rank < size <= {head.size}, got {rank} and {size}")
    reader = TileReader(store, grown)
    proof = tree.inclusion_proof(rank, size, reader.hash_at)
    if size == head.size:
        leaf = reader.hash_at(0, rank)
        if not tree.verify_inclusion(rank, size, leaf, proof, head.root):
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

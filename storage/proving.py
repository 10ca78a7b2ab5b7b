"""Inclusion and consistency proofs from the stored tiles (RFC 9162): at most one tile is read a level."""

from __future__ import annotations

from storage import layout, tree
from storage.errors import IntegrityError
from storage.state import TreeState
from storage.store import Store
from storage.tree import HASH_BYTES, Head


class TileReader:
    """Hashes of complete subtrees from the tiles of a store; a tile that was read is kept for the proof at hand.

    The unfinished tiles, which every proof of the newest size ends in, come from memory.
    """

    def __init__(self, store: Store, grown: TreeState) -> None:
        self._store = store
        self._grown = grown
        self._read: dict[tuple[int, int], bytes] = {}

    def hash_at(self, level: int, index: int) -> bytes:
        """The hash of the complete subtree at (level, index). Raises IntegrityError where its tile is short."""
        tile_level, rest = divmod(level, 8)
        first = index << rest
        tile = self._tile(tile_level, first // layout.TILE_HASHES)
        at = first % layout.TILE_HASHES * HASH_BYTES
        hashes = tile[at : at + (HASH_BYTES << rest)]
        if len(hashes) != HASH_BYTES << rest:
            name = f"tree/{layout.tile_key(tile_level, first // layout.TILE_HASHES).hex()}"
            raise IntegrityError(f"{name} must have {at + (HASH_BYTES << rest)} bytes, got {len(tile)}", file=name)
        return tree.root_of_leaves(hashes) if rest else hashes

    def _tile(self, level: int, index: int) -> bytes:
        if index == self._grown.size >> 8 * (level + 1) and level < len(self._grown.tiles):
            return self._grown.tiles[level]
        tile = self._read.get((level, index))
        if tile is None:
            tile = self._read[level, index] = self._store.get("tree", layout.tile_key(level, index)) or b""
        return tile


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

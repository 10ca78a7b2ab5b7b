"""What the ledger keeps in memory between commits, and how a commit changes it. No input or output but the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from storage import hashing, layout, tree
from storage.engine.store import Entry, Store
from storage.errors import IntegrityError, NotALedgerError
from storage.event import EVENT_BYTES_MAX
from storage.tree import HASH_BYTES, Head


class TreeState(NamedTuple):
    """The Merkle tree of a ledger: its size, frontier and the unfinished tile of each level."""

    size: int
    frontier: bytes
    tiles: tuple[bytes, ...]  # by level: the hashes of the last, not yet full tile

    def head(self) -> Head:
        """Size and root."""
        return Head(self.size, tree.frontier_root(self.frontier))

    def extended(self, leaves: bytes) -> tuple[TreeState, list[Entry]]:
        """The tree after appending leaf hashes (32 bytes each), and the tiles to write: each touched one once."""
        size = self.size + len(leaves) // HASH_BYTES
        index = size // layout.TILE_HASHES
        if leaves and index == self.size // layout.TILE_HASHES:  # a small commit stays within a tile
            tile = self.tiles[0] + leaves if self.tiles else leaves
            frontier = tree.frontier_extend(self.size, self.frontier, leaves)
            return TreeState(size, frontier, (tile, *self.tiles[1:])), [("tree", layout.tile_key(0, index), tile)]
        frontier = self.frontier
        tiles: list[bytes] = []
        entries: list[Entry] = []
        level = 0
        below = leaves
        start = self.size
        while True:
            old = self.tiles[level] if level < len(self.tiles) else b""
            if not below and level >= len(self.tiles):
                break
            whole, complete = old + below, []
            index = start // layout.TILE_HASHES
            for at in range(0, len(whole), layout.TILE_BYTES):
                tile = whole[at : at + layout.TILE_BYTES]
                if below:
                    entries.append(("tree", layout.tile_key(level, index), tile))
                if len(tile) == layout.TILE_BYTES:
                    complete.append(tree.root_of_leaves(tile))
                index += 1
            tiles.append(whole[len(complete) * layout.TILE_BYTES :])
            if level == 0:
                frontier = self._frontier_after(leaves, b"".join(complete), tiles[0])
            below, start, level = b"".join(complete), start // layout.TILE_HASHES, level + 1
        while tiles and not tiles[-1]:
            tiles.pop()
        return TreeState(size, frontier, tuple(tiles)), entries

    def _frontier_after(self, leaves: bytes, complete: bytes, rest: bytes) -> bytes:
        """The frontier after appending leaf hashes that completed tiles with these roots and left `rest` of a tile."""
        if not complete:
            return tree.frontier_extend(self.size, self.frontier, leaves)
        whole = self.size // layout.TILE_HASHES
        above = self.frontier[: HASH_BYTES * whole.bit_count()]
        return tree.frontier_extend(whole, above, complete) + tree.frontier_extend(0, b"", rest)


VALUE_BYTES_MAX = 32 + EVENT_BYTES_MAX
EMPTY = TreeState(0, b"", ())


def subtree_hash(store: Store, level: int, index: int) -> bytes:
    """The hash of the complete subtree at (level, index), from the stored tiles.

    Raises IntegrityError where the tile is missing or short.
    """
    tile_level, rest = divmod(level, 8)
    first = index << rest
    key = layout.tile_key(tile_level, first // layout.TILE_HASHES)
    tile = store.get("tree", key) or b""
    at = first % layout.TILE_HASHES * HASH_BYTES
    hashes = tile[at : at + (HASH_BYTES << rest)]
    if len(hashes) != HASH_BYTES << rest:
        needed = at + (HASH_BYTES << rest)
        raise IntegrityError(f"tree/{key.hex()} must have {needed} bytes, got {len(tile)}", file=f"tree/{key.hex()}")
    return tree.root_of_leaves(hashes) if rest else hashes


def root_at(store: Store, size: int) -> bytes:
    """The root of the first `size` events, from the stored tiles."""
    return tree.frontier_root(tree.frontier_at(size, lambda level, index: subtree_hash(store, level, index)))


def read_head(store: Store, path: str) -> Head | None:
    """The stored head; None for a store in which nothing was written yet.

    Raises NotALedgerError for a database of another format, IntegrityError for a missing or damaged record.
    """
    found = store.get("meta", layout.FORMAT_KEY)
    value = store.get("meta", layout.HEAD_KEY)
    if found is None and value is None and store.last_key("log") is None:
        return None
    if found is None:
        raise IntegrityError(f"{path}: meta/format is missing", file="meta/format")
    if found != layout.FORMAT:
        raise NotALedgerError(f"{path}: the format is {found!r}, this version reads {layout.FORMAT!r}")
    if value is None:
        raise IntegrityError(f"{path}: meta/head is missing", file="meta/head")
    return layout.unpack_head(value)


def read_cursor(store: Store, producer: str) -> tuple[int, bytes] | None:
    """The last sequence number and id of a producer, or None. Raises IntegrityError for a damaged record."""
    key = layout.cursor_key(producer)
    value = store.get("meta", key)
    return None if value is None else layout.unpack_cursor(key, value)


def load_tree(store: Store, head: Head, path: str) -> TreeState:
    """The tree of a store, from its tiles. Raises IntegrityError unless it has the root of the head."""
    tiles, size, level = [], head.size, 0
    while size:
        width = size % layout.TILE_HASHES * HASH_BYTES
        key = layout.tile_key(level, size // layout.TILE_HASHES)
        tile = (store.get("tree", key) or b"") if width else b""
        if len(tile) != width:
            raise IntegrityError(
                f"{path}: tree/{key.hex()} must have {width} bytes, got {len(tile)}", file=f"tree/{key.hex()}"
            )
        tiles.append(tile)
        size, level = size // layout.TILE_HASHES, level + 1
    frontier = tree.frontier_at(head.size, lambda level, index: subtree_hash(store, level, index))
    root = tree.frontier_root(frontier)
    if root != head.root:
        raise IntegrityError(
            f"{path}: the stored tiles of {head.size} events give the root {root.hex()}, meta/head says "
            f"{head.root.hex()}",
            file="tree",
        )
    while tiles and not tiles[-1]:
        tiles.pop()
    return TreeState(head.size, frontier, tuple(tiles))


def check_log_end(store: Store, size: int, path: str) -> None:
    """Raises IntegrityError unless the greatest rank in the log is the last of `size` events."""
    last = store.last_key("log")
    expected = layout.log_key(size - 1) if size else None
    if last == expected:
        return
    if last is None or (len(last) == 8 and expected is not None and last < expected):
        present = 0 if last is None else int.from_bytes(last, "big") + 1
        raise IntegrityError(
            f"{path}: meta/head says {size} events, the log ends after {present}", range(present, size), "log"
        )
    raise IntegrityError(f"{path}: meta/head says {size} events, the log goes on to key {last.hex()}", (), "log")


def check_no_gap(store: Store, start: int, size: int, path: str) -> None:
    """Raises IntegrityError naming the first rank of [start, size) that the log lacks."""
    rank = start
    for key, _ in store.scan("log", layout.log_key(start), layout.log_key(size)):
        if key != layout.log_key(rank):
            break
        rank += 1
    if rank < size:
        raise IntegrityError(
            f"{path}: rank {rank} is missing from the log", (rank,), f"log/{layout.log_key(rank).hex()}"
        )


def check_ids_end(store: Store, size: int) -> bool:
    """Whether `ids` knows the last event of the log."""
    if size == 0:
        return True
    value = store.get("log", layout.log_key(size - 1))
    return value is not None and store.get("ids", stored_id(value)) == layout.log_key(size - 1)


def stored_id(value: bytes) -> bytes:
    """The id in a value of `log`, of a whole event or of one whose payload was retired."""
    return value[1:33] if len(value) == tree.LEAF_BYTES else value[:32]


def check_event(rank: int, value: bytes | None, hashed: bytes | None, leaf: bytes | None) -> str | None:
    """What is wrong with the stored value of an event, or None.

    value: id and event bytes as stored.  hashed: the id computed from the bytes, or None to compute it.
    leaf: the leaf hash that the tree holds, or None where it holds none.
    """
    if value is None:
        return "is missing"
    if len(value) == tree.LEAF_BYTES:
        return check_retired(value, leaf)
    if len(value) == HASH_BYTES and value == leaf:
        return "is lost, and was repaired without it: only its leaf hash is left"
    if len(value) <= 32:
        return f"has {len(value)} bytes, an id and an event have more than 32"
    if len(value) > VALUE_BYTES_MAX:
        return f"has {len(value)} bytes, an id and an event have at most {VALUE_BYTES_MAX}"
    stored = value[:32]
    hashed = hashed or hashing.event_id(value[32:])
    if stored != hashed:
        return f"has the id {hashed.hex()}, stored is {stored.hex()}"
    expected = tree.leaf_hash(tree.leaf(stored, len(value) - 32))
    if leaf is None:
        return "has no leaf in the tree"
    if leaf != expected:
        return f"has the leaf hash {expected.hex()}, the tree holds {leaf.hex()}"
    return None


def check_retired(value: bytes, leaf: bytes | None) -> str | None:
    """What is wrong with the 41-byte leaf that stands for a retired event, or None; `leaf` as in `check_event`."""
    if value[0] != tree.LEAF_VERSION:
        return f"has 41 bytes, a leaf, of version {value[0]} instead of {tree.LEAF_VERSION}"
    if leaf is None:
        return "has no leaf in the tree"
    expected = tree.leaf_hash(value)
    return None if leaf == expected else f"has the leaf hash {expected.hex()}, the tree holds {leaf.hex()}"


def may_be_event(value: bytes) -> bool:
    """Whether a value of `log` is as long as an id with an event is, and not a leaf."""
    return HASH_BYTES < len(value) <= VALUE_BYTES_MAX and len(value) != tree.LEAF_BYTES


def leaf_of(value: bytes, hashed: bytes) -> bytes | None:
    """The leaf hash that a value of `log` leads to; None where it contradicts itself. hashed: the id of its bytes."""
    if len(value) == tree.LEAF_BYTES:
        return tree.leaf_hash(value) if value[0] == tree.LEAF_VERSION else None
    if len(value) == HASH_BYTES:
        return value  # the leaf hash of a lost event
    if may_be_event(value) and value[:HASH_BYTES] == hashed:
        return tree.leaf_hash(tree.leaf(hashed, len(value) - HASH_BYTES))
    return None


def leaf_hashes(ids: Sequence[bytes], lengths: Sequence[int]) -> bytes:
    """The leaf hashes of events, joined, in one call of the kernel."""
    records = b"".join(map(tree.leaf, ids, lengths))
    return hashing.leaf_hashes(records, tree.LEAF_BYTES)

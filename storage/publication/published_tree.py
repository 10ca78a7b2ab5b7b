"""The tree of a published ledger: every hash that it gives out leads to the root of the checkpoint."""

from __future__ import annotations

from collections import OrderedDict
from itertools import product

from storage import tree
from storage.errors import IntegrityError
from storage.layout import TILE_HASHES
from storage.publication import tiles
from storage.publication.object_store import ObjectReader
from storage.tree import HASH_BYTES, Head

TILES_CACHED_MAX = 128  # 1 MiB


class PublishedTree:
    """Tiles of hashes, checked from the root down, and the leaves under them.

    The last, unfinished tile of each level makes up the root; every full tile is an entry of the level above. A tile
    that is damaged or missing is made again from the level below: `problems` then names it, and reading goes on.
    """

    def __init__(self, store: ObjectReader, url: str, head: Head) -> None:
        self._store = store
        self._url = url
        self.head = head
        self.problems: list[IntegrityError] = []
        self._edges: list[bytes] = []  # by level: the hashes of the unfinished tile
        self._cache: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._load_edges()

    def tile(self, index: int) -> bytes:
        """The leaf hashes of a tile, 32 bytes each. Raises IntegrityError with the ranks where they can't be known."""
        return self._tile(0, index)

    def hash_at(self, level: int, index: int) -> bytes:
        """The hash over the complete subtree at (level, index). Raises IntegrityError."""
        tile_level, rest = divmod(level, 8)
        first = index << rest
        at = first % TILE_HASHES * HASH_BYTES
        hashes = self._tile(tile_level, first // TILE_HASHES)[at : at + (HASH_BYTES << rest)]
        return tree.root_of_leaves(hashes) if rest else hashes

    def leaves(self, index: int) -> list[bytes | None]:
        """The leaves of a tile that have the hash in the tree, None for others. Raises IntegrityError as `tile`."""
        hashes = self.tile(index)
        found = self.entries(index)
        computed = tiles.leaf_hashes([record or bytes(tree.LEAF_BYTES) for record in found])
        return [
            record if record is not None and computed[at : at + HASH_BYTES] == hashes[at : at + HASH_BYTES] else None
            for record, at in zip(found, range(0, len(hashes), HASH_BYTES), strict=True)
        ]

    def entries(self, index: int) -> list[bytes | None]:
        """What stands in the bundle of leaves, unchecked; None for what is malformed or missing."""
        width = self.width(0, index)
        path = tiles.entries_path(index, width)
        try:
            data = self._fetch(path, width, tiles.ENTRY_BYTES)
            return tiles.unpack_entries(data, width, path)
        except IntegrityError:
            return [None] * width

    def width(self, level: int, index: int) -> int:
        """How many hashes a tile has."""
        entries = self.head.size >> (8 * level)
        return min(TILE_HASHES, entries - index * TILE_HASHES)

    def _tile(self, level: int, index: int) -> bytes:
        if index == self.head.size >> (8 * level) >> 8:
            return self._edges[level]
        cached = self._cache.get((level, index))
        if cached is not None:
            self._cache.move_to_end((level, index))
            return cached
        at = index % TILE_HASHES * HASH_BYTES
        wanted = self._tile(level + 1, index // TILE_HASHES)[at : at + HASH_BYTES]
        path = tiles.tile_path(level, index)
        fault: IntegrityError | None = None
        try:
            found = self._fetch(path, TILE_HASHES, HASH_BYTES)
            if tree.root_of_leaves(found) != wanted:
                got = tree.root_of_leaves(found).hex()
                fault = IntegrityError(f"{path}: expected the hash {wanted.hex()}, got {got}", file=path)
        except IntegrityError as error:
            fault = error
        if fault is not None:
            again = self._again(level, index)
            if again is None or tree.root_of_leaves(again) != wanted:
                first = index << (8 * level + 8)
                raise IntegrityError(str(fault), range(first, first + (TILE_HASHES << (8 * level))), path) from fault
            self.problems.append(fault)
            found = again
        self._cache[level, index] = found
        if len(self._cache) > TILES_CACHED_MAX:
            self._cache.popitem(last=False)
        return found

    def _again(self, level: int, index: int) -> bytes | None:
        """A tile made from the level below, which is not checked: leaves, or full tiles. None where one is missing."""
        width = self.width(level, index)
        if level == 0:
            records = [record for record in self.entries(index) if record is not None]
            return tiles.leaf_hashes(records) if len(records) == width else None
        hashes = []
        for below in range(index * TILE_HASHES, index * TILE_HASHES + width):
            found: bytes | None
            try:
                found = self._fetch(tiles.tile_path(level - 1, below), TILE_HASHES, HASH_BYTES)
            except IntegrityError:
                found = self._again(level - 1, below)
            if found is None:
                return None
            hashes.append(tree.root_of_leaves(found))
        return b"".join(hashes)

    def _fetch(self, path: str, width: int, item_bytes: int) -> bytes:
        """The first `width` items of an object; of the full tile where the partial one has gone. IntegrityError."""
        found = self._store.get(path, width * item_bytes)
        if found is None and width < TILE_HASHES:
            found = self._store.get(path.rpartition(".p/")[0], TILE_HASHES * item_bytes)
            if found is not None and len(found.data) == TILE_HASHES * item_bytes:
                return found.data[: width * item_bytes]
        if found is None:
            raise IntegrityError(f"{path}: expected {width * item_bytes} bytes, got no object", file=path)
        if len(found.data) != width * item_bytes:
            raise IntegrityError(f"{path}: expected {width * item_bytes} bytes, got {len(found.data)}", file=path)
        return found.data

    def _load_edges(self) -> None:
        """The unfinished tiles, such that they give the root. Raises IntegrityError naming the checkpoint."""
        fetched: list[bytes | None] = []
        faults: list[IntegrityError | None] = []
        for level, full, width in tiles.widths(self.head.size):
            path = tiles.tile_path(level, full, width) if width else ""
            try:
                fetched.append(self._fetch(path, width, HASH_BYTES) if width else b"")
                faults.append(None)
            except IntegrityError as error:
                fetched.append(None)
                faults.append(error)
        if self._fits(fetched):
            return
        choices: list[list[bytes | None]] = []
        for level, full, width in tiles.widths(self.head.size):
            again = self._again(level, full) if width else b""
            choices.append([fetched[level]] if again == fetched[level] else [fetched[level], again])
        for chosen in product(*choices):
            if self._fits(list(chosen)):
                break
        else:
            raise IntegrityError(
                f"{self._url}: the tiles do not give the root {self.head.root.hex()} of {self.head.size} events "
                "that the checkpoint names",
                file="checkpoint",
            )
        for level, full, width in tiles.widths(self.head.size):
            if chosen[level] != fetched[level]:
                path = tiles.tile_path(level, full, width)
                text = f"{path}: expected the hashes that lead to the root, got others"
                self.problems.append(faults[level] or IntegrityError(text, file=path))

    def _fits(self, edges: list[bytes | None]) -> bool:
        known = [edge for edge in edges if edge is not None]
        if len(known) < len(edges):
            return False
        self._edges = known
        return tree.frontier_root(tree.frontier_at(self.head.size, self.hash_at)) == self.head.root

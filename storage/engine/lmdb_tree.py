"""Reading one tree of an LMDB file: a key, a range, the end.

LMDB's pages carry no checksums. Values of trees that are `summed` end with the CRC-32C of key and value, and where a
key is missing it is shown that it can't be elsewhere: the whole leaf is checked, and so is its neighbour where the key
lies before the first or behind the last one of the leaf. `log` needs neither: ranks leave no gap, and a value states
the id of its own bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from storage import hashing
from storage.engine.lmdb_pages import BIG, LEAF, NO_PAGE, NUMBER, Page, Tree, View, damaged
from storage.errors import IntegrityError

SUM_BYTES = 4
VALUE_BYTES_MAX = 32 << 20  # twice what any value of a ledger has; more is damage
READAHEAD_PAGES = 64


def checksum(key: bytes, value: bytes) -> bytes:
    """The CRC-32C of key and value, big-endian."""
    return hashing.crc32c(key + value).to_bytes(SUM_BYTES, "big")


class TreeReader:
    """One tree of a view. Every method raises IntegrityError for damage it meets."""

    def __init__(self, view: View, tree: Tree, name: str, *, summed: bool) -> None:
        self._view = view
        self._tree = tree
        self._name = name
        self._summed = summed

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        if self._tree.root == NO_PAGE:
            return None
        path = self._path(key)
        leaf = self._view.leaf(path[-1][2])
        index = leaf.find(key)
        if index < leaf.count and leaf.key(index) == key:
            return self._value(leaf, index)[1]
        if self._summed:
            self._show_absence(key, path, leaf)
        return None

    def scan(self, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values from `start` up to but not including `stop`."""
        before = None
        for leaf, index in self.nodes(start):
            key, value = self._value(leaf, index)
            if before is not None and key <= before:
                raise self._damaged(leaf, f"node {index}: the key {key.hex()} does not follow {before.hex()}")
            if stop is not None and key >= stop:
                return
            before = key
            yield key, value

    def nodes(self, start: bytes = b"") -> Iterator[tuple[Page, int]]:
        """The nodes of all leaves, from the first whose key is not below `start`."""
        if self._tree.root == NO_PAGE:
            return
        first = True
        for leaf in self._leaves(start):
            for index in range(leaf.find(start) if first else 0, leaf.count):
                yield leaf, index
            first = False

    def last_key(self) -> bytes | None:
        """The greatest key, or None."""
        if self._tree.root == NO_PAGE:
            return None
        number = self._tree.root
        for _ in range(self._tree.depth - 1):
            page = self._view.branch(number)
            number = page.child(page.count - 1)
        leaf = self._view.leaf(number)
        return self._value(leaf, leaf.count - 1)[0] if leaf.count else None

    def _path(self, key: bytes) -> list[tuple[Page | None, int, int]]:
        """From the root down: branch, index of the child taken, number of that child."""
        path: list[tuple[Page | None, int, int]] = [(None, 0, self._tree.root)]
        for _ in range(self._tree.depth - 1):
            page = self._view.branch(path[-1][2])
            index = page.descend(key)
            path.append((page, index, page.child(index)))
        return path

    def _value(self, leaf: Page, index: int) -> tuple[bytes, bytes]:
        key, flags, size, stored = leaf.node(index)
        if flags & ~BIG:
            raise self._damaged(leaf, f"node {index} has flags {flags}")
        if flags:
            if size > VALUE_BYTES_MAX:
                raise self._damaged(leaf, f"node {index}: a value of {size} bytes")
            stored = self._view.big(NUMBER.unpack(stored)[0], size)
        if not self._summed:
            return key, stored
        value = stored[:-SUM_BYTES]
        if stored[-SUM_BYTES:] != checksum(key, value):
            raise self._damaged(leaf, f"node {index}: {self._name}/{key.hex()} has another checksum than was written")
        return key, value

    def _show_absence(self, key: bytes, path: list[tuple[Page | None, int, int]], leaf: Page) -> None:
        keys = self._checked_keys(leaf)
        if not keys or key < keys[0]:
            left = self._neighbour(path, -1)
            if left is not None and any(other >= key for other in self._checked_keys(left)):
                raise self._damaged(left, f"{self._name}/{key.hex()} is looked for behind it, its keys go further")
        if not keys or key > keys[-1]:
            right = self._neighbour(path, 1)
            if right is not None and any(other <= key for other in self._checked_keys(right)):
                raise self._damaged(right, f"{self._name}/{key.hex()} is looked for before it, its keys begin earlier")

    def _checked_keys(self, leaf: Page) -> list[bytes]:
        keys = [self._value(leaf, i)[0] for i in range(leaf.count)]
        if any(a >= b for a, b in pairwise(keys)):
            raise self._damaged(leaf, "keys out of order")
        return keys

    def _neighbour(self, path: list[tuple[Page | None, int, int]], side: int) -> Page | None:
        """The leaf before (-1) or behind (1) the one a path leads to."""
        for level in range(len(path) - 1, 0, -1):
            page, index, _ = path[level]
            assert page is not None
            if 0 <= index + side < page.count:
                number = page.child(index + side)
                for _ in range(level, self._tree.depth - 1):
                    below = self._view.branch(number)
                    number = below.child(0 if side > 0 else below.count - 1)
                return self._view.leaf(number)
        return None

    def _leaves(self, start: bytes) -> Iterator[Page]:
        """The leaves from the one that holds `start`. Branches that lead to the same ones again and again would give
        out more than there are pages."""
        left = self._view.meta.last_page
        for leaf in self._all_leaves(start):
            if left <= 0:
                raise self._damaged(leaf, f"the tree {self._name} reaches more leaves than the file has pages")
            left -= 1
            yield leaf

    def _all_leaves(self, start: bytes) -> Iterator[Page]:
        """Several are read at once where they lie side by side."""
        path = self._path(start)
        if len(path) == 1:
            yield self._view.leaf(self._tree.root)
            return
        while True:
            page, index, _ = path[-1]
            assert page is not None
            yield from self._run([page.child(i) for i in range(index, page.count)])
            level = len(path) - 1
            while level > 0:
                level -= 1
                above, at, _ = path[level]
                if above is not None and at + 1 < above.count:
                    break
            if level == 0:
                return
            path[level] = (above, at + 1, above.child(at + 1))  # type: ignore[union-attr]
            for below in range(level + 1, len(path)):
                page = self._view.branch(path[below - 1][2])
                path[below] = (page, 0, page.child(0))

    def _run(self, numbers: list[int]) -> Iterator[Page]:
        size, at = self._view.page_bytes, 0
        while at < len(numbers):
            count = 1
            while at + count < len(numbers) and count < READAHEAD_PAGES and numbers[at + count] == numbers[at] + count:
                count += 1
            data = self._view.raw(numbers[at], count)
            for i in range(count):
                yield Page(self._view.file, numbers[at + i], data[i * size : (i + 1) * size], LEAF)
            at += count

    def _damaged(self, page: Page, text: str) -> IntegrityError:
        return damaged(self._view.file, f"page {page.number}", text)

"""Checking all pages of an LMDB file before the C library sees them.

LMDB follows page numbers and adds up lengths as they stand in the file. A file that passes here can't lead it outside
its map: every page that can be reached is inside the file, states its own number, is reached once and is not in the
list of free pages; every node lies inside its page, the nodes fill it exactly, and what the file counts is there.

What keys and values say is not looked at here. All leaves are read once: time is linear in the size of the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.engine.lmdb_pages import (
    BIG,
    BRANCH,
    HEADER,
    HEADER_BYTES,
    LEAF,
    META_PAGES,
    NO_PAGE,
    NODE_BYTES,
    OVERFLOW,
    SUBTREE,
    TREE_BYTES,
    Tree,
    View,
    check_tree,
    damaged,
    unpack_tree,
)
from storage.engine.store import KEY_BYTES_MAX

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]

CHUNK_PAGES = 256
_ORDER = "<" if sys.byteorder == "little" else ">"
_U16, _U32, _U64 = (np.dtype(f"{_ORDER}u{n}") for n in (2, 4, 8))


def check_pages(view: View) -> None:
    """Raises IntegrityError naming the first page that is not as LMDB writes it."""
    _PageCheck(view).run()


@dataclass(slots=True)
class _Leaves:
    """What the leaves of a tree hold, as far as it is looked at."""

    entries: int = 0
    overflow_pages: int = 0
    values: list[tuple[bytes, int, bytes]] = field(default_factory=list)  # key, flags, value of the trees that ask


class _PageCheck:
    def __init__(self, view: View) -> None:
        self.view = view
        self.size = view.page_bytes
        self.taken = np.zeros(view.meta.last_page + 1, np.bool_)
        self.taken[:META_PAGES] = True
        self.pages_in_file = view.file.size() // self.size

    def run(self) -> None:
        meta = self.view.meta
        where = f"page {meta.transaction % META_PAGES}"
        for key, flags, value in self._tree("main", meta.main, keep=True, flags=SUBTREE):
            if flags != SUBTREE or len(value) != TREE_BYTES:
                raise damaged(self.view.file, where, f"expected trees, got {key!r}")
            tree = unpack_tree(value)
            check_tree(self.view.file, f"tree {key!r}", tree, meta.last_page)
            self._tree(repr(key.decode(errors="backslashreplace")), tree)
        self._free(self._tree("of free pages", meta.free, keep=True))

    def _tree(self, name: str, tree: Tree, *, keep: bool = False, flags: int = 0) -> list[tuple[bytes, int, bytes]]:
        """Check a tree; its nodes where they are asked for."""
        if tree.root == NO_PAGE:
            counts = (tree.depth, tree.branch_pages, tree.leaf_pages, tree.overflow_pages, tree.entries)
            if any(counts):
                raise damaged(self.view.file, f"tree {name}", f"has no page and counts {counts}")
            return []
        level, branches = np.array([tree.root], np.int64), 0
        for _ in range(tree.depth - 1):
            branches += len(level)
            level = np.concatenate([self._children(numbers, pages) for numbers, pages in self._pages(level, BRANCH)])
        found = _Leaves()
        for numbers, pages in self._pages(level, LEAF):
            self._leaves(numbers, pages, found, flags, keep)
        counted = (branches, len(level), found.overflow_pages, found.entries)
        said = (tree.branch_pages, tree.leaf_pages, tree.overflow_pages, tree.entries)
        if counted != said:
            text = f"counts {said} branches, leaves, overflow pages and entries, has {counted}"
            raise damaged(self.view.file, f"tree {name}", text)
        return found.values

    def _pages(self, numbers: I64, flags: int) -> Iterator[tuple[I64, U8]]:
        """Pages u8[n, page size], each taken for the first time, with their numbers, by number."""
        numbers = np.sort(numbers)
        self._take(numbers)
        for at in range(0, len(numbers), CHUNK_PAGES):
            part = numbers[at : at + CHUNK_PAGES]
            starts = np.flatnonzero(np.diff(part, prepend=part[0] - 2) != 1)
            ends = np.append(starts[1:], len(part))
            data = b"".join(
                self.view.raw(int(part[a]), int(b - a)) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
            )
            pages = np.frombuffer(data, np.uint8).reshape(len(part), self.size)
            own = pages[:, :8].copy().view(_U64)[:, 0]
            found = pages[:, 10:12].copy().view(_U16)[:, 0]
            self._refuse(
                part, (own != part.astype(np.uint64)) | (found != flags), f"expected its number, flags {flags}"
            )
            yield part, pages

    def _take(self, numbers: I64) -> None:
        outside = (numbers < META_PAGES) | (numbers >= min(len(self.taken), self.pages_in_file))
        if outside.any():
            number = int(numbers[outside][0])
            text = f"expected pages {META_PAGES}..{min(len(self.taken), self.pages_in_file) - 1}"
            raise damaged(self.view.file, f"page {number}", text)
        twice = self.taken[numbers]
        twice[1:] |= numbers[1:] == numbers[:-1]
        if twice.any():
            raise damaged(self.view.file, f"page {int(numbers[twice][0])}", "is used twice")
        self.taken[numbers] = True

    def _refuse(self, numbers: I64, wrong: npt.NDArray[np.bool_], text: str) -> None:
        if wrong.any():
            raise damaged(self.view.file, f"page {int(numbers[wrong][0])}", text)

    def _nodes(self, numbers: I64, pages: U8) -> tuple[I64, I64, I64, I64]:
        """Page index and offset of each node, and its first four numbers as one array i64[4, nodes], in bounds."""
        halves = pages.view(_U16)
        lower, upper = halves[:, 6].astype(np.int64), halves[:, 7].astype(np.int64)
        wrong = (lower < HEADER_BYTES) | (lower > upper) | (upper > self.size) | (lower % 2 != 0)
        self._refuse(numbers, wrong, "lower and upper lie outside the page")
        counts = (lower - HEADER_BYTES) // 2
        self._refuse(numbers, counts == 0, "holds no node")
        ends = np.cumsum(counts)
        rows = np.repeat(np.arange(len(pages)), counts)
        columns = np.arange(ends[-1]) - np.repeat(ends - counts, counts) + HEADER_BYTES // 2
        offsets = halves[rows, columns].astype(np.int64)
        wrong = (offsets < upper[rows]) | (offsets > self.size - NODE_BYTES) | (offsets % 2 != 0)
        self._refuse(numbers[rows], wrong, "a node lies outside")
        at = rows * (self.size // 2) + offsets // 2
        fields = halves.reshape(-1)[at + np.arange(4)[:, None]].astype(np.int64)
        return rows, offsets, fields, upper

    def _filled(self, numbers: I64, rows: I64, sizes: I64, upper: I64) -> None:
        """The nodes of a page, each an even number of bytes, fill it from `upper` to its end."""
        sums = np.bincount(rows, (sizes + 1) // 2 * 2, len(numbers))
        self._refuse(numbers, sums != self.size - upper, "its nodes do not fill it")

    def _children(self, numbers: I64, pages: U8) -> I64:
        rows, offsets, (low, high, top, key), upper = self._nodes(numbers, pages)
        sizes = NODE_BYTES + key
        self._refuse(numbers[rows], (offsets + sizes > self.size) | (key > KEY_BYTES_MAX), "a key ends outside")
        self._filled(numbers, rows, sizes, upper)
        children: I64 = low | high << 16 | top << 32
        return children

    def _leaves(self, numbers: I64, pages: U8, found: _Leaves, flags: int, keep: bool) -> None:
        rows, offsets, (low, high, kinds, key), upper = self._nodes(numbers, pages)
        size = low | high << 16
        big = (kinds & BIG) != 0
        self._refuse(numbers[rows], (kinds & ~(BIG | flags)) != 0, "a node has flags that no node of ours has")
        sizes = NODE_BYTES + key + np.where(big, 8, size)
        wrong = (offsets + sizes > self.size) | (key < 1) | (key > KEY_BYTES_MAX)
        self._refuse(numbers[rows], wrong, "a node ends outside")
        self._filled(numbers, rows, sizes, upper)
        found.entries += len(rows)
        starts = rows * self.size + offsets + NODE_BYTES + key
        if big.any():
            flat = pages.reshape(-1)
            firsts = flat[starts[big][:, None] + np.arange(8)].view(_U64)[:, 0]
            found.overflow_pages += self._overflow(numbers[rows][big], firsts, size[big])
        if keep:
            self._keep(pages, found, starts, np.stack([key, size, kinds, big]))

    def _overflow(self, numbers: I64, firsts: Any, sizes: I64) -> int:
        """Check the pages of values that lie outside their leaf; how many they are."""
        limit = min(len(self.taken), self.pages_in_file)
        self._refuse(numbers, firsts >= limit, "a value lies on pages outside the file")
        needed = (HEADER_BYTES + sizes - 1) // self.size + 1
        counts = np.array([self._pages_of(*pair) for pair in zip(firsts.tolist(), needed.tolist(), strict=True)])
        first = firsts.astype(np.int64)
        self._refuse(numbers, first + counts > limit, "a value lies on pages outside the file")
        ends = np.cumsum(counts)
        self._take(np.sort(np.arange(ends[-1]) - np.repeat(ends - counts - first, counts)))
        return int(ends[-1])

    def _pages_of(self, number: int, needed: int) -> int:
        """How many pages a value holds: it keeps those of a longer one that it has replaced."""
        own, _, flags, low, high = HEADER.unpack(self.view.file.read(number * self.size, HEADER_BYTES))
        pages: int = low | high << 16 if _ORDER == "<" else low << 16 | high
        if own != number or flags != OVERFLOW or pages < needed:
            text = f"expected its number, flags {OVERFLOW}, {needed} pages or more, got {own}, {flags} and {pages}"
            raise damaged(self.view.file, f"page {number}", text)
        return pages

    def _keep(self, pages: U8, found: _Leaves, starts: I64, fields: I64) -> None:
        data = pages.tobytes()
        for start, key, size, kinds, big in zip(starts.tolist(), *fields.tolist(), strict=True):
            stored = data[start : start + (8 if big else size)]
            value = self.view.big(int.from_bytes(stored, sys.byteorder), size) if big else stored
            found.values.append((data[start - key : start], kinds, value))

    def _free(self, records: list[tuple[bytes, int, bytes]]) -> None:
        """The lists of free pages: u64 count, then page numbers, none of them in use or listed twice."""
        for key, _, value in records:
            where = f"free pages of {key.hex()}"
            if len(key) != 8 or len(value) < 8 or len(value) % 8:
                raise damaged(self.view.file, where, f"key of {len(key)}, list of {len(value)} bytes")
            words = np.frombuffer(value, _U64)
            if words[0] >= len(words):
                raise damaged(self.view.file, where, f"counts {words[0]} pages in {len(value)} bytes")
            numbers = words[1 : 1 + int(words[0])]
            outside = (numbers < META_PAGES) | (numbers >= len(self.taken))
            if outside.any():
                raise damaged(self.view.file, where, f"page {numbers[outside][0]} lies outside the file")
            listed = np.sort(numbers.astype(np.int64))
            twice = self.taken[listed]
            twice[1:] |= listed[1:] == listed[:-1]
            if twice.any():
                raise damaged(self.view.file, where, f"page {listed[twice][0]} is in use, or free twice")
            self.taken[listed] = True

"""The pages of an LMDB file, read without LMDB: every number is checked before it is used.

LMDB trusts its file: a wrong page number or length makes the C library read outside its map and the process die, and
its pages carry no checksums. Here a page is taken as bytes of the file and nothing in it is believed: page numbers lie
inside the file, a page states its own number, nodes lie inside their page. Layout: docs/formats/lmdb.md.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storage import regular_file
from storage.errors import ClosedError, IntegrityError, StorageError

MAGIC = 0xBEEFC0DE
VERSION = 1  # of the data format: LMDB 0.9
PAGE_BYTES_MIN, PAGE_BYTES_MAX = 512, 65536
HEADER_BYTES = 16
NODE_BYTES = 8
DEPTH_MAX = 32
NO_PAGE = (1 << 64) - 1
META_PAGES = 2
BRANCH, LEAF, OVERFLOW, META = 1, 2, 4, 8
BIG, SUBTREE = 1, 2  # flags of a node
INTEGER_KEY = 8  # flag of the tree of free pages
META_ATTEMPTS = 100

_ORDER = "<" if sys.byteorder == "little" else ">"
HEADER = struct.Struct(_ORDER + "QHHHH")  # own number, unused, flags, lower, upper
NODE = struct.Struct(_ORDER + "HHHH")  # low and high half of the size of the value, flags, size of the key
NUMBER = struct.Struct(_ORDER + "Q")
_PAGES = struct.Struct(_ORDER + "I")  # at offset 12 of an overflow page
_META = struct.Struct(_ORDER + "IIQQ")  # magic, version, address, size of the map
_TREE = struct.Struct(_ORDER + "IHHQQQQQ")
_END = struct.Struct(_ORDER + "QQ")  # last page, transaction
TREE_BYTES = _TREE.size
META_BYTES = HEADER_BYTES + _META.size + 2 * TREE_BYTES + _END.size


@dataclass(frozen=True, slots=True)
class Tree:
    """What a file says about one of its trees."""

    pad: int
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int


@dataclass(frozen=True, slots=True)
class Meta:
    """A committed state of the file: page size, the tree of free pages, the tree of trees, last page, transaction."""

    page_bytes: int
    free: Tree
    main: Tree
    last_page: int
    transaction: int


class PageFile:
    """An open data file. Any thread may read; after `close` reading is a ClosedError.

    Raises OSError, and IntegrityError where the path is no regular file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = regular_file.open_to_read(path)
        self._lock = threading.Lock()  # a descriptor that was closed may be another file's by now

    def read(self, offset: int, count: int) -> bytes:
        """`count` bytes at an offset, fewer at the end of the file."""
        with self._lock:
            if self.descriptor < 0:
                raise ClosedError(f"{self.path.parent}: the ledger is closed")
            try:
                return os.pread(self.descriptor, count, offset)
            except OSError as error:
                text = f"{self.path}: offset {offset}: can't be read: {error.strerror}"
                raise (IntegrityError if error.errno == errno.EIO else StorageError)(text) from error

    def size(self) -> int:
        """Bytes of the file."""
        with self._lock:
            if self.descriptor < 0:
                raise ClosedError(f"{self.path.parent}: the ledger is closed")
            return os.fstat(self.descriptor).st_size

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        with self._lock:
            if self.descriptor >= 0:
                os.close(self.descriptor)
                self.descriptor = -1

    def abandon(self) -> None:
        """Close the descriptor in a forked child, where another thread's lock would never come free."""
        descriptor, self.descriptor = self.descriptor, -1
        self._lock = threading.Lock()
        if descriptor >= 0:
            os.close(descriptor)


def damaged(file: PageFile, where: str, text: str) -> IntegrityError:
    """The error for damage at a place of the file."""
    return IntegrityError(f"{file.path}: {where}: {text}", file=str(file.path))


def read_meta(file: PageFile) -> Meta:
    """The newest committed state. Raises IntegrityError for meta pages that LMDB 0.9 can't have written.

    A writer beside us replaces one of the two pages at each commit: they are read until they stand still.
    """
    found = _read_metas(file)
    for _ in range(META_ATTEMPTS):
        again = _read_metas(file)
        if again == found:
            break
        found = again
    first, second = found
    page_bytes = first.page_bytes if isinstance(first, Meta) else 0
    for number, meta in enumerate(found):
        if isinstance(meta, IntegrityError):
            raise meta
        assert isinstance(meta, Meta)
        if meta.page_bytes != page_bytes:
            raise damaged(file, f"page {number}", f"expected pages of {page_bytes} bytes, got {meta.page_bytes}")
        if meta.transaction and meta.transaction % META_PAGES != number:
            raise damaged(file, f"page {number}", f"the transaction {meta.transaction} belongs on the other page")
    assert isinstance(first, Meta) and isinstance(second, Meta)
    if abs(first.transaction - second.transaction) > 1:
        text = f"expected two transactions in a row, got {first.transaction} and {second.transaction}"
        raise damaged(file, "pages 0 and 1", text)
    newest = first if first.transaction > second.transaction else second
    if newest.transaction == 0:
        newest = first
    _check_trees(file, newest)
    return newest


def _read_metas(file: PageFile) -> tuple[Meta | IntegrityError, Meta | IntegrityError]:
    first = _parse_meta(file, 0, file.read(0, META_BYTES))
    if not isinstance(first, Meta):
        return first, first
    return first, _parse_meta(file, 1, file.read(first.page_bytes, META_BYTES))


def _parse_meta(file: PageFile, number: int, data: bytes) -> Meta | IntegrityError:
    where = f"page {number}"
    if len(data) < META_BYTES:
        return damaged(file, where, f"expected {META_BYTES} bytes, got {len(data)}")
    own, _, flags, _, _ = HEADER.unpack_from(data)
    magic, version, _, _ = _META.unpack_from(data, HEADER_BYTES)
    if magic != MAGIC:
        return damaged(file, where, f"magic must be {MAGIC:08x}, got {magic:08x}")
    if version != VERSION:
        return damaged(file, where, f"data version must be {VERSION}, got {version}")
    if own != number or flags != META:
        return damaged(file, where, f"expected number {number} and flags {META}, got {own} and {flags}")
    at = HEADER_BYTES + _META.size
    free = Tree(*_TREE.unpack_from(data, at))
    main = Tree(*_TREE.unpack_from(data, at + TREE_BYTES))
    last_page, transaction = _END.unpack_from(data, at + 2 * TREE_BYTES)
    page_bytes = free.pad
    if page_bytes & (page_bytes - 1) or not PAGE_BYTES_MIN <= page_bytes <= PAGE_BYTES_MAX:
        return damaged(file, where, f"expected a page size from 512 to 65536, got {page_bytes}")
    return Meta(page_bytes, free, main, last_page, transaction)


def _check_trees(file: PageFile, meta: Meta) -> None:
    where = f"page {meta.transaction % META_PAGES}"
    if meta.free.flags != INTEGER_KEY:
        raise damaged(file, where, f"flags of the free pages must be {INTEGER_KEY}, got {meta.free.flags}")
    # A page that was taken and given back in one transaction may never have been written: a little is allowed for.
    held = file.size() // meta.page_bytes
    if not META_PAGES - 1 <= meta.last_page < 2 * held + 1024:
        raise damaged(file, where, f"the last page is {meta.last_page}, the file holds {held} pages")
    check_tree(file, where, meta.main, meta.last_page)
    if meta.free.depth > DEPTH_MAX:
        raise damaged(file, where, f"depth of the free pages must be at most {DEPTH_MAX}, got {meta.free.depth}")


def check_tree(file: PageFile, where: str, tree: Tree, last_page: int) -> None:
    """Raises IntegrityError unless a tree's record can be one of ours."""
    if tree.pad or tree.flags or tree.depth > DEPTH_MAX:
        raise damaged(file, where, f"a tree has pad {tree.pad}, flags {tree.flags}, depth {tree.depth}")
    if (tree.root == NO_PAGE) != (tree.depth == 0) or (tree.root != NO_PAGE and tree.root > last_page):
        raise damaged(file, where, f"a tree of depth {tree.depth} has the root {tree.root} of {last_page} pages")


def unpack_tree(data: bytes) -> Tree:
    """The 48 bytes that stand for a tree in the tree of trees."""
    return Tree(*_TREE.unpack(data))


class Page:
    """A branch or leaf page whose header and node offsets are in bounds; nodes are checked as they are read."""

    __slots__ = ("_keys", "count", "data", "number", "offsets", "where")

    def __init__(self, file: PageFile, number: int, data: bytes, flags: int) -> None:
        self.number = number
        self.data = data
        self.where = file
        self._keys: list[bytes] | None = None
        own, _, found, lower, upper = HEADER.unpack_from(data)
        if own != number or found != flags:
            text = f"expected number {number} and flags {flags}, got {own} and {found}"
            raise damaged(file, f"page {number}", text)
        if not (HEADER_BYTES <= lower <= upper <= len(data)) or lower % 2:
            raise damaged(file, f"page {number}", f"lower {lower} and upper {upper} of {len(data)} bytes")
        self.count = (lower - HEADER_BYTES) // 2
        self.offsets: tuple[int, ...] = struct.unpack_from(f"{_ORDER}{self.count}H", data, HEADER_BYTES)
        if self.count and (min(self.offsets) < upper or max(self.offsets) > len(data) - NODE_BYTES):
            raise damaged(file, f"page {number}", f"a node lies outside {upper}..{len(data)}")
        if flags == BRANCH and self.count < 1:
            raise damaged(file, f"page {number}", "a branch without children")

    def _outside(self, index: int) -> IntegrityError:
        return damaged(self.where, f"page {self.number}", f"node {index} ends outside the page")

    def key(self, index: int) -> bytes:
        """The key of a node."""
        at = self.offsets[index]
        size = NODE.unpack_from(self.data, at)[3]
        end = at + NODE_BYTES + size
        if end > len(self.data):
            raise self._outside(index)
        return self.data[at + NODE_BYTES : end]

    def child(self, index: int) -> int:
        """The page that a node of a branch leads to."""
        low, high, top, _ = NODE.unpack_from(self.data, self.offsets[index])
        number: int = low | high << 16 | top << 32
        return number

    def descend(self, key: bytes) -> int:
        """Index of the child in which a key lies. The first key of a branch stands for all smaller ones."""
        if self._keys is None:
            self._keys = [self.key(i) for i in range(1, self.count)]
        return bisect_right(self._keys, key)

    def find(self, key: bytes) -> int:
        """Index of the first node of a leaf whose key is not below `key`."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.key(middle) < key:
                low = middle + 1
            else:
                high = middle
        return low

    def node(self, index: int) -> tuple[bytes, int, int, bytes]:
        """Key, flags, size of the value and stored bytes of a node of a leaf: the value, or where it lies."""
        at, data = self.offsets[index], self.data
        low, high, flags, key_size = NODE.unpack_from(data, at)
        size = low | high << 16
        start = at + NODE_BYTES + key_size
        end = start + (NUMBER.size if flags & BIG else size)
        if end > len(data):
            raise self._outside(index)
        return data[at + NODE_BYTES : start], flags, size, data[start:end]


class Outdated(Exception):
    """The writer has begun to use pages of this view for something else."""


class View:
    """The pages of one committed state. `outdated` tells, after each read, whether the pages may be others by now."""

    BRANCHES_KEPT = 512

    def __init__(self, file: PageFile, meta: Meta, outdated: Callable[[int], bool] = lambda _: False) -> None:
        self.file = file
        self._outdated = outdated
        self.meta = meta
        self.page_bytes = meta.page_bytes
        self._branches: dict[int, Page] = {}

    def raw(self, number: int, count: int = 1) -> bytes:
        """The bytes of consecutive pages, all inside the file."""
        if number < META_PAGES or number + count - 1 > self.meta.last_page:
            raise damaged(self.file, f"page {number}", f"expected pages {META_PAGES}..{self.meta.last_page}")
        data = self.file.read(number * self.page_bytes, count * self.page_bytes)
        if self._outdated(self.meta.transaction):
            raise Outdated
        if len(data) != count * self.page_bytes:
            raise damaged(self.file, f"page {number}", "lies behind the end of the file")
        return data

    def branch(self, number: int) -> Page:
        """A branch page; some are kept."""
        page = self._branches.get(number)
        if page is None:
            page = Page(self.file, number, self.raw(number), BRANCH)
            if len(self._branches) >= self.BRANCHES_KEPT:
                self._branches.clear()
            self._branches[number] = page
        return page

    def leaf(self, number: int) -> Page:
        """A leaf page."""
        return Page(self.file, number, self.raw(number), LEAF)

    def overflow_pages(self, size: int) -> int:
        """Pages that a value of a size takes when it lies outside its leaf."""
        return (HEADER_BYTES + size - 1) // self.page_bytes + 1

    def big(self, number: int, size: int) -> bytes:
        """A value that lies on pages of its own."""
        count = self.overflow_pages(size)
        data = self.raw(number, count)
        own, _, flags, _, _ = HEADER.unpack_from(data)
        (pages,) = _PAGES.unpack_from(data, 12)
        if own != number or flags != OVERFLOW or pages < count:
            text = f"expected number {number}, flags {OVERFLOW}, {count} pages or more, got {own}, {flags}, {pages}"
            raise damaged(self.file, f"page {number}", text)
        return data[HEADER_BYTES : HEADER_BYTES + size]

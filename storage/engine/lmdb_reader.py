"""An LMDB store opened to read, without LMDB: one committed state, whatever a writer does meanwhile.

A reader takes a shared lock on the data file, which alters no byte and needs no right to write; the system drops it
when its holder ends. While anybody holds it the writer uses no page again that a state since then needs.
"""

from __future__ import annotations

import errno
import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from storage.engine.lmdb_pages import (
    META_PAGES,
    SUBTREE,
    TREE_BYTES,
    Outdated,
    PageFile,
    View,
    check_tree,
    damaged,
    read_meta,
    unpack_tree,
)
from storage.engine.lmdb_tree import TreeReader
from storage.engine.store import Entry
from storage.errors import ClosedError, IntegrityError, LimitError, ReadOnlyError, StorageError
from storage.layout import FAMILIES

T = TypeVar("T")

DATA_FILE = "data.mdb"
SUMMED = frozenset(("ids", "tree", "meta"))
LOCK_ATTEMPTS = 200
LIMIT_NUMBERS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class LmdbReader:
    """An LMDB store opened to read: one committed state, whatever a writer does meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._closed = False
        self._safe_from = 0
        self._file = opened(folder / DATA_FILE)
        try:
            self._share()
            self._look()
        except BaseException:
            self._file.close()
            raise

    def _share(self) -> None:
        """Take the shared lock; the writer holds the other kind for a moment at each commit."""
        for attempt in range(LOCK_ATTEMPTS):
            try:
                fcntl.flock(self._file.descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(0.0001 * attempt)
            except OSError as error:
                raise StorageError(f"{self.path}: the file system gives no locks: {error.strerror}") from error
        raise StorageError(f"{self.path}: another program holds {DATA_FILE} locked")

    def _look(self) -> None:
        """See the newest committed state."""
        self._view = View(self._file, read_meta(self._file), lambda transaction: transaction < self._safe_from)
        self._trees, self._strangers = trees_of(self._view)

    def _now(self) -> dict[str, TreeReader]:
        if self._closed:
            raise ClosedError(f"{self.path}: the ledger is closed")
        return self._trees

    def _read(self, read: Callable[[dict[str, TreeReader]], T]) -> T:
        while True:
            trees = self._now()
            try:
                return read(trees)
            except Outdated:
                pass
            except ClosedError:
                if trees is self._trees:
                    raise  # else the file was replaced by a compacted one

    def get(self, family: str, key: bytes) -> bytes | None:
        return self._read(lambda trees: trees[family].get(key))

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.get(family, key) for key in keys]

    def scan(self, family: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        while True:
            trees = self._now()
            try:
                for pair in trees[family].scan(start, stop):
                    yield pair
                    start = pair[0] + b"\0"
            except Outdated:
                pass
            except ClosedError:
                if trees is self._trees:
                    raise
            else:
                return

    def last_key(self, family: str) -> bytes | None:
        return self._read(lambda trees: trees[family].last_key())

    def faults(self) -> list[tuple[str, str]]:
        expected = f"expected the families {', '.join(FAMILIES)}, got another with content"
        from storage.engine.lmdb_check import check_pages

        found = [(where, f"{where}: {expected}") for where in self._strangers]
        try:
            check_pages(self._view)
        except IntegrityError as error:
            found.append((DATA_FILE, str(error)))
        return found

    def write(self, entries: Sequence[Entry], *, sync: bool) -> None:
        raise ReadOnlyError(f"{self.path}: opened to read")

    def sync(self) -> None:
        raise ReadOnlyError(f"{self.path}: opened to read")

    flush = compact = sync

    def close(self) -> None:
        self._closed = True
        self._file.close()

    def abandon(self) -> None:
        self._closed = True
        self._file.abandon()  # the lock belongs to the descriptor, which the parent still has


def opened(path: Path) -> PageFile:
    """A data file. Raises IntegrityError where there is none, StorageError where it can't be read."""
    try:
        return PageFile(path)
    except OSError as error:
        text = f"{path.parent}: can't be read: {error.strerror}: {path}"
        if error.errno in LIMIT_NUMBERS:
            raise LimitError(f"{text} (hint: ulimit -n)") from error
        kind = IntegrityError if error.errno in (errno.EIO, errno.ENOENT) else StorageError
        raise kind(text) from error


def is_read(file: PageFile) -> bool:
    """Whether anybody reads the file, holding the shared lock. If not, the exclusive one is taken."""
    try:
        fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def trees_of(view: View) -> tuple[dict[str, TreeReader], list[str]]:
    """The families of a view, and the names of other trees."""
    trees, strangers = {}, []
    main = TreeReader(view, view.meta.main, "main", summed=False)
    for leaf, index in main.nodes():
        key, flags, size, stored = leaf.node(index)
        name = key.decode(errors="backslashreplace")
        where = f"page {leaf.number}"
        if flags != SUBTREE or size != TREE_BYTES:
            raise damaged(view.file, where, f"expected a tree of {TREE_BYTES} bytes, got {name!r}")
        tree = unpack_tree(stored)
        check_tree(view.file, where, tree, view.meta.last_page)
        if name in FAMILIES:
            trees[name] = TreeReader(view, tree, name, summed=name in SUMMED)
        else:
            strangers.append(name)
    if not view.meta.main.entries:  # of a making that was interrupted: the families are as empty as the tree of trees
        trees = {name: TreeReader(view, view.meta.main, name, summed=name in SUMMED) for name in FAMILIES}
    if set(trees) != set(FAMILIES):
        where = f"page {view.meta.transaction % META_PAGES}"
        raise damaged(view.file, where, f"expected the families {', '.join(FAMILIES)}, got {', '.join(trees)}")
    return trees, strangers

"""An index of vectors whose rows are addressed by unsigned 64-bit ids."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vector import checks, score
from vector.errors import VectorKeyError, VectorValueError
from vector.id_table import NOWHERE, id_table
from vector.index_core import IndexCore, IndexOfRows
from vector.index_header import JVIM
from vector.row_store import RowStore

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

__all__ = ["IdMapIndex"]


class IdMapIndex(IndexOfRows):
    """Nearest neighbours among rows of `dim` coordinates, kept at 4 bits a coordinate; each row has an id of its own.

    dim: 1 … 16384; bits: 4; metric: "ip" (inner product), "cosine" or "l2"; seed: of the rotation, below 2^64.
    Nothing is trained. Answers have the same bits on every machine, for any number of threads, any batch of queries
    and any order in which the rows came. Searches may run in several threads while one adds or removes: each answers
    from the rows of the moment it began. Raises VectorTypeError and VectorValueError (a TypeError, a ValueError)
    naming the argument.

    >>> index = IdMapIndex(2, metric="l2")
    >>> index.add(np.array([[0, 0], [3, 4], [9, 9]], np.float32), np.array([70, 80, 90], np.uint64))
    >>> index.search(np.array([[3, 4]], np.float32), k=2)[1]
    array([[80, 70]], dtype=uint64)
    >>> index.remove(80)
    >>> index.search(np.array([[3, 4]], np.float32), k=2)[1]
    array([[70, 90]], dtype=uint64)
    """

    def __init__(self, dim: int, bits: int = 4, metric: str = "ip", seed: int = 0) -> None:
        self._adopt(IndexCore("IdMapIndex", dim, bits, metric, seed, with_ids=True))

    def _adopt(self, core: IndexCore) -> None:
        self._core = core
        self._table = id_table(core.store)

    def __contains__(self, id: int) -> bool:
        wanted = np.array([checks.integer(id, "IdMapIndex", "id", 0, 2**64 - 1, "2**64 - 1")], np.uint64)
        with self._core.access.brief():
            return bool(self._table.find(wanted)[0] != NOWHERE)

    def add(self, x: object, ids: object) -> None:
        """Adds rows under new ids. All of them, or none if anything is wrong.

        x: float32[n, dim], any strides, finite and below 1e16 in magnitude; ids: uint64[n]. Raises VectorValueError
        naming the first bad row and column, or the id that is in the index or the batch already; MemoryError
        (BudgetExceeded).
        """
        rows, names = self._batch(x, ids, "add")
        with self._core.access.writing():
            present = self._table.find(names) != NOWHERE
            if present.any():
                at = int(present.argmax())
                raise VectorValueError(
                    f"IdMapIndex.add: ids[{at}] = {names[at]} is in the index already, nothing was added "
                    "(hint: upsert replaces)"
                )
            self._append(rows, names, "add")

    def upsert(self, x: object, ids: object) -> None:
        """Adds rows, replacing those whose ids are there. All of them, or none; arguments and errors as of `add`.

        >>> index = IdMapIndex(2)
        >>> index.upsert(np.array([[1, 0]], np.float32), np.array([5], np.uint64))
        >>> index.upsert(np.array([[8, 6], [0, 1]], np.float32), np.array([5, 6], np.uint64))
        >>> len(index), index.reconstruct(5).round()
        (2, array([8., 6.], dtype=float32))
        """
        rows, names = self._batch(x, ids, "upsert")
        core = self._core
        with core.access.writing():
            found = self._table.find(names)
            old = found != NOWHERE
            if not old.any():
                self._append(rows, names, "upsert")
                return
            encoded = RowStore(core.turn.padded, l2=core.store.l2, with_ids=True)
            core.prepare(rows, encoded, "upsert")
            encoded.set_ids(0, names)
            new = np.flatnonzero(~old)
            total = core.rows + len(new)
            with core.access.brief():
                core.store.grow(total)
                self._table.reserve(total)
                replaced = found[old].astype(np.int64)
                core.store.make_writable(replaced)
                with core.access.changing():
                    core.store.take(encoded, np.flatnonzero(old), replaced)
                    core.store.take(encoded, new, np.arange(core.rows, total))
                    self._table.insert(total)
                    core.store.rows = total

    def search(self, q: object, k: int, allow: object = None, deny: object = None) -> tuple[F32, U64]:
        """The k best rows of each query: scores float32[nq, m] and ids uint64[nq, m], best first.

        q: float32[nq, dim]; k: from 0 on; allow, deny: uint64 arrays of ids that may, or may not, be answered (repeated
        ones count once; None: all, none). m = min(k, allowed rows). The order is by exact keys, equal ones by ascending
        id. A score estimates inner product, cosine, or minus the squared distance. Raises VectorKeyError naming an id
        that no row has.
        """
        if allow is None and deny is None:
            return self._core.search(q, k, None)
        lists = [(None if a is None else checks.ids(a, "IdMapIndex.search", n), n) for a, n in self._named(allow, deny)]

        def choose(rows: int) -> tuple[U32, int]:
            chosen, denied = (None if ids is None else self._found(ids, f"search: {name}") for ids, name in lists)
            return score.allowed_bits(chosen, denied, rows)

        return self._core.search(q, k, choose)

    @staticmethod
    def _named(allow: object, deny: object) -> tuple[tuple[object, str], tuple[object, str]]:
        return (allow, "allow"), (deny, "deny")

    def remove(self, ids: object) -> None:
        """Takes rows out: one id, or uint64[n] of them, all or none. The last rows move into the free slots.

        The slots are as if rows had been removed one by one, the highest slot first. Raises VectorKeyError naming an id
        that no row has, VectorValueError for one that is given twice.
        """
        core = self._core
        if isinstance(ids, (int, np.integer)) and not isinstance(ids, (bool, np.bool_)):
            ids = np.array([checks.integer(ids, "IdMapIndex.remove", "id", 0, 2**64 - 1, "2**64 - 1")], np.uint64)
        names = checks.ids(ids, "IdMapIndex.remove", "ids")
        self._unique(names, "remove", "removed")
        with core.access.writing(), core.access.brief():
            holes = np.sort(self._found(names, "remove"))
            left = core.rows - len(holes)
            movers = np.setdiff1d(np.arange(left, core.rows), holes, assume_unique=True)
            holes = holes[holes < left]
            moved = core.store.ids_at(movers)
            core.store.make_writable(holes)
            with core.access.changing():
                self._table.erase(names)
                self._table.relocate(moved, holes.astype(np.uint32))
                core.store.take(core.store, movers, holes)
                core.store.shrink(left)

    def reconstruct(self, id: int) -> F32:
        """float32[dim]: the vector that a row is scored as. Raises VectorKeyError if no row has the id."""
        name = "IdMapIndex.reconstruct"
        wanted = np.array([checks.integer(id, name, "id", 0, 2**64 - 1, "2**64 - 1")], np.uint64)
        with self._core.access.brief():
            return self._core.reconstruct(int(self._found(wanted, "reconstruct")[0]))

    def ids(self) -> U64:
        """uint64[n]: the ids of all rows, by slot.

        >>> index = IdMapIndex(1)
        >>> index.add(np.ones((2, 1), np.float32), np.array([9, 2**64 - 1], np.uint64))
        >>> index.ids()
        array([                   9, 18446744073709551615], dtype=uint64)
        """
        with self._core.access.brief():
            return self._core.store.ids_at(np.arange(self._core.rows))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> IdMapIndex:
        """The index of a .jvim file, every byte of it checked. Raises OSError, IndexFileError."""
        index = cls.__new__(cls)
        index._adopt(IndexCore.load("IdMapIndex", path, JVIM))
        return index

    def __setstate__(self, state: dict[str, Any]) -> None:
        core = IndexCore("IdMapIndex", **state["settings"], with_ids=True)
        core.restore(state)
        self._adopt(core)

    def _batch(self, x: object, ids: object, method: str) -> tuple[F32, U64]:
        rows = self._core.vectors(x, method)
        names = checks.ids(ids, f"IdMapIndex.{method}", "ids", len(rows))
        self._unique(names, method, "added")
        return rows, names

    @staticmethod
    def _unique(names: U64, method: str, done: str) -> None:
        order = np.argsort(names, kind="stable")
        again = np.flatnonzero(names[order[1:]] == names[order[:-1]])
        if len(again):
            second = int(order[again + 1].min())
            first = int(np.flatnonzero(names == names[second])[0])
            raise VectorValueError(
                f"IdMapIndex.{method}: ids[{second}] = {names[second]} is ids[{first}] again, nothing was {done}"
            )

    def _append(self, rows: F32, names: U64, method: str) -> None:
        core = self._core
        core.prepare(rows, core.store, method)
        total = core.rows + len(rows)
        with core.access.brief():
            self._table.reserve(total)
            core.store.set_ids(core.rows, names)
            with core.access.changing():
                self._table.insert(total)
                core.store.rows = total

    def _found(self, ids: U64, what: str) -> I64:
        slots = self._table.find(ids)
        missing = slots == NOWHERE
        if missing.any():
            raise VectorKeyError(f"IdMapIndex.{what}: no row has id {ids[int(missing.argmax())]}")
        return slots.astype(np.int64)

"""An index of vectors whose rows are addressed by their slots, 0 … n−1."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vector import checks, score
from vector.errors import VectorKeyError
from vector.index_core import IndexCore, IndexOfRows
from vector.index_header import JVI

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]

__all__ = ["TurboIndex"]


class TurboIndex(IndexOfRows):
    """Nearest neighbours among rows of `dim` coordinates, kept at 4 bits a coordinate; a row's id is its slot.

    dim: 1 … 16384; bits: 4; metric: "ip" (inner product), "cosine" or "l2"; seed: of the rotation, below 2^64.
    Nothing is trained. Answers have the same bits on every machine, for any number of threads and any batch of
    queries. Searches may run in several threads while one adds or removes: each answers from the rows of the moment
    it began. Raises VectorTypeError and VectorValueError (a TypeError, a ValueError) naming the argument.

    >>> index = TurboIndex(2, metric="l2")
    >>> index.add(np.array([[0, 0], [3, 4], [9, 9]], np.float32))
    >>> scores, slots = index.search(np.array([[3, 4]], np.float32), k=2)
    >>> slots
    array([[1, 0]], dtype=uint64)
    """

    def __init__(self, dim: int, bits: int = 4, metric: str = "ip", seed: int = 0) -> None:
        self._core = IndexCore("TurboIndex", dim, bits, metric, seed, with_ids=False)

    def add(self, x: object) -> None:
        """Adds rows; they get the next slots. All of them, or none if anything is wrong.

        x: float32[n, dim], any strides, finite and below 1e16 in magnitude. Raises VectorValueError naming the first
        bad row and column, MemoryError (BudgetExceeded).
        """
        core = self._core
        rows = core.vectors(x, "add")
        with core.access.writing():
            core.prepare(rows, core.store, "add")
            with core.access.brief():
                core.store.rows += len(rows)

    def search(self, q: object, k: int, allow: object = None, deny: object = None) -> tuple[F32, U64]:
        """The k best rows of each query: scores float32[nq, m] and slots uint64[nq, m], best first.

        q: float32[nq, dim]; k: from 0 on; allow, deny: uint64 arrays of slots that may, or may not, be answered
        (repeated ones count once; None: all, none). m = min(k, allowed rows). The order is by exact keys, equal ones
        by ascending slot. A score estimates inner product, cosine, or minus the squared distance. Raises
        VectorKeyError naming a slot that no row has.

        >>> index = TurboIndex(4)
        >>> index.add(np.eye(4, dtype=np.float32))
        >>> index.search(np.eye(4, dtype=np.float32)[:1], k=1, deny=np.array([0], np.uint64))[1].shape
        (1, 1)
        """
        if allow is None and deny is None:
            return self._core.search(q, k, None)
        lists = [
            (None if a is None else checks.ids(a, "TurboIndex.search", name), name)
            for a, name in ((allow, "allow"), (deny, "deny"))
        ]

        def choose(rows: int) -> tuple[U32, int]:
            for slots, name in lists:
                if slots is not None and len(slots) and int(slots.max()) >= rows:
                    raise VectorKeyError(f"TurboIndex.search: {name}: no row has slot {slots.max()} (rows: {rows})")
            chosen, denied = (None if slots is None else slots.astype(np.int64) for slots, _ in lists)
            return score.allowed_bits(chosen, denied, rows)

        return self._core.search(q, k, choose)

    def remove(self, slot: int) -> None:
        """Takes a row out; the last row moves into its slot. Raises VectorKeyError if no row has it."""
        core = self._core
        with core.access.writing(), core.access.brief():
            place, last = self._slot(slot, "remove"), core.store.rows - 1
            target = np.array([place])
            core.store.make_writable(target)
            with core.access.changing():
                if place != last:
                    core.store.take(core.store, np.array([last]), target)
                core.store.shrink(last)

    def reconstruct(self, slot: int) -> F32:
        """float32[dim]: the vector that a row is scored as. Raises VectorKeyError if no row has the slot.

        >>> index = TurboIndex(2)
        >>> index.add(np.array([[3, 4]], np.float32))
        >>> index.reconstruct(0).round()
        array([3., 4.], dtype=float32)
        """
        with self._core.access.brief():
            return self._core.reconstruct(self._slot(slot, "reconstruct"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TurboIndex:
        """The index of a .jvi file, every byte of it checked. Raises OSError, IndexFileError."""
        index = cls.__new__(cls)
        index._core = IndexCore.load("TurboIndex", path, JVI)
        return index

    def __setstate__(self, state: dict[str, Any]) -> None:
        TurboIndex.__init__(self, **state["settings"])
        self._core.restore(state)

    def _slot(self, slot: object, method: str) -> int:
        name, rows = f"TurboIndex.{method}", self._core.rows
        number = checks.integer(slot, name, "slot", 0, 2**64 - 1, "2**64 - 1")
        if number >= rows:
            raise VectorKeyError(f"{name}: no row has slot {number} (rows: {rows})")
        return number

"""Twin of vector/kernels/id_table.cpp: the same answers from a Python dict."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vector.row_store import RowStore

U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]

NOWHERE = 2**32 - 1


class DictTable:
    """The slots of the ids of a store; see IdTable."""

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self._slots: dict[int, int] = {}
        self._enter(0, store.rows)

    def reserve(self, rows: int) -> None:
        """A dict grows by itself."""

    def insert(self, rows: int) -> None:
        self._enter(self._store.rows, rows)

    def find(self, ids: U64) -> U32:
        return np.array([self._slots.get(i, NOWHERE) for i in ids.tolist()], np.uint32)

    def erase(self, ids: U64) -> None:
        for i in ids.tolist():
            del self._slots[i]

    def relocate(self, ids: U64, slots: U32) -> None:
        self._slots.update(zip(ids.tolist(), slots.tolist(), strict=True))

    def _enter(self, first: int, rows: int) -> None:
        ids = self._store.ids_at(np.arange(first, rows))
        self._slots.update(zip(ids.tolist(), range(first, rows), strict=True))

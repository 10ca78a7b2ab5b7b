"""From ids to slots: a table of 4-byte slots with open addressing; the ids themselves lie beside the rows, once.

It is made for 70 % and grows at 80 %, so it takes 5 to 6 bytes a row. What it answers does not depend on its layout.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor import memory
from vector import _kernels
from vector.id_table_ref import DictTable
from vector.row_store import RowStore

U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]

NOWHERE = 2**32 - 1  # the slot of an id that no row has
FILL_MAX, FILL_NEW = 0.8, 0.7
PAGED_PLACES = 16384  # from here on a table lies in pages of its own
REFERENCE = _kernels.isa() == "ref"


class IdTable:
    """The slots of the ids of a store."""

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self._slots: U32 = self._filled(store.rows)

    def reserve(self, rows: int) -> None:
        """Makes room for that many rows. Raises MemoryError (BudgetExceeded) with the table as it was."""
        if rows > FILL_MAX * len(self._slots):
            self._slots = self._filled(rows)

    def insert(self, rows: int) -> None:
        """Enters the slots store.rows … rows − 1, whose ids are written and new."""
        inserted = _kernels.id_table_insert(*self._arguments(rows), self._store.rows)
        assert inserted == rows - self._store.rows

    def find(self, ids: U64) -> U32:
        """uint32[n]: the slot of each id, NOWHERE where no row has it."""
        found = np.empty(len(ids), np.uint32)
        _kernels.id_table_find(*self._arguments(self._store.rows), ids, found)
        return found

    def erase(self, ids: U64) -> None:
        """Takes ids out; their rows are still in the store."""
        _kernels.id_table_erase(*self._arguments(self._store.rows), ids)

    def relocate(self, ids: U64, slots: U32) -> None:
        """Gives ids other slots; the rows are still where they were."""
        _kernels.id_table_relocate(*self._arguments(self._store.rows), ids, slots)

    def _arguments(self, rows: int) -> tuple[U32, list[U64], int, int]:
        return self._slots, *self._ids(rows)

    def _ids(self, rows: int) -> tuple[list[U64], int, int]:
        chunks = [segment.ids for segment in self._store.segments if segment.first < rows]
        return chunks, self._store.shift, rows

    def _filled(self, rows: int) -> U32:
        """A table with room for that many rows that holds those of the store."""
        places = int(rows / FILL_NEW) + 64
        slots: U32
        if places < PAGED_PLACES:
            slots = memory.allocate((places,), np.uint32, "index id table")
        else:
            slots = memory.allocate_pages(4 * places, f"index id table uint32[{places}]").view(np.uint32)
        slots.fill(NOWHERE)
        inserted = _kernels.id_table_insert(slots, *self._ids(self._store.rows), 0)
        assert inserted == self._store.rows
        return slots


def id_table(store: RowStore) -> IdTable | DictTable:
    """The table of the rows that a store has now."""
    return DictTable(store) if REFERENCE else IdTable(store)

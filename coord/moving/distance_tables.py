"""Distances to the goals of a grid fleet, kept as one bit a cell within a budget of bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coord.ground.lattice import I32, U64, Lattice

TABLE_BYTES_MAX = 64 * 2**20  # of goals that nobody goes to any more; those in use always stay


class DistanceTables:
    """A bit table for each goal that was asked for; which of them are kept never shows in a result.

    When a new one would pass the budget, the one unused for longest goes first (of those the lower row).

    >>> from coord.ground.grid import Grid
    >>> tables = DistanceTables(Lattice(Grid(3, 1, 1.0, 0.0, 0.0, np.zeros((1, 3), np.bool_))))
    >>> tables.rows(np.array([6, 7, 6], np.int32)).tolist(), len(tables)
    ([0, 1, 0], 2)
    """

    def __init__(self, lattice: Lattice, budget_bytes: int = TABLE_BYTES_MAX) -> None:
        self._lattice = lattice
        self._rows_max = max(1, budget_bytes // (8 * lattice.words))
        self._row_of = np.full(lattice.cells, -1, np.int32)
        self._goal_of = np.zeros(0, np.int32)
        self._used = np.zeros(0, np.int64)  # call in which a row was used last
        self._calls = 0
        self.bits: U64 = np.zeros((1, lattice.words), np.uint64)  # [rows or more, words]

    def __len__(self) -> int:
        return len(self._goal_of)

    def rows(self, goals: I32) -> npt.NDArray[np.int32]:
        """The row of `bits` of each goal (a free cell), made where it is missing."""
        self._calls += 1
        wanted = np.unique(goals)
        known = self._row_of[wanted]
        self._used[known[known >= 0]] = self._calls
        missing = wanted[known < 0]
        if len(missing):
            self._make(missing)
        return self._row_of[goals]

    def _make(self, goals: I32) -> None:
        free = self._evicted(min(len(self) + len(goals) - self._rows_max, len(goals)))
        fresh = np.arange(len(self), len(self) + len(goals) - len(free), dtype=np.int32)
        rows = np.concatenate([free, fresh])
        size = len(self) + len(fresh)
        if size > len(self.bits):
            grown = np.empty((max(size, min(2 * size, self._rows_max)), self._lattice.words), np.uint64)
            grown[: len(self)] = self.bits[: len(self)]
            self.bits = grown
        self._goal_of = np.concatenate([self._goal_of, np.zeros(len(fresh), np.int32)])
        self._used = np.concatenate([self._used, np.zeros(len(fresh), np.int64)])
        self._row_of[goals], self._goal_of[rows], self._used[rows] = rows, goals, self._calls
        for first in range(0, len(rows), 256):
            some = slice(first, first + 256)
            self.bits[rows[some]], _ = self._lattice.distances(goals[some], goals[some])

    def _evicted(self, count: int) -> npt.NDArray[np.int32]:
        """Up to `count` rows that are not used now, given up."""
        idle = np.flatnonzero(self._used < self._calls)
        out = idle[np.argsort(self._used[idle], kind="stable")][: max(count, 0)].astype(np.int32)
        self._row_of[self._goal_of[out]] = -1
        return out

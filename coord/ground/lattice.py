"""The grid as agents that step from cell to cell see it: numbered cells, their exits, and distances to goals.

Cells are numbered with a blocked border around the grid: (row + 1)·(width + 2) + column + 1, row 0 in the south.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from coord import backend
from coord.ground.grid import Grid
from coord.sites.movingai import cell_centres

I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]


class Lattice:
    """Cells and exits of a grid. Immutable.

    `exits` has bit d where the cell in direction d (0 north, 1 east, 2 south, 3 west) is free, and 0 for blocked cells.

    >>> lattice = Lattice(Grid(2, 1, 1.0, 0.0, 0.0, np.zeros((1, 2), np.bool_)))
    >>> lattice.width, np.flatnonzero(lattice.exits).tolist(), lattice.exits[[5, 6]].tolist()
    (4, [5, 6], [2, 8])
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.width = grid.width + 2
        self.cells = self.width * (grid.height + 2)
        self.words = (self.cells + 63) // 64
        free = np.zeros((grid.height + 2, self.width), np.bool_)
        free[1:-1, 1:-1] = ~grid.blocked
        exits = np.zeros(free.shape, np.uint8)
        inner = free[1:-1, 1:-1]
        sides = (free[2:, 1:-1], free[1:-1, 2:], free[:-2, 1:-1], free[1:-1, :-2])
        for direction, beside in enumerate(sides):
            exits[1:-1, 1:-1] |= (inner & beside).astype(np.uint8) << np.uint8(direction)
        self.free = free.reshape(-1)
        self.exits = exits.reshape(-1)
        self.offsets = (self.width, 1, -self.width, -1)
        packed = np.packbits(self.free, bitorder="little")
        self.free_bits = np.concatenate([packed, np.zeros(self.words * 8 - len(packed), np.uint8)]).view("<u8")

    def cells_of(self, x: npt.NDArray[np.float32], y: npt.NDArray[np.float32]) -> I32:
        """The cell of each point; 0, a cell of the border, outside of the grid."""
        return self.numbers(self.grid.index_of(x, y))

    def numbers(self, index: npt.NDArray[np.int64]) -> I32:
        """Numbers of the cells row * width + column; 0 where that is -1."""
        row, column = index // self.grid.width, index % self.grid.width
        return np.where(index < 0, 0, (row + 1) * self.width + column + 1).astype(np.int32)

    def indices(self, cells: I32) -> npt.NDArray[np.int64]:
        """row * width + column of cells that are not on the border."""
        cells = cells.astype(np.int64)
        return (cells // self.width - 1) * self.grid.width + cells % self.width - 1

    def centres(self, cells: I32) -> npt.NDArray[np.float32]:  # [n, 2] metres
        """Centres of cells."""
        return cell_centres(self.grid, self.indices(cells))

    def around(self, cell: int) -> Iterator[int]:
        """A free cell and all that are connected with it, the near ones first: breadth first, N, E, S, W."""
        queue, seen = deque([cell]), {cell}
        while queue:
            yield (cell := queue.popleft())
            beside = (cell + offset for d, offset in enumerate(self.offsets) if self.exits[cell] >> d & 1)
            fresh = [other for other in beside if other not in seen]
            seen.update(fresh)
            queue.extend(fresh)

    def distances(self, starts: I32, goals: I32) -> tuple[U64, I32]:
        """(u64[n, words], i32[n]): the low bit of distance ÷ 2 to each goal, of every cell, and the distance of its
        start; -1 where there is no way. Neighbours' distances differ by one and their parity is the chequerboard's, so
        one bit tells which of them is nearer."""
        bits = np.empty((len(goals), self.words), np.uint64)
        length = np.empty(len(goals), np.int32)
        backend.grid_waves(self.free_bits, self.width, self.cells, starts, goals, bits, length)
        return bits, length

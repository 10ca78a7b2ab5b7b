"""Motion, service and energy of one tick: float32, each operation rounded, in the order written here.

Source: `docs/formats/coord-scenario.md`, section "One tick". Agents do not act on each other while they move, so a
whole array at once is the same as one agent after the other by ascending id.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from coord import backend
from coord.ground.grid import Grid
from coord.moving import motion_ref
from coord.records import Records
from coord.sites.movingai import cell_centres

F32 = np.float32
HORIZON = 64  # directions kept of each path; the tail is searched again when they are used up
NORMAL_MIN = np.finfo(np.float32).tiny


def can_move(speed: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Speeds that are normal numbers above 0 (also not NaN or infinite)."""
    return (speed >= NORMAL_MIN) & np.isfinite(speed)


def distances(
    dx: npt.NDArray[np.float32], dy: npt.NDArray[np.float32], dz: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """sqrt((dx·dx + dy·dy) + dz·dz)."""
    out: npt.NDArray[np.float32] = np.sqrt((dx * dx + dy * dy) + dz * dz)
    return out


Columns: TypeAlias = "tuple[npt.NDArray[np.float32], ...]"


def straight_step(
    agents: Records | Columns,  # records with x, y, z and speed, or these four float32[n]: moved in place
    targets: Records | npt.NDArray[np.float32] | Columns,  # records with x, y, z; float32[n, 3]; or three float32[n]
    *,
    rows: npt.NDArray[np.int64] | None = None,  # [m] ascending: only these agents step, each to the target of its row
    gone_m: npt.NDArray[np.float32] | None = None,  # [m or n] written: metres gone
    arrived: npt.NDArray[np.int64] | None = None,  # [m or n] its first are written: rows that stand at their target
) -> int:  # how many rows `arrived` begins with, 0 without it
    """One step of min(speed, distance) towards each agent's target, in the caller's arrays; nothing is allocated.

    d = target - position, distance = sqrt((dx·dx + dy·dy) + dz·dz), in float32, each operation rounded, in that order.
    distance ≤ speed: the target itself. Else position + d·(speed ÷ distance). A speed that is no normal number above 0
    leaves the agent where it is. The same bits alone or among others, as records or as columns, with any threads.

    Raises TypeError for an array that is no float32 (or can't be written), ValueError for lengths that differ and for
    rows that are no ascending rows of the agents.

    >>> x, y, z, speed = (np.array([v], np.float32) for v in (0, 0, 0, 2.5))
    >>> straight_step((x, y, z, speed), np.array([[3, 4, 0]], np.float32))
    0
    >>> (x[0].item(), y[0].item())
    (1.5, 2.0)
    """
    x, y, z, speed = _columns(agents, ("x", "y", "z", "speed"), "agents")
    goal = _columns(targets, ("x", "y", "z"), "targets")
    if any(len(column) != len(x) for column in (y, z, speed, *goal)):
        raise ValueError(f"straight_step: expected a target an agent, got {len(goal[0])} for {len(x)} agents")
    return backend.straight_steps((x, y, z), speed, (goal[0], goal[1], goal[2]), rows, gone_m, arrived)


def _columns(table: object, fields: tuple[str, ...], name: str) -> Columns:
    """The float32 columns of records, of an array of rows, or as they were given."""
    if isinstance(table, tuple) and len(table) == len(fields):
        columns = table
    elif isinstance(table, np.ndarray) and table.dtype.names is not None and set(fields) <= set(table.dtype.names):
        columns = tuple(table[field] for field in fields)
    elif isinstance(table, np.ndarray) and table.ndim == 2 and table.shape[1] == len(fields) == 3:
        columns = tuple(table[:, i] for i in range(3))
    else:
        raise TypeError(f"straight_step: {name} must be records or columns with {', '.join(fields)}")
    for field, column in zip(fields, columns, strict=True):
        if not isinstance(column, np.ndarray) or column.dtype != np.float32 or column.ndim != 1:
            raise TypeError(f"straight_step: {field} of {name} must be float32[n]")
    return columns


class GridPaths:
    """The ways of a grid fleet: one cell and at most 64 directions an agent, and the buffers of the search.

    Of all shortest paths the search (breadth first, neighbours N, E, S, W) finds the first in the order of their
    directions; the tail of such a path is the path from any of its cells, so searching again never changes it.
    Cells are numbered with a blocked border around the grid: (row + 1)·(width + 2) + column + 1, row 0 in the south.
    """

    def __init__(self, grid: Grid, x: npt.NDArray[np.float32], y: npt.NDArray[np.float32]) -> None:
        n, cells = len(x), (grid.width + 2) * (grid.height + 2)
        self._width = grid.width + 2
        self.cell_m = grid.cell_m
        self.set_grid(grid)
        self._entered = np.zeros(cells, np.uint8)
        self._queue = np.zeros(cells, np.int32)
        self._offsets = np.array([self._width, 1, -self._width, -1], np.int32)
        self._directions = np.zeros((n, HORIZON), np.uint8)
        self._used = np.zeros(n, np.int64)
        self._left = np.full(n, -1, np.int64)  # cells to the goal; -1: not searched, or no way
        self._goal = np.full(n, -1, np.int32)
        self._carry = np.zeros(n, np.float32)
        self.cell = self._bordered(x, y)

    def set_grid(self, grid: Grid) -> None:
        """Other blocked cells in the same rows and columns; ways are kept until `set_goals` searches them again."""
        bordered = np.ones((grid.height + 2, self._width), np.bool_)
        bordered[1:-1, 1:-1] = grid.blocked
        self._grid = grid
        self._seen = np.where(bordered.reshape(-1), np.uint32(motion_ref.BLOCKED), np.uint32(0))
        self._generation = 1

    def resize(
        self,
        kept: npt.NDArray[np.intp],  # [n] row i is what row kept[i] was, -1 for a new agent
        x: npt.NDArray[np.float32],  # [n] metres
        y: npt.NDArray[np.float32],
    ) -> None:
        """Other agents: ways go with their agents, new ones have none."""
        old, new = kept[kept >= 0], np.flatnonzero(kept >= 0)
        for name, value in (("_used", 0), ("_left", -1), ("_goal", -1), ("_carry", 0), ("_directions", 0)):
            before = getattr(self, name)
            after = np.full((len(kept), *before.shape[1:]), value, before.dtype)
            after[new] = before[old]
            setattr(self, name, after)
        cell = self._bordered(x, y)
        cell[new] = self.cell[old]
        self.cell = cell

    def _bordered(self, x: npt.NDArray[np.float32], y: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
        index = self._grid.index_of(x, y)
        row, column = index // self._grid.width, index % self._grid.width
        return np.where(index < 0, 0, (row + 1) * self._width + column + 1).astype(np.int32)

    def set_goals(
        self,
        rows: npt.NDArray[np.intp],  # [m] agents whose assignment changed
        x: npt.NDArray[np.float32],  # [m] zone centres, metres
        y: npt.NDArray[np.float32],
    ) -> None:
        """Search the ways to new goals."""
        self._goal[rows] = self._bordered(x, y)
        self._search(rows)

    def stop(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> None:
        """Forget the part of a cell that agents which do not travel had saved up."""
        self._carry[rows] = 0

    def advance(
        self,
        rows: npt.NDArray[np.intp],  # [m] travelling agents, ascending
        speed: npt.NDArray[np.float32],  # [m] metres a tick
    ) -> npt.NDArray[np.int64]:  # [m] cells gone
        """floor(speed ÷ cell_m + carry) cells along each way; the rest is carried to the next tick."""
        total = speed / F32(self._grid.cell_m) + self._carry[rows]
        whole = np.floor(total)
        self._carry[rows] = np.where(np.isfinite(whole), total - whole, F32(0))
        steps: npt.NDArray[np.int64] = np.minimum(whole.astype(np.float64), np.maximum(self._left[rows], 0)).astype(
            np.int64
        )
        remaining = steps.copy()
        active = np.flatnonzero(remaining > 0)
        while len(active):
            agents = rows[active]
            worn = agents[self._used[agents] == HORIZON]
            if len(worn):
                self._search(worn)
            self.cell[agents] += self._offsets[self._directions[agents, self._used[agents]]]
            self._used[agents] += 1
            self._left[agents] -= 1
            remaining[active] -= 1
            active = active[remaining[active] > 0]
        return steps

    def centres(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:  # [m, 2] metres
        """Centres of the agents' cells."""
        row, column = self.cell[rows] // self._width - 1, self.cell[rows] % self._width - 1
        return cell_centres(self._grid, row.astype(np.int64) * self._grid.width + column)

    def sharing(self) -> int:
        """Agents beyond the first in each cell: the conflicts of this tick."""
        ordered = np.sort(self.cell)
        return int(np.count_nonzero(ordered[1:] == ordered[:-1]))

    def _search(self, rows: npt.NDArray[np.intp]) -> None:
        lengths = np.zeros(len(rows), np.int32)
        directions = np.zeros((len(rows), HORIZON), np.uint8)
        starts, goals = self.cell[rows], self._goal[rows]
        if self._generation + len(rows) >= motion_ref.BLOCKED:
            self._seen[self._seen != motion_ref.BLOCKED] = 0
            self._generation = 1
        backend.grid_paths(
            self._seen, self._entered, self._queue, self._width, starts, goals, self._generation, directions, lengths
        )
        self._generation += len(rows)
        self._directions[rows] = directions
        self._left[rows] = lengths
        self._used[rows] = 0

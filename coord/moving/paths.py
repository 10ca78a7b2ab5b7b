"""Paths of many agents over a grid, cell by cell and tick by tick, and the check that they never meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coord.errors import BadInput
from coord.ground.grid import Grid

Cells = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Paths:
    """Where every agent is at every tick. Cells are row * width + column, row 0 in the south.

    An agent's cost is the tick from which on it stays at its goal; `lower_bound` is the sum of the shortest distances.
    `complete` says that the last row holds the goals. Where it is not, `unsolvable` says that every configuration that
    can be reached was tried; else the budget was used up, and `cells` leads to the last configuration tried.
    """

    cells: Cells  # [ticks + 1, n]
    goals: Cells  # [n]
    lower_bound: int
    complete: bool
    unsolvable: bool
    work: int  # configurations that were made

    @property
    def makespan(self) -> int:
        """Ticks until all are at their goals (of incomplete paths: their length)."""
        return len(self.cells) - 1

    @property
    def costs(self) -> npt.NDArray[np.int64]:  # [n]
        """The tick from which on each agent stays at its goal; the makespan where it isn't there at the end."""
        away = self.cells != self.goals
        ticks = np.arange(1, len(self.cells) + 1)[:, None]
        last = np.max(np.where(away, ticks, 0), axis=0, initial=0)
        costs: npt.NDArray[np.int64] = np.minimum(last, self.makespan)
        return costs

    @property
    def sum_of_costs(self) -> int:
        """The sum of the costs of all agents."""
        return int(self.costs.sum())


class PathFault(NamedTuple):
    """The first thing wrong with paths. `agents` are columns, ascending."""

    kind: str  # start, blocked, jump, shared, exchanged, goal
    tick: int
    agents: tuple[int, ...]


def check_paths(
    grid: Grid,
    cells: Cells,  # [ticks + 1, n] row * width + column
    starts: npt.NDArray[np.integer] | None = None,  # [n]
    goals: npt.NDArray[np.integer] | None = None,  # [n]
) -> PathFault | None:
    """What is wrong first: a row that isn't the starts; at a tick an agent on a blocked cell, one that jumped, two in
    one cell, two that exchanged theirs (in this order); at the end one that isn't at its goal. None: nothing is.

    Raises BadInput where `cells` is no table of cells of the grid.

    >>> grid = Grid(3, 1, 1.0, 0.0, 0.0, np.zeros((1, 3), np.bool_))
    >>> check_paths(grid, np.array([[0, 1], [1, 0]], np.uint32))
    PathFault(kind='exchanged', tick=1, agents=(0, 1))
    """
    table = np.asarray(cells)
    if table.ndim != 2 or len(table) == 0 or not np.issubdtype(table.dtype, np.integer):
        raise BadInput("paths", None, "cells", f"must be whole numbers[ticks + 1, n], got {table.dtype}{table.shape}")
    if table.size and not (table.min() >= 0 and table.max() < grid.width * grid.height):
        raise BadInput("paths", None, "cells", f"must be below {grid.width * grid.height}, the cells of the grid")
    table = table.astype(np.int64)
    if starts is not None and (table[0] != starts).any():
        return PathFault("start", 0, _first(table[0] != starts))
    for tick, now in enumerate(table):
        fault = _fault(grid, table[tick - 1] if tick else now, now)
        if fault is not None:
            return PathFault(fault[0], tick, fault[1])
    if goals is not None and (table[-1] != goals).any():
        return PathFault("goal", len(table) - 1, _first(table[-1] != goals))
    return None


def _first(wrong: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return (int(np.flatnonzero(wrong)[0]),)


def _fault(grid: Grid, before: npt.NDArray[np.int64], now: npt.NDArray[np.int64]) -> tuple[str, tuple[int, ...]] | None:
    blocked = grid.blocked.reshape(-1)[now]
    if blocked.any():
        return "blocked", _first(blocked)
    apart = np.abs(now // grid.width - before // grid.width) + np.abs(now % grid.width - before % grid.width)
    if (apart > 1).any():
        return "jump", _first(apart > 1)
    order = np.argsort(now, kind="stable")
    same = np.flatnonzero(now[order[1:]] == now[order[:-1]])
    if len(same):
        return "shared", (int(order[same[0]]), int(order[same[0] + 1]))
    holder = np.full(grid.width * grid.height, -1)
    holder[now] = np.arange(len(now))
    other = holder[before]
    exchanged = (other >= 0) & (before != now) & (before[other] == now)
    if exchanged.any():
        i = int(np.flatnonzero(exchanged)[0])
        return "exchanged", (i, int(other[i]))
    return None

"""Paths for many agents at once: from starts to goals over a grid, never in each other's way.

Source: `docs/motion.md`. Okumura, "LaCAM: Search-Based Algorithm for Quick Multi-Agent Pathfinding" (AAAI 2023): a
depth-first search over configurations (where everybody is), each of which makes its successors one at a time by the
conflict-free step, with more and more agents told where to go. It finds a solution where there is one and the budget
lasts. All of it is integers; the seed only chooses among equals.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from coord import backend
from coord.errors import BadInput
from coord.ground.grid import Grid
from coord.ground.lattice import I32, U64, Lattice
from coord.moving.paths import Paths
from tensor.float_mode import plain_mode

GUIDE_COSTS = (2, 4, 16)  # of another agent in a cell at that tick, of one coming the other way, of one parked there
GUIDE_WORDS_MAX = 2**24  # of the table of planned cells; ticks share its slabs where that is not enough
BUDGET_WORDS = 2**24  # agents times configurations that a search without a budget makes at most ...
BUDGET_MIN, BUDGET_MAX = 2_000, 100_000  # ... within these numbers of configurations
SAMPLES, SAMPLED_MAX = 2, 1000  # successors of which the better is taken; with more agents it is one
_WORD = 2**64 - 1


@plain_mode()
def first_solution(
    grid: Grid,
    starts: npt.NDArray[np.integer],  # [n] cells, row * width + column
    goals: npt.NDArray[np.integer],  # [n] cells
    *,
    seed: int = 0,
    work_budget: int = 0,
    guided: bool = True,
    ids: npt.NDArray[np.integer] | None = None,  # [n] of the agents; default their row numbers
) -> Paths:
    """Conflict-free paths from starts to goals, the first ones found.

    `work_budget` is the number of configurations made at most; 0 is a bound of its own (`docs/motion.md`). `guided`
    plans a path for each agent first that avoids the others' and prefers its cells: better paths, more time. Agents
    are numbered by ascending id: with `ids` each gets the same path in whatever order the rows come.

    Raises BadInput: a start or goal that is no free cell, two that are the same, a goal in another region, an id twice.

    >>> grid = Grid(3, 2, 1.0, 0.0, 0.0, np.zeros((2, 3), np.bool_))
    >>> paths = first_solution(grid, np.array([0, 2]), np.array([2, 0]))
    >>> paths.complete, paths.lower_bound, paths.makespan
    (True, 4, 4)
    """
    if isinstance(work_budget, bool) or not isinstance(work_budget, int) or work_budget < 0:
        raise ValueError(f"first_solution: work_budget must be a whole number of at least 0, got {work_budget!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _WORD:
        raise ValueError(f"first_solution: seed must be a whole number from 0 to 2^64 - 1, got {seed!r}")
    lattice = Lattice(grid)
    start, goal = _numbers(lattice, "starts", starts), _numbers(lattice, "goals", goals)
    if len(start) != len(goal):
        raise BadInput("goals", None, "", f"must be as many as starts, {len(start)}, got {len(goal)}")
    order = _order(ids, len(start))
    if order is not None:
        start, goal = start[order], goal[order]
    bits, length = lattice.distances(start, goal)
    if (length < 0).any():
        row = int(np.flatnonzero(length < 0)[0])
        row = row if order is None else int(order[row])
        raise BadInput(
            "goals", row, "cell", f"must be in the region of its start, cell {starts[row]}, got {goals[row]}"
        )
    n = max(len(start), 1)
    budget = work_budget or min(max(BUDGET_WORDS // n, BUDGET_MIN), BUDGET_MAX)
    search = _Search(lattice, goal, bits, length, seed)
    if guided:
        search.plan_guides(start)
    end = search.run(start, budget)
    rows = [np.frombuffer(key, np.int32) for key in search.way_to(end)]
    cells = lattice.indices(np.array(rows, np.int32).reshape(len(rows), len(start))).astype(np.uint32)
    complete = bool((rows[-1] == goal).all())
    if order is not None:
        back = np.argsort(order)
        cells, goal = np.ascontiguousarray(cells[:, back]), goal[back]
    return Paths(
        cells=cells,
        goals=lattice.indices(goal).astype(np.uint32),
        lower_bound=int(length.sum(dtype=np.int64)),
        complete=complete,
        unsolvable=not complete and not search.open,
        work=search.work,
    )


def _order(ids: npt.NDArray[np.integer] | None, n: int) -> npt.NDArray[np.intp] | None:
    """Rows by ascending id, None where they stand so."""
    if ids is None:
        return None
    values = np.asarray(ids)
    if values.shape != (n,) or not (np.issubdtype(values.dtype, np.integer) or values.size == 0):
        raise BadInput("ids", None, "", f"must be whole numbers[{n}], got {values.dtype}{list(values.shape)}")
    order = np.argsort(values, kind="stable")
    same = np.flatnonzero(values[order[1:]] == values[order[:-1]])
    if len(same):
        first, second = int(order[same[0]]), int(order[same[0] + 1])
        raise BadInput("ids", second, "id", f"must be of one agent only, {values[second]} is that of row {first}, too")
    return order


def _numbers(lattice: Lattice, name: str, cells: npt.NDArray[np.integer]) -> I32:
    values = np.asarray(cells)
    if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or values.size == 0):
        raise BadInput(name, None, "cells", f"must be whole numbers[n], got {values.dtype}{list(values.shape)}")
    values = values.astype(np.int64)
    free = ~lattice.grid.blocked.reshape(-1)
    inside = (values >= 0) & (values < len(free))
    good = inside & free[np.where(inside, values, 0)]
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise BadInput(name, row, "cell", f"must be a free cell of the grid, got {values[row]}")
    order = np.argsort(values, kind="stable")
    same = np.flatnonzero(values[order[1:]] == values[order[:-1]])
    if len(same):
        first, second = int(order[same[0]]), int(order[same[0] + 1])
        raise BadInput(name, second, "cell", f"must be of one agent only, {values[second]} is that of row {first}, too")
    return lattice.numbers(values)


Told = tuple[tuple[int, int], ...]  # (agent, cell)


@dataclass
class _Configuration:
    """Where everybody is, and what was not tried from there."""

    key: bytes
    parent: int
    waiting: I32  # ticks since each agent was at its goal
    untried: deque[Told] = field(default_factory=lambda: deque([()]))
    order: I32 | None = None


class _Search:
    def __init__(self, lattice: Lattice, goal: I32, bits: U64, length: I32, seed: int) -> None:
        self._lattice, self._goal, self._bits, self._length, self._seed = lattice, goal, bits, length, seed
        self._row = np.arange(len(goal), dtype=np.int32)
        self._swaps = np.ones(len(goal), np.uint8)
        self._guide: tuple[I32, npt.NDArray[np.int64]] | None = None
        self._known: dict[bytes, int] = {}
        self._configurations: list[_Configuration] = []
        self._samples = 1 if len(goal) > SAMPLED_MAX else SAMPLES
        self.open: list[int] = []
        self.work = 0

    def plan_guides(self, start: I32) -> None:
        """Short ways first: who is at its goal early stands in the way of the others."""
        if len(start) == 0:
            return
        lattice = self._lattice
        order = np.argsort(self._length, kind="stable").astype(np.int32)
        slabs = max(2, min(int(self._length.max()) + 1, GUIDE_WORDS_MAX // lattice.cells))
        path_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._length.astype(np.int64) + 1)])
        path = np.empty(int(path_start[-1]), np.int32)
        backend.guide_paths(
            lattice.exits, lattice.width, self._bits, GUIDE_COSTS, start, self._goal, self._length, order, slabs, path,
            path_start,
        )  # fmt: skip
        self._guide = (path, path_start)

    def run(self, start: I32, budget: int) -> int:
        """The number of the configuration that the search ended with: that of the goals if there is one."""
        goal = self._goal.tobytes()
        self.open.append(self._add(start, -1))
        last = self.open[0]
        while self.open:
            last = self.open[-1]
            here = self._configurations[last]
            if here.key == goal or self.work >= budget:
                return last
            if not here.untried:
                self.open.pop()
                continue
            following = self._successor(here)
            if following is None:
                continue
            known = self._known.get(following.tobytes())
            self.open.append(self._add(following, last) if known is None else known)
        return last

    def way_to(self, number: int) -> list[bytes]:
        """The configurations from the start to this one."""
        keys = []
        while number >= 0:
            keys.append(self._configurations[number].key)
            number = self._configurations[number].parent
        return keys[::-1]

    def _add(self, cells: I32, parent: int) -> int:
        before = np.zeros(len(cells), np.int32) if parent < 0 else self._configurations[parent].waiting
        waiting = np.where(cells == self._goal, np.int32(0), before + np.int32(1))
        self._known[cells.tobytes()] = number = len(self._configurations)
        self._configurations.append(_Configuration(cells.tobytes(), parent, waiting))
        return number

    def _successor(self, here: _Configuration) -> I32 | None:
        """The next configuration that can be made from one, None where those told leave somebody no cell."""
        now = np.frombuffer(here.key, np.int32)
        if here.order is None:  # longest waiting first, of those the longest way, then the lower number
            rank = here.waiting.astype(np.int64) * np.int64(self._lattice.cells) + self._length
            here.order = np.argsort(-rank, kind="stable").astype(np.int32)
        told = here.untried.popleft()
        if len(told) < len(now):
            self._tell_one_more(here, now, told)
        best, least = None, 0
        for _ in range(self._samples):
            to = np.full(len(now), -1, np.int32)
            for agent, cell in told:
                to[agent] = cell
            done, value = self._step(now, here.order, to)
            if done and (best is None or value < least):
                best, least = to, value
        return best

    def _step(self, now: I32, order: I32, to: I32) -> tuple[bool, int]:
        self.work += 1
        salt = ((self._seed + 1) * 0x9E3779B97F4A7C15 + self.work * 0xD1B54A32D192ED03) & _WORD | 1
        lattice = self._lattice
        return backend.pibt_step(
            lattice.exits, lattice.width, self._bits, now, self._goal, self._row, order, self._swaps, self._guide,
            salt, to,
        )  # fmt: skip

    def _tell_one_more(self, here: _Configuration, now: I32, told: Told) -> None:
        assert here.order is not None
        agent = int(here.order[len(told)])
        at = int(now[agent])
        exits = int(self._lattice.exits[at])
        beside = [at + offset for d, offset in enumerate(self._lattice.offsets) if exits >> d & 1]
        here.untried.extend((*told, (agent, cell)) for cell in (*beside, at))

"""Arrivals: how many tasks come at a tick, and where. Integer arithmetic and counter-based draws only.

Source: `docs/formats/coord-scenario.md`, section "Demand". Every draw is a function of seed and tick, so what comes at
a tick does not depend on what came before.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from coord.ground.grid import Grid
from coord.records import POSITION_METRES_MAX, Records
from coord.simulation.demand_spec import TASK_DTYPE, TASK_KEYS, DemandSpec
from coord.simulation.fleet import largest_component
from coord.sites.movingai import cell_centres
from tensor.random import Key, fold_in, normal, randint, split, uniform

STREAM = 3  # child of the seed's key; 2 draws the faults
ATTEMPTS = 16  # of a hot spot to hit a cell that agents reach
_COUNT, _PLACE, _SPOT, _NORMAL = 0, 1, 2, 3  # children of a tick's key; attempt a draws from child _NORMAL + a

F64 = npt.NDArray[np.float64]


def poisson_thresholds(rate: float) -> list[int]:
    """floor(2^64 · P(at most k)) for k = 0, 1, … of the Poisson distribution, in integers alone.

    The weights rate^k ÷ k! are summed in fixed point and divided by their sum, which is e^rate: no exponential is
    needed. Where the next weight is below 2^-80 of the sum the table ends.

    >>> [round(t / 2**64, 6) for t in poisson_thresholds(1.0)[:3]]
    [0.367879, 0.735759, 0.919699]
    """
    top, bottom = rate.as_integer_ratio()
    weight, total, sums = 1 << 160, 0, []
    k = 0
    while weight << 80 > total or k < rate:
        total += weight
        sums.append(total)
        k += 1
        weight = weight * top // (bottom * k)
    return [(value << 64) // total for value in sums[:-1]] if len(sums) > 1 else []


class Arrivals:
    """What comes at each tick.

    On a grid places are centres of free cells of the components that agents stand in at the first tick (without agents:
    of the largest one).
    """

    def __init__(self, spec: DemandSpec, seed: int, grid: Grid | None, agents: Records) -> None:
        self._spec, self._grid = spec, grid
        self._key = split(Key(seed), STREAM)
        self._thresholds = poisson_thresholds(spec.rate)
        self._cells = None if grid is None or spec.model == "replayed" else _reached(grid, agents)
        self._allowed: npt.NDArray[np.bool_] | None = None
        if grid is not None and self._cells is not None and spec.spots:
            self._allowed = np.zeros(grid.width * grid.height, np.bool_)
            self._allowed[self._cells] = True
        shares = np.cumsum(np.array([spot.weight for spot in spec.spots], np.float64))
        self._shares = np.floor(shares / shares[-1] * 2.0**32).astype(np.int64) if len(shares) else shares

    def count(self, tick: int) -> int:
        """How many tasks come at a tick."""
        if self._spec.model == "replayed":
            first, last = np.searchsorted(self._spec.replayed["tick"], np.array([tick, tick + 1], np.uint64))
            return int(last - first)
        word = int(randint(split(fold_in(self._key, tick), _COUNT), -(2**63), 2**63, ()).item()) + 2**63
        return bisect_right(self._thresholds, word)

    def tasks(self, tick: int) -> Records:
        """The tasks of a tick, TASK_DTYPE, in the order of their draws."""
        n = self.count(tick)
        if self._spec.model == "replayed":
            first = int(np.searchsorted(self._spec.replayed["tick"], np.uint64(tick)))
            return self._spec.replayed[first : first + n]
        out = np.zeros(n, TASK_DTYPE)
        out["tick"] = tick
        for name in TASK_KEYS:
            out[name] = self._spec.task[name]
        if n:
            places = self._places(tick, n)
            out = out[: len(places)]
            out["x"], out["y"] = places[:, 0], places[:, 1]
        return out

    def zone_rows(self, tick: int, zones: Records) -> npt.NDArray[np.intp]:
        """The zones whose priority the tasks of a tick raise: any one, or the one nearest to where a task comes."""
        n = self.count(tick) if len(zones) else 0
        if n and self._spec.model == "uniform":
            return np.asarray(randint(split(fold_in(self._key, tick), _PLACE), 0, len(zones), n).numpy(), np.intp)
        tasks = self.tasks(tick) if n else np.zeros(0, TASK_DTYPE)
        rows = np.zeros(len(tasks), np.intp)
        for i, task in enumerate(tasks):
            dx, dy = zones["x"] - task["x"], zones["y"] - task["y"]
            rows[i] = np.argmin(dx * dx + dy * dy)  # the first of equals: the lowest id
        return rows

    def _places(self, tick: int, n: int) -> npt.NDArray[np.float32]:  # [n, 2]
        key = fold_in(self._key, tick)
        if not self._spec.spots:
            return self._uniform(key, n)
        spot = np.searchsorted(self._shares[:-1], randint(split(key, _SPOT), 0, 2**32, n).numpy(), side="right")
        centre = np.array([s.centre(tick) for s in self._spec.spots], np.float64)[spot]
        sigma = np.array([s.sigma for s in self._spec.spots], np.float64)[spot]
        if self._grid is None:
            return _drawn(key, 0, n, centre, sigma).astype(np.float32)
        assert self._allowed is not None
        cell = np.full(n, -1, np.int64)
        for attempt in range(ATTEMPTS):
            places = _drawn(key, attempt, n, centre, sigma).astype(np.float32)
            index = self._grid.index_of(places[:, 0], places[:, 1])
            hit = (cell < 0) & (index >= 0) & self._allowed[np.maximum(index, 0)]
            cell[hit] = index[hit]
            if (cell >= 0).all():
                break
        out = self._uniform(key, n)
        found = np.flatnonzero(cell >= 0)
        out[found[found < len(out)]] = cell_centres(self._grid, cell[found[found < len(out)]])
        return out

    def _uniform(self, key: Key, n: int) -> npt.NDArray[np.float32]:
        if self._grid is None:
            x0, y0, x1, y1 = (np.float32(v) for v in self._spec.box)
            u = uniform(split(key, _PLACE), (n, 2)).numpy()
            return np.stack([x0 + u[:, 0] * (x1 - x0), y0 + u[:, 1] * (y1 - y0)], axis=1)
        assert self._cells is not None
        if len(self._cells) == 0:
            return np.zeros((0, 2), np.float32)
        drawn = self._cells[randint(split(key, _PLACE), 0, len(self._cells), n).numpy()]
        return cell_centres(self._grid, drawn.astype(np.int64))


def _drawn(key: Key, attempt: int, n: int, centre: F64, sigma: F64) -> F64:
    z: F64 = normal(split(key, _NORMAL + attempt), (n, 2)).numpy().astype(np.float64)
    return np.clip(centre + sigma[:, None] * z, -POSITION_METRES_MAX, POSITION_METRES_MAX)


def _reached(grid: Grid, agents: Records) -> npt.NDArray[np.int32]:
    labels = np.unique(grid.component_of(agents["x"], agents["y"]))
    labels = labels[labels > 0]
    if len(labels) == 0:
        return largest_component(grid).astype(np.int32)
    mask = np.zeros(int(grid.component.max()) + 1, np.bool_)
    mask[labels] = True
    return np.flatnonzero(mask[grid.component.reshape(-1)]).astype(np.int32)

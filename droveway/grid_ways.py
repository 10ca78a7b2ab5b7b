"""The cells that a grid fleet went through between two planned ticks: the ledger holds the ends, the rest follows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from coord.ground.grid import Grid

CELLS_MAX: Final = 2**16  # of one way between two plans; a longer one is drawn straight


class GridWays:
    """Ways between planned ticks, searched as the motion searches them: of all shortest ways it goes the first.

    An agent keeps its zone from plan to plan, so its way is the beginning of that from where it was to its zone.
    """

    def __init__(self, grid: "Grid") -> None:
        self._grid = grid

    def between(
        self,
        before: Any,  # f32[n, 2] metres, at the earlier plan
        after: Any,  # f32[n, 2] metres, at the later one
        goal: Any,  # f32[n, 2] metres, the zone that the earlier plan gave; NaN where it gave none
    ) -> tuple[list[Any], float]:  # f32[n, 2] for each step between, metres gone by all
        """Places between the plans, one array a step, and the length of all ways together.

        Where agents make way for each other (pibt) the plan does not explain every way: then it is taken as a shortest
        one over free cells, so walls are gone around and the length is the least. Where there is none it is straight.
        """
        import numpy as np

        cell_m = float(self._grid.cell_m)
        with np.errstate(all="ignore"):  # a run that does not verify may hold any number
            straight = np.hypot(*(after - before).T.astype(np.float64))
        far = np.flatnonzero(
            (straight > 1.25 * cell_m) & np.isfinite(before).all(axis=1) & np.isfinite(after).all(axis=1)
        )
        goal = np.where(np.isfinite(goal).all(axis=1)[:, None], goal, after)
        lengths = straight
        ways: dict[int, Sequence[Any]] = {}
        found = self._walk(before[far], after[far], goal[far])
        lost = [index for index, way in enumerate(found) if way is None]
        again = far[lost]
        for index, shortest in zip(lost, self._walk(before[again], after[again], after[again]), strict=True):
            found[index] = shortest
        for row, walked in zip(far.tolist(), found, strict=True):
            if walked is not None:
                ways[row] = walked
                lengths[row] = len(walked) * cell_m
        most = max(map(len, ways.values()), default=1)
        steps = [before.copy() for _ in range(most - 1)]
        for step, places in enumerate(steps):
            for row, way in ways.items():
                places[row] = way[min(step, len(way) - 1)]
        return steps, float(lengths.sum())

    def _walk(self, before: Any, after: Any, goal: Any) -> list[list[Any] | None]:
        """The centres that each agent enters, the last one being `after`; None where it never comes by."""
        import numpy as np

        from coord.moving.motion import GridPaths

        count = len(before)
        found: list[list[Any] | None] = [None] * count
        if not count:
            return found
        paths = GridPaths(self._grid, before[:, 0], before[:, 1])
        rows = np.arange(count)
        paths.set_goals(rows, goal[:, 0], goal[:, 1])
        ways: list[list[Any]] = [[] for _ in range(count)]
        one_cell = np.full(count, np.float32(self._grid.cell_m))
        for _ in range(CELLS_MAX):
            gone = paths.advance(rows, one_cell[rows])
            rows = rows[gone > 0]
            if not len(rows):
                break
            centres = paths.centres(rows)
            for row, centre in zip(rows.tolist(), centres, strict=True):
                ways[row].append(centre)
            there = (centres == after[rows]).all(axis=1)
            for row in rows[there].tolist():
                found[row] = ways[row]
            rows = rows[~there]
        return found

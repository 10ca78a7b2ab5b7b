"""How agents move between plans: the protocol, and the two models that need nothing but a goal or a grid.

Source: `docs/formats/coord-scenario.md`, section "One tick". A model keeps what it needs between ticks (goals, ways)
by row, and is told when rows or the site change; positions stand in the agents' records and nowhere else.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.moving.motion import F32, GridPaths, straight_step
from coord.records import Records

Rows = npt.NDArray[np.intp]


class Steps(NamedTuple):
    """What a tick of motion came to."""

    gone_m: npt.NDArray[np.float32]  # [len(rows)] metres that each of the rows went
    conflicts: int  # of this tick: agents beyond the first in a cell
    pushed: Rows | None = None  # [p] rows besides that went somewhere: idle agents that made way
    pushed_m: npt.NDArray[np.float32] | None = None  # [p] metres that each of those went
    waits: int = 0  # of this tick: agents that found no way, or none yet


class Site(NamedTuple):
    """Where agents move. Obstacles are records; a polygon's `ring` is an index into `rings`."""

    obstacles: Records
    rings: Rings | None
    grid: Grid | None


class MotionModel(Protocol):
    """Moves the agents of a world. Rows are indices of `agents`, ascending; agents ascend by id.

    Calls come in this order: `site` once; then in a tick any of `resize`, `site` (agents or obstacles come and go),
    `start`, `stop`, and `advance` at its end. After another `site` every travelling agent is started again.
    The same calls must give the same positions, bit for bit: a run is made again by an audit.
    """

    def site(self, agents: Records, site: Site) -> None:
        """The site before the first tick, or another one: obstacles, rings or blocked cells have changed."""

    def resize(self, agents: Records, kept: Rows) -> None:
        """Other rows: row i is what row kept[i] was, or a new agent that stands still where kept[i] is -1."""

    def start(self, rows: Rows, zones: Records) -> None:
        """Agents that got a new zone, with the records of their zones (one each)."""

    def stop(self, rows: Rows) -> None:
        """Agents that don't travel in this tick: told each tick before `advance`."""

    def advance(self, agents: Records, rows: Rows, tick: int) -> Steps:
        """Move the agents of `rows`, which travel, in place: x, y and z of their records, and nothing else.

        A model in which agents make way for each other may move idle ones, too, and says so in `pushed`.
        """


@runtime_checkable
class Holding(Protocol):
    """What a motion model has, too, in which agents push each other."""

    def hold(self, rows: Rows) -> None:
        """Agents that something delays in this tick, whatever their mode: told each tick before `advance`."""


class StraightMotion:
    """Straight to the zone's centre, whatever stands between."""

    def __init__(self) -> None:
        self._goal = np.zeros((0, 3), np.float32)

    def site(self, agents: Records, site: Site) -> None:
        """Obstacles bind through the plan only."""
        if len(self._goal) != len(agents):
            self._goal = np.zeros((len(agents), 3), np.float32)

    def resize(self, agents: Records, kept: Rows) -> None:
        """Goals go with their agents."""
        before, self._goal = self._goal, np.zeros((len(kept), 3), np.float32)
        self._goal[kept >= 0] = before[kept[kept >= 0]]

    def start(self, rows: Rows, zones: Records) -> None:
        """The centre of the zone is the goal."""
        self._goal[rows] = np.stack([zones[axis] for axis in "xyz"], axis=1)

    def stop(self, rows: Rows) -> None:
        """Nothing is kept."""

    def advance(self, agents: Records, rows: Rows, tick: int) -> Steps:
        """One step of `straight_step`."""
        gone = np.empty(len(rows), np.float32)
        straight_step(agents, self._goal, rows=rows, gone_m=gone)
        return Steps(gone, 0)


class GridMotion:
    """Along one shortest path of cells; sharing a cell is counted."""

    def __init__(self) -> None:
        self._paths: GridPaths | None = None

    def site(self, agents: Records, site: Site) -> None:
        """The grid; after a change of it ways are searched again."""
        assert site.grid is not None
        if self._paths is None:
            self._paths = GridPaths(site.grid, agents["x"], agents["y"])
        else:
            self._paths.set_grid(site.grid)

    def resize(self, agents: Records, kept: Rows) -> None:
        """Ways go with their agents."""
        self._ways.resize(kept, agents["x"], agents["y"])

    def start(self, rows: Rows, zones: Records) -> None:
        """Search the ways."""
        self._ways.set_goals(rows, zones["x"], zones["y"])

    def stop(self, rows: Rows) -> None:
        """Forget the parts of cells that were saved up."""
        self._ways.stop(rows)

    def advance(self, agents: Records, rows: Rows, tick: int) -> Steps:
        """Whole cells along each way."""
        ways = self._ways
        steps = ways.advance(rows, agents["speed"][rows])
        movers = rows[steps > 0]
        centres = ways.centres(movers)
        agents["x"][movers], agents["y"][movers] = centres[:, 0], centres[:, 1]
        return Steps(steps.astype(np.float32) * F32(ways.cell_m), ways.sharing())

    @property
    def _ways(self) -> GridPaths:
        assert self._paths is not None, "site comes first"
        return self._paths

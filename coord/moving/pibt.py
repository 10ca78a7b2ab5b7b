"""Motion without conflicts on a grid: priority inheritance with backtracking, one step a tick.

Source: `docs/motion.md`, which defines it for other programs; the step itself is `pibt_ref.Step` and its kernel.
Integers only decide, and ids where they are equal.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coord import backend
from coord.errors import BadInput
from coord.ground.lattice import I32, Lattice
from coord.moving.distance_tables import DistanceTables
from coord.moving.motion import F32, can_move
from coord.moving.motion_model import Rows, Site, Steps
from coord.records import AgentMode, Records

CELL = 65536  # a cell in the units in which motion is saved up
_NONE = -1


def cell_units(speed: npt.NDArray[np.float32], cell_m: float) -> npt.NDArray[np.int64]:
    """Speeds (metres a tick) in 65536ths of a cell a tick, rounded up, at most one cell; 0 for those that can't move.

    >>> cell_units(np.array([1.0, 0.5, 1e9, 1e-9, 0.0], F32), 1.0).tolist()
    [65536, 32768, 65536, 1, 0]
    """
    whole = np.minimum(np.where(can_move(speed), speed, F32(0)).astype(np.float64) / cell_m, 1.0)
    units: npt.NDArray[np.int64] = np.ceil(whole * CELL).astype(np.int64)
    return units


class PibtMotion:
    """Agents step to neighbouring cells, at most one cell a tick, and never into each other's way.

    Travelling agents go to the cell of their zone's centre. Idle ones stay unless they are pushed. All others stand
    still: working, charging, offline, faulty, too slow in this tick.
    """

    def __init__(self) -> None:
        self._lattice: Lattice | None = None

    def site(self, agents: Records, site: Site) -> None:
        """The grid; after a change of it distances are found again, and zones must be named again by `start`.

        Raises BadInput where two agents stand in one free cell.
        """
        assert site.grid is not None
        first = self._lattice is None
        self._lattice = lattice = Lattice(site.grid)
        self._tables = DistanceTables(lattice)
        self._goal = np.full(len(agents), _NONE, np.int32)
        if first:
            self._waiting = np.zeros(len(agents), np.int64)  # ticks since it set out, while it isn't there
            self._saved = np.zeros(len(agents), np.int64)
        self._held = np.zeros(0, np.intp)
        self._swap_shift = (lattice.width + lattice.cells // lattice.width).bit_length() + 1
        self._place(agents)

    def resize(self, agents: Records, kept: Rows) -> None:
        """What is kept of an agent goes with it. One that comes where another one is appears beside it.

        Raises BadInput where there is no room for it.
        """
        new = kept < 0
        for name, fill in (("_goal", _NONE), ("_waiting", 0), ("_saved", 0)):
            old = getattr(self, name)
            filled = np.append(old, np.array([fill], old.dtype))
            setattr(self, name, np.where(new, old.dtype.type(fill), filled[kept]))
        self._held = np.zeros(0, np.intp)
        self._make_room(agents, np.flatnonzero(new))
        self._place(agents)

    def hold(self, rows: Rows) -> None:
        """They stand still in this tick, and nobody pushes them."""
        self._held = rows

    def start(self, rows: Rows, zones: Records) -> None:
        """The cell of the zone's centre is the goal; none where it is blocked or can't be reached."""
        lattice = self._known
        goal = lattice.cells_of(zones["x"], zones["y"])
        region = self._region()
        reachable = (region[goal] != 0) & (region[goal] == region[self._cell[rows]])
        self._goal[rows] = np.where(reachable, goal, _NONE)

    def stop(self, rows: Rows) -> None:
        """They wait for nothing."""
        self._goal[rows] = _NONE
        self._waiting[rows] = 0

    def advance(self, agents: Records, rows: Rows, tick: int) -> Steps:
        """One step of all agents. Idle ones that were pushed are `Steps.pushed`."""
        lattice = self._known
        willing = agents["mode"] == AgentMode.IDLE
        willing[rows] = True
        willing[self._held] = False
        ready = self._save(agents, willing)
        away = np.zeros(len(agents), np.bool_)
        away[rows] = (self._goal[rows] != _NONE) & (self._goal[rows] != self._cell[rows])
        self._waiting = np.where(away, self._waiting + 1, 0)
        moved = np.flatnonzero(self._step(ready))
        self._saved[moved] -= CELL
        centres = lattice.centres(self._cell[moved])
        agents["x"][moved], agents["y"][moved] = centres[:, 0], centres[:, 1]
        gone = np.zeros(len(agents), np.float32)
        gone[moved] = F32(lattice.grid.cell_m)
        others = gone.copy()
        others[rows] = 0
        pushed = np.flatnonzero(others)
        return Steps(gone[rows], 0, pushed, others[pushed])

    def _save(self, agents: Records, willing: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Motion is saved up until it is enough for a cell; who stands still for a reason of its own loses it."""
        units = np.where(willing, cell_units(agents["speed"], self._known.grid.cell_m), 0)
        saved = np.where(self._saved < CELL, self._saved + units, self._saved)
        self._saved = np.where(units > 0, saved, 0)
        ready: npt.NDArray[np.bool_] = self._saved >= CELL
        return ready

    def _step(self, ready: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Whether each agent moved; `_cell` is where they are then. Those off the grid or on blocked cells stay."""
        lattice = self._known
        active = np.flatnonzero(lattice.free[self._cell])
        now, goal = self._cell[active], self._goal[active]
        row = np.zeros(len(active), np.int32)
        row[goal != _NONE] = self._tables.rows(goal[goal != _NONE])
        order = np.argsort(-self._waiting[active], kind="stable").astype(np.int32)
        swaps = ((self._waiting[active] >> self._swap_shift) & 1 == 0).astype(np.uint8)
        to = np.where(ready[active], np.int32(_NONE), now)
        done, _ = backend.pibt_step(
            lattice.exits, lattice.width, self._tables.bits, now, goal, row, order, swaps, None, 0, to
        )
        assert done, "an agent that nobody pushed can stay"
        out = np.zeros(len(ready), np.bool_)
        out[active] = to != now
        self._cell[active] = to
        return out

    def _make_room(self, agents: Records, rows: Rows) -> None:
        """Newcomers, by ascending id, go to the nearest cell that nobody holds: breadth first, N, E, S, W."""
        lattice = self._known
        cells = lattice.cells_of(agents["x"], agents["y"])
        taken = set(np.delete(cells, rows).tolist())
        for row in rows.tolist():
            if lattice.free[cells[row]]:
                cell = next((cell for cell in lattice.around(int(cells[row])) if cell not in taken), None)
                if cell is not None and cell != cells[row]:
                    cells[row] = cell
                    agents["x"][row], agents["y"][row] = lattice.centres(cells[row : row + 1])[0]
            taken.add(int(cells[row]))

    def _place(self, agents: Records) -> None:
        self._cell: I32 = self._known.cells_of(agents["x"], agents["y"])
        free = np.flatnonzero(self._known.free[self._cell])
        order = free[np.argsort(self._cell[free], kind="stable")]
        twice = np.flatnonzero(self._cell[order[1:]] == self._cell[order[:-1]])
        if len(twice):
            first, second = (int(order[twice[0] + k]) for k in (0, 1))
            ids = agents["id"]
            raise BadInput(
                "agents", second, "x",
                f"must be in a cell of its own: agent {ids[second]} is in that of agent {ids[first]} (row {first})",
            )  # fmt: skip

    def _region(self) -> npt.NDArray[np.uint32]:
        """The 4-connected region of each cell, border included."""
        grid = self._known.grid
        out = np.zeros((grid.height + 2, grid.width + 2), np.uint32)
        out[1:-1, 1:-1] = grid.component
        return out.reshape(-1)

    @property
    def _known(self) -> Lattice:
        assert self._lattice is not None, "site comes first"
        return self._lattice

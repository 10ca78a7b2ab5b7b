"""A warehouse made by rule: its cells, its map file and its SITE.toml. The demo runs on it.

Racks of 8 × 2 cells in lanes of 2, a free border of 3 cells for loading, and one wide hall from west to east.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from coord.sites.movingai import SIDE_MAX
from coord.sites.scenario import Scenario

WIDTH, HEIGHT = 64, 40
BORDER = 3
RACK_COLUMNS, RACK_ROWS, LANE = 8, 2, 2
MAP_NAME, SITE_NAME = "warehouse.map", "warehouse.toml"


def warehouse_cells(width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.bool_]:
    """bool[height, width], row 0 south: true where a rack stands. Every free cell can be reached from every other.

    Raises ValueError for a side below 1 or above 2^20.

    >>> for row in warehouse_cells(21, 11)[::-1]:
    ...     print("".join("-#"[int(cell)] for cell in row))
    ---------------------
    ---------------------
    ---------------------
    ---########--#####---
    ---------------------
    ---------------------
    ---########--#####---
    ---########--#####---
    ---------------------
    ---------------------
    ---------------------
    """
    for name, side in (("width", width), ("height", height)):
        if not 1 <= side <= SIDE_MAX:
            raise ValueError(f"warehouse_cells: {name} must be from 1 to 2^20 cells, got {side}")
    column, row = np.arange(width), np.arange(height)
    in_column = (column >= BORDER) & (column < width - BORDER)
    in_column &= (column - BORDER) % (RACK_COLUMNS + LANE) < RACK_COLUMNS
    in_row = (row >= BORDER) & (row < height - BORDER) & ((row - BORDER) % (RACK_ROWS + LANE) < RACK_ROWS)
    in_row &= (2 * row < height - 2) | (2 * row > height)  # the hall: the two or three rows in the middle
    return np.asarray(in_row[:, None] & in_column[None, :])


def map_text(blocked: NDArray[np.bool_]) -> str:
    """A MovingAI map file of cells (bool[height, width], row 0 south): '@' where blocked, '.' where free.

    >>> map_text(np.array([[False, True], [False, False]]))
    'type octile\\nheight 2\\nwidth 2\\nmap\\n..\\n.@\\n'
    """
    height, width = blocked.shape
    rows = ["".join(".@"[cell] for cell in row) for row in blocked[::-1].tolist()]
    return "\n".join(["type octile", f"height {height}", f"width {width}", "map", *rows]) + "\n"


def site_text(map_bytes: bytes, *, agents: int = 64, zones: int = 256, seed: int = 7) -> str:
    """The SITE.toml of the warehouse, whose map lies beside it as warehouse.map."""
    return f"""\
# A warehouse made by rule: {agents} carriers, {zones} places that want a visit again and again.
version = 1
name = "warehouse"
seed = {seed}

[plan]
planner = "swap"
w_idle = 2.0 # a place that waited long comes first,
idle_cap_ticks = 100 # and 100 ticks are long here

[map]
file = "{MAP_NAME}"
blake3 = "{blake3(map_bytes).hexdigest()}"
cell_m = 1.0

[agents]
random = {agents}
speed = 1.0

[zones]
random = {zones}
radius = 0.5
service_ticks = 5

[[kernel]] # goods arrive in the south-west: places near it come first
x = 10.0
y = 8.0
sigma = 8.0
weight = 0.8

[[kernel]] # people walk in the north-east: carriers prefer to work elsewhere
x = 54.0
y = 32.0
sigma = 6.0
weight = -0.6
"""


def write_warehouse(folder: str | Path, *, agents: int = 64, zones: int = 256, seed: int = 7) -> Scenario:
    """Write warehouse.map and warehouse.toml into a folder and read them: 64 × 40 cells of 1 m.

    Raises ScenarioError where the cells are too few, OSError where the folder can't be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     site = write_warehouse(folder)
    >>> len(site.setup.agents), len(site.setup.zones), int(site.setup.grid.blocked.sum())
    (64, 256, 768)
    """
    folder = Path(folder)
    data = map_text(warehouse_cells()).encode()
    (folder / MAP_NAME).write_bytes(data)
    (folder / SITE_NAME).write_bytes(site_text(data, agents=agents, zones=zones, seed=seed).encode())
    return Scenario.load(folder / SITE_NAME)

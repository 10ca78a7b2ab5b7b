"""A moment of a fleet as 128 numbers, so that moments can be searched: which tick looked like this one?

The site is cut into 8 × 4 tiles; each has four numbers: agents on the way, agents at work, agents whose zone lies in
it, and how long its zones have waited. All are sums of whole numbers and exact in float32, so no order matters.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coord.errors import BadInput
from coord.frames.inputs import Inputs
from coord.records import NO_ZONE, AgentMode
from tensor.float_mode import plain_mode

Records = npt.NDArray[np.void]
F32 = npt.NDArray[np.float32]

COLUMNS, ROWS, CHANNELS = 8, 4, 4
FEATURES = COLUMNS * ROWS * CHANNELS
WAITED_TICKS_MAX = 100  # a zone that waited longer counts as this
WAITED_SCALE = 1.0 / 128.0  # a power of two: exact

Bounds = tuple[float, float, float, float]  # x0, y0, x1, y1, metres


@plain_mode()
def fleet_features(now: Inputs, now_tick: int, bounds: Bounds) -> F32:
    """float32[128] of the inputs of one tick: tiles row by row from the south-west, four numbers each.

    `bounds` is (x0, y0, x1, y1) in metres, x0 < x1 and y0 < y1; who stands outside counts in the nearest tile. The
    numbers of a tile: agents of mode 1, agents of mode 2, agents that have a zone in it, and the ticks since the last
    service of its zones (of each at most 100), summed, divided by 128. Raises BadInput for other bounds.

    >>> from coord import AGENT_DTYPE, ZONE_DTYPE
    >>> agents, zones = np.zeros(2, AGENT_DTYPE), np.zeros(1, ZONE_DTYPE)
    >>> agents["id"], agents["mode"], agents["x"], agents["zone"] = [1, 2], [1, 2], [0.5, 15.5], [7, 0xFFFFFFFF]
    >>> zones["id"], zones["x"] = 7, 15.0
    >>> row = fleet_features(Inputs(agents=agents, zones=zones), 64, (0.0, 0.0, 16.0, 8.0))
    >>> row.shape, row[:4].tolist(), row[28:32].tolist()
    ((128,), [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.5])
    """
    x0, y0, x1, y1 = bounds
    if not (x0 < x1 and y0 < y1):
        raise BadInput("features", None, "bounds", f"must have x0 < x1 and y0 < y1, got {bounds}")
    agents, zones = now.agents, now.zones
    sums = np.zeros((COLUMNS * ROWS, CHANNELS), np.int64)
    here, there = _tiles(agents, bounds), _tiles(zones, bounds)
    for channel, mode in enumerate((AgentMode.TRAVELLING, AgentMode.WORKING)):
        sums[:, channel] = np.bincount(here[agents["mode"] == mode], minlength=len(sums))
    bound = agents["zone"][agents["zone"] != NO_ZONE]
    rows = np.minimum(np.searchsorted(zones["id"], bound), max(len(zones) - 1, 0))
    if len(zones):
        rows = rows[zones["id"][rows] == bound]
        sums[:, 2] = np.bincount(there[rows], minlength=len(sums))
    waited = np.uint64(now_tick) - np.minimum(zones["last_served_tick"], np.uint64(now_tick))
    np.add.at(sums[:, 3], there, np.minimum(waited, np.uint64(WAITED_TICKS_MAX)).astype(np.int64))
    out = sums.astype(np.float32)
    out[:, 3] *= np.float32(WAITED_SCALE)
    return out.reshape(-1)


def _tiles(records: Records, bounds: Bounds) -> npt.NDArray[np.int64]:
    """The tile of each record, by its place."""
    x0, y0, x1, y1 = bounds
    places = []
    for axis, low, high, count in (("x", x0, x1, COLUMNS), ("y", y0, y1, ROWS)):
        share = np.floor((records[axis].astype(np.float64) - low) / (high - low) * count)
        places.append(np.clip(share, 0, count - 1).astype(np.int64))
    return np.asarray(places[1] * COLUMNS + places[0])


@plain_mode()
def site_bounds(grid_shape: tuple[int, int], cell_m: float, x0: float = 0.0, y0: float = 0.0) -> Bounds:
    """The bounds of a grid of (height, width) cells.

    >>> site_bounds((40, 64), 1.0)
    (0.0, 0.0, 64.0, 40.0)
    """
    height, width = grid_shape
    return x0, y0, x0 + width * cell_m, y0 + height * cell_m

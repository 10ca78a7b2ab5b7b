"""Obstacles as plain arrays, ready for the distance tests (formulas: docs/planning.md, section Obstacles)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coord.ground.rings import Rings
from coord.records import Records

CIRCLE, POLYGON, BOX = 0, 1, 2

F32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """Obstacles ascending by id, one array a field.

    `reach` is what a distance is compared with: radius + margin of a circle, margin of the others. `first` and
    `count` cut the corners of polygons out of `corners`; of the others they are 0.
    """

    kind: NDArray[np.uint8]  # [o]
    x: F32  # [o] centre, metres
    y: F32  # [o]
    half_x: F32  # [o] half width of a box
    half_y: F32  # [o]
    reach: F32  # [o]
    first: NDArray[np.uint32]  # [o]
    count: NDArray[np.uint32]  # [o]
    corners: F32  # [p, 2]

    def __len__(self) -> int:
        return len(self.kind)


def shapes_of(obstacles: Records, rings: Rings) -> Shapes:
    """From checked records."""
    if len(obstacles) == 0:
        none, index = np.zeros(0, np.float32), np.zeros(0, np.uint32)
        corners = np.ascontiguousarray(rings.points)
        return Shapes(np.zeros(0, np.uint8), none, none, none, none, none, index, index, corners)
    kind = np.ascontiguousarray(obstacles["kind"])
    radius, margin = obstacles["radius"], obstacles["margin"]
    polygon = kind == POLYGON
    table = (
        rings.table[np.where(polygon, obstacles["ring"], 0)] if len(rings) else np.zeros(len(kind), rings.table.dtype)
    )
    return Shapes(
        kind=kind,
        x=np.ascontiguousarray(obstacles["x"]),
        y=np.ascontiguousarray(obstacles["y"]),
        half_x=np.ascontiguousarray(radius),
        half_y=np.ascontiguousarray(obstacles["half_y"]),
        reach=np.where(kind == CIRCLE, radius + margin, margin).astype(np.float32),
        first=np.where(polygon, table["first"], 0).astype(np.uint32),
        count=np.where(polygon, table["count"], 0).astype(np.uint32),
        corners=np.ascontiguousarray(rings.points),
    )

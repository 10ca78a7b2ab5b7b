"""Rings: the corner lists of polygon obstacles, as one table over one array of points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from coord.errors import BadInput
from coord.records import POSITION_METRES_MAX, RING_DTYPE, Records
from tensor.float_mode import plain_mode


@dataclass(frozen=True, slots=True, eq=False)
class Rings:
    """A table of (first, count) and the float32 points it cuts up, closed implicitly.

    Entries tile the points in order (first = the sum of the counts before), each with at least 3 corners.

    >>> square = Rings.of([[(0, 0), (1, 0), (1, 1), (0, 1)]])
    >>> square.table.tolist(), square.points.shape
    ([(0, 4)], (4, 2))
    """

    table: Records  # RING_DTYPE[r]
    points: NDArray[np.float32]  # f32[p, 2], metres

    @classmethod
    @plain_mode()
    def of(cls, polygons: Iterable[Sequence[Sequence[float]]]) -> Self:
        """From one list of (x, y) corners a polygon."""
        corners = [np.asarray(polygon, np.float32).reshape(-1, 2) for polygon in polygons]
        counts = [len(c) for c in corners]
        table = np.zeros(len(corners), RING_DTYPE)
        table["count"] = counts
        table["first"] = np.concatenate([[0], np.cumsum(counts)[:-1]]) if counts else []
        points = np.concatenate(corners) if corners else np.zeros((0, 2), np.float32)
        rings = cls(table, points)
        rings.check()
        return rings

    @classmethod
    def empty(cls) -> Self:
        """No rings."""
        return cls(np.zeros(0, RING_DTYPE), np.zeros((0, 2), np.float32))

    def __len__(self) -> int:
        return len(self.table)

    def ring(self, index: int) -> NDArray[np.float32]:
        """The corners of one ring, f32[count, 2]."""
        first, count = self.table[index].item()
        return self.points[first : first + count]

    def check(self) -> None:
        """BadInput naming row and field unless the table tiles the points and every corner is a position."""
        if self.table.dtype != RING_DTYPE or self.table.ndim != 1:
            raise TypeError(f"rings.table must be a one-dimensional RING_DTYPE array, got {self.table.dtype}")
        if self.points.dtype != np.float32 or self.points.ndim != 2 or self.points.shape[1] != 2:
            raise TypeError(f"rings.points must be float32[p, 2], got {self.points.dtype}{list(self.points.shape)}")
        expected = 0
        for row, (first, count) in enumerate(self.table.tolist()):
            if count < 3:
                raise BadInput("rings", row, "count", f"must be at least 3, got {count}")
            if first != expected:
                raise BadInput("rings", row, "first", f"must be {expected} (the counts before it), got {first}")
            expected += count
            if expected > len(self.points):
                raise BadInput(
                    "rings", row, "count", f"reaches point {expected} of a table of {len(self.points)} points"
                )
        if expected != len(self.points):
            raise BadInput(
                "rings", None, "points", f"must be {expected} points as the table says, got {len(self.points)}"
            )
        with np.errstate(invalid="ignore"):
            bad = ~(np.abs(self.points) <= np.float32(POSITION_METRES_MAX))
        if bad.any():
            i, axis = np.argwhere(bad)[0].tolist()
            row = int(np.searchsorted(self.table["first"], i, side="right")) - 1
            raise BadInput(
                "rings",
                row,
                "xy"[axis],
                f"of corner {i - int(self.table['first'][row])} must be finite and within 2^20 m, "
                f"got {self.points[i, axis]}",
            )

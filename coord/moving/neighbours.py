"""Neighbours: which points lie within a radius of each other, and the closest pair.

Distances are float32 in the order of `distance_sq`: (dx·dx + dy·dy) + dz·dz, compared with radius·radius. The points
are sorted by cells a little wider than the radius, or along a space-filling curve where they crowd in few cells, and
looked at sixteen at a time, so time and memory grow with the points and the neighbours they have, wherever they stand;
neither the order of the points nor that of the search reaches a result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coord import backend
from coord.checks import POSITION_BITS, magnitude
from coord.errors import BadInput, TooLargeError
from tensor.float_mode import plain_mode

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
PointArray: TypeAlias = "NDArray[Any] | tuple[F32, F32] | tuple[F32, F32, F32]"
_Columns: TypeAlias = "tuple[F32, F32, F32 | None]"

ENTRIES_MAX = 16_000_000  # 64 MB of neighbours
LIMIT_M = np.float32(2.0**20)


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The neighbours of each point: those of point i are `index[start[i] : start[i + 1]]`, ascending."""

    start: U32  # [n + 1]
    index: U32  # [start[n]]

    def of(self, i: int) -> U32:
        """The neighbours of one point."""
        return self.index[self.start[i] : self.start[i + 1]]


class Separation(NamedTuple):
    """The closest pair of points: how far apart, and which two (rows; ids where records were given)."""

    distance_m: float
    first: int
    second: int


@plain_mode()
def neighbours(
    points: PointArray,  # f32[n, 2] or f32[n, 3] metres, columns x, y and perhaps z, or records with x, y and z
    radius_m: float,
    *,
    entries_max: int = ENTRIES_MAX,
) -> Neighbours:
    """Which points lie within `radius_m` of each point, itself left out. Rows, also where records are given.

    Counts first: more than `entries_max` neighbours in all raise TooLargeError before anything of that size is made.
    BadInput names a point that is not finite or beyond 2^20 m; a radius must be finite and not below 0.

    >>> found = neighbours(np.array([[0, 0], [3, 4], [0, 1]], np.float32), 5.0)
    >>> found.start.tolist(), found.index.tolist()
    ([0, 2, 4, 6], [1, 2, 0, 2, 0, 1])
    """
    columns, radius = _columns(points, "neighbours"), _radius(radius_m, "neighbours")
    if not 0 <= entries_max < 2**32:
        raise ValueError(f"neighbours: entries_max must be from 0 to 2^32 - 1, got {entries_max}")
    counts = backend.neighbour_counts(*columns, radius, entries_max)
    if counts is None:
        raise TooLargeError(
            f"neighbours: expected at most {entries_max} neighbours of {len(columns[0])} points in all, got more "
            f"(hint: a smaller radius than {radius_m} m, or entries_max)"
        )
    start = np.zeros(len(counts) + 1, np.uint32)
    np.cumsum(counts, out=start[1:])
    return Neighbours(start, backend.neighbour_lists(*columns, radius, start))


@plain_mode()
def neighbour_counts(points: PointArray, radius_m: float) -> U32:
    """How many other points lie within `radius_m` of each point: `neighbours` without the lists.

    >>> neighbour_counts(np.array([[0, 0], [3, 4], [9, 9]], np.float32), 5.0).tolist()
    [1, 1, 0]
    """
    columns, radius = _columns(points, "neighbour_counts"), _radius(radius_m, "neighbour_counts")
    counts = backend.neighbour_counts(*columns, radius, 2**63)
    assert counts is not None, "no limit, so none is passed"
    return counts


@plain_mode()
def minimum_separation(points: PointArray) -> Separation | None:
    """The closest pair: its distance and its two points, by row; of records by id. None of fewer than two points.

    Of pairs equally close the one with the lowest row (id), then the lowest other one. Exact: the distance is the
    float32 `distance` of the two points. Raises BadInput as `neighbours` does.

    >>> minimum_separation(np.array([[0, 0], [9, 9], [3, 4]], np.float32))
    Separation(distance_m=5.0, first=0, second=2)
    """
    x, y, z = _columns(points, "minimum_separation")
    if len(x) < 2:
        return None
    if isinstance(points, tuple) or points.dtype.names is None:
        square, first, second = backend.closest_pair(x, y, z)
        return Separation(float(np.sqrt(square)), first, second)
    ids = points["id"]
    if not bool((ids[1:] > ids[:-1]).all()):
        order = np.argsort(ids, kind="stable")
        ids, x, y, z = ids[order], x[order], y[order], None if z is None else z[order]
    square, first, second = backend.closest_pair(x, y, z)
    return Separation(float(np.sqrt(square)), int(ids[first]), int(ids[second]))


def _radius(radius_m: float, name: str) -> np.float32:
    radius = np.float32(radius_m)
    if not (np.isfinite(radius) and radius >= 0):
        raise ValueError(f"{name}: radius_m must be finite and at least 0, got {radius_m}")
    return radius


def _columns(points: PointArray, name: str) -> _Columns:
    """Contiguous x, y and z; z is None where there is none, or where it is 0 everywhere."""
    if isinstance(points, tuple):
        columns = _given(points, name)
    elif not isinstance(points, np.ndarray):
        raise TypeError(f"{name}: points must be float32[n, 2 or 3] or records, got {type(points).__name__}")
    elif points.dtype.names is not None and {"x", "y", "z"} <= set(points.dtype.names) and points.ndim == 1:
        columns = [np.ascontiguousarray(points[axis], np.float32) for axis in "xyz"]
    elif points.dtype == np.float32 and points.ndim == 2 and points.shape[1] in (2, 3):
        columns = [np.ascontiguousarray(points[:, axis]) for axis in range(points.shape[1])]
    else:
        hint = " (hint: points.astype(np.float32))" if points.dtype.kind in "fiu" and points.ndim == 2 else ""
        raise TypeError(
            f"{name}: points must be float32[n, 2 or 3] or records, got {points.dtype}{list(points.shape)}{hint}"
        )
    for axis, column in zip("xyz", columns, strict=False):
        if len(column) and not (column.min() >= -LIMIT_M and column.max() <= LIMIT_M):  # NaN is neither
            row = int(np.flatnonzero(magnitude(column) > POSITION_BITS)[0])
            raise BadInput("points", row, axis, f"must be finite and within 2^20 m, got {column[row]}")
    flat = len(columns) == 2 or not columns[2].any()
    return columns[0], columns[1], None if flat else columns[2]


def _given(points: tuple[F32, ...], name: str) -> list[F32]:
    """Columns of the caller's, as they are."""
    if len(points) not in (2, 3) or not all(
        isinstance(column, np.ndarray) and column.dtype == np.float32 and column.ndim == 1 for column in points
    ):
        raise TypeError(f"{name}: columns must be x, y and perhaps z, each float32[n]")
    if any(len(column) != len(points[0]) for column in points):
        raise ValueError(f"{name}: columns must be of one length, got {', '.join(str(len(c)) for c in points)}")
    return [np.ascontiguousarray(column) for column in points]

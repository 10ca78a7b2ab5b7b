"""The readable twin of `kernels/neighbours.cpp`: every pair, one row of distances at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
_ZERO = np.float32(0)


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def _squares(x: F32, y: F32, z: F32 | None, i: int) -> F32:
    """(dx·dx + dy·dy) + dz·dz from point i to every point."""
    dx, dy = x[i] - x, y[i] - y
    dz = _ZERO if z is None else z[i] - z
    out: F32 = (dx * dx + dy * dy) + dz * dz
    return out


def _near(x: F32, y: F32, z: F32 | None, radius: np.float32, i: int) -> NDArray[np.intp]:
    near = _squares(x, y, z, i) <= radius * radius
    near[i] = False
    return np.flatnonzero(near)


def neighbour_counts(x: F32, y: F32, z: F32 | None, radius: np.float32) -> U32:
    """How many other points lie at square distance ≤ radius·radius of each."""
    return np.array([len(_near(x, y, z, radius, i)) for i in range(len(x))], np.uint32)


def neighbour_lists(x: F32, y: F32, z: F32 | None, radius: np.float32) -> U32:
    """The neighbours of point 0, then of point 1, …, each ascending."""
    lists = [_near(x, y, z, radius, i) for i in range(len(x))]
    return np.concatenate([np.zeros(0, np.uint32), *lists]).astype(np.uint32)


def closest_pair(x: F32, y: F32, z: F32 | None) -> tuple[np.float32, int, int]:
    """(square distance, i, j) of the closest pair of at least two points, i < j; of equal ones the lowest i, then j."""
    best, first, second = np.float32(np.inf), -1, -1
    for i in range(len(x) - 1):
        squares = _squares(x, y, z, i)[i + 1 :]
        j = int(squares.argmin())
        if first < 0 or squares[j] < best:
            best, first, second = squares[j], i, i + 1 + j
    return best, first, second

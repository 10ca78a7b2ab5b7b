"""The smallest distance between two agents, exactly, in time that hardly depends on how they lie."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BRUTE_FORCE_MAX = 48
RESOLUTION_M = 2.0**-20


def minimum_separation(
    place: NDArray[np.float64],  # [n, 3] metres, finite, each coordinate within 2^20
) -> float | None:
    """The smallest distance of two of the places, in metres; None with fewer than two. Below 2^-20 m it is 0.

    A distance is sqrt((dx·dx + dy·dy) + dz·dz) in float64. An upper bound is lowered while a cell of half that side
    holds two places; then a nearer pair stands at most two cells apart, and each place is compared with those around.

    >>> minimum_separation(np.array([[0.0, 0, 0], [3, 4, 0], [50, 0, 0]]))
    5.0
    """
    n = len(place)
    if n < 2:
        return None
    if n <= BRUTE_FORCE_MAX:
        i, j = np.triu_indices(n, 1)
        best = float(_squares(place[i] - place[j]).min())
        return _metres(best)
    ordered = place[np.lexsort((place[:, 2], place[:, 1], place[:, 0]))]
    best = float(_squares(ordered[1:] - ordered[:-1]).min())
    low = place.min(axis=0)
    while best > RESOLUTION_M**2:
        side = np.sqrt(best) / 2
        cell = np.floor((place - low) / side)
        order = np.lexsort((cell[:, 2], cell[:, 1], cell[:, 0]))
        cell, there = cell[order], place[order]
        twice = np.flatnonzero((cell[1:] == cell[:-1]).all(axis=1))
        if not len(twice):
            return _metres(min(best, _around(cell, there)))
        best = min(best, float(_squares(there[twice + 1] - there[twice]).min()))
    return _metres(best)


def _squares(step: NDArray[np.float64]) -> NDArray[np.float64]:
    out: NDArray[np.float64] = (step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1]) + step[:, 2] * step[:, 2]
    return out


def _metres(square: float) -> float:
    return 0.0 if square <= RESOLUTION_M**2 else float(np.sqrt(square))


def _around(cell: NDArray[np.float64], place: NDArray[np.float64]) -> float:
    """The least square of a distance between cells at most two apart, each of which holds one place."""
    numbers = [_close_up(cell[:, axis]) for axis in range(3)]
    wide, deep = (int(numbers[axis].max()) + 3 for axis in (1, 2))
    keys = (numbers[0] * wide + numbers[1]) * deep + numbers[2]
    order = np.argsort(keys)
    keys, place = keys[order], place[order]
    best = np.inf
    layers = (0,) if deep == _FIRST + 3 else range(-2, 3)
    for dx in range(3):
        for dy in range(-2, 3):
            for dz in layers:
                if (dx, dy, dz) <= (0, 0, 0):
                    continue
                wanted = keys + ((dx * wide + dy) * deep + dz)
                at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
                found = np.flatnonzero(keys[at] == wanted)
                if len(found):
                    best = min(best, float(_squares(place[at[found]] - place[found]).min()))
    return best


_FIRST = 2  # two empty columns on each side: a neighbour's number never runs over into the next row


def _close_up(cells: NDArray[np.float64]) -> NDArray[np.int64]:
    """Cell numbers of one axis with wide gaps made 3: which cells are at most two apart stays as it is."""
    distinct, at = np.unique(cells, return_inverse=True)
    steps = np.minimum(np.diff(distinct, prepend=distinct[0]), 3).astype(np.int64)
    numbers: NDArray[np.int64] = (_FIRST + np.cumsum(steps))[at]
    return numbers

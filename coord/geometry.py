"""Distances in float32 metres, every operation rounded separately, so numpy is the oracle."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensor.float_mode import plain_mode

F32 = NDArray[np.float32]


@plain_mode()
def distance_sq(a: ArrayLike, b: ArrayLike) -> F32:
    """(dx·dx + dy·dy) + dz·dz of points [..., 3] in metres; broadcasts, float32.

    >>> float(distance_sq((0, 0, 0), (3, 4, 0)))
    25.0
    """
    p, q = _points(a, "a"), _points(b, "b")
    d = q - p
    square = d * d
    return (square[..., 0] + square[..., 1]) + square[..., 2]


@plain_mode()
def distance(a: ArrayLike, b: ArrayLike) -> F32:
    """The correctly rounded root of `distance_sq`.

    >>> float(distance((0, 0, 0), (3, 4, 0)))
    5.0
    """
    return np.sqrt(distance_sq(a, b))


def _points(value: ArrayLike, name: str) -> F32:
    points = np.asarray(value, np.float32)
    if points.ndim == 0 or points.shape[-1] != 3:
        raise ValueError(f"distance: {name} must be float32[..., 3], got shape {points.shape}")
    return points

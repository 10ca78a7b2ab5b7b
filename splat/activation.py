"""Opacities and their logits, unit quaternions: what files keep raw and a scene keeps ready, in fixed arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import elementary
from tensor.float_mode import plain_mode

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

LOGIT_MAX = 13.8155  # of an opacity of 1 - 1e-6: what writers clamp to
_OPAQUE = 0.9999989867210388  # the float32 opacity of that logit; it has many logits, and is given this one
_UNIT_TOLERANCE = 2.0**-22  # a rounded unit quaternion has a square within 2^-23 of 1: dividing again changes nothing


def sigmoid(logits: NDArray[Any]) -> F32:
    """1 / (1 + exp(-x)) in float64, rounded to float32; ±inf give 1 and 0. logits: float32 or float64, any shape.

    >>> sigmoid(np.float32([0, 2, -np.inf])).tolist()
    [0.5, 0.8807970881462097, 0.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        falling = np.negative(logits, dtype=np.float64)
        elementary.exp(falling, out=falling)
        falling += 1.0
        opacities: F32 = np.divide(1.0, falling, out=falling).astype(np.float32)
    return opacities


def logit(opacities: NDArray[Any]) -> F32:
    """log(o / (1 - o)) in float64, clamped to ±13.8155, rounded to float32. opacities: 0..1, any shape.

    Its sigmoid has the same logit again, bit for bit.

    >>> logit(np.float32([0.5, 1, 0])).tolist()
    [0.0, 13.815500259399414, -13.815500259399414]
    """
    o = opacities.astype(np.float64)
    with np.errstate(divide="ignore"):
        odds = np.divide(o, np.subtract(1.0, o))
    values = elementary.log(odds, out=odds)
    values[o >= _OPAQUE] = LOGIT_MAX
    return np.clip(values, -LOGIT_MAX, LOGIT_MAX, out=values).astype(np.float32)


def squared_norms(quats: F32) -> F64:
    """w² + x² + y² + z² in float64, in that order. quats: [n, 4] → [n]."""
    q = quats.astype(np.float64)
    q *= q
    total: F64 = ((q[:, 0] + q[:, 1]) + q[:, 2]) + q[:, 3]
    return total


@plain_mode()
def normalize_quaternions(quats: F32) -> F32:
    """Each quaternion divided by its length in float64, then rounded to float32.

    quats: float32[n, 4] → float32[n, 4]. One whose squared length is within 2^-22 of 1 stays as it is, so that twice is
    the same as once. Zero or non-finite ones come out as they are, too.

    >>> normalize_quaternions(np.float32([[2, 0, 0, 0], [0, 0, 0, 0]])).tolist()
    [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    square = squared_norms(quats)
    with np.errstate(invalid="ignore"):
        leave = (np.abs(square - 1.0) <= _UNIT_TOLERANCE) | (square == 0) | ~np.isfinite(square)
    length = np.sqrt(np.where(leave, 1.0, square))
    return (quats / length[:, None]).astype(np.float32)

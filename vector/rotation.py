"""The rotation that spreads a vector evenly over its coordinates, so that one code fits all of them.

Two rounds of: permute all D coordinates, change signs, transform each block of B coordinates (Walsh–Hadamard, times
1/sqrt(B)). It is orthogonal up to float32 rounding. A row's result depends on that row only. `rotation_ref.py` has the
definition, with the random words that make the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tensor import memory
from tensor.float_mode import plain_mode
from vector import _kernels, checks, rotation_ref
from vector.codebook import padded_dim

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]

REFERENCE = _kernels.isa() == "ref"


@dataclass(frozen=True, eq=False)
class Rotation:
    """The tables of a rotation of D coordinates: read-only, shared by all indexes of one D and seed."""

    padded: int
    seed: int
    order: U32  # [2, D]
    signs: U32  # [2, D], 0 or the sign bit


@lru_cache(maxsize=8)
def rotation_of(padded: int, seed: int) -> Rotation:
    """The rotation of D coordinates, D a multiple of 64, for a seed below 2^64."""
    order, signs = rotation_ref.tables(padded, seed)
    order.flags.writeable = signs.flags.writeable = False
    return Rotation(padded, seed, order, signs)


def rotate_f32(x: object, seed: int = 0) -> F32:
    """float32[n, D]: the rows of x, padded with zeros to D coordinates (the next multiple of 64) and rotated.

    x: float32[n, d], d from 1 to 16384, any strides. Raises VectorValueError for another type or shape and for values
    that are not finite, VectorTypeError for a seed that is no int.

    >>> y = rotate_f32(np.array([[3, 4]], np.float32))
    >>> y.shape, round(float((y * y).sum()), 3)
    ((1, 64), 25.0)
    """
    rows = checks.matrix(x, None, "rotate_f32", "x")
    turn = rotation_of(padded_dim(rows.shape[1]), checks.seed(seed, "rotate_f32"))
    return _apply(rows, turn, inverse=False)


def unrotate_f32(y: object, dim: int, seed: int = 0) -> F32:
    """float32[n, d]: the inverse of `rotate_f32` up to rounding.

    y: float32[n, D], dim: d, with D its next multiple of 64. Raises as rotate_f32.

    >>> x = np.array([[3, 4, 0.5]], np.float32)
    >>> unrotate_f32(rotate_f32(x, seed=7), 3, seed=7).round(5)
    array([[3. , 4. , 0.5]], dtype=float32)
    """
    d = checks.dim(dim, "unrotate_f32")
    rows = checks.matrix(y, padded_dim(d), "unrotate_f32", "y")
    return _apply(rows, rotation_of(padded_dim(d), checks.seed(seed, "unrotate_f32")), inverse=True)[:, :d].copy()


def _apply(rows: F32, turn: Rotation, *, inverse: bool) -> F32:
    out: F32 = memory.allocate((len(rows), turn.padded), np.float32, "rotated rows")
    if not REFERENCE:
        _kernels.rotate(rows, turn.order, turn.signs, inverse, out)
        return out
    padded = np.zeros(out.shape, np.float32)
    padded[:, : rows.shape[1]] = rows
    with plain_mode():
        out[...] = (rotation_ref.unrotate if inverse else rotation_ref.rotate)(padded, turn.order, turn.signs)
    return out

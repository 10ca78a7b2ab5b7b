"""Dot products, norms, distances and cosines of float32 vectors, summed in float64 in the fixed order of tensor.

A result depends on its own two vectors only: alone or in a batch, contiguous or strided, the bits are the same. The
order is that of `tensor/reduction.py`; the readable twin is `vector/exact_ref.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor import arrays, memory
from tensor.float_mode import plain_mode
from vector import _kernels, checks, exact_ref
from vector.errors import VectorTypeError, VectorValueError

REFERENCE = _kernels.isa() == "ref"

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


def dot(x: object, y: object) -> np.float64 | F64:
    """Σ x·y of two vectors, or of each row of x and y.

    x: float32[d] or float32[n, d]; y: of the same shape, or one vector float32[d] for all rows. Returns a float64, or
    float64[n]. NaN is canonical; +0 for d = 0. Raises VectorTypeError, VectorValueError.

    >>> float(dot(np.float32([1, 2, 3]), np.float32([4, 5, 6])))
    32.0
    >>> dot(np.float32([[1, 0], [0, 2]]), np.float32([3, 4]))
    array([3., 8.])
    """
    a, b, rows = _pair(x, y, "dot")
    return _shaped(pair_sums(a, b, squares=False), rows)


def l2(x: object, y: object) -> np.float64 | F64:
    """Σ (x − y)², the squared Euclidean distance; differences in float64. Arguments and errors as `dot`.

    >>> float(l2(np.float32([1, 2]), np.float32([4, 6])))
    25.0
    """
    a, b, rows = _pair(x, y, "l2")
    return _shaped(pair_sums(a, b, squares=True), rows)


def norm_f32(x: object) -> np.float64 | F64:
    """The Euclidean norm of a float32 vector, or of each row, in float64. Arguments and errors as `dot`.

    >>> float(norm_f32(np.float32([3, 4])))
    5.0
    """
    a, _, rows = _pair(x, x, "norm_f32")
    return _shaped(norms(a), rows)


def cosine(x: object, y: object) -> np.float64 | F64:
    """Σ x·y ÷ (‖x‖·‖y‖); 0 where a vector is zero. Arguments and errors as `dot`.

    >>> float(cosine(np.float32([1, 0]), np.float32([3, 4])))
    0.6
    """
    a, b, rows = _pair(x, y, "cosine")
    with plain_mode(), np.errstate(all="ignore"):
        sums, size = pair_sums(a, b, squares=False), norms(a) * norms(b)
        return _shaped(np.where(size == 0, 0.0, sums / size), rows)


def normalize_f32(x: object) -> F32:
    """float32 vectors of length 1: each coordinate divided by the norm in float64 and rounded once; zero stays zero.

    x: float32[d] or float32[n, d], finite. Returns a new array of its shape. Errors as `dot`.

    >>> normalize_f32(np.float32([3, 4]))
    array([0.6, 0.8], dtype=float32)
    """
    a, _, rows = _pair(x, x, "normalize_f32")
    out: F32 = memory.allocate(a.shape, np.float32, "normalize_f32")
    sizes = norms(a)
    with plain_mode(), np.errstate(all="ignore"):
        for start in range(0, len(a), 256):
            part = sizes[start : start + 256, None]
            out[start : start + 256] = a[start : start + 256] / np.where(part == 0, 1.0, part)
    return out if rows else out[0]


def norms(x: F32) -> F64:
    """float64[n]: the norm of each row of float32[n, d]."""
    with plain_mode():
        return np.sqrt(pair_sums(x, x, squares=False))


def pair_sums(x: F32, y: F32, *, squares: bool) -> F64:
    """float64[n]: Σ x·y, or Σ (x − y)², of each row of float32[n, d] with y, float32[n, d] or float32[1, d]."""
    if REFERENCE:
        with plain_mode():
            return exact_ref.pair_sums(x, y, squares)
    out: F64 = memory.allocate((len(x),), np.float64, "pair_sums")
    _kernels.pair_sums(x, y, squares, out)
    return out


def matrix(x: object, function: str, name: str, shape: str) -> F32:
    """A float32 array of one or two dimensions that kernels can read in place; VectorTypeError, VectorValueError."""
    array = checks.array(x, function, name)
    if array.dtype != np.float32 or not array.dtype.isnative:
        raise VectorTypeError(
            f"{function}: {name} must be float32{shape}, got {arrays.describe(array)} "
            f"(hint: {name}.astype(numpy.float32))"
        )
    readable: F32 = arrays.readable(array)
    return readable


def _pair(x: object, y: object, function: str) -> tuple[F32, F32, bool]:
    """x as [n, d], y as [n, d] or [1, d], and whether x came as rows."""
    a, b = matrix(x, function, "x", "[d] or [n, d]"), matrix(y, function, "y", "[d] or [n, d]")
    if a.ndim not in (1, 2) or b.ndim not in (1, a.ndim) or (b.ndim == a.ndim and b.shape != a.shape):
        fit = False
    else:
        fit = a.shape[-1] == b.shape[-1]
    if not fit:
        raise VectorValueError(
            f"{function}: x must be float32[d] or [n, d], and y of the same shape or [d], "
            f"got x = {arrays.describe(a)} and y = {arrays.describe(b)}"
        )
    return a if a.ndim == 2 else a[None], b if b.ndim == 2 else b[None], a.ndim == 2


def _shaped(values: F64, rows: bool) -> np.float64 | F64:
    if rows:
        return values
    value: np.float64 = values[0]
    return value

"""Sums and dot products in one fixed order, whatever the strides, the threads and the machine.

Values are cut into blocks of 4096; in a block, value i goes to accumulator (i div 16) mod 4, lane i mod 16; block
values join in a tree. The readable twin, `tensor/reduction_ref.py`, is the definition.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import _kernels, memory, reduction_ref
from tensor.arrays import (
    REFERENCE,
    Array,
    as_floats,
    checked_out,
    contiguous,
    describe,
    writable_in_place,
)
from tensor.errors import DtypeError, ShapeError
from tensor.float_mode import plain_mode

__all__ = ["dot", "sum"]

# By dtype.char, which costs nothing to ask for (dtype.name is a Python function of numpy).
_SUM = {"f": _kernels.sum_f32, "d": _kernels.sum_f64}
_SUM_ROWS = {"f": _kernels.sum_rows_f32, "d": _kernels.sum_rows_f64}
_SUM_COLUMNS = {"f": _kernels.sum_columns_f32, "d": _kernels.sum_columns_f64}
_DOT = {"f": _kernels.dot_f32, "d": _kernels.dot_f64}


def sum(x: object, axis: int | None = None, out: object = None) -> NDArray[Any] | np.floating[Any]:
    """Sum of all elements of `x` (row-major), or along one axis.

    x: float32 or float64, any shape and strides, array, buffer or DLPack object. out: only with `axis`; may overlap x.
    Returns a scalar of x's type, or an array without the axis. The sum of nothing is +0; NaN is canonical.
    Raises DtypeError, ShapeError, ReadOnlyError.

    >>> sum(np.float32([1, 2, 3]))
    np.float32(6.0)
    >>> sum(np.float32([[1, 2], [3, 4]]), axis=0)
    array([4., 6.], dtype=float32)
    """
    array = as_floats(x, "sum", "x")
    if axis is None:
        if out is not None:
            raise ShapeError("sum: out needs an axis, because the sum of all elements is a scalar")
        total = np.empty(1, array.dtype)
        _sum_vector(array if array.ndim == 1 else contiguous(array, "sum").reshape(-1), total)
        scalar: np.floating[Any] = total[0]
        return scalar
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeError(f"sum: axis must be an int or None, got {type(axis).__name__}")
    if not -array.ndim <= axis < array.ndim:
        raise ShapeError(
            f"sum: axis must be from {-array.ndim} to {array.ndim - 1} for x = {describe(array)}, got {axis}"
        )
    axis %= array.ndim
    shape = array.shape[:axis] + array.shape[axis + 1 :]
    if out is None:
        result = memory.allocate(shape, array.dtype, "sum")
        _sum_axis(array, axis, result)
        return result
    target = checked_out(out, shape, array.dtype, "sum")
    result = target if writable_in_place(target, array) else memory.allocate(shape, array.dtype, "sum")
    _sum_axis(array, axis, result)
    if result is not target:
        target[...] = result
    return target


def dot(x: object, y: object) -> np.floating[Any]:
    """Sum of x[i]·y[i], every product fused into its accumulator.

    x, y: float32[n] or float64[n], both of one type, any stride. Returns a scalar of that type; +0 for n = 0.
    Raises DtypeError, ShapeError.

    >>> dot(np.float32([1, 2, 3]), np.float32([4, 5, 6]))
    np.float32(32.0)
    """
    a, b = as_floats(x, "dot", "x"), as_floats(y, "dot", "y")
    if a.ndim != 1 or a.shape != b.shape:
        raise ShapeError(f"dot: x and y must be vectors of one length, got x = {describe(a)} and y = {describe(b)}")
    if a.dtype != b.dtype:
        raise DtypeError(f"dot: x and y must have one type, got x = {describe(a)} and y = {describe(b)}")
    total = np.empty(1, a.dtype)
    if REFERENCE:
        with plain_mode():
            total[0] = reduction_ref.dot(a, b)
    else:
        _DOT[a.dtype.char](a, b, total)
    scalar: np.floating[Any] = total[0]
    return scalar


def _sum_vector(x: Array, total: Array) -> None:  # [n] → [1]
    if REFERENCE:
        with plain_mode():
            total[0] = reduction_ref.sum(x)
    else:
        _SUM[x.dtype.char](x, total)


def _sum_axis(x: Array, axis: int, out: Array) -> None:
    """out[outer, inner] = sum over the middle of x[outer, axis, inner]; out is C-contiguous."""
    outer = math.prod(x.shape[:axis])
    inner = math.prod(x.shape[axis + 1 :])
    folded, flat = x.reshape(outer, x.shape[axis], inner), out.reshape(outer, inner)
    if REFERENCE:
        for o in range(outer):
            for i in range(inner):
                _sum_vector(folded[o, :, i], flat[o, i : i + 1])
    elif inner == 1:
        _SUM_ROWS[x.dtype.char](folded[:, :, 0], flat[:, 0])
    else:
        columns = folded.strides[2] == folded.itemsize
        kernel = (_SUM_COLUMNS if columns else _SUM_ROWS)[x.dtype.char]
        for o in range(outer):
            kernel(folded[o] if columns else folded[o].T, flat[o])

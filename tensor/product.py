"""The matrix product with one chain of fused multiply-adds per element, in blocks of 256 along k.

Row r of the product depends on row r of the left factor and on the right factor, nothing else: alone or in a batch, the
bits are the same. The readable twin is `tensor/product_ref.py`.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tensor import _kernels, memory, product_ref
from tensor.arrays import REFERENCE, Array, as_floats, checked_out, describe, writable_in_place
from tensor.errors import DtypeError, ShapeError
from tensor.float_mode import plain_mode

__all__ = ["matmul"]

_MATMUL = {"f": _kernels.matmul_f32, "d": _kernels.matmul_f64}  # by dtype.char


def matmul(a: object, b: object, out: object = None) -> NDArray[Any]:
    """The product of two matrices.

    a: [m, k], b: [k, n], both float32 or both float64, any strides; out: [m, n] of that type, may overlap a and b.
    Returns out, or a new array. For k = 0 every element is +0; NaN is canonical.
    Raises DtypeError, ShapeError, ReadOnlyError, MemoryError (BudgetExceeded: the packed factors count too).

    >>> import numpy as np
    >>> matmul(np.float32([[1, 2]]), np.float32([[3], [4]]))
    array([[11.]], dtype=float32)
    """
    left, right = as_floats(a, "matmul", "a"), as_floats(b, "matmul", "b")
    if left.dtype != right.dtype:
        raise DtypeError(f"matmul: a and b must have one type, got a = {describe(left)} and b = {describe(right)}")
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise ShapeError(f"matmul: a must be [m, k] and b [k, n], got a = {describe(left)} and b = {describe(right)}")
    shape = (left.shape[0], right.shape[1])
    if out is None:
        result = memory.allocate(shape, left.dtype, "matmul")
        _multiply(left, right, result)
        return result
    target = checked_out(out, shape, left.dtype, "matmul")
    in_place = writable_in_place(target, left, right)
    result = target if in_place else memory.allocate(shape, left.dtype, "matmul")
    _multiply(left, right, result)
    if result is not target:
        target[...] = result
    return target


def _multiply(a: Array, b: Array, out: Array) -> None:
    if REFERENCE:
        with plain_mode():
            out[...] = product_ref.matmul(a, b)
        return
    kernel = _MATMUL[a.dtype.char]
    if not memory.bounded():
        kernel(a, b, out)
        return
    packing_bytes = _kernels.matmul_workspace_bytes(a, b)
    with memory.reserve(packing_bytes, "matmul packing"):
        kernel(a, b, out)

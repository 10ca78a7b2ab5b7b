"""Checks of arguments at the public edge of the indexes: the first wrong one raises, by name, with its mend."""

from __future__ import annotations

from operator import index as as_index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import arrays
from tensor.errors import TensorError
from vector.codebook import DIM_MAX
from vector.errors import VectorTypeError, VectorValueError

F32 = NDArray[np.float32]
U64 = NDArray[np.uint64]

VALUE_MAX = 1e16  # a coordinate must be below it: squares of 16384 of them stay finite in float32
_LIMIT_BITS = np.float32(VALUE_MAX).view(np.uint32)
CHUNK_VALUES = 65536  # checked at a time


def integer(value: object, function: str, name: str, low: int, high: int, high_name: str = "") -> int:
    """An int from low to high (Python or numpy, no bool); VectorTypeError or VectorValueError otherwise."""
    if isinstance(value, (bool, np.bool_)):
        raise VectorTypeError(f"{function}: {name} must be an int, got bool")
    try:
        number = as_index(value)  # type: ignore[arg-type]
    except TypeError:
        raise VectorTypeError(f"{function}: {name} must be an int, got {type(value).__name__}") from None
    if not low <= number <= high:
        limits = f"from {low} to {high_name or high}"
        raise VectorValueError(f"{function}: {name} must be {limits}, got {number}")
    return number


def dim(value: object, function: str) -> int:
    """A dimension: 1 … 16384."""
    return integer(value, function, "dim", 1, DIM_MAX)


def seed(value: object, function: str) -> int:
    """A seed: 0 … 2^64 − 1."""
    return integer(value, function, "seed", 0, 2**64 - 1, "2**64 - 1")


def neighbours(value: object, function: str) -> int:
    """A number of neighbours: any int from 0 on."""
    number = integer(value, function, "k", -(2**200), 2**200)
    if number < 0:
        raise VectorValueError(f"{function}: k must not be negative, got {number}")
    return number


def matrix(x: object, width: int | None, function: str, name: str) -> F32:
    """A C-contiguous, finite float32[n, d] with |x| < 1e16; a copy only of a strided or misaligned one."""
    try:
        array = arrays.as_array(x, function, name)
    except TensorError as error:
        raise VectorTypeError(str(error)) from None
    good = array.ndim == 2 and array.dtype == np.float32 and array.dtype.isnative
    if not good or array.shape[1] != (width or array.shape[1]) or not 1 <= array.shape[1] <= DIM_MAX:
        raise VectorValueError(_matrix_error(array, width, function, name))
    rows: F32 = arrays.contiguous(arrays.readable(array), function)
    _finite(rows, function, name)
    return rows


def _matrix_error(array: NDArray[Any], width: int | None, function: str, name: str) -> str:
    text = f"{function}: {name} must be float32[n, {width or 'd'}], got {arrays.describe(array)}"
    if array.ndim == 1 and array.dtype == np.float32 and width in (None, len(array)):
        return f"{text} (hint: {name}[None, :])"
    if array.ndim != 2 or (width is not None and array.shape[1] != width):
        return text
    if array.dtype != np.float32 or not array.dtype.isnative:
        return f"{text} (hint: {name}.astype(numpy.float32))"
    return f"{text}, and d must be from 1 to {DIM_MAX}"


def _finite(rows: F32, function: str, name: str) -> None:
    """VectorValueError naming the first value, in row order, that is NaN, infinite or at least 1e16 in magnitude."""
    step = max(1, CHUNK_VALUES // rows.shape[1])
    for start in range(0, len(rows), step):
        chunk = rows[start : start + step]
        size = chunk.view(np.uint32) & np.uint32(0x7FFFFFFF)
        if size.size and size.max() >= _LIMIT_BITS:
            row, column = (int(i) for i in np.argwhere(size >= _LIMIT_BITS)[0])
            raise VectorValueError(
                f"{function}: {name}[{start + row}, {column}] must be finite and below 1e16 in magnitude, "
                f"got {chunk[row, column]}"
            )


def ids(value: object, function: str, name: str, count: int | None = None) -> U64:
    """A contiguous uint64[n] of ids, n = count where one is given; duplicates are the caller's affair."""
    try:
        array = arrays.as_array(value, function, name)
    except TensorError as error:
        raise VectorTypeError(str(error).replace("numpy.float32", "numpy.uint64")) from None
    got = f"{function}: {name} must be uint64[{'n' if count is None else count}], got {arrays.describe(array)}"
    if array.dtype.kind == "i" and array.size and int(array.min()) < 0:
        raise VectorValueError(f"{function}: {name} must not be negative, got {int(array.min())}")
    if array.dtype != np.uint64 or not array.dtype.isnative:
        raise VectorValueError(f"{got} (hint: {name}.astype(numpy.uint64))")
    if array.ndim != 1 or (count is not None and len(array) != count):
        raise VectorValueError(got)
    out: U64 = arrays.contiguous(arrays.readable(array), function)
    return out

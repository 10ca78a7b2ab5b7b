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
from vector.index_header import METRICS

F32 = NDArray[np.float32]
U64 = NDArray[np.uint64]

VALUE_MAX = 1e16  # a coordinate must be below it: squares of 16384 of them stay finite in float32
_LIMIT_BITS = np.float32(VALUE_MAX).view(np.uint32)
CHUNK_VALUES = 65536  # checked at a time


def integer(value: object, function: str, name: str, low: int, high: int, high_name: str = "") -> int:
    """An int from low to high (Python or numpy, no bool); VectorTypeError or VectorValueError otherwise."""
    number = _int(value, function, name)
    if not low <= number <= high:
        limits = f"from {low} to {high_name or high}"
        raise VectorValueError(f"{function}: {name} must be {limits}, got {number}")
    return number


def _int(value: object, function: str, name: str) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise VectorTypeError(f"{function}: {name} must be an int, got bool")
    try:
        return as_index(value)  # type: ignore[arg-type]
    except TypeError:
        raise VectorTypeError(f"{function}: {name} must be an int, got {type(value).__name__}") from None


def dim(value: object, function: str) -> int:
    """A dimension: 1 … 16384."""
    return integer(value, function, "dim", 1, DIM_MAX)


def seed(value: object, function: str) -> int:
    """A seed: 0 … 2^64 − 1."""
    return integer(value, function, "seed", 0, 2**64 - 1, "2**64 - 1")


def neighbours(value: object, function: str) -> int:
    """A number of neighbours: any int from 0 on."""
    number = _int(value, function, "k")
    if number < 0:
        raise VectorValueError(f"{function}: k must not be negative, got {number}")
    return number


def metric(value: object, function: str) -> str:
    """A metric: "ip", "cosine" or "l2"."""
    if not isinstance(value, str) or value not in METRICS:
        raise VectorValueError(f"{function}: metric must be 'ip', 'cosine' or 'l2', got {value!r}")
    return str(value)


def array(x: object, function: str, name: str, kind: str = "numpy.float32") -> NDArray[Any]:
    """Any array, buffer or DLPack object as numpy sees it; VectorTypeError, whose hint names the element type."""
    try:
        return arrays.as_array(x, function, name)
    except TensorError as error:
        raise VectorTypeError(str(error).replace("numpy.float32", kind)) from None


def matrix(x: object, width: int | None, function: str, name: str) -> F32:
    """A C-contiguous, finite float32[n, d] with |x| < 1e16; a copy only of a strided or misaligned one."""
    given = array(x, function, name)
    good = given.ndim == 2 and given.dtype == np.float32 and given.dtype.isnative
    if not good or given.shape[1] != (width or given.shape[1]) or not 1 <= given.shape[1] <= DIM_MAX:
        typed = given.dtype == np.float32 and given.dtype.isnative
        raise (VectorValueError if typed else VectorTypeError)(_matrix_error(given, width, function, name))
    rows: F32 = arrays.contiguous(arrays.readable(given), function)
    _finite(rows, function, name)
    return rows


def _matrix_error(given: NDArray[Any], width: int | None, function: str, name: str) -> str:
    text = f"{function}: {name} must be float32[n, {width or 'd'}], got {arrays.describe(given)}"
    if given.ndim == 1 and given.dtype == np.float32 and width in (None, len(given)):
        return f"{text} (hint: {name}[None, :])"
    if given.ndim != 2 or (width is not None and given.shape[1] != width):
        return text
    if given.dtype != np.float32 or not given.dtype.isnative:
        return f"{text} (hint: {name}.astype(numpy.float32))" if given.dtype.kind in "fiubO" else text
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
    given = array(value, function, name, "numpy.uint64")
    got = f"{function}: {name} must be uint64[{'n' if count is None else count}], got {arrays.describe(given)}"
    if given.dtype.kind == "i" and given.size and int(given.min()) < 0:
        raise VectorValueError(f"{function}: {name} must not be negative, got {int(given.min())}")
    if given.dtype != np.uint64 or not given.dtype.isnative:
        raise VectorTypeError(f"{got} (hint: {name}.astype(numpy.uint64))" if given.dtype.kind in "iu" else got)
    if given.ndim != 1 or (count is not None and len(given) != count):
        raise VectorValueError(got)
    out: U64 = arrays.contiguous(arrays.readable(given), function)
    return out

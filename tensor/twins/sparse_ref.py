"""Twin of tensor/kernels/sparse.cpp: sparse times dense, and products at chosen places."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor.fma_ref import fma_f32, fma_f64

Array = NDArray[Any]
I64 = NDArray[np.int64]

DEPTH = 256


def product(values: Array, columns: I64, starts: I64, dense: Array) -> Array:
    """A · dense, A in blocks values[blocks, r, c]: one chain an element over what its row stores, in stored order.

    >>> product(np.array([[[2.0]], [[3.0]]]), np.array([0, 1]), np.array([0, 0, 2]), np.array([[1.0], [10.0]]))
    array([[ 0.],
           [32.]])
    """
    fma = fma_f32 if values.dtype == np.float32 else fma_f64
    _, r, c = values.shape
    out = np.zeros(((len(starts) - 1) * r, dense.shape[1]), values.dtype)
    with np.errstate(all="ignore"):
        for row in range(len(starts) - 1):
            for e in range(int(starts[row]), int(starts[row + 1])):
                for column in range(c):
                    part = slice(row * r, (row + 1) * r)
                    x = dense[columns[e] * c + column]
                    out[part] = fma(values[e, :, column][:, None], x[None, :], out[part])
    out[np.isnan(out)] = np.nan
    return out


def grouped(rows: I64, count: int) -> tuple[I64, I64]:
    """The order that groups entries by row and keeps theirs within a row; where each row begins.

    >>> grouped(np.array([1, 0, 1]), 3)
    (array([1, 0, 2]), array([0, 1, 3, 3]))
    """
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=count), out=starts[1:])
    return np.argsort(rows, kind="stable"), starts


def sampled(a: Array, b: Array, rows: I64, columns: I64) -> Array:
    """(a·b)[rows, columns], with the bits of the matrix product.

    >>> sampled(np.array([[1.0, 2]]), np.array([[3.0], [4]]), np.array([0]), np.array([0]))
    array([11.])
    """
    fma = fma_f32 if a.dtype == np.float32 else fma_f64
    total = np.zeros(len(rows), a.dtype)
    with np.errstate(all="ignore"):
        for first in range(0, a.shape[1], DEPTH):
            chain = np.zeros(len(rows), a.dtype)
            for k in range(first, min(first + DEPTH, a.shape[1])):
                chain = np.asarray(fma(a[rows, k], b[k, columns], chain))
            total = chain if first == 0 else total + chain
    total[np.isnan(total)] = np.nan
    return total

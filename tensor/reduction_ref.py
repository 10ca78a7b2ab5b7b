"""Twin of tensor/kernels/reduction.cpp: the definition of sum and dot, in numpy operations that IEEE 754 fixes.

Only + and the exact fma are applied to floats, element by element; numpy's own sums have another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor.fma_ref import fma_f32, fma_f64

Floats = NDArray[Any]  # float32 or float64

BLOCK = 4096
LANES = 16
ACCUMULATORS = 4


def sum(x: Floats) -> np.floating[Any]:  # [n]
    """Sum of n values in the fixed order, a scalar of x's type.

    >>> sum(np.float32([0.5, 0.25]))
    np.float32(0.75)
    """
    return _tree([_fold_block(_add_rows(block)) for block in _blocks(x)], x.dtype)


def dot(x: Floats, y: Floats) -> np.floating[Any]:  # [n], [n]
    """Sum of x[i]·y[i] in the fixed order, every product fused into its accumulator.

    >>> dot(np.float32([2, 3]), np.float32([10, 1]))
    np.float32(23.0)
    """
    blocks = zip(_blocks(x), _blocks(y), strict=True)
    return _tree([_fold_block(_fma_rows(a, b)) for a, b in blocks], x.dtype)


def _blocks(x: Floats) -> list[Floats]:
    """Blocks as rows of 16 lanes; the missing lanes of the last row are +0."""
    out = []
    for first in range(0, len(x), BLOCK):
        block = x[first : first + BLOCK]
        rows = -(-len(block) // LANES)
        padded = np.zeros(rows * LANES, x.dtype)
        padded[: len(block)] = block
        out.append(padded.reshape(rows, LANES))
    return out


def _add_rows(rows: Floats) -> Floats:
    """Row r is added to accumulator r mod 4, rows ascending."""
    accumulators = np.zeros((ACCUMULATORS, LANES), rows.dtype)
    with np.errstate(all="ignore"):
        for r, row in enumerate(rows):
            accumulators[r % ACCUMULATORS] = accumulators[r % ACCUMULATORS] + row
    return accumulators


def _fma_rows(x: Floats, y: Floats) -> Floats:
    fma = fma_f32 if x.dtype == np.float32 else fma_f64
    accumulators = np.zeros((ACCUMULATORS, LANES), x.dtype)
    for r, (a, b) in enumerate(zip(x, y, strict=True)):
        accumulators[r % ACCUMULATORS] = fma(a, b, accumulators[r % ACCUMULATORS])
    return accumulators


def _fold_block(a: Floats) -> np.floating[Any]:
    """(a0 + a1) + (a2 + a3), then lanes l + (l+8), +4, +2, +1."""
    with np.errstate(all="ignore"):
        lanes = (a[0] + a[1]) + (a[2] + a[3])
        for half in (8, 4, 2, 1):
            lanes = lanes[:half] + lanes[half : 2 * half]
    scalar: np.floating[Any] = lanes[0]
    return scalar


def _tree(values: list[np.floating[Any]], dtype: np.dtype[Any]) -> np.floating[Any]:
    """T(v) = T(first h) + T(rest), h the largest power of two below their number; NaN becomes canonical at the end."""

    def total(low: int, high: int) -> np.floating[Any]:
        n = high - low
        if n == 1:
            return values[low]
        h = 1 << ((n - 1).bit_length() - 1)
        result: np.floating[Any] = total(low, low + h) + total(low + h, high)
        return result

    if not values:
        return dtype.type(0)  # type: ignore[no-any-return]
    with np.errstate(all="ignore"):
        value = total(0, len(values))
    return dtype.type(np.nan) if np.isnan(value) else value

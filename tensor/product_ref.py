"""Twin of tensor/kernels/product.cpp: the definition of the matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor.fma_ref import fma_f32, fma_f64

Floats = NDArray[Any]  # float32 or float64

DEPTH = 256


def matmul(a: Floats, b: Floats) -> Floats:  # [m, k] · [k, n] → [m, n]
    """C = ((p0 + p1) + p2) + …, p_b = chain of fused multiply-adds over k in block b of 256, ascending, from +0.

    >>> matmul(np.float32([[1, 2]]), np.float32([[3], [4]]))
    array([[11.]], dtype=float32)
    """
    fma = fma_f32 if a.dtype == np.float32 else fma_f64
    product = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    with np.errstate(all="ignore"):
        for first in range(0, a.shape[1], DEPTH):
            chain = np.zeros_like(product)
            for k in range(first, min(first + DEPTH, a.shape[1])):
                chain = fma(a[:, k, np.newaxis], b[np.newaxis, k, :], chain)
            product = chain if first == 0 else product + chain
    product[np.isnan(product)] = np.nan
    return product

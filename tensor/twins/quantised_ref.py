"""Twin of tensor/kernels/product_quantised.cpp: byte activations times 4-bit weights in groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor.fma_ref import fma_f32

F32 = NDArray[np.float32]


def unpacked(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:  # [n, k / 2] → [n, k]
    """Two codes of 4 bits a byte, the lower one first.

    >>> unpacked(np.uint8([[0x21, 0x43]]))
    array([[1, 2, 3, 4]], dtype=uint8)
    """
    return np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), -1)


def quantised_product(
    a: NDArray[np.int8],  # [m, k]
    a_scale: F32,  # [m]
    codes: NDArray[np.uint8],  # [n, k / 2]
    scale: F32,  # [n, groups]
    bias: F32,  # [n, groups]
) -> F32:  # [m, n]
    """Sums of whole numbers within a group; then scale · sum and bias · (sum of a), each fused in, groups ascending."""
    m, n, groups = len(a), len(codes), scale.shape[1]
    total = np.zeros((m, n), np.float32)
    weights = unpacked(codes).astype(np.int64)
    with np.errstate(all="ignore"):
        for g, (left, right) in enumerate(
            zip(np.split(a.astype(np.int64), groups, axis=1), np.split(weights, groups, axis=1), strict=True)
            if groups
            else ()
        ):
            products = (left @ right.T).astype(np.float32)
            ones = np.broadcast_to(left.sum(axis=1).astype(np.float32)[:, np.newaxis], (m, n))
            total = fma_f32(np.broadcast_to(scale[:, g], (m, n)), products, total)
            total = fma_f32(np.broadcast_to(bias[:, g], (m, n)), ones, total)
        total = total * a_scale[:, np.newaxis]
    total[np.isnan(total)] = np.nan
    return total

"""Twin of vector/kernels/exact.cpp: metrics and exact search, defined in numpy operations that IEEE 754 fixes.

Sums have the order of tensor/reduction_ref.py. A product of two float32 is exact in float64, so that fusing it into the
sum changes nothing; the square of a difference is not, and needs the exact fma.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor.fma_ref import fma_f64
from tensor.reduction_ref import BLOCK

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

_PARTS = 64  # 4 accumulators of 16 lanes


def pair_sums(x: F32, y: F32, squares: bool) -> F64:  # [n, d], [n, d] or [1, d]
    """float64[n]: the sum over each row of x·y, or of (x − y)².

    >>> pair_sums(np.float32([[1, 2], [3, 4]]), np.float32([[1, 1]]), squares=False)
    array([3., 7.])
    """
    n, d = x.shape
    blocks = []
    with np.errstate(all="ignore"):
        for first in range(0, d, BLOCK):
            sums = np.zeros((n, _PARTS))
            for start in range(first, min(first + BLOCK, d), _PARTS):
                stop = min(start + _PARTS, first + BLOCK, d)
                a, b = x[:, start:stop].astype(np.float64), y[:, start:stop].astype(np.float64)
                part = sums[:, : stop - start]
                part[...] = fma_f64(a - b, a - b, part) if squares else part + a * b
            blocks.append(_fold(sums))
        return _canonical(_tree(blocks, n))


def keys(x: F32, q: F32, metric: int, x_norm: F64, q_norm: np.float64) -> F64:  # [n, d], [d], [n]
    """float64[n]: what orders the rows for one query. metric: 0 inner product, 1 cosine, 2 minus squared distance."""
    sums = pair_sums(x, q[None], squares=metric == 2)
    if metric == 0:
        return sums + 0.0
    if metric == 2:
        return 0.0 - sums
    norms = x_norm * q_norm
    with np.errstate(all="ignore"):
        return np.where(norms == 0, 0.0, sums / norms + 0.0)


def exact_search(x: F32, q: F32, k: int, metric: int, x_norm: F64, q_norm: F64) -> tuple[F32, NDArray[np.uint64]]:
    """The k best rows of each query: keys descending, equal keys by row. Arguments as the kernel's."""
    scores = np.empty((len(q), k), np.float32)
    ids = np.empty((len(q), k), np.uint64)
    rows = np.arange(len(x))
    for i, query in enumerate(q):
        found = keys(x, query, metric, x_norm, q_norm[i] if metric == 1 else np.float64(0))
        best = np.lexsort((rows, -found))[:k]
        scores[i], ids[i] = found[best].astype(np.float32), best
    return scores, ids


def _fold(sums: F64) -> F64:  # [n, 64] → [n]
    a = sums.reshape(-1, 4, 16)
    lanes = (a[:, 0] + a[:, 1]) + (a[:, 2] + a[:, 3])
    for half in (8, 4, 2, 1):
        lanes = lanes[:, :half] + lanes[:, half : 2 * half]
    return lanes[:, 0]


def _tree(blocks: list[F64], n: int) -> F64:
    if not blocks:
        return np.zeros(n)
    if len(blocks) == 1:
        return blocks[0]
    half = 1 << ((len(blocks) - 1).bit_length() - 1)
    return _tree(blocks[:half], n) + _tree(blocks[half:], n)


def _canonical(x: F64) -> F64:
    values: F64 = np.where(np.isnan(x), np.nan, x)
    return values

"""Twin of vector/kernels/score.cpp: keys from exact integers, and the best k of them in the total order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor.fma_ref import fma_f64
from vector.codebook import LEVELS

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
U8 = NDArray[np.uint8]
I8 = NDArray[np.int8]


def products(codes: U8, q: I8) -> I64:  # [n, D], [nq, D] → [nq, n]
    """acc = Σ q_i · level_i: exact, at most 2^28 in magnitude, so no order of the sum matters.

    >>> products(np.array([[15, 0]], np.uint8), np.array([[127, 100]], np.int8))
    array([[3429]])
    """
    return q.astype(np.int64) @ LEVELS[codes].astype(np.int64).T


def keys(acc: I64, scales: F32, norms2: F32 | None, q_scale: F64) -> F64:  # [nq, n], [n], [n], [nq] → [nq, n]
    """double(acc)·double(scale), exact; with norms2 (l2) fma(2·s_q, acc·scale, −‖v‖²). −0 becomes +0."""
    exact = acc.astype(np.float64) * scales.astype(np.float64)
    if norms2 is None:
        return exact + 0.0
    twice = 2.0 * q_scale
    return np.asarray(fma_f64(twice[:, None], exact, -norms2.astype(np.float64)[None, :])) + 0.0


def best(key: F64, ids: U64, k: int) -> tuple[F64, U64]:  # [n], [n] → [min(k, n)] twice
    """The k best by (key descending, id ascending).

    >>> best(np.array([1.0, 3.0, 1.0]), np.array([9, 4, 2], np.uint64), 2)
    (array([3., 1.]), array([4, 2], dtype=uint64))
    """
    order = np.lexsort((ids, -key))[:k]
    return key[order], ids[order]

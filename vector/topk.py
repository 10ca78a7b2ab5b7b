"""The best k of scored rows in one total order: key descending, then id ascending.

Because no two rows are equal in it, the best k of any parts, merged in any way, are the best k of the whole: the
number of shards, threads and batches never shows in an answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vector import checks, score_ref
from vector.errors import VectorValueError

F64 = NDArray[np.float64]
U64 = NDArray[np.uint64]


def top_k(keys: F64, ids: U64, k: int) -> tuple[F64, U64]:
    """The min(k, n) best of n rows, best first.

    keys: float64[n] without NaN, ids: uint64[n], all different. Raises VectorValueError for lengths that differ, NaN
    or a negative k.

    >>> top_k(np.array([1.0, 3.0, 1.0]), np.array([9, 4, 2], np.uint64), 2)
    (array([3., 1.]), array([4, 2], dtype=uint64))
    """
    count = checks.neighbours(k, "top_k")
    if keys.shape != ids.shape or keys.ndim != 1:
        raise VectorValueError(f"top_k: keys and ids must be as long as each other, got {keys.shape} and {ids.shape}")
    if np.isnan(keys).any():
        raise VectorValueError(f"top_k: keys must hold no NaN, got one at keys[{int(np.isnan(keys).argmax())}]")
    return score_ref.best(keys, ids, count)


def merge_top_k(parts: Sequence[tuple[F64, U64]], k: int) -> tuple[F64, U64]:
    """The best k of several shards, each given as its own (keys, ids), in any order.

    >>> near, far = (np.array([5.0, 2.0]), np.array([7, 1], np.uint64)), (np.array([4.0]), np.array([3], np.uint64))
    >>> merge_top_k([near, far], 2)
    (array([5., 4.]), array([7, 3], dtype=uint64))
    """
    if not parts:
        return np.zeros(0), np.zeros(0, np.uint64)
    return top_k(np.concatenate([keys for keys, _ in parts]), np.concatenate([ids for _, ids in parts]), k)

"""Exact search, every row with every query in float64: the truth that compressed indexes are measured by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor import arrays, memory
from tensor.float_mode import plain_mode
from vector import _kernels, checks, exact_ref, metrics
from vector.errors import VectorValueError
from vector.index_header import DIM_MAX, METRICS

MAGNITUDE_MAX = 1e16  # coordinates are below this
QUERIES_PER_CALL = 1024
WORKSPACE_BYTES = 1 << 26  # of one call, where fewer queries at a time can keep it so small
ROWS_CHECKED = 1024

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


def exact_search(x: object, q: object, k: int, metric: str = "ip") -> tuple[F32, NDArray[np.uint64]]:
    """The k rows of x that are best for each query of q: (scores float32[nq, m], rows uint64[nq, m]), m = min(k, n).

    x: float32[n, d], q: float32[nq, d], any strides; 1 ≤ d ≤ 16384, coordinates finite and below 1e16 in magnitude.
    metric: "ip" Σ x·q, "cosine" (0 where a vector is zero), "l2" −Σ (x − q)². The best come first; equal float64 keys,
    of which the scores are the roundings, in the order of the rows. A key depends on its row and query alone: not on
    the batch, the threads or the machine. No copy of x is made; working memory is about 64 MiB, more for a large k·n.
    Raises VectorTypeError, VectorValueError (naming row and column of a bad number), BudgetExceeded.

    >>> x = np.float32([[1, 0], [0, 1], [2, 0]])
    >>> exact_search(x, np.float32([[1, 0]]), k=2)
    (array([[2., 1.]], dtype=float32), array([[2, 0]], dtype=uint64))
    """
    rows = metrics.matrix(x, "exact_search", "x", "[n, d]")
    queries = metrics.matrix(q, "exact_search", "q", "[nq, d]")
    if rows.ndim != 2 or queries.ndim != 2 or rows.shape[1] != queries.shape[1]:
        raise VectorValueError(
            f"exact_search: x must be float32[n, d] and q float32[nq, d], "
            f"got x = {arrays.describe(rows)} and q = {arrays.describe(queries)}"
        )
    if not 1 <= rows.shape[1] <= DIM_MAX:
        raise VectorValueError(f"exact_search: d must be 1 to {DIM_MAX}, got {rows.shape[1]}")
    code, count = METRICS.index(checks.metric(metric, "exact_search")), checks.neighbours(k, "exact_search")
    for name, array in (("x", rows), ("q", queries)):
        require_finite(array, "exact_search", name)
    return _search(rows, arrays.contiguous(queries, "exact_search"), min(count, len(rows)), code)


def require_finite(x: F32, function: str, name: str) -> None:
    """Raises VectorValueError, naming row and column, unless all of float32[n, d] is finite and below 1e16."""
    for start in range(0, len(x), ROWS_CHECKED):
        piece = x[start : start + ROWS_CHECKED]
        if not (piece.size == 0 or (piece.max() < MAGNITUDE_MAX and piece.min() > -MAGNITUDE_MAX)):
            row, column = (int(i[0]) for i in np.nonzero(~(np.abs(piece) < MAGNITUDE_MAX)))
            raise VectorValueError(
                f"{function}: {name} must be finite and below 1e16 in magnitude, got {piece[row, column]!s} "
                f"in row {start + row}, column {column}"
            )


def _search(x: F32, q: F32, k: int, metric: int) -> tuple[F32, NDArray[np.uint64]]:
    none: F64 = np.empty(0)
    x_norm, q_norm = (metrics.norms(x), metrics.norms(q)) if metric == 1 else (none, none)
    if metrics.REFERENCE:
        with plain_mode():
            return exact_ref.exact_search(x, q, k, metric, x_norm, q_norm)
    scores: F32 = memory.allocate((len(q), k), np.float32, "exact_search scores")
    ids: NDArray[np.uint64] = memory.allocate((len(q), k), np.uint64, "exact_search ids")
    step = QUERIES_PER_CALL
    while step > 16 and _kernels.exact_workspace(len(x), step, x.shape[1], k) > WORKSPACE_BYTES:
        step //= 2
    for start in range(0, len(q), step):
        part = slice(start, start + step)
        needed = _kernels.exact_workspace(len(x), len(q[part]), x.shape[1], k)
        with memory.reserve(needed, "exact_search workspace"):
            _kernels.exact_search(x, q[part], metric, x_norm, q_norm[part], scores[part], ids[part])
    return scores, ids

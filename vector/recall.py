"""How much of the truth a search found."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor import arrays
from tensor.float_mode import plain_mode
from vector import checks
from vector.errors import VectorTypeError, VectorValueError


@plain_mode()
def recall_at_k(found: object, truth: object, k: int) -> float:
    """Mean over the queries of |first k found ∩ first k true| ÷ k: 1.0 when every search found all.

    found, truth: integer ids [nq, ≥ k], as searches return them; an id counts once. 1 ≤ k, and at least one query.
    Raises VectorTypeError, VectorValueError.

    >>> recall_at_k(np.array([[1, 2, 3]]), np.array([[3, 1, 9]]), k=3)
    0.6666666666666666
    """
    hits, of = _hits(found, truth, k, "recall_at_k")
    return hits / of


def recall_at_k_milli(found: object, truth: object, k: int) -> int:
    """Recall in thousandths, rounded down: an integer that compares exactly. Arguments and errors as `recall_at_k`.

    >>> recall_at_k_milli(np.array([[1, 2, 3]]), np.array([[3, 1, 9]]), k=3)
    666
    """
    hits, of = _hits(found, truth, k, "recall_at_k_milli")
    return 1000 * hits // of


def _hits(found: object, truth: object, k: int, function: str) -> tuple[int, int]:
    a, b = _ids(found, function, "found"), _ids(truth, function, "truth")
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise VectorTypeError(f"{function}: k must be an int, got {type(k).__name__}")
    if len(a) != len(b) or len(a) == 0:
        raise VectorValueError(
            f"{function}: found and truth must have one row a query, "
            f"got found = {arrays.describe(a)} and truth = {arrays.describe(b)}"
        )
    if not 1 <= k <= min(a.shape[1], b.shape[1]):
        raise VectorValueError(
            f"{function}: k must be from 1 to the number of columns, "
            f"got {k}, found = {arrays.describe(a)} and truth = {arrays.describe(b)}"
        )
    # Sets of ints: numpy compares uint64 with int64 as float64, in which ids from 2^53 on run together.
    hits = sum(len({*row.tolist()} & {*true.tolist()}) for row, true in zip(a[:, :k], b[:, :k], strict=True))
    return hits, len(a) * int(k)


def _ids(x: object, function: str, name: str) -> NDArray[np.generic]:
    array = checks.array(x, function, name, "numpy.uint64")
    if array.dtype.kind not in "iu" or array.ndim != 2:
        raise VectorTypeError(f"{function}: {name} must be integer ids [nq, k], got {arrays.describe(array)}")
    return array

"""Rows to search that need no download: a mixture of clusters around given centres, the same on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor import memory
from tensor.arrays import as_floats, describe
from tensor.float_mode import plain_mode
from tensor.random import Key
from vector.errors import VectorValueError

__all__ = ["mixture"]

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]

BLOCK_ROWS = 512  # a block of noise and its centres are all that is held beside the rows
ROWS_MAX = 2**40
SPREAD_MAX = 1e15


@plain_mode()
def mixture(centres: F32, n: int, spread: float, seed: int, *, out: F32 | None = None) -> tuple[F32, I64]:
    """n rows, each a centre drawn at random plus `spread` times a standard normal number in every coordinate.

    centres: float32[m, d], m ≥ 1, finite.  n: 0 or more.  spread: at least 0.  seed: an int 0 ≤ seed < 2^64.
    out: float32[n, d] that the rows are written to (None: a new array).

    Returns (float32[n, d], int64[n]): the rows, and the centre of each. Row i depends on centres, spread, seed and i
    only, so a longer mixture starts with a shorter one. The numbers are Philox's (`tensor.random`): which centre from
    the first child of the seed's key, the noise from the second; a product and a sum in float32, each rounded.

    Raises VectorValueError for another shape, a number out of range or a centre that is not finite.

    >>> rows, which = mixture(np.float32([[0, 8], [8, 0]]), 3, 0.5, seed=1)
    >>> which.tolist(), rows[2].tolist()
    ([1, 1, 0], [0.03338064253330231, 8.099602699279785])
    """
    points = as_floats(centres, "mixture", "centres", (np.dtype(np.float32),))
    if points.ndim != 2 or 0 in points.shape:
        raise VectorValueError(
            f"mixture: centres must be float32[m, d] with m and d of at least 1, got shape {points.shape}"
        )
    if not bool(np.isfinite(points).all()):
        raise VectorValueError("mixture: centres must be finite")
    if not 0 <= n <= ROWS_MAX:
        raise VectorValueError(f"mixture: n must be from 0 to 2^40, got {n}")
    if not 0 <= spread <= SPREAD_MAX:
        raise VectorValueError(f"mixture: spread must be from 0 to {SPREAD_MAX:g}, got {spread}")
    draws, noise = Key(seed).split(2)
    count, width = points.shape
    if out is None:
        out = memory.allocate((n, width), np.float32, "vector.mixture")
    elif out.shape != (n, width) or out.dtype != np.float32:
        raise VectorValueError(f"mixture: out must be float32[{n}, {width}], got {describe(out)}")
    which = draws.randint(0, count, n).numpy()
    for start in range(0, n, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, n)
        block = noise.normal((stop - start, width), offset=start * width).numpy()
        block *= np.float32(spread)
        np.add(block, points[which[start:stop]], out=out[start:stop])
    return out, which

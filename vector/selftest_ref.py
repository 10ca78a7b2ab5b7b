"""Twin of the self-test (vector/kernels/selftest.cpp): the digest of every kernel, computed by the Python twins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tensor.selftest_ref import awkward, fnv1a, splitmix64
from vector import depth_order_ref


def digests() -> dict[str, str]:
    """The digest (16 hex digits) of every kernel of vector, by name.

    >>> "vector.depth_order" in digests()
    True
    """
    return {"vector.depth_order": fnv1a(_depth_orders())}


def _depth_orders() -> Iterator[NDArray[np.generic]]:
    for n in (0, 1, 2, 1000, 32768, 32769, 70001):
        seed = 0x6465707468 + n
        z = awkward(seed, n, np.dtype(np.float32))
        z = np.where(np.isnan(z), (splitmix64(seed, n) >> np.uint64(60)).astype(np.float32), z)
        yield np.array([1], np.uint64)
        yield depth_order_ref.depth_order(z)
        if n:
            yield np.array([0], np.uint64)

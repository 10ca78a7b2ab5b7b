"""Twin of the self-test (vector/kernels/selftest.cpp): the digest of every kernel, computed by the Python twins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tensor.selftest_ref import awkward, fnv1a, splitmix64, values
from vector import depth_ref, exact_ref, selftest_index_ref

# n, queries, d, k
_SEARCHES = (
    *((1, 1, 1, 1), (5, 2, 16, 5), (70, 5, 17, 9), (70, 6, 64, 70)),
    *((2113, 7, 3, 40), (67, 35, 65, 3), (6, 3, 4097, 2), (9, 17, 4160, 4)),
)


def digests() -> dict[str, str]:
    """The digest (16 hex digits) of every kernel of vector, by name.

    >>> "vector.depth_order" in digests()
    True
    """
    return {
        "vector.depth_order": fnv1a(_depth_orders()),
        "vector.pair_sums": fnv1a(_pair_sums()),
        "vector.exact_search": fnv1a(_exact_searches()),
        **selftest_index_ref.digests(),
    }


def _depth_orders() -> Iterator[NDArray[np.generic]]:
    for n in (0, 1, 2, 1000, 32768, 32769, 70001):
        seed = 0x6465707468 + n
        z = awkward(seed, n, np.dtype(np.float32))
        z = np.where(np.isnan(z), (splitmix64(seed, n) >> np.uint64(60)).astype(np.float32), z)
        yield np.array([1], np.uint64)
        yield depth_ref.depth_order(z)
        if n:
            yield np.array([0], np.uint64)


def _vectors(n: int, queries: int, d: int) -> NDArray[np.float32]:
    x = values(0x6578616374 + n, (n + queries) * d, np.dtype(np.float32)).reshape(-1, d)
    if n > 4:  # two equal rows, a row of zeros
        x[3], x[4] = x[1], 0
    return x


def _pair_sums() -> Iterator[NDArray[np.generic]]:
    for n, queries, d, _ in _SEARCHES:
        x = _vectors(n, queries, d)
        yield exact_ref.pair_sums(x, x, squares=False)
        yield exact_ref.pair_sums(x[:n, ::-1], x[n : n + 1], squares=True)


def _exact_searches() -> Iterator[NDArray[np.generic]]:
    for n, queries, d, k in _SEARCHES:
        x = _vectors(n, queries, d)
        norms = exact_ref.pair_sums(x, x, squares=False)  # any positive numbers serve as norms
        for metric in range(3):
            yield from exact_ref.exact_search(x[:n], x[n:], k, metric, norms[:n], norms[n:])

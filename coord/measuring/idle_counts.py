"""How often each idle time was seen, in bounded memory, and quantiles by nearest rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXACT_BELOW = 1 << 16


def nearest_rank(ascending: Sequence[Any] | NDArray[Any], percent: int) -> Any:
    """The value of rank ceil(percent · n / 100), counted from 1, of values in ascending order; 0 without any.

    >>> nearest_rank([1, 2, 3, 4], 50), nearest_rank([1, 2, 3, 4], 99), nearest_rank([], 50)
    (2, 4, 0)
    """
    n = len(ascending)
    if n == 0:
        return 0
    value = ascending[max(0, -(-percent * n // 100) - 1)]
    return value.item() if isinstance(value, np.generic) else value


class IdleCounts:
    """Counts of whole numbers: each of its own below 65,536; of larger ones the 16 leading bits, the rest as zeros.

    So a quantile is exact below 65,536 ticks and at most 1/32768 too low above. The largest number is kept as it is.

    >>> counts = IdleCounts()
    >>> counts.add(np.array([5, 1, 3, 10**9], np.uint64))
    >>> counts.nearest_rank(50), counts.nearest_rank(99), counts.maximum
    (3, 999997440, 1000000000)
    """

    def __init__(self) -> None:
        self._small = np.zeros(0, np.int64)
        self._large: dict[int, int] = {}
        self._count = 0
        self.maximum = 0

    def add(self, values: NDArray[np.uint64]) -> None:
        """Count values, in any order."""
        if not len(values):
            return
        self._count += len(values)
        most = int(values.max())
        self.maximum = max(self.maximum, most)
        small = values if most < EXACT_BELOW else values[values < EXACT_BELOW]
        counts = np.bincount(small.astype(np.int64))
        if len(counts) > len(self._small):
            wider = np.zeros(min(EXACT_BELOW, 2 * len(counts)), np.int64)
            wider[: len(self._small)] = self._small
            self._small = wider
        self._small[: len(counts)] += counts
        if most >= EXACT_BELOW:
            distinct, times = np.unique(values[values >= EXACT_BELOW], return_counts=True)
            for value, count in zip(distinct.tolist(), times.tolist(), strict=True):
                drop = value.bit_length() - 16
                key = value >> drop << drop
                self._large[key] = self._large.get(key, 0) + count

    def nearest_rank(self, percent: int) -> int:
        """The value of rank ceil(percent · n / 100); 0 without any."""
        left = -(-percent * self._count // 100)
        if left <= 0:
            return 0
        reached = np.cumsum(self._small)
        if len(reached) and left <= reached[-1]:
            return int(np.searchsorted(reached, left))
        left -= int(reached[-1]) if len(reached) else 0
        for value in sorted(self._large):
            left -= self._large[value]
            if left <= 0:
                return value
        return self.maximum

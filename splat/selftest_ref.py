"""Twin of the self-test (splat/kernels/selftest.cpp): the digest of every kernel, computed by the Python twins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from splat import bytes_ref
from tensor.selftest_ref import awkward, fnv1a, splitmix64


def digests() -> dict[str, str]:
    """The digest (16 hex digits) of every kernel of splat, by name.

    >>> "splat.to_bytes" in digests()
    True
    """
    return {"splat.to_bytes": fnv1a(_bytes())}


def _bytes() -> Iterator[NDArray[np.uint8]]:
    for n in (0, 1, 15, 16, 17, 1000, 70001):
        seed = 0x6279746573 + n
        word = splitmix64(seed, n)
        plain = (word >> np.uint64(40)).astype(np.float32) * np.float32(1 / 16777216)
        yield bytes_ref.to_bytes(np.where((word & np.uint64(3)) == 0, awkward(seed, n, np.dtype(np.float32)), plain))

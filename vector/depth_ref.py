"""The twin of vector/kernels/depth.cpp."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def depth_keys(z: NDArray[np.float32]) -> NDArray[np.uint32]:
    """uint32[n] that ascend as the floats do; −0 has the key of +0.

    >>> [f"{key:08X}" for key in depth_keys(np.array([-1.0, -0.0, 0.0, 1.0], np.float32))]
    ['407FFFFF', '80000000', '80000000', 'BF800000']
    """
    u = np.ascontiguousarray(z).view(np.uint32)
    u = np.where(u == np.uint32(0x80000000), np.uint32(0), u)
    return np.where(u >> np.uint32(31) != 0, ~u, u | np.uint32(0x80000000))


def depth_order(z: NDArray[np.float32]) -> NDArray[np.uint32]:
    """uint32[n]: indices in ascending order of the keys, equal keys in the order of the input."""
    return np.argsort(depth_keys(z), kind="stable").astype(np.uint32)

"""The twin of splat/kernels/bytes.cpp."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor.fma_ref import fma_f32


def to_bytes(x: NDArray[np.float32]) -> NDArray[np.uint8]:
    """floor(255·clamp(x, 0, 1) + 0.5), product and sum rounded once; NaN becomes 0.

    >>> to_bytes(np.array([-1.0, 0.0, 0.5, 1.0, np.nan], np.float32))
    array([  0,   0, 128, 255,   0], dtype=uint8)
    """
    low = np.where(x > 0, x, np.float32(0))
    clamped = np.where(low < 1, low, np.float32(1))
    return fma_f32(np.float32(255), clamped, np.float32(0.5)).astype(np.uint8)

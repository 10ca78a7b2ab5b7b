"""bfloat16 in numpy: 16 bits in a field of that name, so that no arithmetic takes them for integers by mistake.

A twin gets and gives such arrays for bfloat16 tensors. Moves (index, reshape, concatenate, take) work on them as they
are; arithmetic goes through float32 and back with one rounding, as the kernels do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BFLOAT16", "bfloat16_bits", "bfloat16_of_bits", "is_bfloat16", "narrow_bfloat16", "widen_bfloat16"]

BFLOAT16 = np.dtype([("bfloat16", np.uint16)])

Array = NDArray[Any]


def is_bfloat16(x: Array) -> bool:
    """Whether an array holds bfloat16.

    >>> is_bfloat16(bfloat16_of_bits(np.array([0x3F80], np.uint16)))
    True
    """
    return bool(x.dtype == BFLOAT16)


def bfloat16_bits(x: Array) -> NDArray[np.uint16]:
    """The 16-bit patterns of a bfloat16 array, a view of it."""
    return x["bfloat16"]


def bfloat16_of_bits(bits: NDArray[np.uint16]) -> Array:
    """A bfloat16 array of these patterns.

    >>> widen_bfloat16(bfloat16_of_bits(np.array([0x3F80, 0xC000], np.uint16)))
    array([ 1., -2.], dtype=float32)
    """
    out = np.empty(np.shape(bits), BFLOAT16)
    out["bfloat16"] = bits
    return out


def widen_bfloat16(x: Array) -> NDArray[np.float32]:
    """The same values in float32: exact, NaN patterns kept."""
    return np.asarray(np.asarray(bfloat16_bits(x)).astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow_bfloat16(x: NDArray[np.float32]) -> Array:
    """float32 rounded once, to nearest even; NaN becomes 7FC0.

    >>> [hex(int(b)) for b in bfloat16_bits(narrow_bfloat16(np.array([1 + 2**-8, 3.4e38, np.nan], np.float32)))]
    ['0x3f80', '0x7f80', '0x7fc0']
    """
    u = np.asarray(x, np.float32).view(np.uint32)
    rounded = (u + np.uint32(0x7FFF) + (u >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return bfloat16_of_bits(np.where(np.isnan(x), np.uint16(0x7FC0), rounded.astype(np.uint16)))

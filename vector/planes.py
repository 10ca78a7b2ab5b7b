"""4-bit codes in memory (nibbles) and in files (two planes of 2 bits), one from the other.

In a group of 64 coordinates of a row, byte k of the nibbles (0 ≤ k < 32) holds coordinate k low and k+32 high; byte j
of a plane (0 ≤ j < 16) holds the coordinates j, j+16, j+32, j+48 from the lowest bits up. So nibble bytes j and j+16
have the same coordinates as plane byte j, and masks and shifts of whole bytes do it all. The order of groups, rows and
blocks is that of docs/formats/jvi.md on both sides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]


def split(nibbles: U8) -> tuple[U8, U8]:
    """The high and the low plane, uint8[…, 16] each, of uint8[…, 32] nibbles: one group of one row in the last axis.

    >>> codes = np.arange(64) % 16
    >>> high, low = split((codes[:32] | codes[32:] << 4).astype(np.uint8))
    >>> high[[0, 5, 15]], low[[0, 5, 15]]  # codes 0, 5 = 01 01 and 15 = 11 11, four times each
    (array([  0,  85, 255], dtype=uint8), array([  0,  85, 255], dtype=uint8))
    """
    first, second = nibbles[..., :16], nibbles[..., 16:]
    high = first >> np.uint8(2)
    high &= np.uint8(0x33)
    high |= second & np.uint8(0xCC)
    low = second & np.uint8(0x33)
    low <<= np.uint8(2)
    low |= first & np.uint8(0x33)
    return high, low


def join(high: U8, low: U8, out: U8) -> None:
    """Writes into `out`, uint8[…, 32], the nibbles of two planes, uint8[…, 16] each: the inverse of `split`.

    >>> nibbles = np.arange(32, dtype=np.uint8) * 7
    >>> again = np.empty(32, np.uint8)
    >>> join(*split(nibbles), again)
    >>> bool((again == nibbles).all())
    True
    """
    first, second = out[..., :16], out[..., 16:]
    np.bitwise_and(high, np.uint8(0x33), out=first)
    np.left_shift(first, np.uint8(2), out=first)
    first |= low & np.uint8(0x33)
    np.right_shift(low, np.uint8(2), out=second)
    second &= np.uint8(0x33)
    second |= high & np.uint8(0xCC)

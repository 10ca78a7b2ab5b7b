"""Where a 4-bit code lies in memory: blocks of 32 rows, in each a lane of four bytes a row for every eight coordinates.

A block is uint8[D/64, 8, 32, 4]: group of 64 coordinates, octet, row, byte. Byte b of octet o in group g holds
coordinate 64·g + 4·o + b in its low four bits and the coordinate 32 further in its high ones. So sixteen rows of an
octet are one register, every lane a row, and four coordinates of a row lie side by side, as the kernels multiply
them. With rows and octets exchanged it is the form that files are made from (vector/planes.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]

BLOCK_ROWS = 32


def lanes_of(codes: U8) -> U8:  # [n, D], each below 16 → [n, D/64, 8, 4]
    """The lanes of each row.

    >>> codes = np.zeros((1, 64), np.uint8)
    >>> codes[0, [5, 37]] = 3, 12
    >>> [int(x) for x in lanes_of(codes)[0, 0, 1]]
    [0, 195, 0, 0]
    """
    n, padded = codes.shape
    halves = codes.reshape(n, padded // 64, 2, 32)
    lanes: U8 = halves[:, :, 0] | halves[:, :, 1] << np.uint8(4)
    return lanes.reshape(n, padded // 64, 8, 4)


def codes_of_lanes(lanes: U8) -> U8:  # [n, D/64, 8, 4] → [n, D]
    """The inverse of `lanes_of`.

    >>> codes = np.arange(64, dtype=np.uint8)[None] % 16
    >>> bool((codes_of_lanes(lanes_of(codes)) == codes).all())
    True
    """
    n, groups = lanes.shape[:2]
    pairs = lanes.reshape(n, groups, 32)
    return np.stack([pairs & np.uint8(15), pairs >> np.uint8(4)], axis=2).reshape(n, groups * 64)


def rows_of_blocks(blocks: U8) -> U8:  # [m, D/64, 8, 32, 4] → [m·32, D/64, 8, 4]
    """Lanes row by row."""
    m, groups = blocks.shape[:2]
    return blocks.transpose(0, 3, 1, 2, 4).reshape(m * BLOCK_ROWS, groups, 8, 4)


def exchanged(blocks: U8) -> U8:  # [m, D/64, 8, 32, 4] → [m, D/64, 32, 32]
    """Blocks row by row, as vector/planes.py takes them: a contiguous copy."""
    m, groups = blocks.shape[:2]
    return np.ascontiguousarray(blocks.transpose(0, 1, 3, 2, 4)).reshape(m, groups, BLOCK_ROWS, 32)


def exchange_in_place(rows: U8) -> U8:  # [m, D/64, 32, 32] → [m, D/64, 8, 32, 4], the same memory
    """The inverse of `exchanged`, piece by piece in the array that is given.

    >>> rows = np.arange(1024, dtype=np.uint16).astype(np.uint8).reshape(1, 1, 32, 32)
    >>> bool((exchanged(exchange_in_place(rows.copy())) == rows).all())
    True
    """
    m, groups = rows.shape[:2]
    blocks = rows.reshape(m, groups, 8, BLOCK_ROWS, 4)
    for start in range(0, m, 16):
        piece = rows[start : start + 16].reshape(-1, groups, BLOCK_ROWS, 8, 4)
        blocks[start : start + 16] = piece.transpose(0, 1, 3, 2, 4).copy()
    return blocks

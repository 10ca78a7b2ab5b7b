"""The twin of splat/kernels/bin.cpp: the list of each tile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]


def bin_tiles(order: U32, slot: U32, box: U32, width: int, height: int, tile_log2: int) -> tuple[U32, U32]:
    """start [tiles + 1] and items [pairs]: items[start[t] : start[t + 1]] are the slots of tile t, in the given order.

    order: [m] indices into slot and box; slot: [m] what the lists hold; box: [m, 2] as in a record; tiles row by row.

    >>> box = np.array([[0 | 20 << 16, 0 | 1 << 16]], np.uint32)  # columns 0 to 19, row 0
    >>> start, items = bin_tiles(np.uint32([0]), np.uint32([0]), box, 32, 16, 4)
    >>> start.tolist(), items.tolist()
    ([0, 1, 2], [0, 0])
    """
    tiles_x, tiles_y = ((width - 1) >> tile_log2) + 1, ((height - 1) >> tile_log2) + 1
    lists: list[list[int]] = [[] for _ in range(tiles_x * tiles_y)]
    for s, words in zip(slot[order].tolist(), box[order].tolist(), strict=True):
        (x0, x1), (y0, y1) = ((word & 0xFFFF, word >> 16) for word in words)
        for ty in range(y0 >> tile_log2, ((y1 - 1) >> tile_log2) + 1):
            for tx in range(x0 >> tile_log2, ((x1 - 1) >> tile_log2) + 1):
                lists[ty * tiles_x + tx].append(s)
    start = np.array([0, *np.cumsum([len(items) for items in lists], dtype=np.int64)], np.uint32)
    return start, np.array([s for items in lists for s in items], np.uint32)

"""Splats in order of depth are sorted into square tiles, which inherit the order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from splat import _kernels
from splat.projection import Projected
from splat.projection_ref import View
from tensor import memory

_BLOCK = 4096  # splats a block of work, at least
_BLOCKS_MAX = 16
_COUNTS_MAX = 2**20  # counts of all blocks together


@dataclass(frozen=True)
class TileLists:
    """items[start[t] : start[t + 1]] are the record slots of tile t, nearest first; tiles go row by row."""

    start: NDArray[np.uint32]  # [tiles + 1]
    items: NDArray[np.uint32]  # [pairs]


def bin_tiles(order: NDArray[np.uint32], projected: Projected, view: View) -> TileLists:
    """The list of each tile of view.tile_log2; a splat is in all tiles that its box touches. By the kernel: a picture
    by the twins has no tiles (the kernel's twin, splat/tiles_ref.py, is for tests)."""
    tiles = (((view.width - 1) >> view.tile_log2) + 1) * (((view.height - 1) >> view.tile_log2) + 1)
    blocks = max(1, min(-(-len(order) // _BLOCK), _BLOCKS_MAX, _COUNTS_MAX // tiles))
    start = memory.allocate((tiles + 1,), np.uint32, "render tiles")
    items = memory.allocate((projected.tally.pairs,), np.uint32, "render pairs")
    table = memory.allocate((blocks, tiles), np.uint32, "render counts")
    room = memory.allocate((3 * len(order),), np.uint32, "render order")
    _kernels.bin(
        order, projected.slot, projected.box, view.width, view.height, view.tile_log2, table, room, start, items
    )
    return TileLists(start, items)

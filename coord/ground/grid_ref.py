"""Twin of kernels/grid.cpp: 4-connected regions of free cells, numbered from 1 by their first cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def grid_components(blocked: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """u32[height, width]: 0 where blocked, else the number of the cell's region."""
    height, width = blocked.shape
    out = np.zeros((height, width), np.uint32)
    flat, free = out.reshape(-1), ~blocked.reshape(-1)
    region = 0
    for seed in np.flatnonzero(free).tolist():
        if flat[seed]:
            continue
        region += 1
        flat[seed] = region
        front = np.array([seed])
        while len(front):
            column = front % width
            near = np.concatenate(
                [front[column > 0] - 1, front[column < width - 1] + 1, front[front >= width] - width,
                 front[front < (height - 1) * width] + width]
            )  # fmt: skip
            near = np.unique(near)
            front = near[free[near] & (flat[near] == 0)]
            flat[front] = region
    return out

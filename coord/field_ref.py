"""Twin of kernels/field.cpp: the field of Gaussian kernels at points, in float32 with a fixed order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor.elementary_ref import exp_f32

F32 = NDArray[np.float32]
LANES = 16


def gaussian_terms(sigma: F32, cutoff: np.float32) -> tuple[F32, F32]:
    """(cutoff², inv) of each kernel: c·c with c = cutoff·sigma, and 1 / (2·(sigma·sigma)), each step rounded."""
    c = cutoff * sigma
    return c * c, np.float32(1) / (np.float32(2) * (sigma * sigma))


def field_points(
    px: F32,  # [n] metres
    py: F32,  # [n]
    cell: NDArray[np.int32],  # [n] which list of `items` a point reads, -1 for none
    start: NDArray[np.uint32],  # [cells + 1]
    items: NDArray[np.uint32],  # kernel numbers, ascending inside a cell
    kx: F32,  # [m]
    ky: F32,
    reach: F32,  # c·c
    inv: F32,
    weight: F32,
) -> F32:
    """The field at each point: kernels in range by ascending number, lane l adds items l, l+16, …, then the tree."""
    out = np.zeros(len(px), np.float32)
    for i in range(len(px)):
        if cell[i] < 0:
            continue
        near = items[start[cell[i]] : start[cell[i] + 1]]
        dx, dy = px[i] - kx[near], py[i] - ky[near]
        d2 = dx * dx + dy * dy
        listed = d2 <= reach[near]
        near, d2 = near[listed], d2[listed]
        if len(near) == 0:
            continue
        value = weight[near] * exp_f32(-(d2 * inv[near]))
        lanes = np.zeros(LANES, np.float32)
        for first in range(0, len(value), LANES):
            part = value[first : first + LANES]
            lanes[: len(part)] += part
        for half in (8, 4, 2, 1):
            lanes = lanes[:half] + lanes[half : 2 * half]
        out[i] = lanes[0]
    return out

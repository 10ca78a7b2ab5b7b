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
        if cell[i] >= 0:
            near = items[start[cell[i]] : start[cell[i] + 1]]
            near, _, _, d2 = _in_range(px[i], py[i], near, kx, ky, reach)
            out[i] = _added(weight[near] * exp_f32(-(d2 * inv[near])))
    return out


def field_gradient(
    px: F32,
    py: F32,
    cell: NDArray[np.int32],
    start: NDArray[np.uint32],
    items: NDArray[np.uint32],
    kx: F32,
    ky: F32,
    reach: F32,
    inv: F32,
    weight: F32,
) -> F32:  # [n, 2]
    """The field's derivatives by x and y at each point, arguments as of `field_points`: the kernels it adds, each with
    (value·(inv + inv))·dx, added the same way, and 0 minus the sum; so for y."""
    out = np.zeros((len(px), 2), np.float32)
    for i in range(len(px)):
        if cell[i] >= 0:
            near = items[start[cell[i]] : start[cell[i] + 1]]
            near, dx, dy, d2 = _in_range(px[i], py[i], near, kx, ky, reach)
            steep = (weight[near] * exp_f32(-(d2 * inv[near]))) * (inv[near] + inv[near])
            if len(near):
                out[i] = np.float32(0) - _added(steep * dx), np.float32(0) - _added(steep * dy)
    return out


def _in_range(
    x: np.float32, y: np.float32, near: NDArray[np.uint32], kx: F32, ky: F32, reach: F32
) -> tuple[NDArray[np.uint32], F32, F32, F32]:
    dx, dy = x - kx[near], y - ky[near]
    d2 = dx * dx + dy * dy
    listed = d2 <= reach[near]
    return near[listed], dx[listed], dy[listed], d2[listed]


def _added(value: F32) -> np.float32:
    lanes = np.zeros(LANES, np.float32)
    for first in range(0, len(value), LANES):
        part = value[first : first + LANES]
        lanes[: len(part)] += part
    for half in (8, 4, 2, 1):
        lanes = lanes[:half] + lanes[half : 2 * half]
    total: np.float32 = lanes[0]
    return total

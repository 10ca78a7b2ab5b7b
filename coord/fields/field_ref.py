"""Twin of kernels/field.cpp: the field of Gaussian kernels at points, in float32 with a fixed order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor.elementary_ref import exp_f32

F32 = NDArray[np.float32]
LANES = 16
_ENTRIES_MAX = 1 << 22


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


def cells(
    x: F32, y: F32, kx: F32, ky: F32, reach: F32
) -> tuple[NDArray[np.int32], NDArray[np.uint32], NDArray[np.uint32]]:
    """(cell, start, items) of `field_points`: a grid over the points' box, cells with the kernels that may reach them.

    Ranges are widened by a thousandth and the coordinates' rounding, so no kernel in range is ever missing.
    """
    west, south = float(x.min()), float(y.min())
    extent = max(float(x.max()) - west, float(y.max()) - south, 1e-3)
    far = np.sqrt(reach.astype(np.float64)) * 1.001 + 0.5
    side = int(np.clip(extent / max(float(np.median(far)) / 2, 1e-3), 1, 128))
    while True:
        size = extent / side * (1 + 1e-9)
        low_x, high_x, low_y, high_y = (
            np.clip(np.floor(edge / size), -1, side).astype(np.int64)
            for edge in (kx - far - west, kx + far - west, ky - far - south, ky + far - south)
        )
        outside = (high_x < 0) | (low_x >= side) | (high_y < 0) | (low_y >= side)
        low_x, low_y = np.maximum(low_x, 0), np.maximum(low_y, 0)
        wide = np.where(outside, 0, np.minimum(high_x, side - 1) - low_x + 1)
        tall = np.where(outside, 0, np.minimum(high_y, side - 1) - low_y + 1)
        entries = wide * tall
        total = int(entries.sum())
        if total <= _ENTRIES_MAX or side == 1:
            break
        side = max(1, side // 2)
    kernel = np.repeat(np.arange(len(kx), dtype=np.uint32), entries)
    index = np.arange(total) - np.repeat(np.cumsum(entries) - entries, entries)
    width = wide[kernel]
    cells = (low_y[kernel] + index // np.maximum(width, 1)) * side + low_x[kernel] + index % np.maximum(width, 1)
    items = kernel[np.argsort(cells.astype(np.uint16), kind="stable")]  # a side of 128: radix sort of 16 bits
    start = np.zeros(side * side + 1, np.uint32)
    start[1:] = np.cumsum(np.bincount(cells, minlength=side * side))
    column = np.clip(np.floor((x.astype(np.float64) - west) / size), 0, side - 1).astype(np.int32)
    row = np.clip(np.floor((y.astype(np.float64) - south) / size), 0, side - 1).astype(np.int32)
    return row * np.int32(side) + column, start, items


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

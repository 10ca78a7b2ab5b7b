"""The twin of splat/kernels/blend.cpp: the definition of every pixel, splat by splat over the whole picture.

No tiles, no blocks, no early end: what the kernel leaves out has no part in any pixel's value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensor.elementary_ref import MAGIC32
from tensor.fma_ref import fma_f32

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]

# 2^r for |r| ≤ ½: relative error below 3e-6, none for r = 0 (minimax with the first coefficient held)
EXP2 = [
    np.float32(float.fromhex(c)) for c in ("0x1p+0", "0x1.62e12ap-1", "0x1.ec0382p-3", "0x1.c9fd1ep-5", "0x1.3a007ap-7")
]


@dataclass(frozen=True)
class Rules:
    """What the pixels are computed with, all float32."""

    faintest: np.float32  # log2 alpha_min
    alpha_max: np.float32
    t_min: np.float32
    background: F32  # [3]


@dataclass(frozen=True)
class Pixels:
    """A picture and the state that a backward pass needs."""

    rgba: NDArray[np.uint8]  # [h, w, 4]
    transmittance: F32  # [h, w]
    last: U32  # [h, w] place in its tile's list of the last splat that counted, from 1; 0 where none did
    depth: F32  # [h, w] depth of the splat that took the transmittance below one half; infinity where none did


def exp2(power: F32) -> F32:
    """2^power for −126 ≤ power ≤ 0."""
    rounded = power + MAGIC32
    rest = power - (rounded - MAGIC32)
    h: F32 = np.full(power.shape, EXP2[-1])
    for c in EXP2[-2::-1]:
        h = fma_f32(h, rest, c)
    return (h.view(np.uint32) + (rounded.view(np.uint32) << np.uint32(23))).view(np.float32)


def to_bytes(x: F32) -> NDArray[np.uint8]:
    """floor(255·clamp(x, 0, 1) + 0.5), product and sum rounded once; NaN becomes 0.

    >>> to_bytes(np.array([-1.0, 0.0, 0.5, 1.0, np.nan], np.float32))
    array([  0,   0, 128, 255,   0], dtype=uint8)
    """
    low = np.where(x > 0, x, np.float32(0))
    clamped = np.where(low < 1, low, np.float32(1))
    return fma_f32(np.float32(255), clamped, np.float32(0.5)).astype(np.uint8)


def blend(records: F32, rules: Rules, width: int, height: int, tile_log2: int) -> Pixels:
    """Blends records [m, 16], nearest first, front to back."""
    with np.errstate(all="ignore"):
        return _blend(records, rules, width, height, tile_log2)


def _blend(records: F32, rules: Rules, width: int, height: int, tile_log2: int) -> Pixels:
    one = np.float32(1)
    running = np.ones((height, width), np.float32)  # transmittance, also past the last splat that counted
    kept = np.ones((height, width), np.float32)
    colour = np.zeros((3, height, width), np.float32)
    depth = np.full((height, width), np.float32(np.inf))
    last = np.zeros((height, width), np.uint32)
    listed = np.zeros((((height - 1) >> tile_log2) + 1, ((width - 1) >> tile_log2) + 1), np.uint32)
    centre_x = np.arange(width, dtype=np.float32) + np.float32(0.5)
    centre_y = np.arange(height, dtype=np.float32)[:, np.newaxis] + np.float32(0.5)
    boxes = records.view(np.uint32)[:, 12:14]
    for r, (box_x, box_y) in zip(records, boxes.tolist(), strict=True):
        x0, x1, y0, y1 = box_x & 0xFFFF, box_x >> 16, box_y & 0xFFFF, box_y >> 16
        tiles = (
            slice(y0 >> tile_log2, ((y1 - 1) >> tile_log2) + 1),
            slice(x0 >> tile_log2, ((x1 - 1) >> tile_log2) + 1),
        )
        listed[tiles] += np.uint32(1)
        box = (slice(y0, y1), slice(x0, x1))
        dx, dy = centre_x[x0:x1] - r[0], centre_y[y0:y1] - r[1]
        v = r[2] * dy
        u = fma_f32(r[3], dx, r[4] * dy)
        power = fma_f32(-u, u, fma_f32(-v, v, r[5]))
        hit = power >= rules.faintest
        if not hit.any():
            continue
        alpha = exp2(np.where(hit, power, np.float32(0)))
        alpha = np.where(alpha < rules.alpha_max, alpha, rules.alpha_max)
        before = running[box]
        weight = alpha * before
        after = before * np.where(hit, one - alpha, one)
        running[box] = after
        counts = hit & (after >= rules.t_min)
        w = np.where(counts, weight, np.float32(0))
        colour[:, y0:y1, x0:x1] = fma_f32(w, r[6:9, np.newaxis, np.newaxis], colour[:, y0:y1, x0:x1])
        half = counts & (after < np.float32(0.5)) & (kept[box] >= np.float32(0.5))
        depth[box] = np.where(half, r[9], depth[box])
        kept[box] = np.where(counts, after, kept[box])
        if counts.any():
            rows, columns = np.nonzero(counts)
            rows, columns = rows + y0, columns + x0
            last[rows, columns] = listed[rows >> tile_log2, columns >> tile_log2]
    final = fma_f32(kept, rules.background[:, np.newaxis, np.newaxis], colour)
    rgba = np.empty((height, width, 4), np.uint8)
    for channel in range(3):
        rgba[:, :, channel] = to_bytes(final[channel])
    rgba[:, :, 3] = to_bytes(one - kept)
    return Pixels(rgba, kept, last, depth)

"""Fields of 25,000 kernels at 100,000 points: `python benchmarks/fleet.py field`.

Points and kernels lie uniformly on 10 km x 10 km. The cut-off is 4 sigmas, and sigma 50 m or 18 m, so that a point has
31 or 4 kernels in range. Dense is our own kernel with one cell, and numpy the same sum in float32 by blocks of 64
points, which is where it was fastest; both are timed on some of the points and scaled to all, for either is linear in
them. What is timed of the cells is a whole call: checks, the grid, the lists, the sums.
"""

from __future__ import annotations

import time

import numpy as np
from harness import Report, alternate
from numpy.typing import NDArray

from coord import KERNEL_DTYPE, field_gradient, field_points
from coord.backend import ISA

POINTS, KERNELS, SIDE_M, CUTOFF = 100_000, 25_000, 10_000.0, 4.0
SIGMAS_M = (50.0, 18.0)
DENSE_POINTS, NUMPY_POINTS, BLOCK = 5_000, 512, 64
F32 = NDArray[np.float32]


def scene(sigma: float) -> tuple[np.ndarray, F32, F32]:
    """(kernels, x, y)."""
    rng = np.random.default_rng(1)
    kernels = np.zeros(KERNELS, KERNEL_DTYPE)
    kernels["id"], kernels["sigma"] = np.arange(KERNELS), sigma
    kernels["x"], kernels["y"] = rng.uniform(0, SIDE_M, (2, KERNELS))
    kernels["weight"] = rng.uniform(-1, 1, KERNELS)
    x, y = rng.uniform(0, SIDE_M, (2, POINTS)).astype(np.float32)
    return kernels, x, y


def numpy_field(kernels: np.ndarray, x: F32, y: F32) -> F32:
    """The same sum, block by block."""
    kx, ky, sigma, weight = (np.ascontiguousarray(kernels[name]) for name in ("x", "y", "sigma", "weight"))
    inv = np.float32(-0.5) / (sigma * sigma)
    reach = (np.float32(CUTOFF) * sigma) ** 2
    out = np.empty(len(x), np.float32)
    for i in range(0, len(x), BLOCK):
        dx, dy = x[i : i + BLOCK, None] - kx, y[i : i + BLOCK, None] - ky
        d2 = dx * dx + dy * dy
        out[i : i + BLOCK] = np.where(d2 <= reach, np.exp(d2 * inv), np.float32(0)) @ weight
    return out


def in_range(kernels: np.ndarray, x: F32, y: F32) -> float:
    """Kernels in range of a point, the mean over these points."""
    reach = (np.float32(CUTOFF) * kernels["sigma"]) ** 2
    d2 = (x[:, None] - kernels["x"]) ** 2 + (y[:, None] - kernels["y"]) ** 2
    return float((d2 <= reach).sum(1).mean())


def run(report: Report) -> None:
    """Cells against dense, dense against numpy, the gradient against the field."""
    for sigma in SIGMAS_M:
        by_cells(report, sigma)


def by_cells(report: Report, sigma: float) -> None:
    """The lines of one scene."""
    kernels, x, y = scene(sigma)
    few, fewer = slice(0, DENSE_POINTS), slice(0, NUMPY_POINTS)
    dense_values = field_points(kernels, x[few], y[few], CUTOFF, "dense")
    assert dense_values.tobytes() == field_points(kernels, x, y, CUTOFF, "cells")[few].tobytes()
    assert np.allclose(dense_values[fewer], numpy_field(kernels, x[fewer], y[fewer]), rtol=1e-4, atol=1e-4)

    def dense() -> None:
        field_points(kernels, x[few], y[few], CUTOFF, "dense")

    cells, dense_s = alternate(lambda: field_points(kernels, x, y, CUTOFF, "cells"), dense, 1.0)
    near = in_range(kernels, x[fewer], y[fewer])
    case = f"{POINTS} points {KERNELS} kernels sigma {sigma:.0f} m ({near:.0f} in range) {ISA}"
    report.add(
        f"field by cells {case}",
        POINTS / cells / 1e6,
        DENSE_POINTS / dense_s / 1e6,
        "our dense",
        "M points/s",
        "higher",
    )
    start = time.thread_time()
    numpy_field(kernels, x[fewer], y[fewer])
    numpy_s = time.thread_time() - start
    report.add(
        f"field dense {case}", DENSE_POINTS / dense_s / 1e6, NUMPY_POINTS / numpy_s / 1e6, "numpy float32",
        "M points/s", "higher",
    )  # fmt: skip
    gradient, field = alternate(
        lambda: field_gradient(kernels, x, y, CUTOFF), lambda: field_points(kernels, x, y, CUTOFF)
    )
    report.add(f"gradient {case}", POINTS / gradient / 1e6, POINTS / field / 1e6, "our field", "M points/s", "higher")

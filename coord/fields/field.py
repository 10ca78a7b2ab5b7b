"""Gaussian influence fields: one kernel, a point, many points, a raster. Dense or by a cell grid: the same bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from coord import backend
from coord.checks import check_kernels, magnitude
from coord.errors import BadInput
from coord.frames.digest import sorted_by_id
from coord.records import KERNEL_DTYPE, POSITION_METRES_MAX, GaussianKernel, Records, as_records
from tensor.float_mode import plain_mode

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
U32 = NDArray[np.uint32]
Method = Literal["auto", "dense", "cells"]
_DENSE_KERNELS = 32
_DENSE_POINTS = 8


@plain_mode()
def gaussian_at(kernel: GaussianKernel, x: float, y: float, cutoff_sigmas: float = 4.0) -> np.float32:
    """weight · exp(-d² / (2 sigma²)), and exactly 0 beyond `cutoff_sigmas` sigmas; metres, float32.

    >>> float(gaussian_at(GaussianKernel(id=1, sigma=2.0, weight=3.0), 0.0, 0.0))
    3.0
    """
    return field_at([kernel], x, y, cutoff_sigmas)


@plain_mode()
def field_at(kernels: Records | Iterable[GaussianKernel], x: float, y: float, cutoff_sigmas: float = 4.0) -> np.float32:
    """The sum of the kernels at one point, in the order of docs/planning.md, Fields (ascending id, 16 lanes).

    >>> float(field_at([GaussianKernel(id=0, x=0.0, y=0.0, sigma=1.0, weight=2.0)], 1.0, 0.0))
    1.2130613327026367
    """
    with np.errstate(over="ignore"):
        at = np.array([[x], [y]], np.float32)
    value: np.float32 = field_points(kernels, at[0], at[1], cutoff_sigmas)[0]
    return value


@plain_mode()
def field_points(
    kernels: Records | Iterable[GaussianKernel],
    x: F32,  # [n] metres
    y: F32,  # [n]
    cutoff_sigmas: float = 4.0,
    method: Method = "auto",
) -> F32:  # [n]
    """The field at many points. `method` changes the time taken, never a bit.

    Raises BadInput for a kernel or a cutoff outside the limits and for a point that is not finite, ValueError for
    points that are no float32 vectors.
    """
    records, x, y, cutoff = _checked(kernels, x, y, cutoff_sigmas, "field_points")
    return field_of_sorted(records, x, y, cutoff, method=method)


@plain_mode()
def field_gradient(
    kernels: Records | Iterable[GaussianKernel],
    x: F32,  # [n] metres
    y: F32,  # [n]
    cutoff_sigmas: float = 4.0,
    method: Method = "auto",
) -> F32:  # [n, 2] per metre
    """The field's derivatives by x and y at many points: of the kernels in range, the cut-off itself not derived.

    Order and rounding are those of docs/planning.md, Fields. Raises as `field_points`.

    >>> field_gradient([GaussianKernel(id=0, sigma=1.0)], np.float32([1]), np.float32([0])).tolist()
    [[-0.6065306663513184, 0.0]]
    """
    records, x, y, cutoff = _checked(kernels, x, y, cutoff_sigmas, "field_gradient")
    if len(records) == 0 or len(x) == 0:
        return np.zeros((len(x), 2), np.float32)
    terms = _terms(records, cutoff)
    if _dense(len(records), len(x), method):
        return backend.field_gradient(x, y, *_one_cell(len(x), len(records)), *terms)
    return backend.gradient_by_cells(x, y, *terms)


def _checked(
    kernels: Records | Iterable[GaussianKernel], x: F32, y: F32, cutoff_sigmas: float, function: str
) -> tuple[Records, F32, F32, np.float32]:
    records = as_records(kernels, KERNEL_DTYPE, "kernels")
    check_kernels(records)
    with np.errstate(over="ignore"):
        cutoff = np.float32(cutoff_sigmas)
    if not 0 < cutoff <= 8:
        raise BadInput("config", None, "cutoff_sigmas", f"must be above 0 and at most 8, got {cutoff_sigmas}")
    for name, given in (("x", x), ("y", y)):
        if not isinstance(given, np.ndarray):
            raise ValueError(f"{function}: {name} must be float32[n], got {type(given).__name__}")
    if x.dtype != np.float32 or y.dtype != np.float32 or x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"{function}: x and y must be float32[n], got {x.dtype}{x.shape} and {y.dtype}{y.shape}")
    x, y = (np.require(v, requirements=["C", "A"]) for v in (x, y))
    for name, values in (("x", x), ("y", y)):
        bad = magnitude(values) >= 0x7F800000
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise BadInput("points", row, name, f"must be finite, got {values[row]}")
    return sorted_by_id(records), x, y, cutoff


def field_of_sorted(
    kernels: Records,  # checked, ascending id
    x: F32,
    y: F32,
    cutoff: np.float32,
    *,
    weights: F32 | None = None,
    method: Method = "auto",
) -> F32:
    """As `field_points` without its checks; `weights` replaces those of the kernels."""
    if len(kernels) == 0 or len(x) == 0:
        return np.zeros(len(x), np.float32)
    terms = _terms(kernels, cutoff, weights)
    if _dense(len(kernels), len(x), method):
        return backend.field_points(x, y, *_one_cell(len(x), len(kernels)), *terms)
    return backend.field_by_cells(x, y, *terms)


def _terms(kernels: Records, cutoff: np.float32, weights: F32 | None = None) -> tuple[F32, F32, F32, F32, F32]:
    """x, y, reach, inv and weight, as the kernels take them."""
    kx, ky, sigma = (np.ascontiguousarray(kernels[name]) for name in ("x", "y", "sigma"))
    weight = np.ascontiguousarray(kernels["weight"]) if weights is None else weights
    return kx, ky, *backend.gaussian_terms(sigma, cutoff), weight


def _dense(kernels: int, points: int, method: Method) -> bool:
    return method == "dense" or (method == "auto" and (kernels <= _DENSE_KERNELS or points <= _DENSE_POINTS))


def _one_cell(points: int, kernels: int) -> tuple[I32, U32, U32]:
    return np.zeros(points, np.int32), np.array([0, kernels], np.uint32), np.arange(kernels, dtype=np.uint32)


def cover_and_avoid(kernels: Records, x: F32, y: F32, cutoff: np.float32) -> tuple[F32, F32]:
    """cover = field of the kernels with weight > 0; avoid = field of the others with weights negated."""
    weight = np.ascontiguousarray(kernels["weight"])
    attracts = weight > 0
    cover = field_of_sorted(kernels[attracts], x, y, cutoff)
    others = kernels[~attracts]
    negated = (np.ascontiguousarray(others["weight"]).view(np.uint32) ^ np.uint32(0x80000000)).view(np.float32)
    return cover, field_of_sorted(others, x, y, cutoff, weights=negated)


@plain_mode()
def field_raster(
    kernels: Records | Sequence[GaussianKernel],
    *,
    x0: float,
    y0: float,
    cell_m: float,
    width: int,
    height: int,
    cutoff_sigmas: float = 4.0,
) -> F32:  # [height, width], row 0 at y0 (south)
    """The field at the centres of a raster's cells, x0 + (column + 0.5)·cell_m computed in float64 and rounded once.

    >>> field_raster([GaussianKernel(id=0, x=0.5, y=0.5)], x0=0, y0=0, cell_m=1, width=2, height=1).tolist()
    [[1.0, 0.6065306663513184]]
    """
    width, height = index(width), index(height)
    if not (0 < width <= 2**16 and 0 < height <= 2**16 and width * height <= 2**26):
        raise ValueError(
            f"field_raster: width and height must be positive with at most 2^26 cells, got {width} x {height}"
        )
    if not (0 < cell_m <= POSITION_METRES_MAX):
        raise ValueError(f"field_raster: cell_m must be above 0 and at most 2^20 m, got {cell_m}")
    with np.errstate(over="ignore"):
        columns = (x0 + (np.arange(width) + 0.5) * cell_m).astype(np.float32)
        rows = (y0 + (np.arange(height) + 0.5) * cell_m).astype(np.float32)
    x, y = np.tile(columns, height), np.repeat(rows, width)
    return field_points(kernels, x, y, cutoff_sigmas).reshape(height, width)

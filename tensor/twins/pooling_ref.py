"""Twin of tensor/kernels/pooling.cpp: maxima and means over windows, and what their gradients are.

Arrays are float32 or float64 [n, channels, rows, columns]. A window's inputs are taken row after row; a gradient adds
up what comes from windows in their order, row after row of outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
Pair = tuple[int, int]


def windows(size: int, output: int, window: int, stride: int, before: int, dilation: int = 1) -> list[list[int]]:
    """The inputs of each output, those outside left out; window 0: ⌊o·size / output⌋ up to ⌈(o + 1)·size / output⌉.

    >>> windows(5, 2, 3, 2, 1), windows(5, 2, 0, 1, 0)
    ([[0, 1], [1, 2, 3]], [[0, 1, 2], [2, 3, 4]])
    """
    if window == 0:
        return [list(range(o * size // output, -(-(o + 1) * size // output))) for o in range(output)]
    return [
        [i for i in range(o * stride - before, o * stride - before + window * dilation, dilation) if 0 <= i < size]
        for o in range(output)
    ]


def _each(rows: list[list[int]], columns: list[list[int]]) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    for y, taken in enumerate(rows):
        for x, across in enumerate(columns):
            yield y, x, [(i, j) for i in taken for j in across]


def _canonical(x: Floats) -> Floats:
    return np.where(np.isnan(x), x.dtype.type(np.nan), x)


def _larger(a: Floats, b: Floats) -> Floats:
    """The larger, +0 above −0; NaN if either is."""
    word = np.uint32 if a.dtype == np.float32 else np.uint64
    both = (np.ascontiguousarray(a).view(word) & np.ascontiguousarray(b).view(word)).view(a.dtype)
    larger = np.where(a == b, both, np.where(a < b, b, a))
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), larger)


def max_pool(
    x: Floats, output: Pair, window: Pair, stride: Pair, before: Pair, dilation: Pair
) -> tuple[Floats, NDArray[np.int32]]:
    """The largest input of each window (NaN if one is NaN) and the place of the first such one in its plane."""
    rows = windows(x.shape[2], output[0], window[0], stride[0], before[0], dilation[0])
    columns = windows(x.shape[3], output[1], window[1], stride[1], before[1], dilation[1])
    values = np.zeros((*x.shape[:2], *output), x.dtype)
    places = np.zeros((*x.shape[:2], *output), np.int32)
    for oy, ox, inputs in _each(rows, columns):
        best, place = None, np.zeros(x.shape[:2], np.int32)
        for i, j in inputs:
            v = x[:, :, i, j]
            if best is None:
                best, place = v, np.full(x.shape[:2], i * x.shape[3] + j, np.int32)
                continue
            better = ~np.isnan(best) & ~(v <= best)
            place = np.where(better, np.int32(i * x.shape[3] + j), place)
            best = np.where(np.isnan(best), best, _larger(best, v))
        assert best is not None
        values[:, :, oy, ox], places[:, :, oy, ox] = _canonical(best), place
    return values, places


def average_pool(x: Floats, output: Pair, window: Pair, stride: Pair, before: Pair, divisor: int) -> Floats:
    """The sum of each window, from +0, divided by `divisor`, or by how many inputs the window has if that is 0."""
    rows = windows(x.shape[2], output[0], window[0], stride[0], before[0])
    columns = windows(x.shape[3], output[1], window[1], stride[1], before[1])
    out = np.zeros((*x.shape[:2], *output), x.dtype)
    with np.errstate(all="ignore"):
        for oy, ox, inputs in _each(rows, columns):
            total = np.zeros(x.shape[:2], x.dtype)
            for i, j in inputs:
                total = total + x[:, :, i, j]
            out[:, :, oy, ox] = _canonical(total / x.dtype.type(divisor or len(inputs)))
    return out


def average_pool_gradient(g: Floats, size: Pair, window: Pair, stride: Pair, before: Pair, divisor: int) -> Floats:
    """The gradient of x in average_pool(x): each window gives g / divisor to its inputs."""
    rows = windows(size[0], g.shape[2], window[0], stride[0], before[0])
    columns = windows(size[1], g.shape[3], window[1], stride[1], before[1])
    out = np.zeros((*g.shape[:2], *size), g.dtype)
    with np.errstate(all="ignore"):
        for oy, ox, inputs in _each(rows, columns):
            share = g[:, :, oy, ox] / g.dtype.type(divisor or len(inputs))
            for i, j in inputs:
                out[:, :, i, j] += share
    return _canonical(out)


def pool_scatter(g: Floats, index: NDArray[np.int32], size: Pair) -> Floats:
    """Zeros, and each g added where its index points in the plane: the gradient of max_pool."""
    out = np.zeros((*g.shape[:2], size[0] * size[1]), g.dtype)
    n, c = np.indices(g.shape[:2])
    with np.errstate(all="ignore"):
        for oy, ox in np.ndindex(g.shape[2:]):
            out[n, c, index[:, :, oy, ox]] += g[:, :, oy, ox]
    return _canonical(out).reshape(*g.shape[:2], *size)


def pool_gather(x: Floats, index: NDArray[np.int32]) -> Floats:
    """x where the index points in the plane."""
    flat = x.reshape(*x.shape[:2], -1)
    return np.take_along_axis(flat, index.reshape(*index.shape[:2], -1), 2).reshape(index.shape)

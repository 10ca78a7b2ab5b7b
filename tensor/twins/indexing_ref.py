"""Twins of moves by index and of scatter (tensor/kernels/reduce/gather.cpp, scatter.cpp)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tensor.twins.elementwise_ref import canonical
from tensor.twins.fold_ref import compute, fold, narrow
from tensor.twins.reductions_ref import maximum_of, minimum_of, truth

__all__ = ["combine_rows", "gather", "index_put", "nonzero", "scatter", "segment_reduce", "take"]

Array: TypeAlias = Any


def take(x: Array, indices: Array, axis: int) -> Array:
    """x[…, indices, …] along the axis."""
    return np.take(np.asarray(x), indices, axis=axis)


def gather(x: Array, indices: Array, axis: int) -> Array:
    """out[o, j, i] = x[o, indices[o, j, i], i]; sizes of 1 of x repeat beside the axis."""
    shape = (*indices.shape[:axis], x.shape[axis], *indices.shape[axis + 1 :])
    return np.take_along_axis(np.broadcast_to(np.asarray(x), shape), indices, axis)


def nonzero(x: Array) -> Array:
    """int64[ndim, count]: the indices of what is not zero, row-major."""
    return np.array(np.nonzero(truth(np.asarray(x))), np.int64).reshape(np.asarray(x).ndim, -1)


def _add_first(x: Array) -> Array:
    return np.zeros_like(x) + x


_COMBINE: dict[str, tuple[Callable[[Array], Array], Callable[[Array, Array], Array]]] = {
    "sum": (_add_first, np.add),
    "mean": (_add_first, np.add),
    "prod": (np.array, np.multiply),
    "max": (np.array, maximum_of),
    "min": (np.array, minimum_of),
}


def combine_rows(out: Array, destinations: Array, updates: Array, combine: str, include_out: bool) -> Array:
    """Rows of out [rows, width] with the updates [count, width] that go to them, combined in the order of `sum`."""
    result = np.array(out)
    if combine == "set":
        for i, row in enumerate(destinations):
            result[row] = updates[i]
        return result
    first, join = _COMBINE[combine]
    wide, olds = compute(updates), compute(out)
    with np.errstate(all="ignore"):
        for row in np.unique(destinations):
            mine = wide[destinations == row]
            value = fold((np.ascontiguousarray(mine.T),), first, join, join)
            if include_out:
                value = join(olds[row], value)
            if combine == "mean":
                n = len(mine) + include_out
                value = value / value.dtype.type(n) if value.dtype.kind == "f" else _truncated(value, n)
            value = canonical(value) if value.dtype.kind == "f" else value
            stored = narrow(value, out)
            result[row] = stored if stored.dtype == out.dtype else stored.astype(out.dtype)
    return result


def _truncated(value: Array, n: int) -> Array:
    """Integer division toward zero, as C++ does it."""
    quotient = np.abs(value.astype(object)) // n
    return np.where(value < 0, -quotient, quotient).astype(value.dtype)


def _in_parts(function: Callable[[Array, Array, Array], Array], out: Array, rows: Array, updates: Array) -> Array:
    """Sums of complex numbers are those of their parts."""
    if out.dtype.kind != "c":
        return function(out, rows, updates)
    real = out.real.dtype
    parts = function(np.ascontiguousarray(out).view(real), rows, np.ascontiguousarray(updates).view(real))
    return np.ascontiguousarray(parts).view(out.dtype)


def scatter(x: Array, indices: Array, updates: Array, axis: int, combine: str, include_out: bool) -> Array:
    """x with updates[o, j, i] at x[o, indices[o, j, i], i]: set (the last wins) or combined."""
    x = np.asarray(x)
    places = np.arange(x.size).reshape(x.shape)[
        tuple(slice(0, n) if d != axis else slice(None) for d, n in enumerate(indices.shape))
    ]
    where = np.take_along_axis(places, indices % x.shape[axis] if x.shape[axis] else indices, axis).reshape(-1)

    def run(out: Array, rows: Array, new: Array) -> Array:
        return combine_rows(out, rows, new, combine, include_out)

    return _in_parts(run, x.reshape(-1, 1), where, np.ascontiguousarray(updates).reshape(-1, 1)).reshape(x.shape)


def index_put(x: Array, indices: Array, updates: Array, axis: int, combine: str, include_out: bool) -> Array:
    """x with updates[…, j, …] at x[…, indices[j], …]."""
    x = np.asarray(x)
    outer = int(np.prod(x.shape[:axis], dtype=np.int64))
    inner = int(np.prod(x.shape[axis + 1 :], dtype=np.int64))
    n = x.shape[axis]
    flat = np.asarray(indices).reshape(-1)
    rows = (np.arange(outer)[:, None] * n + (flat % n if n else flat)[None, :]).reshape(-1)
    if inner == 0:
        return x.copy()

    def run(out: Array, where: Array, new: Array) -> Array:
        return combine_rows(out, where, new, combine, include_out)

    moved = np.ascontiguousarray(updates).reshape(outer * len(flat), inner)
    return _in_parts(run, np.ascontiguousarray(x).reshape(outer * n, inner), rows, moved).reshape(x.shape)


def segment_reduce(empty: Array, ids: Array, values: Array, combine: str) -> Array:
    """Rows of `values` combined by id; `empty` [segments, …] is what segments without any hold."""
    return index_put(empty, ids, values, 0, combine, False)

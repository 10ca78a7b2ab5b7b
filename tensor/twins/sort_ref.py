"""Twins of sorting (tensor/kernels/reduce/sort.cpp): stable orders with NaN last in both directions."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tensor.twins.fold_ref import compute

__all__ = ["argsort", "keys", "searchsorted", "sort", "top_k", "unique_groups"]

Array: TypeAlias = Any


def keys(x: Array, descending: bool) -> Array:
    """Unsigned 64-bit keys that ascend in the order asked for: −0 as +0, NaN last.

    >>> keys(np.array([1, -1, np.nan], np.float32), False).argsort()
    array([1, 0, 2])
    """
    wide = compute(x)
    if wide.dtype.kind == "f":
        exact = wide.astype(np.float64)  # the same order
        bits = np.where(exact == 0, np.float64(0), exact).view(np.uint64)
        sign = np.uint64(1 << 63)
        ordered = np.where(bits & sign != 0, ~bits, bits | sign)
        return np.where(np.isnan(exact), ~np.uint64(0), ~ordered if descending else ordered)
    ordered = wide.view(np.uint64) ^ np.uint64(1 << 63) if wide.dtype == np.int64 else wide
    return ~ordered if descending else ordered


def argsort(x: Array, axis: int, descending: bool) -> Array:
    """The stable order along the axis."""
    return np.argsort(keys(np.asarray(x), descending), axis=axis, kind="stable").astype(np.int64)


def sort(x: Array, axis: int, descending: bool) -> Array:
    """x in that order; elements are moved as they are."""
    return np.take_along_axis(np.asarray(x), argsort(x, axis, descending), axis)


def top_k(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    """The first k of the order, and their indices."""
    index = np.take(argsort(x, axis, largest), np.arange(k), axis)
    return np.take_along_axis(np.asarray(x), index, axis), index


def searchsorted(x: Array, values: Array, right: bool) -> Array:
    """How many of the sorted x come before each value."""
    return np.searchsorted(keys(x, False), keys(values, False), "right" if right else "left").astype(np.int64)


def unique_groups(x: Array, order: Array) -> tuple[Array, Array, Array]:
    """(first, inverse, counts) of the groups of equal values of the vector x in its stable order; NaNs are no group."""
    moved = np.asarray(x)[order]
    parts = [moved.real, moved.imag] if moved.dtype.kind == "c" else [compute(moved)]
    new = np.zeros(len(moved), bool)
    for part in parts:
        new[1:] |= part[1:] != part[:-1]
    new[:1] = True
    group = np.cumsum(new) - 1
    inverse = np.empty(len(moved), np.int64)
    inverse[order] = group
    return order[new].astype(np.int64), inverse, np.bincount(group, minlength=int(new.sum())).astype(np.int64)

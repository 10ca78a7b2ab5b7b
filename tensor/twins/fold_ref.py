"""The fixed order of every sum, and what twins of reductions share (tensor/kernels/reduce/fold.hpp, columns.hpp).

A line of n values is cut into blocks of 4096. In a block, value i goes to slot i mod 64, which is accumulator
(i div 16) mod 4, lane i mod 16; slots combine as (a0 a1)(a2 a3), lane l with l + 8, then + 4, + 2, + 1; blocks combine
in a tree whose left part is the largest power of two below their number. Slots that get nothing are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tensor import elementary_ref
from tensor.fma_ref import fma_f32, fma_f64
from tensor.twins.bfloat16_ref import is_bfloat16, narrow_bfloat16, widen_bfloat16
from tensor.twins.elementwise_ref import canonical

__all__ = [
    "BLOCK",
    "compute",
    "dots",
    "exp",
    "fma",
    "fold",
    "join_lines",
    "log",
    "narrow",
    "sqrt",
    "sums",
    "to_lines",
]

Array: TypeAlias = Any  # an array of numpy

BLOCK = 4096
SLOTS = 64


def fold(
    lines: tuple[Array, ...],  # [L, n] each, n ≥ 1
    first: Callable[..., Array],
    step: Callable[..., Array],
    join: Callable[[Array, Array], Array],
) -> Array:
    """One value a line, [L]: first(x…) begins a slot, step(a, x…) takes a value into it, join(a, b) combines slots.

    >>> int(fold((np.arange(10).reshape(1, 10),), lambda x: x, np.add, np.add)[0])
    45
    """
    blocks = []
    for start in range(0, lines[0].shape[1], BLOCK):
        parts = [x[:, start : start + BLOCK] for x in lines]
        m = parts[0].shape[1]
        slots = np.array(first(*(p[:, :SLOTS] for p in parts)))
        for at in range(SLOTS, m, SLOTS):
            segments = [p[:, at : at + SLOTS] for p in parts]
            w = segments[0].shape[1]
            slots[:, :w] = step(slots[:, :w], *segments)
        blocks.append(_fold_slots(slots, join))
    return _tree(blocks, join)


def _fold_slots(v: Array, join: Callable[[Array, Array], Array]) -> Array:
    def merge(to: int, source: int, limit: int) -> None:
        k = min(limit, present - source)
        if k > 0:
            v[:, to : to + k] = join(v[:, to : to + k], v[:, source : source + k])

    present = v.shape[1]
    merge(0, 16, 16)
    merge(32, 48, 16)
    merge(0, 32, 16)
    present = min(present, 16)
    for half in (8, 4, 2, 1):
        merge(0, half, half)
    return v[:, 0].copy()


def _tree(values: list[Array], join: Callable[[Array, Array], Array]) -> Array:
    n = len(values)
    if n == 1:
        return values[0]
    h = 1 << ((n - 1).bit_length() - 1)
    return join(_tree(values[:h], join), _tree(values[h:], join))


def fma(a: Array, b: Array, c: Array) -> Array:
    """a·b + c, rounded once; integers wrap."""
    a, b, c = np.broadcast_arrays(a, b, c)
    if a.dtype == np.float32:
        return fma_f32(a, b, c)
    return fma_f64(a, b, c) if a.dtype == np.float64 else a * b + c


def sums(lines: Array) -> Array:  # [L, n] → [L]
    """The sum of each line; +0 (0) for nothing."""
    if lines.shape[1] == 0:
        return np.zeros(len(lines), lines.dtype)
    return fold((lines,), lambda x: np.zeros_like(x) + x, np.add, np.add)


def dots(a: Array, b: Array) -> Array:  # [L, n], [L, n] → [L]
    """The sum of each line's products, each product fused into its slot."""
    if a.shape[1] == 0:
        return np.zeros(len(a), a.dtype)
    return fold((a, b), lambda x, y: fma(x, y, np.zeros_like(x)), lambda s, x, y: fma(x, y, s), np.add)


def exp(x: Array) -> Array:
    """e^x in x's type."""
    return elementary_ref.exp_f32(x) if x.dtype == np.float32 else elementary_ref.exp_f64(x)


def log(x: Array) -> Array:
    """Natural logarithm in x's type."""
    return elementary_ref.log_f32(x) if x.dtype == np.float32 else elementary_ref.log_f64(x)


def sqrt(x: Array) -> Array:
    """Square root, NaN canonical."""
    return canonical(np.sqrt(x))


def compute(x: Array) -> Array:
    """x in the type it is computed in: float16 and bfloat16 in float32, integers and bool in 64 bits."""
    x = np.asarray(x)
    if is_bfloat16(x):
        return widen_bfloat16(x)
    if x.dtype == np.float16:
        return x.astype(np.float32)
    if x.dtype.kind in "bi":
        return x.astype(np.int64)
    return x.astype(np.uint64) if x.dtype.kind == "u" else x


def narrow(values: Array, like: Array) -> Array:
    """Values computed in float32 rounded once to the type of `like`, where that is float16 or bfloat16."""
    if is_bfloat16(np.asarray(like)):
        return narrow_bfloat16(values)
    return canonical(values.astype(np.float16)) if np.asarray(like).dtype == np.float16 else values


def to_lines(x: Array, axes: tuple[int, ...]) -> tuple[Array, tuple[int, ...]]:
    """x as [L, n], one line a position of the other dimensions, and the shape of these."""
    kept = [d for d in range(x.ndim) if d not in axes]
    shape = tuple(x.shape[d] for d in kept)
    n = int(np.prod([x.shape[d] for d in axes], dtype=np.int64))
    moved = np.transpose(x, (*kept, *axes))
    return np.ascontiguousarray(moved).reshape(int(np.prod(shape, dtype=np.int64)), n), shape


def join_lines(lines: Array, x_shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """The inverse of `to_lines`: [L, n] in the dimensions of x."""
    kept = [d for d in range(len(x_shape)) if d not in axes]
    order = (*kept, *axes)
    back = np.argsort(order)
    return np.ascontiguousarray(np.transpose(lines.reshape([x_shape[d] for d in order]), back))

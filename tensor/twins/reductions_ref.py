"""Twins of reductions (tensor/kernels/reduce/reduce.cpp): sums, products, extremes, truth, logsumexp, variance.

Each takes an array and a tuple of axes, and gives the array without them. Order: `fold_ref`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tensor.twins.bfloat16_ref import bfloat16_bits, is_bfloat16
from tensor.twins.elementwise_ref import canonical
from tensor.twins.fold_ref import compute, dots, exp, fold, log, narrow, sqrt, sums, to_lines

__all__ = ["maximum_of", "minimum_of", "reduce", "shift_of", "truth"]

Array: TypeAlias = Any

Axes: TypeAlias = tuple[int, ...]


def maximum_of(a: Array, b: Array) -> Array:
    """The larger; NaN if either is NaN; +0 above −0."""
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    word: Any = np.uint32 if a.dtype == np.float32 else np.uint64
    both = (np.ascontiguousarray(a).view(word) & np.ascontiguousarray(b).view(word)).view(a.dtype)
    return canonical(
        np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(a == b, both, np.where(a < b, b, a))).astype(a.dtype)
    )


def minimum_of(a: Array, b: Array) -> Array:
    """The smaller; NaN if either is NaN; −0 below +0."""
    return np.minimum(a, b) if a.dtype.kind != "f" else canonical(-maximum_of(-a, -b))


def truth(x: Array) -> Array:
    """Where x is not zero; NaN is not."""
    return (bfloat16_bits(x) & np.uint16(0x7FFF)) != 0 if is_bfloat16(x) else np.asarray(x) != 0


def shift_of(lines: Array) -> Array:  # [L, n] → [L]
    """What is taken off before exp: the largest value but NaN, −inf if there is none, +0 if it is a zero."""
    if lines.shape[1] == 0:
        return np.full(len(lines), -np.inf, lines.dtype)
    return np.where(np.isnan(lines), lines.dtype.type(-np.inf), lines).max(axis=1) + lines.dtype.type(0)


def reduce(name: str, x: Array, axes: Axes, parameter: float = 0.0) -> Array:
    """The reduction of that name; `parameter` is the correction of var and std.

    >>> reduce("sum", np.array([[1, 2], [3, 4]], np.int8), (0,))
    array([4, 6])
    """
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        if name in {"any", "all", "count_nonzero"}:
            lines, shape = to_lines(truth(x), axes)
            counts = lines.sum(axis=1, dtype=np.int64).reshape(shape)
            return counts if name == "count_nonzero" else counts > 0 if name == "any" else counts == lines.shape[1]
        if x.dtype.kind == "c":
            return _complex(name, x, axes)
        lines, shape = to_lines(compute(x), axes)
        if name in {"argmax", "argmin"}:
            return _index(lines, name == "argmax").reshape(shape)
        value = _VALUES[name](lines, parameter).reshape(shape)
        return value.astype(x.dtype) if name in {"max", "min"} and x.dtype.kind in "biu" else narrow(value, x)


def _product(lines: Array, parameter: float) -> Array:
    if lines.shape[1] == 0:
        return np.ones(len(lines), lines.dtype)
    return _canonical(fold((lines,), np.array, np.multiply, np.multiply))


def _extreme(largest: bool) -> Any:
    join = maximum_of if largest else minimum_of
    return lambda lines, parameter: _canonical(fold((lines,), np.array, join, join))


def _mean(lines: Array, parameter: float) -> Array:
    return canonical(sums(lines) / lines.dtype.type(lines.shape[1]))


def _variance(lines: Array, parameter: float) -> Array:
    d = lines - (sums(lines) / lines.dtype.type(lines.shape[1]))[:, None]
    freedom = lines.shape[1] - parameter
    return canonical(dots(d, d) / lines.dtype.type(max(freedom, 0.0)))


def _logsumexp(lines: Array, parameter: float) -> Array:
    shift = shift_of(lines)
    shift = np.where(np.isfinite(shift), shift, lines.dtype.type(0))
    return canonical(shift + log(sums(exp(lines - shift[:, None]))))


def _canonical(x: Array) -> Array:
    return canonical(x) if x.dtype.kind == "f" else x


_VALUES: dict[str, Any] = {
    "sum": lambda lines, parameter: _canonical(sums(lines)),
    "prod": _product,
    "mean": _mean,
    "square_sum": lambda lines, parameter: _canonical(dots(lines, lines)),
    "norm": lambda lines, parameter: sqrt(dots(lines, lines)),
    "max": _extreme(True),
    "min": _extreme(False),
    "logsumexp": _logsumexp,
    "var": _variance,
    "std": lambda lines, parameter: sqrt(_variance(lines, parameter)),
}


def _index(lines: Array, largest: bool) -> Array:
    best = _VALUES["max" if largest else "min"](lines, 0.0)
    hit = lines == best[:, None]
    if lines.dtype.kind == "f":
        hit |= np.isnan(lines)  # where there is one, best is NaN and equals nothing
    return np.argmax(hit, axis=1).astype(np.int64)


def _complex(name: str, x: Array, axes: Axes) -> Array:
    parts = np.ascontiguousarray(x).view(x.real.dtype).reshape((*x.shape, 2))
    if name in {"sum", "mean"}:
        return np.ascontiguousarray(reduce(name, parts, axes)).view(x.dtype)[..., 0]
    lines, shape = to_lines(x, axes)
    if lines.shape[1] == 0:
        return np.ones(shape, x.dtype)
    return canonical(fold((lines,), np.array, _times, _times).reshape(shape))


def _times(a: Array, b: Array) -> Array:
    """(ac − bd) + (ad + bc)i, each operation rounded."""
    out = np.empty(a.shape, a.dtype)
    out.real = a.real * b.real - a.imag * b.imag
    out.imag = a.real * b.imag + a.imag * b.real
    return out

"""Softmax's relatives with zeros in them: sparsemax and entmax15, and gates that sum to k.

All are found exactly (soft_top_k up to rounding) and have derivatives of any order where the support does not change.
"""

from __future__ import annotations

import math
from typing import Any

from tensor.autograd import stop_gradient
from tensor.errors import ShapeError
from tensor.functions.axes import one_axis, rows_of
from tensor.functions.creation import arange
from tensor.functions.elementary import sigmoid
from tensor.functions.elementwise import maximum, sqrt, square, where
from tensor.functions.index_moves import take_along_axis
from tensor.functions.promotion import cast_to
from tensor.functions.sorting import sort
from tensor.functions.statistics import cumsum

__all__ = ["entmax15", "soft_top_k", "sparsemax"]

Tensor = Any

_FLOATS = ("real floating",)
_HINT = "astype(x, float32)"


def _last(name: str, x: Tensor, axis: int) -> tuple[Tensor, tuple[int, ...]]:
    """x with the axis at the end, and the order of dimensions that undoes it."""
    at = one_axis(name, axis, rows_of(name, x, _FLOATS, _HINT).ndim)
    if x.shape[at] == 0:
        raise ShapeError(f"{name}: axis {axis} of shape {x.shape} has no elements")
    last = x.ndim - 1
    order = (*(d for d in range(x.ndim) if d != at), at)
    back = tuple(last if d == at else d - (d > at) for d in range(x.ndim))
    return x.permute(order), back


def _counts(z: Tensor) -> Tensor:
    """1, 2, … in z's type along its last dimension."""
    return cast_to(arange(1, z.shape[-1] + 1, device=z.device), z.dtype)


def _shifted(x: Tensor) -> tuple[Tensor, Tensor]:
    """x less the largest of each line, and 0 for each line: NaN if it holds a NaN or +inf, or nothing but −inf."""
    largest = stop_gradient(x.max(axis=-1, keepdims=True))
    return x - largest, largest - largest


def sparsemax(x: Tensor, /, axis: int = -1) -> Tensor:
    """The point of the simplex nearest to x along an axis: relu(x − τ) with sum 1 (Martins and Astudillo 2016).

    A line with a NaN or +inf, or with nothing but −inf, is NaN, as in softmax.

    >>> import tensor as tn
    >>> tn.sparsemax(tn.asarray([2.0, 1.5, 0.0])).tolist()
    [0.75, 0.25, 0.0]
    """
    z, back = _last("sparsemax", x, axis)
    z, wrong = _shifted(z)
    falling = sort(z, descending=True)
    counts, totals = _counts(z), cumsum(falling, -1)
    size = (1 + counts * falling > totals).sum(axis=-1, keepdims=True)
    support = z > (take_along_axis(totals, size - 1) - 1) / cast_to(size, z.dtype)
    n = cast_to(support.sum(axis=-1, keepdims=True), z.dtype)
    tau = (where(support, z, 0.0).sum(axis=-1, keepdims=True) - 1) / n
    return (where(support, z - tau, 0.0) + wrong).permute(back)


def entmax15(x: Tensor, /, axis: int = -1) -> Tensor:
    """relu(x / 2 − τ)² with sum 1 along an axis: between softmax and sparsemax (Peters, Niculae and Martins 2019).

    Infinities and NaN as in `sparsemax`.

    >>> import tensor as tn
    >>> tn.entmax15(tn.asarray([3.0, 0.0, 0.0])).tolist()
    [1.0, 0.0, 0.0]
    """
    z, back = _last("entmax15", x, axis)
    z, wrong = _shifted(z)
    z = z / 2
    falling = sort(z, descending=True)
    counts = _counts(z)
    means = cumsum(falling, -1) / counts
    spread = cumsum(square(falling), -1) - counts * square(means)
    taus = means - sqrt(maximum((1 - spread) / counts, 0.0))
    size = (taus <= falling).sum(axis=-1, keepdims=True)
    support = z > take_along_axis(taus, size - 1)
    n = cast_to(support.sum(axis=-1, keepdims=True), z.dtype)
    mean = where(support, z, 0.0).sum(axis=-1, keepdims=True) / n
    spread = where(support, square(z - mean), 0.0).sum(axis=-1, keepdims=True)
    tau = mean - sqrt((1 - spread) / n)
    return (where(support, square(z - tau), 0.0) + wrong).permute(back)


_HALVINGS = 64  # of the interval that holds λ: float64 has no more bits


def soft_top_k(x: Tensor, /, k: int, *, temperature: float = 1.0, axis: int = -1) -> Tensor:
    """Gates sigmoid((x − λ) / temperature) along an axis, λ so that they sum to k: near 1 for the k largest.

    λ is found by halving an interval in float64; two of Newton's steps carry its derivatives. ValueError unless k is
    from 1 to the number of elements, and temperature a finite number above 0.

    >>> import tensor as tn
    >>> gates = tn.soft_top_k(tn.asarray([1.0, 3.0, 2.0, 9.0]), 2, temperature=0.1)
    >>> [round(g, 4) for g in gates.tolist()], gates.sum().item()
    ([0.0, 0.9933, 0.0067, 1.0], 2.0)
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"soft_top_k: temperature must be a finite number above 0, got {temperature!r}")
    rows, back = _last("soft_top_k", x, axis)
    n = rows.shape[-1]
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= n:
        raise ValueError(f"soft_top_k: k must be an int from 1 to {n}, got {k!r}")
    z = cast_to(rows, "float64") / temperature
    if k == n:
        return cast_to(z * 0 + 1, x.dtype).permute(back)
    fixed = stop_gradient(z)
    reach = math.log(n) + 1.0  # sigmoid(±reach) is so near 0 or 1 that all gates sum to less or more than k
    low, high = fixed.min(axis=-1, keepdims=True) - reach, fixed.max(axis=-1, keepdims=True) + reach
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = sigmoid(fixed - middle).sum(axis=-1, keepdims=True) > k
        low, high = where(above, middle, low), where(above, high, middle)
    level = (low + high) / 2
    for _ in range(2):
        gates = sigmoid(z - level)
        slope = (gates * (1 - gates)).sum(axis=-1, keepdims=True)
        level = level + (gates.sum(axis=-1, keepdims=True) - k) / maximum(slope, 1e-300)
    return cast_to(sigmoid(z - level), x.dtype).permute(back)

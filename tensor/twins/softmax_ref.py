"""Twins of softmax, log_softmax and cross entropy, forward and backward (tensor/kernels/reduce/softmax.cpp)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tensor.twins.elementwise_ref import canonical
from tensor.twins.fold_ref import compute, dots, exp, fma, join_lines, log, narrow, sums, to_lines
from tensor.twins.reductions_ref import reduce, shift_of

__all__ = ["cross_entropy", "cross_entropy_backward", "softmax", "softmax_backward"]

Array: TypeAlias = Any


def softmax(x: Array, axis: int, logarithm: bool) -> Array:
    """exp(x − m) / sum, m the largest value; its logarithm is (x − m) − log(sum).

    >>> softmax(np.array([1e4, 0], np.float32), 0, False)
    array([1., 0.], dtype=float32)
    """
    x = np.asarray(x)
    lines, _ = to_lines(compute(x), (axis,))
    with np.errstate(all="ignore"):
        d = lines - shift_of(lines)[:, None]
        e = exp(d)
        total = sums(e)[:, None]
        y = canonical(d - log(total) if logarithm else e / total)
        return narrow(join_lines(y, x.shape, (axis,)), x)


def softmax_backward(g: Array, y: Array, axis: int, logarithm: bool) -> Array:
    """(g − g·y) y; of the logarithm g − exp(y)·sum(g)."""
    g, y = np.asarray(g), np.asarray(y)
    a, _ = to_lines(compute(g), (axis,))
    b, _ = to_lines(compute(y), (axis,))
    with np.errstate(all="ignore"):
        d = fma(-exp(b), sums(a)[:, None], a) if logarithm else (a - dots(a, b)[:, None]) * b
        return narrow(join_lines(canonical(d), g.shape, (axis,)), g)


def cross_entropy(x: Array, targets: Array, ignore_index: int, smoothing: float) -> tuple[Array, Array]:
    """(loss, logsumexp) of each row of x [rows, classes]; the loss is 0 where the target is ignored."""
    x = np.asarray(x)
    lines = compute(x)
    kind = lines.dtype.type
    with np.errstate(all="ignore"):
        lse = reduce("logsumexp", lines, (1,))
        used = targets != ignore_index
        picked = lines[np.arange(len(lines)), np.where(used, targets, 0)] if lines.size else lse
        loss = lse - picked
        if smoothing != 0:
            mean = sums(lines) / kind(lines.shape[1])
            loss = kind(1 - smoothing) * loss + kind(smoothing) * (lse - mean)
        return narrow(canonical(np.where(used, loss, kind(0))), x), lse


def cross_entropy_backward(
    g: Array, x: Array, targets: Array, lse: Array, ignore_index: int, smoothing: float
) -> Array:
    """The gradient with respect to x of the losses weighted by g [rows]."""
    x = np.asarray(x)
    lines = compute(x)
    kind = lines.dtype.type
    with np.errstate(all="ignore"):
        share = kind(smoothing) / kind(lines.shape[1])
        p = exp(lines - lse[:, None]) - share
        used = targets != ignore_index
        rows = np.flatnonzero(used)
        p[rows, targets[rows]] = p[rows, targets[rows]] - kind(1 - smoothing)
        d = canonical(compute(g)[:, None] * p)
        return narrow(np.where(used[:, None], d, kind(0)), x)

"""Twins of layer_norm and rms_norm, forward and backward (tensor/kernels/reduce/norm.cpp), over the last dimensions."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tensor.twins.elementwise_ref import canonical
from tensor.twins.fold_ref import compute, dots, fma, narrow, sqrt, sums

__all__ = ["layer_norm", "norm_backward", "rms_norm"]

Array: TypeAlias = Any


def _lines(x: Array, trailing: int) -> Array:
    wide = compute(x)
    n = int(np.prod(x.shape[x.ndim - trailing :], dtype=np.int64))
    rows = int(np.prod(x.shape[: x.ndim - trailing], dtype=np.int64))
    return np.ascontiguousarray(wide).reshape(rows, n)


def _parameter(p: Array | None) -> Array | None:
    return None if p is None else compute(np.asarray(p)).reshape(1, -1)


def _scaled(u: Array, weight: Array | None, bias: Array | None) -> Array:
    if weight is not None and bias is not None:
        return canonical(fma(u, weight, bias))
    return canonical(u * weight if weight is not None else u + bias if bias is not None else u)


def layer_norm(
    x: Array, weight: Array | None, bias: Array | None, trailing: int, epsilon: float
) -> tuple[Array, Array, Array]:
    """((x − mean)·rstd)·weight + bias, mean and rstd = 1 / sqrt(variance + epsilon)."""
    x = np.asarray(x)
    lines = _lines(x, trailing)
    kind = lines.dtype.type
    shape = x.shape[: x.ndim - trailing]
    with np.errstate(all="ignore"):
        n = kind(lines.shape[1])
        mean = canonical(sums(lines) / n)
        d = lines - mean[:, None]
        rstd = canonical(kind(1) / sqrt(dots(d, d) / n + kind(epsilon)))
        y = _scaled(d * rstd[:, None], _parameter(weight), _parameter(bias))
        return narrow(y.reshape(x.shape), x), mean.reshape(shape), rstd.reshape(shape)


def rms_norm(x: Array, weight: Array | None, trailing: int, epsilon: float) -> tuple[Array, Array]:
    """(x·rstd)·weight, and rstd = 1 / sqrt(mean of squares + epsilon)."""
    x = np.asarray(x)
    lines = _lines(x, trailing)
    kind = lines.dtype.type
    with np.errstate(all="ignore"):
        rstd = canonical(kind(1) / sqrt(dots(lines, lines) / kind(lines.shape[1]) + kind(epsilon)))
        y = _scaled(lines * rstd[:, None], _parameter(weight), None)
        return narrow(y.reshape(x.shape), x), rstd.reshape(x.shape[: x.ndim - trailing])


def norm_backward(
    g: Array, x: Array, mean: Array | None, rstd: Array, weight: Array | None, trailing: int
) -> tuple[Array, Array, Array]:
    """(dx, d_weight, d_bias) of layer_norm; without mean of rms_norm, whose d_bias is that of a bias it doesn't have.

    With u = (x − mean)·rstd and v = g·weight: dx = rstd·((v − mean(v)) − u·mean(v·u)), d_weight = Σ g·u, d_bias = Σ g.
    """
    x, g = np.asarray(x), np.asarray(g)
    a, lines = _lines(g, trailing), _lines(x, trailing)
    kind = lines.dtype.type
    shape = x.shape[x.ndim - trailing :]
    with np.errstate(all="ignore"):
        n = kind(lines.shape[1])
        scale = np.asarray(rstd).reshape(-1, 1)
        d = lines if mean is None else lines - np.asarray(mean).reshape(-1, 1)
        u = d * scale
        w = _parameter(weight)
        v = a if w is None else a * w
        both = (dots(v, u) / n)[:, None]
        moved = v if mean is None else v - (sums(v) / n)[:, None]
        dx = canonical(scale * fma(-u, both, moved))
        d_weight, d_bias = canonical(dots(_columns(a), _columns(u))), canonical(sums(_columns(a)))
        return narrow(dx.reshape(x.shape), x), narrow(d_weight.reshape(shape), x), narrow(d_bias.reshape(shape), x)


def _columns(x: Array) -> Array:
    return np.ascontiguousarray(x.T)

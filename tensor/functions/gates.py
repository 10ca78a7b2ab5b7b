"""Activations of two operands or with a bound: silu_mul, softcap, score_combine."""

from __future__ import annotations

import math
from typing import Any

from tensor.errors import ShapeError
from tensor.functions.axes import tensor_of
from tensor.functions.elementary import silu, tanh

__all__ = ["score_combine", "silu_mul", "softcap"]

Tensor = Any


def silu_mul(a: Tensor, b: Tensor, /) -> Tensor:
    """silu(a) · b, the gate of SwiGLU (Shazeer 2020); shapes broadcast.

    >>> import tensor as tn
    >>> tn.silu_mul(tn.asarray([0.0, 100.0]), tn.asarray([3.0, 3.0])).tolist()
    [0.0, 300.0]
    """
    return silu(tensor_of("silu_mul", a)) * b


def softcap(x: Tensor, cap: float, /) -> Tensor:
    """cap · tanh(x / cap): x near 0, never beyond ±cap. ValueError unless cap is a finite number above 0.

    >>> import tensor as tn
    >>> tn.softcap(tn.asarray([0.0, 1e6]), 30.0).tolist()
    [0.0, 30.0]
    """
    if not 0 < cap < math.inf:
        raise ValueError(f"softcap: cap must be a finite number above 0, got {cap!r}")
    return tanh(tensor_of("softcap", x) / float(cap)) * float(cap)


def score_combine(base: Tensor, delta: Tensor, /, *, gamma: float = 1.0) -> Tensor:
    """base + gamma · delta for tensors of one shape: a score and its guidance. ShapeError where shapes differ.

    >>> import tensor as tn
    >>> tn.score_combine(tn.asarray([1.0]), tn.asarray([2.0]), gamma=0.5).tolist()
    [2.0]
    """
    if tensor_of("score_combine", base).shape != tensor_of("score_combine", delta).shape:
        raise ShapeError(f"score_combine: shapes {base.shape} and {delta.shape} differ")
    return base + delta * float(gamma)

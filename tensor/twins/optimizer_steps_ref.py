"""Twins of the steps of AdamW and SGD (tensor/kernels/reduce/optimizer.cpp), for one tensor."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tensor.twins.elementwise_ref import canonical
from tensor.twins.fold_ref import fma

__all__ = ["adamw", "sgd"]

Array: TypeAlias = Any


def adamw(
    p: Array, g: Array, m: Array, v: Array, *, decay: float, beta1: float, beta2: float, step: float,
    root_scale: float, epsilon: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """(p, m, v) after a step: m, v averages, then p·decay − step·(m / (√v·root_scale + epsilon)).

    decay = 1 − lr·weight_decay, step = lr / (1 − β1^t), root_scale = 1 / √(1 − β2^t); each is rounded to p's type.
    """
    kind = p.dtype.type
    with np.errstate(all="ignore"):
        m = fma(kind(beta1), m, kind(1 - beta1) * g)
        v = fma(kind(beta2), v, (kind(1 - beta2) * g) * g)
        divisor = fma(np.sqrt(v), kind(root_scale), kind(epsilon))
        p = fma(-kind(step), m / divisor, p * kind(decay))
        return canonical(p), canonical(m), canonical(v)


def sgd(
    p: Array, g: Array, momentum: Array | None, *, rate: float, decay: float, mu: float, dampening: float,
    nesterov: bool, first_step: bool,
) -> tuple[Array, Array | None]:  # fmt: skip
    """(p, momentum) after a step: d = g + decay·p, momentum = mu·momentum + (1 − dampening)·d, p − rate·d."""
    kind = p.dtype.type
    with np.errstate(all="ignore"):
        d = fma(kind(decay), p, g) if decay != 0 else g
        if momentum is not None:
            momentum = d if first_step else fma(kind(mu), momentum, kind(1 - dampening) * d)
            d = fma(kind(mu), momentum, d) if nesterov else momentum
            momentum = canonical(momentum)
        return canonical(fma(-kind(rate), d, p)), momentum

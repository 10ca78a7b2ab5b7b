"""Losses that keep a router of experts in bounds and its experts busy."""

from __future__ import annotations

from typing import Any

from tensor.functions.creation import eye
from tensor.functions.elementwise import square
from tensor.functions.index_moves import take
from tensor.functions.reductions import logsumexp
from tensor.functions.searching import argmax
from tensor.losses.reduction import classes, classes_within, floats, reduced

__all__ = ["load_balance_loss", "z_loss"]

Tensor = Any


def z_loss(logits: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """The square of logsumexp over the last dimension (Zoph et al. 2022): large logits cost.

    >>> import tensor as tn
    >>> tn.losses.z_loss(tn.asarray([[3.0], [-1.0]]), reduction="none").tolist()
    [9.0, 1.0]
    """
    return reduced("z_loss", square(logsumexp(floats("z_loss", logits, 1), axis=-1)), reduction)


def load_balance_loss(probabilities: Tensor, /, assignment: Tensor | None = None, *, reduction: str = "mean") -> Tensor:
    """E·Σ f·P over E experts: f the share of tokens that went to one, P the mean of its probabilities (Fedus 2022).

    probabilities [..., tokens, experts]; assignment: ints [..., tokens], by default the most probable expert, the first
    of equal ones. f is a constant for gradients. 1 where the load is even. IndexError where an
    assignment is no expert.

    >>> import tensor as tn
    >>> tn.losses.load_balance_loss(tn.asarray([[1.0, 0.0], [0.0, 1.0]])).item()
    1.0
    """
    floats("load_balance_loss", probabilities, 2)
    experts = probabilities.shape[-1]
    chosen = argmax(probabilities, axis=-1) if assignment is None else assignment
    index = classes("load_balance_loss", chosen, probabilities)
    index = classes_within("load_balance_loss", "assignment", index, experts)
    hot = take(eye(experts, dtype=probabilities.dtype, device=probabilities.device), index, axis=0)
    share = hot.mean(axis=-2)
    return reduced("load_balance_loss", (share * probabilities.mean(axis=-2)).sum(axis=-1) * experts, reduction)

"""Losses of classes: of two by one logit, and of many where the easy ones count less. Cross entropy is a row."""

from __future__ import annotations

from typing import Any

from tensor.functions.elementary import expm1, softplus
from tensor.functions.elementwise import pow as power
from tensor.functions.normalization import log_softmax
from tensor.losses.reduction import alike, class_of, classes, classes_within, floats, positive, reduced

__all__ = ["asymmetric_bce", "binary_cross_entropy_loss", "focal_loss"]

Tensor = Any


def binary_cross_entropy_loss(logits: Tensor, targets: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """−t·log σ(z) − (1 − t)·log(1 − σ(z)) from logits z, for targets t from 0 to 1; without overflow.

    >>> import tensor as tn
    >>> tn.losses.binary_cross_entropy_loss(tn.asarray([0.0, 1e4]), tn.asarray([1.0, 1.0]), reduction="none").tolist()
    [0.6931471824645996, 0.0]
    """
    missed, raised = _sides("binary_cross_entropy_loss", logits, targets)
    return reduced("binary_cross_entropy_loss", missed + raised, reduction)


def _sides(name: str, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """What is lost where the target is true, and where it is false."""
    alike(name, logits=logits, targets=targets)
    return softplus(-logits) * targets, softplus(logits) * (1 - targets)


def asymmetric_bce(
    logits: Tensor,
    targets: Tensor,
    /,
    *,
    pos_weight: float = 1.0,
    neg_weight: float = 1.0,
    reduction: str = "mean",
) -> Tensor:
    """`binary_cross_entropy_loss` with a weight for what should be true, and one for what should be false.

    >>> import tensor as tn
    >>> z, t = tn.asarray([0.0, 0.0]), tn.asarray([1.0, 0.0])
    >>> tn.losses.asymmetric_bce(z, t, pos_weight=2.0, reduction="none").tolist()
    [1.3862943649291992, 0.6931471824645996]
    """
    missed, raised = _sides("asymmetric_bce", logits, targets)
    up = positive("asymmetric_bce", "pos_weight", pos_weight, zero=True)
    down = positive("asymmetric_bce", "neg_weight", neg_weight, zero=True)
    return reduced("asymmetric_bce", missed * up + raised * down, reduction)


def focal_loss(
    logits: Tensor,
    targets: Tensor,
    /,
    *,
    gamma: float = 2.0,
    alpha: float | None = None,
    reduction: str = "mean",
) -> Tensor:
    """−alpha·(1 − p)^gamma·log p of each line's class, p under softmax over the last dimension (Lin et al. 2017).

    logits [..., classes], targets: ints [...]. IndexError where a target is no class.

    >>> import tensor as tn
    >>> round(tn.losses.focal_loss(tn.asarray([[0.0, 0.0]]), tn.asarray([1])).item(), 6)
    0.173287
    """
    index = classes("focal_loss", targets, floats("focal_loss", logits, 1))
    g = positive("focal_loss", "gamma", gamma, zero=True)
    index = classes_within("focal_loss", "target", index, logits.shape[-1])
    log_p = class_of(log_softmax(logits), index)
    losses = -log_p if g == 0 else power(-expm1(log_p), g) * -log_p
    if alpha is not None:
        losses = losses * positive("focal_loss", "alpha", alpha, zero=True)
    return reduced("focal_loss", losses, reduction)

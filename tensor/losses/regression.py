"""Losses of numbers that should be near others: squares, sizes, and what lies between them."""

from __future__ import annotations

import math
from typing import Any

from tensor.functions.elementary import softplus
from tensor.functions.elementwise import abs as size_of
from tensor.functions.elementwise import square, where
from tensor.losses.reduction import alike, positive, reduced

__all__ = ["huber_loss", "log_cosh_loss", "mae_loss", "mse_loss", "smooth_l1_loss"]

Tensor = Any


def mse_loss(prediction: Tensor, target: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """The square of the differences.

    >>> import tensor as tn
    >>> tn.losses.mse_loss(tn.asarray([1.0, 4.0]), tn.asarray([0.0, 1.0])).item()
    5.0
    """
    alike("mse_loss", prediction=prediction, target=target)
    return reduced("mse_loss", square(prediction - target), reduction)


def mae_loss(prediction: Tensor, target: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """The size of the differences; its gradient at 0 is 0.

    >>> import tensor as tn
    >>> tn.losses.mae_loss(tn.asarray([1.0, 4.0]), tn.asarray([0.0, 1.0])).item()
    2.0
    """
    alike("mae_loss", prediction=prediction, target=target)
    return reduced("mae_loss", size_of(prediction - target), reduction)


def huber_loss(prediction: Tensor, target: Tensor, /, *, delta: float = 1.0, reduction: str = "mean") -> Tensor:
    """e² / 2 up to |e| = delta, delta·(|e| − delta / 2) beyond (Huber 1964).

    >>> import tensor as tn
    >>> tn.losses.huber_loss(tn.asarray([1.0, 4.0]), tn.asarray([0.0, 1.0]), reduction="none").tolist()
    [0.5, 2.5]
    """
    alike("huber_loss", prediction=prediction, target=target)
    d = positive("huber_loss", "delta", delta)
    error = prediction - target
    size = size_of(error)
    return reduced("huber_loss", where(size <= d, square(error) * 0.5, (size - 0.5 * d) * d), reduction)


def smooth_l1_loss(prediction: Tensor, target: Tensor, /, *, beta: float = 1.0, reduction: str = "mean") -> Tensor:
    """e² / (2·beta) below |e| = beta, |e| − beta / 2 from there on: huber_loss / beta (Girshick 2015).

    >>> import tensor as tn
    >>> tn.losses.smooth_l1_loss(tn.asarray([1.0, 4.0]), tn.asarray([0.0, 1.0]), beta=2.0, reduction="none").tolist()
    [0.25, 2.0]
    """
    alike("smooth_l1_loss", prediction=prediction, target=target)
    b = positive("smooth_l1_loss", "beta", beta)
    error = prediction - target
    size = size_of(error)
    return reduced("smooth_l1_loss", where(size < b, square(error) * (0.5 / b), size - 0.5 * b), reduction)


def log_cosh_loss(prediction: Tensor, target: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """log cosh e, without overflow: like e² / 2 near 0 and |e| − log 2 far from it.

    >>> import tensor as tn
    >>> round(tn.losses.log_cosh_loss(tn.asarray([1.0]), tn.asarray([0.0])).item(), 5)
    0.43378
    """
    alike("log_cosh_loss", prediction=prediction, target=target)
    error = prediction - target
    return reduced("log_cosh_loss", error + softplus(error * -2) - math.log(2.0), reduction)

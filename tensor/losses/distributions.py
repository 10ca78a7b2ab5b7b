"""Distances between distributions: by probabilities, or by samples."""

from __future__ import annotations

from typing import Any

from tensor.errors import ShapeError
from tensor.functions.axes import one_axis
from tensor.functions.elementary import log
from tensor.functions.elementwise import abs as size_of
from tensor.functions.elementwise import where
from tensor.functions.sorting import sort
from tensor.losses.reduction import alike, floats, reduced

__all__ = ["js_divergence", "kl_divergence", "wasserstein_distance"]

Tensor = Any


def _divergence(p: Tensor, q: Tensor, axis: int) -> Tensor:
    """Σ p·log(p / q): 0 where p is, infinite where q alone is 0."""
    used = p != 0  # what is negative or NaN gives NaN
    return where(used, p * (log(where(used, p, 1.0)) - log(where(used, q, 1.0))), 0.0).sum(axis=axis)


def kl_divergence(p: Tensor, q: Tensor, /, *, axis: int = -1, reduction: str = "mean") -> Tensor:
    """Σ p·log(p / q) over an axis of probabilities; 0·log 0 = 0, infinite where q is 0 and p is not.

    >>> import tensor as tn
    >>> p, q = tn.asarray([[1.0, 0.0]]), tn.asarray([[0.5, 0.5]])
    >>> round(tn.losses.kl_divergence(p, q).item(), 6), tn.losses.kl_divergence(q, p).item()
    (0.693147, inf)
    """
    alike("kl_divergence", p=p, q=q)
    return reduced("kl_divergence", _divergence(p, q, one_axis("kl_divergence", axis, p.ndim)), reduction)


def js_divergence(p: Tensor, q: Tensor, /, *, axis: int = -1, reduction: str = "mean") -> Tensor:
    """The mean of the divergences of p and q from (p + q) / 2: from 0 to log 2 (Lin 1991).

    >>> import tensor as tn
    >>> round(tn.losses.js_divergence(tn.asarray([[1.0, 0.0]]), tn.asarray([[0.0, 1.0]])).item(), 6)
    0.693147
    """
    alike("js_divergence", p=p, q=q)
    at = one_axis("js_divergence", axis, p.ndim)
    middle = (p + q) * 0.5
    return reduced("js_divergence", (_divergence(p, middle, at) + _divergence(q, middle, at)) * 0.5, reduction)


def wasserstein_distance(x: Tensor, y: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """The earth mover's distance between as many samples on a line: the mean of |x − y| in ascending order.

    x, y: [..., samples]. ShapeError for no samples.

    >>> import tensor as tn
    >>> tn.losses.wasserstein_distance(tn.asarray([3.0, 1.0]), tn.asarray([2.0, 5.0])).item()
    1.5
    """
    alike("wasserstein_distance", x=x, y=y)
    if floats("wasserstein_distance", x, 1).shape[-1] == 0:
        raise ShapeError(f"wasserstein_distance: no samples in shape {x.shape}")
    return reduced("wasserstein_distance", size_of(sort(x) - sort(y)).mean(axis=-1), reduction)

"""Losses of scores (gradients of log densities) and energies, for models that need no normalisation."""

from __future__ import annotations

from typing import Any

from tensor.errors import ShapeError
from tensor.functions.elementwise import square
from tensor.losses.reduction import alike, floats, positive, reduced

__all__ = [
    "contrastive_divergence_loss",
    "denoising_score_matching_loss",
    "implicit_score_matching_loss",
    "score_matching_loss",
    "vlb_loss",
]

Tensor = Any


def score_matching_loss(score: Tensor, target: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """½·‖s − s*‖² over the last dimension: score and target [..., d] (Hyvärinen 2005).

    >>> import tensor as tn
    >>> tn.losses.score_matching_loss(tn.asarray([[3.0, 4.0]]), tn.asarray([[0.0, 0.0]])).item()
    12.5
    """
    alike("score_matching_loss", score=floats("score_matching_loss", score, 1), target=target)
    return reduced("score_matching_loss", square(score - target).sum(axis=-1) * 0.5, reduction)


def implicit_score_matching_loss(score: Tensor, divergence: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """½·‖s‖² + div s: the same up to a constant without a target (Hyvärinen 2005); score [..., d], divergence [...].

    >>> import tensor as tn
    >>> tn.losses.implicit_score_matching_loss(tn.asarray([[3.0, 4.0]]), tn.asarray([-2.0])).item()
    10.5
    """
    floats("implicit_score_matching_loss", score, 1)
    if floats("implicit_score_matching_loss", divergence).shape != score.shape[:-1]:
        raise ShapeError(
            f"implicit_score_matching_loss: a divergence of shape {score.shape[:-1]} is needed, got {divergence.shape}"
        )
    losses = square(score).sum(axis=-1) * 0.5 + divergence
    return reduced("implicit_score_matching_loss", losses, reduction)


def denoising_score_matching_loss(
    score: Tensor, clean: Tensor, noisy: Tensor, /, sigma: float, *, reduction: str = "mean"
) -> Tensor:
    """½·‖s + (noisy − clean) / sigma²‖², s the score at the noisy point; all [..., d] (Vincent 2011).

    >>> import tensor as tn
    >>> clean, noisy = tn.asarray([[0.0, 0.0]]), tn.asarray([[2.0, 0.0]])
    >>> tn.losses.denoising_score_matching_loss(tn.asarray([[0.0, 1.0]]), clean, noisy, 1.0).item()
    2.5
    """
    name = "denoising_score_matching_loss"
    alike(name, score=floats(name, score, 1), clean=clean, noisy=noisy)
    away = (noisy - clean) / positive(name, "sigma", sigma) ** 2
    return reduced(name, square(score + away).sum(axis=-1) * 0.5, reduction)


def contrastive_divergence_loss(positives: Tensor, negatives: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """E⁺ − E⁻: the energy of data less that of samples, from a chain that starts at the data or persists.

    The samples are constants for gradients: draw them without a tape (Hinton 2002; Tieleman 2008).

    >>> import tensor as tn
    >>> tn.losses.contrastive_divergence_loss(tn.asarray([1.0, 3.0]), tn.asarray([2.0, 0.0])).item()
    1.0
    """
    alike("contrastive_divergence_loss", positives=positives, negatives=negatives)
    return reduced("contrastive_divergence_loss", positives - negatives, reduction)


def vlb_loss(terms: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """The variational bound L₀ + L₁ + … + L_T of each sample from its terms [..., T + 1] (Ho, Jain and Abbeel 2020).

    >>> import tensor as tn
    >>> tn.losses.vlb_loss(tn.asarray([[1.0, 2.0], [3.0, 4.0]])).item()
    5.0
    """
    return reduced("vlb_loss", floats("vlb_loss", terms, 1).sum(axis=-1), reduction)

"""Losses of policies from log probabilities of what was done, before and now, and how well that went."""

from __future__ import annotations

from typing import Any

from tensor.autograd import stop_gradient
from tensor.functions.axes import one_axis
from tensor.functions.elementary import exp
from tensor.functions.elementwise import clip, minimum, sqrt, square
from tensor.losses.reduction import alike, floats, positive, reduced

__all__ = ["cispo_policy_loss", "grpo_policy_loss", "normalize_group_advantages", "ppo_policy_loss"]

Tensor = Any


def normalize_group_advantages(rewards: Tensor, /, *, axis: int = -1, epsilon: float = 1e-8) -> Tensor:
    """(r − mean) / √(variance + epsilon) along an axis, the answers to one question (Shao et al. 2024).

    >>> import tensor as tn
    >>> tn.losses.normalize_group_advantages(tn.asarray([[0.0, 2.0], [5.0, 5.0]])).tolist()
    [[-1.0, 1.0], [0.0, 0.0]]
    """
    floats("normalize_group_advantages", rewards, 1)
    at = one_axis("normalize_group_advantages", axis, rewards.ndim)
    away = rewards - rewards.mean(axis=at, keepdims=True)
    small = positive("normalize_group_advantages", "epsilon", epsilon)
    return away / sqrt(square(away).mean(axis=at, keepdims=True) + small)


def _penalty(new: Tensor, reference: Tensor | None, weight: float) -> Tensor | float:
    """weight · (e^δ − δ − 1) with δ = log p_reference − log p: never below 0, on average the divergence."""
    if reference is None or weight == 0:
        return 0.0
    away = reference - new
    return (exp(away) - away - 1) * weight


def ppo_policy_loss(
    new: Tensor,
    old: Tensor,
    advantages: Tensor,
    /,
    *,
    clip_epsilon: float = 0.2,
    reference: Tensor | None = None,
    kl_weight: float = 0.0,
    mask: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """−min(ρ·A, clip(ρ, 1 − ε, 1 + ε)·A) with ρ = exp(new − old) (Schulman et al. 2017).

    new, old: log probabilities now and when it was done; advantages like them; reference: log probabilities of a policy
    to stay near, at kl_weight. mask: the mean is over where it is 1.

    >>> import tensor as tn
    >>> zero = tn.zeros(2)
    >>> tn.losses.ppo_policy_loss(tn.asarray([1.0, 0.0]), zero, tn.asarray([1.0, -1.0]), reduction="none").tolist()
    [-1.2000000476837158, 1.0]
    """
    alike("ppo_policy_loss", new=new, old=old, advantages=advantages)
    reach = positive("ppo_policy_loss", "clip_epsilon", clip_epsilon)
    ratio = exp(new - old)
    losses = -minimum(ratio * advantages, clip(ratio, 1.0 - reach, 1.0 + reach) * advantages)
    return reduced("ppo_policy_loss", losses + _penalty(new, reference, kl_weight), reduction, mask)


def grpo_policy_loss(
    new: Tensor,
    old: Tensor,
    rewards: Tensor,
    /,
    *,
    axis: int = -1,
    clip_epsilon: float = 0.2,
    reference: Tensor | None = None,
    kl_weight: float = 0.0,
    mask: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`ppo_policy_loss` with advantages from the rewards of a group, along an axis (Shao et al. 2024).

    >>> import tensor as tn
    >>> zero = tn.zeros((1, 2))
    >>> tn.losses.grpo_policy_loss(zero, zero, tn.asarray([[0.0, 2.0]]), reduction="none").tolist()
    [[1.0, -1.0]]
    """
    alike("grpo_policy_loss", new=new, old=old, rewards=rewards)
    advantages = stop_gradient(normalize_group_advantages(rewards, axis=axis))
    return ppo_policy_loss(
        new,
        old,
        advantages,
        clip_epsilon=clip_epsilon,
        reference=reference,
        kl_weight=kl_weight,
        mask=mask,
        reduction=reduction,
    )


def cispo_policy_loss(
    new: Tensor,
    old: Tensor,
    rewards: Tensor,
    /,
    *,
    axis: int = -1,
    epsilon_high: float = 5.0,
    reference: Tensor | None = None,
    kl_weight: float = 0.0,
    mask: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """−min(ρ, epsilon_high)·A·new, the weight a constant for gradients: no token loses its gradient (MiniMax 2025).

    Advantages as in `grpo_policy_loss`.

    >>> import tensor as tn
    >>> old, rewards = tn.zeros((1, 2)), tn.asarray([[0.0, 2.0]])
    >>> tn.losses.cispo_policy_loss(old - 1, old - 1, rewards, reduction="none").tolist()
    [[-1.0, 1.0]]
    """
    alike("cispo_policy_loss", new=new, old=old, rewards=rewards)
    advantages = normalize_group_advantages(rewards, axis=axis)
    high = positive("cispo_policy_loss", "epsilon_high", epsilon_high)
    weight = stop_gradient(minimum(exp(new - old), high) * advantages)
    return reduced("cispo_policy_loss", -weight * new + _penalty(new, reference, kl_weight), reduction, mask)

"""Random choices with derivatives, choices under a mask, and perturbations of low rank that only their key stores."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import one_axis, rows_of, tensor_of
from tensor.random_distributions import categorical, gumbel

if TYPE_CHECKING:
    from tensor.random import Key

__all__ = ["es_low_rank_correction", "gumbel_softmax", "masked_categorical", "perturbed_argmax"]

Tensor = Any

_FLOATS = ("real floating",)
_HINT = "astype(x, float32)"


def _above_zero(name: str, what: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"{name}: {what} must be a finite number above 0, got {value!r}")
    return float(value)


def _hot(x: Tensor, at: int) -> Tensor:
    """1 at the first largest element along an axis, 0 elsewhere, in x's type."""
    from tensor.functions.creation import arange
    from tensor.functions.promotion import cast_to
    from tensor.functions.searching import argmax

    shape = tuple(x.shape[at] if d == at else 1 for d in range(x.ndim))
    number = arange(x.shape[at], device=x.device).reshape(shape)
    return cast_to(number == argmax(x, axis=at, keepdims=True), x.dtype)


def gumbel_softmax(
    key: Key, logits: Tensor, /, *, temperature: float = 1.0, axis: int = -1, hard: bool = False
) -> Tensor:
    """softmax((logits + Gumbel numbers) / temperature) along an axis: a draw with a derivative (Jang, Gu and Poole 2017).

    Its largest entry is that of a draw from softmax(logits). hard: 1 there and 0 elsewhere, with the gradient of the
    soft one. ValueError for a temperature not above 0, DtypeError unless logits are float32 or float64.

    >>> import tensor as tn
    >>> tn.random.gumbel_softmax(tn.random.Key(0), tn.zeros(3), hard=True).tolist()
    [1.0, 0.0, 0.0]
    """  # noqa: E501
    from tensor.autograd import stop_gradient
    from tensor.functions.normalization import softmax

    at = one_axis("gumbel_softmax", axis, rows_of("gumbel_softmax", logits, _FLOATS, _HINT).ndim)
    t = _above_zero("gumbel_softmax", "temperature", temperature)
    noise = gumbel(key, logits.shape, dtype=logits.dtype.name, device=str(logits.device))
    soft = softmax((logits + noise) / t, at)
    return _hot(soft, at) + (soft - stop_gradient(soft)) if hard else soft


def perturbed_argmax(key: Key, x: Tensor, /, *, sigma: float = 1.0, samples: int = 100, axis: int = -1) -> Tensor:
    """How often each element along an axis is the largest of x + sigma · normal numbers: a mean over samples.

    Its derivative is the estimate from the same samples, E[argmax · noise] / sigma (Berthet et al. 2020).

    >>> import tensor as tn
    >>> tn.random.perturbed_argmax(tn.random.Key(0), tn.asarray([0.0, 100.0])).tolist()
    [0.0, 1.0]
    """
    from tensor.autograd import stop_gradient
    from tensor.random import normal

    at = one_axis("perturbed_argmax", axis, rows_of("perturbed_argmax", x, _FLOATS, _HINT).ndim) + 1
    s = _above_zero("perturbed_argmax", "sigma", sigma)
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise ValueError(f"perturbed_argmax: samples must be an int from 1, got {samples!r}")
    noise = normal(key, (samples, *x.shape), dtype=x.dtype.name, device=str(x.device))
    hot = _hot(stop_gradient(x) + noise * s, at)
    # A linear function of x with that derivative; its value is taken away again.
    slope = (hot * (noise * x).sum(axis=at, keepdims=True)).mean(axis=0) / s
    return hot.mean(axis=0) + (slope - stop_gradient(slope))


def masked_categorical(key: Key | None, logits: Tensor, mask: Tensor, /, *, axis: int = -1) -> Tensor:
    """A category along an axis among those where the mask is true, as `categorical` draws it; without a key the best.

    The first of equal ones. DtypeError unless mask is boolean; ValueError where it leaves no category.

    >>> import tensor as tn
    >>> tn.random.masked_categorical(None, tn.asarray([1.0, 5.0, 2.0]), tn.asarray([True, False, True])).item()
    2
    """
    from tensor.functions.elementwise import where
    from tensor.functions.searching import argmax

    at = one_axis("masked_categorical", axis, rows_of("masked_categorical", logits, _FLOATS, _HINT).ndim)
    if tensor_of("masked_categorical", mask).dtype.name != "bool":
        raise DtypeError(f"masked_categorical: mask must be boolean, got {mask.dtype.name}")
    left = where(mask, logits, -math.inf)
    if left.shape != logits.shape:
        raise ShapeError(f"masked_categorical: mask of shape {mask.shape} does not fit logits of shape {logits.shape}")
    if key is not None:
        return categorical(key, left, axis=at)
    if not left.is_traced and not bool((left.detach().max(axis=at) > -math.inf).all()):
        raise ValueError("masked_categorical: a mask leaves no category above -inf")
    return argmax(left, axis=at)


def es_low_rank_correction(
    key: Key,
    x: Tensor,
    members: Tensor,
    /,
    outputs: int,
    *,
    sigma: float,
    rank: int = 1,
    epoch: int = 0,
    antithetic: bool = True,
) -> Tensor:
    """±(sigma / √rank) · (x · B) · Aᵀ: what member m's perturbation of low rank adds to a layer (EGGROLL 2025).

    x [population, …, inputs], members: ints [population]; result [population, …, outputs]. B [inputs, rank] and A
    [outputs, rank] are normal numbers of fold_in(fold_in(key, epoch), m), never stored; with `antithetic` members 2i
    and 2i + 1 share those of i, with opposite signs. float32 or float64.

    >>> import tensor as tn
    >>> both = tn.random.es_low_rank_correction(tn.random.Key(0), tn.ones((2, 3)), tn.asarray([4, 5]), 2, sigma=0.1)
    >>> (both[0] + both[1]).tolist()
    [0.0, 0.0]
    """
    from tensor.functions.elementwise import where
    from tensor.functions.linear_algebra import matmul
    from tensor.random import fold_in, normal

    name = "es_low_rank_correction"
    step = _above_zero(name, "sigma", sigma)
    for what, value in (("rank", rank), ("outputs", outputs)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}: {what} must be an int from 1, got {value!r}")
    if tensor_of(name, x).dtype.name not in ("float32", "float64"):
        raise DtypeError(f"{name}: x must be float32 or float64, got {x.dtype.name}")
    if tensor_of(name, members).dtype.kind not in ("signed integer", "unsigned integer"):
        raise DtypeError(f"{name}: members must be integers, got {members.dtype.name}")
    if x.ndim < 2 or members.shape != x.shape[:1]:
        raise ShapeError(
            f"{name}: expected x [population, …, inputs] and members [population], got {x.shape} and {members.shape}"
        )
    inputs = x.shape[-1]
    numbers = members // 2 if antithetic else members
    own = fold_in(key, epoch)
    keys = fold_in(own, numbers.to_device(str(own.seeds.device)))
    drawn = normal(keys, (inputs + outputs, rank), dtype=x.dtype.name, device=str(x.device))
    right, left = drawn[:, :inputs], drawn[:, inputs:]
    flat = x.reshape((x.shape[0], math.prod(x.shape[1:-1]), inputs))
    result = matmul(matmul(flat, right), left.mT).reshape((*x.shape[:-1], outputs)) * (step / math.sqrt(rank))
    if not antithetic:
        return result
    odd = (members % 2 == 1).reshape((x.shape[0], *(1,) * (x.ndim - 1)))
    return where(odd, -result, result)

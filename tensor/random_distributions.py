"""Draws made of uniform ones: exponential, Gumbel, truncated normal and categorical numbers, and dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import DtypeError
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from tensor.random import Key

__all__ = ["categorical", "dropout", "exponential", "gumbel", "truncated_normal"]

Tensor = Any
Shape = int | Sequence[int]

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def exponential(key: Key, shape: Shape, *, offset: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Numbers above or at 0 from the exponential distribution of mean 1: −log(1 − u) of the uniform number u.

    Element i is made of uniform number i of the same type, so it is at most 16.7 (float16: 7.7, bfloat16: 5.6,
    float64: 36.8).

    >>> from tensor.random import Key
    >>> exponential(Key(0), 3)
    tensor([0.509238, 2.12461 , 1.33072 ], dtype=float32)
    """
    from tensor.functions.elementary import log1p
    from tensor.random import require_key, uniform

    require_key(key, "exponential")
    return -log1p(-uniform(key, shape, offset=offset, dtype=dtype, device=device))


def gumbel(key: Key, shape: Shape, *, offset: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Numbers from the standard Gumbel distribution: −log of exponential numbers, of which 0 is taken for 2^-25.

    float32 unless `dtype` is float64 (there 0 is taken for 2^-54).

    >>> from tensor.random import Key
    >>> gumbel(Key(0), 3)
    tensor([ 0.674841, -0.753587, -0.285719], dtype=float32)
    """
    from tensor.functions.elementary import log
    from tensor.functions.elementwise import maximum
    from tensor.random import require_key

    require_key(key, "gumbel")
    name = _kernels.Dtype("float32" if dtype is None else dtype).name
    if name not in ("float32", "float64"):
        raise DtypeError(f"gumbel: dtype must be float32 or float64, got {name}")
    x = exponential(key, shape, offset=offset, dtype=name, device=device)
    return -log(maximum(x, 2.0**-25 if name == "float32" else 2.0**-54))


def categorical(key: Key, logits: Tensor, shape: Shape = (), *, axis: int = -1) -> Tensor:
    """int64 numbers of categories, with probabilities softmax(logits) along `axis`: argmax of logits + Gumbel numbers.

    The result has `shape` in front of logits' other dimensions. An entry −inf is never drawn. Raises DtypeError unless
    logits hold floats; ValueError if one is NaN or +inf, or if a distribution has no entry above −inf.

    >>> import tensor as tn
    >>> from tensor.random import Key
    >>> categorical(Key(0), tn.log(tn.asarray([0.7, 0.2, 0.1])), 8)
    tensor([0, 0, 1, 0, 0, 0, 0, 0], dtype=int64)
    """
    from tensor.functions.searching import argmax
    from tensor.random import require_key, sizes_of

    require_key(key, "categorical")
    if not isinstance(logits, _kernels.Tensor) or logits.dtype.name not in _FLOATS:
        got = logits.dtype.name if isinstance(logits, _kernels.Tensor) else type(logits).__name__
        raise DtypeError(f"categorical: logits must be a tensor of floats, got {got}")
    if not -logits.ndim <= axis < logits.ndim:
        raise ValueError(f"categorical: axis {axis} names no dimension of logits of shape {logits.shape}")
    if not logits.is_traced:
        _require_distributions(logits, axis)
    front = sizes_of(shape, "categorical")
    name = "float64" if logits.dtype.name == "float64" else "float32"
    noise = gumbel(key, (*front, *logits.shape), dtype=name, device=str(logits.device))
    return argmax(noise + logits, axis=axis % logits.ndim - logits.ndim)


def _require_distributions(logits: Tensor, axis: int) -> None:
    if logits.shape[axis] == 0:
        raise ValueError(f"categorical: axis {axis} of logits of shape {logits.shape} has no category")
    if logits.size == 0:
        return
    best = logits.detach().max(axis=axis)
    if not bool((best < math.inf).all()):
        raise ValueError("categorical: logits must be numbers or -inf, got NaN or inf")
    if not bool((best > -math.inf).all()):
        raise ValueError("categorical: a distribution has only -inf, so no category can be drawn")


def truncated_normal(
    key: Key,
    lower: float,
    upper: float,
    shape: Shape,
    *,
    offset: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Numbers from the standard normal distribution between lower and upper, by its inverse at uniform numbers.

    Computed in float64 from its uniform numbers, and rounded once to `dtype` (float32): x is from lower to upper, both
    rounded like it. Raises ValueError unless lower < upper are numbers (or infinite) between which at least 2^-30 of
    the distribution lies.

    >>> from tensor.random import Key
    >>> truncated_normal(Key(0), -2, 2, 3)
    tensor([ 1.09484 ,  0.255114, -0.336184], dtype=float32)
    """
    from tensor.functions.elementwise import clip
    from tensor.random import require_key, uniform

    require_key(key, "truncated_normal")
    low, high = _number("truncated_normal", "lower", lower), _number("truncated_normal", "upper", upper)
    if not low < high:
        raise ValueError(f"truncated_normal: lower must be below upper, got {low} and {high}")
    mirrored = low + high > 0  # far above 0 the distribution function is near 1 and has no digits left: below 0 it has
    if mirrored:
        low, high = -high, -low
    with plain_mode():
        first, last = _share_below(low), _share_below(high)
        if not last - first >= 2.0**-30:
            raise ValueError(f"truncated_normal: from {lower} to {upper} there is less than 2**-30 of the distribution")
    u = uniform(key, shape, offset=offset, dtype="float64", device=device)
    x = clip(_quantile(u * (last - first) + first), low, high)
    wanted = _kernels.Dtype("float32" if dtype is None else dtype)
    if wanted.name not in _FLOATS:
        raise DtypeError(f"truncated_normal: dtype must be one of floats, got {wanted.name}")
    return (-x if mirrored else x).to(wanted)


def dropout(key: Key, x: Tensor, p: float) -> Tensor:
    """x with each element replaced by 0 with probability p, the others times 1 / (1 − p).

    Kept is what has a uniform number u ≥ p: all for p = 0; for p = 1 nothing, and zeros come out. Differentiable in x.
    Raises ValueError unless 0 ≤ p ≤ 1, DtypeError unless x holds floats.

    >>> import tensor as tn
    >>> from tensor.random import Key
    >>> dropout(Key(0), tn.ones(4), 0.5)
    tensor([0., 2., 2., 2.], dtype=float32)
    """
    from tensor.functions.elementwise import where
    from tensor.random import bernoulli, require_key

    require_key(key, "dropout")
    share = _number("dropout", "p", p)
    if not 0 <= share <= 1:
        raise ValueError(f"dropout: p must be from 0 to 1, got {p}")
    if not isinstance(x, _kernels.Tensor) or x.dtype.name not in _FLOATS:
        got = x.dtype.name if isinstance(x, _kernels.Tensor) else type(x).__name__
        raise DtypeError(f"dropout: x must be a tensor of floats, got {got}")
    gone = bernoulli(key, share, x.shape, device=str(x.device))
    with plain_mode():
        scale = 1 / (1 - share) if share < 1 else 0.0
    return where(gone, _kernels.full((), 0, x.dtype, x.device), x) * scale


def _number(function: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, _kernels.Tensor):
        raise TypeError(f"{function}: {name} must be a number, got {type(value).__name__}")
    return float(value)


# --- the normal distribution's inverse -------------------------------------------------------------------------------

# Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37 (1988), PPND16:
# quotients of polynomials, highest power first. Within 0.425 of the middle; in the tails by r = √(−log share),
# up to 5 and beyond.
_MIDDLE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)  # fmt: skip
_NEAR = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
     3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0),
)  # fmt: skip
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip
_SHARE_MIN = 2.0**-100  # what is nearer to 0 or 1 counts as this


def _share_below(x: float) -> float:
    """How much of the standard normal distribution lies below x."""
    from tensor.functions.elementary import erfc

    return float((erfc(_kernels.full((), -x * 0.7071067811865476, "float64")) * 0.5).item())


def _quotient(pair: tuple[tuple[float, ...], tuple[float, ...]], r: Tensor) -> Tensor:
    values = []
    for coefficients in pair:
        value = r * coefficients[0] + coefficients[1]
        for c in coefficients[2:]:
            value = value * r + c
        values.append(value)
    return values[0] / values[1]


def _quantile(share: Tensor) -> Tensor:
    """The x below which that share of the standard normal distribution lies; float64."""
    from tensor.functions.elementary import log
    from tensor.functions.elementwise import abs as size
    from tensor.functions.elementwise import maximum, minimum, sqrt, where

    q = share - 0.5
    r = sqrt(-log(maximum(minimum(share, 1.0 - share), _SHARE_MIN)))
    tail = where(r <= 5.0, _quotient(_NEAR, r - 1.6), _quotient(_FAR, r - 5.0))
    return where(size(q) <= 0.425, q * _quotient(_MIDDLE, 0.180625 - q * q), where(q < 0.0, -tail, tail))

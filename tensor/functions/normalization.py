"""softmax, log_softmax, layer_norm, rms_norm and cross entropy: one fused kernel each way; norms that are made of them.

Means and sums have one fixed order. float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import one_axis, rows_of, run, tensor_of

__all__ = [
    "cross_entropy",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "log_softmax",
    "rms_norm",
    "rmsnorm_safe",
    "softmax",
    "spectral_norm",
    "weight_norm",
]

Tensor = Any

_FLOATS = ("real floating",)
_HINT = "astype(x, float32)"


def softmax(x: Tensor, /, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, without overflow; NaN for a line of −inf.

    >>> import tensor as tn
    >>> tn.softmax(tn.asarray([1e4, 0.0])).tolist()
    [1.0, 0.0]
    """
    at = one_axis("softmax", axis, rows_of("softmax", x, _FLOATS, _HINT).ndim)
    return run("softmax", "softmax", (x,), {"axis": at})


def log_softmax(x: Tensor, /, axis: int = -1) -> Tensor:
    """The logarithm of softmax along an axis.

    >>> import tensor as tn
    >>> tn.log_softmax(tn.asarray([1e4, 0.0])).tolist()
    [0.0, -10000.0]
    """
    at = one_axis("log_softmax", axis, rows_of("log_softmax", x, _FLOATS, _HINT).ndim)
    return run("log_softmax", "softmax", (x,), {"axis": at})


def _trailing(name: str, x: Tensor, shape: Any) -> int:
    """How many last dimensions the normalised shape covers."""
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    if not wanted or x.shape[x.ndim - len(wanted) :] != wanted:
        raise ShapeError(f"{name}: {wanted} are not the last dimensions of shape {x.shape}")
    return len(wanted)


def layer_norm(
    x: Tensor,
    /,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
) -> Tensor:
    """((x − mean) / sqrt(variance + epsilon))·weight + bias over the last dimensions; the variance is biased.

    >>> import tensor as tn
    >>> tn.layer_norm(tn.asarray([1.0, 3.0]), 2, epsilon=0.0).tolist()
    [-1.0, 1.0]
    """
    trailing = _trailing("layer_norm", rows_of("layer_norm", x, _FLOATS, _HINT), normalized_shape)
    inputs = tuple(t for t in (x, weight, bias) if t is not None)
    params = {"trailing": trailing, "epsilon": float(epsilon), "weight": weight is not None, "bias": bias is not None}
    return run("layer_norm", "normalization", inputs, params)[0]


def rms_norm(
    x: Tensor, /, normalized_shape: int | Sequence[int], weight: Tensor | None = None, *, epsilon: float | None = None
) -> Tensor:
    """(x / sqrt(mean of squares + epsilon))·weight over the last dimensions; epsilon is by default the type's.

    >>> import tensor as tn
    >>> tn.rms_norm(tn.asarray([3.0, 3.0]), 2, epsilon=0.0).tolist()
    [1.0, 1.0]
    """
    trailing = _trailing("rms_norm", rows_of("rms_norm", x, _FLOATS, _HINT), normalized_shape)
    if epsilon is None:
        from tensor.functions.dtypes import finfo

        epsilon = finfo(x.dtype).eps
    inputs = (x,) if weight is None else (x, weight)
    params = {"trailing": trailing, "epsilon": float(epsilon), "weight": weight is not None}
    return run("rms_norm", "normalization", inputs, params)[0]


def rmsnorm_safe(x: Tensor, /, *, epsilon: float = 1e-6) -> Tensor:
    """x / max(√(mean of squares), epsilon) along the last dimension: lines near zero are not blown up.

    Where the epsilon counts, the gradient is that of x / epsilon. ValueError unless epsilon is above 0.

    >>> import tensor as tn
    >>> tn.rmsnorm_safe(tn.asarray([[3.0, -3.0], [0.0, 0.0]])).tolist()
    [[1.0, -1.0], [0.0, 0.0]]
    """
    if not epsilon > 0:
        raise ValueError(f"rmsnorm_safe: epsilon must be above 0, got {epsilon!r}")
    if rows_of("rmsnorm_safe", x, _FLOATS, _HINT).ndim == 0:
        raise ShapeError("rmsnorm_safe: a tensor without dimensions has no lines")
    from tensor.autograd import stop_gradient
    from tensor.functions.elementwise import abs as size_of
    from tensor.functions.elementwise import maximum, sqrt, square

    if x.shape[-1] == 0:
        return x
    # In units of the largest element, so that no square overflows or vanishes.
    unit = maximum(stop_gradient(size_of(x).max(axis=-1, keepdims=True)), float(epsilon))
    y = x / unit
    return y / sqrt(maximum(square(y).mean(axis=-1, keepdims=True), square(float(epsilon) / unit)))


def group_norm(
    x: Tensor, /, groups: int, weight: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float = 1e-5
) -> Tensor:
    """x [n, channels, …] normalised over each group of neighbouring channels (Wu and He 2018), then scaled by channel.

    Each group of an element has mean 0 and biased variance 1; weight and bias: one value a channel. ShapeError where
    the groups don't divide the channels.

    >>> import tensor as tn
    >>> tn.group_norm(tn.asarray([[1.0, 3.0, 0.0, 8.0]]), 2, epsilon=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    if rows_of("group_norm", x, _FLOATS, _HINT).ndim < 2:
        raise ShapeError(f"group_norm: expected [n, channels, …], got shape {x.shape}")
    n, channels = x.shape[:2]
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1 or channels % groups:
        raise ShapeError(f"group_norm: {channels} channels cannot be cut into {groups} groups")
    flat = x.reshape((n, groups, -1)) if x.size else x.reshape((n, groups, 0))
    params = {"trailing": 1, "epsilon": float(epsilon), "weight": False, "bias": False}
    result = run("layer_norm", "normalization", (flat,), params)[0].reshape(x.shape)
    for what, t in (("weight", weight), ("bias", bias)):
        if t is not None and tensor_of("group_norm", t).shape != (channels,):
            raise ShapeError(f"group_norm: the {what} must have shape {(channels,)}, got {t.shape}")
    by_channel = (channels, *(1,) * (x.ndim - 2))
    if weight is not None:
        result = result * weight.reshape(by_channel)
    return result if bias is None else result + bias.reshape(by_channel)


def instance_norm(
    x: Tensor, /, weight: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float = 1e-5
) -> Tensor:
    """`group_norm` with a group for each channel: x [n, channels, …] normalised over its places.

    >>> import tensor as tn
    >>> tn.instance_norm(tn.asarray([[[1.0, 3.0], [0.0, 8.0]]]), epsilon=0.0).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    if rows_of("instance_norm", x, _FLOATS, _HINT).ndim < 3:
        raise ShapeError(f"instance_norm: expected [n, channels, places, …], got shape {x.shape}")
    return group_norm(x, max(x.shape[1], 1), weight, bias, epsilon=epsilon)


def weight_norm(v: Tensor, g: Tensor | None = None, /, *, axis: int = 0) -> Tensor:
    """g · v / ‖v‖, the norm over all dimensions but the axis (Salimans and Kingma 2016); g: one a slice, 1 without it.

    >>> import tensor as tn
    >>> tn.weight_norm(tn.asarray([[3.0, 4.0], [0.0, 2.0]]), tn.asarray([10.0, 1.0])).tolist()
    [[6.0, 8.0], [0.0, 1.0]]
    """
    at = one_axis("weight_norm", axis, rows_of("weight_norm", v, _FLOATS, _HINT).ndim)
    others = tuple(d for d in range(v.ndim) if d != at)
    from tensor.functions.statistics import norm

    direction = v / norm(v, axis=others, keepdims=True)
    if g is None:
        return direction
    if tensor_of("weight_norm", g).shape != (v.shape[at],):
        raise ShapeError(f"weight_norm: g must have shape {(v.shape[at],)}, got {g.shape}")
    return direction * g.reshape(tuple(n if d == at else 1 for d, n in enumerate(v.shape)))


def spectral_norm(weight: Tensor, /, *, epsilon: float = 1e-12) -> Tensor:
    """weight [m, …] / its largest singular value as a matrix of m rows (Miyato et al. 2018), not below epsilon.

    The exact value by `linalg.svd`, through which the gradient passes: float32 or float64.

    >>> import tensor as tn
    >>> tn.spectral_norm(tn.asarray([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [[1.0, 0.0], [0.0, 0.5]]
    """
    from tensor import linalg
    from tensor.functions.elementwise import maximum

    if rows_of("spectral_norm", weight, _FLOATS, _HINT).ndim < 2:
        raise ShapeError(f"spectral_norm: expected a matrix or more dimensions, got shape {weight.shape}")
    largest = linalg.svd(weight.reshape((weight.shape[0], -1)), full_matrices=False).S[0]
    return weight / maximum(largest, float(epsilon))


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    /,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of classes under softmax.

    logits: [rows, classes], or [rows, classes, …] or [classes] as PyTorch has them. targets: ints, one a row; rows with
    ignore_index count for nothing. reduction: "mean" over the rows that count (NaN if there is none), "sum", or "none".
    IndexError where a target is no class.

    >>> import tensor as tn
    >>> round(tn.cross_entropy(tn.asarray([[2.0, 0.0]]), tn.asarray([0])).item(), 6)
    0.126928
    """
    if reduction not in {"mean", "sum", "none"}:
        raise ValueError(f"cross_entropy: reduction must be mean, sum or none, got {reduction!r}")
    rows_of("cross_entropy", logits, _FLOATS, _HINT)
    if tensor_of("cross_entropy", targets).dtype.kind not in ("signed integer", "unsigned integer"):
        raise DtypeError(f"cross_entropy: targets must be integers, got {targets.dtype.name}")
    if targets.dtype != "int64":
        from tensor.functions.promotion import cast_to

        targets = cast_to(targets, "int64")
    if logits.ndim == 0:
        raise ShapeError("cross_entropy: logits need a dimension of classes")
    shape = targets.shape
    if logits.ndim == 1:
        logits, targets = logits.reshape((1, -1)), targets.reshape((-1,))
    elif logits.ndim > 2:
        order = (0, *range(2, logits.ndim), 1)
        logits = logits.permute(order).reshape((-1, logits.shape[1]))
        targets = targets.reshape((-1,))
    params = {"ignore_index": int(ignore_index), "smoothing": float(label_smoothing)}
    losses, _ = run("cross_entropy", "cross_entropy", (logits, targets), params)
    if reduction == "none":
        return losses.reshape(shape)
    total = losses.sum()
    if reduction == "sum":
        return total
    used = (targets.detach() != int(ignore_index)).sum()
    from tensor.functions.promotion import cast_to

    return total / cast_to(used, total.dtype)

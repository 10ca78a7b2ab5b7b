"""Rows of cross entropy: the loss of each row of logits and its gradient, each in one pass.

Sums have the order of tensor/twins/fold_ref.py. float16 and bfloat16 are computed in float32; logsumexps that backward
needs stay in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.primitives.primitive import FLOATS, Params, Primitive, Sample, keep
from tensor.primitives.reductions import check_dtype
from tensor.primitives.registry import register
from tensor.primitives.rules import (
    BatchRule,
    apply,
    batch_size,
    call,
    cast_like,
    expand_to,
    flops_each,
    front,
    wide,
)
from tensor.primitives.spec import Spec, name_of

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]
Dims = tuple[int | None, ...]

CATEGORY = "normalization"


def _check_entropy(name: str, logits: Any, targets: Any, params: Params) -> None:
    check_dtype(name, logits, FLOATS)
    if logits.ndim != 2 or targets.shape != logits.shape[:1]:
        raise ShapeError(
            f"{name}: logits [rows, classes] and targets [rows] are needed, got {logits.shape} and {targets.shape}"
        )
    if name_of(targets.dtype) != "int64":
        raise DtypeError(f"{name}: targets must be int64, got {name_of(targets.dtype)}")
    if not 0 <= params["smoothing"] <= 1:
        raise ShapeError(f"{name}: label smoothing must be from 0 to 1, got {params['smoothing']}")


def _entropy_shape(specs: Specs, params: Params) -> tuple[Spec, Spec]:
    x, targets = specs
    _check_entropy("cross_entropy", x, targets, params)
    return Spec(x.shape[:1], x.dtype, x.device), Spec(x.shape[:1], wide(x.dtype), x.device)


def _entropy_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.cross_entropy(*inputs, params["ignore_index"], params["smoothing"], *outs)


def _check_targets(targets: Any, classes: int, ignore_index: int) -> None:
    wrong = (targets != ignore_index) & ((targets < 0) | (targets >= classes))
    if wrong.any():
        row = int(wrong.argmax())
        raise IndexError(f"cross_entropy: target {int(targets[row])} of row {row} is no class from 0 to {classes - 1}")


def _entropy_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.softmax_ref import cross_entropy

    _check_targets(arrays[1], arrays[0].shape[1], params["ignore_index"])
    x, targets = arrays
    return cross_entropy(x, targets, params["ignore_index"], params["smoothing"])


def _entropy_vjp(g: Any, node: Any) -> tuple[Tensor | None, None]:
    x, targets = node.inputs
    lse = node.outputs[1]
    dx = None
    if g[0] is not None:
        dx = call("cross_entropy_backward", g[0], x, targets, lse, **node.params)
    if g[1] is not None:  # logsumexp is a result too
        more = expand_to(cast_like(g[1], x).reshape((x.shape[0], 1)), x.shape) * call("softmax", x, axis=1)
        dx = more if dx is None else dx + more
    return dx, None


def _entropy_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    x, targets = arrays
    lse = np.log(np.exp(x).sum(1))
    used = targets != params["ignore_index"]
    picked = x[np.arange(len(x)), np.where(used, targets, 0)]
    s = params["smoothing"]
    return np.where(used, (1 - s) * (lse - picked) + s * (lse - x.mean(1)), 0), lse


def _entropy_samples(rng: np.random.Generator) -> Iterable[Sample]:
    import numpy as np

    for rows, classes, smoothing in ((4, 5, 0.0), (3, 2, 0.1), (1, 7, 0.5)):
        targets = rng.integers(0, classes, rows).astype(np.int64)
        if rows > 3:
            targets[1] = -100
        yield Sample(rng.normal(size=(rows, classes)), targets, params={"ignore_index": -100, "smoothing": smoothing})


def _entropy_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    """Rows are independent: the batch is more rows."""
    n = batch_size(inputs, dims)
    moved = [expand_to(x, (n, *x.shape)) if d is None else front(x, d) for x, d in zip(inputs, dims, strict=True)]
    rows = moved[0].shape[1]
    outs = apply(primitive, tuple(x.reshape((n * rows, *x.shape[2:])) for x in moved), params)
    if isinstance(outs, tuple):
        return tuple(y.reshape((n, rows, *y.shape[1:])) for y in outs), (0,) * len(outs)
    return outs.reshape((n, rows, *outs.shape[1:])), 0


CROSS_ENTROPY = register(
    Primitive(
        "cross_entropy",
        category=CATEGORY,
        summary="The negative log-likelihood of each row's class under softmax, 0 where ignored; and logsumexp.",
        dtypes=FLOATS,
        shape=_entropy_shape,
        kernel=_entropy_kernel,
        twin=_entropy_twin,
        keeps=keep(inputs=(0, 1), outputs=(1,)),
        vjp=_entropy_vjp,
        sparse_gradients=True,
        batch=BatchRule(_entropy_batch),
        cost=flops_each(20),
        samples=_entropy_samples,
        oracle=_entropy_oracle,
    )
)


def _entropy_backward_shape(specs: Specs, params: Params) -> Spec:
    g, x, targets, lse = specs
    _check_entropy("cross_entropy_backward", x, targets, params)
    if g.shape != x.shape[:1] or lse.shape != x.shape[:1] or g.dtype != x.dtype or name_of(lse.dtype) != wide(x.dtype):
        raise ShapeError(f"cross_entropy_backward: g and logsumexp must be one a row of {x!r}, got {g!r} and {lse!r}")
    return Spec(x.shape, x.dtype, x.device)


def _entropy_backward_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.cross_entropy_backward(*inputs, params["ignore_index"], params["smoothing"], outs[0])


def _entropy_backward_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.softmax_ref import cross_entropy_backward

    _check_targets(arrays[2], arrays[1].shape[1], params["ignore_index"])
    g, x, targets, lse = arrays
    return cross_entropy_backward(g, x, targets, lse, params["ignore_index"], params["smoothing"])


def _entropy_backward_vjp(h: Tensor, node: Any) -> tuple[Tensor | None, ...]:
    g, x, targets, lse = node.inputs
    rows = x.shape[0]
    params = node.params
    from tensor.functions.creation import ones

    used = call("cast", targets != params["ignore_index"], dtype=name_of(x.dtype)).reshape((rows, 1))
    p = call("exp", x - expand_to(cast_like(lse, x).reshape((rows, 1)), x.shape))
    weight = expand_to(g.reshape((rows, 1)) * used, x.shape)
    hp = h * p * weight
    one = call("cross_entropy_backward", ones((rows,), dtype=x.dtype, device=x.device), x, targets, lse, **params)
    d_g = call("sum", h * one, axis=(1,), keepdims=False)
    d_lse = -call("sum", hp, axis=(1,), keepdims=False)
    return d_g, hp, None, cast_like(d_lse, lse)


def _entropy_backward_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    g, x, targets, lse = arrays
    used = targets != params["ignore_index"]
    hot = np.zeros_like(x)
    hot[np.flatnonzero(used), targets[used]] = 1 - params["smoothing"]
    return g[:, None] * (np.exp(x - lse[:, None]) - params["smoothing"] / x.shape[1] - hot) * used[:, None]


def _entropy_backward_samples(rng: np.random.Generator) -> Iterable[Sample]:
    import numpy as np

    for s in _entropy_samples(rng):
        x, targets = s.inputs
        lse = np.log(np.exp(x).sum(1))
        yield Sample(rng.normal(size=len(x)), x, targets, lse, params=s.params, dtypes=("float32", "float64"))


CROSS_ENTROPY_BACKWARD = register(
    Primitive(
        "cross_entropy_backward",
        category=CATEGORY,
        summary="The gradient of cross_entropy with respect to its logits, from that of each row's loss.",
        dtypes=FLOATS,
        shape=_entropy_backward_shape,
        kernel=_entropy_backward_kernel,
        twin=_entropy_backward_twin,
        keeps=keep(inputs=range(4)),
        vjp=_entropy_backward_vjp,
        batch=BatchRule(_entropy_batch),
        cost=flops_each(20),
        samples=_entropy_backward_samples,
        oracle=_entropy_backward_oracle,
    )
)

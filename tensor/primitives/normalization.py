"""Rows of layer_norm and rms_norm, with their fused backward row.

Sums have the order of tensor/twins/fold_ref.py. float16 and bfloat16 are computed in float32; means and scales that
backward needs stay in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
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
    loop_batch,
    unbroadcast,
    wide,
)
from tensor.primitives.spec import Spec, name_of

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]
Dims = tuple[int | None, ...]

CATEGORY = "normalization"


def _split(x: Any, trailing: int, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not 1 <= trailing <= x.ndim:
        raise ShapeError(f"{name}: {trailing} last dimensions are not to be had of shape {x.shape}")
    return x.shape[: x.ndim - trailing], x.shape[x.ndim - trailing :]


def _check_parameters(name: str, x: Any, parameters: Specs, shape: tuple[int, ...]) -> None:
    for p in parameters:
        if p.shape != shape:
            raise ShapeError(f"{name}: weight and bias must have the normalised shape {shape}, got {p.shape}")
        if p.dtype != x.dtype:
            raise DtypeError(f"{name}: weight and bias must have x's type {name_of(x.dtype)}, got {name_of(p.dtype)}")


def _layer_shape(specs: Specs, params: Params) -> tuple[Spec, Spec, Spec]:
    x = specs[0]
    check_dtype("layer_norm", x, FLOATS)
    before, last = _split(x, params["trailing"], "layer_norm")
    _check_parameters("layer_norm", x, specs[1:], last)
    kept = Spec(before, wide(x.dtype), x.device)
    return Spec(x.shape, x.dtype, x.device), kept, kept


def _rms_shape(specs: Specs, params: Params) -> tuple[Spec, Spec]:
    x = specs[0]
    check_dtype("rms_norm", x, FLOATS)
    before, last = _split(x, params["trailing"], "rms_norm")
    _check_parameters("rms_norm", x, specs[1:], last)
    return Spec(x.shape, x.dtype, x.device), Spec(before, wide(x.dtype), x.device)


def _parameters(given: Sequence[Any], params: Params) -> tuple[Any | None, Any | None]:
    """(weight, bias) of the inputs behind x."""
    rest = iter(given)
    weight = next(rest) if params["weight"] else None
    return weight, next(rest) if params["bias"] else None


def _layer_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    weight, bias = _parameters(inputs[1:], params)
    _kernels.layer_norm(inputs[0], weight, bias, params["trailing"], params["epsilon"], *outs)


def _layer_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.norm_ref import layer_norm

    return layer_norm(arrays[0], *_parameters(arrays[1:], params), params["trailing"], params["epsilon"])


def _rms_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    weight = inputs[1] if params["weight"] else None
    _kernels.rms_norm(inputs[0], weight, params["trailing"], params["epsilon"], *outs)


def _rms_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.norm_ref import rms_norm

    return rms_norm(arrays[0], arrays[1] if params["weight"] else None, params["trailing"], params["epsilon"])


def _norm_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    x = arrays[0]
    axes = tuple(range(x.ndim - params["trailing"], x.ndim))
    layer = "bias" in params
    mean = x.mean(axes, keepdims=True) if layer else np.zeros(())
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + params["epsilon"])
    weight, bias = _parameters(arrays[1:], {"bias": False, **params})
    y = (x - mean) * rstd * (1 if weight is None else weight) + (0 if bias is None else bias)
    kept = x.shape[: x.ndim - params["trailing"]]
    return (y, mean.reshape(kept), rstd.reshape(kept)) if layer else (y, rstd.reshape(kept))


def _normalised(x: Tensor, mean: Tensor | None, rstd: Tensor, trailing: int) -> tuple[Tensor, Tensor]:
    """u = (x − mean)·rstd in x's type, and rstd spread over it: for gradients of gradients."""
    shape = (*x.shape[: x.ndim - trailing], *(1,) * trailing)
    kind = name_of(x.dtype)

    def spread(v: Tensor) -> Tensor:
        v = v if name_of(v.dtype) == kind else call("cast", v, dtype=kind)
        return expand_to(v.reshape(shape), x.shape)

    scale = spread(rstd)
    return (x if mean is None else x - spread(mean)) * scale, scale


def _statistics_gradient(g: Any, node: Any, layer: bool) -> Tensor | None:
    """What flows into x through the results mean and rstd, if anything was asked of them."""
    x = node.inputs[0]
    trailing = node.params["trailing"]
    n = max(math.prod(x.shape[x.ndim - trailing :]), 1)
    shape = (*x.shape[: x.ndim - trailing], *(1,) * trailing)
    mean = node.outputs[1] if layer else None
    rstd = node.outputs[2 if layer else 1]
    u, _ = _normalised(x, mean, rstd, trailing)
    kind = name_of(x.dtype)

    def spread(v: Tensor) -> Tensor:
        v = v if name_of(v.dtype) == kind else call("cast", v, dtype=kind)
        return expand_to(v.reshape(shape), x.shape)

    # d rstd / dx = −rstd²·u / n; d mean / dx = 1 / n
    total = spread(g[2 if layer else 1] * rstd * rstd) * u * (-1.0 / n)
    return total + spread(g[1]) * (1.0 / n) if layer else total


def _norm_vjp(layer: bool) -> Callable[[Any, Any], tuple[Tensor | None, ...]]:
    def vjp(g: Any, node: Any) -> tuple[Tensor | None, ...]:
        params = node.params
        has_weight, has_bias = params["weight"], layer and params["bias"]
        x = node.inputs[0]
        weight = (node.inputs[1],) if has_weight else ()
        statistics = node.outputs[1:]
        dx, *rest = (None, None, None)
        if g[0] is not None:
            results = call(
                "norm_backward", g[0], x, *statistics, *weight, trailing=params["trailing"], layer=layer,
                weight=has_weight, bias=has_bias,
            )  # fmt: skip
            dx, *rest = results if isinstance(results, tuple) else (results,)
        if any(part is not None for part in g[1:]):
            filled = (g[0], *(statistics[i] * 0 if part is None else part for i, part in enumerate(g[1:])))
            more = _statistics_gradient(filled, node, layer)
            dx = more if dx is None else dx + more
        gradients = iter(rest)
        return (dx, *((next(gradients),) if has_weight else ()), *((next(gradients),) if has_bias else ()))

    return vjp


def _parameter_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    """x's batch stands in front; a batch of weights or biases runs one by one, for the same bits."""
    if any(d is not None for d in dims[1:]) or dims[0] is None:
        return loop_batch(primitive, inputs, dims, params)
    outs = apply(primitive, (front(inputs[0], dims[0]), *inputs[1:]), params)
    return outs, (0,) * len(outs)


def _layer_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, trailing, weight, bias in (
        ((3, 5), 1, True, True),
        ((2, 3, 4), 2, True, False),
        ((2, 6), 1, False, True),
        ((6,), 1, False, False),
    ):
        last = shape[len(shape) - trailing :]
        parameters = [rng.normal(size=last) for given in (weight, bias) if given]
        yield Sample(
            rng.normal(size=shape), *parameters,
            params={"trailing": trailing, "epsilon": 1e-5, "weight": weight, "bias": bias},
        )  # fmt: skip


def _rms_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, trailing, weight in (((3, 5), 1, True), ((2, 3, 4), 2, True), ((6,), 1, False)):
        parameters = [rng.normal(size=shape[len(shape) - trailing :])] if weight else []
        yield Sample(
            rng.normal(size=shape), *parameters, params={"trailing": trailing, "epsilon": 1e-6, "weight": weight}
        )


LAYER_NORM = register(
    Primitive(
        "layer_norm",
        category=CATEGORY,
        summary="((x − mean)·rstd)·weight + bias over the last dimensions; results: that, mean, rstd.",
        dtypes=FLOATS,
        shape=_layer_shape,
        kernel=_layer_kernel,
        twin=_layer_twin,
        keeps=keep(inputs=(0, 1), outputs=(1, 2)),
        vjp=_norm_vjp(True),
        sparse_gradients=True,
        batch=BatchRule(_parameter_batch),
        cost=flops_each(8),
        samples=_layer_samples,
        oracle=_norm_oracle,
    )
)

RMS_NORM = register(
    Primitive(
        "rms_norm",
        category=CATEGORY,
        summary="(x·rstd)·weight over the last dimensions, rstd = 1 / sqrt(mean of squares + epsilon); and rstd.",
        dtypes=FLOATS,
        shape=_rms_shape,
        kernel=_rms_kernel,
        twin=_rms_twin,
        keeps=keep(inputs=(0, 1), outputs=(1,)),
        vjp=_norm_vjp(False),
        sparse_gradients=True,
        batch=BatchRule(_parameter_batch),
        cost=flops_each(5),
        samples=_rms_samples,
        oracle=_norm_oracle,
    )
)


def _backward_parts(given: Sequence[Any], params: Params) -> tuple[Any, Any, Any | None, Any, Any | None]:
    """(g, x, mean, rstd, weight) of the inputs of norm_backward."""
    g, x, *rest = given
    mean = rest.pop(0) if params["layer"] else None
    rstd = rest.pop(0)
    return g, x, mean, rstd, rest[0] if params["weight"] else None


def _backward_shape(specs: Specs, params: Params) -> tuple[Spec, ...]:
    g, x, mean, rstd, weight = _backward_parts(specs, params)
    check_dtype("norm_backward", x, FLOATS)
    before, last = _split(x, params["trailing"], "norm_backward")
    if g.shape != x.shape or g.dtype != x.dtype:
        raise ShapeError(f"norm_backward: g and x must be alike, got {g!r} and {x!r}")
    for s in (mean, rstd):
        if s is not None and (s.shape != before or name_of(s.dtype) != wide(x.dtype)):
            raise ShapeError(f"norm_backward: mean and rstd must be {wide(x.dtype)} of shape {before}, got {s!r}")
    _check_parameters("norm_backward", x, () if weight is None else (weight,), last)
    parameter = Spec(last, x.dtype, x.device)
    return (Spec(x.shape, x.dtype, x.device), *(parameter for asked in ("weight", "bias") if params[asked]))


def _backward_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    g, x, mean, rstd, weight = _backward_parts(inputs, params)
    d_weight, d_bias = _parameters(outs[1:], params)
    _kernels.norm_backward(g, x, mean, rstd, weight, params["trailing"], outs[0], d_weight, d_bias)


def _backward_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.norm_ref import norm_backward

    dx, d_weight, d_bias = norm_backward(*_backward_parts(arrays, params), params["trailing"])
    return (dx, *((d_weight,) if params["weight"] else ()), *((d_bias,) if params["bias"] else ()))


def _backward_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    g, x, mean, rstd, weight = _backward_parts(arrays, params)
    trailing = params["trailing"]
    axes = tuple(range(x.ndim - trailing, x.ndim))
    kept = (*x.shape[: x.ndim - trailing], *(1,) * trailing)
    scale = rstd.reshape(kept)
    u = (x if mean is None else x - mean.reshape(kept)) * scale
    v = g if weight is None else g * weight
    moved = v if mean is None else v - v.mean(axes, keepdims=True)
    dx = scale * (moved - u * (v * u).mean(axes, keepdims=True))
    rows = tuple(range(x.ndim - trailing))
    return (dx, *(((g * u).sum(rows),) if params["weight"] else ()), *((g.sum(rows),) if params["bias"] else ()))


def _backward_vjp(h: Any, node: Any) -> tuple[Tensor | None, ...]:
    """By hand: the fused row's formula, differentiated with mean and rstd as independent inputs."""
    params = node.params
    trailing, layer = params["trailing"], params["layer"]
    g, x, mean, rstd, weight = _backward_parts(node.inputs, params)
    axes = tuple(range(x.ndim - trailing, x.ndim))
    last, kept = x.shape[x.ndim - trailing :], x.shape[: x.ndim - trailing]
    n = max(math.prod(last), 1)
    u, scale = _normalised(x, mean, rstd, trailing)
    hx, *parameter = h if isinstance(h, tuple) else (h,)
    hw, hb = _parameters(parameter, params)

    def mean_back(t: Tensor) -> Tensor:
        return expand_to(call("sum", t, axis=axes, keepdims=True), x.shape) * (1.0 / n)

    v = g if weight is None else g * expand_to(weight, x.shape)
    inner = mean_back(v * u)  # dx = scale·(v − mean(v) − u·inner)
    bracket = (v - mean_back(v) if layer else v) - u * inner
    p = hx * scale
    through = mean_back(p * u)
    d_v = (p - mean_back(p) if layer else p) - u * through
    d_u = -(p * inner) - v * through
    d_scale = call("sum", hx * bracket, axis=axes, keepdims=False)
    d_g = d_v if weight is None else d_v * expand_to(weight, x.shape)
    d_weight = None if weight is None else unbroadcast(d_v * g, last)
    if hw is not None:
        d_g = d_g + expand_to(hw, x.shape) * u
        d_u = d_u + expand_to(hw, x.shape) * g
    if hb is not None:
        d_g = d_g + expand_to(hb, x.shape)
    # u = (x − mean)·rstd
    d_x = d_u * scale
    centred = x if mean is None else x - expand_to(cast_like(mean, x).reshape((*kept, *(1,) * trailing)), x.shape)
    d_scale = d_scale + call("sum", d_u * centred, axis=axes, keepdims=False)
    results: list[Tensor | None] = [d_g, d_x]
    if layer:
        results.append(cast_like(-call("sum", d_x, axis=axes, keepdims=False), mean))
    results.append(cast_like(d_scale, rstd))
    if weight is not None:
        results.append(d_weight)
    return tuple(results)


def _backward_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    """All at once where no gradient of a parameter is asked for: that would be a sum an element of the batch."""
    alike = 3 + params["layer"]
    if params["weight"] or params["bias"] or any(d is not None for d in dims[alike:]):
        return loop_batch(primitive, inputs, dims, params)
    n = batch_size(inputs, dims)
    moved = [expand_to(x, (n, *x.shape)) if d is None else front(x, d) for x, d in zip(inputs, dims, strict=True)]
    outs = apply(primitive, tuple(moved), params)
    return outs, (0,) * len(outs)


def _backward_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, trailing, layer, weight, bias in (
        ((3, 5), 1, True, True, True),
        ((2, 3, 4), 2, True, True, False),
        ((2, 6), 1, False, True, False),
        ((6,), 1, True, False, False),
    ):
        kept, last = shape[: len(shape) - trailing], shape[len(shape) - trailing :]
        statistics = [rng.normal(size=kept)] if layer else []
        statistics.append(rng.uniform(0.5, 2, kept))
        parameters = [rng.normal(size=last)] if weight else []
        yield Sample(
            rng.normal(size=shape), rng.normal(size=shape), *statistics, *parameters,
            params={"trailing": trailing, "layer": layer, "weight": weight, "bias": bias},
            dtypes=("float32", "float64"),
        )  # fmt: skip


NORM_BACKWARD = register(
    Primitive(
        "norm_backward",
        category=CATEGORY,
        summary="The gradients of layer_norm (or rms_norm) with respect to x, weight and bias, from mean and rstd.",
        dtypes=FLOATS,
        shape=_backward_shape,
        kernel=_backward_kernel,
        twin=_backward_twin,
        keeps=keep(inputs=range(5)),
        vjp=_backward_vjp,
        batch=BatchRule(_backward_batch),
        cost=flops_each(12),
        samples=_backward_samples,
        oracle=_backward_oracle,
    )
)

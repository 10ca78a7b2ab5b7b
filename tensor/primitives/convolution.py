"""Rows of convolutions and pooling over two dimensions, and of their gradients.

Images are [n, channels, rows, columns], weights [outputs, inputs of a group, rows, columns]. Params: `stride`,
`padding` (zeros before the first row and column), `dilation`, each a pair, `groups`; `output` or `kernel` is the shape
that the other sizes leave open. The three rows conv, conv_transpose and conv_weight_gradient are each other's
derivatives, so gradients of any order stay among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.primitives.blocks import more_groups
from tensor.primitives.contraction import activated, activation_code, through_activation
from tensor.primitives.primitive import FLOATS, Params, Primitive, Sample, keep
from tensor.primitives.registry import register
from tensor.primitives.rules import BatchRule, Dims, apply, batch_size, call, equal_dtypes, expand_to, front
from tensor.primitives.spec import Spec, name_of, total_bytes

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]
Pair = tuple[int, int]

_KEYS = ("stride", "padding", "dilation", "groups")


def conv_params(stride: Pair, padding: Pair, dilation: Pair, groups: int, **more: Any) -> dict[str, Any]:
    """The params of a row of convolutions."""
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, **more}


def _require_images(name: str, specs: Specs) -> Any:
    dtype = equal_dtypes(name, specs)
    if name_of(dtype) not in FLOATS:
        raise DtypeError(f"{name}: {name_of(dtype)} is not computed with (hint: {', '.join(FLOATS)})")
    for s in specs:
        if s.ndim != 4:
            shapes = " and ".join(str(x.shape) for x in specs)
            raise ShapeError(f"{name}: images and weights must have 4 dimensions, got shapes {shapes}")
    return dtype


def _require_windows(name: str, params: Params) -> None:
    for key, least in (("stride", 1), ("dilation", 1)):
        if min(params[key]) < least:
            raise ShapeError(f"{name}: {key} must be positive, got {params[key]}")
    if params["groups"] < 1:
        raise ShapeError(f"{name}: groups must be positive, got {params['groups']}")


def _require_weights(name: str, w: Any, inputs: int, groups: int) -> None:
    if w.shape[1] < 1 or w.shape[2] < 1 or w.shape[3] < 1:
        raise ShapeError(f"{name}: the weights must have an input channel and a tap, got shape {w.shape}")
    if w.shape[0] % groups or inputs != w.shape[1] * groups:
        raise ShapeError(
            f"{name}: {inputs} channels and weights of shape {w.shape} do not fit {groups} groups "
            "(weights are [outputs, inputs of a group, rows, columns])"
        )


def conv_output(name: str, size: int, taps: int, stride: int, before: int, after: int, dilation: int) -> int:
    """How many outputs fit: ⌊(size + before + after − dilation·(taps − 1) − 1) / stride⌋ + 1; ShapeError for none.

    >>> conv_output("conv2d", 28, 3, 1, 1, 1, 1)
    28
    """
    room = size + before + after - dilation * (taps - 1) - 1
    if room < 0:
        raise ShapeError(
            f"{name}: a window of {taps} (dilation {dilation}) does not fit {size} elements "
            f"padded by {before} and {after}"
        )
    return room // stride + 1


def _conv_shape(specs: Specs, params: Params) -> Spec:
    x, w = specs[0], specs[1]
    dtype = _require_images("conv", (x, w))
    _require_windows("conv", params)
    _require_weights("conv", w, x.shape[1], params["groups"])
    return Spec((x.shape[0], w.shape[0], *params["output"]), dtype, x.device)


def _conv_transpose_shape(specs: Specs, params: Params) -> Spec:
    g, w = specs
    dtype = _require_images("conv_transpose", specs)
    _require_windows("conv_transpose", params)
    _require_weights("conv_transpose", w, w.shape[1] * params["groups"], params["groups"])
    if g.shape[1] != w.shape[0]:
        raise ShapeError(
            f"conv_transpose: {g.shape[1]} channels do not fit weights of shape {w.shape} "
            "(weights are [inputs, outputs of a group, rows, columns])"
        )
    return Spec((g.shape[0], w.shape[1] * params["groups"], *params["output"]), dtype, g.device)


def _weight_gradient_shape(specs: Specs, params: Params) -> Spec:
    x, g = specs
    dtype = _require_images("conv_weight_gradient", specs)
    _require_windows("conv_weight_gradient", params)
    groups = params["groups"]
    if x.shape[1] % groups or g.shape[1] % groups or x.shape[0] != g.shape[0]:
        raise ShapeError(f"conv_weight_gradient: shapes {x.shape} and {g.shape} do not fit {groups} groups")
    return Spec((g.shape[1], x.shape[1] // groups, *params["kernel"]), dtype, x.device)


def _common(params: Params) -> dict[str, Any]:
    return {key: params[key] for key in _KEYS}


def _run_conv(x: Tensor, w: Tensor, out: Tensor, params: Params, bias: Tensor | None = None, code: int = -1) -> None:
    p = params
    _kernels.convolution(x, w, out, p["stride"], p["padding"], p["dilation"], (1, 1), p["groups"], False, bias, code)


def _conv_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _run_conv(inputs[0], inputs[1], outs[0], params)


def _conv_transpose_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    (before_y, before_x), (dilation_y, dilation_x) = params["padding"], params["dilation"]
    _kernels.convolution(
        inputs[0],
        inputs[1],
        outs[0],
        (1, 1),
        (-before_y, -before_x),
        (-dilation_y, -dilation_x),
        params["stride"],
        params["groups"],
        True,
    )


def _weight_gradient_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    p = params
    _kernels.weight_gradient(inputs[0], inputs[1], outs[0], p["stride"], p["padding"], p["dilation"], p["groups"])


def _conv_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref, convolution_ref

    p = params
    return contraction_ref.through_float32(
        lambda x, w: convolution_ref.conv(x, w, p["output"], p["stride"], p["padding"], p["dilation"], p["groups"]),
        *arrays[:2],
    )


def _conv_transpose_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref, convolution_ref

    p = params
    return contraction_ref.through_float32(
        lambda g, w: convolution_ref.conv_transpose(
            g, w, p["output"], p["stride"], p["padding"], p["dilation"], p["groups"]
        ),
        *arrays,
    )


def _weight_gradient_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref, convolution_ref

    p = params
    return contraction_ref.through_float32(
        lambda x, g: convolution_ref.conv_weight_gradient(
            x, g, p["kernel"], p["stride"], p["padding"], p["dilation"], p["groups"]
        ),
        *arrays,
    )


# --- the family of derivatives ---------------------------------------------------------------------------------------


def _of_input(g: Tensor, w: Tensor, params: Params, size: tuple[int, ...]) -> Tensor:
    return apply(CONV_TRANSPOSE, (g, w), {**_common(params), "output": tuple(size[2:])})


def _of_weights(x: Tensor, g: Tensor, params: Params, shape: tuple[int, ...]) -> Tensor:
    return apply(CONV_WEIGHT_GRADIENT, (x, g), {**_common(params), "kernel": tuple(shape[2:])})


def _forward(x: Tensor, w: Tensor, params: Params, size: tuple[int, ...]) -> Tensor:
    return apply(CONV, (x, w), {**_common(params), "output": tuple(size[2:])})


def _conv_gradients(g: Tensor, node: Any) -> tuple[Tensor | None, Tensor | None]:
    x, w = node.inputs[:2]
    return (
        _of_input(g, w, node.params, x.shape) if node.needs[0] else None,
        _of_weights(x, g, node.params, w.shape) if node.needs[1] else None,
    )


def _conv_transpose_gradients(h: Tensor, node: Any) -> tuple[Tensor | None, Tensor | None]:
    g, w = node.inputs
    return (
        _forward(h, w, node.params, g.shape) if node.needs[0] else None,
        _of_weights(h, g, node.params, w.shape) if node.needs[1] else None,
    )


def _weight_gradient_gradients(h: Tensor, node: Any) -> tuple[Tensor | None, Tensor | None]:
    x, g = node.inputs
    return (
        _of_input(g, h, node.params, x.shape) if node.needs[0] else None,
        _forward(x, h, node.params, g.shape) if node.needs[1] else None,
    )


def _bilinear(primitive: Primitive, tangents: Sequence[Tensor | None], node: Any) -> Tensor:
    parts = []
    if tangents[0] is not None:
        parts.append(apply(primitive, (tangents[0], node.inputs[1]), node.params))
    if tangents[1] is not None:
        parts.append(apply(primitive, (node.inputs[0], tangents[1]), node.params))
    return parts[0] + parts[1] if len(parts) == 2 else parts[0]


def _merged(x: Tensor) -> Tensor:
    """[b, n, …] → [b·n, …]."""
    return x.reshape((x.shape[0] * x.shape[1], *x.shape[2:]))


def _planes_batched() -> BatchRule:
    """For pooling: every input is an image; those without a batch are repeated."""

    def rule(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
        n = batch_size(inputs, dims)
        moved = tuple(
            _merged(expand_to(x, (n, *x.shape)) if d is None else front(x, d))
            for x, d in zip(inputs, dims, strict=True)
        )
        result = apply(primitive, moved, params)
        if isinstance(result, tuple):
            return tuple(r.reshape((n, r.shape[0] // n, *r.shape[1:])) for r in result), (0,) * len(result)
        return result.reshape((n, result.shape[0] // n, *result.shape[1:])), 0

    return BatchRule(rule)


def _conv_cost(specs: Specs, outs: Specs, params: Params) -> tuple[int, int]:
    w = specs[1]
    return total_bytes((*specs, *outs)), 2 * outs[0].size * math.prod(w.shape[1:])


def _conv_transpose_cost(specs: Specs, outs: Specs, params: Params) -> tuple[int, int]:
    g, w = specs
    return total_bytes((*specs, *outs)), 2 * g.size * math.prod(w.shape[1:])


def _weight_gradient_cost(specs: Specs, outs: Specs, params: Params) -> tuple[int, int]:
    return total_bytes((*specs, *outs)), 2 * specs[1].size * math.prod(outs[0].shape[1:])


# n, groups, inputs, outputs, size, kernel, stride, padding, dilation
_CASES: tuple[tuple[int, int, int, int, Pair, Pair, Pair, Pair, Pair], ...] = (
    (2, 1, 2, 3, (5, 6), (3, 2), (1, 1), (1, 0), (1, 1)),
    (1, 2, 1, 2, (7, 5), (3, 3), (2, 1), (1, 2), (1, 2)),
    (2, 2, 2, 1, (1, 9), (1, 3), (1, 2), (0, 1), (1, 1)),
    (1, 1, 1, 2, (4, 3), (1, 1), (3, 2), (0, 0), (1, 1)),
)


def _case(case: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Shapes of image, weights and result, and the params without `output`."""
    n, groups, inputs, outputs, size, kernel, stride, padding, dilation = case
    output = [conv_output("conv", size[d], kernel[d], stride[d], padding[d], padding[d], dilation[d]) for d in (0, 1)]
    params = conv_params(stride, padding, dilation, groups)
    return (n, groups * inputs, *size), (groups * outputs, inputs, *kernel), (n, groups * outputs, *output), params


def _conv_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for case in _CASES:
        x, w, y, params = _case(case)
        yield Sample(rng.normal(size=x), rng.normal(size=w), params={**params, "output": y[2:]})


def _conv_transpose_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for case in _CASES:
        x, w, y, params = _case(case)
        yield Sample(rng.normal(size=y), rng.normal(size=w), params={**params, "output": x[2:]})


def _weight_gradient_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for case in _CASES:
        x, w, y, params = _case(case)
        yield Sample(rng.normal(size=x), rng.normal(size=y), params={**params, "kernel": w[2:]})


def _each_tap(params: Params, x: Any, taps: Pair, output: Pair) -> Iterable[tuple[int, int, Any]]:
    """Each tap with what it meets, by slices of the padded image: for the oracles."""
    import numpy as np

    (sy, sx), (py, px), (dy, dx) = params["stride"], params["padding"], params["dilation"]
    tall, wide = (output[0] - 1) * sy + (taps[0] - 1) * dy + 1, (output[1] - 1) * sx + (taps[1] - 1) * dx + 1
    padded = np.zeros((*x.shape[:2], max(tall, x.shape[2] + py), max(wide, x.shape[3] + px)), x.dtype)
    padded[:, :, py : py + x.shape[2], px : px + x.shape[3]] = x
    for ty in range(taps[0]):
        for tx in range(taps[1]):
            y_end, x_end = ty * dy + (output[0] - 1) * sy + 1, tx * dx + (output[1] - 1) * sx + 1
            yield ty, tx, padded[:, :, ty * dy : y_end : sy, tx * dx : x_end : sx]


def _conv_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    x, w = arrays[:2]
    groups = params["groups"]
    weights = w.reshape(groups, -1, *w.shape[1:])
    total = 0
    for ty, tx, met in _each_tap(params, x, w.shape[2:], params["output"]):
        split = met.reshape(len(x), groups, -1, *met.shape[2:])
        total = total + np.einsum("goi,ngiyx->ngoyx", weights[..., ty, tx], split)
    return np.asarray(total).reshape(len(x), len(w), *params["output"])


def _weight_gradient_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    x, g = arrays
    groups, kernel = params["groups"], params["kernel"]
    gradient = g.reshape(len(x), groups, -1, *g.shape[2:])
    out = np.zeros((groups, gradient.shape[2], x.shape[1] // groups, *kernel), x.dtype)
    for ty, tx, met in _each_tap(params, x, kernel, g.shape[2:]):
        split = met.reshape(len(x), groups, -1, *met.shape[2:])
        out[..., ty, tx] = np.einsum("ngoyx,ngiyx->goi", gradient, split)
    return out.reshape(g.shape[1], -1, *kernel)


CONV: Primitive = register(
    Primitive(
        "conv",
        category="convolution",
        summary="Convolution of images with weights, which are not turned round.",
        shape=_conv_shape,
        dtypes=FLOATS,
        kernel=_conv_kernel,
        twin=_conv_twin,
        keeps=keep(inputs=(0, 1)),
        vjp=_conv_gradients,
        jvp=lambda tangents, node: _bilinear(CONV, tangents, node),
        batch=more_groups("image", "weights"),
        cost=_conv_cost,
        samples=_conv_samples,
        oracle=_conv_oracle,
    )
)

CONV_TRANSPOSE: Primitive = register(
    Primitive(
        "conv_transpose",
        category="convolution",
        summary="The transpose of a convolution: what its result's gradient is in the image.",
        shape=_conv_transpose_shape,
        dtypes=FLOATS,
        kernel=_conv_transpose_kernel,
        twin=_conv_transpose_twin,
        keeps=keep(inputs=(0, 1)),
        vjp=_conv_transpose_gradients,
        jvp=lambda tangents, node: _bilinear(CONV_TRANSPOSE, tangents, node),
        batch=more_groups("image", "weights"),
        cost=_conv_transpose_cost,
        samples=_conv_transpose_samples,
    )
)

CONV_WEIGHT_GRADIENT: Primitive = register(
    Primitive(
        "conv_weight_gradient",
        category="convolution",
        summary="What a convolution's result's gradient is in the weights.",
        shape=_weight_gradient_shape,
        dtypes=FLOATS,
        kernel=_weight_gradient_kernel,
        twin=_weight_gradient_twin,
        keeps=keep(inputs=(0, 1)),
        vjp=_weight_gradient_gradients,
        jvp=lambda tangents, node: _bilinear(CONV_WEIGHT_GRADIENT, tangents, node),
        batch=more_groups("image", "image", result="weights"),
        cost=_weight_gradient_cost,
        samples=_weight_gradient_samples,
        oracle=_weight_gradient_oracle,
    )
)


# --- with a bias for each channel and an activation ------------------------------------------------------------------


def _conv_affine_shape(specs: Specs, params: Params) -> Spec:
    equal_dtypes("conv_affine", specs)
    spec = _conv_shape(specs, params)
    if specs[2].shape != spec.shape[1:2]:
        raise ShapeError(
            f"conv_affine: bias must be one value for each channel, {spec.shape[1:2]}, got {specs[2].shape}"
        )
    return spec


def _along_channels(bias: Tensor) -> Tensor:
    return bias.reshape((bias.shape[0], 1, 1))


def _conv_affine_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    x, w, bias = inputs
    if bias.strides != (1,):
        bias = call("copy", bias)
    _run_conv(x, w, outs[0], params, bias, activation_code(params["activation"]))


def _conv_affine_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.elementwise_ref import TWINS

    bias = arrays[2].reshape(-1, 1, 1)
    return activated(TWINS["add"]((_conv_twin(arrays, params), bias), None), params["activation"])


def _conv_affine_gradients(g: Tensor, node: Any) -> tuple[Tensor | None, ...]:
    x, w, bias = node.inputs
    g = through_activation(
        g,
        lambda: _forward(x, w, node.params, g.shape) + _along_channels(bias),
        node.outputs[0],
        node.params["activation"],
    )
    return (*_conv_gradients(g, node), g.sum(axis=(2, 3)).sum(axis=0) if node.needs[2] else None)


def _conv_affine_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for case, activation in zip(_CASES, ("none", "relu", "tanh", "none"), strict=True):
        x, w, y, params = _case(case)
        params = {**params, "output": y[2:], "activation": activation}
        yield Sample(rng.normal(size=x), rng.normal(size=w), rng.normal(size=w[0]), params=params)


CONV_AFFINE: Primitive = register(
    Primitive(
        "conv_affine",
        category="convolution",
        summary="activation(conv(x, w) + bias): the bits of the three one after another.",
        shape=_conv_affine_shape,
        dtypes=FLOATS,
        kernel=_conv_affine_kernel,
        twin=_conv_affine_twin,
        keeps=keep(inputs=(0, 1, 2), outputs=(0,)),
        vjp=_conv_affine_gradients,
        batch=more_groups("image", "weights", "weights"),
        cost=_conv_cost,
        samples=_conv_affine_samples,
    )
)

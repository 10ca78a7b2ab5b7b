"""Rows of products: matrices and batches of them, what may follow at once, vecdot, whole numbers of few bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.primitives.blocks import (
    each_of_leading,
    flat,
    in_front,
    leading_of,
    own_batch,
    spread,
    stacked_specs,
    twin_of_each,
)
from tensor.primitives.primitive import CROSSED, FLOATS, NUMBERS, Params, Primitive, Sample, keep
from tensor.primitives.registry import register, row
from tensor.primitives.rules import (
    BatchRule,
    Dims,
    apply,
    broadcast_shapes,
    call,
    equal_dtypes,
    leading_batch,
    unbroadcast,
)
from tensor.primitives.spec import Spec, name_of, total_bytes

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]

_BYTES = ("int8", "uint8")
_BOOL = _kernels.DTYPES[0]


def _transposed(x: Tensor) -> Tensor:
    """The last two dimensions exchanged; conjugated if complex."""
    turned = x.permute((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return call("conj", turned) if name_of(x.dtype).startswith("complex") else turned


def _product_shape(name: str, a: Any, b: Any) -> tuple[int, ...]:
    if a.ndim < 2 or b.ndim < 2:
        raise ShapeError(f"{name}: a must be [..., m, k] and b [..., k, n], got shapes {a.shape} and {b.shape}")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"{name}: the last dimension of a must be the last but one of b, got shapes {a.shape} and {b.shape}"
        )
    return (*broadcast_shapes(name, [a.shape[:-2], b.shape[:-2]]), a.shape[-2], b.shape[-1])


def _require(name: str, dtype: Any, allowed: tuple[str, ...]) -> None:
    if name_of(dtype) not in allowed:
        raise DtypeError(f"{name}: {name_of(dtype)} is not computed with (hint: {', '.join(allowed)})")


def _matmul_shape(specs: Specs, params: Params) -> Spec:
    a, b = specs
    dtype, left, right = a.dtype, a.shape, b.shape
    if len(left) == 2 == len(right) and left[1] == right[0] and dtype == b.dtype and dtype != _BOOL:
        return Spec((left[0], right[1]), dtype, a.device)
    equal_dtypes("matmul", specs)
    _require("matmul", dtype, NUMBERS)
    return Spec(_product_shape("matmul", a, b), dtype, a.device)


def _product_cost(specs: Specs, outs: Specs, params: Params) -> tuple[int, int]:
    return total_bytes((*specs, *outs)), 2 * math.prod(outs[0].shape) * specs[0].shape[-1]


def _product_gradients(g: Tensor, a: Any, b: Any, needs: Sequence[bool]) -> tuple[Tensor | None, Tensor | None]:
    left = unbroadcast(apply(MATMUL, (g, _transposed(b))), a.shape) if needs[0] else None
    if not needs[1]:
        return left, None
    if len(b.shape) == 2 and len(a.shape) > 2:  # one matrix for a whole batch: its rows are the rows of one product
        a, g = a.reshape((-1, a.shape[-1])), g.reshape((-1, g.shape[-1]))
    return left, unbroadcast(apply(MATMUL, (_transposed(a), g)), b.shape)


def _bilinear_tangent(primitive: Primitive, tangents: Sequence[Tensor | None], node: Any) -> Tensor:
    parts = []
    if tangents[0] is not None:
        parts.append(apply(primitive, (tangents[0], node.inputs[1]), node.params))
    if tangents[1] is not None:
        parts.append(apply(primitive, (node.inputs[0], tangents[1]), node.params))
    return parts[0] + parts[1] if len(parts) == 2 else parts[0]


def _pairs(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.normal(size=(3, 5)), rng.normal(size=(5, 4)))
    yield Sample(rng.normal(size=(2, 1, 3, 5)), rng.normal(size=(3, 5, 2)))
    yield Sample(rng.normal(size=(4, 3)), rng.normal(size=(2, 3, 1)))
    yield Sample(rng.normal(size=(2, 0)), rng.normal(size=(0, 3)))
    yield Sample(rng.normal(size=(0, 3)), rng.normal(size=(3, 2)))


def _numpy_matmul(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    return np.matmul(*arrays)


def _matmul_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref

    return contraction_ref.matmul(*arrays)


MATMUL: Primitive = register(
    Primitive(
        "matmul",
        category="contraction",
        summary="Product of matrices [..., m, k] and [..., k, n], for each of a batch.",
        shape=_matmul_shape,
        dtypes=NUMBERS,
        kernel=lambda outs, inputs, params: _kernels.product(inputs[0], inputs[1], outs[0]),
        twin=_matmul_twin,
        keeps=keep(inputs=(0, 1)),
        alone=CROSSED,
        vjp=lambda g, node: _product_gradients(g, node.inputs[0], node.inputs[1], node.needs),
        jvp=lambda tangents, node: _bilinear_tangent(MATMUL, tangents, node),
        batch=leading_batch(cores=(2, 2), broadcasts=True),
        cost=_product_cost,
        samples=_pairs,
        oracle=_numpy_matmul,
    )
)


# --- a product, a bias for each column, an activation ----------------------------------------------------------------


class _Value:
    """What an elementwise row's derivative reads of its node."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.inputs, self.outputs, self.needs, self.params = (x,), (y,), (True,), None


def through_activation(g: Tensor, before: Callable[[], Tensor], after: Tensor, activation: str) -> Tensor:
    """The gradient of what an activation was applied to; `before` computes that where it is read."""
    if activation == "none":
        return g
    found = row(activation)
    assert found.vjp is not None
    result = found.vjp(g, _Value(before() if found.keeps & 1 else after, after))[0]
    assert result is not None
    return result


def activation_code(activation: str) -> int:
    """The elementwise operation's code, −1 for none."""
    return -1 if activation == "none" else int(_kernels.ELEMENTWISE[activation])


def activated(array: Any, activation: str) -> Any:
    """The twin of an activation."""
    twin = row(activation).twin if activation != "none" else None
    return array if twin is None else twin((array,), None)


def _affine_shape(specs: Specs, params: Params) -> Spec:
    a, b, bias = specs
    dtype = equal_dtypes("affine", specs)
    _require("affine", dtype, FLOATS)
    shape = _product_shape("affine", a, b)
    if bias.shape != shape[-1:]:
        raise ShapeError(f"affine: bias must be one value for each column, {shape[-1:]}, got shape {bias.shape}")
    return Spec(shape, dtype, a.device)


def _affine_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    a, b, bias = inputs
    if bias.ndim and bias.strides != (1,):
        bias = call("copy", bias)
    _kernels.product(a, b, outs[0], bias, activation_code(params["activation"]))


def _affine_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref
    from tensor.twins.elementwise_ref import TWINS

    a, b, bias = arrays
    return activated(TWINS["add"]((contraction_ref.matmul(a, b), bias), None), params["activation"])


def _affine_gradients(g: Tensor, node: Any) -> tuple[Tensor | None, ...]:
    a, b, bias = node.inputs
    g = through_activation(g, lambda: apply(MATMUL, (a, b)) + bias, node.outputs[0], node.params["activation"])
    left, right = _product_gradients(g, a, b, node.needs)
    return left, right, unbroadcast(g, bias.shape) if node.needs[2] else None


def _affine_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for activation in ("none", "relu", "gelu", "tanh"):
        sample = (rng.normal(size=(2, 3, 5)), rng.normal(size=(5, 4)), rng.normal(size=4))
        yield Sample(*sample, params={"activation": activation})
    yield Sample(rng.normal(size=(2, 0)), rng.normal(size=(0, 3)), rng.normal(size=3), params={"activation": "none"})


def _affine_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    """One product where all share the bias; else the three operations that the row stands for, on the whole batch."""
    a, b, bias = inputs
    of_product = MATMUL.batch
    assert of_product is not None
    if dims[2] is None:
        rank = max(x.ndim - (d is not None) for x, d in zip((a, b), dims, strict=False))
        return apply(primitive, (*(in_front(x, d, rank) for x, d in zip((a, b), dims, strict=False)), bias), params), 0
    product, at = (apply(MATMUL, (a, b)), None) if dims[:2] == (None, None) else of_product((a, b), dims[:2], None)
    rank = product.ndim - (at is not None)
    sums = in_front(product, at, rank) + in_front(bias, dims[2], rank)
    return sums if params["activation"] == "none" else call(params["activation"], sums), 0


AFFINE: Primitive = register(
    Primitive(
        "affine",
        category="contraction",
        summary="activation(a · b + bias): the bits of the product, the addition and the activation one after another.",
        shape=_affine_shape,
        dtypes=FLOATS,
        kernel=_affine_kernel,
        twin=_affine_twin,
        keeps=keep(inputs=(0, 1, 2), outputs=(0,)),
        vjp=_affine_gradients,
        batch=BatchRule(_affine_batch),
        cost=_product_cost,
        samples=_affine_samples,
    )
)


# --- dot products of rows --------------------------------------------------------------------------------------------


def _vecdot_shape(specs: Specs, params: Params) -> Spec:
    a, b = specs
    dtype = equal_dtypes("vecdot", specs)
    _require("vecdot", dtype, NUMBERS)
    if a.ndim < 1 or b.ndim < 1 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"vecdot: the last dimensions must be of one size, got shapes {a.shape} and {b.shape}")
    return Spec(broadcast_shapes("vecdot", [a.shape[:-1], b.shape[:-1]]), dtype, a.device)


def _vecdot_gradients(g: Tensor, node: Any) -> tuple[Tensor | None, ...]:
    a, b = node.inputs
    wide = g.reshape((*g.shape, 1))
    conj = name_of(g.dtype).startswith("complex")
    left = unbroadcast(b * (call("conj", wide) if conj else wide), a.shape) if node.needs[0] else None
    right = unbroadcast(a * wide, b.shape) if node.needs[1] else None
    return left, right


def _vecdot_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref

    return contraction_ref.vecdot(*arrays)


def _vecdot_samples(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.normal(size=(3, 5)), rng.normal(size=(3, 5)))
    yield Sample(rng.normal(size=70), rng.normal(size=(2, 70)))
    yield Sample(rng.normal(size=(2, 1, 4)), rng.normal(size=(3, 4)))
    yield Sample(rng.normal(size=(2, 0)), rng.normal(size=(2, 0)))


def _numpy_vecdot(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    return (np.conj(arrays[0]) * arrays[1]).sum(axis=-1)


VECDOT: Primitive = register(
    Primitive(
        "vecdot",
        category="contraction",
        summary="Σ conj(a)·b along the last axis, each product fused into the accumulators of a sum.",
        shape=_vecdot_shape,
        dtypes=NUMBERS,
        kernel=lambda outs, inputs, params: _kernels.vecdot(inputs[0], inputs[1], outs[0]),
        twin=_vecdot_twin,
        keeps=keep(inputs=(0, 1)),
        alone=CROSSED,
        vjp=_vecdot_gradients,
        jvp=lambda tangents, node: _bilinear_tangent(VECDOT, tangents, node),
        batch=leading_batch(cores=(1, 1), broadcasts=True),
        cost=lambda specs, outs, params: (total_bytes((*specs, *outs)), 2 * outs[0].size * specs[0].shape[-1]),
        samples=_vecdot_samples,
        oracle=_numpy_vecdot,
    )
)


# --- whole numbers of few bits ---------------------------------------------------------------------------------------


def _byte_shape(specs: Specs, params: Params) -> Spec:
    a, b = specs
    for x in specs:
        _require("byte_matmul", x.dtype, _BYTES)
    return Spec(_product_shape("byte_matmul", a, b), "int32", a.device)


def _byte_samples(rng: np.random.Generator) -> Iterable[Sample]:
    signed, unsigned = rng.integers(-128, 128, (2, 3, 300)), rng.integers(0, 256, (300, 5))
    yield Sample(signed.astype("int8"), unsigned.astype("uint8"))
    yield Sample(unsigned.T.astype("uint8"), signed[0].T.astype("int8"))
    yield Sample(signed[0].astype("int8"), signed[1].T.astype("int8"))


def _byte_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref

    return contraction_ref.byte_matmul(*arrays)


def _byte_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    return arrays[0].astype("int64") @ arrays[1].astype("int64")


BYTE_MATMUL: Primitive = register(
    Primitive(
        "byte_matmul",
        category="contraction",
        summary="Product of matrices of bytes, exact in int32.",
        shape=_byte_shape,
        dtypes=("int8", "uint8"),
        kernel=lambda outs, inputs, params: _kernels.product(inputs[0], inputs[1], outs[0]),
        twin=_byte_twin,
        batch=leading_batch(cores=(2, 2), broadcasts=True),
        cost=_product_cost,
        samples=_byte_samples,
        oracle=_byte_oracle,
    )
)


def _quantised_shape(specs: Specs, params: Params) -> Spec:
    a, _, codes, scale, _ = specs
    wanted = ("int8", "float32", "uint8", "float32", "float32")
    if tuple(name_of(s.dtype) for s in specs) != wanted:
        names = ", ".join(name_of(s.dtype) for s in specs)
        raise DtypeError(f"quantised_matmul: a, a_scale, codes, scale, bias must be {', '.join(wanted)}, got {names}")
    shapes = [s.shape for s in specs]
    fits = [len(s) for s in shapes] == [2, 1, 2, 2, 2]
    if fits:
        (m, k), n, groups = a.shape, codes.shape[0], scale.shape[1]
        fits = shapes[1:] == [(m,), (n, k // 2), (n, groups), (n, groups)]
        fits = fits and groups > 0 and k % groups == 0 and k // groups % 2 == 0 and 2 <= k // groups <= 256
    if not fits:
        raise ShapeError(
            "quantised_matmul: expected a [m, k], a_scale [m], codes [n, k / 2], scale and bias [n, groups], groups of "
            f"an even number of at most 256 elements, got {', '.join(map(str, shapes))}"
        )
    return Spec((m, n), "float32", a.device)


def _quantised_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.quantised_product(*(x if x.is_contiguous() else call("copy", x) for x in inputs), outs[0])


def _quantised_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import quantised_ref

    return quantised_ref.quantised_product(*arrays)


def _quantised_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    a, a_scale, codes, scale, bias = arrays
    weights = np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), scale.shape[1], -1)
    weights = weights * scale[..., np.newaxis].astype(float) + bias[..., np.newaxis]
    return a_scale[:, np.newaxis] * (a.astype(float) @ weights.reshape(len(codes), -1).T)


def _quantised_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for m, n, k, groups in ((1, 3, 64, 1), (5, 40, 192, 3), (17, 2, 512, 2)):
        yield Sample(
            rng.integers(-128, 128, (m, k)).astype("int8"),
            rng.uniform(0.5, 1, m).astype("float32"),
            rng.integers(0, 256, (n, k // 2)).astype("uint8"),
            rng.uniform(0.5, 1, (n, groups)).astype("float32"),
            rng.uniform(-8, -7, (n, groups)).astype("float32"),
        )


def _quantised_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    """More rows of one product where all share the weights; else a product each."""
    if dims[2:] != (None, None, None) or leading_of(params):
        return own_batch(primitive, inputs, dims, params)
    n, (a, a_scale) = spread(inputs[:2], dims[:2])
    out = apply(primitive, (flat(a), flat(a_scale), *inputs[2:]), params)
    return out.reshape((n, a.shape[1], out.shape[1])), 0


QUANTISED_MATMUL: Primitive = register(
    Primitive(
        "quantised_matmul",
        category="contraction",
        summary="Bytes times weights of 4 bits in groups: whole numbers exactly, then each group's scale and bias.",
        shape=stacked_specs(_quantised_shape),
        dtypes=("float32",),
        kernel=each_of_leading(_quantised_kernel),
        twin=twin_of_each(_quantised_twin, _quantised_shape),
        batch=BatchRule(_quantised_batch),
        cost=lambda specs, outs, params: (total_bytes((*specs, *outs)), 2 * outs[0].size * specs[0].shape[-1]),
        samples=_quantised_samples,
        oracle=_quantised_oracle,
        tolerance=1e-4,
    )
)

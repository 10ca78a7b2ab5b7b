"""Rows that change shapes: views as new strides, and the updates that are their reverse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import AxisError, ShapeError
from tensor.primitives import rules
from tensor.primitives.primitive import ALL, Primitive, Sample
from tensor.primitives.registry import register
from tensor.primitives.rules import BatchRule, apply, front
from tensor.primitives.spec import Spec

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Params = Any

CATEGORY = "structural"


def one_batch(rule: Any) -> BatchRule:
    """For rows of one tensor: params change by rule(params, x), the batch stays in front."""

    def run(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Any, params: Params) -> tuple[Any, Any]:
        x = front(inputs[0], dims[0])
        return apply(primitive, *rule(x, params)), 0

    return BatchRule(run)


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(size=shape)


# --- reshape ---------------------------------------------------------------------------------------------------------


def _reshape_shape(specs: Sequence[Any], params: Params) -> Spec:
    x, shape = specs[0], params["shape"]
    if any(n < 0 for n in shape) or math.prod(shape) != x.size:
        raise ShapeError(f"reshape: a tensor of shape {x.shape} has no shape {shape}")
    return Spec(shape, x.dtype, x.device)


RESHAPE = register(
    Primitive(
        "reshape",
        category=CATEGORY,
        summary="The elements in C order in another shape; a view where strides allow.",
        dtypes=ALL,
        shape=_reshape_shape,
        view=lambda inputs, params: _kernels.reshape_view(inputs[0], params["shape"]),
        vjp=lambda g, node: (g.reshape(node.inputs[0].shape),),
        linear=True,
        batch=one_batch(lambda x, params: ((x,), {"shape": (x.shape[0], *params["shape"])})),
        cost=rules.no_cost,
        oracle=lambda arrays, params: arrays[0].reshape(params["shape"]),
        samples=lambda rng: [
            Sample(normal(rng, 2, 3, 4), params={"shape": (6, 4)}),
            Sample(normal(rng, 2, 3, 4).transpose(2, 0, 1), params={"shape": (4, 6)}),
            Sample(normal(rng), params={"shape": (1, 1)}),
            Sample(normal(rng, 0, 3), params={"shape": (5, 0)}),
        ],
    )
)

# --- permute ---------------------------------------------------------------------------------------------------------


def _permute_shape(specs: Sequence[Any], params: Params) -> Spec:
    x, axes = specs[0], params["axes"]
    if sorted(axes) != list(range(x.ndim)):
        raise AxisError(f"permute: axes {axes} do not name each of {x.ndim} dimensions once")
    return Spec(tuple(x.shape[a] for a in axes), x.dtype, x.device)


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    inverse = [0] * len(axes)
    for i, a in enumerate(axes):
        inverse[a] = i
    return tuple(inverse)


def _strided(x: Tensor, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    return _kernels.strided_view(x, offset, tuple(shape), tuple(strides))


def _permute_view(inputs: tuple[Tensor, ...], params: Params) -> Tensor:
    x, axes = inputs[0], params["axes"]
    return _strided(x, 0, [x.shape[a] for a in axes], [x.strides[a] for a in axes])


PERMUTE = register(
    Primitive(
        "permute",
        category=CATEGORY,
        summary="Dimensions in another order; a view.",
        dtypes=ALL,
        shape=_permute_shape,
        view=_permute_view,
        vjp=lambda g, node: (g.permute(_inverse(node.params["axes"])),),
        linear=True,
        batch=one_batch(lambda x, params: ((x,), {"axes": (0, *(a + 1 for a in params["axes"]))})),
        cost=rules.no_cost,
        oracle=lambda arrays, params: arrays[0].transpose(params["axes"]),
        samples=lambda rng: [
            Sample(normal(rng, 2, 3, 4), params={"axes": (2, 0, 1)}),
            Sample(normal(rng), params={"axes": ()}),
        ],
    )
)

# --- expand ----------------------------------------------------------------------------------------------------------


def _expand_shape(specs: Sequence[Any], params: Params) -> Spec:
    x, shape = specs[0], params["shape"]
    skip = len(shape) - x.ndim
    if skip < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[skip:], strict=True)):
        raise ShapeError(f"expand: a tensor of shape {x.shape} does not broadcast to {shape}")
    return Spec(shape, x.dtype, x.device)


def _expand_view(inputs: tuple[Tensor, ...], params: Params) -> Tensor:
    x, shape = inputs[0], params["shape"]
    skip = len(shape) - x.ndim
    kept = [0 if n == 1 and m != 1 else s for n, m, s in zip(x.shape, shape[skip:], x.strides, strict=True)]
    return _strided(x, 0, shape, [0] * skip + kept)


def _expand_batch(x: Tensor, params: Params) -> tuple[tuple[Tensor, ...], Params]:
    missing = len(params["shape"]) - (x.ndim - 1)
    aligned = x.reshape((x.shape[0], *(1,) * missing, *x.shape[1:]))
    return (aligned,), {"shape": (x.shape[0], *params["shape"])}


def _expand_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    return np.broadcast_to(arrays[0], params["shape"])


EXPAND = register(
    Primitive(
        "expand",
        category=CATEGORY,
        summary="Repeated along dimensions of size 1 and new leading ones; a view with strides of 0.",
        dtypes=ALL,
        shape=_expand_shape,
        view=_expand_view,
        vjp=lambda g, node: (rules.unbroadcast(g, node.inputs[0].shape),),
        linear=True,
        batch=one_batch(_expand_batch),
        cost=rules.no_cost,
        oracle=_expand_oracle,
        samples=lambda rng: [
            Sample(normal(rng, 3, 1), params={"shape": (2, 3, 4)}),
            Sample(normal(rng), params={"shape": (2,)}),
            Sample(normal(rng, 1), params={"shape": (0,)}),
        ],
    )
)

# --- index and its reverse -------------------------------------------------------------------------------------------
# params["index"] has an entry a dimension: an int, which drops it, or (start, count, step), and None for a new one.


def _index_result(shape: Sequence[int], index: Sequence[Any]) -> tuple[int, ...]:
    named = [entry for entry in index if entry is not None]
    if len(named) != len(shape):
        raise ShapeError(f"index: {len(named)} entries for shape {tuple(shape)}")
    result: list[int] = []
    d = 0
    for entry in index:
        if entry is None:
            result.append(1)
            continue
        n = shape[d]
        d += 1
        if isinstance(entry, int):
            if not 0 <= entry < n:
                raise IndexError(f"index: {entry} is out of range for a dimension of {n} elements")
            continue
        start, count, step = entry
        if count < 0 or (count and not (0 <= start < n and 0 <= start + (count - 1) * step < n)):
            raise IndexError(f"index: {entry} is out of range for a dimension of {n} elements")
        result.append(count)
    return tuple(result)


def as_slices(index: Sequence[Any]) -> tuple[Any, ...]:
    """The entries of params["index"] as numpy takes them."""
    out: list[Any] = []
    for entry in index:
        if entry is None or isinstance(entry, int):
            out.append(entry)
            continue
        start, count, step = entry
        stop = start + count * step
        out.append(slice(start, stop if stop >= 0 else None, step) if count else slice(0, 0))
    return tuple(out)


def _index_batch(x: Tensor, params: Params) -> tuple[tuple[Tensor, ...], Params]:
    return (x,), {"index": ((0, x.shape[0], 1), *params["index"])}


def _index_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    return (apply(INDEX_UPDATE, (rules.zeros_like_spec(node.inputs[0]), g), node.params),)


INDEX = register(
    Primitive(
        "index",
        category=CATEGORY,
        summary="x[ints, slices, None]: a view.",
        dtypes=ALL,
        shape=lambda specs, params: Spec(
            _index_result(specs[0].shape, params["index"]), specs[0].dtype, specs[0].device
        ),
        view=lambda inputs, params: _kernels.index_view(inputs[0], params["index"]),
        vjp=_index_vjp,
        linear=True,
        batch=one_batch(_index_batch),
        cost=rules.no_cost,
        oracle=lambda arrays, params: arrays[0][as_slices(params["index"])],
        samples=lambda rng: [
            Sample(normal(rng, 4, 5), params={"index": ((3, 2, -2), 1)}),
            Sample(normal(rng, 4, 5), params={"index": (None, (0, 4, 1), (1, 2, 2))}),
            Sample(normal(rng, 3), params={"index": ((0, 0, 1),)}),
        ],
    )
)


def _update_shape(specs: Sequence[Any], params: Params) -> Spec:
    x, v = specs
    region = _index_result(x.shape, params["index"])
    rules.equal_dtypes("index_update", specs)
    if rules.broadcast_shapes("index_update", [region, v.shape]) != region:
        raise ShapeError(f"index_update: values of shape {v.shape} do not broadcast to {region}")
    return Spec(x.shape, x.dtype, x.device)


def _update_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.assign(outs[0], inputs[0])
    _kernels.assign(_kernels.index_view(outs[0], params["index"]), inputs[1])


def _update_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    out = arrays[0].copy()
    out[as_slices(params["index"])] = arrays[1]
    return out


def _update_vjp(g: Tensor, node: Any) -> tuple[Tensor | None, Tensor | None]:
    x, v = node.inputs
    g_x = None
    if node.needs[0]:
        nothing = rules.zeros_like_spec(Spec((), x.dtype, x.device))
        g_x = apply(INDEX_UPDATE, (g, nothing), node.params)
    g_v = rules.unbroadcast(apply(INDEX, (g,), node.params), v.shape) if node.needs[1] else None
    return g_x, g_v


def _update_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Any, params: Params) -> tuple[Any, Any]:
    n = rules.batch_size(inputs, dims)
    x, v = inputs
    x = rules.expand_to(x, (n, *x.shape)) if dims[0] is None else front(x, dims[0])
    region = _index_result(x.shape[1:], params["index"])
    if dims[1] is not None:
        v = front(v, dims[1])
        v = v.reshape((n, *(1,) * (len(region) - (v.ndim - 1)), *v.shape[1:]))
    return apply(primitive, (x, v), {"index": ((0, n, 1), *params["index"])}), 0


INDEX_UPDATE = register(
    Primitive(
        "index_update",
        category=CATEGORY,
        summary="A copy of x in which x[index] = v, broadcast.",
        dtypes=ALL,
        shape=_update_shape,
        kernel=_update_kernel,
        twin=_update_twin,
        vjp=_update_vjp,
        linear=True,
        batch=BatchRule(_update_batch),
        oracle=_update_twin,
        samples=lambda rng: [
            Sample(normal(rng, 4, 5), normal(rng, 2), params={"index": ((3, 2, -2), 1)}),
            Sample(normal(rng, 4, 5), normal(rng), params={"index": ((1, 2, 1), (0, 5, 1))}),
            Sample(normal(rng, 4, 5), normal(rng, 4, 1), params={"index": (None, (0, 4, 1), (1, 2, 2))}),
        ],
    )
)

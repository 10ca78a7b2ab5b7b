"""Rows that change shapes and move elements: views as new strides, and copies where no strides can say it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import AxisError, DtypeError, ShapeError
from tensor.primitives import rules
from tensor.primitives.primitive import ALL, Primitive, Sample, keep
from tensor.primitives.registry import register
from tensor.primitives.rules import BatchRule, apply, front
from tensor.primitives.spec import Spec

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Params = Any

CATEGORY = "structural"


def _one_batch(rule: Any) -> BatchRule:
    """For rows of one tensor: params change by rule(params, x), the batch stays in front."""

    def run(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Any, params: Params) -> tuple[Any, Any]:
        x = front(inputs[0], dims[0])
        return apply(primitive, *rule(x, params)), 0

    return BatchRule(run)


def _normal(rng: np.random.Generator, *shape: int) -> Any:
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
        batch=_one_batch(lambda x, params: ((x,), {"shape": (x.shape[0], *params["shape"])})),
        cost=rules.no_cost,
        oracle=lambda arrays, params: arrays[0].reshape(params["shape"]),
        samples=lambda rng: [
            Sample(_normal(rng, 2, 3, 4), params={"shape": (6, 4)}),
            Sample(_normal(rng, 2, 3, 4).transpose(2, 0, 1), params={"shape": (4, 6)}),
            Sample(_normal(rng), params={"shape": (1, 1)}),
            Sample(_normal(rng, 0, 3), params={"shape": (5, 0)}),
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
        batch=_one_batch(lambda x, params: ((x,), {"axes": (0, *(a + 1 for a in params["axes"]))})),
        cost=rules.no_cost,
        oracle=lambda arrays, params: arrays[0].transpose(params["axes"]),
        samples=lambda rng: [
            Sample(_normal(rng, 2, 3, 4), params={"axes": (2, 0, 1)}),
            Sample(_normal(rng), params={"axes": ()}),
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
        batch=_one_batch(_expand_batch),
        cost=rules.no_cost,
        oracle=_expand_oracle,
        samples=lambda rng: [
            Sample(_normal(rng, 3, 1), params={"shape": (2, 3, 4)}),
            Sample(_normal(rng), params={"shape": (2,)}),
            Sample(_normal(rng, 1), params={"shape": (0,)}),
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
        batch=_one_batch(_index_batch),
        cost=rules.no_cost,
        oracle=lambda arrays, params: arrays[0][as_slices(params["index"])],
        samples=lambda rng: [
            Sample(_normal(rng, 4, 5), params={"index": ((3, 2, -2), 1)}),
            Sample(_normal(rng, 4, 5), params={"index": (None, (0, 4, 1), (1, 2, 2))}),
            Sample(_normal(rng, 3), params={"index": ((0, 0, 1),)}),
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
            Sample(_normal(rng, 4, 5), _normal(rng, 2), params={"index": ((3, 2, -2), 1)}),
            Sample(_normal(rng, 4, 5), _normal(rng), params={"index": ((1, 2, 1), (0, 5, 1))}),
            Sample(_normal(rng, 4, 5), _normal(rng, 4, 1), params={"index": (None, (0, 4, 1), (1, 2, 2))}),
        ],
    )
)

# --- cat -------------------------------------------------------------------------------------------------------------


def _cat_shape(specs: Sequence[Any], params: Params) -> Spec:
    axis, first = params["axis"], specs[0]
    rules.equal_dtypes("cat", specs)
    for s in specs:
        if s.ndim != first.ndim or any(
            i != axis and n != m for i, (n, m) in enumerate(zip(s.shape, first.shape, strict=True))
        ):
            raise ShapeError(f"cat: shapes {first.shape} and {s.shape} differ besides axis {axis}")
    if not 0 <= axis < first.ndim:
        raise AxisError(f"cat: axis {axis} is out of range for {first.ndim} dimensions")
    shape = list(first.shape)
    shape[axis] = sum(s.shape[axis] for s in specs)
    return Spec(tuple(shape), first.dtype, first.device)


def _part(shape: Sequence[int], axis: int, start: int, count: int) -> tuple[Any, ...]:
    return tuple((start, count, 1) if d == axis else (0, n, 1) for d, n in enumerate(shape))


def _parts(inputs: Sequence[Any], whole: Sequence[int], axis: int) -> Iterator[tuple[Any, ...]]:
    start = 0
    for x in inputs:
        yield _part(whole, axis, start, x.shape[axis])
        start += x.shape[axis]


def _cat_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    for x, index in zip(inputs, _parts(inputs, outs[0].shape, params["axis"]), strict=True):
        if x.size:
            _kernels.assign(_kernels.index_view(outs[0], index), x)


def _cat_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    return np.concatenate(arrays, axis=params["axis"])


def _cat_vjp(g: Tensor, node: Any) -> tuple[Tensor | None, ...]:
    parts = _parts(node.inputs, g.shape, node.params["axis"])
    return tuple(
        apply(INDEX, (g,), {"index": index}) if need else None for need, index in zip(node.needs, parts, strict=True)
    )


def _cat_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Any, params: Params) -> tuple[Any, Any]:
    n = rules.batch_size(inputs, dims)
    moved = tuple(
        rules.expand_to(x, (n, *x.shape)) if d is None else front(x, d) for x, d in zip(inputs, dims, strict=True)
    )
    return apply(primitive, moved, {"axis": params["axis"] + 1}), 0


CAT = register(
    Primitive(
        "cat",
        category=CATEGORY,
        summary="Tensors one after the other along an axis.",
        dtypes=ALL,
        shape=_cat_shape,
        kernel=_cat_kernel,
        twin=_cat_twin,
        vjp=_cat_vjp,
        linear=True,
        batch=BatchRule(_cat_batch),
        oracle=_cat_twin,
        samples=lambda rng: [
            Sample(_normal(rng, 2, 3), _normal(rng, 2, 1), _normal(rng, 2, 0), params={"axis": 1}),
            Sample(_normal(rng, 2, 3), params={"axis": 0}),
        ],
    )
)

# --- pad -------------------------------------------------------------------------------------------------------------


def _pad_shape(specs: Sequence[Any], params: Params) -> Spec:
    x, widths = specs[0], params["widths"]
    rules.equal_dtypes("pad", specs)
    if len(widths) != x.ndim or any(a < 0 or b < 0 for a, b in widths) or specs[1].ndim != 0:
        raise ShapeError(f"pad: widths must be a pair of lengths for each of {x.ndim} dimensions, got {widths}")
    return Spec(tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)), x.dtype, x.device)


def _inside(shape: Sequence[int], widths: Sequence[tuple[int, int]]) -> tuple[Any, ...]:
    return tuple((a if n else 0, n, 1) for n, (a, _) in zip(shape, widths, strict=True))


def _pad_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    x, value = inputs
    _kernels.assign(outs[0], value)
    if x.size:
        _kernels.assign(_kernels.index_view(outs[0], _inside(x.shape, params["widths"])), x)


def _pad_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    x, value = arrays
    out = np.empty([n + a + b for n, (a, b) in zip(x.shape, params["widths"], strict=True)], x.dtype)
    out[...] = value
    out[as_slices(_inside(x.shape, params["widths"]))] = x
    return out


def _pad_vjp(g: Tensor, node: Any) -> tuple[Tensor | None, Tensor | None]:
    x, value = node.inputs
    inside = {"index": _inside(x.shape, node.params["widths"])}
    g_x = apply(INDEX, (g,), inside) if node.needs[0] else None
    g_value = None
    if node.needs[1]:
        nothing = rules.zeros_like_spec(value)
        g_value = apply(INDEX_UPDATE, (g, nothing), inside).sum()
    return g_x, g_value


def _pad_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Any, params: Params) -> tuple[Any, Any]:
    if dims[1] is not None or dims[0] is None:
        return rules.loop_batch(primitive, inputs, dims, params)
    x = front(inputs[0], dims[0])
    return apply(primitive, (x, inputs[1]), {"widths": ((0, 0), *params["widths"])}), 0


PAD = register(
    Primitive(
        "pad",
        category=CATEGORY,
        summary="One value put before and behind the elements of each dimension.",
        dtypes=ALL,
        shape=_pad_shape,
        kernel=_pad_kernel,
        twin=_pad_twin,
        vjp=_pad_vjp,
        linear=True,
        batch=BatchRule(_pad_batch),
        oracle=_pad_twin,
        samples=lambda rng: [
            Sample(_normal(rng, 2, 3), _normal(rng), params={"widths": ((1, 0), (2, 1))}),
            Sample(_normal(rng, 0, 2), _normal(rng), params={"widths": ((1, 1), (0, 0))}),
        ],
    )
)

# --- rows put at places ----------------------------------------------------------------------------------------------


def _put_shape(specs: Sequence[Any], params: Params) -> Spec:
    x, index, values = specs
    rules.equal_dtypes("put_rows", (x, values))
    if index.dtype != "int64":
        raise DtypeError(f"put_rows: index must be int64, got {index.dtype}")
    if x.ndim == 0 or index.ndim != 1 or values.shape != (index.shape[0], *x.shape[1:]):
        raise ShapeError(f"put_rows: values of shape {values.shape} are no rows of {x.shape} at {index.shape} places")
    return Spec(x.shape, x.dtype, x.device)


def _put_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.assign(outs[0], inputs[0])
    _kernels.put_rows(outs[0], inputs[1], inputs[2])


def _put_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    x, index, values = arrays
    out = x.copy()
    for i, at in enumerate(index):
        out[at] = values[i]
    return out


def _put_vjp(g: Tensor, node: Any) -> tuple[Tensor | None, ...]:
    index, values = node.inputs[1], node.inputs[2]
    n = index.size
    g_x = g_values = None
    if node.needs[0]:
        g_x = apply(PUT_ROWS, (g, index, rules.zeros_like_spec(values)), None)
    if node.needs[2]:
        order = _kernels.arange(0, 1, n, "int64", g.device)
        nobody = _kernels.full((g.shape[0],), -1, "int64", g.device)
        last = apply(PUT_ROWS, (nobody, index, order), None)  # which value stays where several came
        stays = (last[index] == order).reshape((n, *(1,) * (g.ndim - 1)))
        from tensor import where

        g_values = where(stays, g[index], rules.zeros_like_spec(Spec((), g.dtype, g.device)))
    return g_x, None, g_values


def _put_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Any, params: Params) -> tuple[Any, Any]:
    from tensor.primitives import blocks

    _, (x, index, values) = blocks.spread(inputs, dims)
    whole = apply(primitive, (blocks.flat(x), blocks.places(index, x.shape[1]), blocks.flat(values)), None)
    return whole.reshape(x.shape), 0


PUT_ROWS = register(
    Primitive(
        "put_rows",
        category=CATEGORY,
        summary="A copy of x in which x[index[i]] = values[i]; the last one stays where places repeat.",
        dtypes=ALL,
        shape=_put_shape,
        kernel=_put_kernel,
        twin=_put_twin,
        vjp=_put_vjp,
        keeps=keep(inputs=(1,)),
        batch=BatchRule(_put_batch),
        oracle=_put_twin,
        samples=lambda rng: [
            Sample(_normal(rng, 4, 2), rng.permutation(4)[:3].astype("int64"), _normal(rng, 3, 2)),
            Sample(_normal(rng, 4), rng.integers(0, 2, 5), _normal(rng, 5)),
        ],
    )
)

# --- to another device -----------------------------------------------------------------------------------------------


def _moved_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.assign(outs[0], inputs[0])


TO_DEVICE = register(
    Primitive(
        "to_device",
        category=CATEGORY,
        summary="A copy on another device.",
        dtypes=ALL,
        shape=lambda specs, params: Spec(specs[0].shape, specs[0].dtype, params["device"]),
        kernel=_moved_kernel,
        twin=lambda arrays, params: arrays[0].copy(),
        vjp=lambda g, node: (g.to_device(node.inputs[0].device),),
        linear=True,
        batch=_one_batch(lambda x, params: ((x,), params)),
        oracle=lambda arrays, params: arrays[0],
        samples=lambda rng: [Sample(_normal(rng, 2, 3), params={"device": "cpu"})],
    )
)

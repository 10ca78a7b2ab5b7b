"""Rows that copy: tensors one after the other, padded, with rows put at places, on another device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tensor import _kernels
from tensor.errors import AxisError, DtypeError, ShapeError
from tensor.primitives import rules
from tensor.primitives.primitive import ALL, Primitive, Sample, keep
from tensor.primitives.registry import register
from tensor.primitives.rules import BatchRule, apply, front
from tensor.primitives.spec import Spec
from tensor.primitives.structural import INDEX, INDEX_UPDATE, as_slices, normal, one_batch

Tensor = Any
Params = Any
CATEGORY = "structural"


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
            Sample(normal(rng, 2, 3), normal(rng, 2, 1), normal(rng, 2, 0), params={"axis": 1}),
            Sample(normal(rng, 2, 3), params={"axis": 0}),
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
            Sample(normal(rng, 2, 3), normal(rng), params={"widths": ((1, 0), (2, 1))}),
            Sample(normal(rng, 0, 2), normal(rng), params={"widths": ((1, 1), (0, 0))}),
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
            Sample(normal(rng, 4, 2), rng.permutation(4)[:3].astype("int64"), normal(rng, 3, 2)),
            Sample(normal(rng, 4), rng.integers(0, 2, 5), normal(rng, 5)),
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
        batch=one_batch(lambda x, params: ((x,), params)),
        oracle=lambda arrays, params: arrays[0],
        samples=lambda rng: [Sample(normal(rng, 2, 3), params={"device": "cpu"})],
    )
)

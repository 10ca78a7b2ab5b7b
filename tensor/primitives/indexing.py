"""Rows that read elements by index: take and gather; indices of what is not zero.

Indices are int64, from −n to n − 1 (IndexError beyond). scatter.py has the rows that write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.primitives.blocks import each_of_leading, own_batch, stacked_specs, twin_of_each
from tensor.primitives.primitive import ALL, Params, Primitive, Sample, keep
from tensor.primitives.registry import register
from tensor.primitives.rules import BatchRule, apply, batch_size, call, expand_to, front, zeros_like_spec
from tensor.primitives.spec import Spec, name_of

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]
Dims = tuple[int | None, ...]

CATEGORY = "indexing"
COMBINE = {"set": 0, "sum": 1, "prod": 2, "mean": 3, "max": 4, "min": 5}


def check_index(name: str, x: Any, index: Any, axis: int) -> None:
    if name_of(index.dtype) != "int64":
        raise DtypeError(f"{name}: indices must be int64, got {name_of(index.dtype)}")
    if not 0 <= axis < x.ndim:
        raise ShapeError(f"{name}: axis {axis} names no dimension of shape {x.shape}, from the front")


def in_range(name: str, index: Any, n: int) -> None:
    wrong = (index < -n) | (index >= n)
    if wrong.any():
        place = int(wrong.reshape(-1).argmax())
        raise IndexError(f"{name}: index {index.reshape(-1)[place]} (number {place}) is not from {-n} to {n - 1}")


# --- take ------------------------------------------------------------------------------------------------------------


def _take_shape(specs: Specs, params: Params) -> Spec:
    x, index = specs
    axis = params["axis"]
    check_index("take", x, index, axis)
    return Spec((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype, x.device)


def _take_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.take(inputs[0], params["axis"], inputs[1], outs[0])


def _take_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.indexing_ref import take

    x, index = arrays
    in_range("take", index, x.shape[params["axis"]])
    return take(x, index, params["axis"])


def _take_vjp(g: Tensor, node: Any) -> tuple[Tensor, None]:
    x, index = node.inputs
    return call(
        "scatter_rows", zeros_like_spec(x), index, g, axis=node.params["axis"], combine="sum", include=True
    ), None


def _from_front(index: Tensor, n: int) -> Tensor:
    return call("where", index < 0, index + n, index)


def own_rows(index: Tensor, batch: int, n: int) -> Tensor:
    """Indices [batch, …] into batch·n rows: each element of the batch has n of its own."""
    from tensor.functions.creation import arange

    start = arange(batch, dtype="int64", device=index.device) * n
    return _from_front(index, n) + expand_to(start.reshape((batch, *(1,) * (index.ndim - 1))), index.shape)


def _take_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    x, index = inputs
    axis = params["axis"]
    if dims[1] is None:
        return apply(primitive, (front(x, dims[0] or 0), index), {"axis": axis + 1}), 0
    index = front(index, dims[1])
    if dims[0] is None:
        return apply(primitive, (x, index), params), axis
    batch, moved = batch_size(inputs, dims), front(x, dims[0])
    # the axis next to the batch: both become rows
    order = (0, axis + 1, *(d for d in range(1, moved.ndim) if d != axis + 1))
    rows = moved.permute(order)
    n = rows.shape[1]
    taken = apply(primitive, (rows.reshape((batch * n, *rows.shape[2:])), own_rows(index, batch, n)), {"axis": 0})
    k = index.ndim - 1  # [batch, index…, dimensions before the axis…, after it…]
    back = (0, *range(1 + k, 1 + k + axis), *range(1, 1 + k), *range(1 + k + axis, taken.ndim))
    return taken.permute(back), 0


def _take_samples(rng: np.random.Generator) -> Iterable[Sample]:
    x = rng.normal(size=(3, 4, 5))
    yield Sample(x, rng.integers(-4, 4, (2, 3)), params={"axis": 1})
    yield Sample(x.transpose(2, 0, 1), rng.integers(-5, 5, 7), params={"axis": 0})
    yield Sample(x[0, 0], rng.integers(0, 5, ()), params={"axis": 0})
    yield Sample(x, rng.integers(0, 5, 0), params={"axis": 2})


def _numpy_take(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    return np.take(arrays[0], arrays[1], axis=params["axis"])


TAKE = register(
    Primitive(
        "take",
        category=CATEGORY,
        summary="x[…, indices, …] along an axis; indices of any shape.",
        dtypes=ALL,
        shape=_take_shape,
        kernel=_take_kernel,
        twin=_take_twin,
        keeps=keep(inputs=(1,)),
        vjp=_take_vjp,
        jvp=lambda tangents, node: call("take", tangents[0], node.inputs[1], **node.params),
        batch=BatchRule(_take_batch),
        samples=_take_samples,
        oracle=_numpy_take,
    )
)

# --- gather ----------------------------------------------------------------------------------------------------------


def _gather_shape(specs: Specs, params: Params) -> Spec:
    x, index = specs
    axis = params["axis"]
    check_index("gather", x, index, axis)
    if x.ndim != index.ndim or any(
        a != b for d, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if d != axis
    ):
        raise ShapeError(f"gather: shapes {x.shape} and {index.shape} must agree beside axis {axis}")
    return Spec(index.shape, x.dtype, x.device)


def _gather_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.gather(inputs[0], params["axis"], inputs[1], outs[0])


def _gather_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.indexing_ref import gather

    x, index = arrays
    in_range("gather", index, x.shape[params["axis"]])
    return gather(x, index, params["axis"])


def _gather_vjp(g: Tensor, node: Any) -> tuple[Tensor, None]:
    x, index = node.inputs
    return call("scatter", zeros_like_spec(x), index, g, axis=node.params["axis"], combine="sum", include=True), None


def along_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    n = batch_size(inputs, dims)
    moved = tuple(expand_to(x, (n, *x.shape)) if d is None else front(x, d) for x, d in zip(inputs, dims, strict=True))
    return apply(primitive, moved, {**params, "axis": params["axis"] + 1}), 0


def _gather_samples(rng: np.random.Generator) -> Iterable[Sample]:
    x = rng.normal(size=(3, 4, 5))
    yield Sample(x, rng.integers(-4, 4, (3, 2, 5)), params={"axis": 1})
    yield Sample(x.transpose(2, 0, 1)[::-1], rng.integers(-5, 5, (7, 3, 4)), params={"axis": 0})
    yield Sample(x[0], rng.integers(0, 5, (4, 0)), params={"axis": 1})


def _numpy_gather(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    return np.take_along_axis(arrays[0], arrays[1], axis=params["axis"])


GATHER = register(
    Primitive(
        "gather",
        category=CATEGORY,
        summary="out[o, j, i] = x[o, indices[o, j, i], i] along an axis.",
        dtypes=ALL,
        shape=_gather_shape,
        kernel=_gather_kernel,
        twin=_gather_twin,
        keeps=keep(inputs=(1,)),
        vjp=_gather_vjp,
        jvp=lambda tangents, node: call("gather", tangents[0], node.inputs[1], **node.params),
        batch=BatchRule(along_batch),
        samples=_gather_samples,
        oracle=_numpy_gather,
    )
)

# --- nonzero ---------------------------------------------------------------------------------------------------------


def _nonzero_shape(specs: Specs, params: Params) -> Spec:
    x = specs[0]
    if x.ndim == 0:
        raise ShapeError("nonzero: a tensor without dimensions has no indices")
    return Spec((x.ndim, params["count"]), "int64", x.device)


def _nonzero_counted(found: int, params: Params) -> None:
    """The size of the result is a promise: what breaks it must not read or leave unwritten memory."""
    if found != params["count"]:
        raise ValueError(f"nonzero: {found} elements are not zero, where count says {params['count']}")


def _nonzero_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _nonzero_counted(int(call("count_nonzero", inputs[0], axis=tuple(range(inputs[0].ndim)), keepdims=False)), params)
    _kernels.nonzero(inputs[0], outs[0])


def _nonzero_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.indexing_ref import nonzero

    found = nonzero(arrays[0])
    _nonzero_counted(found.shape[1], params)
    return found


def _nonzero_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    return np.argwhere(arrays[0]).T.reshape(arrays[0].ndim, -1)


def _nonzero_samples(rng: np.random.Generator) -> Iterable[Sample]:
    import numpy as np

    x = rng.integers(-1, 2, (3, 4, 5))
    for array in (x, x.transpose(2, 0, 1)[::-1], x[:0]):
        yield Sample(array, params={"count": int(np.count_nonzero(array))})


NONZERO = register(
    Primitive(
        "nonzero",
        category=CATEGORY,
        summary="The indices of the `count` elements that are not zero, row-major, one row a dimension.",
        dtypes=ALL,
        shape=stacked_specs(_nonzero_shape),
        kernel=each_of_leading(_nonzero_kernel),
        twin=twin_of_each(_nonzero_twin, _nonzero_shape),
        batch=BatchRule(own_batch),
        samples=_nonzero_samples,
        oracle=_nonzero_oracle,
    )
)

"""Rows of stable orders along an axis (NaN last), places in a sorted vector, and groups of equal values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.primitives.blocks import each_of_leading, own_batch, stacked_specs, twin_of_each
from tensor.primitives.primitive import ALL, REALS, Params, Primitive, Sample, keep
from tensor.primitives.reductions import check_dtype
from tensor.primitives.registry import register
from tensor.primitives.rules import BatchRule, apply, call, equal_dtypes, shifted_axes, zeros_like_spec
from tensor.primitives.spec import Spec, name_of, total_bytes

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]

CATEGORY = "sorting"
ORDERED = ("bool", *REALS)


def _cost(specs: Specs, outs: Specs, params: Params) -> tuple[int, int]:
    n = specs[0].size
    return total_bytes((*specs, *outs)), n * max(n.bit_length(), 1)


def _check_axis(name: str, x: Any, axis: int) -> None:
    check_dtype(name, x, ORDERED)
    if not 0 <= axis < x.ndim:
        raise ShapeError(f"{name}: axis {axis} names no dimension of shape {x.shape}, from the front")


def _back(g: Any, node: Any) -> tuple[Tensor]:
    """The gradient of the values, where they came from."""
    params = {"axis": node.params["axis"], "combine": "set", "include": True}
    return (call("scatter", zeros_like_spec(node.inputs[0]), node.outputs[1], g[0], **params),)


def _tangent(tangents: Sequence[Tensor], node: Any) -> tuple[Tensor, Tensor]:
    index = node.outputs[1]
    return call("gather", tangents[0], index, axis=node.params["axis"]), zeros_like_spec(index)


# --- sort, argsort, top_k --------------------------------------------------------------------------------------------


def _sort_shape(specs: Specs, params: Params) -> tuple[Spec, Spec]:
    x = specs[0]
    _check_axis("sort", x, params["axis"])
    return Spec(x.shape, x.dtype, x.device), Spec(x.shape, "int64", x.device)


def _sort_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.sort(inputs[0], params["axis"], params["descending"], outs[0], outs[1])


def _sort_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.sort_ref import top_k

    return top_k(arrays[0], arrays[0].shape[params["axis"]], params["axis"], params["descending"])


def _sort_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    x, axis = arrays[0], params["axis"]
    index = np.argsort(-1 * x if params["descending"] else x, axis=axis, kind="stable")
    return np.take_along_axis(x, index, axis), index


def _sort_samples(rng: np.random.Generator) -> Iterable[Sample]:
    x = rng.permutation(60).reshape(3, 4, 5) / 4 + 0.3
    for array, axis, descending in ((x, 2, False), (x, 1, True), (x[::-1, :, 0].T, 0, False), (x[:, :0, 0], 1, True)):
        yield Sample(array, params={"axis": axis, "descending": descending})


SORT = register(
    Primitive(
        "sort",
        category=CATEGORY,
        summary="The elements in stable order along an axis, NaN last, and where they came from.",
        dtypes=ORDERED,
        shape=_sort_shape,
        kernel=_sort_kernel,
        twin=_sort_twin,
        keeps=keep(outputs=(1,)),
        vjp=_back,
        jvp=_tangent,
        batch=shifted_axes("axis"),
        cost=_cost,
        samples=_sort_samples,
        oracle=_sort_oracle,
    )
)


def _argsort_shape(specs: Specs, params: Params) -> Spec:
    x = specs[0]
    _check_axis("argsort", x, params["axis"])
    return Spec(x.shape, "int64", x.device)


def _argsort_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.sort(inputs[0], params["axis"], params["descending"], None, outs[0])


def _argsort_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.sort_ref import argsort

    return argsort(arrays[0], params["axis"], params["descending"])


ARGSORT = register(
    Primitive(
        "argsort",
        category=CATEGORY,
        summary="The indices that sort along an axis: stable, NaN last.",
        dtypes=ORDERED,
        shape=_argsort_shape,
        kernel=_argsort_kernel,
        twin=_argsort_twin,
        batch=shifted_axes("axis"),
        cost=_cost,
        samples=_sort_samples,
        oracle=lambda arrays, params: _sort_oracle(arrays, params)[1],
    )
)


def _top_shape(specs: Specs, params: Params) -> tuple[Spec, Spec]:
    x, axis, k = specs[0], params["axis"], params["k"]
    _check_axis("top_k", x, axis)
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(f"top_k: k must be from 0 to {x.shape[axis]}, the size along axis {axis}, got {k}")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return Spec(shape, x.dtype, x.device), Spec(shape, "int64", x.device)


def _top_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.sort(inputs[0], params["axis"], params["largest"], outs[0], outs[1])


def _top_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.sort_ref import top_k

    return top_k(arrays[0], params["k"], params["axis"], params["largest"])


def _top_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    x, axis, k = arrays[0], params["axis"], params["k"]
    index = np.argsort(-1 * x if params["largest"] else x, axis=axis, kind="stable").take(np.arange(k), axis)
    return np.take_along_axis(x, index, axis), index


def _top_samples(rng: np.random.Generator) -> Iterable[Sample]:
    x = rng.permutation(60).reshape(3, 4, 5) / 4 + 0.3
    for array, axis, k, largest in ((x, 2, 2, True), (x, 1, 4, False), (x[::-1, :, 0].T, 0, 1, True), (x, 0, 0, True)):
        yield Sample(array, params={"axis": axis, "k": k, "largest": largest})


TOP_K = register(
    Primitive(
        "top_k",
        category=CATEGORY,
        summary="The k largest (or smallest) along an axis in their order, and their indices; ties: lower index first.",
        dtypes=ORDERED,
        shape=_top_shape,
        kernel=_top_kernel,
        twin=_top_twin,
        keeps=keep(outputs=(1,)),
        vjp=_back,
        jvp=_tangent,
        batch=shifted_axes("axis"),
        cost=_cost,
        samples=_top_samples,
        oracle=_top_oracle,
    )
)

# --- searchsorted ----------------------------------------------------------------------------------------------------


def _search_shape(specs: Specs, params: Params) -> Spec:
    x, values = specs
    check_dtype("searchsorted", x, ORDERED)
    equal_dtypes("searchsorted", (x, values))
    if x.ndim != 1:
        raise ShapeError(f"searchsorted: the sorted tensor must be a vector, got shape {x.shape}")
    return Spec(values.shape, "int64", values.device)


def _search_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.searchsorted(inputs[0], inputs[1], params["right"], outs[0])


def _search_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.sort_ref import searchsorted

    return searchsorted(arrays[0], arrays[1], params["right"])


def _search_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    return np.searchsorted(arrays[0], arrays[1], "right" if params["right"] else "left")


def _search_samples(rng: np.random.Generator) -> Iterable[Sample]:
    import numpy as np

    x = np.sort(rng.integers(0, 9, 12)).astype(float)
    for right in (False, True):
        yield Sample(x, rng.integers(-1, 11, (3, 4)).astype(float), params={"right": right})
    yield Sample(x[:0], x[:3], params={"right": True})


def _search_batch(inputs: tuple[Tensor, ...], dims: Any, params: Params) -> tuple[Any, Any]:
    from tensor.primitives.rules import loop_batch

    if dims[0] is None:  # the values' shape is free
        return apply(SEARCHSORTED, inputs, params), dims[1]
    return loop_batch(SEARCHSORTED, inputs, dims, params)


SEARCHSORTED = register(
    Primitive(
        "searchsorted",
        category=CATEGORY,
        summary="How many elements of a sorted vector come before each value; NaN is above everything.",
        dtypes=ORDERED,
        shape=_search_shape,
        kernel=_search_kernel,
        twin=_search_twin,
        batch=_search_batch,
        cost=_cost,
        samples=_search_samples,
        oracle=_search_oracle,
    )
)

# --- groups of equal values ------------------------------------------------------------------------------------------


def _groups_shape(specs: Specs, params: Params) -> tuple[Spec, ...]:
    x, order = specs
    if x.ndim != 1 or order.shape != x.shape:
        raise ShapeError(f"unique_groups: a vector and its order are needed, got shapes {x.shape} and {order.shape}")
    if name_of(order.dtype) != "int64":
        raise DtypeError(f"unique_groups: order must be int64, got {name_of(order.dtype)}")
    vector = Spec(x.shape, "int64", x.device)
    return vector, vector, vector, Spec((), "int64", x.device)


def _groups_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _kernels.unique_groups(*inputs, *outs)


def _groups_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    from tensor.twins.sort_ref import unique_groups

    x, order = arrays
    first, inverse, counts = unique_groups(x, order)
    room = np.zeros(len(x) - len(first), np.int64)
    return np.concatenate([first, room]), inverse, np.concatenate([counts, room]), np.int64(len(first))


def _groups_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    x = arrays[0]
    _, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    room = np.zeros(len(x) - len(first), np.int64)
    return np.concatenate([first, room]), inverse, np.concatenate([counts, room]), np.int64(len(first))


def _groups_samples(rng: np.random.Generator) -> Iterable[Sample]:
    import numpy as np

    for x in (rng.integers(0, 4, 12).astype(float), np.array([2.0]), np.zeros(0)):
        yield Sample(x, np.argsort(x, kind="stable").astype(np.int64), dtypes=("float32", "float64", "int8", "int64"))


UNIQUE_GROUPS = register(
    Primitive(
        "unique_groups",
        category=CATEGORY,
        summary="Groups of equal values of a vector in its order: first indices, members, counts, how many.",
        dtypes=ALL,
        shape=stacked_specs(_groups_shape),
        kernel=each_of_leading(_groups_kernel),
        twin=twin_of_each(_groups_twin, _groups_shape),
        batch=BatchRule(own_batch),
        cost=_cost,
        samples=_groups_samples,
        oracle=_groups_oracle,
    )
)


def unique_groups(x: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(first indices, group of every element, counts) of the groups of equal values of a vector in its order."""
    first, inverse, counts, groups = apply(UNIQUE_GROUPS, (x, order), None)
    n = int(groups.item())
    return first[:n], inverse, counts[:n]

"""Rows that put elements at places by index, one by one or by rows: the last one wins, or all are combined.

Indices are int64, from −n to n − 1 (IndexError beyond). "set" lets the last update of a place win; the others are
combined in the order of `sum`: a place's result depends on its own updates only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.primitives.indexing import COMBINE, along_batch, check_index, in_range, own_rows
from tensor.primitives.primitive import ALL, COMPLEX, FLOATS, Params, Primitive, Sample, keep
from tensor.primitives.registry import register
from tensor.primitives.rules import BatchRule, apply, batch_size, call, equal_dtypes, expand_to, front, zeros_like_spec
from tensor.primitives.spec import Spec, name_of

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]
Dims = tuple[int | None, ...]
CATEGORY = "indexing"


def _check_scatter(name: str, specs: Specs, params: Params) -> None:
    x, index, updates = specs
    check_index(name, x, index, params["axis"])
    equal_dtypes(name, (x, updates))
    if params["combine"] not in COMBINE:
        raise ShapeError(f"{name}: combine must be one of {', '.join(COMBINE)}, got {params['combine']!r}")
    kind = name_of(x.dtype)
    if kind.startswith("complex") and params["combine"] not in ("set", "sum"):
        raise DtypeError(f"{name}: {params['combine']} is not computed with {kind}")
    if kind == "bool" and params["combine"] != "set":
        raise DtypeError(f"{name}: {params['combine']} is not computed with bool (hint: astype(x, int64))")


def _scatter_shape(specs: Specs, params: Params) -> Spec:
    x, index, updates = specs
    axis = params["axis"]
    _check_scatter("scatter", specs, params)
    if index.shape != updates.shape or index.ndim != x.ndim:
        raise ShapeError(
            f"scatter: indices {index.shape} and updates {updates.shape} must have one shape, of {x.ndim} dimensions"
        )
    if any(b > a for d, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if d != axis):
        raise ShapeError(f"scatter: updates of shape {updates.shape} reach beyond {x.shape}")
    return Spec(x.shape, x.dtype, x.device)


def _rows_shape(specs: Specs, params: Params) -> Spec:
    x, index, updates = specs
    axis = params["axis"]
    _check_scatter("scatter_rows", specs, params)
    wanted = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    if updates.shape != wanted:
        raise ShapeError(f"scatter_rows: updates must have shape {wanted}, got {updates.shape}")
    return Spec(x.shape, x.dtype, x.device)


def _scatter_kernel(elementwise: bool) -> Callable[[tuple[Tensor, ...], tuple[Tensor, ...], Params], None]:
    def kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
        x, index, updates = inputs
        _kernels.copy_into(x, outs[0])
        code = COMBINE[params["combine"]]
        _kernels.scatter(outs[0], params["axis"], index, updates, code, params["include"], elementwise)

    return kernel


def _scatter_twin(elementwise: bool) -> Callable[[tuple[Any, ...], Params], Any]:
    def twin(arrays: tuple[Any, ...], params: Params) -> Any:
        from tensor.twins.indexing_ref import index_put, scatter

        x, index, updates = arrays
        in_range("scatter", index, x.shape[params["axis"]])
        run = scatter if elementwise else index_put
        return run(x, index, updates, params["axis"], params["combine"], params["include"])

    return twin


def _scatter_vjp(row: str, pick: str) -> Callable[[Any, Any], tuple[Tensor | None, ...]]:
    """pick is the row that reads what `row` writes."""

    def vjp(g: Tensor, node: Any) -> tuple[Tensor | None, ...]:
        x, index, updates = node.inputs
        axis, combine, include = node.params["axis"], node.params["combine"], node.params["include"]

        def put(base: Tensor, values: Tensor, how: str, keep_base: bool = True) -> Tensor:
            return call(row, base, index, values, axis=axis, combine=how, include=keep_base)

        def read(base: Tensor) -> Tensor:
            return call(pick, base, index, axis=axis)

        untouched = put(g, zeros_like_spec(updates), "set")  # g, 0 where an update went
        if combine == "set":
            return untouched, None, read(g) * _last_ones(row, pick, g, index, updates, axis)
        if combine == "sum":
            return g if include else untouched, None, read(g)
        ones = zeros_like_spec(updates) + 1
        base = zeros_like_spec(x)
        if combine == "mean":
            count = put(base + 1 if include else base, ones, "sum")
            count = call("where", count == 0, count * 0 + 1, count)
            return g / count if include else untouched, None, read(g / count)
        out = node.outputs[0]
        if combine in ("max", "min"):
            mine = call("cast", updates == read(out), dtype=name_of(x.dtype))
            base_hit = call("cast", x == out, dtype=name_of(x.dtype))
            count = put(base_hit if include else base, mine, "sum")
            count = call("where", count == 0, count * 0 + 1, count)
            share = g / count
            return share * base_hit if include else untouched, None, read(share) * mine
        # prod: the others' product, where at most one factor is 0
        zero_u = updates == 0
        u = call("where", zero_u, ones, updates)
        zeros = put(base, call("cast", zero_u, dtype=name_of(x.dtype)), "sum")
        rest = put(base + 1, u, "prod", False)
        if include:
            zero_x = x == 0
            zeros = zeros + call("cast", zero_x, dtype=name_of(x.dtype))
            safe_x = call("where", zero_x, base + 1, x)
            rest = rest * safe_x
            single = call("where", zeros == 1, rest, rest * 0)
            d_x = g * call("where", zeros == 0, rest / safe_x, call("where", zero_x, single, single * 0))
        else:
            d_x = untouched
            single = call("where", zeros == 1, rest, rest * 0)
        none = call("where", zeros == 0, rest, rest * 0)
        d_u = read(g) * call("where", zero_u, read(single), read(none) / u)
        return d_x, None, d_u

    return vjp


def _last_ones(row: str, pick: str, g: Tensor, index: Tensor, updates: Any, axis: int) -> Tensor:
    """1 for each update that stays, 0 for those that a later one replaced."""
    from tensor.functions.creation import arange, full

    number = arange(updates.size, dtype="int64", device=g.device).reshape(updates.shape)
    last = full(g.shape, -1, dtype="int64", device=g.device)
    last = call(row, last, index, number, axis=axis, combine="set", include=True)
    return call("cast", call(pick, last, index, axis=axis) == number, dtype=name_of(g.dtype))


def _scatter_picked(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    """Updates may be smaller than x beside the axis: only their batches must agree."""
    return along_batch(primitive, inputs, dims, params)


def _rows_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    x, index, updates = inputs
    batch, axis = batch_size(inputs, dims), params["axis"]
    x = expand_to(x, (batch, *x.shape)) if dims[0] is None else front(x, dims[0])
    updates = expand_to(updates, (batch, *updates.shape)) if dims[2] is None else front(updates, dims[2])
    if dims[1] is None:
        return apply(primitive, (x, index, updates), {**params, "axis": axis + 1}), 0
    index = front(index, dims[1])
    k = index.ndim - 1
    order = (0, axis + 1, *(d for d in range(1, x.ndim) if d != axis + 1))
    rows = x.permute(order)
    n = rows.shape[1]
    source = updates.permute(
        (0, *range(1 + axis, 1 + axis + k), *range(1, 1 + axis), *range(1 + axis + k, updates.ndim))
    )
    flat = rows.reshape((batch * n, *rows.shape[2:]))
    out = apply(primitive, (flat, own_rows(index, batch, n), source), {**params, "axis": 0})
    back = tuple(order.index(d) for d in range(x.ndim))
    return out.reshape(rows.shape).permute(back), 0


def _scatter_samples(elementwise: bool) -> Callable[[np.random.Generator], Iterable[Sample]]:
    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        x = rng.permutation(60).reshape(3, 4, 5) / 8 + 0.4
        for number, (combine, include) in enumerate(
            (
                ("set", True),
                ("sum", True),
                ("sum", False),
                ("mean", True),
                ("prod", True),
                ("max", True),
                ("min", False),
            )
        ):
            axis = number % 3
            shape = [*x.shape]
            shape[axis] = 6
            index = rng.integers(-x.shape[axis], x.shape[axis], shape if elementwise else 6)
            updates = (
                rng.permutation(int(index.size if elementwise else 60 // x.shape[axis] * 6)).reshape(shape) / 8 + 0.45
            )
            kinds: tuple[str, ...] | None = FLOATS
            if combine == "set":
                kinds = None
            elif combine == "sum":
                kinds = (*FLOATS, *COMPLEX, "int8", "uint64")
            elif combine != "mean":
                kinds = (*FLOATS, "int8", "uint16", "int64")
            yield Sample(x, index, updates, params={"axis": axis, "combine": combine, "include": include}, dtypes=kinds)

    return samples


def _scatter_oracle(elementwise: bool) -> Callable[[tuple[Any, ...], Params], Any]:
    """One update after the other, in numpy."""

    def oracle(arrays: tuple[Any, ...], params: Params) -> Any:
        import numpy as np

        x, index, updates = arrays
        axis, combine = params["axis"], params["combine"]
        out = np.moveaxis(x.copy(), axis, 0)
        new = updates if elementwise else np.moveaxis(updates, axis, 0)
        fresh = np.ones(out.shape, bool) if not params["include"] else np.zeros(out.shape, bool)
        count = np.where(fresh, 0, 1)
        step = {"sum": np.add, "mean": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}

        def one(place: Any, value: Any) -> None:
            if combine == "set":
                out[place] = value
                return
            out[place] = np.where(fresh[place], value, step[combine](out[place], value))
            fresh[place] = False
            count[place] += 1

        if elementwise:
            for at in np.ndindex(index.shape):
                one((index[at], *(p for d, p in enumerate(at) if d != axis)), new[at])
        else:
            for k, at in enumerate(index):
                one((at,), new[k])
        if combine == "mean":
            out = out / np.maximum(count, 1)
        return np.moveaxis(out, 0, axis)

    return oracle


for _name, _pick, _shape, _batch, _summary in (
    (
        "scatter",
        "gather",
        _scatter_shape,
        _scatter_picked,
        "x with updates[o, j, i] at x[o, indices[o, j, i], i]: the last one set, or all combined.",
    ),
    (
        "scatter_rows",
        "take",
        _rows_shape,
        _rows_batch,
        "x with updates[…, j, …] at x[…, indices[j], …]: the last one set, or all combined.",
    ),
):
    _each = _name == "scatter"
    register(
        Primitive(
            _name,
            category=CATEGORY,
            summary=_summary,
            dtypes=ALL,
            shape=_shape,
            kernel=_scatter_kernel(_each),
            twin=_scatter_twin(_each),
            keeps=keep(inputs=(0, 1, 2), outputs=(0,)),
            vjp=_scatter_vjp(_name, _pick),
            batch=BatchRule(_batch),
            samples=_scatter_samples(_each),
            oracle=_scatter_oracle(_each),
        )
    )

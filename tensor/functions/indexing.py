"""x[…] with tensors as indices, after numpy's rules: integer tensors pick, boolean ones select.

Everything is brought to one form: the dimensions that tensors index come first and become one, of which a flat index
takes rows. Where gradients or a transformation follow, the rows are taken by primitives.
"""

from __future__ import annotations

import math
from typing import Any

from tensor import _kernels
from tensor.errors import ShapeError, TraceError

Tensor = Any

__all__ = ["get", "put"]


def _tensor(k: Any) -> Tensor:
    if isinstance(k, _kernels.Tensor):
        return k
    if isinstance(k, (list, tuple)) or hasattr(k, "__array__") or hasattr(k, "__dlpack__"):
        x = _kernels.asarray(k)
        return x if x.size else _kernels.asarray(k, "int64")
    raise IndexError(f"index: expected ints, slices, None, ... or tensors, got {type(k).__name__}")


class _Plan:
    """The view that basic entries make, and which of its dimensions the flat indices stand for."""

    __slots__ = ("basic", "first", "indices", "together")

    def __init__(self, x: Tensor, key: Any) -> None:
        keys = list(key) if isinstance(key, tuple) else [key]
        entries: list[Any] = []
        named = 0
        for k in keys:
            if k is None or k is Ellipsis or isinstance(k, slice):
                entries.append(k)
                named += isinstance(k, slice)
                continue
            if isinstance(k, bool):
                k = _kernels.asarray(k)  # noqa: PLW2901
            elif isinstance(k, int):
                entries.append(k)
                named += 1
                continue
            t = _tensor(k)
            entries.append(t)
            named += t.ndim if t.dtype == "bool" else 1
        if named > x.ndim:
            raise IndexError(f"index: {named} indices for {x.ndim} dimensions")
        if not any(e is Ellipsis for e in entries):
            entries.append(Ellipsis)
        at = next(i for i, e in enumerate(entries) if e is Ellipsis)
        if any(e is Ellipsis for e in entries[at + 1 :]):
            raise IndexError("index: only one ... may stand in an index")
        entries[at : at + 1] = [slice(None)] * (x.ndim - named)

        basic: list[Any] = []  # entries of the view: slices and None only
        indices: list[tuple[int, Tensor]] = []  # (dimension of the view, index)
        places: list[int] = []  # where in `entries` the tensors stood
        d = 0  # dimension of x
        for i, e in enumerate(entries):
            if e is None or isinstance(e, slice):
                basic.append(e)
                d += e is not None
                continue
            places.append(i)
            if isinstance(e, int):
                indices.append((len(basic), _kernels.asarray(e)))
                basic.append(slice(None))
                d += 1
            elif e.dtype == "bool":
                sizes = x.shape[d : d + e.ndim]
                if len(sizes) < e.ndim or any(m not in (n, 0) for m, n in zip(e.shape, sizes, strict=True)):
                    raise IndexError(
                        f"index: a boolean index of shape {e.shape} does not fit dimensions of shape {sizes}"
                    )
                if e.ndim == 0:
                    indices.append((len(basic), _where_true(e.reshape((1,)))[0]))
                    basic.append(None)
                    continue
                for column in _where_true(e):
                    indices.append((len(basic), column))
                    basic.append(slice(None))
                d += e.ndim
            else:
                if e.dtype.kind not in ("signed integer", "unsigned integer"):
                    raise IndexError(f"index: a tensor as index must hold integers or booleans, got {e.dtype}")
                indices.append((len(basic), e))
                basic.append(slice(None))
                d += 1
        self.basic = tuple(basic)
        self.indices = indices
        self.together = places == list(range(places[0], places[-1] + 1))
        self.first = indices[0][0]


def _where_true(mask: Tensor) -> tuple[Tensor, ...]:
    """The positions of the true elements in row-major order, one int64 tensor a dimension."""
    if mask.is_traced:
        raise TraceError("index: a boolean index under a transformation has no known size (hint: tensor.where)")
    columns: tuple[Tensor, ...] = _kernels.true_positions(mask)
    return columns


def _checked(index: Tensor, n: int, d: int) -> Tensor:
    """The index counted from the front, in int64. IndexError where it leaves the dimension."""
    if index.is_traced:
        i = signed(index)
        return _function("where")(i < 0, i + n, i)
    return _kernels.wrap_index(index, n, d)


def signed(index: Tensor) -> Tensor:
    """Integers as int64; those of uint64 that it does not hold are its largest number, which is no index either."""
    if index.dtype.name == "uint64":
        index = _function("minimum")(index, _kernels.full((), 2**63 - 1, "uint64", index.device))
    return index.to("int64")


def _function(name: str) -> Any:
    from importlib import import_module

    return getattr(import_module("tensor"), name)


def _flat(view: Tensor, plan: _Plan) -> tuple[Tensor, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(flat index, its shape, the order that brings the indexed dimensions first, sizes of the others)."""
    dims = [d for d, _ in plan.indices]
    checked = [_checked(i, view.shape[d], d) for d, i in plan.indices]
    from tensor.primitives.rules import broadcast_shapes

    try:
        shape = broadcast_shapes("index", [i.shape for i in checked])
    except ShapeError as error:
        raise IndexError(str(error)) from None
    flat = None
    for i, d in zip(checked, dims, strict=True):
        flat = i if flat is None else flat * view.shape[d] + i
    others = [d for d in range(view.ndim) if d not in dims]
    order = (*dims, *others)
    assert flat is not None
    return flat.expand(shape).reshape((-1,)), shape, order, tuple(view.shape[d] for d in others)


def _layout(plan: _Plan, shape: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...] | None:
    """The order that puts the index's dimensions, which come first, where numpy has them; None if they stay."""
    if not plan.together or plan.first == 0:
        return None
    k = len(shape)
    return (*range(k, k + plan.first), *range(k), *range(k + plan.first, k + len(others)))


def get(x: Tensor, key: Any) -> Tensor:
    """x[key] where key holds tensors, lists of numbers or booleans. IndexError for what is out of range.

    >>> import tensor as tn
    >>> x = tn.asarray([[1, 2, 3], [4, 5, 6]])
    >>> x[:, tn.asarray([2, 0])].tolist(), x[x > 3].tolist()
    ([[3, 1], [6, 4]], [4, 5, 6])
    """
    plan = _Plan(x, key)
    view = x[plan.basic]
    flat, shape, order, others = _flat(view, plan)
    count = math.prod(view.shape[d] for d, _ in plan.indices)
    rows = view.permute(order).reshape((count, *others))
    if rows.is_traced or flat.is_traced or rows.requires_grad:
        taken = _function("take")(rows, flat, axis=0)
    else:
        taken = _kernels.empty((flat.size, *others), x.dtype, x.device)
        _kernels.take_rows(rows, flat, taken)
    out = taken.reshape((*shape, *others))
    layout = _layout(plan, shape, others)
    return out if layout is None else out.permute(layout)


def put(x: Tensor, key: Any, value: Any) -> None:
    """x[key] = value where key holds tensors, lists of numbers or booleans; the last value wins where places repeat."""
    from tensor.functions.operators import operand_to_assign

    plan = _Plan(x, key)
    values = operand_to_assign(value, x.dtype)
    recorded = _kernels.grad_mode() and (x.requires_grad or values.requires_grad)
    _kernels.in_place_check(x, recorded)
    if recorded:
        _kernels.adopt(x, _put_recorded(_kernels.shadow(x), plan, values))
        return
    view = _kernels.alias(x)[plan.basic]
    flat, order, source = _placed(view, plan, values)
    ordered = view.permute(order)
    counts = [view.shape[d] for d, _ in plan.indices]
    others = ordered.shape[len(counts) :]
    strides = ordered.strides
    if not flat.size or not view.size:
        return
    joined = all(strides[i] == strides[i + 1] * counts[i + 1] for i in range(len(counts) - 1))
    if source.is_shared:  # it may look at x: as if it were copied
        source = source.clone()
    if joined:
        _kernels.put_rows(ordered.reshape((math.prod(counts), *others), copy=False), flat, source)
        return
    target = ordered.clone().reshape((math.prod(counts), *others))
    _kernels.put_rows(target, flat, source)
    _kernels.assign(ordered, target.reshape(ordered.shape))


def _placed(view: Tensor, plan: _Plan, values: Tensor) -> tuple[Tensor, tuple[int, ...], Tensor]:
    """(flat index, order of the view's dimensions, values one row an index)."""
    flat, shape, order, others = _flat(view, plan)
    layout = _layout(plan, shape, others)
    whole = (*shape, *others)
    if layout is not None:
        whole = tuple(whole[d] for d in layout)
    while values.ndim > len(whole) and values.shape[0] == 1:
        values = values[0]
    try:
        wide = values.expand(whole)
    except ShapeError:
        raise ShapeError(f"x[...] = y: values of shape {values.shape} do not broadcast to {whole}") from None
    if layout is not None:
        wide = wide.permute(tuple(sorted(range(len(layout)), key=layout.__getitem__)))
    return flat, order, wide.reshape((flat.size, *others))


def _put_recorded(x: Tensor, plan: _Plan, values: Tensor) -> Tensor:
    """x with the values put in, by operations that gradients pass through."""
    if any(e != slice(None) and e is not None for e in plan.basic):
        places = _kernels.arange(0, 1, x.size, "int64").reshape(x.shape)[plan.basic]
    else:
        places = None
    view = x[plan.basic]
    flat, order, source = _placed(view, plan, values)
    counts = [view.shape[d] for d, _ in plan.indices]
    ordered = view.permute(order)
    rows = ordered.reshape((math.prod(counts), *ordered.shape[len(counts) :]))
    changed = _row("put_rows", rows, flat, source).reshape(ordered.shape)
    back = changed.permute(tuple(sorted(range(len(order)), key=order.__getitem__)))
    if places is None:
        return back.reshape(x.shape)
    return _row("put_rows", x.reshape((-1,)), places.reshape((-1,)), back.reshape((-1,))).reshape(x.shape)


def _row(name: str, *inputs: Tensor) -> Tensor:
    from tensor.primitives.registry import row

    return _kernels.apply(row(name, "moves"), inputs, None)

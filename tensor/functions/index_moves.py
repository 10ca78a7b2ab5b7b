"""Moving elements by index: take, gather, scatter, segments, masks. x[…] itself is in indexing.py.

Indices may be negative, from −n to n − 1; IndexError beyond. Where several updates meet, the last one wins, or they are
combined in the order of `sum`.
"""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import one_axis, run, tensor_of
from tensor.functions.indexing import signed
from tensor.functions.promotion import cast_to

__all__ = [
    "gather",
    "index_add",
    "index_select",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "segment_reduce",
    "take",
    "take_along_axis",
]

Tensor = Any

_REDUCE = ("sum", "prod", "mean", "max", "min")


def _indices(name: str, index: Any) -> Tensor:
    """Indices as int64; DtypeError for floats and booleans."""
    i = index if isinstance(index, _kernels.Tensor) else _kernels.asarray(index)
    if i.dtype.kind not in ("signed integer", "unsigned integer"):
        if i.size == 0 and not isinstance(index, _kernels.Tensor):
            return cast_to(i, "int64")
        raise DtypeError(f"{name}: indices must be integers, got {i.dtype.name}")
    return signed(i)


def take(x: Tensor, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """x's elements (or rows) at indices of any shape along an axis, which a vector needs not name.

    >>> import tensor as tn
    >>> tn.take(tn.asarray([[1, 2, 3], [4, 5, 6]]), tn.asarray([2, 0]), axis=1).tolist()
    [[3, 1], [6, 4]]
    """
    if axis is None:
        if tensor_of("take", x).ndim != 1:
            raise ShapeError(f"take: axis must be given for a tensor of {x.ndim} dimensions")
        axis = 0
    at = one_axis("take", axis, tensor_of("take", x).ndim)
    return run("take", "indexing", (x, _indices("take", indices)), {"axis": at})


def index_select(x: Tensor, axis: int, indices: Any, /) -> Tensor:
    """`take` along the axis, arguments in PyTorch's order."""
    return take(x, indices, axis=axis)


def _beside(name: str, x: Tensor, index: Tensor, at: int) -> tuple[Tensor, Tensor]:
    """Both broadcast to each other beside the axis."""
    if x.ndim != index.ndim:
        raise ShapeError(f"{name}: x and indices must have as many dimensions, got {x.ndim} and {index.ndim}")
    from tensor.primitives.rules import broadcast_shapes, expand_to

    a, b = (tuple(1 if d == at else n for d, n in enumerate(s)) for s in (x.shape, index.shape))
    common = broadcast_shapes(name, [a, b])

    def spread(t: Tensor) -> Tensor:
        return expand_to(t, tuple(t.shape[at] if d == at else n for d, n in enumerate(common)))

    return spread(x), spread(index)


def take_along_axis(x: Tensor, indices: Any, /, *, axis: int = -1) -> Tensor:
    """out[o, j, i] = x[o, indices[o, j, i], i]; x and indices broadcast beside the axis.

    >>> import tensor as tn
    >>> tn.take_along_axis(tn.asarray([[3, 1], [2, 4]]), tn.asarray([[1], [0]]), axis=1).tolist()
    [[1], [2]]
    """
    at = one_axis("take_along_axis", axis, tensor_of("take_along_axis", x).ndim)
    spread = _beside("take_along_axis", x, _indices("take_along_axis", indices), at)
    return run("gather", "indexing", spread, {"axis": at})


def gather(x: Tensor, axis: int, indices: Any, /) -> Tensor:
    """`take_along_axis`, arguments in PyTorch's order; indices may be smaller than x beside the axis.

    >>> import tensor as tn
    >>> tn.gather(tn.asarray([[3, 1], [2, 4]]), 1, tn.asarray([[1], [0]])).tolist()
    [[1], [2]]
    """
    at = one_axis("gather", axis, tensor_of("gather", x).ndim)
    index = _indices("gather", indices)
    if index.ndim == x.ndim:
        x = x[
            tuple(
                slice(None) if d == at or n >= m else slice(0, n)
                for d, (n, m) in enumerate(zip(index.shape, x.shape, strict=True))
            )
        ]
    return run("gather", "indexing", (x, index), {"axis": at})


def _scattered(name: str, x: Tensor, axis: int, indices: Any, updates: Any, combine: str, include: bool) -> Tensor:
    at = one_axis(name, axis, tensor_of(name, x).ndim)
    index = _indices(name, indices)
    if isinstance(updates, (bool, int, float, complex)):
        from tensor.functions.creation import full

        updates = full(index.shape, updates, dtype=x.dtype, device=x.device)
    if updates.dtype != x.dtype:
        raise DtypeError(f"{name}: updates must have x's type {x.dtype.name}, got {updates.dtype.name}")
    if updates.ndim == index.ndim and updates.shape != index.shape:
        updates = updates[tuple(slice(0, n) for n in index.shape)]
    return run("scatter", "scatter", (x, index, updates), {"axis": at, "combine": combine, "include": include})


def scatter(x: Tensor, axis: int, indices: Any, updates: Any, /) -> Tensor:
    """A copy of x with updates[o, j, i] at [o, indices[o, j, i], i]; the last one wins where places repeat.

    >>> import tensor as tn
    >>> tn.scatter(tn.zeros(3), 0, tn.asarray([1, 1]), tn.asarray([5.0, 7.0])).tolist()
    [0.0, 7.0, 0.0]
    """
    return _scattered("scatter", x, axis, indices, updates, "set", True)


def scatter_add(x: Tensor, axis: int, indices: Any, updates: Any, /) -> Tensor:
    """A copy of x to which updates[o, j, i] is added at [o, indices[o, j, i], i], in the order of `sum`.

    >>> import tensor as tn
    >>> tn.scatter_add(tn.ones(3), 0, tn.asarray([1, 1]), tn.asarray([5.0, 7.0])).tolist()
    [1.0, 13.0, 1.0]
    """
    return _scattered("scatter_add", x, axis, indices, updates, "sum", True)


def scatter_reduce(
    x: Tensor, axis: int, indices: Any, updates: Any, /, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy of x where updates are combined by sum, prod, mean, max or min; without include_self they replace.

    >>> import tensor as tn
    >>> tn.scatter_reduce(tn.ones(2), 0, tn.asarray([1, 1]), tn.asarray([5.0, 7.0]), "max").tolist()
    [1.0, 7.0]
    """
    if reduce not in _REDUCE:
        raise ValueError(f"scatter_reduce: reduce must be one of {', '.join(_REDUCE)}, got {reduce!r}")
    return _scattered("scatter_reduce", x, axis, indices, updates, reduce, bool(include_self))


def index_add(x: Tensor, axis: int, indices: Any, updates: Tensor, /) -> Tensor:
    """A copy of x with the rows of updates added to x's rows at indices along an axis, in the order of `sum`.

    >>> import tensor as tn
    >>> tn.index_add(tn.zeros((2, 2)), 0, tn.asarray([1, 1]), tn.ones((2, 2))).tolist()
    [[0.0, 0.0], [2.0, 2.0]]
    """
    at = one_axis("index_add", axis, tensor_of("index_add", x).ndim)
    inputs = (x, _indices("index_add", indices), updates)
    return run("scatter_rows", "scatter", inputs, {"axis": at, "combine": "sum", "include": True})


def segment_reduce(x: Tensor, segment_ids: Any, /, num_segments: int, reduce: str = "sum") -> Tensor:
    """Rows of x combined by segment: sum, prod, mean, max or min; a segment's sum is `sum` of its rows.

    segment_ids: a vector of ints from 0 to num_segments − 1, in any order. A segment without rows holds 0, 1, NaN
    (mean), the lowest (max) or the highest value of the type (min); integers have mean 0.

    >>> import tensor as tn
    >>> tn.segment_reduce(tn.asarray([1.0, 2.0, 3.0]), tn.asarray([2, 0, 2]), 3).tolist()
    [2.0, 0.0, 4.0]
    """
    if reduce not in _REDUCE:
        raise ValueError(f"segment_reduce: reduce must be one of {', '.join(_REDUCE)}, got {reduce!r}")
    if isinstance(num_segments, bool) or not isinstance(num_segments, int) or num_segments < 0:
        raise ShapeError(f"segment_reduce: num_segments must be an int from 0, got {num_segments}")
    ids = _indices("segment_reduce", segment_ids)
    if tensor_of("segment_reduce", x).ndim == 0 or ids.shape != x.shape[:1]:
        raise ShapeError(f"segment_reduce: one id a row of x is needed, got shapes {ids.shape} and {x.shape}")
    from tensor.functions.creation import full

    if not ids.is_traced and ids.size and int(ids.detach().min().item()) < 0:
        raise IndexError("segment_reduce: a segment id is negative")
    empty = full((num_segments, *x.shape[1:]), _identity(x.dtype, reduce), dtype=x.dtype, device=x.device)
    return run("scatter_rows", "scatter", (empty, ids, x), {"axis": 0, "combine": reduce, "include": False})


def _identity(dtype: Any, reduce: str) -> Any:
    floating = dtype.kind in ("real floating", "complex floating")
    if reduce == "sum":
        return 0
    if reduce == "prod":
        return 1
    if reduce == "mean":
        return float("nan") if floating else 0
    if floating:
        return float("-inf") if reduce == "max" else float("inf")
    from tensor.functions.dtypes import iinfo

    return iinfo(dtype).min if reduce == "max" else iinfo(dtype).max


# --- masks -----------------------------------------------------------------------------------------------------------


def _mask(name: str, mask: Tensor) -> Tensor:
    if tensor_of(name, mask).dtype != "bool":
        raise DtypeError(f"{name}: mask must be bool, got {mask.dtype.name}")
    return mask


def masked_fill(x: Tensor, mask: Tensor, value: Any, /) -> Tensor:
    """x with a value where the mask is true; they broadcast.

    >>> import tensor as tn
    >>> tn.masked_fill(tn.asarray([1.0, 2.0]), tn.asarray([True, False]), 0.0).tolist()
    [0.0, 2.0]
    """
    from tensor.functions.elementwise import where

    return where(_mask("masked_fill", mask), value, x)


def masked_select(x: Tensor, mask: Tensor, /) -> Tensor:
    """x's elements where the mask is true, as a vector in C order; they broadcast.

    >>> import tensor as tn
    >>> tn.masked_select(tn.asarray([1.0, 2.0, 3.0]), tn.asarray([True, False, True])).tolist()
    [1.0, 3.0]
    """
    from tensor.functions.manipulation import broadcast_arrays
    from tensor.functions.searching import nonzero

    wide, chosen = broadcast_arrays(tensor_of("masked_select", x), _mask("masked_select", mask))
    (where,) = nonzero(chosen.reshape((-1,)))
    return take(wide.reshape((-1,)), where, axis=0)


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor, /) -> Tensor:
    """x with the first elements of source, in C order, where the mask is true. ShapeError if source has too few.

    >>> import tensor as tn
    >>> tn.masked_scatter(tn.zeros(3), tn.asarray([True, False, True]), tn.asarray([5.0, 7.0])).tolist()
    [5.0, 0.0, 7.0]
    """
    from tensor.functions.elementwise import where
    from tensor.functions.manipulation import broadcast_to
    from tensor.functions.reductions import count_nonzero
    from tensor.functions.statistics import cumsum

    wide = broadcast_to(_mask("masked_scatter", mask), tensor_of("masked_scatter", x).shape)
    count = int(count_nonzero(wide.detach()).item())
    if source.size < count:
        raise ShapeError(f"masked_scatter: the mask has {count} true elements, source only {source.size}")
    if count == 0:
        return x.clone()
    number = cumsum(wide.reshape((-1,)), 0) - 1
    number = where(number < 0, 0, number)
    return where(wide, take(source.reshape((-1,)), number, axis=0).reshape(x.shape), x)

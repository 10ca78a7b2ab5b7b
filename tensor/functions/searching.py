"""Where the extreme, the non-zero and the right place in a sorted vector are."""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import one_axis, run, tensor_of

__all__ = ["argmax", "argmin", "nonzero", "searchsorted"]

Tensor = Any


def _index(name: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    ndim = tensor_of(name, x).ndim
    axes = tuple(range(ndim)) if axis is None else (one_axis(name, axis, ndim),)
    return run(name, "reductions", (x,), {"axis": axes, "keepdims": bool(keepdims)})


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The first index of the largest element along an axis, or in C order; of the first NaN if there is one.

    >>> import tensor as tn
    >>> tn.argmax(tn.asarray([1, 3, 3])).item()
    1
    """
    return _index("argmax", x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The first index of the smallest element along an axis, or in C order; of the first NaN if there is one.

    >>> import tensor as tn
    >>> tn.argmin(tn.asarray([1, 3, 1])).item()
    0
    """
    return _index("argmin", x, axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, row-major: one int64 vector a dimension.

    ShapeError without dimensions. How many there are depends on values: no transformation passes through.

    >>> import tensor as tn
    >>> [t.tolist() for t in tn.nonzero(tn.asarray([[0, 1], [1, 0]]))]
    [[0, 1], [1, 0]]
    """
    if tensor_of("nonzero", x).ndim == 0:
        raise ShapeError("nonzero: a tensor without dimensions has no indices (hint: x.reshape((1,)))")
    if x.is_traced:
        raise DtypeError("nonzero: the size of its result is not known under a transformation (hint: tensor.where)")
    plain = x.detach()
    from tensor.functions.reductions import count_nonzero

    count = int(count_nonzero(plain).item())
    found = run("nonzero", "indexing", (plain,), {"count": count})
    return tuple(found[d] for d in range(x.ndim))


def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """For each value of x2 how many elements of the sorted vector x1 come before it; NaN is above everything.

    side: "left" counts the elements below it, "right" also those equal to it. sorter: the indices that sort x1.

    >>> import tensor as tn
    >>> tn.searchsorted(tn.asarray([1, 3, 3, 5]), tn.asarray([3, 6])).tolist()
    [1, 4]
    """
    if side not in {"left", "right"}:
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if tensor_of("searchsorted", x1).ndim != 1:
        raise ShapeError(f"searchsorted: x1 must have one dimension, got shape {x1.shape}")
    values = x2 if isinstance(x2, _kernels.Tensor) else _kernels.asarray(x2, x1.dtype)
    if values.dtype != x1.dtype:
        from tensor.functions.promotion import cast_to, promote_types

        common = promote_types(x1.dtype, values.dtype, what="searchsorted")
        x1, values = cast_to(x1, common), cast_to(values, common)
    if sorter is not None:
        from tensor.functions.index_moves import take

        if tensor_of("searchsorted", sorter).shape != x1.shape:
            raise ShapeError(f"searchsorted: sorter must have the shape {x1.shape} of x1, got {sorter.shape}")
        x1 = take(x1, sorter, axis=0)
    return run("searchsorted", "sorting", (x1.detach(), values.detach()), {"right": side == "right"})

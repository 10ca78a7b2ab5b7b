"""Stable orders along an axis, NaN last in both directions."""

from __future__ import annotations

from typing import Any

from tensor.errors import ShapeError
from tensor.functions.axes import one_axis, run, tensor_of

__all__ = ["argsort", "sort", "top_k"]

Tensor = Any


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """x in ascending (or descending) order along an axis. NaN is last; the order is always stable.

    >>> import tensor as tn
    >>> tn.sort(tn.asarray([3.0, tn.nan, 1.0]), descending=True).tolist()
    [3.0, 1.0, nan]
    """
    at = one_axis("sort", axis, tensor_of("sort", x).ndim)
    values, _ = run("sort", "sorting", (x,), {"axis": at, "descending": bool(descending)})
    return values


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort x along an axis; equal elements keep their order.

    >>> import tensor as tn
    >>> tn.argsort(tn.asarray([2, 1, 2]), descending=True).tolist()
    [0, 2, 1]
    """
    at = one_axis("argsort", axis, tensor_of("argsort", x).ndim)
    return run("argsort", "sorting", (x.detach(),), {"axis": at, "descending": bool(descending)})


def top_k(x: Tensor, k: int, /, *, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis in their order, and their indices; ties: lower index first.

    ShapeError unless 0 ≤ k ≤ the size along the axis. NaN comes last.

    >>> import tensor as tn
    >>> [t.tolist() for t in tn.top_k(tn.asarray([1, 3, 2, 3]), 2)]
    [[3, 3], [1, 3]]
    """
    at = one_axis("top_k", axis, tensor_of("top_k", x).ndim)
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise TypeError(f"top_k: k must be an int, got {type(k).__name__}")
    count = k.__index__()
    if not 0 <= count <= x.shape[at]:
        raise ShapeError(f"top_k: k must be from 0 to {x.shape[at]}, the size along axis {at}, got {count}")
    values, indices = run("top_k", "sorting", (x,), {"axis": at, "k": count, "largest": bool(largest)})
    return values, indices

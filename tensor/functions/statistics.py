"""Sums, products, means, extremes and variances over axes, and cumulative ones.

Every sum has one fixed order, whatever the strides and the threads (docs/determinism.md). Integers narrower than 64
bits are summed and multiplied in 64. float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

from tensor.errors import ShapeError
from tensor.functions.axes import one_axis, reduced, rows_of, run, tensor_of
from tensor.functions.promotion import cast_to

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "max",
    "mean",
    "min",
    "norm",
    "prod",
    "std",
    "sum",
    "var",
]

Tensor = Any
Axis = Any  # int, tuple of ints or None: all

_FLOATS = ("real floating",)
_INEXACT = ("real floating", "complex floating")


def _as(x: Tensor, dtype: Any, name: str) -> tuple[Tensor, Any]:
    """x in the dtype that was asked for (before sums of it), and that dtype, or None."""
    if dtype is None:
        return tensor_of(name, x), None
    from tensor.functions.dtypes import astype, dtype_of

    wanted = dtype_of(dtype)
    return (x if tensor_of(name, x).dtype == wanted else astype(x, wanted)), wanted


def sum(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over axes; 0 for nothing. dtype: what x is converted to first.

    >>> import tensor as tn
    >>> tn.sum(tn.asarray([[1, 2], [3, 4]], dtype=tn.int8), axis=0)
    tensor([4, 6], dtype=int64)
    """
    x, wanted = _as(x, dtype, "sum")
    total = reduced("sum", x, axis, keepdims)
    return total if wanted is None else cast_to(total, wanted)


def prod(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over axes; 1 for nothing. dtype: what x is converted to first.

    >>> import tensor as tn
    >>> tn.prod(tn.asarray([2.0, 3.0])).item()
    6.0
    """
    x, wanted = _as(x, dtype, "prod")
    total = reduced("prod", x, axis, keepdims)
    return total if wanted is None else cast_to(total, wanted)


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum over axes divided by their number of elements; NaN for nothing. Floats and complex numbers only.

    >>> import tensor as tn
    >>> tn.mean(tn.asarray([1.0, 2.0])).item()
    1.5
    """
    rows_of("mean", x, _INEXACT, "astype(x, float32)")
    return reduced("mean", x, axis, keepdims)


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element over axes; NaN if there is one. ShapeError for nothing.

    >>> import tensor as tn
    >>> tn.max(tn.asarray([1, 3, 2])).item()
    3
    """
    return reduced("max", x, axis, keepdims)


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes; NaN if there is one. ShapeError for nothing.

    >>> import tensor as tn
    >>> tn.min(tn.asarray([1, 3, 2])).item()
    1
    """
    return reduced("min", x, axis, keepdims)


def _correction(name: str, value: float) -> float:
    number = float(value)
    if math.isnan(number):
        raise ValueError(f"{name}: correction must be a number, got nan")
    return number


def var(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The mean squared deviation from the mean over axes, in two passes: divided by max(n − correction, 0).

    >>> import tensor as tn
    >>> tn.var(tn.asarray([1.0, 2.0, 3.0]), correction=1).item()
    1.0
    """
    rows_of("var", x, _FLOATS, "astype(x, float32)")
    return reduced("var", x, axis, keepdims, correction=_correction("var", correction))


def std(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The square root of var.

    >>> import tensor as tn
    >>> tn.std(tn.asarray([1.0, 3.0])).item()
    1.0
    """
    rows_of("std", x, _FLOATS, "astype(x, float32)")
    return reduced("std", x, axis, keepdims, correction=_correction("std", correction))


def norm(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The square root of the sum of squares over axes; its gradient at 0 is 0.

    >>> import tensor as tn
    >>> tn.norm(tn.asarray([3.0, 4.0])).item()
    5.0
    """
    rows_of("norm", x, _FLOATS, "astype(x, float32)")
    return reduced("norm", x, axis, keepdims)


def _cumulative(name: str, row: str, x: Tensor, axis: int | None, dtype: Any, include_initial: bool) -> Tensor:
    x, wanted = _as(x, dtype, name)
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(f"{name}: axis must be given for a tensor of {x.ndim} dimensions")
        axis = 0
    at = one_axis(name, axis, x.ndim)
    total = run(row, "cumulative", (x,), {"axis": at})
    if wanted is not None:
        total = cast_to(total, wanted)
    if not include_initial:
        return total
    from tensor.functions.creation import full
    from tensor.functions.manipulation import concat

    shape = (*x.shape[:at], 1, *x.shape[at + 1 :])
    start = full(shape, 0 if row == "cumsum" else 1, dtype=total.dtype, device=total.device)
    return concat((start, total), axis=at)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The sums of the first 1, 2, … elements along an axis; with include_initial a 0 before them.

    In runs of 256: the running sum of 20,000,000 float32 ones is 20,000,000.

    >>> import tensor as tn
    >>> tn.cumulative_sum(tn.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulative("cumulative_sum", "cumsum", x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The products of the first 1, 2, … elements along an axis; with include_initial a 1 before them.

    >>> import tensor as tn
    >>> tn.cumulative_prod(tn.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _cumulative("cumulative_prod", "cumprod", x, axis, dtype, include_initial)


def cumsum(x: Tensor, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """`cumulative_sum` by its common name."""
    return _cumulative("cumsum", "cumsum", x, axis, dtype, False)


def cumprod(x: Tensor, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """`cumulative_prod` by its common name."""
    return _cumulative("cumprod", "cumprod", x, axis, dtype, False)


def cummax(x: Tensor, /, axis: int) -> tuple[Tensor, Tensor]:
    """The largest of the first 1, 2, … elements along an axis, and the first index that has it.

    >>> import tensor as tn
    >>> [t.tolist() for t in tn.cummax(tn.asarray([1, 3, 2, 3]), 0)]
    [[1, 3, 3, 3], [0, 1, 1, 1]]
    """
    at = one_axis("cummax", axis, tensor_of("cummax", x).ndim)
    values, indices = run("cummax", "cumulative", (x,), {"axis": at})
    return values, indices


def cummin(x: Tensor, /, axis: int) -> tuple[Tensor, Tensor]:
    """The smallest of the first 1, 2, … elements along an axis, and the first index that has it.

    >>> import tensor as tn
    >>> [t.tolist() for t in tn.cummin(tn.asarray([3, 1, 2, 1]), 0)]
    [[3, 1, 1, 1], [0, 1, 1, 1]]
    """
    at = one_axis("cummin", axis, tensor_of("cummin", x).ndim)
    values, indices = run("cummin", "cumulative", (x,), {"axis": at})
    return values, indices

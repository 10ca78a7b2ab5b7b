"""Truth over axes, counts, differences, logsumexp."""

from __future__ import annotations

from typing import Any

from tensor.errors import ShapeError
from tensor.functions.axes import one_axis, reduced, rows_of, tensor_of

__all__ = ["all", "any", "count_nonzero", "diff", "logsumexp"]

Tensor = Any
Axis = Any  # int, tuple of ints or None: all


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether no element over axes is zero; NaN is not. True for nothing.

    >>> import tensor as tn
    >>> tn.all(tn.asarray([1, 0])).item()
    False
    """
    return reduced("all", x, axis, keepdims)


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether an element over axes is not zero; NaN is not. False for nothing.

    >>> import tensor as tn
    >>> tn.any(tn.asarray([1, 0])).item()
    True
    """
    return reduced("any", x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements over axes are not zero.

    >>> import tensor as tn
    >>> tn.count_nonzero(tn.asarray([3, 0, 1])).item()
    2
    """
    return reduced("count_nonzero", x, axis, keepdims)


def logsumexp(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exp over axes, without overflow; −inf for nothing.

    >>> import tensor as tn
    >>> tn.logsumexp(tn.asarray([1000.0, 1000.0])).item()
    1000.6931762695312
    """
    rows_of("logsumexp", x, ("real floating",), "astype(x, float32)")
    return reduced("logsumexp", x, axis, keepdims)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The n-th differences of neighbours along an axis; prepend and append are put before and behind x first.

    >>> import tensor as tn
    >>> tn.diff(tn.asarray([1, 4, 9])).tolist()
    [3, 5]
    """
    at = one_axis("diff", axis, tensor_of("diff", x).ndim)
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ShapeError(f"diff: n must be an int from 0, got {n}")
    if prepend is not None or append is not None:
        from tensor.functions.manipulation import concat

        x = concat([part for part in (prepend, x, append) if part is not None], axis=at)
    before = (slice(None),) * at
    for _ in range(min(n, int(x.shape[at]))):
        high, low = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
        x = high != low if x.dtype == "bool" else high - low
    return x

"""Distinct values, ascending. Every NaN is distinct from every other; −0 equals +0.

How many there are depends on values: no gradient and no transformation passes through.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tensor.errors import DtypeError
from tensor.functions.axes import tensor_of
from tensor.functions.sorting import argsort

__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]

Tensor = Any


class UniqueAll(NamedTuple):
    """Of each distinct value: itself, the first index, the group of every element, how often it is there."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values and how often each is there."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values and, for every element, which of them it is."""

    values: Tensor
    inverse_indices: Tensor


def _order(x: Tensor) -> Tensor:
    """The stable ascending order of a vector; of complex numbers by the real part, then by the imaginary one."""
    if x.dtype.kind != "complex floating":
        return argsort(x)
    from tensor.functions.elementwise import imag, real
    from tensor.functions.index_moves import take

    by_imaginary = argsort(imag(x))
    return take(by_imaginary, argsort(take(real(x), by_imaginary, axis=0)), axis=0)


def _groups(name: str, x: Tensor) -> UniqueAll:
    if tensor_of(name, x).is_traced:
        raise DtypeError(f"{name}: the size of its result is not known under a transformation")
    vector = x.detach().reshape((-1,))
    order = _order(vector)
    from tensor.functions.index_moves import take
    from tensor.primitives.sorting import unique_groups

    first, inverse, counts = unique_groups(vector, order)
    return UniqueAll(take(vector, first, axis=0), first, inverse.reshape(x.shape), counts)


def unique_all(x: Tensor, /) -> UniqueAll:
    """Distinct values, their first indices in C order, the group of every element, counts.

    >>> import tensor as tn
    >>> [t.tolist() for t in tn.unique_all(tn.asarray([3, 1, 3]))]
    [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    return _groups("unique_all", x)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Distinct values and how often each is there.

    >>> import tensor as tn
    >>> [t.tolist() for t in tn.unique_counts(tn.asarray([3, 1, 3]))]
    [[1, 3], [1, 2]]
    """
    found = _groups("unique_counts", x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Distinct values and, for every element, which of them it is.

    >>> import tensor as tn
    >>> [t.tolist() for t in tn.unique_inverse(tn.asarray([3, 1, 3]))]
    [[1, 3], [1, 0, 1]]
    """
    found = _groups("unique_inverse", x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """Distinct values.

    >>> import tensor as tn
    >>> tn.unique_values(tn.asarray([3, 1, 3])).tolist()
    [1, 3]
    """
    return _groups("unique_values", x).values

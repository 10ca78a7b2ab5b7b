"""Comparisons, predicates, logic and bits, element by element."""

from __future__ import annotations

from typing import Any

from tensor.functions.call import binary as _binary
from tensor.functions.call import numeric as _numeric
from tensor.functions.call import row as _row
from tensor.functions.call import unary as _unary
from tensor.functions.promotion import cast_to, operands

__all__ = [
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "popcount",
    "signbit",
]

Tensor = Any
Operand = Any  # a Tensor or a Python number


def bitwise_and(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that both have.

    >>> import tensor as tn
    >>> tn.bitwise_and(tn.asarray(6), 3).item()
    2
    """
    return _binary("bitwise_and", x1, x2)


def bitwise_invert(x: Tensor, /) -> Tensor:
    """Every bit turned; booleans negated.

    >>> import tensor as tn
    >>> tn.bitwise_invert(tn.asarray(6)).item()
    -7
    """
    return _unary("bitwise_not", x)


def bitwise_left_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 moved up by x2 bits; 0 for the width or more, or a negative x2.

    >>> import tensor as tn
    >>> tn.bitwise_left_shift(tn.asarray(3), 2).item()
    12
    """
    return _binary("bitwise_left_shift", x1, x2)


def bitwise_or(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that one or both have.

    >>> import tensor as tn
    >>> tn.bitwise_or(tn.asarray(6), 3).item()
    7
    """
    return _binary("bitwise_or", x1, x2)


def bitwise_right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 moved down by x2 bits, the sign filled in.

    >>> import tensor as tn
    >>> tn.bitwise_right_shift(tn.asarray(-8), 1).item()
    -4
    """
    return _binary("bitwise_right_shift", x1, x2)


def bitwise_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that exactly one has.

    >>> import tensor as tn
    >>> tn.bitwise_xor(tn.asarray(6), 3).item()
    5
    """
    return _binary("bitwise_xor", x1, x2)


def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 = x2; NaN equals nothing.

    >>> import tensor as tn
    >>> tn.equal(tn.asarray(1.0), 1).item()
    True
    """
    return _binary("eq", x1, x2)


def greater(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 > x2; false with NaN.

    >>> import tensor as tn
    >>> tn.greater(tn.asarray(1.0), 2).item()
    False
    """
    return _binary("gt", x1, x2)


def greater_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 ≥ x2; false with NaN.

    >>> import tensor as tn
    >>> tn.greater_equal(tn.asarray(1.0), 1).item()
    True
    """
    return _binary("ge", x1, x2)


def isfinite(x: Tensor, /) -> Tensor:
    """Whether each element is neither infinite nor NaN.

    >>> import tensor as tn
    >>> tn.isfinite(tn.asarray(1.0)).item()
    True
    """
    return _numeric("isfinite", x)


def isinf(x: Tensor, /) -> Tensor:
    """Whether each element is infinite.

    >>> import tensor as tn
    >>> tn.isinf(tn.asarray(float("inf"))).item()
    True
    """
    return _numeric("isinf", x)


def isnan(x: Tensor, /) -> Tensor:
    """Whether each element is NaN.

    >>> import tensor as tn
    >>> tn.isnan(tn.asarray(float("nan"))).item()
    True
    """
    return _numeric("isnan", x)


def less(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 < x2; false with NaN.

    >>> import tensor as tn
    >>> tn.less(tn.asarray(1.0), 2).item()
    True
    """
    return _binary("lt", x1, x2)


def less_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 ≤ x2; false with NaN.

    >>> import tensor as tn
    >>> tn.less_equal(tn.asarray(1.0), 1).item()
    True
    """
    return _binary("le", x1, x2)


def logical_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether both are true; a number is true unless it is 0.

    >>> import tensor as tn
    >>> tn.logical_and(tn.asarray(True), False).item()
    False
    """
    return _logical("logical_and", x1, x2)


def logical_not(x: Tensor, /) -> Tensor:
    """Whether it is false; a number is true unless it is 0.

    >>> import tensor as tn
    >>> tn.logical_not(tn.asarray(True)).item()
    False
    """
    return _logical("logical_not", x)


def logical_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether one or both are true; a number is true unless it is 0.

    >>> import tensor as tn
    >>> tn.logical_or(tn.asarray(True), False).item()
    True
    """
    return _logical("logical_or", x1, x2)


def logical_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether exactly one is true; a number is true unless it is 0.

    >>> import tensor as tn
    >>> tn.logical_xor(tn.asarray(True), True).item()
    False
    """
    return _logical("logical_xor", x1, x2)


def not_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 ≠ x2; NaN differs from everything.

    >>> import tensor as tn
    >>> tn.not_equal(tn.asarray(1.0), 2).item()
    True
    """
    return _binary("ne", x1, x2)


def popcount(x: Tensor, /) -> Tensor:
    """The number of ones among the bits of each integer.

    >>> import tensor as tn
    >>> tn.popcount(tn.asarray(7)).item()
    3
    """
    return _unary("popcount", x)


def signbit(x: Tensor, /) -> Tensor:
    """Whether the sign of each float is minus, of −0 too.

    >>> import tensor as tn
    >>> tn.signbit(tn.asarray(-0.0)).item()
    True
    """
    return _unary("signbit", x)


def _logical(name: str, *values: Operand) -> Tensor:
    return _row(name, *(cast_to(x, "bool") for x in operands(name, *values)))

"""What operators on tensors do beyond equal dtypes: conversion of arrays, promotion, or declining.

The type slots of Tensor (kernels/array/operators.cpp) call this with the name of the elementwise row.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError

Tensor = Any

__all__ = ["binary", "contains", "matmul", "operand_in_place", "operand_to_assign", "unary"]

# Rows that functions of the array API standard call otherwise.
_FUNCTIONS = {
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "floor_div": "floor_divide",
    "mod": "remainder",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "neg": "negative",
    "copy": "positive",
    "bitwise_not": "bitwise_invert",
}


_NUMBERS: tuple[Any, ...] = (bool, int, float, complex)


def _function(row: str) -> Any:
    return getattr(import_module("tensor"), _FUNCTIONS.get(row, row))


def _operand(x: Any) -> Any:
    """A Tensor or Python number as it is, an array as a Tensor, None for anything else."""
    if type(x) in _NUMBERS or isinstance(x, _kernels.Tensor):
        return x
    for number in _NUMBERS[1:]:  # numpy's scalars and other subclasses as what they stand for
        if isinstance(x, number):
            return number(x)
    if hasattr(x, "__array__") or hasattr(x, "__dlpack__") or hasattr(x, "__array_interface__"):
        return _kernels.asarray(x)
    return None


def binary(row: str, a: Any, b: Any) -> Any:
    """a OP b; NotImplemented where one of them is no number and no array."""
    x, y = _operand(a), _operand(b)
    if x is None or y is None:
        return NotImplemented
    return _function(row)(x, y)


def unary(row: str, a: Tensor) -> Any:
    """OP a."""
    return _function(row)(a)


def matmul(a: Any, b: Any) -> Any:
    """a @ b; NotImplemented where one of them is no array."""
    x, y = _operand(a), _operand(b)
    if x is None or y is None:
        return NotImplemented
    return import_module("tensor").matmul(x, y)


def operand_in_place(a: Tensor, b: Any) -> Any:
    """b as a tensor of a's dtype, for a OP= b; DtypeError where the result of a OP b would have another one."""
    from tensor.functions.promotion import result_type

    y = _operand(b)
    if y is None:
        return NotImplemented
    wanted = result_type(a, y)
    if wanted != a.dtype:
        raise DtypeError(
            f"in place: {a.dtype} cannot take the {wanted} that {a.dtype} and "
            f"{getattr(y, 'dtype', type(y).__name__)} give (hint: x = x + y)"
        )
    return operand_to_assign(y, a.dtype)


def operand_to_assign(value: Any, dtype: Any) -> Tensor:
    """value as a tensor of the dtype, for x[...] = value: real numbers do not take complex ones, ints no floats."""
    from tensor.functions.dtypes import astype

    if isinstance(value, (int, float, complex)):
        return _kernels.asarray(value, dtype)
    y = value if isinstance(value, _kernels.Tensor) else _kernels.asarray(value)
    if y.dtype == dtype:
        return y
    order = ("bool", "signed integer", "real floating", "complex floating")
    kinds = [order.index(d.kind.replace("unsigned", "signed")) for d in (y.dtype, dtype)]
    if kinds[0] > kinds[1]:
        raise DtypeError(f"x[...] = y: {dtype} cannot take {y.dtype} (hint: y.to({dtype}))")
    return astype(y, dtype)


def contains(x: Tensor, value: Any) -> bool:
    """Whether an element equals value."""
    equal = x == value
    return isinstance(equal, _kernels.Tensor) and bool(equal.any())

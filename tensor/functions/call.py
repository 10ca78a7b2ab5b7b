"""How functions reach the rows of the registry: checks of their operands, promotion, the call."""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError
from tensor.functions.promotion import cast_to, operands
from tensor.primitives import registry

__all__ = ["arithmetic", "binary", "floating", "is_real", "number", "numeric", "row", "unary"]

Tensor = Any
Operand = Any

_INEXACT = frozenset(("float16", "bfloat16", "float32", "float64", "complex64", "complex128"))


_Tensor = _kernels.Tensor
_BOOL = _kernels.Dtype("bool")
_rows = registry.REGISTRY


def row(name: str, *inputs: Tensor) -> Tensor:
    """Runs the row of that name, which has no params."""
    found = _rows.get(name)
    return _kernels.apply(registry.row(name) if found is None else found, inputs, None)


def _tensor(name: str, x: Any) -> None:
    if not isinstance(x, _Tensor):
        raise TypeError(f"{name}: expected a Tensor, got {type(x).__name__} (hint: asarray)")


def number(name: str, x: Tensor) -> None:
    """TypeError unless x is a Tensor, DtypeError unless it holds numbers."""
    _tensor(name, x)
    if x.dtype is _BOOL:
        raise DtypeError(
            f"{name}: arithmetic on booleans has no meaning (hint: astype(x, int64), or logical_ functions)"
        )


def is_real(x: Tensor) -> bool:
    """Whether x holds no complex numbers."""
    return not x.dtype.name.startswith("complex")


def unary(name: str, x: Tensor) -> Tensor:
    """The row on a tensor as it is."""
    _tensor(name, x)
    return row(name, x)


def numeric(name: str, x: Tensor) -> Tensor:
    """The row on a tensor of numbers."""
    number(name, x)
    return row(name, x)


def binary(name: str, x1: Operand, x2: Operand) -> Tensor:
    """The row on two operands in their common type."""
    if isinstance(x1, _Tensor) and isinstance(x2, _Tensor) and x1.dtype is x2.dtype:
        return row(name, x1, x2)
    return row(name, *operands(name, x1, x2))


def arithmetic(name: str, x1: Operand, x2: Operand) -> Tensor:
    """The same on numbers: booleans alone have no arithmetic."""
    if not (isinstance(x1, _Tensor) and isinstance(x2, _Tensor) and x1.dtype is x2.dtype):
        x1, x2 = operands(name, x1, x2)
    if x1.dtype is _BOOL:
        number(name, x1)
    return row(name, x1, x2)


def floating(name: str, *values: Operand) -> Tensor:
    """The row on floats or complex numbers; integers are float32 first."""
    tensors = operands(name, *values)
    number(name, tensors[0])
    if tensors[0].dtype.name not in _INEXACT:
        tensors = tuple(cast_to(x, "float32") for x in tensors)
    return row(name, *tensors)

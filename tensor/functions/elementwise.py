"""Arithmetic, rounding and the parts of complex numbers, element by element."""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError
from tensor.functions.call import arithmetic as _arithmetic
from tensor.functions.call import binary as _binary
from tensor.functions.call import floating as _floating
from tensor.functions.call import is_real as _is_real
from tensor.functions.call import number as _number
from tensor.functions.call import numeric as _numeric
from tensor.functions.call import row as _row
from tensor.functions.call import unary as _unary
from tensor.functions.promotion import cast_to, operands

__all__ = [
    "abs",
    "add",
    "angle",
    "ceil",
    "clip",
    "conj",
    "divide",
    "floor",
    "floor_divide",
    "imag",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "sign",
    "sqrt",
    "square",
    "subtract",
    "trunc",
    "where",
]

Tensor = Any
Operand = Any  # a Tensor or a Python number


def abs(x: Tensor, /) -> Tensor:
    """The size of each element: of a complex number a float.

    >>> import tensor as tn
    >>> tn.abs(tn.asarray(-2.5)).item()
    2.5
    """
    return _unary("abs", x)


def add(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 + x2; integers wrap.

    >>> import tensor as tn
    >>> tn.add(tn.asarray(1), 2).item()
    3
    """
    return _arithmetic("add", x1, x2)


def angle(x: Tensor, /) -> Tensor:
    """The angle of each complex number, in radians from −π to π.

    >>> import tensor as tn
    >>> tn.angle(tn.asarray(-1+0j)).item()
    3.1415927410125732
    """
    return _unary("angle", x)


def ceil(x: Tensor, /) -> Tensor:
    """Each element rounded up.

    >>> import tensor as tn
    >>> tn.ceil(tn.asarray(1.2)).item()
    2.0
    """
    return _unary("ceil", x)


def conj(x: Tensor, /) -> Tensor:
    """The complex conjugate; real numbers as they are.

    >>> import tensor as tn
    >>> tn.conj(tn.asarray(1+2j)).item()
    (1-2j)
    """
    return _unary("conj", x)


def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 / x2; integers give float32.

    >>> import tensor as tn
    >>> tn.divide(tn.asarray(1.0), 4).item()
    0.25
    """
    return _division("div", x1, x2)


def floor(x: Tensor, /) -> Tensor:
    """Each element rounded down.

    >>> import tensor as tn
    >>> tn.floor(tn.asarray(-1.2)).item()
    -2.0
    """
    return _unary("floor", x)


def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 / x2 rounded down; an integer divided by 0 is 0.

    >>> import tensor as tn
    >>> tn.floor_divide(tn.asarray(-7), 2).item()
    -4
    """
    return _arithmetic("floor_div", x1, x2)


def imag(x: Tensor, /) -> Tensor:
    """The imaginary part of each complex number.

    >>> import tensor as tn
    >>> tn.imag(tn.asarray(1+2j)).item()
    2.0
    """
    return _unary("imag", x)


def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    """The larger of the two; NaN if either is, +0 above −0.

    >>> import tensor as tn
    >>> tn.maximum(tn.asarray(1.5), 2).item()
    2.0
    """
    return _binary("maximum", x1, x2)


def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    """The smaller of the two; NaN if either is, −0 below +0.

    >>> import tensor as tn
    >>> tn.minimum(tn.asarray(1.5), 2).item()
    1.5
    """
    return _binary("minimum", x1, x2)


def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 · x2; integers wrap.

    >>> import tensor as tn
    >>> tn.multiply(tn.asarray(3), 4).item()
    12
    """
    return _arithmetic("mul", x1, x2)


def negative(x: Tensor, /) -> Tensor:
    """−x; integers wrap.

    >>> import tensor as tn
    >>> tn.negative(tn.asarray(3)).item()
    -3
    """
    return _unary("neg", x)


def positive(x: Tensor, /) -> Tensor:
    """The same elements, in memory of their own.

    >>> import tensor as tn
    >>> tn.positive(tn.asarray(3)).item()
    3
    """
    return _numeric("copy", x)


def real(x: Tensor, /) -> Tensor:
    """The real part of each complex number.

    >>> import tensor as tn
    >>> tn.real(tn.asarray(1+2j)).item()
    1.0
    """
    return _unary("real", x)


def reciprocal(x: Tensor, /) -> Tensor:
    """1 / x; integers give float32.

    >>> import tensor as tn
    >>> tn.reciprocal(tn.asarray(4.0)).item()
    0.25
    """
    return _floating("reciprocal", x)


def relu(x: Tensor, /) -> Tensor:
    """0 where x is below 0, else x: NaN and −0 stay.

    >>> import tensor as tn
    >>> tn.relu(tn.asarray(-2.0)).item()
    0.0
    """
    return _unary("relu", x)


def remainder(x1: Operand, x2: Operand, /) -> Tensor:
    """What floor_divide leaves: it has the sign of x2; an integer modulo 0 is 0.

    >>> import tensor as tn
    >>> tn.remainder(tn.asarray(-7), 2).item()
    1
    """
    return _arithmetic("mod", x1, x2)


def round(x: Tensor, /) -> Tensor:
    """Each element rounded to the nearest integer, to the even one of two.

    >>> import tensor as tn
    >>> tn.round(tn.asarray(2.5)).item()
    2.0
    """
    return _unary("round", x)


def sign(x: Tensor, /) -> Tensor:
    """−1, 0 or 1; z / |z| of a complex number; NaN of NaN.

    >>> import tensor as tn
    >>> tn.sign(tn.asarray(-2.5)).item()
    -1.0
    """
    return _unary("sign", x)


def sqrt(x: Tensor, /) -> Tensor:
    """The square root; integers give float32.

    >>> import tensor as tn
    >>> tn.sqrt(tn.asarray(9.0)).item()
    3.0
    """
    return _floating("sqrt", x)


def square(x: Tensor, /) -> Tensor:
    """x · x; integers wrap.

    >>> import tensor as tn
    >>> tn.square(tn.asarray(3)).item()
    9
    """
    return _unary("square", x)


def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 − x2; integers wrap.

    >>> import tensor as tn
    >>> tn.subtract(tn.asarray(3), 4).item()
    -1
    """
    return _arithmetic("sub", x1, x2)


def trunc(x: Tensor, /) -> Tensor:
    """Each element rounded towards zero.

    >>> import tensor as tn
    >>> tn.trunc(tn.asarray(-1.7)).item()
    -1.0
    """
    return _unary("trunc", x)


def _division(name: str, x1: Operand, x2: Operand) -> Tensor:
    a, b = operands(name, x1, x2)
    return _floating(name, a, b)


def clip(x: Tensor, /, min: Operand = None, max: Operand = None) -> Tensor:
    """x kept between `min` and `max`, which may be tensors that broadcast; max where min is above it.

    The result has x's element type. TypeError for complex numbers or booleans.

    >>> import tensor as tn
    >>> tn.clip(tn.asarray(7), 0, 5).item()
    5
    """
    _number("clip", x)
    if not _is_real(x):
        raise DtypeError(f"clip: {x.dtype.name} has no order (hint: tensor.real)")
    if min is not None and max is not None:
        return _row("clip", x, _bound(min, x), _bound(max, x))
    if min is not None:
        return _row("maximum", x, _bound(min, x))
    if max is not None:
        return _row("minimum", x, _bound(max, x))
    return _row("copy", x)


def _bound(value: Operand, x: Tensor) -> Tensor:
    if isinstance(value, _kernels.Tensor):
        return cast_to(value, x.dtype)
    from tensor.functions.creation import asarray

    return asarray(value, dtype=x.dtype, device=x.device)


def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 to the power x2; 0 to the power 0 is 1, a negative base to a fraction NaN.

    ValueError for integers to a negative power; inside a transformation, where values are not known, these are
    truncated: 0 but for bases of 1 and −1.

    >>> import tensor as tn
    >>> tn.pow(tn.asarray(3), 4).item()
    81
    """
    a, b = operands("pow", x1, x2)
    if b.dtype.name.startswith("int") and not b.is_traced and bool((b < 0).any()):
        raise ValueError("pow: integers to a negative power are no integers (hint: astype(x, float32))")
    return _arithmetic("pow", a, b)


def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor:
    """x1 where the condition is true, else x2; all three broadcast.

    DtypeError unless the condition is boolean.

    >>> import tensor as tn
    >>> tn.where(tn.asarray(True), tn.asarray(1), 2).item()
    1
    """
    if not isinstance(condition, _kernels.Tensor) or condition.dtype.name != "bool":
        got = condition.dtype.name if isinstance(condition, _kernels.Tensor) else type(condition).__name__
        raise DtypeError(f"where: condition must be a boolean Tensor, got {got} (hint: condition != 0)")
    a, b = operands("where", x1, x2)
    return _row("where", condition, a, b)

"""Elementary and special functions, element by element; at most 1 ulp in float32 (docs/accuracy.md)."""

from __future__ import annotations

from typing import Any

from tensor.functions.call import floating as _floating

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "copysign",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "gelu",
    "hypot",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "nextafter",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "tan",
    "tanh",
    "trigamma",
]

Tensor = Any
Operand = Any  # a Tensor or a Python number


def acos(x: Tensor, /) -> Tensor:
    """The arc cosine, in radians from 0 to π. Integers give float32.

    >>> import tensor as tn
    >>> tn.acos(tn.asarray(1.0)).item()
    0.0
    """
    return _floating("acos", x)


def acosh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic cosine. Integers give float32.

    >>> import tensor as tn
    >>> tn.acosh(tn.asarray(1.0)).item()
    0.0
    """
    return _floating("acosh", x)


def asin(x: Tensor, /) -> Tensor:
    """The arc sine, in radians from −π/2 to π/2. Integers give float32.

    >>> import tensor as tn
    >>> tn.asin(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("asin", x)


def asinh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic sine. Integers give float32.

    >>> import tensor as tn
    >>> tn.asinh(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("asinh", x)


def atan(x: Tensor, /) -> Tensor:
    """The arc tangent, in radians from −π/2 to π/2. Integers give float32.

    >>> import tensor as tn
    >>> tn.atan(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("atan", x)


def atanh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic tangent. Integers give float32.

    >>> import tensor as tn
    >>> tn.atanh(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("atanh", x)


def cos(x: Tensor, /) -> Tensor:
    """The cosine of an angle in radians. Integers give float32.

    >>> import tensor as tn
    >>> tn.cos(tn.asarray(0.0)).item()
    1.0
    """
    return _floating("cos", x)


def cosh(x: Tensor, /) -> Tensor:
    """The hyperbolic cosine. Integers give float32.

    >>> import tensor as tn
    >>> tn.cosh(tn.asarray(0.0)).item()
    1.0
    """
    return _floating("cosh", x)


def digamma(x: Tensor, /) -> Tensor:
    """The derivative of log Γ(x). Integers give float32.

    >>> import tensor as tn
    >>> tn.digamma(tn.asarray(1.0)).item()
    -0.5772156715393066
    """
    return _floating("digamma", x)


def erf(x: Tensor, /) -> Tensor:
    """The error function 2/√π ∫₀ˣ exp(−t²) dt. Integers give float32.

    >>> import tensor as tn
    >>> tn.erf(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("erf", x)


def erfc(x: Tensor, /) -> Tensor:
    """1 − erf(x), without cancellation. Integers give float32.

    >>> import tensor as tn
    >>> tn.erfc(tn.asarray(0.0)).item()
    1.0
    """
    return _floating("erfc", x)


def exp(x: Tensor, /) -> Tensor:
    """e to the power x. Integers give float32.

    >>> import tensor as tn
    >>> tn.exp(tn.asarray(0.0)).item()
    1.0
    """
    return _floating("exp", x)


def exp2(x: Tensor, /) -> Tensor:
    """2 to the power x. Integers give float32.

    >>> import tensor as tn
    >>> tn.exp2(tn.asarray(3.0)).item()
    8.0
    """
    return _floating("exp2", x)


def expm1(x: Tensor, /) -> Tensor:
    """exp(x) − 1, without cancellation. Integers give float32.

    >>> import tensor as tn
    >>> tn.expm1(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("expm1", x)


def lgamma(x: Tensor, /) -> Tensor:
    """log |Γ(x)|. Integers give float32.

    >>> import tensor as tn
    >>> tn.lgamma(tn.asarray(1.0)).item()
    0.0
    """
    return _floating("lgamma", x)


def log(x: Tensor, /) -> Tensor:
    """The natural logarithm. Integers give float32.

    >>> import tensor as tn
    >>> tn.log(tn.asarray(1.0)).item()
    0.0
    """
    return _floating("log", x)


def log10(x: Tensor, /) -> Tensor:
    """The logarithm to base 10. Integers give float32.

    >>> import tensor as tn
    >>> tn.log10(tn.asarray(1.0)).item()
    0.0
    """
    return _floating("log10", x)


def log1p(x: Tensor, /) -> Tensor:
    """log(1 + x), without cancellation. Integers give float32.

    >>> import tensor as tn
    >>> tn.log1p(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("log1p", x)


def log2(x: Tensor, /) -> Tensor:
    """The logarithm to base 2. Integers give float32.

    >>> import tensor as tn
    >>> tn.log2(tn.asarray(8.0)).item()
    3.0
    """
    return _floating("log2", x)


def rsqrt(x: Tensor, /) -> Tensor:
    """1 / √x, two roundings. Integers give float32.

    >>> import tensor as tn
    >>> tn.rsqrt(tn.asarray(4.0)).item()
    0.5
    """
    return _floating("rsqrt", x)


def sigmoid(x: Tensor, /) -> Tensor:
    """1 / (1 + exp(−x)). Integers give float32.

    >>> import tensor as tn
    >>> tn.sigmoid(tn.asarray(0.0)).item()
    0.5
    """
    return _floating("sigmoid", x)


def silu(x: Tensor, /) -> Tensor:
    """x · sigmoid(x). Integers give float32.

    >>> import tensor as tn
    >>> tn.silu(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("silu", x)


def sin(x: Tensor, /) -> Tensor:
    """The sine of an angle in radians. Integers give float32.

    >>> import tensor as tn
    >>> tn.sin(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("sin", x)


def sinh(x: Tensor, /) -> Tensor:
    """The hyperbolic sine. Integers give float32.

    >>> import tensor as tn
    >>> tn.sinh(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("sinh", x)


def softplus(x: Tensor, /) -> Tensor:
    """log(1 + exp(x)). Integers give float32.

    >>> import tensor as tn
    >>> tn.softplus(tn.asarray(0.0)).item()
    0.6931471824645996
    """
    return _floating("softplus", x)


def tan(x: Tensor, /) -> Tensor:
    """The tangent of an angle in radians. Integers give float32.

    >>> import tensor as tn
    >>> tn.tan(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("tan", x)


def tanh(x: Tensor, /) -> Tensor:
    """The hyperbolic tangent. Integers give float32.

    >>> import tensor as tn
    >>> tn.tanh(tn.asarray(0.0)).item()
    0.0
    """
    return _floating("tanh", x)


def trigamma(x: Tensor, /) -> Tensor:
    """The derivative of digamma, the second of log Γ(x). Integers give float32.

    >>> import tensor as tn
    >>> tn.trigamma(tn.asarray(1.0, dtype=tn.float64)).item()
    1.6449340668482264
    """
    return _floating("trigamma", x)


def atan2(x1: Operand, x2: Operand, /) -> Tensor:
    """The angle of the point (x2, x1), in radians from −π to π.

    >>> import tensor as tn
    >>> tn.atan2(tn.asarray(0.0), tn.asarray(1.0)).item()
    0.0
    """
    return _floating("atan2", x1, x2)


def copysign(x1: Operand, x2: Operand, /) -> Tensor:
    """The size of x1 with the sign of x2.

    >>> import tensor as tn
    >>> tn.copysign(tn.asarray(1.0), tn.asarray(-0.0)).item()
    -1.0
    """
    return _floating("copysign", x1, x2)


def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    """√(x1² + x2²), without overflow on the way.

    >>> import tensor as tn
    >>> tn.hypot(tn.asarray(3.0), tn.asarray(4.0)).item()
    5.0
    """
    return _floating("hypot", x1, x2)


def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """log(exp(x1) + exp(x2)), without overflow on the way.

    >>> import tensor as tn
    >>> tn.logaddexp(tn.asarray(0.0), tn.asarray(0.0)).item()
    0.6931471824645996
    """
    return _floating("logaddexp", x1, x2)


def nextafter(x1: Operand, x2: Operand, /) -> Tensor:
    """The next float after x1 towards x2.

    >>> import tensor as tn
    >>> tn.nextafter(tn.asarray(0.0), tn.asarray(1.0)).item()
    1.401298464324817e-45
    """
    return _floating("nextafter", x1, x2)


def gelu(x: Tensor, /, *, approximate: str = "none") -> Tensor:
    """x · Φ(x), with the normal distribution Φ exactly ("none") or by a tanh ("tanh").

    ValueError for another `approximate`. Source: Hendrycks and Gimpel, arXiv 1606.08415.

    >>> import tensor as tn
    >>> tn.gelu(tn.asarray(0.0)).item()
    0.0
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return _floating("gelu" if approximate == "none" else "gelu_tanh", x)

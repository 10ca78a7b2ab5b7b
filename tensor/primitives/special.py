"""Rows of the elementary and special functions; their kernels are tensor/kernels/special_*.cpp."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor.primitives.primitive import COMPLEX, FLOATS, NUMBERS, Params, Sample, keep
from tensor.primitives.rules import call, elementwise
from tensor.primitives.spec import name_of

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Partials = Callable[[Any], Sequence[Callable[[Tensor], Tensor] | None]]
Oracle = Callable[[tuple[Any, ...], Params], Any]

INEXACT = (*FLOATS, *COMPLEX)
X, OUT = keep(inputs=(0,)), keep(outputs=(0,))
XY = keep(inputs=(0, 1))


def _twin_of(name: str) -> Callable[[tuple[Any, ...], Params], Any]:
    """The twin of that name, by the dtype of its arrays; numpy is loaded when it runs."""

    def twin(arrays: tuple[Any, ...], params: Params) -> Any:
        kind = arrays[0].dtype.kind
        if kind in "iu":
            from tensor.twins.elementwise_ref import TWINS
        elif kind == "c":
            from tensor.twins.complex_ref import TWINS
        else:
            from tensor.twins.special_ref import TWINS
        return TWINS[name](arrays, params)

    return twin


def _numpy(name: str) -> Oracle:
    """The function of numpy of that name."""

    def oracle(arrays: tuple[Any, ...], params: Params) -> Any:
        import numpy as np

        return getattr(np, name)(*arrays)

    return oracle


def scipy_oracle(name: str) -> Oracle:
    """The function of scipy.special of that name."""

    def oracle(arrays: tuple[Any, ...], params: Params) -> Any:
        import scipy.special  # type: ignore[import-untyped]

        return getattr(scipy.special, name)(*arrays)

    return oracle


def within(low: float, high: float) -> Callable[[np.random.Generator], Iterable[Sample]]:
    """Samples of one input between low and high, away from both."""

    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        edge = 0.02 * (high - low)
        x = rng.uniform(low + edge, high - edge, (3, 5))
        yield Sample(x)
        yield Sample(x[0, :1].reshape(()))
        yield Sample(x[:0])

    return samples


def _pairs(low: float, high: float) -> Callable[[np.random.Generator], Iterable[Sample]]:
    """Samples of two inputs between low and high."""

    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        x, y = rng.uniform(low, high, (3, 5)), rng.uniform(low, high, (3, 5))
        yield Sample(x, y)
        yield Sample(x, y[0])
        yield Sample(x[:, :1], y[0, :1].reshape(()))
        yield Sample(x[:0], y[:0])

    return samples


def unary(
    name: str,
    summary: str,
    derivative: Callable[[Any], Callable[[Tensor], Tensor]],
    keeps: int,
    samples: Callable[[np.random.Generator], Iterable[Sample]],
    *,
    dtypes: tuple[str, ...] = INEXACT,
    oracle: Oracle | None = None,
    flops: int = 20,
) -> None:
    elementwise(
        name,
        arity=1,
        dtypes=dtypes,
        summary=summary,
        keeps=keeps,
        partials=lambda node: (derivative(node),),
        twin=_twin_of(name),
        samples=samples,
        oracle=oracle if oracle is not None else _numpy(name),
        flops=flops,
    )


def by_out(derivative: Callable[[Tensor], Tensor]) -> Callable[[Any], Callable[[Tensor], Tensor]]:
    """A derivative that is a function of the result."""
    return lambda node: lambda t: t * derivative(node.outputs[0])


def by_x(derivative: Callable[[Tensor], Tensor]) -> Callable[[Any], Callable[[Tensor], Tensor]]:
    """A derivative that is a function of the input."""
    return lambda node: lambda t: t * derivative(node.inputs[0])


def _over(divisor: Callable[[Tensor], Tensor]) -> Callable[[Any], Callable[[Tensor], Tensor]]:
    """A derivative that is one over a function of the input."""
    return lambda node: lambda t: t / divisor(node.inputs[0])


def _is_complex(x: Any) -> bool:
    return name_of(x.dtype).startswith("complex")


# --- exponentials and logarithms -------------------------------------------------------------------------------------

unary("exp", "e^x.", by_out(lambda y: y), OUT, within(-3, 3))
unary("exp2", "2^x.", by_out(lambda y: y * math.log(2)), OUT, within(-3, 3), dtypes=FLOATS)
unary("expm1", "e^x − 1, exact near 0.", by_out(lambda y: y + 1.0), OUT, within(-3, 3))
unary("log", "Natural logarithm: −inf at 0, NaN below.", _over(lambda x: x), X, within(0.1, 5))
unary("log1p", "log(1 + x), exact near 0.", _over(lambda x: x + 1.0), X, within(-0.9, 4))
unary("log2", "Logarithm to base 2.", _over(lambda x: x * math.log(2)), X, within(0.1, 5))
unary("log10", "Logarithm to base 10.", _over(lambda x: x * math.log(10)), X, within(0.1, 5))
unary(
    "rsqrt",
    "1 / √x, two roundings.",
    lambda node: lambda t: t * (node.outputs[0] * node.outputs[0] * node.outputs[0]) * -0.5,
    OUT,
    within(0.1, 5),
    dtypes=FLOATS,
    oracle=lambda arrays, params: arrays[0] ** -0.5,
    flops=2,
)


def _pow_partials(node: Any) -> tuple[Callable[[Tensor], Tensor], ...]:
    x, y = node.inputs

    def base(t: Tensor) -> Tensor:
        # where y is 0 the derivative is 0, also at x = 0, where x^(y − 1) is infinite
        factor = y * call("pow", x, y - 1.0)
        return t * call("where", call("eq", y, y * 0.0), y * 0.0, factor)

    def exponent(t: Tensor) -> Tensor:
        # 0^y is 0 for every y > 0: the derivative is 0, where log x is −inf
        log = call("where", call("eq", x, x * 0.0), x * 0.0, call("log", x))
        return t * node.outputs[0] * log

    return base, exponent


def _powers(rng: np.random.Generator) -> Iterable[Sample]:
    x, y = rng.uniform(0.3, 2.5, (3, 5)), rng.uniform(-2, 3, (3, 5))
    yield Sample(x, y, dtypes=INEXACT)
    yield Sample(x, y[0], dtypes=INEXACT)
    yield Sample(x[:0], y[:0], dtypes=INEXACT)
    yield Sample(_floor(x * 3), _floor(x * 2), gradcheck=False)


def _floor(x: Any) -> Any:
    """x rounded down, in numpy."""
    import numpy as np

    return np.floor(x)


elementwise(
    "pow",
    arity=2,
    dtypes=NUMBERS,
    summary="x to the power y; integers wrap, and a negative exponent leaves them.",
    keeps=keep(inputs=(0, 1), outputs=(0,)),
    partials=_pow_partials,
    twin=_twin_of("pow"),
    samples=_powers,
    oracle=lambda arrays, params: arrays[0] ** arrays[1],
    flops=40,
)


def _logaddexp_partials(node: Any) -> tuple[Callable[[Tensor], Tensor], ...]:
    x, y = node.inputs
    return lambda t: t * call("sigmoid", x - y), lambda t: t * call("sigmoid", y - x)


elementwise(
    "logaddexp",
    arity=2,
    dtypes=FLOATS,
    summary="log(e^x + e^y).",
    keeps=XY,
    partials=_logaddexp_partials,
    twin=_twin_of("logaddexp"),
    samples=_pairs(-2, 2),
    oracle=_numpy("logaddexp"),
    flops=40,
)
elementwise(
    "hypot",
    arity=2,
    dtypes=FLOATS,
    summary="√(x² + y²), without overflow on the way.",
    keeps=keep(inputs=(0, 1), outputs=(0,)),
    partials=lambda node: (
        lambda t: t * node.inputs[0] / node.outputs[0],
        lambda t: t * node.inputs[1] / node.outputs[0],
    ),
    twin=_twin_of("hypot"),
    samples=_pairs(0.5, 2),
    oracle=_numpy("hypot"),
    flops=10,
)

# --- trigonometry ----------------------------------------------------------------------------------------------------


def _one_less_square(x: Tensor) -> Tensor:
    return (1.0 - x) * (1.0 + x)


def _acosh_slope(node: Any) -> Callable[[Tensor], Tensor]:
    # two roots: for complex numbers their product has the right sign, the root of the product has not
    return lambda t: t / (call("sqrt", node.inputs[0] - 1.0) * call("sqrt", node.inputs[0] + 1.0))


unary("sin", "Sine of x radians, with full range reduction.", by_x(lambda x: call("cos", x)), X, within(-4, 4))
unary("cos", "Cosine of x radians, with full range reduction.", by_x(lambda x: -call("sin", x)), X, within(-4, 4))
unary("tan", "Tangent of x radians, with full range reduction.", by_out(lambda y: y * y + 1.0), OUT, within(-1.3, 1.3))
unary(
    "asin",
    "Arc sine, from −π/2 to π/2; NaN beyond ±1.",
    _over(lambda x: call("sqrt", _one_less_square(x))),
    X,
    within(-0.9, 0.9),
    oracle=_numpy("arcsin"),
)
unary(
    "acos",
    "Arc cosine, from 0 to π; NaN beyond ±1.",
    _over(lambda x: -call("sqrt", _one_less_square(x))),
    X,
    within(-0.9, 0.9),
    oracle=_numpy("arccos"),
)
unary("atan", "Arc tangent, from −π/2 to π/2.", _over(lambda x: x * x + 1.0), X, within(-3, 3), oracle=_numpy("arctan"))


def _atan2_partials(node: Any) -> tuple[Callable[[Tensor], Tensor], ...]:
    y, x = node.inputs
    return lambda t: t * x / (x * x + y * y), lambda t: -(t * y) / (x * x + y * y)


elementwise(
    "atan2",
    arity=2,
    dtypes=FLOATS,
    summary="The angle of the point (x, y) given as (y, x), from −π to π.",
    keeps=XY,
    partials=_atan2_partials,
    twin=_twin_of("atan2"),
    samples=_pairs(-2, -0.5),
    oracle=_numpy("arctan2"),
    flops=40,
)

# --- hyperbolic functions --------------------------------------------------------------------------------------------

unary("sinh", "Hyperbolic sine.", by_x(lambda x: call("cosh", x)), X, within(-3, 3))
unary("cosh", "Hyperbolic cosine.", by_x(lambda x: call("sinh", x)), X, within(-3, 3))
unary("tanh", "Hyperbolic tangent.", by_out(lambda y: 1.0 - y * y), OUT, within(-3, 3))
unary(
    "asinh",
    "Inverse hyperbolic sine.",
    _over(lambda x: call("sqrt", x * x + 1.0)),
    X,
    within(-3, 3),
    oracle=_numpy("arcsinh"),
)
unary("acosh", "Inverse hyperbolic cosine; NaN below 1.", _acosh_slope, X, within(1.1, 4), oracle=_numpy("arccosh"))
unary(
    "atanh",
    "Inverse hyperbolic tangent; ±inf at ±1, NaN beyond.",
    _over(_one_less_square),
    X,
    within(-0.9, 0.9),
    oracle=_numpy("arctanh"),
)

# --- error function, gamma -------------------------------------------------------------------------------------------

TWO_BY_ROOT_PI = 2 / math.sqrt(math.pi)


def _bell(x: Tensor) -> Tensor:
    """2/√π · e^(−x²)"""
    return call("exp", -(x * x)) * TWO_BY_ROOT_PI


unary("erf", "Error function.", by_x(_bell), X, within(-2.5, 2.5), dtypes=FLOATS, oracle=scipy_oracle("erf"))
unary(
    "erfc",
    "1 − erf x, without the loss of its digits.",
    by_x(lambda x: -_bell(x)),
    X,
    within(-2.5, 2.5),
    dtypes=FLOATS,
    oracle=scipy_oracle("erfc"),
)
unary(
    "lgamma",
    "log |Γ(x)|.",
    by_x(lambda x: call("digamma", x)),
    X,
    within(0.2, 6),
    dtypes=FLOATS,
    oracle=scipy_oracle("gammaln"),
    flops=100,
)
unary(
    "digamma",
    "The derivative of log Γ.",
    by_x(lambda x: call("trigamma", x)),
    X,
    within(0.2, 6),
    dtypes=FLOATS,
    oracle=scipy_oracle("digamma"),
    flops=100,
)

TERMS = 16
# of ψ''(z) = −1/z² − 1/z³ − 1/(2z⁴) + …, from 1/z⁶ on by 1/z²
TETRAGAMMA = (1 / 6, -1 / 6, 3 / 10, -5 / 6)


def _tetragamma(x: Tensor) -> Tensor:
    """The third derivative of log Γ, in operations that have derivatives of any order."""
    mirrored = call("lt", x, x * 0.0)
    y = call("where", mirrored, 1.0 - x, x)
    total = y * 0.0
    for i in range(TERMS):
        d = y + float(i)
        total = total - 2.0 / (d * d * d)
    z = 1.0 / (y + float(TERMS))
    square = z * z
    series = square * 0.0
    for c in reversed(TETRAGAMMA):
        series = series * square + c
    total = total + square * (square * (series * square - 0.5) - z - 1.0)
    angle = x * math.pi
    sine = call("sin", angle)
    turn = call("cos", angle) / (sine * sine * sine) * (2 * math.pi**3)
    return call("where", mirrored, total - turn, total)


unary(
    "trigamma",
    "The second derivative of log Γ.",
    by_x(_tetragamma),
    X,
    within(0.2, 6),
    dtypes=FLOATS,
    oracle=lambda arrays, params: scipy_oracle("polygamma")((1, arrays[0]), params),
    flops=100,
)

# --- neighbours and signs --------------------------------------------------------------------------------------------


def _copysign_partials(node: Any) -> tuple[Callable[[Tensor], Tensor] | None, ...]:
    x, y = node.inputs
    # the sign of x times that of y, where x is not 0
    return lambda t: t * call("copysign", call("sign", x), call("sign", x) * y), None


elementwise(
    "copysign",
    arity=2,
    dtypes=FLOATS,
    summary="|x| with the sign of y.",
    keeps=XY,
    partials=_copysign_partials,
    twin=_twin_of("copysign"),
    samples=_pairs(-2, -0.5),
    oracle=_numpy("copysign"),
)
elementwise(
    "nextafter",
    arity=2,
    dtypes=FLOATS,
    summary="The next number after x in the direction of y.",
    twin=_twin_of("nextafter"),
    samples=_pairs(0.5, 2),
    oracle=_numpy("nextafter"),
)

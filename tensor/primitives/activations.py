"""Rows of activations: sigmoid, softplus, silu, gelu in both forms, relu."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensor.primitives.primitive import FLOATS, Params
from tensor.primitives.rules import call
from tensor.primitives.special import OUT, X, by_out, by_x, scipy_oracle, unary, within

Tensor = Any


def _silu_slope(node: Any) -> Callable[[Tensor], Tensor]:
    def slope(t: Tensor) -> Tensor:
        x = node.inputs[0]
        s = call("sigmoid", x)
        return t * (s * (x * (1.0 - s) + 1.0))

    return slope


def _gelu_slope(x: Tensor) -> Tensor:
    """Φ(x) + x·φ(x); by erf, as erfc takes ten times longer: below −5 only the absolute error is small."""
    return (call("erf", x * math.sqrt(0.5)) + 1.0) * 0.5 + x * call("exp", x * x * -0.5) * (1 / math.sqrt(2 * math.pi))


def _gelu_tanh_slope(x: Tensor) -> Tensor:
    root = 2 * math.sqrt(2 / math.pi)
    s = call("sigmoid", (x * x * 0.044715 + 1.0) * x * root)
    return s + x * s * (1.0 - s) * ((x * x * (3 * 0.044715) + 1.0) * root)


def _normal_share(arrays: tuple[Any, ...], params: Params) -> Any:
    import scipy.special  # type: ignore[import-untyped]

    return arrays[0] * scipy.special.ndtr(arrays[0])


def _tanh_form(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    (x,) = arrays
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _soft(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    return np.logaddexp(0, arrays[0])


unary(
    "sigmoid",
    "1 / (1 + e^−x).",
    by_out(lambda y: y * (1.0 - y)),
    OUT,
    within(-4, 4),
    dtypes=FLOATS,
    oracle=scipy_oracle("expit"),
)
unary(
    "silu",
    "x · sigmoid(x).",
    _silu_slope,
    X,
    within(-4, 4),
    dtypes=FLOATS,
    oracle=lambda arrays, params: arrays[0] * scipy_oracle("expit")(arrays, params),
)
unary(
    "gelu",
    "x · Φ(x), Φ the distribution function of the standard normal.",
    by_x(_gelu_slope),
    X,
    within(-4, 4),
    dtypes=FLOATS,
    oracle=_normal_share,
)
unary(
    "gelu_tanh",
    "x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))).",
    by_x(_gelu_tanh_slope),
    X,
    within(-4, 4),
    dtypes=FLOATS,
    oracle=_tanh_form,
)
unary(
    "softplus",
    "log(1 + e^x).",
    by_x(lambda x: call("sigmoid", x)),
    X,
    within(-4, 4),
    dtypes=FLOATS,
    oracle=_soft,
)

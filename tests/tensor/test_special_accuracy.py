"""Errors of the elementary and special functions on samples, with mpmath; docs/accuracy.md states the bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from tensor import _kernels, build_info
from tensor.float_mode import plain_mode
from tensor.twins.special_ref import OWN_FLOAT32, TWINS

Array = np.ndarray[Any, Any]
ROWS = _kernels.elementwise_rows()
SAMPLES = 160


def run(op: str, *arrays: Array) -> Array:
    if build_info()["isa"] == "ref":
        with plain_mode():
            return TWINS[op](arrays, None)
    out = np.empty_like(arrays[0])
    _kernels.elementwise(ROWS[op][0], out, *arrays)
    return out


def ulp_errors(got: Array, exact: list[Any]) -> Array:
    """Distances from the exact values, in units of the last place there (of the smallest number where subnormal)."""
    digits, least = (24, -149) if got.dtype == np.float32 else (53, -1074)
    errors = []
    for g, e in zip(got.tolist(), exact, strict=True):
        exponent = int(mpmath.floor(mpmath.log(abs(e), 2))) if e != 0 else least
        unit = mpmath.ldexp(1, max(exponent - digits + 1, least))
        errors.append(float(abs(mpmath.mpf(g) - e) / unit))
    return np.array(errors)


def spread(low: float, high: float, seed: int) -> Array:
    """Uniform in the range, small magnitudes, and values near both ends."""
    rng = np.random.default_rng(seed)
    uniform = rng.uniform(low, high, SAMPLES)
    small = np.exp2(rng.uniform(-40, 1, SAMPLES)) * rng.choice([-1, 1], SAMPLES)
    near = np.where(rng.random(SAMPLES) < 0.5, low, high) * (1 - np.exp2(rng.uniform(-40, -2, SAMPLES)))
    x = np.concatenate([uniform, small, near])
    return x[(x > low) & (x < high) & (x != 0)]


def phi(x: Any) -> Any:
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def tanh_form(x: Any) -> Any:
    u = 2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x / (1 + mpmath.exp(-u))


def acosh(x: Any) -> Any:
    return mpmath.acosh(x).real


# function, range, and the largest error in float64 that the page states
UNARY: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "exp": (mpmath.exp, -700, 700),
    "exp2": (lambda x: mpmath.mpf(2) ** x, -1000, 1000),
    "expm1": (mpmath.expm1, -40, 700),
    "log": (mpmath.log, 0, 1e9),
    "log1p": (mpmath.log1p, -1, 1e9),
    "log2": (lambda x: mpmath.log(x, 2), 0, 1e9),
    "log10": (mpmath.log10, 0, 1e9),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), 0, 1e9),
    "sin": (mpmath.sin, -1e6, 1e6),
    "cos": (mpmath.cos, -1e6, 1e6),
    "tan": (mpmath.tan, -1e6, 1e6),
    "asin": (mpmath.asin, -1, 1),
    "acos": (mpmath.acos, -1, 1),
    "atan": (mpmath.atan, -20, 20),
    "sinh": (mpmath.sinh, -700, 700),
    "cosh": (mpmath.cosh, -700, 700),
    "tanh": (mpmath.tanh, -20, 20),
    "asinh": (mpmath.asinh, -1e9, 1e9),
    "acosh": (acosh, 1, 1e9),
    "atanh": (mpmath.atanh, -1, 1),
    "erf": (mpmath.erf, -6, 6),
    "erfc": (mpmath.erfc, -6, 26),
    "lgamma": (mpmath.loggamma, 0, 1e6),
    "digamma": (mpmath.digamma, 0, 1e6),
    "trigamma": (lambda x: mpmath.polygamma(1, x), 0, 1e6),
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), -700, 40),
    "silu": (lambda x: x / (1 + mpmath.exp(-x)), -700, 40),
    "gelu": (phi, -35, 9),
    "gelu_tanh": (tanh_form, -20, 9),
    "softplus": (lambda x: mpmath.log1p(mpmath.exp(x)), -700, 40),
}
BINARY: dict[str, tuple[Callable[[Any, Any], Any], float, float]] = {
    "hypot": (mpmath.hypot, -1e3, 1e3),
    "atan2": (mpmath.atan2, -1e3, 1e3),
    "logaddexp": (lambda x, y: max(x, y) + mpmath.log1p(mpmath.exp(-abs(x - y))), -50, 50),
}
FLOAT32_ENDS = {"exp": 88, "exp2": 127, "expm1": 88, "sinh": 88, "cosh": 88, "sigmoid": 87, "silu": 87, "softplus": 87}


def bounds() -> dict[tuple[str, str], float]:
    """What the page states, by function and dtype."""
    page = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text(encoding="utf-8")
    return {
        (name, dtype): float(bound)
        for name, dtype, bound in re.findall(r"^\| `(\w+)` (float32|float64) \| ([0-9.]+)", page, re.M)
    }


BOUNDS = bounds()


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_of_samples_stay_within_the_bound_of_the_page(name: str, dtype: Any) -> None:
    function, low, high = UNARY[name]
    end = FLOAT32_ENDS.get(name) if dtype is np.float32 else None
    low, high = (low, high) if end is None else (max(low, -end), min(high, end))
    if dtype is np.float32 and name in ("erfc", "gelu", "gelu_tanh"):
        low, high = max(low, -9), min(high, 9)
    x = np.unique(spread(low, high, 11).astype(dtype))
    x = x[(x > low) & (x < high)]
    with mpmath.workdps(50):
        errors = ulp_errors(run(name, x), [function(mpmath.mpf(float(v))) for v in x])
    assert errors.max() <= BOUNDS[name, np.dtype(dtype).name], (name, x[errors.argmax()], errors.max())


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_of_pairs_stay_within_the_bound_of_the_page(name: str, dtype: Any) -> None:
    function, low, high = BINARY[name]
    x, y = (np.resize(spread(low, high, seed), 300).astype(dtype) for seed in (1, 2))
    with mpmath.workdps(50):
        exact = [function(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(x, y, strict=True)]
        errors = ulp_errors(run(name, x, y), exact)
    assert errors.max() <= BOUNDS[name, np.dtype(dtype).name], (name, x[errors.argmax()], y[errors.argmax()])


def test_float64_powers_are_within_1_ulp() -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([np.exp2(rng.uniform(-900, 900, 150)), 1 + rng.uniform(-1e-3, 1e-3, 150)])
    y = rng.uniform(-1, 1, x.size) * 1000 / np.abs(np.log2(x))
    with mpmath.workdps(50):
        errors = ulp_errors(run("pow", x, y), [mpmath.mpf(a) ** mpmath.mpf(b) for a, b in zip(x, y, strict=True)])
    assert errors.max() <= BOUNDS["pow", "float64"]


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_float64_angles_of_every_exponent_and_near_multiples_of_a_quarter_turn(name: str) -> None:
    rng = np.random.default_rng(6)
    x = rng.uniform(1, 2, 400) * np.exp2(rng.integers(0, 1023, 400))
    with mpmath.workdps(400):
        near = [float(mpmath.pi / 2 * k) for k in [*range(1, 60), *(3**i for i in range(5, 600, 9))]]
        x = np.concatenate([x, np.array(near), [6381956970095103.0 * 2.0**797]])  # the last: hardest of all doubles
        function = getattr(mpmath, name)
        errors = ulp_errors(run(name, x), [function(mpmath.mpf(v)) for v in x.tolist()])
    assert errors.max() <= BOUNDS[name, "float64"], x[errors.argmax()]


def test_the_page_states_a_bound_of_every_function_and_of_at_most_1_ulp_in_float32() -> None:
    names = {*UNARY, *BINARY, "pow"}
    assert {name for name, dtype in BOUNDS if dtype == "float64"} >= names
    assert {name for name, dtype in BOUNDS if dtype == "float32"} >= names
    assert set(OWN_FLOAT32) <= names
    for (name, dtype), bound in BOUNDS.items():
        if name == "rsqrt":
            assert bound <= 1.5
        elif dtype == "float32":
            assert 0.5 <= bound <= 1, name
        else:
            assert 0.5 <= bound <= 1.2, name

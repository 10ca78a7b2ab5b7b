"""At most 1 ulp against mpmath; the exhaustive check over all 2³² inputs is accuracy/exhaustive.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest

from tensor import elementary

F32, F64 = np.float32, np.float64
SAMPLES = 1500


def ulp_errors(got: np.ndarray, exact: list[mpmath.mpf], digits: int, exponent_min: int) -> np.ndarray:
    """|got − exact| in units of the last place of the format at the exact value."""
    out = []
    for g, e in zip(got.tolist(), exact, strict=True):
        exponent = max(mpmath.frexp(e)[1] - digits, exponent_min) if e != 0 else exponent_min
        out.append(float(abs(mpmath.mpf(g) - e) / mpmath.ldexp(1, exponent)))
    return np.array(out)


def spread(rng: np.random.Generator, low: float, high: float) -> np.ndarray:
    """Half uniform, half with uniform exponents, both signs where low is negative."""
    size = np.exp2(rng.uniform(-40, np.log2(high), SAMPLES // 2))
    sign = rng.choice([-1, 1], SAMPLES // 2) if low < 0 else 1
    return np.concatenate([rng.uniform(low, high, SAMPLES // 2), np.clip(size * sign, low, high)])


CASES: dict[str, tuple[Callable[[mpmath.mpf], mpmath.mpf], float, float]] = {
    "exp": (mpmath.exp, -103, 88.7),
    "log": (mpmath.log, 0, 1e38),
    "sin": (mpmath.sin, -1e6, 1e6),
    "cos": (mpmath.cos, -1e6, 1e6),
    "tanh": (mpmath.tanh, -10, 10),
    "erf": (mpmath.erf, -4, 4),
    "sqrt": (mpmath.sqrt, 0, 1e38),
}


@pytest.mark.parametrize("name", CASES)
def test_float32_functions_are_within_1_ulp(name) -> None:
    function, low, high = CASES[name]
    x = spread(np.random.default_rng(7), low, high).astype(F32)
    x = x[x != 0]
    with mpmath.workdps(60):
        errors = ulp_errors(getattr(elementary, name)(x), [function(mpmath.mpf(float(v))) for v in x], 24, -149)
    assert errors.max() <= 1.0, x[errors.argmax()]
    assert np.mean(errors <= 0.5) > 0.9


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_of_every_exponent_and_the_hardest_known_ones_are_within_1_ulp(name) -> None:
    rng = np.random.default_rng(8)
    x = (rng.uniform(1, 2, 1024) * np.exp2(np.repeat(np.arange(0, 128), 8))).astype(F32)
    # multiples of π/2 rounded to float32: where the reduction loses most
    with mpmath.workdps(60):
        near = [float(F32(float(mpmath.pi / 2 * k))) for k in [*range(1, 300), *(3**i for i in range(5, 50))]]
        x = np.concatenate([x, np.array([n for n in near if n < 3e38], F32)])
        function = getattr(mpmath, name)
        errors = ulp_errors(getattr(elementary, name)(x), [function(mpmath.mpf(float(v))) for v in x], 24, -149)
    assert errors.max() <= 1.0, x[errors.argmax()]


def test_pow_is_within_1_ulp() -> None:
    rng = np.random.default_rng(9)
    x = np.concatenate([np.exp2(rng.uniform(-120, 120, SAMPLES)), 1 + rng.uniform(-1e-3, 1e-3, SAMPLES)]).astype(F32)
    limit = 126 / np.abs(np.log2(x.astype(F64) + 1e-12))
    y = (rng.uniform(-1, 1, x.size) * np.minimum(limit, 1e6)).astype(F32)
    with mpmath.workdps(60):
        exact = [mpmath.mpf(float(a)) ** mpmath.mpf(float(b)) for a, b in zip(x, y, strict=True)]
        fits = np.array([e < mpmath.ldexp(1, 128) - mpmath.ldexp(1, 103) for e in exact])
        errors = ulp_errors(elementary.pow(x, y)[fits], [e for e, f in zip(exact, fits, strict=True) if f], 24, -149)
    assert fits.mean() > 0.95
    assert np.isinf(elementary.pow(x, y)[~fits]).all()
    assert errors.max() <= 0.501, (x[fits][errors.argmax()], y[fits][errors.argmax()])


@pytest.mark.parametrize(
    ("name", "low", "high", "bound"), [("exp", -745, 709.7, 1.0), ("log", 0, 1e300, 1.0), ("sqrt", 0, 1e300, 0.5)]
)
def test_float64_functions_are_within_the_bound_of_the_documentation(name, low, high, bound) -> None:
    rng = np.random.default_rng(10)
    x = np.concatenate([spread(rng, low, high), spread(rng, max(low, -1), 2), 1 + rng.uniform(-0.4, 0.5, SAMPLES)])
    x = x[x != 0]
    with mpmath.workdps(60):
        function = getattr(mpmath, name)
        errors = ulp_errors(getattr(elementary, name)(x), [function(mpmath.mpf(v)) for v in x.tolist()], 53, -1074)
    assert errors.max() <= bound, x[errors.argmax()]


def test_the_page_on_accuracy_states_a_bound_of_at_most_1_ulp_for_every_function() -> None:
    page = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)`(?: (float32|float64))? \| ([0-9.]+)", page, re.M)
    stated = {(name, dtype or "float32"): float(bound) for name, dtype, bound in rows}
    expected = {(name, "float32") for name in elementary.__all__} | {(n, "float64") for n in ("exp", "log", "sqrt")}
    assert set(stated) >= expected
    assert all(0.5 <= stated[row] <= 1 for row in expected)

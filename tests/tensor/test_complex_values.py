"""Special cases of complex functions, as the array API standard 2024.12 lists them, and values against mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tensor.float_mode import plain_mode
from tensor.twins.complex_ref import TWINS

INF, NAN, PI = math.inf, math.nan, math.pi


def at(name: str, z: complex, dtype: Any = np.complex128) -> complex:
    with plain_mode():
        return complex(TWINS[name]((np.array([z], dtype),), None)[0])


def is_same(got: float, want: Any, loose: bool) -> bool:
    if math.isnan(want):
        return math.isnan(got)
    if loose:
        return abs(got) == abs(want)
    exact = got == want or abs(got - want) <= 1e-15 * abs(want)
    return exact and math.copysign(1, got) == math.copysign(1, want)


# (re, im): (re, im) of the result; a string in the third place says which signs are free.
CASES: dict[str, list[tuple[Any, ...]]] = {
    "exp": [
        *(
            (0, 0, 1, 0),
            (1.5, INF, NAN, NAN),
            (1.5, NAN, NAN, NAN),
            (INF, 0, INF, 0),
            (-INF, 1, 0, 0),
            (INF, 2, -INF, INF),
        ),
        *((-INF, INF, 0, 0, "both"), (INF, INF, INF, NAN, "re"), (-INF, NAN, 0, 0, "both"), (INF, NAN, INF, NAN, "re")),
        *((NAN, 0, NAN, 0), (NAN, 1, NAN, NAN), (NAN, NAN, NAN, NAN)),
    ],
    "expm1": [
        *(
            (0, 0, 0, 0),
            (-0.0, 0, 0, 0),
            (1.5, INF, NAN, NAN),
            (1.5, NAN, NAN, NAN),
            (INF, 0, INF, 0),
            (-INF, 1, -1, 0),
            (INF, 2, -INF, INF),
        ),
        *((-INF, INF, -1, 0, "im"), (INF, INF, INF, NAN, "re"), (-INF, NAN, -1, 0, "im"), (INF, NAN, INF, NAN, "re")),
        *((NAN, 0, NAN, 0), (NAN, 1, NAN, NAN), (NAN, NAN, NAN, NAN)),
    ],
    "log": [
        *((-0.0, 0, -INF, PI), (0, 0, -INF, 0), (1.5, INF, INF, PI / 2), (1.5, NAN, NAN, NAN), (-INF, 1, INF, PI)),
        *((INF, 1, INF, 0), (-INF, INF, INF, 3 * PI / 4), (INF, INF, INF, PI / 4), (INF, NAN, INF, NAN)),
        *((-INF, NAN, INF, NAN), (NAN, 1, NAN, NAN), (NAN, INF, INF, NAN), (NAN, NAN, NAN, NAN)),
    ],
    "log1p": [
        *((-1, 0, -INF, 0), (1.5, INF, INF, PI / 2), (1.5, NAN, NAN, NAN), (-INF, 1, INF, PI), (INF, 1, INF, 0)),
        *((-INF, INF, INF, 3 * PI / 4), (INF, INF, INF, PI / 4), (INF, NAN, INF, NAN), (NAN, 1, NAN, NAN)),
        *((NAN, INF, INF, NAN), (NAN, NAN, NAN, NAN)),
    ],
    "sqrt": [
        *(
            (0, 0, 0, 0),
            (-0.0, 0, 0, 0),
            (1.5, INF, INF, INF),
            (NAN, INF, INF, INF),
            (1.5, NAN, NAN, NAN),
            (-INF, 1, 0, INF),
        ),
        *(
            (INF, 1, INF, 0),
            (-INF, NAN, NAN, INF, "im"),
            (INF, NAN, INF, NAN),
            (NAN, 1, NAN, NAN),
            (NAN, NAN, NAN, NAN),
        ),
        *((-4, 0, 0, 2), (-4, -0.0, 0, -2), (4, -0.0, 2, -0.0)),
    ],
    "sinh": [
        *((0, 0, 0, 0), (0, INF, 0, NAN, "re"), (0, NAN, 0, NAN, "re"), (1.5, INF, NAN, NAN), (1.5, NAN, NAN, NAN)),
        *(
            (INF, 0, INF, 0),
            (INF, 1, INF, INF),
            (INF, INF, INF, NAN, "re"),
            (INF, NAN, INF, NAN, "re"),
            (NAN, 0, NAN, 0),
        ),
        *((NAN, 1, NAN, NAN), (NAN, NAN, NAN, NAN), (-INF, 0, -INF, 0)),
    ],
    "cosh": [
        *((0, 0, 1, 0), (0, INF, NAN, 0, "im"), (0, NAN, NAN, 0, "im"), (1.5, INF, NAN, NAN), (1.5, NAN, NAN, NAN)),
        *((INF, 0, INF, 0), (INF, 1, INF, INF), (INF, INF, INF, NAN), (INF, NAN, INF, NAN), (NAN, 0, NAN, 0, "im")),
        *((NAN, 1, NAN, NAN), (NAN, NAN, NAN, NAN), (-INF, 0, INF, -0.0)),
    ],
    "tanh": [
        *((0, 0, 0, 0), (1.5, INF, NAN, NAN), (0, INF, 0, NAN), (1.5, NAN, NAN, NAN), (0, NAN, 0, NAN), (INF, 1, 1, 0)),
        *((INF, INF, 1, 0, "im"), (INF, NAN, 1, 0, "im"), (NAN, 0, NAN, 0), (NAN, 1, NAN, NAN), (NAN, NAN, NAN, NAN)),
        *((-INF, 1, -1, 0), (INF, -1, 1, -0.0)),
    ],
    "acos": [
        *((0, 0, PI / 2, -0.0), (-0.0, 0, PI / 2, -0.0), (0, NAN, PI / 2, NAN), (1.5, INF, PI / 2, -INF)),
        *((1.5, NAN, NAN, NAN), (-INF, 1, PI, -INF), (INF, 1, 0, -INF), (-INF, INF, 3 * PI / 4, -INF)),
        *((INF, INF, PI / 4, -INF), (INF, NAN, NAN, INF, "im"), (NAN, 1, NAN, NAN), (NAN, INF, NAN, -INF)),
        (NAN, NAN, NAN, NAN),
    ],
    "acosh": [
        *(
            (0, 0, 0, PI / 2),
            (1.5, INF, INF, PI / 2),
            (1.5, NAN, NAN, NAN),
            (0, NAN, NAN, PI / 2, "im"),
            (-INF, 1, INF, PI),
        ),
        *((INF, 1, INF, 0), (-INF, INF, INF, 3 * PI / 4), (INF, INF, INF, PI / 4), (INF, NAN, INF, NAN)),
        *((NAN, 1, NAN, NAN), (NAN, INF, INF, NAN), (NAN, NAN, NAN, NAN)),
    ],
    "asinh": [
        *((0, 0, 0, 0), (1.5, INF, INF, PI / 2), (1.5, NAN, NAN, NAN), (INF, 1, INF, 0), (INF, INF, INF, PI / 4)),
        *((INF, NAN, INF, NAN), (NAN, 0, NAN, 0), (NAN, 1, NAN, NAN), (NAN, INF, INF, NAN, "re"), (NAN, NAN, NAN, NAN)),
    ],
    "atanh": [
        *(
            (0, 0, 0, 0),
            (0, NAN, 0, NAN),
            (1, 0, INF, 0),
            (1.5, INF, 0, PI / 2),
            (1.5, NAN, NAN, NAN),
            (INF, 1, 0, PI / 2),
        ),
        *(
            (INF, INF, 0, PI / 2),
            (INF, NAN, 0, NAN),
            (NAN, 1, NAN, NAN),
            (NAN, INF, 0, PI / 2, "re"),
            (NAN, NAN, NAN, NAN),
        ),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_special_cases_of_the_standard(name: str) -> None:
    for re, part, want_re, want_im, *free in CASES[name]:
        loose, im = free[0] if free else "", float(part)
        got = at(name, complex(re, im))
        assert is_same(got.real, want_re, loose in ("re", "both")), (name, re, im, got)
        assert is_same(got.imag, want_im, loose in ("im", "both")), (name, re, im, got)
        mirrored = at(name, complex(re, -im))  # the conjugate's value is the value's conjugate
        assert is_same(mirrored.real, got.real, loose in ("re", "both")), (name, re, -im, mirrored)
        assert is_same(mirrored.imag, -got.imag, loose in ("im", "both")), (name, re, -im, mirrored)


@pytest.mark.parametrize(
    ("name", "other"), [("sin", "sinh"), ("tan", "tanh"), ("asin", "asinh"), ("atan", "atanh"), ("cos", "cosh")]
)
def test_functions_of_the_circle_are_those_of_the_hyperbola_turned(name: str, other: str) -> None:
    values = [0.0, -0.0, 1.5, -2.0, INF, -INF, NAN]
    for re in values:
        for im in values:
            got, base = at(name, complex(re, im)), at(other, complex(-im, re))
            want = base if name == "cos" else complex(base.imag, -base.real)
            assert is_same(got.real, want.real, False), (name, re, im, got, want)
            assert is_same(got.imag, want.imag, False), (name, re, im, got, want)


MPMATH: dict[str, Callable[[Any], Any]] = {
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": lambda z: mpmath.log(1 + z),
    "log2": lambda z: mpmath.log(z) / mpmath.log(2),
    "log10": lambda z: mpmath.log(z) / mpmath.log(10),
    "sqrt": mpmath.sqrt,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "asinh": mpmath.asinh,
    "acosh": mpmath.acosh,
    "atanh": mpmath.atanh,
}


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.complex64, 1.2e-7), (np.complex128, 2e-15)])
@pytest.mark.parametrize("name", MPMATH)
def test_values_agree_with_mpmath(name: str, dtype: Any, tolerance: float) -> None:
    rng = np.random.default_rng(4)
    z = rng.normal(size=120) * np.exp2(rng.uniform(-12, 3, 120)) + 1j * rng.normal(size=120) * np.exp2(
        rng.uniform(-12, 3, 120)
    )
    z = np.concatenate([z, np.exp(1j * rng.uniform(0, 6, 20)) * (1 + rng.uniform(-1e-9, 1e-9, 20))]).astype(dtype)
    with plain_mode():
        got = TWINS[name]((z,), None)
    with mpmath.workdps(50):
        for x, y in zip(z.tolist(), got.tolist(), strict=True):
            exact = MPMATH[name](mpmath.mpc(x))
            assert abs(mpmath.mpc(y) - exact) <= tolerance * abs(exact), (name, x, y, complex(exact))


def test_the_size_of_large_and_small_numbers_is_not_lost() -> None:
    for scale in (1e300, 1e-300):
        z = complex(3 * scale, 4 * scale)
        assert at("log", z).real == pytest.approx(math.log(5) + math.log(scale), rel=1e-15)
        root = at("sqrt", z)
        assert root.real == pytest.approx(2 * math.sqrt(scale), rel=1e-15)
        assert root.imag == pytest.approx(math.sqrt(scale), rel=1e-15)
    assert at("asinh", 1e300 + 1e300j).real == pytest.approx(math.log(2e300) + math.log(2) / 2, rel=1e-15)
    assert at("exp", 710 + 1.5j).real == pytest.approx(math.exp(709) * (math.e * math.cos(1.5)), rel=1e-14)


def test_whole_powers_are_products_and_powers_of_zero_are_defined() -> None:
    def power(z: complex, w: complex) -> complex:
        with plain_mode():
            return complex(TWINS["pow"]((np.array([z]), np.array([w], complex)), None)[0])

    assert power(1 + 2j, 2) == -3 + 4j
    assert power(1 + 2j, 3) == (1 + 2j) * (-3 + 4j)
    assert power(2j, -2) == -0.25
    assert power(0j, 0) == 1
    assert power(0j, 2 + 1j) == 0
    assert math.isnan(power(0j, 1j).real)
    with mpmath.workdps(30):
        assert power(1 + 2j, 0.5 - 1j) == pytest.approx(complex(mpmath.mpc(1, 2) ** mpmath.mpc(0.5, -1)), rel=1e-14)

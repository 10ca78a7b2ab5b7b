"""Special values of the elementary functions: signs of zero, infinities, domains, exact results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensor.twins.special_ref import TWINS

INF, NAN = np.inf, np.nan

# name: inputs and results, exact to the bit, NaN canonical
EXACT: dict[str, list[tuple[Any, ...]]] = {
    "exp2": [(0.0, 1), (10, 1024), (-1, 0.5), (INF, INF), (-INF, 0), (NAN, NAN)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (1e-30, 1e-30)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF), (1e-30, 1e-30)],
    "log2": [(1, 0.0), (1024, 10), (0.125, -3), (0.0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF), (2.0**-149, -149)],
    "log10": [(1, 0.0), (1000, 3), (1e22, 22), (0.0, -INF), (-1, NAN), (INF, INF)],
    "rsqrt": [(4, 0.5), (0.0, INF), (-0.0, -INF), (INF, 0.0), (-1, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-INF, NAN)],
    "acos": [(1, 0.0), (1.5, NAN), (NAN, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "cosh": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1, 0.0), (0.5, NAN), (INF, INF), (-INF, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1)],
    "erfc": [(0.0, 1), (INF, 0.0), (-INF, 2)],
    "lgamma": [(1, 0.0), (2, 0.0), (0.0, INF), (-0.0, INF), (-3, INF), (INF, INF), (-INF, INF), (NAN, NAN)],
    "digamma": [(0.0, -INF), (-0.0, INF), (-3, NAN), (INF, INF), (-INF, NAN)],
    "trigamma": [(0.0, INF), (-0.0, INF), (-3, INF), (INF, 0.0), (-INF, NAN)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0.0), (NAN, NAN)],
    "silu": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (NAN, NAN)],
    "gelu": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (NAN, NAN), (50, 50)],
    "gelu_tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (50, 50)],
    "softplus": [(INF, INF), (-INF, 0.0), (1e10, 1e10), (NAN, NAN)],
    "hypot": [(3, 4, 5), (INF, NAN, INF), (NAN, -INF, INF), (1, NAN, NAN), (0.0, -0.0, 0.0), (1e30, 0.0, 1e30)],
    "atan2": [(0.0, 1, 0.0), (-0.0, 1, -0.0), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (1, INF, 0.0), (-1, INF, -0.0)],
    "logaddexp": [(-INF, -INF, -INF), (INF, INF, INF), (INF, -INF, INF), (-INF, 3, 3), (1, NAN, NAN), (900, -900, 900)],
    "copysign": [(1, -0.0, -1), (-2, 3, 2), (NAN, -1, NAN), (0.0, -5, -0.0)],
    "pow": [
        *((2, 10, 1024), (-2, 3, -8), (0.0, 0.0, 1), (NAN, 0.0, 1), (1, NAN, 1), (-8, 1 / 3, NAN), (0.0, -1, INF)),
        *((-0.0, -1, -INF), (-0.0, 3, -0.0), (-1, INF, 1), (0.5, -INF, INF), (2, -INF, 0.0), (-INF, 3, -INF)),
    ],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EXACT)
def test_special_values_are_exact_to_the_sign_of_zero(name: str, dtype: Any) -> None:
    for *arguments, expected in EXACT[name]:
        arrays = tuple(np.array([a], dtype) for a in arguments)
        got = TWINS[name](arrays, None)
        want = np.array([expected], dtype)
        want[np.isnan(want)] = (
            np.array([0x7FC00000 if dtype is np.float32 else 0x7FF8000000000000])
            .astype(np.uint32 if dtype is np.float32 else np.uint64)
            .view(dtype)
        )
        assert got.dtype == dtype
        assert got.tobytes() == want.tobytes(), (name, arguments, got, want)


def test_angles_of_atan2_in_every_quadrant() -> None:
    pi = np.pi
    cases = [
        *((0.0, -0.0, pi), (-0.0, -0.0, -pi), (0.0, -1, pi), (-0.0, -1, -pi), (1, 0.0, pi / 2), (-1, -0.0, -pi / 2)),
        *((1, 1, pi / 4), (1, -1, 3 * pi / 4), (-1, 1, -pi / 4), (-1, -1, -3 * pi / 4)),
        *((INF, INF, pi / 4), (INF, -INF, 3 * pi / 4), (-INF, INF, -pi / 4), (-INF, -INF, -3 * pi / 4)),
        *((1, -INF, pi), (-1, -INF, -pi), (INF, 5, pi / 2), (-INF, -5, -pi / 2)),
    ]
    for y, x, expected in cases:
        got = TWINS["atan2"]((np.array([y], float), np.array([x], float)), None)[0]
        assert got == expected, (y, x, got)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "name", ["silu", "gelu", "gelu_tanh", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "erf"]
)
def test_the_smallest_numbers_keep_their_sign(name: str, dtype: Any) -> None:
    x = np.array([-3, -2, -1, 1, 2, 3]).astype(dtype) * np.finfo(dtype).smallest_subnormal
    assert (np.signbit(TWINS[name]((x,), None)) == (x < 0)).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_next_number_is_the_one_numpy_names(dtype: Any) -> None:
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, np.iinfo(word).max, 3000, dtype=word).view(dtype) for _ in range(2))
    x[:3], y[:3] = [0.0, -0.0, 1], [1, 1, 1]
    y[5:500:5] = x[5:500:5]
    with np.errstate(all="ignore"):
        got, want = TWINS["nextafter"]((x, y), None), np.nextafter(x, y)
    number = ~(np.isnan(x) | np.isnan(y))
    assert got[number].tobytes() == want[number].tobytes()
    assert np.isnan(got[~number]).all()

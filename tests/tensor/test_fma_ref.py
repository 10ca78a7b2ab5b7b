"""The exact fma of the twins, against rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor.fma_ref import fma_f32, fma_f64


def round_to(x: Fraction, digits: int, exponent_min: int, exponent_max: int) -> float:
    """Nearest even binary number of so many digits, subnormals and overflow included."""
    if x == 0:
        return 0.0
    size = abs(x)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - digits - 1, exponent_min)
    while size / Fraction(2) ** exponent >= 2**digits:
        exponent += 1
    steps = round(size / Fraction(2) ** exponent)  # half to even
    value = math.inf if steps.bit_length() + exponent > exponent_max else math.ldexp(steps, exponent)
    return math.copysign(value, 1 if x > 0 else -1)


def round_f64(x: Fraction) -> float:
    return round_to(x, 53, -1074, 1024)


def round_f32(x: Fraction) -> float:
    return round_to(x, 24, -149, 128)


def assert_fma_f64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    got = fma_f64(a, b, c)
    for x, y, z, g in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        assert g == round_f64(exact), (x.hex(), y.hex(), z.hex(), g.hex())
        if g == 0 and exact != 0:
            assert math.copysign(1, g) == (1 if exact > 0 else -1)


def assert_fma_f32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    got = fma_f32(a, b, c)
    for x, y, z, g in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        assert g == round_f32(Fraction(x) * Fraction(y) + Fraction(z)), (x.hex(), y.hex(), z.hex(), g)


def random_f64(rng: np.random.Generator, n: int) -> np.ndarray:
    x = rng.integers(0, 2**64, n, dtype=np.uint64).view(np.float64)
    return np.where(np.isfinite(x), x, 1.0)


def random_f32(rng: np.random.Generator, n: int) -> np.ndarray:
    x = rng.integers(0, 2**32, n, dtype=np.uint32).view(np.float32)
    return np.where(np.isfinite(x), x, np.float32(1))


def test_fma_f64_is_exact_on_random_bits() -> None:
    rng = np.random.default_rng(1)
    assert_fma_f64(*(random_f64(rng, 3000) for _ in range(3)))


def test_fma_f64_is_exact_where_product_and_addend_cancel() -> None:
    rng = np.random.default_rng(2)
    a = rng.standard_normal(4000) * 2.0 ** rng.integers(-550, 500, 4000)
    b = rng.standard_normal(4000) * 2.0 ** rng.integers(-540, 500, 4000)
    c = -(a * b) * (1 + rng.integers(-4, 5, 4000) * 2.0 ** -rng.integers(20, 60, 4000))
    assert_fma_f64(a, b, np.where(np.isfinite(c), c, 0.0))


def test_fma_f64_is_exact_around_halfway_cases() -> None:
    rng = np.random.default_rng(3)
    n = 4000
    a = rng.integers(2**52, 2**53, n).astype(np.float64)
    b = rng.integers(1, 2**10, n) * 1.0
    c = np.ldexp(rng.integers(-(2**53), 2**53, n).astype(np.float64), rng.integers(-120, 70, n))
    assert_fma_f64(a, b, c)


def test_fma_f64_rounds_subnormal_results_once() -> None:
    rng = np.random.default_rng(4)
    n = 6000
    a = rng.integers(2**52, 2**53, n).astype(np.float64)
    e = rng.integers(0, 500, n)
    a = np.ldexp(a, -e)
    b = np.ldexp(rng.integers(1, 2**53, n).astype(np.float64), e - rng.integers(1120, 1185, n))
    c = np.ldexp(rng.integers(-(2**30), 2**30, n).astype(np.float64), -1074)
    assert_fma_f64(a, b, np.where(rng.random(n) < 0.3, 0.0, c))
    assert_fma_f64(b, np.minimum(a, 2.0**300), np.where(rng.random(n) < 0.5, 5e-324, -5e-324))


def test_fma_f64_at_the_upper_end_overflows_only_where_the_exact_value_does() -> None:
    big = np.finfo(np.float64).max
    a = np.array([big, big, 2.0**1000, big, 2.0**600])
    b = np.array([2.0, 1.0, 2.0**24, -2.0, 2.0**600])
    c = np.array([-big, 2.0**969, -(2.0**1023), big, -big])
    assert_fma_f64(a, b, c)


def test_fma_f32_is_exact_on_random_bits_and_subnormal_results() -> None:
    rng = np.random.default_rng(5)
    assert_fma_f32(*(random_f32(rng, 4000) for _ in range(3)))
    a = (rng.integers(2**23, 2**24, 4000) * 2.0**-90).astype(np.float32)
    b = (rng.integers(2**23, 2**24, 4000) * 2.0 ** -rng.integers(80, 110, 4000).astype(np.float64)).astype(np.float32)
    c = (rng.integers(-64, 65, 4000) * 2.0**-149).astype(np.float32)
    assert_fma_f32(a, b, c)


def test_fma_f32_is_exact_where_rounding_twice_would_fail() -> None:
    # The sum lies just beside the middle of two float32, by less than float64 can hold.
    a, b, c = np.float32(2**-40), np.float32(2**-40), np.float32(1)
    one_and_half_ulp = np.float32(1 + 2**-23)
    x = np.array([2**-24, -(2**-24)], np.float32)
    assert_fma_f32(x, np.float32([1, 1]) + np.float32(2**-23), np.float32([1, 1]))
    assert fma_f32(a, b, c) == 1
    assert fma_f32(one_and_half_ulp, np.float32(2**-24), one_and_half_ulp) == np.float32(1 + 2**-22)


@pytest.mark.parametrize(("fma", "dtype"), [(fma_f32, np.float32), (fma_f64, np.float64)])
def test_fma_follows_ieee_for_zeros_infinities_and_nan(fma, dtype) -> None:
    inf, nan, big = dtype(np.inf), dtype(np.nan), np.finfo(dtype).max
    zero, negative, one = dtype(0.0), dtype(-0.0), dtype(1)
    for a, b, c, expected in [
        (zero, one, negative, 0.0),
        (negative, one, negative, -0.0),
        (zero, -one, zero, 0.0),
        (one, one, -one, 0.0),
        (big, big, -inf, -np.inf),
        (big, -big, inf, np.inf),
        (inf, one, big, np.inf),
        (inf, zero, one, np.nan),
        (inf, one, -inf, np.nan),
        (nan, one, one, np.nan),
        (one, one, nan, np.nan),
        (big, big, -big, np.inf),
    ]:
        got = float(fma(a, b, c))
        assert (math.isnan(got) and math.isnan(expected)) or (
            got == expected and math.copysign(1, got) == math.copysign(1, expected)
        ), (a, b, c, got)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=200, deadline=None)
def test_fma_f64_of_x_one_y_is_the_sum(x: float, y: float) -> None:
    assert_fma_f64(np.array([x]), np.array([1.0]), np.array([y]))


def test_fma_broadcasts_and_refuses_another_dtype_by_name() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(fma_f32(x, np.float32(2), np.float32(1)), x * 2 + 1)
    with pytest.raises(TypeError, match=r"^fma_f32: b must be float32, got float64$"):
        fma_f32(x, np.float64(2), np.float32(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^fma_f64: c must be float64, got float$"):
        fma_f64(np.float64(1), np.float64(2), 1.0)  # type: ignore[arg-type]

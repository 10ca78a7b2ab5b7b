from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor.trigonometry import atan2, sin_cos

ANGLES = st.floats(-1e5, 1e5)
GOLDEN = ["0x1.966a16b543327p-1", "0x1.3766f65e3f9a4p-1"]
COORDINATES = st.floats(-1e9, 1e9).filter(lambda v: v == 0 or abs(v) > 1e-9)


@given(ANGLES)
def test_sine_and_cosine_are_close_to_the_exact_ones(angle):
    with mpmath.workprec(200):
        exact = mpmath.sin(mpmath.mpf(angle)), mpmath.cos(mpmath.mpf(angle))
    for got, true in zip(sin_cos(angle), exact, strict=True):
        assert abs(got - true) <= 2.0**-52 * max(1.0, abs(angle)) * 2


@given(st.floats(-math.pi, math.pi))
def test_within_half_a_turn_they_are_within_two_units_in_the_last_place_of_one(angle):
    sine, cosine = sin_cos(angle)
    with mpmath.workprec(200):
        assert abs(sine - mpmath.sin(mpmath.mpf(angle))) <= 2.0**-52
        assert abs(cosine - mpmath.cos(mpmath.mpf(angle))) <= 2.0**-52


@given(COORDINATES, COORDINATES)
def test_the_angle_of_a_point_is_close_to_the_exact_one(y, x):
    with mpmath.workprec(200):
        exact = mpmath.atan2(mpmath.mpf(y), mpmath.mpf(x)) if x or y else mpmath.mpf(0)
    assert abs(atan2(y, x) - exact) <= 2.0**-50


def test_published_bits_of_an_angle():
    assert [v.hex() for v in sin_cos(52.54 * 0.017453292519943295)] == GOLDEN


def test_an_angle_too_large_to_reduce_is_refused():
    with pytest.raises(ValueError, match=r"expected an angle of at most 100000\.0 radians, got 1e\+300"):
        sin_cos(1e300)

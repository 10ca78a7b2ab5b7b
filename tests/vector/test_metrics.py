"""Metrics: values, shapes, strides, and what they refuse."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vector import VectorTypeError, VectorValueError, cosine, dot, l2, norm_f32, normalize_f32

FUNCTIONS = (dot, l2, cosine)


def vectors(*shape, seed=0):
    return np.random.default_rng([*shape, seed]).normal(size=shape).astype(np.float32)


def exact(values):
    return [Fraction(float(value)) for value in values]


def test_sums_are_within_a_few_units_of_the_exact_value():
    for d in (1, 7, 100, 5000):
        x, y = vectors(d), vectors(d, seed=1)
        wanted = sum(a * b for a, b in zip(exact(x), exact(y), strict=True))
        size = sum(abs(a * b) for a, b in zip(exact(x), exact(y), strict=True))
        assert abs(Fraction(float(dot(x, y))) - wanted) <= size * Fraction(d, 2**53)
        squares = sum((a - b) ** 2 for a, b in zip(exact(x), exact(y), strict=True))
        assert abs(Fraction(float(l2(x, y))) - squares) <= squares * Fraction(d, 2**52)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_row_alone_has_the_bits_that_it_has_in_a_batch(function):
    x, y = vectors(40, 70), vectors(40, 70, seed=1)
    together, against_one = function(x, y), function(x, y[0])
    for i in range(40):
        assert function(x[i], y[i]).tobytes() == together[i].tobytes()
        assert function(x[i], y[0]).tobytes() == against_one[i].tobytes()
    assert isinstance(function(x[0], y[0]), np.float64)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_strided_vectors_have_the_bits_of_their_copies(function):
    x, y = vectors(40, 210), vectors(70, 40, seed=1)
    assert function(x[:, ::3], y.T).tobytes() == function(x[:, ::3].copy(), y.T.copy()).tobytes()
    assert function(x[::-1, ::-3], y.T).tobytes() == function(x[::-1, ::-3].copy(), y.T.copy()).tobytes()


def test_zero_vectors_have_norm_and_cosine_zero_and_stay_zero():
    zero = np.zeros((2, 5), np.float32)
    assert norm_f32(zero).tolist() == [0, 0]
    assert cosine(zero, vectors(5)).tolist() == [0, 0]
    assert normalize_f32(zero).tolist() == zero.tolist()


def test_normalized_vectors_have_length_one_whatever_their_size():
    for scale in (1e-38, 1.0, 1e15, 1e37):
        x = vectors(30, 100) * np.float32(scale)
        unit = normalize_f32(x)
        assert unit.dtype == np.float32
        assert np.abs(norm_f32(unit) - 1).max() < 1e-6
        assert normalize_f32(x[3]).tobytes() == unit[3].tobytes()


def test_cosine_is_within_one_and_that_of_a_vector_with_itself_is_one():
    x = vectors(200, 50)
    assert np.abs(cosine(x, x) - 1).max() < 1e-15
    assert np.abs(cosine(x, -x) + 1).max() < 1e-15


def test_nan_is_canonical_and_nothing_sums_to_zero():
    x = np.float32([1, np.nan, 3])
    assert dot(x, x).tobytes() == np.float64(np.nan).tobytes()
    assert dot(x[:0], x[:0]) == 0
    assert dot(np.zeros((3, 0), np.float32), x[:0]).tolist() == [0, 0, 0]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_does_not_fit_is_refused_by_name(function):
    name = function.__name__
    with pytest.raises(VectorTypeError) as caught:
        function(vectors(3).astype(np.float64), vectors(3))
    assert str(caught.value) == (
        f"{name}: x must be float32[d] or [n, d], got float64[3] (hint: x.astype(numpy.float32))"
    )
    for x, y in ((vectors(3), vectors(4)), (vectors(2, 3), vectors(3, 3)), (vectors(3), vectors(2, 3))):
        with pytest.raises(VectorValueError) as wrong:
            function(x, y)
        assert str(wrong.value).startswith(
            f"{name}: x must be float32[d] or [n, d], and y of the same shape or [d], got x = float32["
        )
    with pytest.raises(VectorValueError):
        function(np.float32(1), np.float32(1))

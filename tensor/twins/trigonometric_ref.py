"""Twins of trigonometry in float64: sin cos tan asin acos atan atan2 hypot.

The definition of every bit of `kernels/include/droveway/math_trigonometry.hpp`: the same operations in the same order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensor.elementary_ref import NAN64, blockwise, canonical, floats64
from tensor.fma_ref import F64
from tensor.twins.double_double_ref import (
    MAGIC,
    Mask,
    Wide,
    bits,
    constant,
    exact_product,
    exact_sum,
    fast_sum,
    fma,
    horner,
    infinite,
    negated,
    of_bits,
    quotient,
    rounded,
    scaled,
    select,
    square_root,
    sum_of,
    wide,
    with_sign,
)

__all__ = ["acos_f64", "asin_f64", "atan2_f64", "atan_f64", "cos_f64", "hypot_f64", "sin_f64", "tan_f64"]

U64 = NDArray[np.uint64]

REDUCE_SHORT_MAX = 2.0**27  # up to here three parts of π/2 are enough
TWO_BY_PI = np.float64(float.fromhex("0x1.45f306dc9c883p-1"))
HALF_PI_A, HALF_PI_B, HALF_PI_C = floats64("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54", "-0x1.f1976b7ed8fbcp-110")
HALF_PI_BY_2_62 = constant("0x1.921fb54442d18p-62", "0x1.1a62633145c07p-116")
QUARTER_PI = constant("0x1.921fb54442d18p-1", "0x1.1a62633145c07p-55")
THREE_QUARTER_PI = constant("0x1.2d97c7f3321d2p+1", "0x1.a79394c9e8a0ap-54")
TAN_EIGHTH_PI = np.float64(float.fromhex("0x1.a827999fcef32p-2"))
SIN = floats64(
    "-0x1.5555555555555p-3", "0x1.1111111111089p-7", "-0x1.a01a01a0065c9p-13", "0x1.71de3a3f68641p-19",
    "-0x1.ae643c56d3d18p-26", "0x1.61140f231c192p-33", "-0x1.a5130e538b3e4p-41",
)  # fmt: skip
COS = floats64(
    "0x1.555555555554bp-5", "-0x1.6c16c16c1504cp-10", "0x1.a01a019c97a13p-16", "-0x1.27e4f7f911e64p-22",
    "0x1.1ee9e17e6a8d9p-29", "-0x1.8fa9a7408319fp-37",
)  # fmt: skip
ATAN = floats64(
    "-0x1.5555555555554p-2", "0x1.99999999995bcp-3", "-0x1.2492492471fbbp-3", "0x1.c71c71b5e7dcdp-4",
    "-0x1.745d148f1c5e8p-4", "0x1.3b136ae4d7964p-4", "-0x1.110c47c012ebbp-4", "0x1.e16f09b1a2340p-5",
    "-0x1.ab6c2c3c9143bp-5", "0x1.70acb3fe9b613p-5", "-0x1.11acfc3472566p-5", "0x1.efdd58b3c3771p-7",
)  # fmt: skip

# 2/π in words of 64 bits, the first one before the binary point.
TWO_BY_PI_WORDS = (
    0,
    *(0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0),
    *(0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4),
    *(0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D),
    *(0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB),
)
_TWO_BY_PI = sum(word << 64 * (19 - i) for i, word in enumerate(TWO_BY_PI_WORDS))  # 2/π · 2^1216
_ONES_192, _ONES_62 = (1 << 192) - 1, (1 << 62) - 1


class Angle(NamedTuple):
    """x = (r + s) + n·π/2; of n only the last two bits count."""

    r: F64
    s: F64
    n: U64


def reduce_short(x: F64) -> Angle:
    """For |x| ≤ 2^27."""
    t = fma(x, TWO_BY_PI, MAGIC)
    k = t - MAGIC
    first = fma(k, -HALF_PI_A, x)  # exact
    second = exact_product(k, -HALF_PI_B)
    r = exact_sum(first, second.high)
    return Angle(r.high, r.low + fma(k, -HALF_PI_C, second.low), bits(t))


def reduce_long1(u: int) -> tuple[float, float, float, int]:
    """For 2^27 < |x| < ∞, x of bits u (Payne and Hanek 1983): quarter turns in two floats, rest of π/2, quadrant."""
    position = ((u >> 52) & 2047) - 1075 + 62
    mantissa = (u & 0x000FFFFFFFFFFFFF) | 0x0010000000000000
    window = (_TWO_BY_PI >> (1280 - 192 - position)) & _ONES_192
    total = ((mantissa * window) & _ONES_192) >> 64  # two bits before the point, 62 + 64 behind it
    turns = ((total >> 64) + (1 << 61)) & ((1 << 64) - 1)
    fraction = (turns & _ONES_62) - (1 << 61)
    a = float(fraction)
    return a, float(fraction - int(a)), float((total & ((1 << 64) - 1)) >> 11), turns >> 62


def reduce_long(x: F64) -> Angle:
    """The same for whole arrays."""
    parts = [reduce_long1(u) for u in bits(x).tolist()]
    a, b, rest = (np.array([p[i] for p in parts]) for i in range(3))
    quarter = np.array([p[3] for p in parts], np.uint64)
    b = b + rest * np.float64(2.0**-53)
    negative = (bits(x) >> np.uint64(63)) == 1
    a, b = np.where(negative, -a, a), np.where(negative, -b, b)
    p = a * HALF_PI_BY_2_62.high
    e = fma(a, HALF_PI_BY_2_62.high, -p) + fma(a, HALF_PI_BY_2_62.low, b * HALF_PI_BY_2_62.high)
    r = p + e
    return Angle(r, (p - r) + e, np.where(negative, np.uint64(0) - quarter, quarter))


def reduced(x: F64) -> Angle:
    a = reduce_short(x)
    far = (np.abs(x) > REDUCE_SHORT_MAX) & (np.abs(x) < np.inf)
    if far.any():
        b = reduce_long(x[far])
        for whole, part in zip(a, b, strict=True):
            whole[far] = part
    return a


def sine(r: F64, s: F64) -> Wide:
    """sin of r + s, |r| ≤ π/4·1.0001, s the rest of r below its last bit; to be rounded by one addition."""
    z = r * r
    return Wide(r, fma(r * z, horner(z, SIN), s * fma(z, np.float64(-0.5), np.float64(1))))


def cosine(r: F64, s: F64) -> Wide:
    """cos of r + s."""
    one, minus_half = np.float64(1), np.float64(-0.5)
    z = r * r
    w = fma(z, minus_half, one)
    # 1 − r²/2: what the roundings of r² and of the difference lost is added again
    rest = fma(z * z, horner(z, COS), fma(z, minus_half, one - w))
    rest = fma(minus_half, fma(r, r, -z), rest)
    return Wide(w, fma(r, -s, rest))


def in_quadrant(a: Angle, shift: int) -> F64:
    """The value of quadrant n + shift out of sine and cosine of the reduced angle."""
    n = a.n + np.uint64(shift)
    even = (n & np.uint64(1)) == 0
    y = rounded(select(even, sine(a.r, a.s), cosine(a.r, a.s)))
    return of_bits(bits(y) ^ ((n & np.uint64(2)) << np.uint64(62)))


def angle_of(y: Wide, x: Wide, mirrored: Any) -> F64:
    """The angle of the point (x, y), y ≥ 0, where x is taken as negative where `mirrored`, else x ≥ 0."""
    steep = y.high > x.high
    top, bottom = select(steep, x, y), select(steep, y, x)
    # beyond tan π/8 the angle is taken from the diagonal: (top − bottom) / (top + bottom)
    middle: Mask = top.high > TAN_EIGHTH_PI * bottom.high
    q = quotient(
        select(middle, sum_of(top, negated(bottom)), top),
        select(middle, sum_of(top, bottom), bottom),
    )
    z = q.high * q.high
    rest = fma(q.high * z, horner(z, ATAN), fma(-z, q.low, q.low))
    # whole multiples of π/4: 0 1 2, mirrored 4 3 2
    eighths = np.where(middle, np.float64(1), np.where(steep, np.float64(2), np.float64(0)))
    eighths = np.where(mirrored, np.float64(4) - eighths, eighths)
    start = select(eighths == 3, THREE_QUARTER_PI, scaled(QUARTER_PI, eighths))
    change = select(steep != mirrored, negated(Wide(q.high, rest)), Wide(q.high, rest))
    total = fast_sum(start.high, change.high)
    value: F64 = total.high + (total.low + (start.low + change.low))
    return value


def other_leg(x: F64) -> Wide:
    """√(1 − x²) for |x| ≤ 1."""
    return square_root(sum_of(negated(exact_product(x, x)), np.float64(1)))


@blockwise
def sin_f64(x: F64) -> F64:
    """Sine of x radians, with full range reduction."""
    y = in_quadrant(reduced(x), 0)
    return canonical(np.where(infinite(x), NAN64, np.where(x == 0, x, y)))


@blockwise
def cos_f64(x: F64) -> F64:
    """Cosine of x radians, with full range reduction."""
    return canonical(np.where(infinite(x), NAN64, in_quadrant(reduced(x), 1)))


@blockwise
def tan_f64(x: F64) -> F64:
    """Tangent of x radians, with full range reduction."""
    a = reduced(x)
    s, c = sine(a.r, a.s), cosine(a.r, a.s)
    s, c = fast_sum(s.high, s.low), fast_sum(c.high, c.low)
    even = (a.n & np.uint64(1)) == 0
    y = rounded(quotient(select(even, s, negated(c)), select(even, c, s)))
    return canonical(np.where(infinite(x), NAN64, np.where(np.abs(x) < 2.0**-28, x, y)))


@blockwise
def atan_f64(x: F64) -> F64:
    """Inverse tangent."""
    y = np.abs(x)
    # beyond 2^60 the angle is π/2; infinity would make NaN in the division
    limited = np.where(y > 2.0**60, np.float64(2.0**60), y)
    value = angle_of(wide(limited), wide(np.ones(x.shape)), np.False_)
    return canonical(np.where(y < 2.0**-28, x, with_sign(value, x)))


@blockwise
def asin_f64(x: F64) -> F64:
    """Inverse sine: NaN beyond ±1."""
    y = np.abs(x)
    value = angle_of(wide(y), other_leg(y), np.False_)
    return np.where(y <= 1, np.where(y < 2.0**-28, x, with_sign(value, x)), NAN64)


@blockwise
def acos_f64(x: F64) -> F64:
    """Inverse cosine: NaN beyond ±1."""
    y = np.abs(x)
    return np.where(y <= 1, angle_of(other_leg(y), wide(y), x < 0), NAN64)


@blockwise
def atan2_f64(y: F64, x: F64) -> F64:
    """The angle of the point (x, y), from −π to π; special cases as in C99 annex F.9.1.4."""
    one, zero = np.float64(1), np.float64(0)
    a, b = np.abs(y), np.abs(x)
    # neither the sum of the two nor a quotient may leave the range
    largest = np.where(a < b, b, a)
    scale = np.where(largest > 2.0**1000, np.float64(2.0**-100), one)
    scale = np.where(largest < 2.0**-900, np.float64(2.0**170), scale)
    a_inf, b_inf, none = a == np.inf, b == np.inf, largest == 0
    a = np.where(a_inf, one, np.where(b_inf, zero, a * scale))
    b = np.where(b_inf | none, one, np.where(a_inf, zero, b * scale))
    value = angle_of(wide(a), wide(b), np.signbit(x))
    return canonical(np.where(np.isnan(x) | np.isnan(y), NAN64, with_sign(value, y)))


@blockwise
def hypot_f64(x: F64, y: F64) -> F64:
    """√(x² + y²), without overflow on the way; +∞ if either is infinite, whatever the other."""
    one, inf, a, b = np.float64(1), np.float64(np.inf), np.abs(x), np.abs(y)
    largest = np.where(a < b, b, a)
    large, small = largest > 2.0**500, largest < 2.0**-450
    scale = np.where(large, np.float64(2.0**-600), np.where(small, np.float64(2.0**600), one))
    back = np.where(large, np.float64(2.0**600), np.where(small, np.float64(2.0**-600), one))
    p, q = a * scale, b * scale
    root = square_root(sum_of(exact_product(p, p), exact_product(q, q)))
    return np.where((a == inf) | (b == inf), inf, canonical(rounded(root) * back))

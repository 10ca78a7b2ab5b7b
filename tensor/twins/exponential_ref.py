"""Twins of the exponential family in float64: exp2, expm1, sinh, cosh, tanh, sigmoid, silu, gelu_tanh.

The definition of every bit of `kernels/include/droveway/math_exponential.hpp`: the same operations in the same order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensor.elementary_ref import blockwise, canonical, floats64
from tensor.fma_ref import F64
from tensor.twins.double_double_ref import (
    MAGIC,
    MAGIC_BITS,
    Wide,
    bits,
    clamp,
    constant,
    exact_product,
    exact_sum,
    fast_sum,
    fma,
    horner,
    power_of_2,
    product,
    quotient,
    rounded,
    scale_by_power,
    select,
    sum_of,
    wide,
    with_sign,
)

__all__ = ["cosh_f64", "exp2_f64", "expm1_f64", "gelu_tanh_f64", "sigmoid_f64", "silu_f64", "sinh_f64", "tanh_f64"]

U64 = NDArray[np.uint64]

LN2 = constant("0x1.62e42fefa39efp-1", "0x1.abc9e3b39803fp-56")
LOG2E = np.float64(float.fromhex("0x1.71547652b82fep+0"))
SINE_PART = floats64(
    "0x1.5555555555555p-3", "0x1.111111111130dp-7", "0x1.a01a019f11386p-13", "0x1.71de3e42d7278p-19",
    "0x1.ae566844a66e5p-26", "0x1.7417c84b806afp-33",
)  # fmt: skip
COSINE_PART = floats64(
    "0x1.5555555555555p-5", "0x1.6c16c16c16f3fp-10", "0x1.a01a019eb5a1ep-16", "0x1.27e5001ce46acp-22",
    "0x1.1edeb598983b7p-29", "0x1.b8751f7a5de20p-37",
)  # fmt: skip
CUBIC = constant("0x1.6e4e26d4801f7p-5", "0x1.441355475a31ap-59")  # 0.044715
GELU_SLOPE = constant("0x1.9884533d43651p+0", "-0x1.cbc0d30ebfd15p-54")  # 2·√(2/π)


class Exponential(NamedTuple):
    """2^n · (1 + c + r + s): cosh − 1 = c and sinh = r + s of the reduced argument, |r| ≤ ln 2 / 2."""

    r: F64
    s: F64
    c: F64
    n: U64


class Hyperbolic(NamedTuple):
    """Half of sinh and of cosh."""

    sine: Wide
    cosine: Wide


def exponential_reduced(r: F64, r_low: F64, n: U64) -> Exponential:
    z = r * r
    p, q = horner(z, SINE_PART), horner(z, COSINE_PART)
    odd, even = (r * z) * p, fma(z * z, q, np.float64(0.5) * z)
    # the low part of the argument moves sinh by r_low · cosh and cosh by r_low · sinh
    return Exponential(r, odd + fma(r_low, even, r_low), fma(r + odd, r_low, even), n)


def exponential(x: F64, x_low: Any) -> Exponential:
    """e^(x + x_low)."""
    t = fma(x, LOG2E, MAGIC)
    k = t - MAGIC
    first = fma(k, -LN2.high, x)  # exact
    second = k * LN2.low
    r = first - second
    return exponential_reduced(r, ((first - r) - second) + x_low, bits(t) - MAGIC_BITS)


def power_part(e: Exponential) -> Wide:
    """1 + c + r + s"""
    one = np.float64(1)
    start, change = one + e.r, e.s + e.c
    high = start + change
    return Wide(high, ((start - high) + change) + ((one - start) + e.r))


def at_least(n: U64, least: int) -> U64:
    return np.where(n.view(np.int64) < least, np.int64(least).view(np.uint64), n)


def unless_tiny(x: F64, value: F64) -> F64:
    """x where it is so small that f(x) = x to the last bit; zeros keep their sign."""
    return np.where(np.abs(x) < 2.0**-28, x, value)


def hyperbolic(y: F64) -> Hyperbolic:
    """For 0 ≤ y ≤ 710.6."""
    e = exponential(y, np.float64(0))
    two = np.uint64(2)
    up = power_of_2(e.n - two)
    down = power_of_2(at_least(np.uint64(0) - e.n, -1020) - two)
    a, b = fast_sum(up, -down), fast_sum(up, down)
    ar, br = exact_product(a.high, e.r), exact_product(b.high, e.r)
    sine, cosine = fast_sum(a.high, br.high), fast_sum(b.high, ar.high)
    sine_low = fma(b.high, e.s, fma(a.high, e.c, fma(b.low, e.r, a.low + br.low)))
    cosine_low = fma(a.high, e.s, fma(b.high, e.c, fma(a.low, e.r, b.low + ar.low)))
    return Hyperbolic(fast_sum(sine.high, sine.low + sine_low), fast_sum(cosine.high, cosine.low + cosine_low))


def logistic(x: F64, x_low: Any) -> tuple[Wide, U64]:
    """1 / (1 + e^−x) = value · 2^n for |x| ≤ 760: value and n."""
    one = np.float64(1)
    negative = x < 0
    e = exponential(np.where(negative, x, -x), np.where(negative, x_low, -x_low))
    p = power_part(e)
    scale = power_of_2(at_least(e.n, -1022))
    d = fast_sum(one, scale * p.high)
    bottom = Wide(d.high, fma(scale, p.low, d.low))
    top = select(negative, p, wide(np.ones(x.shape)))
    return quotient(top, bottom), np.where(negative, e.n, np.uint64(0))


@blockwise
def exp2_f64(x: F64) -> F64:
    """2^x."""
    y = clamp(x, -1080.0, 1030.0)
    t = y + MAGIC
    f = y - (t - MAGIC)
    r = f * LN2.high
    n = bits(t) - MAGIC_BITS
    p = power_part(exponential_reduced(r, fma(f, LN2.low, fma(f, LN2.high, -r)), n))
    return canonical(scale_by_power(rounded(p), n))


@blockwise
def expm1_f64(x: F64) -> F64:
    """e^x − 1."""
    e = exponential(clamp(x, -50.0, 710.0), np.float64(0))
    rest = e.s + e.c
    # half of it, so that the largest arguments don't overflow on the way
    scale = power_of_2(e.n - np.uint64(1))
    start = exact_sum(scale, np.float64(-0.5))
    then = exact_sum(start.high, scale * e.r)
    value = then.high + fma(scale, rest, then.low + start.low)
    y = np.where(e.n == 0, e.r + rest, value + value)
    return canonical(np.where(x == 0, x, y))


@blockwise
def sinh_f64(x: F64) -> F64:
    """Hyperbolic sine."""
    y = rounded(hyperbolic(clamp(np.abs(x), 0.0, 710.6)).sine)
    return canonical(unless_tiny(x, with_sign(y + y, x)))


@blockwise
def cosh_f64(x: F64) -> F64:
    """Hyperbolic cosine."""
    y = rounded(hyperbolic(clamp(np.abs(x), 0.0, 710.6)).cosine)
    return canonical(y + y)


@blockwise
def tanh_f64(x: F64) -> F64:
    """Hyperbolic tangent."""
    h = hyperbolic(clamp(np.abs(x), 0.0, 22.0))
    return canonical(unless_tiny(x, with_sign(rounded(quotient(h.sine, h.cosine)), x)))


@blockwise
def sigmoid_f64(x: F64) -> F64:
    """1 / (1 + e^−x)."""
    value, n = logistic(clamp(x, -760.0, 760.0), np.float64(0))
    return canonical(scale_by_power(rounded(value), n))


@blockwise
def silu_f64(x: F64) -> F64:
    """x · sigmoid(x); −0 at −∞."""
    clamped = clamp(x, -760.0, 760.0)
    value, n = logistic(clamped, np.float64(0))
    near = scale_by_power(rounded(product(value, clamped)), n)
    far = np.where(x >= 760, x, near)
    return canonical(with_sign(far, x))  # what underflows keeps its sign, too


@blockwise
def gelu_tanh_f64(x: F64) -> F64:
    """x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))); −0 at −∞."""
    clamped = clamp(x, -40.0, 40.0)
    cubic = product(exact_product(clamped, clamped), CUBIC)
    u = product(product(sum_of(cubic, np.float64(1)), clamped), GELU_SLOPE)
    low = u.high < -760
    value, n = logistic(clamp(u.high, -760.0, 760.0), np.where(low, np.float64(0), u.low))
    near = scale_by_power(rounded(product(value, clamped)), n)
    far = np.where(x >= 40, x, near)
    return canonical(with_sign(far, x))  # what underflows keeps its sign, too

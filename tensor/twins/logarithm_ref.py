"""Twins of the logarithm family in float64: log1p log2 log10 asinh acosh atanh softplus logaddexp pow.

The definition of every bit of `kernels/include/droveway/math_logarithm.hpp`: the same operations in the same order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensor.elementary_ref import NAN64, blockwise, canonical, floats64
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
    infinite,
    of_bits,
    product,
    quotient,
    rounded,
    scale_by_power,
    select,
    square_root,
    sum_of,
    wide,
    with_sign,
)
from tensor.twins.exponential_ref import exponential, power_part, unless_tiny

__all__ = [
    "acosh_f64",
    "asinh_f64",
    "atanh_f64",
    "log1p_f64",
    "log2_f64",
    "log10_f64",
    "logaddexp_f64",
    "pow_f64",
    "softplus_f64",
]

ATANH = floats64(
    "0x1.9999999999995p-2", "0x1.249249249314fp-2", "0x1.c71c71c56473bp-3", "0x1.745d183dd16d9p-3",
    "0x1.3b13600773d8cp-3", "0x1.11211164a20c1p-3", "0x1.de265659310b6p-4", "0x1.eb74606c0604cp-4",
)  # fmt: skip
TWO_THIRDS = constant("0x1.5555555555555p-1", "0x1.5555555555555p-55")
LN2_HIGH, LN2_LOW = floats64("0x1.62e42fee00000p-1", "0x1.a39ef35793c76p-33")
PER_LN2 = constant("0x1.71547652b82fep+0", "0x1.777d0ffda0d24p-56")
PER_LN10 = constant("0x1.bcb7b1526e50ep-2", "0x1.95355baaafad3p-57")
ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)


class Logarithm(NamedTuple):
    """value + k · ln 2 with x = m · 2^k, √½ ≤ m < √2."""

    value: Wide
    k: Any


def logarithm(x: F64) -> Logarithm:
    """For finite x > 0."""
    one = np.float64(1)
    small = x < np.float64(2.0**-1022)
    u = bits(np.where(small, x * np.float64(2.0**54), x))
    d = u - ROOT_HALF
    e = ((d + np.uint64(0x4000000000000000)) >> np.uint64(52)) - np.where(small, np.uint64(54), np.uint64(0))
    m = of_bits((d & np.uint64(0x000FFFFFFFFFFFFF)) + ROOT_HALF)
    k = of_bits(MAGIC_BITS + e) - (MAGIC + np.float64(1024))
    # s = (m − 1) / (m + 1), log m = s · (2 + z · (2/3 + z · Q(z))), z = s²
    f = m - one
    below = exact_sum(m, one)
    inverse = one / below.high
    s = f * inverse
    s_rest = fma(-s, below.low, fma(-s, below.high, f)) * inverse
    z = s * s
    z_rest = fma(s + s, s_rest, fma(s, s, -z))
    p = fast_sum(TWO_THIRDS.high, z * horner(z, ATANH))
    zp = product(Wide(p.high, p.low + TWO_THIRDS.low), Wide(z, z_rest))
    cubic = product(zp, Wide(s, s_rest))
    start = fast_sum(s + s, cubic.high)
    return Logarithm(fast_sum(start.high, start.low + (cubic.low + (s_rest + s_rest))), k)


def assembled(parts: Logarithm) -> Wide:
    """value + k · ln 2"""
    top = fast_sum(parts.k * LN2_HIGH, parts.value.high)  # the product is exact
    then = exact_product(parts.k, LN2_LOW)
    middle = exact_sum(top.low, then.high)
    total = fast_sum(top.high, middle.high)
    return Wide(total.high, total.low + (middle.low + (then.low + parts.value.low)))


def log_wide(x: Wide) -> Wide:
    """log(x.high + x.low) for x > 0 and |x.low| ≤ ulp(x.high)."""
    y = assembled(logarithm(x.high))
    return fast_sum(y.high, y.low + x.low / x.high)


def log1p_exp(x: F64, x_low: Any) -> Wide:
    """log(1 + e^(x + x_low)) for −∞ < x ≤ 0."""
    e = exponential(clamp(x, -760.0, 0.0), x_low)
    p = power_part(e)
    power = Wide(scale_by_power(p.high, e.n), scale_by_power(p.low, e.n))
    u = fast_sum(np.float64(1), power.high)
    small = Wide(power.high, fma(np.float64(-0.5) * power.high, power.high, power.low))
    return select(x < -25, small, log_wide(Wide(u.high, u.low + power.low)))


def is_integer(y: F64) -> NDArray[np.bool_]:
    """True where y ≥ 0 is an integer; infinity is one."""
    m = np.float64(2.0**52)
    whole: NDArray[np.bool_] = (y >= m) | ((y + m) - m == y)
    return whole


def log_edges(x: F64, y: F64) -> F64:
    """What every logarithm of x itself does outside the positive finite numbers."""
    y = np.where(x == np.inf, x, y)
    y = np.where(x == 0, -np.inf, y)
    return np.where(x >= 0, y, NAN64)


@blockwise
def log1p_f64(x: F64) -> F64:
    """log(1 + x): −inf at −1, NaN below."""
    y = rounded(log_wide(exact_sum(np.float64(1), x)))
    y = np.where(np.abs(x) < 2.0**-30, fma(np.float64(-0.5) * x, x, x), y)
    y = np.where(x == np.inf, x, y)
    y = np.where(x == -1, -np.inf, y)
    return np.where(x >= -1, y, NAN64)


@blockwise
def log2_f64(x: F64) -> F64:
    """Logarithm to base 2: −inf at ±0, NaN below."""
    parts = logarithm(x)
    part = product(parts.value, PER_LN2)
    y = fast_sum(parts.k, part.high)
    return log_edges(x, y.high + (y.low + part.low))


@blockwise
def log10_f64(x: F64) -> F64:
    """Logarithm to base 10: −inf at ±0, NaN below."""
    return log_edges(x, rounded(product(assembled(logarithm(x)), PER_LN10)))


@blockwise
def asinh_f64(x: F64) -> F64:
    """Inverse hyperbolic sine."""
    y, one = np.abs(x), np.float64(1)
    large = y >= 2.0**30
    limited = np.where(large, one, y)
    root = square_root(sum_of(exact_product(limited, limited), one))
    u = select(large, wide(y), sum_of(root, limited))
    parts = logarithm(u.high)
    a = assembled(Logarithm(parts.value, np.where(large, parts.k + one, parts.k)))  # 2y
    value = a.high + (a.low + u.low / u.high)
    value = np.where(y == np.inf, y, value)
    return canonical(unless_tiny(x, with_sign(value, x)))


@blockwise
def acosh_f64(x: F64) -> F64:
    """Inverse hyperbolic cosine: NaN below 1."""
    one = np.float64(1)
    large = x >= 2.0**30
    limited = np.where(large, one, x)
    root = square_root(sum_of(exact_product(limited, limited), -one))
    u = select(large, wide(x), sum_of(root, limited))
    parts = logarithm(u.high)
    a = assembled(Logarithm(parts.value, np.where(large, parts.k + one, parts.k)))  # 2x
    value = np.where(x == np.inf, x, a.high + (a.low + u.low / u.high))
    return np.where(x >= 1, value, NAN64)


@blockwise
def atanh_f64(x: F64) -> F64:
    """Inverse hyperbolic tangent: ±inf at ±1, NaN beyond."""
    y, one = np.abs(x), np.float64(1)
    u = quotient(exact_sum(one, y), exact_sum(one, -y))
    value = np.float64(0.5) * rounded(log_wide(u))
    value = np.where(y == 1, np.inf, value)
    value = np.where(y > 1, NAN64, value)
    return canonical(unless_tiny(x, with_sign(value, x)))


@blockwise
def softplus_f64(x: F64) -> F64:
    """log(1 + e^x)."""
    tail = log1p_exp(-np.abs(x), np.float64(0))
    y = exact_sum(np.where(x > 0, x, np.float64(0)), tail.high)
    return canonical(np.where(x > 760, x, y.high + (y.low + tail.low)))


@blockwise
def logaddexp_f64(x: F64, y: F64) -> F64:
    """log(e^x + e^y)."""
    swap = x < y
    large, small = np.where(swap, y, x), np.where(swap, x, y)
    difference = exact_sum(small, -large)
    near = difference.high >= -760
    tail = log1p_exp(difference.high, np.where(near, difference.low, np.float64(0)))
    total = exact_sum(large, tail.high)
    value = np.where(near, total.high + (total.low + tail.low), large)
    value = np.where((x == y) & infinite(x), x, value)
    return canonical(np.where(np.isnan(x) | np.isnan(y), NAN64, value))


@blockwise
def pow_f64(x: F64, y: F64) -> F64:
    """x to the power y; special cases as in C99 annex F.9.4.4."""
    zero, one, inf, size = np.float64(0), np.float64(1), np.float64(np.inf), np.abs(x)
    log = assembled(logarithm(size))
    w = exact_product(log.high, y)
    exponent = clamp(w.high, -746.0, 710.0)
    e = exponential(exponent, np.where(exponent == w.high, fma(log.low, y, w.low), zero))
    p = scale_by_power(rounded(power_part(e)), e.n)
    is_zero, is_inf, falling = size == 0, size == inf, y < 0
    p = np.where(is_zero, np.where(falling, inf, zero), p)
    p = np.where(is_inf, np.where(falling, zero, inf), p)
    shrinks = size < one
    p = np.where(infinite(y), np.where(falling == shrinks, inf, zero), p)
    p = np.where(size == one, one, p)
    whole = is_integer(np.abs(y))
    odd = whole & ~is_integer(np.abs(y) * np.float64(0.5))
    p = np.where(odd, with_sign(p, x), p)
    p = np.where((x < 0) & ~is_inf & ~whole, NAN64, p)
    p = np.where(np.isnan(x) | np.isnan(y), NAN64, p)
    return canonical(np.where((y == 0) | (x == one), one, p))

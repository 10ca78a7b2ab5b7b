"""Twins of the logarithm of the gamma function and its derivatives in float64: lgamma digamma trigamma.

The definition of every bit of `kernels/include/droveway/math_gamma.hpp`: the same operations in the same order.
"""

from __future__ import annotations

import numpy as np

from tensor.elementary_ref import NAN64, blockwise, canonical, floats64
from tensor.fma_ref import F64
from tensor.twins.double_double_ref import (
    Wide,
    constant,
    exact_product,
    exact_sum,
    fast_sum,
    fma,
    horner,
    infinite,
    negated,
    product,
    quotient,
    rounded,
    select,
    sum_of,
    wide,
)
from tensor.twins.logarithm_ref import log_wide
from tensor.twins.trigonometric_ref import cosine, sine

__all__ = ["digamma_f64", "lgamma_f64", "trigamma_f64"]

LGAMMA = floats64(
    "0x1.4a34cc4a60fa6p-2", "-0x1.13e001a557608p-4", "0x1.51322ac7d8746p-6", "-0x1.e404fc218e75fp-8",
    "0x1.7add6ead6974fp-9", "-0x1.38ac5c2cbe1dfp-10", "0x1.0b36afa7a104ap-11", "-0x1.d3fd4bd2d0c5dp-13",
    "0x1.a127a07be8115p-14", "-0x1.78de8263dce2dp-15", "0x1.581048934f90ep-16", "-0x1.3cb7227191cd2p-17",
    "0x1.255bf2eb14a50p-18", "-0x1.122b96deec25fp-19", "0x1.03e1de3acf0d7p-20", "-0x1.d604bf3ed555ap-22",
    "0x1.8a16f41f91f6ep-23", "-0x1.0268c54866b35p-23", "0x1.55b107abf60dep-24", "-0x1.79213370473d9p-27",
)  # fmt: skip
STIRLING = floats64(
    "0x1.5555555555555p-4", "-0x1.6c16c16c10957p-9", "0x1.a01a015d9dfcfp-11", "-0x1.381331ca80625p-11",
    "0x1.b920c2e7ceed1p-11", "-0x1.ee6910ec571b5p-10", "0x1.466272eadade1p-8",
)  # fmt: skip
DIGAMMA = floats64(
    "-0x1.b1cb63005ee98p-2", "0x1.eca189b8e6f6ap-3", "-0x1.2feeeb98a7972p-3", "0x1.8512e5903954ap-4",
    "-0x1.fb44202a19bf5p-5", "0x1.4de9aa174f15ap-5", "-0x1.b9f8b11e7b44dp-6", "0x1.25647183c7b2cp-6",
    "-0x1.863563923e44bp-7", "0x1.03c0ac00e4548p-7", "-0x1.5a06af207949cp-8", "0x1.cd2061568955fp-9",
    "-0x1.336d2ed633b74p-9", "0x1.99cf34c2903a6p-10", "-0x1.0fb91695aea5bp-10", "0x1.6a6cb75f75eb1p-11",
    "-0x1.fd4ab43c33238p-12", "0x1.529b6d775e398p-12", "-0x1.3096e3d465526p-13", "0x1.9c4ec473d307cp-14",
    "-0x1.75144b5897e94p-13", "0x1.ece8444d4deffp-14",
)  # fmt: skip
DIGAMMA_SERIES = floats64(
    "0x1.5555555555555p-4", "-0x1.111111110f590p-7", "0x1.041040f9954efp-8", "-0x1.1111028c5fc1ep-8",
    "0x1.f07151ae0d928p-8", "-0x1.586cfdefbfe37p-6", "0x1.42b6e32aa3386p-4", "-0x1.1d07877cee66dp-2",
)  # fmt: skip
TRIGAMMA_SERIES = floats64(
    "0x1.5555555555555p-3", "-0x1.111111110f973p-5", "0x1.86186178ff949p-6", "-0x1.111104e4077d3p-5",
    "0x1.3647c75a5d984p-4", "-0x1.026ababbece0fp-2", "0x1.1b9fd705964cdp+0", "-0x1.233f7cc5eb4b5p+2",
)  # fmt: skip
ONE_LESS_GAMMA = constant("0x1.b0ee6072093cep-2", "0x1.6cb90701fbfabp-58")
HALF_LOG_2_PI = constant("0x1.d67f1c864beb5p-1", "-0x1.65b5a1b7ff5dfp-55")
LOG_PI = constant("0x1.250d048e7a1bdp+0", "0x1.7abf2ad8d5088p-57")
PI = constant("0x1.921fb54442d18p+1", "0x1.1a62633145c07p-53")
DIGAMMA_START = constant("0x1.e6f0cbb873616p-1", "0x1.8f70c7a125e6ap-55")
ZERO_FROM_THREE_HALVES = constant("0x1.3a4f395283812p-5", "0x1.e563779a1f5b1p-60")  # 1.5 less the zero of ψ


def lgamma_positive(y: F64) -> Wide:
    """log Γ(y) for 0 < y < ∞ where y·log y is finite."""
    one, two, half = np.float64(1), np.float64(2), np.float64(0.5)
    large, low, lowest = y >= 8, y < 1.5, y < half
    # Γ(y) = Γ(2 + d) · factor, or / factor where y < 1.5
    reduced, factor = y, wide(np.ones(y.shape))
    for _ in range(6):
        more = (reduced >= 2.5) & ~large
        less = reduced - one
        factor = select(more, product(factor, less), factor)
        reduced = np.where(more, less, reduced)
    twice = product(exact_sum(y, one), y)
    factor = select(low, select(lowest, twice, wide(y)), factor)
    d = np.where(low, np.where(lowest, y, y - one), reduced - two)
    # log Γ(2 + d) = d · (1 − γ + d · S(d))
    near = product(sum_of(exact_product(horner(d, LGAMMA), d), ONE_LESS_GAMMA), d)
    log = log_wide(select(large, wide(y), factor))
    # Stirling's series: (y − ½)·log y − y + ½ log 2π + 1/y · P(1/y²)
    inverse = one / y
    series = sum_of(HALF_LOG_2_PI, inverse * horner(inverse * inverse, STIRLING))
    far = sum_of(sum_of(product(log, exact_sum(y, -half)), -y), series)
    return select(large, far, sum_of(near, select(low, negated(log), log)))


def half_turn(f: F64) -> tuple[Wide, Wide]:
    """sin πy and cos πy up to their common sign, f = y less the nearest integer."""
    size = np.abs(f)
    steep = size > 0.25
    r = product(PI, np.where(steep, np.float64(0.5) - size, size))
    s, c = sine(r.high, r.low), cosine(r.high, r.low)
    s, c = fast_sum(s.high, s.low), fast_sum(c.high, c.low)
    return select(steep, c, s), select(steep, s, c)


@blockwise
def lgamma_f64(x: F64) -> F64:
    """log |Γ(x)|: +∞ at 0, at negative integers and at ±∞."""
    y, inf = np.abs(x), np.float64(np.inf)
    positive = lgamma_positive(np.where(y > 2.0**1014, np.float64(2.0**1014), y))
    value = np.where(y > 2.556348163871691e305, inf, rounded(positive))
    # Γ(−y) · Γ(y) = −π / (y · sin πy)
    f = y - np.rint(y)
    log = log_wide(product(half_turn(f)[0], y))
    reflected = sum_of(sum_of(LOG_PI, negated(log)), negated(positive))
    value = np.where(x < -(2.0**-60), np.where(f == 0, inf, rounded(reflected)), value)
    value = np.where((x == 0) | infinite(x), inf, value)
    return canonical(np.where(np.isnan(x), x, value))


@blockwise
def digamma_f64(x: F64) -> F64:
    """The derivative of log Γ: −∞ at +0, +∞ at −0, NaN at negative integers and −∞."""
    one, y = np.float64(1), np.abs(x)
    unit = wide(np.ones(y.shape))
    large, low = y >= 8, y < one
    # ψ(y) = ψ(1.5 + u) + Σ, u = y − i − 1.5 in −½ … ½
    reduced, total = y, wide(np.zeros(y.shape))
    for _ in range(6):
        more = (reduced >= 2) & ~large
        less = reduced - one
        total = select(more, sum_of(total, quotient(unit, wide(less))), total)
        reduced = np.where(more, less, reduced)
    total = select(low, negated(quotient(unit, wide(np.where(low, y, one)))), total)
    u = np.where(low, y - np.float64(0.5), reduced - np.float64(1.5))
    # ψ(1.5 + u) = (u − u₀) · P(u), u₀ the zero of ψ
    p = sum_of(exact_product(horner(u, DIGAMMA), u), DIGAMMA_START)
    near = sum_of(product(p, sum_of(ZERO_FROM_THREE_HALVES, u)), total)
    # log y − 1/(2y) − 1/y² · P(1/y²)
    inverse = one / y
    z = inverse * inverse
    log = log_wide(wide(np.where(large, y, one)))
    far = sum_of(log, -fma(z, horner(z, DIGAMMA_SERIES), np.float64(0.5) * inverse))
    positive = select(large, far, near)
    # ψ(−y) = ψ(y) + 1/y + π / tan πy
    f = y - np.rint(y)
    sine_of, cosine_of = half_turn(f)
    cotangent = product(quotient(cosine_of, sine_of), PI)
    cotangent = select(f < 0, negated(cotangent), cotangent)
    reflected = rounded(sum_of(sum_of(positive, quotient(unit, wide(y))), cotangent))
    value = np.where(x < 0, np.where(f == 0, NAN64, reflected), rounded(positive))
    value = np.where(y < 2.0**-60, -one / x, value)
    value = np.where(x == np.inf, np.inf, np.where(x == -np.inf, NAN64, value))
    return canonical(np.where(np.isnan(x), x, value))


@blockwise
def trigamma_f64(x: F64) -> F64:
    """The second derivative of log Γ: +∞ at 0 and at negative integers, NaN at −∞."""
    one, y = np.float64(1), np.abs(x)
    unit = wide(np.ones(y.shape))
    # ψ'(y) = ψ'(y + i) + Σ 1 / (y + i)²
    shifted, total = y, wide(np.zeros(y.shape))
    for _ in range(8):
        more = shifted < 8
        term = quotient(unit, exact_product(shifted, shifted))
        total = select(more, sum_of(total, term), total)
        shifted = np.where(more, shifted + one, shifted)
    # 1/y + 1/(2y²) + 1/y³ · P(1/y²)
    inverse = quotient(unit, wide(shifted))
    z = inverse.high * inverse.high
    positive = sum_of(
        sum_of(inverse, fma(z * inverse.high, horner(z, TRIGAMMA_SERIES), np.float64(0.5) * z)),
        total,
    )
    # ψ'(−y) = (π / sin πy)² + 1/y² − ψ'(y)
    f = y - np.rint(y)
    ratio = quotient(PI, half_turn(f)[0])
    square = quotient(unit, exact_product(y, y))
    reflected = rounded(sum_of(sum_of(product(ratio, ratio), square), negated(positive)))
    value = np.where(x < 0, np.where(f == 0, np.inf, reflected), rounded(positive))
    tiny = one / x
    value = np.where(y < 2.0**-60, tiny * tiny, value)
    value = np.where(x == np.inf, np.float64(0), np.where(x == -np.inf, NAN64, value))
    return canonical(np.where(np.isnan(x), x, value))

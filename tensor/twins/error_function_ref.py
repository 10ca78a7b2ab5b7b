"""Twins of the error function and its kin in float64: erf erfc gelu.

The definition of every bit of `kernels/include/droveway/math_error_function.hpp`: the same operations in the same
order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor.elementary_ref import blockwise, canonical, floats64
from tensor.fma_ref import F64
from tensor.twins.double_double_ref import (
    Wide,
    clamp,
    constant,
    exact_product,
    exact_sum,
    fast_sum,
    fma,
    horner,
    negated,
    product,
    quotient,
    rounded,
    scale_by_power,
    scaled,
    sum_of,
    with_sign,
)
from tensor.twins.exponential_ref import exponential, power_part

__all__ = ["erf_f64", "erfc_f64", "gelu_f64"]

U64 = NDArray[np.uint64]

FACTOR_START = constant("0x1.3ba5916e9fd7fp+0", "-0x1.aa9c415679e6fp-55")
FACTOR = floats64(
    "-0x1.1df1ad154a28fp-3", "0x1.f7f5df66fd701p-7", "0x1.16ecefcfa545ap-4", "-0x1.9ddb23c3e89f6p-4",
    "0x1.7fee004e107cep-4", "-0x1.0fb06dfe54b6bp-4", "0x1.3079edf6c15bbp-5", "-0x1.09623882af76dp-6",
    "0x1.49c672745e6efp-8", "-0x1.8d4a9c36fa028p-11", "-0x1.a1df19a7db048p-13", "0x1.3be069ba2eb20p-13",
    "-0x1.995a6f2e67fefp-16", "-0x1.788d377ae2debp-17", "0x1.7f315ac5316acp-18", "0x1.3ba900fe1bb83p-22",
    "-0x1.bb526e197a057p-21", "0x1.3f7a12e5de712p-24", "0x1.d95fa110183ffp-24", "-0x1.30304cecdc4dap-26",
    "-0x1.e3d4453a6bdf9p-27", "0x1.e455c15f70101p-30", "0x1.5158bf59f7064p-30",
)  # fmt: skip
NEAR = floats64(
    "-0x1.812746b0379e7p-2", "0x1.ce2f21a042c36p-4", "-0x1.b82ce3128b6a1p-6", "0x1.565bcd0f22fddp-8",
    "-0x1.c02db43a62eafp-11", "0x1.f9a3327b7f99ap-14", "-0x1.f4d3d3e1f8e1ep-17", "0x1.ba0568af2f447p-20",
    "-0x1.60f870808d631p-23", "0x1.0873aa6388f1dp-26", "-0x1.7407f9cfb5ecap-30",
)  # fmt: skip
TWO_BY_ROOT_PI = constant("0x1.20dd750429b6dp+0", "0x1.1ae3a914fed80p-56")
ROOT_2 = constant("0x1.6a09e667f3bcdp+0", "-0x1.bdd3413b26456p-54")
FOUR_ROOT_2 = constant("0x1.6a09e667f3bcdp+2", "-0x1.bdd3413b26456p-52")
PER_TWO_ROOT_2 = np.float64(float.fromhex("0x1.6a09e667f3bcdp-2"))
PER_ROOT_2_PI = constant("0x1.9884533d43651p-2", "-0x1.cbc0d30ebfd15p-56")


def complement_factor(t: F64) -> Wide:
    """(1 + 2x) · e^(x²) · erfc x as a polynomial in t = (x − 4) / (x + 4).

    Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 ≤ x < ∞", Mathematics of
    Computation 36, 1981.
    """
    start = exact_product(horner(t, FACTOR), t)
    top = fast_sum(FACTOR_START.high, start.high)
    return Wide(top.high, top.low + (start.low + FACTOR_START.low))


def complement(square: Wide, factor: Wide, bottom: Wide) -> tuple[Wide, U64]:
    """e^−square · factor / bottom = value · 2^n: value and n."""
    e = exponential(-square.high, -square.low)
    return product(power_part(e), quotient(factor, bottom)), e.n


def complement_of(y: F64) -> tuple[Wide, U64]:
    """erfc y for 0 ≤ y ≤ 28."""
    four = np.float64(4)
    t = rounded(quotient(exact_sum(y, -four), exact_sum(y, four)))
    return complement(exact_product(y, y), complement_factor(t), exact_sum(np.float64(1), y + y))


def unscaled(value: Wide, n: U64) -> Wide:
    return Wide(scale_by_power(value.high, n), scale_by_power(value.low, n))


def erf_near(y: F64) -> Wide:
    """erf y for |y| ≤ 0.65: 2/√π · y + y·z·P(z), z = y²."""
    z = y * y
    start = exact_product(y, TWO_BY_ROOT_PI.high)
    return Wide(start.high, fma(y * z, horner(z, NEAR), fma(y, TWO_BY_ROOT_PI.low, start.low)))


@blockwise
def erf_f64(x: F64) -> F64:
    """Error function."""
    y = np.abs(x)
    c = unscaled(*complement_of(clamp(y, 0.0, 6.0)))
    one_less = fast_sum(np.float64(1), -c.high)
    far = one_less.high + (one_less.low - c.low)
    return canonical(with_sign(np.where(y < 0.65, rounded(erf_near(y)), far), x))


@blockwise
def erfc_f64(x: F64) -> F64:
    """1 − erf x, without the loss of its digits."""
    y = np.abs(x)
    c, n = complement_of(clamp(y, 0.0, 28.0))
    value = unscaled(c, n)
    two_less = fast_sum(np.float64(2), -value.high)
    right = scale_by_power(rounded(c), n)
    far = np.where(x < 0, two_less.high + (two_less.low - value.low), right)
    e = erf_near(x)
    one_less = fast_sum(np.float64(1), -e.high)
    return canonical(np.where(y < 0.65, one_less.high + (one_less.low - e.low), far))


@blockwise
def gelu_f64(x: F64) -> F64:
    """x · Φ(x), Φ the distribution function of the standard normal; −0 at −∞."""
    half = np.float64(0.5)
    # y · Φ(−y) = y/2 · erfc(y/√2), and x · Φ(x) for x > 0 is x less that
    y = clamp(np.abs(x), 0.0, 39.0)
    t = rounded(quotient(sum_of(negated(FOUR_ROOT_2), y), sum_of(FOUR_ROOT_2, y)))
    bottom = sum_of(product(ROOT_2, y), np.float64(1))
    c, n = complement(scaled(exact_product(y, y), half), complement_factor(t), bottom)
    tail = product(c, half * y)
    left = -scale_by_power(rounded(tail), n)
    u = unscaled(tail, n)
    rest = fast_sum(x, -u.high)
    right = rest.high + (rest.low - u.low)
    value = np.where(x < 0, left, np.where(x > 39, x, right))
    # x/2 + x/2 · erf(x/√2) = x · (1/2 + x · (1/√(2π) + x²·P(x²/2) / (4·√2)))
    z = half * (x * x)
    slope = fast_sum(PER_ROOT_2_PI.high, horner(z, NEAR) * PER_TWO_ROOT_2 * z)
    middle = sum_of(product(Wide(slope.high, slope.low + PER_ROOT_2_PI.low), x), half)
    value = np.where(np.abs(x) < 0.9, rounded(product(middle, x)), value)
    return canonical(with_sign(value, x))  # what underflows keeps its sign, too

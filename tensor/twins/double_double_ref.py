"""Twins of double_double.hpp: numbers as an unevaluated sum high + low of two float64.

Every function takes and gives float64 arrays (numbers stand for arrays of one), in the operations and the order of the
kernels (`kernels/include/droveway/double_double.hpp`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensor.elementary_ref import NAN64, horner64
from tensor.fma_ref import F64, fma_f64

__all__ = [
    "MAGIC",
    "MAGIC_BITS",
    "Wide",
    "bits",
    "clamp",
    "constant",
    "exact_product",
    "exact_sum",
    "fast_sum",
    "fma",
    "horner",
    "infinite",
    "negated",
    "of_bits",
    "power_of_2",
    "product",
    "quotient",
    "rounded",
    "scale_by_power",
    "scaled",
    "select",
    "square_root",
    "sum_of",
    "wide",
    "with_sign",
]

Mask = NDArray[np.bool_]
U64 = NDArray[np.uint64]

MAGIC, MAGIC_BITS = np.float64(6755399441055744.0), np.uint64(0x4338000000000000)  # 1.5·2^52
NAN = NAN64
horner = horner64


class Wide(NamedTuple):
    """high + low, |low| at most half a unit in the last place of high unless a function says otherwise."""

    high: Any
    low: Any


def fma(a: Any, b: Any, c: Any) -> F64:
    """a·b + c, rounded once."""
    return fma_f64(np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(c, np.float64))


def bits(x: F64) -> U64:
    """The bit patterns of x."""
    return np.ascontiguousarray(x).view(np.uint64)


def of_bits(u: U64) -> F64:
    """The numbers of these bit patterns."""
    return np.ascontiguousarray(u).view(np.float64)


def exact_sum(a: Any, b: Any) -> Wide:
    """The rounded sum and its exact error (Knuth)."""
    total = a + b
    part = total - a
    return Wide(total, (a - (total - part)) + (b - part))


def fast_sum(a: Any, b: Any) -> Wide:
    """The same where |a| ≥ |b| or a = 0 (Dekker)."""
    total = a + b
    return Wide(total, (a - total) + b)


def exact_product(a: Any, b: Any) -> Wide:
    """The rounded product and its error, exact where nothing underflows."""
    p = a * b
    return Wide(p, fma(a, b, -p))


def wide(x: Any) -> Wide:
    return Wide(x, np.zeros(np.shape(x)))


def constant(high: str, low: str) -> Wide:
    return Wide(np.float64(float.fromhex(high)), np.float64(float.fromhex(low)))


def rounded(a: Wide) -> F64:
    total: F64 = a.high + a.low
    return total


def negated(a: Wide) -> Wide:
    return Wide(-a.high, -a.low)


def select(mask: Mask, a: Wide, b: Wide) -> Wide:
    return Wide(np.where(mask, a.high, b.high), np.where(mask, a.low, b.low))


def scaled(a: Wide, power: Any) -> Wide:
    return Wide(a.high * power, a.low * power)


def sum_of(a: Wide, b: Any) -> Wide:
    """a + b, b wide or not."""
    if isinstance(b, Wide):
        s = exact_sum(a.high, b.high)
        return fast_sum(s.high, s.low + (a.low + b.low))
    s = exact_sum(a.high, b)
    return fast_sum(s.high, s.low + a.low)


def product(a: Wide, b: Any) -> Wide:
    """a · b, b wide or not."""
    if isinstance(b, Wide):
        p = exact_product(a.high, b.high)
        return fast_sum(p.high, fma(a.high, b.low, fma(a.low, b.high, p.low)))
    p = exact_product(a.high, b)
    return fast_sum(p.high, fma(a.low, b, p.low))


def quotient(a: Wide, b: Wide) -> Wide:
    q = a.high / b.high
    left = fma(-q, b.high, a.high) + fma(-q, b.low, a.low)
    return fast_sum(q, left / b.high)


def square_root(a: Wide) -> Wide:
    """√a for a ≥ 0."""
    root = np.sqrt(a.high)
    left = fma(-root, root, a.high) + a.low
    rest = left / (root + root)
    return fast_sum(root, np.where(a.high > 0, rest, np.float64(0)))


def clamp(x: F64, low: float, high: float) -> F64:
    """x within low … high; NaN stays."""
    y = np.where(x > high, np.float64(high), x)
    return np.where(y < low, np.float64(low), y)


def infinite(x: F64) -> Mask:
    found: Mask = np.abs(x) == np.inf
    return found


def with_sign(size: F64, sign: F64) -> F64:
    """|size| with the sign bit of `sign`."""
    top = np.uint64(1 << 63)
    return of_bits((bits(size) & ~top) | (bits(sign) & top))


def power_of_2(n: U64) -> F64:
    """2^n for n in two's complement, −1022 ≤ n ≤ 1023."""
    return of_bits((n + np.uint64(1023)) << np.uint64(52))


def scale_by_power(x: F64, n: U64) -> F64:
    """x · 2^n for −2044 ≤ n ≤ 2046: the first factor is exact on normal numbers, the last product rounds."""
    half = ((n + np.uint64(4096)) >> np.uint64(1)) - np.uint64(2048)
    y: F64 = x * power_of_2(half) * power_of_2(n - half)
    return y

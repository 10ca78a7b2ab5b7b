"""Exact fused multiply-add on arrays: a·b + c rounded once, built from plain float64 additions and products.

The twins (`*_ref.py`) need the same fma as the hardware. Both functions here keep the exact value as a sum of floats
and round it once, by rounding an intermediate sum *to odd* (if the sum is inexact and its last bit is even, step to
the error's side), which keeps the information that the last rounding needs (Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums", IEEE Transactions on Computers 57, 2008).

Not defined here: sign and payload of a NaN. Kernels and twins make NaN canonical before they store it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

_SPLIT = np.float64(134217729.0)  # 2^27 + 1, Veltkamp's splitting of 53 bits into 26 + 26 and a sign
_FACTOR_MIN, _FACTOR_MAX = np.float64(2.0**-400), np.float64(2.0**400)
_ADDEND_MAX = np.float64(2.0**1000)
_SHIFT_MAX = 200  # two numbers this many binary digits apart only touch through the sticky bit
_EXPONENT_MIN = -1500  # |sum| < 2^202 in its own frame, so below this everything rounds to a signed zero


def fma_f32(a: F32 | np.float32, b: F32 | np.float32, c: F32 | np.float32) -> F32:
    """a·b + c in float32 with one rounding; the three shapes broadcast.

    Raises TypeError unless all three are float32. The float64 product of two float32 is exact (48 bits); the third is
    added with its error, rounded to odd at 53 bits, and then to float32.

    >>> fma_f32(np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(-1 - 2**-11))  # the square alone rounds
    np.float32(5.9604645e-08)
    """
    for name, x in (("a", a), ("b", b), ("c", c)):
        _require(x, name, "fma_f32", np.float32)
    with np.errstate(all="ignore"):
        product = np.asarray(a).astype(np.float64) * np.asarray(b).astype(np.float64)
        total: F32 = _add_to_odd(product, np.asarray(c).astype(np.float64)).astype(np.float32)
    return total[()]


def fma_f64(a: F64 | np.float64, b: F64 | np.float64, c: F64 | np.float64) -> F64:
    """a·b + c in float64 with one rounding, subnormal results included; the three shapes broadcast.

    Raises TypeError unless all three are float64.

    >>> fma_f64(np.float64(1 + 2**-30), np.float64(1 + 2**-30), np.float64(-1 - 2**-29)) == 2.0**-60
    np.True_
    """
    for name, x in (("a", a), ("b", b), ("c", c)):
        _require(x, name, "fma_f64", np.float64)
    with np.errstate(all="ignore"):
        a, b, c = np.broadcast_arrays(a, b, c)
        size_a, size_b = np.abs(a), np.abs(b)
        near = (
            (((size_a >= _FACTOR_MIN) & (size_a <= _FACTOR_MAX)) | (size_a == 0))
            & (((size_b >= _FACTOR_MIN) & (size_b <= _FACTOR_MAX)) | (size_b == 0))
            & (np.abs(c) <= _ADDEND_MAX)
        )
        if near.all():
            return _fma_near(a, b, c)[()]
        out = np.empty(a.shape, np.float64)
        out[near] = _fma_near(a[near], b[near], c[near])
        far = ~near
        out[far] = _fma_far(a[far], b[far], c[far])
    return out[()]


def _require(x: object, name: str, function: str, dtype: type) -> None:
    got = getattr(x, "dtype", type(x).__name__)
    if got != dtype:
        raise TypeError(f"{function}: {name} must be {np.dtype(dtype).name}, got {got}")


def _two_sum(a: F64, b: F64) -> tuple[F64, F64]:
    """The rounded sum and its exact error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: F64, b: F64) -> tuple[F64, F64]:
    """The rounded product and its exact error (Dekker); needs exponents within ±400."""
    product = a * b
    high_a = _SPLIT * a
    high_a = high_a - (high_a - a)
    low_a = a - high_a
    high_b = _SPLIT * b
    high_b = high_b - (high_b - b)
    low_b = b - high_b
    return product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b


def _add_to_odd(a: F64, b: F64) -> F64:
    """a + b at 53 bits, rounded to odd."""
    total, error = _two_sum(a, b)
    bits = np.asarray(total).view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & ((bits & 1) == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.asarray(np.where(inexact, bits + step, bits)).view(np.float64)


def _fma_near(a: F64, b: F64, c: F64) -> F64:
    """fma where the product and its error are normal numbers: nothing needs scaling."""
    product, error = _two_product(a, b)
    upper, upper_error = _two_sum(c, error)
    total, total_error = _two_sum(product, upper)
    z = total + _add_to_odd(total_error, upper_error)
    return np.asarray(np.where(product == 0, product + c, z))


def _fma_far(a: F64, b: F64, c: F64) -> F64:
    """fma near the ends of the range: mantissas and exponents apart, then one rounding on the final grid."""
    plain = a * b + c  # the answer where a factor is zero or anything is not finite (an infinite product by overflow
    special = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c)  # is not special)
    # A finite overflowing product with an infinite c must give c, not NaN.
    plain = np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c, plain)
    mantissa_a, exponent_a = np.frexp(np.where(special, 1.0, a))
    mantissa_b, exponent_b = np.frexp(np.where(special, 1.0, b))
    mantissa_c, exponent_c = np.frexp(np.where(special, 1.0, c))
    product, error = _two_product(mantissa_a, mantissa_b)
    exponent = exponent_a.astype(np.int64) + exponent_b
    shift = np.where(mantissa_c == 0, 0, exponent_c - exponent)
    clamped = np.clip(shift, -_SHIFT_MAX, _SHIFT_MAX)
    exponent = exponent + np.maximum(shift - clamped, 0)
    addend = np.ldexp(mantissa_c, clamped)

    upper, upper_error = _two_sum(addend, error)
    total, total_error = _two_sum(product, upper)
    rest = _add_to_odd(total_error, upper_error)
    z = total + rest

    # A subnormal result lies on the grid 2^-1074: add 2^52 grid steps of the same sign, so that the sum rounds there.
    exponent = np.maximum(exponent, _EXPONENT_MIN)
    subnormal = np.abs(z) < np.ldexp(1.0, np.minimum(-1022 - exponent, 1023))
    anchor = np.copysign(np.ldexp(1.0, np.minimum(-1022 - exponent, 1000)), z)
    high, low = _two_sum(anchor, total)
    on_grid = np.copysign((high + _add_to_odd(low, rest)) - anchor, z)
    scaled = np.ldexp(np.where(subnormal, on_grid, z), np.where(z == 0, 0, exponent))
    return np.asarray(np.where(special, plain, scaled))

"""Twins of the elementary functions: the definition of every bit, in numpy.

Only + − × ÷ sqrt (exact by IEEE 754), the exact fma of `fma_ref`, comparisons, selections and bit operations are used,
in the order in which the kernels (`kernels/include/droveway/math_f32.hpp`, `math_f64.hpp`) use them. Every function
takes an array of any shape and returns one of the same shape and type; NaN comes out as the canonical quiet NaN.

Coefficients: `tests/tensor/accuracy/coefficients.py`. Measured errors: `docs/accuracy.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor.fma_ref import F32, F64, fma_f32, fma_f64

U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]

BLOCK = 4096  # elements worked on at a time: the temporaries stay in the cache


def floats32(*values: str) -> list[np.float32]:
    return [np.float32(float.fromhex(v)) for v in values]


def floats64(*values: str) -> list[np.float64]:
    return [np.float64(float.fromhex(v)) for v in values]


NAN32 = np.uint32(0x7FC00000).view(np.float32)
NAN64 = np.uint64(0x7FF8000000000000).view(np.float64)
SIGN32 = np.uint32(0x80000000)
SIZE32 = np.uint32(0x7FFFFFFF)

# x + MAGIC rounds x to an integer and leaves it in the low bits of the sum.
MAGIC32, MAGIC32_BITS = np.float32(12582912.0), np.uint32(0x4B400000)  # 1.5·2^23
MAGIC64, MAGIC64_BITS = np.float64(6755399441055744.0), np.uint64(0x4338000000000000)  # 1.5·2^52

LOG2E32 = np.float32(float.fromhex("0x1.715476p+0"))
LN2_HIGH32, LN2_LOW32 = floats32("0x1.62e4p-1", "0x1.7f7d1cp-20")
TWO_BY_PI32 = np.float32(float.fromhex("0x1.45f306p-1"))
HALF_PI_A, HALF_PI_B, HALF_PI_C = floats32("0x1.921fb6p+0", "-0x1.777a5cp-25", "-0x1.ee59dap-50")

LOG2E64 = np.float64(float.fromhex("0x1.71547652b82fep+0"))
LN2_A, LN2_B = floats64("0x1.62e42fefa39efp-1", "0x1.abc9e3b39803fp-56")
LN2_HIGH64, LN2_LOW64 = floats64("0x1.62e42fee00000p-1", "0x1.a39ef35793c76p-33")

EXP = floats32("0x1p+0", "0x1p+0", "0x1p-1", "0x1.555556p-3", "0x1.5554e4p-5", "0x1.110feep-7", "0x1.6d514cp-10",
               "0x1.a2740ap-13")  # fmt: skip
LOG = floats32("0x1.555546p-2", "-0x1.00000ap-2", "0x1.99a546p-3", "-0x1.555ae4p-3", "0x1.232cfap-3",
               "-0x1.fc4da0p-4", "0x1.e7a54ep-4", "-0x1.dd6510p-4", "0x1.11c874p-4")  # fmt: skip
SIN = floats32("-0x1.555556p-3", "0x1.111164p-7", "-0x1.a04802p-13", "0x1.77b00ep-19")
COS = floats32("0x1.55554ap-5", "-0x1.6c0c1cp-10", "0x1.99e1d6p-16")
TANH = floats32("-0x1.555554p-2", "0x1.11107cp-3", "-0x1.b9f21cp-5", "0x1.63acc4p-6", "-0x1.0c8726p-7", "0x1.1ac484p-9")
ERF = floats32("0x1.06eba8p-3", "-0x1.812744p-2", "0x1.ce2e76p-4", "-0x1.b81966p-6", "0x1.553cacp-8",
               "-0x1.aea858p-11", "0x1.6c9d36p-14")  # fmt: skip
ERFC = floats32("0x1.073ea8p-3", "0x1.457926p-1", "0x1.aea78cp-4", "-0x1.716f2ep-6", "0x1.762d40p-9",
                "-0x1.83fdacp-16", "-0x1.a88328p-15", "0x1.662110p-18")  # fmt: skip
EXP64 = floats64("0x1p-1", "0x1.5555555555555p-3", "0x1.5555555555558p-5", "0x1.11111111112cep-7",
                 "0x1.6c16c16c1500bp-10", "0x1.a01a019f46dbcp-13", "0x1.a01a01ad76d15p-16", "0x1.71de3d41391d0p-19",
                 "0x1.27e4cc2827b2dp-22", "0x1.ae5a80c868a21p-26", "0x1.1f8bb233a25c6p-29",
                 "0x1.6e135bc0cc1a6p-33")  # fmt: skip
LOG64 = floats64("0x1.5555555555594p-1", "0x1.999999997f73fp-2", "0x1.249249423ac79p-2", "0x1.c71c51d6d7e76p-3",
                 "0x1.746647f14b159p-3", "0x1.39a0eaea502f7p-3", "0x1.2f0ccd19fb262p-3")  # fmt: skip
LOG2_64 = floats64("0x1.71547652b82ffp+1", "0x1.ec709dc39cd14p-1", "0x1.2776c51672b64p-1", "0x1.a61756a9261cdp-2",
                   "0x1.484fa0feea419p-2", "0x1.0bb8edde56009p-2", "0x1.f16bd9755b414p-3")  # fmt: skip
EXP2_64 = floats64("0x1p+0", "0x1.62e42fefa3a19p-1", "0x1.ebfbdff82c5a6p-3", "0x1.c6b08d703cf01p-5",
                   "0x1.3b2ab6fb9fd4fp-7", "0x1.5d87fe9d692d6p-10", "0x1.4309130f862b6p-13", "0x1.ffcb542ea7811p-17",
                   "0x1.62bfc60f5590bp-20", "0x1.b6759baaf843ep-24", "0x1.e61dcc21b6ec9p-28")  # fmt: skip

# 2/π in words of 32 bits, the first one before the binary point.
TWO_BY_PI_WORDS = np.array([0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB],
                           np.uint32)  # fmt: skip
HALF_PI_BY_2_62 = np.float64(float.fromhex("0x1.921fb54442d18p-62"))
REDUCE_SHORT_MAX = np.float32(131072.0)  # up to here k·HALF_PI_A, B, C give the angle to 2^-30 of itself


def blockwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a function of flat arrays over blocks, and gives the result the shape of the first argument."""

    def run(x: NDArray[Any], *more: NDArray[Any]) -> NDArray[Any]:
        flat = [np.ascontiguousarray(a).reshape(-1) for a in (x, *more)]
        out = np.empty(flat[0].shape, flat[0].dtype)
        with np.errstate(all="ignore"):
            for start in range(0, out.size, BLOCK):
                out[start : start + BLOCK] = function(*(a[start : start + BLOCK] for a in flat))
        return out.reshape(x.shape)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


def canonical(x: NDArray[Any]) -> NDArray[Any]:
    """NaN becomes the one quiet NaN of the type."""
    return np.where(np.isnan(x), NAN32 if x.dtype == np.float32 else NAN64, x)


def horner32(x: F32, coefficients: list[np.float32]) -> F32:
    h: F32 = np.full(x.shape, coefficients[-1])
    for c in coefficients[-2::-1]:
        h = fma_f32(h, x, c)
    return h


def horner64(x: F64, coefficients: list[np.float64]) -> F64:
    h: F64 = np.full(x.shape, coefficients[-1])
    for c in coefficients[-2::-1]:
        h = fma_f64(h, x, c)
    return h


def copysign32(size: F32, sign: F32) -> F32:
    return ((size.view(np.uint32) & SIZE32) | (sign.view(np.uint32) & SIGN32)).view(np.float32)


def power_of_2(n: U32) -> F32:
    """2^n for n in two's complement, −126 ≤ n ≤ 127."""
    return ((n + np.uint32(127)) << np.uint32(23)).view(np.float32)


def reduce_ln2(x: F32) -> tuple[F32, U32]:
    """x = r + n·ln 2 with |r| ≤ ln 2 / 2: r and n (two's complement)."""
    t = fma_f32(x, LOG2E32, MAGIC32)
    k = t - MAGIC32
    r = fma_f32(k, -LN2_LOW32, fma_f32(k, -LN2_HIGH32, x))
    return r, t.view(np.uint32) - MAGIC32_BITS


def _exp_clamped(x: F32) -> F32:
    """exp for −104 ≤ x ≤ 89 (or NaN)."""
    r, n = reduce_ln2(x)
    half = ((n + np.uint32(1024)) >> np.uint32(1)) - np.uint32(512)  # floor(n / 2), in unsigned arithmetic
    # Two factors, so that an overflow or a subnormal result is rounded once, by the last product.
    return horner32(r, EXP) * power_of_2(half) * power_of_2(n - half)


@blockwise
def exp_f32(x: F32) -> F32:
    """e^x."""
    y = np.where(x > 89, np.float32(89), x)
    y = np.where(y < -104, np.float32(-104), y)
    return canonical(_exp_clamped(y))


@blockwise
def log_f32(x: F32) -> F32:
    """Natural logarithm: −inf at ±0, NaN below."""
    small = x < np.float32(2.0**-126)
    u = np.where(small, x * np.float32(2.0**23), x).view(np.uint32)
    # x = m·2^e with √½ ≤ m < √2
    d = u - np.uint32(0x3F3504F3)
    e = (d.view(np.int32) >> np.int32(23)).view(np.uint32) - np.where(small, np.uint32(23), np.uint32(0))
    m = ((d & np.uint32(0x007FFFFF)) + np.uint32(0x3F3504F3)).view(np.float32)
    k = (MAGIC32_BITS + e).view(np.float32) - MAGIC32
    f = m - np.float32(1)
    # log(1 + f) = f + f²·(f·P(f) − ½); the sum with k·ln 2 keeps the error of its first addition
    q = (f * f) * fma_f32(f, horner32(f, LOG), np.float32(-0.5))
    s = fma_f32(k, LN2_LOW32, q)
    t = k * LN2_HIGH32
    high = t + f
    y = high + (((t - high) + f) + s)
    y = np.where(x == np.inf, x, y)
    y = np.where(x == 0, np.float32(-np.inf), y)
    return np.where(x >= 0, y, NAN32)


def _reduce_short(x: F32) -> tuple[F32, F32, U32]:
    """x = (r + s) + n·π/2 for |x| ≤ REDUCE_SHORT_MAX: r, the rest s, and n of which only the last two bits count."""
    t = fma_f32(x, TWO_BY_PI32, MAGIC32)
    k = t - MAGIC32
    first = fma_f32(k, -HALF_PI_A, x)  # exact
    second = k * -HALF_PI_B
    second_error = fma_f32(k, -HALF_PI_B, -second)
    r = first + second
    part = r - first
    s = (first - (r - part)) + (second - part)
    return r, s + fma_f32(k, -HALF_PI_C, second_error), t.view(np.uint32)


def _reduce_long(x: F32) -> tuple[F32, F32, U32]:
    """The same for 2^16 ≤ |x| < ∞ (Payne and Hanek 1983): 96 bits of 2/π from where they begin to matter."""
    bits = x.view(np.uint32)
    exponent = ((bits >> np.uint32(23)) & np.uint32(255)).astype(np.int64) - 150
    mantissa = ((bits & np.uint32(0x007FFFFF)) | np.uint32(0x00800000)).astype(np.uint64)
    position = np.clip(exponent + 30, 0, 159)
    word, shift = position >> 5, (position & 31).astype(np.uint64)
    table = TWO_BY_PI_WORDS.astype(np.uint64)

    def window(i: int) -> U64:
        pair: U64 = ((table[word + i] << np.uint64(32)) | table[word + i + 1]) << shift
        return pair >> np.uint64(32)

    middle = ((mantissa * window(2)) >> np.uint64(32)) + mantissa * window(1)
    top = (middle >> np.uint64(32)) + mantissa * window(0)
    turns = ((top << np.uint64(32)) | (middle & np.uint64(0xFFFFFFFF))) + np.uint64(1 << 61)  # quarter turns · 2^62
    fraction = (turns & np.uint64((1 << 62) - 1)).view(np.int64) - np.int64(1 << 61)
    angle = fraction.astype(np.float64) * HALF_PI_BY_2_62
    n = (turns >> np.uint64(62)).astype(np.uint32)
    negative = (bits >> np.uint32(31)) == 1
    angle = np.where(negative, -angle, angle)
    r = angle.astype(np.float32)
    return r, (angle - r.astype(np.float64)).astype(np.float32), np.where(negative, np.uint32(0) - n, n)


def _sine_and_cosine(r: F32, s: F32) -> tuple[F32, F32]:
    """sin and cos of r + s, |r| ≤ π/4·1.01, s the rest of r below its last bit."""
    z = r * r
    w = fma_f32(z, np.float32(-0.5), np.float32(1))
    sine = r + fma_f32(r * z, horner32(z, SIN), s * w)
    # 1 − r²/2: what the roundings of r² and of the difference lost is added again
    rest = fma_f32(z * z, horner32(z, COS), fma_f32(z, np.float32(-0.5), np.float32(1) - w))
    rest = fma_f32(np.float32(-0.5), fma_f32(r, r, -z), rest)
    return sine, w + fma_f32(r, -s, rest)


def _in_quadrant(n: U32, sine: F32, cosine: F32) -> F32:
    """The sine of the full angle out of sine and cosine of the reduced one."""
    y = np.where((n & np.uint32(1)) == 0, sine, cosine)
    return (y.view(np.uint32) ^ ((n & np.uint32(2)) << np.uint32(30))).view(np.float32)


def sine_and_cosine_2pi_f32(u: F32) -> tuple[F32, F32]:
    """sin and cos of 2πu, 0 ≤ u ≤ 1, u one-dimensional: quarter turns are exact, so the reduction is too."""
    v = u * np.float32(4)
    t = v + MAGIC32
    quarter = v - (t - MAGIC32)
    r = quarter * HALF_PI_A
    s = fma_f32(quarter, HALF_PI_B, fma_f32(quarter, HALF_PI_A, -r))
    sine, cosine = _sine_and_cosine(r, s)
    n = t.view(np.uint32)
    return _in_quadrant(n, sine, cosine), _in_quadrant(n + np.uint32(1), sine, cosine)


def _sine_shifted(x: F32, quarter: int) -> F32:
    r, s, n = _reduce_short(x)
    far = np.abs(x) > REDUCE_SHORT_MAX
    if far.any():
        r_far, s_far, n_far = _reduce_long(np.where(np.isfinite(x), x, np.float32(1)))
        r, s, n = np.where(far, r_far, r), np.where(far, s_far, s), np.where(far, n_far, n)
    n = n + np.uint32(quarter)
    sine, cosine = _sine_and_cosine(r, s)
    y = _in_quadrant(n, sine, cosine)
    if quarter == 0:
        y = np.where(x == 0, x, y)
    return canonical(np.where(np.abs(x) == np.inf, NAN32, y))


@blockwise
def sin_f32(x: F32) -> F32:
    """Sine of x radians, with full range reduction."""
    return _sine_shifted(x, 0)


@blockwise
def cos_f32(x: F32) -> F32:
    """Cosine of x radians, with full range reduction."""
    return _sine_shifted(x, 1)


@blockwise
def tanh_f32(x: F32) -> F32:
    """Hyperbolic tangent."""
    y = np.abs(x)
    z = y * y
    near = fma_f32(y * z, horner32(z, TANH), y)
    # 1 − 2 / (e^(2y) + 1), with the rest of the denominator and of the quotient carried along
    clamped = np.where(y > np.float32(9.5), np.float32(9.5), y)
    r, n = reduce_ln2(clamped + clamped)
    q = fma_f32(r * r, horner32(r, EXP[2:]), r)  # e^r − 1
    scale = power_of_2(n)
    s = scale + np.float32(1)
    v = scale * q
    d = s + v
    d_rest = (s - d) + v
    t: F32 = np.divide(np.float32(2), d)
    t_rest = fma_f32(-t, d_rest, fma_f32(-t, d, np.float32(2))) * (t * np.float32(0.5))
    w = np.float32(1) - t
    far = w + (((np.float32(1) - w) - t) - t_rest)
    return canonical(copysign32(np.where(y < np.float32(0.625), near, far), x))


@blockwise
def erf_f32(x: F32) -> F32:
    """Error function."""
    y = np.abs(x)
    z = y * y
    near = fma_f32(y, horner32(z, ERF), y)
    clamped = np.where(y > np.float32(4), np.float32(4), y)
    # erfc = e^(−x − x·P(x)); what the rounding of the exponent lost is put back as a factor 1 + rest
    p = horner32(clamped, ERFC)
    exponent = fma_f32(-clamped, p, -clamped)
    rest = fma_f32(-clamped, p, -clamped - exponent)
    e = _exp_clamped(exponent)
    far = np.float32(1) - fma_f32(e, rest, e)
    return canonical(copysign32(np.where(y < np.float32(0.875), near, far), x))


@blockwise
def sqrt_f32(x: F32) -> F32:
    """Square root, correctly rounded; NaN below −0."""
    return canonical(np.sqrt(x))


@blockwise
def sqrt_f64(x: F64) -> F64:
    """Square root, correctly rounded; NaN below −0."""
    return canonical(np.sqrt(x))


def _is_integer(y: F32) -> NDArray[np.bool_]:
    """True where |y| is an integer, y ≥ 0; infinity is one."""
    large = np.float32(2.0**23)
    whole: NDArray[np.bool_] = (y >= large) | ((y + large) - large == y)
    return whole


@blockwise
def pow_f32(x: F32, y: F32) -> F32:
    """x to the power y, evaluated in float64; special cases as in C99 annex F.9.4.4. Arguments of one shape."""
    size, exponent = np.abs(x), np.abs(y)
    # log2 |x|
    d = size.astype(np.float64).view(np.uint64) - np.uint64(0x3FE6A09E667F3BCD)
    e = (d + np.uint64(0x4000000000000000)) >> np.uint64(52)  # exponent + 1024
    m = ((d & np.uint64(0x000FFFFFFFFFFFFF)) + np.uint64(0x3FE6A09E667F3BCD)).view(np.float64)
    k = (MAGIC64_BITS + e).view(np.float64) - (MAGIC64 + np.float64(1024))
    s = (m - 1) / (m + 1)
    w = y.astype(np.float64) * fma_f64(s, horner64(s * s, LOG2_64), k)
    # 2^w
    w = np.where(w > 160, np.float64(160), w)
    w = np.where(w < -160, np.float64(-160), w)
    t = w + MAGIC64
    scale = ((t.view(np.uint64) - MAGIC64_BITS + np.uint64(1023)) << np.uint64(52)).view(np.float64)
    p = (horner64(w - (t - MAGIC64), EXP2_64) * scale).astype(np.float32)

    zero, inf, one = np.float32(0), np.float32(np.inf), np.float32(1)
    p = np.where((size == 0) | (size == inf), np.where((size == 0) == (y < 0), inf, zero), p)
    p = np.where(size == one, one, p)
    whole = _is_integer(exponent)
    odd = whole & ~_is_integer(exponent * np.float32(0.5))
    p = np.where(odd, copysign32(p, x), p)
    p = np.where((x < 0) & (size != inf) & ~whole, NAN32, p)
    p = np.where(np.isnan(x) | np.isnan(y), NAN32, p)
    return canonical(np.where((y == 0) | (x == one), one, p))


@blockwise
def exp_f64(x: F64) -> F64:
    """e^x."""
    y = np.where(x > 710, np.float64(710), x)
    y = np.where(y < -746, np.float64(-746), y)
    t = fma_f64(y, LOG2E64, MAGIC64)
    k = t - MAGIC64
    first = fma_f64(k, -LN2_A, y)  # exact
    second = k * LN2_B
    r = first - second
    q = fma_f64(r * r, horner64(r, EXP64), (first - r) - second)
    high = r + np.float64(1)
    p = high + (((np.float64(1) - high) + r) + q)
    n = t.view(np.uint64) - MAGIC64_BITS
    half = ((n + np.uint64(4096)) >> np.uint64(1)) - np.uint64(2048)

    def power(i: U64) -> F64:
        return ((i + np.uint64(1023)) << np.uint64(52)).view(np.float64)

    return canonical(p * power(half) * power(n - half))


@blockwise
def log_f64(x: F64) -> F64:
    """Natural logarithm: −inf at ±0, NaN below."""
    small = x < np.float64(2.0**-1022)
    u = np.where(small, x * np.float64(2.0**54), x).view(np.uint64)
    d = u - np.uint64(0x3FE6A09E667F3BCD)
    e = ((d + np.uint64(0x4000000000000000)) >> np.uint64(52)) - np.where(small, np.uint64(54), np.uint64(0))
    m = ((d & np.uint64(0x000FFFFFFFFFFFFF)) + np.uint64(0x3FE6A09E667F3BCD)).view(np.float64)
    k = (MAGIC64_BITS + e).view(np.float64) - (MAGIC64 + np.float64(1024))
    f = m - np.float64(1)
    # log(1 + f) = f − f²/2 + s·(f²/2 + z·P(z)), s = f / (2 + f), z = s²
    s = f / (m + np.float64(1))
    z = s * s
    h = np.float64(0.5) * (f * f)
    q = fma_f64(s, fma_f64(z, horner64(z, LOG64), h), -h)
    t = k * LN2_HIGH64
    high = t + f
    y = high + (((t - high) + f) + fma_f64(k, LN2_LOW64, q))
    y = np.where(x == np.inf, x, y)
    y = np.where(x == 0, np.float64(-np.inf), y)
    return np.where(x >= 0, y, NAN64)

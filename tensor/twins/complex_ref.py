"""Twins of the elementary functions of complex numbers, from functions of their parts.

The definition of every bit of `kernels/special_complex.cpp`: the same operations in the same order, on pairs of float64
arrays. Special cases as in the Python array API standard 2024.12. complex64 goes through complex128.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensor.elementary_ref import NAN64, exp_f64, log_f64
from tensor.fma_ref import F64
from tensor.twins.double_double_ref import bits, fma, infinite, of_bits, with_sign
from tensor.twins.elementwise_ref import canonical
from tensor.twins.exponential_ref import cosh_f64, expm1_f64, sinh_f64
from tensor.twins.logarithm_ref import asinh_f64, log1p_f64
from tensor.twins.trigonometric_ref import atan2_f64, cos_f64, hypot_f64, sin_f64, tan_f64

__all__ = ["TWINS"]

Array = NDArray[Any]

HUGE, EXP_HUGE = np.float64(709), np.float64(float.fromhex("0x1.d422d2be5dc9bp+1022"))  # e^709
LN2 = np.float64(float.fromhex("0x1.62e42fefa39efp-1"))
HALF_PI = np.float64(float.fromhex("0x1.921fb54442d18p+0"))
PER_LN2 = np.float64(float.fromhex("0x1.71547652b82fep+0"))
PER_LN10 = np.float64(float.fromhex("0x1.bcb7b1526e50ep-2"))
ZERO, HALF, ONE, TWO = np.float64(0), np.float64(0.5), np.float64(1), np.float64(2)


class Planes(NamedTuple):
    """Real and imaginary parts."""

    re: F64
    im: F64


def _flipped(x: F64, sign: F64) -> F64:
    """x, negated where the sign bit of `sign` is set."""
    return of_bits(bits(x) ^ (bits(sign) & np.uint64(1 << 63)))


def _times(a: F64, b: F64) -> F64:
    """a · b, where 0 wins over infinity and NaN."""
    return np.where((a == 0) & ~np.isfinite(b), a, a * b)


def _signed(size: Any, sign: F64) -> F64:
    return with_sign(np.broadcast_to(np.asarray(size, np.float64), sign.shape), sign)


def _exp(z: Planes) -> Planes:
    a, b = z
    lifted = (a > HUGE) & np.isfinite(a)
    loose = ~np.isfinite(b)
    e, c, s = exp_f64(np.where(lifted, a - HUGE, a)), cos_f64(b), sin_f64(b)
    p, q = e * c, e * s
    re, im = np.where(lifted, p * EXP_HUGE, p), np.where(lifted, q * EXP_HUGE, q)
    re = np.where(infinite(a) & loose, np.where(a < 0, ZERO, np.inf), re)
    return Planes(re, np.where(b == 0, b, np.where((a == -np.inf) & loose, ZERO, im)))


def _hyperbolic(a: F64) -> tuple[F64, F64, F64]:
    """sinh x and cosh x but for the factor `rest`, which is e^709 for |x| > 709, else 1."""
    lifted = (np.abs(a) > HUGE) & np.isfinite(a)
    x = np.where(lifted, with_sign(np.abs(a) - HUGE, a), a)
    e = HALF * exp_f64(np.abs(x))
    # e^−|x| is nothing beside e^|x| there
    sine = np.where(lifted, with_sign(e, a), sinh_f64(x))
    return sine, np.where(lifted, e, cosh_f64(x)), np.where(lifted, EXP_HUGE, ONE)


def _sinh(z: Planes) -> Planes:
    a, b = z
    sine, cosine, rest = _hyperbolic(a)
    p = _times(sine, cos_f64(b)) * rest
    q = (cosine * sin_f64(b)) * rest
    return Planes(np.where(infinite(a) & ~np.isfinite(b), a, p), np.where(b == 0, b, q))


def _cosh(z: Planes) -> Planes:
    a, b = z
    sine, cosine, rest = _hyperbolic(a)
    p = (cosine * cos_f64(b)) * rest
    q = _times(sine, sin_f64(b)) * rest
    im = np.where(b == 0, np.where(np.isnan(a), b, _flipped(b, a)), q)
    return Planes(np.where(infinite(a) & ~np.isfinite(b), np.inf, p), im)


def _tanh(z: Planes) -> Planes:
    """With t = tan y, s = sinh x: (√(1 + s²)·s·(1 + t²) + i·t) / (1 + (1 + t²)·s²).

    Kahan, "Branch cuts for complex elementary functions", 1987.
    """
    a, b = z
    s, t = sinh_f64(np.where(np.abs(a) > 30, _signed(30, a), a)), tan_f64(b)
    e = exp_f64(np.float64(-2) * np.abs(a))
    root, beta = np.sqrt(fma(s, s, ONE)), fma(t, t, ONE)
    bottom = fma(beta, s * s, ONE)
    near = ((beta * root) * s) / bottom
    value = np.where(np.abs(a) > 22, _signed(1, a), np.where(a == 0, a, near))
    re = np.where(np.isfinite(b) | (a == 0) | infinite(a), value, NAN64)
    far = ((np.float64(4) * sin_f64(b)) * cos_f64(b)) * e
    value = np.where(np.abs(a) > 22, far, t / bottom)
    im = np.where(np.isfinite(b) & ~np.isnan(a), value, NAN64)
    im = np.where(infinite(a), np.where(np.isnan(b), ZERO, _signed(0, b)), im)
    return Planes(np.where(np.isnan(a), NAN64, re), np.where(b == 0, b, im))


def _log_size(re: F64, im: F64, one_more: bool) -> F64:
    """log |x + iy|, or log |1 + x + iy|; where that is near 1, ½·log1p of the square less 1, by compensated sums."""
    x = ONE + re if one_more else re
    p, q = np.abs(x), np.abs(im)
    largest = np.where(p < q, q, p)
    # by powers of two, so that the size is a normal number
    lift = np.where(largest > 2.0**1000, np.float64(-100), np.where(largest < 2.0**-900, np.float64(100), ZERO))
    scale = np.where(lift == 0, ONE, np.where(lift > 0, np.float64(2.0**100), np.float64(2.0**-100)))
    h = hypot_f64(x * scale, im * scale)
    p, q = np.abs(re), np.abs(im)
    m, n = (re, im) if one_more else (np.where(p < q, q, p), np.where(p < q, p, q))
    mm, nn = m * m, n * n
    mm_rest, nn_rest = fma(m, m, -mm), fma(n, n, -nn)
    first = m + m if one_more else np.full(m.shape, -ONE)
    s = first + mm
    part = s - first
    s_rest = (first - (s - part)) + (mm - part)
    t = s + nn
    part = t - s
    t_rest = (s - (t - part)) + (nn - part)
    d = t + ((s_rest + t_rest) + (mm_rest + nn_rest))
    close = (h > 0.5) & (h < 2) & (lift == 0)
    size: F64 = np.where(close, HALF * log1p_f64(d), log_f64(h) - lift * LN2)
    return size


def _log(z: Planes) -> Planes:
    return Planes(_log_size(z.re, z.im, one_more=False), atan2_f64(z.im, z.re))


def _log1p(z: Planes) -> Planes:
    re = _log_size(z.re, z.im, one_more=True)
    return Planes(np.where((z.re == 0) & (z.im == 0), z.re, re), atan2_f64(z.im, ONE + z.re))


def _log2(z: Planes) -> Planes:
    y = _log(z)
    return Planes(y.re * PER_LN2, y.im * PER_LN2)


def _log10(z: Planes) -> Planes:
    y = _log(z)
    return Planes(y.re * PER_LN10, y.im * PER_LN10)


def _expm1(z: Planes) -> Planes:
    """e^x·cos y − 1 = (e^x − 1)·cos y − 2·sin²(y/2); of −0 ± 0i it is +0 ± 0i (array API)."""
    a, b = z
    power, e, h = _exp(z), expm1_f64(a), sin_f64(HALF * b)
    near = fma(e, cos_f64(b), -((h + h) * h))
    value = np.where(b == 0, e + 0.0, np.where(a > 700, power.re, near))
    return Planes(np.where(infinite(a) & ~np.isfinite(b), np.where(a < 0, -ONE, np.inf), value), power.im)


def _sqrt(z: Planes) -> Planes:
    """The root with re ≥ 0; Kahan 1987."""
    a, b = z
    p, q = np.abs(a), np.abs(b)
    largest = np.where(p < q, q, p)
    large, small = largest > 2.0**1000, largest < 2.0**-900
    scale = np.where(large, np.float64(2.0**-100), np.where(small, np.float64(2.0**100), ONE))
    back = np.where(large, np.float64(2.0**50), np.where(small, np.float64(2.0**-50), ONE))
    x, y = a * scale, b * scale
    t = np.sqrt(HALF * (np.abs(x) + hypot_f64(x, y)))
    u = np.where(t == 0, ZERO, np.abs(y) / (t + t))
    re, im = np.where(a < 0, u, t) * back, with_sign(np.where(a < 0, t, u), b) * back
    wide, right, left, none = infinite(b), a == np.inf, a == -np.inf, np.isnan(b)
    re = np.where(wide | right, np.inf, np.where(left, np.where(none, b, ZERO), re))
    im = np.where(left, np.where(none, np.inf, _signed(np.inf, b)), im)
    im = np.where(right, np.where(none, b, _signed(0, b)), im)
    return Planes(re, np.where(wide, b, im))


def _product(x: Planes, y: Planes) -> Planes:
    return Planes(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def _inverse(z: Planes) -> tuple[F64, F64, F64]:
    """asin z = (α, β) and acos z = (κ, −β) for a number whose parts are positive or 0; α, β, κ.

    κ is that of the number mirrored at the imaginary axis where re < 0. Kahan 1987; beyond 2^500 nothing is left of
    the 1 in 1 − z².
    """
    x, y = np.abs(z.re), np.abs(z.im)
    less, more = _sqrt(Planes(ONE - x, y)), _sqrt(Planes(ONE + x, y))
    apart = (x > 2.0**500) | (y > 2.0**500)
    alpha = atan2_f64(x, np.where(apart, y, less.re * more.re + less.im * more.im))
    mirrored = z.re < 0
    flat = np.where(apart, y, np.where(mirrored, more.re, less.re))
    steep = np.where(apart, z.re, np.where(mirrored, less.re, more.re))
    kappa = atan2_f64(flat, steep)
    kappa = np.where(apart, kappa, kappa + kappa)
    near = asinh_f64(less.re * more.im + less.im * more.re)
    shrunk = np.float64(2.0**-50)
    beta = np.where(apart, log_f64(hypot_f64(shrunk * x, shrunk * y)) + np.float64(51) * LN2, near)
    none = np.isnan(x) | np.isnan(y)
    beta = np.where(infinite(x) | infinite(y), np.inf, np.where(none, NAN64, beta))
    alpha = np.where(none, np.where(x == 0, ZERO, NAN64), alpha)
    return alpha, beta, np.where(none, np.where(x == 0, HALF_PI, NAN64), kappa)


def _asin(z: Planes) -> Planes:
    alpha, beta, _ = _inverse(z)
    return Planes(with_sign(alpha, z.re), with_sign(beta, z.im))


def _acos(z: Planes) -> Planes:
    _, beta, kappa = _inverse(z)
    return Planes(kappa, -with_sign(beta, z.im))


def _acosh(z: Planes) -> Planes:
    _, beta, kappa = _inverse(z)
    return Planes(beta, with_sign(kappa, z.im))


def _atanh(z: Planes) -> Planes:
    """¼·log1p(4x / ((1 − x)² + y²)) + i·½·atan2(2y, (1 − x)(1 + x) − y²)."""
    x, y = np.abs(z.re), np.abs(z.im)
    re = log1p_f64((np.float64(4) * x) / fma(y, y, (ONE - x) * (ONE - x)))
    at_one = log_f64(np.sqrt(fma(y, y, np.float64(4))) / y)
    h = hypot_f64(x, y)
    ratio = (x / h) / h
    im = atan2_f64(y + y, fma(-y, y, (ONE - x) * (ONE + x)))
    apart, any_inf = (x > 2.0**500) | (y > 2.0**500), infinite(x) | infinite(y)
    none = np.isnan(x) | np.isnan(y)
    value = np.where(apart, ratio, np.where(x == 1, HALF * at_one, np.float64(0.25) * re))
    re = np.where(any_inf | (none & (x == 0)), ZERO, np.where(none, NAN64, value))
    im = np.where(infinite(y), HALF_PI, np.where(none, NAN64, np.where(apart, HALF_PI, HALF * im)))
    return Planes(with_sign(re, z.re), with_sign(im, z.im))


def _turned(function: Callable[[Planes], Planes]) -> Callable[[Planes], Planes]:
    """f(i·z) turned back: sin z = −i·sinh(i·z), and so on."""

    def run(z: Planes) -> Planes:
        v = function(Planes(-z.im, z.re))
        return Planes(v.im, -v.re)

    return run


def _cos(z: Planes) -> Planes:
    return _cosh(Planes(-z.im, z.re))


def _asinh(z: Planes) -> Planes:
    """asinh z = i·asin(−i·z)"""
    v = _asin(Planes(z.im, -z.re))
    return Planes(-v.im, v.re)


def _pow(z: Planes, w: Planes) -> Planes:
    """Whole powers up to 64 by products, the others as e^(w·log z). 0 to a power of positive real part is 0."""
    log = _log(z)
    general = _exp(Planes(w.re * log.re - w.im * log.im, w.re * log.im + w.im * log.re))
    n = np.abs(w.re)
    large = np.float64(2.0**52)
    whole = (w.im == 0) & (n <= 64) & ((n + large) - large == n)
    left = np.where(whole, n, ZERO).astype(np.uint64)
    power, factor = Planes(np.ones(n.shape), np.zeros(n.shape)), z
    for step in range(7):
        odd = (left >> np.uint64(step)) & np.uint64(1) != 0
        following = _product(power, factor)
        power = Planes(np.where(odd, following.re, power.re), np.where(odd, following.im, power.im))
        factor = _product(factor, factor)
    # 1 / power (Smith 1962)
    c, d = power
    flat = np.abs(c) >= np.abs(d)
    larger, smaller = np.where(flat, c, d), np.where(flat, d, c)
    ratio = smaller / larger
    scale = ONE / (larger + smaller * ratio)
    zero = (c == 0) & (d == 0)
    inverse_re = np.where(zero, ONE / np.abs(c), np.where(flat, ONE, ratio) * scale)
    inverse_im = np.where(zero, NAN64, np.where(flat, -ratio, -ONE) * scale)
    falls, nothing = w.re < 0, (z.re == 0) & (z.im == 0)
    of_nothing = np.where(w.re > 0, ZERO, NAN64)
    re = np.where(whole, np.where(falls, inverse_re, power.re), np.where(nothing, of_nothing, general.re))
    im = np.where(whole, np.where(falls, inverse_im, power.im), np.where(nothing, of_nothing, general.im))
    return Planes(re, im)


def _twin(function: Callable[..., Planes]) -> Callable[[tuple[Array, ...], Any], Array]:
    def run(arrays: tuple[Array, ...], params: Any) -> Array:
        arrays = np.broadcast_arrays(*arrays)
        flat = [np.ascontiguousarray(a).reshape(-1) for a in arrays]
        with np.errstate(all="ignore"):
            wide = [Planes(*(np.ascontiguousarray(part).astype(np.float64) for part in (a.real, a.imag))) for a in flat]
            found = function(*wide)
            out = np.empty(flat[0].shape, flat[0].dtype)
            out.real, out.imag = found.re, found.im
        settled: Array = canonical(out).reshape(arrays[0].shape)
        return settled

    return run


_FUNCTIONS: dict[str, Callable[..., Planes]] = {
    "exp": _exp,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "log2": _log2,
    "log10": _log10,
    "sqrt": _sqrt,
    "sin": _turned(_sinh),
    "cos": _cos,
    "tan": _turned(_tanh),
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "asin": _asin,
    "acos": _acos,
    "atan": _turned(_atanh),
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "pow": _pow,
}

TWINS = {name: _twin(function) for name, function in _FUNCTIONS.items()}

"""Twin of tensor/kernels/twiddles.hpp: the n-th roots of unity, computed to about 100 bits and rounded once.

A number is a pair (high, low) whose sum it is (Dekker 1971). The angle of root k is brought to an eighth of the circle
in integers; sine and cosine come from their Taylor series for about 2·√n angles, and from the sum of two angles for all
others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor.fma_ref import fma_f64

F64 = NDArray[np.float64]
Pair = tuple[Any, Any]

QUARTER_PI = (float.fromhex("0x1.921fb54442d18p-1"), float.fromhex("0x1.1a62633145c07p-55"))
TERMS = 13


def _fma(a: Any, b: Any, c: Any) -> F64:
    return np.asarray(fma_f64(np.float64(a), np.float64(b), np.float64(c)))


def _fast(high: Any, low: Any) -> Pair:
    total = high + low
    return total, low - (total - high)


def _add(a: Pair, b: Pair) -> Pair:
    total = a[0] + b[0]
    part = total - a[0]
    error = (a[0] - (total - part)) + (b[0] - part)
    return _fast(total, error + (a[1] + b[1]))


def _multiply(a: Pair, b: Pair) -> Pair:
    product = a[0] * b[0]
    error = _fma(a[0], b[0], -product)
    return _fast(product, _fma(a[1], b[0], _fma(a[0], b[1], error)))


def _divide(a: Pair, d: Any) -> Pair:
    quotient = a[0] / d
    return _fast(quotient, (_fma(-quotient, d, a[0]) + a[1]) / d)


def _negative(a: Pair) -> Pair:
    return -a[0], -a[1]


def _cosine_and_sine(t: F64, n: int) -> tuple[Pair, Pair]:
    """Of the angle (π/4)·t/n, 0 ≤ t ≤ n."""
    zero = np.zeros_like(t)
    angle = _divide(_multiply((zero + QUARTER_PI[0], zero + QUARTER_PI[1]), (t, zero)), np.float64(n))
    square = _multiply(angle, angle)
    one = (zero + 1.0, zero)
    cosine, sine = one, one
    for k in range(TERMS, 0, -1):
        cosine = _add(one, _negative(_divide(_multiply(square, cosine), np.float64(2 * k * (2 * k - 1)))))
        sine = _add(one, _negative(_divide(_multiply(square, sine), np.float64(2 * k * (2 * k + 1)))))
    return cosine, _multiply(angle, sine)


def twiddles(n: int) -> tuple[F64, F64]:  # float64[n], float64[n]
    """cos(2πk/n) and −sin(2πk/n) for k < n.

    >>> [part.tolist() for part in twiddles(4)]
    [[1.0, 0.0, -1.0, 0.0], [0.0, -1.0, 0.0, 1.0]]
    """
    step = 1 << ((n.bit_length() + 1) // 2)
    fine = _cosine_and_sine(np.arange(min(step, n + 1), dtype=np.float64), n)
    coarse = _cosine_and_sine(np.arange(0, n + 1, step, dtype=np.float64), n)
    k = np.arange(n)
    octant, t = 8 * k // n, 8 * k % n
    t = np.where(octant % 2 == 1, n - t, t)
    a, b = t // step, t % step
    (ca, sa), (cb, sb) = [((c[0][i], c[1][i]), (s[0][i], s[1][i])) for (c, s), i in ((coarse, a), (fine, b))]
    cosine = _add(_multiply(ca, cb), _negative(_multiply(sa, sb)))[0]
    sine = _add(_multiply(sa, cb), _multiply(ca, sb))[0]
    swapped = np.isin(octant, (1, 2, 5, 6))
    re: Any = np.where(swapped, sine, cosine)
    im: Any = np.where(swapped, cosine, sine)
    return np.where(np.isin(octant, (2, 3, 4, 5)), -re, re) + 0.0, np.where(octant < 4, -im, im) + 0.0

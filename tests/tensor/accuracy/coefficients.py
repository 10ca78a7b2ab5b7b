"""Where the polynomial coefficients of tensor's elementary functions come from.

    python tests/tensor/accuracy/coefficients.py [NAME …]

prints each polynomial: weighted least squares on Chebyshev nodes in 60 digits (close to the smallest maximum), of the
remainder after the terms that are kept exact; then rounded to float32 or float64 one coefficient after the other,
lowest degree first, refitting the rest after each rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from mpmath import mp, mpf

mp.dps = 60
Real = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    target: Real  # the function that the polynomial approximates
    weight: Real  # the error is measured as weight · (polynomial − target)
    low: float
    high: float
    degree: int
    dtype: type


def rounded(fit: Fit) -> tuple[list[float], float]:
    """The coefficients, lowest degree first, and the largest weighted error on a denser grid."""
    half, middle = (mpf(fit.high) - fit.low) / 2, (mpf(fit.high) + fit.low) / 2
    nodes = [middle - half * mp.cos(mp.pi * (2 * i + 1) / 320) for i in range(160)]
    weights = [fit.weight(x) ** 2 for x in nodes]
    rest = [fit.target(x) for x in nodes]
    moments = [mp.fsum(w * x**j for w, x in zip(weights, nodes, strict=True)) for j in range(2 * fit.degree + 1)]
    coefficients: list[mpf] = []
    for first in range(fit.degree + 1):
        n = fit.degree + 1 - first
        normal = mp.matrix(n, n)
        right = mp.matrix(n, 1)
        for i in range(n):
            for j in range(n):
                normal[i, j] = moments[2 * first + i + j]
            right[i] = mp.fsum(w * r * x ** (first + i) for w, r, x in zip(weights, rest, nodes, strict=True))
        exact = mp.lu_solve(normal, right)[0]
        coefficients.append(mpf(float(fit.dtype(float(exact)))))
        rest = [r - coefficients[-1] * x**first for r, x in zip(rest, nodes, strict=True)]
    dense = [mpf(float(x)) for x in np.linspace(fit.low, fit.high, 2001)]
    worst = max(abs(fit.weight(x) * (mp.polyval(coefficients[::-1], x) - fit.target(x))) for x in dense)
    return [float(c) for c in coefficients], float(worst)


def taylor_safe(function: Real, at_zero: mpf, edge: float = 1e-9) -> Real:
    """The function, with its limit where cancellation would eat the digits."""
    return lambda x: at_zero if abs(x) < edge else function(x)


HALF_LN2 = float(mp.log(2) / 2)
ROOT = float(mp.sqrt(2))
QUARTER = float(mp.pi / 4)
one: Real = lambda x: mpf(1)  # noqa: E731


def squared(function: Real, at_zero: mpf) -> Real:
    """function(√z), for polynomials in z = x²."""
    return lambda z: at_zero if z < mpf("1e-18") else function(mp.sqrt(z))


FITS = {
    # exp r = 1 + r + r² P(r)
    "exp_f32": Fit(
        taylor_safe(lambda r: (mp.exp(r) - 1 - r) / r**2, mpf("0.5")),
        lambda r: r**2,
        -HALF_LN2 - 1e-5,
        HALF_LN2 + 1e-5,
        5,
        np.float32,
    ),
    "exp_f64": Fit(
        taylor_safe(lambda r: (mp.exp(r) - 1 - r) / r**2, mpf("0.5")),
        lambda r: r**2,
        -HALF_LN2 - 1e-9,
        HALF_LN2 + 1e-9,
        11,
        np.float64,
    ),
    # log(1 + f) = f − f²/2 + f³ P(f)
    "log_f32": Fit(
        taylor_safe(lambda f: (mp.log(1 + f) - f + f**2 / 2) / f**3, mpf(1) / 3),
        taylor_safe(lambda f: f**3 / mp.log(1 + f), mpf(0)),
        ROOT / 2 - 1,
        ROOT - 1,
        8,
        np.float32,
    ),
    # log(1 + f) = 2 atanh s, s = f / (2 + f); 2 atanh s = 2s + s z P(z), z = s²
    "log_f64": Fit(
        squared(lambda s: (2 * mp.atanh(s) - 2 * s) / s**3, mpf(2) / 3),
        lambda z: z,
        0.0,
        ((ROOT - 1) / (ROOT + 1)) ** 2,
        6,
        np.float64,
    ),
    # sin r = r + r z P(z), cos r = 1 − z/2 + z² P(z), z = r²
    "sin_f32": Fit(
        squared(lambda r: (mp.sin(r) - r) / r**3, -mpf(1) / 6), lambda z: z, 0.0, (QUARTER * 1.01) ** 2, 3, np.float32
    ),
    "cos_f32": Fit(
        squared(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4, mpf(1) / 24),
        lambda z: z**2,
        0.0,
        (QUARTER * 1.01) ** 2,
        2,
        np.float32,
    ),
    # tanh x = x + x z P(z), |x| ≤ 0.625
    "tanh_f32": Fit(squared(lambda x: (mp.tanh(x) - x) / x**3, -mpf(1) / 3), lambda z: z, 0.0, 0.625**2, 5, np.float32),
    # erf x = x + x P(z), |x| ≤ 0.875
    "erf_f32": Fit(squared(lambda x: mp.erf(x) / x - 1, 2 / mp.sqrt(mp.pi) - 1), one, 0.0, 0.875**2, 6, np.float32),
    # erfc x = exp(−(x + x P(x))), 0.875 ≤ x ≤ 3.93; the error in erfc itself is what counts
    "erfc_f32": Fit(lambda x: -mp.log(mp.erfc(x)) / x - 1, lambda x: x * mp.erfc(x), 0.875, 3.93, 7, np.float32),
    # log₂(1 + f) = s P(z), s = f / (2 + f), z = s²
    "log2_f64": Fit(
        squared(lambda s: 2 * mp.atanh(s) / s / mp.log(2), 2 / mp.log(2)),
        one,
        0.0,
        ((ROOT - 1) / (ROOT + 1)) ** 2,
        6,
        np.float64,
    ),
    # 2^r, |r| ≤ ½
    "exp2_f64": Fit(lambda r: 2**r, one, -0.5, 0.5, 10, np.float64),
}


def main() -> None:
    for name in sys.argv[1:] or FITS:
        coefficients, error = rounded(FITS[name])
        print(f"{name}: largest weighted error 2^{float(mp.log(error, 2)):.2f}")
        for i, c in enumerate(coefficients):
            print(f"  {i}: {c.hex()}  {c!r}")


if __name__ == "__main__":
    main()

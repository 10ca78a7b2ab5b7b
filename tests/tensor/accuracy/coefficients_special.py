"""Where the polynomial coefficients of the special functions come from; the method is that of coefficients.py.

    python tests/tensor/accuracy/coefficients_special.py [NAME …]

prints each polynomial. `gelu_f32` and `sigmoid_f32` print their tables of 32 intervals by rows.
"""

from __future__ import annotations

import sys

import numpy as np
from coefficients import HALF_LN2, QUARTER, ROOT, Fit, Real, one, rounded, squared, taylor_safe
from mpmath import mp, mpf

R = HALF_LN2 + 1e-9
ATANH_END = ((ROOT - 1) / (ROOT + 1)) ** 2
ATAN_END = float((mp.sqrt(2) - 1) ** 2) * 1.000001
QUARTER_END = (QUARTER * 1.0000001) ** 2
ERF_SLOPE = 2 / mp.sqrt(mp.pi)
GELU_LIMIT = 1 / mp.sqrt(2 * mp.pi)
DIGAMMA_ZERO = mp.findroot(mp.digamma, mpf("1.4616321449683623412626595"))


def erfc_factor(t: mpf) -> mpf:
    """(1 + 2x) · e^(x²) · erfc x at t = (x − 4) / (x + 4)."""
    with mp.workdps(80):
        x = 4 * (1 + t) / (1 - t)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def digamma_factor(u: mpf) -> mpf:
    """ψ(1.5 + u) over the distance of 1.5 + u from the zero of ψ."""
    distance = u + mpf(3) / 2 - DIGAMMA_ZERO
    return mp.digamma(u + mpf(3) / 2) / distance if abs(distance) > mpf("1e-20") else mp.polygamma(1, DIGAMMA_ZERO)


def of_inverse_square(function: Real, series: Real) -> Real:
    """function(x) as one of z = 1/x²; its series where z is too small to compute with."""
    return lambda z: function(1 / mp.sqrt(z)) if z > mpf("1e-7") else series(z)


FACTOR_START, DIGAMMA_START = erfc_factor(mpf(0)), digamma_factor(mpf(0))
ERFC_SLOPE, DIGAMMA_SLOPE = mpf(mp.diff(erfc_factor, 0)), mp.diff(digamma_factor, 0)

FITS = {
    # sinh r = r + r z P(z), cosh r = 1 + z/2 + z² P(z), z = r²
    "sinh_f64": Fit(squared(lambda r: (mp.sinh(r) - r) / r**3, mpf(1) / 6), lambda z: z, 0.0, R**2, 5, np.float64),
    "cosh_f64": Fit(
        squared(lambda r: (mp.cosh(r) - 1 - r * r / 2) / r**4, mpf(1) / 24), lambda z: z * z, 0.0, R**2, 5, np.float64
    ),
    # sin r = r + r z P(z), cos r = 1 − z/2 + z² P(z)
    "sin_f64": Fit(
        squared(lambda r: (mp.sin(r) - r) / r**3, -mpf(1) / 6), lambda z: z, 0.0, QUARTER_END, 6, np.float64
    ),
    "cos_f64": Fit(
        squared(lambda r: (mp.cos(r) - 1 + r * r / 2) / r**4, mpf(1) / 24),
        lambda z: z * z,
        0.0,
        QUARTER_END,
        5,
        np.float64,
    ),
    # atan q = q + q z P(z), |q| ≤ tan π/8
    "atan_f64": Fit(
        squared(lambda q: (mp.atan(q) - q) / q**3, -mpf(1) / 3), lambda z: z, 0.0, ATAN_END, 11, np.float64
    ),
    # 2 atanh s = s (2 + z (2/3 + z P(z)))
    "atanh_f64": Fit(
        squared(lambda s: (2 * mp.atanh(s) - 2 * s - 2 * s**3 / 3) / s**5, mpf(2) / 5),
        lambda z: z * z,
        0.0,
        ATANH_END,
        7,
        np.float64,
    ),
    # erf x = x (2/√π + z P(z)), |x| ≤ 0.65
    "erf_f64": Fit(
        squared(lambda x: (mp.erf(x) / x - ERF_SLOPE) / x**2, -ERF_SLOPE / 3), lambda z: z, 0.0, 0.65**2, 10, np.float64
    ),
    # erfc_factor(t) = its value at 0 + t P(t), 0 ≤ x ≤ 28
    "erfc_f64": Fit(
        taylor_safe(lambda t: (erfc_factor(t) - FACTOR_START) / t, ERFC_SLOPE),
        lambda t: t / erfc_factor(t),
        -1.0,
        24 / 32,
        22,
        np.float64,
    ),
    # log Γ(2 + d) = d (1 − γ + d P(d)), |d| ≤ ½
    "lgamma_f64": Fit(
        taylor_safe(lambda d: (mp.loggamma(2 + d) / d - (1 - mp.euler)) / d, (mp.pi**2 / 6 - 1) / 2, 1e-12),
        lambda d: d * d / mp.loggamma(2 + d) if abs(d) > 1e-12 else d / (1 - mp.euler),
        -0.5,
        0.5,
        19,
        np.float64,
    ),
    # log Γ(x) = (x − ½) log x − x + ½ log 2π + P(z) / x, z = 1/x², x ≥ 8
    "stirling_f64": Fit(
        of_inverse_square(
            lambda x: (mp.loggamma(x) - (x - mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x,
            lambda z: mpf(1) / 12 - z / 360 + z * z / 1260,
        ),
        one,
        0.0,
        1 / 64,
        6,
        np.float64,
    ),
    # digamma_factor(u) = its value at 0 + u P(u), |u| ≤ ½
    "digamma_f64": Fit(
        taylor_safe(lambda u: (digamma_factor(u) - DIGAMMA_START) / u, DIGAMMA_SLOPE, 1e-12),
        lambda u: u / digamma_factor(u),
        -0.5,
        0.5,
        21,
        np.float64,
    ),
    # ψ(x) = log x − 1/(2x) − z P(z), ψ'(x) = 1/x + z/2 + z P(z) / x, x ≥ 8
    "digamma_series_f64": Fit(
        of_inverse_square(
            lambda x: (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x, lambda z: mpf(1) / 12 - z / 120 + z * z / 252
        ),
        one,
        0.0,
        1 / 64,
        7,
        np.float64,
    ),
    "trigamma_series_f64": Fit(
        of_inverse_square(
            lambda x: (mp.polygamma(1, x) - 1 / x - 1 / (2 * x * x)) * x**3,
            lambda z: mpf(1) / 6 - z / 30 + z * z / 42,
        ),
        one,
        0.0,
        1 / 64,
        7,
        np.float64,
    ),
    # y Φ(−y) e^(y²/2) = 1/√(2π) + v P(v), v = 1/y², 2.75 ≤ y ≤ 15
    "gelu_tail_f32": Fit(
        lambda v: (mp.erfc(1 / mp.sqrt(2 * v)) / 2 / mp.sqrt(v) * mp.exp(1 / (2 * v)) - GELU_LIMIT) / v,
        lambda v: v,
        1 / mpf(15) ** 2,
        1 / mpf(2.75) ** 2,
        7,
        np.float32,
    ),
}


def below(y: mpf) -> mpf:
    """Φ(−y)"""
    return mp.erfc(y / mp.sqrt(2)) / 2


def logistic_below(y: mpf) -> mpf:
    """1 / (1 + e^y)"""
    return 1 / (1 + mp.exp(y))


def intervals(low: Real, steps: int) -> list[list[float]]:
    """For each k < 32: f(c) − ½ on the grid of 2^-24, its rest, and P of f(c + h) = f(c) + h P(h), |h| ≤ 1 / (2 steps).

    c = k / steps, and `low` is f(−y) of the function f with f(−y) = 1 − f(y).
    """
    columns = []
    for k in range(32):
        c = mpf(k) / steps
        full = mpf(1) / 2 - low(c)
        distance = mp.nint(full * 2**24) / 2**24
        fit = Fit(
            taylor_safe(lambda h, c=c: (low(c) - low(c + h)) / h, -mp.diff(low, c)),  # type: ignore[misc]
            lambda h, c=c: h / low(c + h),  # type: ignore[misc]
            -0.5 / steps,
            0.5 / steps,
            4,
            np.float32,
        )
        columns.append([float(distance), float(np.float32(float(full - distance))), *rounded(fit)[0]])
    return columns


TABLES: dict[str, tuple[Real, int]] = {"gelu_f32": (below, 8), "sigmoid_f32": (logistic_below, 4)}


def main() -> None:
    for name in sys.argv[1:] or [*FITS, *TABLES]:
        if name in TABLES:
            for row in zip(*intervals(*TABLES[name]), strict=True):
                print(", ".join(float(np.float32(v)).hex() for v in row))
            continue
        coefficients, error = rounded(FITS[name])
        print(f"{name}: largest weighted error 2^{float(mp.log(error, 2)):.2f}")
        for i, c in enumerate(coefficients):
            print(f"  {i}: {c.hex()}  {c!r}")


if __name__ == "__main__":
    main()

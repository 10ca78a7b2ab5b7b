"""Twin of tensor/kernels/fft.cpp: the discrete Fourier transform of any length, in float64, rounded once.

Lengths whose prime factors are at most 13 go through the passes of Stockham's algorithm (radix 4, then 2, 3, 5, 7, 11,
13; Van Loan, "Computational frameworks for the fast Fourier transform", SIAM 1992, section 1.7); every other length
through Bluestein's chirp (IEEE Trans. Audio Electroacoustics 18, 1970) and a power of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor.fma_ref import fma_f64
from tensor.twins.twiddles_ref import twiddles

Array = NDArray[Any]
F64 = NDArray[np.float64]
Pair = tuple[F64, F64]

RADICES = (4, 2, 3, 5, 7, 11, 13)


def _fma(a: Any, b: Any, c: Any) -> F64:
    return np.asarray(fma_f64(np.float64(a), np.float64(b), np.float64(c)))


def _product(a: Pair, b: Pair) -> Pair:
    return _fma(a[0], b[0], -(a[1] * b[1])), _fma(a[0], b[1], a[1] * b[0])


def factors(n: int) -> list[int]:
    """The radices of the passes; a last one above 13 means Bluestein.

    >>> factors(96), factors(34)
    ([4, 4, 2, 3], [2, 17])
    """
    found = []
    for radix in RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return found + [n] * (n > 1)


def _short(parts: list[Pair], roots: Pair, n: int) -> list[Pair]:
    """The transform of p numbers; root j of p is root j·n/p of `roots`."""
    p = len(parts)
    if p == 2:
        (ar, ai), (br, bi) = parts
        return [(ar + br, ai + bi), (ar - br, ai - bi)]
    if p == 4:
        (ar, ai), (br, bi), (cr, ci), (dr, di) = parts
        sr, si, tr, ti = ar + cr, ai + ci, ar - cr, ai - ci
        ur, ui, vr, vi = br + dr, bi + di, bi - di, dr - br
        return [(sr + ur, si + ui), (tr + vr, ti + vi), (sr - ur, si - ui), (tr - vr, ti - vi)]
    h = (p - 1) // 2
    sums = [(parts[j][0] + parts[p - j][0], parts[j][1] + parts[p - j][1]) for j in range(1, h + 1)]
    differences = [(parts[j][0] - parts[p - j][0], parts[j][1] - parts[p - j][1]) for j in range(1, h + 1)]
    first = parts[0]
    for t in sums:
        first = (first[0] + t[0], first[1] + t[1])
    out = [first] * p
    for k in range(1, h + 1):
        u = parts[0]
        v = (np.zeros_like(u[0]), np.zeros_like(u[1]))
        for j in range(1, h + 1):
            at = j * k % p * (n // p)
            c, s = roots[0][at], -roots[1][at]
            u = (_fma(c, sums[j - 1][0], u[0]), _fma(c, sums[j - 1][1], u[1]))
            v = (_fma(s, differences[j - 1][0], v[0]), _fma(s, differences[j - 1][1], v[1]))
        out[k], out[p - k] = (u[0] + v[1], u[1] - v[0]), (u[0] - v[1], u[1] + v[0])
    return out


def _passes(x: Pair, n: int) -> Pair:
    """The transform of x[n]."""
    roots = twiddles(n)
    length, stride = n, 1
    for p in factors(n):
        m = length // p
        grid = (x[0].reshape(p, m, stride), x[1].reshape(p, m, stride))
        parts = _short([(grid[0][j], grid[1][j]) for j in range(p)], roots, n)
        out = (np.empty((m, p, stride)), np.empty((m, p, stride)))
        out[0][:, 0], out[1][:, 0] = parts[0]
        for j in range(1, p):
            at = np.arange(m) * j * stride
            out[0][:, j], out[1][:, j] = _product(parts[j], (roots[0][at][:, None], roots[1][at][:, None]))
        x = (out[0].reshape(-1), out[1].reshape(-1))
        length, stride = m, stride * p
    return x


def _bluestein(x: Pair, n: int) -> Pair:
    size = 1 << (2 * n - 2).bit_length()
    turns = twiddles(2 * n)
    at = np.array([k * k % (2 * n) for k in range(n)])
    chirp = (turns[0][at], turns[1][at])
    a = (np.zeros(size), np.zeros(size))
    a[0][:n], a[1][:n] = _product(x, chirp)
    b = (np.zeros(size), np.zeros(size))
    b[0][:n], b[1][:n] = chirp[0], -chirp[1]
    b[0][size - n + 1 :], b[1][size - n + 1 :] = chirp[0][:0:-1], -chirp[1][:0:-1]
    c = _product(_passes(a, size), _passes(b, size))
    back = _passes((c[1], c[0]), size)  # the inverse, by exchanging the parts
    scale = 1.0 / size
    return _product((back[1][:n] * scale, back[0][:n] * scale), chirp)


def transform(x: Pair, n: int, inverse: bool) -> Pair:  # float64[n] twice
    """Σ x[j]·exp(∓2πi·j·k/n), not divided by anything."""
    with np.errstate(all="ignore"):
        run = _bluestein if factors(n)[-1:] > [13] else _passes
        if not inverse:
            return run(x, n)
        out = run((x[1], x[0]), n)
    return out[1], out[0]


def _divisor(n: int, divide: int) -> np.float64:
    return np.float64(1.0 if divide == 0 else n if divide == 1 else np.sqrt(np.float64(n)))


def _each(x: Array, n_out: int, dtype: np.dtype[Any], run: Any) -> Array:
    """run on every row of x[..., n]; NaN canonical."""
    rows = x.reshape(-1, x.shape[-1]) if x.size else x.reshape(0, x.shape[-1])
    out = np.empty((*x.shape[:-1], n_out), dtype)
    flat = out.reshape(-1, n_out)
    with np.errstate(all="ignore"):
        for i, row in enumerate(rows):
            flat[i] = run(row)
        parts = out.view(out.real.dtype)
        parts[np.isnan(parts)] = np.nan
    return out


def _rounded(re: F64, im: F64, dtype: np.dtype[Any]) -> Array:
    out = np.empty(re.shape, dtype)
    out.real, out.imag = re, im
    return out


def _parts(row: Array) -> Pair:
    return row.real.astype(np.float64), row.imag.astype(np.float64)


def fft(x: Array, inverse: bool, divide: int) -> Array:  # complex[..., n] → complex[..., n]
    """The transform of each row, divided by 1 (divide = 0), n (1) or √n (2).

    >>> fft(np.array([1, 2, 3, 4], complex), False, 0)
    array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    n = x.shape[-1]

    def run(row: Array) -> Array:
        re, im = transform(_parts(row), n, inverse)
        return _rounded(re / _divisor(n, divide), im / _divisor(n, divide), x.dtype)

    return _each(x, n, x.dtype, run)


def rfft(x: Array, divide: int) -> Array:  # real[..., n] → complex[..., n div 2 + 1]
    """The first n div 2 + 1 numbers of the transform of real rows.

    >>> rfft(np.array([1.0, 2, 3]), 0)[0]
    np.complex128(6+0j)
    """
    n = x.shape[-1]
    dtype = np.dtype(np.complex64 if x.dtype == np.float32 else np.complex128)

    def run(row: Array) -> Array:
        re, im = transform((row.astype(np.float64), np.zeros(n)), n, False)
        half = slice(0, n // 2 + 1)
        return _rounded(re[half] / _divisor(n, divide), im[half] / _divisor(n, divide), dtype)

    return _each(x, n // 2 + 1, dtype, run)


def irfft(x: Array, n: int, divide: int) -> Array:  # complex[..., n div 2 + 1] → real[..., n]
    """The inverse transform of the n numbers of which x has the first; the imaginary parts of the first, and for even n
    of the last, are taken for 0.

    >>> irfft(np.array([6, -1.5 + 0.8660254037844386j]), 3, 1)
    array([1., 2., 3.])
    """
    dtype = x.real.dtype

    def run(row: Array) -> Array:
        re, im = np.empty(n), np.empty(n)
        half = _parts(row)
        re[: n // 2 + 1], im[: n // 2 + 1] = half
        im[0] = 0.0
        if n % 2 == 0:
            im[n // 2] = 0.0
        for k in range(n // 2 + 1, n):
            re[k], im[k] = half[0][n - k], -half[1][n - k]
        return np.asarray((transform((re, im), n, True)[0] / _divisor(n, divide)).astype(dtype))

    return _each(x, n, dtype, run)

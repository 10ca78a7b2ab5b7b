"""Twin of tensor/kernels/linalg_factor.hpp: Cholesky, LU, triangular solutions, determinants, Householder QR.

Everything is computed in float64, whatever the type of the matrix, and rounded once at the end. Each element is one
chain of fused multiply-adds in ascending order of the step, so rows and columns may be cut anywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensor import elementary_ref
from tensor.twins.planes_ref import (
    Planes,
    fma,
    largest,
    minus_product,
    norm_squared,
    plus_product,
    power_of_2,
    product,
    quotient,
)

Array = NDArray[Any]


class Refused(ArithmeticError):
    """A matrix that has no answer: `step` says where it showed."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step


def cholesky(x: Array) -> Array:  # [n, n] → [n, n] lower
    """L with L·Lᴴ = (x + xᴴ)/2. Refused at the first pivot that is not above 0.

    >>> cholesky(np.array([[4.0, 2], [2, 5]]))
    array([[2., 0.],
           [1., 2.]])
    """
    a = Planes.of(x)
    n = x.shape[0]
    lower = Planes.zeros((n, n), a)
    with np.errstate(all="ignore"):
        a = Planes(0.5 * (a.re + a.re.T), None if a.im is None else 0.5 * (a.im - a.im.T))
        for j in range(n):
            pivot = a.re[j, j]
            if not pivot > 0:
                raise Refused(j)
            root = np.sqrt(pivot)
            lower.re[j, j] = root
            below = a[j + 1 :, j].divided(root)
            lower[j + 1 :, j] = below
            rest = (slice(j + 1, None), slice(j + 1, None))
            a[rest] = minus_product(a[rest], below[:, None], below.conj()[None, :])
    return lower.as_type(x.dtype)


class Factors(NamedTuple):
    """L below the diagonal (ones on it) and U in one matrix; row i is row `rows[i]` of x; `odd`: an odd permutation."""

    lu: Planes
    rows: NDArray[np.int64]
    odd: bool


def _lu(a: Planes) -> Factors:
    """The pivot is the element of the largest |re| + |im|, the first of several; a column of zeros is passed over."""
    m, n = a.re.shape
    rows = np.arange(m)
    odd = False
    for j in range(min(m, n)):
        size = np.abs(a.re[j:, j]) + (0 if a.im is None else np.abs(a.im[j:, j]))
        p = j
        if not np.isnan(size[0]):
            p += int(np.argmax(np.where(np.isnan(size), -1, size)))
        if p != j:
            for grid in (a.re, a.im, rows):
                if grid is not None:
                    grid[[j, p]] = grid[[p, j]]
            odd = not odd
        if a.re[j, j] == 0 and (a.im is None or a.im[j, j] == 0):
            continue
        below = quotient(a[j + 1 :, j], a[j, j])
        a[j + 1 :, j] = below
        rest = (slice(j + 1, None), slice(j + 1, None))
        a[rest] = minus_product(a[rest], below[:, None], a[j, j + 1 :][None, :])
    return Factors(a, rows, odd)


def lu(x: Array) -> tuple[Array, Array]:  # [m, n] → [m, n], int64[m]
    """L and U in one matrix, and the row of x that each row is.

    >>> lu(np.array([[1.0, 2], [2, 2]]))
    (array([[2. , 2. ],
           [0.5, 1. ]]), array([1, 0]))
    """
    with np.errstate(all="ignore"):
        factors = _lu(Planes.of(x))
    return factors.lu.as_type(x.dtype), factors.rows


def det(x: Array) -> Array:  # [n, n] → []
    """±1 times the diagonal of U, in its order.

    >>> det(np.array([[1.0, 2], [3, 4]]))
    array(-2.)
    """
    with np.errstate(all="ignore"):
        factors = _lu(Planes.of(x))
        a = factors.lu
        total = Planes(np.float64(-1.0 if factors.odd else 1.0), None if a.im is None else np.float64(0.0))
        for j in range(x.shape[0]):
            total = product(total, a[j, j])
    return total.as_type(x.dtype)


def slogdet(x: Array) -> tuple[Array, Array]:  # [n, n] → [], []
    """The sign of the determinant, and the logarithm of its size: the sum of the logarithms in order.

    >>> slogdet(np.array([[1.0, 2], [3, 4]]))[0]
    array(-1.)
    """
    real = np.dtype(x.dtype.type(0).real.dtype)
    with np.errstate(all="ignore"):
        factors = _lu(Planes.of(x))
        a = factors.lu
        sign = Planes(np.float64(-1.0 if factors.odd else 1.0), None if a.im is None else np.float64(0.0))
        log = np.float64(0.0)
        for j in range(x.shape[0]):
            pivot = a[j, j]
            if pivot.im is None:
                size = np.abs(pivot.re)
                unit = Planes(np.float64(0.0 if pivot.re == 0 else np.copysign(1.0, pivot.re)))
            else:
                scale = power_of_2(largest(pivot))
                scaled = pivot.scaled(scale)
                root = np.sqrt(fma(scaled.re, scaled.re, scaled.im * scaled.im))
                size = root / scale
                unit = pivot.scaled(0.0) if root == 0 else scaled.divided(root)
            sign = product(sign, unit)
            log = log + elementary_ref.log_f64(np.array([size]))[0]
    return sign.as_type(x.dtype), Planes(np.asarray(log)).as_type(real)


def _forward(a: Planes, b: Planes, unit: bool) -> None:
    """b becomes the solution of a·x = b, a lower triangular."""
    for j in range(a.re.shape[0]):
        if not unit:
            b[j] = quotient(b[j], a[j, j])
        b[j + 1 :] = minus_product(b[j + 1 :], a[j + 1 :, j][:, None], b[j][None, :])


def _backward(a: Planes, b: Planes, unit: bool) -> None:
    """b becomes the solution of a·x = b, a upper triangular."""
    for j in reversed(range(a.re.shape[0])):
        if not unit:
            b[j] = quotient(b[j], a[j, j])
        b[:j] = minus_product(b[:j], a[:j, j][:, None], b[j][None, :])


def _check_diagonal(a: Planes) -> None:
    for j in range(a.re.shape[0]):
        if a.re[j, j] == 0 and (a.im is None or a.im[j, j] == 0):
            raise Refused(j)


def solve(x: Array, b: Array) -> Array:  # [n, n], [n, k] → [n, k]
    """The solution of x·y = b by LU. Refused at the first pivot that is 0.

    >>> solve(np.array([[2.0, 0], [0, 4]]), np.array([[2.0], [2]]))
    array([[1. ],
           [0.5]])
    """
    with np.errstate(all="ignore"):
        factors = _lu(Planes.of(x))
        _check_diagonal(factors.lu)
        y = Planes.of(b[factors.rows])
        _forward(factors.lu, y, unit=True)
        _backward(factors.lu, y, unit=False)
    return y.as_type(b.dtype)


def inv(x: Array) -> Array:  # [n, n] → [n, n]
    """The solution of x·y = 1.

    >>> inv(np.array([[0.0, 2], [1, 0]]))
    array([[0. , 1. ],
           [0.5, 0. ]])
    """
    return solve(x, np.eye(x.shape[0], dtype=x.dtype))


def tri_solve(x: Array, b: Array, lower: bool, unit: bool) -> Array:  # [n, n], [n, k] → [n, k]
    """The solution of x·y = b from the lower or upper triangle of x. Refused where a diagonal element is 0.

    >>> tri_solve(np.array([[2.0, 9], [1, 4]]), np.array([[2.0], [5]]), True, False)
    array([[1.],
           [1.]])
    """
    a, y = Planes.of(x), Planes.of(b)
    if not unit:
        _check_diagonal(a)
    with np.errstate(all="ignore"):
        (_forward if lower else _backward)(a, y, unit)
    return y.as_type(b.dtype)


def _reflector(x: Planes) -> tuple[Planes, Planes, float]:
    """v (whose first element is 1) and τ with (1 − conj(τ)·v·vᴴ)·x = β·e₁; τ = 0 where nothing is to be done."""
    scale = power_of_2(largest(x))
    x = x.scaled(scale)
    rest = norm_squared(x[1:])
    none = Planes.zeros((), x)
    if rest == 0 and (x.im is None or x.im[0] == 0):
        return x, none, float(x.re[0]) / scale
    size = fma(x.re[0], x.re[0], rest)
    if x.im is not None:
        size = fma(x.im[0], x.im[0], size)
    beta = -np.copysign(np.sqrt(size), x.re[0])
    tau = Planes((beta - x.re[0]) / beta, None if x.im is None else -x.im[0] / beta)
    v = quotient(x, Planes(x.re[0] - beta, None if x.im is None else x.im[0].copy()))
    v.re[0] = 1.0
    if v.im is not None:
        v.im[0] = 0.0
    return v, tau, float(beta) / scale


def _reflect(a: Planes, v: Planes, tau: Planes) -> None:
    """a becomes (1 − τ·v·vᴴ)·a; vᴴ·a is one chain a column, rows ascending."""
    w = a[0].copy()
    for i in range(1, a.re.shape[0]):
        w = plus_product(w, v.conj()[i], a[i])
    w = product(w, Planes(np.broadcast_to(tau.re, w.re.shape), None if tau.im is None else tau.im))
    a[0] = Planes(a.re[0] - w.re, None if a.im is None or w.im is None else a.im[0] - w.im)
    a[1:] = minus_product(a[1:], v[1:][:, None], w[None, :])


def householder(a: Planes, columns: int) -> tuple[Planes, Planes]:
    """Q[m, columns] and R[min(m, n), n] of a[m, n], which is overwritten; columns ≥ min(m, n)."""
    m, n = a.re.shape
    steps = min(m, n)
    vs, taus = [], []
    for j in range(steps):
        v, tau, beta = _reflector(a[j:, j].copy())
        if tau.re != 0 or (tau.im is not None and tau.im != 0):
            _reflect(a[j:, j + 1 :], v, tau.conj())
        a[j:, j] = Planes.zeros((m - j,), a)
        a.re[j, j] = beta
        vs.append(v)
        taus.append(tau)
    q = Planes.zeros((m, columns), a)
    np.fill_diagonal(q.re, 1.0)
    for j in reversed(range(steps)):
        if taus[j].re != 0 or (taus[j].im is not None and taus[j].im != 0):
            _reflect(q[j:, j:], vs[j], taus[j])
    return q, a[:steps]


def qr(x: Array, complete: bool) -> tuple[Array, Array]:  # [m, n] → [m, k], [k, n]
    """Q with orthonormal columns and upper triangular R, by Householder reflections; k = min(m, n), or m if complete.

    >>> q, r = qr(np.array([[3.0], [4.0]]), False)
    >>> r
    array([[-5.]])
    """
    m, n = x.shape
    a = Planes.of(x)
    scale = power_of_2(largest(a))
    with np.errstate(all="ignore"):
        q, r = householder(a.scaled(scale), m if complete else min(m, n))
        r = r.scaled(1 / scale)
    full = Planes.zeros((q.re.shape[1], n), r)
    full[: min(m, n)] = r
    return q.as_type(x.dtype), full.as_type(x.dtype)

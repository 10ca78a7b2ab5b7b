"""Twin of tensor/kernels/linalg_jacobi.hpp: eigenvalues of Hermitian matrices and singular values, by Jacobi rotations.

Rotations come in rounds of n/2 disjoint pairs (the circle method: Brent and Luk, "The solution of singular-value and
symmetric eigenvalue problems on multiprocessor arrays", SIAM J. Sci. Stat. Comput. 6, 1985): place k turns with place
h + k, h = n/2, then all places but the first move on by one. After n − 1 rounds, a sweep, every pair has met once and
everything is where it was. Sweeps go on until one needs no rotation. Everything is computed in float64 on a matrix
scaled by a power of two, whatever its type, and rounded once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensor.twins.linalg_ref import Refused, householder
from tensor.twins.planes_ref import Planes, dot, fma, largest, minus_product, norm_squared, plus_product, power_of_2

Array = NDArray[Any]
F64 = NDArray[np.float64]

SWEEPS_MAX = 60
SMALL = 2.0**-53  # eigh: |apq| up to this times √|app·aqq| is taken for 0,
FLOOR = 2.0**-106  # and up to this in a matrix whose largest element is about 1
SMALL_DOT = 2.0**-50  # svd: this times √n, which the dot product of n elements can tell from 0
ASYMMETRY_MAX = {"float32": 2.0**-16, "complex64": 2.0**-16, "float64": 2.0**-40, "complex128": 2.0**-40}
_TINY, _LIFT = 2.0**-900, 2.0**500  # a row whose squared length is below has no direction, and is measured lifted


class Turns(NamedTuple):
    """Rotations of pairs of columns: p becomes p − (k·p + conj(w)·q), q becomes q − (k·q − w·p); rows: with conj(w).

    k = 1 − cos φ and |w| = sin φ are what is added, not what is multiplied with: their rounding errors count only in
    proportion to φ², so lengths do not drift (Rutishauser, Numerische Mathematik 9, 1966).
    """

    k: F64
    w: Planes
    app: F64  # the diagonal after the rotation
    aqq: F64
    turned: NDArray[np.bool_]


def turns(app: F64, aqq: F64, apq: Planes, small: float, floor: float) -> Turns:
    """What makes [[app, apq], [conj(apq), aqq]] diagonal; the smaller of two angles."""
    if apq.im is None:
        size = np.abs(apq.re)
        unit = Planes(np.where(apq.re < 0, -1.0, 1.0))
    else:
        scale = np.array([power_of_2(largest(apq[k])) for k in range(len(app))])
        re, im = apq.re * scale, apq.im * scale
        root = np.sqrt(fma(re, re, im * im))
        size, none = root / scale, root == 0
        unit = Planes(np.where(none, 1.0, re / root), np.where(none, 0.0, im / root))
    turned = size > small * (np.sqrt(np.abs(app)) * np.sqrt(np.abs(aqq)))
    turned &= size > floor
    theta = (aqq - app) / (size + size)
    t = np.copysign(1.0, theta) / (np.abs(theta) + np.sqrt(fma(theta, theta, 1.0)))
    t = np.where(turned, t, 0.0)
    c = 1.0 / np.sqrt(fma(t, t, 1.0))
    s = t * c
    k = s * (s / (1.0 + c))
    unit = Planes(np.where(turned, unit.re, 1.0), None if unit.im is None else np.where(turned, unit.im, 0.0))
    move = t * np.where(turned, size, 0.0)
    return Turns(k, unit.scaled(s), app - move, aqq + move, turned)


def _turn(p: Planes, q: Planes, k: F64, w: Planes) -> tuple[Planes, Planes]:
    """p − (k·p + conj(w)·q) and q − (k·q − w·p)."""
    a, b = plus_product(p.scaled(k), w.conj(), q), minus_product(q.scaled(k), w, p)
    return _minus(p, a), _minus(q, b)


def _minus(a: Planes, b: Planes) -> Planes:
    return Planes(a.re - b.re, None if a.im is None else a.im - b.im)


def _moved(n: int) -> NDArray[np.int64]:
    """Which place each place's content comes from after a round."""
    h = n // 2
    if h == 1:
        return np.arange(n)
    top = [0, h, *range(1, h - 1)]
    bottom = [*range(h + 1, n), h - 1]
    return np.array(top + bottom)


def _even(n: int) -> int:
    return n + n % 2


def eigh(x: Array, check: bool = True) -> tuple[Array, Array]:  # [n, n] → [n] ascending, [n, n]
    """Eigenvalues and, as columns, eigenvectors of (x + xᴴ)/2.

    Refused with step −1 if x is not finite, −2 if `check` and it is not Hermitian within ASYMMETRY_MAX of its largest
    element, −3 if SWEEPS_MAX sweeps were not enough.

    >>> eigh(np.array([[2.0, 0], [0, 1]]))
    (array([1., 2.]), array([[0., 1.],
           [1., 0.]]))
    """
    n = x.shape[0]
    a = Planes.of(x)
    finite = bool(np.isfinite(x).all())
    if not finite:
        raise Refused(-1)
    scale = power_of_2(largest(a))
    a = a.scaled(scale)
    mirror = a.adjoint
    apart = Planes(a.re - mirror.re, None if a.im is None or mirror.im is None else a.im - mirror.im)
    if check and largest(apart) > ASYMMETRY_MAX[x.dtype.name] * largest(a):
        raise Refused(-2)
    half = Planes(0.5 * (a.re + mirror.re), None if a.im is None or mirror.im is None else 0.5 * (a.im + mirror.im))
    even = _even(n)
    a, v = Planes.zeros((even, even), half), Planes.zeros((even, n), half)
    a[:n, :n] = half
    np.fill_diagonal(v.re, 1.0)
    with np.errstate(all="ignore"):
        _rotate_until_diagonal(a, v)
        values = np.diagonal(a.re)[:n].copy()
    order = np.argsort(values, kind="stable")
    real = np.dtype(x.dtype.type(0).real.dtype)
    vectors = v[:n][order]
    columns = Planes(vectors.re.T, None if vectors.im is None else vectors.im.T)
    return Planes(values[order] / scale).as_type(real), columns.as_type(x.dtype)


def _rotate_until_diagonal(a: Planes, v: Planes) -> None:
    """a becomes diagonal; row k of v becomes the eigenvector (not conjugated) of place k."""
    n = a.re.shape[0]
    h, moved = n // 2, _moved(n)
    for _ in range(SWEEPS_MAX):
        needed = False
        for _ in range(max(n - 1, 0)):
            top, bottom = np.arange(h), np.arange(h, n)
            r = turns(a.re[top, top], a.re[bottom, bottom], a[top, bottom], SMALL, FLOOR)
            if r.turned.any():
                needed = True
                k, w = r.k[:, None], r.w[:, None]
                a[:h], a[h:] = _turn(a[:h], a[h:], k, w.conj())
                v[:h], v[h:] = _turn(v[:h], v[h:], k, w)
                a[:, :h], a[:, h:] = _turn(a[:, :h], a[:, h:], r.k, r.w)
                a.re[top, top], a.re[bottom, bottom] = r.app, r.aqq
                for grid in (a.re, a.im):
                    if grid is not None:
                        grid[top, bottom] = np.where(r.turned, 0.0, grid[top, bottom])
                        grid[bottom, top] = np.where(r.turned, 0.0, grid[bottom, top])
                if a.im is not None:
                    a.im[top, top] = a.im[bottom, bottom] = 0.0
            a[:, :], v[:, :] = a[moved][:, moved], v[moved]
        if not needed:
            return
    raise Refused(-3)


def svd(x: Array, full: bool) -> tuple[Array, Array, Array]:  # [m, n] → [m, k], [k] descending, [k, n]
    """u·diag(s)·vh = x, k = min(m, n); with `full` u is [m, m] and vh is [n, n].

    A wide matrix is decomposed as its adjoint. Q·R first, then one-sided rotations of the rows of R (Hestenes 1958;
    Drmač and Veselić, "New fast and accurate Jacobi SVD algorithm", SIAM J. Matrix Anal. Appl. 29, 2008). Refused as
    eigh.

    >>> svd(np.array([[0.0, 2], [1, 0]]), False)[1]
    array([2., 1.])
    """
    if not np.isfinite(x).all():
        raise Refused(-1)
    m, n = x.shape
    a = Planes.of(x)
    if m < n:
        a = a.adjoint
    scale = power_of_2(largest(a))
    with np.errstate(all="ignore"):
        u, s, vh = _svd_tall(a.scaled(scale), full)
        s = s / scale
    real = np.dtype(x.dtype.type(0).real.dtype)
    if m < n:
        u, vh = vh.adjoint, u.adjoint
    return u.as_type(x.dtype), Planes(s).as_type(real), vh.as_type(x.dtype)


def _svd_tall(a: Planes, full: bool) -> tuple[Planes, F64, Planes]:
    m, n = a.re.shape
    q, r = householder(a.copy(), m if full else n)
    even = _even(n)
    rows, turned = Planes.zeros((even, n), a), Planes.zeros((even, n), a)
    rows[:n] = r
    np.fill_diagonal(turned.re, 1.0)
    _rotate_until_orthogonal(rows, turned)
    sizes, units, rank = np.zeros(n), Planes.zeros((n, n), a), 0
    for i in range(n):
        squared = norm_squared(rows[i])
        if squared < _TINY:
            sizes[i] = np.sqrt(norm_squared(rows[i].scaled(_LIFT))) / _LIFT
            continue
        rank += 1
        sizes[i] = np.sqrt(squared)
        units[i] = rows[i].divided(sizes[i])
    order = np.argsort(-sizes, kind="stable")
    sizes, units, turned = sizes[order], units[order], turned[:n][order]
    if rank < n:  # the other right vectors: any basis of what is left
        basis, _ = householder(units[:rank].adjoint.copy(), n)
        units[rank:] = basis[:, rank:].adjoint
    left = q.copy()
    for row in range(m):  # u = q·j, j's columns are the rows of `turned`
        left[row, :n] = _combination(q[row], turned, n)
    return left, sizes, units


def _combination(q: Planes, turned: Planes, n: int) -> Planes:
    """Σ over i < n of q[i]·turned[:, i], one chain an element."""
    total = Planes.zeros((n,), q)
    for i in range(n):
        total = plus_product(total, q[i], turned[:, i])
    return total


def _rotate_until_orthogonal(rows: Planes, turned: Planes) -> None:
    """The rows become orthogonal; row k of `turned` is column k of the product of all rotations."""
    even, n = rows.re.shape
    small = SMALL_DOT * np.sqrt(np.float64(n))
    h, moved = even // 2, _moved(even)
    for _ in range(SWEEPS_MAX):
        needed = False
        for _ in range(max(even - 1, 0)):
            app = np.array([norm_squared(rows[i]) for i in range(h)])
            aqq = np.array([norm_squared(rows[h + i]) for i in range(h)])
            parts = [dot(rows[i], rows[h + i]) for i in range(h)]
            known = (app >= _TINY) & (aqq >= _TINY)
            re, im = (np.where(known, [p[part] for p in parts], 0.0) for part in (0, 1))
            r = turns(app, aqq, Planes(re, None if rows.im is None else im), small, 0.0)
            if r.turned.any():
                needed = True
                k, w = r.k[:, None], r.w[:, None]
                rows[:h], rows[h:] = _turn(rows[:h], rows[h:], k, w.conj())
                turned[:h], turned[h:] = _turn(turned[:h], turned[h:], k, w)
            rows[:, :], turned[:, :] = rows[moved], turned[moved]
        if not needed:
            return
    raise Refused(-3)

"""The complex plane and the sphere: Möbius maps, cross ratios, stereographic projection, derivatives by z and z̄.

Points are complex tensors; the point at infinity has an infinite part. Derivatives are exact, by forward mode, not by
differences. Source of the formulas: Needham, Visual Complex Analysis (1997), chapters 3 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import tensor_of
from tensor.functions.elementwise import abs as size_of
from tensor.functions.elementwise import angle, imag, maximum, where
from tensor.functions.promotion import cast_to

__all__ = [
    "check_cauchy_riemann",
    "conformal_energy_on_sphere",
    "conformal_jacobian",
    "cross_ratio",
    "dbar",
    "dz",
    "is_concyclic",
    "laplacian_2d",
    "mobius",
    "mobius_from_three_points",
    "stereographic",
]

Tensor = Any
Point = Any  # a Tensor or a Python number
Map = Callable[[Tensor], Tensor]

_COMPLEX_OF = {"float32": "complex64", "float64": "complex128"}
_INFINITY = complex(math.inf, math.inf)


def _complex(name: str, x: Tensor) -> Tensor:
    """x as complex numbers; DtypeError for types without complex ones."""
    dtype = tensor_of(name, x).dtype.name
    if dtype in _COMPLEX_OF:
        return cast_to(x, _COMPLEX_OF[dtype])
    if not dtype.startswith("complex"):
        raise DtypeError(f"{name}: {dtype} has no complex numbers (hint: astype(x, complex64))")
    return x


# --- Möbius maps -----------------------------------------------------------------------------------------------------


def _infinite(z: Tensor) -> Tensor:
    return size_of(z) == math.inf


def mobius(z: Tensor, a: Point, b: Point, c: Point, d: Point, /) -> Tensor:
    """(a·z + b) / (c·z + d); infinity at the pole, a / c at infinity. Coefficients: numbers, or tensors that broadcast.

    ValueError for numbers with a·d = b·c, which send all to one point.

    >>> import tensor as tn
    >>> tn.conformal.mobius(tn.asarray([1j, 0j]), 1, -1, 1, 1).tolist()
    [1j, (-1+0j)]
    """
    z = _complex("mobius", z)
    given = (a, b, c, d)
    if all(isinstance(t, int | float | complex) for t in given) and a * d == b * c:
        raise ValueError(f"mobius: a·d = b·c for a, b, c, d = {a}, {b}, {c}, {d}: the map sends all to one point")
    far = _infinite(z)
    near = where(far, 0j, z)
    top, bottom = where(far, a + 0j, near * a + b), where(far, c + 0j, near * c + d)
    pole = bottom == 0
    return where(pole, _INFINITY, top / where(pole, 1 + 0j, bottom))


def _homogeneous(z: Tensor) -> tuple[Tensor, Tensor]:
    """(p, q) with z = p / q, q = 0 at infinity."""
    far = _infinite(z)
    return where(far, 1 + 0j, z), cast_to(~far, z.dtype)


def _bracket(u: tuple[Tensor, Tensor], v: tuple[Tensor, Tensor]) -> Tensor:
    """Of homogeneous points: 0 where they are equal, u − v for finite ones."""
    return u[0] * v[1] - v[0] * u[1]


def mobius_from_three_points(source: Tensor, target: Tensor, /) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """a, b, c, d of the Möbius map that sends source[..., i] to target[..., i] for i = 0, 1, 2.

    The points may be infinite; those of one triple must differ. ShapeError unless both hold three points.

    >>> import tensor as tn
    >>> a, b, c, d = tn.conformal.mobius_from_three_points(tn.asarray([0j, 1, 2]), tn.asarray([1 + 0j, 2, 3]))
    >>> tn.conformal.mobius(tn.asarray([5 + 0j]), a, b, c, d).tolist()
    [(6+0j)]
    """
    coefficients = []
    for name, points in (("source", source), ("target", target)):
        z = _complex("mobius_from_three_points", points)
        if z.ndim == 0 or z.shape[-1] != 3:
            raise ShapeError(f"mobius_from_three_points: {name} must be three points [..., 3], got shape {z.shape}")
        one, two, three = (_homogeneous(z[..., i]) for i in range(3))
        left, right = _bracket(two, three), _bracket(two, one)  # of the map to 0, 1, ∞
        coefficients.append((one[1] * left, -one[0] * left, three[1] * right, -three[0] * right))
    (a, b, c, d), (e, f, g, h) = coefficients
    return h * a - f * c, h * b - f * d, e * c - g * a, e * d - g * b  # the inverse of the second after the first


def cross_ratio(z1: Tensor, z2: Tensor, z3: Tensor, z4: Tensor, /) -> Tensor:
    """(z1 − z3)(z2 − z4) / ((z1 − z4)(z2 − z3)), which Möbius maps keep; infinity where the denominator is 0.

    >>> import tensor as tn
    >>> tn.conformal.cross_ratio(*(tn.asarray(z) for z in (0j, 1 + 0j, 2 + 0j, 3 + 0j))).item()
    (1.3333333730697632+0j)
    """
    p1, p2, p3, p4 = (_homogeneous(_complex("cross_ratio", z)) for z in (z1, z2, z3, z4))
    top, bottom = _bracket(p1, p3) * _bracket(p2, p4), _bracket(p1, p4) * _bracket(p2, p3)
    zero = bottom == 0
    return where(zero, _INFINITY, top / where(zero, 1 + 0j, bottom))


def is_concyclic(z1: Tensor, z2: Tensor, z3: Tensor, z4: Tensor, /, *, tolerance: float = 1e-5) -> Tensor:
    """Whether four points lie on a circle or a line: |Im| of their cross ratio is at most tolerance · max(1, |ratio|).

    >>> import tensor as tn
    >>> points = [tn.asarray(z) for z in (1 + 0j, 1j, -1 + 0j, -1j, 2j)]
    >>> tn.conformal.is_concyclic(*points[:4]).item(), tn.conformal.is_concyclic(*points[1:]).item()
    (True, False)
    """
    ratio = cross_ratio(z1, z2, z3, z4)
    far = _infinite(ratio)
    return far | (size_of(imag(ratio)) <= maximum(size_of(ratio), 1.0) * tolerance)


# --- the sphere ------------------------------------------------------------------------------------------------------


def stereographic(points: Tensor, /) -> Tensor:
    """(x + iy) / (1 − z) of points [..., 3] of the unit sphere, seen from the north pole, which goes to infinity.

    The points are taken as they are, not normalised. ShapeError unless the last dimension is 3.

    >>> import tensor as tn
    >>> tn.conformal.stereographic(tn.asarray([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])).tolist()
    [(1+0j), 0j]
    """
    if tensor_of("stereographic", points).dtype.name not in _COMPLEX_OF:
        raise DtypeError(f"stereographic: expected float32 or float64, got {points.dtype.name}")
    if points.ndim == 0 or points.shape[-1] != 3:
        raise ShapeError(f"stereographic: expected points [..., 3], got shape {points.shape}")
    x, y, z = (points[..., i] for i in range(3))
    pole = z == 1
    below = where(pole, 1.0, 1 - z)
    from tensor.primitives.rules import call

    return where(pole, _INFINITY, call("make_complex", x / below, y / below))


def conformal_energy_on_sphere(points: Tensor, targets: Tensor, /) -> Tensor:
    """|ζ − ζ*|² of the stereographic projections of points and targets [..., 3]: [...].

    >>> import tensor as tn
    >>> east, north_of_it = tn.asarray([1.0, 0.0, 0.0]), tn.asarray([0.0, 1.0, 0.0])
    >>> tn.conformal.conformal_energy_on_sphere(east, north_of_it).item()
    2.0
    """
    away = stereographic(points) - stereographic(targets)
    from tensor.functions.elementwise import real, square

    return square(real(away)) + square(imag(away))


# --- derivatives -----------------------------------------------------------------------------------------------------


def _both_ways(name: str, f: Map, z: Tensor) -> tuple[Tensor, Tensor]:
    """The derivatives of f at z to the east (∂/∂x) and to the north (∂/∂y)."""
    from tensor.autograd import jvp
    from tensor.functions.creation import full_like

    at = _complex(name, z)
    found = []
    for step in (1 + 0j, 1j):
        value, along = jvp(f, (at,), (full_like(at, step),))
        if not isinstance(value, _kernels.Tensor) or value.shape != at.shape:
            got = f"shape {value.shape}" if isinstance(value, _kernels.Tensor) else type(value).__name__
            raise ShapeError(f"{name}: f must give one number for each of shape {at.shape}, got {got}")
        found.append(_complex(name, along))
    return found[0], found[1]


def dz(f: Map, z: Tensor, /) -> Tensor:
    """∂f/∂z = (∂f/∂x − i·∂f/∂y) / 2 at each z, f mapping numbers one by one: f′ where f is analytic.

    >>> import tensor as tn
    >>> tn.conformal.dz(lambda z: z * z, tn.asarray([3 + 1j])).tolist()
    [(6+2j)]
    """
    east, north = _both_ways("dz", f, z)
    return (east - north * 1j) * 0.5


def dbar(f: Map, z: Tensor, /) -> Tensor:
    """∂f/∂z̄ = (∂f/∂x + i·∂f/∂y) / 2 at each z: 0 where f is analytic.

    >>> import tensor as tn
    >>> tn.conformal.dbar(tn.conj, tn.asarray([3 + 1j])).tolist()
    [(1+0j)]
    """
    east, north = _both_ways("dbar", f, z)
    return (east + north * 1j) * 0.5


def conformal_jacobian(f: Map, z: Tensor, /) -> tuple[Tensor, Tensor]:
    """By how much f stretches at each z, and by what angle it turns: |∂f/∂z| and its argument in radians.

    >>> import tensor as tn
    >>> [t.tolist() for t in tn.conformal.conformal_jacobian(lambda z: z * z, tn.asarray([2 + 0j]))]
    [[4.0], [0.0]]
    """
    slope = dz(f, z)
    return size_of(slope), angle(slope)


def check_cauchy_riemann(f: Map, z: Tensor, /, *, tolerance: float = 1e-5) -> tuple[Tensor, Tensor]:
    """Whether f is analytic at each z, and |∂f/∂z̄|: at most tolerance · max(1, |∂f/∂z|).

    >>> import tensor as tn
    >>> z = tn.asarray([1 + 2j])
    >>> [tn.conformal.check_cauchy_riemann(f, z)[0].item() for f in (tn.exp, tn.conj)]
    [True, False]
    """
    east, north = _both_ways("check_cauchy_riemann", f, z)
    residual = size_of(east + north * 1j) * 0.5
    return residual <= maximum(size_of(east - north * 1j) * 0.5, 1.0) * tolerance, residual


def laplacian_2d(field: Tensor, /, *, dx: float = 1.0, dy: float | None = None) -> Tensor:
    """∂²/∂x² + ∂²/∂y² of a field [..., rows, columns] on a grid, by five points; 0 on the border.

    x runs along the columns, y along the rows, dy is dx unless given. ShapeError below two dimensions.

    >>> import tensor as tn
    >>> tn.conformal.laplacian_2d(tn.asarray([[0.0, 1.0, 4.0]] * 3)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    """
    from tensor.functions.manipulation import pad

    if tensor_of("laplacian_2d", field).ndim < 2:
        raise ShapeError(f"laplacian_2d: expected [..., rows, columns], got shape {field.shape}")
    if field.dtype.kind not in ("real floating", "complex floating"):
        raise DtypeError(f"laplacian_2d: {field.dtype.name} is not computed with (hint: astype(x, float32))")
    if min(field.shape[-2:]) < 3:
        return field * 0
    step = dx if dy is None else dy
    twice = field[..., 1:-1, 1:-1] * 2
    across = (field[..., 1:-1, 2:] + field[..., 1:-1, :-2] - twice) / (dx * dx)
    down = (field[..., 2:, 1:-1] + field[..., :-2, 1:-1] - twice) / (step * step)
    return pad(across + down, [(0, 0)] * (field.ndim - 2) + [(1, 1), (1, 1)])

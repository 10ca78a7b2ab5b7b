"""The complex plane and the sphere: closed forms, what Möbius maps keep, points at infinity."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor import conformal

sys.path.insert(0, str(Path(__file__).parents[1]))
try:
    from composite_checks import CHECKS, Case
finally:
    sys.path.pop(0)

RNG = np.random.default_rng(20261203)
INFINITY = complex("inf+infj")


def plane(*shape: int) -> Any:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def sphere(*shape: int) -> Any:
    p = RNG.normal(size=(*shape, 3))
    return p / np.linalg.norm(p, axis=-1, keepdims=True)


def projected(p: Any) -> Any:
    return (p[..., 0] + 1j * p[..., 1]) / (1 - p[..., 2])


def ratio(a: Any, b: Any, c: Any, d: Any) -> Any:
    return (a - c) * (b - d) / ((a - d) * (b - c))


def stencil(u: Any, dx: float, dy: float) -> Any:
    out = np.zeros_like(u)
    for i in range(1, u.shape[-2] - 1):
        for j in range(1, u.shape[-1] - 1):
            out[..., i, j] = (u[..., i, j + 1] - 2 * u[..., i, j] + u[..., i, j - 1]) / dx**2 + (
                u[..., i + 1, j] - 2 * u[..., i, j] + u[..., i - 1, j]
            ) / dy**2
    return out


CASES = {
    "mobius": Case(
        conformal.mobius, [plane(3), *(plane(1)[0] for _ in range(4))], lambda z, a, b, c, d: (a * z + b) / (c * z + d)
    ),
    "mobius_from_three_points": Case(
        lambda s, t: conformal.mobius(s, *conformal.mobius_from_three_points(s, t)),
        [plane(3), plane(3)],
        lambda s, t: t,
        moving=(1,),
    ),
    "cross_ratio": Case(conformal.cross_ratio, [plane(3) for _ in range(4)], ratio, tolerance=1e-11),
    "stereographic": Case(conformal.stereographic, [sphere(4)], projected),
    "conformal_energy_on_sphere": Case(
        conformal.conformal_energy_on_sphere,
        [sphere(4), sphere(4)],
        lambda p, q: np.abs(projected(p) - projected(q)) ** 2,
    ),
    "dz": Case(
        lambda z: conformal.dz(lambda w: w * w * tn.conj(w) + 3 * w, z), [plane(3)], lambda z: 2 * np.abs(z) ** 2 + 3
    ),
    "dbar": Case(lambda z: conformal.dbar(lambda w: w * tn.conj(w) * w, z), [plane(3)], lambda z: z * z),
    "conformal_jacobian": Case(
        lambda z: conformal.conformal_jacobian(tn.exp, z),
        [plane(3)],
        lambda z: (np.exp(z.real), np.angle(np.exp(z))),
    ),
    "laplacian_2d": Case(
        lambda u: conformal.laplacian_2d(u, dx=0.5, dy=2.0),
        [RNG.normal(size=(2, 4, 5))],
        lambda u: stencil(u, 0.5, 2.0),
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_the_function_passes(name: str, check: str) -> None:
    CHECKS[check](CASES[name])


def test_mobius_maps_keep_cross_ratios_and_circles() -> None:
    points = tn.asarray(np.exp(1j * np.array([0.3, 1.0, 2.2, 4.0])) * 2 + 1)
    a, b, c, d = (tn.asarray(z) for z in plane(4))
    before = [points[i] for i in range(4)]
    after = [conformal.mobius(p, a, b, c, d) for p in before]
    assert abs(conformal.cross_ratio(*before).item() - conformal.cross_ratio(*after).item()) < 1e-12
    assert conformal.is_concyclic(*before, tolerance=1e-12).item()
    assert conformal.is_concyclic(*after, tolerance=1e-9).item()
    assert not conformal.is_concyclic(*before[:3], tn.asarray(9j + 0)).item()
    line = [tn.asarray(complex(t, 2 * t)) for t in (-1.0, 0.0, 3.0, 10.0)]
    assert conformal.is_concyclic(*line, tolerance=1e-6).item()
    assert conformal.is_concyclic(*line[:3], tn.asarray(INFINITY)).item()


def test_infinity_is_a_point() -> None:
    inversion = conformal.mobius(tn.asarray([0j, INFINITY, 2 + 0j]), 0, 1, 1, 0)
    assert inversion.tolist() == [INFINITY, 0j, 0.5 + 0j]
    assert conformal.mobius(tn.asarray(INFINITY), 3, 1, 2, 0).item() == 1.5
    for at in range(3):
        for to in range(3):
            source, target = plane(3), plane(3)
            source[at] = target[to] = INFINITY
            ends = tn.asarray(source), tn.asarray(target)
            came = conformal.mobius(ends[0], *conformal.mobius_from_three_points(*ends)).numpy()
            far = np.isinf(target)
            # The image of a finite point at infinity is infinite up to rounding.
            assert (np.abs(came[far]) > 1e12).all()
            np.testing.assert_allclose(came[~far], target[~far], rtol=1e-9)
    one, two = tn.asarray(1 + 0j), tn.asarray(2 + 0j)
    assert conformal.cross_ratio(one, two, two, tn.asarray(3j)).item() == INFINITY
    assert conformal.stereographic(tn.asarray([0.0, 0.0, 1.0])).item() == INFINITY


def test_harmonic_fields_have_no_laplacian_and_analytic_functions_no_dbar() -> None:
    x, y = np.meshgrid(np.arange(6.0), np.arange(5.0))
    assert not conformal.laplacian_2d(tn.asarray(x * x - y * y)).numpy().any()
    assert conformal.laplacian_2d(tn.zeros((2, 3))).tolist() == np.zeros((2, 3)).tolist()
    z = tn.asarray(plane(5))
    passes, residual = conformal.check_cauchy_riemann(lambda w: tn.sin(w) * w + 1, z)
    assert passes.numpy().all()
    assert residual.numpy().max() < 1e-13
    passes, residual = conformal.check_cauchy_riemann(lambda w: tn.abs(w) ** 2, z)
    assert not passes.numpy().any()
    np.testing.assert_allclose(residual.numpy(), np.abs(z.numpy()), rtol=1e-14)  # ∂(z·z̄)/∂z̄ = z
    np.testing.assert_allclose(conformal.dz(tn.exp, z).numpy(), np.exp(z.numpy()), rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda z: conformal.mobius(z, 1, 2, 2, 4),
            ValueError,
            "mobius: a·d = b·c for a, b, c, d = 1, 2, 2, 4: the map sends all to one point",
        ),
        (
            lambda z: conformal.mobius(tn.arange(3), 1, 0, 0, 1),
            tn.DtypeError,
            "mobius: int64 has no complex numbers (hint: astype(x, complex64))",
        ),
        (
            lambda z: conformal.mobius_from_three_points(z, z[:2]),
            tn.ShapeError,
            "mobius_from_three_points: target must be three points [..., 3], got shape (2,)",
        ),
        (
            conformal.stereographic,
            tn.DtypeError,
            "stereographic: expected float32 or float64, got complex64",
        ),
        (
            lambda z: conformal.dz(lambda w: w.sum(), z),
            tn.ShapeError,
            "dz: f must give one number for each of shape (3,), got shape ()",
        ),
        (
            conformal.laplacian_2d,
            tn.ShapeError,
            "laplacian_2d: expected [..., rows, columns], got shape (3,)",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(tn.asarray([1j, 2j, 3j]))
    assert str(caught.value) == message

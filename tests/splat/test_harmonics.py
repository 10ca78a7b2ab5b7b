"""Spherical harmonics and axes: a flipped scene, seen from the flipped side, looks the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splat import SplatValueError
from splat.harmonics import AXES, basis, coefficient_count, coefficient_signs, flip_axes, flip_signs


def directions(n: int, seed: int = 0) -> np.ndarray:
    d = np.random.default_rng(seed).normal(size=(n, 3))
    return d / np.linalg.norm(d, axis=1, keepdims=True)


def matrix(q: np.ndarray) -> np.ndarray:
    w, x, y, z = q.astype(float)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_the_basis_is_orthonormal_on_the_sphere() -> None:
    nodes, weights = np.polynomial.legendre.leggauss(12)
    angles = np.arange(24) * 2 * np.pi / 24
    z, a = np.repeat(nodes, 24), np.tile(angles, 12)
    d = np.stack([np.sqrt(1 - z * z) * np.cos(a), np.sqrt(1 - z * z) * np.sin(a), z], axis=1)
    y = basis(d, 3)
    gram = (y * (np.repeat(weights, 24) * 2 * np.pi / 24)[:, None]).T @ y
    assert np.allclose(gram, np.eye(16), atol=1e-12)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("degree", range(4))
def test_signs_turn_the_basis_with_the_directions(axes: str, degree: int) -> None:
    signs = flip_signs(axes)
    d = directions(50)
    turned = basis(d * signs, degree) * coefficient_signs(signs, degree)
    assert np.allclose(turned, basis(d, degree), atol=1e-14)
    assert len(coefficient_signs(signs, degree)) == coefficient_count(degree)


@pytest.mark.parametrize("axes", AXES)
def test_a_flipped_scene_has_flipped_covariances(axes: str, make_scene) -> None:
    scene = make_scene(20, 3)
    means, quats, sh = scene.means.copy(), scene.quats.copy(), scene.sh.copy()
    flip_axes(means, quats, sh, axes)
    flip = np.diag(flip_signs(axes))
    for i in range(20):
        scaled = np.diag(np.exp(2 * scene.log_scales[i].astype(float)))
        before, after = (matrix(q[i]) @ scaled @ matrix(q[i]).T for q in (scene.quats, quats))
        assert np.allclose(flip @ before @ flip, after, rtol=1e-5, atol=1e-6)
    flip_axes(means, quats, sh, axes)
    assert (means == scene.means).all() and (quats == scene.quats).all() and (sh == scene.sh).all()


@given(st.sampled_from(AXES), st.integers(0, 3))
def test_loading_in_other_axes_is_flipping_what_was_loaded(axes: str, degree: int) -> None:
    import tempfile
    from pathlib import Path

    from splat import Scene

    rng = np.random.default_rng(degree)
    scene = Scene(
        rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(5, 3)).astype(np.float32),
        np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 0]], np.float32([0.5] * 5),
        rng.normal(size=(5, coefficient_count(degree), 3)).astype(np.float32),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        scene.save(Path(folder) / "a.ply")
        loaded = Scene.load(Path(folder) / "a.ply", axes=axes)
    means, quats, sh = scene.means.copy(), scene.quats.copy(), scene.sh.copy()
    flip_axes(means, quats, sh, axes)
    assert (loaded.means == means).all() and (loaded.quats == quats).all() and (loaded.sh == sh).all()
    assert loaded.source_axes == axes


@pytest.mark.parametrize("axes", ["rub", "RU", "XYZ", "FDR", ""])
def test_axes_that_do_not_exist_are_refused(axes: str, tmp_path) -> None:
    from splat import Scene

    with pytest.raises(SplatValueError) as caught:
        Scene.load(tmp_path / "a.ply", axes=axes)
    assert str(caught.value) == (
        f"Scene.load: axes must be one of RDF, RDB, RUF, RUB, LDF, LDB, LUF, LUB, got {axes!r}"
    )

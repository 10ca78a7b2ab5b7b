"""The default camera: the median of what is opaque, from far enough away, with no order in it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splat import Camera, Scene, render
from splat.default_camera import scene_center


def points(means: np.ndarray, opacities: np.ndarray | None = None) -> Scene:
    n = len(means)
    return Scene(
        means=np.asarray(means, np.float32).reshape(n, 3),
        log_scales=np.zeros((n, 3), np.float32),
        quats=np.tile(np.float32([1, 0, 0, 0]), (n, 1)),
        opacities=np.full(n, 0.5, np.float32) if opacities is None else np.float32(opacities),
        sh=np.zeros((n, 1, 3), np.float32),
    )


@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_it_looks_at_the_weighted_median_from_the_distance_of_the_page(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    means, opacities = rng.normal(size=(n, 3)).astype(np.float32), rng.uniform(0.1, 1, n).astype(np.float32)
    camera = Camera.default(points(means, opacities), 640, 360)
    center = []
    for column in means.T:
        order = np.argsort(column)
        weights = np.round(opacities[order].astype(float) * 2**24)
        center.append(float(column[order][np.searchsorted(np.cumsum(weights), weights.sum() / 2)]))
    distances = np.sort(np.linalg.norm(means - np.array(center), axis=1))
    radius = distances[math.ceil(n * 9 / 10) - 1] or 1.0
    distance = max(1.2 * radius / math.tan(math.radians(25)), 0.2 + radius)
    assert np.allclose(camera.position, [center[0], center[1], center[2] - distance], rtol=1e-6, atol=1e-6)
    assert camera.world_to_camera[:3, :3].tolist() == np.eye(3).tolist()
    assert (camera.width, camera.height, camera.cx, camera.cy) == (640, 360, 320, 180)
    assert camera.fx == camera.fy == pytest.approx(180 / math.tan(math.radians(25)))


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_the_order_of_the_splats_changes_no_bit(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    means, opacities = rng.integers(-3, 4, (n, 3)).astype(np.float32) * np.float32(0.1), rng.uniform(0, 1, n)
    order = rng.permutation(n)
    assert Camera.default(points(means, opacities), 8, 6) == Camera.default(
        points(means[order], opacities[order]), 8, 6
    )


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(
    st.lists(st.tuples(FLOATS | st.sampled_from([0.0, -0.0, 1.0, 2.0**-149]), st.sampled_from([0.0, 0.1, 0.5, 1.0])))
)
def test_the_median_is_that_of_the_sorted_values(pairs: list[tuple[float, float]]) -> None:
    rows = sorted((value + 0.0, int(np.floor(np.float64(np.float32(o)) * 2**24 + 0.5))) for value, o in pairs)
    total = sum(weight for _, weight in rows)
    if total == 0:
        rows, total = [(value, 1) for value, _ in rows], len(rows)
    reached, wanted = 0, 0.0
    for value, weight in rows:
        reached += weight
        if 2 * reached >= total:
            wanted = value
            break
    means = np.float32([[value, -value, 0.0] for value, _ in pairs]).reshape(-1, 3)
    got = scene_center(points(means, [o for _, o in pairs]))[0]
    assert (got, math.copysign(1, got)) == (wanted, math.copysign(1, wanted))


@pytest.mark.parametrize("n", [4095, 4096, 4097, 9000])
def test_scenes_of_several_blocks_have_the_median_and_the_distance_of_all(n: int) -> None:
    means = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
    scene = points(means)
    center = np.array([np.sort(column)[(n - 1) // 2] for column in means.T], float)
    assert scene_center(scene) == tuple(center)
    radius = np.sort(np.linalg.norm(means - center, axis=1))[math.ceil(n * 9 / 10) - 1]
    z = Camera.default(scene, 8, 6).position[2]
    assert center[2] - z == pytest.approx(1.2 * radius / math.tan(math.radians(25)), rel=1e-9)


def test_what_is_almost_transparent_hardly_counts() -> None:
    scene = points(np.float32([[0, 0, 0], [1, 0, 0], [9, 0, 0], [9, 0, 0], [9, 0, 0]]), [0.9, 0.9, 0.01, 0.01, 0.01])
    assert Camera.default(scene, 8, 6).position[0] == 1


def test_a_scene_of_transparent_splats_is_looked_at_by_count() -> None:
    scene = points(np.float32([[0, 0, 0], [1, 0, 0], [9, 0, 0]]), [0, 0, 0])
    assert Camera.default(scene, 8, 6).position[0] == 1


@pytest.mark.parametrize("n", [0, 1, 5])
def test_nothing_or_one_point_is_looked_at_from_a_radius_of_one(n: int) -> None:
    x, y, z = Camera.default(points(np.full((n, 3), 2.0)), 8, 6).position
    center = 2.0 if n else 0.0
    assert (x, y) == (center, center)
    assert center - z == pytest.approx(1.2 / math.tan(math.radians(25)))


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9, 1e-30, 1e-44])
def test_a_tiny_scene_does_not_lie_before_the_near_plane(size: float) -> None:
    scene = points(np.random.default_rng(0).normal(size=(100, 3)) * size)
    assert render(scene, Camera.default(scene, 8, 6)).visible >= 90

"""Splats become ellipses: known answers, what is left out and counted, and the kernel beside its twin."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splat import Camera, RenderSettings, Scene, projection_ref
from splat.harmonics import basis
from splat.projection import REFERENCE, faintest, project, view_of

kernels = pytest.mark.skipif(REFERENCE, reason="DROVEWAY_ISA=ref has no kernels")
C0 = 0.28209479177387814
CAMERA = Camera(100, 80, 100.0, 100.0, 50.0, 40.0, np.eye(4))


def one_splat(mean=(0.1, -0.05, 2.0), scales=(0.1, 0.2, 0.05), quat=(1, 0, 0, 0), opacity=0.8, colour=(1, 0.5, 0)):
    dc = (np.float32(colour) - np.float32(0.5)) / np.float32(C0)
    return SimpleNamespace(
        means=np.float32([mean]),
        log_scales=np.log(np.float32([scales])),
        quats=np.float32([quat]),
        opacities=np.float32([opacity]),
        sh=dc[np.newaxis, np.newaxis],
    )


def record(scene, camera=CAMERA, antialiased=False, **settings):
    projected = project(scene, view_of(camera, RenderSettings(**settings), antialiased, 4))
    assert projected.tally.visible == 1, projected.tally
    return projected.records[projected.slot[0]]


def test_the_known_answer_of_the_specification():
    """Pinhole 100, centre (50, 40), mean (0.1, −0.05, 2), scales (0.1, 0.2, 0.05), no rotation, opacity 0.8."""
    r = record(one_splat()).astype(np.float64)
    mean, (a, b, c) = r[:2], r[2:5]
    np.testing.assert_allclose(mean, (55, 37.5), rtol=0, atol=1e-5)
    conic = np.array([b * b, b * c, a * a + c * c]) * 2 / np.log2(np.e)
    np.testing.assert_allclose(conic[[0, 2]], (0.03950130, 0.00996970), rtol=1e-6)
    assert conic[1] == pytest.approx(3.0767e-6 - 0.0, rel=0.01)
    cov = np.linalg.inv([[conic[0], conic[1]], [conic[1], conic[2]]])
    np.testing.assert_allclose([cov[0, 0], cov[1, 1]], (25.315625, 100.30390625), rtol=1e-6)  # with 0.3 on both
    assert cov[0, 1] == pytest.approx(-0.0078125, rel=1e-3)
    assert 2 ** r[5] == pytest.approx(0.8, rel=1e-6)
    dx, dy = 60.5 - mean[0], 40.5 - mean[1]
    alpha = 2 ** (r[5] - (a * dy) ** 2 - (b * dx + c * dy) ** 2)
    assert alpha == pytest.approx(0.42083473, rel=1e-6)
    np.testing.assert_allclose(r[6:9], (1, 0.5, 0), atol=1e-6)
    assert r[9] == 2.0


def test_the_box_is_the_reach_of_alpha_min():
    """q_max = 10.636, half-widths 16.409237 and 32.662768: columns 39 to 70, rows 5 to 69."""
    x, y = record(one_splat()).view(np.uint32)[12:14]
    assert (x & 0xFFFF, x >> 16) == (39, 71)  # 55 ± 16.41: centres 38.5 and 71.5 lie outside
    assert (y & 0xFFFF, y >> 16) == (5, 70)  # 37.5 ± 32.66: centres 4.5 and 70.5 lie outside


def test_antialiasing_dims_by_the_known_factor():
    plain, dimmed = record(one_splat()), record(one_splat(), antialias=True)
    assert 2.0 ** (dimmed[5] - plain[5]) == pytest.approx(0.99256947, rel=1e-6)
    np.testing.assert_array_equal(plain[:5], dimmed[:5])


def test_the_scene_decides_about_antialiasing_where_the_settings_do_not():
    plain, dimmed = record(one_splat()), record(one_splat(), antialias=True)
    np.testing.assert_array_equal(record(one_splat(), antialiased=True), dimmed)
    np.testing.assert_array_equal(record(one_splat(), antialiased=True, antialias=False), plain)


def test_a_quaternion_of_any_length_is_a_rotation():
    turn = np.float32([0.5, -0.1, 0.7, 0.2])
    np.testing.assert_allclose(
        record(one_splat(quat=turn))[:9], record(one_splat(quat=turn * np.float32(3)))[:9], rtol=2e-6, atol=1e-6
    )


def test_half_a_turn_about_z_swaps_nothing_and_a_quarter_swaps_the_axes():
    plain = record(one_splat(mean=(0, 0, 2)))
    half = record(one_splat(mean=(0, 0, 2), quat=(0, 0, 0, 1)))
    quarter = record(one_splat(mean=(0, 0, 2), quat=(0.5**0.5, 0, 0, 0.5**0.5)))
    np.testing.assert_allclose(half[2:4], plain[2:4], rtol=1e-6)
    np.testing.assert_allclose(quarter[2:4], plain[[3, 2]], rtol=1e-5)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_colours_are_spherical_harmonics_in_the_order_of_3dgs(make_cloud, degree):
    scene = make_cloud(200, degree, 5)
    camera = Camera.look_at((1, 2, -4), (0, 0, 0), width=300, height=200)
    projected = project(scene, view_of(camera, RenderSettings(), False, 4))
    r = projected.records[projected.slot]
    index = r.view(np.uint32)[:, 14]
    towards = scene.means[index].astype(np.float64) - camera.position
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    colour = np.maximum(np.einsum("nk,nkc->nc", basis(towards, degree), scene.sh[index].astype(np.float64)) + 0.5, 0)
    np.testing.assert_allclose(r[:, 6:9], colour, atol=3e-6)


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("not_finite", {"mean": (np.nan, 0, 2)}),
        ("not_finite", {"mean": (0, np.inf, 2)}),
        ("not_finite", {"opacity": np.nan}),
        ("not_finite", {"quat": (0, 0, 0, 0)}),
        ("not_finite", {"scales": (np.float32(np.exp(40.0)), 1, 1)}),
        ("not_finite", {"colour": (np.inf, 0, 0)}),
        ("near", {"mean": (0, 0, 0.2)}),
        ("near", {"mean": (0, 0, -3)}),
        ("near", {"mean": (0, 0, 0)}),
        ("faint", {"opacity": 0.0039}),
        ("faint", {"opacity": 0.0}),
        ("outside", {"mean": (9, 0, 2)}),
        ("outside", {"mean": (0, -9, 2)}),
    ],
)
def test_a_splat_left_out_is_counted_once(what, change):
    with np.errstate(invalid="ignore"):
        scene = one_splat(**change)
    view = view_of(CAMERA, RenderSettings(), False, 4)
    arrays = (scene.means, scene.log_scales, scene.quats, scene.opacities, scene.sh)
    for tally in (project(scene, view).tally, projection_ref.project(*arrays, view)[1]):
        assert tally._asdict() == {**dict.fromkeys(tally._fields, 0), what: 1}


def test_without_blur_a_flat_splat_seen_from_its_edge_is_degenerate():
    scene = one_splat(mean=(0, 0, 2), scales=(0.1, 1e-30, 1e-30))
    assert project(scene, view_of(CAMERA, RenderSettings(blur=0), False, 4)).tally.degenerate == 1
    assert project(scene, view_of(CAMERA, RenderSettings(), False, 4)).tally.visible == 1


def test_an_opacity_of_exactly_alpha_min_is_drawn():
    alpha_min = 0.0625
    scene = one_splat(mean=(0.11, -0.05, 2), opacity=alpha_min)  # on the centre of a pixel
    assert project(scene, view_of(CAMERA, RenderSettings(alpha_min=alpha_min), False, 4)).tally.visible == 1
    assert faintest(alpha_min) == -4.0


def test_a_tally_counts_every_splat(make_cloud):
    cloud = make_cloud(5000, 0, 2, spread=3.0)
    scales = cloud.log_scales.copy()
    scales[::7, 1:] = -80.0  # lines of no width
    scene = Scene(cloud.means, scales, cloud.quats, cloud.opacities, cloud.sh)
    camera = Camera.look_at((0.2, 0.1, -1), (0, 0, 0), width=90, height=60)
    tally = project(scene, view_of(camera, RenderSettings(blur=0), False, 4)).tally
    assert sum(tally[:-1]) == len(scene)
    assert min(tally.visible, tally.near, tally.degenerate, tally.faint, tally.outside) > 0


@kernels
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([0, 1, 15, 16, 17, 63, 65, 300, 1100, 2049]),
    degree=st.integers(0, 3),
    scale=st.floats(-8, 6),
    spread=st.floats(0, 6),
    blur=st.sampled_from([0.0, 0.3, 0.075, 10.0]),
    antialias=st.booleans(),
    distance=st.floats(0, 4),
)
def test_the_kernel_is_its_twin(make_cloud, seed, n, degree, scale, spread, blur, antialias, distance):
    scene = make_cloud(n, degree, seed, scale=scale, spread=spread)
    camera = Camera.look_at((0.1, 0.2, -distance - 0.01), (0, 0, 0), width=83, height=51)
    view = view_of(camera, RenderSettings(blur=blur, antialias=antialias), False, 5)
    projected = project(scene, view)
    records, tally = projection_ref.project(scene.means, scene.log_scales, scene.quats, scene.opacities, scene.sh, view)
    assert projected.tally == tally
    found = projected.records[projected.slot]
    np.testing.assert_array_equal(found.view(np.uint32), records.view(np.uint32))
    np.testing.assert_array_equal(projected.z, records[:, 9])
    np.testing.assert_array_equal(projected.box, records.view(np.uint32)[:, 12:14])

"""Pixels: the kernel beside its twin, and what tiles, threads, order of storage and extra outputs may not change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splat import Camera, RenderSettings, Scene, blend_ref, projection_ref, render
from splat.blend import rules_of
from splat.projection import REFERENCE, view_of
from splat.rendering import render_tiled

CAMERA = Camera.look_at((0.3, -0.2, -3.0), (0, 0, 0), width=101, height=67)
kernels = pytest.mark.skipif(REFERENCE, reason="DROVEWAY_ISA=ref has no kernels")


def by_twin(scene, camera, chosen, tile_log2=4):
    view = view_of(camera, chosen, scene.antialiased, tile_log2)
    records, _ = projection_ref.project(scene.means, scene.log_scales, scene.quats, scene.opacities, scene.sh, view)
    order = np.argsort(records[:, 9], kind="stable")
    return blend_ref.blend(records[order], rules_of(chosen), camera.width, camera.height, tile_log2)


def assert_same(image, pixels):
    np.testing.assert_array_equal(image.rgba, pixels.rgba)
    np.testing.assert_array_equal(image.transmittance, pixels.transmittance)
    np.testing.assert_array_equal(image.last, pixels.last)
    np.testing.assert_array_equal(image.depth, pixels.depth)


@kernels
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([1, 40, 200, 700]),
    scale=st.floats(-7, 3),
    spread=st.floats(0, 5),
    blur=st.sampled_from([0.0, 0.01, 0.3]),
    alpha_min=st.sampled_from([1 / 255, 2.0**-16, 0.1]),
    t_min=st.sampled_from([1e-4, 0.05, 0.3]),
    tile_log2=st.integers(4, 6),
    size=st.sampled_from([(1, 1), (3, 50), (47, 33), (16, 16), (65, 18)]),
)
def test_the_kernel_is_its_twin(make_cloud, seed, n, scale, spread, blur, alpha_min, t_min, tile_log2, size):
    scene = make_cloud(n, 0, seed, scale=scale, spread=spread)
    camera = Camera.look_at((0.1, 0.2, -2.5), (0, 0, 0), width=size[0], height=size[1])
    chosen = RenderSettings(
        blur=blur, alpha_min=alpha_min, t_min=t_min, background=(0.1, 0.2, 0.3), keep_state=True, depth=True
    )
    assert_same(render_tiled(scene, camera, chosen, tile_log2), by_twin(scene, camera, chosen, tile_log2))


@kernels
def test_needles_are_the_same_with_and_without_culling(make_cloud):
    """Long thin splats, where the test of a block rounds most."""
    scene = make_cloud(400, 0, 9, scale=-1.0, spread=3.5)
    for blur in (0.3, 0.01, 1e-4):
        chosen = RenderSettings(blur=blur, keep_state=True, depth=True)
        assert_same(render(scene, CAMERA, chosen), by_twin(scene, CAMERA, chosen))


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(-7, 7),
    spread=st.floats(0, 5),
    blur=st.sampled_from([0.0, 1e-4, 0.3]),
    alpha_min=st.sampled_from([1 / 255, 2.0**-16]),
    fov=st.floats(5, 150),
)
def test_a_box_leaves_out_no_pixel_that_counts(make_cloud, seed, scale, spread, blur, alpha_min, fov):
    """The twin with boxes of the whole picture gives the same: boxes are no part of a pixel's value."""
    scene = make_cloud(30, 0, seed, scale=scale, spread=spread)
    camera = Camera.look_at((0.1, 0.2, -2.5), (0, 0, 0), fov_y_deg=fov, width=150, height=40)
    chosen = RenderSettings(blur=blur, alpha_min=alpha_min)
    view = view_of(camera, chosen, False, 4)
    records, _ = projection_ref.project(scene.means, scene.log_scales, scene.quats, scene.opacities, scene.sh, view)
    records = records[np.argsort(records[:, 9], kind="stable")]
    boxed = blend_ref.blend(records, rules_of(chosen), 150, 40, 4)
    records.view(np.uint32)[:, 12:14] = (150 << 16, 40 << 16)
    whole = blend_ref.blend(records, rules_of(chosen), 150, 40, 4)
    np.testing.assert_array_equal(boxed.rgba, whole.rgba)
    np.testing.assert_array_equal(boxed.transmittance, whole.transmittance)


@pytest.mark.parametrize("tile_log2", [5, 6, 10])
def test_the_size_of_tiles_changes_nothing(make_cloud, tile_log2):
    scene, chosen = make_cloud(600, 1, 3), RenderSettings(keep_state=True, depth=True)
    one, other = render(scene, CAMERA, chosen), render_tiled(scene, CAMERA, chosen, tile_log2)
    np.testing.assert_array_equal(one.rgba, other.rgba)
    np.testing.assert_array_equal(one.transmittance, other.transmittance)
    np.testing.assert_array_equal(one.depth, other.depth)


@kernels
def test_the_number_of_threads_changes_nothing(make_cloud, threads):
    scene = make_cloud(20000, 2, 4)
    camera = Camera.look_at((0.3, -0.2, -3.0), (0, 0, 0), width=401, height=267)
    chosen = RenderSettings(keep_state=True, depth=True)
    threads(1)
    first = render(scene, camera, chosen)
    for n in (2, 3, 7):
        threads(n)
        again = render(scene, camera, chosen)
        assert again.stats == first.stats
        for name in ("rgba", "transmittance", "last", "depth"):
            np.testing.assert_array_equal(getattr(again, name), getattr(first, name))


def test_permuted_splats_of_distinct_depth_give_the_same_picture(make_cloud):
    scene = make_cloud(500, 1, 6)
    depth = projection_ref.project(
        scene.means, scene.log_scales, scene.quats, scene.opacities, scene.sh,
        view_of(CAMERA, RenderSettings(), False, 4),
    )[0][:, 9]  # fmt: skip
    assert len(np.unique(depth)) == len(depth)
    mixed = np.random.default_rng(0).permutation(len(scene))
    other = Scene(*(array[mixed] for array in (scene.means, scene.log_scales, scene.quats, scene.opacities, scene.sh)))
    assert render(scene, CAMERA).digest() == render(other, CAMERA).digest()


def test_splats_of_equal_depth_are_drawn_in_the_order_of_the_scene():
    red, blue = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
    for first, second in ((red, blue), (blue, red)):
        picture = render(facing([(2.0, 0.9, first), (2.0, 0.9, second)]), square(5))
        middle = picture.rgba[2, 2].tolist()
        assert middle[0 if first is red else 2] == 230  # 0.9
        assert middle[2 if first is red else 0] == 23  # 0.09


@pytest.mark.parametrize("chosen", [{"keep_state": True}, {"depth": True}, {"keep_state": True, "depth": True}])
def test_extra_outputs_change_no_byte_and_are_absent_otherwise(make_cloud, chosen):
    scene = make_cloud(400, 0, 8)
    plain, more = render(scene, CAMERA), render(scene, CAMERA, RenderSettings(**chosen))
    assert plain.rgba.tobytes() == more.rgba.tobytes()
    assert plain.transmittance is plain.last is plain.depth is None
    assert (more.transmittance is None) == (more.last is None) == ("keep_state" not in chosen)
    assert (more.depth is None) == ("depth" not in chosen)


def facing(splats):
    """Wide splats on the axis: (depth, opacity, colour), in scene order."""
    depth, opacity, colour = zip(*splats, strict=True)
    n = len(splats)
    dc = (np.float32(colour) - np.float32(0.5)) / np.float32(0.28209479177387814)
    means = np.zeros((n, 3), np.float32)
    means[:, 2] = depth
    return Scene(
        means,
        np.full((n, 3), 2.0, np.float32),
        np.tile(np.float32([1, 0, 0, 0]), (n, 1)),
        np.float32(opacity),
        dc[:, np.newaxis],
    )


def square(side):
    return Camera(side, side, float(side), float(side), side / 2, side / 2, np.eye(4))


def test_two_layers_blend_front_to_back():
    picture = render(
        facing([(3.0, 0.5, (0, 1, 0)), (2.0, 0.5, (1, 0, 0))]),
        square(5),
        RenderSettings(background=(0, 0, 1), keep_state=True, depth=True),
    )
    assert picture.rgba[2, 2].tolist() == [128, 64, 64, 191]
    assert picture.transmittance[2, 2] == pytest.approx(0.25, abs=1e-6)
    assert picture.last[2, 2] == 2
    assert picture.depth[2, 2] == 3.0


def test_alpha_is_capped():
    picture = render(facing([(2.0, 1.0, (1, 1, 1))]), square(5), RenderSettings(keep_state=True, alpha_max=0.75))
    assert picture.transmittance[2, 2] == np.float32(0.25)


def test_a_pixel_stops_before_its_transmittance_falls_below_t_min():
    layers = facing([(2.0 + i, 0.5, (1, 1, 1)) for i in range(20)])
    chosen = RenderSettings(keep_state=True, t_min=0.1, depth=True)
    picture = render(layers, square(3), chosen)
    assert picture.transmittance[1, 1] == pytest.approx(0.125, rel=1e-5)  # 0.0625 would be below
    assert picture.rgba[1, 1].tolist() == [223, 223, 223, 223]  # 255 · 0.875: the fourth layer adds nothing
    assert picture.last[1, 1] == 3
    assert picture.depth[1, 1] == 3.0  # the first layer leaves one half, which is not below it
    assert_same(picture, by_twin(layers, square(3), chosen))


def test_a_splat_of_exactly_alpha_min_counts_at_its_middle():
    chosen = RenderSettings(alpha_min=0.0625, keep_state=True, depth=True)
    picture = render(facing([(2.0, 0.0625, (1, 1, 1))]), square(3), chosen)
    assert picture.rgba[1, 1].tolist() == [16, 16, 16, 16]
    assert picture.rgba[0, 0].tolist() == [0, 0, 0, 0]
    assert_same(picture, by_twin(facing([(2.0, 0.0625, (1, 1, 1))]), square(3), chosen))


def test_background_where_nothing_is(make_cloud):
    chosen = RenderSettings(background=(1, 0.5, 0.25), keep_state=True, depth=True)
    for scene in (make_cloud(0), make_cloud(50)):
        picture = render(scene, Camera.look_at((0, 0, 50), (0, 0, 90), width=37, height=21), chosen)
        assert picture.visible == 0
        assert (picture.rgba == np.uint8([255, 128, 64, 0])).all()
        assert (picture.transmittance == 1).all()
        assert (picture.last == 0).all()
        assert (picture.depth == np.inf).all()


def test_the_power_of_two_is_good_to_3_millionths_and_exact_at_integers():
    power = -np.random.default_rng(1).random(200_000).astype(np.float32) * np.float32(16)
    exact = np.exp2(power.astype(np.float64))
    assert np.abs(blend_ref.exp2(power) / exact - 1).max() < 3e-6
    whole = -np.arange(17, dtype=np.float32)
    np.testing.assert_array_equal(blend_ref.exp2(whole), np.ldexp(np.float32(1), whole.astype(np.int32)))

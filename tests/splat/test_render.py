"""Pictures against the oracle in float64, in awkward places, and what render refuses."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import tensor
from splat import (
    Camera,
    RenderSettings,
    Scene,
    SplatTypeError,
    SplatValueError,
    TooManyPairsError,
    projection,
    render,
    rendering,
)
from splat.projection import REFERENCE
from splat.render_f64_ref import render_f64
from splat.rendering import render_last
from splat.synthetic import warehouse, warehouse_camera
from vector.depth import depth_order


def decibels(image, exact):
    """Peak signal to noise ratio of the colours, both as bytes."""
    wanted = np.floor(255 * np.clip(exact[..., :3], 0, 1) + 0.5)
    error = ((image.rgba[..., :3] - wanted) ** 2).mean()
    return np.inf if error == 0 else 10 * np.log10(255**2 / error)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("degree", [0, 3])
def test_a_cloud_is_within_60_decibels_of_float64(make_cloud, degree, antialias):
    scene = make_cloud(3000, degree, 11)
    camera = Camera.look_at((0.4, -0.3, -3.5), (0, 0, 0), width=128, height=128)
    chosen = RenderSettings(background=(0.3, 0.6, 0.9), antialias=antialias)
    assert decibels(render(scene, camera, chosen), render_f64(scene, camera, chosen)) > 60


def test_the_warehouse_is_within_60_decibels_of_float64(golden_scenes):
    grid = golden_scenes.racks()
    scene, camera = warehouse(grid, 1.0, 4000, 1, 7), warehouse_camera(grid, 1.0, 256, 256)
    assert decibels(render(scene, camera), render_f64(scene, camera)) > 60


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("length", [10, 300, 1000, 10_000, 100_000])
def test_a_needle_of_any_length_is_as_good_as_any_other_splat(length, antialias):
    """A line across the picture, at every slope: its width comes from a determinant whose two products nearly agree."""
    camera = Camera(64, 64, 500.0, 500.0, 32.0, 32.0, np.eye(4))
    for degrees in range(3, 90, 4):
        half = np.radians(degrees) / 2
        scene = Scene(
            np.float32([[0.003, 0.001, 2]]),
            np.log(np.float32([[length * 2 / 500, 1e-3, 1e-3]])),
            np.float32([[np.cos(half), 0, 0, np.sin(half)]]),
            np.float32([0.95]),
            np.ones((1, 1, 3), np.float32),
        )
        chosen = RenderSettings(antialias=antialias)
        exact = np.floor(255 * np.clip(render_f64(scene, camera, chosen), 0, 1) + 0.5)
        assert np.abs(render(scene, camera, chosen).rgba - exact).max() <= 1, degrees


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "background"),
    [("biker.compressed.ply", (0, 0, 0)), ("biker.compressed.ply", (0.5, 0.7, 1)), ("1_0", (0, 0, 0))],
)
def test_captured_scenes_are_within_60_decibels_of_float64(data, name, background):
    scene = Scene.load(data(f"splats/{name}"))
    camera, chosen = Camera.default(scene, 256, 256), RenderSettings(background=background)
    image = render(scene, camera, chosen)
    assert image.visible > 100_000
    assert decibels(image, render_f64(scene, camera, chosen)) > 60


def test_alpha_and_transmittance_are_those_of_float64(make_cloud):
    scene = make_cloud(1000, 0, 12)
    camera = Camera.look_at((0.4, -0.3, -5), (0, 0, 0), width=64, height=64)
    image = render(scene, camera, RenderSettings(keep_state=True))
    exact = render_f64(scene, camera)[..., 3]
    assert np.abs(1 - image.transmittance - exact).max() < 1e-4


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (4, 4), (5, 3), (17, 16)])
def test_a_picture_of_any_size_is_the_corner_of_a_larger_one(make_cloud, size):
    """A pixel depends on its own splats only. (Splats beside a picture are linearised at its edge: here none is.)"""
    cloud, (width, height) = make_cloud(300, 1, 13), size
    means = cloud.means * np.float32(0.2)
    scene = Scene(means, cloud.log_scales - np.float32(1), cloud.quats, cloud.opacities, cloud.sh)
    focal = 2.0 * min(size)
    assert (np.abs(means[:, :2]) / (means[:, 2:] + 3)).max() * focal < 0.65 * min(size)
    pose = Camera.look_at((0, 0, -3), (0, 0, 0), width=1, height=1).world_to_camera
    chosen = RenderSettings(keep_state=True, depth=True)
    small, large = (
        render(scene, Camera(wide, tall, focal, focal, width / 2, height / 2, pose), chosen)
        for wide, tall in (size, (width + 47, height + 33))
    )
    assert small.rgba.max() > 40
    for name in ("rgba", "transmittance", "depth"):
        np.testing.assert_array_equal(getattr(small, name), getattr(large, name)[:height, :width])


def test_a_camera_inside_a_splat_sees_no_more_than_the_near_plane_leaves(make_cloud):
    scene = make_cloud(200, 0, 14, scale=0.0)
    camera = Camera.look_at(scene.means[7].tolist(), (9, 9, 9), width=40, height=30)
    image = render(scene, camera)
    assert image.stats.near > 0
    assert image.visible > 0
    assert decibels(image, render_f64(scene, camera)) > 60


def test_the_near_plane_is_the_callers(make_cloud):
    scene = make_cloud(300, 0, 15)
    camera = Camera.look_at((0, 0, -3), (0, 0, 0), width=40, height=30)
    counts = [render(scene, camera, RenderSettings(near=near)).stats.near for near in (0.01, 2.5, 3.5, 1000)]
    assert counts == sorted(counts)
    assert counts[-1] == len(scene)


def test_values_that_are_not_finite_are_skipped_and_counted(make_cloud):
    """A scene refuses them when it is made; memory that changes later must not bring a picture down."""
    scene = make_cloud(64, 0, 16)
    keep = np.arange(64) >= 5
    parts = [np.array(a) for a in (scene.means, scene.log_scales, scene.quats, scene.opacities, scene.sh)]
    object.__setattr__(scene, "means", parts[0])
    for array, value in zip(parts, (np.nan, np.inf, np.nan, -np.inf, np.nan), strict=True):
        array.reshape(64, -1)[:5] = value if array is not parts[0] else parts[0][:5]
    for name, array in zip(("means", "log_scales", "quats", "opacities", "sh"), parts, strict=True):
        object.__setattr__(scene, name, array)
    rest = Scene(*(np.ascontiguousarray(array[keep]) for array in parts))
    camera = Camera.look_at((0, 0, -3), (0, 0, 0), width=40, height=30)
    image = render(scene, camera)
    assert image.stats.not_finite == 5
    assert image.digest() == render(rest, camera).digest()


def test_scales_of_e_to_the_40_are_counted_not_drawn(make_cloud):
    scene = make_cloud(50, 0, 17)
    scales = scene.log_scales.copy()
    scales[3] = 40.0
    scene = Scene(scene.means, scales, scene.quats, scene.opacities, scene.sh)
    image = render(scene, Camera.look_at((0, 0, -4), (0, 0, 0), width=40, height=30))
    assert image.stats.not_finite == 1


def test_too_many_pairs_are_refused_with_the_largest_splat():
    n = 300
    means = np.zeros((n, 3), np.float32)
    means[:, 2] = np.linspace(3, 4, n)
    scales = np.full((n, 3), 3.0, np.float32)
    scene = Scene(
        means, scales, np.tile(np.float32([1, 0, 0, 0]), (n, 1)), np.full(n, 0.9, np.float32),
        np.zeros((n, 1, 3), np.float32),
    )  # fmt: skip
    camera = Camera(16384, 4096, 8192.0, 8192.0, 8192.0, 2048.0, np.eye(4))
    with pytest.raises(TooManyPairsError) as caught:
        render(scene, camera)
    assert str(caught.value) == (
        "render: the splats touch 78643200 tiles together, the limit is 67108864; the largest is splat 0, which covers "
        "16384 x 4096 pixels (hint: move the camera away from it, or drop splats of its size)"
    )


def test_a_picture_above_the_limit_is_refused(make_cloud):
    camera = Camera(16384, 16384, 100.0, 100.0, 50.0, 50.0, np.eye(4))
    with pytest.raises(SplatValueError) as caught:
        render(make_cloud(1), camera)
    assert str(caught.value) == (
        "render: a picture must have 1 to 16384 pixels a side and at most 2^26 in all, got 16384 x 16384"
    )


@pytest.mark.parametrize(
    ("index", "value", "sentence"),
    [
        (0, np.zeros((3, 3)), "render: scene must be a Scene, got ndarray"),
        (1, None, "render: camera must be a Camera, got NoneType"),
        (2, {"near": 1}, "render: settings must be a RenderSettings, got dict"),
    ],
)
def test_other_arguments_are_refused_by_name(make_cloud, index, value, sentence):
    arguments = [make_cloud(1), Camera(4, 4, 4.0, 4.0, 2.0, 2.0, np.eye(4)), RenderSettings()]
    arguments[index] = value
    with pytest.raises(SplatTypeError) as caught:
        render(*arguments)
    assert str(caught.value) == sentence


@pytest.mark.skipif(REFERENCE, reason="the twins' arrays do not count in a budget")
def test_the_buffers_of_a_picture_count_in_a_budget(make_cloud):
    scene = make_cloud(1000, 0, 18)
    camera = Camera.look_at((0, 0, -4), (0, 0, 0), width=320, height=200)
    with tensor.budget(1 << 20) as plain:
        image = render(scene, camera)
        assert plain.used_bytes == image.rgba.nbytes
    with tensor.budget(1 << 21) as more:
        render(scene, camera, RenderSettings(keep_state=True, depth=True))
    assert plain.peak_bytes < more.peak_bytes <= plain.peak_bytes + 3 * 4 * 320 * 200
    with tensor.budget(1 << 16), pytest.raises(tensor.BudgetExceeded, match="render rgba"):
        render(make_cloud(10, 0, 19), camera)


def test_cameras_at_the_end_of_the_numbers_are_harmless(make_cloud):
    scene = make_cloud(100, 2, 20)
    far = np.eye(4)
    far[:3, 3] = 1e30
    for camera in (
        Camera(20, 10, 1e30, 1e30, 10.0, 5.0, np.eye(4)),
        Camera(20, 10, 1e-30, 1e-30, 10.0, 5.0, np.eye(4)),
        Camera(20, 10, 10.0, 10.0, 1e30, -1e30, np.eye(4)),
        Camera(20, 10, 10.0, 10.0, 10.0, 5.0, far),
        Camera(20, 10, 1e300, 1e-300, 1e300, 5.0, far),
    ):
        image = render(scene, camera)
        assert sum(vars(image.stats).values()) - image.stats.pairs == len(scene)


def test_the_last_picture_of_a_scene_is_its_picture_and_drawn_in_its_memory(make_cloud, monkeypatch):
    scene, camera = make_cloud(300, 1, 21), Camera.look_at((0, 0, -4), (0, 0, 0), width=40, height=30)
    chosen = RenderSettings(background=(0.2, 0.3, 0.4))
    wanted, there, scenes = render(scene, camera, chosen), weakref.ref(scene), [scene]
    del scene
    lives = []
    project = rendering.project

    def watched(*arguments):
        lives.append(there() is not None)
        return project(*arguments)

    def order(z):
        lives.append(there() is not None)
        return depth_order(z)

    monkeypatch.setattr(rendering, "project", watched)
    monkeypatch.setattr(rendering, "depth_order", order)
    last = render_last(scenes, camera, chosen)
    assert (lives, scenes) == ([True, False], [])
    assert (last.digest(), last.stats) == (wanted.digest(), wanted.stats)


def test_what_render_refuses_leaves_the_scene_in_its_list(make_cloud):
    scenes = [make_cloud(3, 0, 1)]
    with pytest.raises(SplatTypeError, match="render: camera must be a Camera, got str"):
        render_last(scenes, "camera")
    assert len(scenes) == 1


def test_the_flag_of_the_twins_is_the_kernels(monkeypatch, make_cloud):
    """With the twins in their place, the picture is the same."""
    scene, camera = make_cloud(300, 1, 21), Camera.look_at((0, 0, -4), (0, 0, 0), width=40, height=30)
    chosen = RenderSettings(keep_state=True, depth=True)
    one = render(scene, camera, chosen)
    for module in (projection, rendering):
        monkeypatch.setattr(module, "REFERENCE", True)
    other = render(scene, camera, chosen)
    assert one.stats == other.stats
    for name in ("rgba", "transmittance", "last", "depth"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_picture_that_is_interrupted_leaves_nothing_broken(python):
    """Ctrl-C at any moment: KeyboardInterrupt, and the next picture is the right one."""
    done = python(
        """
import signal
import numpy as np
from splat import Camera, Scene, render
signal.signal(signal.SIGALRM, signal.default_int_handler)
rng = np.random.default_rng(0)
n = 60000
scene = Scene(
    rng.normal(size=(n, 3)).astype(np.float32), np.full((n, 3), -3.5, np.float32),
    np.tile(np.float32([1, 0, 0, 0]), (n, 1)), rng.random(n).astype(np.float32), np.zeros((n, 1, 3), np.float32),
)
camera = Camera.look_at((0, 0, -4), (0, 0, 0), width=500, height=400)
right, stopped = render(scene, camera).digest(), 0
for i in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003 * (i % 30 + 1))
        while True:
            render(scene, camera)
    except KeyboardInterrupt:
        stopped += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
print(stopped, render(scene, camera).digest() == right)
""",
        DROVEWAY_THREADS="3",
    )
    assert done.stdout == "60 True\n", done.stderr

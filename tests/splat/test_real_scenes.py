"""Scenes that others made: their known first splats, and digests of all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from splat import Camera, Scene

Data = Callable[[str], Path]

# tensor.digest of means, log_scales, quats, opacities and sh; DROVEWAY_ISA=ref gives the same.
DIGESTS = {
    "biker.compressed.ply": "648f6e7c0da844dca956b612be9a828a46cb3e3fd48fa2a7f6b67cf004cf3cad",
    "1_0": "27812be6711ec675dc1a8b2348c37bf7d8534d2560fb4cbd8c2e50442f20626c",
    "2_0": "d04e327479c2cf7ae5c26d63f5b23a7948444136929a4dd674dfc010774d0575",
    "3_0": "5c156f923359c1d1bc04b354b78db9df2764c5ef2d8098df3d3843046c05fbd7",
    "fixtures/minimal.splat": "833950a0550b9f780257a10e90ed9d7adb8e70aabd427b904106562e8657510b",
}


def test_the_first_splat_of_the_biker_is_the_known_one(data: Data) -> None:
    scene = Scene.load(data("splats/biker.compressed.ply"))
    assert (len(scene), scene.degree, scene.warnings) == (152_746, 0, ())
    assert np.allclose(scene.means[0], [-0.1045368, -2.3878981, -0.3608110], atol=1e-7)
    assert np.allclose(scene.log_scales[0], [-6.0689166, -4.2065427, -7.0507478], atol=5e-7)
    assert np.allclose(scene.sh[0, 0], [0.5478685, 0.5222843, 0.5681518], atol=1e-7)
    assert scene.opacities[0] == np.float32(18 / 255)
    assert np.allclose(scene.quats[0], [0.4610364, -0.0629000, 0.8848552, 0.0228099], atol=1e-7)


def test_the_first_splat_of_playbot_is_the_known_one(data: Data) -> None:
    scene = Scene.load(data("splats/3_0"))
    assert (len(scene), scene.degree, scene.warnings) == (31_000, 2, ())
    assert np.allclose(scene.means[0], [-0.7807843, -0.0349642, -1.0114081], atol=1e-7)
    assert np.allclose(scene.log_scales[0], [-5.3868017, -5.2307277, -7.6586370], atol=1e-6)
    assert scene.opacities[0] == np.float32(229 / 255)


def test_the_four_splats_of_the_fixture_are_the_known_ones(data: Data) -> None:
    scene = Scene.load(data("splats/fixtures/minimal.splat"))
    assert scene.means.tolist() == [[-1, 0, -1], [0, 0, -1], [-1, 0, 0], [0, 0, 0]]
    assert scene.opacities.tolist() == [np.float32(230 / 255)] * 4
    assert np.allclose(scene.log_scales, np.log(0.1))


@pytest.mark.parametrize("name", DIGESTS)
def test_a_whole_scene_has_the_recorded_digest(data: Data, golden_scenes, name: str) -> None:
    assert golden_scenes.scene_digest(Scene.load(data(f"splats/{name}"))) == DIGESTS[name]


def test_saving_and_loading_real_scenes_is_stable(data: Data, tmp_path: Path) -> None:
    for name in ("biker.compressed.ply", "3_0"):
        scene = Scene.load(data(f"splats/{name}"))
        files = []
        for i in range(3):
            scene.save(tmp_path / "a.ply")
            files.append((tmp_path / "a.ply").read_bytes())
            scene = Scene.load(tmp_path / "a.ply")
            assert len(scene) > 0, i
        assert files[0] == files[1] == files[2]


def test_the_default_camera_sees_most_of_a_real_scene(data: Data) -> None:
    for name in ("biker.compressed.ply", "3_0"):
        scene = Scene.load(data(f"splats/{name}"))
        camera = Camera.default(scene, 640, 480)
        t = scene.means.astype(float) @ camera.world_to_camera[:3, :3].T + camera.world_to_camera[:3, 3]
        x, y = t[:, 0] / t[:, 2] * camera.fx, t[:, 1] / t[:, 2] * camera.fy
        assert np.mean((t[:, 2] > 0.2) & (abs(x) < 320) & (abs(y) < 240)) > 0.8


def test_a_scene_of_other_tools_is_named_when_it_is_not_read(data: Data) -> None:
    from splat import SceneFileError

    for name, kind in (
        ("biker.spz", "SPZ"),
        ("fixtures/minimal-v2.spz", "gzip, as of SPZ"),
        ("fixtures/minimal-raw.spz", "SPZ"),
        ("fixtures/minimal.ksplat", ".ksplat"),
    ):
        with pytest.raises(SceneFileError, match=f"found {kind}, which this version does not read$"):
            Scene.load(data(f"splats/{name}"))


@pytest.mark.slow
def test_the_twins_read_the_same_scene(data: Data, python: Callable[..., object], repository: Path) -> None:
    code = f"""
import runpy
from splat import Scene
scene = Scene.load({str(data("splats/3_0"))!r})
print(runpy.run_path({str(repository / "tests" / "golden_scenes.py")!r})["scene_digest"](scene))
"""
    done = python(code, DROVEWAY_ISA="ref")
    assert done.stdout == DIGESTS["3_0"] + "\n", done.stderr

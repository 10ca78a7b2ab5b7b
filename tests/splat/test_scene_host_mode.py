"""Another library may leave a thread in flush-to-zero or round-up mode: scenes and cameras stay, and the mode stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from splat import Camera, RenderSettings, Scene, render
from splat.synthetic import warehouse, warehouse_camera


def content(scene: Scene) -> bytes:
    arrays = (scene.means, scene.log_scales, scene.quats, scene.opacities, scene.sh)
    return b"".join(array.tobytes() for array in arrays)


@pytest.mark.parametrize("kind", ["inria", "ascii", "compressed", "splat"])
def test_reading_and_writing_are_the_same(kind: str, make_ply, inria_columns, hostile_mode, tmp_path: Path) -> None:
    columns = inria_columns(50, 1)
    columns["x"][:10] *= np.float32(1e-39)
    path = tmp_path / ("a.splat" if kind == "splat" else "a.ply")
    rng = np.random.default_rng(0)
    if kind == "splat":
        rows = rng.integers(1, 255, (50, 32), np.uint8)
        rows[:, :24] = rng.uniform(0.1, 1, (50, 6)).astype("<f4").view(np.uint8)
        path.write_bytes(rows.tobytes())
    elif kind == "compressed":
        names = [f"{m}_{a}" for s in ("", "scale_") for m in ("min", "max") for a in (s + "x", s + "y", s + "z")]
        head = "ply\nformat binary_little_endian 1.0\nelement chunk 1\n"
        head += "".join(f"property float {name}\n" for name in names) + "element vertex 50\n"
        head += "".join(f"property uint packed_{name}\n" for name in ("position", "rotation", "scale", "color"))
        body = rng.normal(size=12).astype("<f4").tobytes() + rng.integers(0, 2**32, (50, 4)).astype("<u4").tobytes()
        path.write_bytes(head.encode() + b"end_header\n" + body)
    else:
        path.write_bytes(make_ply(columns, "ascii" if kind == "ascii" else "binary_little_endian"))
    expected = Scene.load(path)
    wanted = content(expected)
    with hostile_mode():
        assert content(Scene.load(path)) == wanted

    def written() -> bytes:
        expected.save(tmp_path / "b.ply")
        return (tmp_path / "b.ply").read_bytes()

    wanted = written()
    with hostile_mode():
        assert written() == wanted


def test_scenes_by_rule_and_cameras_are_the_same(hostile_mode) -> None:
    grid = np.eye(5, dtype=bool)
    scene = warehouse(grid, 0.7, 1000, 1, 3)

    def cameras() -> bytes:
        looks = [
            Camera.default(scene, 640, 360),
            warehouse_camera(grid, 0.7, 640, 360),
            Camera.look_at((0.1, 0.2, -3), (0.3, 0.1, 1), fov_y_deg=33.3, width=100, height=77),
        ]
        looks += [Camera.from_json(camera.to_json()) for camera in looks]
        return repr([(camera.to_json(), camera.position) for camera in looks]).encode()

    wanted = content(scene)
    with hostile_mode():
        assert content(warehouse(grid, 0.7, 1000, 1, 3)) == wanted
    wanted = cameras()
    with hostile_mode():
        assert cameras() == wanted


def test_pictures_are_the_same(make_cloud, hostile_mode) -> None:
    scene, camera = make_cloud(300, 3, 1), Camera.look_at((0.1, -0.3, -3), (0, 0, 0), width=61, height=40)

    def drawn() -> bytes:
        chosen = RenderSettings(background=(0.1, 1 / 3, 0.7), near=0.1, alpha_min=1 / 250, antialias=True, depth=True)
        image = render(scene, camera, chosen)
        assert image.depth is not None
        return image.digest().encode() + image.rgba.tobytes() + image.depth.tobytes()

    wanted = drawn()
    with hostile_mode():
        assert drawn() == wanted

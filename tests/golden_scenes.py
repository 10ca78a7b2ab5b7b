"""Scenes made by rule whose digests are recorded in tests/golden.toml, section [scene]."""

from __future__ import annotations

import numpy as np

import tensor
from splat import Camera, Scene
from splat.synthetic import warehouse, warehouse_camera


def racks(h: int = 10, w: int = 16) -> np.ndarray:
    """bool[h, w]: racks of five by two cells."""
    row, column = np.indices((h, w))
    return np.asarray((row % 4 < 2) & (row > 1) & (row < h - 2) & (column % 7 < 5) & (column > 1))


def scene_digest(scene: Scene) -> str:
    """One digest for all arrays of a scene."""
    arrays = (scene.means, scene.log_scales, scene.quats, scene.opacities, scene.sh)
    return tensor.digest(np.frombuffer(bytes.fromhex("".join(map(tensor.digest, arrays))), np.uint8))


def digests() -> dict[str, str]:
    """The digest of each scene, and of where its cameras stand."""
    made = {
        f"warehouse, {n} splats, degree {degree}": warehouse(racks(), 1.0, n, degree, 7)
        for n, degree in ((2000, 1), (500, 3))
    }
    found = {name: scene_digest(scene) for name, scene in made.items()}
    cameras = {name: Camera.default(scene, 640, 360) for name, scene in made.items()}
    cameras["warehouse, suggested"] = warehouse_camera(racks(), 1.0, 640, 360)
    return found | {f"camera of {name}": tensor.digest(camera.world_to_camera) for name, camera in cameras.items()}

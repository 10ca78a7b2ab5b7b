"""Small pictures whose digests are recorded in tests/golden.toml, section [pictures]."""

from __future__ import annotations

import sys

import numpy as np
from golden_scenes import racks

from splat import Camera, Image, RenderSettings, Scene, render
from splat.synthetic import warehouse, warehouse_camera
from tensor.random import Key


def cloud(n: int, degree: int, seed: int, low: float, high: float) -> Scene:
    """n splats in a cube of two, log scales from low to high; positions and sizes are sums, so no libm is used."""
    means, scales, quats, opacities, sh = Key(seed).split(5)
    turns = quats.uniform((n, 4)).numpy() - np.float32(0.5)
    w, x, y, z = turns.T
    turns /= np.sqrt((w * w + x * x) + (y * y + z * z))[:, np.newaxis]
    return Scene(
        means.uniform((n, 3)).numpy() * np.float32(2) - np.float32(1),
        scales.uniform((n, 3)).numpy() * np.float32(high - low) + np.float32(low),
        turns,
        opacities.uniform((n,)).numpy(),
        sh.uniform((n, (degree + 1) ** 2, 3)).numpy() - np.float32(0.5),
    )


def cloud_of_degree_3() -> Image:
    """Colours of degree 3, antialiased, on a background; the picture's sides are no multiples of four."""
    camera = Camera.look_at((0.4, -0.3, -3.0), (0, 0, 0), width=101, height=67)
    return render(cloud(700, 3, 1, -4.5, -1.5), camera, RenderSettings(background=(0.2, 0.5, 0.9), antialias=True))


def warehouse_of_degree_1() -> Image:
    """The scene of the demo, smaller."""
    scene = warehouse(racks(), 1.0, 1500, 1, 7)
    return render(scene, warehouse_camera(racks(), 1.0, 160, 90))


def among_splats() -> Image:
    """The camera stands among the splats: some cross the near plane, some are needles, some of e^40."""
    scene = cloud(500, 0, 3, -6.0, -1.0)
    scales = scene.log_scales.copy()
    scales[::50] = 40.0
    scene = Scene(scene.means, scales, scene.quats, scene.opacities, scene.sh)
    camera = Camera(64, 80, 40.0, 44.0, 30.0, 45.0, np.eye(4))
    return render(scene, camera, RenderSettings(background=(1, 1, 1), near=0.05, alpha_max=0.95, t_min=1e-3))


PICTURES = {
    "cloud, degree 3, antialiased, 101 x 67": cloud_of_degree_3,
    "warehouse, degree 1, 160 x 90": warehouse_of_degree_1,
    "among the splats, degree 0, 64 x 80": among_splats,
}


def digests() -> dict[str, str]:
    """The digest of each picture."""
    return {name: make().digest() for name, make in PICTURES.items()}


if __name__ == "__main__":
    for name, value in digests().items():
        sys.stdout.write(f"{name}={value}\n")

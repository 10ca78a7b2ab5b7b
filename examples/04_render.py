"""Make a splat scene from arrays, save it as .ply, and render it: the same pixels on every machine.

python examples/04_render.py [FOLDER]: writes spheres.ply and spheres.png into FOLDER (default: a new temporary one).
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from splat import Camera, RenderSettings, Scene, render
from tensor.random import Key

C0 = 0.28209479  # a colour c is stored as the harmonic (c - 0.5) / C0
BALLS = [  # centre (x right, y down, z forward), radius, colour, splats
    ((-1.5, -0.9, 0.6), 0.9, (0.86, 0.30, 0.24), 8000),
    ((0.2, -0.6, -0.4), 0.6, (0.95, 0.72, 0.22), 4000),
    ((1.6, -1.1, 0.9), 1.1, (0.20, 0.48, 0.66), 12000),
]
LIGHT = np.float32([-0.48, -0.76, -0.44])  # from the upper left, behind the viewer


def ball(number: int) -> tuple[np.ndarray, ...]:
    """Small discs on a sphere, each turned to lie on it: means, quaternions (w x y z), colours."""
    centre, radius, colour, count = BALLS[number]
    normal = Key(number).normal((count, 3)).numpy()
    normal /= np.sqrt((normal * normal)[:, [0]] + (normal * normal)[:, [1]] + (normal * normal)[:, [2]])
    x, y, z = normal.T
    turn = np.stack([1 + np.abs(z), np.where(z < 0, y, -y), np.where(z < 0, -x, x), 0 * z], axis=1)  # from +z or -z
    turn /= np.sqrt(turn[:, [0]] ** 2 + turn[:, [1]] ** 2 + turn[:, [2]] ** 2)
    lit = 0.35 + 0.65 * np.maximum(x * LIGHT[0] + y * LIGHT[1] + z * LIGHT[2], 0)
    return np.float32(centre) + np.float32(radius) * normal, turn, lit[:, None] * np.float32(colour)


def floor(side: int) -> tuple[np.ndarray, ...]:
    """A chequered floor at y = 0."""
    row, column = np.divmod(np.arange(side * side), side)
    means = np.stack([(column - side / 2) / 8, 0 * row, (row - side / 4) / 8], axis=1)
    shade = np.where((row // 8 + column // 8) % 2, 0.86, 0.70)
    return means, np.tile([0.70710678, 0.70710678, 0, 0], (len(means), 1)), np.repeat(shade[:, None], 3, axis=1)


parts = [*map(ball, range(3)), floor(112)]
means, quats, colours = (np.concatenate(arrays).astype(np.float32) for arrays in zip(*parts, strict=True))
n = len(means)
sizes = np.repeat(np.float32([[-3.2, -3.2, -6.0]]), n, axis=0)  # logarithms: thin discs,
sizes[-(112**2) :, :2] = -2.6  # larger ones on the floor
scene = Scene(means, sizes, quats, np.full(n, 0.95, np.float32), ((colours - 0.5) / np.float32(C0))[:, None])

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
folder.mkdir(parents=True, exist_ok=True)
scene.save(folder / "spheres.ply")
camera = Camera.look_at((0.6, -2.6, -5.2), (0.0, -0.7, 0.4), fov_y_deg=42, width=640, height=360)
image = render(Scene.load(folder / "spheres.ply"), camera, RenderSettings(background=(0.90, 0.93, 0.97)))
image.save(folder / "spheres.png")
print(f"{n} splats, {image.visible} of them in sight")
print(f"digest of the pixels: {image.digest()}")
print(f"picture: {folder / 'spheres.png'}")

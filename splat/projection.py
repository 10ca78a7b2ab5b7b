"""Splats become ellipses in the picture: what a camera and the settings say to the kernel, and its call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from splat import _kernels, projection_ref
from splat.projection_ref import RECORD, Tally, View
from tensor import elementary_ref, memory

if TYPE_CHECKING:
    from splat.camera import Camera
    from splat.scene import Scene
    from splat.settings import RenderSettings

REFERENCE = _kernels.isa() == "ref"
SLACK = 0.3  # how far beyond the picture's edges, in half pictures, the projection is linearised where the splat is


@dataclass(frozen=True)
class Projected:
    """The visible splats of a scene; the record of the i-th is records[slot[i]]."""

    records: NDArray[np.float32]  # [≤ n, 16] with gaps; layout: splat/projection_ref.py
    slot: NDArray[np.uint32]  # [m]
    box: NDArray[np.uint32]  # [m, 2] words 12 and 13 of the records
    z: NDArray[np.float32]  # [m] depths
    tally: Tally


def view_of(camera: Camera, settings: RenderSettings, antialiased: bool, tile_log2: int) -> View:
    """Camera and settings as float32; whatever is computed here is computed in float64 and rounded once."""
    m = [[float(value) for value in row] for row in camera.world_to_camera]
    rotation, translation = [row[:3] for row in m[:3]], [row[3] for row in m[:3]]
    half_x, half_y = 0.5 * camera.width / camera.fx, 0.5 * camera.height / camera.fy
    slopes = (
        -(camera.cx / camera.fx + SLACK * half_x),
        (camera.width - camera.cx) / camera.fx + SLACK * half_x,
        -(camera.cy / camera.fy + SLACK * half_y),
        (camera.height - camera.cy) / camera.fy + SLACK * half_y,
    )
    numbers = [
        *(value for row in rotation for value in row),
        *translation,
        *(camera.fx, camera.fy, camera.cx, camera.cy),
        *camera.position,
        *slopes,
        *(settings.near, settings.blur, faintest(settings.alpha_min)),
    ]
    antialias = antialiased if settings.antialias is None else settings.antialias
    with np.errstate(over="ignore"):
        rounded = np.array(numbers).astype(np.float32)
    return View(rounded, camera.width, camera.height, antialias, tile_log2)


def faintest(alpha_min: float) -> float:
    """log2 alpha_min as the pixels compare it, a float32."""
    logarithm = elementary_ref.log_f64(np.array([alpha_min]))[0] * elementary_ref.LOG2E64
    return float(np.float32(logarithm))


def project(scene: Scene, view: View) -> Projected:
    """The visible splats of a scene; what became of the others is in the tally."""
    arrays = (scene.means, scene.log_scales, scene.quats, scene.opacities, scene.sh)
    if REFERENCE:
        records, tally = projection_ref.project(*arrays, view)
        box = np.ascontiguousarray(records.view(np.uint32)[:, 12:14])
        z = np.ascontiguousarray(records[:, 9])
        return Projected(records, np.arange(len(records), dtype=np.uint32), box, z, tally)
    n = len(scene.means)
    records = memory.allocate((n, RECORD), np.float32, "render records")
    box = memory.allocate((n, 2), np.uint32, "render boxes")
    slot = memory.allocate((n,), np.uint32, "render slots")
    z = memory.allocate((n,), np.float32, "render depths")
    counts = _kernels.project(
        *arrays, view.numbers, view.width, view.height, view.antialias, view.tile_log2, records, box, slot, z
    )
    tally = Tally(*counts)
    m = tally.visible
    return Projected(records, slot[:m], box[:m], z[:m], tally)

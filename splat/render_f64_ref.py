"""An oracle for the rasteriser: the formulas of docs/rendering.md in plain float64, written for reading.

It shares no code with the rasteriser and uses libm and BLAS, so its last bits differ from machine to machine: good for
measuring how far our pictures are from exact ones, never for a golden value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from splat.harmonics import basis
from splat.settings import RenderSettings

if TYPE_CHECKING:
    from splat.camera import Camera
    from splat.scene import Scene

F64 = NDArray[np.float64]


def render_f64(scene: Scene, camera: Camera, settings: RenderSettings | None = None) -> F64:  # [h, w, 4]
    """Colours over the background, and alpha, in float64 and not rounded to bytes.

    >>> from splat.camera import Camera
    >>> from splat.scene import Scene
    >>> one = np.zeros((1, 3), np.float32)
    >>> scene = Scene(one, one - 2, np.float32([[1, 0, 0, 0]]), np.float32([0.8]), np.ones((1, 1, 3), np.float32))
    >>> camera = Camera.look_at(eye=(0, 0, -3), target=(0, 0, 0), width=9, height=5)
    >>> render_f64(scene, camera)[2, 4].round(4).tolist()
    [0.6257, 0.6257, 0.6257, 0.8]
    """
    settings = RenderSettings() if settings is None else settings
    with np.errstate(all="ignore"):
        splats = _project(scene, camera, settings)
    return _blend(splats, camera, settings)


def _rotations(quats: F64) -> F64:
    w, x, y, z = (quats / np.linalg.norm(quats, axis=1, keepdims=True)).T
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.moveaxis(np.array(rows), 2, 0)


def _project(scene: Scene, camera: Camera, settings: RenderSettings) -> dict[str, F64]:
    """Means, covariances, opacities, colours and depths of the splats in front of the camera, nearest first."""
    means = scene.means.astype(np.float64)
    rotation, shift = camera.world_to_camera[:3, :3], camera.world_to_camera[:3, 3]
    t = means @ rotation.T + shift
    depth = t[:, 2]
    order = np.argsort(depth, kind="stable")
    order = order[depth[order] > settings.near]
    t, depth = t[order], depth[order]
    slope_x, slope_y = t[:, 0] / depth, t[:, 1] / depth

    half_x, half_y = 0.5 * camera.width / camera.fx, 0.5 * camera.height / camera.fy
    clamped_x = np.clip(
        slope_x, -camera.cx / camera.fx - 0.3 * half_x, (camera.width - camera.cx) / camera.fx + 0.3 * half_x
    )
    clamped_y = np.clip(
        slope_y, -camera.cy / camera.fy - 0.3 * half_y, (camera.height - camera.cy) / camera.fy + 0.3 * half_y
    )
    zero = np.zeros_like(depth)
    jacobian = np.stack(
        [
            np.stack([camera.fx / depth, zero, -camera.fx * clamped_x / depth], axis=1),
            np.stack([zero, camera.fy / depth, -camera.fy * clamped_y / depth], axis=1),
        ],
        axis=1,
    )  # [n, 2, 3]
    axes = (
        _rotations(scene.quats[order].astype(np.float64)) * np.exp(scene.log_scales[order].astype(np.float64))[:, None]
    )
    spread = jacobian @ rotation @ axes
    plain = spread @ spread.transpose(0, 2, 1)
    cov = plain + settings.blur * np.eye(2)
    # of needles, xx·yy − xy² would have no digit left even here
    plain_det = (np.cross(spread[:, 0], spread[:, 1]) ** 2).sum(axis=1)
    det = plain_det + settings.blur * (plain[:, 0, 0] + plain[:, 1, 1] + settings.blur)
    opacity = scene.opacities[order].astype(np.float64)
    if scene.antialiased if settings.antialias is None else settings.antialias:
        opacity = opacity * np.sqrt(np.maximum(2.5e-5, plain_det / det))

    towards = means[order] - np.array(camera.position)
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    colour = np.einsum("nk,nkc->nc", basis(towards, scene.degree), scene.sh[order].astype(np.float64)) + 0.5
    mean = np.stack([camera.fx * slope_x + camera.cx, camera.fy * slope_y + camera.cy], axis=1)
    return {"mean": mean, "cov": cov, "det": det, "opacity": opacity, "colour": np.maximum(colour, 0), "depth": depth}


def _blend(splats: dict[str, F64], camera: Camera, settings: RenderSettings) -> F64:
    width, height = camera.width, camera.height
    transmittance, stopped = np.ones((height, width)), np.zeros((height, width), bool)
    colour = np.zeros((height, width, 3))
    centre_x, centre_y = np.arange(width) + 0.5, (np.arange(height) + 0.5)[:, None]
    for mean, cov, det, opacity, light in zip(
        *(splats[name] for name in ("mean", "cov", "det", "opacity", "colour")), strict=True
    ):
        if not (np.isfinite(mean).all() and np.isfinite(det) and det > 0 and opacity >= settings.alpha_min):
            continue
        reach = 2 * np.log(opacity / settings.alpha_min)
        half_x, half_y = np.sqrt(reach * cov[0, 0]) + 1, np.sqrt(reach * cov[1, 1]) + 1
        x0, x1 = max(0, int(max(mean[0] - half_x, 0))), int(min(mean[0] + half_x + 1, width))
        y0, y1 = max(0, int(max(mean[1] - half_y, 0))), int(min(mean[1] + half_y + 1, height))
        if x0 >= x1 or y0 >= y1:
            continue
        box = (slice(y0, y1), slice(x0, x1))
        dx, dy = centre_x[x0:x1] - mean[0], centre_y[y0:y1] - mean[1]
        q = (cov[1, 1] * dx * dx - 2 * cov[0, 1] * dx * dy + cov[0, 0] * dy * dy) / det
        alpha = np.minimum(settings.alpha_max, opacity * np.exp(-q / 2))
        hit = (alpha >= settings.alpha_min) & ~stopped[box]
        after = transmittance[box] * (1 - alpha)
        ends = hit & (after < settings.t_min)
        stopped[box] |= ends
        counts = hit & ~ends
        weight = np.where(counts, alpha * transmittance[box], 0)
        colour[box] += weight[..., None] * light
        transmittance[box] = np.where(counts, after, transmittance[box])
    out = np.empty((height, width, 4))
    out[..., :3] = colour + transmittance[..., None] * np.array(settings.background)
    out[..., 3] = 1 - transmittance
    return out

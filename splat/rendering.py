"""A scene seen by a camera: projection, one sort by depth, tiles, pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from splat.blend import blend, blend_by_twin
from splat.errors import SplatTypeError, SplatValueError, TooManyPairsError
from splat.image import Image, RenderStats
from splat.projection import REFERENCE, Projected, project, view_of
from splat.projection_ref import View
from splat.settings import RenderSettings
from splat.tiles import bin_tiles
from tensor.float_mode import plain_mode
from vector.depth import depth_order

if TYPE_CHECKING:
    from splat.camera import Camera
    from splat.scene import Scene

__all__ = ["render", "render_last"]

SIZE_MAX = 16384
PIXELS_MAX = 2**26
PAIRS_MAX = 2**26  # of splat and tile, 4 bytes each
TILE_LOG2 = 4  # tiles of 16 × 16 pixels


@plain_mode()
def render(scene: Scene, camera: Camera, settings: RenderSettings | None = None) -> Image:
    """The picture of a scene, the same bits for any number of threads and on any machine.

    scene: `splat.Scene`; camera: `splat.Camera` (pinhole); settings: `RenderSettings()` where None. docs/rendering.md
    says what is computed and in which order (Zwicker et al., "EWA splatting", 2002; Kerbl et al., "3D Gaussian
    Splatting", 2023).

    Raises SplatTypeError for other arguments; SplatValueError for pictures above 16384 pixels a side or 2^26 in all,
    its TooManyPairsError where the splats touch more than 2^26 tiles of 16 × 16 pixels together; BudgetExceeded.

    >>> from splat.camera import Camera
    >>> from splat.scene import Scene
    >>> one = np.zeros((1, 3), np.float32)
    >>> white = np.full((1, 1, 3), 1.7724539, np.float32)
    >>> scene = Scene(one, one - 2, np.float32([[1, 0, 0, 0]]), np.float32([0.8]), white)
    >>> camera = Camera.look_at(eye=(0, 0, -3), target=(0, 0, 0), width=9, height=5)
    >>> render(scene, camera).rgba[2, :, 0].tolist()
    [0, 0, 0, 51, 204, 51, 0, 0, 0]
    """
    return render_tiled(scene, camera, settings, TILE_LOG2)


@plain_mode()
def render_last(scenes: list[Scene], camera: Camera, settings: RenderSettings | None = None) -> Image:
    """`render` of the one scene in a list, for the last time: it is taken out of the list when it is projected.

    Where nobody else holds the scene, its memory is free before that of the picture is taken. Raises as `render`.
    """
    (scene,) = scenes
    settings = _checked(scene, camera, settings)
    view = view_of(camera, settings, scene.antialiased, TILE_LOG2)
    del scene
    return _drawn(scenes, view, settings)


def render_tiled(scene: Scene, camera: Camera, settings: RenderSettings | None, tile_log2: int) -> Image:
    """`render` with tiles of 2^tile_log2 pixels a side, 4 ≤ tile_log2 ≤ 10, which change nothing but `last`."""
    settings = _checked(scene, camera, settings)
    view = view_of(camera, settings, scene.antialiased, tile_log2)
    return _drawn([scene], view, settings)


def _drawn(scenes: list[Scene], view: View, settings: RenderSettings) -> Image:
    projected = project(scenes.pop(), view)
    if projected.tally.pairs > PAIRS_MAX:
        raise TooManyPairsError(_too_many(projected))
    stats, records, order = RenderStats(*projected.tally), projected.records, depth_order(projected.z)
    if REFERENCE:
        twin = blend_by_twin(records[projected.slot[order]], view, settings)
        return Image(twin[0], stats, *twin[1:])
    lists = bin_tiles(order, projected, view)
    del order, projected  # what only the lists are made from is not kept beside the picture
    done = blend(records, lists, view, settings)
    return Image(done[0], stats, *done[1:])


def _checked(scene: Scene, camera: Camera, settings: RenderSettings | None) -> RenderSettings:
    from splat.camera import Camera
    from splat.scene import Scene

    for name, value, kind in (("scene", scene, Scene), ("camera", camera, Camera)):
        if not isinstance(value, kind):
            raise SplatTypeError(f"render: {name} must be a {kind.__name__}, got {type(value).__name__}")
    settings = RenderSettings() if settings is None else settings
    if not isinstance(settings, RenderSettings):
        raise SplatTypeError(f"render: settings must be a RenderSettings, got {type(settings).__name__}")
    width, height = camera.width, camera.height
    if not (0 < width <= SIZE_MAX and 0 < height <= SIZE_MAX and width * height <= PIXELS_MAX):
        raise SplatValueError(
            f"render: a picture must have 1 to {SIZE_MAX} pixels a side and at most 2^26 in all, got {width} x {height}"
        )
    return settings


def _too_many(projected: Projected) -> str:
    boxes = projected.box.astype(np.int64)
    size = (boxes >> 16) - (boxes & 0xFFFF)  # [m, 2] columns and rows
    at = int((size[:, 0] * size[:, 1]).argmax())
    splat = int(projected.records.view(np.uint32)[projected.slot[at], 14])
    return (
        f"render: the splats touch {projected.tally.pairs} tiles together, the limit is {PAIRS_MAX}; the largest is "
        f"splat {splat}, which covers {size[at, 0]} x {size[at, 1]} pixels (hint: move the camera away from "
        "it, or drop splats of its size)"
    )

"""Records and their tile lists become pixels, front to back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from splat import _kernels, blend_ref
from splat.blend_ref import Pixels, Rules
from splat.projection import REFERENCE, Projected, faintest
from splat.projection_ref import View
from splat.tiles import bin_tiles
from tensor import memory

if TYPE_CHECKING:
    from splat.settings import RenderSettings

__all__ = ["blend", "rules_of"]


def rules_of(settings: RenderSettings) -> Rules:
    """The settings that pixels are computed with, as float32."""
    return Rules(
        np.float32(faintest(settings.alpha_min)),
        np.float32(settings.alpha_max),
        np.float32(settings.t_min),
        np.array(settings.background, np.float32),
    )


def blend(
    order: NDArray[np.uint32], projected: Projected, view: View, settings: RenderSettings
) -> tuple[
    NDArray[np.uint8], NDArray[np.float32] | None, NDArray[np.uint32] | None, NDArray[np.float32] | None
]:  # rgba, transmittance, last, depth
    """The picture, and of transmittance, last and depth what the settings ask for."""
    rules, keep, deep = rules_of(settings), settings.keep_state, settings.depth
    if REFERENCE:
        records = projected.records[projected.slot[order]]
        done: Pixels = blend_ref.blend(records, rules, view.width, view.height, view.tile_log2)
        return (
            done.rgba,
            done.transmittance if keep else None,
            done.last if keep else None,
            done.depth if deep else None,
        )
    lists = bin_tiles(order, projected, view)
    shape = (view.height, view.width)
    rgba = memory.allocate((*shape, 4), np.uint8, "render rgba")
    transmittance = memory.allocate(shape, np.float32, "render transmittance") if keep else None
    last = memory.allocate(shape, np.uint32, "render last") if keep else None
    depth = memory.allocate(shape, np.float32, "render depth") if deep else None
    numbers = np.array([rules.faintest, rules.alpha_max, rules.t_min, *rules.background], np.float32)
    _kernels.blend(
        projected.records, lists.start, lists.items, view.tile_log2, numbers, rgba, transmittance, last, depth
    )
    return rgba, transmittance, last, depth

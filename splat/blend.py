"""Records and their tile lists become pixels, front to back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from splat import _kernels, blend_ref
from splat.blend_ref import F32, Rules
from splat.projection import faintest
from splat.projection_ref import View
from splat.tiles import TileLists
from tensor import memory

if TYPE_CHECKING:
    from splat.settings import RenderSettings

__all__ = ["blend", "blend_by_twin", "rules_of"]


def rules_of(settings: RenderSettings) -> Rules:
    """The settings that pixels are computed with, as float32."""
    return Rules(
        np.float32(faintest(settings.alpha_min)),
        np.float32(settings.alpha_max),
        np.float32(settings.t_min),
        np.array(settings.background, np.float32),
    )


def blend(
    records: NDArray[np.float32], lists: TileLists, view: View, settings: RenderSettings
) -> tuple[NDArray[np.uint8], F32 | None, NDArray[np.uint32] | None, F32 | None]:
    """The picture, and of transmittance, last and depth what the settings ask for, by the kernel."""
    rules = rules_of(settings)
    shape = (view.height, view.width)
    rgba = memory.allocate((*shape, 4), np.uint8, "render rgba")
    transmittance = memory.allocate(shape, np.float32, "render transmittance") if settings.keep_state else None
    last = memory.allocate(shape, np.uint32, "render last") if settings.keep_state else None
    depth = memory.allocate(shape, np.float32, "render depth") if settings.depth else None
    numbers = np.array([rules.faintest, rules.alpha_max, rules.t_min, *rules.background], np.float32)
    _kernels.blend(records, lists.start, lists.items, view.tile_log2, numbers, rgba, transmittance, last, depth)
    return rgba, transmittance, last, depth


def blend_by_twin(
    records: NDArray[np.float32], view: View, settings: RenderSettings
) -> tuple[NDArray[np.uint8], F32 | None, NDArray[np.uint32] | None, F32 | None]:
    """The same by the twin, which takes the records in order of depth and needs no lists."""
    done = blend_ref.blend(records, rules_of(settings), view.width, view.height, view.tile_log2)
    keep = settings.keep_state
    return (
        done.rgba,
        done.transmittance if keep else None,
        done.last if keep else None,
        done.depth if settings.depth else None,
    )

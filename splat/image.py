"""A rendered picture and what is known about it."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from splat.errors import SplatTypeError, SplatValueError
from tensor.tensor_digest import digest

__all__ = ["Image", "RenderStats"]


@dataclass(frozen=True)
class RenderStats:
    """What became of the splats of a scene; all but `pairs` add up to their number."""

    visible: int  # reach at least one pixel's box
    near: int  # at the near plane, before it, or behind the camera
    not_finite: int  # NaN, infinity, or so large that float32 can't hold their size in the picture
    degenerate: int  # no width in the picture (only with blur 0)
    faint: int  # nowhere as opaque as alpha_min
    outside: int  # in front of the camera, beside the picture
    pairs: int  # of a visible splat and a tile that it touches


@dataclass(frozen=True, eq=False, repr=False)
class Image:
    """A picture; row 0 is the top one.

    `rgba`: colours over the background, not multiplied again by alpha; alpha = 1 − transmittance. With
    RenderSettings(keep_state=True) also the transmittance left at each pixel and the place of the last splat that
    counted in its tile's list, from 1 (0: none); with depth=True the depth t_z of the splat that takes the
    transmittance below one half (infinity where none does).

    >>> picture = Image(np.zeros((2, 3, 4), np.uint8), RenderStats(0, 0, 0, 0, 0, 0, 0))
    >>> picture
    Image(3 × 2 pixels, 0 splats)
    """

    rgba: NDArray[np.uint8]  # [h, w, 4]
    stats: RenderStats
    transmittance: NDArray[np.float32] | None = None  # [h, w]
    last: NDArray[np.uint32] | None = None  # [h, w]
    depth: NDArray[np.float32] | None = None  # [h, w]

    def __post_init__(self) -> None:
        rgba = self.rgba
        if not isinstance(rgba, np.ndarray) or rgba.dtype != np.uint8:
            got = rgba.dtype if isinstance(rgba, np.ndarray) else type(rgba).__name__
            raise SplatTypeError(f"Image: rgba must be uint8[h, w, 4], got {got}")
        if rgba.ndim != 3 or rgba.shape[2] != 4 or 0 in rgba.shape:
            raise SplatValueError(f"Image: rgba must be uint8[h, w, 4], got uint8{list(rgba.shape)}")

    @property
    def width(self) -> int:
        """Pixels in a row."""
        return int(self.rgba.shape[1])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.rgba.shape[0])

    @property
    def visible(self) -> int:
        """How many splats the camera sees; 0 means that the picture is background alone."""
        return self.stats.visible

    def __repr__(self) -> str:
        extras = [f", {name}" for name in ("transmittance", "last", "depth") if getattr(self, name) is not None]
        return f"Image({self.width} × {self.height} pixels, {self.visible} splats{''.join(extras)})"

    def digest(self) -> str:
        """`tensor.digest` of rgba: 64 hex digits, the same for the same picture on every machine."""
        return digest(self.rgba)

    def save(self, path: str | os.PathLike[str], *, alpha: bool = False) -> None:
        """Write an 8-bit PNG, red, green and blue, and with alpha=True alpha too; a file of that name is replaced.

        The pixels of the file are promised, not its bytes (they depend on the version of zlib). Raises SplatValueError
        for a name that doesn't end in .png, and OSError.
        """
        from splat.png import write_png

        write_png(path, self.rgba if alpha else self.rgba[:, :, :3])

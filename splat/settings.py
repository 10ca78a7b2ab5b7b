"""What a picture is drawn with, beside the scene and the camera."""

from __future__ import annotations

import math
from dataclasses import dataclass

from splat.errors import SplatTypeError, SplatValueError

ALPHA_MIN_LOWEST = 2.0**-16  # below it, float32 can't tell a splat's edge from its rounding


@dataclass(frozen=True)
class RenderSettings:
    """Rules of a picture; the defaults are those of the 3DGS renderer, the formulas stand in docs/rendering.md.

    `background`: red, green, blue behind everything, 0 to 1. `antialias`: dim a splat by what `blur` widened it; None:
    as the scene says. `near`: splats at this depth or before it are left out, in units of the scene. `blur`: added to a
    splat's variance along x and y, in square pixels. `alpha_max`: no splat covers more of a pixel than this;
    `alpha_min`: where it covers less, it covers nothing. `t_min`: a pixel is done before less than this of what lies
    behind would shine through. `keep_state`, `depth`: also give Image.transmittance and Image.last, or Image.depth.

    Raises SplatTypeError for a value of another type, SplatValueError for one out of its range.

    >>> RenderSettings(background=(1, 1, 1)).background
    (1.0, 1.0, 1.0)
    >>> RenderSettings(alpha_max=1.0)
    Traceback (most recent call last):
        ...
    splat.errors.SplatValueError: RenderSettings: alpha_max must be above alpha_min and at most 1 - 2^-10, got 1.0
    """

    background: tuple[float, float, float] = (0.0, 0.0, 0.0)  # red, green, blue behind everything, 0..1
    antialias: bool | None = None  # dim a splat by what `blur` widened it; None: as the scene says
    near: float = 0.2  # splats at this depth or before it are left out, scene units
    blur: float = 0.3  # added to a splat's variance along x and y, square pixels
    alpha_max: float = 0.99  # no splat covers more than this
    alpha_min: float = 1 / 255  # where a splat covers less, it covers nothing
    t_min: float = 1e-4  # a pixel stops before its transmittance would fall below this
    keep_state: bool = False  # also give Image.transmittance and Image.last
    depth: bool = False  # also give Image.depth

    def __post_init__(self) -> None:
        background = self.background
        if not isinstance(background, (tuple, list)) or len(background) != 3:
            raise SplatTypeError(f"RenderSettings: background must be three numbers, got {background!r}")
        object.__setattr__(self, "background", tuple(_number("background", value) for value in background))
        for name in ("near", "blur", "alpha_max", "alpha_min", "t_min"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        for name in ("keep_state", "depth", "antialias"):
            value = getattr(self, name)
            if not isinstance(value, bool) and not (name == "antialias" and value is None):
                wanted = "True, False or None" if name == "antialias" else "True or False"
                raise SplatTypeError(f"RenderSettings: {name} must be {wanted}, got {value!r}")
        _within("background", "three numbers from 0 to 1", self.background, all(0 <= c <= 1 for c in self.background))
        _within("near", "from 1e-6 to 1e6", self.near, 1e-6 <= self.near <= 1e6)
        _within("blur", "from 0 to 1e4", self.blur, 0 <= self.blur <= 1e4)
        low = ALPHA_MIN_LOWEST
        _within("alpha_min", "from 2^-16 to below 1", self.alpha_min, low <= self.alpha_min < 1)
        fits = self.alpha_min < self.alpha_max <= 1 - 2.0**-10
        _within("alpha_max", "above alpha_min and at most 1 - 2^-10", self.alpha_max, fits)
        _within("t_min", "from 2^-24 to below 1", self.t_min, 2.0**-24 <= self.t_min < 1)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not hasattr(type(value), "__float__") or isinstance(value, complex):
        raise SplatTypeError(f"RenderSettings: {name} must be a number, got {value!r}")
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):  # an array of several numbers, or of one
        raise SplatTypeError(f"RenderSettings: {name} must be a number, got {value!r}") from None
    if not math.isfinite(number):
        raise SplatValueError(f"RenderSettings: {name} must be finite, got {number}")
    return number


def _within(name: str, wanted: str, value: object, holds: bool) -> None:
    if not holds:
        raise SplatValueError(f"RenderSettings: {name} must be {wanted}, got {value}")

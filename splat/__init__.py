"""Gaussian-splat scenes: files, cameras, and pictures with the same bits on every machine.

Importing this package loads no numpy; the modules that compute do, when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tensor._source_folder import load_kernels

if TYPE_CHECKING:
    from splat.camera import Camera
    from splat.errors import SceneFileError, SplatError, SplatTypeError, SplatValueError, TooManyPairsError
    from splat.image import Image, RenderStats
    from splat.rendering import render
    from splat.scene import Scene
    from splat.settings import RenderSettings

_kernels = load_kernels("splat")

# Public name → module that defines it.
_HOMES = {
    "Camera": "camera",
    "Image": "image",
    "RenderSettings": "settings",
    "RenderStats": "image",
    "Scene": "scene",
    "SceneFileError": "errors",
    "SplatError": "errors",
    "SplatTypeError": "errors",
    "SplatValueError": "errors",
    "TooManyPairsError": "errors",
    "render": "rendering",
}

__all__ = [
    "Camera",
    "Image",
    "RenderSettings",
    "RenderStats",
    "Scene",
    "SceneFileError",
    "SplatError",
    "SplatTypeError",
    "SplatValueError",
    "TooManyPairsError",
    "build_info",
    "render",
]


def build_info() -> dict[str, object]:
    """How this build computes: instruction set and compiler.

    >>> sorted(build_info())
    ['compiler', 'isa']
    """
    return {"isa": _kernels.isa(), "compiler": _kernels.compiler()}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value = getattr(import_module(f"splat.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'splat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""Lossless WebP images as the bytes that were stored; their size is known before anything is decoded.

Only the container is read here, to refuse what must not be decoded; Pillow decodes, and is imported only then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat.errors import SceneFileError

_ANIMATION = 0x02  # flag of VP8X


def webp_size(data: bytes, path: object, name: str) -> tuple[int, int]:
    """(width, height) of a lossless WebP image. Raises SceneFileError for anything else, and for one that is cut."""

    def refuse(found: str) -> SceneFileError:
        return SceneFileError(path, None, name, "a lossless WebP image", found)

    if len(data) < 21 or data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        raise refuse(f"{len(data)} bytes that begin with {data[:4]!r}")
    size = int.from_bytes(data[4:8], "little") + 8
    if size > len(data):
        raise refuse(f"{len(data)} of {size} bytes")
    at = 12
    while at + 8 <= size:
        kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        body = data[at + 8 : at + 8 + min(length, 16)]
        if at + 8 + length > size:
            break
        if kind == b"VP8X" and body and body[0] & _ANIMATION:
            raise refuse("an animation")
        if kind == b"VP8 ":
            raise refuse("a lossy one")
        if kind == b"VP8L":
            if length < 5 or body[0] != 0x2F:
                break
            bits = int.from_bytes(body[1:5], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        at += 8 + length + length % 2
    raise refuse("one without a VP8L part")


def webp_pixels(data: bytes, path: object, name: str) -> NDArray[np.uint8]:
    """uint8[width · height, 4], R G B A row by row, A = 255 where the image has none. Raises SceneFileError."""
    import io

    from PIL import Image, WebPImagePlugin, features

    if not features.check("webp"):
        raise SceneFileError(path, None, name, "a Pillow that decodes WebP", "one that does not")
    size = webp_size(data, path, name)
    try:
        with WebPImagePlugin.WebPImageFile(io.BytesIO(data)) as image:  # Image.open would load all formats: 3 MB
            image.load()
            pixels: NDArray[Any] = np.asarray(image if image.mode == "RGBA" else image.convert("RGBA"))
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise SceneFileError(path, None, name, "a WebP image that can be decoded", error) from None
    if pixels.shape != (size[1], size[0], 4):
        raise SceneFileError(
            path, None, name, f"{size[0]} × {size[1]} pixels", f"{pixels.shape[1]} × {pixels.shape[0]}"
        )
    return pixels.reshape(-1, 4)

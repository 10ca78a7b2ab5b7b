"""Writes 8-bit PNG files (W3C PNG, third edition) over zlib."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from splat.errors import SplatValueError
from splat.whole_write import whole_write

_BAND = 64  # rows filtered at a time
_COLOUR_TYPE = {3: 2, 4: 6}  # truecolour, truecolour with alpha
_LEVEL = 6


def write_png(path: str | os.PathLike[str], pixels: NDArray[np.uint8]) -> None:
    """Write uint8[h, w, 3] or [h, w, 4] to a .png file, which appears under its name when it is complete.

    Raises SplatValueError for a name that does not end in .png, and OSError.
    """
    target = Path(path)
    if target.suffix.lower() != ".png":
        raise SplatValueError(f"Image.save: {target}: pictures are written as .png (hint: {target.stem}.png)")
    with whole_write(target) as file:
        for piece in _file(pixels):
            file.write(piece)


def _file(pixels: NDArray[np.uint8]) -> Iterator[bytes]:
    height, width, channels = pixels.shape
    yield b"\x89PNG\r\n\x1a\n"
    yield _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPE[channels], 0, 0, 0))
    yield _chunk(b"sRGB", b"\0")
    stream = zlib.compressobj(_LEVEL)
    for first in range(0, height, _BAND):
        yield from _data(stream.compress(_filtered(pixels, first)))
    yield from _data(stream.flush())
    yield _chunk(b"IEND", b"")


def _data(compressed: bytes) -> Iterator[bytes]:
    if compressed:
        yield _chunk(b"IDAT", compressed)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(kind)))


def _filtered(pixels: NDArray[np.uint8], first: int) -> bytes:
    """A band of rows, each by the one of the filters None, Sub, Up whose differences are smallest."""
    channels = pixels.shape[2]
    band = pixels[first : first + _BAND]
    rows = band.reshape(len(band), -1)
    left, above = np.zeros_like(rows), np.zeros_like(rows)
    left[:, channels:] = rows[:, :-channels]
    above[1:] = rows[:-1]
    if first > 0:
        above[0] = pixels[first - 1].reshape(-1)
    choices = np.stack([rows, rows - left, rows - above])
    cost = np.abs(choices.view(np.int8).astype(np.int16)).sum(axis=2, dtype=np.int64)
    best = cost.argmin(axis=0)
    out = np.empty((len(rows), rows.shape[1] + 1), np.uint8)
    out[:, 0] = best
    out[:, 1:] = choices[best, np.arange(len(rows))]
    return out.tobytes()

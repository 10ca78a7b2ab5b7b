"""SOG, version 2: splats as pixels of lossless WebP images. Page: docs/formats/sog.md.

Images are decoded one by one and freed; spherical harmonics come from a palette.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from splat.errors import SceneFileError
from splat.scene_checks import BLOCK, SplatArrays, allocate_arrays
from splat.sog_container import SogContainer, SogFolder, SogZip
from splat.sog_meta import Palette, SogMeta, read_meta
from splat.source_file import SourceFile
from splat.webp import webp_pixels, webp_size
from tensor import elementary, memory

U8 = NDArray[np.uint8]
F64 = NDArray[np.float64]

SPLATS_PER_BYTE_MAX = 1024  # a scene takes some 20 bytes a splat; more than this is no scene but a bomb
SPARE_PIXELS = 65536
PALETTE_COLUMNS = 64
_ROOT_2 = 1.4142135623730951
_QUATERNION_TAG = 252


def read_sog_folder(path: Path) -> tuple[SplatArrays, bool]:
    """The splats of a folder, and whether it asks for antialiasing. Raises SceneFileError."""
    return _read(SogFolder(path))


def read_sog_zip(source: SourceFile) -> tuple[SplatArrays, bool]:
    """The splats of an open .sog file, and whether it asks for antialiasing. Raises SceneFileError."""
    with SogZip(source) as container:
        return _read(container)


def _read(container: SogContainer) -> tuple[SplatArrays, bool]:
    meta = read_meta(container)
    _check_images(container, meta)
    entries = _entries(container, meta.palette) if meta.palette else None  # its image takes most: before the arrays
    arrays = allocate_arrays(meta.count, meta.palette.bands if meta.palette else 0)
    _means(container, meta, arrays)
    scales, colors = _float32(meta.scales_codebook), _float32(meta.sh0_codebook)
    pixels = _pixels(container, meta.scales, meta.count)
    for part in _blocks(meta.count):
        arrays.log_scales[part] = scales[pixels[part, :3]]
    pixels = _pixels(container, meta.quats, meta.count)
    _check_tags(container, meta.quats, pixels)
    for part in _blocks(meta.count):
        arrays.quats[part] = _quaternions(pixels[part])
    pixels = _pixels(container, meta.sh0, meta.count)
    for part in _blocks(meta.count):
        arrays.sh[part, 0] = colors[pixels[part, :3]]
        arrays.opacities[part] = pixels[part, 3] / 255.0
    if meta.palette and entries is not None:
        _harmonics(container, meta.palette, entries, arrays)
    return arrays, meta.antialiased


def _check_images(container: SogContainer, meta: SogMeta) -> None:
    """All images are there, lossless, and of a size that fits: before anything is allocated for splats."""
    names = [meta.means_l, meta.means_u, meta.scales, meta.quats, meta.sh0]
    if meta.palette:
        names.append(meta.palette.labels)
    total = 0
    for name in names:
        data = container.read(name, _image_bytes_max(meta.count))
        _check_area(container, name, webp_size(data, container.path, name), meta.count)
        total += len(data)
    if meta.count > SPLATS_PER_BYTE_MAX * total:
        raise SceneFileError(
            container.path, None, "meta.json, count",
            f"at most {SPLATS_PER_BYTE_MAX} splats for each of the {total} bytes of the images", meta.count,
        )  # fmt: skip
    if meta.palette:
        palette, name = meta.palette, meta.palette.centroids
        width, rows = PALETTE_COLUMNS * palette.coefficients, -(-palette.count // PALETTE_COLUMNS)
        data = container.read(name, _image_bytes_max(width * rows))
        size = webp_size(data, container.path, name)
        if size[0] != width or size[1] < rows:
            raise SceneFileError(container.path, None, name, f"{width} × {rows} pixels", f"{size[0]} × {size[1]}")
        _check_area(container, name, size, width * rows)


def _image_bytes_max(pixels: int) -> int:
    return 4 * (4 * pixels + SPARE_PIXELS) + 65536


def _check_area(container: SogContainer, name: str, size: tuple[int, int], wanted: int) -> None:
    area, most = size[0] * size[1], 4 * wanted + SPARE_PIXELS
    if not wanted <= area <= most:
        raise SceneFileError(
            container.path, None, name, f"{wanted} to {most} pixels", f"{size[0]} × {size[1]} = {area}"
        )


def _pixels(container: SogContainer, name: str, count: int) -> U8:
    return webp_pixels(container.read(name, _image_bytes_max(count)), container.path, name)[:count]


def _float32(codebook: F64) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return codebook.astype(np.float32)


def _blocks(count: int) -> list[slice]:
    return [slice(first, min(first + BLOCK, count)) for first in range(0, count, BLOCK)]


def _means(container: SogContainer, meta: SogMeta, arrays: SplatArrays) -> None:
    low = _pixels(container, meta.means_l, meta.count)
    high = _pixels(container, meta.means_u, meta.count)
    mins, maxs = np.array(meta.mins), np.array(meta.maxs)
    with np.errstate(over="ignore"):
        for part in _blocks(meta.count):
            u = (low[part, :3] + 256.0 * high[part, :3]) / 65535.0
            t = np.where(mins == maxs, mins, mins * (1.0 - u) + maxs * u)
            size = np.abs(t)
            elementary.exp(size, out=size)
            arrays.means[part] = np.copysign(size - 1.0, t)


def _check_tags(container: SogContainer, name: str, pixels: U8) -> None:
    bad = pixels[:, 3] < _QUATERNION_TAG
    if bad.any():
        i = int(np.argmax(bad))
        raise SceneFileError(
            container.path, None, f"{name}, A of splat {i}", f"{_QUATERNION_TAG} to 255", int(pixels[i, 3])
        )


def _quaternions(pixels: U8) -> F64:
    three = (pixels[:, :3] / 255.0 - 0.5) * _ROOT_2
    square = (three[:, 0] * three[:, 0] + three[:, 1] * three[:, 1]) + three[:, 2] * three[:, 2]
    largest = np.sqrt(np.maximum(0.0, 1.0 - square))
    out, tag = np.empty((len(pixels), 4)), pixels[:, 3] - _QUATERNION_TAG
    for i in range(4):
        of = tag == i
        out[of, i] = largest[of]
        for column, j in enumerate(j for j in range(4) if j != i):
            out[of, j] = three[of, column]
    return out


def _entries(container: SogContainer, palette: Palette) -> U8:
    """uint8[rows of the palette, coefficients, 3], as bytes: a quarter of what their values would take."""
    k, rows = palette.coefficients, -(-palette.count // PALETTE_COLUMNS)
    pixels = _pixels(container, palette.centroids, PALETTE_COLUMNS * k * rows)
    memory.give_back()  # decoding took several times its size
    return pixels[:, :3].reshape(rows * PALETTE_COLUMNS, k, 3)


def _harmonics(container: SogContainer, palette: Palette, entries: U8, arrays: SplatArrays) -> None:
    """Coefficients 1 … of each splat: a row of the palette."""
    codebook = _float32(palette.codebook)
    pixels = _pixels(container, palette.labels, len(arrays))
    for part in _blocks(len(arrays)):
        labels = pixels[part, 0] + 256 * pixels[part, 1].astype(np.int64)
        bad = labels >= palette.count
        if bad.any():
            i = int(np.argmax(bad))
            raise SceneFileError(
                container.path, None, f"{palette.labels}, label of splat {part.start + i}",
                f"less than {palette.count}, the count of shN", int(labels[i]),
            )  # fmt: skip
        arrays.sh[part, 1:] = codebook[entries[labels]]

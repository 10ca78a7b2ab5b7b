"""Compressed .ply: 16 bytes a splat, in chunks of 256 with their bounds. Page: docs/formats/compressed-ply.md."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat.errors import SceneFileError
from splat.harmonics import C0
from splat.inria_ply import DEGREE_OF_REST, rest_columns
from splat.ply import Element, PlyFile, require_rows
from splat.scene_checks import SplatArrays, allocate_arrays

F64 = NDArray[np.float64]
U32 = NDArray[np.uint32]

CHUNK = 256
PACKED = ("packed_position", "packed_rotation", "packed_scale", "packed_color")
MEAN_BOUNDS = ("min_x", "min_y", "min_z", "max_x", "max_y", "max_z")
SCALE_BOUNDS = ("min_scale_x", "min_scale_y", "min_scale_z", "max_scale_x", "max_scale_y", "max_scale_z")
COLOR_BOUNDS = ("min_r", "min_g", "min_b", "max_r", "max_g", "max_b")
_ROOT_2 = 1.4142135623730951


def is_compressed_ply(ply: PlyFile) -> bool:
    """Whether the header is that of a compressed PLY file."""
    vertex = ply.element("vertex")
    return ply.element("chunk") is not None or (vertex is not None and PACKED[0] in vertex.properties)


def read_compressed_ply(ply: PlyFile) -> SplatArrays:
    """The splats of an open compressed PLY file.

    Raises SceneFileError: elements or properties that are missing or of another type, a number of chunks or of sh rows
    that does not fit the number of vertices.
    """
    chunk, vertex = _element(ply, "chunk", "f"), _element(ply, "vertex", "u4")
    _require(ply, chunk, MEAN_BOUNDS + SCALE_BOUNDS)
    _require(ply, vertex, PACKED)
    _expect_count(ply, chunk, -(-vertex.count // CHUNK), f"one for each {CHUNK} of {vertex.count} vertices")
    rest: tuple[str, ...] = ()
    if ply.element("sh") is not None:
        sh = _element(ply, "sh", "u1")
        rest = rest_columns(ply, sh)
        _expect_count(ply, sh, vertex.count, "one for each vertex")
    colored = any(name in chunk.properties for name in COLOR_BOUNDS)
    if colored:
        _require(ply, chunk, COLOR_BOUNDS)
    degree = DEGREE_OF_REST[len(rest)]
    arrays = allocate_arrays(vertex.count, degree)
    means, scales = _bounds(ply, chunk, MEAN_BOUNDS), _bounds(ply, chunk, SCALE_BOUNDS)
    colors = _bounds(ply, chunk, COLOR_BOUNDS) if colored else None
    with np.errstate(over="ignore", invalid="ignore"):
        for first, rows in ply.rows("vertex"):
            part, of_chunk = slice(first, first + len(rows)), np.arange(first, first + len(rows)) // CHUNK
            arrays.means[part] = _lerp(_unit(rows["packed_position"], (11, 10, 11)), means, of_chunk)
            arrays.log_scales[part] = _lerp(_unit(rows["packed_scale"], (11, 10, 11)), scales, of_chunk)
            arrays.quats[part] = _rotation(rows["packed_rotation"])
            rgba = _unit(rows["packed_color"], (8, 8, 8, 8))
            rgb = rgba[:, :3] if colors is None else _lerp(rgba[:, :3], colors, of_chunk)
            arrays.sh[part, 0] = (rgb - 0.5) / C0
            arrays.opacities[part] = rgba[:, 3]
        if rest:
            values = _sh_values()
            for first, rows in ply.rows("sh"):
                part = slice(first, first + len(rows))
                for i, name in enumerate(rest):  # channel-major, as in INRIA .ply
                    channel, k = divmod(i, len(rest) // 3)
                    arrays.sh[part, 1 + k, channel] = values[rows[name]]
    return arrays


def _element(ply: PlyFile, name: str, kind: str) -> Element:
    """The element, all of whose known properties have the type: "f" any float, "u4", "u1"."""
    element = ply.element(name)
    if element is None:
        raise SceneFileError(ply.source.path, None, "header", f"an element {name} (compressed PLY)", "none")
    require_rows(ply, element)
    assert element.dtype is not None
    wanted = {"f": "float or double", "u4": "uint", "u1": "uchar"}[kind]
    known = {*PACKED, *MEAN_BOUNDS, *SCALE_BOUNDS, *COLOR_BOUNDS}
    for key in element.properties:
        if (key in known or key.startswith("f_rest_")) and not element.dtype[key].str[1:].startswith(kind):
            raise SceneFileError(
                ply.source.path,
                None,
                f"element {name}, {key}",
                f"type {wanted}",
                f"another ({element.dtype[key]})",
            )
    return element


def _require(ply: PlyFile, element: Element, names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in element.properties]
    if missing:
        raise SceneFileError(
            ply.source.path, None, f"element {element.name}", f"the properties {', '.join(names)}",
            f"none named {', '.join(missing)}",
        )  # fmt: skip


def _expect_count(ply: PlyFile, element: Element, wanted: int, why: str) -> None:
    if element.count != wanted:
        raise SceneFileError(ply.source.path, None, f"element {element.name}", f"{wanted} rows ({why})", element.count)


def _bounds(ply: PlyFile, chunk: Element, names: tuple[str, ...]) -> F64:
    """float64[chunks, 6]: three minima, three maxima."""
    table = np.empty((chunk.count, 6), np.float64)
    for first, rows in ply.rows("chunk"):
        for i, name in enumerate(names):
            table[first : first + len(rows), i] = rows[name]
    return table


def _unit(words: U32, bits: tuple[int, ...]) -> F64:
    """Fields of a word, the first one highest, each divided by its largest value. [n] → float64[n, fields]."""
    out, shift = np.empty((len(words), len(bits)), np.float64), 32
    for i, width in enumerate(bits):
        shift -= width
        mask = (1 << width) - 1
        out[:, i] = (words >> np.uint32(shift)) & np.uint32(mask)
        out[:, i] /= mask
    return out


def _lerp(t: F64, bounds: F64, of_chunk: NDArray[np.int64]) -> F64:
    low, high = bounds[of_chunk, :3], bounds[of_chunk, 3:]
    mixed: F64 = low * (1.0 - t) + high * t
    return mixed


def _rotation(words: U32) -> NDArray[np.float32]:
    """Quaternions w x y z: the largest one is left out and positive, the others take 10 bits each."""
    three = (_unit(words & np.uint32(0x3FFFFFFF), (2, 10, 10, 10))[:, 1:] - 0.5) * _ROOT_2
    square = (three[:, 0] * three[:, 0] + three[:, 1] * three[:, 1]) + three[:, 2] * three[:, 2]
    largest = np.sqrt(np.maximum(0.0, 1.0 - square))
    index = (words >> np.uint32(30)).astype(np.int64)
    out = np.empty((len(words), 4), np.float32)
    for i in range(4):
        others = [j for j in range(4) if j != i]
        of = index == i
        out[of, i] = largest[of]
        for column, j in enumerate(others):
            out[of, j] = three[of, column]
    return out


def _sh_values() -> NDArray[np.float32]:
    """What each of the 256 bytes of an sh coefficient stands for."""
    b: NDArray[Any] = np.arange(256, dtype=np.float64)
    unit = (b + 0.5) / 256
    unit[0], unit[255] = 0.0, 1.0
    return ((unit - 0.5) * 8.0).astype(np.float32)

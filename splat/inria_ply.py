"""INRIA .ply: a float column for each parameter, as 3DGS and other tools write it; see docs/formats/inria-ply.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from splat.activation import logit, sigmoid
from splat.errors import SceneFileError
from splat.harmonics import coefficient_count
from splat.ply import Element, PlyFile, require_rows
from splat.scene_checks import BLOCK, SplatArrays, allocate_arrays
from splat.whole_write import whole_write

if TYPE_CHECKING:
    from splat.scene import Scene

MEANS = ("x", "y", "z")
NORMALS = ("nx", "ny", "nz")
DC = ("f_dc_0", "f_dc_1", "f_dc_2")
SCALES = ("scale_0", "scale_1", "scale_2")
ROTATION = ("rot_0", "rot_1", "rot_2", "rot_3")
REQUIRED = (*MEANS, *DC, "opacity", *SCALES, *ROTATION)
DEGREE_OF_REST = {0: 0, 9: 1, 24: 2, 45: 3}


def read_inria_ply(ply: PlyFile) -> SplatArrays:
    """The splats of an open PLY file. Columns are taken by name, in any order; others are not looked at.

    Raises SceneFileError: no element vertex, columns that are missing or no floats, an impossible number of f_rest.
    """
    element = _vertex(ply)
    rest = rest_columns(ply, element)
    degree = DEGREE_OF_REST[len(rest)]
    arrays = allocate_arrays(element.count, degree)
    with np.errstate(over="ignore", invalid="ignore"):
        for first, rows in ply.rows("vertex"):
            part = slice(first, first + len(rows))
            _columns(rows, MEANS, arrays.means[part])
            _columns(rows, SCALES, arrays.log_scales[part])
            _columns(rows, ROTATION, arrays.quats[part])
            arrays.opacities[part] = sigmoid(rows["opacity"].astype(np.float64))
            _columns(rows, DC, arrays.sh[part, 0])
            for i, name in enumerate(rest):  # channel-major: all of red, then green, then blue
                channel, k = divmod(i, len(rest) // 3)
                arrays.sh[part, 1 + k, channel] = rows[name]
    return arrays


def rest_columns(ply: PlyFile, element: Element) -> tuple[str, ...]:
    """The names f_rest_0 …, in order. Raises SceneFileError for a number that fits no degree, or a gap."""
    found = [name for name in element.properties if re.fullmatch(r"f_rest_[0-9]{1,9}", name)]
    names = tuple(f"f_rest_{i}" for i in range(len(found)))
    where = f"element {element.name}, f_rest"
    if len(found) not in DEGREE_OF_REST:
        raise SceneFileError(ply.source.path, None, where, "0, 9, 24 or 45 properties", len(found))
    if set(found) != set(names):
        gap = next(name for name in names if name not in found)
        raise SceneFileError(ply.source.path, None, where, f"{names[0]} to {names[-1]}", f"none named {gap}")
    return names


def _vertex(ply: PlyFile) -> Element:
    """The element, with all columns there and of a float type."""
    path, element = ply.source.path, ply.element("vertex")
    if element is None:
        names = ", ".join(other.name for other in ply.elements) or "none"
        raise SceneFileError(path, None, "header", "an element vertex", names)
    require_rows(ply, element)
    missing = [name for name in REQUIRED if name not in element.properties]
    if missing:
        raise SceneFileError(
            path, None, "element vertex", f"the properties of Gaussian splats ({', '.join(REQUIRED)})",
            f"none named {', '.join(missing)}{'' if 'f_dc_0' in element.properties else ': a point cloud or a mesh?'}",
        )  # fmt: skip
    assert element.dtype is not None
    for name in element.properties:
        kind = element.dtype[name].kind
        if kind != "f" and (name in REQUIRED or name.startswith("f_rest_")):
            raise SceneFileError(
                path,
                None,
                f"element vertex, {name}",
                "type float or double",
                f"an integer ({element.dtype[name]})",
            )
    return element


def _columns(rows: NDArray[Any], names: Sequence[str], out: NDArray[np.float32]) -> None:
    for i, name in enumerate(names):
        out[:, i] = rows[name]


def header(scene: Scene) -> tuple[bytes, np.dtype[Any]]:
    """The header that `write_inria_ply` writes, and the record of a row."""
    count = 3 * (coefficient_count(scene.degree) - 1)
    names = (*MEANS, *NORMALS, *DC, *(f"f_rest_{i}" for i in range(count)), "opacity", *SCALES, *ROTATION)
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {len(scene)}"]
    lines += [f"property float {name}" for name in names]
    return "\n".join([*lines, "end_header", ""]).encode("ascii"), np.dtype([(name, "<f4") for name in names])


def write_inria_ply(scene: Scene, path: Path) -> None:
    """Write an INRIA .ply file, which appears under its name when it is complete. Raises OSError."""
    with whole_write(path) as stream:
        _write(scene, stream)


def _write(scene: Scene, stream: Any) -> None:
    text, record = header(scene)
    stream.write(text)
    bands = coefficient_count(scene.degree) - 1
    for first in range(0, len(scene), BLOCK):
        part = slice(first, first + BLOCK)
        rows = np.zeros(len(scene.means[part]), record)
        for names, values in ((MEANS, scene.means), (SCALES, scene.log_scales), (ROTATION, scene.quats)):
            for i, name in enumerate(names):
                rows[name] = values[part, i]
        rows["opacity"] = logit(scene.opacities[part])
        for channel, name in enumerate(DC):
            rows[name] = scene.sh[part, 0, channel]
            for k in range(bands):
                rows[f"f_rest_{channel * bands + k}"] = scene.sh[part, 1 + k, channel]
        stream.write(rows.data.cast("B") if len(rows) else b"")

"""Cells of the plane and space, and their 24-byte JCK1 keys (docs/formats/cell-key.md)."""

from __future__ import annotations

import math
import struct
from collections.abc import MutableSequence
from dataclasses import dataclass

from coord.errors import CellError
from tensor.float_mode import plain_mode

COORD_CELL_KEY_BYTES = 24
COORD_CELL_NEIGHBOR_COUNT = 9
_KEY = struct.Struct(">4sHBBIIII")
_SIGN = 0x80000000
_I32_MIN, _I32_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CoordCell:
    """A cell; ordering is that of the keys: layer, level, map, y, x, z.

    >>> CoordCell(layer=2, level=1, map_id=7, y=-1, x=5) < CoordCell(layer=2, level=1, map_id=7, y=0, x=0)
    True
    """

    layer: int = 0
    level: int = 0
    map_id: int = 0
    y: int = 0
    x: int = 0
    z: int = 0

    def __post_init__(self) -> None:
        limits = {"layer": (0, 0xFFFF), "level": (0, 0xFF), "map_id": (0, 0xFFFFFFFF)}
        for name in ("layer", "level", "map_id", "y", "x", "z"):
            low, high = limits.get(name, (_I32_MIN, _I32_MAX))
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise CellError(f"CoordCell.{name} must be a whole number from {low} to {high}, got {value!r}")


@plain_mode()
def cell_from_units(value: float, size: float) -> int:
    """floor(value / size) in float64: the index of the cell that holds a coordinate.

    >>> cell_from_units(-0.5, 1.0)
    -1
    """
    if not (math.isfinite(value) and math.isfinite(size) and size > 0):
        raise CellError(f"cell_from_units: value must be finite and size positive, got {value!r} and {size!r}")
    index = value / size
    if not _I32_MIN <= index < _I32_MAX + 1:
        raise CellError(f"cell_from_units: {value!r} / {size!r} lies outside the i32 range of a cell index")
    return math.floor(index)


def coord_cell_equal(a: CoordCell, b: CoordCell) -> bool:
    """Whether two cells are the same in all six parts."""
    return a == b


def coord_cell_neighbor(cell: CoordCell, index: int) -> CoordCell:
    """Neighbour 0..8: dy from -1 to 1 outer, dx from -1 to 1 inner, so 4 is the cell itself; an edge is an error.

    >>> coord_cell_neighbor(CoordCell(x=5, y=5), 0)
    CoordCell(layer=0, level=0, map_id=0, y=4, x=4, z=0)
    """
    if not 0 <= index < COORD_CELL_NEIGHBOR_COUNT:
        raise CellError(f"coord_cell_neighbor: index must be from 0 to 8, got {index!r}")
    x, y = cell.x + index % 3 - 1, cell.y + index // 3 - 1
    if not (_I32_MIN <= x <= _I32_MAX and _I32_MIN <= y <= _I32_MAX):
        raise CellError(f"coord_cell_neighbor: neighbour {index} of x={cell.x}, y={cell.y} passes the i32 limit")
    return CoordCell(layer=cell.layer, level=cell.level, map_id=cell.map_id, y=y, x=x, z=cell.z)


def write_coord_cell_neighbors(cell: CoordCell, out: MutableSequence[CoordCell]) -> int:
    """Writes the 9 neighbours to out[0:9] and returns 9; CellError where `out` is shorter, and nothing is written."""
    if len(out) < COORD_CELL_NEIGHBOR_COUNT:
        raise CellError(f"write_coord_cell_neighbors: out must have room for 9 cells, has {len(out)}")
    neighbours = [coord_cell_neighbor(cell, i) for i in range(COORD_CELL_NEIGHBOR_COUNT)]
    for i, neighbour in enumerate(neighbours):
        out[i] = neighbour
    return COORD_CELL_NEIGHBOR_COUNT


def encode_coord_cell_key(cell: CoordCell) -> bytes:
    """The 24-byte key, whose byte order is the order of the cells.

    >>> encode_coord_cell_key(CoordCell(layer=2, level=1, map_id=7, y=-1, x=5, z=0)).hex()
    '4a434b3100020100000000077fffffff8000000580000000'
    """
    y, x, z = ((value & 0xFFFFFFFF) ^ _SIGN for value in (cell.y, cell.x, cell.z))
    return _KEY.pack(b"JCK1", cell.layer, cell.level, 0, cell.map_id, y, x, z)


def decode_coord_cell_key(data: bytes) -> CoordCell:
    """The cell of a key; CellError for a wrong length, tag or reserved byte."""
    if len(data) != COORD_CELL_KEY_BYTES:
        raise CellError(f"cell key must be 24 bytes long, got {len(data)}")
    tag, layer, level, reserved, map_id, *rest = _KEY.unpack(data)
    if tag != b"JCK1":
        raise CellError(f"cell key must start with b'JCK1', got {tag!r}")
    if reserved != 0:
        raise CellError(f"cell key: reserved byte 7 must be 0, got {reserved}")
    y, x, z = ((value ^ _SIGN) - (2**32 if (value ^ _SIGN) & _SIGN else 0) for value in rest)
    return CoordCell(layer=layer, level=level, map_id=map_id, y=y, x=x, z=z)

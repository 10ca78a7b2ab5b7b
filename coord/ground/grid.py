"""The grid of a grid fleet: blocked cells, which are connected, and their bytes (docs/formats/records.md, Grid)."""

from __future__ import annotations

import struct
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from coord import backend
from coord.errors import BadInput
from coord.records import POSITION_METRES_MAX
from tensor.float_mode import plain_mode

GRID_CELLS_MAX = 2**26
_HEADER = struct.Struct("<IIfff")


class Grid:
    """Square cells over the plane; row 0 lies at y0 (south), column 0 at x0 (west). Immutable.

    `component` numbers the 4-connected regions of free cells from 1 in the order of their first cell, row by row from
    the south-west; 0 marks blocked cells.

    >>> grid = Grid(3, 1, 1.0, 0.0, 0.0, np.array([[False, True, False]]))
    >>> grid.component.tolist(), grid.cell_of(2.5, 0.5), grid.cell_of(3.0, 0.5)
    ([[1, 0, 2]], (2, 0), None)
    """

    @plain_mode()
    def __init__(
        self,
        width: int,
        height: int,
        cell_m: float,
        x0: float,
        y0: float,
        blocked: NDArray[np.bool_],  # [height, width], row 0 south
    ) -> None:
        _check_shape(width, height)
        if blocked.dtype != np.bool_ or blocked.shape != (height, width):
            raise BadInput(
                "grid", None, "blocked", f"must be bool[{height}, {width}], got {blocked.dtype}{list(blocked.shape)}"
            )
        self.width = width
        self.height = height
        self.cell_m = float(np.float32(cell_m))
        self.x0 = float(np.float32(x0))
        self.y0 = float(np.float32(y0))
        _check_frame(self)
        self.blocked = blocked.copy()
        self.blocked.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    def encode(self) -> bytes:
        """u32 width, u32 height, f32 cell_m, f32 x0, f32 y0, then the cells bit-packed, bit 0 first, rows padded."""
        return self._encoded

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The grid in `data`; BadInput where length, header or padding bits are wrong."""
        if len(data) < _HEADER.size:
            raise BadInput("grid", None, "bytes", f"must be at least {_HEADER.size} bytes long, got {len(data)}")
        width, height, cell_m, x0, y0 = _HEADER.unpack_from(data)
        _check_shape(width, height)
        row_bytes = (width + 7) // 8
        size = _HEADER.size + height * row_bytes
        if len(data) != size:
            raise BadInput("grid", None, "bytes", f"of {width} x {height} cells must be {size} long, got {len(data)}")
        packed = np.frombuffer(data, np.uint8, offset=_HEADER.size).reshape(height, row_bytes)
        bits = np.unpackbits(packed, axis=1, bitorder="little").astype(np.bool_)
        if bits[:, width:].any():
            row = int(np.flatnonzero(bits[:, width:].any(axis=1))[0])
            raise BadInput("grid", row, "padding", "bits past the last column must be zero")
        return cls(width, height, cell_m, x0, y0, bits[:, :width])

    @cached_property
    def _encoded(self) -> bytes:
        head = _HEADER.pack(self.width, self.height, self.cell_m, self.x0, self.y0)
        return head + np.packbits(self.blocked, axis=1, bitorder="little").tobytes()

    @cached_property
    def component(self) -> NDArray[np.uint32]:
        """u32[height, width]: the region of each free cell, 0 where blocked."""
        return backend.grid_components(self.blocked)

    @plain_mode()
    def cell_of(self, x: float, y: float) -> tuple[int, int] | None:
        """(column, row) of the cell that holds a point, or None outside; floor((x - x0) / cell_m) in float64."""
        index = int(self.index_of(np.array([x], np.float32), np.array([y], np.float32))[0])
        return None if index < 0 else (index % self.width, index // self.width)

    @plain_mode()
    def centre_of(self, column: int, row: int) -> tuple[np.float32, np.float32]:
        """The centre of a cell, float32 metres (computed in float64, rounded once)."""
        return (
            np.float32(self.x0 + (column + 0.5) * self.cell_m),
            np.float32(self.y0 + (row + 0.5) * self.cell_m),
        )

    @plain_mode()
    def index_of(self, x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.int64]:
        """row * width + column of the cell of each point, -1 outside the grid."""
        column = np.floor((x.astype(np.float64) - self.x0) / self.cell_m)
        row = np.floor((y.astype(np.float64) - self.y0) / self.cell_m)
        inside = (column >= 0) & (column < self.width) & (row >= 0) & (row < self.height)
        index = np.where(inside, row, 0).astype(np.int64) * self.width + np.where(inside, column, 0).astype(np.int64)
        return np.where(inside, index, -1)

    @plain_mode()
    def component_of(self, x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.uint32]:
        """The region of each point: 0 on a blocked cell and outside."""
        index = self.index_of(x, y)
        flat = self.component.reshape(-1)
        return np.where(index < 0, np.uint32(0), flat[np.maximum(index, 0)])


def _check_shape(width: int, height: int) -> None:
    for name, value in (("width", width), ("height", height)):
        if not 1 <= value <= 2**20:
            raise BadInput("grid", None, name, f"must be from 1 to 2^20 cells, got {value}")
    if width * height > GRID_CELLS_MAX:
        raise BadInput("grid", None, "width", f"times height must be at most 2^26 cells, got {width} x {height}")


def _check_frame(grid: Grid) -> None:
    if not 0 < grid.cell_m <= POSITION_METRES_MAX or grid.cell_m < 2.0**-10:
        raise BadInput("grid", None, "cell_m", f"must be from 2^-10 to 2^20 m, got {grid.cell_m}")
    for name, value in (("x0", grid.x0), ("y0", grid.y0)):
        if not abs(value) <= POSITION_METRES_MAX:
            raise BadInput("grid", None, name, f"must be finite and within 2^20 m, got {value}")

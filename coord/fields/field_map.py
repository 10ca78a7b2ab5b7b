"""The influence field of a run as a map of cells in a catalog (docs/formats/run-catalogs.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from coord.cell import COORD_CELL_NEIGHBOR_COUNT, CoordCell, cell_from_units, coord_cell_neighbor
from coord.cell import decode_coord_cell_key as decode_key
from coord.cell import encode_coord_cell_key as encode_key
from coord.errors import RunError
from coord.fields.field import field_points
from coord.frames.zone_catalog import CatalogReader
from coord.records import CONFIG_DTYPE, KERNEL_DTYPE, Records
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from coord.frames.inputs import Inputs
    from coord.frames.kinds import StoredEvent
    from coord.frames.run_entries import Pair, TickWalk

F32 = NDArray[np.float32]
FIELD_LAYER = 3
KERNELS_KEY = b"kernels"
CELLS_MAX = 1 << 22
CHUNK_CELLS = 1 << 14


@dataclass(frozen=True, slots=True)
class CellBox:
    """A box of cells: the indices of its south-west cell, and how many cells it is wide and high.

    Raises ValueError for no cells, and for more than 2^22.
    """

    west: int
    south: int
    width: int
    height: int

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1 or self.width * self.height > CELLS_MAX:
            raise ValueError(
                f"CellBox: width and height must be positive with at most 2^22 cells, got {self.width} x {self.height}"
            )

    def name(self, cell_m: float) -> str:
        """The name of the catalog that holds the field over this box."""
        text = f"{float(cell_m)!r} {self.west} {self.south} {self.width} {self.height}"
        return f"coord.field/1 {blake3(text.encode()).hexdigest()[:32]}"


@plain_mode()
def box_around(inputs: Inputs, cell_m: float) -> CellBox:
    """The cells that hold the agents, zones and kernels of a tick, and one more on each side."""
    tables = (inputs.agents, inputs.zones, inputs.kernels)
    x, y = (np.concatenate([table[name] for table in tables]) for name in "xy")
    if len(x) == 0:
        return CellBox(0, 0, 1, 1)
    west, south, east, north = (
        cell_from_units(float(v), cell_m) for v in (x.min(), y.min(), x.max(), y.max())
    )  # fmt: skip
    return CellBox(west - 1, south - 1, east - west + 3, north - south + 3)


class FieldMap:
    """Values of the field by cell; `coord.stl.open_field_map` opens one. Outside the box nothing is known: RunError."""

    def __init__(
        self, catalog: CatalogReader, cell_m: float, box: CellBox, closes: Sequence[Callable[[], None]] = ()
    ) -> None:
        self.catalog = catalog
        self.cell_m = cell_m
        self.box = box
        self._closes = closes

    def cell_of(self, x: float, y: float) -> CoordCell:
        """The cell that holds a position in metres."""
        return _cell(cell_from_units(x, self.cell_m), cell_from_units(y, self.cell_m))

    def value(self, cell: CoordCell) -> np.float32:
        """The field at the centre of a cell, to the bit what `field_at` gives there."""
        value: np.float32 = self.row(cell.y, cell.x, 1)[0]
        return value

    def near(self, cell: CoordCell) -> F32:  # [3, 3], row 0 in the south
        """The values around a cell, as its neighbours are counted: row by row from the south-west."""
        values = [self.value(coord_cell_neighbor(cell, i)) for i in range(COORD_CELL_NEIGHBOR_COUNT)]
        return np.array(values, np.float32).reshape(3, 3)

    def row(self, y: int, west: int, width: int) -> F32:  # [width]
        """A row of cells, by one scan. Raises RunError where a cell lies outside the box."""
        box = self.box
        if not (box.south <= y < box.south + box.height and box.west <= west and west + width <= box.west + box.width):
            raise RunError(
                f"field map: row {y}, cells {west} to {west + width - 1} lie outside the box of cells {box.west} to "
                f"{box.west + box.width - 1} by {box.south} to {box.south + box.height - 1}"
            )
        out = np.zeros(width, np.float32)
        for key, value in self.catalog.scan(encode_key(_cell(west, y)), encode_key(_cell(west + width, y))):
            if len(value) != 4:
                raise RunError(f"field map: a value must have 4 bytes, got {len(value)}")
            out[decode_key(key).x - west] = np.frombuffer(value, "<f4")[0]
        return out

    def raster(self) -> F32:  # [height, width], row 0 in the south
        """The whole box."""
        box = self.box
        return np.stack([self.row(box.south + i, box.west, box.width) for i in range(box.height)])

    def close(self) -> None:
        """Close what `open_field_map` opened; a second call does nothing."""
        closes, self._closes = self._closes, ()
        for close in closes:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def field_entries(
    walk: TickWalk, events: Iterator[tuple[int, StoredEvent]], cell_m: float, box: CellBox
) -> Iterator[Pair]:
    """The entries of a field map after the events: all cells again where kernels or cutoff changed, else nothing."""
    for _ in walk.ticks(events):
        pass
    if walk.state is None:
        return
    now, before = _kernels(walk.state), None if walk.before is None else _kernels(walk.before)
    if now == before:
        return
    yield KERNELS_KEY, now
    kernels, cutoff = np.frombuffer(now[4:], KERNEL_DTYPE), float(np.frombuffer(now[:4], "<f4")[0])
    rows = max(1, CHUNK_CELLS // box.width)
    for first in range(box.south, box.south + box.height, rows):
        height = min(rows, box.south + box.height - first)
        values = _values(kernels, cutoff, cell_m, CellBox(box.west, first, box.width, height))
        for i, value in enumerate(values):
            key = encode_key(_cell(box.west + i % box.width, first + i // box.width))
            yield key, value.tobytes() if value != 0 else None


@plain_mode()
def _values(kernels: Records, cutoff: float, cell_m: float, box: CellBox) -> F32:
    x = ((box.west + np.arange(box.width) + 0.5) * cell_m).astype(np.float32)
    y = ((box.south + np.arange(box.height) + 0.5) * cell_m).astype(np.float32)
    return field_points(kernels, np.tile(x, box.height), np.repeat(y, box.width), cutoff).astype("<f4")


def _kernels(inputs: Inputs) -> bytes:
    cutoff: bytes = np.frombuffer(inputs.config, CONFIG_DTYPE)["cutoff_sigmas"].tobytes()
    return cutoff + inputs.kernels.tobytes()


def _cell(x: int, y: int) -> CoordCell:
    return CoordCell(layer=FIELD_LAYER, x=x, y=y)

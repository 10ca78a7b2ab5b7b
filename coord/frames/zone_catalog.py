"""Where a run's zones lie and what was decided there: a catalog of cells (docs/formats/run-catalogs.md)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from coord.cell import COORD_CELL_NEIGHBOR_COUNT, CoordCell, cell_from_units, coord_cell_neighbor
from coord.cell import decode_coord_cell_key as decode_key
from coord.cell import encode_coord_cell_key as encode_key
from coord.errors import RunError
from coord.frames.decisions import DecisionLedger
from coord.frames.frame import DECISION_FRAME_BYTES, DecisionFrame
from coord.records import ZONE_DTYPE, Records
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from coord.frames.inputs import Inputs
    from coord.frames.kinds import StoredEvent
    from coord.frames.run_entries import Pair, PlannedTick, TickWalk

ZONES_LAYER, TALLY_LAYER = 1, 2
FRAME_PREFIX, TICK_PREFIX = b"frame/", b"tick/"
_CELL_BYTES = 24
_I32_MIN, _I32_MAX = -(2**31), 2**31 - 1
_TALLY = struct.Struct(">QQqQQ")


class CatalogReader(Protocol):
    """What is asked of a catalog: sorted byte keys."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""

    def scan(
        self, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values of [start, stop) in key order."""


@dataclass(frozen=True, slots=True)
class CellTally:
    """What decisions gave to the zones of a cell; the empty tally is neutral in `merge`.

    assignments: agents that were given one of its zones, counted at each planned tick.  travel_ticks, score: sums over
    them, the score in integer units.  first_tick, last_tick: of those ticks.

    >>> a, b = CellTally(1, 4, 100, 7, 7), CellTally(2, 5, -30, 3, 9)
    >>> a.merge(b) == b.merge(a) == CellTally(3, 9, 70, 3, 9), a.merge(CellTally()) == a
    (True, True)
    """

    assignments: int = 0
    travel_ticks: int = 0
    score: int = 0
    first_tick: int = 0
    last_tick: int = 0

    def merge(self, other: CellTally) -> CellTally:
        """Both together; associative and commutative."""
        if not self.assignments or not other.assignments:
            return self if self.assignments else other
        return CellTally(
            self.assignments + other.assignments,
            self.travel_ticks + other.travel_ticks,
            self.score + other.score,
            min(self.first_tick, other.first_tick),
            max(self.last_tick, other.last_tick),
        )

    def pack(self) -> bytes:
        """The 40 bytes of a value."""
        return _TALLY.pack(self.assignments, self.travel_ticks, self.score, self.first_tick, self.last_tick)

    @classmethod
    def unpack(cls, data: bytes) -> CellTally:
        """From a value. Raises RunError for another length."""
        if len(data) != _TALLY.size:
            raise RunError(f"zone catalog: a tally must have {_TALLY.size} bytes, got {len(data)}")
        return cls(*_TALLY.unpack(data))


class ZoneCatalog:
    """Questions about the zones of a run; `coord.stl.open_zone_catalog` opens one.

    catalog: anything with the methods of `CatalogReader`, filled by `zone_entries` with the same `cell_m`.
    Every answer is exact and in an order that is stated, whatever the order in which anything was written.
    """

    def __init__(self, catalog: CatalogReader, cell_m: float, closes: Sequence[Callable[[], None]] = ()) -> None:
        self.catalog = catalog
        self.cell_m = cell_m
        self._closes = closes

    def cell_of(self, x: float, y: float, z: float = 0.0) -> CoordCell:
        """The cell that holds a position in metres, as zones are filed (layer 1)."""
        return _cell(ZONES_LAYER, *(cell_from_units(v, self.cell_m) for v in (x, y, z)))

    def zones(self) -> Records:
        """All zones, ordered by cell key, then id."""
        return self._zones(_prefix(ZONES_LAYER), _prefix(ZONES_LAYER + 1))

    def zones_in(self, cell: CoordCell) -> Records:
        """The zones of one cell, ascending id."""
        key = encode_key(_at_layer(cell, ZONES_LAYER))
        return self._zones(key, _after(key))

    def zones_near(self, cell: CoordCell) -> Records:
        """The zones of a cell and its eight neighbours, row by row from the south-west, in a cell by ascending id."""
        around = (coord_cell_neighbor(cell, i) for i in range(COORD_CELL_NEIGHBOR_COUNT))
        return np.concatenate([self.zones_in(one) for one in around])

    def zones_within(self, west: int, south: int, east: int, north: int) -> Records:
        """The zones of the cells west..east by south..north (indices, inclusive) at any z: one scan a row of cells.

        Ordered by row, then cell, then id.
        """
        found = [np.zeros(0, ZONE_DTYPE)]
        for y in range(south, north + 1):
            first = encode_key(_cell(ZONES_LAYER, west, y, _I32_MIN))
            found.append(self._zones(first, _after(encode_key(_cell(ZONES_LAYER, east, y, _I32_MAX)))))
        return np.concatenate(found)

    def _zones(self, start: bytes, stop: bytes) -> Records:
        data = [value for _, value in self.catalog.scan(start, stop)]
        for value in data:
            if len(value) != ZONE_DTYPE.itemsize:
                raise RunError(f"zone catalog: a zone must have {ZONE_DTYPE.itemsize} bytes, got {len(value)}")
        return np.frombuffer(b"".join(data), ZONE_DTYPE)

    def frame(self, frame_id: int) -> tuple[int, DecisionFrame] | None:
        """Rank and frame of a frame id, None where the run has no such frame."""
        value = self.catalog.get(FRAME_PREFIX + frame_id.to_bytes(8, "big"))
        return None if value is None else _frame(value)

    def frames(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, DecisionFrame]]:
        """Rank and frame of the frame ids [start, stop), ascending."""
        for _, value in self.catalog.scan(*_between(FRAME_PREFIX, start, stop)):
            yield _frame(value)

    def frames_by_tick(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, DecisionFrame]]:
        """Rank and frame of the planned ticks [start, stop), ascending."""
        for key, value in self.catalog.scan(*_between(TICK_PREFIX, start, stop)):
            found = self.frame(int.from_bytes(value, "big"))
            if found is None:
                raise RunError(f"zone catalog: tick {int.from_bytes(key[-8:], 'big')} names a frame that is not there")
            yield found

    def decisions(self, start: int = 0, stop: int | None = None) -> DecisionLedger:
        """What the frames of the ticks [start, stop) add up to."""
        return DecisionLedger.of(frame for _, frame in self.frames_by_tick(start, stop))

    def tally(self, cell: CoordCell) -> CellTally:
        """What decisions gave to the zones of a cell, over all frames."""
        key = encode_key(_at_layer(cell, TALLY_LAYER))
        total = CellTally()
        for _, value in self.catalog.scan(key, _after(key)):
            total = total.merge(CellTally.unpack(value))
        return total

    def tallies(self) -> Iterator[tuple[CoordCell, CellTally]]:
        """Every cell whose zones were ever given out, in key order, and its tally."""
        cell, total = b"", CellTally()
        for key, value in self.catalog.scan(_prefix(TALLY_LAYER), _prefix(TALLY_LAYER + 1)):
            if key[:_CELL_BYTES] != cell and cell:
                yield decode_key(cell), total
                total = CellTally()
            cell = key[:_CELL_BYTES]
            total = total.merge(CellTally.unpack(value))
        if cell:
            yield decode_key(cell), total

    def close(self) -> None:
        """Close what `open_zone_catalog` opened; a second call does nothing."""
        closes, self._closes = self._closes, ()
        for close in closes:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def zone_entries(walk: TickWalk, events: Iterator[tuple[int, StoredEvent]], cell_m: float) -> Iterator[Pair]:
    """The entries of a zone catalog that the events add: frames as they come, zones and tallies at the end.

    walk: stands where the events begin. Raises InputsError, FrameError, CellError.
    """
    segment: int | None = None
    places = _Places(cell_m)
    tallies: dict[CoordCell, CellTally] = {}
    for tick in walk.ticks(events):
        number = tick.frame.frame_id.to_bytes(8, "big")
        segment = tick.frame.frame_id if segment is None else segment
        yield FRAME_PREFIX + number, tick.rank.to_bytes(8, "big") + tick.frame.encode()
        yield TICK_PREFIX + tick.frame.tick.to_bytes(8, "big"), number
        _add(tallies, places.of(tick.inputs.zones), tick)
    if segment is None or walk.state is None:
        return
    yield from _zone_changes(walk.before, walk.state, cell_m)
    for cell in sorted(tallies):
        yield encode_key(cell) + segment.to_bytes(8, "big"), tallies[cell].pack()


class _Places:
    """Ids and cells of zones, computed again where a position changed."""

    def __init__(self, cell_m: float) -> None:
        self._cell_m = cell_m
        self._seen: bytes | None = None
        self._cells: dict[int, CoordCell] = {}

    def of(self, zones: Records) -> dict[int, CoordCell]:
        seen = zones[["id", "x", "y", "z"]].tobytes()
        if seen != self._seen:
            self._cells = {
                zone: _at_layer(cell, TALLY_LAYER)
                for zone, cell in zip(zones["id"].tolist(), _cells(zones, self._cell_m), strict=True)
            }
            self._seen = seen
        return self._cells


@plain_mode()
def _cells(zones: Records, cell_m: float) -> list[CoordCell]:
    columns = [_indices(zones[name], cell_m) for name in "xyz"]
    return [_cell(ZONES_LAYER, *place) for place in zip(*columns, strict=True)]


def _indices(values: NDArray[np.float32], cell_m: float) -> list[int]:
    return [cell_from_units(value, cell_m) for value in values.tolist()]


def _add(tallies: dict[CoordCell, CellTally], cells: dict[int, CoordCell], tick: PlannedTick) -> None:
    given = tick.rows[(tick.rows["status"] == 0) & (tick.rows["queue_index"] == 0)]
    at = tick.frame.tick
    for zone, travel, score in zip(
        given["zone"].tolist(), given["travel"].tolist(), given["score"].tolist(), strict=True
    ):
        cell = cells.get(zone)
        if cell is None:
            raise RunError(f"frame {tick.frame.frame_id}: zone {zone} is not among its inputs")
        tallies[cell] = tallies.get(cell, CellTally()).merge(CellTally(1, travel, score, at, at))


def _zone_changes(before: Inputs | None, now: Inputs, cell_m: float) -> Iterator[Pair]:
    """Deletions, then entries that are new or others, each in key order."""
    old = {} if before is None else _by_key(before.zones, cell_m)
    new = _by_key(now.zones, cell_m)
    for key in sorted(old.keys() - new.keys()):
        yield key, None
    for key in sorted(new):
        if new[key] != old.get(key):
            yield key, new[key]


def _by_key(zones: Records, cell_m: float) -> dict[bytes, bytes]:
    keys = map(encode_key, _cells(zones, cell_m))
    return {
        key + zone.to_bytes(4, "big"): record.tobytes()
        for key, zone, record in zip(keys, zones["id"].tolist(), zones, strict=True)
    }


def _cell(layer: int, x: int, y: int, z: int) -> CoordCell:
    return CoordCell(layer=layer, x=x, y=y, z=z)


def _at_layer(cell: CoordCell, layer: int) -> CoordCell:
    return CoordCell(layer=layer, level=cell.level, map_id=cell.map_id, y=cell.y, x=cell.x, z=cell.z)


def _prefix(layer: int) -> bytes:
    return b"JCK1" + layer.to_bytes(2, "big")


def _after(key: bytes) -> bytes:
    """The first key that does not begin with `key`: no cell ends in ff ff ff ff but the last."""
    return (int.from_bytes(key, "big") + 1).to_bytes(len(key), "big")


def _between(prefix: bytes, start: int, stop: int | None) -> tuple[bytes, bytes]:
    last = _after(prefix) if stop is None else prefix + stop.to_bytes(8, "big")
    return prefix + start.to_bytes(8, "big"), last


def _frame(value: bytes) -> tuple[int, DecisionFrame]:
    if len(value) != 8 + DECISION_FRAME_BYTES:
        raise RunError(f"zone catalog: a frame must have {8 + DECISION_FRAME_BYTES} bytes, got {len(value)}")
    return int.from_bytes(value[:8], "big"), DecisionFrame.decode(value[8:])

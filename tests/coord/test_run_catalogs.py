"""Catalogs of a run answer as a search through everything does, however and in how many steps they were made."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from coord import CellError, CoordCell, DecisionLedger, Scenario, encode_coord_cell_key, field_at, open_run, simulate
from coord.cell import cell_from_units, coord_cell_neighbor
from coord.errors import RunError
from coord.fields.field_map import CellBox
from coord.frames.zone_catalog import CellTally, ZoneCatalog
from coord.records import CONFIG_DTYPE
from coord.stl import open_field_map, open_zone_catalog
from storage import Ledger, RollbackError

FLEET = """version = 1
name = "field"
seed = 11
[agents]
random = 24
speed = 3.0
[zones]
random = 60
radius = 2.0
service_ticks = 2
[[kernel]]
x = 12.0
y = 30.0
sigma = 6.0
weight = 2.0
[[kernel]]
x = 40.5
y = -3.25
sigma = 2.5
weight = -1.5
"""
CELL_M = 7.5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 150 ticks, with more than two keys of inputs."""
    path = tmp_path_factory.mktemp("catalogs") / "run"
    simulate(Scenario.loads(FLEET), 150, ledger=str(path))
    return path


class Searched:
    """The same answers by looking at every frame and zone of the run."""

    def __init__(self, run: Path) -> None:
        self.tallies: dict[CoordCell, CellTally] = {}
        self.frames = []
        with open_run(run) as reader:
            for view in reader.frames():
                self.frames.append((view.rank, view.frame))
                self.zones = view.inputs.zones.copy()
                self.kernels = view.inputs.kernels.copy()
                self.cutoff = float(np.frombuffer(view.inputs.config, CONFIG_DTYPE)["cutoff_sigmas"][0])
                where = {int(zone["id"]): self.cell(zone, 2) for zone in self.zones}
                for row in view.rows:
                    if row["status"] == 0 and row["queue_index"] == 0:
                        cell, at = where[int(row["zone"])], view.frame.tick
                        one = CellTally(1, int(row["travel"]), int(row["score"]), at, at)
                        self.tallies[cell] = self.tallies.get(cell, CellTally()).merge(one)

    def cell(self, zone: np.void, layer: int = 1) -> CoordCell:
        x, y, z = (cell_from_units(float(zone[name]), CELL_M) for name in "xyz")
        return CoordCell(layer=layer, x=x, y=y, z=z)

    def zones_in(self, *cells: CoordCell) -> list[bytes]:
        chosen = [
            (cells.index(self.cell(zone)), int(zone["id"]), zone.tobytes())
            for zone in self.zones
            if self.cell(zone) in cells
        ]
        return [data for _, _, data in sorted(chosen)]


@pytest.fixture(scope="module")
def searched(run: Path) -> Searched:
    return Searched(run)


def records(zones: np.ndarray) -> list[bytes]:
    return [zone.tobytes() for zone in zones]


def check_zones(zones: ZoneCatalog, searched: Searched) -> None:
    """Every question, against the search."""
    cells = sorted({searched.cell(zone) for zone in searched.zones})
    assert records(zones.zones()) == searched.zones_in(*cells)
    for cell in cells:
        assert records(zones.zones_in(cell)) == searched.zones_in(cell)
        around = [coord_cell_neighbor(cell, i) for i in range(9)]
        assert records(zones.zones_near(cell)) == searched.zones_in(*around)
    xs, ys = [cell.x for cell in cells], [cell.y for cell in cells]
    for west, south, east, north in (
        (min(xs), min(ys), max(xs), max(ys)),
        (0, 0, 3, 2),
        (5, 5, 4, 9),
        (-9, -9, -5, -5),
    ):
        inside = [cell for cell in cells if west <= cell.x <= east and south <= cell.y <= north]
        assert records(zones.zones_within(west, south, east, north)) == searched.zones_in(*inside)
    assert list(zones.tallies()) == sorted(searched.tallies.items())
    for cell, tally in searched.tallies.items():
        assert zones.tally(CoordCell(layer=1, x=cell.x, y=cell.y, z=cell.z)) == tally
    assert zones.tally(CoordCell(x=10_000)) == CellTally()
    assert list(zones.frames()) == searched.frames
    assert list(zones.frames(3, 9)) == searched.frames[3:9]
    assert zones.frame(len(searched.frames)) is None
    for start, stop in ((0, None), (10, 40), (149, 150), (500, None), (7, 7)):
        inside = [
            (rank, frame)
            for rank, frame in searched.frames
            if frame.tick >= start and (stop is None or frame.tick < stop)
        ]
        assert list(zones.frames_by_tick(start, stop)) == inside
        assert zones.decisions(start, stop) == DecisionLedger.of(frame for _, frame in inside)


def test_a_zone_catalog_answers_as_a_search_does(run: Path, searched: Searched, tmp_path: Path) -> None:
    for _ in range(2):  # made, then opened as it is
        with open_zone_catalog(run, tmp_path / "zones", CELL_M) as zones:
            check_zones(zones, searched)
            assert zones.cell_of(1.0, -1.0) == CoordCell(layer=1, x=0, y=-1)


@pytest.mark.parametrize("seed", range(3))
def test_a_catalog_made_in_steps_gives_the_same_answers(
    run: Path, searched: Searched, tmp_path: Path, seed: int
) -> None:
    with Ledger.open(run, mode="r") as whole:
        events = [event for _, event in whole.scan()]
    cuts = [*sorted(random.Random(seed).sample(range(1, len(events)), 4)), len(events)]
    done = 0
    for cut in cuts:
        with Ledger.open(tmp_path / "run", sync="os") as ledger:
            ledger.append_many(events[done:cut])
        done = cut
        with open_zone_catalog(tmp_path / "run", tmp_path / "zones", CELL_M) as zones:
            assert len(list(zones.frames())) == sum(event.kind == "coord.frame" for event in events[:cut])
            assert zones.catalog.rebuilt is None  # type: ignore[attr-defined]
        open_field_map(tmp_path / "run", tmp_path / "field", CELL_M, CellBox(-2, -2, 12, 12)).close()
    with open_zone_catalog(tmp_path / "run", tmp_path / "zones", CELL_M) as zones:
        check_zones(zones, searched)
    with (
        open_field_map(tmp_path / "run", tmp_path / "field", CELL_M, CellBox(-2, -2, 12, 12)) as steps,
        open_field_map(run, tmp_path / "once", CELL_M, CellBox(-2, -2, 12, 12)) as once,
    ):
        assert list(steps.catalog.scan()) == list(once.catalog.scan())


def test_a_damaged_catalog_is_made_again(run: Path, searched: Searched, tmp_path: Path) -> None:
    open_zone_catalog(run, tmp_path / "zones", CELL_M).close()
    data = tmp_path / "zones" / "data.mdb"
    data.write_bytes(data.read_bytes()[:-4096] + bytes(4096))
    with open_zone_catalog(run, tmp_path / "zones", CELL_M) as zones:
        check_zones(zones, searched)


def test_another_cell_size_is_another_catalog(run: Path, tmp_path: Path) -> None:
    open_zone_catalog(run, tmp_path / "zones", CELL_M).close()
    with open_zone_catalog(run, tmp_path / "zones", 100.0) as zones:
        assert zones.catalog.rebuilt == "holds 'coord.zones/1 7.5', not 'coord.zones/1 100.0'"  # type: ignore[attr-defined]
        assert len(zones.zones()) == 60


def test_the_run_holds_nothing_new(run: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in run.rglob("*"))
    open_zone_catalog(run, tmp_path / "zones", CELL_M).close()
    open_field_map(run, tmp_path / "field", CELL_M).close()
    assert sorted(path.name for path in run.rglob("*")) == before


def test_a_field_map_holds_the_bits_of_the_field(run: Path, searched: Searched, tmp_path: Path) -> None:
    with open_field_map(run, tmp_path / "field", CELL_M) as field:
        box = field.box
        raster = field.raster()
        assert raster.shape == (box.height, box.width)
        for row in range(box.height):
            for column in range(box.width):
                x, y = (np.float32((index + 0.5) * CELL_M) for index in (box.west + column, box.south + row))
                expected = field_at(searched.kernels, float(x), float(y), searched.cutoff)
                assert raster[row, column].tobytes() == expected.tobytes()
        assert np.count_nonzero(raster) == len(list(field.catalog.scan(b"JCK1", b"JCK2")))
        cell = field.cell_of(12.0, 30.0)
        assert field.value(cell) == raster.max() > 0
        assert field.near(cell)[1, 1] == field.value(cell)
        assert np.array_equal(field.near(cell), raster[cell.y - box.south - 1 :][:3, cell.x - box.west - 1 :][:, :3])
        with pytest.raises(RunError, match=r"^field map: row 0, cells 5000 to 5000 lie outside the box of cells "):
            field.value(CoordCell(x=5000))


def test_a_box_of_too_many_cells_and_a_run_without_ticks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"^CellBox: width and height must be positive with at most 2\^22 cells, got 4096 x 1025$"
    ):
        CellBox(0, 0, 4096, 1025)
    Ledger.open(tmp_path / "empty").close()
    with pytest.raises(RunError, match=r"empty: no planned tick, so no field$"):
        open_field_map(tmp_path / "empty", tmp_path / "field")
    with open_zone_catalog(tmp_path / "empty", tmp_path / "zones") as zones:
        assert (len(zones.zones()), list(zones.frames()), list(zones.tallies())) == (0, [], [])


def test_a_shorter_run_is_told(run: Path, tmp_path: Path) -> None:
    with Ledger.open(run, mode="r") as whole, Ledger.open(tmp_path / "run", sync="os") as ledger:
        ledger.append_many([event for _, event in whole.scan(0, 40)])
    open_zone_catalog(run, tmp_path / "zones", CELL_M).close()
    with pytest.raises(RollbackError):
        open_zone_catalog(tmp_path / "run", tmp_path / "zones", CELL_M)


class Table:
    """A catalog in memory: enough of one for the questions."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self.entries = entries

    def get(self, key: bytes) -> bytes | None:
        return self.entries.get(key)

    def scan(
        self, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        inside = sorted(key for key in self.entries if key >= start and (stop is None or key < stop))
        return iter([(key, self.entries[key]) for key in (inside[::-1] if reverse else inside)])


def test_the_zone_key_of_the_page(page_hex: Callable[[str, str], bytes]) -> None:
    key = page_hex("run-catalogs", "zone-key")
    assert key == encode_coord_cell_key(CoordCell(layer=1, x=5, y=-1)) + (7).to_bytes(4, "big")


def test_values_of_another_length_are_refused() -> None:
    cell = CoordCell(layer=1)
    key = encode_coord_cell_key(cell)
    tally = encode_coord_cell_key(CoordCell(layer=2))
    bad = ZoneCatalog(Table({key + bytes(4): b"x", tally + bytes(8): b"x", b"frame/" + bytes(8): b"x"}), 1.0)
    with pytest.raises(RunError, match=r"^zone catalog: a zone must have 48 bytes, got 1$"):
        bad.zones_in(cell)
    with pytest.raises(RunError, match=r"^zone catalog: a tally must have 40 bytes, got 1$"):
        bad.tally(cell)
    with pytest.raises(RunError, match=r"^zone catalog: a frame must have 136 bytes, got 1$"):
        bad.frame(0)
    lost = ZoneCatalog(Table({b"tick/" + bytes(8): bytes(8)}), 1.0)
    with pytest.raises(RunError, match=r"^zone catalog: tick 0 names a frame that is not there$"):
        list(lost.frames_by_tick())


def test_a_cell_at_the_edge_has_no_neighbours() -> None:
    with pytest.raises(CellError):
        ZoneCatalog(Table({}), 1.0).zones_near(CoordCell(layer=1, x=2**31 - 1))

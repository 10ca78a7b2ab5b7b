"""MovingAI maps and scenarios: every fault is named with its line and column, and imports write what they read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coord.errors import MapError, OutputError, ScenarioError
from coord.sites.importer import import_map, import_scen
from coord.sites.movingai import free_cell, map_beside, parse_map, read_scen

TINY = b"type octile\nheight 3\nwidth 4\nmap\n..@.\nG.TS\nWO..\n"


def test_row_zero_of_a_map_file_is_the_northern_row_of_the_grid() -> None:
    grid = parse_map(TINY, "tiny.map")
    assert (grid.width, grid.height, grid.x0, grid.y0, grid.cell_m) == (4, 3, 0.0, 0.0, 1.0)
    assert grid.blocked[2].tolist() == [False, False, True, False]
    assert grid.blocked[1].tolist() == [False, False, True, False]
    assert grid.blocked[0].tolist() == [True, True, False, False]


def test_a_missing_newline_at_the_end_of_a_map_is_accepted() -> None:
    assert np.array_equal(parse_map(TINY[:-1], "t").blocked, parse_map(TINY, "t").blocked)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (TINY[:-3], "tiny.map:7:3: the file ends in row 3 of 3, after 2 of 4 cells"),
        (TINY[:-5], "tiny.map:7:1: the file ends in row 3 of 3, after 0 of 4 cells"),
        (TINY[:-6], "tiny.map:7:1: the file ends after 2 of 3 rows"),
        (
            TINY.replace(b"\n", b"\r\n"),
            "tiny.map:1:12: expected lines that end in LF, got CR (hint: sed -i 's/\\r$//' FILE)",
        ),
        (TINY.replace(b"G.TS", b"G.T"), "tiny.map:6:4: expected 4 cells (the width), got 3"),
        (TINY.replace(b"G.TS", b"G.TSS"), "tiny.map:6:5: expected 4 cells (the width), got 5"),
        (TINY + b"....\n", "tiny.map:8:1: expected the end of the file after 3 rows (the height)"),
        (TINY.replace(b"T", b"x"), "tiny.map:6:3: unknown glyph 'x' (expected one of . G S @ O T W)"),
        (TINY.replace(b"T", b"\x80"), "tiny.map:6:3: unknown glyph '\\\\x80' (expected one of . G S @ O T W)"),
        (TINY.replace(b"octile", b"octal"), "tiny.map:1:9: expected \"type octile\", got 'type octal'"),
        (TINY.replace(b"height 3", b"height -3"), "tiny.map:2:8: expected a number above 0, got '-3'"),
        (TINY.replace(b"width 4", b"wide 4"), "tiny.map:3:1: expected \"width N\", got 'wide 4'"),
        (TINY.replace(b"width 4", b"width 99999999"), "tiny.map:3:7: expected at most 1048576 cells, got 99999999"),
        (
            TINY.replace(b"width 4", b"width 1048576").replace(b"height 3", b"height 33"),
            "tiny.map:2:1: expected at most 33554432 cells, got 1048576 × 33",
        ),
        (b"", "tiny.map:1:1: expected \"type octile\", got ''"),
    ],
)
def test_a_damaged_map_is_refused_with_line_and_column(data: bytes, text: str) -> None:
    with pytest.raises(MapError) as error:
        parse_map(data, "tiny.map")
    assert str(error.value) == text


def _site(folder: Path, *lines: str) -> Path:
    (folder / "tiny.map").write_bytes(TINY)
    scen = folder / "tiny.scen"
    scen.write_text("version 1\n" + "".join(line + "\n" for line in lines))
    return scen


GOOD = "0\t/home/somebody/maps/tiny.map\t4\t3\t0\t0\t3\t2\t0"


def test_an_absolute_foreign_map_path_is_matched_by_its_base_name(tmp_path: Path) -> None:
    scen = _site(tmp_path, GOOD)
    assert map_beside(scen, "/home/somebody/maps/tiny.map") == tmp_path / "tiny.map"
    assert map_beside(scen, "C:\\maps\\tiny.map") == tmp_path / "tiny.map"


def test_starts_become_agents_and_goals_become_zones(tmp_path: Path) -> None:
    scen = _site(tmp_path, GOOD, "1\ttiny.map\t4\t3\t1\t1\t2\t2\t1.5")
    out = tmp_path / "out"
    out.mkdir()
    setup = import_scen(scen, out / "SITE.toml").setup
    assert sorted(path.name for path in out.iterdir()) == ["SITE.toml", "tiny.map"]
    assert (out / "tiny.map").read_bytes() == TINY
    assert setup.agents["x"].tolist() == [0.5, 1.5]
    assert setup.agents["y"].tolist() == [2.5, 1.5]
    assert setup.zones["x"].tolist() == [3.5, 2.5]
    assert setup.zones["y"].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("0\ttiny.map\t4\t3\t2\t0\t3\t2\t0", "SCEN:2:1: start (2, 0) is on an obstacle"),
        ("0\ttiny.map\t4\t3\t0\t0\t1\t2\t0", "SCEN:2:1: goal (1, 2) is on an obstacle"),
        ("0\ttiny.map\t4\t3\t4\t0\t3\t2\t0", "SCEN:2:1: start (4, 0) lies outside the map of 4 × 3"),
        ("0\ttiny.map\t5\t3\t0\t0\t3\t2\t0", "SCEN:2:12: expected a map of 5 × 3 cells, tiny.map has 4 × 3"),
        ("0\ttiny.map\t4\t3\t0\t0\t3\t2", "SCEN:2:1: expected 9 columns separated by tabs, got 8"),
        ("0\ttiny.map\t4\t3\t0\tx\t3\t2\t0", "SCEN:2:18: expected a whole number, got 'x'"),
        (
            "0\tother.map\t4\t3\t0\t0\t3\t2\t0",
            "SCEN:2:1: expected the map other.map beside the file (named other.map), found none",
        ),
    ],
)
def test_a_damaged_scen_is_refused_with_its_line_and_nothing_is_written(tmp_path: Path, line: str, text: str) -> None:
    scen = _site(tmp_path, line)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(MapError) as error:
        import_scen(scen, out / "SITE.toml")
    assert str(error.value) == text.replace("SCEN", str(scen))
    assert list(out.iterdir()) == []


def test_a_scen_with_fewer_lines_than_agents_is_refused(tmp_path: Path) -> None:
    scen = _site(tmp_path, GOOD)
    with pytest.raises(MapError, match=r"expected 2 agents, the file has 1"):
        read_scen(scen, 2)
    assert len(read_scen(scen, 1)) == 1


def test_an_import_overwrites_nothing(tmp_path: Path) -> None:
    scen = _site(tmp_path, GOOD)
    import_scen(scen, tmp_path / "SITE.toml")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(OutputError) as error:
        import_scen(scen, tmp_path / "SITE.toml")
    assert str(error.value) == f"{tmp_path / 'SITE.toml'}: is already there, and nothing is overwritten"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_another_map_of_the_same_name_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "m.map").write_bytes(TINY)
    (tmp_path / "b" / "m.map").write_bytes(TINY.replace(b"G", b"."))
    with pytest.raises(OutputError):
        import_map(tmp_path / "a" / "m.map", tmp_path / "b" / "SITE.toml", agents=1, zones=1)
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["m.map"]


def test_a_map_import_draws_distinct_free_cells_of_the_largest_component(tmp_path: Path) -> None:
    (tmp_path / "m.map").write_bytes(TINY)
    setup = import_map(tmp_path / "m.map", tmp_path / "SITE.toml", agents=4, zones=4, seed=3).setup
    for records in (setup.agents, setup.zones):
        cells = {(float(x), float(y)) for x, y in zip(records["x"], records["y"], strict=True)}
        assert cells <= {(0.5, 2.5), (1.5, 2.5), (0.5, 1.5), (1.5, 1.5), (3.5, 2.5), (3.5, 1.5), (2.5, 0.5), (3.5, 0.5)}
        assert len(cells) == 4
        labels = {int(setup.grid.component[int(y), int(x)]) for x, y in cells} if setup.grid is not None else set()
        assert len(labels) == 1


def test_more_agents_than_free_cells_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "m.map").write_bytes(TINY)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(ScenarioError, match=r"6 agents need distinct free cells, the largest component .* has 4"):
        import_map(tmp_path / "m.map", out / "SITE.toml", agents=6, zones=1)
    assert list(out.iterdir()) == []


def test_ten_thousand_agents_go_to_record_files(data: Callable[[str], Path], tmp_path: Path) -> None:
    scen = data("maps/warehouse-20-40-10-2-2-10000agents-1.scen")
    setup = import_scen(scen, tmp_path / "SITE.toml", agents=10_000).setup
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["SITE.toml", "agents.npy", "warehouse-20-40-10-2-2.map", "zones.npy"]
    assert (len(setup.agents), len(setup.zones)) == (10_000, 10_000)
    trip = read_scen(scen, 1)[0]
    assert setup.grid is not None
    place = free_cell(setup.grid, trip, trip.start, "start", "s")
    assert (float(setup.agents["x"][0]), float(setup.agents["y"][0])) == place


@pytest.mark.parametrize("name", ["maze-32-32-4", "random-32-32-10", "room-64-64-16", "warehouse-10-20-10-2-1"])
def test_published_maps_have_as_many_free_cells_as_free_glyphs(data: Callable[[str], Path], name: str) -> None:
    content = data(f"maps/{name}.map").read_bytes()
    body = content.split(b"map\n", 1)[1]
    free = sum(body.count(glyph) for glyph in (b".", b"G", b"S"))
    assert int((~parse_map(content, name).blocked).sum()) == free


def test_a_file_that_cannot_be_written_whole_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    (tmp_path / "a.map").write_bytes(b"type octile\nheight 1\nwidth 3\nmap\n...\n")
    real = Path.open

    class Full(io.FileIO):
        def write(self, data: object, /) -> int:
            super().write(b"half")
            raise OSError(28, "No space left on device")

    def opened(self: Path, mode: str = "r", **options: object) -> object:
        return Full(self, mode) if "x" in mode and self.name == "out.toml" else real(self, mode, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", opened)
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError, match=r"out\.toml: expected to write it, got: no space left on device"):
        import_map(tmp_path / "a.map", tmp_path / "out" / "out.toml", agents=1, zones=1)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_scenario_may_name_a_map_of_any_length(tmp_path: Path) -> None:
    with pytest.raises(MapError, match=r"expected the map a{100} beside the file") as caught:
        map_beside(tmp_path / "x.scen", "a" * 5000)
    assert len(caught.value.detail) < 400


def test_a_map_beside_its_site_may_end_in_capitals_and_the_site_needs_another_name(tmp_path: Path) -> None:
    (tmp_path / "a.MAP").write_bytes(b"type octile\nheight 1\nwidth 3\nmap\n...\n")
    assert import_map(tmp_path / "a.MAP", tmp_path / "a.toml", agents=1, zones=1).setup.grid is not None
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError, match=r"a\.MAP: expected another name than that of a file beside it, a\.MAP$"):
        import_map(tmp_path / "a.MAP", tmp_path / "out" / "a.MAP", agents=1, zones=1)
    assert list((tmp_path / "out").iterdir()) == []

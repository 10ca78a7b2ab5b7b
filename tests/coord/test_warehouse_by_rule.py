"""The warehouse of the demo: cells by rule, one connected hall, a map file that reads back."""

from pathlib import Path

import numpy as np
import pytest

from coord.ground.grid import Grid
from coord.simulation.synthetic import HEIGHT, WIDTH, map_text, site_text, warehouse_cells, write_warehouse
from coord.sites.movingai import parse_map
from coord.sites.scenario import Scenario


@pytest.mark.parametrize(("width", "height"), [(64, 40), (1, 1), (7, 7), (33, 12), (21, 11), (100, 63)])
def test_every_free_cell_is_reached_from_every_other(width: int, height: int) -> None:
    blocked = warehouse_cells(width, height)
    assert blocked.shape == (height, width) and blocked.dtype == np.bool_
    component = Grid(width, height, 1.0, 0.0, 0.0, blocked).component
    assert set(np.unique(component[~blocked])) == {1}


def test_the_cells_are_the_same_seen_from_east_and_from_north() -> None:
    blocked = warehouse_cells()
    assert blocked.shape == (HEIGHT, WIDTH) and int(blocked.sum()) == 768
    assert (blocked == blocked[:, ::-1]).all() and (blocked == blocked[::-1]).all()
    assert not blocked[[0, 1, 2, 17, 22, -1]].any() and not blocked[:, [0, 1, 2, 31, 32, -1]].any()


def test_a_map_file_reads_back_as_the_cells() -> None:
    blocked = np.array([[True, False, False], [False, False, True]])
    grid = parse_map(map_text(blocked).encode(), "made.map")
    assert (grid.blocked == blocked).all()


@pytest.mark.parametrize(("width", "height", "name"), [(0, 4, "width"), (4, 0, "height"), (2**20 + 1, 4, "width")])
def test_a_side_out_of_range_is_named(width: int, height: int, name: str) -> None:
    side = width if name == "width" else height
    with pytest.raises(ValueError, match=rf"^warehouse_cells: {name} must be from 1 to 2\^20 cells, got {side}$"):
        warehouse_cells(width, height)


def test_the_site_that_is_written_loads_and_pins_its_map(tmp_path: Path) -> None:
    site = write_warehouse(tmp_path, agents=3, zones=5, seed=9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["warehouse.map", "warehouse.toml"]
    assert (len(site.setup.agents), len(site.setup.zones), site.setup.seed) == (3, 5, 9)
    assert site.document["map"]["blake3"] is not None
    again = Scenario.loads(site_text(map_text(warehouse_cells()).encode(), agents=3, zones=5, seed=9), tmp_path)
    assert again.to_toml() == site.to_toml()

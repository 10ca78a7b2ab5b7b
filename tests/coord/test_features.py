"""A moment of a fleet as 128 numbers: what is counted, where, and that no order matters."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest

from coord import AGENT_DTYPE, NO_ZONE, ZONE_DTYPE, AgentMode, BadInput
from coord.fields.features import CHANNELS, COLUMNS, FEATURES, ROWS, fleet_features, site_bounds
from coord.frames.inputs import Inputs

BOUNDS = site_bounds((8, 16), 2.0)  # 32 × 16 m: tiles of 4 × 4 m


def fleet(seed: int, agents: int = 40, zones: int = 60) -> Inputs:
    draw = np.random.default_rng(seed)
    a, z = np.zeros(agents, AGENT_DTYPE), np.zeros(zones, ZONE_DTYPE)
    a["id"], z["id"] = np.arange(agents), np.arange(zones) * 3
    for table in (a, z):
        table["x"], table["y"] = draw.uniform(0, 32, len(table)), draw.uniform(0, 16, len(table))
    a["mode"] = draw.integers(0, 6, agents)
    a["zone"] = np.where(draw.random(agents) < 0.5, draw.integers(0, zones, agents) * 3, NO_ZONE)
    z["last_served_tick"] = draw.integers(0, 300, zones)
    return Inputs(agents=a, zones=z)


def test_every_agent_and_zone_is_counted_once() -> None:
    now = fleet(1)
    tiles = fleet_features(now, 200, BOUNDS).reshape(ROWS, COLUMNS, CHANNELS)
    assert tiles.dtype == np.float32 and tiles.size == FEATURES
    assert tiles[..., 0].sum() == (now.agents["mode"] == AgentMode.TRAVELLING).sum()
    assert tiles[..., 1].sum() == (now.agents["mode"] == AgentMode.WORKING).sum()
    assert tiles[..., 2].sum() == (now.agents["zone"] != NO_ZONE).sum()
    served = now.zones["last_served_tick"].astype(np.int64)
    assert tiles[..., 3].sum(dtype=np.float64) * 128 == np.clip(200 - served, 0, 100).sum()


def test_each_tile_is_a_rectangle_of_the_site() -> None:
    agents = np.zeros(2, AGENT_DTYPE)
    agents["id"], agents["mode"], agents["zone"] = [0, 1], AgentMode.TRAVELLING, NO_ZONE
    agents["x"], agents["y"] = [9.0, 31.9], [5.0, 15.9]
    tiles = fleet_features(Inputs(agents=agents), 0, BOUNDS).reshape(ROWS, COLUMNS, CHANNELS)
    assert np.argwhere(tiles[..., 0]).tolist() == [[1, 2], [3, 7]]


def test_the_order_of_rows_changes_no_bit() -> None:
    now = fleet(2)
    turned = now.copy()
    turned.agents = turned.agents[::-1].copy()
    assert (fleet_features(now, 9, BOUNDS) == fleet_features(turned, 9, BOUNDS)).all()


def test_who_stands_outside_counts_in_the_nearest_tile() -> None:
    agents = np.zeros(2, AGENT_DTYPE)
    agents["id"], agents["mode"], agents["zone"] = [0, 1], AgentMode.WORKING, NO_ZONE
    agents["x"], agents["y"] = [-5.0, 400.0], [-1.0, 400.0]
    tiles = fleet_features(Inputs(agents=agents), 0, BOUNDS).reshape(ROWS, COLUMNS, CHANNELS)
    assert tiles[0, 0, 1] == 1 and tiles[-1, -1, 1] == 1


def test_a_zone_that_is_gone_counts_nowhere_and_an_empty_site_is_all_zero() -> None:
    agents = np.zeros(1, AGENT_DTYPE)
    agents["zone"] = 77
    assert not fleet_features(Inputs(agents=agents), 5, BOUNDS).any()
    assert not fleet_features(Inputs(), 5, BOUNDS).any()
    now = fleet(3)
    now.agents["zone"] = 1  # no multiple of three: no zone has it
    assert not fleet_features(now, 5, BOUNDS).reshape(-1, CHANNELS)[:, 2].any()


@pytest.mark.parametrize("bounds", [(0.0, 0.0, 0.0, 1.0), (0.0, 2.0, 1.0, 1.0), (0.0, 0.0, float("nan"), 1.0)])
def test_bounds_without_an_area_are_refused(bounds: tuple[float, float, float, float]) -> None:
    with pytest.raises(BadInput, match="must have x0 < x1 and y0 < y1"):
        fleet_features(Inputs(), 0, bounds)


def test_the_host_s_float_mode_does_not_matter(hostile_mode: Callable[[], AbstractContextManager[None]]) -> None:
    now = fleet(9)

    def results() -> list[object]:
        bounds = [site_bounds((3 * i, 5 * i), 0.1, 0.3, 0.7) for i in range(1, 40)]
        return [*bounds, *(fleet_features(now, 5, of).tobytes() for of in bounds)]

    wanted = results()
    with hostile_mode():
        assert results() == wanted

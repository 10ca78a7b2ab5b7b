from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from coord import (
    AGENT_DTYPE,
    CONFIG_DTYPE,
    RING_DTYPE,
    AgentState,
    BadInput,
    CoordError,
    GaussianKernel,
    Grid,
    Obstacle,
    PlanConfig,
    PlannerError,
    Rings,
    WorkZone,
    plan,
)

AGENTS = [AgentState(id=4), AgentState(id=2)]
ZONES = [WorkZone(id=8), WorkZone(id=6)]


def with_agent(**change):
    return {"agents": [AGENTS[0], replace(AGENTS[1], **change)]}


def with_zone(**change):
    return {"zones": [ZONES[0], replace(ZONES[1], **change)]}


def with_obstacle(**change):
    return {"obstacles": [Obstacle(**{"id": 5, **change})]}


def with_config(**change):
    return {"config": replace(PlanConfig(), **change)}


POSITION = "must be finite and within 2^20 m, got"
CASES = [
    (with_agent(x=math.nan), f"agents[1].x {POSITION} nan (id 2)"),
    (with_agent(y=math.inf), f"agents[1].y {POSITION} inf (id 2)"),
    (with_agent(z=-(2.0**20) - 1), f"agents[1].z {POSITION} -1048577.0 (id 2)"),
    (with_agent(speed=math.nan), "agents[1].speed must be finite, got nan (id 2)"),
    (with_agent(energy=1.5), "agents[1].energy must be from 0 to 1, got 1.5 (id 2)"),
    (with_agent(energy=-0.25), "agents[1].energy must be from 0 to 1, got -0.25 (id 2)"),
    (with_agent(energy=math.nan), "agents[1].energy must be from 0 to 1, got nan (id 2)"),
    (with_agent(id=4), "agents[1].id must be unique, got 4 as in agents[0]"),
    (with_zone(x=-math.inf), f"zones[1].x {POSITION} -inf (id 6)"),
    (with_zone(radius=-1.0), "zones[1].radius must be from 0 to 2^20 m, got -1.0 (id 6)"),
    (with_zone(priority=math.inf), "zones[1].priority must be finite, got inf (id 6)"),
    (with_zone(energy_cost=math.nan), "zones[1].energy_cost must be finite, got nan (id 6)"),
    (with_zone(id=8), "zones[1].id must be unique, got 8 as in zones[0]"),
    (with_zone(id=2**32 - 1), "zones[1].id must not be the id that means no zone, got 4294967295 (id 4294967295)"),
    (with_obstacle(kind=3), "obstacles[0].kind must be 0 circle, 1 polygon or 2 box, got 3 (id 5)"),
    (with_obstacle(margin=-1.0), "obstacles[0].margin must be from 0 to 2^20 m, got -1.0 (id 5)"),
    (with_obstacle(kind=1, ring=1), "obstacles[0].ring must be below the number of rings, 1, got 1 (id 5)"),
    (with_obstacle(kind=2, ring=1), "obstacles[0].ring must be 0 where the kind is no polygon, got 1 (id 5)"),
    ({"kernels": [GaussianKernel(id=3, sigma=0.0)]}, "kernels[0].sigma must be from 2^-10 to 2^20 m, got 0.0 (id 3)"),
    (with_config(w_idle=math.nan), "config.w_idle must be finite, got nan"),
    (with_config(cutoff_sigmas=0.0), "config.cutoff_sigmas must be above 0 and at most 8, got 0.0"),
    (with_config(cutoff_sigmas=8.5), "config.cutoff_sigmas must be above 0 and at most 8, got 8.5"),
    (with_config(k_candidates=0), "config.k_candidates must be from 1 to 256, got 0"),
    (with_config(k_candidates=257), "config.k_candidates must be from 1 to 256, got 257"),
    (with_config(flags=16), "config.flags must have no bit above 3, got 16"),
    ({"now_tick": -1}, "now_tick must be a whole number from 0 to 2^64 - 1, got -1"),
    ({"now_tick": 2**64}, "now_tick must be a whole number from 0 to 2^64 - 1, got 18446744073709551616"),
]


def call(**change):
    inputs = {
        "agents": AGENTS, "zones": ZONES, "obstacles": [], "kernels": [], "config": PlanConfig(), "now_tick": 0,
        "rings": Rings.of([[(0, 0), (1, 0), (0, 1)]]), "grid": None, **change,
    }  # fmt: skip
    positional = [inputs.pop(name) for name in ("agents", "zones", "obstacles", "kernels", "config")]
    return plan(*positional, **inputs)


@pytest.mark.parametrize(("change", "message"), CASES, ids=[message.split(",")[0] for _, message in CASES])
def test_a_bad_value_is_refused_by_table_row_and_field(change, message):
    with pytest.raises(BadInput) as caught:
        call(**change)
    assert str(caught.value) == message
    assert isinstance(caught.value, ValueError)


def test_the_first_bad_row_of_an_array_is_named_by_the_row_the_caller_gave():
    agents = np.zeros(5, AGENT_DTYPE)
    agents["id"], agents["speed"] = [9, 3, 7, 1, 5], 1.0
    agents["y"][3] = np.nan
    with pytest.raises(BadInput) as caught:
        call(agents=agents)
    assert (caught.value.table, caught.value.row, caught.value.field) == ("agents", 3, "y")
    agents["y"][3], agents["reserved"][2] = 0, 1
    with pytest.raises(BadInput, match=r"^agents\[2\]\.reserved must be zero$"):
        call(agents=agents)


@pytest.mark.parametrize("planner", [5, 6, 200])
def test_a_planner_that_does_not_exist_yet_lists_those_that_do(planner):
    with pytest.raises(PlannerError) as caught:
        call(**with_config(planner=planner))
    assert (
        str(caught.value) == "config.planner must be one of the planners that exist "
        f"(0 greedy, 1 swap, 2 auction, 3 exact, 4 external), got {planner}"
    )
    assert isinstance(caught.value, (CoordError, ValueError))


def test_arrays_of_another_type_are_refused():
    with pytest.raises(TypeError, match=r"^config must be a PlanConfig or CONFIG_DTYPE\[1\]"):
        call(config=np.zeros(2, CONFIG_DTYPE))
    with pytest.raises(TypeError, match=r"^grid must be a coord.Grid or None, got str$"):
        call(grid="map")


def table(*rows):
    return np.array(list(rows), RING_DTYPE)


@pytest.mark.parametrize(
    ("entries", "points", "message"),
    [
        ([(0, 2)], 2, "rings[0].count must be at least 3, got 2"),
        ([(1, 3)], 4, "rings[0].first must be 0 (the counts before it), got 1"),
        ([(0, 3), (4, 3)], 7, "rings[1].first must be 3 (the counts before it), got 4"),
        ([(0, 3), (3, 4)], 6, "rings[1].count reaches point 7 of a table of 6 points"),
        ([(0, 3)], 5, "rings.points must be 3 points as the table says, got 5"),
    ],
)
def test_a_table_of_rings_that_does_not_tile_its_points_is_refused(entries, points, message):
    with pytest.raises(BadInput) as caught:
        call(rings=Rings(table(*entries), np.zeros((points, 2), np.float32)))
    assert str(caught.value) == message


def test_a_corner_that_is_no_position_is_named_by_its_ring():
    with pytest.raises(BadInput) as caught:
        Rings.of([[(0, 0), (1, 0), (0, 1)], [(0, 0), (1, math.nan), (0, 1)]])
    assert str(caught.value) == "rings[1].y of corner 1 must be finite and within 2^20 m, got nan"


def test_grids_that_do_not_fit_their_bytes_are_refused(page_hex):
    good = page_hex("records", "grid")
    grid = Grid.decode(good)
    assert (grid.width, grid.height, grid.cell_m, grid.x0, grid.y0) == (3, 2, 0.5, -1.0, 2.0)
    assert grid.blocked.tolist() == [[False, False, True], [False, False, False]]
    assert grid.encode() == good
    cases = [
        (good[:10], "grid.bytes must be at least 20 bytes long, got 10"),
        (good[:-1], "grid.bytes of 3 x 2 cells must be 22 long, got 21"),
        (good + b"\0", "grid.bytes of 3 x 2 cells must be 22 long, got 23"),
        (good[:-1] + b"\x08", "grid[1].padding bits past the last column must be zero"),
        (bytes(4) + good[4:], "grid.width must be from 1 to 2^20 cells, got 0"),
        (
            b"\0\0\x10\0\0\0\x10\0" + good[8:],
            "grid.width times height must be at most 2^26 cells, got 1048576 x 1048576",
        ),
        (good[:8] + bytes(4) + good[12:], "grid.cell_m must be from 2^-10 to 2^20 m, got 0.0"),
    ]
    for data, message in cases:
        with pytest.raises(BadInput) as caught:
            Grid.decode(data)
        assert str(caught.value) == message


def test_a_clock_ahead_sets_its_flag_and_counts_as_now():
    made = call(agents=[AgentState(id=1, last_seen_tick=50)], now_tick=10)
    assert made.flags == 1
    assert made.rows["stale"].tolist() == [0]


@pytest.mark.parametrize("speed", [0.0, -1.0, 1e-40])
def test_a_speed_that_is_no_normal_number_above_zero_is_unreachable(speed):
    made = call(agents=[AgentState(id=1, speed=speed)])
    assert made.rows["status"].tolist() == [4]
    assert made.rows["reason"].tolist() == [5]


def test_scores_that_overflow_saturate_with_a_flag():
    high = call(zones=[WorkZone(id=1, priority=3e38)], config=PlanConfig(w_priority=3e38))
    assert high.flags & 2
    assert sorted(high.rows["score"].tolist()) == [0, 2**31 - 1]
    low = call(agents=AGENTS[:1], zones=[WorkZone(id=1, priority=-3e38)], config=PlanConfig(w_priority=3e38))
    assert low.flags & 2
    assert low.rows["score"].tolist() == [-(2**31)]

"""The host's floating-point mode (another library may flush subnormals or round up) reaches no decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from coord import (
    AgentState,
    DecisionFrame,
    GaussianKernel,
    Grid,
    Obstacle,
    PlanConfig,
    Rings,
    Scenario,
    WorkZone,
    distance,
    explain,
    field_at,
    plan,
    simulate,
    travel_time,
    zone_blocked,
)

TINY = 1e-40  # subnormal in float32


def everything_small() -> list[object]:
    """What people call with numbers and dataclasses: every conversion to float32 happens inside."""
    agents = [
        AgentState(id=1, x=0.1, y=TINY, speed=1 / 3, energy=TINY, zone=1),
        AgentState(id=2, x=-0.7, y=0.3, speed=2 / 3, energy=0.9),
    ]
    zones = [
        WorkZone(id=1, x=1 / 3, y=0.7, priority=TINY, radius=TINY),
        WorkZone(id=2, x=9.1, priority=1 / 3, energy_cost=TINY),
    ]
    obstacles = [Obstacle(id=1, kind=1, x=0, y=0), Obstacle(id=2, x=5.3, y=0.1, radius=0.1, margin=0.2)]
    kernels = [GaussianKernel(id=1, x=0.1, sigma=0.7, weight=1 / 3), GaussianKernel(id=2, sigma=2.3, weight=-0.1)]
    config = PlanConfig(w_cover=TINY, w_avoid=1 / 3, min_energy=TINY, cutoff_sigmas=7.1, flags=1)
    rings = Rings.of([[(0.1, 0.7), (1 / 3, TINY), (0.2, 0.9)]])
    grid = Grid(5, 5, 2.1, -0.9, TINY, np.zeros((5, 5), np.bool_))
    made = plan(agents, zones, obstacles, kernels, config, now_tick=7, rings=rings, grid=grid)
    told = explain(agents, zones, obstacles, kernels, config, now_tick=7, rings=rings, grid=grid, agent=1)
    return [
        made.frame(3).encode(),
        made.rows.tobytes(),
        made.explain(2).to_json(),
        told.to_json(),
        field_at(kernels, 1 / 3, TINY).tobytes(),
        distance((0.1, 0.2, TINY), (1 / 3, 0.7, 0)).tobytes(),
        travel_time(agents[1], zones[1]),
        zone_blocked(zones[1], obstacles, rings=rings, grid=grid, agent=agents[1]),
        [record.encode() for record in (*agents, *zones, *obstacles, *kernels, config)],
        AgentState.decode(agents[0].encode()).energy,
        (grid.encode(), grid.cell_of(0.3, TINY), grid.centre_of(3, 1)),
    ]


def test_a_hostile_floating_point_mode_changes_no_plan_explanation_field_or_record(hostile_mode: Callable) -> None:
    expected = everything_small()
    with hostile_mode():
        found = everything_small()
    assert found == expected


@pytest.mark.parametrize("seed", range(4))
def test_a_hostile_floating_point_mode_changes_no_byte_of_a_fleet_s_plan(
    make_fleet: Callable, hostile_mode: Callable, seed: int
) -> None:
    fleet = make_fleet(seed)
    fleet.config = replace(fleet.config, w_switch=TINY)
    expected = fleet.plan()
    with hostile_mode():
        found = fleet.plan()
        frame = found.frame(0).encode()
    assert found.rows.tobytes() == expected.rows.tobytes()
    assert frame == expected.frame(0).encode()


def test_a_hostile_floating_point_mode_changes_no_frame_of_a_simulation(hostile_mode: Callable) -> None:
    text = 'version = 1\nname = "two"\nseed = 3\n[agents]\nrandom = 5\nspeed = 0.7\n[zones]\nrandom = 9\n'

    def frames() -> list[bytes]:
        out: list[bytes] = []

        def note(_: int, frame: DecisionFrame | None) -> None:
            out.append(b"" if frame is None else frame.encode())

        simulate(Scenario.loads(text), 30, on_tick=note)
        return out

    expected = frames()
    with hostile_mode():
        assert frames() == expected

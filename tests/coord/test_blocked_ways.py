"""With config flag bit 0: obstacles that hide whole parts of the plane change the time of a plan, never its bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from coord import Obstacle, PlanConfig, Rings, backend

needs_kernels = pytest.mark.skipif(backend.REFERENCE, reason="DROVEWAY_ISA=ref: nothing to compare the twins with")

WALL = [Obstacle(id=1, kind=2, x=200, y=200, radius=1, half_y=900)]
GAP = [
    Obstacle(id=1, kind=2, x=200, y=-360, radius=1, half_y=500),
    Obstacle(id=2, kind=2, x=200, y=760, radius=1, half_y=500),
]
SITES = {
    "a wall": WALL,
    "a wall with a gap": GAP,
    "a row of circles": [Obstacle(id=i, x=200, y=60.0 * i - 200, radius=45) for i in range(12)],
    "a polygon that touches itself": [Obstacle(id=5, kind=1, ring=0, margin=0.5)],
    "agents inside a box": [Obstacle(id=3, kind=2, x=90, y=200, radius=80, half_y=150)],
    "agents inside a circle": [Obstacle(id=3, x=90, y=200, radius=150)],
    "three hundred of all kinds": [
        Obstacle(id=i, kind=i % 3, x=37.0 * i % 400, y=91.7 * i % 400, radius=2 + i % 4, half_y=3, margin=i % 2)
        for i in range(300)
    ],
    "scattered boxes": [
        Obstacle(id=i, kind=2, x=37.0 * i % 400, y=91.0 * i % 400, radius=6, half_y=9) for i in range(25)
    ],
}


@needs_kernels
@pytest.mark.parametrize("planner", [0, 1])
@pytest.mark.parametrize("site", SITES)
def test_kernels_give_the_bits_of_the_twins_behind_obstacles(
    make_fleet: Callable, monkeypatch: pytest.MonkeyPatch, site: str, planner: int
) -> None:
    small = len(SITES[site]) > 100  # the twin takes its time
    for seed in range(1 if small else 2):
        fleet = make_fleet(seed, 6 if small else 25, 40 if small else 120, rich=False)
        fleet.agents["x"] *= 0.45
        fleet.zones["x"] = 210 + 0.45 * fleet.zones["x"]
        fleet.obstacles = SITES[site]
        fleet.rings = Rings.of([[(190, -50), (210, 450), (190, 450), (210, -50), (200, 200), (200, 200)]])
        fleet.config = PlanConfig(flags=1, planner=planner, k_candidates=5, max_travel_ticks=400)
        with monkeypatch.context() as patch:
            patch.setattr(backend, "REFERENCE", True)
            expected = fleet.plan()
        found = fleet.plan()
        assert found.rows.tobytes() == expected.rows.tobytes()
        assert (found.bound, found.work) == (expected.bound, expected.work)


@needs_kernels
def test_an_agent_with_every_way_blocked_is_unsafe(make_fleet: Callable) -> None:
    fleet = make_fleet(1, 400, 400, rich=False)
    fleet.agents["x"] *= 0.45
    fleet.zones["x"] = 210 + 0.45 * fleet.zones["x"]
    fleet.obstacles = WALL
    fleet.config = PlanConfig(flags=1)
    assert np.unique(fleet.plan().rows["status"]).tolist() == [6]

"""With config flag bit 0: obstacles that hide whole parts of the plane change the time of a plan, never its bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from coord import Obstacle, PlanConfig, Rings, backend
from coord.ground import obstacle_ref
from coord.ground.obstacle import shapes_of
from coord.records import OBSTACLE_DTYPE

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
@pytest.mark.parametrize("count", [31, 32, 33, 300, 1000])
def test_many_segments_asked_through_the_index_are_those_asked_one_by_one(count: int) -> None:
    """Where a call has many segments and obstacles the kernel makes an index of the obstacles first."""
    draw = np.random.Generator(np.random.PCG64(count))
    records = np.zeros(count, OBSTACLE_DTYPE)
    records["id"], records["kind"] = np.arange(count), np.arange(count) % 3
    for name, most in (("x", 900), ("y", 900), ("radius", 12), ("half_y", 20), ("margin", 2)):
        records[name] = draw.uniform(0, most, count)
    corners = [[(x, y), (x + 15, y + 3), (x + 4, y + 17)] for x, y in draw.uniform(0, 900, (7, 2)).tolist()]
    records["ring"] = np.where(records["kind"] == 1, np.arange(count) % 7, 0)
    shapes = shapes_of(records, Rings.of(corners))
    ends = draw.uniform(-10, 910, (4, 400)).astype(np.float32)
    ends[2:, :200] = ends[:2, :200] + draw.uniform(-20, 20, (2, 200)).astype(np.float32)
    ends[2:, 390:] = ends[:2, 390:]  # points
    found = backend.blocked_segments(*ends, shapes)
    alone = [bool(backend.blocked_segments(*(column[i : i + 1] for column in ends), shapes)[0]) for i in range(400)]
    assert found.tolist() == alone
    assert found.any()
    if count <= 300:
        assert obstacle_ref.blocked_segments(*ends, shapes).tolist() == alone


@needs_kernels
def test_an_agent_with_every_way_blocked_is_unsafe(make_fleet: Callable) -> None:
    fleet = make_fleet(1, 400, 400, rich=False)
    fleet.agents["x"] *= 0.45
    fleet.zones["x"] = 210 + 0.45 * fleet.zones["x"]
    fleet.obstacles = WALL
    fleet.config = PlanConfig(flags=1)
    assert np.unique(fleet.plan().rows["status"]).tolist() == [6]

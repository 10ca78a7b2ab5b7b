"""Bad scenes under all four planners, with queues, obstacles on the way and a grid: bounded, and one plan whatever the
order of rows, the clock, and zones that nobody can reach."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pytest

from coord import Grid, PlanConfig, plan
from coord.records import AGENT_DTYPE, KERNEL_DTYPE, NO_ZONE, OBSTACLE_DTYPE, ZONE_DTYPE, Records

NOW = 500
SECONDS_MAX = 60  # a guard against a search without an end; all of these take far less
PLANNERS = {"greedy": 0, "swap": 1, "auction": 2, "exact": 3}
WAYS = {"plain": (0, 0, False), "queues": (0, 3, False), "ways": (1, 0, False), "grid": (0, 2, True)}
Place = tuple[float, float] | None  # None: all over


@dataclass(frozen=True)
class Scene:
    """How many, where, and what the zones are worth."""

    agents: int = 90
    zones: int = 90
    start: Place = None
    goal: Place = None
    priorities: tuple[float, ...] = (1.0,)
    w_travel: float = 1.0


SCENES = {
    "all agents in one cell": Scene(start=(3.25, 3.5)),
    "all zones at one point": Scene(goal=(40.5, 40.5)),
    "everything at one point": Scene(start=(3.5, 3.5), goal=(3.5, 3.5)),
    "equal scores": Scene(w_travel=0.0),
    "a war for half as many zones": Scene(zones=45, goal=(50.5, 50.5), priorities=(5000.0,)),
    "a war for the good half": Scene(zones=89, start=(50.5, 50.5), priorities=(0.0, 1e4)),
    "many more agents": Scene(zones=5),
    "many more zones": Scene(agents=5),
    "scores that saturate": Scene(priorities=(1e38, -1e38, 0.0)),
    "no agents": Scene(agents=0),
    "no zones": Scene(zones=0),
}


def tables(scene: Scene, on_grid: bool, way: bool) -> list[Records]:
    rng = np.random.default_rng(5)
    agents, zones = np.zeros(scene.agents, AGENT_DTYPE), np.zeros(scene.zones, ZONE_DTYPE)
    for table, place in ((agents, scene.start), (zones, scene.goal)):
        x, y = rng.integers(0, 95, (2, len(table))) + np.float32(0.5)
        table["x"], table["y"] = (x, y) if place is None else place
    agents["id"], zones["id"] = np.arange(len(agents)) * 3 + 1, np.arange(len(zones)) * 2 + 5
    agents["speed"], agents["energy"], agents["memory_ticks"], agents["zone"] = 1, 0.9, 1000, NO_ZONE
    agents["last_seen_tick"], zones["last_served_tick"] = NOW, NOW - 100
    zones["radius"], zones["priority"] = 0.5, np.resize(scene.priorities, len(zones))
    obstacles, kernels = np.zeros(20 if way else 0, OBSTACLE_DTYPE), np.zeros(9, KERNEL_DTYPE)
    obstacles["id"], kernels["id"] = np.arange(len(obstacles)), np.arange(len(kernels))
    obstacles["x"], obstacles["y"], obstacles["radius"] = *rng.uniform(10, 90, (2, len(obstacles))), 4
    kernels["x"], kernels["y"], kernels["sigma"] = *rng.uniform(0, 100, (2, len(kernels))), 7
    kernels["weight"] = np.resize([1.5, -1.0], len(kernels))
    return [agents, zones, obstacles, kernels]


def cells() -> Grid:
    """A wall with a gap, and one free cell that nobody can reach."""
    blocked = np.zeros((101, 101), bool)
    blocked[60, :96] = True
    blocked[96:99, 96:99] = True
    blocked[97, 97] = False
    return Grid(101, 101, 1.0, 0.0, 0.0, blocked)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("scene", SCENES)
def test_a_bad_scene_has_one_plan_in_bounded_time(scene: str, planner: str, way: str) -> None:
    flags, later, on_grid = WAYS[way]
    config = PlanConfig(planner=PLANNERS[planner], flags=flags | later << 1, w_travel=SCENES[scene].w_travel)
    grid, rng = cells() if on_grid else None, np.random.default_rng(1)
    given = tables(SCENES[scene], on_grid, way == "ways")
    start = time.monotonic()
    made = plan(*given, config, now_tick=NOW, grid=grid)
    assert time.monotonic() - start < SECONDS_MAX
    for _ in range(2):
        shuffled = [rng.permutation(table) for table in given]
        assert plan(*shuffled, config, now_tick=NOW, grid=grid).event(0) == made.event(0)
    agents, zones, obstacles, kernels = (table.copy() for table in given)
    agents["last_seen_tick"] += 10**12
    zones["last_served_tick"] += 10**12
    later_plan = plan(agents, zones, obstacles, kernels, config, now_tick=NOW + 10**12, grid=grid)
    assert later_plan.rows.tobytes() == made.rows.tobytes()
    taken = made.rows["zone"][made.rows["zone"] != NO_ZONE]
    assert len(np.unique(taken)) == len(taken)
    assert made.bound >= made.stats.score_sum


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("planner", ["greedy", "swap", "exact"])
@pytest.mark.parametrize("scene", [name for name in SCENES if name != "no zones"])
def test_a_zone_that_nobody_can_reach_changes_no_assignment(scene: str, planner: str, way: str) -> None:
    flags, later, on_grid = WAYS[way]
    config = PlanConfig(planner=PLANNERS[planner], flags=flags | later << 1, w_travel=SCENES[scene].w_travel)
    grid = cells() if on_grid else None
    agents, zones, obstacles, kernels = tables(SCENES[scene], on_grid, way == "ways")
    far = zones[:1].copy()
    far["id"], far["x"], far["y"] = (2, 97.5, 97.5) if on_grid else (2, 1e6, 1e6)
    rows = plan(agents, zones, obstacles, kernels, config, now_tick=NOW, grid=grid).rows
    more = plan(agents, np.concatenate([zones, far]), obstacles, kernels, config, now_tick=NOW, grid=grid).rows
    got, same = rows["status"] == 0, ["agent", "zone", "score", "travel", "queue_index"]
    assert more[same].tolist() == rows[same].tolist()
    # An agent that could serve none is told so: a zone out of reach comes before what else was wrong.
    assert (more["status"][got] == 0).all()
    assert np.isin(more["status"][~got & (more["status"] != rows["status"])], [4]).all()

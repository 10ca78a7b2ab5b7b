"""Scenes that make planners slow elsewhere: everything on one point, all scores equal, nothing left to plan."""

from __future__ import annotations

import time

import numpy as np
import pytest

from coord import CoordHealth, CoordStatus, PlanConfig, backend, plan
from coord.records import AGENT_DTYPE, OBSTACLE_DTYPE, ZONE_DTYPE

N = 20_000
SECONDS_MAX = 60  # far more than any of these takes: a guard against a search without an end
needs_kernels = pytest.mark.skipif(
    backend.REFERENCE, reason="DROVEWAY_ISA=ref: 20,000 x 20,000 pairs in numpy take hours"
)


def tables(n: int = N, m: int = N):
    rng = np.random.default_rng(3)
    agents, zones = np.zeros(n, AGENT_DTYPE), np.zeros(m, ZONE_DTYPE)
    for table in (agents, zones):
        table["id"] = np.arange(len(table))
        table["x"], table["y"] = rng.uniform(0, 1000, (2, len(table)))
    agents["speed"], agents["energy"], agents["memory_ticks"], agents["zone"] = 1.5, 0.9, 50, 0xFFFFFFFF
    return agents, zones


def one_point(agents, zones):
    for table in (agents, zones):
        table["x"], table["y"] = 5, 5


def one_cell_and_one_point(agents, zones):
    agents["x"], agents["y"] = 500 + agents["x"] / 1000, 500 + agents["y"] / 1000
    zones["x"], zones["y"] = 20, 20


def equal_scores(agents, zones):
    zones["radius"] = 5000


def two_points(agents, zones):
    agents["x"], agents["y"] = 0, 0
    zones["x"], zones["y"] = np.where(zones["id"] % 2, 10, 900), 0


SCENES = [one_point, one_cell_and_one_point, equal_scores, two_points]


@needs_kernels
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("planner", [0, 1])
def test_twenty_thousand_in_a_bad_scene_are_planned_in_bounded_time_in_any_order_of_rows(scene, planner):
    agents, zones = tables()
    scene(agents, zones)
    rng, config, events = np.random.default_rng(1), PlanConfig(planner=planner), []
    for shuffle in (False, True):
        start = time.monotonic()
        if shuffle:
            agents, zones = rng.permutation(agents), rng.permutation(zones)
        made = plan(agents, zones, [], [], config, now_tick=40)
        assert time.monotonic() - start < SECONDS_MAX
        events.append(made.event(0))
        assert made.stats.assigned == N
        assert made.work <= 10 * N * 24 * 2  # ten sweeps over sets that add up to at most all agents
    assert events[0] == events[1]


@needs_kernels
@pytest.mark.parametrize("planner", [0, 1])
@pytest.mark.parametrize(("n", "m"), [(0, N), (N, 0), (N, 300), (300, N)])
def test_many_more_agents_than_zones_and_the_other_way_round(planner, n, m):
    agents, zones = tables(n, m)
    made = plan(agents, zones, [], [], PlanConfig(planner=planner), now_tick=40)
    assert made.stats.assigned == min(n, m)
    idle = CoordStatus.CONFLICT if m else CoordStatus.IDLE_NO_ZONE
    assert (made.rows["status"] == idle).sum() == max(0, n - m)
    shuffled = np.random.default_rng(1)
    other = plan(
        shuffled.permutation(agents), shuffled.permutation(zones), [], [], PlanConfig(planner=planner), now_tick=40
    )
    assert made.event(0) == other.event(0)


@needs_kernels
@pytest.mark.parametrize("planner", [0, 1])
def test_when_every_zone_is_blocked_all_twenty_thousand_agents_are_unsafe(planner):
    agents, zones = tables()
    wall = np.zeros(1, OBSTACLE_DTYPE)
    wall["x"], wall["y"], wall["radius"] = 500, 500, 5000
    made = plan(agents, zones, wall, [], PlanConfig(planner=planner), now_tick=40)
    assert (made.rows["status"] == CoordStatus.UNSAFE_ASSIGNMENT).all()
    assert made.health == CoordHealth.BLOCKED
    assert made.work == 0

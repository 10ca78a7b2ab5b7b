from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coord import (
    COORD_UNREACHABLE_TRAVEL_TIME,
    AgentMode,
    AgentReadiness,
    AgentState,
    CoordStatus,
    GaussianKernel,
    Grid,
    Obstacle,
    PlanConfig,
    Rings,
    WorkZone,
    ZoneReadiness,
    agent_can_travel,
    agent_clock_ahead,
    agent_memory_remaining_ticks,
    agent_memory_valid,
    agent_readiness,
    agent_stale_ticks,
    candidate_facts,
    candidate_status,
    distance,
    distance_sq,
    plan,
    score_candidate,
    travel_time,
    zone_blocked,
    zone_idle_ticks,
    zone_readiness,
)

READY = AgentState(id=1, energy=0.5, memory_ticks=50, last_seen_tick=100)
CONFIG = PlanConfig()


def test_distance_five_at_speed_one_and_a_half_takes_four_ticks():
    assert travel_time(AgentState(id=1, speed=1.5), WorkZone(id=1, x=3, y=4)) == 4
    assert float(distance((0, 0, 0), (3, 4, 0))) == 5.0
    assert distance_sq((0, 0, 0), (1, 2, 2)).dtype == np.float32


def test_memory_fifty_is_valid_at_fifty_and_not_at_fifty_one():
    assert agent_memory_valid(READY, 150)
    assert agent_memory_remaining_ticks(READY, 150) == 0
    assert not agent_memory_valid(READY, 151)
    assert agent_memory_remaining_ticks(READY, 151) == 0
    assert agent_memory_remaining_ticks(READY, 120) == 30


def test_an_agent_seen_in_the_future_is_not_stale():
    assert agent_stale_ticks(READY, 90) == 0
    assert agent_clock_ahead(READY, 90)
    assert not agent_clock_ahead(READY, 100)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, AgentReadiness.READY),
        ({"x": math.nan, "mode": AgentMode.FAULT}, AgentReadiness.INVALID),
        ({"energy": math.inf}, AgentReadiness.INVALID),
        ({"mode": AgentMode.CHARGING, "last_seen_tick": 0}, AgentReadiness.BAD_MODE),
        ({"mode": AgentMode.FAULT}, AgentReadiness.BAD_MODE),
        ({"mode": 17}, AgentReadiness.BAD_MODE),
        ({"mode": AgentMode.OFFLINE, "last_seen_tick": 0}, AgentReadiness.OFFLINE),
        ({"last_seen_tick": 49, "speed": 0.0}, AgentReadiness.MEMORY_EXPIRED),
        ({"last_seen_tick": 50}, AgentReadiness.READY),
        ({"speed": 0.0, "energy": 0.0}, AgentReadiness.STOPPED),
        ({"speed": 1e-40}, AgentReadiness.STOPPED),
        ({"speed": -1.0}, AgentReadiness.STOPPED),
        ({"energy": 0.04}, AgentReadiness.LOW_ENERGY),
        ({"energy": 0.05}, AgentReadiness.READY),
        ({"mode": AgentMode.WORKING}, AgentReadiness.READY),
    ],
)
def test_readiness_is_the_first_reason_that_holds(change, expected):
    assert agent_readiness(replace(READY, **change), CONFIG, 100) == expected


def test_more_stale_than_the_config_allows_is_expired_whatever_the_memory():
    trusted = replace(READY, memory_ticks=10**6, last_seen_tick=0)
    assert agent_readiness(trusted, CONFIG, 100) == AgentReadiness.READY
    assert agent_readiness(trusted, CONFIG, 101) == AgentReadiness.MEMORY_EXPIRED


def test_speed_must_be_a_normal_number_above_zero():
    speeds = [0.0, -0.0, -1.0, 1e-40, math.inf, math.nan, 2.0**-126]
    assert [agent_can_travel(AgentState(id=1, speed=s)) for s in speeds] == [False] * 6 + [True]
    assert travel_time(AgentState(id=1, speed=0.0), WorkZone(id=1)) == COORD_UNREACHABLE_TRAVEL_TIME


def test_travel_is_zero_within_the_radius_and_unreachable_from_two_to_the_32():
    zone = WorkZone(id=1, x=3, y=4, radius=5)
    assert travel_time(AgentState(id=1), zone) == 0
    assert travel_time(AgentState(id=1), replace(zone, radius=4.99)) == 5
    far = WorkZone(id=1, x=2.0**20)
    assert travel_time(AgentState(id=1, speed=2.0**-11), far) == 2**31
    assert travel_time(AgentState(id=1, speed=2.0**-12), far) == COORD_UNREACHABLE_TRAVEL_TIME


def test_zone_readiness_and_idle():
    zone = WorkZone(id=1, x=2.0, last_served_tick=30)
    assert zone_readiness(zone, []) == ZoneReadiness.READY
    assert zone_readiness(replace(zone, x=math.nan), []) == ZoneReadiness.INVALID
    assert zone_readiness(zone, [Obstacle(id=1, radius=2.0)]) == ZoneReadiness.BLOCKED
    assert (zone_idle_ticks(zone, 100), zone_idle_ticks(zone, 10)) == (70, 0)


SQUARE = Rings.of([[(0, 0), (4, 0), (4, 4), (0, 4)], [(0, 0), (4, 0), (4, 4), (2, 1), (0, 4)]])


@pytest.mark.parametrize(
    ("obstacle", "blocked", "clear"),
    [
        (Obstacle(id=1, radius=2.0, margin=0.5), [(2.5, 0), (0, -2.5), (1, 1)], [(2.51, 0), (2, 2)]),
        (Obstacle(id=1, kind=2, radius=2.0, half_y=1.0), [(2, 1), (0, 0), (-2, -1)], [(2.01, 0), (0, 1.01)]),
        (Obstacle(id=1, kind=2, radius=2.0, half_y=1.0, margin=1), [(3, 0), (0, 2)], [(2.8, 1.8), (3.01, 0)]),
        (Obstacle(id=1, kind=1, ring=0), [(0, 0), (2, 2), (4, 2)], [(4.01, 2), (-0.01, 0)]),
        (Obstacle(id=1, kind=1, ring=0, margin=1), [(5, 2), (2, -1)], [(5.01, 2), (4.9, 4.9)]),
        (Obstacle(id=1, kind=1, ring=1), [(1, 1), (3.5, 3), (0.2, 3)], [(2, 3), (2, 1.5)]),
        (Obstacle(id=1, kind=1, ring=0, radius=9.0), [(4, 4)], [(4.5, 4)]),
    ],
)
def test_a_point_at_the_reach_is_blocked_and_one_beyond_is_not(obstacle, blocked, clear):
    for x, y in blocked:
        assert zone_blocked(WorkZone(id=1, x=x, y=y), [obstacle], rings=SQUARE)
    for x, y in clear:
        assert not zone_blocked(WorkZone(id=1, x=x, y=y), [obstacle], rings=SQUARE)


@pytest.mark.parametrize(
    ("obstacle", "crossing", "passing"),
    [
        (Obstacle(id=1, radius=2.0), ((-5, 2), (5, 2)), ((-5, 2.01), (5, 2.01))),
        (Obstacle(id=1, kind=2, radius=2.0, half_y=1.0), ((-5, 0), (5, 0)), ((-5, 1.01), (5, 1.01))),
        (Obstacle(id=1, kind=2, radius=2.0, half_y=1.0), ((-5, 1), (5, 1)), ((3, -5), (3, 5))),
        (Obstacle(id=1, kind=2, radius=2.0, half_y=1.0, margin=1), ((3, -5), (3, 5)), ((-3, 3), (4, 2.1))),
        (Obstacle(id=1, kind=1, ring=1), ((-1, 0.5), (9, 0.5)), ((2, 3), (2, 9))),
        (Obstacle(id=1, kind=1, ring=0), ((-1, 5), (5, -1)), ((-1, 5.5), (5, 5.5))),
    ],
)
def test_a_way_is_blocked_where_it_comes_within_reach(obstacle, crossing, passing):
    for ways, expected in ((crossing, True), (passing, False)):
        (ax, ay), (bx, by) = ways
        for start, end in (((ax, ay), (bx, by)), ((bx, by), (ax, ay))):
            agent, zone = AgentState(id=1, x=start[0], y=start[1]), WorkZone(id=1, x=end[0], y=end[1])
            assert not zone_blocked(zone, [obstacle], rings=SQUARE)
            assert zone_blocked(zone, [obstacle], rings=SQUARE, agent=agent) is expected


def test_cells_of_a_grid_block_and_separate():
    grid = Grid(5, 1, 1.0, 0.0, 0.0, np.array([[False, False, True, False, False]]))
    agents, zones = [AgentState(id=1, x=0.5, y=0.5)], [WorkZone(id=1, x=3.5, y=0.5), WorkZone(id=2, x=2.5, y=0.5)]
    assert [zone_blocked(zone, [], grid=grid) for zone in zones] == [False, True]
    assert zone_blocked(WorkZone(id=3, x=5.0, y=0.5), [], grid=grid)
    made = plan(agents, zones[:1], [], [], CONFIG, now_tick=0, grid=grid)
    assert made.assignments[0].status == CoordStatus.UNREACHABLE
    made = plan(agents, zones, [], [], CONFIG, now_tick=0, grid=grid)
    assert made.assignments[0].status == CoordStatus.UNSAFE_ASSIGNMENT
    made = plan(agents, [*zones, WorkZone(id=3, x=1.5, y=0.5)], [], [], CONFIG, now_tick=0, grid=grid)
    assert made.assignments[0].zone == 3


FAR = WorkZone(id=5, x=5000)


@pytest.mark.parametrize(
    ("agent", "zone", "taken", "expected"),
    [
        ({"x": math.nan}, {"need_caps": 1}, False, CoordStatus.INVALID_INPUT),
        ({"last_seen_tick": 0, "caps": 0}, {"need_caps": 1}, True, CoordStatus.STALE_AGENT),
        ({"mode": AgentMode.OFFLINE}, {"need_caps": 1}, True, CoordStatus.AGENT_NOT_READY),
        ({"energy": 0.0}, {"need_caps": 1}, True, CoordStatus.MISSING_CAPABILITY),
        ({}, {"energy_cost": 0.6, "x": 0}, True, CoordStatus.LOW_ENERGY),
        ({"energy": 0.01}, {}, True, CoordStatus.LOW_ENERGY),
        ({}, {"x": 0.0}, True, CoordStatus.ZONE_BLOCKED),
        ({}, {"x": 5000.0}, True, CoordStatus.UNREACHABLE),
        ({"speed": 0.0}, {"x": 50.0}, True, CoordStatus.UNREACHABLE),
        ({}, {"x": 50.0}, True, CoordStatus.CONFLICT),
        ({}, {"x": 50.0}, False, CoordStatus.OK),
    ],
)
def test_a_candidate_has_the_first_failing_test(agent, zone, taken, expected):
    facts = candidate_facts(
        replace(READY, **agent), replace(WorkZone(id=5), **zone), [Obstacle(id=1, radius=1.0)], [], CONFIG,
        now_tick=100, taken=taken,
    )  # fmt: skip
    assert candidate_status(facts) == expected


def test_the_score_is_the_sum_of_its_terms_from_left_to_right():
    agent, zone = replace(READY, zone=5, speed=1.5), WorkZone(id=5, x=30, y=40, priority=1.25, last_served_tick=77)
    kernels = [
        GaussianKernel(id=1, x=28, y=41, sigma=9, weight=0.4),
        GaussianKernel(id=2, x=33, y=40, sigma=5, weight=-0.3),
    ]
    facts = candidate_facts(agent, zone, [], kernels, CONFIG, now_tick=100)
    score = score_candidate(facts, CONFIG)
    total = np.float32(0)
    for i, term in enumerate(score.terms().values()):
        total = np.float32(term) if i == 0 else total + np.float32(term)
    assert score.value == float(total)
    assert score.score_i32 == round(float(total) * 65536)
    assert list(score.terms()) == ["priority", "idle", "cover", "avoid", "travel", "switch"]
    assert score.switch == float(np.float32(0.1))
    assert score.avoid < 0 < score.cover
    made = plan([agent], [zone], [], kernels, CONFIG, now_tick=100)
    assert made.assignments[0].score == score.score_i32


def test_the_order_of_kernels_never_changes_the_facts_of_a_candidate(make_fleet):
    fleet = make_fleet(2842, 6, 6)
    agent, zone = AgentState.from_record(fleet.agents[0]), WorkZone.from_record(fleet.zones[0])
    rest = {"now_tick": 1000, "rings": fleet.rings, "grid": fleet.grid}
    facts = {
        candidate_facts(agent, zone, fleet.obstacles, kernels, fleet.config, **rest)
        for kernels in (
            fleet.kernels,
            fleet.kernels[::-1],
            np.sort(fleet.kernels, order="id"),
            np.roll(fleet.kernels, 7),
        )
    }
    assert len(facts) == 1


@given(st.integers(0, 2**20))
@settings(max_examples=15, deadline=None)
def test_stand_alone_candidates_agree_with_the_plan(make_fleet, seed):
    fleet = make_fleet(seed, 6, 6)
    made = fleet.plan()
    agents = {int(r["id"]): AgentState.from_record(r) for r in fleet.agents}
    zones = {int(r["id"]): WorkZone.from_record(r) for r in fleet.zones}
    for row in made.assignments:
        if row.status != CoordStatus.OK or row.score == 0:
            continue
        facts = candidate_facts(
            agents[row.agent], zones[row.zone], fleet.obstacles, fleet.kernels, fleet.config, now_tick=1000,
            rings=fleet.rings, grid=fleet.grid,
        )  # fmt: skip
        assert candidate_status(facts) == CoordStatus.OK
        assert facts.travel == row.travel
        assert score_candidate(facts, fleet.config).score_i32 == row.score


def status_of(agent, zones, obstacles=()):
    others = [] if isinstance(agent, AgentState) else agent[1:]
    first = agent if isinstance(agent, AgentState) else agent[0]
    made = plan([first, *others], zones, obstacles, [], PlanConfig(k_candidates=1), now_tick=100)
    return next(row for row in made.assignments if row.agent == first.id)


def test_the_row_of_an_agent_without_a_zone_says_why():
    near, rich, picky = WorkZone(id=1, x=3), WorkZone(id=2, energy_cost=0.9), WorkZone(id=3, need_caps=4)
    wall = [Obstacle(id=1, x=900, radius=1)]
    assert status_of(READY, [near]).status == CoordStatus.OK
    assert status_of(READY, []).status == CoordStatus.IDLE_NO_ZONE
    assert status_of(replace(READY, last_seen_tick=0), [near]).status == CoordStatus.STALE_AGENT
    assert status_of(replace(READY, mode=3), [near]).status == CoordStatus.AGENT_NOT_READY
    assert status_of(replace(READY, energy=0.01), [near]).status == CoordStatus.LOW_ENERGY
    assert status_of(READY, [FAR, rich, picky]).status == CoordStatus.UNREACHABLE
    assert status_of(replace(READY, speed=0.0), [near]).status == CoordStatus.UNREACHABLE
    assert status_of(READY, [rich, picky]).status == CoordStatus.LOW_ENERGY
    assert status_of(READY, [picky]).status == CoordStatus.MISSING_CAPABILITY
    assert status_of(READY, [FAR, WorkZone(id=9, x=900)], wall).status == CoordStatus.UNSAFE_ASSIGNMENT
    closer = replace(READY, id=2, x=2.0)
    assert status_of([READY, closer], [near, FAR]).status == CoordStatus.CONFLICT
    assert status_of([READY, closer], [near, WorkZone(id=9, x=900)], wall).status == CoordStatus.UNSAFE_ASSIGNMENT


def test_a_working_agent_keeps_its_zone_and_both_are_withheld():
    working = replace(READY, id=2, mode=AgentMode.WORKING, zone=7, x=400.0)
    zone = WorkZone(id=7, priority=2.0, last_served_tick=60)
    made = plan([READY, working], [zone], [], [], CONFIG, now_tick=100)
    kept = made.assignments[1]
    assert (kept.zone, kept.status, kept.score, kept.travel, kept.idle, kept.mode) == (7, 0, 0, 0, 40, 2)
    assert made.assignments[0].status == CoordStatus.IDLE_NO_ZONE
    both = plan([replace(working, id=1), working], [zone], [], [], CONFIG, now_tick=100)
    assert [row.zone for row in both.assignments] == [7, 2**32 - 1]
    gone = plan([working], [replace(zone, id=8)], [], [], CONFIG, now_tick=100)
    assert gone.assignments[0].zone == 8
    stale = plan([replace(working, last_seen_tick=0), READY], [zone], [], [], CONFIG, now_tick=100)
    assert [row.status for row in stale.assignments] == [CoordStatus.OK, CoordStatus.STALE_AGENT]

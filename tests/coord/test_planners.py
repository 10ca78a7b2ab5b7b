"""Planners against brute force, and the properties that no input may break."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from coord import CoordHealth, CoordStatus, backend, plan_greedy, plan_swap
from coord.planning import exchange_sets, plan_ref
from coord.planning.problem import NONE
from coord.planning.situation import situation
from coord.planning.swap import swap_assignment
from tensor import _kernels as tensor_kernels

seeds = st.integers(0, 2**20)
needs_kernels = pytest.mark.skipif(backend.REFERENCE, reason="DROVEWAY_ISA=ref: nothing to compare the twins with")


def problem_of(fleet):
    return situation(
        fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels, fleet.config, now_tick=fleet.now_tick,
        rings=fleet.rings, grid=fleet.grid,
    ).problem  # fmt: skip


def pair_tables(problem):
    """(score, travel, feasible), each [n, m]."""
    rows = [plan_ref.pairs(problem, problem.agents, a) for a in range(len(problem.agents))]
    shape = (len(rows), len(problem.zones))
    score = np.array([r.score for r in rows], np.int64).reshape(shape)
    return (
        score,
        np.array([r.travel for r in rows]).reshape(shape),
        np.array([r.feasible for r in rows], bool).reshape(shape),
    )


@needs_kernels
@given(seed=seeds, n=st.integers(0, 90), m=st.integers(0, 200))
@settings(max_examples=15, deadline=None)
def test_kernels_give_the_bits_of_the_twins(make_fleet, seed, n, m):
    problem = problem_of(make_fleet(seed, n, m))
    found, wanted = backend.candidates(problem, 24), plan_ref.candidates(problem, 24)
    assert found.zone.tobytes() == wanted.zone.tobytes()
    assert found.score.tobytes() == wanted.score.tobytes()
    assert found.count.tobytes() == wanted.count.tobytes()
    greedy = plan_ref.greedy(problem)
    assert backend.greedy(problem).tobytes() == greedy.tobytes()
    assert backend.greedy(problem, found).tobytes() == greedy.tobytes()
    for budget in (0, 1, 50):
        ours, theirs = backend.swap(problem, found, greedy, budget), plan_ref.swap(problem, found, greedy, budget)
        assert ours[0].tobytes() == theirs[0].tobytes()
        assert ours[1:] == theirs[1:]
    for ours, theirs in zip(backend.pair_values(problem, greedy), plan_ref.pair_values(problem, greedy), strict=True):
        assert ours.tobytes() == theirs.tobytes()
    taken = np.zeros(len(problem.zones), np.uint8)
    taken[greedy[greedy != NONE][::2]] = 1
    idle = problem.agents.take(np.flatnonzero(greedy == NONE))
    assert (
        backend.leftover_status(problem, idle, taken).tobytes()
        == plan_ref.leftover_status(problem, idle, taken).tobytes()
    )


@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_greedy_leaves_no_better_pair_and_swap_no_gain(make_fleet, seed):
    problem = problem_of(make_fleet(seed))
    score, travel, feasible = pair_tables(problem)
    assigned = backend.greedy(problem)
    holder = {int(z): a for a, z in enumerate(assigned) if z != NONE}
    for a, z in np.argwhere(feasible):
        key = (-score[a, z], travel[a, z], z, a)
        own, b = assigned[a], holder.get(int(z))
        blocked_by_own = own != NONE and (-score[a, own], travel[a, own], own, a) <= key
        blocked_by_holder = b is not None and (-score[b, z], travel[b, z], z, b) <= key
        assert blocked_by_own or blocked_by_holder
    found = backend.candidates(problem, 24)
    improved, _, bound = backend.swap(problem, found, assigned, 0)
    after = {int(z): a for a, z in enumerate(improved) if z != NONE}
    assert len(after) == (improved != NONE).sum()
    assert feasible[np.flatnonzero(improved != NONE), improved[improved != NONE]].all()
    if bound:
        return
    for a in range(len(improved)):
        for z in found.zone[a, : found.count[a]].tolist():
            own, b = int(improved[a]), after.get(z)
            if z == own:
                continue
            if b is None:
                assert own != NONE
                assert score[a, z] <= score[a, own]
            elif own != NONE and feasible[b, own]:
                assert score[a, z] + score[b, own] <= score[a, own] + score[b, z]


@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_a_larger_budget_never_makes_the_sum_smaller(make_fleet, seed):
    problem = problem_of(make_fleet(seed, 30, 60, rich=False, k_candidates=24))
    found, start = backend.candidates(problem, 24), backend.greedy(problem)
    total = int(backend.swap(problem, found, start, 0)[1])
    sums = []
    for budget in sorted({1, 5, 40, 200, max(1, total - 1), total, total + 1}):
        assigned, tests, bound = backend.swap(problem, found, start, budget)
        assert tests == min(budget, total)
        assert bound == (budget < total) or total == 0
        sums.append(int(backend.pair_values(problem, assigned)[0].sum()))
    assert sums == sorted(sums)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_the_reported_bound_is_never_below_the_optimum(make_fleet, n):
    for seed in range(12):
        fleet = make_fleet(seed, n, 8)
        problem = problem_of(fleet)
        score, _, feasible = pair_tables(problem)
        worth = np.where(feasible, np.maximum(score, 0), 0)
        rows, columns = linear_sum_assignment(worth, maximize=True)
        made = fleet.plan()
        assert made.bound >= worth[rows, columns].sum() >= 0
        assert made.bound >= made.stats.score_sum
        assert made.gap >= 0


@pytest.mark.parametrize(
    ("least", "fine", "whole"), [(32, 4096, 16_384), (2, 4096, 16_384), (2, 30, 16_384), (2, 30, 40)]
)
@given(seed=seeds, n=st.integers(0, 70), m=st.integers(0, 70))
@settings(max_examples=8, deadline=None)
def test_swap_among_few_agents_and_zones_is_the_dense_definition(make_fleet, least, fine, whole, seed, n, m):
    fleet = make_fleet(seed, n, m, k_candidates=6)
    problem = problem_of(fleet)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange_sets, "SET_MIN", least)
        patch.setattr(exchange_sets, "FINE_MAX", fine)
        patch.setattr(exchange_sets, "WHOLE_MAX", whole)
        total = swap_assignment(problem, 6, 2**63).tests
        sums = []
        for budget in (1, 40, total // 2, total, 2**63):
            made = swap_assignment(problem, 6, budget)
            wanted = plan_ref.swap_plan(problem, 6, budget)
            assert made.assigned.tobytes() == wanted[0].tobytes()
            assert (made.tests, made.bound_reached) == wanted[1:]
            assert made.tests <= budget or budget == 0
            if budget:
                sums.append(int(backend.pair_values(problem, made.assigned)[0].sum(dtype=np.int64)))
        made, wanted = swap_assignment(problem, 6, 0), plan_ref.swap_plan(problem, 6, 0)
        assert made.assigned.tobytes() == wanted[0].tobytes()
        assert made.bound_reached or len(problem.agents) <= whole
    if (backend.greedy(problem) != NONE).all():
        assert sums == sorted(sums)


def test_exchange_sets_are_nested_and_hold_the_longest_ways():
    rng = np.random.default_rng(0)
    for n in (0, 63, 64, 1000, 5000):
        travel, assigned = rng.integers(0, 50, n).astype(np.uint32), rng.permutation(n).astype(np.int32)
        assigned[rng.random(n) < 0.2] = NONE
        served = np.flatnonzero(assigned != NONE)
        order = served[np.lexsort((served, -travel[served].astype(np.int64)))]
        sets = list(exchange_sets.exchange_sets(travel, assigned))
        share, factor = (2, 2) if n <= 4096 else (8, 3)
        sizes = [len(served) // share]
        while sizes[-1] // factor >= 32:
            sizes.append(sizes[-1] // factor)
        assert [s.tolist() for s in sets] == [np.sort(order[:k]).tolist() for k in sizes[::-1] if k >= 32]


@pytest.mark.parametrize(("n", "share"), [(600, 0.04), (3000, 0.04)])
def test_swap_is_within_a_few_percent_of_the_least_travel(make_fleet, n, share):
    fleet = make_fleet(n, n, n, rich=False, w_priority=0.0, w_idle=0.0, w_switch=0.0, max_travel_ticks=65536)
    fleet.agents["speed"], fleet.kernels = 0.02, fleet.kernels[:0]
    problem = problem_of(fleet)
    dx, dy = (np.subtract.outer(getattr(problem.zones, v), getattr(problem.agents, v)) for v in "xy")
    ticks = np.ceil(np.hypot(dx, dy) / problem.agents.speed[0])
    rows, columns = linear_sum_assignment(ticks)
    least = ticks[rows, columns].sum()
    travel = (
        plan_swap(fleet.agents, fleet.zones, [], [], fleet.config, now_tick=1000).rows["travel"].sum(dtype=np.int64)
    )
    greedy = (
        plan_greedy(fleet.agents, fleet.zones, [], [], fleet.config, now_tick=1000).rows["travel"].sum(dtype=np.int64)
    )
    assert greedy > 1.2 * least
    assert 0.999 * least <= travel <= (1 + share) * least  # distances here are in float64


def test_swap_takes_most_of_what_greedy_leaves_in_travel(make_fleet):
    fleet = make_fleet(1, 300, 300, rich=False)
    fleet.zones["priority"], fleet.zones["last_served_tick"] = 1.0, 0
    fleet.kernels = fleet.kernels[:0]
    score, _, feasible = pair_tables(problem_of(fleet))
    assert feasible.all()
    rows, columns = linear_sum_assignment(score, maximize=True)
    best = score[rows, columns].sum()
    inputs = (fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels, fleet.config)
    greedy = plan_greedy(*inputs, now_tick=1000).stats.score_sum
    swapped = plan_swap(*inputs, now_tick=1000).stats.score_sum
    assert greedy < swapped <= best
    assert best - swapped < 0.3 * (best - greedy)


@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_the_order_of_rows_never_changes_a_byte(make_fleet, seed):
    fleet = make_fleet(seed)
    rng = np.random.default_rng(seed)
    shuffled = replace(
        fleet, agents=rng.permutation(fleet.agents), zones=rng.permutation(fleet.zones),
        obstacles=rng.permutation(fleet.obstacles), kernels=rng.permutation(fleet.kernels),
    )  # fmt: skip
    assert fleet.plan().event(0) == shuffled.plan().event(0)


@given(seed=seeds, shift=st.integers(1, 2**40))
@settings(max_examples=15, deadline=None)
def test_shifting_all_ticks_leaves_the_rows(make_fleet, seed, shift):
    fleet = make_fleet(seed)
    later = replace(fleet, agents=fleet.agents.copy(), zones=fleet.zones.copy(), now_tick=fleet.now_tick + shift)
    later.agents["last_seen_tick"] += np.uint64(shift)
    later.zones["last_served_tick"] += np.uint64(shift)
    assert later.plan().rows.tobytes() == fleet.plan().rows.tobytes()


@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_a_zone_that_nobody_can_reach_changes_no_assignment(make_fleet, seed):
    fleet = make_fleet(seed, rich=False)
    more = replace(fleet, zones=np.append(fleet.zones, fleet.zones[:1]))
    more.zones["id"][-1], more.zones["x"][-1], more.zones["priority"][-1] = 10**6, 10**6, 100.0
    assert more.plan().rows.tobytes() == fleet.plan().rows.tobytes()


@pytest.mark.parametrize("planner", [0, 1])
def test_any_number_of_threads_gives_one_digest(make_fleet, planner):
    fleet = make_fleet(11, 700, 900, rich=False, planner=planner)
    before, digests = tensor_kernels.threads(), set()
    try:
        for threads in (1, 2, 3, 7):
            tensor_kernels.set_threads(threads)
            digests.add(fleet.plan().event(0))
    finally:
        tensor_kernels.set_threads(before)
    assert len(digests) == 1


def test_every_build_gives_one_digest(python, repository):
    code = (
        "import sys, hashlib, json; sys.path.insert(0, sys.argv[1] if len(sys.argv) > 1 else "
        f"{str(repository / 'tests' / 'coord')!r})\n"
        "from conftest import random_fleet\n"
        "from coord import _kernels\n"
        "events = b''.join(random_fleet(seed, 30, 40).plan().event(0) for seed in range(8))\n"
        "print(json.dumps([_kernels.isa(), hashlib.sha256(events).hexdigest()]))"
    )
    here = python(code)
    builds = ["ref"] + (["v3", "v4"] if json.loads(here.stdout)[0] == "v4" else ["v3"] if "v3" in here.stdout else [])
    found = [json.loads(python(code, DROVEWAY_ISA=isa).stdout) for isa in builds]
    assert [isa for isa, _ in found] == builds
    assert len({digest for _, digest in found}) == 1


def crowd(make_fleet, n: int, **config):
    fleet = make_fleet(0, n, n, rich=False, **config)
    for table in (fleet.agents, fleet.zones):
        table["x"], table["y"] = 5.0, 5.0
    fleet.zones["priority"], fleet.zones["last_served_tick"] = 1.0, 0
    return fleet


@needs_kernels
@pytest.mark.parametrize(
    "case", ["one point", "equal scores", "saturating", "speeds", "one wanted zone", "one current zone"]
)
@pytest.mark.parametrize("planner", [0, 1])
def test_two_thousand_agents_that_all_want_the_same_are_planned_quickly(make_fleet, case, planner):
    fleet = crowd(make_fleet, 2000, planner=planner)
    rng = np.random.default_rng(2)
    if case == "equal scores":
        fleet.agents["x"], fleet.zones["x"] = rng.uniform(0, 900, 2000), rng.uniform(0, 900, 2000)
        fleet.config = replace(fleet.config, w_travel=0.0)
    if case == "saturating":
        fleet.zones["priority"] = 1e9
        fleet.zones["x"] = rng.uniform(0, 900, 2000)
    if case == "speeds":
        fleet.agents["speed"] = rng.uniform(0.2, 3, 2000)
        fleet.zones["x"] = 100 + rng.uniform(0, 1, 2000)
    if case == "one wanted zone":
        fleet.zones["priority"][0] = 2.0
        fleet.zones["x"] = rng.uniform(0, 900, 2000)
    if case == "one current zone":
        fleet.agents["zone"] = fleet.zones["id"][7]
        fleet.agents["x"] = rng.uniform(0, 900, 2000)
    made = fleet.plan()
    assert made.stats.assigned == 2000
    assert (made.flags & 2 != 0) == (case == "saturating")
    if case in ("one point", "saturating"):
        assert (np.diff(made.rows["zone"].astype(np.int64)) > 0).all() or case == "saturating"


def test_equal_pairs_go_by_id(make_fleet):
    made = crowd(make_fleet, 30).plan()
    assert made.rows["zone"].tolist() == sorted(made.rows["zone"].tolist())
    assert (made.rows["travel"] == 0).all()


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 5), (5, 0), (1, 1)])
@pytest.mark.parametrize("planner", [0, 1])
def test_empty_tables_give_a_valid_frame(make_fleet, n, m, planner):
    made = make_fleet(0, n, m, rich=False, planner=planner).plan()
    frame = made.frame(0)
    assert (frame.agents, frame.zones, frame.assigned) == (n, m, min(n, m))
    assert frame.health == (CoordHealth.EMPTY if n == 0 else CoordHealth.OK if m else CoordHealth.DEGRADED)
    assert made.rows["status"].tolist() == [CoordStatus.OK if m else CoordStatus.IDLE_NO_ZONE] * n
    assert made.gap == 0.0 or m > 0


def test_when_all_zones_are_blocked_every_agent_is_unsafe(make_fleet):
    fleet = make_fleet(0, 10, 10, rich=False)
    fleet.obstacles = np.zeros(1, fleet.obstacles.dtype)
    fleet.obstacles["radius"], fleet.obstacles["x"] = 10**5, 100
    made = fleet.plan()
    assert made.rows["status"].tolist() == [CoordStatus.UNSAFE_ASSIGNMENT] * 10
    assert made.health == CoordHealth.BLOCKED
    assert made.frame(0).blocked_zones == 10


def test_five_hundred_agents_planned_sparsely_equal_the_dense_definition(make_fleet):
    fleet = make_fleet(5, 500, 500, rich=False)
    problem = problem_of(fleet)
    dense, _, _ = plan_ref.swap_plan(problem, 24, 0)
    zone = fleet.plan().rows["zone"]
    zones = np.sort(fleet.zones["id"])
    assert hashlib.sha256(zone.tobytes()).digest() == hashlib.sha256(zones[dense].tobytes()).digest()

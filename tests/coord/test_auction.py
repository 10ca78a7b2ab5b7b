"""The auction and the exact planner: twin and kernel, brute optimum, a bound that is never below it, price wars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from coord import Scenario, TooLargeError, audit, backend, plan_auction, plan_exact, plan_swap, simulate
from coord.planning import auction_ref, exact, plan_ref
from coord.planning.auction import idle_worth
from coord.planning.problem import NONE
from coord.planning.situation import situation
from tensor import _kernels as tensor_kernels

seeds = st.integers(0, 2**20)
sizes = st.integers(0, 45)
idles = st.sampled_from([-(2**31), -(2**31), 0, 70_000])
needs_kernels = pytest.mark.skipif(backend.REFERENCE, reason="DROVEWAY_ISA=ref: nothing to compare the twin with")
MANY = 2**40


def problem_of(fleet):
    return situation(
        fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels, fleet.config, now_tick=fleet.now_tick,
        rings=fleet.rings, grid=fleet.grid,
    ).problem  # fmt: skip


def inputs(fleet):
    tables = (fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels, fleet.config)
    return tables, {"now_tick": fleet.now_tick, "rings": fleet.rings, "grid": fleet.grid}


def gains(problem, idle):
    """score - idle of every feasible pair where that is positive, else 0: [n, m]."""
    rows = [plan_ref.pairs(problem, problem.agents, a) for a in range(len(problem.agents))]
    shape = (len(rows), len(problem.zones))
    score = np.array([r.score for r in rows], np.int64).reshape(shape)
    feasible = np.array([r.feasible for r in rows], bool).reshape(shape)
    return np.where(feasible, np.maximum(score - idle, 0), 0)


def optimum(problem, idle):
    worth = gains(problem, idle)
    return int(worth[linear_sum_assignment(worth, maximize=True)].sum())


@needs_kernels
@given(seed=seeds, n=sizes, m=sizes, idle=idles, k=st.sampled_from([1, 3, 24]), budget=st.sampled_from([1, 60, MANY]))
@settings(max_examples=25, deadline=None)
def test_the_kernel_gives_the_bits_of_the_twin(make_fleet, seed, n, m, idle, k, budget):
    problem = problem_of(make_fleet(seed, n, m, rich=bool(seed % 3)))
    ours = backend.auction(problem, k, idle_worth(idle), budget, True)
    twin = auction_ref.auction(problem, k, idle_worth(idle), budget, True)
    assert ours.assigned.tobytes() == twin.assigned.tobytes()
    assert (ours.worth, ours.bound, ours.bids) == (twin.worth, twin.bound, twin.bids)
    assert ours.bound_reached == twin.bound_reached


@pytest.mark.parametrize("idle", [-(2**31), 0, 70_000])
def test_an_auction_without_a_budget_finds_the_optimum_and_proves_it(make_fleet, idle):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        problem = problem_of(make_fleet(seed, int(rng.integers(0, 46)), int(rng.integers(0, 46)), rich=bool(seed % 3)))
        done = backend.auction(problem, 24, idle_worth(idle), MANY, True)
        assert done.worth == optimum(problem, idle_worth(idle)) == done.bound


@given(seed=seeds, n=sizes, m=sizes, idle=idles)
@settings(max_examples=30, deadline=None)
def test_a_bound_is_never_below_the_optimum_however_soon_the_budget_ends(make_fleet, seed, n, m, idle):
    problem = problem_of(make_fleet(seed, n, m, rich=bool(seed % 3)))
    best = optimum(problem, idle_worth(idle))
    for budget in (1, 7, n, 3 * n, 100 * n):
        part = backend.auction(problem, 24, idle_worth(idle), max(1, budget), True)
        assert part.worth <= best <= part.bound


@pytest.mark.parametrize("idle", [-(2**31), 0, 70_000])
@pytest.mark.parametrize(("n", "m"), [(16, 18), (21, 21), (40, 17), (1, 30)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_auction_and_exact_plan_agree_and_prove_bounds_every_plan(make_fleet, seed, n, m, idle):
    fleet = make_fleet(seed, n, m, rich=bool(seed % 3), idle_score=idle)
    tables, rest = inputs(fleet)
    sold, best, swapped = (plan(*tables, **rest) for plan in (plan_auction, plan_exact, plan_swap))
    assert sold.gap == best.gap == 0.0
    waiting = idle_worth(idle)
    worth = [p.stats.score_sum - waiting * int((p.assigned != NONE).sum()) for p in (sold, best, swapped)]
    assert worth[0] == worth[1] >= worth[2]
    proven = swapped.prove()
    assert proven.rows.tobytes() == swapped.rows.tobytes()
    assert proven.bound - proven.stats.score_sum == worth[0] - worth[2]


@given(seed=seeds)
@settings(max_examples=8, deadline=None)
def test_a_larger_budget_never_leaves_more_open(make_fleet, seed):
    fleet = make_fleet(seed, 14, 12, rich=bool(seed % 2))
    left = []
    for budget in (*range(1, 40), 100, 1000, MANY):
        fleet.config = replace(fleet.config, planner=2, work_budget=budget)
        made = fleet.plan()
        left.append(made.bound - made.stats.score_sum)
        assert made.work <= budget
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0


@given(seed=seeds)
@settings(max_examples=12, deadline=None)
@pytest.mark.parametrize("planner", [2, 3])
def test_the_order_of_rows_never_changes_a_byte(make_fleet, seed, planner):
    fleet = make_fleet(seed, 30, 20, planner=planner)
    rng = np.random.default_rng(seed)
    shuffled = replace(
        fleet, agents=rng.permutation(fleet.agents), zones=rng.permutation(fleet.zones),
        obstacles=rng.permutation(fleet.obstacles), kernels=rng.permutation(fleet.kernels),
    )  # fmt: skip
    assert fleet.plan().event(0) == shuffled.plan().event(0)


@given(seed=seeds, shift=st.integers(1, 2**40))
@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("planner", [2, 3])
def test_later_ticks_and_a_zone_that_nobody_reaches_leave_the_rows(make_fleet, seed, shift, planner):
    fleet = make_fleet(seed, 24, 30, rich=False, planner=planner)
    later = replace(fleet, agents=fleet.agents.copy(), zones=fleet.zones.copy(), now_tick=fleet.now_tick + shift)
    later.agents["last_seen_tick"] += np.uint64(shift)
    later.zones["last_served_tick"] += np.uint64(shift)
    more = replace(fleet, zones=np.append(fleet.zones, fleet.zones[:1]))
    more.zones["id"][-1], more.zones["x"][-1], more.zones["priority"][-1] = 10**6, 10**6, 100.0
    assert later.plan().rows.tobytes() == more.plan().rows.tobytes() == fleet.plan().rows.tobytes()


@pytest.mark.parametrize(("n", "m"), [(600, 700), (700, 600), (650, 650)])
def test_any_number_of_threads_gives_one_digest_with_leftover_agents_and_zones(make_fleet, n, m):
    fleet = make_fleet(11, n, m, rich=False, planner=2)
    before, digests = tensor_kernels.threads(), set()
    try:
        for threads in (1, 2, 3, 7):
            tensor_kernels.set_threads(threads)
            digests.add(fleet.plan().event(0))
    finally:
        tensor_kernels.set_threads(before)
    assert len(digests) == 1
    made = fleet.plan()
    assert made.stats.assigned == min(n, m)
    assert 0 <= made.gap < 0.05


@needs_kernels
@pytest.mark.parametrize(("n", "m"), [(1200, 1200), (900, 1300), (1300, 900)])
def test_zones_that_all_want_leave_little_open_and_the_plan_above_that_of_swap(make_fleet, n, m):
    fleet = make_fleet(5, n, m, rich=False, planner=2)
    fleet.zones["priority"][:5] = 30.0
    made = fleet.plan()
    swapped = replace(fleet, config=replace(fleet.config, planner=1)).plan()
    assert made.stats.assigned == swapped.stats.assigned == min(n, m)
    assert made.gap < 0.005
    assert made.stats.score_sum > swapped.stats.score_sum


@needs_kernels
@pytest.mark.parametrize("case", ["one point", "equal scores", "highest scores", "lowest scores", "wanted zones"])
def test_price_wars_end(make_fleet, case):
    fleet = make_fleet(0, 1500, 1500, rich=False, planner=2)
    rng = np.random.default_rng(2)
    for table in (fleet.agents, fleet.zones):
        table["x"], table["y"] = 5.0, 5.0
    fleet.zones["priority"], fleet.zones["last_served_tick"] = 1.0, 0
    if case != "one point":
        fleet.zones["x"] = rng.uniform(0, 900, 1500)
    if case == "equal scores":
        fleet.config = replace(fleet.config, w_travel=0.0)
    if case in ("highest scores", "lowest scores"):
        fleet.zones["priority"] = 1e9 if case == "highest scores" else -1e9
    if case == "wanted zones":
        fleet.zones["priority"][:5] = 30.0
    made = fleet.plan()
    assert made.stats.assigned == 1500
    assert made.bound >= made.stats.score_sum
    assert (made.flags & 2 != 0) == case.endswith("est scores")


def test_more_agents_than_zones_that_they_can_reach_end_the_war_with_the_best_served(make_fleet):
    fleet = make_fleet(3, 40, 30, rich=False, planner=2)
    fleet.zones["x"][5:] = 10**5  # out of reach: five zones for forty agents
    made = fleet.plan()
    assert made.stats.assigned == 5
    assert made.gap == 0.0
    assert made.bound == plan_exact(*inputs(fleet)[0], now_tick=1000).stats.score_sum


def test_an_idle_score_above_a_score_keeps_the_agent_without_a_zone(make_fleet):
    fleet = make_fleet(2, 6, 6, rich=False, planner=2, idle_score=2**31 - 1)
    made = fleet.plan()
    assert made.stats.assigned == 0
    assert (made.bound, made.gap) == (0, 0.0)
    assert made.rows["status"].tolist() == [1] * 6


def test_exact_refuses_what_is_too_large(make_fleet, monkeypatch):
    monkeypatch.setattr(exact, "PAIRS_MAX", 100)
    with pytest.raises(TooLargeError) as caught:
        make_fleet(0, 11, 10, rich=False, planner=3).plan()
    assert str(caught.value) == (
        "plan_exact: expected at most 100 pairs of agents and zones, got 11 x 10 (hint: planner auction)"
    )


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 5), (5, 0), (1, 1)])
@pytest.mark.parametrize("planner", [2, 3])
def test_empty_tables_give_a_valid_frame(make_fleet, n, m, planner):
    made = make_fleet(0, n, m, rich=False, planner=planner).plan()
    assert (made.frame(0).assigned, made.gap) == (min(n, m), 0.0)


@pytest.mark.parametrize("planner", ["auction", "exact"])
def test_a_run_passes_an_audit_that_plans_and_simulates_it_again(tmp_path, planner):
    site = Scenario.loads(
        f'version = 1\nname = "sold"\nseed = 4\n[agents]\nrandom = 9\nspeed = 7\n[zones]\nrandom = 14\n'
        f'[plan]\nplanner = "{planner}"\n'
    )
    simulate(site, 12, ledger=tmp_path / "run", sync="os")
    report = audit(tmp_path / "run", resimulate=True)
    assert report.first_divergence is None
    assert (report.ok, report.frames, report.planned, report.resimulated) == (True, 12, 12, 12)


def test_a_thousand_are_within_half_a_percent_of_the_best_travel(make_fleet):
    fleet = make_fleet(1, 1000, 1000, rich=False, planner=2)
    fleet.config = replace(fleet.config, w_priority=0.0, w_idle=0.0, w_cover=0.0, w_avoid=0.0, w_travel=32.0)
    problem = problem_of(fleet)
    made = fleet.plan()
    score = gains(problem, -(2**31)) - 2**31
    best = int(score[linear_sum_assignment(score, maximize=True)].sum())
    assert made.stats.score_sum <= best <= made.bound
    assert best - made.stats.score_sum < 0.005 * -best

"""Which plans get a proven gap, and how plans that serve fewer agents than could be served are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from coord import AgentState, PlanConfig, Scenario, Scorer, WorkZone, metrics, plan, quality, simulate, sweep
from coord.measuring.metrics import tick_metrics

# Agent 1 can serve both zones and likes 5 best; agent 2 can serve 5 alone.
AGENTS = [AgentState(id=1, caps=3), AgentState(id=2, x=6.0, caps=1)]
ZONES = [WorkZone(id=5, x=1.0, need_caps=1), WorkZone(id=6, x=4.0, need_caps=2)]
CALLS = """
version = 1
name = "calls"
seed = 2
[plan]
planner = "greedy"
every_ticks = {every}
[agents]
random = 8
speed = 3.0
[demand]
model = "uniform"
rate = {rate}
service_ticks = 2
"""


def made(planner: int, **config: int):  # type: ignore[no-untyped-def]
    return plan(AGENTS, ZONES, [], [], PlanConfig(planner=planner, **config), now_tick=0)


@pytest.mark.parametrize("planner", [0, 1])
def test_a_plan_that_leaves_an_agent_is_counted_apart_and_in_no_quantile(planner: int) -> None:
    q = quality([made(planner)])
    assert (q.assigned, q.gap_frames, q.gap_median, q.gap_p99, q.gap_max) == (1, 0, None, None, None)
    assert (q.gap_fewer_assigned, q.gap_agents_left) == (1, 1)
    assert made(planner).prove().gap > 0.99  # what would stand in the quantiles


@pytest.mark.parametrize("planner", [2, 3])
def test_a_plan_that_serves_all_it_can_has_its_gap(planner: int) -> None:
    q = quality([made(planner)])
    assert (q.assigned, q.gap_frames, q.gap_max, q.gap_fewer_assigned, q.gap_agents_left) == (2, 1, 0.0, 0, 0)


def test_with_an_idle_score_of_its_own_an_agent_left_has_its_price_in_the_gap() -> None:
    plans = [made(planner, idle_score=-65536) for planner in (0, 3)]
    few, best = (quality([one]) for one in plans)
    assert (few.assigned, best.assigned) == (1, 2)
    assert (few.gap_frames, few.gap_fewer_assigned, best.gap_max) == (1, 0, 0.0)
    worth = best.objective - few.objective + 65536
    bound = few.objective + worth
    assert few.gap_max == worth / abs(bound)


def test_a_plan_with_nothing_to_assign_has_no_gap() -> None:
    busy = [AgentState(id=1, mode=2, zone=5)]
    for agents, zones in (([], []), (AGENTS, []), ([], ZONES), (busy, ZONES[:1])):
        q = quality([plan(agents, zones, [], [], PlanConfig(), now_tick=0)])
        assert (q.gap_frames, q.gap_max, q.gap_fewer_assigned) == (0, None, 0)


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_a_fleet_whose_tasks_come_later_gets_bounds_at_the_next_plan_with_something_to_assign(
    tmp_path: Path, rate: float
) -> None:
    site = Scenario.loads(CALLS.format(every=1, rate=rate))
    run = simulate(site, 200, ledger=tmp_path / "run", sync="os", scorer=Scorer())
    assert run.metrics == metrics(tmp_path / "run")
    bounded = {one.tick for one in tick_metrics(tmp_path / "run", Scorer()) if one.gap is not None}
    able = [one.tick for one in tick_metrics(tmp_path / "run", Scorer(), gap_every=1) if one.gap is not None]
    expected = [next((tick for tick in able if first <= tick), None) for first in (0, 64, 128, 192)]
    assert bounded == set(expected) - {None}
    assert 0 not in bounded
    assert len(bounded) >= 2


def test_a_sweep_with_tasks_tells_planners_apart() -> None:
    site = Scenario.loads(CALLS.format(every=8, rate=1.0))
    done = sweep(site, [1, 2], {"plan.planner": ["greedy", "exact"]}, 200, gap_every=2)
    greedy, exact = (one.spreads for one in done.summaries())
    assert greedy["gap_frames"].least > 10
    assert exact["gap_max"].most == 0.0 < greedy["gap_max"].least

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coord import AgentState, PlanConfig, Scorer, WorkZone, plan, quality
from coord.quality import jain_index

AGENTS = [AgentState(id=1, last_seen_tick=50), AgentState(id=2, x=10.0, last_seen_tick=50)]
ZONES = [WorkZone(id=5, x=3.0), WorkZone(id=6, x=8.0, last_served_tick=40), WorkZone(id=7, x=9000.0)]


def made(agents=AGENTS, zones=ZONES, now=50, **config):
    return plan(agents, zones, [], [], PlanConfig(**config), now_tick=now)


def test_one_plan_is_measured():
    q = quality([made()])
    assert (q.plans, q.makespan_ticks, q.mean_travel_ticks) == (1, 3, 2.5)
    assert q.coverage == pytest.approx(2 / 3)
    assert (q.idle_max_ticks, q.idle_p99_ticks) == (50, 50)
    assert q.fairness_service == 1.0
    assert q.fairness_travel == 25 / 26
    assert q.objective == made().stats.score_sum
    assert q.gap is not None
    assert q.gap >= 0
    assert (q.conflicts, q.rejections, q.switches_per_agent_per_100_ticks) == (0, {}, 0.0)


def test_switches_count_changes_from_zone_to_zone():
    later = [replace(agent, last_seen_tick=60) for agent in AGENTS]
    swapped = [replace(zone, x=11.0 - zone.x if zone.id < 7 else zone.x) for zone in ZONES]
    q = quality([made(), made(later, swapped, 60)])
    assert q.switches_per_agent_per_100_ticks == 100 * 2 / (2 * 10)
    assert quality([made(), made(later, ZONES, 60)]).switches_per_agent_per_100_ticks == 0.0


def test_rejections_are_named_by_reason():
    agents = [*AGENTS, AgentState(id=3, last_seen_tick=50), AgentState(id=4, mode=4, last_seen_tick=50)]
    q = quality([made(agents)])
    assert q.rejections == {"agent_not_ready": 1, "conflict": 1}
    assert q.conflicts == 1


def test_without_bounds_there_is_no_gap():
    scorer = Scorer()
    first = made()
    scorer.add(first.rows, first.situation.zones, 50)
    assert scorer.result().gap is None


def test_the_digest_depends_on_every_row_and_on_the_order_of_plans():
    a, b = made(), made([replace(agent, caps=1, x=agent.x + 1) for agent in AGENTS])
    digests = {quality(plans).digest for plans in ([a], [b], [a, b], [b, a])}
    assert len(digests) == 4
    assert quality([a, b]).digest == quality([a, b]).digest


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_jain_lies_between_one_over_n_and_one(values):
    assert 1 / len(values) - 1e-12 <= jain_index(values) <= 1.0


def test_empty_plans_are_measured_too():
    q = quality([made([], [])])
    assert (q.plans, q.coverage, q.idle_max_ticks, q.fairness_travel, q.gap) == (1, 0.0, 0, 1.0, 0.0)
    assert quality([]).plans == 0

"""explain at any size and for other people's plans: the same options whichever way they are asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coord import ROW_DTYPE, PlanConfig, backend
from coord.explaining.explain import explain_situation
from coord.planning import plan_ref
from coord.planning.situation import situation


@pytest.mark.parametrize("planner", [0, 1])
@pytest.mark.parametrize("seed", range(6))
def test_a_zone_an_agent_and_a_pair_are_told_alike(make_fleet, seed, planner):
    fleet = make_fleet(seed, 15, 11)
    fleet.config = replace(fleet.config, planner=planner)
    made = fleet.plan()
    seen, rows = made.situation, made.rows
    pairs = {}
    for agent in seen.agents["id"].tolist():
        for option in explain_situation(seen, rows, agent=agent, exact=0).options:
            pairs[option.agent, option.zone] = option
    for zone in seen.zones["id"].tolist():
        for option in explain_situation(seen, rows, zone=zone, exact=0).options:
            assert pairs[option.agent, option.zone] == option
    for (agent, zone), option in list(pairs.items())[::7]:
        assert explain_situation(seen, rows, agent=agent, zone=zone, exact=0).options == (option,)


def test_the_change_for_greedy_is_exact_above_any_number_of_pairs(make_fleet, monkeypatch):
    fleet = make_fleet(3, 600, 500, rich=False)
    fleet.config = replace(fleet.config, planner=0)
    made = fleet.plan()
    problem = made.situation.problem
    agent = int(made.rows["agent"][np.flatnonzero(made.rows["status"] == 0)[5]])
    told = made.explain(agent)
    assert len(problem.agents) * len(problem.zones) > 250_000
    assert all(option.winning_change_exact for option in told.options)
    lost = [option for option in told.options if option.winning_change][:3]
    assert lost
    a = int(np.searchsorted(made.situation.agents["id"][made.situation.planned], agent))
    for option in lost:
        z = int(np.searchsorted(made.situation.zones["id"][made.situation.offered], option.zone))
        for change, wins in ((option.winning_change, True), (option.winning_change - 1, False)):
            assert (greedy_with(problem, a, z, change)[a] == z) == wins


def greedy_with(problem, a, z, change):
    """Greedy of all pairs by their order, with one score raised: the definition."""
    keys = []
    for b in range(len(problem.agents)):
        one = plan_ref.pairs(problem, problem.agents, b)
        score = one.score.astype(np.int64)
        if b == a:
            score[z] += change
        feasible = np.flatnonzero(one.feasible)
        best = feasible[np.lexsort((feasible, one.travel[feasible], -score[feasible]))]
        keys += [(-int(score[y]), int(one.travel[y]), int(y), b) for y in best]
    assigned, taken = {}, set()
    for _, _, y, b in sorted(keys):
        if b not in assigned and y not in taken:
            assigned[b] = y
            taken.add(y)
    assert change or [assigned.get(b, -1) for b in range(len(problem.agents))] == backend.greedy(problem).tolist()
    return [assigned.get(b, -1) for b in range(len(problem.agents))]


def test_nothing_is_claimed_of_what_an_external_planner_would_do(make_fleet):
    fleet = make_fleet(2, 5, 7, rich=False)
    made = fleet.plan()
    external = replace(fleet.config, planner=4)
    seen = situation(fleet.agents, fleet.zones, [], [], external, now_tick=fleet.now_tick)
    told = explain_situation(seen, made.rows, agent=int(made.rows["agent"][0]))
    assert told.row is not None
    for option in told.options:
        if option.zone == told.row.zone:
            assert (option.winning_change, option.winning_change_exact, option.changes) == (0, True, ())
        elif option.status.name in ("OK", "CONFLICT"):
            assert (option.winning_change, option.winning_change_exact) == (None, False)
            assert option.changes[-1].endswith(": an external planner chose")
        else:
            assert (option.winning_change, option.winning_change_exact) == (None, True)


def test_agents_that_stand_still_have_their_scores_too(make_fleet):
    fleet = make_fleet(1, 4, 3, rich=False)
    fleet.agents["speed"][1] = 0
    fleet.agents["x"][1], fleet.agents["y"][1] = fleet.zones["x"][0], fleet.zones["y"][0]
    rows = np.zeros(0, ROW_DTYPE)
    seen = situation(fleet.agents, fleet.zones, [], [], PlanConfig(), now_tick=fleet.now_tick)
    zone = int(fleet.zones["id"][0])
    (option,) = (o for o in explain_situation(seen, rows, zone=zone).options if o.agent == int(fleet.agents["id"][1]))
    assert option.status.name == "UNREACHABLE"

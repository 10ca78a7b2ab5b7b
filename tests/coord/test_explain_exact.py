"""The smallest change that would win, for the exact planner: it wins, and one less does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coord.explaining.winning_exact import ExactTrials
from coord.planning import plan_ref
from coord.planning.exact import exact_assignment


@pytest.mark.parametrize("rich", [True, False])
@pytest.mark.parametrize("idle_score", [-(2**31), 40_000])
def test_for_exact_the_printed_change_wins_and_one_less_does_not(make_fleet, monkeypatch, rich, idle_score):
    settled = 0
    for seed in range(10):
        fleet = make_fleet(seed, 7, 6 + seed % 3, rich=rich)
        fleet.config = replace(fleet.config, planner=3, idle_score=idle_score)
        made = fleet.plan()
        seen, problem = made.situation, made.situation.problem
        for a in range(len(problem.agents)):
            agent = int(seen.agents["id"][seen.planned[a]])
            for option in made.explain(agent).options:
                if option.status.name not in ("OK", "CONFLICT") or not option.winning_change_exact:
                    continue
                if option.zone not in seen.zones["id"][seen.offered]:
                    continue
                z = int(np.searchsorted(seen.zones["id"][seen.offered], option.zone))
                change = option.winning_change
                if change is None:
                    continue
                settled += 1
                assert exact_with(monkeypatch, problem, idle_score, a, z, change)[a] == z
                for less in {change - 1, change // 2, 0} - {change, -1}:
                    assert exact_with(monkeypatch, problem, idle_score, a, z, less)[a] != z
    assert settled > 30


def exact_with(monkeypatch, problem, idle_score, a, z, change):
    """The planner itself, with one score raised."""
    real = plan_ref.pairs

    def raised(given, agents, b):
        found = real(given, agents, b)
        if b == a:
            found.score[z] = int(found.score[z]) + change
        return found

    with monkeypatch.context() as patch:
        patch.setattr("coord.planning.exact.pairs", raised)
        return exact_assignment(problem, idle_score).assigned


def test_trials_find_the_plan_itself(make_fleet):
    for seed in range(8):
        fleet = make_fleet(seed, 12, 9)
        fleet.config = replace(fleet.config, planner=3)
        made = fleet.plan()
        assert ExactTrials(made.situation.problem, -(2**31)).is_plan(made.assigned)


def test_where_all_scores_are_equal_the_change_is_one_or_none_is_needed(make_fleet):
    fleet = make_fleet(0, 4, 4, rich=False)
    for table in (fleet.agents, fleet.zones):
        table["x"], table["y"] = 0, 0
    fleet.zones["priority"], fleet.zones["last_served_tick"] = 1, 0
    fleet.config = replace(fleet.config, planner=3)
    made = fleet.plan()
    for agent in fleet.agents["id"].tolist():
        for option in made.explain(agent).options:
            assert option.winning_change_exact
            assert option.winning_change == (0 if option.winner == agent else 1)


def test_for_the_auction_changes_are_estimates_that_say_so(make_fleet):
    fleet = make_fleet(1, 6, 6, rich=False)
    fleet.config = replace(fleet.config, planner=2)
    made = fleet.plan()
    told = made.explain(int(fleet.agents["id"][0]))
    for option in told.options:
        if option.status.name in ("OK", "CONFLICT"):
            assert option.winning_change_exact == (option.winner == option.agent)
            assert option.winning_change is not None

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coord import (
    AgentMode,
    AgentState,
    CoordStatus,
    Grid,
    Obstacle,
    PlanConfig,
    Rings,
    Scenario,
    UnknownIdError,
    WorkZone,
    explain,
    open_run,
    plan,
    simulate,
)
from coord.planning import exchange_sets, plan_ref

NOW = 100


def told(agents, zones, obstacles=(), config=None, **which):
    return explain(agents, zones, obstacles, [], config or PlanConfig(), now_tick=NOW, **which)


def seen(**fields):
    return AgentState(**{"last_seen_tick": NOW, **fields})


@pytest.mark.parametrize(
    ("agent", "zone", "status", "changes"),
    [
        ({"last_seen_tick": 0, "memory_ticks": 50}, {}, "stale_agent",
         ["agent 1 must be seen again: 100 ticks old, at most 50 allowed"]),
        ({"mode": AgentMode.OFFLINE}, {}, "agent_not_ready", ["agent 1 must leave mode 4 for 0, 1 or 2"]),
        ({"caps": 1}, {"need_caps": 7}, "missing_capability", ["agent 1 needs capability bits 0x6 besides 0x1"]),
        ({"energy": 0.25}, {"energy_cost": 0.5}, "low_energy", ["agent 1 needs energy 0.5, has 0.25"]),
        ({"energy": 0.0}, {}, "low_energy", ["agent 1 needs energy 0.05, has 0"]),
        ({}, {"x": 30.0}, "zone_blocked", ["zone 5 must be clear of the circle at (30, 0)"]),
        ({}, {"x": 5000.0}, "unreachable", ["zone 5 must be within 1000 ticks, is 5000 away"]),
        ({"speed": 0.0}, {}, "unreachable", ["agent 1 must be able to travel, its speed is 0"]),
        ({"speed": 0.0, "caps": 0}, {"need_caps": 1, "energy_cost": 2.0}, "missing_capability",
         ["agent 1 needs capability bits 0x1 besides 0x0", "agent 1 needs energy 2, has 1",
          "agent 1 must be able to travel, its speed is 0"]),
    ],
)  # fmt: skip
def test_a_refused_pair_says_which_test_failed_first_and_all_that_must_change(agent, zone, status, changes):
    out = told([seen(id=1, **agent)], [WorkZone(id=5, **zone)], [Obstacle(id=3, x=30.0, radius=1.0)], agent=1).to_dict()
    option = out["options"][0]
    assert option["status"] == status
    assert option["changes"] == changes
    assert option["winning_change"] is None
    assert option["winner"] is None


def test_a_blocked_way_is_told_apart_from_a_blocked_zone():
    config = PlanConfig(flags=1)
    obstacles = [Obstacle(id=3, x=30.0, radius=1.0), Obstacle(id=4, kind=2, x=50.5, radius=1.0, half_y=2.0)]
    for x, way, changes in (
        (40.0, True, ("the way from agent 1 to zone 5 must be clear of the circle at (30, 0)",)),
        (50.0, False, ("zone 5 must be clear of the box at (50.5, 0)",
                       "the way from agent 1 to zone 5 must be clear of the circle at (30, 0)")),
    ):  # fmt: skip
        told = explain([seen(id=1)], [WorkZone(id=5, x=x)], obstacles, [], config, now_tick=NOW, agent=1)
        option = told.options[0]
        assert (option.status, option.way_blocked, option.changes) == (CoordStatus.ZONE_BLOCKED, way, changes)
        assert told.to_dict()["options"][0]["way_blocked"] is way


def test_polygons_are_named_by_a_corner():
    rings = Rings.of([[[28.0, -1.0], [32.0, -1.0], [30.0, 2.5]]])
    out = explain([seen(id=1)], [WorkZone(id=5, x=30.0)], [Obstacle(id=3, kind=1)], [], PlanConfig(),
                  now_tick=NOW, rings=rings, agent=1)  # fmt: skip
    assert out.options[0].changes == ("zone 5 must be clear of the polygon with a corner at (28, -1)",)


def test_the_loser_of_a_zone_is_told_who_won_it_and_by_how_much():
    agents, zones = [seen(id=1, x=10.0), seen(id=2, x=4.0)], [WorkZone(id=5), WorkZone(id=6, x=300.0)]
    option = told(agents, zones, agent=1).option(zone=5)
    assert (option.status, option.winner) == (CoordStatus.CONFLICT, 2)
    assert option.winner_score == told(agents, zones, agent=2).option(zone=5).score.score_i32
    lead = option.winner_score - option.score.score_i32
    least = told(agents, zones, agent=1, config=PlanConfig(planner=0)).option(zone=5).winning_change
    assert least == lead + 1  # one more than the winner's score is enough for greedy
    other = [told(agents, zones, agent=a).option(zone=6).score.score_i32 for a in (1, 2)]
    assert option.winning_change == lead + other[0] - other[1] > least  # below it, swap exchanges the two again
    assert option.changes == ("zone 5 went to agent 2: the score must win it",)
    assert told(agents, zones, agent=2).option(zone=5).winning_change == 0


def test_a_zone_is_explained_by_all_agents_best_first():
    agents = [seen(id=1, x=10.0), seen(id=2, x=4.0), seen(id=3, caps=0, mode=AgentMode.FAULT)]
    out = told(agents, [WorkZone(id=5)], zone=5)
    assert [o.agent for o in out.options] == [2, 1, 3]
    assert out.row is not None
    assert out.row.agent == 2
    assert out.readiness == "ready"


def test_one_pair_alone_is_explained_as_among_all():
    agents, zones = [seen(id=1, x=10.0, zone=6), seen(id=2, x=4.0)], [WorkZone(id=5), WorkZone(id=6, x=30.0)]
    both = told(agents, zones, agent=1, zone=6)
    assert len(both.options) == 1
    assert both.options[0] == told(agents, zones, agent=1).option(zone=6)
    assert both.options[0] == told(agents, zones, zone=6).option(agent=1)


def test_a_withheld_zone_names_the_agent_that_works_there():
    agents = [seen(id=1), seen(id=2, mode=AgentMode.WORKING, zone=5)]
    option = told(agents, [WorkZone(id=5)], agent=1).options[0]
    assert (option.status, option.winner, option.winning_change) == (CoordStatus.CONFLICT, 2, None)
    assert option.changes == ("agent 2 must finish its work in zone 5",)
    working = told(agents, [WorkZone(id=5)], agent=2).options[0]
    assert (working.status, working.winning_change) == (CoordStatus.OK, 0)


def test_rows_from_elsewhere_are_explained_without_planning():
    agents, zones = [seen(id=1), seen(id=2, x=1.0)], [WorkZone(id=5), WorkZone(id=6, x=3.0)]
    rows = plan(agents, zones, [], [], PlanConfig(planner=0), now_tick=NOW).rows.copy()
    rows["zone"] = rows["zone"][::-1].copy()
    assert told(agents, zones, agent=1, rows=rows).row.zone == rows["zone"][0]


def test_json_has_stable_keys_and_no_bare_infinity():
    out = told([seen(id=1)], [WorkZone(id=5, priority=3e38)], config=PlanConfig(w_priority=3e38), agent=1)
    data = json.loads(out.to_json())
    assert list(data) == ["now_tick", "agent", "zone", "readiness", "row", "options", "queue"]
    assert list(data["options"][0]) == [
        "agent", "zone", "status", "score", "travel", "winner", "winner_score", "winning_change",
        "winning_change_exact", "changes", "way_blocked",
    ]  # fmt: skip
    assert data["options"][0]["score"]["value"] == "inf"
    assert data["options"][0]["score"]["saturated"] is True


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ({"agent": 9}, "explain: agent 9 is not among the 1 agents of this tick"),
        ({"zone": 2**40}, "explain: zone 1099511627776 is not among the 1 zones of this tick"),
    ],
)
def test_an_unknown_id_is_named(which, message):
    with pytest.raises(UnknownIdError) as caught:
        told([seen(id=1)], [WorkZone(id=5)], **which)
    assert str(caught.value) == message


def test_naming_neither_agent_nor_zone_is_an_error():
    with pytest.raises(ValueError, match=r"^explain: name an agent, a zone, or both$"):
        told([seen(id=1)], [WorkZone(id=5)])


def greedy_of_scores(score, travel, feasible):
    """The definition, on a table of integer scores."""
    keys = sorted((-score[a, z], travel[a, z], z, a) for a, z in np.argwhere(feasible).tolist())
    zone_of, taken = {}, set()
    for _, _, z, a in keys:
        if a not in zone_of and z not in taken:
            zone_of[a] = z
            taken.add(z)
    return zone_of


@given(seed=st.integers(0, 2**20))
@settings(max_examples=25, deadline=None)
def test_for_greedy_the_winning_change_is_exact(make_fleet, seed):
    fleet = make_fleet(seed, 6, 6)
    fleet.config = replace(fleet.config, planner=0)
    made = fleet.plan()
    problem = made.situation.problem
    rows = [plan_ref.pairs(problem, problem.agents, a) for a in range(len(problem.agents))]
    score = np.array([r.score for r in rows], np.int64).reshape(len(rows), len(problem.zones))
    travel = np.array([r.travel for r in rows]).reshape(score.shape)
    feasible = np.array([r.feasible for r in rows]).reshape(score.shape)
    ids, zone_ids = (
        made.situation.agents["id"][made.situation.planned],
        made.situation.zones["id"][made.situation.offered],
    )
    for a, z in np.argwhere(feasible).tolist():
        change = made.explain(int(ids[a])).option(zone=int(zone_ids[z])).winning_change
        assert change is not None
        for delta, wins in ((change, True), (change - 1, False)):
            if delta < 0:
                continue
            other = score.copy()
            other[a, z] += delta
            assert (greedy_of_scores(other, travel, feasible).get(a) == z) is wins


def swap_with(monkeypatch, problem, config, a, z, change):
    """The twin's plan with one pair's score raised, saturated as every score is."""
    plain = plan_ref.pairs

    def raised(problem, agents, b):
        out = plain(problem, agents, b)
        if b == a:
            out.score[z] = min(int(out.score[z]) + change, 2**31 - 1)
        return out

    with monkeypatch.context() as patch:
        patch.setattr(plan_ref, "pairs", raised)
        return plan_ref.swap_plan(problem, config.k_candidates, config.work_budget)[0]


@pytest.mark.parametrize(("rich", "least"), [(True, 32), (False, 32), (True, 2), (False, 2)])
def test_for_swap_the_winning_change_wins_and_no_smaller_one_does(make_fleet, monkeypatch, rich, least):
    monkeypatch.setattr(exchange_sets, "SET_MIN", least)
    settled = 0
    for seed in range(24 if rich else 12 if least == 32 else 5):
        fleet = make_fleet(seed, 7, 6, rich=rich)
        fleet.config = replace(fleet.config, planner=1, work_budget=seed % 3 * 10, k_candidates=(2, 24)[seed % 2])
        made = fleet.plan()
        now = made.situation
        rng = np.random.default_rng(seed)
        for a, at in enumerate(now.planned.tolist()):
            for option in made.explain(int(now.agents["id"][at])).options:
                if option.winning_change == 0 or option.status not in (CoordStatus.OK, CoordStatus.CONFLICT):
                    continue
                assert option.winning_change_exact
                z = np.searchsorted(now.zones["id"][now.offered], option.zone)
                most = 2**31 - 1 - option.score.score_i32
                if int(z) == len(now.offered) or now.zones["id"][now.offered][z] != option.zone:
                    assert option.winning_change is None
                    continue
                change = most + 1 if option.winning_change is None else option.winning_change
                settled += option.winning_change is not None
                losing = {change - 1, 1, *rng.integers(0, change, 4).tolist()} - {change}
                for delta in losing:
                    assert swap_with(monkeypatch, now.problem, fleet.config, a, z, delta)[a] != z
                if option.winning_change is not None:
                    assert swap_with(monkeypatch, now.problem, fleet.config, a, z, change)[a] == z
    assert settled > 15


def test_options_beyond_those_asked_for_carry_an_estimate_that_says_so(make_fleet):
    fleet = make_fleet(3, 12, 30, rich=False)
    agent = int(fleet.plan().rows["agent"][0])
    inputs = (fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels)
    for planner, exact, settled in ((1, 8, 8), (1, 0, 0), (1, 99, 30), (0, 0, 30)):
        config = replace(fleet.config, planner=planner)
        out = explain(*inputs, config, now_tick=fleet.now_tick, agent=agent, exact=exact)
        told = [o.winning_change_exact for o in out.options if o.winning_change != 0]
        assert told == [True] * min(settled - 1, 29) + [False] * (30 - max(1, settled))


@pytest.mark.parametrize("planner", [0, 1])
def test_rows_of_another_planner_and_fleets_above_the_bound_get_estimates(monkeypatch, planner):
    agents, zones = [seen(id=1), seen(id=2, x=1.0)], [WorkZone(id=5), WorkZone(id=6, x=3.0)]
    config = PlanConfig(planner=planner)
    rows = plan(agents, zones, [], [], config, now_tick=NOW).rows
    assert all(o.winning_change_exact for o in told(agents, zones, config=config, agent=1, rows=rows).options)
    other = rows.copy()
    other["zone"] = rows["zone"][::-1].copy()
    out = told(agents, zones, config=config, agent=1, rows=other)
    assert [o.winning_change_exact for o in out.options if o.winning_change != 0] == [False]
    monkeypatch.setattr(sys.modules["coord.explaining.explain"], "PAIRS_MAX", 3)
    out = told(agents, zones, config=config, agent=1, rows=rows)
    assert [o.winning_change_exact for o in out.options if o.winning_change != 0] == [planner == 0]


def test_where_the_highest_score_does_not_win_there_is_no_change():
    agents = [seen(id=1), seen(id=2)]
    zones = [WorkZone(id=5, priority=3e38)]
    for planner in (0, 1):
        option = told(agents, zones, config=PlanConfig(planner=planner), agent=2).options[0]
        assert option.score.saturated
        assert (option.winning_change, option.winning_change_exact) == (None, True)


@given(seed=st.integers(0, 2**20))
@settings(max_examples=20, deadline=None)
def test_explanations_agree_with_the_rows(make_fleet, seed):
    fleet = make_fleet(seed, 8, 8)
    made = fleet.plan()
    for row in made.assignments:
        out = made.explain(row.agent)
        assert out.row == row
        assert len(out.options) == 8
        for option in out.options:
            holder = next((r.agent for r in made.assignments if r.zone == option.zone), None)
            assert option.winner == holder
            assert (option.winning_change == 0) == (option.zone == row.zone)
            if option.zone == row.zone:
                assert option.status == CoordStatus.OK
                assert option.score.score_i32 == row.score or row.mode == AgentMode.WORKING


def test_a_stored_decision_explains_itself_with_its_own_map_and_polygons(tmp_path: Path) -> None:
    (tmp_path / "a.map").write_text("type octile\nheight 3\nwidth 6\nmap\n......\n@@@@@@\n......\n")
    polygon = '[[obstacle]]\nkind = "polygon"\npoints = [[3.0, -50.0], [4.0, -50.0], [4.0, 90.0]]\n'
    fleet = "".join(
        f"[[agent]]\nid = {i}\nx = 0.5\ny = {y}\n[[zone]]\nid = {i}\nx = 5.5\ny = {y}\n"
        for i, y in ((0, 0.5), (1, 2.5))
    )
    for text, status in (
        (f'[map]\nfile = "a.map"\ncell_m = 1.0\n{fleet}', "UNREACHABLE"),
        (f"[plan]\nflags = 1\n{fleet}{polygon}", "ZONE_BLOCKED"),
    ):
        site = Scenario.loads(f'version = 1\nname = "a"\n{text}', tmp_path)
        simulate(site, 3, ledger=tmp_path / status)
        with open_run(tmp_path / status) as reader:
            view = reader.state_at(0)
            now, config = view.inputs, PlanConfig.decode(view.inputs.config)
            grid = Grid.decode(now.grid) if now.grid else None
            tables = (now.agents, now.zones, now.obstacles, now.kernels, config)
            found = {"rings": now.ring_arrays(), "grid": grid}
            for agent in (0, 1):
                told = view.explain(agent=agent)
                assert told == explain(*tables, now_tick=0, agent=agent, **found)
                assert status in {option.status.name for option in told.options}
            with pytest.raises(TypeError, match=r"^rings must be a coord\.Rings or None, got bytes$"):
                explain(*tables, now_tick=0, rings=now.rings, grid=grid, agent=0, rows=view.rows)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=r"^grid must be a coord\.Grid or None, got bytes$"):
                explain(*tables, now_tick=0, **{**found, "grid": now.grid or b"x"}, agent=0, rows=view.rows)  # type: ignore[arg-type]

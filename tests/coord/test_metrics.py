"""metrics: each measure against a slow twin that follows docs/metrics.md word by word, from a ledger and by hand."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from coord import (
    AgentState,
    PlanConfig,
    Scenario,
    Scorer,
    WorkZone,
    metrics,
    open_run,
    plan,
    plan_greedy,
    quality,
    simulate,
)
from coord.errors import RunError
from coord.ground.grid import Grid
from coord.measuring.idle_counts import IdleCounts, nearest_rank
from coord.measuring.metrics import jain_index, tick_metrics

sys.path.insert(0, str(Path(__file__).parents[1]))
import golden_fleets

AGENTS = [AgentState(id=1, last_seen_tick=50), AgentState(id=2, x=10.0, last_seen_tick=50)]
ZONES = [WorkZone(id=5, x=3.0), WorkZone(id=6, x=8.0, last_served_tick=40), WorkZone(id=7, x=9000.0)]
MAP = "type octile\nheight 6\nwidth 8\nmap\n........\n.@@.@@@.\n........\n.@@@.@@.\n.@....@.\n........\n"
STRAIGHT = 'version = 1\nname = "straight"\nseed = 4\n[agents]\nrandom = 9\nspeed = 7\n[zones]\nrandom = 14\n'
GRID = 'version = 1\nname = "grid"\n[map]\nfile = "a.map"\n[agents]\nrandom = 9\n[zones]\nrandom = 12\n'


def made(agents=AGENTS, zones=ZONES, now=50, **config):
    return plan(agents, zones, [], [], PlanConfig(**config), now_tick=now)


def site(folder: Path, text: str) -> Scenario:
    (folder / "a.map").write_text(MAP)
    return Scenario.loads(text, folder)


def rank(values: list, percent: int):
    ordered = sorted(values)
    return ordered[max(0, math.ceil(Fraction(percent * len(ordered), 100)) - 1)] if ordered else 0


def twin(folder: Path) -> dict[str, object]:
    """The page, one frame after the other, on dictionaries."""
    frames, agents, rows_by_agent, zones = [], [], [], []
    with open_run(folder) as reader:
        grid = reader.scenario.grid
        for view in reader.frames():
            frames.append(view.frame)
            agents.append({int(a["id"]): (float(a["x"]), float(a["y"]), float(a["z"])) for a in view.inputs.agents})
            zones.append({int(z["id"]): int(z["last_served_tick"]) for z in view.inputs.zones})
            rows_by_agent.append([{name: int(r[name]) for name in r.dtype.names} for r in view.rows])
    firsts = [[row for row in rows if row["queue_index"] == 0] for rows in rows_by_agent]
    every = [row for rows in firsts for row in rows]
    given = [row for row in every if row["status"] == 0]
    way: dict[int, int] = {agent: 0 for places in agents for agent in places}
    served_by = dict.fromkeys(way, 0)
    visited: set[int] = set()
    services = switches = exchanges = agent_ticks = 0
    cover = None
    cells = [
        {a: grid.cell_of(x, y) for a, (x, y, _) in places.items()} if grid is not None else {} for places in agents
    ]
    for k in range(len(frames)):
        if k:
            now_served = {z for z in zones[k - 1] if z in zones[k] and zones[k][z] > zones[k - 1][z]}
            services += len(now_served)
            visited |= now_served
            for row in rows_by_agent[k - 1]:
                served_by[row["agent"]] += row["zone"] in now_served
            both = set(agents[k - 1]) & set(agents[k])
            agent_ticks += len(both) * (frames[k].tick - frames[k - 1].tick)
            for agent in both:
                way[agent] += round(65536 * math.dist(agents[k - 1][agent], agents[k][agent]))
            old = {row["agent"]: row["zone"] for row in firsts[k - 1] if row["status"] == 0}
            new = {row["agent"]: row["zone"] for row in firsts[k] if row["status"] == 0}
            switches += sum(
                old[a] != new[a] and old[a] in zones[k] and old[a] not in now_served for a in set(old) & set(new)
            )
            moves = {(cells[k - 1][a], cells[k][a]) for a in both if cells[k] and cells[k - 1][a] != cells[k][a]}
            exchanges += sum((b, a) in moves and a < b for a, b in moves)
        if cover is None and zones[k] and set(zones[k]) <= visited:
            cover = frames[k].tick
    idle = [max(0, f.tick - last) for f, now in zip(frames, zones, strict=True) for last in now.values()]
    places = [[np.float32(place) for place in now.values()] for now in agents]
    steps = [p - q for now in places for i, p in enumerate(now) for q in now[:i]]
    pairs = [float(np.sqrt((x * x + y * y) + z * z)) for x, y, z in steps]
    statuses = [row["status"] for row in every]
    return {
        "frames": len(frames), "agents": len(way), "zones": len(zones[0]), "rows": len(every),
        "assigned": len(given), "makespan_ticks": max(row["travel"] for row in given),
        "travel_ticks_total": sum(row["travel"] for row in given), "travel_m_total": sum(way.values()) / 65536,
        "objective": sum(row["score"] for row in given), "services": services,
        "coverage": len(visited) / len(zones[0]), "cover_tick": cover, "idle_p50_ticks": rank(idle, 50),
        "idle_p99_ticks": rank(idle, 99), "idle_max_ticks": max(idle), "fairness_travel": jain_index(way.values()),
        "fairness_service": jain_index(served_by.values()), "switches": switches,
        "switches_per_agent_per_100_ticks": 100 * switches / agent_ticks, "conflicts": statuses.count(7),
        "cell_conflicts": sum(len(now) - len(set(now.values())) for now in cells) if grid is not None else None,
        "edge_conflicts": exchanges if grid is not None else None, "min_separation_m": min(pairs),
        "digest": blake3(b"".join(f.encode() for f in frames)).digest(16).hex(),
    }  # fmt: skip


@pytest.mark.parametrize("text", [STRAIGHT, GRID, GRID + "[plan]\nevery_ticks = 3\nplanner = 'greedy'\n"])
def test_every_measure_is_what_the_page_says(text: str, tmp_path: Path) -> None:
    simulate(site(tmp_path, text), 60, ledger=tmp_path / "run", sync="os")
    found = metrics(tmp_path / "run").to_map()
    expected = twin(tmp_path / "run")
    assert {name: found[name] for name in expected} == expected
    assert found["services"] > 0


def test_a_run_measured_while_it_is_made_has_the_measures_of_its_ledger(tmp_path: Path) -> None:
    for number, text in enumerate((STRAIGHT, GRID)):
        scorer, bare = Scorer(), Scorer()
        folder = tmp_path / str(number)
        run = simulate(site(tmp_path, text), 130, ledger=folder, sync="os", scorer=scorer)
        simulate(site(tmp_path, text), 130, scorer=bare)
        assert run.metrics == metrics(folder) == bare.result()
        assert run.metrics is not None and run.metrics.gap_frames == 3
        with open_run(folder) as reader:
            assert metrics(reader) == metrics(reader.ledger) == run.metrics


@pytest.mark.parametrize("name", golden_fleets.names())
def test_every_kind_of_fleet_is_measured_alike_while_it_runs_and_from_its_ledger(name: str, tmp_path: Path) -> None:
    fleet = Scenario.load(golden_fleets.write(name, tmp_path))
    run = simulate(fleet, 70, ledger=tmp_path / "run", sync="os", scorer=Scorer())
    assert run.metrics == metrics(tmp_path / "run")
    assert run.metrics is not None
    # What the last ticks came to is not in the ledger; a zone served twice between two plans counts once.
    assert 0.9 * run.served - 14 <= run.metrics.services <= run.served
    if name.startswith("pibt"):
        assert (run.metrics.cell_conflicts, run.metrics.edge_conflicts) == (0, 0)


def test_other_peoples_decisions_are_measured_like_ours(tmp_path: Path) -> None:
    def nearest(agents, zones, obstacles, kernels, config, *, now_tick, rings=None, grid=None):  # type: ignore[no-untyped-def]
        return plan_greedy(agents, zones, obstacles, kernels, config, now_tick=now_tick, rings=rings, grid=grid).rows

    run = simulate(
        site(tmp_path, STRAIGHT), 70, ledger=tmp_path / "run", sync="os", scorer=Scorer(), planner_model=nearest
    )
    ours = simulate(site(tmp_path, STRAIGHT + "[plan]\nplanner = 'greedy'\n"), 70, scorer=Scorer())
    assert run.metrics is not None and ours.metrics is not None
    assert run.metrics == metrics(tmp_path / "run")
    assert replace(run.metrics, digest="") == replace(ours.metrics, digest="")


def test_ranges_are_the_ticks_between_both_ends(tmp_path: Path) -> None:
    simulate(site(tmp_path, STRAIGHT), 40, ledger=tmp_path / "run", sync="os")
    part = metrics(tmp_path / "run", first_tick=10, last_tick=20)
    assert (part.frames, part.first_tick, part.last_tick) == (11, 10, 20)
    scorer = Scorer()
    series = list(tick_metrics(tmp_path / "run", scorer, first_tick=10, last_tick=20, gap_every=1))
    assert [one.tick for one in series] == list(range(10, 21))
    whole = scorer.result()
    assert (sum(one.services for one in series), whole.gap_frames) == (whole.services, 11)
    assert replace(whole, gap_frames=0, gap_median=None, gap_p99=None, gap_max=None) == metrics(
        tmp_path / "run", first_tick=10, last_tick=20, gap_every=0
    )
    assert metrics(tmp_path / "run", first_tick=1000).frames == 0


def test_a_range_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^metrics: first_tick must be at most last_tick, got 3 and 2$"):
        metrics(tmp_path, first_tick=3, last_tick=2)
    with pytest.raises(ValueError, match=r"^metrics: gap_every must be a whole number of at least 0, got -1$"):
        metrics(tmp_path, gap_every=-1)


def test_one_plan_is_measured() -> None:
    q = quality([made()])
    assert (q.frames, q.makespan_ticks, q.travel_ticks_mean) == (1, 3, 2.5)
    assert (q.coverage, q.services, q.travel_m_total) == (0.0, 0, 0.0)
    assert (q.idle_max_ticks, q.idle_p99_ticks) == (50, 50)
    assert q.objective == made().stats.score_sum
    assert q.gap_max == made().prove().gap == 0.0
    assert (q.conflicts, q.rejections, q.switches_per_agent_per_100_ticks) == (0, {}, 0.0)
    assert q.min_separation_m == 10.0


def test_switches_count_changes_from_zone_to_zone() -> None:
    later = [replace(agent, last_seen_tick=60) for agent in AGENTS]
    swapped = [replace(zone, x=11.0 - zone.x if zone.id < 7 else zone.x) for zone in ZONES]
    q = quality([made(), made(later, swapped, 60)])
    assert q.switches_per_agent_per_100_ticks == 100 * 2 / (2 * 10)
    assert quality([made(), made(later, ZONES, 60)]).switches_per_agent_per_100_ticks == 0.0


def test_going_on_after_a_service_or_from_a_zone_that_is_gone_is_no_switch() -> None:
    later = [replace(agent, last_seen_tick=60) for agent in AGENTS]
    others = [WorkZone(id=8, x=1.0), WorkZone(id=9, x=9.0)]
    served = [replace(ZONES[0], last_served_tick=55, x=5000.0), replace(ZONES[1], last_served_tick=58, x=6000.0)]
    assert quality([made(), made(later, others, 60)]).switches == 0
    q = quality([made(), made(later, [*served, *others], 60)])
    assert (q.switches, q.services, q.fairness_service) == (0, 2, 1.0)
    assert q.coverage == 2 / 5  # zone 7 has left, two came
    assert q.zones == 5


def test_a_task_that_is_gone_counts_as_served_where_its_agent_worked_in_it_or_stands_in_it() -> None:
    working = [AgentState(id=1, mode=2, zone=5, last_seen_tick=50), AgentState(id=2, x=10.0, last_seen_tick=50)]
    for x, expected in ((9.0, 1), (8.5, 2)):
        zones = [WorkZone(id=5, x=3.0), WorkZone(id=6, x=8.0, radius=0.5)]
        later = [AgentState(id=1, last_seen_tick=60), AgentState(id=2, x=x, last_seen_tick=60)]
        q = quality([made(working, zones), made(later, [WorkZone(id=7)], 60)])
        assert (q.services, q.zones, q.coverage) == (expected, 3, expected / 3)
    assert quality([made(working, zones), made([], [], 60)]).services == 1


def test_services_of_tasks_by_silent_agents_are_not_seen_and_those_of_zones_are() -> None:
    head = 'version = 1\nname = "quiet"\nseed = 1\n[agents]\nrandom = 6\nspeed = 6.0\n'
    tasks = head + '[demand]\nmodel = "uniform"\nrate = 0.8\nservice_ticks = 2\n'
    zones = head + "[zones]\nrandom = 9\nservice_ticks = 3\n"
    for text, faults, seen_less in (
        (tasks, "", False),
        (tasks, "[faults]\nsilent = 0.03\nsilent_ticks = [5, 60]\n", True),
    ):
        run = simulate(Scenario.loads(text + faults), 150, scorer=Scorer(), gap_every=0)
        assert run.metrics is not None
        unseen = run.tasks_served - run.metrics.services
        assert (unseen > 6) == seen_less, unseen  # 6 agents can end a service after the last plan
    run = simulate(
        Scenario.loads(zones + "[faults]\nsilent = 0.03\nsilent_ticks = [5, 60]\n"), 150, scorer=Scorer(), gap_every=0
    )
    assert run.metrics is not None
    assert 0 <= run.served - run.metrics.services <= 6


def test_agents_may_leave_and_come_back() -> None:
    first, second = made(), made([replace(AGENTS[1], x=20.0, last_seen_tick=60)], ZONES, 60)
    third = made([replace(agent, x=agent.x + 5, last_seen_tick=70) for agent in AGENTS], ZONES, 70)
    q = quality([first, second, third])
    assert (q.agents, q.rows) == (2, 5)
    assert q.travel_m_total == 10.0 + 5.0  # agent 2 alone was there twice in a row
    assert q.fairness_travel == 0.5


def test_rejections_are_named_by_reason() -> None:
    agents = [*AGENTS, AgentState(id=3, last_seen_tick=50), AgentState(id=4, mode=4, last_seen_tick=50)]
    q = quality([made(agents)])
    assert q.rejections == {"agent_not_ready": 1, "conflict": 1}
    assert q.not_ready == {"offline": 1}
    assert q.conflicts == 1


def test_without_bounds_there_is_no_gap() -> None:
    scorer, one = Scorer(), made()
    scorer.add(one.situation.agents, one.situation.zones, one.frame(0), one.rows)
    assert (scorer.result().gap_median, scorer.result().gap_frames) == (None, 0)


def test_the_digest_depends_on_every_frame_and_on_the_order_of_plans() -> None:
    a, b = made(), made([replace(agent, caps=1, x=agent.x + 1, last_seen_tick=51) for agent in AGENTS], now=51)
    assert len({quality(plans).digest for plans in ([a], [b], [a, b])}) == 3
    assert quality([a, b]).digest == quality([a, b]).digest


def test_ticks_that_do_not_ascend_and_rows_of_others_are_refused() -> None:
    scorer, one = Scorer(), made()
    seen = one.situation
    with pytest.raises(RunError, match=r"^tick 50: expected one row for each agent of its inputs, got others$"):
        scorer.add(seen.agents[:1], seen.zones, one.frame(0), one.rows)
    scorer.add(seen.agents, seen.zones, one.frame(0), one.rows)
    with pytest.raises(RunError, match=r"^tick 50: expected a tick after 50$"):
        scorer.add(seen.agents, seen.zones, one.frame(0), one.rows)


def test_empty_plans_are_measured_too() -> None:
    q = quality([made([], [])])
    assert (q.frames, q.coverage, q.idle_max_ticks, q.fairness_travel, q.gap_max) == (1, 0.0, 0, 1.0, None)
    assert (q.min_separation_m, quality([]).frames, quality([]).first_tick) == (None, 0, None)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_jain_lies_between_one_over_n_and_one(values: list[int]) -> None:
    assert 1 / len(values) - 1e-12 <= jain_index(values) <= 1.0


@given(st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 300), max_size=30), max_size=5))
def test_idle_quantiles_are_nearest_ranks(groups: list[list[int]]) -> None:
    counts, values = IdleCounts(), [v for group in groups for v in group]
    for group in groups:
        counts.add(np.array(group, np.uint64))
    for percent in (50, 99):
        expected = rank(values, percent)
        assert nearest_rank(sorted(values), percent) == expected
        drop = max(0, expected.bit_length() - 16)
        assert counts.nearest_rank(percent) == expected >> drop << drop
    assert counts.maximum == max(values, default=0)


def test_exchanges_are_edges_gone_both_ways() -> None:
    grid = Grid(4, 1, 1.0, 0.0, 0.0, np.zeros((1, 4), np.bool_))

    def at(now: int, *columns: float):
        agents = [AgentState(id=i, x=x, y=0.5, last_seen_tick=now) for i, x in enumerate(columns)]
        return plan(agents, [], [], [], PlanConfig(), now_tick=now, grid=grid)

    q = quality([at(1, 0.5, 1.5, 3.5), at(2, 1.5, 0.5, 2.5)])
    assert (q.edge_conflicts, q.cell_conflicts) == (1, 0)
    assert quality([at(1, 0.5, 1.5, 3.5), at(3, 1.5, 0.5, 2.5)]).edge_conflicts == 0  # a tick lies between
    assert quality([at(1, 0.5, 0.5, 0.5)]).cell_conflicts == 2

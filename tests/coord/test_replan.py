"""Planning again after an event: equal to a fresh plan, and nothing changes that need not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coord import PlannerError, Scenario, audit, metrics, open_run, replan, simulate
from coord.checks import EXTERNAL, PLANNERS
from coord.planning import plan_ref
from coord.planning.replan import changed
from coord.planning.situation import situation
from coord.records import NO_ZONE, OBSTACLE_DTYPE, ROW_DTYPE

seeds = st.integers(0, 2**20)
planners = st.sampled_from(sorted(set(PLANNERS) - {EXTERNAL}))
greedy_and_swap = st.sampled_from([0, 1])
EVENTS = ["agent lost", "agent back", "zone added", "zone removed", "obstacle appeared", "nothing"]


def tables(fleet):
    return fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels, fleet.config


def seen_of(fleet):
    return situation(*tables(fleet), now_tick=fleet.now_tick, rings=fleet.rings, grid=fleet.grid)


def again(fleet, before):
    return replan(before, *tables(fleet), now_tick=fleet.now_tick, rings=fleet.rings, grid=fleet.grid)


def settled(fleet, rows):
    """The fleet when its agents have taken the zones of their rows."""
    agents = fleet.agents[np.argsort(fleet.agents["id"])].copy()
    agents["zone"] = rows["zone"][rows["queue_index"] == 0]
    return replace(fleet, agents=agents)


def after(fleet, event, seed):
    """The fleet after an event, drawn from the seed."""
    rng = np.random.default_rng(seed)
    size = float(fleet.zones["x"].max(initial=1))
    if event == "agent lost":
        return replace(fleet, agents=np.delete(fleet.agents, rng.integers(len(fleet.agents))))
    if event == "zone removed":
        return replace(fleet, zones=np.delete(fleet.zones, rng.integers(len(fleet.zones))))
    if event == "agent back":
        new = fleet.agents[rng.integers(len(fleet.agents))][None].copy()
        new["id"], new["zone"] = 5000, NO_ZONE
        new["x"], new["y"] = rng.uniform(0, size, 2)
        return replace(fleet, agents=np.concatenate([fleet.agents, new]))
    if event == "zone added":
        new = fleet.zones[rng.integers(len(fleet.zones))][None].copy()
        new["id"] = 5000
        new["x"], new["y"] = rng.uniform(0, size, 2)
        return replace(fleet, zones=np.concatenate([fleet.zones, new]))
    if event == "obstacle appeared":
        new = np.zeros(1, OBSTACLE_DTYPE)
        new["id"], new["radius"] = 5000, size / 8
        new["x"], new["y"] = rng.uniform(0, size, 2)
        return replace(fleet, obstacles=np.concatenate([fleet.obstacles, new]))
    return fleet


def zones_of(rows):
    return {int(row["agent"]): int(row["zone"]) for row in rows if row["queue_index"] == 0}


@given(seed=seeds, planner=planners, event=st.sampled_from(EVENTS), later=st.integers(0, 3), ticks=st.integers(0, 3))
@settings(max_examples=40)
def test_a_replan_is_a_fresh_plan_and_names_the_rows_that_changed(make_fleet, seed, planner, event, later, ticks):
    fleet = make_fleet(seed, 15, 30)
    fleet.config = replace(fleet.config, planner=planner, flags=fleet.config.flags & 1 | later << 1)
    before = fleet.plan()
    now = after(settled(fleet, before.rows) if seed % 2 else fleet, event, seed)
    now = replace(now, now_tick=fleet.now_tick + ticks)
    made = again(now, before)
    assert made.event(3) == now.plan().event(3)
    old = {(int(r["agent"]), int(r["queue_index"])): int(r["zone"]) for r in before.rows}
    wanted = [r.tobytes() for r in made.rows if old.get((int(r["agent"]), int(r["queue_index"])), NO_ZONE) != r["zone"]]
    assert [r.tobytes() for r in made.changed_rows] == wanted
    assert made.before is before
    if event == "nothing" and seed % 2 == 0 and ticks == 0:
        assert len(made.changed_rows) == 0
        assert made.rows is before.rows


def test_a_replan_does_not_take_over_the_rows_of_an_external_planner(make_fleet):
    fleet = make_fleet(3, 5, 5)
    before = fleet.plan()
    fleet.config = replace(fleet.config, planner=EXTERNAL)
    with pytest.raises(PlannerError, match="somebody else's planner"):
        again(fleet, before)


@given(seed=seeds, planner=greedy_and_swap, event=st.sampled_from(EVENTS[:-1]))
@settings(max_examples=40)
def test_an_event_beyond_everybodys_reach_changes_no_row(make_fleet, seed, planner, event):
    fleet = make_fleet(seed, 20, 30, rich=False, planner=planner, max_travel_ticks=200)
    fleet.agents["x"] += np.where(np.arange(20) == 0, 100_000, 0)  # reaches nothing
    far = fleet.zones[:1].copy()
    far["id"], far["x"] = 4000, -100_000
    fleet.zones = np.concatenate([fleet.zones, far])
    fleet = settled(fleet, fleet.plan().rows)
    before = fleet.plan()
    now = replace(fleet, agents=fleet.agents.copy(), zones=fleet.zones.copy())
    lonely = np.argmax(now.agents["x"])
    if event == "agent lost":
        now.agents = np.delete(now.agents, lonely)
    elif event == "agent back":
        new = now.agents[lonely][None].copy()
        new["id"] = 1_000_000
        now.agents = np.concatenate([new, now.agents])
    elif event == "zone removed":
        now.zones = now.zones[now.zones["id"] != 4000]
    elif event == "zone added":
        far["id"], far["x"] = 5000, -200_000
        now.zones = np.concatenate([now.zones, far])
    else:
        now.obstacles = np.zeros(1, OBSTACLE_DTYPE)
        now.obstacles["x"], now.obstacles["radius"] = 50_000, 10
    made = again(now, before)
    rows = {int(row["agent"]): row.tobytes() for row in before.rows}
    assert [row.tobytes() for row in made.rows if int(row["agent"]) in rows] == [
        rows[int(row["agent"])] for row in made.rows if int(row["agent"]) in rows
    ]
    assert len(made.changed_rows) == 0


def keys_of(fleet):
    """key(agent, zone) of greedy's order, None where the pair is not feasible."""
    seen = seen_of(fleet)
    agents = seen.agents["id"][seen.planned].tolist()
    zones = seen.zones["id"][seen.offered].tolist()
    keys = {}
    for a, agent in enumerate(agents):
        p = plan_ref.pairs(seen.problem, seen.problem.agents, a)
        for z in np.flatnonzero(p.feasible).tolist():
            keys[agent, zones[z]] = (-int(p.score[z]), int(p.travel[z]), zones[z], agent)
    return keys


@given(seed=seeds, event=st.sampled_from(EVENTS[:4]))
@settings(max_examples=60)
def test_greedy_changes_one_chain_of_better_pairs(make_fleet, seed, event):
    """After one agent or zone more or less: a zone goes from one to the next, each change has its cause before it."""
    fleet = make_fleet(seed, 15, 20, planner=0)
    fleet.agents["mode"] = np.where(fleet.agents["mode"] == 2, 1, fleet.agents["mode"])  # nobody is withheld
    fleet = settled(fleet, fleet.plan().rows)
    fleet.config = replace(fleet.config, w_switch=abs(fleet.config.w_switch))
    old = zones_of(fleet.plan().rows)
    now = after(fleet, event, seed)
    new, keys = zones_of(now.plan().rows), keys_of(now)
    gone = [zone for agent, zone in old.items() if agent not in new]
    moved = {agent for agent in new if new[agent] != old.get(agent, NO_ZONE)}
    if event in ("agent lost", "zone added"):  # the free zone goes to a better place, and so on: all are better off
        free = gone[0] if event == "agent lost" else 5000
        while moved:
            taker = [agent for agent in moved if new[agent] == free]
            assert len(taker) == 1, "a change outside the chain"
            assert old[taker[0]] == NO_ZONE or keys[taker[0], free] < keys[taker[0], old[taker[0]]]
            moved.remove(taker[0])
            free = old[taker[0]]
    else:  # the newcomer, or the one whose zone is gone, takes a zone from somebody worse, and so on
        lost = {zone for zone in old.values() if zone != NO_ZONE} - set(now.zones["id"].tolist())
        agent = 5000 if event == "agent back" else next((a for a, z in old.items() if z in lost), None)
        while moved:
            assert agent in moved, "a change outside the chain"
            moved.remove(agent)
            zone = new[agent]
            worse = [a for a, z in old.items() if z == zone and a != agent]
            if zone == NO_ZONE or not worse:
                assert not moved, "a change outside the chain"
            else:
                assert keys[agent, zone] < keys[worse[0], zone]
                agent = worse[0]


@given(seed=seeds)
@settings(max_examples=40)
def test_an_obstacle_moves_under_greedy_only_who_lost_a_pair_or_is_pushed_or_gains(make_fleet, seed):
    fleet = make_fleet(seed, 15, 20, planner=0)
    fleet.config = replace(fleet.config, w_switch=abs(fleet.config.w_switch))
    fleet.agents["mode"] = np.where(fleet.agents["mode"] == 2, 1, fleet.agents["mode"])
    fleet = settled(fleet, fleet.plan().rows)
    old = zones_of(fleet.plan().rows)
    now = after(fleet, "obstacle appeared", seed)
    new, keys = zones_of(now.plan().rows), keys_of(now)
    holder = {zone: agent for agent, zone in new.items() if zone != NO_ZONE}
    for agent, zone in new.items():
        was = old[agent]
        if was in (zone, NO_ZONE) or (agent, was) not in keys:
            continue
        better_off = zone != NO_ZONE and keys[agent, zone] < keys[agent, was]
        taker = holder.get(was)
        pushed = taker is not None and keys[taker, was] < keys[agent, was] and new[taker] != old[taker]
        assert better_off or pushed


@given(seed=seeds)
@settings(max_examples=40)
def test_greedy_stays_with_its_own_plan_whatever_the_hysteresis(make_fleet, seed):
    fleet = make_fleet(seed, 20, 25, planner=0)
    fleet.config = replace(fleet.config, w_switch=float(np.random.default_rng(seed).choice([0, 0.001, 0.1, 5, 1e9])))
    rows = fleet.plan().rows
    assert zones_of(settled(fleet, rows).plan().rows) == zones_of(rows)


def halves(make_fleet, seed, planner):
    """Two fleets out of each other's reach, as one."""
    west = make_fleet(seed, 12, 15, rich=False, planner=planner, max_travel_ticks=500)
    east = make_fleet(seed + 1, 12, 15, rich=False)
    for table in (east.agents, east.zones):
        table["x"] += 500_000
        table["id"] += 1000
    west.kernels = west.kernels[:0]
    return replace(
        west, agents=np.concatenate([west.agents, east.agents]), zones=np.concatenate([west.zones, east.zones])
    )


@given(seed=seeds, planner=greedy_and_swap, event=st.sampled_from(EVENTS[:4]))
@settings(max_examples=40)
def test_an_event_changes_no_row_that_no_chain_of_feasible_pairs_joins_with_it(make_fleet, seed, planner, event):
    """Greedy and swap, without a budget: the east does not notice what happens in the west."""
    fleet = halves(make_fleet, seed, planner)
    fleet = settled(fleet, fleet.plan().rows)
    before = fleet.plan()
    is_east = fleet.zones["x"] > 250_000, fleet.agents["x"] > 250_000
    west = replace(fleet, zones=fleet.zones[~is_east[0]], agents=fleet.agents[~is_east[1]])
    other = after(west, event, seed)
    now = replace(
        fleet, agents=np.concatenate([other.agents, fleet.agents[is_east[1]]]),
        zones=np.concatenate([other.zones, fleet.zones[is_east[0]]]),
    )  # fmt: skip
    if event == "agent back":
        now.agents["id"][now.agents["id"] == 5000] = 999
    if event == "zone added":
        now.zones["id"][now.zones["id"] == 5000] = 999
    east_ids = fleet.agents["id"][is_east[1]]
    made = again(now, before)
    wanted = before.rows[np.isin(before.rows["agent"], east_ids)]
    assert made.rows[np.isin(made.rows["agent"], east_ids)].tobytes() == wanted.tobytes()


@given(seed=seeds, planner=planners, event=st.sampled_from(EVENTS), crowded=st.booleans())
@settings(max_examples=60)
def test_a_large_hysteresis_keeps_every_zone_that_is_still_feasible(make_fleet, seed, planner, event, crowded):
    """Minimal change: w_switch above four times the range of scores; of several with one zone, one of them keeps it."""
    n, m, reach = (25, 15, 25) if crowded else (15, 25, 60)
    fleet = make_fleet(
        seed, n, m, rich=False, planner=planner, w_switch=1000.0, idle_score=-2_000_000, max_travel_ticks=reach
    )
    fleet = settled(fleet, fleet.plan().rows)
    rng = np.random.default_rng(seed)
    drawn = rng.permutation if seed % 2 else lambda zones: rng.choice(zones, len(zones))
    fleet.agents["zone"] = drawn(fleet.agents["zone"])  # zones that no planner would have chosen, some of them twice
    now = after(fleet, event, seed)
    keys, new = keys_of(now), zones_of(now.plan().rows)
    wanting: dict[int, set[int]] = {}
    for agent, zone in zip(now.agents["id"].tolist(), now.agents["zone"].tolist(), strict=True):
        if (agent, zone) in keys:
            wanting.setdefault(zone, set()).add(agent)
    for zone, agents in wanting.items():
        assert [agent for agent in new if new[agent] == zone and agent in agents]


SITE = """version = 1
name = "switches"
seed = 1
[plan]
planner = "{planner}"
w_switch = {w_switch}
idle_cap_ticks = 300
max_travel_ticks = 400
[agents]
random = 60
box = [0, 0, 400, 400]
speed = 1.5
[zones]
random = 80
box = [0, 0, 400, 400]
service_ticks = 10
"""


@pytest.mark.parametrize("planner", ["greedy", "swap"])
def test_hysteresis_stops_agents_from_changing_their_minds(planner, tmp_path):
    switches = []
    for w_switch in (0.0, 0.1):
        folder = tmp_path / str(w_switch)
        simulate(Scenario.loads(SITE.format(planner=planner, w_switch=w_switch)), 100, ledger=folder, sync="os")
        switches.append(metrics(folder, gap_every=0).switches)
    assert switches[0] > 10
    assert switches[1] == 0


EVENTFUL = """version = 1
name = "eventful"
[plan]
planner = "{planner}"
every_ticks = 20
on_events = true
queue = {queue}
w_switch = 1000.0
[agents]
random = 8
box = [0, 0, 60, 60]
[zones]
random = 40
box = [0, 0, 60, 60]
[[event]]
tick = 7
kind = "agent_lost"
id = 2
ticks = 6
[[event]]
tick = 9
kind = "zone_added"
id = 900
x = 30.0
y = 30.0
priority = 5.0
[[event]]
tick = 15
kind = "obstacle_added"
id = 0
shape = "circle"
x = 20.0
y = 20.0
radius = 8.0
"""


@pytest.mark.parametrize("planner", ["greedy", "swap"])
@pytest.mark.parametrize("queue", [1, 4])
def test_plans_at_events_keep_what_need_not_change(planner, queue, tmp_path):
    """A plan is made at the tick of each event, and with a large w_switch only who must gets another zone."""
    folder = tmp_path / "run"
    site = Scenario.loads(EVENTFUL.format(planner=planner, queue=queue))
    simulate(site, 41, ledger=folder, sync="os")
    report = audit(folder, resimulate=True)
    assert report.ok, (report.problems, report.first_divergences)
    with open_run(folder) as reader:
        views = [(view.frame.tick, view.inputs.copy(), view.rows.copy()) for view in reader.frames()]
    assert [tick for tick, _, _ in views] == [0, 7, 9, 13, 15, 20, 40]
    for tick, inputs, rows in views[1:]:
        fleet = seen_for(site, inputs, tick)
        keys, new = keys_of(fleet), zones_of(rows)
        for agent in inputs.agents[inputs.agents["mode"] == 1]:
            if (int(agent["id"]), int(agent["zone"])) in keys:
                assert new[int(agent["id"])] == int(agent["zone"])
    assert 2 not in views[1][1].agents["id"]
    assert 2 in views[3][1].agents["id"]
    assert 900 in zones_of(views[2][2]).values() or 900 in views[2][2]["zone"]


def seen_for(site, inputs, tick):
    """The inputs of one tick as a fleet of these tests."""
    return SimpleNamespace(
        agents=inputs.agents, zones=inputs.zones, obstacles=inputs.obstacles, kernels=inputs.kernels,
        config=site.setup.config, now_tick=tick, rings=None, grid=None,
    )  # fmt: skip


def test_the_chain_of_one_lost_agent_is_not_empty_by_chance(make_fleet):
    """Some seeds do make chains: the property above is no property of plans that never change."""
    lengths = []
    for seed in range(30):
        fleet = make_fleet(seed, 15, 12, rich=False, planner=0, w_switch=0.0)
        before = fleet.plan()
        made = again(after(settled(fleet, before.rows), "agent lost", seed), before)
        lengths.append(len(made.changed_rows))
    assert max(lengths) >= 3
    assert 0 in lengths


def test_rows_with_another_zone_are_the_changed_ones():
    before, now = np.zeros(3, ROW_DTYPE), np.zeros(4, ROW_DTYPE)
    before["agent"], before["zone"], before["queue_index"] = [1, 1, 2], [5, 6, 7], [0, 1, 0]
    now["agent"], now["zone"], now["queue_index"] = [1, 2, 2, 9], [5, 6, 7, NO_ZONE], [0, 0, 1, 0]
    assert changed(before, now).tolist() == [False, True, True, False]
    assert changed(before[:0], now).tolist() == [True, True, True, False]

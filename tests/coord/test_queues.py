"""Queues: rounds of the same planner from where the round before left each agent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coord import PlanConfig, Scenario, audit, decode_frame_event, explain, plan, simulate
from coord.checks import EXTERNAL, PLANNERS
from coord.frames.frame import check_rows
from coord.records import NO_ZONE, ROW_DTYPE
from coord.simulation.service_queue import ServiceQueue

seeds = st.integers(0, 2**20)
laters = st.integers(1, 7)
planners = st.sampled_from(sorted(set(PLANNERS) - {EXTERNAL}))


def queued(fleet, later, planner=1):
    """The fleet with room for later zones; costs are small enough for some queues and too high for others."""
    rng = np.random.default_rng(later)
    zones = fleet.zones.copy()
    zones["energy_cost"] = rng.choice(np.array([0, 0.1, 0.3, -0.05], np.float32), len(zones))
    flags = (fleet.config.flags & 1) | later << 1
    return replace(fleet, zones=zones, config=replace(fleet.config, flags=flags, planner=planner))


def first_rows(rows):
    return rows[rows["queue_index"] == 0]


@given(seed=seeds, later=laters, planner=planners)
@settings(max_examples=25)
def test_queues_have_no_gap_and_no_zone_twice_and_leave_the_first_rows_alone(make_fleet, seed, later, planner):
    fleet = queued(make_fleet(seed, 12, 60), later, planner)
    made = fleet.plan()
    check_rows(made.rows, "rows")  # sorted, no gap, no zone twice
    alone = replace(fleet, config=replace(fleet.config, flags=fleet.config.flags & 1)).plan()
    assert first_rows(made.rows).tobytes() == alone.rows.tobytes()
    assert made.stats == alone.stats
    assert made.rows["queue_index"].max() <= later
    assert made.bound == alone.bound
    frame, rows = decode_frame_event(made.event(3))
    assert frame.agents == 12
    assert rows.tobytes() == made.rows.tobytes()


@given(seed=seeds, later=laters, planner=planners)
@settings(max_examples=25)
def test_each_round_is_a_plan_of_agents_that_stand_at_their_last_zones(make_fleet, seed, later, planner):
    """The oracle: plan itself, on records moved by hand."""
    fleet = queued(make_fleet(seed, 10, 50), later, planner)
    rows = fleet.plan().rows
    agents, zones = fleet.agents[np.argsort(fleet.agents["id"])], fleet.zones[np.argsort(fleet.zones["id"])]
    alone = replace(fleet.config, flags=fleet.config.flags & 1, min_energy=-1e30)
    energy = agents["energy"].copy()
    free = ~np.isin(zones["id"], first_rows(rows)["zone"])
    for index in range(1, later + 1):
        before = rows[(rows["queue_index"] == index - 1) & (rows["zone"] != NO_ZONE)]
        who = np.searchsorted(agents["id"], before["agent"])
        at = np.searchsorted(zones["id"], before["zone"])
        energy[who] -= zones["energy_cost"][at]
        moved = agents[who].copy()
        for axis in "xyz":
            moved[axis] = zones[axis][at]
        moved["energy"], moved["mode"] = np.clip(energy[who], 0, 1), 0
        if (len(who) and (energy[who] < 0).any()) or (energy[who] > 1).any():
            return  # no agent record holds that
        here = plan(
            moved, zones[free], fleet.obstacles, fleet.kernels, alone, now_tick=fleet.now_tick, rings=fleet.rings,
            grid=fleet.grid,
        ).rows  # fmt: skip
        got = rows[rows["queue_index"] == index]
        wanted = here[here["status"] == 0]
        for field in ("agent", "zone", "status", "score", "travel", "stale", "idle", "reason"):
            assert got[field].tolist() == wanted[field].tolist(), (index, field)
        free &= ~np.isin(zones["id"], got["zone"])


@given(seed=seeds, later=laters)
@settings(max_examples=15)
def test_permuted_inputs_give_the_same_queues(make_fleet, seed, later):
    fleet = queued(make_fleet(seed, 15, 60), later)
    rng = np.random.default_rng(seed)
    mixed = replace(fleet, agents=rng.permutation(fleet.agents), zones=rng.permutation(fleet.zones))
    assert mixed.plan().event(0) == fleet.plan().event(0)


def test_an_agent_at_work_queues_what_comes_after_its_service(make_fleet):
    fleet = make_fleet(1, 1, 3, rich=False)
    fleet.zones["x"], fleet.zones["y"] = [10, 20, 40], 0
    fleet.zones["id"], fleet.zones["priority"] = [1, 2, 3], 0
    fleet.agents["mode"], fleet.agents["zone"], fleet.agents["id"] = 2, 1, 7
    fleet.zones["last_served_tick"] = 1000
    fleet.config = PlanConfig(flags=7 << 1, w_cover=0, w_avoid=0)
    rows = fleet.plan().rows
    assert [tuple(int(row[name]) for name in ("zone", "queue_index", "travel")) for row in rows] == [
        (1, 0, 0),
        (2, 1, 7),
        (3, 2, 14),
    ]


def test_a_queue_spends_no_more_energy_than_the_agent_has(make_fleet):
    fleet = make_fleet(1, 1, 6, rich=False)
    fleet.agents["energy"], fleet.zones["energy_cost"] = 0.875, 0.25
    fleet.config = PlanConfig(flags=7 << 1)
    assert len(fleet.plan().rows) == 3
    fleet.zones["energy_cost"] = [0.5, 0.5, 0.5, 0.25, 0.5, 0.5]
    rows = fleet.plan().rows
    costs = fleet.zones["energy_cost"][[np.flatnonzero(fleet.zones["id"] == z)[0] for z in rows["zone"]]]
    assert costs.sum() <= 0.875
    assert len(rows) == 2


def test_the_budget_holds_for_each_round(make_fleet):
    fleet = make_fleet(5, 30, 120, rich=False)
    fleet.config = PlanConfig(flags=3 << 1, work_budget=10)
    made = fleet.plan()
    assert made.work == 40
    assert made.flags & 4


def test_explanations_show_the_queue(make_fleet):
    fleet = make_fleet(5, 3, 9, rich=False)
    fleet.config = PlanConfig(flags=2 << 1)
    agent = int(fleet.agents["id"].min())
    told = explain(
        fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels, fleet.config, now_tick=1000, agent=agent
    )  # fmt: skip
    rows = fleet.plan().rows
    mine = rows[rows["agent"] == agent]
    assert [row.zone for row in told.queue] == mine["zone"][1:].tolist()
    assert [row.queue_index for row in told.queue] == [1, 2]
    assert [row["zone"] for row in told.to_dict()["queue"]] == mine["zone"][1:].tolist()
    last = int(mine["zone"][2])
    later = explain(fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels, fleet.config, now_tick=1000, zone=last)
    assert later.row is None
    assert [(row.agent, row.queue_index) for row in later.queue] == [(agent, 2)]


SITE = """version = 1
name = "queues"
seed = 11
[plan]
every_ticks = 20
queue = {queue}
planner = "{planner}"
[agents]
random = 12
box = [0, 0, 60, 60]
speed = 2.0
[zones]
random = 80
box = [0, 0, 60, 60]
service_ticks = 2
"""


@pytest.mark.parametrize("planner", ["greedy", "swap"])
def test_a_fleet_planned_every_20_ticks_serves_twice_as_much_with_queues(planner, tmp_path):
    runs = {
        queue: simulate(Scenario.loads(SITE.format(queue=queue, planner=planner)), 200, ledger=tmp_path / str(queue))
        for queue in (1, 8)
    }
    assert runs[8].served > 2 * runs[1].served
    report = audit(tmp_path / "8", resimulate=True)
    assert report.ok, report
    assert report.resimulated == report.planned == 10


def test_the_key_queue_stands_in_the_flags_and_its_default_in_no_text():
    one, eight = (Scenario.loads(SITE.format(queue=queue, planner="swap")) for queue in (1, 8))
    assert one.setup.config.flags == 0
    assert eight.setup.config.flags == 14
    assert "queue" not in one.to_toml().replace('name = "queues"', "")
    assert "queue = 8\n" in eight.to_toml()
    assert Scenario.loads(eight.to_toml()).setup.config == eight.setup.config
    both = SITE.format(queue=3, planner="swap").replace("queue = 3", "queue = 3\nflags = 1")
    assert Scenario.loads(both).setup.config.flags == 5


def test_a_queue_forgets_what_was_taken_and_what_a_new_plan_does_not_name():
    queue = ServiceQueue()
    rows = plan_rows([(7, 3, 1), (7, 4, 2), (9, 5, 1)])
    queue.fill(rows)
    ids = np.array([7, 8, 9], np.uint32)
    assert queue.take(ids).tolist() == [3, NO_ZONE, 5]
    assert queue.take(ids).tolist() == [4, NO_ZONE, NO_ZONE]
    queue.fill(rows[:0])
    assert queue.take(ids).tolist() == 3 * [NO_ZONE]


def plan_rows(triples):
    rows = np.zeros(len(triples), ROW_DTYPE)
    for name, column in zip(("agent", "zone", "queue_index"), zip(*triples, strict=True), strict=True):
        rows[name] = column
    return rows

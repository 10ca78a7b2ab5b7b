"""Events from outside: what they do, in which order, and what of them stands in the ledger."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coord.auditing.audit import audit
from coord.errors import ScenarioError
from coord.records import AGENT_DTYPE, NO_ZONE, AgentMode
from coord.simulation.events import EventKind, FleetEvent
from coord.simulation.simulate import simulate
from coord.simulation.world import World
from coord.sites.scenario import Scenario
from coord.stl import fleet_event, open_run
from storage import Ledger

HEAD = 'version = 1\nname = "out"\nseed = 3\n'
PAIR = HEAD + (
    "[[agent]]\nid = 1\nx = 0.0\ny = 0.0\n[[agent]]\nid = 5\nx = 0.0\ny = 10.0\n"
    "[[zone]]\nid = 2\nx = 60.0\ny = 0.0\n[[zone]]\nid = 7\nx = 60.0\ny = 10.0\n"
)
HALL = "type octile\nheight 5\nwidth 9\nmap\n" + 5 * ".........\n"
FLEET = HEAD + "[agents]\nrandom = 9\nspeed = 7.0\n[zones]\nrandom = 14\n"


def event(tick: int, kind: str, number: int, **keys: object) -> str:
    text = f'[[event]]\ntick = {tick}\nkind = "{kind}"\nid = {number}\n'
    return text + "".join(f"{name} = {value!r}\n".replace("'", '"') for name, value in keys.items())


def world_of(text: str, folder: Path | None = None) -> World:
    return World(Scenario.loads(text, folder or Path()).setup)


def step(world: World, ticks: int = 1) -> None:
    for _ in range(ticks):
        if world.is_planned():
            world.assign(world.plan_tick().rows)
        world.advance()


def audited(text: str, folder: Path, ticks: int, base: Path | None = None) -> list[FleetEvent]:
    """The changes in the ledger of a run, which verifies, comes out the same twice, and is made again from itself."""
    site = Scenario.loads(text, base or folder)
    run = simulate(site, ticks, ledger=folder / "run", sync="os")
    again = simulate(site, ticks, ledger=folder / "again", sync="os")
    assert run.root == again.root
    for resimulate in (False, True):
        report = audit(folder / "run", resimulate=resimulate)
        assert report.ok, (report.problems, report.first_divergence)
    with open_run(folder / "run") as reader:
        assert reader.scenario.to_map() == site.setup.to_map()
    with Ledger.open(folder / "run", mode="r") as ledger:
        changes = [fleet_event(found) for _, found in ledger.scan() if found.kind == "coord.event"]
    assert sum(run.events.values()) == len(changes)
    return changes


def test_a_lost_agent_leaves_the_arrays_and_its_zone_is_free_again() -> None:
    world = world_of(PAIR + event(3, "agent_lost", 1) + event(3, "agent_lost", 5, ticks=4))
    step(world, 3)
    assert world.inputs.agents["zone"].tolist() == [2, 7]
    world.begin()
    assert [(e.kind, e.id) for e in world.happened] == [(EventKind.AGENT_LOST, 1), (EventKind.AGENT_LOST, 5)]
    assert len(world.inputs.agents) == 0
    step(world, 4)
    world.begin()
    (agent,) = world.inputs.agents
    assert (int(agent["id"]), float(agent["x"]), int(agent["zone"]), int(agent["last_seen_tick"])) == (
        5,
        3.0,
        NO_ZONE,
        6,
    )
    assert world.plan_tick().rows["zone"].tolist() == [7]


def test_an_agent_comes_back_with_its_state_or_from_a_record_and_a_new_one_may_come() -> None:
    text = PAIR + event(2, "agent_lost", 1) + event(2, "agent_lost", 5)
    text += event(4, "agent_back", 1) + event(5, "agent_back", 5, x=1.5, y=2.0, speed=3.0)
    world = world_of(text + event(6, "agent_back", 3, x=9.0, y=9.0, energy=0.5))
    step(world, 6)
    world.begin()
    agents = world.inputs.agents
    assert agents["id"].tolist() == [1, 3, 5]
    assert agents["x"].tolist() == pytest.approx([4.0, 9.0, 4.5], abs=0.1)
    assert agents["speed"].tolist() == [1.0, 1.0, 3.0]
    assert agents["energy"][1] == 0.5


def test_a_faulty_agent_stands_without_a_zone_until_it_is_repaired() -> None:
    world = world_of(PAIR + event(2, "fault", 1, ticks=3) + event(2, "fault", 5))
    modes = []
    for _ in range(8):
        world.begin()
        modes.append(world.inputs.agents["mode"].tolist())
        step(world)
    assert modes[1:] == [[1, 1], [5, 5], [5, 5], [5, 5], [0, 5], [1, 5], [1, 5]]
    assert world.inputs.agents["x"].tolist() == [5.0, 2.0]


def test_a_delayed_agent_stands_still_and_keeps_its_zone() -> None:
    world = world_of(PAIR + event(2, "delay", 1, ticks=3) + event(3, "delay", 1, ticks=1))
    places = []
    for _ in range(8):
        step(world)
        places.append(float(world.inputs.agents["x"][0]))
    assert places == [1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 4.0, 5.0]
    assert world.inputs.agents["mode"].tolist() == [1, 1]


def test_a_silent_agent_is_stale_after_exactly_its_memory_and_is_believed_again_when_it_reports() -> None:
    text = PAIR.replace("y = 0.0\n[[agent]]", "y = 0.0\nmemory_ticks = 6\n[[agent]]")
    world = world_of(text + event(3, "silent", 1, ticks=20))
    told = []
    for tick in range(30):
        assert world.tick == tick
        plan = world.plan_tick()
        seen = world.inputs.agents[0]
        told.append((int(plan.rows["status"][0]), int(plan.rows["stale"][0]), float(seen["x"])))
        step(world)
    # the last report is that of tick 2: at tick t it is t - 2 old; 6 is still believed
    assert [status for status, _, _ in told] == [0] * 9 + [2] * 15 + [0] * 6
    assert [stale for _, stale, _ in told[3:25]] == [*range(1, 22), 1]
    assert {x for _, _, x in told[3:24]} == {3.0}
    assert told[24][2] == 24.0  # it went on with what it was told
    assert world.agents["zone"][0] == 2


def test_max_stale_ticks_ends_belief_before_the_memory_does() -> None:
    world = world_of(
        PAIR.replace('name = "out"', 'name = "out"\n[plan]\nmax_stale_ticks = 4\n').replace("seed = 3\n", "")
        + event(3, "silent", 1)
    )
    statuses = []
    for _ in range(12):
        statuses.append(int(world.plan_tick().rows["status"][0]))
        step(world)
    assert statuses == [0] * 7 + [2] * 5


def test_a_silent_agent_serves_its_zone_and_then_waits_for_orders() -> None:
    near = PAIR.replace("x = 60.0\ny = 0.0", "x = 4.0\ny = 0.0\nservice_ticks = 2")
    world = world_of(near + event(2, "silent", 1, ticks=30))
    step(world, 25)
    assert world.inputs.zones["last_served_tick"].tolist()[0] == 5
    assert (int(world.agents["mode"][0]), int(world.agents["zone"][0])) == (AgentMode.IDLE, NO_ZONE)
    step(world, 9)
    assert world.inputs.agents["mode"].tolist()[0] == AgentMode.WORKING


def test_zones_come_and_go_and_agents_on_their_way_are_free() -> None:
    world = world_of(PAIR + event(2, "zone_added", 4, x=8.0, y=1.0, priority=9.0) + event(5, "zone_removed", 7))
    step(world, 2)
    world.begin()
    assert world.inputs.zones["id"].tolist() == [2, 4, 7]
    assert world.inputs.zones["last_served_tick"].tolist() == [0, 2, 0]
    step(world, 3)
    world.begin()
    assert world.inputs.zones["id"].tolist() == [2, 4]
    agents = world.inputs.agents
    assert all(zone in (2, 4, NO_ZONE) for zone in agents["zone"].tolist())
    assert (agents["mode"][agents["zone"] == NO_ZONE] == AgentMode.IDLE).all()


def test_obstacles_come_and_go_with_their_rings() -> None:
    square = [[58.0, 8.0], [62.0, 8.0], [62.0, 12.0], [58.0, 12.0]]
    text = PAIR + '[[obstacle]]\nkind = "polygon"\npoints = [[0, 50], [1, 50], [1, 51]]\n'
    text += event(1, "obstacle_added", 4, shape="polygon", points=square)
    text += event(2, "obstacle_added", 2, shape="circle", x=60.0, y=0.0, radius=3.0, margin=1.0)
    world = world_of(text + event(4, "obstacle_removed", 0) + event(6, "obstacle_removed", 4))
    blocked, rings = [], []
    for _ in range(8):
        plan = world.plan_tick()
        blocked.append(plan.stats.blocked_zones)
        rings.append([len(world.rings.ring(i)) for i in range(len(world.rings))] if world.rings else [])
        step(world)
    assert blocked == [0, 1, 2, 2, 2, 2, 1, 1]
    assert rings == [[3], [3, 4], [3, 4], [3, 4], [4], [4], [], []]
    assert world.inputs.obstacles["id"].tolist() == [2]


def test_blocked_cells_turn_agents_around_and_stop_the_one_under_them(tmp_path: Path) -> None:
    (tmp_path / "hall.map").write_text(HALL)
    text = HEAD + '[map]\nfile = "hall.map"\n[[agent]]\nid = 0\nx = 0.5\ny = 2.5\n[[zone]]\nid = 0\nx = 8.5\ny = 2.5\n'
    wall = event(2, "obstacle_added", 0, shape="cells", x=4.5, y=2.0, radius=0.5, half_y=1.6)
    world = world_of(text + wall, tmp_path)
    rows = []
    for _ in range(12):
        step(world)
        rows.append((float(world.inputs.agents["x"][0]), float(world.inputs.agents["y"][0])))
    assert rows[:2] == [(1.5, 2.5), (2.5, 2.5)]
    assert (4.5, 4.5) in rows
    assert world.served == 1 or rows[-1][0] == 8.5
    caught = event(2, "obstacle_added", 0, shape="cells", x=2.5, y=2.5, radius=0.4, half_y=0.4)
    world = world_of(text + caught + event(9, "obstacle_removed", 0), tmp_path)
    step(world, 8)
    assert world.inputs.agents["x"].tolist() == [2.5]
    assert world.plan_tick().rows["status"].tolist() == [4]
    step(world, 3)
    assert world.inputs.agents["x"].tolist() == [4.5]


def test_where_each_agent_has_a_cell_a_returning_one_finds_one_or_waits(tmp_path: Path) -> None:
    (tmp_path / "hall.map").write_text("type octile\nheight 1\nwidth 6\nmap\n......\n")
    text = HEAD + '[map]\nfile = "hall.map"\n[motion]\nmodel = "pibt"\n[[agent]]\nid = 0\nx = 0.5\ny = 0.5\n'
    text += "[[agent]]\nid = 1\nx = 2.5\ny = 0.5\n[[zone]]\nid = 0\nx = 2.5\ny = 0.5\nservice_ticks = 9\n"
    text += event(1, "agent_lost", 1, ticks=4)
    (tmp_path / "a").mkdir()
    back = next(change for change in audited(text, tmp_path / "a", 30, tmp_path) if change.kind == EventKind.AGENT_BACK)
    assert back.tick == 5
    assert np.frombuffer(back.record, AGENT_DTYPE)["x"][0] != 2.5  # agent 0 works there
    text += event(4, "obstacle_added", 7, shape="cells", x=2.5, y=0.5, radius=0.4, half_y=0.4)
    text += event(15, "obstacle_removed", 7)
    (tmp_path / "b").mkdir()
    back = next(change for change in audited(text, tmp_path / "b", 30, tmp_path) if change.kind == EventKind.AGENT_BACK)
    assert back.tick == 16
    world = world_of(text, tmp_path)
    for _ in range(30):
        step(world)
        assert len(set(world.agents["x"].tolist())) == len(world.agents)


def test_a_delayed_agent_is_not_pushed_either(tmp_path: Path) -> None:
    (tmp_path / "hall.map").write_text("type octile\nheight 1\nwidth 6\nmap\n......\n")
    text = HEAD + '[map]\nfile = "hall.map"\n[motion]\nmodel = "pibt"\n[[agent]]\nid = 0\nx = 0.5\ny = 0.5\n'
    text += "[[agent]]\nid = 1\nx = 2.5\ny = 0.5\ncaps = 1\n[[zone]]\nid = 0\nx = 4.5\ny = 0.5\nneed_caps = 2\n"
    text = text.replace("x = 0.5\ny = 0.5\n", "x = 0.5\ny = 0.5\ncaps = 2\n", 1)
    held, free = world_of(text + event(1, "delay", 1, ticks=8), tmp_path), world_of(text, tmp_path)
    step(held, 8)
    step(free, 8)
    assert free.agents["x"][1] != 2.5
    assert held.agents["x"].tolist() == [1.5, 2.5]
    step(held, 12)
    assert held.agents["x"][1] != 2.5


def test_events_of_a_tick_are_applied_by_kind_then_by_id(tmp_path: Path) -> None:
    text = PAIR + event(2, "zone_removed", 7) + event(2, "delay", 5, ticks=2) + event(2, "silent", 5, ticks=2)
    text += event(2, "agent_lost", 1) + event(2, "zone_added", 9, x=1.0, y=1.0) + event(1, "delay", 5, ticks=9)
    changes = audited(text, tmp_path, 6)
    assert [(change.tick, change.kind.word, change.id) for change in changes] == [
        (1, "delay", 5), (2, "agent_lost", 1), (2, "silent", 5), (2, "zone_added", 9), (2, "zone_removed", 7),
    ]  # fmt: skip


def test_what_finds_nothing_to_change_leaves_no_trace(tmp_path: Path) -> None:
    text = PAIR + event(1, "agent_lost", 1) + event(2, "agent_lost", 1) + event(3, "fault", 1, ticks=2)
    text += event(2, "agent_back", 5) + event(4, "zone_added", 2, x=0.0, y=0.0)
    assert [change.tick for change in audited(text, tmp_path, 6)] == [1]


def test_with_on_events_a_plan_is_made_when_something_happens_and_not_for_what_nobody_notices(tmp_path: Path) -> None:
    plan = "[plan]\nevery_ticks = 10\non_events = true\n"
    text = PAIR.replace("seed = 3\n", "seed = 3\n" + plan) + event(3, "delay", 1, ticks=2) + event(5, "agent_lost", 1)
    text += event(12, "fault", 5, ticks=4) + event(17, "zone_added", 11, x=5.0, y=5.0)
    audited(text, tmp_path, 25)
    with open_run(tmp_path / "run") as reader:
        assert [view.frame.tick for view in reader.frames()] == [0, 5, 10, 12, 16, 17, 20]


def test_seeded_faults_are_written_verified_and_made_again(tmp_path: Path) -> None:
    faults = (
        "[faults]\ndelay = 0.05\nfault = 0.02\nfault_ticks = [2, 6]\nsilent = 0.02\nlost = 0.02\nlost_ticks = [3, 9]\n"
    )
    changes = audited(
        FLEET.replace("[agents]", "[plan]\nevery_ticks = 4\non_events = true\n[agents]") + faults, tmp_path, 60
    )
    kinds = {change.kind for change in changes}
    assert kinds == {EventKind.AGENT_LOST, EventKind.AGENT_BACK, EventKind.FAULT, EventKind.SILENT, EventKind.DELAY}
    assert {change.source for change in changes} == {"faults"}


def test_the_faults_of_an_agent_do_not_depend_on_the_others(tmp_path: Path) -> None:
    faults = "[faults]\ndelay = 0.2\nfault = 0.1\n"
    many = "".join(f"[[agent]]\nid = {i}\nx = {i % 1000}.0\ny = 0.0\n" for i in (3, 4, 900, 2**31))
    one = "[[agent]]\nid = 900\nx = 900.0\ny = 0.0\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    all_changes = audited(HEAD + many + faults, tmp_path / "a", 50)
    own = audited(HEAD + one + faults, tmp_path / "b", 50)
    assert own
    assert [change for change in all_changes if change.id == 900] == own


def test_chances_come_true_as_often_as_they_say() -> None:
    text = FLEET.replace("random = 9", "random = 2000") + "[faults]\ndelay = 0.125\ndelay_ticks = [2, 5]\n"
    setup = Scenario.loads(text).setup
    assert setup.faults is not None
    from coord.simulation.faults import fault_key

    key, lengths = fault_key(setup.seed), []
    for tick in range(1, 21):
        lengths += [found.ticks for found in setup.faults.drawn(key, tick, setup.agents["id"])]
    assert len(lengths) == pytest.approx(5000, rel=0.06)
    counts = np.bincount(lengths, minlength=6)
    assert counts[:2].sum() == 0
    assert counts[2:] == pytest.approx(len(lengths) / 4, rel=0.1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (event(0, "delay", 1, ticks=1), "[[event]] 1 tick: expected 1 to 18446744073709551615, got 0"),
        (event(1, "lost", 1), '[[event]] 1 kind: expected agent_lost or agent_back or fault or silent or delay or '
         'zone_added or zone_removed or obstacle_added or obstacle_removed, got "lost" (nearest: agent_lost)'),
        (event(1, "delay", 1), "[[event]] 1 ticks: is missing in delay: ticks"),
        (event(1, "delay", 1, ticks=0), "[[event]] 1 ticks: expected at least 1 for delay, got 0"),
        (event(1, "fault", 3), "[[event]] at tick 1: fault 3: expected an agent of the file, or one that an agent_back "
         "with a place brings"),
        (event(1, "fault", 1, x=1.0), "[[event]] 1 x: does not belong to fault: ticks"),
        (event(1, "agent_back", 1, speed=1.0), "[[event]] 1 x: is missing in agent_back: x, y"),
        (event(1, "zone_removed", 4), "[[event]] at tick 1: zone_removed 4: expected a zone of the file, or one that a "
         "zone_added brings"),
        (event(1, "obstacle_added", 4, shape="cells", x=0.0, y=0.0, radius=1.0, half_y=1.0),
         '[[event]] at tick 1: obstacle_added 4: shape "cells" expects a [map]'),
        (event(1, "obstacle_added", 4, shape="circle", x=0.0, y=0.0),
         "[[event]] 1 radius: is missing in obstacle_added: shape, x, y, radius"),
        (event(1, "obstacle_added", 4, shape="circle", x=0.0, y=0.0, radius=1.0, half_y=1.0),
         "[[event]] 1 half_y: does not belong to obstacle_added of shape circle: shape, x, y, radius, margin"),
        (event(1, "obstacle_removed", 0), "[[event]] at tick 1: obstacle_removed 0: expected an obstacle of the file "
         "(0, 1, …), or one that an obstacle_added brings"),
        (2 * event(1, "fault", 1), "[[event]] at tick 1: fault 1: expected once, got it twice at this tick"),
        (event(1, "fault", 2**40), "[[event]] at tick 1: fault 1099511627776: expected an id of the file, or at most "
         "4294967294, got 1099511627776"),
        ("[faults]\ndelays = 0.1\n", "[faults] delays: unknown key (nearest: delay)"),
        ("[faults]\nlost_ticks = [3, 2]\n", "[faults] lost_ticks: expected least <= most, got [3, 2]"),
        ("[faults]\ndelay_ticks = [0, 2]\n", "[faults] delay_ticks: expected 1 to 4294967295, got 0"),
        ("[faults]\ndelay_ticks = 3\n", "[faults] delay_ticks: expected 2 integers [least, most], got integer 3"),
        ("[plan]\non_events = 1\n", "[plan] on_events: expected true or false, got integer 1"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_event_is_named(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        Scenario.loads(PAIR + text)
    assert str(error.value) == f"SITE.toml: {message}"


def test_events_of_agents_with_long_ids_name_them_as_the_file_does() -> None:
    text = HEAD + f"[[agent]]\nid = {2**40}\nx = 0.0\ny = 0.0\n[[agent]]\nid = {2**41}\nx = 0.0\ny = 0.0\n"
    (lost,) = Scenario.loads(text + event(1, "agent_lost", 2**41)).setup.events
    assert lost.id == 1
    with pytest.raises(ScenarioError, match=r"expected an id of at least 2: lower ones number those of the file"):
        Scenario.loads(text + event(1, "agent_back", 1, x=0.0, y=0.0))


def test_the_order_of_rows_and_defaults_left_out_change_nothing() -> None:
    rows = [event(3, "fault", 1, ticks=2), event(2, "zone_removed", 7), event(2, "silent", 5)]
    one, other = (
        Scenario.loads(PAIR + "".join(rows)),
        Scenario.loads(PAIR + "".join(rows[::-1]) + "[faults]\ndelay = 0.0\n"),
    )
    assert one.setup.events == other.setup.events
    assert Scenario.loads(one.to_toml()).to_toml() == one.to_toml()

"""motion.model = "pibt" in whole runs: no conflict in any tick, sites that change, the same bits everywhere."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from coord import BadInput, Scenario, audit, simulate
from coord.ground.grid import Grid
from coord.moving.motion_model import Site
from coord.moving.pibt import PibtMotion, cell_units
from coord.records import AGENT_DTYPE, NO_ZONE, ZONE_DTYPE, AgentMode
from coord.simulation.world import World

SITE = """version = 1
name = "pibt"
seed = 5
[plan]
planner = "{planner}"
every_ticks = {every}
[motion]
model = "pibt"
[map]
file = "{file}"
[agents]
random = {agents}
speed = {speed}
[zones]
random = {zones}
radius = 0.5
service_ticks = {service}
"""
MAPS = (
    "maze-32-32-4", "random-32-32-10", "random-64-64-10", "room-64-64-16", "warehouse-10-20-10-2-1",
    "warehouse-20-40-10-2-2",
)  # fmt: skip


def site(data, tmp_path, name, agents=60, zones=80, *, planner="swap", every=1, speed=1.0, service=2) -> Scenario:
    shutil.copy(data(f"maps/{name}.map"), tmp_path / f"{name}.map")
    text = SITE.format(
        file=f"{name}.map", agents=agents, zones=zones, planner=planner, every=every, speed=speed, service=service
    )
    return Scenario.loads(text, base_dir=tmp_path)


def cells(world: World) -> np.ndarray:
    agents = world.inputs.agents
    return world.grid.index_of(agents["x"], agents["y"])


def assert_step(grid: Grid, before: np.ndarray, after: np.ndarray) -> None:
    """One cell each, no two agents in one, none exchanged."""
    assert len(np.unique(after)) == len(after)
    assert not grid.blocked.reshape(-1)[after].any()
    apart = np.abs(after // grid.width - before // grid.width) + np.abs(after % grid.width - before % grid.width)
    assert apart.max(initial=0) <= 1
    moved = np.flatnonzero(after != before)
    place = np.full(grid.width * grid.height, -1)
    place[after] = np.arange(len(after))
    follower = place[before[moved]]
    assert not ((follower >= 0) & (before[follower] == after[moved])).any()


def watch(scenario: Scenario, ticks: int) -> World:
    world = World(scenario.setup)
    before = cells(world)
    for _ in range(ticks):
        if world.is_planned():
            world.assign(world.plan_tick().rows)
        world.advance()
        after = cells(world)
        assert_step(world.grid, before, after)
        before = after
    return world


@pytest.mark.parametrize("name", MAPS)
def test_no_tick_has_a_conflict(data, tmp_path, name):
    world = watch(site(data, tmp_path, name, agents=120, zones=150, every=3), 60)
    assert world.cell_conflicts == 0
    assert world.served > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPS)
def test_no_tick_of_two_thousand_has_a_conflict(data, tmp_path, name):
    world = watch(site(data, tmp_path, name, agents=200, zones=260, planner="greedy", every=5, service=3), 2000)
    assert world.cell_conflicts == 0
    assert world.served > 1000


@pytest.mark.parametrize("speed", [1.0, 0.4, 3.0])
def test_an_agent_moves_at_most_one_cell_a_tick_and_slower_ones_less(data, tmp_path, speed):
    world = watch(site(data, tmp_path, "random-32-32-10", agents=50, zones=60, speed=speed, every=4), 40)
    assert world.served > 0


def test_speeds_count_in_65536ths_of_a_cell_rounded_up():
    speeds = np.array([1 / 3, 2.0, 0.0, np.inf, np.nan, 1e-40, 0.5], np.float32)
    assert cell_units(speeds, 0.5).tolist() == [43691, 65536, 0, 0, 0, 0, 65536]


def fleet(rows: list[str], places: list[tuple[int, int]], **fields) -> tuple[np.ndarray, Site]:
    blocked = np.array([[glyph == "#" for glyph in row] for row in rows[::-1]])
    grid = Grid(blocked.shape[1], blocked.shape[0], 1.0, 0.0, 0.0, blocked)
    agents = np.zeros(len(places), AGENT_DTYPE)
    agents["id"], agents["speed"], agents["zone"] = 10 * np.arange(len(places)), 1.0, NO_ZONE
    agents["x"], agents["y"] = (np.array([place[k] + 0.5 for place in places], np.float32) for k in (0, 1))
    for name, value in fields.items():
        agents[name] = value
    return agents, Site(np.zeros(0, np.void), None, grid)


def zone(x: int, y: int) -> np.ndarray:
    out = np.zeros(1, ZONE_DTYPE)
    out["x"], out["y"], out["radius"] = x + 0.5, y + 0.5, 0.1
    return out


def go(motion, agents, rows, ticks=1):
    """[agents, (x, y)] cells after some ticks, in which `rows` travel."""
    for tick in range(ticks):
        motion.stop(np.setdiff1d(np.arange(len(agents)), rows))
        steps = motion.advance(agents, np.array(rows, np.intp), tick)
    return np.floor(np.stack([agents["x"], agents["y"]], axis=1)).astype(int).tolist(), steps


def test_two_agents_in_one_cell_are_refused_by_name():
    agents, where = fleet(["..."], [(1, 0), (0, 0), (1, 0)])
    motion = PibtMotion()
    with pytest.raises(BadInput) as caught:
        motion.site(agents, where)
    assert str(caught.value) == "agents[2].x must be in a cell of its own: agent 20 is in that of agent 0 (row 0)"


def test_one_that_comes_where_another_one_is_appears_in_the_nearest_cell_that_is_free():
    agents, where = fleet(["...", "..."], [(1, 0), (1, 1), (1, 0), (1, 0)])
    motion = PibtMotion()
    motion.site(agents[:2], where)
    motion.resize(agents, np.array([0, 1, -1, -1]))
    places, _ = go(motion, agents, [])
    assert places == [[1, 0], [1, 1], [2, 0], [0, 0]]
    full, where = fleet(["."], [(0, 0), (0, 0)])
    motion = PibtMotion()
    motion.site(full[:1], where)
    with pytest.raises(BadInput, match="agent 10 is in that of agent 0"):
        motion.resize(full, np.array([0, -1]))


def test_a_delayed_agent_is_never_pushed():
    agents, where = fleet(["...", "..."], [(0, 0), (1, 0)])
    agents["mode"] = AgentMode.TRAVELLING, AgentMode.IDLE
    motion = PibtMotion()
    motion.site(agents, where)
    motion.start(np.array([0]), zone(2, 0))
    motion.hold(np.array([1]))
    assert go(motion, agents, [0], 2)[0][1] == [1, 0]
    motion.hold(np.array([], np.intp))
    assert go(motion, agents, [0])[0] != [[0, 0], [1, 0]]


def test_faults_delays_and_agents_lost_and_back_keep_a_run_free_of_conflicts(data, tmp_path):
    name = "random-32-32-10"
    shutil.copy(data(f"maps/{name}.map"), tmp_path / f"{name}.map")
    text = SITE.format(file=f"{name}.map", agents=150, zones=180, planner="swap", every=2, speed=1.0, service=2)
    chances = "\n".join(f"{kind} = 0.02\n{kind}_ticks = [1, 6]" for kind in ("delay", "fault", "lost", "silent"))
    scenario = Scenario.loads(text + "[faults]\n" + chances + "\n", base_dir=tmp_path)
    world = World(scenario.setup)
    happened = 0
    for _ in range(60):
        world.begin()
        happened += len(world.happened)
        if world.is_planned():
            world.assign(world.plan_tick().rows)
        before = world.agents.copy()
        world.advance()
        where = [world.grid.index_of(agents["x"], agents["y"]) for agents in (before, world.agents)]
        assert_step(world.grid, *where)
    assert happened > 50
    assert world.cell_conflicts == 0
    assert world.served > 0


def test_a_travelling_agent_pushes_an_idle_one_and_says_so():
    agents, where = fleet(["#.#", "..."], [(0, 0), (1, 0)])
    agents["mode"] = AgentMode.TRAVELLING, AgentMode.IDLE
    motion = PibtMotion()
    motion.site(agents, where)
    motion.start(np.array([0]), zone(2, 0))
    places, steps = go(motion, agents, [0])
    assert places == [[1, 0], [1, 1]]
    assert (steps.gone_m.tolist(), steps.conflicts) == ([1.0], 0)
    assert (steps.pushed.tolist(), steps.pushed_m.tolist()) == ([1], [1.0])


@pytest.mark.parametrize(
    "mode", [AgentMode.WORKING, AgentMode.CHARGING, AgentMode.OFFLINE, AgentMode.FAULT, "too slow", "stopped"]
)
def test_an_agent_that_stands_for_a_reason_is_never_pushed(mode):
    agents, where = fleet(["...", "..."], [(0, 0), (1, 0)])
    agents["mode"] = AgentMode.TRAVELLING
    agents["mode"][1] = AgentMode.IDLE if isinstance(mode, str) else mode
    agents["speed"][1] = {"too slow": 0.01, "stopped": 0.0}.get(mode, 1.0)
    motion = PibtMotion()
    motion.site(agents, where)
    motion.start(np.array([0]), zone(2, 0))
    for _ in range(4):
        places, steps = go(motion, agents, [0])
        assert places[1] == [1, 0]
        assert len(steps.pushed) == 0


def test_agents_come_go_and_find_their_ways_around_new_walls():
    agents, where = fleet(["....", "....", "...."], [(0, 1), (3, 1)], mode=AgentMode.TRAVELLING)
    motion = PibtMotion()
    motion.site(agents, where)
    motion.start(np.array([0, 1]), np.concatenate([zone(3, 1), zone(0, 1)]))
    go(motion, agents, [0, 1])
    assert agents["x"].tolist() == [1.5, 2.5]
    _, walled = fleet(["....", ".##.", "...."], [])
    motion.site(agents, walled)  # both stand in walls now: they stay, and nobody comes
    motion.start(np.array([0, 1]), np.concatenate([zone(3, 1), zone(0, 1)]))
    assert go(motion, agents, [0, 1], 3)[0] == [[1, 1], [2, 1]]
    added, _ = fleet(["."], [(0, 0)], mode=AgentMode.TRAVELLING)
    added["id"] = 99
    more = np.concatenate([agents[1:], added])
    motion.resize(more, np.array([1, -1]))
    motion.start(np.array([1]), zone(3, 2))
    places, _ = go(motion, more, [0, 1], 5)
    assert places == [[2, 1], [3, 2]]
    motion.start(np.array([0, 1]), np.concatenate([zone(1, 1), zone(1, 1)]))  # a blocked goal is none
    assert go(motion, more, [0, 1], 2)[0] == places


def test_a_run_is_audited_made_again_and_has_no_conflicts(data, tmp_path):
    scenario = site(data, tmp_path, "random-32-32-10", agents=80, zones=90, every=2)
    run = simulate(scenario, 40, ledger=tmp_path / "run")
    assert run.cell_conflicts == 0
    assert run.served > 0
    report = audit(tmp_path / "run", resimulate=True)
    assert report.ok, report.first_divergence


def test_every_build_and_thread_count_gives_one_run(python, data, tmp_path):
    site(data, tmp_path, "random-32-32-10")
    text = SITE.format(
        file="random-32-32-10.map", agents=60, zones=70, planner="swap", every=2, speed=0.7, service=1
    )  # fmt: skip
    (tmp_path / "site.toml").write_text(text)
    code = (
        "import json, shutil\nfrom coord import simulate, _kernels\n"
        f"run = simulate({str(tmp_path / 'site.toml')!r}, 20, ledger={str(tmp_path)!r} + '/' + NAME)\n"
        "print(json.dumps([_kernels.isa(), run.root.hex()]))"
    )
    best, root = json.loads(python("NAME = 'best'\n" + code).stdout)
    builds = ["ref", *{"v4": ["v3", "v4", "v4"], "v3": ["v3"] * 3, "neon": ["neon"] * 3}.get(best, [])]
    for k, (isa, threads) in enumerate(zip(builds, "1237", strict=False)):
        change = {"DROVEWAY_ISA": isa, "DROVEWAY_THREADS": threads}
        assert root in python(f"NAME = 'run{k}'\n" + code, **change).stdout, change


def test_rows_of_a_scenario_in_another_order_give_the_same_run(tmp_path):
    (tmp_path / "m.map").write_text("type octile\nheight 4\nwidth 6\nmap\n......\n.@@.@.\n......\n......\n")
    head = 'version = 1\nname = "rows"\n[motion]\nmodel = "pibt"\n[map]\nfile = "m.map"\n'
    agents = [f"[[agent]]\nid = {k}\nx = {k}.5\ny = 0.5\nspeed = 1.0\nenergy = 1.0\n" for k in range(6)]
    zones = [f"[[zone]]\nid = {k}\nx = {5 - k}.5\ny = 3.5\nradius = 0.2\n" for k in range(6)]
    runs = [
        simulate(Scenario.loads(head + "".join(a + z), base_dir=tmp_path), 30)
        for a, z in ((agents, zones), (agents[::-1], zones[::-1]))
    ]
    assert runs[0].served > 0
    assert runs[0].stats == runs[1].stats
    assert runs[0].served == runs[1].served

"""Demand: how many tasks come, where, and how they go; the scenario and the seed fix every one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from coord.auditing.audit import audit
from coord.errors import RunError, ScenarioError
from coord.records import NO_ZONE
from coord.simulation.arrivals import Arrivals, poisson_thresholds
from coord.simulation.demand_spec import TASK_DTYPE, DemandSpec
from coord.simulation.setup import setup_from_map
from coord.simulation.simulate import Run, simulate
from coord.simulation.world import World
from coord.sites.scenario import Scenario
from coord.stl import open_run

HEAD = 'version = 1\nname = "demand"\nseed = 8\n'
FLEET = HEAD + "[agents]\nrandom = 12\nspeed = 6.0\n"
SPOTS = "[[hot_spot]]\nx = 20.0\ny = 30.0\nsigma = 4.0\nweight = 3.0\n[[hot_spot]]\nx = 80.0\ny = 60.0\nsigma = 2.0\n"
ROOMS = "type octile\nheight 6\nwidth 8\nmap\n...@....\n...@....\n...@....\n@@@@@@@@\n........\n........\n"
IDLE_MIN = Path(__file__).parent / "sites" / "idle_min.toml"


def run_of(text: str, folder: Path, ticks: int) -> Run:
    """A run that verifies, is made again from its own ledger, and comes out the same twice."""
    site = Scenario.loads(text, folder)
    run = simulate(site, ticks, ledger=folder / "run", sync="os")
    assert simulate(site, ticks, ledger=folder / "again", sync="os").root == run.root
    report = audit(folder / "run", resimulate=True)
    assert report.ok, (report.problems, report.first_divergence)
    assert report.resimulated == run.frames
    with open_run(folder / "run") as reader:
        assert reader.scenario.to_map() == site.setup.to_map()
    return run


def arrivals_of(text: str, folder: Path | None = None) -> Arrivals:
    setup = Scenario.loads(text, folder or Path()).setup
    return Arrivals(setup.demand, setup.seed, setup.grid, setup.agents)


@given(st.one_of(st.floats(0, 1024), st.sampled_from([0.0, 0.1, 1.0, 1024.0])))
def test_the_thresholds_are_those_of_the_poisson_distribution(rate: float) -> None:
    table = poisson_thresholds(rate)
    assert all(a <= b for a, b in pairwise(table))
    assert all(0 <= value <= 2**64 for value in table)
    for k in (0, int(rate) // 2, int(rate), int(rate) + 3):
        below = table[k] if k < len(table) else 2**64
        exact = math.fsum(math.exp(j * math.log(rate) - rate - math.lgamma(j + 1)) for j in range(k + 1)) if rate else 1
        assert below / 2**64 == pytest.approx(min(exact, 1.0), abs=1e-9)


def test_a_small_rate_is_exact_to_the_last_bit() -> None:
    e = sum((Fraction(1, math.factorial(k)) for k in range(60)), Fraction(0))
    table = poisson_thresholds(1.0)
    for k in range(5):
        share = sum((Fraction(1, math.factorial(j)) for j in range(k + 1)), Fraction(0)) / e
        assert abs(table[k] - math.floor(share * 2**64)) <= 1


def test_tasks_come_as_often_as_the_rate_says() -> None:
    arrivals = arrivals_of(FLEET + '[demand]\nmodel = "uniform"\nrate = 2.5\n')
    counts = np.array([arrivals.count(tick) for tick in range(1, 2001)])
    assert counts.mean() == pytest.approx(2.5, rel=0.05)
    assert counts.var() == pytest.approx(2.5, rel=0.12)


def test_what_comes_at_a_tick_does_not_depend_on_what_came_before() -> None:
    one, other = (arrivals_of(FLEET + '[demand]\nmodel = "uniform"\nrate = 3.0\n') for _ in range(2))
    for tick in (9, 3, 500):
        assert one.tasks(tick).tobytes() == other.tasks(tick).tobytes()
    for tick in range(1, 10):
        other.tasks(tick)
    assert one.tasks(3).tobytes() == other.tasks(3).tobytes()


def test_hot_spots_get_their_share_around_their_centres() -> None:
    arrivals = arrivals_of(FLEET + '[demand]\nmodel = "hot_spots"\nrate = 20.0\n' + SPOTS)
    tasks = np.concatenate([arrivals.tasks(tick) for tick in range(1, 200)])
    first = np.hypot(tasks["x"] - 20, tasks["y"] - 30) < 25
    assert first.mean() == pytest.approx(0.75, abs=0.03)
    assert tasks["x"][first].mean() == pytest.approx(20, abs=0.4)
    assert tasks["x"][first].std() == pytest.approx(4, rel=0.05)
    assert tasks["y"][~first].std() == pytest.approx(2, rel=0.08)


def test_the_centre_of_a_moving_spot_is_on_its_path() -> None:
    spot = "[[hot_spot]]\nx = 0.0\ny = 0.0\nsigma = 1.0\npath = [[100, 0.0, 50.0], [200, 100.0, 50.0]]\n"
    arrivals = arrivals_of(FLEET + '[demand]\nmodel = "moving"\nrate = 50.0\n' + spot)
    for tick, x in ((5, 0), (100, 0), (130, 30), (200, 100), (900, 100)):
        assert arrivals.tasks(tick)["x"].mean() == pytest.approx(x, abs=0.7)


def test_on_a_map_tasks_come_where_agents_can_go(tmp_path: Path) -> None:
    (tmp_path / "rooms.map").write_text(ROOMS)
    text = HEAD + '[map]\nfile = "rooms.map"\n[[agent]]\nid = 0\nx = 0.5\ny = 4.5\n'
    spot = "[[hot_spot]]\nx = 6.0\ny = 4.0\nsigma = 3.0\n"
    for demand in ('[demand]\nmodel = "uniform"\nrate = 9.0\n', '[demand]\nmodel = "hot_spots"\nrate = 9.0\n' + spot):
        tasks = np.concatenate([arrivals_of(text + demand, tmp_path).tasks(tick) for tick in range(1, 60)])
        assert len(tasks) > 400
        assert set(zip(tasks["x"].tolist(), tasks["y"].tolist(), strict=True)) <= {
            (x + 0.5, y + 0.5) for x in range(3) for y in range(3, 6)
        }
    assert run_of(text + '[demand]\nmodel = "uniform"\nrate = 0.2\n', tmp_path, 60).tasks_served > 3


def test_tasks_are_zones_with_new_ids_that_go_when_they_are_served(tmp_path: Path) -> None:
    text = FLEET + '[zones]\nrandom = 3\n[demand]\nmodel = "uniform"\nrate = 0.6\nservice_ticks = 2\n'
    run = run_of(text, tmp_path, 120)
    assert run.tasks_served > 20
    assert (run.tasks_expired, run.tasks_refused) == (0, 0)
    seen: set[int] = set()
    with open_run(tmp_path / "run") as reader:
        for view in reader.frames():
            ids = view.inputs.zones["id"].tolist()
            assert ids[:3] == [0, 1, 2]
            fresh = set(ids) - seen
            assert not seen or not fresh or min(fresh) > max(seen)
            seen |= fresh
        open_tasks = len(ids) - 3
    assert len(seen) - 3 == run.tasks_opened
    assert open_tasks in (run.tasks_opened - run.tasks_served, run.tasks_opened - run.tasks_served + 1)


def test_a_task_expires_at_its_deadline_unless_somebody_works_there() -> None:
    still = FLEET.replace("speed = 6.0", "speed = 0.0")
    world = World(Scenario.loads(still + '[demand]\nmodel = "uniform"\nrate = 1.0\ndeadline_ticks = 5\n').setup)
    born: dict[int, int] = {}
    for tick in range(40):
        world.begin()
        for number in world.inputs.zones["id"].tolist():
            assert tick - born.setdefault(number, tick) < 5
        world.advance()
    assert world.tasks_expired == sum(1 for tick in born.values() if tick + 5 <= 39)
    work = HEAD + '[[agent]]\nid = 1\nx = 0.0\ny = 0.0\nspeed = 200.0\n[demand]\nmodel = "uniform"\nrate = 0.05\n'
    world = World(Scenario.loads(work + "deadline_ticks = 3\nservice_ticks = 9\n").setup)
    for _ in range(200):
        world.assign(world.plan_tick().rows)
        world.advance()
    assert world.tasks_served > 3


def test_no_more_tasks_are_open_than_may_be(tmp_path: Path) -> None:
    text = FLEET.replace("speed = 6.0", "speed = 0.0") + '[demand]\nmodel = "uniform"\nrate = 3.0\nopen_max = 7\n'
    run = run_of(text, tmp_path, 20)
    assert run.tasks_opened == 7
    assert run.tasks_refused > 20
    with open_run(tmp_path / "run") as reader:
        assert [len(view.inputs.zones) for view in reader.frames()][-1] == 7


def test_where_zones_priorities_rise_with_tasks_and_fall_with_service(tmp_path: Path) -> None:
    text = FLEET + '[zones]\nrandom = 5\npriority = 0.5\n[demand]\nmodel = "hot_spots"\nwhere = "zones"\nrate = 0.7\n'
    run = run_of(text + "priority = 0.25\n" + SPOTS, tmp_path, 80)
    assert run.tasks_served > 10
    world = World(Scenario.loads(text.replace("speed = 6.0", "speed = 0.0") + "priority = 0.25\n" + SPOTS).setup)
    for _ in range(30):
        world.begin()
        raised = (world.inputs.zones["priority"] - 0.5) / 0.25
        assert raised.sum() == world.tasks_opened
        world.advance()
    zones = world.inputs.zones
    for zone in zones[raised > 0]:
        near = [np.argmin(np.hypot(zones["x"] - x, zones["y"] - y)) for x in range(8, 32) for y in range(18, 42)]
        near += [np.argmin(np.hypot(zones["x"] - x, zones["y"] - y)) for x in range(72, 88) for y in range(52, 68)]
        assert zone["id"] in zones["id"][near]


def test_a_replayed_demand_comes_from_its_file_in_any_order(
    tmp_path: Path, page_hex: Callable[[str, str], bytes]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "demand-file.md").read_text()
    found = re.search(r"```jsonl\n(.*?)```", page, re.DOTALL)
    assert found is not None
    (tmp_path / "a.jsonl").write_text(found[1])
    expected = np.frombuffer(page_hex("demand-file", "tasks"), TASK_DTYPE)
    np.save(tmp_path / "a.npy", expected[::-1])
    text = FLEET + '[demand]\nmodel = "replayed"\nfile = "a.{}"\n'
    lines, records = (Scenario.loads(text.format(end), tmp_path).setup.demand for end in ("jsonl", "npy"))
    assert lines.replayed.tobytes() == records.replayed.tobytes() == expected.tobytes()
    run = run_of(text.format("jsonl") + f'blake3 = "{blake3(found[1].encode()).hexdigest()}"\n', tmp_path, 60)
    assert (run.tasks_opened, run.tasks_served) == (2, 2)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"tick": 1, "x": 0}\n', "[demand] file a.jsonl line 1 y: is missing"),
        ("a.jsonl", b'\n{"tick": 0, "x": 0, "y": 0}\n',
         "[demand] file a.jsonl line 2 tick: expected 1 to 18446744073709551615, got 0"),
        ("a.jsonl", b'{"tick": 1, "x": 0, "y": 0, "prio": 1}\n',
         "[demand] file a.jsonl line 1 prio: unknown key (nearest: priority)"),
        ("a.jsonl", b"[1]\n", "[demand] file a.jsonl line 1: expected an object {tick, x, y, …}"),
        ("a.jsonl", b"{\n",
         "[demand] file a.jsonl line 1: is not JSON: Expecting property name enclosed in double quotes: line 1 column "
         "2 (char 1)"),
        ("a.jsonl", b'{"tick": 1, "x": NaN, "y": 0}\n',
         "[demand] file a.jsonl line 1 x: expected a finite number, got nan"),
        ("a.txt", b"", "[demand] file a.txt: expected a .npy or .jsonl file"),
        ("b.npy", b"", "[demand] file a.npy: expected to read it, got: no such file or directory"),
    ],
)  # fmt: skip
def test_a_bad_demand_file_is_named_with_its_line(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ScenarioError) as error:
        Scenario.loads(FLEET + f'[demand]\nmodel = "replayed"\nfile = "{name.replace("b.", "a.")}"\n', tmp_path)
    assert str(error.value) == f"SITE.toml: {message}"


def test_records_of_another_kind_or_out_of_range_are_refused(tmp_path: Path) -> None:
    text = FLEET + '[demand]\nmodel = "replayed"\nfile = "a.npy"\n'
    tasks = np.zeros(2, TASK_DTYPE)
    tasks["tick"] = 1
    for field, value, detail in (
        ("tick", 0, "tick: expected at least 1, got 0"),
        ("y", np.nan, "y: expected finite numbers within 2^20"),
        ("radius", -1, "radius: expected numbers in the range of [demand] radius"),
        ("energy_cost", 2, "energy_cost: expected numbers in the range of [demand] energy_cost"),
    ):
        bad = tasks.copy()
        bad[field][1] = value
        np.save(tmp_path / "a.npy", bad)
        with pytest.raises(ScenarioError) as error:
            Scenario.loads(text, tmp_path)
        assert str(error.value) == f"SITE.toml: [demand] file a.npy: {detail}"
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(ScenarioError, match="expected task records of 40 bytes, got dtype float64"):
        Scenario.loads(text, tmp_path)
    with pytest.raises(ScenarioError, match=r"\[demand\] blake3: expected 00, .*a.npy has"):
        Scenario.loads(text + 'blake3 = "00"\n', tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate = 1.5\n", '[demand] rate: needs [demand] model = "uniform" or "hot_spots" or "moving"'),
        ('model = "uniform"\nfile = "x"\n',
         "[demand] file: does not belong to uniform: model, where, open_max, radius, "
         "priority, service_ticks, need_caps, energy_cost, rate, box, deadline_ticks"),
        ('model = "hot_spots"\n', '[[hot_spot]]: expected tables [[hot_spot]] with [demand] model = "hot_spots"'),
        ('model = "uniform"\n' + SPOTS, '[[hot_spot]]: expected none with [demand] model = "uniform"'),
        ('model = "hot_spots"\n' + SPOTS + "path = [[0, 1.0, 1.0]]\n",
         '[[hot_spot]] path: expected [demand] model = "moving" for hot spots with a path'),
        ('model = "moving"\n' + SPOTS + "path = [[3, 1.0, 1.0], [3, 2.0, 2.0]]\n",
         "[[hot_spot]] 2 path: expected ticks that ascend, got 3 after 3"),
        ('model = "moving"\n' + SPOTS + "path = [[0.5, 1.0, 1.0]]\n",
         "[[hot_spot]] 2 path: expected ticks that are whole numbers up to 2^53, got 0.5"),
        ('model = "moving"\n' + SPOTS + "path = []\n", "[[hot_spot]] 2 path: expected 1 to 65536 places, got 0"),
        ('model = "uniform"\nwhere = "zones"\ndeadline_ticks = 3\n',
         '[demand] deadline_ticks: does not belong to where = "zones"'),
        ('model = "replayed"\n', "[demand] file: is missing: a replayed demand comes from a file"),
        ('model = "uniform"\nrate = 1025.0\n', "[demand] rate: expected 0.0 to 1024.0, got 1025.0"),
        ('model = "uniform"\nwhere = "here"\n', '[demand] where: expected tasks or zones, got "here" (nearest: zones)'),
    ],
)  # fmt: skip
def test_a_mistake_in_a_demand_is_named(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        Scenario.loads(FLEET + "[demand]\n" + text)
    assert str(error.value) == f"SITE.toml: {message}"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model", "new", "demand.model: expected persistent or uniform or hot_spots or moving or replayed, got 'new'"),
        ("rate", 1, "demand.rate: expected the type of its key"),
        ("rate", -1.0, "demand.rate: expected 0.0 to 1024.0, got -1.0"),
        ("open_max", 2**40, "demand.open_max: expected 1 to 100000, got 1099511627776"),
        ("box", [0.0, 0.0, -1.0, 0.0], "demand.box: expected [x0, y0, x1, y1] within 2^20, x0 <= x1 and y0 <= y1"),
        ("replayed", b"x", "demand.replayed: expected at most 200000 tasks of 40 bytes"),
        ("replayed", bytes(40), "demand.replayed: tick: expected at least 1, got 0"),
        ("spots", 3, "demand.spots: expected at most 4096 maps"),
        (
            "more",
            3,
            "demand: expected the keys box, deadline_ticks, model, open_max, rate, replayed, spots, task, where",
        ),
    ],
)
def test_a_demand_that_no_scenario_has_is_refused_in_a_ledger(key: str, value: object, message: str) -> None:
    found = Scenario.loads(FLEET + '[demand]\nmodel = "uniform"\n').setup.to_map()
    found["demand"][key] = value
    with pytest.raises(RunError) as error:
        setup_from_map(found, zones=Scenario.loads(HEAD).setup.zones)
    assert str(error.value) == f"coord.scenario: {message}"


def test_the_persistent_demand_stands_in_the_ledger_as_ever() -> None:
    assert DemandSpec().to_map() == {"model": "persistent"} == Scenario.loads(FLEET).setup.to_map()["demand"]


def test_hidden_moving_gaussians_drive_a_fleet_of_64(tmp_path: Path) -> None:
    site = Scenario.load(IDLE_MIN)
    run = simulate(site, 240, ledger=tmp_path / "run", sync="os")
    assert (run.frames, len(site.setup.demand.spots)) == (12, 6)
    assert run.tasks_served > 20
    assert audit(tmp_path / "run", resimulate=True).ok
    with open_run(tmp_path / "run") as reader:
        for view in reader.frames():
            assert (len(view.inputs.agents), len(view.inputs.zones)) == (64, 256)


@pytest.mark.slow
def test_hidden_moving_gaussians_over_4000_ticks() -> None:
    run = simulate(Scenario.load(IDLE_MIN), 4000)
    assert run.frames == 200
    assert run.tasks_opened == pytest.approx(2000, rel=0.1)
    assert run.tasks_served > run.tasks_opened / 2
    assert run.tasks_refused == 0


def test_agents_on_their_way_to_a_task_that_expires_are_idle() -> None:
    far = HEAD + '[[agent]]\nid = 1\nx = 0.0\ny = 0.0\nspeed = 0.5\n[demand]\nmodel = "uniform"\nrate = 0.1\n'
    world = World(Scenario.loads(far + "deadline_ticks = 4\nbox = [90.0, 90.0, 99.0, 99.0]\n").setup)
    seen = set()
    for _ in range(60):
        zone = int(world.plan_tick().rows["zone"][0])
        agents, zones = world.inputs.agents, world.inputs.zones
        assert agents["zone"][0] == NO_ZONE or agents["zone"][0] in zones["id"]
        seen.add(zone)
        world.assign(world.plan_tick().rows)
        world.advance()
    assert len(seen) > 3

"""simulate: one tick after the other as the page says; scenario, seed and ticks fix every byte of the ledger."""

from __future__ import annotations

import dataclasses
import runpy
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coord.auditing.audit import audit
from coord.errors import BadInput, OutputError
from coord.records import NO_ZONE
from coord.simulation.simulate import simulate
from coord.simulation.world import World
from coord.sites.importer import import_map, import_scen
from coord.sites.scenario import Scenario
from coord.stl import open_run
from storage import Ledger
from tensor import build_info

GOLDEN_RUNS = Path(__file__).parents[1] / "golden_runs.py"
Data = Callable[[str], Path]

LINE = textwrap.dedent("""
    version = 1
    name = "line"
    [[agent]]
    id = 1
    x = 0.0
    y = 0.0
    [[zone]]
    id = 9
    x = 3.0
    y = 0.0
    service_ticks = 2
""")
FLEET = 'version = 1\nname = "fleet"\nseed = 4\n[agents]\nrandom = 9\nspeed = 7\n[zones]\nrandom = 14\n'
ROOM = "type octile\nheight 6\nwidth 8\nmap\n........\n.@@.@@@.\n........\n.@@@.@@.\n.@....@.\n........\n"


def _grid_site(folder: Path, agents: int = 6, zones: int = 9, extra: str = "") -> Scenario:
    (folder / "room.map").write_text(ROOM)
    text = 'version = 1\nname = "room"\nseed = 2\n' + extra + '[map]\nfile = "room.map"\n'
    return Scenario.loads(text + f"[agents]\nrandom = {agents}\n[zones]\nrandom = {zones}\n", folder)


def test_an_agent_travels_serves_and_is_free_again_at_the_ticks_the_page_says() -> None:
    world = World(Scenario.loads(LINE).setup)
    told = []
    for _ in range(7):
        agent = world.inputs.agents[0]
        told.append((world.tick, float(agent["x"]), int(agent["mode"]), int(agent["last_seen_tick"])))
        world.assign(world.plan_tick().rows)
        world.advance()
    assert told == [
        (0, 0.0, 0, 0), (1, 1.0, 1, 0), (2, 2.0, 1, 1),
        (3, 3.0, 2, 2), (4, 3.0, 2, 3), (5, 3.0, 0, 4), (6, 3.0, 2, 5),
    ]  # fmt: skip
    assert world.served == 1
    assert world.inputs.zones["last_served_tick"].tolist() == [4]
    assert world.inputs.agents["energy"][0] == np.float32(1) - np.float32(1e-4) - np.float32(1e-4) - np.float32(1e-4)


def test_a_zone_without_service_time_is_served_on_arrival() -> None:
    world = World(Scenario.loads(LINE.replace("service_ticks = 2", "service_ticks = 0")).setup)
    for _ in range(3):
        world.assign(world.plan_tick().rows)
        world.advance()
    assert (world.served, world.inputs.agents["mode"].tolist()) == (1, [0])
    assert world.inputs.zones["last_served_tick"].tolist() == [2]


def test_an_agent_below_min_energy_charges_until_charged_energy() -> None:
    text = LINE.replace("y = 0.0\n", "y = 0.0\nenergy = 0.0501\n", 1) + "[motion]\nenergy_per_m = 0.001\n"
    text += "charge_per_tick = 0.25\n"
    world = World(Scenario.loads(text).setup)
    told = []
    for _ in range(6):
        world.assign(world.plan_tick().rows)
        world.advance()
        agent = world.inputs.agents[0]
        told.append((int(agent["mode"]), int(agent["zone"]) != NO_ZONE, round(float(agent["energy"]), 4)))
    assert told == [
        (3, False, 0.0491), (3, False, 0.2991), (3, False, 0.5491), (3, False, 0.7991), (0, False, 1.0),
        (1, True, 0.999),
    ]  # fmt: skip


def test_plans_are_made_at_ticks_that_every_ticks_divides_and_agents_move_between() -> None:
    text = LINE.replace('name = "line"', 'name = "line"\n[plan]\nevery_ticks = 3')
    seen = []
    run = simulate(Scenario.loads(text), 8, on_tick=lambda tick, frame: seen.append((tick, frame and frame.frame_id)))
    assert seen == [(0, 0), (1, None), (2, None), (3, 1), (4, None), (5, None), (6, 2), (7, None)]
    assert (run.frames, run.ticks) == (3, 8)


def test_no_agent_of_a_grid_fleet_is_ever_in_a_blocked_cell_or_faster_than_its_speed(tmp_path: Path) -> None:
    site = _grid_site(tmp_path)
    grid = site.setup.grid
    assert grid is not None
    _walk(World(site.setup), 120)


def _walk(world: World, ticks: int) -> None:
    grid = world.setup.grid
    assert grid is not None
    before = world.inputs.agents.copy()
    for _ in range(ticks):
        world.assign(world.plan_tick().rows)
        world.advance()
        agents = world.inputs.agents
        index = grid.index_of(agents["x"], agents["y"])
        assert not grid.blocked.reshape(-1)[index].any()
        gone = np.abs(agents["x"] - before["x"]) + np.abs(agents["y"] - before["y"])
        assert (gone <= agents["speed"] * np.float32(1)).all()
        before = agents.copy()


def test_zones_of_another_component_and_on_blocked_cells_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "m.map").write_text("type octile\nheight 1\nwidth 4\nmap\n..@.\n")
    text = 'version = 1\nname = "t"\n[map]\nfile = "m.map"\n[[agent]]\nid = 1\nx = 0.5\ny = 0.5\n'
    zones = "".join(f"[[zone]]\nid = {i}\nx = {i}.5\ny = 0.5\n" for i in (1, 2, 3))
    world = World(Scenario.loads(text + zones, tmp_path).setup)
    for _ in range(20):
        world.assign(world.plan_tick().rows)
        world.advance()
    assert world.visited.tolist() == [True, False, False]


def test_the_ledger_holds_scenario_inputs_and_frames_without_wall_time(tmp_path: Path) -> None:
    run = simulate(Scenario.loads(FLEET), 70, ledger=tmp_path / "run", sync="os")
    with Ledger.open(tmp_path / "run", mode="r") as ledger:
        events = [event for _, event in ledger.scan()]
        assert (run.size, run.root) == (ledger.head().size, ledger.head().root)
    assert [event.kind for event in events] == ["coord.scenario", *["coord.inputs", "coord.frame"] * 70]
    assert [event.sequence for event in events] == list(range(141))
    assert {(event.producer, event.schema, event.wall_ns) for event in events} == {("sim/fleet", 1, None)}
    assert [event.tick for event in events[1:]] == [tick for tick in range(70) for _ in (0, 1)]
    assert all(frame.parents == (inputs.id,) for inputs, frame in zip(events[1::2], events[2::2], strict=True))
    assert [index for index, event in enumerate(events[1::2]) if event.effect[4] == 0] == [0, 64]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["HEAD", "ledger"]


def test_the_same_run_has_the_same_root_and_another_seed_another(tmp_path: Path) -> None:
    site = Scenario.loads(FLEET)
    roots = [simulate(site, 12, seed, tmp_path / f"{n}", sync="os").root for n, seed in enumerate((None, 4, 5))]
    assert roots[0] == roots[1] != roots[2]


def test_a_run_without_a_ledger_decides_the_same(tmp_path: Path) -> None:
    site = Scenario.loads(FLEET)
    with_ledger, without = simulate(site, 30, ledger=tmp_path / "run", sync="os"), simulate(site, 30)
    assert dataclasses.replace(with_ledger, root=None, size=0) == without
    assert without.stats.frames == 30


def test_permuted_rows_give_the_same_root(tmp_path: Path) -> None:
    agents = [f"[[agent]]\nid = {i}\nx = {7 * i % 5}.0\ny = {3 * i % 7}.0\n" for i in range(8)]
    zones = [f"[[zone]]\nid = {i}\nx = {5 * i % 11}.5\ny = {i}.0\n" for i in range(12)]
    head = 'version = 1\nname = "rows"\n'
    first = simulate(Scenario.loads(head + "".join(agents + zones)), 25, ledger=tmp_path / "a", sync="os")
    again = simulate(
        Scenario.loads(head + "".join(zones[::-1] + agents[3:] + agents[:3])), 25, ledger=tmp_path / "b", sync="os"
    )
    assert first.root == again.root
    for name, order in (("c", slice(None)), ("d", slice(None, None, -1))):
        folder = tmp_path / f"site-{name}"
        folder.mkdir()
        setup = Scenario.loads(head + "".join(agents + zones)).setup
        np.save(folder / "a.npy", setup.agents[order])
        np.save(folder / "z.npy", setup.zones[order])
        (folder / "SITE.toml").write_text(head + '[agents]\nfile = "a.npy"\n[zones]\nfile = "z.npy"\n')
    runs = [simulate(tmp_path / f"site-{n}" / "SITE.toml", 25, ledger=tmp_path / n, sync="os") for n in ("c", "d")]
    assert runs[0].root == runs[1].root
    assert runs[0].stats == first.stats


def test_the_world_stops_at_a_whole_frame_when_asked(tmp_path: Path) -> None:
    ticks = iter(range(100))
    run = simulate(Scenario.loads(FLEET), 50, ledger=tmp_path / "run", sync="os", should_stop=lambda: next(ticks) == 7)
    assert (run.ticks, run.frames, run.interrupted, run.size) == (7, 7, True, 15)
    assert audit(tmp_path / "run", resimulate=True).ok
    whole = simulate(Scenario.loads(FLEET), 7, ledger=tmp_path / "whole", sync="os")
    assert (whole.root, whole.interrupted) == (run.root, False)


def test_zero_ticks_leave_a_ledger_with_the_scenario_alone(tmp_path: Path) -> None:
    run = simulate(Scenario.loads(FLEET), 0, ledger=tmp_path / "run", sync="os")
    assert (run.size, run.frames, run.assigned_of_ready) == (1, 0, 1.0)
    assert audit(tmp_path / "run").ok


@pytest.mark.parametrize("text", ["", "[agents]\nrandom = 3\n", "[zones]\nrandom = 3\n"])
def test_fleets_without_agents_or_zones_have_valid_frames(tmp_path: Path, text: str) -> None:
    run = simulate(Scenario.loads('version = 1\nname = "none"\n' + text), 5, ledger=tmp_path / "run", sync="os")
    assert (run.frames, run.served) == (5, 0)
    assert audit(tmp_path / "run", resimulate=True).ok


def test_agents_in_one_cell_with_equal_scores_are_told_apart_by_id(tmp_path: Path) -> None:
    (tmp_path / "room.map").write_text(ROOM)
    text = 'version = 1\nname = "one"\n[map]\nfile = "room.map"\n'
    text += "".join(f"[[agent]]\nid = {i}\nx = 0.5\ny = 0.5\n" for i in (4, 2, 9))
    text += "".join(f"[[zone]]\nid = {i}\nx = 3.5\ny = 0.5\n" for i in (8, 5, 6))
    run = simulate(Scenario.loads(text, tmp_path), 12, ledger=tmp_path / "run", sync="os")
    assert run.cell_conflicts == 24
    with open_run(tmp_path / "run") as reader:
        rows = next(reader.frames()).rows
    assert list(zip(rows["agent"].tolist(), rows["zone"].tolist(), strict=True)) == [(2, 5), (4, 6), (9, 8)]


def test_a_bad_input_at_the_first_tick_leaves_nothing_behind(tmp_path: Path) -> None:
    site = Scenario.loads(FLEET)
    agents = site.setup.agents.copy()
    agents["x"][3] = np.nan
    broken = dataclasses.replace(site, setup=dataclasses.replace(site.setup, agents=agents))
    with pytest.raises(BadInput, match=r"agents\[3\].x must be finite"):
        simulate(broken, 5, ledger=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_bad_input_later_ends_the_ledger_at_the_frame_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advance = World.advance

    def poisoned(self: World) -> None:
        advance(self)
        if self.tick == 4:
            self.inputs.zones["y"][2] = np.inf

    monkeypatch.setattr(World, "advance", poisoned)
    with pytest.raises(BadInput, match=r"zones\[2\].y must be finite"):
        simulate(Scenario.loads(FLEET), 9, ledger=tmp_path / "run", sync="os")
    monkeypatch.undo()
    report = audit(tmp_path / "run", resimulate=True)
    assert (report.ok, report.frames, report.size) == (True, 4, 9)


def test_an_output_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    site = Scenario.loads(FLEET)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("a")
    with pytest.raises(OutputError) as error:
        simulate(site, 1, ledger=tmp_path / "full")
    assert str(error.value) == f"{tmp_path / 'full'}: expected no folder, or an empty one"
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError) as error:
        simulate(site, 1, ledger=tmp_path / "file")
    assert str(error.value) == f"{tmp_path / 'file'}: expected a folder that does not exist yet, got a file"
    (tmp_path / "empty").mkdir()
    assert simulate(site, 1, ledger=tmp_path / "empty", sync="os").size == 3
    with (
        Ledger.open(tmp_path / "empty") as ledger,
        pytest.raises(OutputError, match="expected an empty ledger, got one of 3"),
    ):
        simulate(site, 1, ledger=ledger)


def test_an_open_ledger_is_written_to_and_left_open(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        run = simulate(Scenario.loads(FLEET), 3, ledger=ledger)
        assert (ledger.head().size, ledger.head().root) == (run.size, run.root)


@pytest.mark.parametrize("ticks", [-1, 1.5, True, "3"])
def test_a_number_of_ticks_that_is_none_is_refused(ticks: object) -> None:
    with pytest.raises(ValueError, match="simulate: ticks must be a whole number of at least 0, got"):
        simulate(Scenario.loads(FLEET), ticks)  # type: ignore[arg-type]


def test_the_small_fixed_runs_have_the_roots_that_their_twins_wrote(golden: dict[str, dict[str, str]]) -> None:
    assert runpy.run_path(str(GOLDEN_RUNS))["roots"]() == golden["run"]


def _environments() -> list[dict[str, str]]:
    best = str(build_info()["isa_best"])
    isas = ["ref", *{"v4": ["v3", "v4"], "v3": ["v3"], "neon": ["neon"]}.get(best, [])]
    return [
        *({"DROVEWAY_ISA": isa} for isa in isas),
        *({"DROVEWAY_THREADS": n} for n in ("1", "2", "3", "7")),
        {"PYTHONHASHSEED": "77", "TZ": "Pacific/Chatham", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "0", "TZ": "America/Caracas", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "0"},
    ]


@pytest.mark.parametrize("environment", _environments(), ids=lambda e: ",".join(f"{k}={v}" for k, v in e.items()))
def test_one_root_for_every_isa_thread_count_hash_seed_time_zone_and_locale(
    python: Callable[..., subprocess.CompletedProcess[str]],
    golden: dict[str, dict[str, str]],
    environment: dict[str, str],
) -> None:
    done = python(f"import runpy; print(runpy.run_path({str(GOLDEN_RUNS)!r})['roots']())", **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{golden['run']}\n"


def test_a_ledger_written_by_kernels_verifies_under_the_twins(
    python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    simulate(Scenario.loads(FLEET), 8, ledger=tmp_path / "run", sync="os")
    code = f"from coord import audit; print(audit({str(tmp_path / 'run')!r}, resimulate=True).ok)"
    done = python(code, DROVEWAY_ISA="ref")
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_signal_between_ticks_ends_at_a_whole_frame(tmp_path: Path) -> None:
    code = textwrap.dedent(f"""
        import signal, sys
        from coord import Scenario, simulate
        stop = []
        signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
        site = Scenario.loads({FLEET!r})
        def told(tick, frame):
            if tick == 3:
                print("running", flush=True)
        out = {str(tmp_path / "run")!r}
        run = simulate(site, 10**6, ledger=out, sync="os", should_stop=lambda: bool(stop), on_tick=told)
        print(run.interrupted, run.frames)
    """)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    interrupted, frames = out.split()
    assert (process.returncode, interrupted) == (0, "True")
    report = audit(tmp_path / "run")
    assert (report.ok, report.frames) == (True, int(frames))


def _warehouse(data: Data, folder: Path) -> Scenario:
    source = data("maps/warehouse-10-20-10-2-1.map")
    return import_map(source, folder / "SITE.toml", agents=200, zones=400, seed=1)


def test_the_warehouse_runs_and_verifies_for_a_few_ticks(data: Data, tmp_path: Path) -> None:
    site = _warehouse(data, tmp_path)
    run = simulate(site, 12, ledger=tmp_path / "run")
    assert run.assigned_of_ready >= 0.95
    assert audit(tmp_path / "run", resimulate=True).ok
    _walk(World(site.setup), 12)


@pytest.mark.slow
def test_the_warehouse_of_the_page_holds_its_numbers_for_500_ticks(data: Data, tmp_path: Path) -> None:
    site = _warehouse(data, tmp_path)
    run = simulate(site, 500, ledger=tmp_path / "run")
    assert run.assigned_of_ready >= 0.95
    assert run.zones_served >= 300
    assert sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file()) <= 18_000_000
    report = audit(tmp_path / "run", resimulate=True)
    assert (report.ok, report.frames, report.resimulated, report.root) == (True, 500, 500, run.root)
    assert audit(tmp_path / "run").ok
    _walk(World(site.setup), 500)


def _peak_bytes(python: Callable[..., subprocess.CompletedProcess[str]], folder: Path, ticks: int) -> int:
    code = textwrap.dedent(f"""
        from coord import Scenario, simulate
        simulate(Scenario.load({str(folder / "SITE.toml")!r}), {ticks}, ledger={str(folder / "run")!r})
        print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
    """)
    done = python(code, seconds=300, OPENBLAS_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    return int(done.stdout) * 1024


def test_the_warehouse_needs_no_more_than_64_megabytes_for_a_few_ticks(
    python: Callable[..., subprocess.CompletedProcess[str]], data: Data, tmp_path: Path
) -> None:
    _warehouse(data, tmp_path)
    assert _peak_bytes(python, tmp_path, 12) <= 64_000_000


@pytest.mark.slow
def test_the_warehouse_needs_no_more_than_64_megabytes_for_500_ticks(
    python: Callable[..., subprocess.CompletedProcess[str]], data: Data, tmp_path: Path
) -> None:
    _warehouse(data, tmp_path)
    assert _peak_bytes(python, tmp_path, 500) <= 64_000_000


@pytest.mark.slow
def test_ten_thousand_agents_run_for_20_ticks_and_verify(data: Data, tmp_path: Path) -> None:
    scen = data("maps/warehouse-20-40-10-2-2-10000agents-1.scen")
    site = import_scen(scen, tmp_path / "SITE.toml", agents=10_000)
    run = simulate(site, 20, ledger=tmp_path / "run", sync="os")
    assert (run.frames, run.assigned_of_ready) == (20, 1.0)
    assert audit(tmp_path / "run", resimulate=True).ok

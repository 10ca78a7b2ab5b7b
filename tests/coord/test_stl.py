"""Runs and decisions in the storage ledger: what is written comes back, in any order of reading."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coord.errors import FrameError, RunError
from coord.frames.decisions import DecisionLedger
from coord.frames.frame import DecisionFrame
from coord.planning.plan import Plan, plan
from coord.records import AgentState, PlanConfig, WorkZone
from coord.simulation.events import EventKind, FleetEvent
from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario
from coord.stl import coordination_stl, open_run, scenario_event, scenario_map
from storage import EquivocationError, Event, Ledger, canonical

FLEET = 'version = 1\nname = "fleet"\nseed = 4\n[agents]\nrandom = 9\nspeed = 7\n[zones]\nrandom = 14\n'
PAGE = Path(__file__).parents[2] / "docs" / "formats" / "coord-scenario.md"


def _plans(count: int) -> list[Plan]:
    agents = [AgentState(id=i, x=float(i), memory_ticks=1000) for i in (3, 5, 8)]
    zones = [WorkZone(id=i, x=float(2 * i), y=1.0, radius=1.0) for i in (1, 2, 4, 7)]
    return [plan(agents, zones, [], [], PlanConfig(), now_tick=20 * tick) for tick in range(count)]


def test_append_look_up_decode_merge_a_replay_flush_and_read_back(tmp_path: Path) -> None:
    frames: list[DecisionFrame] = []
    ids = []
    with Ledger.open(tmp_path / "run") as ledger:
        door = coordination_stl(ledger)
        for made in _plans(6):
            frame = made.frame(len(frames), frames[-1].digest() if frames else bytes(16))
            receipt = door.append(frame, made.rows)
            assert receipt.rank == len(frames)
            frames.append(frame)
            ids.append(receipt.id)
            found, rows = door.lookup(receipt.id)
            assert found == frame
            assert rows.tobytes() == made.rows.tobytes()
        first, second = door.replay(0, 2), door.replay(2)
        assert first.merge(second) == second.merge(first) == door.replay() == DecisionLedger.of(frames)
        size, root = door.flush()
    with Ledger.open(tmp_path / "run", mode="r") as ledger:
        door = coordination_stl(ledger)
        assert (ledger.head().size, ledger.head().root) == (size, root) == (6, root)
        assert [door.lookup(event_id)[0] for event_id in ids] == frames
        assert door.replay() == DecisionLedger.of(frames)


def test_appending_goes_on_after_opening_again(tmp_path: Path) -> None:
    made = _plans(2)
    for number in range(2):
        with Ledger.open(tmp_path / "run", sync="os") as ledger:
            coordination_stl(ledger).append(made[number].frame(number), made[number].rows)
    with Ledger.open(tmp_path / "run", mode="r") as ledger:
        assert [event.sequence for _, event in ledger.scan()] == [0, 1]


def test_a_second_planner_that_reuses_a_sequence_is_refused(tmp_path: Path) -> None:
    made = _plans(2)
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        one, two = coordination_stl(ledger), coordination_stl(ledger)
        one.append(made[0].frame(0), made[0].rows)
        with pytest.raises(EquivocationError):
            two.append(made[1].frame(0), made[1].rows)
        assert ledger.head().size == 1


def test_rows_that_are_not_the_frames_are_refused_before_they_are_written(tmp_path: Path) -> None:
    made = _plans(1)[0]
    rows = made.rows.copy()
    rows["score"][0] += 1
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        with pytest.raises(FrameError, match="rows_digest must be"):
            coordination_stl(ledger).append(made.frame(0), rows)
        assert ledger.head().size == 0
        receipt = ledger.append(Event(producer="a", effect=b"", kind="note.text", sequence=0, tick=0))
        with pytest.raises(FrameError, match=r"expected kind coord.frame, got note.text"):
            coordination_stl(ledger).lookup(receipt.id)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stl") / "run"
    text = FLEET.replace("seed = 4\n", "seed = 4\n[plan]\nevery_ticks = 2\n")
    simulate(Scenario.loads(text), 30, ledger=folder, sync="os")
    return folder


def test_the_states_of_a_run_come_back_in_order(run: Path) -> None:
    with open_run(run) as reader:
        assert (reader.scenario.name, reader.scenario.every_ticks, reader.size) == ("fleet", 2, 31)
        views = [(view.rank, view.frame.tick, len(view.inputs.agents), len(view.rows)) for view in reader.frames()]
    assert views == [(2 * n + 2, 2 * n, 9, 9) for n in range(15)]


def test_the_state_at_a_tick_is_that_of_the_last_plan_before_it(run: Path) -> None:
    with open_run(run) as reader:
        whole = {view.frame.tick: view.inputs.copy() for view in reader.frames()}
        for tick in (0, 1, 7, 28, 29, 10**9):
            view = reader.state_at(tick)
            at = min(tick - tick % 2, 28)
            assert view.frame.tick == at
            assert view.inputs.agents.tobytes() == whole[at].agents.tobytes()
            assert view.inputs.zones.tobytes() == whole[at].zones.tobytes()
        assert reader.coordination_stl().replay().frames == 15


def test_a_ledger_without_a_run_is_named(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        ledger.append(Event(producer="a", effect=b"", kind="note.text", sequence=0, tick=0))
    with open_run(tmp_path / "run") as reader:
        with pytest.raises(RunError, match=r"rank 0: expected an event of kind coord.scenario, got note.text"):
            _ = reader.scenario
        with pytest.raises(RunError, match="no frame at or before tick 3"):
            reader.state_at(3)


DELAY = FleetEvent(1, EventKind.DELAY, 0, ticks=3).to_map()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 2}, "version: expected 1, got 2"),
        ({"version": 3}, "version: expected 1 to 2, got 3"),
        ({"on_events": True}, "version: expected 2, got 1"),
        ({"version": 2, "on_events": False}, "on_events: expected true, or no such key"),
        ({"version": 2, "events": []}, "events: expected at least one, or no such key"),
        ({"version": 2, "events": [3]}, "events[0]: expected a tick and a map"),
        ({"version": 2, "events": [[0, {}]]}, "events[0]: expected a tick from 1 on, got 0"),
        ({"version": 2, "events": [[1, {}]]}, "events[0]: id: expected int, got NoneType"),
        ({"version": 2, "events": [[2, DELAY], [1, DELAY]]},
         "events[1]: expected events of the site in order, each once"),
        ({"version": 2, "events": [[2, DELAY | {"source": "faults"}]]},
         "events[0]: expected events of the site in order, each once"),
        ({"version": 2, "faults": {}}, "faults: expected at least one kind"),
        ({"version": 2, "faults": {"delays": 1}}, "faults: expected delay or fault or lost or silent, got 'delays'"),
        ({"version": 2, "faults": {"delay": {"probability": 2.0, "ticks": [1, 2]}}},
         "faults.delay.probability: expected 0.0 to 1.0, got 2.0"),
        ({"version": 2, "faults": {"delay": {"probability": 0.5, "ticks": [0, 2]}}},
         "faults.delay.ticks: expected 1 to 4294967295, got 0"),
        ({"version": True}, "version: expected an integer, got bool"),
        ({"planner": "greedy"}, "planner: expected swap, got 'greedy'"),
        ({"every_ticks": 0}, "every_ticks: expected 1 to 4294967295, got 0"),
        ({"seed": 1.0}, "seed: expected an integer, got float"),
        ({"name": "\n"}, "name: expected 1 to 60 bytes of printable text"),
        ({"toml": b"12"}, "toml: expected 32 bytes, got 2"),
        ({"origin": [1.0, 2.0]}, "origin: expected nil or 3 finite floats"),
        ({"motion": {"model": "grid"}}, "motion.model: expected straight or around, got 'grid'"),
        ({"motion": {"model": "straight", "energy_per_m": [1]}}, "motion.energy_per_m: expected a float, got list"),
        ({"motion": {"model": "straight", "energy_per_m": 2.0}}, "motion.energy_per_m: expected 0 to 1, got 2.0"),
        ({"demand": {"model": "none"}},
         "demand.model: expected persistent or uniform or hot_spots or moving or replayed, got 'none'"),
        ({"ids": {"agents": [1], "zones": []}}, "ids.agents: expected no ids, or 9 ascending ones"),
        ({"agents": None}, "agents.draw: is missing"),
        ({"zones": {"draw": None}}, "zones: they are not drawn, so they are needed from the first coord.inputs"),
        ({"zones": {"draw": {"box": [0.0] * 4, "count": 2**40, "fields": {}}}},
         "zones.draw.fields: expected energy_cost, need_caps, priority, radius, service_ticks"),
        ({"rings": {"points": b"", "table": bytes(8)}}, "rings[0].count must be at least 3, got 0"),
        ({"rings": {"points": bytes(4), "table": b""}}, "cannot reshape array of size 1 into shape (2)"),
        ({"config": b"short"}, "config.bytes must be 64 bytes long, got 5"),
        ({"grid": b"short"}, "grid.bytes must be at least 20 bytes long, got 5"),
        ({"kernels": b"short"}, "buffer size must be a multiple of element size"),
    ],
)  # fmt: skip
def test_a_scenario_event_that_contradicts_itself_is_refused(change: dict[str, object], text: str) -> None:
    from coord.simulation.setup import setup_from_map

    value = {**Scenario.loads(FLEET).setup.to_map(), **change}
    with pytest.raises(RunError) as error:
        setup_from_map(value)
    assert str(error.value) == f"coord.scenario: {text}"


def test_every_missing_key_of_a_scenario_event_is_named() -> None:
    from coord.simulation.setup import setup_from_map

    whole = Scenario.loads(FLEET).setup.to_map()
    for name in whole:
        with pytest.raises(RunError, match=rf"coord.scenario: {name}(\.\w+)?: is missing"):
            setup_from_map({key: value for key, value in whole.items() if key != name})


def test_a_scenario_event_that_is_not_canonical_or_no_map_is_refused() -> None:
    event = scenario_event(Scenario.loads(FLEET).setup)
    with pytest.raises(RunError, match=r"rank 0: coord.scenario: canonical msgpack"):
        scenario_map(dataclasses.replace(event, effect=event.effect + b"\0"))
    with pytest.raises(RunError, match=r"rank 0: coord.scenario: expected a map, got list"):
        scenario_map(dataclasses.replace(event, effect=canonical.pack([1])))


def test_the_worked_example_of_the_page_is_the_event_that_is_written() -> None:
    page = PAGE.read_text()
    text = 'version = 1\nname = "one"\n[[agent]]\nid = 7\nx = 0.5\ny = 0.5\n'
    event = scenario_event(Scenario.loads(text).setup)
    match = re.search(r": (\d+) bytes, event id\s`(\w+)`.*?```hex\n(.*?)```", page, re.DOTALL)
    assert match is not None
    assert (int(match[1]), match[2]) == (len(event.effect), event.id.hex())
    assert bytes.fromhex(match[3]) == event.effect


def test_the_page_lists_the_keys_of_the_scenario_map() -> None:
    page = PAGE.read_text()
    table = page.split("## The scenario map")[1].split("###")[0]
    named = {name for line in table.splitlines() if line.startswith("| `")
             for name in re.findall(r"`(\w+)`", line.split("|")[1])}  # fmt: skip
    later = '[plan]\non_events = true\n[faults]\ndelay = 0.1\n[[event]]\ntick = 1\nkind = "fault"\nid = 0\n'
    setup = dataclasses.replace(Scenario.loads(FLEET + later).setup, external={"motion": "mine"})
    assert named == set(setup.to_map())
    assert named - set(Scenario.loads(FLEET).setup.to_map()) == {"events", "external", "faults", "on_events"}


def test_importing_coord_loads_no_storage(python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    heavy = "{'storage', 'rocksdict', 'scipy', 'PIL', 'lmdb', 'cryptography', 'msgpack'}"
    code = f"import coord, sys; print(sorted({heavy} & {{m.split('.')[0] for m in sys.modules}}))"
    done = python(code)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_float_of_the_scenario_is_the_value_of_its_text() -> None:
    value = Scenario.loads(FLEET + "[motion]\nenergy_per_m = 0.1\n").setup.to_map()
    assert value["motion"]["energy_per_m"] == 0.1
    assert np.float32(value["motion"]["energy_per_m"]) == np.float32(0.1)

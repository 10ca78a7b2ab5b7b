"""League of Robot Runners problems become scenarios; what is wrong in their files is named with its place."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coord import MapError, OutputError, Scenario, ScenarioError, audit, import_lorr, simulate
from coord.simulation.faults import Chance, Faults

DATA = Path(os.environ.get("DROVEWAY_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data") / "lorr"
PROBLEM = {
    "mapFile": "maps/m.map", "agentFile": "agents/a.agents", "taskFile": "tasks/t.tasks", "teamSize": 2,
    "numTasksReveal": 1.5,
}  # fmt: skip

Write = Callable[..., Path]


@pytest.fixture
def problem(tmp_path: Path) -> Write:
    """problem(files=…, teamSize=…): writes a problem of two agents on a 3 × 2 map; its path."""

    def write(files: dict[str, str] | None = None, **changes: Any) -> Path:
        texts = {
            "maps/m.map": "type octile\nheight 2\nwidth 3\nmap\n..@\n...\n",
            "agents/a.agents": "# version\n3\n0\n5\n4\n",
            "tasks/t.tasks": "# version\n4\n1,0\n3,4\n5\n0,1,3\n",
            **(files or {}),
        }
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode())
        (tmp_path / "p.json").write_text(json.dumps({**PROBLEM, **changes}))
        return tmp_path / "p.json"

    return write


def test_locations_are_rows_from_the_north(problem: Write, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    found = import_lorr(problem(), tmp_path / "out" / "SITE.toml")
    setup = found.scenario.setup
    assert list(zip(setup.agents["x"].tolist(), setup.agents["y"].tolist(), strict=True)) == [(0.5, 1.5), (2.5, 0.5)]
    assert (found.tasks, setup.motion.model, len(setup.zones)) == (4, "pibt", 0)
    tasks = setup.demand.replayed  # of one tick by x; the fourth one comes when an agent could have done one
    assert list(zip(tasks["tick"].tolist(), tasks["x"].tolist(), tasks["y"].tolist(), strict=True)) == [
        (1, 0.5, 0.5), (1, 1.5, 1.5), (1, 2.5, 0.5), (2, 0.5, 1.5),
    ]  # fmt: skip
    assert found.dropped == (
        "of a task with several locations the first is its place",
        "1 tasks come later, 1.2 a tick in tasks.jsonl: in the League one opens when another is done",
    )
    assert Scenario.load(tmp_path / "out" / "SITE.toml").setup.agents.tobytes() == setup.agents.tobytes()


@pytest.mark.parametrize(
    ("name", "agents", "tasks", "opening", "delay", "told"),
    [
        (
            "maze.domain/maze-example_40", 40, 160, 60, (0.0003, [5, 12]),
            "durationModel 'gaussian' is left out: a delay lasts 5 to 12 ticks, all alike",
        ),
        (
            "random.domain/random-example_400", 400, 3200, 600, (0.01, [1, 4]),
            "delays are drawn from delayConfig's seed by our generator: as likely, at other ticks",
        ),
    ],
)  # fmt: skip
def test_the_example_problems_run_and_are_made_again(
    tmp_path: Path, name: str, agents: int, tasks: int, opening: int, delay: tuple[float, list[int]], told: str
) -> None:
    found = import_lorr(DATA / f"{name}.json", tmp_path / "SITE.toml")
    setup = found.scenario.setup
    assert (len(setup.agents), found.tasks, len(setup.demand.replayed)) == (agents, tasks, tasks)
    assert int((setup.demand.replayed["tick"] == 1).sum()) == opening
    assert (found.scenario.document["faults"]["delay"], found.scenario.document["faults"]["delay_ticks"]) == delay
    assert found.dropped[-1] == told
    with pytest.raises(OutputError):
        import_lorr(DATA / f"{name}.json", tmp_path / "SITE.toml")
    run = simulate(found.scenario, 200, ledger=tmp_path / "run", sync="os")
    assert (run.cell_conflicts, run.tasks_refused) == (0, 0)
    assert run.tasks_opened == int((setup.demand.replayed["tick"] <= 199).sum())
    assert 0.4 * run.tasks_opened < run.tasks_served <= run.tasks_opened
    report = audit(tmp_path / "run", resimulate=True)
    assert report.ok, report


def test_fewer_agents_have_fewer_open_tasks(tmp_path: Path) -> None:
    setup = import_lorr(DATA / "maze.domain/maze-example_40.json", tmp_path / "SITE.toml", agents=20).scenario.setup
    assert (len(setup.agents), int((setup.demand.replayed["tick"] == 1).sum())) == (20, 30)


DELAYS = {"seed": 3, "minDelay": 0, "maxDelay": 2, "eventModel": "bernoulli", "pDelay": 0.5, "durationModel": "uniform"}


def test_delays_of_the_league_become_faults(problem: Write, tmp_path: Path) -> None:
    found = import_lorr(problem(delayConfig=DELAYS), tmp_path / "SITE.toml")
    assert found.scenario.setup.faults == Faults({"delay": Chance(0.5, 1, 2)})
    assert found.scenario.setup.seed == 3
    assert found.dropped[-1] == "delays of 0 ticks last 1"


def test_other_events_than_bernoulli_are_told_and_left_out(problem: Write, tmp_path: Path) -> None:
    found = import_lorr(problem(delayConfig={**DELAYS, "eventModel": "poisson"}), tmp_path / "SITE.toml")
    assert found.dropped[-1] == "delayConfig is left out: eventModel 'poisson' is none of [faults]"
    assert found.scenario.setup.faults is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"teamSize": 0}, "p.json: teamSize: expected a whole number above 0, got 0"),
        ({"teamSize": True}, "p.json: teamSize: expected a whole number above 0, got True"),
        ({"teamSize": None}, "p.json: teamSize: expected a whole number above 0, got nothing"),
        ({"numTasksReveal": -1}, "p.json: numTasksReveal: expected a number above 0 and at most 1000, got -1"),
        ({"mapFile": "../m.map"}, "p.json: mapFile: expected a file below the folder of the problem, got '../m.map'"),
        ({"mapFile": "/m.map"}, "p.json: mapFile: expected a file below the folder of the problem, got '/m.map'"),
        ({"taskFile": 4}, "p.json: taskFile: expected the name of a file, got 4"),
        ({"delayConfig": 4}, "p.json: delayConfig: expected an object, got 4"),
        ({"delayConfig": {**DELAYS, "pDelay": 2}}, "p.json: delayConfig.pDelay: expected a number from 0 to 1, got 2"),
        (
            {"delayConfig": {**DELAYS, "minDelay": -1}},
            "p.json: delayConfig.minDelay: expected a whole number from 0 to 4294967295, got -1",
        ),
        (
            {"delayConfig": {**DELAYS, "minDelay": 3}},
            "p.json: delayConfig.minDelay: expected at most maxDelay, 2, got 3",
        ),
        ({"teamSize": 2**53 + 1}, "p.json: expected whole numbers of at most 2^53, got 9007199254740993"),
    ],
)
def test_a_bad_key_of_the_problem_is_named(problem: Write, tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(text)):
        import_lorr(problem(**changes), tmp_path / "SITE.toml")
    assert not (tmp_path / "SITE.toml").exists()


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"agents/a.agents": "3\n0\n2\n4\n"}, "a.agents:3:1: location 2 (row 0, column 2) is on an obstacle"),
        ({"agents/a.agents": "3\n0\n6\n4\n"}, "a.agents:3:1: location 6 lies outside the map of 3 × 2"),
        ({"agents/a.agents": "3\n0\n-1\n4\n"}, "a.agents:3:1: expected a location (a whole number), got '-1'"),
        ({"agents/a.agents": "3\n0\n5\n"}, "a.agents:1:1: expected 3 lines to follow, the file has 2"),
        ({"agents/a.agents": "1\n0\n"}, "a.agents: expected 2 agents, the file has 1"),
        ({"agents/a.agents": "x\n0\n"}, "a.agents:1:1: expected the number of lines that follow, got 'x'"),
        ({"agents/a.agents": ""}, "a.agents:1:1: expected the number of lines that follow, got ''"),
        ({"agents/a.agents": "3\r\n0\r\n"}, "a.agents:1:1: expected lines that end in LF, got CR"),
        ({"tasks/t.tasks": "4\n1,0\n3,2\n5\n0\n"}, "t.tasks:3:3: location 2 (row 0, column 2) is on an obstacle"),
        ({"tasks/t.tasks": "4\n1,,0\n3\n5\n0\n"}, "t.tasks:2:3: expected a location (a whole number), got ''"),
        ({"maps/m.map": "type octile\nheight 2\nwidth 3\nmap\n..@\n..\n"}, "m.map:6:3"),
    ],
)
def test_a_bad_line_is_named(problem: Write, tmp_path: Path, files: dict[str, str], text: str) -> None:
    with pytest.raises(MapError, match=re.escape(text)):
        import_lorr(problem(files), tmp_path / "SITE.toml")


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    for data, text in (
        (b"{", "p.json: line 1, column 2: expected JSON"),
        (b"[1]", "p.json: expected an object, got list"),
        (b'{"a": 1, "a": 2}', "p.json: expected each key once, got 'a' twice in one object"),
        (b"\xff", "p.json: byte 0: expected UTF-8"),
        (b"[" * 100_000, "p.json: expected values that are not nested this deeply"),
        (b"[1e999]", "p.json: expected a finite number, got 1e999"),
    ):
        path.write_bytes(data)
        with pytest.raises(ScenarioError, match=re.escape(text)):
            import_lorr(path, tmp_path / "SITE.toml")
    with pytest.raises(ScenarioError, match="no such file"):
        import_lorr(tmp_path / "none.json", tmp_path / "SITE.toml")

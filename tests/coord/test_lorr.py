"""League of Robot Runners problems become scenarios; what is wrong in their files is named with its place."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coord import MapError, OutputError, Scenario, ScenarioError, import_lorr

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
    assert list(zip(setup.zones["x"].tolist(), setup.zones["y"].tolist(), strict=True)) == [
        (1.5, 1.5), (0.5, 0.5), (2.5, 0.5),
    ]  # fmt: skip
    assert (found.tasks, setup.motion.model) == (4, "grid")
    assert found.dropped == (
        "1 tasks open later: they are no zones of the first tick",
        "of a task with several locations the first is its zone",
    )
    assert Scenario.load(tmp_path / "out" / "SITE.toml").setup.agents.tobytes() == setup.agents.tobytes()


@pytest.mark.parametrize(
    ("name", "agents", "zones"),
    [("maze.domain/maze-example_40", 40, 60), ("random.domain/random-example_400", 400, 600)],
)
def test_the_example_problems_are_read(tmp_path: Path, name: str, agents: int, zones: int) -> None:
    found = import_lorr(DATA / f"{name}.json", tmp_path / "SITE.toml")
    setup = found.scenario.setup
    assert (len(setup.agents), len(setup.zones)) == (agents, zones)
    assert found.dropped[-1] == "delayConfig is left out: give delays in [faults]"
    with pytest.raises(OutputError):
        import_lorr(DATA / f"{name}.json", tmp_path / "SITE.toml")
    half = (
        import_lorr(DATA / f"{name}.json", tmp_path / "other.toml", agents=20).scenario.setup if agents == 40 else None
    )
    assert half is None or (len(half.agents), len(half.zones)) == (20, 30)


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

"""Import of a problem of the League of Robot Runners: a `.json` file with its map, agents and tasks beside it.

Source: the problem format of the competition (`mapFile`, `agentFile`, `taskFile`, `teamSize`, `numTasksReveal`). A
location is row · width + column of the map file, whose row 0 is the northern one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from coord.errors import MapError, ScenarioError
from coord.ground.grid import Grid
from coord.sites.importer import site_document, tables_or_files, write_site
from coord.sites.json_file import read_json
from coord.sites.movingai import cell_centres, parse_map, read_file
from coord.sites.scenario import Scenario
from tensor.float_mode import plain_mode

DIGITS_MAX = 9  # of a location


@dataclass(frozen=True)
class LorrImport:
    """The scenario that was written, and what of the problem it does not hold."""

    scenario: Scenario
    tasks: int  # in the file; those open at the start are the zones
    dropped: tuple[str, ...]  # sentences


@plain_mode()
def import_lorr(path: str | Path, out: str | Path, *, agents: int | None = None) -> LorrImport:
    """Write a SITE.toml from a League problem: its first `agents` agents (teamSize for None), its open tasks as zones.

    Open at the start are the first ⌊numTasksReveal · agents⌋ tasks; a zone stands at the first location of its task,
    with the task's number as id. Raises ScenarioError for the problem, MapError with line and column for a map, agents
    or tasks file (a location outside the map or on an obstacle too), OutputError when a file is already there.
    """
    path, out = Path(path), Path(out)
    problem = read_json(path)
    if not isinstance(problem, dict):
        raise ScenarioError(str(path), "", f"expected an object, got {type(problem).__name__}")
    team = _count(problem, "teamSize", path)
    count = team if agents is None else agents
    if count > team:
        raise ScenarioError(str(path), "teamSize", f"expected at least {count} agents, got {team}")
    map_path = _beside(problem, "mapFile", path)
    data = read_file(map_path)
    grid = parse_map(data, str(map_path))
    starts = _locations(_beside(problem, "agentFile", path), grid, count, "agents")
    reveal = _number(problem, "numTasksReveal", path)
    task_path = _beside(problem, "taskFile", path)
    tasks = _declared(task_path)
    goals = _locations(task_path, grid, min(tasks, math.floor(reveal * count)), "tasks")
    document = site_document(path.stem, data, map_path.name)
    files = {map_path.name: data, **tables_or_files(document, _centres(grid, starts), _centres(grid, goals))}
    return LorrImport(write_site(out, document, files), tasks, tuple(_dropped(problem, tasks - len(goals))))


def _dropped(problem: dict[str, Any], later: int) -> list[str]:
    told = []
    if later:
        told.append(f"{later} tasks open later: they are no zones of the first tick")
    told.append("of a task with several locations the first is its zone")
    if problem.get("delayConfig") is not None:
        told.append("delayConfig is left out: give delays in [faults]")
    return told


def _centres(grid: Grid, locations: list[int]) -> list[tuple[float, float]]:
    cells = np.array(locations, np.int64).reshape(-1)
    row, column = cells // grid.width, cells % grid.width
    centres = cell_centres(grid, (grid.height - 1 - row) * grid.width + column)
    return [(float(x), float(y)) for x, y in centres.tolist()]


def _count(problem: dict[str, Any], key: str, path: Path) -> int:
    value = problem.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ScenarioError(str(path), key, f"expected a whole number above 0, got {_shown(value)}")
    return value


def _number(problem: dict[str, Any], key: str, path: Path) -> float:
    value = problem.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1000:
        raise ScenarioError(str(path), key, f"expected a number above 0 and at most 1000, got {_shown(value)}")
    return float(value)


def _beside(problem: dict[str, Any], key: str, path: Path) -> Path:
    """A file that the problem names, below the folder of the problem."""
    value = problem.get(key)
    if not isinstance(value, str) or not value or "\0" in value:
        raise ScenarioError(str(path), key, f"expected the name of a file, got {_shown(value)}")
    name = PurePosixPath(value)
    if name.is_absolute() or ".." in name.parts:
        raise ScenarioError(str(path), key, f"expected a file below the folder of the problem, got {_shown(value)}")
    return path.parent / name


def _shown(value: object) -> str:
    return "nothing" if value is None else ascii(value)[:60]


def _lines(path: Path) -> list[tuple[int, bytes]]:
    """Numbered lines without comments and empty ones."""
    data = read_file(path)
    if b"\r" in data:
        line = data.count(b"\n", 0, data.index(b"\r")) + 1
        raise MapError(str(path), line, 1, "expected lines that end in LF, got CR (hint: sed -i 's/\\r$//' FILE)")
    numbered = enumerate(data.split(b"\n"), start=1)
    return [(number, line) for number, line in numbered if line.strip() and not line.startswith(b"#")]


def _declared(path: Path) -> int:
    lines = _lines(path)
    number, line = lines[0] if lines else (1, b"")
    if not (line.isdigit() and len(line) <= DIGITS_MAX):
        raise MapError(
            str(path), number, 1, f"expected the number of lines that follow, got {line[:40].decode('latin-1')!a}"
        )
    declared, there = int(line), len(lines) - 1
    if declared != there:
        raise MapError(str(path), number, 1, f"expected {declared} lines to follow, the file has {there}")
    return declared


def _locations(path: Path, grid: Grid, count: int, what: str) -> list[int]:
    """The first location of each of the first `count` lines; all locations of these lines are checked."""
    there = _declared(path)
    if there < count:
        raise MapError(str(path), 0, 0, f"expected {count} {what}, the file has {there}")
    found = []
    for number, line in _lines(path)[1 : count + 1]:
        column, first = 1, None
        for word in line.split(b","):
            if not (word.isdigit() and len(word) <= DIGITS_MAX):
                shown = ascii(word[:40].decode("latin-1"))
                raise MapError(str(path), number, column, f"expected a location (a whole number), got {shown}")
            location = int(word)
            if location >= grid.width * grid.height:
                size = f"{grid.width} × {grid.height}"
                raise MapError(str(path), number, column, f"location {location} lies outside the map of {size}")
            row, at = divmod(location, grid.width)
            if grid.blocked[grid.height - 1 - row, at]:
                raise MapError(
                    str(path), number, column, f"location {location} (row {row}, column {at}) is on an obstacle"
                )
            first = location if first is None else first
            column += len(word) + 1
        assert first is not None, "split gives a word at least"
        found.append(first)
    return found

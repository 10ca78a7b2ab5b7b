"""Import of a problem of the League of Robot Runners: a `.json` file with its map, agents and tasks beside it.

Source: the problem format of the competition (`mapFile`, `agentFile`, `taskFile`, `teamSize`, `numTasksReveal`). A
location is row · width + column of the map file, whose row 0 is the northern one.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from blake3 import blake3

from coord.errors import MapError, ScenarioError
from coord.ground.grid import Grid
from coord.simulation.demand_spec import TASKS_MAX
from coord.sites.importer import site_document, tables_or_files, write_site
from coord.sites.json_file import read_json
from coord.sites.movingai import cell_centres, parse_map, read_file
from coord.sites.scenario import Scenario
from coord.sites.scenario_schema import OPEN_MAX
from tensor.float_mode import plain_mode

DIGITS_MAX = 9  # of a location
TASKS_FILE = "tasks.jsonl"
U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1


@dataclass(frozen=True)
class LorrImport:
    """The scenario that was written, and what of the problem it does not hold."""

    scenario: Scenario
    tasks: int  # that come, those open at the first tick among them
    dropped: tuple[str, ...]  # sentences: what the scenario says otherwise than the problem, or not at all


@plain_mode()
def import_lorr(path: str | Path, out: str | Path, *, agents: int | None = None) -> LorrImport:
    """Write a SITE.toml from a League problem: its first `agents` agents (teamSize for None), its tasks as a demand.

    The tasks go to tasks.jsonl beside SITE.toml. The first ⌊numTasksReveal · agents⌋ come at tick 1. The League opens
    another one whenever one is done; here they come at the even rate at which agents could do them: agents ÷ (a third
    of width + height, the mean way between two cells of an empty map) a tick. A task is at its first location. Agents
    move by `pibt`, without energy, and a task is done by being there. `delayConfig` becomes `delay` and `delay_ticks`
    of `[faults]` where it says the same.

    Raises ScenarioError for the problem, MapError with line and column for a map, agents or tasks file (a location
    outside the map or on an obstacle too), OutputError when a file is already there.
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
    declared = _declared(task_path)
    goals = _locations(task_path, grid, min(declared, TASKS_MAX), "tasks")
    opening = min(len(goals), math.floor(reveal * count))
    document = site_document(path.stem, data, map_path.name)
    document["motion"] = {"model": "pibt", "energy_per_m": 0.0}
    files = {map_path.name: data, **tables_or_files(document, _centres(grid, starts), [])}
    files[TASKS_FILE] = _task_lines(_centres(grid, goals), opening, count, grid)
    document["demand"] = {
        "model": "replayed", "file": TASKS_FILE, "blake3": blake3(files[TASKS_FILE]).hexdigest(),
        "open_max": min(max(len(goals), 1), OPEN_MAX), "service_ticks": 0,
    }  # fmt: skip
    told = ["of a task with several locations the first is its place"]
    if declared > len(goals):
        told.append(f"{declared - len(goals)} tasks after the first {len(goals)} are left out")
    if len(goals) > opening and count:
        rate = 3 * count / (grid.width + grid.height)
        told.append(
            f"{len(goals) - opening} tasks come later, {rate:.3g} a tick in {TASKS_FILE}: "
            "in the League one opens when another is done"
        )
    told += _delays(problem, path, document)
    return LorrImport(write_site(out, document, files), len(goals), tuple(told))


def _task_lines(places: list[tuple[float, float]], opening: int, agents: int, grid: Grid) -> bytes:
    """tasks.jsonl: the first `opening` tasks at tick 1, task k after them at 2 + ⌊k (width + height) ÷ 3 agents⌋."""
    gap, share = grid.width + grid.height, 3 * max(agents, 1)
    ticks = [1] * opening + [2 + k * gap // share for k in range(len(places) - opening)]
    lines = [json.dumps({"tick": tick, "x": x, "y": y}) for tick, (x, y) in zip(ticks, places, strict=True)]
    return "".join(f"{line}\n" for line in lines).encode()


def _delays(problem: dict[str, Any], path: Path, document: dict[str, Any]) -> list[str]:
    """`delayConfig` as [faults] and seed of the document; sentences about what it says besides."""
    config = problem.get("delayConfig")
    if config is None:
        return []
    if not isinstance(config, dict):
        raise ScenarioError(str(path), "delayConfig", f"expected an object, got {_shown(config)}")
    if config.get("eventModel") != "bernoulli":
        return [f"delayConfig is left out: eventModel {_shown(config.get('eventModel'))} is none of [faults]"]
    chance = config.get("pDelay")
    if isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 <= chance <= 1:
        raise ScenarioError(str(path), "delayConfig.pDelay", f"expected a number from 0 to 1, got {_shown(chance)}")
    least, most = (_whole(config, key, path, U32_MAX) for key in ("minDelay", "maxDelay"))
    if least > most:
        raise ScenarioError(str(path), "delayConfig.minDelay", f"expected at most maxDelay, {most}, got {least}")
    document["seed"] = _whole(config, "seed", path, U64_MAX)
    document["faults"] = {"delay": float(chance), "delay_ticks": [max(least, 1), max(most, 1)]}
    told = ["delays are drawn from delayConfig's seed by our generator: as likely, at other ticks"]
    if least < 1:
        told.append("delays of 0 ticks last 1")
    if config.get("durationModel") != "uniform":
        told.append(
            f"durationModel {_shown(config.get('durationModel'))} is left out: "
            f"a delay lasts {max(least, 1)} to {max(most, 1)} ticks, all alike"
        )
    return told


def _whole(config: dict[str, Any], key: str, path: Path, most: int) -> int:
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        where = f"delayConfig.{key}"
        raise ScenarioError(str(path), where, f"expected a whole number from 0 to {most}, got {_shown(value)}")
    return value


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

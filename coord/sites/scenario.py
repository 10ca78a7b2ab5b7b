"""Scenario: a SITE.toml, version 1, read, checked and turned into the records of the first tick.

Source: `docs/formats/site-toml.md`; the keys and their defaults are defined in `scenario_schema.py`.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from coord.checks import PLANNERS
from coord.errors import MapError, ScenarioError, unreadable
from coord.frames.inputs import PART_BYTES_MAX
from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.planning.queues import LATER_SHIFT
from coord.records import KERNEL_DTYPE, OBSTACLE_DTYPE, PlanConfig
from coord.simulation import fleet
from coord.simulation.faults import Faults
from coord.simulation.fleet import Draw
from coord.simulation.setup import Motion, Setup
from coord.sites.movingai import parse_map, read_file
from coord.sites.regular_file import open_regular
from coord.sites.scenario_events import SHAPE_CODES, EventRows, check_event_row, demand_spec, event_order
from coord.sites.scenario_schema import (
    AGENTS_MAX,
    OBSTACLE_KINDS,
    REQUIRED,
    SHAPE_KEYS,
    TABLES,
    ZONES_MAX,
    Key,
    Table,
    fault_of,
    nearest,
    shown,
)
from tensor.float_mode import plain_mode

Records = npt.NDArray[np.void]
Document = dict[str, Any]

TOML_BYTES_MAX = 2**26
RINGS_BYTES_MAX = PART_BYTES_MAX - 64  # they stand in one part of coord.inputs
INPUTS_BYTES_MAX = 120_000_000  # 16 parts of 8 MiB, none filled to the last byte
SCENARIO_BYTES_MAX = 16_000_000  # of an event's 16 MiB
PLANNER_CODES = {name: code for code, name in PLANNERS.items()}


@dataclass(frozen=True)
class Scenario:
    """A scenario: its document with all defaults, and the setup made from it.

    >>> site = Scenario.loads('version = 1\\nname = "two"\\n[agents]\\nrandom = 2\\n[zones]\\nrandom = 3\\n')
    >>> len(site.setup.agents), len(site.setup.zones), site.setup.motion.model
    (2, 3, 'straight')
    """

    document: Document
    setup: Setup
    base_dir: Path
    file: str = "SITE.toml"

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Read a SITE.toml. Raises ScenarioError (file, key, what was expected, what came) and MapError."""
        path = Path(path)
        try:
            with open_regular(path) as stream:
                data = stream.read(TOML_BYTES_MAX + 1)
            if len(data) > TOML_BYTES_MAX:
                raise ScenarioError(str(path), "", f"expected at most {TOML_BYTES_MAX} bytes")
            text = data.decode("utf-8")
        except OSError as error:
            raise ScenarioError(str(path), "", unreadable(error)) from error
        except UnicodeDecodeError as error:
            raise ScenarioError(
                str(path), "", f"expected UTF-8, got byte {error.object[error.start]:#04x} at {error.start}"
            ) from error
        return cls.loads(text, path.parent, file=str(path))

    @classmethod
    @plain_mode()
    def loads(cls, text: str, base_dir: str | Path = ".", *, file: str = "SITE.toml") -> Scenario:
        """Read the text of a SITE.toml; files it names are relative to `base_dir`; `file` stands in error texts."""
        try:
            raw = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ScenarioError(file, "", f"is not TOML: {error}") from error
        except ValueError as error:
            raise ScenarioError(file, "", "expected numbers of at most 4300 digits, got a longer one") from error
        except RecursionError as error:
            raise ScenarioError(file, "", "expected a few levels of nesting, got hundreds") from error
        document = _normalised(raw, file)
        return cls(document, _setup(document, Path(base_dir), file), Path(base_dir), file)

    @plain_mode()
    def with_changes(
        self, *, seed: int | None = None, planner: str | None = None, values: Mapping[str, Any] | None = None
    ) -> Scenario:
        """The scenario with another seed (random places are drawn again), planner, or values of keys by dotted names
        such as "plan.w_travel"; tables that are not there are made. Raises ScenarioError.

        >>> site = Scenario.loads('version = 1\\nname = "two"\\n[agents]\\nrandom = 2\\n[zones]\\nrandom = 3\\n')
        >>> len(site.with_changes(values={"agents.random": 7}).setup.agents)
        7
        """
        document = dict(self.document)
        if seed is not None:
            document["seed"] = _checked(TABLES[""].key("seed"), seed, self.file, "seed")
        if planner is not None:
            word = _checked(TABLES["plan"].key("planner"), planner, self.file, "[plan] planner")
            document["plan"] = {**document["plan"], "planner": word}
        if values:
            raw = _given(document)
            for name, value in values.items():
                table, _, key = name.rpartition(".")
                (raw.setdefault(table, {}) if table else raw)[key] = value
            document = _normalised(raw, self.file)
        if document == self.document:
            return self
        return replace(self, document=document, setup=_setup(document, self.base_dir, self.file))

    def to_toml(self) -> str:
        """The canonical text: every key with its value (keys younger than the format only where it is not their
        default), tables in the order of the schema, rows by id.

        It does not depend on comments, on the order of keys and rows, or on defaults left out; its BLAKE3 digest
        stands in the ledger.
        """
        return canonical_text(self.document)


def _given(document: Mapping[str, Any]) -> Document:
    """The document as a reader would have got it: without the keys that have no value."""
    raw: Document = {}
    for name, value in document.items():
        if isinstance(value, dict):
            raw[name] = _given(value)
        elif isinstance(value, list) and name in TABLES:
            raw[name] = [_given(row) for row in value]
        elif value is not None:
            raw[name] = value
    return raw


def canonical_text(document: Mapping[str, Any]) -> str:
    """`Scenario.to_toml` of a normalised document."""
    lines: list[str] = []
    for table in TABLES.values():
        if table.name == "":
            lines += _toml_keys(table, document)
        elif table.rows:
            for row in document.get(table.name, []):
                lines += ["", f"[[{table.name}]]", *_toml_keys(table, row)]
        elif table.name in document:
            lines += ["", f"[{table.name}]", *_toml_keys(table, document[table.name])]
    return "\n".join(lines) + "\n"


def _toml_keys(table: Table, values: Mapping[str, Any]) -> list[str]:
    told = {key.name: values.get(key.name) for key in table.keys}
    names = [key.name for key in table.keys if not (key.quiet and told[key.name] == key.default)]
    return [f"{name} = {_toml_value(told[name])}" for name in names if told[name] is not None]


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value).lower() if isinstance(value, bool) else repr(value)


def _normalised(raw: Mapping[str, Any], file: str) -> Document:
    top = {name: value for name, value in raw.items() if name not in TABLES or name == ""}
    known = [key.name for key in TABLES[""].keys] + [name for name in TABLES if name]
    document: Document = _table(TABLES[""], top, file, "", known)
    for table in TABLES.values():
        if table.name == "" or (table.name not in raw and table.name not in ("plan", "motion", "demand")):
            continue
        value = raw.get(table.name, {})
        if table.rows:
            document[table.name] = _rows(table, value, file)
        else:
            if not isinstance(value, dict):
                found = _kind_of(table.name, value)
                raise ScenarioError(file, table.name, f"expected a table [{table.name}], got {found}")
            document[table.name] = _table(table, value, file, f"[{table.name}] ")
    if document["motion"]["model"] is None:
        document["motion"]["model"] = "grid" if "map" in document else "straight"
    return document


def _kind_of(name: str, value: Any) -> str:
    """What stands in place of a table, and the table that was perhaps meant: [agents] is not [[agent]]."""
    if isinstance(value, dict):
        found = f"one table [{name}]"
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        found = f"tables [[{name}]]"
    else:
        found = f"{shown(value)}"
    other = f"{name}s" if f"{name}s" in TABLES else name[:-1]
    if other not in TABLES:
        return found
    return f"{found}; did you mean {f'[[{other}]]' if TABLES[other].rows else f'[{other}]'}?"


def _rows(table: Table, value: Any, file: str) -> list[Document]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise ScenarioError(file, table.name, f"expected tables [[{table.name}]], got {_kind_of(table.name, value)}")
    rows = [_table(table, row, file, f"[[{table.name}]] {number} ") for number, row in enumerate(value, start=1)]
    for number, row in enumerate(rows, start=1):
        _check_row(table.name, row, file, f"[[{table.name}]] {number} ")
    if table.name in ("agent", "zone"):
        seen: dict[int, int] = {}
        for number, row in enumerate(rows, start=1):
            if row["id"] in seen:
                where = f"[[{table.name}]] {seen[row['id']]} and {number}"
                raise ScenarioError(file, where, f"have the same id {row['id']}")
            seen[row["id"]] = number
        return sorted(rows, key=lambda row: int(row["id"]))
    if table.name == "event":
        return sorted(rows, key=event_order)
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def _check_row(name: str, row: Mapping[str, Any], file: str, where: str) -> None:
    """What no single key says: the keys of a shape, and the least size of a weight."""
    if name == "obstacle":
        keys = SHAPE_KEYS[row["kind"]]
        for key in ("x", "y", "radius", "half_y", "points"):
            if (key in keys) != (row[key] is not None):
                what = "is missing" if row[key] is None else "does not belong"
                raise ScenarioError(file, f"{where}{key}", f"{what} in a {row['kind']}: {', '.join(keys)}")
    if name == "event":
        check_event_row(row, file, where)
    if name == "kernel" and row["weight"] != 0 and abs(row["weight"]) < math.ldexp(1.0, -64):
        raise ScenarioError(file, f"{where}weight", f"expected 0 or a size of at least 2^-64, got {row['weight']}")


def _table(table: Table, values: Mapping[str, Any], file: str, where: str, known: list[str] | None = None) -> Document:
    names = [key.name for key in table.keys]
    for name in values:
        if name not in names:
            told = name[:40].replace("\0", "\\0")
            raise ScenarioError(file, f"{where}{told}", f"unknown key (nearest: {nearest(told, known or names)})")
    out: Document = {}
    for key in table.keys:
        if key.name in values:
            out[key.name] = _checked(key, values[key.name], file, f"{where}{key.name}")
        elif key.default is REQUIRED:
            raise ScenarioError(file, f"{where}{key.name}", f"is missing: {key.text}")
        else:
            out[key.name] = key.default
    return out


def _checked(key: Key, value: Any, file: str, where: str) -> Any:
    fault = fault_of(key, value)
    if fault is not None:
        raise ScenarioError(file, where, fault)
    return _as_float(value) if key.kind not in ("int", "str", "bool", "span") else value


def _as_float(value: Any) -> Any:
    return [_as_float(item) for item in value] if isinstance(value, list) else float(value)


def _setup(document: Document, base_dir: Path, file: str) -> Setup:
    name = document["name"]
    if not (1 <= len(name.encode()) <= 60 and name.isprintable()):
        raise ScenarioError(file, "name", f"expected 1 to 60 bytes of printable text, got {name[:80]!r}")
    grid = _grid(document, base_dir, file)
    motion = _motion(document, grid, file)
    agents, agent_draw, agent_ids = _records("agents", document, base_dir, grid, file)
    zones, zone_draw, zone_ids = _records("zones", document, base_dir, grid, file)
    if grid is not None:
        fleet.check_on_grid(agents, zones, grid, file, agent_ids, zone_ids)
    obstacles, rings = _obstacles(document.get("obstacle", []))
    demand = demand_spec(document, base_dir, grid, file)
    event_rows = EventRows(
        agents, zones, agent_ids, zone_ids, len(obstacles), grid, file, tasks=demand.model != "persistent"
    )
    faults = document.get("faults")
    origin = document["origin"]
    plan = {key: value for key, value in document["plan"].items() if key not in ("every_ticks", "on_events", "queue")}
    plan["flags"] += (document["plan"]["queue"] - 1) << LATER_SHIFT
    setup = Setup(
        name=name,
        seed=document["seed"],
        tick_ns=document["tick_ns"],
        origin=None if origin is None else (origin[0], origin[1], origin[2]),
        every_ticks=document["plan"]["every_ticks"],
        config=PlanConfig(**{**plan, "planner": PLANNER_CODES[plan["planner"]]}),
        motion=motion,
        demand=demand,
        grid=grid,
        rings=rings,
        obstacles=obstacles,
        kernels=_kernels(document.get("kernel", [])),
        agents=agents,
        zones=zones,
        agent_draw=agent_draw,
        zone_draw=zone_draw,
        agent_ids=tuple(agent_ids),
        zone_ids=tuple(zone_ids),
        toml_digest=blake3(canonical_text(document).encode()).digest(),
        on_events=document["plan"]["on_events"],
        events=event_rows.events(document.get("event", [])),
        faults=None if faults is None else Faults.of(faults),
    )
    _check_size(setup, file)
    return setup


def _check_size(setup: Setup, file: str) -> None:
    """What the first event of a run and a part of its inputs must hold whole, with all that may come later."""
    added = [event for event in setup.events if event.record]
    points = sum(len(event.points) + 8 for event in added if event.points)
    rings = points + (0 if setup.rings is None else setup.rings.table.nbytes + setup.rings.points.nbytes)
    if rings > RINGS_BYTES_MAX:
        raise ScenarioError(
            file, "[[obstacle]] points", f"expected at most {RINGS_BYTES_MAX} bytes in all polygons, got {rings}"
        )
    cells = 0 if setup.grid is None else setup.grid.width * setup.grid.height // 8
    ids = 9 * (len(setup.agent_ids) + len(setup.zone_ids))
    demand = setup.demand
    tasks = demand.replayed.nbytes + sum(64 + 32 * len(spot.path) for spot in demand.spots)
    size = rings + setup.obstacles.nbytes + setup.kernels.nbytes + cells + ids + tasks + 160 * len(setup.events)
    if size > SCENARIO_BYTES_MAX:
        raise ScenarioError(
            file,
            "",
            f"expected at most {SCENARIO_BYTES_MAX} bytes of obstacles, kernels, map, ids, events and demand, "
            f"got {size}",
        )
    tables = (setup.agents, setup.zones, setup.obstacles, setup.kernels)
    inputs = sum(len(table) * (4 + table.dtype.itemsize) for table in tables) + rings + cells
    inputs += 52 * (len(added) + (demand.open_max if demand.where == "tasks" else 0))
    if inputs > INPUTS_BYTES_MAX:
        raise ScenarioError(
            file, "", f"expected at most {INPUTS_BYTES_MAX} bytes of agents, zones and all else at a tick, got {inputs}"
        )


def _grid(document: Document, base_dir: Path, file: str) -> Grid | None:
    section = document.get("map")
    if section is None:
        return None
    path = base_dir / section["file"]
    try:
        data = read_file(path)
    except MapError as error:
        raise ScenarioError(file, "[map] file", f"{path}: {error.detail}") from error
    expected, got = section["blake3"], blake3(data).hexdigest()
    if expected is not None and expected != got:
        raise ScenarioError(file, "[map] blake3", f"expected {expected}, {path} has {got}")
    return parse_map(data, str(path), section["cell_m"])


def _motion(document: Document, grid: Grid | None, file: str) -> Motion:
    section = document["motion"]
    model = section["model"]
    free = model in ("straight", "around")
    if not free and grid is None:
        raise ScenarioError(file, "[motion] model", f'expected a [map] for "{model}" (or model = "straight")')
    if free and grid is not None:
        raise ScenarioError(file, "[motion] model", f'"{model}" would go through the walls of the [map]: use "grid"')
    low = document["plan"]["min_energy"]
    if section["charged_energy"] < low:
        raise ScenarioError(
            file, "[motion] charged_energy", f"expected at least min_energy ({low}), got {section['charged_energy']}"
        )
    return Motion(model, section["energy_per_m"], section["charge_per_tick"], section["charged_energy"])


def _records(
    what: str, document: Document, base_dir: Path, grid: Grid | None, file: str
) -> tuple[Records, Draw | None, list[int]]:
    section, tables = document.get(what), document.get(what[:-1])
    most = AGENTS_MAX if what == "agents" else ZONES_MAX
    if tables is not None and len(tables) > most:
        raise ScenarioError(file, f"[[{what[:-1]}]]", f"expected at most {most}, got {len(tables)}")
    if section is None:
        records, external = fleet.from_tables(what, tables or [])
        return records, None, external
    if tables is not None:
        raise ScenarioError(file, f"[{what}]", f"expected either [{what}] or [[{what[:-1]}]], got both")
    if (section["random"] is None) == (section["file"] is None):
        raise ScenarioError(file, f"[{what}]", "expected one of random and file")
    if section["file"] is not None:
        return fleet.from_file(what, base_dir / section["file"], file, most), None, []
    names = fleet.AGENT_KEYS if what == "agents" else fleet.ZONE_KEYS
    if section["box"] is not None and grid is not None:
        raise ScenarioError(file, f"[{what}] box", "expected no box with a [map]: places are drawn on its free cells")
    box = tuple(section["box"] or fleet.BOX_DEFAULT)
    draw = Draw(what, section["random"], {name: section[name] for name in names}, (box[0], box[1], box[2], box[3]))
    try:
        return draw.records(document["seed"], grid), draw, []
    except ValueError as error:
        raise ScenarioError(file, f"[{what}] random", str(error)) from error


def _obstacles(rows: list[Document]) -> tuple[Records, Rings | None]:
    out = np.zeros(len(rows), OBSTACLE_DTYPE)
    polygons: list[list[list[float]]] = []
    for number, row in enumerate(rows):
        kind = row["kind"]
        assert kind in OBSTACLE_KINDS
        out[number]["id"], out[number]["kind"] = number, SHAPE_CODES[kind]
        out[number]["margin"] = row["margin"]
        if kind == "polygon":
            out[number]["ring"] = len(polygons)
            polygons.append(row["points"])
        else:
            for name in SHAPE_KEYS[kind]:
                out[number][name] = row[name]
    return out, Rings.of(polygons) if polygons else None


def _kernels(rows: list[Document]) -> Records:
    out = np.zeros(len(rows), KERNEL_DTYPE)
    for number, row in enumerate(rows):
        out[number]["id"] = number
        for name in ("x", "y", "sigma", "weight"):
            out[number][name] = row[name]
    return out

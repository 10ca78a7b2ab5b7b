"""Setup: all that the ticks of a run depend on, and its form in the ledger's `coord.scenario` event.

Source: `docs/formats/coord-scenario.md`. A setup comes from a SITE.toml (`scenario.py`) or from a ledger; the ticks
made from it are the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from coord.checks import EXTERNAL, PLANNERS
from coord.errors import RunError
from coord.frames.inputs import PART_BYTES_MAX, PARTS_MAX
from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.records import KERNEL_DTYPE, OBSTACLE_DTYPE, RING_DTYPE, ZONE_DTYPE, PlanConfig
from coord.simulation.demand_spec import DemandSpec
from coord.simulation.events import FleetEvent
from coord.simulation.faults import Faults
from coord.simulation.fleet import AGENT_KEYS, ZONE_KEYS, Draw
from coord.sites.scenario_schema import (
    AGENTS_MAX,
    NAME_BYTES_MAX,
    POSITION_MAX_M,
    TABLES,
    U32_MAX,
    U64_MAX,
    fault_of,
)

Records = npt.NDArray[np.void]
VERSION = 1
MODELS = ("demand", "motion", "planner")  # what somebody else's code can be in a run
VERSION_LATER = 2  # with any of events, faults, on_events: keys that a reader of version 1 would pass over
# No ledger holds more: the agents of a frame, the zones of a key of inputs (a row number and a record each).
_RECORDED_MAX = {"agents": AGENTS_MAX, "zones": PARTS_MAX * PART_BYTES_MAX // (4 + ZONE_DTYPE.itemsize)}


@dataclass(frozen=True)
class Motion:
    """How agents move and charge; the constants of one tick."""

    model: str  # "straight", "around", "grid" or "pibt"
    energy_per_m: float = 1e-4
    charge_per_tick: float = 0.01
    charged_energy: float = 0.8


@dataclass(frozen=True)
class Setup:
    """All that the ticks of a run depend on: the same from a SITE.toml and from a ledger's scenario event."""

    name: str
    seed: int
    tick_ns: int
    origin: tuple[float, float, float] | None  # latitude and longitude in degrees, height in metres
    every_ticks: int
    config: PlanConfig
    motion: Motion
    demand: DemandSpec
    grid: Grid | None
    rings: Rings | None
    obstacles: Records
    kernels: Records
    agents: Records  # of the first tick, sorted by id
    zones: Records
    agent_draw: Draw | None
    zone_draw: Draw | None
    agent_ids: tuple[int, ...]  # external ids by row, when they do not fit u32; else empty
    zone_ids: tuple[int, ...]
    toml_digest: bytes  # BLAKE3 of the canonical text
    external: Mapping[str, str] = field(default_factory=dict)  # somebody else's code in the run: "planner" → its name
    on_events: bool = False  # a plan is made at ticks of events, too
    events: tuple[FleetEvent, ...] = ()  # scheduled, in order
    faults: Faults | None = None

    @property
    def planner(self) -> str:
        """The planner's name."""
        return PLANNERS[self.config.planner]

    @property
    def producer(self) -> str:
        """Who writes the events of the run."""
        return f"sim/{self.name}"

    def to_map(self) -> dict[str, Any]:
        """The map that the scenario event holds as canonical msgpack."""
        rings = self.rings or Rings.empty()
        later: dict[str, Any] = {}
        if self.events:
            later["events"] = [[event.tick, event.to_map()] for event in self.events]
        if self.faults is not None:
            later["faults"] = self.faults.to_map()
        if self.on_events:
            later["on_events"] = True
        return later | {
            "agents": _first(self.agents, self.agent_draw),
            "config": self.config.encode(),
            "demand": self.demand.to_map(),
            "every_ticks": self.every_ticks,
            **({"external": dict(sorted(self.external.items()))} if self.external else {}),
            "grid": b"" if self.grid is None else self.grid.encode(),
            "ids": {"agents": list(self.agent_ids), "zones": list(self.zone_ids)},
            "kernels": self.kernels.tobytes(),
            "motion": {
                "charge_per_tick": self.motion.charge_per_tick,
                "charged_energy": self.motion.charged_energy,
                "energy_per_m": self.motion.energy_per_m,
                "model": self.motion.model,
            },
            "name": self.name,
            "obstacles": self.obstacles.tobytes(),
            "origin": None if self.origin is None else list(self.origin),
            "planner": self.planner,
            "rings": {
                "points": np.ascontiguousarray(rings.points, "<f4").tobytes(),
                "table": np.ascontiguousarray(rings.table).tobytes(),
            },
            "seed": self.seed,
            "tick_ns": self.tick_ns,
            "toml": self.toml_digest,
            "version": VERSION_LATER if later else VERSION,
            "zones": _first(self.zones, self.zone_draw),
        }


def _first(records: Records, draw: Draw | None) -> dict[str, Any]:
    return {"count": len(records), "digest": records_digest(records), "draw": None if draw is None else draw.to_map()}


def records_digest(records: Records) -> bytes:
    """First 16 bytes of BLAKE3 of the records, sorted by id."""
    return blake3(np.ascontiguousarray(records).tobytes()).digest(16)


def setup_from_map(value: Mapping[str, Any], agents: Records | None = None, zones: Records | None = None) -> Setup:
    """The setup of a scenario event. Drawn agents and zones are drawn again; others must be given.

    `agents` and `zones` are those of the first tick (from the first `coord.inputs` key); they must have the digest that
    the event names. Raises RunError naming the key that is missing, of the wrong type, or contradicts another.
    """
    try:
        return _from_map(value, agents, zones)
    except RunError:
        raise
    except ValueError as error:
        raise RunError(f"coord.scenario: {error}") from error


def _get(value: Mapping[str, Any], path: str, kind: type | tuple[type, ...]) -> Any:
    """The value at a path ("motion.model"), which must have a type (bool is no int)."""
    found: Any = value
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            raise RunError(f"coord.scenario: {path}: is missing")
        found = found[name]
    if not isinstance(found, kind) or isinstance(found, bool):
        raise RunError(f"coord.scenario: {path}: expected {_KINDS[kind]}, got {type(found).__name__}")
    return found


_KINDS: dict[Any, str] = {
    int: "an integer", float: "a float", str: "a text", bytes: "bytes", list: "an array", dict: "a map",
    (dict, type(None)): "a map or nil", (list, type(None)): "an array or nil",
}  # fmt: skip


def _int(value: Mapping[str, Any], path: str, low: int = 0, high: int = U64_MAX) -> int:
    found: int = _get(value, path, int)
    if not low <= found <= high:
        raise RunError(f"coord.scenario: {path}: expected {low} to {high}, got {found}")
    return found


def _share(value: Mapping[str, Any], path: str) -> float:
    found: float = _get(value, path, float)
    if not 0.0 <= found <= 1.0:
        raise RunError(f"coord.scenario: {path}: expected 0 to 1, got {found}")
    return found


def _word(value: Mapping[str, Any], path: str, known: tuple[str, ...]) -> str:
    found: str = _get(value, path, str)
    if found not in known:
        raise RunError(f"coord.scenario: {path}: expected {' or '.join(known)}, got {found!r}")
    return found


def _from_map(value: Mapping[str, Any], agents: Records | None, zones: Records | None) -> Setup:
    version = _int(value, "version", VERSION, VERSION_LATER)
    later = [name for name in ("events", "faults", "on_events") if name in value]
    if bool(later) != (version == VERSION_LATER):
        raise RunError(f"coord.scenario: version: expected {VERSION_LATER if later else VERSION}, got {version}")
    encoded = _get(value, "grid", bytes)
    grid = Grid.decode(encoded) if encoded else None
    config = PlanConfig.decode(_get(value, "config", bytes))
    seed = _int(value, "seed")
    first_agents, agent_draw = _records("agents", value, agents, seed, grid)
    first_zones, zone_draw = _records("zones", value, zones, seed, grid)
    name = _get(value, "name", str)
    if not is_name(name):
        raise RunError(f"coord.scenario: name: expected 1 to {NAME_BYTES_MAX} bytes of printable text")
    toml = _get(value, "toml", bytes)
    if len(toml) != 32:
        raise RunError(f"coord.scenario: toml: expected 32 bytes, got {len(toml)}")
    _word(value, "planner", (PLANNERS.get(config.planner, ""),))
    return Setup(
        name=name,
        seed=seed,
        tick_ns=_int(value, "tick_ns", 1),
        origin=_origin(value),
        every_ticks=_int(value, "every_ticks", 1, U32_MAX),
        config=config,
        motion=Motion(
            _word(value, "motion.model", ("straight", "around") if grid is None else ("grid", "pibt")),
            _share(value, "motion.energy_per_m"),
            _share(value, "motion.charge_per_tick"),
            _share(value, "motion.charged_energy"),
        ),
        demand=DemandSpec.from_map(_get(value, "demand", dict)),
        grid=grid,
        rings=_rings(value),
        obstacles=np.frombuffer(_get(value, "obstacles", bytes), OBSTACLE_DTYPE),
        kernels=np.frombuffer(_get(value, "kernels", bytes), KERNEL_DTYPE),
        agents=first_agents,
        zones=first_zones,
        agent_draw=agent_draw,
        zone_draw=zone_draw,
        agent_ids=_external(value, "ids.agents", len(first_agents)),
        zone_ids=_external(value, "ids.zones", len(first_zones)),
        toml_digest=toml,
        external=_external_models(value, config),
        on_events=_on_events(value),
        events=_events(value),
        faults=Faults.from_map(_get(value, "faults", dict)) if "faults" in value else None,
    )


def _external_models(value: Mapping[str, Any], config: PlanConfig) -> dict[str, str]:
    """Names of somebody else's code; a planner among them exactly where the config says so."""
    found = external_names(value)
    if "external" in value and (found != _get(value, "external", dict) or not found):
        raise RunError(f"coord.scenario: external: expected printable names of {', '.join(MODELS)}")
    if ("planner" in found) != (config.planner == EXTERNAL):
        raise RunError(f"coord.scenario: external.planner: expected it where the planner is {EXTERNAL}, and only there")
    return found


def external_names(value: Mapping[str, Any]) -> dict[str, str]:
    """Names of somebody else's code in a scenario map, by what it is; what is no such name is left out."""
    found = value.get("external")
    pairs = found.items() if isinstance(found, dict) else ()
    return {what: name for what, name in pairs if what in MODELS and isinstance(name, str) and is_name(name)}


def is_name(text: str) -> bool:
    """Whether a text can name a run or a model: 1 to 60 bytes, printable."""
    return 1 <= len(text.encode("utf-8", "replace")) <= NAME_BYTES_MAX and text.isprintable()


def _on_events(value: Mapping[str, Any]) -> bool:
    if value.get("on_events", True) is not True:
        raise RunError("coord.scenario: on_events: expected true, or no such key")
    return "on_events" in value


def _events(value: Mapping[str, Any]) -> tuple[FleetEvent, ...]:
    if "events" not in value:
        return ()
    events: list[FleetEvent] = []
    for number, row in enumerate(_get(value, "events", list)):
        where = f"events[{number}]"
        if not (isinstance(row, list) and len(row) == 2 and type(row[0]) is int and isinstance(row[1], dict)):
            raise RunError(f"coord.scenario: {where}: expected a tick and a map")
        if not 1 <= row[0] <= U64_MAX:
            raise RunError(f"coord.scenario: {where}: expected a tick from 1 on, got {row[0]}")
        try:
            event = FleetEvent.from_map(row[1], row[0], happened=False)
        except ValueError as error:
            raise RunError(f"coord.scenario: {where}: {error}") from error
        if event.source != "site" or (events and not events[-1].place < event.place):
            raise RunError(f"coord.scenario: {where}: expected events of the site in order, each once")
        events.append(event)
    if not events:
        raise RunError("coord.scenario: events: expected at least one, or no such key")
    return tuple(events)


def _rings(value: Mapping[str, Any]) -> Rings | None:
    table = np.frombuffer(_get(value, "rings.table", bytes), RING_DTYPE)
    points = np.frombuffer(_get(value, "rings.points", bytes), "<f4").reshape(-1, 2)
    rings = Rings(table, points)
    rings.check()
    return rings if len(table) else None


def _origin(value: Mapping[str, Any]) -> tuple[float, float, float] | None:
    found = _get(value, "origin", (list, type(None)))
    if found is None:
        return None
    if len(found) != 3 or not all(isinstance(number, float) and math.isfinite(number) for number in found):
        raise RunError("coord.scenario: origin: expected nil or 3 finite floats")
    return found[0], found[1], found[2]


def _external(value: Mapping[str, Any], path: str, count: int) -> tuple[int, ...]:
    found = _get(value, path, list)
    good = all(type(number) is int and 0 <= number <= U64_MAX for number in found)
    if not good or len(found) not in (0, count) or any(a >= b for a, b in pairwise(found)):
        raise RunError(f"coord.scenario: {path}: expected no ids, or {count} ascending ones")
    return tuple(found)


def _records(
    what: str, value: Mapping[str, Any], given: Records | None, seed: int, grid: Grid | None
) -> tuple[Records, Draw | None]:
    drawn = _get(value, f"{what}.draw", (dict, type(None)))
    draw = None if drawn is None else _draw(what, value)
    if given is None and draw is None:
        raise RunError(f"coord.scenario: {what}: they are not drawn, so they are needed from the first coord.inputs")
    count = _int(value, f"{what}.count")
    for length in (draw and draw.count, None if given is None else len(given)):  # before any is drawn
        if length is not None and length != count:
            raise RunError(f"coord.scenario: {what}: expected {count} at the first tick, got {length}")
    records = draw.records(seed, grid) if draw is not None else given
    assert records is not None
    expected, got = _get(value, f"{what}.digest", bytes), records_digest(records)
    if got != expected:
        raise RunError(f"coord.scenario: {what}: expected digest {expected.hex()} at the first tick, got {got.hex()}")
    return records, draw


def _draw(what: str, value: Mapping[str, Any]) -> Draw:
    path = f"{what}.draw"
    box = _get(value, f"{path}.box", list)
    if len(box) != 4 or not all(isinstance(v, float) and abs(v) <= POSITION_MAX_M for v in box):
        raise RunError(f"coord.scenario: {path}.box: expected 4 floats within 2^20")
    fields = _get(value, f"{path}.fields", dict)
    keys = [TABLES[what].key(name) for name in (AGENT_KEYS if what == "agents" else ZONE_KEYS)]
    if set(fields) != {key.name for key in keys}:
        raise RunError(f"coord.scenario: {path}.fields: expected {', '.join(sorted(key.name for key in keys))}")
    for key in keys:
        fault = fault_of(key, fields[key.name])
        if fault is not None or isinstance(fields[key.name], float) != (key.kind == "float"):
            raise RunError(f"coord.scenario: {path}.fields.{key.name}: {fault or 'expected the type of its key'}")
    count = _int(value, f"{path}.count", 0, _RECORDED_MAX[what])
    return Draw(what, count, dict(fields), (box[0], box[1], box[2], box[3]))

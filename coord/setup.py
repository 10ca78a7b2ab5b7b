"""Setup: all that the ticks of a run depend on, and its form in the ledger's `coord.scenario` event.

Source: `docs/formats/coord-scenario.md`. A setup comes from a SITE.toml (`scenario.py`) or from a ledger; the ticks
made from it are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from coord.checks import PLANNERS
from coord.errors import RunError
from coord.fleet import Draw
from coord.grid import Grid
from coord.records import KERNEL_DTYPE, OBSTACLE_DTYPE, RING_DTYPE, PlanConfig
from coord.rings import Rings
from coord.scenario_schema import DEMANDS

Records = npt.NDArray[np.void]
VERSION = 1


@dataclass(frozen=True)
class Motion:
    """How agents move and charge; the constants of one tick."""

    model: str  # "straight" or "grid"
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
    demand: str
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
        return {
            "agents": _first(self.agents, self.agent_draw),
            "config": self.config.encode(),
            "demand": {"model": self.demand},
            "every_ticks": self.every_ticks,
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
            "version": VERSION,
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
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(f"coord.scenario: {type(error).__name__}: {error}") from error
    except ValueError as error:
        raise error if isinstance(error, RunError) else RunError(f"coord.scenario: {error}") from error


def _from_map(value: Mapping[str, Any], agents: Records | None, zones: Records | None) -> Setup:
    if value["version"] != VERSION:
        raise RunError(f"coord.scenario: version: expected {VERSION}, got {value['version']}")
    grid = Grid.decode(value["grid"]) if value["grid"] else None
    table = np.frombuffer(value["rings"]["table"], RING_DTYPE)
    points = np.frombuffer(value["rings"]["points"], "<f4").reshape(-1, 2)
    rings = Rings(table, points) if len(table) else None
    if rings is not None:
        rings.check()
    config = PlanConfig.decode(value["config"])
    if PLANNERS.get(config.planner) != value["planner"]:
        raise RunError(f"coord.scenario: planner: expected {PLANNERS.get(config.planner)}, got {value['planner']}")
    seed = int(value["seed"])
    first_agents, agent_draw = _records("agents", value["agents"], agents, seed, grid)
    first_zones, zone_draw = _records("zones", value["zones"], zones, seed, grid)
    motion = value["motion"]
    if motion["model"] != ("straight" if grid is None else "grid"):
        raise RunError(f"coord.scenario: motion: expected the model that fits the grid, got {motion['model']!r}")
    if value["demand"]["model"] not in DEMANDS:
        raise RunError(f"coord.scenario: demand: expected {' or '.join(DEMANDS)}, got {value['demand']['model']!r}")
    if value["every_ticks"] < 1:
        raise RunError(f"coord.scenario: every_ticks: expected at least 1, got {value['every_ticks']}")
    origin = value["origin"]
    return Setup(
        name=str(value["name"]),
        seed=seed,
        tick_ns=int(value["tick_ns"]),
        origin=None if origin is None else (float(origin[0]), float(origin[1]), float(origin[2])),
        every_ticks=int(value["every_ticks"]),
        config=config,
        motion=Motion(motion["model"], motion["energy_per_m"], motion["charge_per_tick"], motion["charged_energy"]),
        demand=value["demand"]["model"],
        grid=grid,
        rings=rings,
        obstacles=np.frombuffer(value["obstacles"], OBSTACLE_DTYPE),
        kernels=np.frombuffer(value["kernels"], KERNEL_DTYPE),
        agents=first_agents,
        zones=first_zones,
        agent_draw=agent_draw,
        zone_draw=zone_draw,
        agent_ids=tuple(value["ids"]["agents"]),
        zone_ids=tuple(value["ids"]["zones"]),
        toml_digest=bytes(value["toml"]),
    )


def _records(
    what: str, first: Mapping[str, Any], given: Records | None, seed: int, grid: Grid | None
) -> tuple[Records, Draw | None]:
    draw = None if first["draw"] is None else Draw.from_map(what, first["draw"])
    records = draw.records(seed, grid) if draw is not None else given
    if records is None:
        raise RunError(f"coord.scenario: {what}: they are not drawn, so they are needed from the first coord.inputs")
    if len(records) != first["count"]:
        raise RunError(f"coord.scenario: {what}: expected {first['count']} at the first tick, got {len(records)}")
    got = records_digest(records)
    if got != first["digest"]:
        raise RunError(
            f"coord.scenario: {what}: expected digest {first['digest'].hex()} at the first tick, got {got.hex()}"
        )
    return records, draw

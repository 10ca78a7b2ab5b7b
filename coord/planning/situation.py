"""What a plan call sees: checked inputs in the order of their ids, and everything derived from them before planning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coord import backend
from coord.checks import Order, check_agents, check_config, check_kernels, check_obstacles, check_tick, check_zones
from coord.fields.field import cover_and_avoid
from coord.frames.digest import input_digest
from coord.ground.grid import Grid
from coord.ground.obstacle import Shapes, shapes_of
from coord.ground.rings import Rings
from coord.planning.problem import F32, I32, NONE, U8, U32, Agents, Problem, Zones
from coord.planning.readiness import agents_readiness, stale_ticks, zones_blocked
from coord.records import (
    AGENT_DTYPE,
    CONFIG_DTYPE,
    KERNEL_DTYPE,
    NO_ZONE,
    OBSTACLE_DTYPE,
    ZONE_DTYPE,
    AgentMode,
    AgentState,
    GaussianKernel,
    Obstacle,
    PlanConfig,
    Records,
    WorkZone,
    as_records,
)

PATH_FLAG = 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Situation:
    """Inputs ascending by id, readiness, the zones' terms, who is withheld, and the problem that is left to plan."""

    agents: Records  # [n]
    zones: Records  # [m]
    obstacles: Records
    kernels: Records
    config: Records  # [1]
    rings: Rings
    grid: Grid | None
    now_tick: int
    input_digest: bytes
    shapes: Shapes
    readiness: U8  # [n] AgentReadiness
    ahead: NDArray[np.bool_]  # [n]
    blocked: NDArray[np.bool_]  # [m]
    idle_norm: F32  # [m]
    cover: F32  # [m]
    avoid: F32  # [m]
    base: F32  # [m]
    held: I32  # [n] the zone a working agent keeps, as index into zones, or -1
    planned: NDArray[np.intp]  # agents of the problem, as indices into agents
    offered: NDArray[np.intp]  # zones of the problem, as indices into zones
    facts: Agents  # all agents, their current zone as an index into the problem's zones
    problem: Problem

    @property
    def stale(self) -> NDArray[np.uint64]:  # [n]
        """Ticks since each agent was seen; computed each time, for it takes as much as two columns."""
        return stale_ticks(self.agents, self.now_tick)[0]

    @property
    def idle(self) -> NDArray[np.uint64]:  # [m]
        """Ticks since each zone was served, likewise."""
        return _idle_ticks(self.zones, self.now_tick)


def situation(
    agents: Records | Iterable[AgentState],
    zones: Records | Iterable[WorkZone],
    obstacles: Records | Iterable[Obstacle],
    kernels: Records | Iterable[GaussianKernel],
    config: Records | PlanConfig,
    *,
    now_tick: int,
    rings: Rings | None = None,
    grid: Grid | None = None,
) -> Situation:
    """Check the inputs (BadInput, PlannerError, TypeError) and derive what planning needs."""
    agent_records = as_records(agents, AGENT_DTYPE, "agents")
    zone_records = as_records(zones, ZONE_DTYPE, "zones")
    obstacle_records = as_records(obstacles, OBSTACLE_DTYPE, "obstacles")
    kernel_records = as_records(kernels, KERNEL_DTYPE, "kernels")
    settings = as_records([config], CONFIG_DTYPE, "config") if isinstance(config, PlanConfig) else config
    if rings is not None and not isinstance(rings, Rings):
        raise TypeError(f"rings must be a coord.Rings or None, got {type(rings).__name__}")
    ring_table = Rings.empty() if rings is None else rings
    check_tick(now_tick)
    check_config(settings)
    agent_order = check_agents(agent_records)
    zone_order = check_zones(zone_records)
    ring_table.check()
    obstacle_order = check_obstacles(obstacle_records, ring_table)
    kernel_order = check_kernels(kernel_records)
    if grid is not None and not isinstance(grid, Grid):
        raise TypeError(f"grid must be a coord.Grid or None, got {type(grid).__name__}")
    return _derive(
        _in_order(agent_records, agent_order),
        _in_order(zone_records, zone_order),
        _in_order(obstacle_records, obstacle_order),
        _in_order(kernel_records, kernel_order),
        settings,
        int(now_tick),
        ring_table,
        grid,
    )


def _in_order(records: Records, order: Order | None) -> Records:
    return records if order is None else records[order]


def _derive(
    agents: Records,
    zones: Records,
    obstacles: Records,
    kernels: Records,
    config: Records,
    now_tick: int,
    rings: Rings,
    grid: Grid | None,
) -> Situation:
    shapes = shapes_of(obstacles, rings)
    readiness = agents_readiness(agents, config, now_tick)
    x, y = np.ascontiguousarray(zones["x"]), np.ascontiguousarray(zones["y"])
    blocked = zones_blocked(zones, shapes, grid)
    norm = backend.idle_norm(_idle_ticks(zones, now_tick), int(config["idle_cap_ticks"][0]))
    cover, avoid = cover_and_avoid(kernels, x, y, config["cutoff_sigmas"][0])
    weights = np.array([config[name][0] for name in ("w_priority", "w_idle", "w_cover", "w_avoid")], np.float32)
    base = backend.zone_base(np.ascontiguousarray(zones["priority"]), norm, cover, avoid, weights)
    zone_index = _index_of_zone(agents["zone"], zones["id"])
    held = _held(agents, zone_index, readiness)
    planned = np.flatnonzero((readiness == 0) & (held == NONE))
    withheld = np.zeros(len(zones), np.bool_)
    withheld[held[held != NONE]] = True
    offered = np.flatnonzero(~withheld)
    if np.array_equal(offered, planned):
        offered = planned  # all of as many: one copy
    place = np.full(len(zones) + 1, NONE, np.int32)
    place[offered] = np.arange(len(offered), dtype=np.int32)
    agent_component, zone_component = _components(agents, x, y, grid)
    facts = Agents(
        x=np.ascontiguousarray(agents["x"]),
        y=np.ascontiguousarray(agents["y"]),
        z=np.ascontiguousarray(agents["z"]),
        speed=np.ascontiguousarray(agents["speed"]),
        energy=np.ascontiguousarray(agents["energy"]),
        caps=np.ascontiguousarray(agents["caps"]),
        component=agent_component,
        current=place[zone_index],
    )
    every = Zones(
        x=x,
        y=y,
        z=np.ascontiguousarray(zones["z"]),
        radius=np.ascontiguousarray(zones["radius"]),
        base=base,
        cost=np.ascontiguousarray(zones["energy_cost"]),
        need=np.ascontiguousarray(zones["need_caps"]),
        component=zone_component,
        blocked=blocked.view(np.uint8),
    )
    problem = Problem(
        agents=facts if len(planned) == len(agents) else facts.take(planned),
        zones=every if len(offered) == len(zones) else every.take(offered),
        w_travel=config["w_travel"][0],
        w_switch=config["w_switch"][0],
        max_travel=int(config["max_travel_ticks"][0]),
        grid=grid is not None,
        shapes=shapes if config["flags"][0] & PATH_FLAG and len(shapes) else None,
    )
    return Situation(
        agents=agents,
        zones=zones,
        obstacles=obstacles,
        kernels=kernels,
        config=config,
        rings=rings,
        grid=grid,
        now_tick=now_tick,
        input_digest=input_digest(agents, zones, obstacles, kernels, rings, b"" if grid is None else grid.encode()),
        shapes=shapes,
        readiness=readiness,
        ahead=stale_ticks(agents, now_tick)[1],
        blocked=blocked,
        idle_norm=norm,
        cover=cover,
        avoid=avoid,
        base=base,
        held=held,
        planned=planned,
        offered=offered,
        facts=facts,
        problem=problem,
    )


def _idle_ticks(zones: Records, now_tick: int) -> NDArray[np.uint64]:
    served = zones["last_served_tick"]
    return np.where(served > np.uint64(now_tick), np.uint64(0), np.uint64(now_tick) - served)


def _index_of_zone(ids: U32, zone_ids: U32) -> I32:
    """The index of each id among zone_ids (ascending), or -1."""
    if len(zone_ids) == 0 or bool((ids == NO_ZONE).all()):
        return np.full(len(ids), NONE, np.int32)
    at = np.minimum(np.searchsorted(zone_ids, ids), len(zone_ids) - 1)
    return np.where((zone_ids[at] == ids) & (ids != NO_ZONE), at, NONE).astype(np.int32)


def _held(agents: Records, zone_index: I32, readiness: U8) -> I32:
    """The zone each ready agent in mode 2 keeps; where two work in one zone, the lower id keeps it."""
    held = np.full(len(agents), NONE, np.int32)
    working = np.flatnonzero((readiness == 0) & (agents["mode"] == AgentMode.WORKING) & (zone_index != NONE))
    if len(working) == 0:
        return held
    _, first = np.unique(zone_index[working], return_index=True)
    held[working[first]] = zone_index[working[first]]
    return held


def _components(agents: Records, x: F32, y: F32, grid: Grid | None) -> tuple[U32, U32]:
    if grid is None:
        return np.zeros(len(agents), np.uint32), np.zeros(len(x), np.uint32)
    return grid.component_of(agents["x"], agents["y"]), grid.component_of(x, y)

"""Whether an agent may be given work, and whether a zone may be served; each with the first reason that holds."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from coord import backend
from coord.ground.grid import Grid
from coord.ground.obstacle import Shapes, shapes_of
from coord.ground.rings import Rings
from coord.records import (
    AGENT_DTYPE,
    CONFIG_DTYPE,
    OBSTACLE_DTYPE,
    ZONE_DTYPE,
    AgentMode,
    AgentState,
    Obstacle,
    PlanConfig,
    Records,
    WorkZone,
    as_records,
)
from tensor.float_mode import plain_mode

U64 = NDArray[np.uint64]


class AgentReadiness(IntEnum):
    """0 ready, else the first reason that holds; INVALID comes from the stand-alone functions only."""

    READY = 0
    INVALID = 1
    BAD_MODE = 2
    OFFLINE = 3
    MEMORY_EXPIRED = 4
    STOPPED = 5
    LOW_ENERGY = 6


class ZoneReadiness(IntEnum):
    """0 ready, else the first reason that holds; INVALID comes from the stand-alone functions only."""

    READY = 0
    INVALID = 1
    BLOCKED = 2


def _magnitude(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(values).view(np.uint32) & np.uint32(0x7FFFFFFF)


def _normal_positive(speed: NDArray[np.float32]) -> NDArray[np.bool_]:
    bits = np.ascontiguousarray(speed).view(np.uint32)
    return (bits >= 0x00800000) & (bits < 0x7F800000)


def stale_ticks(agents: Records, now_tick: int) -> tuple[U64, NDArray[np.bool_]]:
    """(ticks since each agent was seen, which agents are ahead of the clock and count as 0)."""
    seen = agents["last_seen_tick"]
    ahead = seen > np.uint64(now_tick)
    return np.where(ahead, np.uint64(0), np.uint64(now_tick) - seen), ahead


def agents_readiness(agents: Records, config: Records, now_tick: int) -> NDArray[np.uint8]:
    """AgentReadiness of each agent; config is CONFIG_DTYPE[1]. Compares integers and bits only, except energy."""
    stale, _ = stale_ticks(agents, now_tick)
    finite = np.ones(len(agents), np.bool_)
    for name in ("x", "y", "z", "speed", "energy"):
        finite &= _magnitude(agents[name]) < 0x7F800000
    mode = agents["mode"]
    bad_mode = (mode == AgentMode.CHARGING) | (mode >= AgentMode.FAULT)
    expired = (stale > agents["memory_ticks"]) | (stale > np.uint64(config["max_stale_ticks"][0]))
    out = np.zeros(len(agents), np.uint8)
    low = agents["energy"] < config["min_energy"][0]
    stopped = ~_normal_positive(agents["speed"])
    if not (low | stopped | expired | bad_mode | ~finite).any() and not (mode == AgentMode.OFFLINE).any():
        return out
    out[low] = AgentReadiness.LOW_ENERGY
    out[stopped] = AgentReadiness.STOPPED
    out[expired] = AgentReadiness.MEMORY_EXPIRED
    out[mode == AgentMode.OFFLINE] = AgentReadiness.OFFLINE
    out[bad_mode] = AgentReadiness.BAD_MODE
    out[~finite] = AgentReadiness.INVALID
    return out


def agent_stale_ticks(agent: AgentState, now_tick: int) -> int:
    """now - last_seen, or 0 where last_seen lies in the future (`agent_clock_ahead`).

    >>> agent_stale_ticks(AgentState(id=1, last_seen_tick=30), 120)
    90
    """
    return max(0, now_tick - agent.last_seen_tick)


def agent_clock_ahead(agent: AgentState, now_tick: int) -> bool:
    """Whether the agent was seen after now: what sets bit 0 of a frame's flags."""
    return agent.last_seen_tick > now_tick


def agent_memory_remaining_ticks(agent: AgentState, now_tick: int) -> int:
    """max(0, memory_ticks - stale)."""
    return max(0, agent.memory_ticks - agent_stale_ticks(agent, now_tick))


def agent_memory_valid(agent: AgentState, now_tick: int) -> bool:
    """Whether stale ≤ memory_ticks, boundary included.

    >>> agent = AgentState(id=1, memory_ticks=50)
    >>> agent_memory_valid(agent, 50), agent_memory_valid(agent, 51)
    (True, False)
    """
    return agent_stale_ticks(agent, now_tick) <= agent.memory_ticks


@plain_mode()
def agent_can_travel(agent: AgentState) -> bool:
    """Whether speed is a normal float32 above 0.

    >>> agent_can_travel(AgentState(id=1, speed=1e-40)), agent_can_travel(AgentState(id=1, speed=0.5))
    (False, True)
    """
    return bool(_normal_positive(np.array([agent.speed], np.float32))[0])


@plain_mode()
def agent_readiness(agent: AgentState, config: PlanConfig, now_tick: int) -> AgentReadiness:
    """The first that holds of invalid, bad mode, offline, memory expired, stopped, low energy; else ready."""
    record = as_records([agent], AGENT_DTYPE, "agents")
    settings = as_records([config], CONFIG_DTYPE, "config")
    return AgentReadiness(int(agents_readiness(record, settings, now_tick)[0]))


def zones_blocked(zones: Records, shapes: Shapes, grid: Grid | None) -> NDArray[np.bool_]:
    """Whether each zone centre lies within reach of an obstacle, on a blocked cell, or outside the grid."""
    x, y = np.ascontiguousarray(zones["x"]), np.ascontiguousarray(zones["y"])
    blocked = backend.blocked_points(x, y, shapes)
    if grid is not None:
        blocked = blocked | (grid.component_of(x, y) == 0)
    return blocked


@plain_mode()
def zone_blocked(
    zone: WorkZone,
    obstacles: Records | Iterable[Obstacle],
    *,
    rings: Rings | None = None,
    grid: Grid | None = None,
    agent: AgentState | None = None,
) -> bool:
    """Whether the zone is blocked; with `agent` also whether the straight way from it is (config flag bit 0).

    >>> zone_blocked(WorkZone(id=1, x=2.0), [Obstacle(id=1, radius=1.5, margin=0.5)])
    True
    """
    shapes = shapes_of(as_records(obstacles, OBSTACLE_DTYPE, "obstacles"), rings or Rings.empty())
    record = as_records([zone], ZONE_DTYPE, "zones")
    if bool(zones_blocked(record, shapes, grid)[0]):
        return True
    if agent is None:
        return False
    ax, ay, bx, by = (np.array([v], np.float32) for v in (agent.x, agent.y, zone.x, zone.y))
    return bool(backend.blocked_segments(ax, ay, bx, by, shapes)[0])


@plain_mode()
def zone_readiness(
    zone: WorkZone,
    obstacles: Records | Iterable[Obstacle],
    *,
    rings: Rings | None = None,
    grid: Grid | None = None,
) -> ZoneReadiness:
    """The first that holds of invalid (a value not finite) and blocked; else ready."""
    record = as_records([zone], ZONE_DTYPE, "zones")
    for name in ("x", "y", "z", "radius", "priority", "energy_cost"):
        if _magnitude(record[name])[0] >= 0x7F800000:
            return ZoneReadiness.INVALID
    return ZoneReadiness.BLOCKED if zone_blocked(zone, obstacles, rings=rings, grid=grid) else ZoneReadiness.READY


def zone_idle_ticks(zone: WorkZone, now_tick: int) -> int:
    """max(0, now - last_served)."""
    return max(0, now_tick - zone.last_served_tick)

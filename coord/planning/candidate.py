"""One agent and one zone: the facts, the score with all its terms, and the first test that fails."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from coord import backend
from coord.checks import POSITION_BITS, magnitude
from coord.fields.field import cover_and_avoid
from coord.frames.digest import sorted_by_id
from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.planning.plan_ref import quantise, travel_fraction, travel_ticks
from coord.planning.readiness import (
    AgentReadiness,
    ZoneReadiness,
    agent_can_travel,
    agent_readiness,
    zone_blocked,
    zone_idle_ticks,
    zone_readiness,
)
from coord.records import (
    CONFIG_DTYPE,
    COORD_UNREACHABLE_TRAVEL_TIME,
    KERNEL_DTYPE,
    AgentState,
    GaussianKernel,
    Obstacle,
    PlanConfig,
    Records,
    WorkZone,
    as_records,
)
from coord.status import CoordStatus
from tensor.float_mode import plain_mode

_TERMS = ("priority", "idle", "cover", "avoid", "travel", "switch")


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateFacts:
    """What is known about one agent and one zone before any score: floats are float32 values."""

    agent: int
    zone: int
    valid: bool
    agent_readiness: AgentReadiness
    zone_readiness: ZoneReadiness
    capable: bool
    charged: bool
    blocked: bool  # the zone, or the straight way to it where the config tests it
    way: bool  # both in one region of the grid; True without a grid
    taken: bool
    current: bool
    priority: float
    idle_ticks: int
    idle_norm: float
    cover: float
    avoid: float
    travel: int
    travel_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateScore:
    """The six terms as they are added, left to right (avoid and travel negative), their sum and its integer."""

    priority: float
    idle: float
    cover: float
    avoid: float
    travel: float
    switch: float
    value: float
    score_i32: int
    saturated: bool

    def terms(self) -> dict[str, float]:
        """{name: term}, in the order of addition."""
        return {name: getattr(self, name) for name in _TERMS}


@plain_mode()
def travel_time(agent: AgentState, zone: WorkZone) -> int:
    """Ticks to the zone's centre, 0 within its radius, 0xFFFFFFFF where the agent cannot travel or the way is too long.

    >>> travel_time(AgentState(id=7, speed=1.5), WorkZone(id=3, x=3, y=4, radius=1))
    4
    """
    if not agent_can_travel(agent):
        return COORD_UNREACHABLE_TRAVEL_TIME
    dx, dy, dz, radius = (
        np.array([v], np.float32)
        for v in (
            np.float32(zone.x) - np.float32(agent.x),
            np.float32(zone.y) - np.float32(agent.y),
            np.float32(zone.z) - np.float32(agent.z),
            zone.radius,
        )
    )
    return int(travel_ticks(dx, dy, dz, radius, np.float32(agent.speed))[0])


@plain_mode()
def candidate_facts(
    agent: AgentState,
    zone: WorkZone,
    obstacles: Records | Iterable[Obstacle],
    kernels: Records | Iterable[GaussianKernel],
    config: PlanConfig,
    *,
    now_tick: int,
    rings: Rings | None = None,
    grid: Grid | None = None,
    taken: bool = False,
) -> CandidateFacts:
    """Everything `candidate_status` and `score_candidate` need; an invalid input is a fact here, not an error.

    >>> facts = candidate_facts(AgentState(id=7), WorkZone(id=3, x=3, y=4), [], [], PlanConfig(), now_tick=5)
    >>> facts.travel, facts.idle_ticks, facts.capable, facts.blocked
    (5, 5, True, False)
    """
    x, y = np.array([zone.x], np.float32), np.array([zone.y], np.float32)
    ax, ay = np.array([agent.x], np.float32), np.array([agent.y], np.float32)
    places = np.array([agent.x, agent.y, agent.z, zone.x, zone.y, zone.z], np.float32)
    numbers = np.array([agent.speed, agent.energy, zone.radius, zone.priority, zone.energy_cost], np.float32)
    valid = bool((magnitude(places) <= POSITION_BITS).all() and (magnitude(numbers) < 0x7F800000).all())
    ordered = sorted_by_id(as_records(kernels, KERNEL_DTYPE, "kernels"))  # the field adds them by ascending id
    cover, avoid = cover_and_avoid(ordered, x, y, np.float32(config.cutoff_sigmas))
    idle = zone_idle_ticks(zone, now_tick)
    way = True
    if grid is not None and valid:
        a, z = int(grid.component_of(ax, ay)[0]), int(grid.component_of(x, y)[0])
        way = a != 0 and z in (0, a)
    walker = agent if config.flags & 1 else None
    return CandidateFacts(
        agent=agent.id,
        zone=zone.id,
        valid=valid,
        agent_readiness=agent_readiness(agent, config, now_tick),
        zone_readiness=zone_readiness(zone, obstacles, rings=rings, grid=grid) if valid else ZoneReadiness.INVALID,
        capable=(agent.caps & zone.need_caps) == zone.need_caps,
        charged=bool(np.float32(agent.energy) >= np.float32(max(config.min_energy, zone.energy_cost))),
        blocked=valid and zone_blocked(zone, obstacles, rings=rings, grid=grid, agent=walker),
        way=way,
        taken=taken,
        current=agent.zone == zone.id,
        priority=float(np.float32(zone.priority)),
        idle_ticks=idle,
        idle_norm=float(backend.idle_norm(np.array([idle], np.uint64), config.idle_cap_ticks)[0]),
        cover=float(cover[0]),
        avoid=float(avoid[0]),
        travel=travel_time(agent, zone) if valid else COORD_UNREACHABLE_TRAVEL_TIME,
        travel_max=config.max_travel_ticks,
    )


def candidate_status(facts: CandidateFacts) -> CoordStatus:
    """The first failing test: input 10, stale 2, ready 3, capability 9, energy 8, blocked 5, travel 4, taken 7.

    >>> zone = WorkZone(id=3, x=3, y=4, need_caps=2)
    >>> candidate_status(candidate_facts(AgentState(id=7, caps=1), zone, [], [], PlanConfig(), now_tick=5)).name
    'MISSING_CAPABILITY'
    """
    tests = (
        (not facts.valid, CoordStatus.INVALID_INPUT),
        (facts.agent_readiness == AgentReadiness.MEMORY_EXPIRED, CoordStatus.STALE_AGENT),
        (facts.agent_readiness in (AgentReadiness.BAD_MODE, AgentReadiness.OFFLINE), CoordStatus.AGENT_NOT_READY),
        (not facts.capable, CoordStatus.MISSING_CAPABILITY),
        (not facts.charged, CoordStatus.LOW_ENERGY),
        (facts.blocked, CoordStatus.ZONE_BLOCKED),
        (
            facts.travel == COORD_UNREACHABLE_TRAVEL_TIME or facts.travel > facts.travel_max or not facts.way,
            CoordStatus.UNREACHABLE,
        ),
        (facts.taken, CoordStatus.CONFLICT),
    )
    return next((status for failed, status in tests if failed), CoordStatus.OK)


@plain_mode()
def score_candidate(facts: CandidateFacts, config: PlanConfig) -> CandidateScore:
    """Every term in float32 as it is added, left to right, and round-half-even(sum · 65536), saturating.

    >>> zone = WorkZone(id=3, x=3, y=4, priority=2)
    >>> facts = candidate_facts(AgentState(id=7), zone, [], [], PlanConfig(), now_tick=0)
    >>> score = score_candidate(facts, PlanConfig(max_travel_ticks=10))
    >>> score.priority, score.travel, score.value, score.score_i32
    (2.0, -0.5, 1.5, 98304)
    """
    record = as_records([config], CONFIG_DTYPE, "config")[0]
    fraction = travel_fraction(np.array([facts.travel], np.uint32), config.max_travel_ticks)[0]
    with np.errstate(over="ignore", invalid="ignore"):
        terms = (
            record["w_priority"] * np.float32(facts.priority),
            record["w_idle"] * np.float32(facts.idle_norm),
            record["w_cover"] * np.float32(facts.cover),
            -(record["w_avoid"] * np.float32(facts.avoid)),
            -(record["w_travel"] * fraction),
            record["w_switch"] if facts.current else np.float32(0),
        )
        value = terms[0]
        for term in terms[1:]:
            value = value + term
    score, saturated = quantise(np.array([value], np.float32))
    return CandidateScore(
        **{name: float(term) for name, term in zip(_TERMS, terms, strict=True)},
        value=float(value),
        score_i32=int(score[0]),
        saturated=bool(saturated[0]),
    )

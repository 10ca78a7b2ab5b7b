"""plan: from agents, zones, obstacles and kernels to one row an agent, the same bytes everywhere.

The definition of candidates, greedy, swap and statuses is docs/planning.md; coord/planning/plan_ref.py is its twin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coord import backend
from coord.checks import EXTERNAL
from coord.errors import PlannerError
from coord.frames.frame import (
    FLAG_CLOCK_AHEAD,
    FLAG_SCORE_SATURATED,
    FLAG_WORK_BOUND,
    DecisionFrame,
    encode_frame_event,
    rows_digest,
)
from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.health import CoordHealth, coord_health
from coord.planning.auction import auction_assignment
from coord.planning.exact import exact_assignment
from coord.planning.greedy import greedy_assignment
from coord.planning.problem import I32, NONE, Problem
from coord.planning.queues import QueueRound, plan_rounds, with_queues
from coord.planning.readiness import AgentReadiness, ZoneReadiness
from coord.planning.situation import Situation, situation
from coord.planning.swap import swap_assignment
from coord.planning.workspace import Workspace
from coord.records import (
    CONFIG_DTYPE,
    COORD_UNREACHABLE_TRAVEL_TIME,
    NO_ZONE,
    ROW_DTYPE,
    AgentState,
    GaussianKernel,
    Obstacle,
    PlanConfig,
    Records,
    WorkZone,
    as_records,
)
from coord.status import Assignment, AssignmentStats, CoordStatus
from tensor import memory
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from coord.explaining.explain import Explanation

_MANY = 1 << 16  # agents and zones: from here on a plan takes tens of megabytes
_OWN_FAILURE = np.array(
    [
        CoordStatus.IDLE_NO_ZONE,
        CoordStatus.INVALID_INPUT,
        CoordStatus.AGENT_NOT_READY,
        CoordStatus.AGENT_NOT_READY,
        CoordStatus.STALE_AGENT,
        CoordStatus.IDLE_NO_ZONE,
        CoordStatus.LOW_ENERGY,
    ],
    np.uint8,
)


@dataclass(frozen=True, eq=False)
class Plan:
    """One decision: rows ascending by agent id, and what they add up to.

    `rows` is ROW_DTYPE[n], or more with queues: an agent's later zones follow its first. `flags` are those of the frame
    (bit 0 a clock ahead, bit 1 a score saturated, bit 2 a work bound reached); `work` counts swap tests or bids.
    """

    rows: Records
    stats: AssignmentStats
    health: CoordHealth
    flags: int
    work: int
    situation: Situation = field(repr=False)
    assigned: I32 = field(repr=False)  # zone of each planned agent, as indices of situation.problem
    proven_bound: int | None = field(default=None, repr=False, kw_only=True)  # what an auction has proven

    @property
    def input_digest(self) -> bytes:
        """16 bytes that pin the inputs."""
        return self.situation.input_digest

    @cached_property
    def assignments(self) -> tuple[Assignment, ...]:
        """The rows as dataclasses."""
        return tuple(Assignment.from_record(row) for row in self.rows)

    @cached_property
    @plain_mode()
    def bound(self) -> int:
        """An upper bound of score_sum (docs/planning.md, Bound and gap).

        Where an auction has proven one (planners auction and exact, and what `prove` returns): over every assignment
        that gives as many agents a zone. Else over every assignment of these agents: the sum of the min(n, m) highest
        of each planned agent's best score, negative ones counted as 0.
        """
        if self.proven_bound is not None:
            return self.proven_bound
        problem = self.situation.problem
        best = backend.candidates(problem, 1)
        scores = np.maximum(best.score[best.count > 0, 0] if best.score.shape[1] else np.zeros(0, np.int32), 0)
        top = np.sort(scores)[::-1][: len(problem.zones)]
        return int(top.sum(dtype=np.int64))

    @cached_property
    def gap(self) -> float:
        """(bound - score_sum) / max(1, |bound|): the plan is at most this far from the best score_sum."""
        return (self.bound - self.stats.score_sum) / max(1, abs(self.bound))

    @plain_mode()
    def prove(self, work_budget: int = 0) -> Plan:
        """This plan with the bound that an auction of the same inputs proves; the rows stay as they are.

        `work_budget` bounds the bids, 0 is the auction's own bound. A proven bound that is better is kept.

        >>> made = plan([AgentState(id=7)], [WorkZone(id=3, x=3, y=4)], [], [], PlanConfig(), now_tick=0)
        >>> made.prove().gap
        0.0
        """
        config = self.situation.config[0]
        sold = auction_assignment(
            self.situation.problem, int(config["k_candidates"]), int(config["idle_score"]), work_budget
        )
        bound = sold.score_bound(self.assigned)
        return replace(self, proven_bound=bound if self.proven_bound is None else min(bound, self.proven_bound))

    def frame(self, frame_id: int, prev_digest: bytes = bytes(16)) -> DecisionFrame:
        """The frame of this plan; `prev_digest` is that of the frame before, zeros for frame 0."""
        config = self.situation.config
        return DecisionFrame(
            frame_id=frame_id,
            tick=self.situation.now_tick,
            config_hash=PlanConfig.from_record(config[0]).hash(),
            input_digest=self.input_digest,
            rows_digest=rows_digest(self.rows),
            prev_digest=prev_digest,
            agents=self.stats.agents,
            zones=self.stats.zones,
            assigned=self.stats.assigned,
            rejected=self.stats.rejected,
            conflicts=self.stats.conflicts,
            stale_agents=self.stats.stale_agents,
            blocked_zones=self.stats.blocked_zones,
            unsafe=self.stats.unsafe,
            score_sum=self.stats.score_sum,
            planner=int(config["planner"][0]),
            health=int(self.health),
            flags=self.flags,
        )

    def event(self, frame_id: int, prev_digest: bytes = bytes(16)) -> bytes:
        """The effect bytes of this plan's `coord.frame` event: the frame, then the rows."""
        return encode_frame_event(self.frame(frame_id, prev_digest), self.rows)

    def explain(self, agent_id: int) -> Explanation:
        """Why the agent has its zone and no other."""
        from coord.explaining.explain import explain_situation  # 0.5 MB that a plan does not need

        return explain_situation(self.situation, self.rows, agent=agent_id)


@plain_mode()
def plan(
    agents: Records | Iterable[AgentState],
    zones: Records | Iterable[WorkZone],
    obstacles: Records | Iterable[Obstacle],
    kernels: Records | Iterable[GaussianKernel],
    config: Records | PlanConfig,
    *,
    now_tick: int,
    rings: Rings | None = None,
    grid: Grid | None = None,
    workspace: Workspace | None = None,
) -> Plan:
    """Decide which agent serves which zone at `now_tick`, with the planner that the config names.

    Inputs are record arrays (coord.AGENT_DTYPE …) in any row order, or the dataclasses; docs/formats/records.md has
    every field. Positions in metres east-north-up, times in ticks. The exact algorithm is docs/planning.md.

    rings: the corners of polygon obstacles (kind 1), `Rings.of([[(x, y), …], …])`; `Obstacle.ring` is an index into
    them. grid: for a fleet that drives on cells, the `Grid` with its blocked ones. With it a zone on a blocked cell or
    off the grid is blocked, and an agent reaches only zones in the 4-connected region of free cells that it stands in.
    Without it agents go straight.

    workspace: memory that the caller owns, for the kernels' scratch and the lists of candidates; it changes no byte.
    One that is too small raises TooLargeError, one that another plan works in ValueError.

    Raises BadInput (table, row, field) for a value that cannot be planned with, PlannerError for a planner this
    version does not have, TypeError for arrays of another dtype.

    >>> made = plan([AgentState(id=7, speed=1.5)], [WorkZone(id=3, x=3, y=4)], [], [], PlanConfig(), now_tick=0)
    >>> [(row.agent, row.zone, row.travel) for row in made.assignments]
    [(7, 3, 4)]
    """
    seen = situation(agents, zones, obstacles, kernels, config, now_tick=now_tick, rings=rings, grid=grid)
    if workspace is None:
        return plan_situation(seen)
    with workspace.lent(len(seen.agents), len(seen.zones), int(seen.config["k_candidates"][0]), len(seen.obstacles)):
        return plan_situation(seen)


def plan_situation(seen: Situation) -> Plan:
    """The plan of inputs that are checked already."""
    if seen.config["planner"][0] == EXTERNAL:
        raise PlannerError("config.planner 4 is somebody else's planner (hint: plan_external(planner, agents, …))")
    if len(seen.agents) + len(seen.zones) >= _MANY:
        memory.give_back()  # checks and columns left holes as large as what the kernels are about to take
    made = _decide(seen, seen.problem)
    rounds: list[_Decision] = []

    def decide(problem: Problem) -> I32:
        rounds.append(_decide(seen, problem))
        return rounds[-1].assigned

    queues = plan_rounds(seen, made.assigned, decide)
    work = made.work + sum(one.work for one in rounds)
    limited = made.bound_reached or any(one.bound_reached for one in rounds)
    return replace(finish(seen, made.assigned, work, limited, queues), proven_bound=made.bound)


def plan_greedy(
    agents: Records | Iterable[AgentState],
    zones: Records | Iterable[WorkZone],
    obstacles: Records | Iterable[Obstacle],
    kernels: Records | Iterable[GaussianKernel],
    config: Records | PlanConfig,
    *,
    now_tick: int,
    rings: Rings | None = None,
    grid: Grid | None = None,
) -> Plan:
    """`plan` with planner 0, whatever the config says.

    >>> agents, zones = [AgentState(id=1), AgentState(id=2, x=4)], [WorkZone(id=1, x=3), WorkZone(id=2, x=8)]
    >>> made = plan_greedy(agents, zones, [], [], PlanConfig(), now_tick=0)
    >>> [(row.agent, row.zone, row.travel) for row in made.assignments]
    [(1, 2, 8), (2, 1, 1)]
    """
    return plan(agents, zones, obstacles, kernels, with_planner(config, 0), now_tick=now_tick, rings=rings, grid=grid)


def plan_swap(
    agents: Records | Iterable[AgentState],
    zones: Records | Iterable[WorkZone],
    obstacles: Records | Iterable[Obstacle],
    kernels: Records | Iterable[GaussianKernel],
    config: Records | PlanConfig,
    *,
    now_tick: int,
    rings: Rings | None = None,
    grid: Grid | None = None,
) -> Plan:
    """`plan` with planner 1, whatever the config says.

    >>> agents, zones = [AgentState(id=1), AgentState(id=2, x=4)], [WorkZone(id=1, x=3), WorkZone(id=2, x=8)]
    >>> made = plan_swap(agents, zones, [], [], PlanConfig(), now_tick=0)
    >>> [(row.agent, row.zone, row.travel) for row in made.assignments]
    [(1, 1, 3), (2, 2, 4)]
    """
    return plan(agents, zones, obstacles, kernels, with_planner(config, 1), now_tick=now_tick, rings=rings, grid=grid)


def plan_auction(
    agents: Records | Iterable[AgentState],
    zones: Records | Iterable[WorkZone],
    obstacles: Records | Iterable[Obstacle],
    kernels: Records | Iterable[GaussianKernel],
    config: Records | PlanConfig,
    *,
    now_tick: int,
    rings: Rings | None = None,
    grid: Grid | None = None,
) -> Plan:
    """`plan` with planner 2, whatever the config says: its `gap` is proven by prices.

    >>> agents, zones = [AgentState(id=1), AgentState(id=2, x=4)], [WorkZone(id=1, x=3), WorkZone(id=2, x=8)]
    >>> made = plan_auction(agents, zones, [], [], PlanConfig(), now_tick=0)
    >>> [(row.agent, row.zone, row.travel) for row in made.assignments], made.gap
    ([(1, 1, 3), (2, 2, 4)], 0.0)
    """
    return plan(agents, zones, obstacles, kernels, with_planner(config, 2), now_tick=now_tick, rings=rings, grid=grid)


def plan_exact(
    agents: Records | Iterable[AgentState],
    zones: Records | Iterable[WorkZone],
    obstacles: Records | Iterable[Obstacle],
    kernels: Records | Iterable[GaussianKernel],
    config: Records | PlanConfig,
    *,
    now_tick: int,
    rings: Rings | None = None,
    grid: Grid | None = None,
) -> Plan:
    """`plan` with planner 3, whatever the config says: the optimum, by scipy, for at most 2^24 pairs (TooLargeError).

    >>> agents, zones = [AgentState(id=1), AgentState(id=2, x=4)], [WorkZone(id=1, x=3), WorkZone(id=2, x=8)]
    >>> made = plan_exact(agents, zones, [], [], PlanConfig(), now_tick=0)
    >>> [(row.agent, row.zone, row.travel) for row in made.assignments], made.gap
    ([(1, 1, 3), (2, 2, 4)], 0.0)
    """
    return plan(agents, zones, obstacles, kernels, with_planner(config, 3), now_tick=now_tick, rings=rings, grid=grid)


def with_planner(config: Records | PlanConfig, planner: int) -> Records | PlanConfig:
    """The config with another planner."""
    if isinstance(config, PlanConfig):
        return replace(config, planner=planner)
    out = as_records(config, CONFIG_DTYPE, "config").copy()
    out["planner"] = planner
    return out


class _Decision(NamedTuple):
    assigned: I32
    work: int
    bound_reached: bool
    bound: int | None = None


def _decide(seen: Situation, problem: Problem) -> _Decision:
    """The assignment of one problem of the situation by the planner that its config names."""
    config = seen.config[0]
    if config["planner"] == 0:
        return _Decision(greedy_assignment(problem), 0, False)
    if config["planner"] == 2:
        sold = auction_assignment(
            problem, int(config["k_candidates"]), int(config["idle_score"]), int(config["work_budget"])
        )
        return _Decision(sold.assigned, sold.bids, sold.bound_reached, sold.score_bound(sold.assigned))
    if config["planner"] == 3:
        best = exact_assignment(problem, int(config["idle_score"]))
        return _Decision(best.assigned, 0, False, best.score_sum)
    made = swap_assignment(problem, int(config["k_candidates"]), int(config["work_budget"]))
    return _Decision(made.assigned, made.tests, made.bound_reached)


def finish(seen: Situation, assigned: I32, work: int, bound_reached: bool, queues: list[QueueRound]) -> Plan:
    """The plan of an assignment of the situation's problem (index of a zone for each planned agent, or -1)."""
    problem = seen.problem
    score, travel, saturated = backend.pair_values(problem, assigned)
    has_zone = assigned != NONE
    rows = np.zeros(len(seen.agents), ROW_DTYPE)
    rows["agent"] = seen.agents["id"]
    rows["mode"] = seen.agents["mode"]
    rows["stale"] = np.minimum(seen.stale, np.uint64(0xFFFFFFFF))
    status = _OWN_FAILURE[seen.readiness]
    zone = seen.held.copy()
    sent = seen.planned[has_zone]
    zone[sent] = seen.offered[assigned[has_zone]]
    got = zone != NONE
    served = slice(None) if got.all() else got
    status[served] = CoordStatus.OK
    leftover = np.flatnonzero(~got & ((seen.readiness == 0) | (seen.readiness == AgentReadiness.STOPPED)))
    if len(leftover) and len(problem.zones):
        taken = np.zeros(len(problem.zones), np.uint8)
        taken[assigned[has_zone]] = 1
        status[leftover] = backend.leftover_status(problem, seen.facts.take(leftover), taken)
    column = np.zeros(len(rows), np.int32)
    column[seen.planned] = score
    ticks = np.full(len(rows), COORD_UNREACHABLE_TRAVEL_TIME, np.uint32)
    ticks[served] = 0
    ticks[sent] = travel[has_zone]
    at = zone[served]
    names = np.full(len(rows), NO_ZONE, np.uint32)
    names[served] = seen.zones["id"][at]
    idle = np.zeros(len(rows), np.uint32)
    idle[served] = np.minimum(seen.idle[at], np.uint64(0xFFFFFFFF))
    reason = seen.readiness.astype(np.uint16)
    if seen.blocked.any():
        reason[served] += np.where(seen.blocked[at], np.uint16(256 * ZoneReadiness.BLOCKED), np.uint16(0))
    rows["zone"], rows["status"], rows["reason"] = names, status, reason
    rows["score"], rows["travel"], rows["idle"] = column, ticks, idle
    rows, queued_saturated = with_queues(seen, rows, queues)
    stats = AssignmentStats.of(rows, zones=len(seen.zones), blocked_zones=int(seen.blocked.sum()))
    flags = (
        FLAG_CLOCK_AHEAD * bool(seen.ahead.any())
        + FLAG_SCORE_SATURATED * (queued_saturated or bool(saturated.any()))
        + FLAG_WORK_BOUND * bound_reached
    )
    return Plan(rows, stats, coord_health(stats), flags, work, seen, assigned)

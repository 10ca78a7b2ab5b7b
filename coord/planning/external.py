"""Other people's planners: any callable with the signature of `plan`; what it returns is checked and filled in.

Source: docs/planners.md, which says what a planner may return and what is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from coord import backend
from coord.checks import EXTERNAL
from coord.errors import RowsError
from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.planning.external_rows import Claims, claims_of
from coord.planning.plan import Plan, finish, with_planner
from coord.planning.problem import I32, NONE, Problem
from coord.planning.queues import QueueRound, Standing, later_zones
from coord.planning.readiness import AgentReadiness
from coord.planning.situation import Situation, situation
from coord.records import (
    COORD_UNREACHABLE_TRAVEL_TIME,
    NO_ZONE,
    ROW_DTYPE,
    AgentState,
    GaussianKernel,
    Obstacle,
    PlanConfig,
    Records,
    WorkZone,
)
from coord.status import CoordStatus
from tensor.float_mode import plain_mode

_COMPARED = ("status", "mode", "reason", "score", "travel", "stale", "idle")
Index = npt.NDArray[np.intp]


class Planner(Protocol):
    """Any callable with the signature of `plan`.

    It is given record arrays ascending by id, copies that can't be written to, and the config with planner 4. It
    returns (agent, zone) pairs, or whole rows (ROW_DTYPE), or a `Plan`: docs/planners.md.
    """

    def __call__(
        self,
        agents: Records,
        zones: Records,
        obstacles: Records,
        kernels: Records,
        config: Records,
        *,
        now_tick: int,
        rings: Rings | None = None,
        grid: Grid | None = None,
    ) -> Records | Plan | npt.NDArray[Any] | Iterable[tuple[int, int]]:
        """Who serves which zone."""


@plain_mode()
def plan_external(
    planner: Planner,
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
    """The plan of somebody else's planner, checked, with planner 4 in its frame.

    Everything but who serves which zone is computed here: scores, travel, the statuses of agents without a zone.
    Raises RowsError (agent, field, expected, got) for rows that are refused, BadInput for inputs that can't be planned
    with; what `planner` raises comes through.

    >>> def nearest(agents, zones, obstacles, kernels, config, **rest):
    ...     return [(7, 3)]
    >>> made = plan_external(nearest, [AgentState(id=7)], [WorkZone(id=3, x=3)], [], [], PlanConfig(), now_tick=0)
    >>> made.assignments[0].travel, made.frame(0).planner
    (3, 4)
    """
    seen = situation(
        agents, zones, obstacles, kernels, with_planner(config, EXTERNAL), now_tick=now_tick, rings=rings, grid=grid
    )
    given = [frozen(table) for table in (seen.agents, seen.zones, seen.obstacles, seen.kernels, seen.config)]
    corners = None if rings is None else Rings(frozen(rings.table), frozen(rings.points))
    with foreign_code():
        returned = planner(*given, now_tick=seen.now_tick, rings=corners, grid=grid)
    return checked_plan(seen, returned)


@plain_mode()
def checked_plan(seen: Situation, returned: object, *, compare: bool = True) -> Plan:
    """The plan that these rows or pairs make of the situation; RowsError where they break a rule.

    compare: whether the other fields of whole rows must be what they should be; else they are not looked at.
    """
    claims = claims_of(returned, later_zones(seen.config), len(seen.agents))
    made = _Check(seen, claims).plan()
    if compare and claims.rows is not None:
        _same_fields(made.rows, claims)
    return made


@contextmanager
def foreign_code() -> Iterator[None]:
    """Around somebody else's code: the float mode and numpy's error handling are afterwards what they were before."""
    with np.errstate(), plain_mode():
        yield


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy that can't be written to."""
    out = array.copy()
    out.flags.writeable = False
    return out


def model_name(model: object) -> str:
    """The name under which a run records a model: its `name`, else its `__name__`, else that of its class.

    >>> model_name(plan_external)
    'plan_external'
    """
    for name in (getattr(model, "name", None), getattr(model, "__name__", None)):
        if isinstance(name, str):
            return name
    return type(model).__name__


@dataclass(frozen=True, eq=False)
class _Check:
    seen: Situation
    claims: Claims

    def plan(self) -> Plan:
        seen = self.seen
        agent = self._known_agents()
        zone = self._known_zones()
        self._counted(agent)
        first = self.claims.queue_index == 0
        held = seen.held[agent]
        self._refuse(
            first & (held != NONE) & (zone != held), "zone",
            lambda i: f"{seen.zones['id'][held[i]]}, in which the agent works",
        )  # fmt: skip
        self._once(agent, zone)
        unready = (seen.readiness[agent] != 0) & (zone != NONE)
        self._refuse(
            unready, "zone",
            lambda i: f"{NO_ZONE} (no zone: its readiness is {_readiness(seen.readiness[agent[i]])})",
        )  # fmt: skip
        chosen = first & (zone != NONE) & (held == NONE)
        assigned = self._assignment(seen.problem, agent[chosen], zone[chosen], seen.planned, seen.offered)
        self._feasible(seen.problem, assigned, seen.planned, 0)
        return finish(seen, assigned, 0, False, self._rounds(agent, zone, assigned))

    def _rounds(self, agent: Index, zone: Index, assigned: I32) -> list[QueueRound]:
        rounds = []
        standing = Standing.after_first(self.seen, assigned)
        for index in range(1, int(self.claims.queue_index.max(initial=0)) + 1):
            problem = standing.problem()
            mine = self.claims.queue_index == index
            offered = self.seen.offered[standing.free]
            found = self._assignment(problem, agent[mine], zone[mine], standing.agents, offered)
            self._feasible(problem, found, standing.agents, index)
            rounds.append(QueueRound(standing, problem, found))
            standing = standing.after(found)
        return rounds

    def _known_agents(self) -> Index:
        ids = self.seen.agents["id"]
        at, known = _find(ids, self.claims.agent)
        self._refuse(~known, "agent", lambda i: f"the id of one of the {len(ids)} agents")
        return at

    def _known_zones(self) -> Index:
        ids = self.seen.zones["id"]
        at, known = _find(ids, self.claims.zone)
        none = self.claims.zone == NO_ZONE
        self._refuse(~known & ~none, "zone", lambda i: f"the id of one of the {len(ids)} zones, or {NO_ZONE}")
        self._refuse(none & (self.claims.queue_index > 0), "zone", lambda i: "a zone in a queued row")
        return np.where(none, NONE, at)

    def _counted(self, agent: Index) -> None:
        """Each agent's rows count up from 0; whole rows name every agent."""
        claims = self.claims
        order = np.lexsort((claims.queue_index, agent))
        same = np.concatenate([[False], agent[order][1:] == agent[order][:-1]])[: len(order)]
        start = np.flatnonzero(~same)
        wanted = np.arange(len(order)) - np.repeat(start, np.diff(np.append(start, len(order))))
        expected = np.empty(len(order), np.int64)
        expected[order] = wanted
        self._refuse(claims.queue_index != expected, "queue_index", lambda i: f"{expected[i]}, no gaps, none twice")
        self._refuse(claims.queue_index > claims.later, "queue_index", lambda i: f"at most {claims.later}")
        alone = np.zeros(len(order), np.bool_)
        alone[order[1:]] = same[1:] & (claims.zone[order[:-1]] == NO_ZONE)
        self._refuse(alone, "queue_index", lambda i: "no queue of an agent without a zone")
        if claims.rows is not None:
            missing = np.setdiff1d(np.arange(len(self.seen.agents)), agent)
            if len(missing):
                raise RowsError(None, "agent", int(self.seen.agents["id"][missing[0]]), "a row", "none")

    def _once(self, agent: Index, zone: Index) -> None:
        """No zone twice; a zone in which an agent works is that agent's, named or not."""
        seen = self.seen
        silent = np.flatnonzero((seen.held != NONE) & ~np.isin(np.arange(len(seen.agents)), agent))
        has = np.flatnonzero(zone != NONE)
        who, at = np.concatenate([silent, agent[has]]), np.concatenate([seen.held[silent], zone[has]])
        row = np.concatenate([np.full(len(silent), -1), has])
        order = np.lexsort((row, at))
        again = np.flatnonzero(at[order][1:] == at[order][:-1])
        if len(again):
            worst = again[np.argmin(row[order[again + 1]])]
            other, mine = order[worst], order[worst + 1]
            identity = int(seen.zones["id"][at[mine]])
            other_id, mine_id = int(seen.agents["id"][who[other]]), int(seen.agents["id"][who[mine]])
            told = f"{identity} again, which is agent {other_id}'s"
            raise RowsError(int(row[mine]), "zone", mine_id, "a zone that is nobody else's", told)

    def _assignment(self, problem: Problem, agent: Index, zone: Index, agents: Index, zones: Index) -> I32:
        """Zone of each agent of a problem by index, where `agents` and `zones` are those of the problem."""
        assigned = np.full(len(problem.agents), NONE, np.int32)
        assigned[np.searchsorted(agents, agent)] = np.searchsorted(zones, zone)
        return assigned

    def _feasible(self, problem: Problem, assigned: I32, agents: Index, queue_index: int) -> None:
        has = np.flatnonzero(assigned != NONE)
        status = pair_status(problem, assigned)[has]
        bad = np.flatnonzero(status != CoordStatus.OK)
        if len(bad) == 0:
            return
        who = has[bad[0]]
        identity = int(self.seen.agents["id"][agents[who]])
        row = np.flatnonzero((self.claims.agent == identity) & (self.claims.queue_index == queue_index))[0]
        told = CoordStatus(int(status[bad[0]])).name.lower()
        got = f"{int(self.claims.zone[row])} ({told})"
        raise RowsError(int(row), "zone", identity, "a zone that the agent may serve", got)

    def _refuse(self, bad: npt.NDArray[np.bool_], field: str, expected: Any) -> None:
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            got = int(getattr(self.claims, field)[i])
            raise RowsError(i, field, int(self.claims.agent[i]), expected(i), got)


def pair_status(problem: Problem, assigned: I32) -> npt.NDArray[np.uint8]:
    """The first failing test of each agent with its zone: capability 9, energy 8, blocked 5, travel 4; else 0.

    `assigned` is the zone of each agent of the problem by index, or -1 (then 0).
    """
    out = np.zeros(len(assigned), np.uint8)
    has = np.flatnonzero(assigned != NONE)
    if len(has) == 0:
        return out
    at, agents, zones = assigned[has], problem.agents.take(has), problem.zones
    travel = backend.pair_values(problem, assigned)[1][has]
    near = (travel != COORD_UNREACHABLE_TRAVEL_TIME) & (travel <= np.uint32(problem.max_travel))
    if problem.grid:
        component = zones.component[at]
        near &= (agents.component != 0) & ((component == 0) | (component == agents.component))
    clear = zones.blocked[at] == 0
    if problem.shapes is not None:
        x, y = np.ascontiguousarray(zones.x[at]), np.ascontiguousarray(zones.y[at])
        clear &= ~backend.blocked_segments(agents.x, agents.y, x, y, problem.shapes)
    status = np.where(near, CoordStatus.OK, CoordStatus.UNREACHABLE)
    status = np.where(clear, status, CoordStatus.ZONE_BLOCKED)
    status = np.where(agents.energy >= zones.cost[at], status, CoordStatus.LOW_ENERGY)
    capable = (agents.caps & zones.need[at]) == zones.need[at]
    out[has] = np.where(capable, status, CoordStatus.MISSING_CAPABILITY)
    return out


def _find(ids: Records, wanted: npt.NDArray[np.uint32]) -> tuple[Index, npt.NDArray[np.bool_]]:
    """(index of each id among the ascending ids, 0 where it is not; whether it is there)."""
    if len(ids) == 0:
        return np.zeros(len(wanted), np.intp), np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    known = ids[at] == wanted
    return np.where(known, at, 0), known


def _readiness(code: Any) -> str:
    return AgentReadiness(int(code)).name.lower()


def _same_fields(made: Records, claims: Claims) -> None:
    """Whole rows say what was computed here; the first that does not, in the order of agents, is named."""
    assert claims.rows is not None
    order = np.lexsort((claims.rows["queue_index"], claims.rows["agent"]))
    got = claims.rows[order]
    wrong = np.stack([made[name] != got[name] for name in _COMPARED])
    if wrong.any():
        i = int(np.flatnonzero(wrong.any(axis=0))[0])
        name = _COMPARED[int(np.flatnonzero(wrong[:, i])[0])]
        raise RowsError(int(order[i]), name, int(made["agent"][i]), int(made[name][i]), int(got[name][i]))


assert set(_COMPARED) | {"agent", "zone", "queue_index"} == set(ROW_DTYPE.names or ())

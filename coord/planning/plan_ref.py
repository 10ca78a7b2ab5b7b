"""Twin of kernels/plan*.cpp: the definition of pair scores, candidates, greedy, swap and leftover statuses.

Plain and slow (every agent against every zone); docs/planning.md says the same in words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coord.ground.obstacle_ref import blocked_segments
from coord.planning.exchange_sets import exchange_sets, is_whole
from coord.planning.problem import F32, I32, NONE, U8, U32, Agents, Candidates, Problem
from coord.status import CoordStatus

SWEEPS_MAX = 10
UNREACHABLE = np.uint32(0xFFFFFFFF)
_I32_MAX, _I32_MIN = 2**31 - 1, -(2**31)


def zone_base(priority: F32, idle_norm: F32, cover: F32, avoid: F32, weights: F32) -> F32:
    """w_priority·priority + w_idle·idle_norm + w_cover·cover - w_avoid·avoid, left to right; NaN canonical."""
    with np.errstate(over="ignore", invalid="ignore"):
        base = ((weights[0] * priority + weights[1] * idle_norm) + weights[2] * cover) - weights[3] * avoid
    return np.where(np.isnan(base), np.float32(np.nan), base)


def idle_norm(idle: NDArray[np.uint64], cap: int) -> F32:
    """min(idle, cap) / cap in float32, 0 when cap is 0."""
    if cap == 0:
        return np.zeros(len(idle), np.float32)
    return np.minimum(idle, np.uint64(cap)).astype(np.float32) / np.float32(cap)


def travel_ticks(dx: F32, dy: F32, dz: F32, radius: F32, speed: np.float32) -> U32:
    """0 within the radius, else ceil(distance / speed); unreachable from 2^32 up. Speed is a normal number above 0."""
    with np.errstate(over="ignore"):
        far = np.sqrt((dx * dx + dy * dy) + dz * dz)
        q = np.ceil(far / speed)
    q = np.where(far <= radius, np.float32(0), q)
    reachable = q < np.float32(2.0**32)
    return np.where(reachable, np.where(reachable, q, 0).astype(np.uint32), UNREACHABLE)


def travel_fraction(travel: U32, max_travel: int) -> F32:
    """min(travel, max) / max in float32, 0 when max is 0."""
    if max_travel == 0:
        return np.zeros(len(travel), np.float32)
    return np.minimum(travel, np.uint32(max_travel)).astype(np.float32) / np.float32(max_travel)


def quantise(score: F32) -> tuple[I32, NDArray[np.bool_]]:
    """(round-half-even(score · 65536) saturated to int32, where it saturated); NaN gives 0 and counts as saturated."""
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.rint(score * np.float32(65536))
        high, low, nan = wide >= np.float32(2.0**31), wide < np.float32(-(2.0**31)), np.isnan(wide)
    out = np.where(high | low | nan, np.float32(0), wide).astype(np.int32)
    out[high] = _I32_MAX
    out[low] = _I32_MIN
    return out, high | low | nan


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """One agent against every zone: arrays of m."""

    travel: U32
    score: I32
    saturated: NDArray[np.bool_]
    capable: NDArray[np.bool_]
    charged: NDArray[np.bool_]
    open: NDArray[np.bool_]  # neither the zone nor the way to it is blocked
    near: NDArray[np.bool_]  # travel within the limit, and a way on the grid

    @property
    def feasible(self) -> NDArray[np.bool_]:
        return self.capable & self.charged & self.open & self.near


def pairs(problem: Problem, agents: Agents, a: int) -> Pairs:
    """Everything about agent `a` of `agents` and each zone of the problem."""
    zones = problem.zones
    speed = agents.speed[a]
    dx, dy, dz = zones.x - agents.x[a], zones.y - agents.y[a], zones.z - agents.z[a]
    if np.float32(0) < speed and speed.view(np.uint32) >= 0x00800000:
        travel = travel_ticks(dx, dy, dz, zones.radius, speed)
    else:
        travel = np.full(len(zones), UNREACHABLE)
    bonus = np.where(np.arange(len(zones)) == agents.current[a], problem.w_switch, np.float32(0))
    with np.errstate(over="ignore", invalid="ignore"):
        value = (zones.base - problem.w_travel * travel_fraction(travel, problem.max_travel)) + bonus
    score, saturated = quantise(value)
    near = (travel != UNREACHABLE) & (travel <= np.uint32(problem.max_travel))
    if problem.grid:
        near &= (zones.component == 0) | ((zones.component == agents.component[a]) & (agents.component[a] != 0))
        near &= agents.component[a] != 0
    way_clear = zones.blocked == 0
    if problem.shapes is not None:
        ax, ay = agents.x[a : a + 1], agents.y[a : a + 1]
        way_clear = way_clear & ~blocked_segments(ax, ay, zones.x, zones.y, problem.shapes)
    return Pairs(
        travel=travel,
        score=score,
        saturated=saturated,
        capable=(agents.caps[a] & zones.need) == zones.need,
        charged=agents.energy[a] >= zones.cost,
        open=way_clear,
        near=near,
    )


def candidates(problem: Problem, k: int) -> Candidates:
    """The k best feasible zones of each agent: higher score, then shorter travel, then lower zone."""
    n, k = len(problem.agents), min(k, len(problem.zones))
    out = Candidates(np.full((n, k), NONE, np.int32), np.zeros((n, k), np.int32), np.zeros(n, np.uint32))
    for a in range(n):
        p = pairs(problem, problem.agents, a)
        index = np.flatnonzero(p.feasible)
        order = np.lexsort((index, p.travel[index], -p.score[index].astype(np.int64)))[:k]
        out.count[a] = len(order)
        out.zone[a, : len(order)] = index[order]
        out.score[a, : len(order)] = p.score[index[order]]
    return out


def list_scores(problem: Problem, found: Candidates) -> Candidates:
    """The same zones with the scores of this problem."""
    score = np.zeros(found.zone.shape, np.int32)
    for a, count in enumerate(found.count):
        score[a, :count] = pairs(problem, problem.agents, a).score[found.zone[a, :count]]
    return Candidates(found.zone, score, found.count)


def greedy(problem: Problem) -> I32:
    """Repeatedly the best feasible pair: higher score, shorter travel, lower zone, lower agent. Zone of each, or -1."""
    assigned = np.full(len(problem.agents), NONE, np.int32)
    rows = []
    for a in range(len(problem.agents)):
        p = pairs(problem, problem.agents, a)
        zone = np.flatnonzero(p.feasible)
        rows.append((-p.score[zone].astype(np.int64), p.travel[zone], zone, np.full(len(zone), a)))
    if not rows:
        return assigned
    score, travel, zone, agent = (np.concatenate(column) for column in zip(*rows, strict=True))
    taken: set[int] = set()
    for i in np.lexsort((agent, zone, travel, score)).tolist():
        a, z = int(agent[i]), int(zone[i])
        if assigned[a] == NONE and z not in taken:
            assigned[a] = z
            taken.add(z)
    return assigned


def swap(
    problem: Problem, found: Candidates, start: I32, budget: int, sweeps: int = SWEEPS_MAX
) -> tuple[I32, int, bool]:
    """(zone of each agent, swap tests made, whether a bound ended it) after at most `sweeps` sweeps from `start`.

    A sweep visits the agents in order and each one's candidates best first; its own zone is passed over, every other
    candidate is one test. A free zone is taken when the agent has none, or when its score is higher. A held zone is
    exchanged when the agent has one, the holder may go there, and the two scores grow together. After a change the
    agent goes on with its next candidate. Sweeps end when one changes nothing (the only end that is no bound), after
    the last one, or before a test beyond the budget; budget 0 is none.
    """
    n, m = len(problem.agents), len(problem.zones)
    assigned = start.copy()
    holder = np.full(m, NONE, np.int64)
    holder[assigned[assigned != NONE]] = np.flatnonzero(assigned != NONE)
    rows = [pairs(problem, problem.agents, a) for a in range(n)]
    feasible = [row.feasible for row in rows]
    tests = 0
    for _ in range(sweeps):
        changed = False
        for a in range(n):
            for c in range(int(found.count[a])):
                z = int(found.zone[a, c])
                own = int(assigned[a])
                if z == own:
                    continue
                if budget and tests == budget:
                    return assigned, tests, True
                tests += 1
                new = int(found.score[a, c])
                b = int(holder[z])
                if b == NONE:
                    if own != NONE and new <= int(rows[a].score[own]):
                        continue
                    if own != NONE:
                        holder[own] = NONE
                elif own == NONE or not feasible[b][own]:
                    continue
                else:
                    before = int(rows[a].score[own]) + int(rows[b].score[z])
                    if new + int(rows[b].score[own]) <= before:
                        continue
                    holder[own], assigned[b] = b, own
                holder[z], assigned[a] = a, z
                changed = True
        if not changed:
            return assigned, tests, False
    return assigned, tests, True


def neighbours(problem: Problem, members: NDArray[np.intp], zones: I32, k: int) -> Candidates:
    """The k nearest feasible of some zones for some agents: shorter travel, then lower zone; other rows are empty."""
    n, k = len(problem.agents), min(k, len(zones))
    out = Candidates(np.full((n, k), NONE, np.int32), np.zeros((n, k), np.int32), np.zeros(n, np.uint32))
    for a in members.tolist():
        p = pairs(problem, problem.agents, a)
        index = zones[p.feasible[zones]]
        order = np.lexsort((index, p.travel[index]))[:k]
        out.count[a] = len(order)
        out.zone[a, : len(order)] = index[order]
        out.score[a, : len(order)] = p.score[index[order]]
    return out


def swap_plan(problem: Problem, k: int, budget: int) -> tuple[I32, int, bool]:
    """(zone of each agent, swap tests made, whether a bound ended it): greedy, `swap` among the neighbours of each
    exchange set, then `swap` among all candidates, one budget for all (docs/planning.md, section Swap)."""
    assigned = greedy(problem)
    tests = 0
    for members in exchange_sets(pair_values(problem, assigned)[1], assigned):
        near = neighbours(problem, members, np.sort(assigned[members]), k)
        assigned, made, _ = swap(problem, near, assigned, budget - tests if budget else 0)
        tests += made
        if budget and tests == budget:
            return assigned, tests, True
    if not is_whole(len(problem.agents), budget):
        return assigned, tests, True
    assigned, made, bound = swap(problem, candidates(problem, k), assigned, budget - tests if budget else 0)
    return assigned, tests + made, bound


def pair_values(problem: Problem, assigned: I32) -> tuple[I32, U32, NDArray[np.bool_]]:
    """(score, travel, saturated) of each agent with its zone; 0, unreachable and False without one."""
    n = len(problem.agents)
    score, travel, saturated = np.zeros(n, np.int32), np.full(n, UNREACHABLE), np.zeros(n, np.bool_)
    for a in np.flatnonzero(assigned != NONE):
        p = pairs(problem, problem.agents, int(a))
        z = assigned[a]
        score[a], travel[a], saturated[a] = p.score[z], p.travel[z], p.saturated[z]
    return score, travel, saturated


def leftover_status(problem: Problem, agents: Agents, taken: U8) -> U8:
    """Status of agents without a zone and without a failure of their own; taken[z] is 1 where z was assigned."""
    out = np.full(len(agents), CoordStatus.IDLE_NO_ZONE, np.uint8)
    free = taken == 0
    for a in range(len(agents)):
        p = pairs(problem, agents, a)
        if (p.feasible & free).any():
            continue
        if (p.capable & p.charged & p.near & ~p.open & free).any():
            out[a] = CoordStatus.UNSAFE_ASSIGNMENT
        elif p.feasible.any():
            out[a] = CoordStatus.CONFLICT
        elif (p.capable & p.charged & p.open & ~p.near).any():
            out[a] = CoordStatus.UNREACHABLE
        elif (p.capable & ~p.charged).any():
            out[a] = CoordStatus.LOW_ENERGY
        elif (~p.capable).any():
            out[a] = CoordStatus.MISSING_CAPABILITY
    return out

"""Swap: greedy, then exchanges among the agents that travel farthest, then sweeps over every agent's candidates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coord import backend
from coord.planning.exchange_sets import exchange_sets, is_whole
from coord.planning.problem import I32, NONE, Problem


@dataclass(frozen=True, slots=True, eq=False)
class SwapResult:
    """`assigned` is the zone of each agent or -1; `tests` the work done; `bound_reached` says that the budget, the
    tenth sweep or the planner's own bound ended the search before a sweep over all agents changed nothing."""

    assigned: I32  # [n]
    tests: int
    bound_reached: bool


def swap_assignment(problem: Problem, k_candidates: int, work_budget: int) -> SwapResult:
    """Plan by docs/planning.md, section Swap; `work_budget` bounds the swap tests, 0 leaves the planner's own bound."""
    whole = is_whole(len(problem.agents), work_budget)
    found = backend.candidates(problem, k_candidates) if whole else None
    assigned = backend.greedy(problem, found)
    tests = 0
    for members in exchange_sets(backend.pair_values(problem, assigned)[1], assigned):
        zones = np.sort(assigned[members])
        among = _among(problem, members, zones)
        near = backend.list_scores(among, backend.candidates(_travel_only(among), k_candidates))
        start = np.searchsorted(zones, assigned[members]).astype(np.int32)
        placed, made, _ = backend.swap(among, near, start, _left(work_budget, tests))
        assigned[members] = zones[placed]
        tests += made
        if work_budget and tests == work_budget:
            return SwapResult(assigned, tests, True)
    if found is None:
        return SwapResult(assigned, tests, True)
    assigned, made, bound = backend.swap(problem, found, assigned, _left(work_budget, tests))
    return SwapResult(assigned, tests + made, bound)


def _left(work_budget: int, tests: int) -> int:
    return work_budget - tests if work_budget else 0


def _among(problem: Problem, members: NDArray[np.intp], zones: I32) -> Problem:
    """The same problem with some of its agents and zones only."""
    place = np.full(len(problem.zones) + 1, NONE, np.int32)
    place[zones] = np.arange(len(zones), dtype=np.int32)
    agents = problem.agents.take(members)
    return replace(problem, agents=replace(agents, current=place[agents.current]), zones=problem.zones.take(zones))


def _travel_only(problem: Problem) -> Problem:
    """A problem whose candidates are the nearest feasible zones: shorter travel, then lower zone."""
    zones = replace(problem.zones, base=np.zeros(len(problem.zones), np.float32))
    return replace(problem, zones=zones, w_travel=np.float32(1), w_switch=np.float32(0))

"""Exact: the best assignment there is, by scipy, for fleets small enough for a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coord.errors import TooLargeError
from coord.planning.auction import idle_worth
from coord.planning.plan_ref import pairs
from coord.planning.problem import I32, NONE, Problem

PAIRS_MAX = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class ExactPlan:
    """`assigned` is the zone of each agent or -1; `score_sum` the sum of their scores: no assignment that gives as
    many agents a zone has a larger one."""

    assigned: I32  # [n]
    score_sum: int


def exact_assignment(problem: Problem, idle_score: int) -> ExactPlan:
    """The assignment of the largest sum of score - idle; agents and zones whose pair is not feasible never meet.

    The matrix holds whole numbers below 2^34 in float64, so scipy's sums are exact. Raises TooLargeError above 2^24
    pairs.
    """
    n, m = len(problem.agents), len(problem.zones)
    if n * m > PAIRS_MAX:
        raise TooLargeError(
            f"plan_exact: expected at most {PAIRS_MAX} pairs of agents and zones, got {n} x {m} (hint: planner auction)"
        )
    idle = idle_worth(idle_score)
    gain, score = np.zeros((n, m)), np.zeros((n, m), np.int32)
    for a in range(n):
        row = pairs(problem, problem.agents, a)
        score[a] = row.score
        gain[a] = np.where(row.feasible, np.maximum(row.score.astype(np.int64) - idle, 0), 0)
    assigned = best_assignment(gain)
    has = np.flatnonzero(assigned != NONE)
    return ExactPlan(assigned, int(score[has, assigned[has]].sum(dtype=np.int64)))


def best_assignment(gain: NDArray[np.float64]) -> I32:
    """The zone of each agent, or -1: pairs of positive gain whose sum is the largest, by scipy.

    gain: whole numbers, float64[agents, zones]; 0 where a pair must not be. Those that no pair can use are left out:
    adding one must not change which of several best assignments is found.
    """
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

    live, used = np.flatnonzero(gain.any(axis=1)), np.flatnonzero(gain.any(axis=0))
    rows, columns = linear_sum_assignment(gain[np.ix_(live, used)], maximize=True)
    agents, zones = live[rows], used[columns]
    has = gain[agents, zones] > 0
    assigned = np.full(len(gain), NONE, np.int32)
    assigned[agents[has]] = zones[has]
    return assigned

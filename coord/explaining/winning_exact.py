"""The least change of one pair's integer score with which the exact planner would put the pair into its plan.

With V the best sum of gains (score - idle, docs/planning.md, Exact) of plans without the pair, and W that of the other
agents and zones alone, a pair of gain g is in no best plan while g + W < V, and in every one when g + W > V. So the
least change is the one that makes g + W = V, or one more where the planner then still decides for another plan of the
same sum: that is found by planning once more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coord.planning.auction import idle_worth
from coord.planning.exact import best_assignment
from coord.planning.plan_ref import pairs
from coord.planning.problem import I32, NONE, Problem

EXACT_PAIRS_MAX = 2**22  # each option takes up to three assignments of the whole matrix
I32_MAX = 2**31 - 1
F64 = NDArray[np.float64]


class ExactTrials:
    """One problem's gains, and the best plans that follow from a change of one of them."""

    def __init__(self, problem: Problem, idle_score: int) -> None:
        n, m = len(problem.agents), len(problem.zones)
        self.idle = idle_worth(idle_score)
        self.gain, self.score = np.zeros((n, m)), np.zeros((n, m), np.int64)
        self.feasible = np.zeros((n, m), np.bool_)
        for a in range(n):
            row = pairs(problem, problem.agents, a)
            self.score[a], self.feasible[a] = row.score, row.feasible
            self.gain[a] = np.where(row.feasible, np.maximum(self.score[a] - self.idle, 0), 0)
        self.assigned = best_assignment(self.gain)

    def is_plan(self, assigned: I32) -> bool:
        """Whether this is the planner's own assignment of the problem."""
        return bool(np.array_equal(assigned, self.assigned))

    def winning_change(self, a: int, z: int) -> int | None:
        """The least change with which agent a gets zone z; None where not even the highest score gets it."""
        if self.assigned[a] == z:
            return 0
        if not self.feasible[a, z]:
            return None
        gain = self.gain.copy()
        gain[a, z] = 0
        without = _best(gain)
        gain[a], gain[:, z] = 0, 0
        wanted = max(1, without - _best(gain))  # a pair whose gain is not above 0 is left idle
        change = wanted + self.idle - int(self.score[a, z])
        for least in (change, change + 1):
            if int(self.score[a, z]) + least > I32_MAX:
                return None
            if least > 0 and self._wins(a, z, least):
                return least
        raise AssertionError("a pair above the best plan without it is in every best plan")

    def _wins(self, a: int, z: int, change: int) -> bool:
        kept = self.gain[a, z]
        self.gain[a, z] = max(int(self.score[a, z]) + change - self.idle, 0)
        try:
            return bool(best_assignment(self.gain)[a] == z)
        finally:
            self.gain[a, z] = kept


def _best(gain: F64) -> int:
    assigned = best_assignment(gain)
    has = np.flatnonzero(assigned != NONE)
    return int(gain[has, assigned[has]].sum())


__all__ = ["EXACT_PAIRS_MAX", "ExactTrials"]

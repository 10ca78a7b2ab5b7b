"""The least change of one pair's integer score with which the swap planner would put the pair into its plan.

A plan is made again for a changed score, on integers: the pair's place in greedy's order, which decides about the
exchange sets, its place among its agent's candidates, and every comparison of a sweep. Each comparison that involves
the changed score also tells from which larger change on it would turn out otherwise; up to the least of these the plan
is the same. So going from one such change to the next finds the smallest winning one, however often inclusion comes and
goes (docs/planning.md, Explanations).
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from coord import backend
from coord.planning.exchange_sets import exchange_sets, is_whole
from coord.planning.plan_ref import SWEEPS_MAX, pairs
from coord.planning.problem import I32, NONE, Problem
from coord.planning.swap import swap_assignment

PAIRS_MAX = 250_000
TRIALS_MAX = 1_000
Scans = list[tuple[int, list[int]]]  # agents, and the zones that a sweep tests for each, in order
I32_MAX = 2**31 - 1


class Undecided(Exception):
    """The search made TRIALS_MAX plans without an end."""


class SwapTrials:
    """One problem's scores as whole numbers, and the plans that follow from a change of one of them."""

    def __init__(self, problem: Problem, k_candidates: int, work_budget: int) -> None:
        n, m = len(problem.agents), len(problem.zones)
        self.n, self.m = n, m
        self.k, self.budget = k_candidates, work_budget
        self.assigned = swap_assignment(problem, k_candidates, work_budget).assigned
        found = backend.candidates(problem, k_candidates)
        self.start = backend.greedy(problem, found).tolist()
        score, travel = np.zeros((n, m), np.int32), np.zeros((n, m), np.uint32)
        feasible = np.zeros((n, m), np.bool_)
        straight = Problem(
            **{f: getattr(problem, f) for f in Problem.__dataclass_fields__ if f != "shapes"}, shapes=None
        )
        for a in range(n):
            one = pairs(straight, problem.agents, a)
            score[a], travel[a], feasible[a] = one.score, one.travel, one.feasible
        if problem.shapes is not None:
            i, j = np.nonzero(feasible)
            agents, zones = problem.agents, problem.zones
            feasible[i, j] = ~backend.blocked_segments(agents.x[i], agents.y[i], zones.x[j], zones.y[j], problem.shapes)
        i, j = np.nonzero(feasible)
        order = np.lexsort((i, j, travel[i, j], -score[i, j].astype(np.int64)))
        self.order = list(zip(i[order].tolist(), j[order].tolist(), strict=True))
        self.score: list[list[int]] = score.tolist()
        self.travel: list[list[int]] = travel.tolist()
        self.feasible: list[list[bool]] = feasible.tolist()
        candidates = zip(found.zone.tolist(), found.count.tolist(), strict=True)
        self.found: list[list[int]] = [zones_of[:count] for zones_of, count in candidates]
        self.whole = is_whole(n, work_budget)
        self.nearest = [
            sorted((y for y in range(m) if self.feasible[a][y]), key=lambda y: (self.travel[a][y], y)) for a in range(n)
        ]
        self.stages = self._stages(self.start)

    def is_plan(self, assigned: I32) -> bool:
        """Whether this is the planner's own assignment of the problem."""
        return bool(np.array_equal(assigned, self.assigned))

    def winning_change(self, a: int, z: int) -> int | None:
        """The least change with which agent a gets zone z; None where not even the highest score gets it."""
        if not self.feasible[a][z]:
            return None
        base = self.score[a][z]
        others = sorted(
            (-self.score[a][y], self.travel[a][y], y) for y in range(self.m) if y != z and self.feasible[a][y]
        )
        first = self._greedy_change(a, z)
        forced: tuple[list[int], list[Scans]] | None = None
        change = 0
        for _ in range(TRIALS_MAX):
            key = (-(base + change), self.travel[a][z], z)
            place = bisect_left(others, key)
            names = [y for _, _, y in others[: self.k]]
            if place < self.k:
                names = [*names[:place], z, *names[place : self.k - 1]]
            ahead = min(place, self.k) - 1
            limits = [] if ahead < 0 else [_overtaking(key, others[ahead]) + change]
            if change < first:
                limits.append(first)
            self.score[a][z] = base + change
            kept, self.found[a] = self.found[a], names
            try:
                if change < first:
                    assigned, limit = self._swap(self.start, self.stages, a, z)
                else:
                    if forced is None:
                        start = self._greedy_with(a, z)
                        forced = start, self._stages(start)
                    assigned, limit = self._swap(*forced, a, z)
            finally:
                self.score[a][z], self.found[a] = base, kept
            if change == 0:
                assert assigned == self.assigned.tolist(), "the trial without a change is not the plan"
            if assigned[a] == z:
                return change
            if limit is not None:
                limits.append(change + limit)
            if not limits or min(limits) > I32_MAX - base:
                return None
            change = min(limits)
        raise Undecided

    def _greedy_change(self, a: int, z: int) -> int:
        """The least change with which greedy takes the pair; from there on its result stays the same."""
        key = (-self.score[a][z], self.travel[a][z], z, a)
        own = self.start[a]
        if own == z:
            return 0
        rivals = [] if own == NONE else [(a, own)]
        if z in self.start:
            rivals.append((self.start.index(z), z))
        return max(_overtaking(key, (-self.score[b][y], self.travel[b][y], y, b)) for b, y in rivals)

    def _greedy_with(self, a: int, z: int) -> list[int]:
        """Greedy's result once the pair is taken: greedy over all pairs of the others."""
        assigned = [NONE] * self.n
        assigned[a] = z
        free = [True] * self.m
        free[z] = False
        left = min(self.n, self.m) - 1
        for b, y in self.order:
            if left == 0:
                break
            if free[y] and assigned[b] == NONE:
                assigned[b] = y
                free[y] = False
                left -= 1
        return assigned

    def _stages(self, start: list[int]) -> list[Scans]:
        """The neighbours in each exchange set. A set's exchanges keep its zones, so they all follow from greedy."""
        travel = np.array([0 if y == NONE else self.travel[c][y] for c, y in enumerate(start)], np.uint32)
        out = []
        for members in exchange_sets(travel, np.array(start, np.int32)):
            zones = {start[c] for c in members.tolist()}
            out.append([(c, [y for y in self.nearest[c] if y in zones][: self.k]) for c in members.tolist()])
        return out

    def _swap(self, start: list[int], stages: list[Scans], a: int, z: int) -> tuple[list[int], int | None]:
        """plan_ref.swap_plan from greedy on; besides, by how much s(a, z) must grow for the first comparison to turn
        out otherwise."""
        sweeps = _Sweeps(self, start, a, z)
        last = [list(enumerate(self.found))] if self.whole else []
        for scans in [*stages, *last]:
            if not sweeps.stage(scans):
                break
        return sweeps.assigned, sweeps.limit


class _Sweeps:
    """The sweeps of one trial: who has which zone, the tests made, and `limit`, the least growth of s(a, z) with which
    a comparison made so far would turn out otherwise."""

    def __init__(self, trials: SwapTrials, start: list[int], a: int, z: int) -> None:
        self.score, self.feasible, self.budget = trials.score, trials.feasible, trials.budget
        self.a, self.z = a, z
        self.assigned = start.copy()
        self.holder = [NONE] * trials.m
        for b, y in enumerate(start):
            if y != NONE:
                self.holder[y] = b
        self.tests = 0
        self.limit: int | None = None

    def stage(self, scans: Scans) -> bool:
        """Up to SWEEPS_MAX sweeps; False where the budget ended them."""
        for _ in range(SWEEPS_MAX):
            changed = False
            for c, names in scans:
                for y in names:
                    if y == self.assigned[c]:
                        continue
                    if self.tests == self.budget and self.budget:
                        return False
                    self.tests += 1
                    if self._wants(c, y):
                        self._take(c, y)
                        changed = True
            if not changed:
                break
        return True

    def _wants(self, c: int, y: int) -> bool:
        """One swap test: whether agent c takes zone y, free or from its holder."""
        own, b = self.assigned[c], self.holder[y]
        if own == NONE:
            return b == NONE
        gain = self.score[c][y] - self.score[c][own]
        if b != NONE:
            if not self.feasible[b][own]:
                return False
            gain += self.score[b][own] - self.score[b][y]
        if c == self.a:
            self._note(gain, y, own)
        elif b == self.a:
            self._note(gain, own, y)
        return gain > 0

    def _note(self, gain: int, grows: int, shrinks: int) -> None:
        """The changed score adds to the gain, takes from it, or has no part in it."""
        if grows == self.z and gain <= 0:
            turn = 1 - gain
        elif shrinks == self.z and gain > 0:
            turn = gain
        else:
            return
        self.limit = turn if self.limit is None else min(self.limit, turn)

    def _take(self, c: int, y: int) -> None:
        own, b = self.assigned[c], self.holder[y]
        if own != NONE:
            self.holder[own] = b
        if b != NONE:
            self.assigned[b] = own
        self.holder[y] = c
        self.assigned[c] = y


def _overtaking(key: tuple[int, ...], rival: tuple[int, ...]) -> int:
    """By how much the first score must grow for its key to come before the rival's, which is now before it."""
    return key[0] - rival[0] + (key[1:] > rival[1:])


__all__ = ["I32_MAX", "PAIRS_MAX", "SwapTrials", "Undecided"]

"""Twin of kernels/auction.cpp: the definition of the auction; docs/planning.md says the same in words.

Plain and slow: whole matrices of nets. One side bids for the other: agents for zones, or zones for agents where those
are more. Everything is int64; see `unit` for why nothing overflows.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from coord.planning.plan_ref import pairs, quantise
from coord.planning.problem import I32, NONE, Problem

I64 = NDArray[np.int64]

IDLE_DERIVED = -(2**31)  # the value of PlanConfig.idle_score that means "derive"
IDLE_LOWEST = -3 * 2**31  # what it derives: lower than any score by more than any two scores differ
LIST_MAX, LIST_MIN = 24, 4
GAINS = 8  # objects that a list gains at once at most
GAIN_WORK = 8  # what that counts in bids
UNIT_MAX = 2**26
PAIRS_EXACT = 2**16  # up to here the auction ends with a proven optimum
PHASES, MORE_PHASES = 3, 4  # where the problem is larger and no work budget is given
BIDDERS_MORE = 2**14  # above it the auction takes more phases
FIRST, DIVIDE = 2, 6  # shares of a list's mean spread: the first step; what each phase divides it by
RAISES = 32  # bids for one object in a phase before its step doubles
DOUBLINGS_MAX = 40
STEP_MAX = 2**60
ONES = 16  # phases of step 1 at most
SLACK = 16  # first steps by which a list may fall behind what was outside it before it gains objects
CHECKED = 2  # from this phase on bidders look outside their lists before the next one
NOTHING = -(2**62)


@dataclass(frozen=True, slots=True, eq=False)
class AuctionResult:
    """`assigned` is the zone of each agent or -1, of the best phase that ended; `worth` its sum of score - idle;
    no assignment has a larger one than `bound`; `bids` the work done, `bound_reached` whether the budget ended it."""

    assigned: I32  # [n]
    worth: int
    bound: int
    bids: int
    bound_reached: bool


def unit(bidders: int) -> int:
    """What one point of a score is worth in prices. Scores are below 2^31, so all values stay below 2^60.

    >>> unit(10), unit(2**30) == UNIT_MAX
    (11, True)
    """
    return min(bidders + 1, UNIT_MAX)


def grown(step: int, turns: int) -> int:
    """The step of an object that has had so many turns in this phase: wars end.

    >>> grown(5, 31), grown(5, 32), grown(5, 100)
    (5, 10, 40)
    """
    return min(step << min(turns // RAISES, DOUBLINGS_MAX), STEP_MAX)


def list_length(k_candidates: int) -> int:
    """How many objects a bidder's list holds."""
    return max(LIST_MIN, min(k_candidates, LIST_MAX))


class BudgetSpent(Exception):
    """The next bid would be one too many."""


@dataclass
class _List:
    objects: list[int] = field(default_factory=list)
    beyond: int = NOTHING  # no object outside the list is worth more


class Auction:
    """The state of one auction; bidders and objects are indices of their side, `value` is score · unit."""

    def __init__(self, problem: Problem, k_candidates: int, idle: int, budget: int) -> None:
        n, m = len(problem.agents), len(problem.zones)
        rows = [pairs(problem, problem.agents, a) for a in range(n)]
        score = np.array([r.score for r in rows], np.int64).reshape(n, m)
        feasible = np.array([r.feasible for r in rows], np.bool_).reshape(n, m)
        self.zones_bid = n > m
        self.score = score.T if self.zones_bid else score
        self.feasible = feasible.T if self.zones_bid else feasible
        self.bidders, self.objects = self.score.shape
        self.agents = n
        self.unit = unit(self.bidders)
        self.idle = idle
        self.outside = idle * self.unit
        self.length = list_length(k_candidates)
        self.budget = budget
        self.bids = 0
        self.price = np.zeros(self.objects, np.int64) if self.zones_bid else first_prices(problem, idle) * self.unit
        self.owner = np.full(self.objects, NONE, np.int64)
        self.own = np.full(self.bidders, NONE, np.int64)
        self.lists = [self.first_list(b) for b in range(self.bidders)]

    def net(self, b: int, x: int) -> int:
        """What object x is worth to bidder b at its price."""
        return int(self.score[b, x]) * self.unit - int(self.price[x])

    def highest(self, b: int, count: int, floor: int) -> list[int]:
        """The feasible objects of highest net, those above a floor, ties by lower index."""
        objects = np.flatnonzero(self.feasible[b])
        net = self.score[b, objects] * self.unit - self.price[objects]
        order = np.lexsort((objects, -net))[:count]
        return [int(x) for x in objects[order[net[order] > floor]]]

    def first_list(self, b: int) -> _List:
        """The objects of highest net."""
        objects = self.highest(b, self.length, NOTHING)
        return _List(objects, self.net(b, objects[-1]) if len(objects) == self.length else NOTHING)

    def gain(self, b: int, floor: int) -> None:
        """The list gains objects worth more than `floor`, which is not below any of it but one; the worst ones go."""
        made, limit = self.lists[b], min(GAINS, self.length - 1)
        found = self.highest(b, limit, floor)
        made.beyond = self.net(b, found[-1]) if len(found) == limit else floor
        for x in found:
            if x in made.objects:
                continue
            others = [y for y in made.objects if y != self.own[b]]
            made.objects.remove(min(others, key=lambda y: (self.net(b, y), -y)))
            made.objects.append(x)

    def best(self, b: int) -> tuple[int, int, int]:
        """(object, net, second net) in the list, the lower index where equal; NOTHING for what is not there."""
        first, best, second = NONE, NOTHING, NOTHING
        for x in self.lists[b].objects:
            net = self.net(b, x)
            if net > best or (net == best and x < first):
                first, best, second = x, net, best
            elif net > second:
                second = net
        return first, best, second

    def count(self, work: int) -> None:
        """More work, in bids."""
        if self.bids + work > self.budget:
            raise BudgetSpent
        self.bids += work

    def forward(self, step: int, slack: int) -> None:
        """Bidders without an object bid, by ascending index, and who is outbid again after all of them."""
        raised = np.zeros(self.objects, np.int64)
        queue = deque(np.flatnonzero(self.own == NONE).tolist())
        while queue:
            b = queue.popleft()
            self.count(1)
            x, best, second = self.best(b)
            least = best if slack else second
            if least < self.lists[b].beyond - slack:
                self.count(GAIN_WORK)
                self.gain(b, least)
                x, best, second = self.best(b)
            if best < self.outside + step:
                continue
            more = grown(step, int(raised[x]))
            raised[x] += 1
            self.price[x] += min(best - max(second, self.outside) + more, best - self.outside)
            before = int(self.owner[x])
            self.owner[x], self.own[b] = b, x
            if before != NONE:
                self.own[before] = NONE
                queue.append(before)

    def profit(self) -> I64:
        """What each bidder has: the net of its object, or the outside option."""
        out = np.full(self.bidders, self.outside, np.int64)
        for b in np.flatnonzero(self.own != NONE).tolist():
            out[b] = self.net(b, int(self.own[b]))
        return out

    def reverse(self, step: int) -> None:
        """Objects that nobody has and whose price is not 0 lower it until a bidder prefers them, or to 0."""
        free = np.flatnonzero((self.owner == NONE) & (self.price > 0)).tolist()
        if not free:
            return
        profit = self.profit()
        turns = np.zeros(self.objects, np.int64)
        for start in free:
            x = start
            while x != NONE and self.price[x] > 0:
                self.count(1)
                bidders = np.flatnonzero(self.feasible[:, x])
                level = self.score[bidders, x] * self.unit - profit[bidders]
                order = np.lexsort((bidders, -level))[:2]
                best = int(level[order[0]]) if len(order) else NOTHING
                second = int(level[order[1]]) if len(order) > 1 else NOTHING
                if best < step:
                    self.price[x] = 0
                    break
                b = int(bidders[order[0]])
                self.price[x] = min(int(self.price[x]), max(0, second - grown(step, int(turns[x]))))
                turns[x] += 1
                before = int(self.own[b])
                if before != NONE:
                    self.owner[before] = NONE
                self.own[b], self.owner[x] = x, b
                profit[b] = self.net(b, x)
                x = before
        for b in range(self.bidders):
            self.lists[b].beyond = -NOTHING  # prices fell: the lists say nothing about other objects any more

    def regret(self, outside_lists: bool) -> tuple[I64, int]:
        """How much more than it has each bidder could have in its list, and the sum of that over all objects.

        With `outside_lists` lists first gain what is worth more than all of them; else it counts what that can be.
        """
        out, most = np.zeros(self.bidders, np.int64), 0
        for b, profit in enumerate(self.profit().tolist()):
            could = max(self.best(b)[1], self.outside, profit)
            if outside_lists and could < self.lists[b].beyond:
                self.gain(b, could)
                could = max(self.best(b)[1], could)
            out[b] = could - profit
            most += max(could, self.lists[b].beyond) - profit
        return out, most

    def release(self, regret: I64, step: int) -> None:
        """Bidders who could have more by above a step give their object back; its price stays."""
        for b in np.flatnonzero((regret > step) & (self.own != NONE)).tolist():
            self.owner[self.own[b]] = NONE
            self.own[b] = NONE

    def worth(self) -> int:
        """Sum of score - idle over the pairs."""
        has = np.flatnonzero(self.own != NONE)
        return int(self.score[has, self.own[has]].sum()) - self.idle * len(has)

    def assigned(self) -> I32:
        """The zone of each agent."""
        if not self.zones_bid:
            return self.own.astype(np.int32)
        return self.owner.astype(np.int32)


def first_prices(problem: Problem, idle: int) -> I64:
    """What zones cost at first, in points: their base beyond that of the last zone that would have an agent by it.

    Only zones count that an agent could serve, if no obstacle were in its way; the others cost nothing.
    """
    base = quantise(problem.zones.base)[0].astype(np.int64)
    free = replace(problem, shapes=None)
    ways = [pairs(free, problem.agents, a).feasible for a in range(len(problem.agents))]
    within = np.array(ways, np.bool_).reshape(len(ways), len(base)).any(axis=0)
    if not within.any():
        return np.zeros(len(base), np.int64)
    last = np.sort(base[within])[::-1][min(len(ways), int(within.sum())) - 1]
    return np.where(within, np.maximum(0, base - max(int(last), idle)), 0)


def auction(problem: Problem, k_candidates: int, idle: int, budget: int, endless: bool) -> AuctionResult:
    """Phases of falling steps; `endless` lets a large problem go on to the step 1 that proves the optimum.

    `budget` bounds the bids. What the phase in which it ends has done is dropped.
    """
    state = Auction(problem, k_candidates, idle, budget)
    bound = (
        (state.regret(False)[1] + int(state.price.sum())) // state.unit if any(x.objects for x in state.lists) else 0
    )
    best = AuctionResult(np.full(state.agents, NONE, np.int32), 0, bound, 0, False)
    some = [x.objects for x in state.lists if x.objects]
    if not some:
        return best
    width = sum(
        state.net(b, x.objects[0]) - state.net(b, x.objects[-1]) for b, x in enumerate(state.lists) if x.objects
    )
    step = max(1, width // (FIRST * len(some)))
    slack, phase, regret = SLACK * step, 0, np.zeros(state.bidders, np.int64)
    ones = 0
    large = state.bidders * state.objects > PAIRS_EXACT
    phases = MORE_PHASES if state.bidders > BIDDERS_MORE else PHASES
    while True:
        try:
            state.release(regret, step)
            state.forward(step, 0 if step == 1 else slack)
            state.reverse(step)
        except BudgetSpent:
            return AuctionResult(best.assigned, best.worth, bound, state.bids, True)
        phase += 1
        ones += step == 1
        last = ones == ONES or (phase == phases and large and not endless)
        regret, most = state.regret(last or step == 1 or phase >= CHECKED)
        lost = most + int(state.price[state.owner == NONE].sum())
        worth = state.worth()
        bound = min(bound, worth + lost // state.unit)
        if phase == 1 or worth > best.worth:
            best = AuctionResult(state.assigned(), worth, bound, state.bids, False)
        if bound == best.worth or last:
            return AuctionResult(best.assigned, best.worth, bound, state.bids, False)
        step = max(1, step // DIVIDE)

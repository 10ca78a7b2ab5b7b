"""Auction: one side bids for the other until nobody wants to change; the prices prove how good the plan is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coord import backend
from coord.planning.auction_ref import IDLE_DERIVED, IDLE_LOWEST
from coord.planning.problem import I32, NONE, Problem
from coord.planning.swap import swap_assignment

BIDS_PER_CANDIDATE = 64
OPEN_MOST = 0.05  # gap above which swap's plan is made too


def idle_worth(idle_score: int) -> int:
    """What an agent without a zone counts: the config's idle_score, or less than any score can say.

    >>> idle_worth(-2**31), idle_worth(500)
    (-6442450944, 500)
    """
    return IDLE_LOWEST if idle_score == IDLE_DERIVED else idle_score


@dataclass(frozen=True, slots=True, eq=False)
class AuctionPlan:
    """`assigned` is the zone of each agent or -1; `bids` the work done; `bound_reached` whether the budget ended the
    auction before it was done; `worth_bound` the most that score - idle can add up to, over any assignment."""

    assigned: I32  # [n]
    bids: int
    bound_reached: bool
    worth_bound: int
    idle: int

    def score_bound(self, assigned: I32) -> int:
        """No assignment that gives as many agents a zone as this one has a larger sum of scores."""
        return self.worth_bound + self.idle * int((assigned != NONE).sum())


def auction_assignment(problem: Problem, k_candidates: int, idle_score: int, work_budget: int) -> AuctionPlan:
    """Plan by docs/planning.md, section Auction; `work_budget` bounds the bids, 0 is 64 a candidate of each bidder.

    Where the budget ends the auction, or it leaves much open, swap's plan is made too and the better of both is kept.
    """
    idle = idle_worth(idle_score)
    bidders = min(len(problem.agents), len(problem.zones))
    budget = work_budget or BIDS_PER_CANDIDATE * k_candidates * bidders
    made = backend.auction(problem, k_candidates, idle, budget, work_budget != 0)
    assigned = made.assigned
    left = made.bound - made.worth
    bound = made.bound + idle * int((assigned != NONE).sum())
    if made.bound_reached or left > (0 if work_budget else OPEN_MOST * abs(bound)):
        other = swap_assignment(problem, k_candidates, 0).assigned
        if _worth(problem, other, idle) > made.worth:
            assigned = other
    return AuctionPlan(assigned, made.bids, made.bound_reached, made.bound, idle)


def _worth(problem: Problem, assigned: I32, idle: int) -> int:
    score, _, _ = backend.pair_values(problem, assigned)
    return int(score.sum(dtype=np.int64)) - idle * int((assigned != NONE).sum())

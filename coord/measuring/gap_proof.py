"""What is proven of a plan by an auction of its inputs, and which frames of a run get that. Source: docs/metrics.md."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coord.frames.frame import DecisionFrame
from coord.planning.auction import auction_assignment
from coord.planning.auction_ref import IDLE_DERIVED
from coord.planning.problem import NONE
from coord.planning.situation import Situation
from coord.records import Records
from coord.status import CoordStatus


class Proof(NamedTuple):
    """What an auction proves of a plan: an upper bound of score_sum over plans that give as many agents a zone.

    bound is None where there was nothing to assign. agents_left: how many more agents the auction gives a zone; 0 where
    the config's idle_score says what an agent without one counts, for then the bound weighs that.
    """

    bound: int | None
    agents_left: int


NO_PROOF = Proof(None, 0)


class GapDue:
    """Which frames get a bound: those with a number that `every` divides, or the next one that has something to assign.

    >>> from coord import PlanConfig, plan
    >>> frame = plan([], [], [], [], PlanConfig(), now_tick=0).frame(0)
    >>> due = GapDue(64)
    >>> due.at(frame), due.given(NO_PROOF).bound, due.at(frame)
    (False, None, False)
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._waits = False

    def at(self, frame: DecisionFrame) -> bool:
        """Whether this frame, the next one of the run, should get one."""
        self._waits |= self._every > 0 and frame.frame_id % self._every == 0
        return self._waits and frame.agents > 0 and frame.zones > 0

    def given(self, proof: Proof) -> Proof:
        """What that frame got."""
        self._waits = proof.bound is None
        return proof


def proven(seen: Situation, rows: Records) -> Proof:
    """What a frame's gap is measured by: what an auction of the same inputs proves over every assignment that gives as
    many agents a zone. It is the same whoever planned, and however long."""
    if not (len(seen.problem.agents) and len(seen.problem.zones)):
        return NO_PROOF
    first = rows[rows["queue_index"] == 0][seen.planned]
    config = seen.config[0]
    sold = auction_assignment(seen.problem, int(config["k_candidates"]), int(config["idle_score"]), 0)
    given = np.where(first["status"] == CoordStatus.OK, np.int32(0), np.int32(NONE))
    more = int((sold.assigned != NONE).sum()) - int((given != NONE).sum())
    return Proof(sold.score_bound(given), max(0, more) if config["idle_score"] == IDLE_DERIVED else 0)

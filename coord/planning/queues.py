"""Queues: the zones that an agent serves after its first one, planned in rounds by the planner of the config.

Source: docs/planning.md, section Queues. Every round is a problem of its own, so the planners and their twins know
nothing of queues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coord import backend
from coord.planning.problem import F32, I32, NONE, Problem, Zones
from coord.planning.situation import Situation
from coord.records import ROW_DTYPE, Records
from tensor.float_mode import plain_mode

LATER_SHIFT = 1  # bits 1 to 3 of the config's flags
LATER_MAX = 7

Index = NDArray[np.intp]


def later_zones(config: Records) -> int:
    """How many zones after the first an agent may queue, 0 to 7.

    >>> from coord.records import CONFIG_DTYPE, PlanConfig, as_records
    >>> later_zones(as_records([PlanConfig(flags=1 + 2 * 3)], CONFIG_DTYPE, "config"))
    3
    """
    return int(config["flags"][0]) >> LATER_SHIFT & LATER_MAX


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Where agents stand once they have served their queues so far, and the zones that nobody has."""

    seen: Situation
    agents: Index  # [p] of seen.agents, ascending: those that got a zone in the round before
    at: Index  # [p] of seen.zones: that zone
    energy: F32  # [p] what is left after it
    free: Index  # of seen.problem.zones, ascending

    @classmethod
    @plain_mode()
    def after_first(cls, seen: Situation, assigned: I32) -> Standing:
        """After round 0: agents with a zone of the plan, and those withheld in theirs."""
        zone = seen.held.astype(np.intp)
        has = assigned != NONE
        zone[seen.planned[has]] = seen.offered[assigned[has]]
        agents = np.flatnonzero(zone != NONE)
        free = np.ones(len(seen.problem.zones), np.bool_)
        free[assigned[has]] = False
        at = zone[agents]
        return cls(seen, agents, at, _left(seen.facts.energy[agents], seen.zones["energy_cost"][at]), _true(free))

    def problem(self) -> Problem:
        """The problem of the next round: its agents and zones are `agents` and `free`, by index."""
        seen, zones = self.seen, self.seen.zones[self.at]
        x, y, z = (np.ascontiguousarray(zones[axis]) for axis in "xyz")
        facts = seen.facts.take(self.agents)
        place = np.full(len(seen.problem.zones) + 1, NONE, np.int32)
        place[self.free] = np.arange(len(self.free), dtype=np.int32)
        component = facts.component if seen.grid is None else seen.grid.component_of(x, y)
        agents = replace(facts, x=x, y=y, z=z, energy=self.energy, component=component, current=place[facts.current])
        fields = {name: getattr(seen.problem.zones, name)[self.free] for name in Zones.__dataclass_fields__}
        return replace(seen.problem, agents=agents, zones=Zones(**fields))

    @plain_mode()
    def after(self, assigned: I32) -> Standing:
        """After this round: `assigned` is the zone of each agent of `problem()`, by its index there, or -1."""
        has = np.flatnonzero(assigned != NONE)
        taken = self.free[assigned[has]]
        at = self.seen.offered[taken]
        free = np.ones(len(self.free), np.bool_)
        free[assigned[has]] = False
        energy = _left(self.energy[has], self.seen.zones["energy_cost"][at])
        return Standing(self.seen, self.agents[has], at, energy, self.free[free])


@dataclass(frozen=True, slots=True, eq=False)
class QueueRound:
    """One round: where agents stood, its problem, and the zone of each by index of the problem, or -1."""

    standing: Standing
    problem: Problem
    assigned: I32


def plan_rounds(seen: Situation, assigned: I32, decide: Callable[[Problem], I32]) -> list[QueueRound]:
    """The rounds after the first: `decide` gives the assignment of one problem."""
    rounds: list[QueueRound] = []
    later = later_zones(seen.config)
    if later == 0:
        return rounds
    standing = Standing.after_first(seen, assigned)
    for _ in range(later):
        if len(standing.agents) == 0 or len(standing.free) == 0:
            break
        problem = standing.problem()
        found = decide(problem)
        if not (found != NONE).any():
            break
        rounds.append(QueueRound(standing, problem, found))
        standing = standing.after(found)
    return rounds


@plain_mode()
def with_queues(seen: Situation, rows: Records, rounds: list[QueueRound]) -> tuple[Records, bool]:
    """(`rows` and those of the rounds, ascending by agent and queue_index; whether a queued score saturated)."""
    if not rounds:
        return rows, False
    parts, any_saturated = [rows], False
    for index, one in enumerate(rounds, start=1):
        score, travel, saturated = backend.pair_values(one.problem, one.assigned)
        has = np.flatnonzero(one.assigned != NONE)
        who = one.standing.agents[has]
        at = seen.offered[one.standing.free[one.assigned[has]]]
        part = np.zeros(len(has), ROW_DTYPE)
        for name in ("agent", "mode", "stale"):
            part[name] = rows[name][who]
        part["zone"], part["score"], part["travel"] = seen.zones["id"][at], score[has], travel[has]
        part["idle"] = np.minimum(seen.idle[at], np.uint64(0xFFFFFFFF))
        part["queue_index"] = index
        parts.append(part)
        any_saturated = any_saturated or bool(saturated.any())
    together = np.concatenate(parts)
    return together[np.lexsort((together["queue_index"], together["agent"]))], any_saturated


def _left(energy: F32, cost: F32) -> F32:
    with np.errstate(over="ignore"):
        left: F32 = energy - cost
    return left


def _true(mask: NDArray[np.bool_]) -> Index:
    return np.flatnonzero(mask)

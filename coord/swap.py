"""Swap: greedy, then sweeps that move agents to free zones and exchange zones while the integer sum grows."""

from __future__ import annotations

from dataclasses import dataclass

from coord import backend
from coord.problem import I32, Problem


@dataclass(frozen=True, slots=True, eq=False)
class SwapResult:
    """`assigned` is the zone of each agent or -1; `tests` the work done; `bound_reached` says that the budget, or the
    tenth sweep, ended the search before a sweep changed nothing."""

    assigned: I32  # [n]
    tests: int
    bound_reached: bool


def swap_assignment(problem: Problem, k_candidates: int, work_budget: int) -> SwapResult:
    """Plan by docs/planning.md, section Swap; `work_budget` bounds the swap tests, 0 leaves only the ten sweeps."""
    found = backend.candidates(problem, k_candidates)
    start = backend.greedy(problem, found)
    return SwapResult(*backend.swap(problem, found, start, work_budget))

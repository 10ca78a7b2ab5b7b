"""Greedy: repeatedly the best feasible pair. The result is unique, so how it is found never shows."""

from __future__ import annotations

from coord import backend
from coord.planning.problem import I32, Problem


def greedy_assignment(problem: Problem) -> I32:  # [n]
    """The zone of each agent, or -1: pairs taken in the order of higher score, shorter travel, lower zone, lower
    agent, until no agent without a zone has a feasible zone that is free (docs/planning.md, section Greedy)."""
    return backend.greedy(problem)

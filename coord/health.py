"""One word on how a fleet is doing, and the rates it is made from."""

from __future__ import annotations

from enum import IntEnum

from coord.status import AssignmentStats


class CoordHealth(IntEnum):
    """Worst first to apply wins; FAILED is only ever said outside frames, about refused input."""

    EMPTY = 0
    OK = 1
    DEGRADED = 2
    STALE = 3
    BLOCKED = 4
    FAILED = 5


def rate(numerator: int, denominator: int) -> float:
    """numerator / denominator, and 0 where there is nothing to divide by.

    >>> rate(1, 0)
    0.0
    """
    return numerator / denominator if denominator else 0.0


def coord_health(stats: AssignmentStats) -> CoordHealth:
    """The worst that applies: blocked, stale, degraded, ok; empty without rows. Integers decide, not the rates.

    >>> coord_health(AssignmentStats(agents=10, ready=10, assigned=9)).name
    'OK'
    """
    if stats.agents == 0:
        return CoordHealth.EMPTY
    if stats.unsafe > 0 or 2 * stats.blocked_zones > stats.zones:
        return CoordHealth.BLOCKED
    if 4 * stats.stale_agents > stats.agents:
        return CoordHealth.STALE
    if stats.conflicts > 0 or 10 * stats.assigned < 9 * stats.ready:
        return CoordHealth.DEGRADED
    return CoordHealth.OK

"""Metrics: what a run was worth, as numbers with fixed keys. What each one is: docs/metrics.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from tensor.float_mode import plain_mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Measures of the planned ticks of one run, in the order of docs/metrics.md, which defines each exactly.

    Whole numbers, or one division of two of them in float64; `gap_median`, `gap_p99`, `gap_max` are None where no bound
    was proven, `cell_conflicts` and `edge_conflicts` where there is no grid, `min_separation_m` with fewer than two
    agents, `cover_tick` where some zone was not served.
    """

    frames: int
    first_tick: int | None
    last_tick: int | None
    agents: int
    zones: int
    rows: int
    ready: int
    assigned: int
    assigned_of_ready: float
    makespan_ticks: int
    travel_ticks_total: int
    travel_ticks_mean: float
    travel_m_total: float
    travel_m_mean: float
    objective: int
    gap_frames: int
    gap_median: float | None
    gap_p99: float | None
    gap_max: float | None
    gap_fewer_assigned: int
    gap_agents_left: int
    services: int
    coverage: float
    cover_tick: int | None
    idle_p50_ticks: int
    idle_p99_ticks: int
    idle_max_ticks: int
    fairness_travel: float
    fairness_service: float
    switches: int
    switches_per_agent_per_100_ticks: float
    conflicts: int
    cell_conflicts: int | None
    edge_conflicts: int | None
    min_separation_m: float | None
    rejections: dict[str, int]
    not_ready: dict[str, int]
    blocked_zones: int
    digest: str

    def to_map(self) -> dict[str, Any]:
        """The measures by name, in the order of the fields."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@plain_mode()
def jain_index(values: Iterable[int]) -> float:
    """(sum x)² / (n · sum x²) of whole numbers: 1 when all are equal, 1/n when one has everything; 1 without any.

    Source: Jain, Chiu, Hawe 1984.

    >>> jain_index([3, 3, 3]), jain_index([1, 0, 0, 0])
    (1.0, 0.25)
    """
    numbers = list(values)
    squares = len(numbers) * sum(x * x for x in numbers)
    return sum(numbers) ** 2 / squares if squares else 1.0

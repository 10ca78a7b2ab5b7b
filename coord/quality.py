"""One scorer for all planners: what a sequence of plans was worth, in integers and in ratios of integers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from coord.frame import rows_digest
from coord.records import Records
from coord.status import CoordStatus
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from coord.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Measures of one or more plans of one fleet, in the order of their ticks.

    `makespan_ticks` is the longest travel to an assigned zone, `mean_travel_ticks` the mean over assigned rows;
    `objective` the sum of scores, `gap` (bound - objective) / max(1, |bound|) where bounds were given; `coverage` the
    share of zones that were ever assigned; idle times are those of the last plan's zones, p99 by nearest rank; the
    fairness values are Jain's index over agents (Jain, Chiu, Hawe 1984), of travel ticks and of plans with a zone;
    a switch is a change from one zone to another between two plans; `digest` pins all rows in order.
    """

    plans: int
    makespan_ticks: int
    mean_travel_ticks: float
    objective: int
    gap: float | None
    coverage: float
    idle_max_ticks: int
    idle_p99_ticks: int
    fairness_travel: float
    fairness_service: float
    switches_per_agent_per_100_ticks: float
    conflicts: int
    rejections: dict[str, int]
    digest: str


@plain_mode()
def jain_index(values: Iterable[int]) -> float:
    """(sum x)² / (n · sum x²) of whole numbers: 1 when all are equal, 1/n when one has everything; 1 without any.

    >>> jain_index([3, 3, 3]), jain_index([1, 0, 0, 0])
    (1.0, 0.25)
    """
    numbers = list(values)
    squares = len(numbers) * sum(x * x for x in numbers)
    return sum(numbers) ** 2 / squares if squares else 1.0


class Scorer:
    """Adds up plans one by one; `result` may be asked at any time.

    >>> Scorer().result().plans
    0
    """

    def __init__(self) -> None:
        self._plans = 0
        self._makespan = 0
        self._travel_total = 0
        self._assigned_rows = 0
        self._objective = 0
        self._bound: int | None = 0
        self._served: set[int] = set()
        self._zones: set[int] = set()
        self._idle: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._travel: dict[int, int] = {}
        self._service: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._switches = 0
        self._first_tick = 0
        self._last_tick = 0
        self._statuses = dict.fromkeys(CoordStatus, 0)
        self._hasher = blake3()

    @plain_mode()
    def add(self, rows: Records, zones: Records, now_tick: int, *, bound: int | None = None) -> None:
        """One plan: its rows (ROW_DTYPE), the zones it was made from, its tick, and an upper bound if there is one."""
        served = rows[rows["queue_index"] == 0]
        has = served[served["status"] == CoordStatus.OK]
        self._first_tick = now_tick if self._plans == 0 else self._first_tick
        self._last_tick = now_tick
        self._plans += 1
        self._hasher.update(rows_digest(rows))
        self._objective += int(has["score"].sum(dtype=np.int64))
        self._bound = None if self._bound is None or bound is None else self._bound + bound
        self._assigned_rows += len(has)
        self._travel_total += int(has["travel"].sum(dtype=np.int64))
        self._makespan = max(self._makespan, int(has["travel"].max(initial=0)))
        self._served.update(has["zone"].tolist())
        self._zones.update(zones["id"].tolist())
        last_served = zones["last_served_tick"]
        now = np.uint64(now_tick)
        self._idle = np.sort(np.where(last_served > now, np.uint64(0), now - last_served))
        for status, count in zip(*np.unique(served["status"], return_counts=True), strict=True):
            self._statuses[CoordStatus(int(status))] += int(count)
        for agent in served["agent"].tolist():
            self._travel.setdefault(agent, 0)
            self._service.setdefault(agent, 0)
        current = dict(zip(has["agent"].tolist(), has["zone"].tolist(), strict=True))
        for agent, travel in zip(has["agent"].tolist(), has["travel"].tolist(), strict=True):
            self._travel[agent] += travel
            self._service[agent] += 1
            self._switches += self._before.get(agent, current[agent]) != current[agent]
        self._before = current

    @plain_mode()
    def result(self) -> Quality:
        """The measures so far."""
        bound, ticks, agents = self._bound, self._last_tick - self._first_tick, len(self._travel)
        n = len(self._idle)
        return Quality(
            plans=self._plans,
            makespan_ticks=self._makespan,
            mean_travel_ticks=self._travel_total / self._assigned_rows if self._assigned_rows else 0.0,
            objective=self._objective,
            gap=None if bound is None else (bound - self._objective) / max(1, abs(bound)),
            coverage=len(self._served & self._zones) / len(self._zones) if self._zones else 0.0,
            idle_max_ticks=int(self._idle[-1]) if n else 0,
            idle_p99_ticks=int(self._idle[-(-99 * n // 100) - 1]) if n else 0,
            fairness_travel=jain_index(self._travel.values()),
            fairness_service=jain_index(self._service.values()),
            switches_per_agent_per_100_ticks=100 * self._switches / (agents * ticks) if agents and ticks else 0.0,
            conflicts=self._statuses[CoordStatus.CONFLICT],
            rejections={s.name.lower(): count for s, count in self._statuses.items() if s >= 2 and count},
            digest=self._hasher.digest(16).hex(),
        )


def quality(plans: Iterable[Plan]) -> Quality:
    """Score plans in the order of their ticks, with each one's proven bound."""
    scorer = Scorer()
    for made in plans:
        scorer.add(made.rows, made.situation.zones, made.situation.now_tick, bound=made.bound)
    return scorer.result()

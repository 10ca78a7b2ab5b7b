"""Scorer: adds up planned ticks, one by one, into the measures of `coord.metrics`; one scorer for all planners.

Every value is an integer, or one division of integers at the end: no sum of floats whose order could matter. Distances
are rounded once, to 1/65536 m. What each measure is: docs/metrics.md. Memory: the tick before, a few numbers for each
agent ever seen, one float for each gap; zones that have gone leave only counts.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from coord.errors import RunError
from coord.frames.frame import DecisionFrame
from coord.ground.grid import Grid
from coord.measuring.idle_counts import IdleCounts, nearest_rank
from coord.measuring.metrics_record import Metrics, jain_index
from coord.moving.neighbours import minimum_separation
from coord.planning.readiness import AgentReadiness
from coord.records import NO_ZONE, AgentMode, Records
from coord.status import AssignmentStats, CoordStatus
from tensor.float_mode import plain_mode

STEPS_PER_M = 65536  # distances are counted in 1/65536 m, as scores are
I64 = NDArray[np.int64]


class TickMetrics(NamedTuple):
    """One planned tick, for a series over time; what happened since the planned tick before stands in the last four."""

    tick: int
    agents: int
    zones: int
    ready: int
    assigned: int
    rejected: int
    conflicts: int
    cell_conflicts: int | None
    objective: int
    gap: float | None  # None where it was not measured
    idle_p50_ticks: int
    idle_p99_ticks: int
    idle_max_ticks: int
    separation_m: float | None  # None with fewer than two agents
    travel_m: float
    services: int
    switches: int
    edge_conflicts: int | None


@dataclass
class _Before:
    """What the tick before leaves for the next one."""

    tick: int
    agent_ids: NDArray[np.uint32]
    place: NDArray[np.float64]  # [n, 3] metres
    working: NDArray[np.bool_]
    zone: NDArray[np.uint32]  # the zone of each agent's first row
    held: NDArray[np.uint32]  # zones of all rows, ascending
    holder: NDArray[np.intp]  # and the row of the agent that has each
    zone_ids: NDArray[np.uint32]
    centre: NDArray[np.float64]  # [m, 3] metres
    radius: NDArray[np.float64]
    last_served: NDArray[np.uint64]
    visited: NDArray[np.bool_]  # zones served at least once since they came
    cells: I64 | None


class _Totals:
    """Distance and services of each agent ever seen, ascending by id."""

    def __init__(self) -> None:
        self.ids = np.zeros(0, np.uint32)
        self.travel = np.zeros(0, np.int64)
        self.services = np.zeros(0, np.int64)

    def rows(self, ids: NDArray[np.uint32]) -> NDArray[np.intp] | slice:
        """Where those agents stand; new ones are taken in."""
        if np.array_equal(ids, self.ids):
            return slice(None)
        merged = np.union1d(self.ids, ids)
        if len(merged) > len(self.ids):
            at = np.searchsorted(merged, self.ids)
            for name in ("travel", "services"):
                wider = np.zeros(len(merged), np.int64)
                wider[at] = getattr(self, name)
                setattr(self, name, wider)
            self.ids = merged
        return np.searchsorted(self.ids, ids)


class Scorer:
    """Adds up planned ticks; `result` may be asked at any time.

    >>> from coord import AgentState, PlanConfig, WorkZone, plan
    >>> made = plan([AgentState(id=7)], [WorkZone(id=3, x=2, priority=1)], [], [], PlanConfig(), now_tick=0)
    >>> scorer = Scorer()
    >>> scorer.add(made.situation.agents, made.situation.zones, made.frame(0), made.rows, bound=made.bound).assigned
    1
    >>> scorer.result().makespan_ticks, scorer.result().gap_max
    (2, 0.0)
    """

    def __init__(self) -> None:
        self._frames = 0
        self._rows = 0
        self._first_tick = 0
        self._statuses = np.zeros(len(CoordStatus), np.int64)
        self._readiness = np.zeros(len(AgentReadiness), np.int64)
        self._assigned = self._ready = self._objective = 0
        self._makespan = self._planned_travel = 0
        self._gaps = array("d")
        self._fewer_assigned = self._agents_left = 0
        self._idle = IdleCounts()
        self._agents = _Totals()
        self._zones_left = self._zones_left_visited = 0
        self._cover_tick: int | None = None
        self._services = self._switches = 0
        self._agent_ticks = 0
        self._blocked_zones = 0
        self._cell_conflicts: int | None = None
        self._edge_conflicts: int | None = None
        self._separation: float | None = None
        self._hasher = blake3()
        self._before: _Before | None = None

    @plain_mode()
    def add(
        self,
        agents: Records,  # AGENT_DTYPE[n], ascending by id
        zones: Records,  # ZONE_DTYPE[m], ascending by id
        frame: DecisionFrame,
        rows: Records,  # ROW_DTYPE
        *,
        grid: Grid | None = None,
        bound: int | None = None,
        agents_left: int = 0,
    ) -> TickMetrics:
        """One planned tick: what it was planned from, its frame and rows, and a proven bound of score_sum, if there is
        one. agents_left: how many more agents another plan is known to give a zone; a plan that leaves some is counted
        apart and has no gap. Ticks ascend. Raises RunError for rows of other agents than those given, or a tick that
        does not ascend.
        """
        first = rows[rows["queue_index"] == 0]
        before = self._before
        if len(first) != len(agents) or bool((first["agent"] != agents["id"]).any()):
            raise RunError(f"tick {frame.tick}: expected one row for each agent of its inputs, got others")
        if before is not None and frame.tick <= before.tick:
            raise RunError(f"tick {frame.tick}: expected a tick after {before.tick}")
        now = self._state(agents, zones, frame.tick, rows, first, grid)
        stats = AssignmentStats.of(rows, zones=len(zones), blocked_zones=frame.blocked_zones)
        self._count(frame, first, stats)
        gap = None if bound is None or agents_left else (bound - stats.score_sum) / max(1, abs(bound))
        if gap is not None:
            self._gaps.append(gap)
        self._fewer_assigned += agents_left > 0
        self._agents_left += agents_left
        idle = _idle_ticks(zones, frame.tick)
        self._idle.add(idle)
        idle.sort()
        closest = minimum_separation(agents)
        separation = None if closest is None else closest.distance_m
        if separation is not None:
            self._separation = separation if self._separation is None else min(separation, self._separation)
        sharing = None if now.cells is None else _sharing(now.cells)
        if sharing is not None:
            self._cell_conflicts = (self._cell_conflicts or 0) + sharing
            self._edge_conflicts = self._edge_conflicts or 0
        moved, services, switches, edges = (0, 0, 0, None) if before is None else self._between(before, now)
        if before is None or len(now.agent_ids):
            self._agents.rows(now.agent_ids)
        if self._cover_tick is None and len(zones) and bool(now.visited.all()):
            self._cover_tick = frame.tick
        self._before = now
        return TickMetrics(
            tick=frame.tick, agents=len(agents), zones=len(zones), ready=stats.ready, assigned=stats.assigned,
            rejected=stats.rejected, conflicts=stats.conflicts, cell_conflicts=sharing, objective=stats.score_sum,
            gap=gap, idle_p50_ticks=nearest_rank(idle, 50), idle_p99_ticks=nearest_rank(idle, 99),
            idle_max_ticks=nearest_rank(idle, 100), separation_m=separation, travel_m=moved / STEPS_PER_M,
            services=services, switches=switches, edge_conflicts=edges,
        )  # fmt: skip

    def _state(
        self, agents: Records, zones: Records, tick: int, rows: Records, first: Records, grid: Grid | None
    ) -> _Before:
        given = rows[rows["status"] == CoordStatus.OK]
        order = np.argsort(given["zone"], kind="stable")
        place, centre = (np.stack([of[axis].astype(np.float64) for axis in "xyz"], axis=1) for of in (agents, zones))
        if not (bool(np.isfinite(place).all()) and bool(np.isfinite(centre).all())):
            raise RunError(f"tick {tick}: expected finite positions of agents and zones")
        return _Before(
            tick=tick, agent_ids=agents["id"].copy(), place=place, working=first["mode"] == AgentMode.WORKING,
            zone=first["zone"].copy(),
            held=given["zone"][order], holder=np.searchsorted(agents["id"], given["agent"][order]),
            zone_ids=zones["id"].copy(), centre=centre, radius=zones["radius"].astype(np.float64),
            last_served=zones["last_served_tick"].copy(),
            visited=np.zeros(len(zones), np.bool_),
            cells=None if grid is None else grid.index_of(agents["x"], agents["y"]),
        )  # fmt: skip

    def _count(self, frame: DecisionFrame, first: Records, stats: AssignmentStats) -> None:
        self._first_tick = frame.tick if self._frames == 0 else self._first_tick
        self._frames += 1
        self._rows += len(first)
        self._statuses += np.array(stats.by_status, np.int64)
        self._readiness += np.bincount(np.minimum(first["reason"] & 0xFF, 6), minlength=len(AgentReadiness))
        self._assigned += stats.assigned
        self._ready += stats.ready
        self._objective += stats.score_sum
        self._blocked_zones += frame.blocked_zones
        travel = first["travel"][first["status"] == CoordStatus.OK]
        self._planned_travel += int(travel.sum(dtype=np.int64))
        self._makespan = max(self._makespan, int(travel.max(initial=0)))
        self._hasher.update(frame.encode())

    def _between(self, before: _Before, now: _Before) -> tuple[int, int, int, int | None]:
        """Distance gone (1/65536 m), services, switches and exchanges of cells since the planned tick before."""
        zone_a, zone_b = _common(before.zone_ids, now.zone_ids)
        served = np.zeros(len(before.zone_ids), np.bool_)
        served[zone_a] = now.last_served[zone_b] > before.last_served[zone_a]
        now.visited[zone_b] = before.visited[zone_a] | served[zone_a]
        gone = np.ones(len(before.zone_ids), np.bool_)
        gone[zone_a] = False
        if gone.any():
            served |= gone & self._ended_in_service(before, now, gone)
            self._zones_left += int(np.count_nonzero(gone))
            self._zones_left_visited += int(np.count_nonzero((before.visited | served)[gone]))
        services = int(np.count_nonzero(served))
        self._services += services
        self._credit(before, before.zone_ids[served])
        agent_a, agent_b = _common(before.agent_ids, now.agent_ids)
        self._agent_ticks += len(now.agent_ids[agent_b]) * (now.tick - before.tick)
        step = now.place[agent_b] - before.place[agent_a]
        moved = np.rint(_lengths(step) * STEPS_PER_M).astype(np.int64)
        self._agents.travel[self._agents.rows(now.agent_ids[agent_b])] += moved
        stays = before.zone_ids[~served & ~gone]
        old, new = before.zone[agent_a], now.zone[agent_b]
        changed = (old != new) & (old != NO_ZONE) & (new != NO_ZONE)
        switches = int(np.count_nonzero(np.isin(old[changed], stays)))
        self._switches += switches
        edges = None
        if before.cells is not None and now.cells is not None and now.tick == before.tick + 1:
            edges = _exchanges(before.cells[agent_a], now.cells[agent_b])
            self._edge_conflicts = (self._edge_conflicts or 0) + edges
        return int(moved.sum()), services, switches, edges

    def _ended_in_service(self, before: _Before, now: _Before, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which zones that have gone did so because they were served: see docs/metrics.md."""
        ended = np.zeros(len(before.zone_ids), np.bool_)
        had = np.flatnonzero(gone)
        at = np.minimum(np.searchsorted(before.held, before.zone_ids[had]), max(0, len(before.held) - 1))
        had = had[before.held[at] == before.zone_ids[had]] if len(before.held) else had[:0]
        who = before.holder[np.searchsorted(before.held, before.zone_ids[had])]
        ended[had] = before.working[who] & (before.zone[who] == before.zone_ids[had])
        row = np.minimum(np.searchsorted(now.agent_ids, before.agent_ids[who]), max(0, len(now.agent_ids) - 1))
        there = now.agent_ids[row] == before.agent_ids[who] if len(now.agent_ids) else np.zeros(len(who), np.bool_)
        step = now.place[row[there]] - before.centre[had[there]]
        ended[had[there]] |= _lengths(step) <= before.radius[had[there]]
        return ended

    def _credit(self, before: _Before, served: NDArray[np.uint32]) -> None:
        """A service belongs to the agent whose row had the zone at the planned tick before."""
        if not len(served) or not len(before.held):
            return
        at = np.minimum(np.searchsorted(before.held, served), len(before.held) - 1)
        who = before.holder[at[before.held[at] == served]]
        np.add.at(self._agents.services, np.arange(len(self._agents.ids))[self._agents.rows(before.agent_ids)][who], 1)

    @plain_mode()
    def result(self) -> Metrics:
        """The measures so far."""
        before = self._before
        last_tick = self._first_tick if before is None else before.tick
        zones = self._zones_left + (0 if before is None else len(before.zone_ids))
        visited = self._zones_left_visited + (0 if before is None else int(np.count_nonzero(before.visited)))
        travel, services = self._agents.travel.tolist(), self._agents.services.tolist()
        moved, n = sum(travel), len(travel)
        gaps = sorted(self._gaps)
        return Metrics(
            frames=self._frames,
            first_tick=self._first_tick if self._frames else None,
            last_tick=last_tick if self._frames else None,
            agents=n,
            zones=zones,
            rows=self._rows,
            ready=self._ready,
            assigned=self._assigned,
            assigned_of_ready=self._assigned / self._ready if self._ready else 1.0,
            makespan_ticks=self._makespan,
            travel_ticks_total=self._planned_travel,
            travel_ticks_mean=self._planned_travel / self._assigned if self._assigned else 0.0,
            travel_m_total=moved / STEPS_PER_M,
            travel_m_mean=moved / (STEPS_PER_M * n) if n else 0.0,
            objective=self._objective,
            gap_frames=len(gaps),
            gap_median=nearest_rank(gaps, 50) if gaps else None,
            gap_p99=nearest_rank(gaps, 99) if gaps else None,
            gap_max=gaps[-1] if gaps else None,
            gap_fewer_assigned=self._fewer_assigned,
            gap_agents_left=self._agents_left,
            services=self._services,
            coverage=visited / zones if zones else 0.0,
            cover_tick=self._cover_tick,
            idle_p50_ticks=self._idle.nearest_rank(50),
            idle_p99_ticks=self._idle.nearest_rank(99),
            idle_max_ticks=self._idle.maximum,
            fairness_travel=jain_index(travel),
            fairness_service=jain_index(services),
            switches=self._switches,
            switches_per_agent_per_100_ticks=100 * self._switches / self._agent_ticks if self._agent_ticks else 0.0,
            conflicts=int(self._statuses[CoordStatus.CONFLICT]),
            cell_conflicts=self._cell_conflicts,
            edge_conflicts=self._edge_conflicts,
            min_separation_m=self._separation,
            rejections={s.name.lower(): int(self._statuses[s]) for s in CoordStatus if s >= 2 and self._statuses[s]},
            not_ready={r.name.lower(): int(self._readiness[r]) for r in AgentReadiness if r and self._readiness[r]},
            blocked_zones=self._blocked_zones,
            digest=self._hasher.digest(16).hex(),
        )


def _idle_ticks(zones: Records, tick: int) -> NDArray[np.uint64]:
    last, now = zones["last_served_tick"], np.uint64(tick)
    idle: NDArray[np.uint64] = np.where(last > now, np.uint64(0), now - np.minimum(last, now))
    return idle


def _lengths(step: NDArray[np.float64]) -> NDArray[np.float64]:
    out: NDArray[np.float64] = np.sqrt((step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1]) + step[:, 2] * step[:, 2])
    return out


def _common(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> Sequence[NDArray[np.intp] | slice]:
    """Where the ids that both have stand in each; both ascend."""
    if np.array_equal(a, b):
        return slice(None), slice(None)
    _, in_a, in_b = np.intersect1d(a, b, assume_unique=True, return_indices=True)
    return in_a, in_b


def _sharing(cells: I64) -> int:
    """Agents beyond the first in each cell; those outside the grid are in none."""
    inside = np.sort(cells[cells >= 0])
    return int(np.count_nonzero(inside[1:] == inside[:-1]))


def _exchanges(a: I64, b: I64) -> int:
    """Edges between two cells over which agents went both ways at once."""
    moved = (a != b) & (a >= 0) & (b >= 0)
    a, b = a[moved], b[moved]
    up = np.stack([a[a < b], b[a < b]], axis=1)
    down = np.stack([b[a > b], a[a > b]], axis=1)
    if not len(up) or not len(down):
        return 0
    both = np.concatenate([np.unique(up, axis=0), np.unique(down, axis=0)])
    return len(both) - len(np.unique(both, axis=0))

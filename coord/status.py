"""Statuses, assignment rows as dataclasses, and their counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np

from coord.records import NO_ZONE, ROW_DTYPE, Records


class CoordStatus(IntEnum):
    """Why a row, or a pair of agent and zone, is as it is."""

    OK = 0
    IDLE_NO_ZONE = 1
    STALE_AGENT = 2
    AGENT_NOT_READY = 3
    UNREACHABLE = 4
    ZONE_BLOCKED = 5
    UNSAFE_ASSIGNMENT = 6
    CONFLICT = 7
    LOW_ENERGY = 8
    MISSING_CAPABILITY = 9
    INVALID_INPUT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One row of a plan, 32 bytes encoded; `reason` = AgentReadiness + 256 * ZoneReadiness."""

    agent: int
    zone: int = NO_ZONE
    status: CoordStatus = CoordStatus.IDLE_NO_ZONE
    mode: int = 0
    reason: int = 0
    score: int = 0
    travel: int = 0xFFFFFFFF
    stale: int = 0
    idle: int = 0
    queue_index: int = 0

    def encode(self) -> bytes:
        """The row's 32 bytes."""
        row = np.zeros(1, ROW_DTYPE)
        for name in ROW_DTYPE.names or ():
            row[name] = int(getattr(self, name))
        return row.tobytes()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The row in exactly 32 bytes; ValueError for another length or an unknown status."""
        if len(data) != ROW_DTYPE.itemsize:
            raise ValueError(f"an assignment row must be {ROW_DTYPE.itemsize} bytes long, got {len(data)}")
        return cls.from_record(np.frombuffer(data, ROW_DTYPE)[0])

    @classmethod
    def from_record(cls, row: np.void) -> Self:
        """From one element of a ROW_DTYPE array."""
        values = {name: row[name].item() for name in ROW_DTYPE.names or ()}
        return cls(**{**values, "status": CoordStatus(values["status"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentStats:
    """Counts over the rows with queue_index 0; `ready` are rows with status 0, 1, 4, 6, 7 or 9."""

    agents: int = 0
    zones: int = 0
    assigned: int = 0
    rejected: int = 0
    conflicts: int = 0
    stale_agents: int = 0
    blocked_zones: int = 0
    unsafe: int = 0
    ready: int = 0
    score_sum: int = 0
    by_status: tuple[int, ...] = (0,) * len(CoordStatus)

    @classmethod
    def of(cls, rows: Records, *, zones: int, blocked_zones: int) -> Self:
        """Count rows; zones and blocked zones are not in the rows, so they are told."""
        first = rows["queue_index"] == 0
        served = rows if first.all() else rows[first]
        counts = np.bincount(served["status"], minlength=len(CoordStatus)).tolist()
        ready = (CoordStatus.OK, CoordStatus.IDLE_NO_ZONE, CoordStatus.UNREACHABLE, CoordStatus.UNSAFE_ASSIGNMENT,
                 CoordStatus.CONFLICT, CoordStatus.MISSING_CAPABILITY)  # fmt: skip
        return cls(
            agents=len(served),
            zones=zones,
            assigned=counts[CoordStatus.OK],
            rejected=sum(counts[2:]),
            conflicts=counts[CoordStatus.CONFLICT],
            stale_agents=counts[CoordStatus.STALE_AGENT],
            blocked_zones=blocked_zones,
            unsafe=counts[CoordStatus.UNSAFE_ASSIGNMENT],
            ready=sum(counts[s] for s in ready),
            score_sum=int(served["score"][served["status"] == 0].sum(dtype=np.int64)),
            by_status=tuple(counts),
        )


def empty_assignment_stats() -> AssignmentStats:
    """All counts zero.

    >>> empty_assignment_stats().assigned
    0
    """
    return AssignmentStats()


def assignment_ok(row: Assignment) -> bool:
    """Whether the row has a zone (status 0)."""
    return row.status == CoordStatus.OK


def assignment_rejected(row: Assignment) -> bool:
    """Whether the agent was refused (any status from 2 up).

    >>> assignment_rejected(Assignment(agent=1)), assignment_rejected(Assignment(agent=1, status=CoordStatus.CONFLICT))
    (False, True)
    """
    return row.status >= CoordStatus.STALE_AGENT


def assignment_conflict(row: Assignment) -> bool:
    """Whether every feasible zone of the agent went to a better candidate (status 7)."""
    return row.status == CoordStatus.CONFLICT


def count_assignments_by_status(rows: Iterable[Assignment]) -> dict[CoordStatus, int]:
    """How many rows each status has, all statuses present, queued rows left out."""
    counts = dict.fromkeys(CoordStatus, 0)
    for row in rows:
        if row.queue_index == 0:
            counts[row.status] += 1
    return counts


def find_assignment_by_agent(rows: Sequence[Assignment], agent: int) -> Assignment | None:
    """The agent's row with queue_index 0, or None."""
    return next((row for row in rows if row.agent == agent and row.queue_index == 0), None)


def find_assignment_by_zone(rows: Sequence[Assignment], zone: int) -> Assignment | None:
    """The row that serves or queues the zone, or None."""
    return next((row for row in rows if row.zone == zone and zone != NO_ZONE), None)

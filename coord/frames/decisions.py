"""DecisionLedger: what a sequence of frames adds up to, mergeable in any order and grouping."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Self

from coord.frames.frame import DecisionFrame, decision_frame_total_rows
from coord.health import rate

_SUMS = ("agents", "zones", "assigned", "rejected", "conflicts", "stale_agents", "blocked_zones", "unsafe", "score_sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLedger:
    """Frame count, first and last tick and the sums of the counters; the empty ledger is neutral in `merge`.

    >>> a = DecisionLedger.of([DecisionFrame(tick=4, agents=2, assigned=1), DecisionFrame(tick=9, agents=2)])
    >>> a.frames, decision_ledger_tick_span(a), decision_ledger_assignment_rate(a)
    (2, 6, 0.25)
    """

    frames: int = 0
    first_tick: int | None = None
    last_tick: int | None = None
    agents: int = 0
    zones: int = 0
    assigned: int = 0
    rejected: int = 0
    conflicts: int = 0
    stale_agents: int = 0
    blocked_zones: int = 0
    unsafe: int = 0
    score_sum: int = 0

    @classmethod
    def of(cls, frames: Iterable[DecisionFrame]) -> Self:
        """The ledger of frames, in any order."""
        ledger = cls()
        for frame in frames:
            ledger = ledger.add(frame)
        return ledger

    def add(self, frame: DecisionFrame) -> Self:
        """With one more frame."""
        one = type(self)(
            frames=1, first_tick=frame.tick, last_tick=frame.tick, **{name: getattr(frame, name) for name in _SUMS}
        )
        return self.merge(one)

    def merge(self, other: DecisionLedger) -> Self:
        """Both together; associative and commutative."""
        values = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        firsts = [tick for tick in values.pop("first_tick") if tick is not None]
        lasts = [tick for tick in values.pop("last_tick") if tick is not None]
        return type(self)(
            first_tick=min(firsts, default=None),
            last_tick=max(lasts, default=None),
            **{name: a + b for name, (a, b) in values.items()},
        )


def decision_ledger_total_rows(ledger: DecisionLedger) -> int:
    """Rows with queue_index 0 over all frames: the sum of `decision_frame_total_rows`."""
    return ledger.agents


def decision_ledger_rows_per_frame(ledger: DecisionLedger) -> float:
    """Total rows / frames, 0 without frames."""
    return rate(decision_ledger_total_rows(ledger), ledger.frames)


def decision_ledger_tick_span(ledger: DecisionLedger) -> int:
    """last - first + 1, 0 if empty."""
    if ledger.first_tick is None or ledger.last_tick is None:
        return 0
    return ledger.last_tick - ledger.first_tick + 1


def decision_ledger_assignment_rate(ledger: DecisionLedger) -> float:
    """Assigned rows / rows."""
    return rate(ledger.assigned, ledger.agents)


def decision_ledger_rejected_rate(ledger: DecisionLedger) -> float:
    """Rows with status 2 or more / rows."""
    return rate(ledger.rejected, ledger.agents)


def decision_ledger_conflict_rate(ledger: DecisionLedger) -> float:
    """Rows with status 7 / rows."""
    return rate(ledger.conflicts, ledger.agents)


def decision_ledger_stale_agent_rate(ledger: DecisionLedger) -> float:
    """Rows with status 2 / rows."""
    return rate(ledger.stale_agents, ledger.agents)


__all__ = [
    "DecisionLedger",
    "decision_frame_total_rows",
    "decision_ledger_assignment_rate",
    "decision_ledger_conflict_rate",
    "decision_ledger_rejected_rate",
    "decision_ledger_rows_per_frame",
    "decision_ledger_stale_agent_rate",
    "decision_ledger_tick_span",
    "decision_ledger_total_rows",
]

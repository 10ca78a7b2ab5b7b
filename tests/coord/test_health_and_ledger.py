from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coord import (
    Assignment,
    AssignmentStats,
    CoordHealth,
    CoordStatus,
    DecisionFrame,
    DecisionLedger,
    assignment_conflict,
    assignment_ok,
    assignment_rejected,
    coord_health,
    count_assignments_by_status,
    decision_ledger_assignment_rate,
    decision_ledger_conflict_rate,
    decision_ledger_rejected_rate,
    decision_ledger_rows_per_frame,
    decision_ledger_stale_agent_rate,
    decision_ledger_tick_span,
    decision_ledger_total_rows,
    empty_assignment_stats,
    find_assignment_by_agent,
    find_assignment_by_zone,
)
from coord.health import rate

small = st.integers(0, 1000)
frames = st.builds(
    DecisionFrame, frame_id=small, tick=small, agents=st.integers(2000, 3000), assigned=small, rejected=small,
    conflicts=small, stale_agents=small, zones=small, blocked_zones=small, unsafe=small,
    score_sum=st.integers(-(2**40), 2**40),
)  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, CoordHealth.EMPTY),
        ({"zones": 4, "blocked_zones": 4}, CoordHealth.EMPTY),
        ({"agents": 10, "ready": 10, "assigned": 9}, CoordHealth.OK),
        ({"agents": 10, "ready": 10, "assigned": 8}, CoordHealth.DEGRADED),
        ({"agents": 10, "ready": 10, "assigned": 10, "conflicts": 1}, CoordHealth.DEGRADED),
        ({"agents": 4, "ready": 0, "stale_agents": 1}, CoordHealth.OK),
        ({"agents": 4, "ready": 2, "assigned": 2, "stale_agents": 2}, CoordHealth.STALE),
        ({"agents": 4, "stale_agents": 4, "unsafe": 1}, CoordHealth.BLOCKED),
        ({"agents": 1, "ready": 1, "assigned": 1, "zones": 2, "blocked_zones": 1}, CoordHealth.OK),
        ({"agents": 1, "ready": 1, "assigned": 1, "zones": 3, "blocked_zones": 2}, CoordHealth.BLOCKED),
    ],
)
def test_health_is_the_worst_that_applies(counts, expected):
    assert coord_health(AssignmentStats(**counts)) == expected


@given(st.lists(frames, max_size=8), st.integers(0, 2**20))
def test_merging_is_associative_and_commutative(many, seed):
    serial = DecisionLedger.of(many)
    shuffled = many[:]
    random.Random(seed).shuffle(shuffled)
    cut = len(many) // 2
    sharded = DecisionLedger.of(shuffled[:cut]).merge(DecisionLedger.of(shuffled[cut:]))
    assert sharded == serial
    assert serial.merge(DecisionLedger()) == serial == DecisionLedger().merge(serial)


def test_reducers_of_two_frames():
    ledger = DecisionLedger.of(
        [
            DecisionFrame(tick=10, agents=4, assigned=1, rejected=2, conflicts=1, stale_agents=1, score_sum=5),
            DecisionFrame(tick=30, agents=4, assigned=2, rejected=0, score_sum=-7),
        ]
    )
    assert (ledger.frames, ledger.first_tick, ledger.last_tick, ledger.score_sum) == (2, 10, 30, -2)
    assert decision_ledger_total_rows(ledger) == 8
    assert decision_ledger_rows_per_frame(ledger) == 4.0
    assert decision_ledger_tick_span(ledger) == 21
    assert decision_ledger_assignment_rate(ledger) == 0.375
    assert decision_ledger_rejected_rate(ledger) == 0.25
    assert decision_ledger_conflict_rate(ledger) == decision_ledger_stale_agent_rate(ledger) == 0.125


def test_an_empty_ledger_has_rates_of_zero():
    empty = DecisionLedger()
    assert decision_ledger_tick_span(empty) == decision_ledger_rows_per_frame(empty) == 0
    assert decision_ledger_assignment_rate(empty) == rate(0, 0) == 0.0


def test_rows_are_counted_and_found():
    rows = [
        Assignment(agent=1, zone=5, status=CoordStatus.OK),
        Assignment(agent=1, zone=6, status=CoordStatus.OK, queue_index=1),
        Assignment(agent=2, status=CoordStatus.CONFLICT),
        Assignment(agent=3),
    ]
    counts = count_assignments_by_status(rows)
    assert (counts[CoordStatus.OK], counts[CoordStatus.CONFLICT], counts[CoordStatus.STALE_AGENT]) == (1, 1, 0)
    assert [assignment_ok(r) for r in rows] == [True, True, False, False]
    assert [assignment_rejected(r) for r in rows] == [False, False, True, False]
    assert [assignment_conflict(r) for r in rows] == [False, False, True, False]
    assert find_assignment_by_agent(rows, 1) is rows[0]
    assert find_assignment_by_zone(rows, 6) is rows[1]
    assert find_assignment_by_agent(rows, 9) is find_assignment_by_zone(rows, 2**32 - 1) is None
    assert empty_assignment_stats() == AssignmentStats()

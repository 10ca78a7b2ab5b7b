"""Clocks that go back or stand far ahead are warned of, and nothing else comes of it."""

from __future__ import annotations

from storage import Ledger, verify_ledger

SECOND = 10**9
DAY = 24 * 3600 * SECOND


def test_clocks_that_went_back_or_stand_ahead_are_warned_of_and_the_ledger_is_whole(run, make_event):
    times = [100 * SECOND, None, 90 * SECOND, 90 * SECOND, 3 * DAY, -5, 2**63 - 1]
    with Ledger.open(run, sync="os") as ledger:
        for i, wall_ns in enumerate(times):
            ledger.append(make_event(i, wall_ns=wall_ns))
        ledger.append(make_event(0, producer="other", wall_ns=0))
    report = verify_ledger(run)
    assert report.ok
    assert report.warnings == [
        "rank 2: the wall time of producer 'fleet-1' goes back by 0:00:10",
        "rank 5: the wall time of producer 'fleet-1' goes back by 3 days, 0:00:00",
    ]
    report = verify_ledger(run, now_ns=0)
    assert report.ok
    assert report.warnings[1:] == [
        "rank 4: the wall time of producer 'fleet-1' is 3 days, 0:00:00 ahead",
        "rank 5: the wall time of producer 'fleet-1' goes back by 3 days, 0:00:00",
        "rank 6: the wall time of producer 'fleet-1' is 106751 days, 23:47:16.854775 ahead",
    ]
    assert verify_ledger(run, now_ns=3 * DAY).warning_count == 3


def test_warnings_are_kept_up_to_a_number_and_counted_beyond_also_beside_damage(run, make_event, rewrite):
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many([make_event(i, wall_ns=-i) for i in range(300)])
    assert (len(verify_ledger(run).warnings), verify_ledger(run).warning_count) == (100, 299)
    rewrite(run, [("log", (5).to_bytes(8, "big"), b"damage")])
    report = verify_ledger(run)
    assert report.damaged_ranks == [5]
    assert report.warning_count == 298


def test_events_without_wall_times_are_not_warned_of(run, make_event, fill):
    fill(run, 600)
    assert verify_ledger(run, now_ns=0).warnings == []

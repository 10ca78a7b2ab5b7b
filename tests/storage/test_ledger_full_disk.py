"""A disk that fills up: nothing confirmed is lost, and when there is room again the same process goes on."""

from __future__ import annotations

import os

import pytest

from storage import EquivocationError, Head, Ledger, StorageFullError, verify_ledger


@pytest.fixture
def fill_until_full(make_event):
    """fill_until_full(ledger): append one by one until there is no room; the receipts and the event refused."""

    def filled(ledger):
        events = [make_event(i, effect=os.urandom(50_000)) for i in range(100)]
        receipts = []
        with pytest.raises(StorageFullError, match="No space left on device"):
            receipts.extend(map(ledger.append, events))
        return receipts, events[len(receipts)]

    return filled


@pytest.mark.parametrize("sync", ["os", "fsync"])
def test_a_full_disk_loses_nothing_confirmed_and_appending_resumes_when_there_is_room(
    small_disk, make_event, fill_until_full, sync
):
    disk, remount = small_disk(3)
    run = disk / "run"
    with Ledger.open(run, sync=sync) as ledger:
        receipts, refused = fill_until_full(ledger)
        assert 10 < len(receipts) < 100
        for _ in range(3):  # still full: the same error, and the ledger can be read
            with pytest.raises(StorageFullError) as caught:
                ledger.append(refused)
            assert str(caught.value) == f"{run}/ledger: No space left on device"
            assert ledger.head() == Head(receipts[-1].size, receipts[-1].root)
            assert ledger.at(receipts[-1].rank).id == receipts[-1].id
            assert [event.sequence for _, event in ledger.scan()] == list(range(len(receipts)))
        remount("size=30m")
        events = ledger.scan()
        assert next(events)[0] == 0
        again = ledger.append(refused)
        assert again.rank == len(receipts)
        assert ledger.append(refused).rank == again.rank
        with pytest.raises(EquivocationError):
            ledger.append(make_event(refused.sequence, effect=b"other"))
        more = [ledger.append(make_event(i, effect=os.urandom(50_000))) for i in range(200, 300)]
        assert [receipt.rank for receipt in more] == list(range(again.rank + 1, again.rank + 101))
        assert [rank for rank, _ in events] == list(range(1, len(receipts)))  # a scan begun before goes on
        assert [rank for rank, _ in ledger.scan()] == list(range(more[-1].size))
    report = verify_ledger(run)
    assert report.ok, report.problems
    assert (report.size, report.root) == (more[-1].size, more[-1].root)


def test_a_ledger_closed_on_a_full_disk_is_whole(small_disk, fill_until_full):
    disk, remount = small_disk(3)
    run = disk / "run"
    ledger = Ledger.open(run)
    receipts, refused = fill_until_full(ledger)
    ledger.close()
    report = verify_ledger(run)
    assert report.ok, report.problems
    assert report.size >= len(receipts)
    remount("size=30m")
    with Ledger.open(run) as ledger:
        assert ledger.append(refused).rank == len(receipts)
    assert verify_ledger(run).ok

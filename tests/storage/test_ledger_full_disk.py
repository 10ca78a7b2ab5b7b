"""A disk that fills up: nothing confirmed is lost, and when there is room again the same process goes on."""

from __future__ import annotations

import errno
import os
import threading
import time

import pytest

from storage import EquivocationError, Head, Ledger, StorageFullError, opening, verify_ledger


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


@pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
@pytest.mark.parametrize("sync", ["os", "fsync"])
def test_a_full_disk_loses_nothing_confirmed_and_appending_resumes_when_there_is_room(
    small_disk, make_event, fill_until_full, sync, engine
):
    disk, remount = small_disk(3)
    run = disk / "run"
    with Ledger.open(run, sync=sync, engine=engine) as ledger:
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


def test_readers_in_other_threads_do_not_notice_that_the_engine_was_opened_again(
    small_disk, make_event, fill_until_full
):
    disk, remount = small_disk(3)
    stop, errors, reads = threading.Event(), [], [0]

    def read():
        try:
            while not stop.is_set():
                rank = reads[0] % 10
                assert ledger.at(rank).sequence == rank
                assert ledger.get(ledger.at(rank).id).sequence == rank
                assert [found for found, _ in ledger.scan(0, 10)] == list(range(10))
                reads[0] += 1
        except BaseException as error:
            errors.append(error)

    with Ledger.open(disk / "run", sync="os") as ledger:
        _, refused = fill_until_full(ledger)
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            with pytest.raises(StorageFullError):
                ledger.append(refused)
            remount("size=30m")
            before = reads[0]
            ledger.append(refused)
            while not errors and reads[0] < before + 20:
                time.sleep(0.001)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert errors == []


def test_a_full_disk_at_the_writing_of_head_refuses_and_passes(run, make_event, monkeypatch):
    with Ledger.open(run, sync="os") as ledger:
        for i in range(63):
            ledger.append(make_event(i))

        def full(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("storage.head.write", full)
            assert ledger.append(make_event(63)).size == 64  # confirmed all the same
            for _ in range(2):
                with pytest.raises(StorageFullError, match=r"/HEAD: No space left on device$"):
                    ledger.append(make_event(64))
                assert ledger.head().size == 64
        assert ledger.append(make_event(64)).rank == 64
    assert verify_ledger(run).ok


@pytest.mark.parametrize("written", [False, True])
def test_after_a_write_of_unknown_end_a_retry_finds_the_event_or_stores_it(run, make_event, written):
    class Failing:
        """A store that says full, once, before or after it wrote."""

        fail = False

        def __init__(self, store):
            self._store = store

        def __getattr__(self, name):
            return getattr(self._store, name)

        def write(self, entries, *, sync):
            fail, Failing.fail = Failing.fail, False
            if not fail or written:
                self._store.write(entries, sync=sync)
            if fail:
                raise StorageFullError("full")

    with Ledger.open(run, through=Failing) as ledger:
        ledger.append(make_event(0))
        head = ledger.head()
        Failing.fail = True
        with pytest.raises(StorageFullError, match=r"^full$"):
            ledger.append_many([make_event(1), make_event(2)])
        assert ledger.head() == head
        other = ledger.append(make_event(0, producer="other"))
        assert other.rank == (3 if written else 1)
        again = ledger.append_many([make_event(1), make_event(2)])
        assert [receipt.rank for receipt in again] == ([1, 2] if written else [2, 3])
        assert ledger.head().size == 4
        assert ledger.cursor("fleet-1") == (2, make_event(2).id)
    assert verify_ledger(run).ok


@pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
def test_while_the_engine_can_not_be_opened_again_reading_goes_on(
    small_disk, make_event, fill_until_full, monkeypatch, engine
):
    disk, remount = small_disk(3)
    with Ledger.open(disk / "run", engine=engine) as ledger:
        receipts, refused = fill_until_full(ledger)
        opened = opening.open_run

        def full(run, *, writable, **options):
            if writable:
                raise StorageFullError("no room to open")
            return opened(run, writable=writable, **options)

        remount("size=30m")
        with monkeypatch.context() as patch:
            patch.setattr("storage.opening.open_run", full)
            for _ in range(2):
                with pytest.raises(StorageFullError, match=r"^no room to open$"):
                    ledger.append(refused)
                assert [rank for rank, _ in ledger.scan()] == list(range(len(receipts)))
        assert ledger.append(refused).rank == len(receipts)
    assert verify_ledger(disk / "run").ok

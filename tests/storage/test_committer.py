"""Group commit: many producers, one writer at a time."""

from __future__ import annotations

import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from storage import (
    ClosedError,
    EquivocationError,
    Ledger,
    ReadOnlyError,
    StorageError,
    SyncError,
    committer,
    head,
    verify_ledger,
)


class Recorded:
    """A store that counts writes and syncs, can be held at a gate, and can fail."""

    def __init__(self, store):
        self._store = store
        self.writes, self.syncs = 0, 0
        self.seconds = 0.0
        self.gate = threading.Event()
        self.gate.set()
        self.error = None

    def __getattr__(self, name):
        return getattr(self._store, name)

    def write(self, entries, *, sync):
        assert self.gate.wait(30)
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        self._store.write(entries, sync=sync)
        self.writes += 1
        self.syncs += sync

    def sync(self):
        self._store.sync()
        self.syncs += 1


@pytest.fixture
def recorded(run):
    """recorded(sync=…): a ledger and the store beneath it, which is a Recorded."""
    stores, ledgers = [], []

    def opened(**options):
        ledger = Ledger.open(run, through=lambda store: stores.append(Recorded(store)) or stores[-1], **options)
        ledgers.append(ledger)
        return ledger, stores[-1]

    yield opened
    for ledger in ledgers:
        stores[-1].gate.set()
        ledger.close()


@pytest.fixture
def busy_threads():
    """Threads change as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(*calls):
    """What each call returned or raised, all run at once."""
    start = threading.Barrier(len(calls))

    def run(call):
        start.wait()
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def waiting(ledger, count):
    """Return when so many requests are in the queue."""
    for _ in range(10_000):
        if len(ledger._committer._queue) >= count:
            return
        time.sleep(0.001)
    raise AssertionError("nobody came")


def committers_gone():
    """Return when no committer's thread is left."""
    for _ in range(10_000):
        if not [thread for thread in threading.enumerate() if thread.name == "droveway-committer"]:
            return
        time.sleep(0.001)
    raise AssertionError("a thread stays")


def test_batches_stay_whole_and_in_their_producers_order(run, make_event, busy_threads):
    def produce(ledger, name):
        randomly, n, receipts = random.Random(name), 0, []
        for _ in range(40):
            count = randomly.randint(1, 5)
            receipts.append(ledger.append_many([make_event(n + i, b"", producer=name) for i in range(count)]))
            n += count
        return receipts

    with Ledger.open(run, sync="os") as ledger:
        results = in_threads(*(lambda name=f"p{n}": produce(ledger, name) for n in range(8)))
        for batches in results:
            for batch in batches:
                ranks = [receipt.rank for receipt in batch]
                assert ranks == list(range(ranks[0], ranks[0] + len(ranks)))
                assert {receipt.root for receipt in batch} == {batch[0].root}
            order = [receipt.rank for batch in batches for receipt in batch]
            assert order == sorted(order)
        assert ledger.head().size == sum(len(batch) for batches in results for batch in batches)
    assert verify_ledger(run).ok


def test_of_two_events_for_one_sequence_number_one_is_refused(run, make_event, busy_threads):
    with Ledger.open(run, sync="os") as ledger:
        for sequence in range(40):
            calls = [lambda n=n, q=sequence: ledger.append(make_event(q, b"%d" % n)) for n in range(4)]
            outcomes = in_threads(*calls)
            assert sorted(type(outcome).__name__ for outcome in outcomes) == ["EquivocationError"] * 3 + ["Receipt"]
        assert ledger.head().size == 40
    assert verify_ledger(run).ok


def test_the_same_event_from_many_threads_is_stored_once(run, make_event, busy_threads):
    with Ledger.open(run, sync="os") as ledger:
        for sequence in range(40):
            receipts = in_threads(*[lambda q=sequence: ledger.append(make_event(q))] * 6)
            assert {receipt.rank for receipt in receipts} == {sequence}
        assert ledger.head().size == 40


def test_a_failed_write_reaches_each_caller_as_an_error_of_its_own(recorded, make_event):
    ledger, store = recorded()
    store.gate.clear()
    store.error = StorageError("broken")
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(ledger.append, make_event(0, producer=f"p{n}")) for n in range(4)]
        waiting(ledger, 3)
        store.gate.set()
        errors = [future.exception() for future in futures]
    assert len(set(map(id, errors))) == 4
    later = f"{ledger.path}: no append after a failed one, open the ledger again: broken"
    assert {"broken"} <= set(map(str, errors)) <= {"broken", later}


def test_closing_commits_what_waits_and_refuses_what_comes(run, make_event, busy_threads):
    for turn in range(5):
        ledger = Ledger.open(run, sync="os")
        confirmed, refused = [], []

        def produce(name, ledger=ledger, confirmed=confirmed, refused=refused):
            try:
                for i in range(100_000):
                    confirmed.append(ledger.append(make_event(i, b"", producer=name)).rank)
            except ClosedError as error:
                refused.append(str(error))

        threads = [threading.Thread(target=produce, args=(f"p{turn}-{n}",)) for n in range(6)]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
        ledger.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert refused == [f"{run}: the ledger is closed"] * 6
        with Ledger.open(run, "r") as ledger:
            assert ledger.head().size > max(confirmed)
    report = verify_ledger(run)
    assert report.ok, report.problems


def test_a_group_has_one_sync_and_only_where_one_asks_for_it(recorded, make_event):
    ledger, store = recorded(sync="os")
    ledger.append(make_event(0))
    assert (store.writes, store.syncs) == (1, 0)
    ledger.append(make_event(1), sync="fsync")
    assert (store.writes, store.syncs) == (2, 1)
    store.gate.clear()
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(ledger.append, make_event(2))
        while ledger._committer._leader is None or ledger._committer._queue:
            time.sleep(0.001)
        others = [
            pool.submit(ledger.append, make_event(0, producer=f"p{n}"), "fsync" if n == 2 else None) for n in range(4)
        ]
        waiting(ledger, 4)
        store.gate.set()
        assert first.result().size == 3
        assert {future.result().size for future in others} == {7}
    assert (store.writes, store.syncs) == (4, 2)


def test_an_event_that_is_there_already_is_synced_before_its_durable_receipt(recorded, make_event):
    ledger, store = recorded(sync="os")
    ledger.append(make_event(0))
    assert ledger.append(make_event(0), sync="fsync").rank == 0
    assert (store.writes, store.syncs) == (1, 1)
    ledger.append(make_event(0), sync="fsync")  # it is on the disk by now
    assert (store.writes, store.syncs) == (1, 1)


def test_an_append_may_skip_the_sync_of_a_durable_ledger(recorded, make_event):
    ledger, store = recorded()
    ledger.append_many([make_event(0), make_event(1)], sync="os")
    assert (store.writes, store.syncs) == (1, 0)
    ledger.close()  # HEAD names what is on the disk
    assert store.syncs == 1
    with pytest.raises(ValueError, match=r"^Ledger\.append: sync must be \"fsync\" or \"os\", got 'none'$"):
        Ledger.open(ledger.path).append(make_event(2), sync="none")


def test_others_commit_while_head_is_written_and_an_older_head_replaces_no_newer_one(run, make_event, monkeypatch):
    gate, writing, real = threading.Event(), threading.Event(), head.write

    def slow(path, found, *, durable):
        if threading.current_thread() is writer:
            writing.set()
            assert gate.wait(30)
        real(path, found, durable=durable)

    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many([make_event(0)])
        monkeypatch.setattr("storage.head.write", slow)
        writer = threading.Thread(target=lambda: [ledger.append(make_event(i)) for i in range(1, 64)])
        writer.start()
        assert writing.wait(30)
        receipts = [ledger.append(make_event(i, producer="other")) for i in range(50)]
        assert receipts[-1].size == 114
        assert head.read(run / "HEAD").size == 0
        closing = threading.Thread(target=ledger.close)
        closing.start()
        gate.set()
        writer.join(60)
        closing.join(60)
    assert head.read(run / "HEAD").size == 114
    assert verify_ledger(run).ok


@pytest.mark.parametrize("default", ["os", "fsync"])
def test_a_durable_head_never_names_what_is_not_on_the_disk(run, make_event, monkeypatch, default):
    synced, written, heads = [0], [0], []

    class Watched(Recorded):
        def write(self, entries, *, sync):
            super().write(entries, sync=sync)
            written[0] = int.from_bytes({key: value for _, key, value in entries}[b"head"][:8], "big")
            if sync:
                synced[0] = written[0]

        def sync(self):
            super().sync()
            synced[0] = written[0]

    def note(path, head, *, durable=True):
        heads.append((head.size, synced[0], durable))

    randomly = random.Random(3)
    with Ledger.open(run, sync=default, through=Watched) as ledger:
        monkeypatch.setattr("storage.head.write", note)
        for i in range(500):
            ledger.append(make_event(i, b""), sync=randomly.choice([None, "os", "fsync"]))
    assert len(heads) == 8
    assert all(size <= on_disk for size, on_disk, durable in heads if durable)
    assert [durable for _, _, durable in heads] == [default == "fsync"] * 7 + [True]


def test_producers_that_come_back_together_share_each_sync(recorded, make_event):
    ledger, store = recorded()
    store.seconds = 0.02
    in_threads(
        *(lambda name=f"p{n}": [ledger.append(make_event(i, b"", producer=name)) for i in range(10)] for n in range(8))
    )
    assert ledger.head().size == 80
    assert store.writes < 20  # 10 are the fewest; without waiting for each other there would be some


def test_submitted_events_are_committed_in_order_and_each_has_its_outcome(recorded, make_event):
    ledger, store = recorded(sync="os")
    store.gate.clear()
    done = []
    futures = [ledger.submit([make_event(i)]) for i in range(50)]
    futures[-1].add_done_callback(lambda _: done.append(ledger.append(make_event(60)).rank))  # callbacks may append
    bad = ledger.submit([make_event(70, producer="b"), make_event(3, b"other")])
    assert not any(future.done() for future in futures)
    store.gate.set()
    assert [future.result(60)[0].rank for future in futures] == list(range(50))
    with pytest.raises(EquivocationError):
        bad.result(60)
    assert ledger.append(make_event(61)).rank >= 50
    last = ledger.submit([make_event(62)], sync="fsync")
    ledger.close()
    assert last.done()
    assert len(done) == 1
    assert store.syncs >= 1
    with pytest.raises(ClosedError):
        ledger.submit([make_event(63)])
    assert not [thread for thread in threading.enumerate() if thread.name == "droveway-committer"]
    assert verify_ledger(ledger.path).ok


def test_a_callback_may_close_the_ledger(recorded, make_event):
    ledger, store = recorded(sync="os")
    store.gate.clear()
    futures = [ledger.submit([make_event(0)])]
    while ledger._committer._queue:
        time.sleep(0.001)
    futures += [ledger.submit([make_event(i)]) for i in (1, 2)]
    futures[0].add_done_callback(lambda _: ledger.close())
    store.gate.set()
    assert [future.result(60)[0].rank for future in futures] == [0, 1, 2]
    committers_gone()
    with Ledger.open(ledger.path) as again:
        assert again.head().size == 3


def test_submitting_and_appending_mix(run, make_event, busy_threads):
    def produce(ledger, name):
        futures = []
        for i in range(60):
            if i % 3:
                futures.append(ledger.submit([make_event(i, b"", producer=name)]))
            else:
                ledger.append(make_event(i, b"", producer=name))
        return [future.result(60)[0].rank for future in futures]

    with Ledger.open(run, sync="os") as ledger:
        for ranks in in_threads(*(lambda name=f"p{n}": produce(ledger, name) for n in range(6))):
            assert ranks == sorted(ranks)
        assert ledger.head().size == 360
    assert verify_ledger(run).ok


def test_a_full_queue_makes_producers_wait(recorded, make_event, monkeypatch):
    monkeypatch.setattr(committer, "QUEUE_BYTES_MAX", 10_000)
    ledger, store = recorded(sync="os")
    store.gate.clear()
    most = [0]

    def produce(name):
        for i in range(5):
            ledger.append(make_event(i, bytes(3000), producer=name))
            most[0] = max(most[0], ledger._committer._queue_bytes)

    threads = [threading.Thread(target=produce, args=(f"p{n}",)) for n in range(12)]
    for thread in threads:
        thread.start()
    waiting(ledger, 3)
    time.sleep(0.05)
    assert len(ledger._committer._queue) == 3
    store.gate.set()
    for thread in threads:
        thread.join(60)
    assert ledger.head().size == 60
    assert most[0] <= 10_000
    ledger.append(make_event(99, bytes(50_000)))  # larger than the queue: alone


def test_groups_are_bounded(recorded, make_event, monkeypatch):
    monkeypatch.setattr(committer, "GROUP_BYTES_MAX", 10_000)
    monkeypatch.setattr(committer, "GROUP_EVENTS_MAX", 4)
    ledger, store = recorded(sync="os")
    store.gate.clear()
    futures = [ledger.submit([make_event(i, bytes(10))]) for i in range(9)]
    futures += [ledger.submit([make_event(i, bytes(6000))]) for i in range(9, 12)]
    store.gate.set()
    sizes = sorted({future.result(60)[0].size for future in futures})
    assert sizes[-1] == 12
    assert max(b - a for a, b in zip([0, *sizes], sizes, strict=False)) <= 4
    assert store.writes >= 5


@pytest.mark.parametrize("name", ["write", "sync"])
def test_after_a_failed_sync_the_ledger_only_reads(recorded, make_event, name):
    ledger, store = recorded()
    ledger.append(make_event(0))
    before_it = ledger.head()
    store.error = SyncError("the disk is gone")
    with pytest.raises(SyncError, match=r"^the disk is gone$"):
        ledger.append(make_event(1))
    store.error = None
    before = store.writes, store.syncs
    for use in (lambda: ledger.append(make_event(2)), lambda: ledger.retire([0])):
        with pytest.raises(ReadOnlyError) as caught:
            use()
        assert str(caught.value) == (
            f"{ledger.path}: read-only since a sync failed, open the ledger again: the disk is gone"
        )
    assert ledger.mode == "r"
    assert ledger.head() == before_it
    assert ledger.at(0) == make_event(0)
    assert (store.writes, store.syncs) == before
    ledger.close()
    with Ledger.open(ledger.path) as again:
        assert again.append(make_event(1)).rank == 1
    assert verify_ledger(ledger.path).ok


INTERRUPTED = """
import random, signal, sys, threading, time
from storage import Event, Ledger, verify_ledger

randomly = random.Random(seed)
sys.setswitchinterval(1e-5)
ledger = Ledger.open(run, sync=randomly.choice(["os", "fsync"]))

def event(name, i):
    return Event(producer=name, effect=b"x" * 50, kind="x", sequence=i, tick=0)

stop, counts, errors = threading.Event(), {}, []

def produce(name):
    try:
        i = 0
        while not stop.is_set():
            assert ledger.append(event(name, i)).rank >= i
            i += 1
            counts[name] = i
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=produce, args=(f"t{n}",), daemon=True) for n in range(count)]
for thread in threads:
    thread.start()
interrupts, i = 0, 0
signal.signal(signal.SIGALRM, signal.default_int_handler)
until = time.monotonic() + 1.5
while time.monotonic() < until:
    try:
        signal.setitimer(signal.ITIMER_REAL, randomly.uniform(1e-5, 2e-3))
        while True:
            ledger.append(event("main", i))
            i += 1
    except KeyboardInterrupt:
        interrupts += 1
signal.setitimer(signal.ITIMER_REAL, 0)
ledger.append(event("main", i))
stop.set()
for thread in threads:
    thread.join(20)
    assert not thread.is_alive(), "a producer hangs"
assert errors == [], errors
size = ledger.head().size
ledger.close()
report = verify_ledger(run)
assert report.ok, report.problems
assert report.size == size == i + 1 + sum(counts.values()), (size, i, counts)
print(interrupts > 20)
"""


@pytest.mark.parametrize("threads", [0, 4])
def test_an_interrupted_producer_leaves_a_ledger_that_goes_on(run, python, threads):
    for seed in range(2):
        arguments = [str(run.with_name(f"run{seed}")), seed, threads]
        done = python(f"run, seed, count = {arguments}" + INTERRUPTED, seconds=60)
        assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_fork_while_others_append_leaves_both_processes_well(run, python):
    done = python(
        f"""
import os, threading
from storage import ClosedError, Event, Ledger
ledger = Ledger.open({str(run)!r})
stop = threading.Event()
def produce(name):
    i = 0
    while not stop.is_set():
        ledger.append(Event(producer=name, effect=b"", kind="x", sequence=i, tick=0))
        i += 1
threads = [threading.Thread(target=produce, args=(f"p{{n}}",)) for n in range(4)]
for thread in threads:
    thread.start()
ledger.submit([Event(producer="s", effect=b"", kind="x", sequence=0, tick=0)])
for turn in range(10):
    child = os.fork()
    if child == 0:
        found = 0
        for use in (ledger.head, lambda: ledger.append(Event(producer="c", effect=b"", kind="x", sequence=0, tick=0))):
            try:
                use()
            except ClosedError:
                found += 1
        ledger.close()
        os._exit(found)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
stop.set()
for thread in threads:
    thread.join()
ledger.close()
print("well")
""",
        seconds=60,
    )
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
    assert verify_ledger(run).ok


def test_a_process_that_ends_without_closing_commits_what_it_submitted(run, python):
    done = python(
        f"""
from storage import Event, Ledger
ledger = Ledger.open({str(run)!r}, sync="os")
for i in range(300):
    ledger.submit([Event(producer="a", effect=bytes(1000), kind="x", sequence=i, tick=0)])
""",
        seconds=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert verify_ledger(run).size == 300


def test_a_ledger_that_is_dropped_ends_its_thread(run, make_event):
    ledger = Ledger.open(run, sync="os")
    future = ledger.submit([make_event(0)])
    del ledger
    assert future.result(60)[0].rank == 0
    committers_gone()
    with Ledger.open(run) as ledger:  # and gives the lock back
        assert ledger.head().size == 1

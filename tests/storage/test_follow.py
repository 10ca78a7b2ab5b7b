"""A follower in another process gives out exactly what the writer appended, whatever happens to the writer."""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

from storage import (
    Event,
    ForkError,
    IntegrityError,
    Ledger,
    NotALedgerError,
    RetiredError,
    RollbackError,
    follow,
)
from storage.layout import log_key
from storage.replay.log_tail import WAITS_MAX, LogTail, TailLostError

ENGINES = ("rocksdb", "lmdb")

WRITER = """
import hashlib, sys, time
from storage import Event, Ledger
run, engine, stop, batch, effect_bytes, flush = *sys.argv[1:3], *map(int, sys.argv[3:])
def event(i):
    effect = (hashlib.sha256(b"%d" % i).digest() * (effect_bytes // 32 + 1))[:effect_bytes]
    return Event(producer="fleet-1", effect=effect, kind="note.text", sequence=i, tick=i)
with Ledger.open(run, sync="os", engine=engine) as ledger:
    at = ledger.head().size
    while at < stop:
        n = min(batch, stop - at)
        ledger.append_many([event(i) for i in range(at, at + n)])
        at += n
        if flush and at % flush < n:
            ledger._store.flush()
        print(at, flush=True)
        time.sleep(0.002)
"""


def event(i, effect_bytes):
    effect = (hashlib.sha256(b"%d" % i).digest() * (effect_bytes // 32 + 1))[:effect_bytes]
    return Event(producer="fleet-1", effect=effect, kind="note.text", sequence=i, tick=i)


@pytest.fixture
def writer(run):
    """writer(stop, …): a process that appends up to a size."""
    started = []

    def start(engine, stop, batch=10, effect_bytes=100, flush=0):
        arguments = [engine, *(str(n) for n in (stop, batch, effect_bytes, flush))]
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(run), *arguments], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def checked(feed, stop, effect_bytes, start=0):
    """Take events up to a size; each must be the next one."""
    expected = start
    for rank, found in feed:
        assert rank == expected
        assert found == event(rank, effect_bytes)
        expected += 1
        if expected == stop:
            break
    assert expected == stop


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("stop", "batch", "effect_bytes", "flush"),
    [(1500, 10, 100, 0), (3000, 100, 300, 500), (60, 1, 100_000, 7), (6000, 500, 700, 0)],
)
def test_a_follower_gets_what_a_live_writer_appends(run, writer, engine, stop, batch, effect_bytes, flush):
    process = writer(engine, stop, batch, effect_bytes, flush)
    checked(follow(run, poll_s=0.005), stop, effect_bytes)
    process.wait(timeout=60)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_follower_goes_on_when_the_writer_is_killed_and_starts_again(run, writer, engine):
    feed = follow(run, poll_s=0.005)
    process = writer(engine, 100_000, batch=7)
    taken = 0
    for _ in range(3):
        wanted = taken + 150
        for rank, found in feed:
            assert (rank, found) == (taken, event(taken, 100))
            taken += 1
            if taken == wanted:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
        process = writer(engine, 100_000, batch=7)
    checked(feed, taken + 200, 100, start=taken)


def test_following_changes_no_byte_and_ends_where_it_is_told(run, fill, directory_digest):
    fill(run, 50)
    before = directory_digest(run)
    assert [rank for rank, _ in follow(run, stop=lambda: True)] == list(range(50))
    assert [rank for rank, _ in follow(run, 30, stop=lambda: True)] == list(range(30, 50))
    assert list(follow(run, 50, stop=lambda: True)) == []
    assert directory_digest(run) == before


@pytest.mark.parametrize("engine", ENGINES)
def test_what_was_there_when_stop_said_so_is_still_given_out(run, make_event, engine):
    with Ledger.open(run, sync="os", engine=engine) as ledger:
        ledger.append(make_event(0))
        asked = []

        def stop():
            asked.append(0)
            if len(asked) == 5:
                ledger.append_many([make_event(1), make_event(2)])
            return len(asked) == 5

        assert [rank for rank, _ in follow(run, stop=stop, poll_s=0)] == [0, 1, 2]
        assert len(asked) == 5


def test_no_ledger_yet_is_told(run):
    with pytest.raises(NotALedgerError, match=f"^{run}: expected to read it, got: no such file or directory$"):
        next(follow(run))
    run.mkdir()
    with pytest.raises(NotALedgerError, match="holds no ledger"):
        next(follow(run))


def test_a_start_beyond_the_end_is_told(run, fill):
    fill(run, 5)
    with pytest.raises(ValueError, match=rf"^follow: {run}: start must be in \[0, 5\], got 6$"):
        next(follow(run, 6))


def test_a_cursor_must_belong_to_the_ledger(run, fill, tmp_path):
    fill(run, 20)
    with Ledger.open(run, mode="r") as ledger:
        cursor = ledger.cursor_at(12)
    assert [rank for rank, _ in follow(run, cursor, stop=lambda: True)] == list(range(12, 20))
    fill(tmp_path / "other", 20, producer="another")
    with pytest.raises(ForkError):
        next(follow(tmp_path / "other", cursor))
    fill(tmp_path / "short", 5)
    with pytest.raises(RollbackError):
        next(follow(tmp_path / "short", cursor))


@pytest.mark.parametrize(("size", "producer", "error"), [(20, "another", ForkError), (5, "fleet-1", RollbackError)])
def test_another_ledger_in_its_place_is_noticed(run, fill, tmp_path, size, producer, error):
    fill(run, 10)
    feed = follow(run, poll_s=0.001)
    for _ in range(10):
        next(feed)
    run.rename(tmp_path / "old")
    fill(run, size, producer=producer)
    with pytest.raises(error):
        next(feed)


def test_damage_is_an_error_with_its_rank(run, fill, rewrite, make_event):
    fill(run, 10)
    rewrite(run, [("log", log_key(6), bytes(32) + make_event(6).encode())])
    feed = follow(run)
    assert [next(feed)[0] for _ in range(6)] == list(range(6))
    with pytest.raises(IntegrityError) as caught:
        next(feed)
    assert list(caught.value.ranks) == [6]


def test_a_retired_event_stops_the_feed_and_one_can_go_on_behind_it(run, fill):
    fill(run, 10)
    with Ledger.open(run) as ledger:
        ledger.retire([4])
    feed = follow(run)
    assert [next(feed)[0] for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(RetiredError):
        next(feed)
    assert [rank for rank, _ in follow(run, 5, stop=lambda: True)] == [5, 6, 7, 8, 9]


def opened_tail(run):
    tail = LogTail(run / "ledger")
    with Ledger.open(run, mode="r") as reader:
        tail.start(reader.head().size, reader.frontier())
    return tail


def drained(tail):
    return [event for _, events in tail.poll() for event in events]


def test_the_tail_reads_commits_of_any_size_without_opening_the_ledger(run, make_event):
    with Ledger.open(run, sync="os") as ledger:
        tail = opened_tail(run)
        sequence = 0
        for count, size in ((1, 0), (3, 40), (200, 100), (2, 70_000), (1, 33_000), (700, 200)):
            events = [make_event(sequence + i, effect=bytes([i % 256]) * size) for i in range(count)]
            ledger.append_many(events)
            assert drained(tail) == events
            assert drained(tail) == []
            sequence += count
        assert tail._size == ledger.head().size
        tail.close()


def test_a_record_half_written_when_reading_began_sends_the_follower_to_the_ledger(run, make_event, tmp_path):
    """Nothing else need come: a last commit that the reader's opening just missed would be waited for without end."""
    with Ledger.open(run, sync="os") as ledger:
        ledger.append(make_event(0))
        (log,) = (run / "ledger").glob("*.log")
        before = log.stat().st_size
        frontier = ledger.frontier()
        ledger.append(make_event(1, effect=bytes(200_000)))
        whole = log.read_bytes()
    folder = tmp_path / "copy"
    folder.mkdir()
    (copy := folder / log.name).write_bytes(whole[: before + 150_000])
    tail = LogTail(folder)
    tail.start(1, frontier)
    assert drained(tail) == []
    copy.write_bytes(whole)
    with pytest.raises(TailLostError, match=r"^a record that was not whole when reading began is whole now$"):
        drained(tail)
    tail.close()
    tail = LogTail(folder)  # whole when reading begins: the reader has it
    tail.start(2, frontier)
    assert drained(tail) == []
    tail.close()


def test_the_tail_goes_from_log_to_log_while_none_can_be_missing(run, make_event, tmp_path):
    """A log behind the current one may have come and gone unseen once the current one is gone: then nothing is sure."""
    folder = tmp_path / "copy"
    folder.mkdir()

    def copied():
        shutil.copytree(run / "ledger", folder, dirs_exist_ok=True)

    with Ledger.open(run, sync="os") as ledger:
        ledger.append(make_event(0))
        copied()
        tail = LogTail(folder)
        tail.start(1, ledger.frontier())
        ledger.append(make_event(1))
        copied()
        ledger._store.flush()
        ledger.append(make_event(2))
        copied()
        assert [event.sequence for event in drained(tail)] == [1, 2]
        ledger._store.flush()
        ledger.append(make_event(3))
        copied()
        for log in sorted(folder.glob("*.log"))[:-1]:
            log.unlink()
        with pytest.raises(TailLostError, match=r"^the log is gone, perhaps with others behind it$"):
            drained(tail)
        tail.close()


def test_a_follower_goes_on_over_flushes_that_delete_logs(run, make_event):
    with Ledger.open(run, sync="os") as ledger:
        feed = follow(run, poll_s=0.001)
        for i in range(5):
            ledger.append(make_event(2 * i))
            ledger._store.flush()
            ledger.append(make_event(2 * i + 1))
            assert [next(feed)[0] for _ in range(2)] == [2 * i, 2 * i + 1]
        feed.close()


@pytest.fixture
def copied_log(run, make_event, tmp_path):
    """A log of two commits, its bytes, a tail that has read the first, and where the second begins."""
    with Ledger.open(run, sync="os") as ledger:
        ledger.append(make_event(0))
        (log,) = (run / "ledger").glob("*.log")
        before = log.stat().st_size
        folder = tmp_path / "copy"
        folder.mkdir()
        tail = LogTail(shutil.copytree(run / "ledger", folder, dirs_exist_ok=True))
        tail.start(1, ledger.frontier())
        ledger.append(make_event(1, effect=b"abc"))
        whole = log.read_bytes()
    yield folder / log.name, whole, tail, before
    tail.close()


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_flipped_bit_in_a_log_is_never_read_as_an_event(copied_log, bit):
    """Whatever bit of a commit is damaged, the tail gives out nothing of it."""
    log, whole, tail, before = copied_log
    assert drained(tail) == []
    offset = tail._offset
    assert offset == before
    for at in range(before, len(whole)):
        log.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        assert drained(tail) == []
        tail._offset, tail._waits, tail._fragments = offset, 0, []
    log.write_bytes(whole)
    assert [event.sequence for event in drained(tail)] == [1]


def test_a_commit_that_is_cut_off_anywhere_is_waited_for(copied_log):
    log, whole, tail, before = copied_log
    for end in range(before, len(whole)):
        log.write_bytes(whole[:end])
        tail._waits = 0
        assert drained(tail) == []
    log.write_bytes(whole)
    assert [event.sequence for event in drained(tail)] == [1]


def test_bytes_that_never_become_a_record_send_the_follower_to_the_ledger(copied_log):
    log, whole, tail, _ = copied_log
    log.write_bytes(whole + b"\1" * 60)
    assert len(drained(tail)) == 1
    waits = sum(drained(tail) == [] for _ in range(WAITS_MAX - 1))
    assert waits == WAITS_MAX - 1
    with pytest.raises(TailLostError, match=r"the bytes there make no record$"):
        drained(tail)


LATENCY = """
import json, sys, time
from storage import follow
late = []
for rank, event in follow(sys.argv[1], poll_s=0.01):
    if rank:
        late.append(time.monotonic_ns() - event.wall_ns)
    if rank == 60:
        break
print(json.dumps([sorted(late)[len(late) // 2], time.process_time()]))
"""


@pytest.mark.slow
def test_an_event_arrives_within_a_few_polls(run):
    """A bound on work, not on the machine's speed: the median is far below what opening the ledger each time takes."""
    with Ledger.open(run, sync="os") as ledger:
        ledger.append(Event(producer="p", effect=b"", kind="note.text", sequence=0, tick=0))
        follower = subprocess.Popen([sys.executable, "-c", LATENCY, str(run)], stdout=subprocess.PIPE, text=True)
        time.sleep(2)
        for i in range(1, 61):
            wall_ns = time.monotonic_ns()
            ledger.append(Event(producer="p", effect=bytes(300), kind="note.text", sequence=i, tick=i, wall_ns=wall_ns))
            time.sleep(0.03)
        out, _ = follower.communicate(timeout=60)
        median_ns, _ = json.loads(out)
        assert median_ns < 2_000_000_000

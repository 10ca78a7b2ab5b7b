"""The ledger when nothing is wrong: order, roots, retries, batches, scans, reopening, threads."""

import threading
import time
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import (
    ClosedError,
    EquivocationError,
    Event,
    EventTooLargeError,
    Head,
    Ledger,
    ReadOnlyError,
    tree,
    verify_ledger,
)
from storage.event import EVENT_BYTES_MAX
from storage.tree import EMPTY_ROOT

pytestmark = pytest.mark.usefixtures("engine")


def plain_root(events):
    """The root over events by the definitions of leaf and tree, one event at a time."""
    leaves = [tree.leaf_hash(tree.leaf(event.id, len(event.encode()))) for event in events]
    return tree.root_of_leaves(b"".join(leaves))


def test_events_come_back_in_order_with_the_root_of_the_definition(run, make_event):
    events = [make_event(i, effect=bytes(i * 50)) for i in range(40)]
    with Ledger.open(run) as ledger:
        assert ledger.head() == Head(0, EMPTY_ROOT)
        receipts = [ledger.append(event) for event in events]
        assert [receipt.rank for receipt in receipts] == list(range(40))
        assert [receipt.id for receipt in receipts] == [event.id for event in events]
        assert [receipt.size for receipt in receipts] == list(range(1, 41))
        assert [receipt.root for receipt in receipts] == [plain_root(events[:n]) for n in range(1, 41)]
        assert list(ledger.scan()) == list(enumerate(events))
        assert [ledger.at(rank) for rank in range(40)] == events
        assert [ledger.get(event.id) for event in events] == events
        assert ledger.cursor("fleet-1") == (39, events[39].id)
        assert ledger.cursor("nobody") is None
        assert ledger.manifest_status == "HEALTHY"


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 511, 512, 513])
def test_roots_and_tiles_are_right_at_every_tile_limit(run, n):
    events = [Event(producer="a", effect=b"", kind="x", sequence=i, tick=0) for i in range(n)]
    with Ledger.open(run, sync="os") as ledger:
        receipts = ledger.append_many(events)
        assert receipts[-1].root == plain_root(events)
    report = verify_ledger(run)
    assert report.ok, report.problems
    assert (report.size, report.root) == (n, receipts[-1].root)
    with Ledger.open(run, sync="os") as ledger:
        assert ledger.head() == Head(n, receipts[-1].root)
        more = Event(producer="a", effect=b"more", kind="x", sequence=n, tick=0)
        assert ledger.append(more).root == plain_root([*events, more])
    assert verify_ledger(run).ok


def test_roots_and_tiles_are_right_where_a_tile_of_the_second_level_fills(run):
    events = [Event(producer="a", effect=b"", kind="x", sequence=i, tick=0) for i in range(65_538)]
    ids, lengths = [event.id for event in events], [len(event.encode()) for event in events]
    leaves = b"".join(tree.leaf_hash(tree.leaf(*pair)) for pair in zip(ids, lengths, strict=True))
    done = 0
    for size in (65_534, 65_535, 65_536, 65_537, 65_538):
        with Ledger.open(run, sync="os") as ledger:
            assert ledger.append_many(events[done:size])[-1].root == tree.root_of_leaves(leaves[: 32 * size])
        done = size
    report = verify_ledger(run)
    assert report.ok, report.problems
    assert report.root == tree.root_of_leaves(leaves)


@given(st.lists(st.lists(st.integers(0, 600), max_size=9), max_size=6), st.booleans())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_and_reopening_never_reach_the_root(tmp_path_factory, batches, reopen):
    run = tmp_path_factory.mktemp("ledger") / "run"
    events, ledger = [], Ledger.open(run, sync="os")
    for sizes in batches:
        batch = [
            Event(producer="a", effect=bytes(n), kind="x", sequence=len(events) + i, tick=0)
            for i, n in enumerate(sizes)
        ]
        ledger.append_many(batch)
        events += batch
        if reopen:
            ledger.close()
            ledger = Ledger.open(run, sync="os")
    assert ledger.head() == Head(len(events), plain_root(events))
    assert [event for _, event in ledger.scan()] == events
    ledger.close()
    report = verify_ledger(run)
    assert report.ok
    assert report.root == plain_root(events)


def test_the_worked_example_has_its_root(run):
    note = Event(producer="fleet-1", effect=b"\0\xff\x10", kind="note.text", sequence=0, tick=120)
    with Ledger.open(run) as ledger:
        receipt = ledger.append(note)
    assert receipt.root.hex() == "7b81b06d71e138140a28339057a55431ebaa3011c4dbed33f4a05061db752864"


def test_the_same_event_again_returns_its_first_rank_and_changes_nothing(run, make_event):
    with Ledger.open(run) as ledger:
        first = ledger.append_many([make_event(i) for i in range(5)])
        head = ledger.head()
        again = ledger.append_many([make_event(3), make_event(1), make_event(3)])
        assert [receipt.rank for receipt in again] == [3, 1, 3]
        assert [receipt.id for receipt in again] == [first[i].id for i in (3, 1, 3)]
        assert ledger.head() == head
        twice = ledger.append_many([make_event(9), make_event(9)])
        assert [receipt.rank for receipt in twice] == [5, 5]
        assert ledger.head().size == 6
    assert verify_ledger(run).ok


def test_a_sequence_number_used_for_another_event_is_refused(run, make_event):
    with Ledger.open(run) as ledger:
        ledger.append(make_event(7))
        with pytest.raises(EquivocationError) as caught:
            ledger.append(make_event(7, effect=b"other"))
        other = make_event(7, effect=b"other").id.hex()
        assert str(caught.value) == (
            f"{run}: producer 'fleet-1' used sequence 7 for event {other}, "
            f"but has reached sequence 7 (event {make_event(7).id.hex()})"
        )
        with pytest.raises(EquivocationError, match="used sequence 3 for event"):
            ledger.append(make_event(3))
        assert ledger.append(make_event(9)).rank == 1  # gaps are allowed
        assert ledger.append(make_event(0, producer="other")).rank == 2


def test_a_refused_event_refuses_its_whole_batch_and_nothing_else(run, make_event):
    with Ledger.open(run) as ledger:
        ledger.append(make_event(5))
        head = ledger.head()
        with pytest.raises(EquivocationError):
            ledger.append_many([make_event(6), make_event(7, producer="new"), make_event(2)])
        assert ledger.head() == head
        assert ledger.cursor("fleet-1") == (5, make_event(5).id)
        assert ledger.cursor("new") is None
        assert ledger.append(make_event(6)).rank == 1
    assert verify_ledger(run).ok


def test_an_event_above_the_limit_refuses_its_batch(run, make_event):
    with Ledger.open(run) as ledger:
        with pytest.raises(EventTooLargeError):
            ledger.append_many([make_event(0), make_event(1, effect=bytes(EVENT_BYTES_MAX))])
        assert ledger.head().size == 0


def test_a_ledger_may_have_a_smaller_limit_and_refuses_before_it_hashes(run, make_event, monkeypatch):
    fits = make_event(0, effect=bytes(900 - len(make_event(0, effect=bytes(300)).encode()) + 300))
    assert len(fits.encode()) == 900
    with Ledger.open(run, max_event_bytes=900) as ledger:
        ledger.append(fits)
        monkeypatch.setattr("storage.event_batch.prepare", None)
        with pytest.raises(EventTooLargeError, match=r"^Event: 901 bytes, the limit of this ledger is 900$"):
            ledger.append_many([make_event(1, b""), make_event(2, effect=fits.effect + b"x")])
        monkeypatch.undo()
        assert ledger.head().size == 1
    for limit in (0, EVENT_BYTES_MAX + 1):
        with pytest.raises(ValueError, match=rf"^Ledger\.open: max_event_bytes must be in \[1, {EVENT_BYTES_MAX}\], "):
            Ledger.open(run, max_event_bytes=limit)


def test_an_empty_batch_does_nothing(run):
    with Ledger.open(run) as ledger:
        assert ledger.append_many([]) == []
        assert ledger.head() == Head(0, EMPTY_ROOT)


@pytest.mark.parametrize("size", [0, 65_534, 65_535, 65_536, 1_000_000, EVENT_BYTES_MAX - 60])
def test_events_of_every_size_come_back(run, make_event, size):
    event = make_event(0, effect=bytes(size))
    with Ledger.open(run, sync="os") as ledger:
        ledger.append(event)
        assert ledger.at(0) == event
    with Ledger.open(run, "r") as ledger:
        assert list(ledger.scan()) == [(0, event)]
    assert verify_ledger(run).ok


def test_scan_gives_any_range_and_refuses_others(run, make_event, fill):
    fill(run, 600)
    with Ledger.open(run, "r") as ledger:
        for start, stop in ((0, 0), (0, 1), (255, 257), (10, 600), (599, 600), (600, 600)):
            assert [rank for rank, _ in ledger.scan(start, stop)] == list(range(start, stop))
        assert [rank for rank, _ in ledger.scan(590)] == list(range(590, 600))
        for start, stop in ((-1, 5), (5, 4), (0, 601)):
            with pytest.raises(ValueError, match=r"^Ledger\.scan: need 0 <= start <= stop <= 600, got") as caught:
                ledger.scan(start, stop)
            assert str(caught.value).endswith(f"got {start} and {stop}")


def test_a_scan_gives_what_was_there_when_it_began(run, make_event):
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many([make_event(i) for i in range(300)])
        events = ledger.scan()
        assert next(events)[0] == 0
        ledger.append(make_event(300))
        assert sum(1 for _ in events) == 299


def test_unknown_ranks_and_ids_are_lookup_errors(run, fill):
    fill(run, 3)
    with Ledger.open(run, "r") as ledger:
        with pytest.raises(IndexError, match=r"^Ledger\.at: rank must be in \[0, 3\), got 3$"):
            ledger.at(3)
        with pytest.raises(IndexError, match=r"^Ledger\.at: rank must be in \[0, 3\), got -1$"):
            ledger.at(-1)
        with pytest.raises(KeyError, match="no event has the id " + "00" * 32):
            ledger.get(bytes(32))
        with pytest.raises(ValueError, match=r"^Ledger\.get: an id is 32 bytes, got b'x'$"):
            ledger.get(b"x")


def test_head_is_rewritten_every_64_commits_and_at_close(run, make_event):
    from storage import head as head_file

    with Ledger.open(run, sync="os") as ledger:
        heads = []
        for i in range(140):
            ledger.append(make_event(i))
            heads.append(head_file.read(run / "HEAD").size)
        assert heads == [0] * 63 + [64] * 64 + [128] * 13
    assert head_file.read(run / "HEAD") == ledger_head(run)


def ledger_head(run):
    with Ledger.open(run, "r") as ledger:
        return ledger.head()


def test_a_crash_loses_nothing_and_counts_what_head_did_not_name(run, make_event, python):
    done = python(
        f"""
import os
from storage import Event, Ledger
ledger = Ledger.open({str(run)!r})
for i in range(70):
    ledger.append(Event(producer="a", effect=b"", kind="x", sequence=i, tick=0))
os._exit(9)
"""
    )
    assert done.returncode == 9, done.stderr
    with Ledger.open(run, "r") as ledger:
        assert (ledger.head().size, ledger.recovered) == (70, 6)
    with Ledger.open(run) as ledger:
        assert (ledger.head().size, ledger.recovered) == (70, 6)
        ledger.append(Event(producer="a", effect=b"", kind="x", sequence=70, tick=0))
    assert verify_ledger(run).ok


def test_many_threads_append_and_read_and_every_receipt_is_true(run, make_event):
    receipts, errors = {}, []

    def work(name):
        try:
            for i in range(60):
                event = make_event(i, producer=name)
                receipt = ledger.append(event)
                receipts[name, i] = receipt
                assert ledger.at(receipt.rank) == event
                assert receipt.size > receipt.rank
        except BaseException as error:
            errors.append(error)

    with Ledger.open(run) as ledger:
        threads = [threading.Thread(target=work, args=(f"p{n}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert sorted(receipt.rank for receipt in receipts.values()) == list(range(480))
        heads = {receipt.size: receipt.root for receipt in receipts.values()}
        for receipt in receipts.values():
            assert heads[receipt.size] == receipt.root
        events = [event for _, event in ledger.scan()]
        assert ledger.head().root == plain_root(events)
        for size, root in heads.items():
            assert plain_root(events[:size]) == root
    assert verify_ledger(run).ok


def test_mode_r_appends_nothing(run, make_event, fill):
    fill(run, 2)
    with Ledger.open(run, "r") as ledger:
        assert ledger.mode == "r"
        with pytest.raises(ReadOnlyError) as caught:
            ledger.append(make_event(2))
        assert str(caught.value) == f'{run}: opened with mode "r", append needs "rw"'


def test_reading_and_verifying_alter_no_byte_and_no_time(run, fill, directory_digest, python):
    fill(run, 700)
    crashed = python(
        f"""
import os
from storage import Event, Ledger
ledger = Ledger.open({str(run)!r})
ledger.append(Event(producer="z", effect=b"only in the log of the engine", kind="x", sequence=0, tick=0))
os._exit(0)
"""
    )
    assert crashed.returncode == 0, crashed.stderr
    before = directory_digest(run)
    with Ledger.open(run, "r") as ledger:
        assert sum(1 for _ in ledger.scan()) == 701
        ledger.get(ledger.at(3).id)
    assert verify_ledger(run).ok
    assert directory_digest(run) == before


@pytest.mark.parametrize("use", ["append", "at", "get", "scan", "head", "cursor", "with"])
def test_use_after_close_is_one_clear_error(run, make_event, fill, use):
    fill(run, 2)
    ledger = Ledger.open(run)
    ledger.close()
    ledger.close()
    calls = {
        "append": lambda: ledger.append(make_event(5)),
        "at": lambda: ledger.at(0),
        "get": lambda: ledger.get(bytes(32)),
        "scan": ledger.scan,
        "head": ledger.head,
        "cursor": lambda: ledger.cursor("a"),
        "with": ledger.__enter__,
    }
    with pytest.raises(ClosedError) as caught:
        calls[use]()
    assert str(caught.value) == f"{run}: the ledger is closed"


def test_a_scan_ends_with_an_error_when_the_ledger_is_closed_under_it(run, fill):
    fill(run, 20)
    ledger = Ledger.open(run, "r")
    events = ledger.scan()
    next(events)
    ledger.close()
    with pytest.raises(ClosedError):
        next(events)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"mode": "w"}, ValueError, 'Ledger.open: mode must be "rw" or "r", got \'w\''),
        ({"sync": "none"}, ValueError, 'Ledger.open: sync must be "fsync" or "os", got \'none\''),
        ({"expect": (1, b"")}, TypeError, "Ledger.open: expect must be a Head, got tuple"),
    ],
)
def test_arguments_of_open_are_checked(run, arguments, kind, text):
    with pytest.raises(kind) as caught:
        Ledger.open(run, **arguments)
    assert str(caught.value) == text
    assert not run.exists()


class SlowSync:
    """A store whose sync takes 5 ms more, and which counts its writes."""

    def __init__(self, store):
        self._store, self.writes = store, 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def write(self, entries, *, sync):
        self.writes += 1
        time.sleep(0.005)
        self._store.write(entries, sync=sync)


def test_threads_that_append_together_share_a_sync(run, make_event):
    slow = []
    with Ledger.open(run, through=lambda store: slow.append(SlowSync(store)) or slow[0]) as ledger:

        def work(name):
            for i in range(10):
                ledger.append(make_event(i, producer=name))

        threads = [threading.Thread(target=work, args=(f"p{n}",)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.head().size == 160
        assert slow[0].writes < 120
    assert verify_ledger(run).ok


def test_a_batch_refused_in_a_shared_commit_refuses_no_other(run, make_event):
    with Ledger.open(run, through=SlowSync) as ledger:
        ledger.append(make_event(5, producer="bad"))
        outcomes = {}

        def work(name, sequence):
            try:
                outcomes[name] = ledger.append_many(
                    [make_event(9, producer=f"{name}-2"), make_event(sequence, producer=name)]
                )
            except EquivocationError:
                outcomes[name] = None

        threads = [threading.Thread(target=work, args=args) for args in [("a", 1), ("bad", 3), ("b", 1), ("c", 1)]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes.pop("bad") is None
        assert sorted(receipt.rank for receipts in outcomes.values() for receipt in receipts) == list(range(1, 7))
        assert ledger.cursor("bad-2") is None
    assert verify_ledger(run).ok


def test_scanning_and_verifying_hold_little_memory(run, make_event):
    with Ledger.open(run, sync="os") as ledger:
        for i in range(60):
            ledger.append(make_event(i, effect=bytes(300_000)))
    tracemalloc.start()
    try:
        with Ledger.open(run, "r") as ledger:
            assert sum(len(event.effect) for _, event in ledger.scan()) == 18_000_000
        assert verify_ledger(run).ok
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000

"""A merge is the same sequence whatever the order of the ledgers and however a history was split among them."""

import hashlib
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import EquivocationError, Event, IntegrityError, Ledger, RetiredError, merge
from storage.layout import log_key
from storage.replay import merging
from storage.replay.sorted_records import SortedRecords

pytestmark = pytest.mark.usefixtures("engine")

PRODUCERS = ("gate", "gate\0", "gate\0a", "gatë", "pump", "valve")


def event(producer, sequence, tick, effect=b""):
    return Event(producer=producer, effect=effect, kind="note.text", sequence=sequence, tick=tick)


class Shelf:
    """Events by rank, as a ledger gives them out: enough of a Reader for `merge`."""

    def __init__(self, events):
        self.events = list(events)
        self.path = f"shelf-{len(self.events)}"

    def head(self):
        from storage import Head

        return Head(len(self.events), bytes(32))

    def at(self, rank):
        return self.events[rank]

    def scan(self, start=0, stop=None, *, retired=False):
        yield from list(enumerate(self.events))[start:stop]


def digest(merged):
    out = hashlib.sha256()
    for found in merged:
        out.update(found.event.id)
    return out.hexdigest()


def by_key(events):
    return sorted(set(events), key=lambda e: (e.tick, e.producer.encode(), e.sequence, e.id))


@st.composite
def histories(draw):
    """Events of several producers whose sequences rise, with ticks that may go back."""
    events = []
    for producer in draw(st.lists(st.sampled_from(PRODUCERS), unique=True, min_size=1)):
        sequences = sorted(draw(st.sets(st.integers(0, 30), max_size=12)))
        events += [event(producer, sequence, draw(st.integers(0, 6))) for sequence in sequences]
    return events


def split(draw, events):
    """The history in up to four ledgers, each event in one or more, and in each a producer's sequences rise."""
    ledgers = [[] for _ in range(draw(st.integers(1, 4)))]
    for one in events:
        for ledger in draw(st.sets(st.integers(0, len(ledgers) - 1), min_size=1)):
            ledgers[ledger].append(one)
    order = draw(st.randoms())
    return [interleaved(ledger, order) for ledger in ledgers]


def interleaved(events, random):
    """The producers' events mixed at random, each producer's in its order."""
    queues = {}
    for one in events:
        queues.setdefault(one.producer, []).append(one)
    out = []
    while queues:
        producer = random.choice(sorted(queues))
        out.append(queues[producer].pop(0))
        if not queues[producer]:
            del queues[producer]
    return out


@settings(deadline=None, max_examples=150)
@given(st.data(), st.sampled_from([0, 3, 64]))
def test_any_split_of_a_history_and_any_order_of_ledgers_gives_one_sequence(data, stretches_max):
    events = data.draw(histories())
    ledgers = [Shelf(part) for part in split(data.draw, events)]
    expected = by_key(events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "STRETCHES_MAX", stretches_max)
        patch.setattr(merging, "WINDOW_EVENTS", 3)
        for order in (ledgers, ledgers[::-1], data.draw(st.permutations(ledgers))):
            merged = list(merge(order))
            assert [found.event for found in merged] == expected
            assert all(order[found.ledger].at(found.rank) == found.event for found in merged)


@settings(deadline=None, max_examples=100)
@given(st.data(), st.sampled_from([0, 64]))
def test_two_events_of_one_producer_and_sequence_are_always_found(data, stretches_max):
    events = data.draw(histories().filter(len))
    ledgers = split(data.draw, events)
    victim = data.draw(st.sampled_from(events))
    other = event(victim.producer, victim.sequence, data.draw(st.integers(0, 6)), b"other")
    ledgers.insert(data.draw(st.integers(0, len(ledgers))), [other])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "STRETCHES_MAX", stretches_max)
        with pytest.raises(EquivocationError) as caught:
            list(merge([Shelf(part) for part in ledgers]))
    first, second = sorted((victim.id.hex(), other.id.hex()))
    said = re.fullmatch(
        r"merge: producer (.*) used sequence (\d+) for two events: (\w{64}) \(shelf-\d+, rank \d+\) and (\w{64}) "
        r"\(shelf-\d+, rank \d+\)",
        str(caught.value),
    )
    assert said.groups() == (repr(victim.producer), str(victim.sequence), first, second)


@pytest.fixture
def ledgers(tmp_path):
    """ledgers(events, events, …): that many open ledgers."""
    opened = []

    def make(*parts):
        for part in parts:
            ledger = Ledger.open(tmp_path / f"run-{len(opened)}", sync="os")
            ledger.append_many(part)
            opened.append(ledger)
        return opened

    yield make
    for ledger in opened:
        ledger.close()


def test_real_ledgers_merge_as_their_events_sort(ledgers):
    history = [event(PRODUCERS[i % 6], i, (i * 7919) % 500, bytes(i % 300)) for i in range(1500)]
    opened = ledgers(history[:700], history[500:], history[::3])
    merged = list(opened[0].merge(opened[1:]))
    assert [found.event for found in merged] == by_key(history)
    assert digest(merged) == digest(merge(opened[::-1]))
    assert all(opened[found.ledger].at(found.rank) == found.event for found in merged)


def test_large_events_are_not_held_while_they_wait(ledgers):
    history = [event("pump", i, i, bytes([i]) * (merging.HELD_EVENT_BYTES_MAX + 1)) for i in range(6)]
    opened = ledgers(history[:4], history[2:])
    assert [found.event for found in merge(opened)] == history


def test_an_event_retired_in_one_ledger_comes_from_another(ledgers):
    history = [event("pump", i, i, b"x" * i) for i in range(10)]
    one, two = ledgers(history, history[2:])
    one.retire([4, 5])
    assert [found.event for found in merge([one, two])] == history
    two.retire([3])
    with pytest.raises(RetiredError) as caught:
        list(merge([two, one]))
    assert caught.value.ranks == (3,)
    assert str(caught.value) == (
        f"merge: {two.path}: rank 3 is retired and no other ledger has event {history[5].id.hex()}"
    )


def test_damage_is_an_error_and_no_hole(ledgers, tmp_path, rewrite):
    history = [event("pump", i, i) for i in range(10)]
    for ledger in ledgers(history):
        ledger.close()
    rewrite(tmp_path / "run-0", [("log", log_key(6), bytes(32) + history[6].encode())])
    with Ledger.open(tmp_path / "run-0", mode="r") as damaged, pytest.raises(IntegrityError, match="rank 6"):
        list(merge([damaged]))


def test_nothing_merges_to_nothing(ledgers):
    assert list(merge([])) == []
    assert list(merge(ledgers([], []))) == []


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=200), st.integers(1, 2000))
def test_records_come_back_sorted_from_any_number_of_runs(records, held_bytes_max):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("storage.replay.sorted_records.RUNS_MAX", 3)
        patch.setattr("storage.replay.sorted_records.READ_BYTES", 64)
        kept = SortedRecords(held_bytes_max)
        for record in records:
            kept.add(record)
        assert list(kept) == list(kept) == sorted(records)
        kept.close()


def test_a_record_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match=r"^SortedRecords.add: a record has at most 65535 bytes, got 65536$"):
        SortedRecords().add(bytes(65536))


MEMORY = """
import sys, pathlib
from storage import Event, Ledger, merge
from storage.replay.merging import merge
def event(i):
    return Event(producer="p%d" % (i % 5), effect=bytes(200), kind="note.text", sequence=i, tick=(i * 7919) % 60000)
opened = []
for part in range(3):
    ledger = Ledger.open(sys.argv[1] + "/%d" % part, sync="os")
    for at in range(0, 20000, 1000):
        ledger.append_many([event(3 * i + part) for i in range(at, at + 1000)])
    opened.append(ledger)
def peak():
    return int(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
before = peak()
last, count = -1, 0
for found in merge(opened):
    assert found.event.tick >= last
    last, count = found.event.tick, count + 1
print(count, peak() - before)
"""


@pytest.mark.slow
def test_a_merge_of_unsorted_ledgers_needs_little_memory(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=True, timeout=300
    )
    count, grown_kb = map(int, done.stdout.split())
    assert count == 60000
    assert grown_kb < 24 * 1024

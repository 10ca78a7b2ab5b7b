"""Whoever visits the check of a ledger is shown every event once, in order, up to the first damage."""

from __future__ import annotations

import random
from typing import Any

import pytest

from storage import Event, Ledger, verify_ledger
from storage.layout import log_key
from storage.notes.keys import Signer
from storage.publication.published_check import verify_published


class Noting:
    """Writes down what it is shown, a row of others as one entry for each of them."""

    prefix = "coord."

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.calls = 0

    def event(self, rank: int, event: Event) -> None:
        self.calls += 1
        self.seen.append((rank, event))

    def others(self, rank: int, count: int, producer: str, kind: str, sequence: int) -> None:
        self.calls += 1
        self.seen += [(rank + i, producer, kind, sequence + i) for i in range(count)]

    def retired(self, rank: int) -> None:
        self.calls += 1
        self.seen.append((rank, None))


def told(rank: int, event: Event) -> tuple[Any, ...]:
    """What is to be noted for an event."""
    if event.kind.startswith("coord."):
        return (rank, event)
    return (rank, event.producer, event.kind, event.sequence)


@pytest.fixture(params=["kernels", "each"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "each":
        from storage import event_batch

        monkeypatch.setattr(event_batch, "audited", lambda *_: None)


def mixed(count: int) -> list[Event]:
    draw = random.Random(3)
    numbers = {"a": 0, "b": 0}
    events = []
    for i in range(count):
        producer = draw.choice("aaab")
        kind = draw.choice(["note.text", "note.text", "note.text", "coord.frame", "coordinate", "coord.x"])
        events.append(Event(producer=producer, effect=bytes(i % 400), kind=kind, sequence=numbers[producer], tick=i))
        numbers[producer] += draw.choice([1, 1, 1, 2])
    return events


@pytest.mark.usefixtures("way")
def test_every_event_is_shown_in_order_and_those_asked_for_whole(run):
    events = mixed(900)
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many(events)
    visitor = Noting()
    assert verify_ledger(run, visitor=visitor).ok
    assert visitor.seen == [told(rank, event) for rank, event in enumerate(events)]


def test_events_in_a_row_are_shown_by_their_number(run):
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many([Event(producer="a", effect=b"", kind="k", sequence=i, tick=0) for i in range(600)])
    visitor = Noting()
    assert verify_ledger(run, visitor=visitor).ok
    assert len(visitor.seen) == 600
    assert visitor.calls == 3  # one a tile


@pytest.mark.usefixtures("way")
def test_a_retired_event_is_shown_as_one(run):
    events = mixed(300)
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many(events)
        ledger.retire([7, 299])
    visitor = Noting()
    assert verify_ledger(run, visitor=visitor).ok
    assert visitor.seen == [
        (rank, None) if rank in (7, 299) else told(rank, event) for rank, event in enumerate(events)
    ]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("damage", [b"damage", None, bytes(33), b"\1" + bytes(40)])
@pytest.mark.parametrize("rank", [0, 5, 255, 256, 299])
def test_from_the_first_damage_on_nothing_is_shown(run, rewrite, rank, damage):
    events = mixed(300)
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many(events)
    rewrite(run, [("log", log_key(rank), damage)])
    visitor = Noting()
    assert rank in verify_ledger(run, visitor=visitor).damaged_ranks
    assert visitor.seen == [told(at, event) for at, event in enumerate(events[:rank])]


def test_a_sequence_that_does_not_rise_ends_the_visit(run, rewrite):
    from storage import event_batch

    events = mixed(10)
    wrong = Event(producer="a", effect=b"", kind="k", sequence=0, tick=0)
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many(events)
    ids, leaves = event_batch.prepare([*events[:9], wrong])[1:]
    rewrite(run, [("log", log_key(9), ids[9] + wrong.encode()), ("tree", bytes(9), leaves)])
    visitor = Noting()
    assert 9 in verify_ledger(run, visitor=visitor).damaged_ranks
    assert visitor.seen == [told(at, event) for at, event in enumerate(events[:9])]


def test_a_published_ledger_shows_its_events_too(run, tmp_path):
    events = mixed(300)
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many(events)
        ledger.retire([7])
        ledger.publish(str(tmp_path / "web"), Signer("a.example", bytes(32)))
    visitor = Noting()
    assert verify_published(str(tmp_path / "web"), visitor=visitor).ok
    assert visitor.seen == [(rank, None) if rank == 7 else told(rank, event) for rank, event in enumerate(events)]
    for payload in (tmp_path / "web" / "payload" / "001.p").iterdir():
        payload.write_bytes(b"")
    visitor = Noting()
    assert verify_published(str(tmp_path / "web"), visitor=visitor).damaged_ranks[0] == 256
    assert [entry[0] for entry in visitor.seen] == list(range(256))

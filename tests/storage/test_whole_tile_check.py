"""Checking a tile of events at once finds what checking each event finds, and says it in the same words."""

import random

import pytest

from storage import Event, Ledger, event_batch, hashing, verify_ledger
from storage.layout import log_key, tile_key

SIZE = 900  # three full tiles and a part of one


@pytest.fixture
def ledger_of_900(run, make_event):
    with Ledger.open(run, sync="os") as ledger:
        events = [make_event(i, producer=f"p{i % 3}") for i in range(SIZE)]
        ledger.append_many(events)
    return run, events


def reports(run, monkeypatch):
    """The report as it is, and the one of an audit to which everything is odd."""
    whole = verify_ledger(run)
    monkeypatch.setattr(event_batch, "audited", lambda *_: None)
    each = verify_ledger(run)
    monkeypatch.undo()
    return whole, each


def assert_same(run, monkeypatch, *texts):
    whole, each = reports(run, monkeypatch)
    assert sorted(p.text for p in whole.problems) == sorted(p.text for p in each.problems)
    assert (whole.problem_count, whole.damaged_ranks, whole.root) == (each.problem_count, each.damaged_ranks, each.root)
    assert whole.problem_count > 0
    for text in texts:
        assert text in [p.text for p in whole.problems]


def test_a_whole_ledger_needs_no_event_looked_at_alone(ledger_of_900, monkeypatch):
    run, _ = ledger_of_900
    monkeypatch.setattr(Event, "decode", None)
    monkeypatch.setattr(hashing, "event_ids", None)
    monkeypatch.setattr(hashing, "leaf_hashes", None)
    assert verify_ledger(run).ok


def test_exchanged_ranks_in_ids_are_named(ledger_of_900, rewrite, monkeypatch):
    run, events = ledger_of_900
    rewrite(run, [("ids", events[5].id, log_key(6)), ("ids", events[6].id, log_key(5))])
    assert_same(
        run,
        monkeypatch,
        f"rank 5: ids/{events[5].id.hex()}: expected {log_key(5).hex()}, got {log_key(6).hex()}",
        f"rank 6: ids/{events[6].id.hex()}: expected {log_key(6).hex()}, got {log_key(5).hex()}",
    )


def test_an_entry_of_ids_that_is_gone_and_one_that_is_nobodys_are_named(ledger_of_900, rewrite, monkeypatch):
    run, events = ledger_of_900
    rewrite(run, [("ids", b"s" * 32, log_key(300))], deletes=[("ids", events[300].id)])
    assert_same(
        run,
        monkeypatch,
        f"rank 300: ids/{events[300].id.hex()}: expected {log_key(300).hex()}, got nothing",
        f"ids/{(b's' * 32).hex()}: expected the id of an event in the log, got rank {log_key(300).hex()}",
    )


@pytest.mark.parametrize("value", [b"", bytes(7), bytes(9), bytes(8)])
@pytest.mark.parametrize("key", [b"short", b"s" * 32, b"l" * 33])
def test_an_entry_of_ids_of_any_form_is_named(ledger_of_900, rewrite, monkeypatch, key, value):
    run, _ = ledger_of_900
    rewrite(run, [("ids", key, value)])
    text = f"ids/{key.hex()}: expected the id of an event in the log, got rank {value.hex()}"
    assert_same(run, monkeypatch, text)


def test_the_same_event_at_two_ranks_is_named(ledger_of_900, rewrite, monkeypatch):
    run, events = ledger_of_900
    rewrite(run, [("log", log_key(700), events[10].id + events[10].encode())])
    assert_same(run, monkeypatch)


@pytest.mark.parametrize("seed", range(12))
def test_random_damage_is_reported_as_if_each_event_were_checked_alone(ledger_of_900, rewrite, monkeypatch, seed):
    run, events = ledger_of_900
    rng = random.Random(seed)
    puts, deletes = [], []
    for rank in rng.sample(range(SIZE), rng.randint(1, 4)):
        row = bytearray(events[rank].id + events[rank].encode())
        kind = rng.randrange(6)
        if kind == 0:
            row[rng.randrange(len(row))] ^= 1 << rng.randrange(8)
            puts.append(("log", log_key(rank), bytes(row)))
        elif kind == 1:
            puts.append(("log", log_key(rank), bytes(row[: rng.randrange(len(row))])))
        elif kind == 2:
            deletes.append(("log", log_key(rank)))
        elif kind == 3:
            deletes.append(("ids", events[rank].id))
        elif kind == 4:
            puts.append(("ids", events[rank].id, log_key(rng.randrange(SIZE + 5))))
        else:
            deletes.append(("tree", tile_key(0, rank // 256)))
    rewrite(run, puts, deletes)
    assert_same(run, monkeypatch)


def test_ranks_behind_the_last_are_named(ledger_of_900, rewrite, monkeypatch):
    run, events = ledger_of_900
    rewrite(run, [("log", log_key(SIZE + 3), events[0].id + events[0].encode()), ("log", b"odd key", b"")])
    assert_same(run, monkeypatch, f"log/{log_key(SIZE + 3).hex()}: expected ranks below {SIZE}, got another key")


def test_a_ledger_whose_tiles_are_all_full_is_checked_to_its_end(run, fill, rewrite, monkeypatch):
    fill(run, 512)
    assert verify_ledger(run).ok
    rewrite(run, [("log", log_key(512), b"x")])
    assert_same(run, monkeypatch, f"log/{log_key(512).hex()}: expected ranks below 512, got another key")

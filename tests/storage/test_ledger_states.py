"""What each state of a ledger allows: HEALTHY, DEGRADED, RECOVERY_DEGRADED, read-only."""

import random

import pytest

from storage import (
    ForkError,
    Head,
    IntegrityError,
    Ledger,
    ReadOnlyError,
    RollbackError,
    Signer,
    StorageError,
    repair_ledger,
    verify_ledger,
)
from storage import head as head_file
from storage.layout import FAMILIES, cursor_key, log_key, tile_key
from storage.tree import leaf, leaf_hash, verify_inclusion

N = 300

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def stored(run, make_event):
    """A closed ledger of 300 events: run, events, head."""
    events = [make_event(i, effect=random.Random(i).randbytes(20 + i % 90)) for i in range(N)]
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many(events)
        return run, events, ledger.head()


def contents(run):
    from storage.engine.engines import open_store

    store = open_store(run / "ledger", read_only=True)
    found = {family: dict(store.scan(family)) for family in FAMILIES}
    store.close()
    return found, (run / "HEAD").read_bytes()


def flipped_tile(events):
    last = events[256:]
    tile = b"".join(leaf_hash(leaf(event.id, len(event.encode()))) for event in last)
    return tile[:5] + bytes([tile[5] ^ 4]) + tile[6:]


def everything_is_read(ledger, events):
    assert [event for _, event in ledger.scan()] == events
    assert ledger.at(299) == events[299]
    assert ledger.get(events[299].id) == events[299]
    for rank in (0, 255, 256, 299):
        hashed = leaf_hash(leaf(events[rank].id, len(events[rank].encode())))
        assert verify_inclusion(rank, N, hashed, ledger.prove(rank), ledger.head().root)


DEGRADED = {
    "ids is empty": lambda e: ([], [("ids", event.id) for event in e]),
    "ids lacks the last event": lambda e: ([], [("ids", e[-1].id)]),
    "the last tile is gone": lambda e: ([], [("tree", tile_key(0, 1))]),
    "the last tile is cut": lambda e: ([("tree", tile_key(0, 1), bytes(64))], []),
    "a leaf of the last tile is flipped": lambda e: ([("tree", tile_key(0, 1), flipped_tile(e))], []),
    "the upper tile is wrong": lambda e: ([("tree", tile_key(1, 0), bytes(32))], []),
    "every tile is gone": lambda e: ([], [("tree", key) for key in (tile_key(0, 0), tile_key(0, 1), tile_key(1, 0))]),
}


@pytest.mark.parametrize("name", DEGRADED)
def test_a_degraded_ledger_is_read_whole_and_reading_alters_nothing(stored, rewrite, directory_digest, name):
    run, events, head = stored
    rewrite(run, *DEGRADED[name](events))
    before = directory_digest(run)
    with Ledger.open(run, "r") as ledger:
        assert (ledger.manifest_status, ledger.head(), len(ledger.problems)) == ("DEGRADED", head, 1)
        everything_is_read(ledger, events)
        with pytest.raises(ReadOnlyError):
            ledger.repair()
    assert directory_digest(run) == before


@pytest.mark.parametrize("name", DEGRADED)
def test_a_degraded_ledger_takes_new_events_and_repairs_itself_byte_for_byte(
    stored, rewrite, make_event, tmp_path, name
):
    run, events, _ = stored
    more = [make_event(N + i) for i in range(5)]
    with Ledger.open(tmp_path / "never_damaged", sync="os") as ledger:
        ledger.append_many(events)
        ledger.append_many(more)
    rewrite(run, *DEGRADED[name](events))
    with Ledger.open(run, sync="os") as ledger:
        assert (ledger.manifest_status, ledger.mode) == ("DEGRADED", "rw")
        everything_is_read(ledger, events)
        assert ledger.append(events[299]).rank == 299  # known, also where ids forgot it
        assert [receipt.rank for receipt in ledger.append_many(more)] == [300, 301, 302, 303, 304]
        report = ledger.repair()
        assert report.ok
        assert (ledger.manifest_status, ledger.problems) == ("HEALTHY", [])
        assert (report.size, report.root) == (ledger.head().size, ledger.head().root)
        assert ledger.append(events[3]).rank == 3
    assert verify_ledger(run).ok
    assert contents(run) == contents(tmp_path / "never_damaged")


def test_a_degraded_ledger_closed_without_repair_is_repaired_later(stored, rewrite, make_event):
    run, events, _ = stored
    rewrite(run, *DEGRADED["every tile is gone"](events))
    with Ledger.open(run, sync="os") as ledger:
        ledger.append(make_event(N))
    report = repair_ledger(run)
    assert report.ok
    assert report.size == N + 1
    assert verify_ledger(run).ok


def test_repair_of_a_healthy_ledger_changes_nothing(stored):
    run, _, _ = stored
    before = contents(run)
    with Ledger.open(run, sync="os") as ledger:
        report = ledger.repair()
        assert (report.ok, report.rebuilt) == (True, {})
    assert contents(run) == before


def test_cursors_are_rebuilt_by_an_open_ledger_and_known_at_once(stored, rewrite, make_event):
    run, _, _ = stored
    rewrite(run, deletes=[("meta", cursor_key("fleet-1"))])
    with Ledger.open(run, sync="os") as ledger:
        assert ledger.cursor("fleet-1") is None
        assert ledger.repair().rebuilt == {"cursors": 1}
        assert ledger.cursor("fleet-1")[0] == N - 1


def test_an_open_ledger_does_not_repair_damaged_events_and_says_where_to(stored, rewrite):
    run, events, _ = stored
    rewrite(run, [("log", log_key(9), events[9].id + b"rubbish")])
    with Ledger.open(run, sync="os") as ledger:
        with pytest.raises(IntegrityError) as caught:
            ledger.repair()
        assert str(caught.value) == f"{run}: the events of ranks 9 are damaged"
        assert caught.value.hint == (
            f"close the ledger; droveway repair {run} puts right what can be, and names what is lost"
        )


RECOVERY = {
    "an event near the end is missing": (lambda e: ([], [("log", log_key(298))]), "rank 298 is missing from the log"),
    "the last event is missing": (lambda e: ([], [("log", log_key(299))]), "says 300 events, the log ends after 299"),
    "events too many": (lambda e: ([("log", log_key(N), e[0].id + e[0].encode())], []), "the log goes on to key"),
    "another root in the head": (
        lambda e: ([("meta", b"head", N.to_bytes(8, "big") + bytes(32))], []),
        "neither the stored tiles nor the events of the log give the root of meta/head",
    ),
}


@pytest.mark.parametrize("name", RECOVERY)
def test_a_damaged_log_opens_to_read_only_and_names_what_is_missing(stored, rewrite, directory_digest, name):
    run, events, _ = stored
    change, text = RECOVERY[name]
    rewrite(run, *change(events))
    before = directory_digest(run)
    with pytest.raises(StorageError) as caught:
        Ledger.open(run)
    assert caught.value.hint == f"droveway repair {run} puts right what can be, and names what is lost"
    with Ledger.open(run, "r") as ledger:
        assert ledger.manifest_status == "RECOVERY_DEGRADED"
        assert any(text in str(problem) for problem in ledger.problems)
        assert ledger.mode == "r"
        assert ledger.at(17) == events[17]
        with pytest.raises(ReadOnlyError):
            ledger.append(events[0])
    assert directory_digest(run) == before


def test_fewer_events_than_head_names_is_recovery_degraded(stored):
    run, _, head = stored
    head_file.write(run / "HEAD", Head(310, head.root))
    with pytest.raises(RollbackError) as caught:
        Ledger.open(run)
    assert "ranks 300..309 are missing" in str(caught.value)
    with Ledger.open(run, "r") as ledger:
        assert ledger.manifest_status == "RECOVERY_DEGRADED"
        assert "ranks 300..309 are missing" in str(ledger.problems[0])


def test_a_search_of_a_damaged_log_takes_no_key_at_its_word_and_passes_what_is_missing(stored, rewrite):
    """As bit flips in the keys of an LMDB page left it: one event under the key of another, its own rank empty."""
    run, events, _ = stored
    moved = events[277].id + events[277].encode()
    lost = [("log", log_key(277)), *(("ids", events[rank].id) for rank in (277, 285, 290))]
    rewrite(run, [("log", log_key(285), moved)], lost)
    with Ledger.open(run, "r") as ledger:
        assert ledger.manifest_status == "RECOVERY_DEGRADED"
        assert ledger.get(events[290].id) == events[290]  # behind the hole, without its id
        assert ledger.get(events[291].id) == events[291]
        with pytest.raises(IntegrityError) as caught:
            ledger.get(events[277].id)
        assert caught.value.ranks == (285,)
        with pytest.raises(IntegrityError) as caught:
            ledger.get(events[285].id)
        assert list(caught.value.ranks) == [277]
        assert str(caught.value) == f"{run}: the id {events[285].id.hex()} isn't found, and rank 277 can't be read"


def make_unreadable(run):
    """Remove, or overwrite, what the engine needs first."""
    data, current = run / "ledger" / "data.mdb", run / "ledger" / "CURRENT"
    if data.exists():
        with data.open("r+b") as stream:
            stream.write(bytes(range(256)) * 32)
    else:
        current.unlink()


def test_a_database_that_does_not_open_is_recovery_degraded_and_names_every_rank(stored, directory_digest, tmp_path):
    run, events, head = stored
    whole = contents(run)
    make_unreadable(run)
    before = directory_digest(run)
    with pytest.raises(IntegrityError) as caught:
        Ledger.open(run)
    hint = f"droveway repair {run} puts right what can be, and names what is lost"
    assert caught.value.hint == hint
    with Ledger.open(run, "r") as ledger:
        assert (ledger.manifest_status, ledger.mode) == ("RECOVERY_DEGRADED", "r")
        assert (ledger.head().size, ledger.head().root[:16]) == (N, head.root[:16])
        assert str(ledger.problems[1]) == f"{run}: 300 events are known of: ranks 0..299 are missing"
        assert list(ledger.problems[1].ranks) == list(range(N))
        assert {problem.hint for problem in ledger.problems} == {hint}
        for read in (
            lambda: ledger.at(7),
            lambda: next(ledger.scan(7)),
            lambda: ledger.get(events[7].id),
            lambda: ledger.prove(7),
            lambda: ledger.consistency(7),
            ledger.checkpoints,
        ):
            with pytest.raises(IntegrityError):
                read()
        with pytest.raises(ReadOnlyError):
            ledger.append(events[0])
        assert directory_digest(run) == before
        assert ledger.salvage(tmp_path / "new").ok
    assert contents(tmp_path / "new") == whole
    report = verify_ledger(run)
    assert "ranks 0..299 are missing" in report.problems[-1].text
    assert not report.ok


def test_a_database_that_does_not_open_is_refused_where_nothing_is_known_or_a_head_is_expected(stored):
    run, _, head = stored
    make_unreadable(run)
    with pytest.raises(IntegrityError):
        Ledger.open(run, "r", expect=head)
    (run / "HEAD").unlink()
    with pytest.raises(IntegrityError):
        Ledger.open(run, "r")


def test_fewer_events_than_a_checkpoint_names_is_recovery_degraded_until_the_loss_is_accepted(
    stored, make_event, tmp_path
):
    import shutil

    run, events, head = stored
    shutil.copytree(run, tmp_path / "old")
    with Ledger.open(run) as ledger:
        ledger.append_many([make_event(N + i) for i in range(5)])
        note = ledger.checkpoint(Signer("droveway.example/ledger", bytes(range(32))))
    (tmp_path / "old" / "checkpoint").write_bytes(note)
    run = tmp_path / "old"
    with pytest.raises(RollbackError) as caught:
        Ledger.open(run)
    assert str(caught.value) == (
        f"{run}: the ledger has 300 events, the head of a checkpoint has 305: ranks 300..304 are missing"
    )
    report = repair_ledger(run)
    assert (report.ok, report.ranks_lost) == (False, [(300, 304)])
    assert (run / "checkpoint").read_bytes() == note
    report = repair_ledger(run, accept_loss=True)
    assert (report.ok, report.ranks_lost) == (False, [(300, 304)])
    assert (report.evidence / "checkpoint").read_bytes() == note
    assert any("checkpoint" in text for text in report.notes)
    assert not (run / "checkpoint").exists()
    with Ledger.open(run) as ledger:
        assert ledger.manifest_status == "HEALTHY"
        assert ledger.head() == head
        assert ledger.at(4) == events[4]
        with pytest.raises(ForkError) as forked:
            ledger.checkpoint(Signer("droveway.example/ledger", bytes(range(32))))
        assert str(forked.value) == (
            f"{run}: 305 events were signed as 'droveway.example/ledger', and some were given up by a repair: "
            "sign with a key of another name"
        )
        ledger.checkpoint(Signer("another.example/ledger", bytes(range(32))))
    assert verify_ledger(run).ok

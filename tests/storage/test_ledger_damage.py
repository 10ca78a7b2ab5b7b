"""Damage: a flip in any stored value is found and located; damaged files never make a reader return other data."""

import random
import re
import shutil
from pathlib import Path

import pytest

from storage import Event, IntegrityError, Ledger, StorageError, layout, verify_ledger
from storage.layout import cursor_key, log_key, pack_cursor, tile_key

pytestmark = pytest.mark.usefixtures("engine")
ON_ROCKSDB = pytest.mark.parametrize("engine", ["rocksdb"], indirect=True)  # about its own files

N = 300


@pytest.fixture
def stored(run, make_event):
    """A closed ledger of 300 events: run, events, head."""
    events = [make_event(i, producer=f"p{i % 3}", effect=random.Random(i).randbytes(20 + i % 90)) for i in range(N)]
    with Ledger.open(run, sync="os") as ledger:
        for at in range(0, N, 25):
            ledger.append_many(events[at : at + 25])
        return run, events, ledger.head()


def value_of(event):
    return event.id + event.encode()


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("rank", [0, 1, 255, 256, N - 1])
def test_a_flip_inside_any_stored_event_value_is_found_and_located(stored, rewrite, rank):
    run, events, head = stored
    value = value_of(events[rank])
    randomly = random.Random(rank)
    bits = [0, 255, 256, 8 * len(value) - 1, *(randomly.randrange(8 * len(value)) for _ in range(8))]
    for bit in bits:
        rewrite(run, [("log", log_key(rank), flipped(value, bit))])
        report = verify_ledger(run)
        assert report.damaged_ranks == [rank], bit
        assert report.problems[0].where == f"log/{log_key(rank).hex()}"
        with Ledger.open(run, "r") as ledger:
            with pytest.raises(IntegrityError) as caught:
                ledger.at(rank)
            assert caught.value.ranks == (rank,)
            assert caught.value.file == f"log/{log_key(rank).hex()}"
            scanned = []
            with pytest.raises(IntegrityError) as caught:
                scanned.extend(ledger.scan())
            assert caught.value.ranks == (rank,)
            if rank + 1 < N:
                assert [found for found, _ in ledger.scan(rank + 1)] == list(range(rank + 1, N))
            assert all(ledger.at(other) == events[other] for other in (2, 77, 254, 257) if other != rank)
    rewrite(run, [("log", log_key(rank), value)])
    report = verify_ledger(run)
    assert report.ok
    assert report.root == head.root


def test_the_error_names_rank_key_and_both_ids(stored, rewrite):
    run, events, _ = stored
    other = value_of(events[7])[:-1] + b"\x08"
    rewrite(run, [("log", log_key(7), other)])
    from storage.hashing import event_id

    with Ledger.open(run, "r") as ledger, pytest.raises(IntegrityError) as caught:
        ledger.at(7)
    assert str(caught.value) == (
        f"{run}: rank 7 (log/0000000000000007) has the id {event_id(other[32:]).hex()}, stored is {events[7].id.hex()}"
    )


def test_an_event_replaced_with_its_right_id_is_found_by_its_leaf(stored, rewrite, make_event):
    run, events, _ = stored
    forged = make_event(9, producer="p0", effect=b"forged")
    rewrite(run, [("log", log_key(9), value_of(forged)), ("ids", forged.id, log_key(9))])
    report = verify_ledger(run)
    assert report.damaged_ranks == [9]
    assert report.problems[0].where == f"tree/{tile_key(0, 0).hex()}"
    assert any(problem.where == f"ids/{events[9].id.hex()}" for problem in report.problems)
    assert any(problem.where == "meta/head" for problem in report.problems)
    with Ledger.open(run, "r") as ledger, pytest.raises(IntegrityError, match=r"has the leaf hash .*, the tree holds"):
        ledger.at(9)


def head_value(n, root):
    return n.to_bytes(8, "big") + root


CHANGES = {
    "log: an event is missing": (
        lambda e, h: ([], [("log", log_key(60))]),
        60,
        "rank 60: log/000000000000003c: expected an event, got nothing",
    ),
    "log: the last event is missing": (
        lambda e, h: ([], [("log", log_key(N - 1))]),
        N - 1,
        "ranks 299..299 are missing: the head names 300 events, the log ends after 299",
    ),
    "log: an event too many": (
        lambda e, h: ([("log", log_key(N), value_of(e[0]))], []),
        None,
        "log/000000000000012c: expected ranks below 300, got another key",
    ),
    "log: a key of another length": (
        lambda e, h: ([("log", b"\0\0\0", b"x")], []),
        None,
        "log/000000: expected ranks below 300, got another key",
    ),
    "log: a value too short": (
        lambda e, h: ([("log", log_key(3), e[3].id)], []),
        3,
        "rank 3: log/0000000000000003: expected an id and an event, got 32 bytes",
    ),
    "ids: an entry is missing": (
        lambda e, h: ([], [("ids", e[5].id)]),
        5,
        lambda e, h: f"rank 5: ids/{e[5].id.hex()}: expected 0000000000000005, got nothing",
    ),
    "ids: an entry names another rank": (
        lambda e, h: ([("ids", e[5].id, log_key(6))], []),
        5,
        lambda e, h: f"rank 5: ids/{e[5].id.hex()}: expected 0000000000000005, got 0000000000000006",
    ),
    "ids: an entry of no event": (
        lambda e, h: ([("ids", bytes(32), log_key(6))], []),
        None,
        f"ids/{'00' * 32}: expected the id of an event in the log, got rank 0000000000000006",
    ),
    "tree: a leaf is flipped": (
        lambda e, h: ([("tree", tile_key(0, 1), flipped(tile(e, 1), 3))], []),
        256,
        lambda e, h: (
            f"rank 256: tree/000000000000000001: expected leaf hash {tile(e, 1)[:32].hex()}, "
            f"got {flipped(tile(e, 1), 3)[:32].hex()}"
        ),
    ),
    "tree: a tile is cut": (
        lambda e, h: ([("tree", tile_key(0, 1), tile(e, 1)[:-32])], []),
        N - 1,
        lambda e, h: f"rank 299: tree/000000000000000001: expected leaf hash {tile(e, 1)[-32:].hex()}, got nothing",
    ),
    "tree: a tile is too long": (
        lambda e, h: ([("tree", tile_key(0, 1), tile(e, 1) + bytes(32))], []),
        None,
        "tree/000000000000000001: expected 1408 bytes, got 1440",
    ),
    "tree: an upper tile is wrong": (
        lambda e, h: ([("tree", tile_key(1, 0), bytes(32))], []),
        None,
        "tree/010000000000000000: expected 32 bytes of hashes of the tiles below, got 32 other bytes",
    ),
    "tree: a tile too many": (
        lambda e, h: ([("tree", tile_key(2, 0), bytes(32))], []),
        None,
        "tree/020000000000000000: expected tiles of 300 events, got another key",
    ),
    "meta: the head has another root": (
        lambda e, h: ([("meta", b"head", head_value(N, bytes(32)))], []),
        None,
        lambda e, h: f"meta/head: expected root {h.root.hex()} of the events, got root {'00' * 32}",
    ),
    "meta: the head names more events": (
        lambda e, h: ([("meta", b"head", head_value(2**60, h.root))], []),
        N,
        f"ranks 300..{2**60 - 1} are missing: the head names {2**60} events, the log ends after 300",
    ),
    "meta: the head names fewer events": (
        lambda e, h: ([("meta", b"head", head_value(280, h.root))], []),
        None,
        "log/0000000000000118: expected ranks below 280, got another key",
    ),
    "meta: the head is cut": (
        lambda e, h: ([("meta", b"head", b"x")], []),
        None,
        "meta/head must have 40 bytes, got 1",
    ),
    "meta: the head is missing": (lambda e, h: ([], [("meta", b"head")]), None, "RUN: meta/head is missing"),
    "meta: the format is missing": (lambda e, h: ([], [("meta", b"format")]), None, "RUN: meta/format is missing"),
    "meta: a cursor is wrong": (
        lambda e, h: ([("meta", cursor_key("p1"), pack_cursor(5, e[1].id))], []),
        None,
        lambda e, h: (
            f"meta/cursor/p1: expected {pack_cursor(298, e[298].id).hex()}, got {pack_cursor(5, e[1].id).hex()}"
        ),
    ),
    "meta: a cursor is missing": (
        lambda e, h: ([], [("meta", cursor_key("p2"))]),
        None,
        "meta/cursor/p2: expected a cursor, got nothing",
    ),
    "meta: a cursor of nobody": (
        lambda e, h: ([("meta", cursor_key("ghost"), b"x")], []),
        None,
        "meta/cursor/ghost: expected no cursor, got 78",
    ),
    "meta: an unknown key": (
        lambda e, h: ([("meta", b"note\xff", b"x")], []),
        None,
        "meta/note\\xff: expected format, head, cursors and checkpoints, got another key",
    ),
}


def tile(events, index):
    from storage.tree import leaf, leaf_hash

    part = events[256 * index : 256 * (index + 1)]
    return b"".join(leaf_hash(leaf(event.id, len(event.encode()))) for event in part)


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_in_every_family_is_found_and_located(stored, rewrite, name):
    run, events, head = stored
    change, rank, text = CHANGES[name]
    rewrite(run, *change(events, head))
    report = verify_ledger(run)
    expected = (text(events, head) if callable(text) else text).replace("RUN", str(run))
    assert expected in [problem.text for problem in report.problems]
    if rank is not None:
        assert rank in report.damaged_ranks
    assert report.problem_count == len(report.problems) < 60


def test_a_sequence_number_that_falls_is_found(run, make_event, rewrite, monkeypatch):
    with Ledger.open(run) as ledger:
        ledger.append(make_event(5))
        monkeypatch.setattr(ledger._writer, "_cursors", {"fleet-1": None})  # a writer that forgot what it had seen
        ledger.append(make_event(4))
    report = verify_ledger(run)
    assert [problem.text for problem in report.problems] == [
        "rank 1: log/0000000000000001: expected a sequence of producer 'fleet-1' above 5, got 4"
    ]


class NoEvent(Event):
    """What a broken writer would append: bytes that are no event."""

    def encode(self):
        return b"\x81\xa1a\xcc\x01"


def test_bytes_that_are_no_event_are_found_even_with_right_id_leaf_and_root(run):
    with Ledger.open(run) as ledger:
        ledger.append(NoEvent(producer="fleet-1", effect=b"", kind="note.text", sequence=0, tick=0))
        with pytest.raises(IntegrityError) as caught:
            ledger.at(0)
        assert str(caught.value) == (
            f"{run}: rank 0 holds no event: canonical msgpack: byte 3: 1 is not in its shortest form"
        )
    report = verify_ledger(run)
    assert report.problems[0].text == (
        "rank 0: log/0000000000000000: canonical msgpack: byte 3: 1 is not in its shortest form"
    )
    assert report.damaged_ranks == [0]


def test_ids_that_disagree_with_the_log_degrade_but_do_not_stop_reading(stored, rewrite):
    run, events, _ = stored
    rewrite(run, deletes=[("ids", event.id) for event in events])
    with Ledger.open(run, "r") as ledger:
        assert ledger.manifest_status == "DEGRADED"
        assert [str(problem) for problem in ledger.problems] == [f"{run}: ids does not know the last event of the log"]
        assert ledger.at(17) == events[17]
        assert ledger.get(events[17].id) == events[17]  # found in the log itself
        with pytest.raises(KeyError):
            ledger.get(bytes(32))


def test_an_id_that_leads_to_another_event_is_noticed_when_it_is_used(stored, rewrite):
    run, events, _ = stored
    rewrite(run, [("ids", events[5].id, log_key(6))])
    with Ledger.open(run, "r") as ledger:
        assert ledger.manifest_status == "HEALTHY"
        assert ledger.get(events[5].id) == events[5]
        assert ledger.manifest_status == "DEGRADED"


@pytest.mark.parametrize(
    "name",
    [
        "log: an event is missing",
        "log: the last event is missing",
        "log: an event too many",
        "meta: the head has another root",
        "meta: the head names fewer events",
        "meta: the head is cut",
        "meta: the head is missing",
        "meta: the format is missing",
    ],
)
def test_a_damaged_end_is_refused_for_writing_and_nothing_is_altered(stored, rewrite, directory_digest, name):
    run, events, head = stored
    rewrite(run, *CHANGES[name][0](events, head))
    before = directory_digest(run)
    with pytest.raises(StorageError):
        Ledger.open(run)
    assert directory_digest(run) == before


@ON_ROCKSDB
@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_a_deleted_file_of_the_engine_is_damage(stored, pattern):
    run, _, _ = stored
    gone = next((run / "ledger").glob(pattern))
    gone.unlink()
    with pytest.raises(IntegrityError) as caught:
        Ledger.open(run)
    assert gone.name in str(caught.value) and "Errno" not in str(caught.value)
    assert Path(caught.value.file).name == gone.name
    report = verify_ledger(run)
    assert not report.ok


def damage(data, kind, randomly):
    at = randomly.randrange(len(data))
    changed = bytearray(data)
    if kind == "flip":
        changed[at] ^= 1 << randomly.randrange(8)
    elif kind == "cut":
        del changed[at:]
    elif kind == "zero":
        changed[at : at + 512] = bytes(len(changed[at : at + 512]))
    else:
        other = randomly.randrange(len(data))
        size = min(4096, len(data) - max(at, other))
        changed[at : at + size], changed[other : other + size] = data[other : other + size], data[at : at + size]
    return bytes(changed)


def read_what_can_be_read(run, events):
    """Every event that a damaged ledger gives out is the one that was stored."""
    try:
        ledger = Ledger.open(run, "r")
    except StorageError:
        return
    with ledger:
        for rank in range(0, min(N, ledger.head().size), 7):
            refused = None
            try:
                assert ledger.at(rank) == events[rank]
            except IntegrityError as error:
                refused = error.ranks
            assert refused in (None, (rank,))
        reached, refused = 0, None
        try:
            for rank, event in ledger.scan():
                assert (rank, event) == (reached, events[rank])
                reached += 1
        except IntegrityError as error:
            refused = error.ranks
        assert refused in (None, (reached,))


NOBODY_READS = re.compile(r"LOG|OPTIONS-\d+|IDENTITY|rocksdict-config\.json|LOCK|lock\.mdb")


def damage_at_random(run, events, head, rounds, seed):
    files = sorted(file for file in run.rglob("*") if file.is_file() and file.stat().st_size)
    read = [file for file in files if NOBODY_READS.fullmatch(file.name) is None]
    randomly = random.Random(seed)
    found = 0
    for i in range(rounds):
        file = randomly.choice(files if i % 5 == 0 else read)
        kind = randomly.choice(["flip", "flip", "flip", "cut", "zero", "swap"])
        good = file.read_bytes()
        changed = damage(good, kind, randomly)
        file.write_bytes(changed)
        report = verify_ledger(run)
        read_what_can_be_read(run, events)
        file.write_bytes(good)
        if report.ok:
            # Nothing that a reader gets has changed: bytes that nobody reads, or a change to the same bytes.
            assert (report.size, report.root) == (head.size, head.root), (file.name, kind)
        else:
            assert file in read, (file.name, kind)
            found += 1
    assert verify_ledger(run).ok
    return found


def test_a_damaged_file_is_found_or_changes_nothing_that_is_returned(stored, engine):
    run, events, head = stored
    # A third of the small LMDB file is free pages.
    assert damage_at_random(run, events, head, rounds=50, seed=1) > (30 if engine == "rocksdb" else 15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_damaged_files_are_found_or_change_nothing_that_is_returned(stored, seed, engine):
    run, events, head = stored
    assert damage_at_random(run, events, head, rounds=150, seed=seed) > (90 if engine == "rocksdb" else 50)


@ON_ROCKSDB
def test_a_log_of_the_engine_cut_after_a_crash_gives_a_prefix_and_a_flip_in_it_is_found(stored, python):
    run, _, _ = stored
    done = python(
        f"""
import os
from storage import Event, Ledger
ledger = Ledger.open({str(run)!r})
for i in range(30):
    ledger.append(Event(producer="late", effect=bytes(300), kind="x", sequence=i, tick=0))
os._exit(0)
"""
    )
    assert done.returncode == 0, done.stderr
    with Ledger.open(run, "r") as ledger:
        everything = [event for _, event in ledger.scan()]
        assert (len(everything), ledger.recovered) == (N + 30, 30)
    log = max((run / "ledger").glob("*.log"), key=lambda file: file.stat().st_size)
    good = log.read_bytes()
    randomly = random.Random(3)
    sizes = set()
    for _ in range(12):
        log.write_bytes(good[: randomly.randrange(len(good))])
        report = verify_ledger(run)
        assert report.ok, report.problems
        sizes.add(report.size)
        assert N <= report.size < N + 30
        with Ledger.open(run, "r") as ledger:
            assert [event for _, event in ledger.scan()] == everything[: report.size]
    assert len(sizes) > 4
    for _ in range(12):
        log.write_bytes(flipped(good, randomly.randrange(8 * (len(good) - 6000))))
        assert not verify_ledger(run).ok
        with pytest.raises(IntegrityError):
            Ledger.open(run)
    log.write_bytes(good)
    assert verify_ledger(run).ok


@ON_ROCKSDB
def test_blocks_swapped_between_two_ledgers_are_found(stored, tmp_path, make_event):
    run, events, _ = stored
    other = tmp_path / "other"
    with Ledger.open(other, sync="os") as ledger:
        for at in range(0, N, 25):
            ledger.append_many([make_event(i, producer="q", effect=bytes(20 + i % 90)) for i in range(at, at + 25)])
    mine = sorted((run / "ledger").glob("*.sst"), key=lambda file: file.stat().st_size)[-1]
    theirs = sorted((other / "ledger").glob("*.sst"), key=lambda file: file.stat().st_size)[-1]
    shutil.copyfile(theirs, mine)
    assert not verify_ledger(run).ok
    read_what_can_be_read(run, events)


def test_problems_are_counted_beyond_those_that_are_kept(stored, rewrite, monkeypatch):
    import storage.ledger_check

    monkeypatch.setattr(storage.ledger_check, "PROBLEMS_MAX", 10)
    run, events, _ = stored
    rewrite(run, deletes=[("ids", event.id) for event in events])
    report = verify_ledger(run)
    assert (len(report.problems), report.problem_count) == (10, N)


def test_progress_is_told_up_to_the_last_event(stored):
    run, _, _ = stored
    calls = []
    assert verify_ledger(run, progress=lambda done, total: calls.append((done, total))).ok
    assert calls[-1] == (N, N)
    assert calls == sorted(calls)
    assert layout.TILE_HASHES == 256

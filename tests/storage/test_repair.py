"""Repair: what is derived comes back byte for byte, damaged events come back or are named, the old store stays."""

import random
import shutil

import pytest

from storage import Ledger, salvage_ledger, verify_ledger
from storage.layout import FAMILIES, cursor_key, log_key, tile_key
from storage.mending.repair_ledger import repair_ledger
from storage.tree import leaf, leaf_hash

pytestmark = pytest.mark.usefixtures("engine")

N = 300


@pytest.fixture
def stored(run, make_event):
    """A closed ledger of 300 events of three producers: run, events, head."""
    events = [make_event(i, producer=f"p{i % 3}", effect=random.Random(i).randbytes(20 + i % 90)) for i in range(N)]
    with Ledger.open(run, sync="os") as ledger:
        for at in range(0, N, 25):
            ledger.append_many(events[at : at + 25])
        return run, events, ledger.head()


@pytest.fixture
def contents():
    """contents(run): every key and value of a ledger, and HEAD."""

    def read(run):
        from storage.engine.engines import open_store

        store = open_store(run / "ledger", read_only=True)
        found = {family: dict(store.scan(family)) for family in FAMILIES}
        store.close()
        return found, (run / "HEAD").read_bytes()

    return read


def value_of(event):
    return event.id + event.encode()


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(changed)


@pytest.fixture
def forget():
    """forget(run): let the engine rewrite its files, so that no older entry is left in them."""

    def compacted(run):
        from storage.engine.engines import open_store

        store = open_store(run / "ledger", read_only=False)
        store.compact()
        if hasattr(store, "_families"):  # RocksDB, whose other families are not compacted
            from rocksdict import BottommostLevelCompaction, CompactOptions

            options = CompactOptions()
            options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
            for family in FAMILIES:
                store._family(family).compact_range(None, None, options)
        store.close()

    return compacted


DERIVED = {
    "every id is missing": (lambda e: ([], [("ids", event.id) for event in e]), {"ids": N}),
    "ids lead to other ranks": (lambda e: ([("ids", e[5].id, log_key(6)), ("ids", e[9].id, b"x")], []), {"ids": 2}),
    "ids of no event": (lambda e: ([("ids", bytes(32), log_key(6)), ("ids", b"short", b"")], []), {"ids": 2}),
    "every tile is missing": (
        lambda e: ([], [("tree", tile_key(0, 0)), ("tree", tile_key(0, 1)), ("tree", tile_key(1, 0))]),
        {"tree": 3},
    ),
    "a leaf is flipped": (lambda e: ([("tree", tile_key(0, 1), flipped(tile(e, 1), 3))], []), {"tree": 1}),
    "a tile is cut": (lambda e: ([("tree", tile_key(0, 1), tile(e, 1)[:-32])], []), {"tree": 1}),
    "a tile is too long": (lambda e: ([("tree", tile_key(0, 1), tile(e, 1) + bytes(32))], []), {"tree": 1}),
    "an upper tile is wrong": (lambda e: ([("tree", tile_key(1, 0), bytes(32))], []), {"tree": 1}),
    "tiles too many": (
        lambda e: ([("tree", tile_key(2, 0), bytes(32)), ("tree", b"x", b"")], []),
        {"tree": 2},
    ),
    "the cursors are missing": (lambda e: ([], [("meta", cursor_key(f"p{i}")) for i in range(3)]), {"cursors": 3}),
    "cursors of nobody": (lambda e: ([("meta", cursor_key("ghost"), b"x")], []), {"cursors": 1}),
    "the head is missing": (lambda e: ([], [("meta", b"head")]), {"head": 1}),
    "the head is cut": (lambda e: ([("meta", b"head", b"x")], []), {"head": 1}),
    "the head has another root": (lambda e: ([("meta", b"head", N.to_bytes(8, "big") + bytes(32))], []), {"head": 1}),
    "the head names fewer events": (
        lambda e: ([("meta", b"head", (280).to_bytes(8, "big") + bytes(32))], []),
        {"head": 1},
    ),
    "the head names far more events": (
        lambda e: ([("meta", b"head", (2**60).to_bytes(8, "big") + bytes(32))], []),
        {"head": 1},
    ),
    "the format is missing": (lambda e: ([], [("meta", b"format")]), {"format": 1}),
    "an unknown key in meta": (lambda e: ([("meta", b"note\xff", b"xy")], []), {"meta": 1}),
    "an event too many": (lambda e: ([("log", log_key(N), value_of(e[0]))], []), {"log": 1}),
    "keys of no rank": (lambda e: ([("log", b"\0\0\0", b"x"), ("log", log_key(2**62), b"")], []), {"log": 2}),
    "everything derived is gone": (
        lambda e: (
            [],
            [("ids", event.id) for event in e]
            + [("tree", tile_key(0, 0)), ("tree", tile_key(0, 1)), ("tree", tile_key(1, 0)), ("meta", b"head")]
            + [("meta", b"format")]
            + [("meta", cursor_key(f"p{i}")) for i in range(3)],
        ),
        {"tree": 3, "ids": N, "cursors": 3, "format": 1, "head": 1},
    ),
}


def tile(events, index):
    part = events[256 * index : 256 * (index + 1)]
    return b"".join(leaf_hash(leaf(event.id, len(event.encode()))) for event in part)


@pytest.mark.parametrize("name", DERIVED)
def test_what_is_derived_is_rebuilt_byte_for_byte(stored, rewrite, contents, name):
    run, events, head = stored
    before = contents(run)
    change, rebuilt = DERIVED[name]
    rewrite(run, *change(events))
    assert not verify_ledger(run).ok
    report = repair_ledger(run)
    assert report.ok, report
    assert report.rebuilt == rebuilt
    assert (report.size, report.root) == (head.size, head.root)
    assert contents(run) == before
    assert verify_ledger(run).ok
    with Ledger.open(run) as ledger:
        assert ledger.manifest_status == "HEALTHY"
    assert report.evidence == run.with_name("run.damaged-1")
    assert not verify_ledger(report.evidence).ok  # the damaged store as it was
    assert sorted(entry.name for entry in run.parent.iterdir()) == ["run", "run.damaged-1"]


def test_a_whole_ledger_is_left_alone(stored, directory_digest):
    run, _, head = stored
    before = directory_digest(run)
    report = repair_ledger(run)
    assert (report.ok, report.changed, report.evidence) == (True, False, None)
    assert (report.size, report.root) == (head.size, head.root)
    assert directory_digest(run) == before
    assert [entry.name for entry in run.parent.iterdir()] == ["run"]


@pytest.mark.parametrize("content", [None, b"", b"DWH1", bytes(48)])
def test_a_missing_or_torn_head_file_is_written_again_and_told(stored, content):
    run, _, _ = stored
    good = (run / "HEAD").read_bytes()
    (run / "HEAD").unlink()
    if content is not None:
        (run / "HEAD").write_bytes(content)
    report = repair_ledger(run)
    assert report.ok
    assert report.rebuilt == {"HEAD": 1}
    assert report.notes == ["HEAD was missing or damaged: what it named is not known"]
    assert (run / "HEAD").read_bytes() == good
    assert repair_ledger(run).changed is False
    if content is not None:
        assert (report.evidence / "HEAD").read_bytes() == content


@pytest.mark.parametrize("rank", [0, 7, 255, 256, N - 1])
def test_one_flipped_bit_of_an_event_is_flipped_back(stored, rewrite, contents, rank):
    run, events, _ = stored
    before = contents(run)
    value = value_of(events[rank])
    for bit in (0, 255, 256, 8 * len(value) - 1):
        rewrite(run, [("log", log_key(rank), flipped(value, bit))])
        report = repair_ledger(run)
        assert report.ok, report
        assert report.ranks_restored == {"its own bytes, one bit mended": [(rank, rank)]}
        assert contents(run) == before


def test_a_damaged_event_comes_from_another_copy(stored, rewrite, contents, tmp_path, forget):
    run, _events, _ = stored
    other = tmp_path / "other"
    shutil.copytree(run, other)
    before = contents(run)
    rewrite(run, [("log", log_key(9), b"rubbish" * 20)], [("log", log_key(299)), ("log", log_key(20))])
    forget(run)
    report = repair_ledger(run, sources=[other])
    assert report.ok
    assert report.ranks_restored == {str(other): [(9, 9), (20, 20), (299, 299)]}
    assert contents(run) == before


def test_without_another_copy_the_leaf_is_found_again_and_stands_for_the_event(stored, rewrite, forget):
    run, events, head = stored
    rewrite(run, [("log", log_key(9), events[9].id + b"rubbish" * 20)], [("log", log_key(20)), ("log", log_key(299))])
    forget(run)
    report = repair_ledger(run)
    assert not report.ok
    assert report.ranks_without_payload == [(9, 9), (20, 20), (299, 299)]
    assert report.ranks_lost == []
    found = verify_ledger(run)
    assert (found.ok, found.root, found.retired) == (True, head.root, [(9, 9), (20, 20), (299, 299)])
    with Ledger.open(run) as ledger:
        assert ledger.rank_of(events[20].id) == 20
        assert ledger.append(events[0]).rank == 0
    assert repair_ledger(run).ok


def test_an_event_forged_with_its_id_gives_way_to_the_leaf_in_the_tree(stored, rewrite, make_event, tmp_path, contents):
    run, _events, _head = stored
    shutil.copytree(run, tmp_path / "other")
    before = contents(run)
    forged = make_event(9, producer="p0", effect=b"forged")
    rewrite(run, [("log", log_key(9), value_of(forged)), ("ids", forged.id, log_key(9))])
    assert repair_ledger(run, sources=[tmp_path / "other"]).ok
    assert contents(run) == before


def test_an_event_of_which_nothing_is_left_is_lost_and_kept_as_a_leaf_hash_only_when_that_is_accepted(
    stored, rewrite, directory_digest, make_event, forget
):
    run, events, head = stored
    rewrite(run, deletes=[("log", log_key(20)), ("ids", events[20].id)])
    forget(run)
    before = directory_digest(run)
    report = repair_ledger(run)
    assert (report.ok, report.ranks_lost, report.changed) == (False, [(20, 20)], False)
    assert directory_digest(run) == before
    report = repair_ledger(run, accept_loss=True)
    assert (report.ok, report.ranks_lost, report.evidence is not None) == (False, [(20, 20)], True)
    found = verify_ledger(run)
    assert [problem.text for problem in found.problems] == [
        "rank 20: lost, and repaired without it: only its leaf hash is left"
    ]
    assert found.root == head.root
    with Ledger.open(run) as ledger:
        assert ledger.append(make_event(N)).rank == N
        assert ledger.at(21) == events[21]
    again = repair_ledger(run, accept_loss=True)
    assert (again.ranks_lost, again.changed) == ([(20, 20)], False)


def test_a_store_behind_its_head_names_the_ranks_and_lowers_head_only_when_that_is_accepted(
    stored, make_event, tmp_path
):
    run, _events, head = stored
    shutil.copytree(run, tmp_path / "old")
    with Ledger.open(run) as ledger:
        ledger.append_many([make_event(N + i) for i in range(5)])
    later = tmp_path / "later"
    shutil.copytree(run, later)
    shutil.rmtree(run / "ledger")
    shutil.copytree(tmp_path / "old" / "ledger", run / "ledger")
    seen = (run / "HEAD").read_bytes()
    report = repair_ledger(run)
    assert (report.ok, report.ranks_lost, report.changed) == (False, [(300, 304)], False)
    assert (run / "HEAD").read_bytes() == seen

    with_source = tmp_path / "with_source"
    shutil.copytree(run, with_source)
    report = repair_ledger(with_source, sources=[later])
    assert report.ok
    assert report.ranks_restored == {str(later): [(300, 304)]}
    assert verify_ledger(with_source).root == verify_ledger(later).root

    report = repair_ledger(run, accept_loss=True)
    assert (report.ok, report.ranks_lost) == (False, [(300, 304)])
    assert (report.evidence / "HEAD").read_bytes() == seen
    assert (report.size, report.root) == (head.size, head.root)
    assert verify_ledger(run).ok
    with Ledger.open(run) as ledger:
        assert ledger.append(make_event(N)).rank == N


def test_a_source_with_another_history_is_not_believed(stored, make_event, tmp_path, rewrite, forget):
    run, events, _ = stored
    with Ledger.open(tmp_path / "other", sync="os") as ledger:
        ledger.append_many([make_event(i, producer="x") for i in range(N + 10)])
    rewrite(run, [("log", log_key(9), events[9].id + b"rubbish" * 20)])
    forget(run)
    report = repair_ledger(run, sources=[tmp_path / "other"])
    assert report.ranks_restored == {}
    assert report.ranks_without_payload == [(9, 9)]


STEPS = ["copy", "mend", "check", "exchange", "rename", "head", "evidence"]


@pytest.mark.parametrize("stop_at", STEPS)
def test_an_interrupted_repair_leaves_the_old_or_the_new_and_a_second_one_ends_it(
    stored, rewrite, contents, stop_at, python
):
    run, events, _ = stored
    before = contents(run)
    rewrite(run, deletes=[("ids", event.id) for event in events[:20]])
    (run / "HEAD").write_bytes(b"torn")
    damaged = contents(run)
    done = python(
        f"""
import os
from storage.mending.repair_ledger import repair_ledger
def step(name):
    if name == {stop_at!r}:
        os._exit(7)
repair_ledger({str(run)!r}, on_step=step)
"""
    )
    assert done.returncode == 7, done.stderr
    assert contents(run)[0] in (damaged[0], before[0])
    report = repair_ledger(run)
    assert report.ok, report
    assert contents(run) == before
    names = sorted(entry.name for entry in run.parent.iterdir())
    assert all(name == "run" or name.startswith("run.damaged-") for name in names), names
    kept = [run.with_name(name) for name in names if name != "run"]
    assert any(contents(folder)[0] == damaged[0] for folder in kept)


def test_an_overwritten_event_is_found_again_in_the_files_of_the_database(stored, rewrite, contents, engine):
    if engine == "lmdb":
        return  # its pages are overwritten
    run, events, _ = stored
    before = contents(run)
    rewrite(run, [("log", log_key(9), events[9].id + b"rubbish" * 20)], [("log", log_key(20)), ("log", log_key(299))])
    report = repair_ledger(run)
    assert report.ok
    assert report.ranks_restored == {"older entries in the files of the database": [(9, 9), (20, 20), (299, 299)]}
    assert contents(run) == before


def test_every_step_is_told_in_this_order(stored, rewrite):
    run, events, _ = stored
    rewrite(run, deletes=[("ids", events[0].id)])
    steps = []
    repair_ledger(run, on_step=steps.append)
    assert steps == STEPS


def test_salvage_writes_what_can_be_read_into_a_new_ledger_and_alters_nothing(
    stored, rewrite, directory_digest, tmp_path, make_event
):
    run, events, head = stored
    rewrite(run, [("log", log_key(9), events[9].id + b"rubbish" * 20)], [("ids", event.id) for event in events[40:]])
    head_file = (run / "HEAD").read_bytes()
    before = directory_digest(run)
    with Ledger.open(run, "r") as ledger:
        report = ledger.salvage(tmp_path / "new")
    assert directory_digest(run) == before
    assert (report.size, report.root, report.evidence) == (head.size, head.root, None)
    assert verify_ledger(tmp_path / "new").ok
    assert (tmp_path / "new" / "HEAD").read_bytes() == head_file
    with Ledger.open(tmp_path / "new") as ledger:
        assert ledger.get(events[77].id) == events[77]
        assert ledger.append(make_event(N)).rank == N
    with pytest.raises(ValueError, match=r"^salvage_ledger: into must be a folder that does not exist yet or is empty"):
        salvage_ledger(run, tmp_path / "new")


def test_salvage_ends_the_new_ledger_before_the_first_rank_of_which_nothing_is_known(stored, rewrite, forget, tmp_path):
    run, events, _ = stored
    rewrite(
        run,
        [("tree", tile_key(0, 1), tile(events, 1)[:64] + bytes(31))],
        [("log", log_key(270)), ("ids", events[270].id)],
    )
    forget(run)
    report = salvage_ledger(run, tmp_path / "new")
    assert report.ranks_lost == [(270, 299)]
    assert report.size == 270
    with Ledger.open(tmp_path / "new") as ledger:
        assert [event for _, event in ledger.scan()] == events[:270]
    assert verify_ledger(tmp_path / "new").ok

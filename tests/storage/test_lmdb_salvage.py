"""A damaged LMDB ledger is repaired from what its pages still hold."""

import random

import pytest

from storage import Ledger, repair_ledger, verify_ledger
from storage.engine.lmdb_pages import PageFile, View, read_meta
from storage.engine.lmdb_reader import trees_of

PAGE = 4096


@pytest.fixture
def stored(run, make_event):
    """A closed ledger of 600 events in LMDB, two of them retired: run, events, head."""
    randomly = random.Random(5)
    events = [make_event(i, effect=randomly.randbytes(9000 if i % 20 == 0 else 150)) for i in range(600)]
    with Ledger.open(run, sync="os", engine="lmdb") as ledger:
        for at in range(0, 600, 30):
            ledger.append_many(events[at : at + 30])
        ledger.retire([5, 6])
        return run, events, ledger.head()


def path_to(run, family, key):
    """The pages from the root of a family to the leaf of a key."""
    file = PageFile(run / "ledger" / "data.mdb")
    trees, _ = trees_of(View(file, read_meta(file)))
    numbers = [number for _, _, number in trees[family]._path(key)]
    file.close()
    return numbers


def zero(run, *pages):
    with (run / "ledger" / "data.mdb").open("r+b") as stream:
        for page in pages:
            stream.seek(page * PAGE)
            stream.write(bytes(PAGE))


def test_without_its_meta_pages_a_ledger_is_repaired_whole(stored):
    run, _, head = stored
    zero(run, 0, 1)
    (run / "ledger" / "data.mdb").open("r+b").write(b"\1")  # not two pages of zeros, which nobody wrote
    assert not verify_ledger(run).ok
    report = repair_ledger(run)
    assert (report.ok, report.salvaged, report.size, report.root) == (True, True, head.size, head.root)
    after = verify_ledger(run)
    assert (after.ok, after.size, after.root, after.retired) == (True, head.size, head.root, [(5, 6)])


@pytest.mark.parametrize("family", ["log", "ids"])
def test_without_the_branches_above_its_leaves_a_ledger_is_repaired_whole(stored, family):
    run, events, head = stored
    zero(run, *path_to(run, family, bytes(8))[:-1])
    report = repair_ledger(run)
    assert (report.ok, report.size, report.root) == (True, head.size, head.root)
    assert verify_ledger(run).ok
    with Ledger.open(run, "r") as ledger:
        assert [event for _, event in ledger.scan(7)] == events[7:]


def test_events_whose_leaf_is_gone_are_lost_by_name_and_nothing_else_is(stored):
    run, events, head = stored
    rank = 333
    zero(run, path_to(run, "log", rank.to_bytes(8, "big"))[-1])
    damaged = verify_ledger(run).damaged_ranks
    assert rank in damaged
    assert 5 < len(damaged) < 20
    report = repair_ledger(run, accept_loss=True)
    assert report.root == head.root, report
    assert verify_ledger(run).root == report.root
    with Ledger.open(run, "r") as ledger:
        found = {rank: event for rank, event in ledger.scan(retired=True) if event == events[rank]}
    assert sorted(found) == [rank for rank in range(600) if rank not in {5, 6, *damaged}]

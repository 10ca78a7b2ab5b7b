"""Salvage: a database that its engine can't read any more comes back whole, or as far as it is there."""

import random
import shutil

import pytest

from storage import Ledger, StorageError, verify_ledger
from storage.engine.sst_file import SstFile
from storage.engine.wal_file import WalFile
from storage.layout import FAMILIES, log_key
from storage.mending.repair_ledger import repair_ledger

N = 330
FLUSHED = 300


@pytest.fixture
def stored(run, make_event, tmp_path):
    """A copy, taken as after a kill, of a ledger of 330 events, the last 30 in a log only: run, events, head."""
    events = [make_event(i, producer=f"p{i % 3}", effect=random.Random(i).randbytes(20 + i % 90)) for i in range(N)]
    with Ledger.open(tmp_path / "alive", engine="rocksdb") as ledger:
        for at in range(0, FLUSHED, 25):
            ledger.append_many(events[at : at + 25])
        ledger._store.flush()
        for event in events[FLUSHED:]:
            ledger.append(event)
        shutil.copytree(tmp_path / "alive", run)
        head = ledger.head()
    shutil.rmtree(tmp_path / "alive")
    return run, events, head


@pytest.fixture
def contents():
    """contents(run): every key and value of a ledger."""

    def read(run):
        from storage.engine.rocks import RocksStore

        store = RocksStore.open(run / "ledger", read_only=True)
        found = {family: dict(store.scan(family)) for family in FAMILIES}
        store.close()
        return found

    return read


def files(run, pattern):
    return sorted((run / "ledger").glob(pattern), key=lambda file: file.stat().st_size)


def test_tables_and_logs_hold_exactly_what_the_engine_gives_out(stored, contents):
    run, _, _ = stored
    found = {}
    for pattern, kind in (("*.sst", SstFile), ("*.log", WalFile)):
        for path in files(run, pattern):
            file = kind(path)
            for cell in file.cells():
                assert cell.checked
                if cell.sequence >= found.get(cell.key, (0, None))[0]:
                    found[cell.key] = (cell.sequence, cell.value)
            file.close()
            assert (file.faults, file.bytes_lost) == ([], 0)
    expected = {key: value for family in contents(run).values() for key, value in family.items()}
    assert {key: value for key, (_, value) in found.items()} == expected


GONE = {
    "CURRENT": ["CURRENT"],
    "the manifest": ["MANIFEST-*"],
    "both, and the options": ["CURRENT", "MANIFEST-*", "OPTIONS-*", "IDENTITY"],
}


@pytest.mark.parametrize("name", GONE)
def test_without_its_list_of_tables_a_database_comes_back_byte_for_byte(stored, contents, name):
    run, _, head = stored
    before = contents(run)
    for pattern in GONE[name]:
        for file in files(run, pattern):
            file.unlink()
    with pytest.raises(StorageError):
        Ledger.open(run)
    report = repair_ledger(run)
    assert report.ok, report
    assert report.salvaged
    assert (report.size, report.root) == (head.size, head.root)
    assert contents(run) == before
    with Ledger.open(run) as ledger:
        assert ledger.manifest_status == "HEALTHY"
    assert report.evidence.name == "run.damaged-1"


def test_a_manifest_cut_short_comes_back_byte_for_byte(stored, contents):
    run, _, _ = stored
    before = contents(run)
    (manifest,) = files(run, "MANIFEST-*")
    good = manifest.read_bytes()
    for size in (0, 40, len(good) // 2, len(good) - 9):
        manifest.write_bytes(good[:size])
        if verify_ledger(run).ok:
            continue
        assert repair_ledger(run).ok, size
        assert contents(run) == before
        (manifest,) = files(run, "MANIFEST-*")
        good = manifest.read_bytes()


def test_a_flip_in_a_table_is_mended(stored, contents):
    run, _, _ = stored
    before = contents(run)
    randomly = random.Random(5)
    mended = 0
    for _ in range(10):
        table = randomly.choice(files(run, "*.sst"))
        data = bytearray(table.read_bytes())
        data[randomly.randrange(len(data))] ^= 1 << randomly.randrange(8)
        table.unlink()  # the evidence of the round before is linked to it
        table.write_bytes(data)
        if verify_ledger(run).ok:
            continue
        report = repair_ledger(run)
        assert report.ok, report
        assert contents(run) == before
        mended += 1
    assert mended > 3


@pytest.mark.parametrize("number", range(4))
def test_a_table_that_is_gone_costs_at_most_payloads(stored, number):
    run, _, head = stored
    files(run, "*.sst")[number].unlink()
    report = repair_ledger(run)
    assert (report.size, report.root) == (head.size, head.root), report
    assert report.ranks_lost == []
    assert report.ranks_without_payload == ([(0, FLUSHED - 1)] if number == 3 else [])  # the largest: the events
    assert verify_ledger(run).ok


def test_a_record_of_the_log_that_is_damaged_is_lost_alone(stored, contents):
    run, events, head = stored
    log = files(run, "*.log")[-1]
    data = bytearray(log.read_bytes())
    at = data.find(events[310].encode()[40:])
    data[at] ^= 1
    data[at + 1] ^= 1
    log.write_bytes(data)
    with pytest.raises(StorageError):
        Ledger.open(run)
    report = repair_ledger(run)
    assert report.ranks_lost == [(310, 310)]
    assert (report.size, report.root) == (head.size, head.root)
    with Ledger.open(run, "r") as ledger:
        assert ledger.at(311) == events[311]
        assert ledger.at(309) == events[309]
    report = repair_ledger(run, accept_loss=True)
    assert report.ranks_lost == [(310, 310)]
    with Ledger.open(run) as ledger:
        assert ledger.at(N - 1) == events[N - 1]


def test_a_log_that_was_cut_gives_all_records_before(stored):
    run, _events, _ = stored
    log = files(run, "*.log")[-1]
    data = log.read_bytes()
    sizes = set()
    for cut in (1, 100, len(data) // 2, len(data) - 10):
        log.write_bytes(data[: len(data) - cut])
        file = WalFile(log)
        ranks = [
            int.from_bytes(cell.key, "big") for cell in file.cells() if len(cell.key) == 8 and len(cell.value) > 41
        ]
        file.close()
        ranks = [rank for rank in ranks if rank < N]
        assert ranks == list(range(ranks[0], ranks[-1] + 1)) if ranks else True
        sizes.add(len(ranks))
        assert file.good_end <= len(data) - cut
    assert len(sizes) > 2


def damaged(data, randomly):
    data = bytearray(data)
    kind = randomly.choice(["flip", "cut", "zero", "noise"])
    at = randomly.randrange(len(data))
    if kind == "flip":
        data[at] ^= 1 << randomly.randrange(8)
    elif kind == "cut":
        del data[at:]
    else:
        part = bytes(64) if kind == "zero" else randomly.randbytes(64)
        data[at : at + 64] = part[: len(data[at : at + 64])]
    return bytes(data)


def test_hostile_tables_and_logs_never_raise_and_never_run_on(stored, tmp_path):
    run, _, _ = stored
    randomly = random.Random(6)
    for pattern, kind in (("*.sst", SstFile), ("*.log", WalFile)):
        good = [file.read_bytes() for file in files(run, pattern)]
        for _ in range(150):
            path = tmp_path / "x"
            data = randomly.choice(good) or b"x"
            path.write_bytes(randomly.randbytes(200) if randomly.random() < 0.1 else damaged(data, randomly))
            file = kind(path)
            total = sum(len(cell.key) + len(cell.value or b"") for cell in file.cells())
            file.close()
            assert total <= 4 * path.stat().st_size + 100


def test_an_obsolete_table_with_the_payload_never_undoes_a_retirement(stored, contents):
    run, _events, _ = stored
    old = files(run, "*.sst")[-1]
    kept = old.read_bytes()
    with Ledger.open(run) as ledger:
        ledger.retire([7])
    (run / "ledger" / "000001.sst").write_bytes(kept)  # as an engine leaves one that was killed before it deleted it
    (run / "ledger" / "CURRENT").unlink()
    assert repair_ledger(run).ok
    assert verify_ledger(run).retired == [(7, 7)]


def test_a_store_that_is_gone_comes_from_another_copy_or_is_lost(stored, tmp_path, contents):
    run, _, head = stored
    other = tmp_path / "other"
    shutil.copytree(run, other)
    with Ledger.open(run):
        pass  # HEAD names them all now
    before = contents(run)
    shutil.rmtree(run / "ledger")
    report = repair_ledger(run)
    assert (report.ok, report.changed) == (False, False)
    report = repair_ledger(run, sources=[other])
    assert report.ok, report
    assert contents(run) == before
    assert (report.size, report.root) == (head.size, head.root)
    assert log_key(0) in before["log"]


@pytest.mark.parametrize("stop_at", ["salvage", "check", "exchange", "rename", "head", "evidence"])
def test_an_interrupted_salvage_leaves_the_old_or_the_new_and_a_second_one_ends_it(stored, contents, stop_at, python):
    run, _, _ = stored
    before = contents(run)
    for file in (*files(run, "CURRENT"), *files(run, "MANIFEST-*")):
        file.unlink()
    names = sorted(file.name for file in (run / "ledger").iterdir())
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
    if stop_at in ("salvage", "check", "exchange", "rename"):
        assert sorted(file.name for file in (run / "ledger").iterdir()) == names
    assert repair_ledger(run).ok
    assert contents(run) == before
    beside = [entry for entry in run.parent.iterdir() if entry.name != "run"]
    assert all(entry.name.startswith("run.damaged-") for entry in beside)
    assert any(sorted(file.name for file in (entry / "ledger").iterdir()) == names for entry in beside)


@pytest.fixture
def in_pages(run, make_event):
    """A closed ledger of 400 events in an LMDB file, some on pages of their own: run, events, head."""
    randomly = random.Random(1)
    events = [make_event(i, effect=randomly.randbytes(9000 if i % 40 == 7 else 20 + i % 90)) for i in range(400)]
    with Ledger.open(run, engine="lmdb") as ledger:
        for at in range(0, 400, 50):
            ledger.append_many(events[at : at + 50])
        return run, events, ledger.head()


def all_of(run):
    from storage.engine.engines import open_store

    store = open_store(run / "ledger", read_only=True)
    found = {family: dict(store.scan(family)) for family in FAMILIES}
    store.close()
    return found


@pytest.mark.parametrize("pages", [[0], [1], [0, 1]])
def test_an_lmdb_file_without_meta_pages_comes_back_byte_for_byte(in_pages, pages):
    run, _, head = in_pages
    before = all_of(run)
    file = run / "ledger" / "data.mdb"
    data = bytearray(file.read_bytes())
    for page in pages:
        data[4096 * page : 4096 * (page + 1)] = random.Random(page).randbytes(4096)
    file.write_bytes(data)
    report = repair_ledger(run)
    assert report.ok, report
    assert report.salvaged
    assert (report.size, report.root) == (head.size, head.root)
    assert all_of(run) == before


def test_flips_and_zeros_in_an_lmdb_file_cost_at_most_the_payloads_that_they_hit(in_pages):
    run, events, head = in_pages
    file = run / "ledger" / "data.mdb"
    good = file.read_bytes()
    randomly = random.Random(4)
    whole = 0
    for i in range(12):
        data = bytearray(good)
        at = randomly.randrange(8192, len(good))
        if i % 3:
            data[at] ^= 1 << randomly.randrange(8)
        else:
            data[at : at + 40] = bytes(40)
        file.write_bytes(data)
        if verify_ledger(run).ok:
            continue
        report = repair_ledger(run)
        assert (report.size, report.root) == (head.size, head.root), report
        assert report.problems == []
        if report.ok:
            with Ledger.open(run, "r") as ledger:
                assert [event for _, event in ledger.scan()] == events
            whole += 1
        (run / "ledger" / "data.mdb").unlink()
        file.write_bytes(good)
    assert whole > 3

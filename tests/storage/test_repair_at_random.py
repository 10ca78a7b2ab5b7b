"""Random damage to any files of a run, then repair: whole again, or what is lost is named; never a wrong byte."""

import random
import shutil

import pytest

from storage import Event, IntegrityError, Ledger, NotALedgerError, RetiredError, repair_ledger, verify_ledger
from storage import head as head_file

N = 500
RETIRED = {3, 4, 250}
KINDS = ["flip", "flip", "flip", "cut", "zero", "noise", "swap", "append", "delete"]


@pytest.fixture(scope="module", params=["rocksdb", "lmdb"])
def good(request, tmp_path_factory):
    """A run as a kill leaves it, HEAD naming all of it, and its events: a fifth is in RocksDB's log only."""
    folder = tmp_path_factory.mktemp(request.param)
    randomly = random.Random(1)
    events = [
        Event(producer=f"p{i % 5}", effect=randomly.randbytes(randomly.choice([5, 60, 200, 4000, 9000])), kind="x",
              sequence=i, tick=i) for i in range(N)
    ]  # fmt: skip
    with Ledger.open(folder / "alive", engine=request.param) as ledger:
        for at in range(0, 400, 20):
            ledger.append_many(events[at : at + 20])
        ledger.retire(RETIRED)
        for at in range(400, N, 5):
            ledger.append_many(events[at : at + 5])
        shutil.copytree(folder / "alive", folder / "good")
        head_file.write(folder / "good" / "HEAD", ledger.head())
    assert verify_ledger(folder / "good").ok
    return folder / "good", events


def damage(file, randomly):
    kind = randomly.choice(KINDS)
    data = bytearray(file.read_bytes())
    at = randomly.randrange(len(data)) if data else 0
    if kind == "delete":
        file.unlink()
        return
    if kind == "append":
        data += randomly.randbytes(100)
    elif kind == "flip" and data:
        data[at] ^= 1 << randomly.randrange(8)
    elif kind == "cut":
        del data[at:]
    elif kind == "swap" and len(data) >= 8192:
        pages = [4096 * randomly.randrange(len(data) // 4096) for _ in range(2)]
        first, second = (bytes(data[page : page + 4096]) for page in pages)
        data[pages[0] : pages[0] + 4096], data[pages[1] : pages[1] + 4096] = second, first
    else:
        part = randomly.randbytes(512) if kind == "noise" else bytes(512)
        data[at : at + 512] = part[: len(data[at : at + 512])]
    file.write_bytes(data)


def ranks(*ranges):
    return {rank for pairs in ranges for first, last in pairs for rank in range(first, min(last, N) + 1)}


def is_repaired_or_named(good, run, events, randomly):
    for _ in range(randomly.choice([1, 1, 2, 3])):
        damage(randomly.choice([file for file in sorted(run.rglob("*")) if file.is_file()]), randomly)
    accept = randomly.random() < 0.4
    sources = [good] if randomly.random() < 0.25 else []
    try:
        report = repair_ledger(run, accept_loss=accept, sources=sources)
    except NotALedgerError:
        return
    assert report.ok or not sources, report
    if report.problems:  # nothing of the database is left, or what is left can't be the start of it
        assert report.ranks_lost, report
        return
    assert report.ok == verify_ledger(run).ok or report.ranks_lost or report.ranks_without_payload, report
    missing = ranks(report.ranks_lost, report.ranks_without_payload)
    with Ledger.open(run, "r") as ledger:
        for rank in range(ledger.head().size):
            try:
                assert ledger.at(rank) == events[rank]
                assert rank not in RETIRED
            except RetiredError:
                assert rank in RETIRED | missing
            except IntegrityError:
                assert rank in missing
        if report.head_seen is not None:  # else nobody knows any more how many there were
            assert missing >= set(range(ledger.head().size, N))
    if accept:
        with Ledger.open(run) as ledger:
            assert ledger.append(Event(producer="new", effect=b"", kind="x", sequence=0, tick=0)).size > 0


def trials(good, tmp_path, seed, count):
    path, events = good
    randomly = random.Random(seed)
    for i in range(count):
        folder = tmp_path / f"{i}"
        folder.mkdir()
        shutil.copytree(path, folder / "run")
        is_repaired_or_named(path, folder / "run", events, randomly)
        shutil.rmtree(folder)


def test_damage_anywhere_is_repaired_or_named(good, tmp_path):
    trials(good, tmp_path, seed=1, count=8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_much_damage_anywhere_is_repaired_or_named(good, tmp_path, seed):
    trials(good, tmp_path, seed, count=40)

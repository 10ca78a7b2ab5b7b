"""A ledger in unlucky or hostile surroundings: other current folders, names of other bytes, files that are no files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from storage import Event, IntegrityError, Ledger, StorageFullError, layout, opening, verify_ledger
from storage.engine import lmdb_store, rocks

pytestmark = pytest.mark.usefixtures("engine")
ON_ROCKSDB = pytest.mark.parametrize("engine", ["rocksdb"], indirect=True)  # about its own files


def _fill(ledger: Ledger, count: int, size: int = 10) -> None:
    for number in range(count):
        ledger.append(Event(producer="a", effect=bytes(size), kind="x", sequence=number, tick=0))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        _fill(ledger, 5)
    return tmp_path / "run"


def test_a_ledger_stays_where_it_was_opened_when_the_current_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with Ledger.open("run", sync="os") as ledger:
        monkeypatch.chdir(tmp_path / "other")
        _fill(ledger, 300, 40_000)  # more than a memtable holds: files are made after the change
    assert not list((tmp_path / "other").iterdir())
    assert verify_ledger(tmp_path / "run").ok


def test_a_folder_whose_name_is_no_utf8_holds_a_ledger(tmp_path: Path) -> None:
    run = Path(os.fsdecode(os.fsencode(tmp_path) + b"/run\xff"))
    with Ledger.open(run, sync="os") as ledger:
        _fill(ledger, 300, 40_000)
    with Ledger.open(run) as ledger:
        assert ledger.head().size == 300
    assert verify_ledger(run).ok


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
@pytest.mark.parametrize(
    ("engine", "name"),
    [("rocksdb", "HEAD"), ("rocksdb", "ledger/CURRENT"), ("rocksdb", "ledger/*.sst"), ("lmdb", "ledger/data.mdb")],
    indirect=["engine"],
)
def test_what_is_no_regular_file_is_damage_and_is_not_waited_for(run: Path, name: str, kind: str) -> None:
    (file, *_) = sorted(run.glob(name))
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    report = verify_ledger(run)
    assert not report.ok
    text = f"{file}: expected a regular file, got a folder, a pipe or a device"
    assert text in [problem.text for problem in report.problems]
    with pytest.raises(IntegrityError, match="expected a regular file"):
        Ledger.open(run)


def test_a_longer_head_file_is_not_read_to_its_end(run: Path) -> None:
    with (run / "HEAD").open("ab") as stream:
        stream.truncate(1 << 40)
    assert [problem.text for problem in verify_ledger(run).problems] == [f"{run}/HEAD: expected 48 bytes, got more"]


Rewrite = Callable[..., None]


@ON_ROCKSDB
def test_a_family_that_no_ledger_has_is_named(run: Path) -> None:
    families = {name: Options(raw_mode=True) for name in layout.FAMILIES}
    database = Rdict(str(run / "ledger"), Options(raw_mode=True), families)
    database.create_column_family("evil", Options(raw_mode=True)).close()
    database[b"key"] = b"value"
    database.close()
    assert [problem.text for problem in verify_ledger(run).problems] == [
        f"{where}: expected the families log, ids, tree, meta, got another with content"
        for where in ("evil", "default")
    ]


def test_a_claimed_size_without_events_is_told_in_one_line_and_not_counted_out(run: Path, rewrite: Rewrite) -> None:
    head = (2**61).to_bytes(8, "big") + bytes(32)
    rewrite(run, [("log", (2**60).to_bytes(8, "big"), bytes(80)), ("meta", b"head", head)])
    texts = [problem.text for problem in verify_ledger(run).problems]
    assert f"ranks 5..{2**60 - 1} are missing; what follows was not checked" in texts
    assert len(texts) < 10


def test_a_value_that_no_event_fills_is_refused_by_its_size(
    run: Path, rewrite: Rewrite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.state.VALUE_BYTES_MAX", 70)
    rewrite(run, [("log", (2).to_bytes(8, "big"), bytes(71))])
    (first, *_) = verify_ledger(run).problems
    assert first.text == "rank 2: log/0000000000000002: expected at most 70 bytes, got 71"
    with Ledger.open(run, mode="r") as ledger:
        assert [rank for rank, _ in ledger.scan(0, 2)] == [0, 1]
        with pytest.raises(IntegrityError, match="has 71 bytes, an id and an event have at most 70"):
            list(ledger.scan(2))
        assert [rank for rank, _ in ledger.scan(3)] == [3, 4]


def test_a_stored_name_cannot_steer_the_terminal(run: Path, rewrite: Rewrite) -> None:
    rewrite(run, [("meta", b"\x1b[2J\nverified", b"")])
    (problem,) = verify_ledger(run).problems
    assert problem.where == "meta/\\x1b[2J\\nverified"


@pytest.mark.parametrize("was_there", [False, True])
def test_a_ledger_whose_making_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_there: bool
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageFullError("full")

    if was_there:
        (tmp_path / "run").mkdir()
    monkeypatch.setattr(rocks.RocksStore, "write", full)
    monkeypatch.setattr(lmdb_store.LmdbStore, "write", full)
    with pytest.raises(StorageFullError):
        Ledger.open(tmp_path / "run")
    assert list(tmp_path.rglob("*")) == [tmp_path / "run"] * was_there


def test_a_ledger_that_another_process_has_made_in_the_meantime_is_not_removed(run: Path) -> None:
    before = sorted(run.rglob("*"))
    opening._remove_unfinished(run, False)
    assert sorted(run.rglob("*")) == before
    (run / "HEAD").unlink()
    shutil.copytree(run, run.with_name("copy"))
    opening._remove_unfinished(run.with_name("copy"), False)
    assert not run.with_name("copy").exists()


GONE = """
import shutil, sys
from storage import Event, Ledger, StorageError
ledger = Ledger.open(sys.argv[1], sync="os")
ledger.append(Event(producer="a", effect=b"", kind="x", sequence=0, tick=0))
shutil.rmtree(sys.argv[1])
for _ in range(2):
    try:
        ledger.close()
    except StorageError as error:
        print(error)
"""


def test_closing_where_no_file_can_be_made_is_an_error_and_no_crash(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", GONE, tmp_path / "run"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}/run/ledger: No such file or directory\n"

"""What opening and appending refuse, with the full text: no ledger, locks, rollback, forks, read-only, full disks."""

import os
import shutil

import pytest

from storage import (
    ForkError,
    Head,
    IntegrityError,
    Ledger,
    LockedError,
    NotALedgerError,
    ReadOnlyError,
    RollbackError,
    StorageError,
    verify_ledger,
)
from storage import head as head_file
from storage.tree import EMPTY_ROOT

pytestmark = pytest.mark.usefixtures("engine")
ON_ROCKSDB = pytest.mark.parametrize("engine", ["rocksdb"], indirect=True)  # about its own files

OPENERS = [
    pytest.param(lambda run: Ledger.open(run, "r"), id="r"),
    pytest.param(verify_ledger, id="verify"),
]


@pytest.mark.parametrize("open_it", OPENERS)
def test_a_path_that_is_no_ledger_is_refused_and_left_alone(tmp_path, open_it):
    missing, file, folder = tmp_path / "missing", tmp_path / "file", tmp_path / "folder"
    file.write_text("text")
    folder.mkdir()
    (folder / "ledger").mkdir()
    for path, text in (
        (missing, f"{missing}: expected to read it, got: no such file or directory"),
        (file, f"{file}: expected a directory that holds a ledger, got a file"),
        (folder, f"{folder}: holds no ledger (expected {folder / 'ledger'} and HEAD)"),
    ):
        with pytest.raises(NotALedgerError) as caught:
            open_it(path)
        assert str(caught.value) == text
    assert not missing.exists()
    assert list((folder / "ledger").iterdir()) == []


def test_a_folder_with_other_things_in_it_is_not_made_a_ledger(tmp_path):
    (tmp_path / "photo.jpg").write_text("")
    with pytest.raises(NotALedgerError, match="holds no ledger"):
        Ledger.open(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["photo.jpg"]
    file = tmp_path / "photo.jpg"
    with pytest.raises(NotALedgerError, match="got a file"):
        Ledger.open(file)


def test_an_empty_folder_and_an_interrupted_making_become_a_ledger(tmp_path, make_event):
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "LOCK").write_bytes(b"")
    with Ledger.open(tmp_path) as ledger:
        ledger.append(make_event(0))
    assert verify_ledger(tmp_path).ok


def test_a_database_of_another_format_is_refused(run, fill, rewrite):
    fill(run, 1)
    rewrite(run, [("meta", b"format", b"droveway-ledger/2")])
    text = f"{run}: the format is b'droveway-ledger/2', this version reads b'droveway-ledger/1'"
    for mode in ("r", "rw"):
        with pytest.raises(NotALedgerError) as caught:
            Ledger.open(run, mode)
        assert str(caught.value) == text


def test_a_second_writer_is_refused_and_readers_go_on(run, make_event, python):
    with Ledger.open(run) as ledger:
        ledger.append(make_event(0))
        with pytest.raises(LockedError) as caught:
            Ledger.open(run)
        assert caught.value.pid == os.getpid()
        assert str(caught.value) == (f"{run / 'ledger'}: this process ({os.getpid()}) holds the ledger for writing")
        done = python(
            f"""
from storage import Ledger, LockedError
try:
    Ledger.open({str(run)!r})
except LockedError as error:
    print(error.pid, error)
with Ledger.open({str(run)!r}, "r") as ledger:
    print(ledger.head().size, ledger.at(0).sequence, ledger.manifest_status)
"""
        )
        assert done.stdout.splitlines() == [
            f"{os.getpid()} {run / 'ledger'}: process {os.getpid()} holds the ledger for writing",
            "1 0 HEALTHY",
        ], done.stderr
        ledger.append(make_event(1))
        shutil.copytree(run, run.with_name("copy"))  # closes a descriptor of every file, and must not free the lock
        done = python(f"import storage; storage.Ledger.open({str(run)!r})")
        assert f"process {os.getpid()} holds the ledger for writing" in done.stderr
    with Ledger.open(run) as ledger:  # the lock is free again
        assert ledger.head().size == 2


def test_readers_beside_a_busy_writer_see_a_healthy_prefix(run, python, make_event):
    import threading

    stop, size = threading.Event(), [0]

    def write():
        while not stop.is_set():
            batch = [make_event(size[0] + i, effect=os.urandom(60_000)) for i in range(4)]
            size[0] = ledger.append_many(batch)[-1].size

    with Ledger.open(run, sync="os") as ledger:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            seen = []
            while size[0] < 600:
                before = size[0]
                with Ledger.open(run, "r") as reader:
                    assert (reader.manifest_status, reader.problems) == ("HEALTHY", [])
                    seen.append(reader.head().size)
                    assert seen[-1] >= before
                    first = max(0, seen[-1] - 50)
                    assert [rank for rank, _ in reader.scan(first)] == list(range(first, seen[-1]))
        finally:
            stop.set()
            writer.join()
    assert seen == sorted(seen)
    assert verify_ledger(run).ok


def test_a_ledger_behind_its_head_is_a_rollback(run, make_event, fill, directory_digest):
    fill(run, 5)
    shutil.copytree(run, run.with_name("old"))
    with Ledger.open(run) as ledger:
        ledger.append_many([make_event(i) for i in range(5, 8)])
        now = ledger.head()
    shutil.rmtree(run / "ledger")
    shutil.copytree(run.with_name("old") / "ledger", run / "ledger")
    before = directory_digest(run)
    text = f"{run}: the ledger has 5 events, the head in HEAD has 8: ranks 5..7 are missing"
    with pytest.raises(RollbackError) as caught:
        Ledger.open(run)
    assert str(caught.value) == text
    assert (caught.value.size_seen, caught.value.size_now) == (8, 5)
    with Ledger.open(run, "r") as ledger:
        assert ledger.manifest_status == "RECOVERY_DEGRADED"
        assert [str(problem) for problem in ledger.problems] == [text]
        assert [rank for rank, _ in ledger.scan()] == list(range(5))
    report = verify_ledger(run)
    assert (report.ok, report.size, report.head_seen) == (False, 5, now)
    assert [problem.text for problem in report.problems] == [f"{run}: HEAD names 8 events, the ledger has 5"]
    assert directory_digest(run) == before  # refused, and nothing was altered


def test_a_ledger_whose_store_is_gone_is_a_rollback_not_a_new_ledger(run, fill):
    fill(run, 5)
    shutil.rmtree(run / "ledger")
    for mode in ("rw", "r"):
        with pytest.raises(RollbackError) as caught:
            Ledger.open(run, mode)
        assert str(caught.value) == f"{run}: HEAD names 5 events, the store is gone"
    report = verify_ledger(run)
    assert [problem.text for problem in report.problems] == [f"{run}: HEAD is there, the store is gone"]


def test_a_ledger_with_another_root_than_its_head_is_a_fork(run, fill):
    head = fill(run, 5)
    head_file.write(run / "HEAD", Head(5, bytes(32)))
    text = f"{run}: the root of 5 events is {head.root.hex()}, the head in HEAD has {'00' * 32}"
    with pytest.raises(ForkError) as caught:
        Ledger.open(run)
    assert str(caught.value) == text
    assert not verify_ledger(run).ok
    head_file.write(run / "HEAD", Head(3, bytes(32)))
    with pytest.raises(ForkError, match=r"the root of 3 events is"):
        Ledger.open(run)
    assert not verify_ledger(run).ok


def test_a_missing_or_damaged_head_is_damage(run, fill):
    fill(run, 5)
    good = (run / "HEAD").read_bytes()
    (run / "HEAD").unlink()
    with pytest.raises(IntegrityError) as caught:
        Ledger.open(run)
    assert str(caught.value) == f"{run}: HEAD is missing"
    assert [problem.text for problem in verify_ledger(run).problems] == [f"{run}: HEAD is missing"]
    (run / "HEAD").write_bytes(good[:40])
    with pytest.raises(IntegrityError) as caught:
        Ledger.open(run)
    assert str(caught.value) == f"{run}/HEAD: expected 48 bytes, got 40"
    assert not verify_ledger(run).ok


def test_an_expected_head_must_be_contained(run, make_event, fill):
    early = fill(run, 300)
    with Ledger.open(run, expect=early) as ledger:
        ledger.append_many([make_event(i) for i in range(300, 900)])
        late = ledger.head()
    for mode in ("r", "rw"):
        for head in (early, late, Head(0, EMPTY_ROOT)):
            with Ledger.open(run, mode, expect=head) as ledger:
                assert ledger.head() == late
        with pytest.raises(RollbackError) as caught:
            Ledger.open(run, mode, expect=Head(901, bytes(32)))
        assert str(caught.value) == (
            f"{run}: the ledger has 900 events, the head expected has 901: ranks 900..900 are missing"
        )
        with pytest.raises(
            ForkError, match=rf"the root of 300 events is {early.root.hex()}, the head expected has 0000"
        ):
            Ledger.open(run, mode, expect=Head(300, bytes(32)))
    with pytest.raises(RollbackError):
        Ledger.open(run.with_name("new"), expect=late)
    assert not run.with_name("new").exists()


def test_a_read_only_disk_is_refused_for_writing_and_reads(small_disk, fill, make_event):
    disk, remount = small_disk(8)
    fill(disk / "run", 20)
    remount("ro")
    with pytest.raises(ReadOnlyError) as caught:
        Ledger.open(disk / "run")
    text = f"{disk}/run/ledger: can't be written, found in open: Read-only file system"
    assert str(caught.value).removesuffix(" (os error 30)") == text
    with pytest.raises(ReadOnlyError) as caught:
        Ledger.open(disk / "new")
    assert str(caught.value) == f"{disk}/new: Read-only file system"
    with Ledger.open(disk / "run", "r") as ledger:
        assert sum(1 for _ in ledger.scan()) == 20
    assert verify_ledger(disk / "run").ok
    remount("rw")


def test_a_file_size_limit_is_a_full_disk(run, make_event, python):
    done = python(
        f"""
import resource, signal
from storage import Event, Ledger, StorageFullError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = Ledger.open({str(run)!r}, sync="os")
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
try:
    for i in range(100):
        ledger.append(Event(producer="a", effect=bytes(20_000), kind="x", sequence=i, tick=0))
except StorageFullError as error:
    print(type(error).__name__, "File too large" in str(error))
ledger.close()
"""
    )
    assert done.stdout.split() == ["StorageFullError", "True"], done.stderr
    report = verify_ledger(run)
    assert report.ok, report.problems
    assert report.size >= 20


class FailingStore:
    """A store whose nth write fails."""

    def __init__(self, store, fail_at, error):
        self._store, self._left, self._error = store, fail_at, error

    def __getattr__(self, name):
        return getattr(self._store, name)

    def write(self, entries, *, sync):
        self._left -= 1
        if self._left == 0:
            raise self._error
        self._store.write(entries, sync=sync)


@pytest.mark.parametrize("error", [IntegrityError("bad"), StorageError("other")])
def test_after_a_failed_write_nothing_is_appended_and_the_head_stays(run, make_event, error):
    ledger = Ledger.open(run, through=lambda store: FailingStore(store, 2, error))
    ledger.append(make_event(0))
    head = ledger.head()
    with pytest.raises(type(error)):
        ledger.append(make_event(1))
    with pytest.raises(type(error), match="no append after a failed one, open the ledger again"):
        ledger.append(make_event(2))
    assert ledger.head() == head
    assert ledger.at(0) == make_event(0)
    ledger.close()
    with Ledger.open(run) as ledger:
        assert ledger.append(make_event(1)).rank == 1


def test_a_forked_child_gets_a_clean_error_and_the_parent_goes_on(run, python):
    done = python(
        f"""
import os, sys
from storage import ClosedError, Event, Ledger
run = {str(run)!r}
ledger = Ledger.open(run)
ledger.append(Event(producer="a", effect=b"", kind="x", sequence=0, tick=0))
events = ledger.scan()
child = os.fork()
if child == 0:
    for use in (ledger.head, lambda: next(events), lambda: ledger.at(0)):
        try:
            use()
        except ClosedError as error:
            print("child:", error)
    ledger.close()
    with Ledger.open(run, "r") as again:
        print("child reads", again.head().size)
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("parent appends", ledger.append(Event(producer="a", effect=b"", kind="x", sequence=1, tick=0)).rank)
"""
    )
    expected = f"child: {run}: the ledger was opened before this process was forked: open it again here"
    assert done.stdout.splitlines() == [*[expected] * 3, "child reads 1", "parent appends 1"], done.stderr
    assert done.returncode == 0
    assert verify_ledger(run).ok


def test_a_process_that_ends_with_open_ledgers_and_scans_does_not_hang(run, fill, python):
    fill(run, 500)
    done = python(
        f"""
from storage import Event, Ledger
writer = Ledger.open({str(run)!r})
reader = Ledger.open({str(run)!r}, "r")
scans = [writer.scan(), reader.scan()]
print([next(scan)[0] for scan in scans])
writer.append(Event(producer="z", effect=b"", kind="x", sequence=0, tick=0))
""",
        seconds=30,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[0, 0]"), done.stderr
    assert verify_ledger(run).ok


def test_importing_storage_loads_no_engine_and_no_second_package(python):
    done = python(
        """
import sys
import storage
heavy = {"rocksdict", "lmdb", "cryptography", "msgpack", "numpy", "tensor", "hashlib", "tempfile", "blake3"}
print(sorted(heavy & set(sys.modules)))
storage.Ledger, storage.verify_ledger, storage.Event
print(sorted({"rocksdict", "lmdb", "cryptography", "numpy", "tensor", "hashlib", "tempfile"} & set(sys.modules)))
print([name for name in storage.__all__ if not hasattr(storage, name)])
"""
    )
    assert done.stdout.splitlines() == ["[]", "[]", "[]"], done.stderr


def test_an_unknown_name_is_an_attribute_error():
    import storage

    with pytest.raises(AttributeError, match=r"^module 'storage' has no attribute 'Catalogue'$"):
        _ = storage.Catalogue


@ON_ROCKSDB
def test_reading_needs_a_temporary_folder(run, fill, monkeypatch, tmp_path):
    fill(run, 2)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    with pytest.raises(StorageError, match=r"reading a ledger needs a temporary folder: No such file or directory$"):
        Ledger.open(run, "r")


def test_files_that_can_not_be_read_are_one_clear_error(run, fill, monkeypatch):
    fill(run, 2)

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("storage.regular_file.open_to_read", refuse)
    for open_it in (verify_ledger, Ledger.open):
        with pytest.raises(StorageError) as caught:
            open_it(run)
        assert str(caught.value) == f"{run}/HEAD: can't be read: Permission denied"
    monkeypatch.undo()
    (run / "HEAD").unlink()
    (run / "HEAD").mkdir()
    with pytest.raises(IntegrityError) as caught:
        Ledger.open(run)
    assert str(caught.value) == f"{run}/HEAD: expected a regular file, got a folder, a pipe or a device"
    assert not verify_ledger(run).ok


@ON_ROCKSDB
def test_a_foreign_program_that_holds_the_database_is_a_locked_error(run, fill):
    from rocksdict import Options, Rdict

    fill(run, 1)
    foreign = Rdict(str(run / "ledger"), Options(raw_mode=True))
    with pytest.raises(LockedError, match=r"another program holds the database") as caught:
        Ledger.open(run)
    assert caught.value.pid is None
    foreign.close()

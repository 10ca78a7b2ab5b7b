"""The engine's write-ahead logs are synced past the binding: whatever was acknowledged is on the disk."""

from __future__ import annotations

import errno
import os
import random
import re
import stat
from contextlib import suppress

import pytest

from storage import Ledger, LimitError, ReadOnlyError, StorageFullError, SyncError, verify_ledger
from storage.engine.log_sync import LogSync
from storage.engine.rocks import RocksStore


@pytest.fixture
def disk(monkeypatch):
    """What the disk holds: by inode, the bytes of each file that were synced; which folders' names were; errors."""

    class Disk:
        def __init__(self):
            self.synced, self.names, self.errors, self.calls = {}, {}, [], 0

        def fdatasync(self, descriptor):
            self.calls += 1
            if self.errors:
                raise OSError(self.errors.pop(0), "the disk said no")
            status = os.fstat(descriptor)
            self.synced[status.st_ino] = status.st_size

        def fsync(self, descriptor):
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                self.names[status.st_ino] = {entry.name for entry in os.scandir(descriptor)}

    made = Disk()
    monkeypatch.setattr("storage.engine.log_sync.os.fdatasync", made.fdatasync)
    monkeypatch.setattr("storage.engine.log_sync.os.fsync", made.fsync)
    return made


@pytest.fixture
def store(tmp_path):
    opened = RocksStore.open(tmp_path, read_only=False)
    yield opened
    opened.close()


def live_logs(folder):
    return {file for file in folder.iterdir() if re.fullmatch(r"\d+\.log", file.name)}


def test_after_a_durable_write_every_live_log_is_on_the_disk_to_its_end(store, disk, tmp_path):
    """Families end their memtables at different times, so that several logs live; logs go while others are begun."""
    randomly = random.Random(7)
    most, begun = 0, set()
    for n in range(400):
        family = randomly.choice(["log", "log", "ids", "tree", "meta"])
        value = randomly.randbytes(randomly.choice([10, 1000, 100_000]))
        sync = randomly.random() < 0.4
        store.write([(family, n.to_bytes(8, "big"), value)], sync=sync)
        logs = live_logs(tmp_path)
        begun |= logs
        if sync:
            holding = 0
            for log in logs:
                with suppress(FileNotFoundError):  # by now its records are in a table
                    status = log.stat()
                    assert disk.synced.get(status.st_ino, 0) == status.st_size, (n, log)
                    assert status.st_size == 0 or log.name in disk.names[tmp_path.stat().st_ino]
                    holding += status.st_size > 0
            most = max(most, holding)
    assert most >= 2
    assert len(begun) > most


def test_only_logs_that_grew_are_synced_again(store, disk):
    store.write([("log", b"a" * 8, bytes(3_000_000))], sync=True)
    store.write([("ids", b"b" * 8, bytes(2_500_000))], sync=True)
    store.write([("log", b"c" * 8, bytes(10))], sync=True)
    before = disk.calls
    store.sync()
    assert disk.calls == before
    store.write([("log", b"d" * 8, bytes(10))], sync=True)
    assert disk.calls == before + 1


def test_descriptors_of_logs_that_are_gone_are_closed(store, disk, tmp_path):
    for n in range(40):
        store.write([("log", n.to_bytes(8, "big"), bytes(500_000)), ("ids", n.to_bytes(8, "big"), bytes(9))], sync=True)
    assert set(store._logs._logs) == {log.name for log in live_logs(tmp_path)}
    store.close()
    assert store._logs._logs == {}


def test_a_failed_sync_is_never_tried_again(tmp_path, disk):
    (tmp_path / "000001.log").write_bytes(b"x")
    logs = LogSync(tmp_path)
    disk.errors = [errno.EIO]
    for _ in range(3):
        with pytest.raises(OSError, match="the disk said no"):
            logs.sync()
    assert disk.calls == 1
    logs.close()


def test_an_interrupted_sync_is_done_again(tmp_path, disk, monkeypatch):
    (tmp_path / "000001.log").write_bytes(b"x")
    logs = LogSync(tmp_path)

    def interrupt(descriptor):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("storage.engine.log_sync.os.fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            logs.sync()
    assert disk.names == {}
    logs.sync()
    assert disk.names == {tmp_path.stat().st_ino: {"000001.log"}}
    logs.close()


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.EIO, SyncError, "{run}/ledger: not on the disk: the disk said no"),
        (errno.ENOSPC, StorageFullError, "{run}/ledger: the disk said no"),
    ],
)
def test_a_failed_sync_is_one_clear_error_and_only_a_lost_disk_ends_writing(run, make_event, disk, number, kind, text):
    ledger = Ledger.open(run)
    ledger.append(make_event(0))
    head = ledger.head()
    disk.errors = [number]
    with pytest.raises(kind) as caught:
        ledger.append(make_event(1))
    assert str(caught.value) == text.format(run=run)
    assert ledger.head() == head
    assert ledger.at(0) == make_event(0)
    if kind is SyncError:
        calls = disk.calls
        with pytest.raises(ReadOnlyError):
            ledger.append(make_event(1))
        assert disk.calls == calls
        ledger.close()
        ledger = Ledger.open(run)
    assert ledger.append(make_event(1)).rank == 1
    assert ledger.append(make_event(2)).rank == 2
    ledger.close()
    assert verify_ledger(run).ok


def test_a_lack_of_descriptors_is_a_limit_and_passes(run, make_event, monkeypatch):
    def refuse(logs):
        raise OSError(errno.EMFILE, "Too many open files")

    with Ledger.open(run, sync="os") as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(LogSync, "sync", refuse)
            with pytest.raises(LimitError) as caught:
                ledger.append(make_event(0), sync="fsync")
            assert str(caught.value) == f"{run}/ledger: sync: Too many open files (hint: ulimit -n)"
        assert ledger.append(make_event(1)).rank == 1  # the first was written, if not confirmed
        assert ledger.append(make_event(0)).rank == 0
    assert verify_ledger(run).ok

"""Threads, signals and processes that meet at one ledger at the wrong moment."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from storage import Ledger, LimitError, LockedError, StorageError
from storage.engine.store import Store

ENGINES = ("rocksdb", "lmdb")


class _Through:
    """Passes everything on to a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)


def test_a_second_close_returns_only_when_the_first_is_done(run, make_event):
    closing, go_on = threading.Event(), threading.Event()

    class Slow(_Through):
        def close(self):
            closing.set()
            assert go_on.wait(20)
            self._store.close()

    ledger = Ledger.open(run, sync="os", through=Slow)
    ledger.append(make_event(0))
    first = threading.Thread(target=ledger.close)
    first.start()
    assert closing.wait(20)
    second = threading.Thread(target=ledger.close)
    second.start()
    second.join(0.1)
    assert second.is_alive()
    go_on.set()
    first.join(20)
    second.join(20)
    with Ledger.open(run) as again:
        assert again.head().size == 1


def test_a_close_inside_a_close_of_the_same_thread_returns(run, make_event):
    class Twice(_Through):
        def close(self):
            ledger.close()
            self._store.close()

    ledger = Ledger.open(run, sync="os", through=Twice)
    ledger.append(make_event(0))
    ledger.close()
    with Ledger.open(run) as again:
        assert again.head().size == 1


def test_an_id_whose_commit_waits_for_the_disk_is_unknown_and_no_damage(run, make_event):
    seen = []

    class Slow(_Through):
        def write(self, entries, *, sync):
            self._store.write(entries, sync=sync)
            for event_id in (event.id, bytes(32)):
                with pytest.raises(KeyError) as raised:
                    ledger.rank_of(event_id)
                seen.append(str(raised.value))

    event = make_event(0)
    ledger = Ledger.open(run, through=Slow)
    ledger.append(event)
    assert seen == [f"'no event has the id {event.id.hex()}'", f"'no event has the id {bytes(32).hex()}'"]
    assert ledger.manifest_status == "HEALTHY"
    assert ledger.rank_of(event.id) == 0
    ledger.close()


def test_reads_go_on_while_a_compaction_replaces_the_file_of_lmdb(run, make_event):
    with Ledger.open(run, sync="os", engine="lmdb") as ledger:
        ledger.append_many([make_event(i) for i in range(600)])
        stop, failed, done = threading.Event(), [], []

        def read():
            while not stop.is_set():
                try:
                    assert ledger.at(5).sequence == 5
                    assert [rank for rank, _ in ledger.scan(0, 600, retired=True)] == list(range(600))
                    done.append(1)
                except Exception as error:
                    failed.append(error)
                    return

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for rank in range(100, 115):
            ledger.retire([rank])
        stop.set()
        for reader in readers:
            reader.join(20)
        assert failed == []
        assert done


def test_a_child_forked_while_another_thread_reads_lmdb_does_not_hang(run, make_event):
    with Ledger.open(run, sync="os", engine="lmdb") as ledger:
        ledger.append(make_event(0))
        # The lock of the file, as a thread holds it that reads at the moment of the fork.
        with ledger._store._store._file._lock:
            child = os.fork()
            if child == 0:
                os._exit(0)
            patience = time.monotonic() + 10
            while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < patience:
                time.sleep(0.005)
            if ended[0] == 0:
                os.kill(child, 9)
                os.waitpid(child, 0)
        assert ended == (child, 0)
        assert ledger.at(0).sequence == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_store_in_between_that_refuses_leaves_the_ledger_free(run, engine):
    def refuse(store):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        Ledger.open(run, engine=engine, through=refuse)
    try:
        Ledger.open(run, engine=engine).close()
    except LockedError as error:
        pytest.fail(str(error))


def test_a_thread_that_cannot_be_started_is_tried_again(run, make_event, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with Ledger.open(run, sync="os") as ledger:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(LimitError, match="submit: no thread can be started to commit: can't start new thread"):
                ledger.submit([make_event(0)])
        assert ledger.submit([make_event(0)]).result(20)[0].rank == 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("last", ["", "ledger.close()"])
def test_the_interpreter_ends_while_threads_append_and_read(run, engine, last):
    """CPython ends such threads by unwinding their stacks, also through our kernels."""
    program = f"""
import os, threading
from storage import Event, Ledger
ledger = Ledger.open({str(run)!r}, engine={engine!r}, sync="os")
ready = threading.Event()
def append(producer):
    for i in range(0, 1 << 30, 50):
        effects = [os.urandom(500) for _ in range(50)]
        fields = dict(producer=producer, kind="k", tick=0)
        ledger.append_many([Event(effect=e, sequence=i + j, **fields) for j, e in enumerate(effects)])
        if i > 500: ready.set()
def read():
    while True:
        for pair in ledger.scan(): pass
for who in "abc": threading.Thread(target=append, args=(who,), daemon=True).start()
threading.Thread(target=read, daemon=True).start()
threading.excepthook = lambda _: None
ready.wait()
scan = ledger.scan()
next(scan)
{last}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with Ledger.open(run) as ledger:
        assert sum(1 for _ in ledger.scan()) == ledger.head().size > 500
        assert ledger.manifest_status == "HEALTHY"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_an_exception_of_a_signal_handler_comes_out_of_open_as_it_is(run, fill, engine):
    class Late(Exception):
        pass

    def interrupt(*_):
        raise Late

    with Ledger.open(run, sync="os", engine=engine):
        pass
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in range(1, 60, 3):
            with suppress(Late):
                signal.setitimer(signal.ITIMER_REAL, delay * 2e-4)
                ledger = Ledger.open(run, sync="os")
                signal.setitimer(signal.ITIMER_REAL, 0)
                ledger.close()
            gc.collect()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    Ledger.open(run).close()


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_paths_that_the_system_refuses_are_named(tmp_path, monkeypatch, mode):
    with pytest.raises(StorageError, match="File name too long"):
        Ledger.open(tmp_path / ("n" * 256), mode)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(StorageError, match="run: the current folder is gone, nothing can be opened in it"):
        Ledger.open("run", mode)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_child_forked_after_the_engine_was_used_writes_or_says_that_it_cannot(tmp_path, engine):
    program = f"""
import os
from storage import Event, Ledger, StorageError
Ledger.open({str(tmp_path / "a")!r}, engine={engine!r}).close()
if os.fork() == 0:
    try:
        with Ledger.open({str(tmp_path / "b")!r}, engine={engine!r}, sync="os") as ledger:
            for i in range(20):
                ledger.append(Event(producer="a", effect=bytes(500_000), kind="k", sequence=i, tick=0))
        print("written")
    except StorageError as error:
        print(error)
    with Ledger.open({str(tmp_path / "a")!r}, "r") as ledger:
        print("reads", ledger.head().size)
    raise SystemExit
os.wait()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    refused = (
        f"{tmp_path}/b/ledger: RocksDB was used before this process was forked, and the threads that it writes with "
        'are not here: open it in a process that is started anew (multiprocessing: "spawn")'
    )
    assert done.stdout.splitlines() == ["written" if engine == "lmdb" else refused, "reads 0"]

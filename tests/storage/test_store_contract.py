"""What every engine does alike: order, atomic writes, deletes, ranges, large values, reopening, and its errors."""

import os
import random
import shutil
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import ClosedError, IntegrityError, LockedError, NotALedgerError, ReadOnlyError, StorageError, layout
from storage.engine.engines import open_store
from storage.engine.files import engine_of
from storage.engine.store import KEY_BYTES_MAX

LARGEST = (16 << 20) + 32


@pytest.fixture
def folder(tmp_path):
    """The folder of a store that does not exist yet."""
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def store(folder, engine):
    """A store open for writing."""
    store = open_store(folder, read_only=False, engine=engine)
    yield store
    store.close()


def everything(store):
    return {family: dict(store.scan(family)) for family in layout.FAMILIES}


KEYS = st.one_of(
    st.integers(0, 40).map(lambda n: n.to_bytes(8, "big")),
    st.binary(min_size=1, max_size=4),
    st.sampled_from([b"\xff" * KEY_BYTES_MAX, b"\xff" * 8, b"\0", b"\0\0", b"cursor/a"]),
)
LONG = st.sampled_from([0, 2040, 4096, 9000]).map(lambda n: random.Random(n).randbytes(n))
VALUES = st.binary(max_size=60) | LONG
ENTRIES = st.lists(st.tuples(st.sampled_from(layout.FAMILIES), KEYS, st.none() | VALUES), max_size=25)


@given(st.lists(st.tuples(ENTRIES, st.sampled_from(["", "reopen", "flush", "compact"])), max_size=6), KEYS, KEYS)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_store_is_a_sorted_dictionary(tmp_path_factory, engine, batches, start, stop):
    folder = tmp_path_factory.mktemp("store")
    model = {family: {} for family in layout.FAMILIES}
    store = open_store(folder, read_only=False, engine=engine)
    for entries, then in [([("meta", b"format", b"x")], ""), *batches]:
        store.write(entries, sync=False)
        for family, key, value in entries:
            model[family].pop(key, None)
            if value is not None:
                model[family][key] = value
        if then == "reopen":
            store.close()
            store = open_store(folder, read_only=False)
        elif then:
            getattr(store, then)()
    assert engine_of(folder) == engine
    reader = open_store(folder, read_only=True)
    for opened in (store, reader):
        for family, held in model.items():
            ordered = sorted(held.items())
            assert list(opened.scan(family)) == ordered
            assert list(opened.scan(family, start)) == [pair for pair in ordered if pair[0] >= start]
            assert list(opened.scan(family, start, stop)) == [pair for pair in ordered if start <= pair[0] < stop]
            assert opened.last_key(family) == max(held, default=None)
            wanted = [start, *held, stop]
            assert opened.get_many(family, wanted) == [held.get(key) for key in wanted]
            assert [opened.get(family, key) for key in wanted] == [held.get(key) for key in wanted]
        assert opened.faults() == []
    reader.close()
    store.close()


@pytest.mark.parametrize("size", [0, 1, 2033, 2034, 4080, 4081, 65_536, LARGEST])
def test_values_of_every_size_come_back(store, folder, size):
    value = os.urandom(min(size, 5000)).ljust(size, b"v")
    store.write([(family, b"key", value) for family in ("log", "meta")], sync=True)
    store.close()
    reader = open_store(folder, read_only=True)
    assert all(reader.get(family, b"key") == value for family in ("log", "meta"))
    assert list(reader.scan("log")) == [(b"key", value)]
    reader.close()


def test_of_two_entries_for_a_key_the_later_counts(store):
    store.write([("log", b"k", b"1"), ("log", b"k", None), ("log", b"k", b"2"), ("ids", b"k", b"1")], sync=True)
    store.write([("ids", b"k", b"2"), ("ids", b"k", None), ("ids", b"never", None)], sync=True)
    assert everything(store) == {"log": {b"k": b"2"}, "ids": {}, "tree": {}, "meta": {}}


def test_an_empty_batch_changes_nothing(store):
    store.write([], sync=True)
    store.write([("meta", b"k", b"v")], sync=False)
    store.write([], sync=False)
    store.sync()
    assert store.get("meta", b"k") == b"v"


def test_many_keys_in_any_order_are_kept_over_many_commits(store, folder):
    model = {}
    for i in range(60):
        part = {os.urandom(32): i.to_bytes(8, "big") for _ in range(100)}
        model |= part
        store.write([("ids", key, value) for key, value in part.items()], sync=False)
        if i % 7 == 3:
            gone = [key for key in model if key[0] % 8 == i % 8]
            store.write([("ids", key, None) for key in gone], sync=False)
            for key in gone:
                del model[key]
    assert list(store.scan("ids")) == sorted(model.items())
    keys = [*model, *(os.urandom(32) for _ in range(50))]
    assert store.get_many("ids", keys) == [model.get(key) for key in keys]
    assert store.faults() == []
    store.close()
    again = open_store(folder, read_only=False)
    assert list(again.scan("ids")) == sorted(model.items())
    again.close()


def test_reading_alters_no_byte_and_no_time(store, folder, directory_digest):
    store.write([("log", bytes((i,)), bytes(300)) for i in range(200)], sync=True)
    store.close()
    before, names = directory_digest(folder), sorted(folder.iterdir())
    reader = open_store(folder, read_only=True)
    assert len(list(reader.scan("log"))) == 200
    reader.close()
    assert directory_digest(folder) == before
    assert sorted(folder.iterdir()) == names


def test_a_reader_keeps_what_it_opened_while_a_writer_goes_on(store, folder):
    model = {i.to_bytes(8, "big"): os.urandom(900) for i in range(300)}
    store.write([("log", key, value) for key, value in model.items()], sync=False)
    reader = open_store(folder, read_only=True)
    scan = reader.scan("log")
    first = [next(scan) for _ in range(3)]
    for i in range(80):  # overwrites every key several times: pages are freed and used again
        part = [(i * 29 + j) % 300 for j in range(40)]
        store.write([("log", n.to_bytes(8, "big"), os.urandom(900)) for n in part], sync=False)
        store.write([("meta", b"head", os.urandom(40))], sync=False)
    assert [*first, *scan] == sorted(model.items())
    assert reader.get_many("log", list(model)) == list(model.values())
    assert reader.get("meta", b"head") is None
    newer = open_store(folder, read_only=True)
    assert dict(newer.scan("log")) == dict(store.scan("log")) != model
    newer.close()
    reader.close()
    for i in range(80):
        store.write([("log", i.to_bytes(8, "big"), os.urandom(900))], sync=False)
    assert store.faults() == []


def test_a_reader_keeps_what_it_opened_while_one_writer_ends_and_the_next_goes_on(store, folder):
    model = {i.to_bytes(8, "big"): os.urandom(900) for i in range(200)}
    store.write([("log", key, value) for key, value in model.items()], sync=False)
    reader = open_store(folder, read_only=True)
    for _ in range(3):
        for i in range(20):
            store.write([("log", (i * 10 + j).to_bytes(8, "big"), os.urandom(900)) for j in range(10)], sync=False)
        store.close()
        store = open_store(folder, read_only=False)
    assert list(reader.scan("log")) == sorted(model.items())
    assert reader.get_many("log", list(model)) == list(model.values())
    reader.close()
    assert len(list(store.scan("log"))) == 200
    assert store.faults() == []
    store.close()


def test_any_thread_reads_while_another_writes(store):
    stop, errors = threading.Event(), []

    def read():
        try:
            while not stop.is_set():
                pairs = list(store.scan("log"))
                assert [key for key, _ in pairs] == [i.to_bytes(8, "big") for i in range(len(pairs))]
                assert all(value[:8] == key for key, value in pairs)
                for key, value in pairs[::17]:
                    assert (store.get("log", key) or b"")[:8] == value[:8]
                assert (store.last_key("log") or b"") >= (pairs[-1][0] if pairs else b"")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(120):
        keys = [(2 * i).to_bytes(8, "big"), (2 * i + 1).to_bytes(8, "big"), (i // 2).to_bytes(8, "big")]
        store.write([("log", key, key + os.urandom(700)) for key in keys], sync=False)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def files_with(folder, text):
    return [file.name for file in folder.rglob("*") if file.is_file() and text in file.read_bytes()]


@pytest.mark.parametrize("size", [500, 20_000])
def test_compacting_leaves_nothing_of_what_was_overwritten_or_deleted(store, folder, size):
    secret = b"a payload that shall be gone " * (size // 29)
    for i in range(40):
        value = secret if i in (7, 8) else os.urandom(size)
        store.write([("log", i.to_bytes(8, "big"), value), ("meta", b"head", bytes(40))], sync=True)
    assert files_with(folder, secret)
    old = open_store(folder, read_only=True)
    store.write([("log", (7).to_bytes(8, "big"), b"leaf"), ("log", (8).to_bytes(8, "big"), None)], sync=True)
    store.compact()
    assert files_with(folder, secret[:100]) == []
    assert store.get("log", (7).to_bytes(8, "big")) == b"leaf"
    assert len(list(store.scan("log"))) == 39
    assert old.get("log", (8).to_bytes(8, "big")) == secret  # what was opened before stays open
    old.close()
    store.write([("log", (90).to_bytes(8, "big"), b"more")], sync=True)
    store.close()
    again = open_store(folder, read_only=False)
    assert len(list(again.scan("log"))) == 40
    assert again.faults() == []
    again.close()


def test_a_reader_writes_nothing(store, folder):
    store.write([("meta", b"k", b"v")], sync=True)
    store.close()
    reader = open_store(folder, read_only=True)
    with pytest.raises(ReadOnlyError):
        reader.write([("meta", b"k", b"w")], sync=True)
    assert reader.get("meta", b"k") == b"v"
    reader.close()


USES = {
    "get": lambda store: store.get("log", b"k"),
    "get_many": lambda store: store.get_many("log", [b"k"]),
    "scan": lambda store: list(store.scan("log")),
    "last_key": lambda store: store.last_key("log"),
    "write": lambda store: store.write([("log", b"k", b"v")], sync=False),
    "sync": lambda store: store.sync(),
    "flush": lambda store: store.flush(),
    "compact": lambda store: store.compact(),
}


@pytest.mark.parametrize("use", USES)
def test_use_after_close_is_a_closed_error(store, use):
    store.write([("log", b"k", b"v")], sync=False)
    store.close()
    store.close()
    with pytest.raises(ClosedError):
        USES[use](store)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_scan_that_was_begun_ends_with_an_error_after_close(store, folder, read_only):
    store.write([("log", i.to_bytes(8, "big"), bytes(3000)) for i in range(2000)], sync=False)
    opened = open_store(folder, read_only=True) if read_only else store
    scan = opened.scan("log")
    next(scan)
    opened.close()
    with pytest.raises(ClosedError):
        list(scan)


def test_a_second_writer_is_refused_and_named(store, folder):
    with pytest.raises(LockedError) as caught:
        open_store(folder, read_only=False)
    assert caught.value.pid == os.getpid()
    store.close()
    open_store(folder, read_only=False).close()


def test_a_forked_child_abandons_the_store_and_the_parent_goes_on(folder, engine, python):
    done = python(
        f"""
import os
from pathlib import Path
from storage import ClosedError
from storage.engine.engines import open_store
folder = Path({str(folder)!r})
store = open_store(folder, read_only=False, engine={engine!r})
store.write([("log", b"k%d" % i, bytes(900)) for i in range(100)], sync=True)
reader = open_store(folder, read_only=True)
scan = reader.scan("log")
next(scan)
if os.fork() == 0:
    for opened in (store, reader):
        opened.abandon()
        try:
            opened.get("log", b"k1")
        except ClosedError:
            print("closed", flush=True)
    raise SystemExit
assert os.wait()[1] == 0
store.write([("log", b"more", b"v")], sync=True)
print(store.get("log", b"more"), len(list(scan)), flush=True)
store.close()
reader.close()
"""
    )
    assert done.stdout.split() == ["closed", "closed", "b'v'", "99"], done.stderr
    assert done.returncode == 0


def test_a_folder_without_a_store_is_no_ledger(folder):
    with pytest.raises(NotALedgerError, match="holds no store of RocksDB or LMDB"):
        open_store(folder, read_only=True)
    assert engine_of(folder) is engine_of(folder / "missing") is None


def test_another_engine_than_the_one_that_is_there_is_refused(store, folder, engine):
    other = {"rocksdb": "lmdb", "lmdb": "rocksdb"}[engine]
    store.write([("meta", b"k", b"v")], sync=False)
    store.close()
    for read_only in (False, True):
        with pytest.raises(StorageError) as caught:
            open_store(folder, read_only=read_only, engine=other)
        assert str(caught.value) == f"{folder}: the engine is {engine}, asked for was {other}"


def test_the_files_of_two_engines_in_one_folder_are_refused(folder):
    open_store(folder, read_only=False, engine="lmdb").close()
    (folder / "000007.sst").touch()
    with pytest.raises(IntegrityError) as caught:
        engine_of(folder)
    assert str(caught.value) == f"{folder}: holds the files of two engines, RocksDB and LMDB"


@pytest.mark.parametrize("left", [b"", bytes(8192), bytes(7) + b"\1" + bytes(8000)])
def test_an_lmdb_file_whose_making_was_interrupted_becomes_a_store(folder, left):
    (folder / "data.mdb").write_bytes(left)
    (folder / "lock.mdb").write_bytes(bytes(100))
    assert engine_of(folder) is None
    store = open_store(folder, read_only=False, engine="lmdb")
    store.write([("meta", b"k", b"v")], sync=True)
    store.close()
    assert engine_of(folder) == "lmdb"


def test_an_unreadable_lmdb_file_beside_a_head_is_damage_and_is_not_replaced(folder):
    (folder / "data.mdb").write_bytes(bytes(7) + b"\1" + bytes(8000))
    (folder.parent / "HEAD").touch()
    for read_only in (False, True):
        with pytest.raises(IntegrityError) as caught:
            open_store(folder, read_only=read_only, engine="lmdb")
        assert str(caught.value) == f"{folder}/data.mdb: page 0: magic must be beefc0de, got 00000000"
    assert (folder / "data.mdb").stat().st_size == 8008


def test_a_store_is_found_where_its_folder_was_moved(store, folder):
    store.write([("meta", b"k", b"v")], sync=True)
    store.close()
    shutil.move(folder, folder.with_name("moved"))
    moved = open_store(folder.with_name("moved"), read_only=False)
    assert moved.get("meta", b"k") == b"v"
    moved.close()


@pytest.mark.parametrize("engine", ["rocksdb"], indirect=True)
def test_a_scan_never_ends_without_a_word_at_a_damaged_block(store, folder):
    """The binding's quick iterator does: it takes a block with another checksum for the end."""
    model = {i.to_bytes(8, "big"): os.urandom(400) for i in range(2000)}
    store.write([("log", key, value) for key, value in model.items()], sync=False)
    store.close()
    table = max(folder.glob("*.sst"), key=lambda file: file.stat().st_size)
    good = table.read_bytes()
    for part in (0.1, 0.5, 0.9):
        at = int(len(good) * part)
        table.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        reader = open_store(folder, read_only=True)
        pairs = []
        with pytest.raises(IntegrityError):
            pairs.extend(reader.scan("log"))
        assert dict(pairs).items() <= model.items()
        assert len(pairs) < len(model)
        reader.close()

"""The catalog holds what a function says of a ledger's events, or says that it can't."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import (
    Catalog,
    ClosedError,
    ForkError,
    IntegrityError,
    Ledger,
    LockedError,
    NotALedgerError,
    ReadOnlyError,
    RetiredError,
    RollbackError,
    StorageFullError,
    catalog,
)
from storage.catalog_state import CatalogState, sealed, unsealed

KEYS = st.binary(min_size=1, max_size=12) | st.binary(min_size=1, max_size=511)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "catalog"


def by_sequence(events):
    """An entry for each event, a count for each producer that is overwritten, and every seventh deleted again."""
    for rank, event in events:
        yield b"event/%08d" % event.sequence, event.effect
        yield b"producer/" + event.producer.encode(), b"%d" % rank
        if rank % 7 == 0 and rank:
            yield b"event/%08d" % (event.sequence - 1), None


def expected_of(events):
    out = {}
    for key, value in by_sequence(enumerate(events)):
        if value is None:
            out.pop(key, None)
        else:
            out[key] = value
    return sorted(out.items())


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_a_catalog_is_a_sorted_dictionary(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("catalog") / "c"
    model = {}
    opened = Catalog.open(folder)
    for step in range(data.draw(st.integers(1, 8))):
        pairs = data.draw(st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=60)), max_size=20))
        opened.put_many(pairs)
        for key, value in pairs:
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        if step % 3 == 2:
            opened.close()
            opened = Catalog.open(folder)
        keys = [key for key, _ in pairs] + [b"absent"]
        assert opened.get_many(keys) == [model.get(key) for key in keys]
        start, stop = data.draw(st.just(b"") | KEYS), data.draw(st.none() | KEYS)
        inside = sorted((k, v) for k, v in model.items() if k >= start and (stop is None or k < stop))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(catalog, "SCAN_ENTRIES", data.draw(st.integers(1, 5)))
            assert list(opened.scan(start, stop)) == inside
            assert list(opened.scan(start, stop, reverse=True)) == inside[::-1]
        assert len(opened) == len(model)
    opened.close()


def test_the_page_s_example_is_what_is_stored(page_hex):
    key, stored = page_hex("catalog", "entry-key"), page_hex("catalog", "entry-value")
    assert sealed(key, b"zone") == stored
    assert unsealed(key, stored) == b"zone"


@given(st.binary(min_size=1, max_size=60), st.binary(max_size=60), st.data())
def test_any_flipped_bit_of_key_or_value_is_seen(key, value, data):
    stored = bytearray(sealed(key, value))
    bit = data.draw(st.integers(0, 8 * len(stored) - 1))
    stored[bit // 8] ^= 1 << bit % 8
    assert unsealed(key, bytes(stored)) is None
    other = bytearray(key)
    bit = data.draw(st.integers(0, 8 * len(key) - 1))
    other[bit // 8] ^= 1 << bit % 8
    assert unsealed(bytes(other), sealed(key, value)) is None


def test_a_state_comes_back_and_a_damaged_one_is_refused():
    state = CatalogState(entries=3, sum=2**64 - 1, unfinished=True, name="zönes/1")
    packed = state.pack()
    assert CatalogState.unpack(packed) == state
    for at in range(len(packed)):
        with pytest.raises(IntegrityError, match=r"^meta/state is damaged: "):
            CatalogState.unpack(packed[:at] + bytes([packed[at] ^ 4]) + packed[at + 1 :])
        with pytest.raises(IntegrityError):
            CatalogState.unpack(packed[:at])


def test_a_derived_catalog_says_what_the_function_says_and_catches_up(folder, run, make_event):
    events = [make_event(i, producer=f"p{i % 3}") for i in range(500)]
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many(events[:200])
        with Catalog.open(folder, ledger, by_sequence) as opened:
            assert list(opened.scan()) == expected_of(events[:200])
            assert (opened.head, opened.rebuilt) == (ledger.head(), None)
            ledger.append_many(events[200:350])
            assert opened.catch_up() == ledger.head() == opened.head
            assert list(opened.scan()) == expected_of(events[:350])
            assert opened.catch_up() == opened.head
        ledger.append_many(events[350:])
        with Catalog.open(folder, ledger, by_sequence) as opened:
            assert list(opened.scan()) == expected_of(events)
            assert (len(opened), opened.rebuilt) == (len(expected_of(events)), None)


def test_large_changes_take_several_transactions_and_an_interrupted_one_is_made_again(folder, run, fill, monkeypatch):
    fill(run, 100)
    monkeypatch.setattr(catalog, "WRITE_ENTRIES", 16)

    def broken(events):
        for n, pair in enumerate(by_sequence(events)):
            if n == 100:
                raise RuntimeError("no more")
            yield pair

    with Ledger.open(run, mode="r") as ledger:
        with pytest.raises(RuntimeError, match=r"^no more$"):
            Catalog.open(folder, ledger, broken)
        with Catalog.open(folder, ledger, by_sequence) as opened:
            assert opened.rebuilt == "it was not closed, or its bytes have changed since"
            assert list(opened.scan()) == expected_of([event for _, event in ledger.scan()])


def test_reading_alters_no_byte(folder, run, fill, directory_digest):
    fill(run, 60)
    with Ledger.open(run, mode="r") as ledger:
        Catalog.open(folder, ledger, by_sequence).close()
        before = directory_digest(folder)
        with Catalog.open(folder, ledger, by_sequence) as opened:
            assert len(list(opened.scan())) == len(opened)
        assert directory_digest(folder) == before
    assert sorted(before) == ["CATALOG", "data.mdb"]


def test_another_name_makes_it_again(folder, run, fill):
    fill(run, 20)
    with Ledger.open(run, mode="r") as ledger:
        Catalog.open(folder, ledger, by_sequence, name="a/1").close()
        with Catalog.open(folder, ledger, by_sequence, name="a/2") as opened:
            assert opened.rebuilt == "holds 'a/1', not 'a/2'"
    with pytest.raises(IntegrityError, match=rf"^{folder}: holds 'a/2', not ''$"):
        Catalog.open(folder)
    with Catalog.open(folder, name="a/2") as opened:
        assert opened.get(b"producer/fleet-1") == b"19"
        with pytest.raises(ReadOnlyError, match=r"the entries are made from a ledger, none can be put$"):
            opened.put(b"x", b"y")


def test_a_shorter_or_other_ledger_is_told(folder, tmp_path, fill):
    fill(tmp_path / "a", 30)
    fill(tmp_path / "short", 20)
    fill(tmp_path / "other", 40, producer="another")
    with Ledger.open(tmp_path / "a", mode="r") as ledger:
        Catalog.open(folder, ledger, by_sequence).close()
    for name, error in (("short", RollbackError), ("other", ForkError)):
        with Ledger.open(tmp_path / name, mode="r") as ledger, pytest.raises(error):
            Catalog.open(folder, ledger, by_sequence)
    with Ledger.open(tmp_path / "a", mode="r") as ledger, Catalog.open(folder, ledger, by_sequence) as opened:
        assert opened.rebuilt is None


def damages(data):
    """Changes of data.mdb: bits, ends, zeros, exchanged pages."""
    yield "gone", None
    yield "empty", b""
    for size in (1, 4096, 8192, len(data) // 2, len(data) - 4096, len(data) - 1):
        yield f"cut to {size}", data[:size]
    for at in range(11, len(data), max(1, len(data) // 60)):
        yield f"bit at {at}", data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]
    pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    pages[2], pages[-1] = pages[-1], pages[2]
    yield "swapped", b"".join(pages)
    yield "zeros", bytes(len(data))
    yield "noise", os.urandom(len(data))


def test_whatever_happens_to_the_file_it_is_made_again(folder, run, fill):
    fill(run, 300)
    with Ledger.open(run, mode="r") as ledger:
        Catalog.open(folder, ledger, by_sequence).close()
        data = (folder / "data.mdb").read_bytes()
        expected = expected_of([event for _, event in ledger.scan()])
        for what, damaged in damages(data):
            if damaged is None:
                (folder / "data.mdb").unlink()
            else:
                (folder / "data.mdb").write_bytes(damaged)
            with Catalog.open(folder, ledger, by_sequence) as opened:
                assert list(opened.scan()) == expected, what


def test_without_a_ledger_damage_is_an_error_and_nothing_is_deleted(folder):
    with Catalog.open(folder) as opened:
        opened.put_many([(b"%05d" % i, b"v%d" % i) for i in range(3000)])
        expected = list(opened.scan())
    data = (folder / "data.mdb").read_bytes()
    refused = 0
    for what, damaged in damages(data):
        if damaged is None:
            (folder / "data.mdb").unlink()
        else:
            (folder / "data.mdb").write_bytes(damaged)
        told = None
        try:
            with Catalog.open(folder) as opened:
                assert list(opened.scan()) == expected, what
        except IntegrityError as error:
            told = str(error)
        if told is not None:
            assert told.startswith(f"{folder}: ")
            refused += 1
        if damaged is not None:
            assert (folder / "data.mdb").read_bytes() == damaged
    assert refused > 20
    (folder / "data.mdb").write_bytes(data)
    with Catalog.open(folder) as opened:
        assert list(opened.scan()) == expected


@pytest.mark.parametrize("text", [b"", b"droveway-catalog/1\nopen\n", b"droveway-catalog/2\nopen\n", b"\xff" * 300])
def test_a_whole_database_is_used_whatever_its_seal_says(folder, text):
    with Catalog.open(folder) as opened:
        opened.put(b"k", b"v")
    (folder / "CATALOG").write_bytes(text)
    with Catalog.open(folder) as opened:
        assert opened.get(b"k") == b"v"


def _rewrite(folder, change):
    import lmdb

    environment = lmdb.open(str(folder), max_dbs=2, lock=False)
    with environment.begin(write=True) as txn:
        change(txn, environment.open_db(b"values", txn=txn))
    environment.close()
    (folder / "CATALOG").write_text("droveway-catalog/1\nopen\n")


@pytest.mark.parametrize("what", ["value", "missing", "foreign"])
def test_a_wrong_missing_or_foreign_entry_is_found_at_opening(folder, run, fill, what):
    fill(run, 50)
    key = b"event/%08d" % 22
    changes = {
        "value": lambda txn, db: txn.put(key, b"wrong" + bytes(8), db=db),
        "missing": lambda txn, db: txn.delete(key, db=db),
        "foreign": lambda txn, db: txn.put(b"foreign", sealed(b"foreign", b"x"), db=db),
    }
    with Ledger.open(run, mode="r") as ledger:
        Catalog.open(folder, ledger, by_sequence).close()
        _rewrite(folder, changes[what])
        with pytest.raises(IntegrityError, match=r"has another checksum|entries and their sum must be"):
            Catalog.open(folder)
        with Catalog.open(folder, ledger, by_sequence) as opened:
            assert opened.rebuilt == "it was not closed, or its bytes have changed since"
            assert list(opened.scan()) == expected_of([event for _, event in ledger.scan()])


def test_a_value_that_goes_bad_while_it_is_open_is_made_again_once(folder, run, fill):
    fill(run, 50)
    key = b"event/%08d" % 22

    def spoil(opened):
        with opened._environment.begin(write=True) as txn:
            txn.put(key, b"wrong" + bytes(8), db=opened._values)

    with Ledger.open(run, mode="r") as ledger, Catalog.open(folder, ledger, by_sequence) as opened:
        expected = list(opened.scan())
        spoil(opened)
        assert opened.get(key) == dict(expected)[key]
        assert opened.rebuilt == f"{folder}: the value of key {key.hex()} has another checksum"
        spoil(opened)
        assert list(opened.scan()) == expected
    with Catalog.open(folder.with_name("plain")) as opened:
        opened.put(key, b"right")
        spoil(opened)
        with pytest.raises(IntegrityError, match=r"has another checksum$") as caught:
            opened.get(key)
        assert caught.value.file == f"values/{key.hex()}"


def test_the_map_grows_and_stops_at_its_limit(folder):
    with Catalog.open(folder, map_bytes_max=16 << 20) as opened:
        value = bytes(1 << 20)
        for i in range(9):
            opened.put(b"%d" % i, value)
        with pytest.raises(StorageFullError, match=rf"^{folder}: the catalog has reached map_bytes_max = 16777216$"):
            opened.put_many((b"%d" % i, value) for i in range(9, 20))
        count = len(opened)
        assert count == 9
        assert len(list(opened.scan())) == count
        assert opened.delete(b"0")
        assert not opened.delete(b"0")
        opened.put(b"again", b"x")


def test_a_disk_that_is_full_is_told_and_room_helps(small_disk):
    disk, _ = small_disk(6)
    with Catalog.open(disk / "c") as opened:
        opened.put(b"first", b"1")
        ballast = disk / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))
        with pytest.raises(StorageFullError):
            opened.put(b"big", bytes(1 << 20))
        assert opened.get(b"first") == b"1"
        ballast.unlink()
        opened.put(b"big", bytes(1 << 20))
    with Catalog.open(disk / "c") as opened:
        assert [key for key, _ in opened.scan()] == [b"big", b"first"]


def test_a_read_only_disk_is_read_and_not_written(small_disk, run, fill, make_event):
    disk, remount = small_disk(6)
    fill(run, 20)
    with Ledger.open(run) as ledger:
        Catalog.open(disk / "c", ledger, by_sequence).close()
        remount("ro")
        with Catalog.open(disk / "c", ledger, by_sequence) as opened:
            assert opened.get(b"producer/fleet-1") == b"19"
            ledger.append(make_event(20))
            with pytest.raises(ReadOnlyError):
                opened.catch_up()
            assert opened.get(b"producer/fleet-1") == b"19"


def test_a_second_opener_and_other_folders_are_refused(folder, tmp_path):
    with Catalog.open(folder) as opened:
        opened.put(b"k", b"v")
        with pytest.raises(
            LockedError, match=rf"^{folder}: this process \({os.getpid()}\) holds the catalog$"
        ) as caught:
            Catalog.open(folder)
        assert caught.value.pid == os.getpid()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letters.txt").write_text("dear")
    with pytest.raises(NotALedgerError, match=r"expected a catalog or an empty folder, got letters\.txt$"):
        Catalog.open(tmp_path / "mine")
    with pytest.raises(NotALedgerError, match=r"letters\.txt: expected a folder, got a file$"):
        Catalog.open(tmp_path / "mine" / "letters.txt")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["letters.txt"]


def test_use_after_close_and_in_a_forked_child_is_a_clean_error(folder):
    opened = Catalog.open(folder)
    opened.put(b"k", b"v")

    def child(pipe):
        try:
            opened.get(b"k")
        except ClosedError as error:
            pipe.send(str(error))
        opened.close()
        os._exit(0)

    here, there = multiprocessing.get_context("fork").Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(there,))
    process.start()
    assert here.poll(30)
    assert here.recv() == (f"{folder}: the catalog was opened before this process was forked: open it again here")
    process.join(30)
    assert opened.get(b"k") == b"v"
    with pytest.raises(LockedError):
        Catalog.open(folder)
    opened.close()
    opened.close()
    for use in (lambda: opened.get(b"k"), lambda: opened.put(b"k", b""), lambda: next(opened.scan()), opened.catch_up):
        with pytest.raises(ClosedError, match=rf"^{folder}: the catalog is closed$"):
            use()


PUTTER = """
import sys
from storage import Catalog
with Catalog.open(sys.argv[1]) as catalog:
    for i in range(len(catalog), 100000):
        catalog.put(b"%06d" % i, b"value %d" % i * (i % 90))
        print(i, flush=True)
"""


def test_what_was_put_is_there_after_a_kill(folder):
    said = -1
    for wanted in (3, 40, 150):
        with subprocess.Popen([sys.executable, "-c", PUTTER, str(folder)], stdout=subprocess.PIPE) as process:
            for line in process.stdout:
                said = int(line)
                if said >= wanted:
                    break
            process.kill()
            rest = process.stdout.read().split()
        said = int(rest[-1]) if rest else said
        with Catalog.open(folder) as opened:
            count = len(opened)
            assert said + 1 <= count <= said + 2
            assert list(opened.scan()) == [(b"%06d" % i, b"value %d" % i * (i % 90)) for i in range(count)]
        said = count - 1


def test_a_derived_catalog_whose_process_was_killed_is_made_again(folder, run, fill):
    fill(run, 200)
    code = """
import os, signal, sys
from storage import Catalog, Ledger
def entries(events):
    for rank, event in events:
        if rank == 150:
            os.kill(os.getpid(), signal.SIGKILL)
        yield b"%d" % rank, event.effect
import storage.catalog
storage.catalog.WRITE_ENTRIES = 10
Catalog.open(sys.argv[1], Ledger.open(sys.argv[2], mode="r"), entries)
"""
    done = subprocess.run([sys.executable, "-c", code, str(folder), str(run)], check=False)
    assert done.returncode == -signal.SIGKILL
    with Ledger.open(run, mode="r") as ledger, Catalog.open(folder, ledger, by_sequence) as opened:
        assert opened.rebuilt == "it was not closed, or its bytes have changed since"
        assert list(opened.scan()) == expected_of([event for _, event in ledger.scan()])


def test_a_ledger_with_retired_events_still_catches_up_but_makes_no_new_catalog(folder, run, fill, make_event):
    fill(run, 20)
    with Ledger.open(run, sync="os") as ledger:
        Catalog.open(folder, ledger, by_sequence).close()
        ledger.retire([3])
        ledger.append(make_event(20))
        with Catalog.open(folder, ledger, by_sequence) as opened:
            assert (opened.rebuilt, opened.get(b"producer/fleet-1")) == (None, b"20")
        with pytest.raises(RetiredError):
            Catalog.open(folder.with_name("new"), ledger, by_sequence)


def test_threads_share_a_catalog(folder):
    with Catalog.open(folder) as opened:
        failed = []

        def work(number):
            try:
                for i in range(30):
                    opened.put(b"%d/%d" % (number, i), bytes(5000))
                    assert opened.get(b"%d/%d" % (number, i)) == bytes(5000)
                    assert len(list(opened.scan(b"%d/" % number, b"%d0" % number))) == i + 1
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert len(opened) == 120


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda c: c.get(b""), r"^Catalog\.get: a key must have 1 to 511 bytes, got 0$"),
        (lambda c: c.put(bytes(512), b""), r"^Catalog\.put: a key must have 1 to 511 bytes, got 512$"),
        (lambda c: c.put("k", b""), r"^Catalog\.put: a key must be bytes, got str$"),
        (lambda c: c.put(b"k", "v"), r"^Catalog\.put: a value must be bytes or None, got str$"),
        (lambda c: c.put(b"k", bytes((16 << 20) + 1)), r"^Catalog\.put: a value has at most 16777216 bytes, got 1677"),
    ],
)
def test_keys_and_values_out_of_range_are_refused(folder, call, text):
    with Catalog.open(folder) as opened, pytest.raises((TypeError, ValueError), match=text):
        call(opened)


def test_the_largest_key_and_empty_values_are_kept(folder):
    with Catalog.open(folder) as opened:
        opened.put_many([(b"\xff" * 511, b""), (b"\0", b"")])
        assert list(opened.scan()) == [(b"\0", b""), (b"\xff" * 511, b"")]
        assert opened.get(b"\0") == b""

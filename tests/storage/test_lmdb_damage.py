"""Damage in an LMDB file: found before the C library sees it, and by every read; nothing else is ever given out."""

import os
import random
import struct
import subprocess
import sys
from contextlib import suppress

import pytest

from storage import IntegrityError, LimitError, StorageError, layout
from storage.engine import lmdb_store
from storage.engine.engines import open_store
from storage.engine.lmdb_pages import BRANCH, LEAF, PageFile, View, read_meta
from storage.engine.lmdb_reader import trees_of

PAGE = 4096


@pytest.fixture
def stored(tmp_path):
    """A closed LMDB store with trees of two and three levels, overflow pages and free pages: folder, its content."""
    folder = tmp_path / "store"
    folder.mkdir()
    randomly = random.Random(7)
    model = {family: {} for family in layout.FAMILIES}
    store = open_store(folder, read_only=False, engine="lmdb", durable=False)
    for i in range(40):
        entries = []
        for rank in range(i * 100, i * 100 + 100):
            key = randomly.randbytes(32)
            value = key + randomly.randbytes(randomly.choice([40, 60, 250, 3000 if rank % 9 == 0 else 90]))
            entries += [("log", rank.to_bytes(8, "big"), value), ("ids", key, rank.to_bytes(8, "big"))]
        entries.append(("tree", bytes(7) + i.to_bytes(2, "big"), randomly.randbytes(32 * (1 + i * 6))))
        entries += [("meta", b"head", randomly.randbytes(40)), ("meta", b"cursor/%d" % (i % 9), randomly.randbytes(40))]
        store.write(entries, sync=False)
        for family, key, value in entries:
            model[family][key] = value
    store.close()
    return folder, model


@pytest.fixture
def pages(stored):
    """pages(family): root, first branch above the leaves and first leaf of a family, as page numbers."""
    file = PageFile(stored[0] / "data.mdb")
    trees, _ = trees_of(View(file, read_meta(file)))

    def find(family):
        reader = trees[family]
        path = reader._path(b"\0")
        return path[0][2], path[-2][2], path[-1][2]

    yield find
    file.close()


def changed(folder, offset, data):
    with (folder / "data.mdb").open("r+b") as stream:
        stream.seek(offset)
        stream.write(data)


def refused(folder, text):
    """Opening for writing is refused with a text, verification says it too, and nothing is altered."""
    path = folder / "data.mdb"
    before = path.read_bytes()
    with pytest.raises(IntegrityError) as caught:
        open_store(folder, read_only=False)
    assert str(caught.value) == f"{path}: {text}"
    assert caught.value.file == str(path)
    assert path.read_bytes() == before


U16, U32, U64 = (lambda n, form=form: struct.pack(form, n) for form in ("=H", "=I", "=Q"))
META = {
    "magic": (PAGE + 16, U32(1), "page 1: magic must be beefc0de, got 00000001"),
    "version": (16 + 4, U32(3), "page 0: data version must be 1, got 3"),
    "number": (0, U64(9), "page 0: expected number 0 and flags 8, got 9 and 8"),
    "flags": (10, U16(2), "page 0: expected number 0 and flags 8, got 0 and 2"),
    "page size": (40, U32(1000), "page 0: expected a page size from 512 to 65536, got 1000"),
    "other page size": (PAGE + 40, U32(8192), "page 1: expected pages of 4096 bytes, got 8192"),
    "parity": (144, U64(33), "page 0: the transaction 33 belongs on the other page"),
}


@pytest.mark.parametrize("name", META)
def test_a_meta_page_that_lmdb_has_not_written_is_refused(stored, name):
    folder, _ = stored
    offset, data, text = META[name]
    changed(folder, offset, data)
    refused(folder, text)
    with pytest.raises(IntegrityError):
        open_store(folder, read_only=True)


def newest(folder):
    """Offset and transaction of the meta page that counts."""
    file = PageFile(folder / "data.mdb")
    transaction = read_meta(file).transaction
    file.close()
    return transaction % 2 * PAGE, transaction


def test_the_newest_meta_page_must_name_a_tree_inside_the_file(stored):
    folder, _ = stored
    at, transaction = newest(folder)
    page = at // PAGE
    good = (folder / "data.mdb").read_bytes()
    last, root = (struct.unpack_from("=Q", good, at + offset)[0] for offset in (136, 88 + 40))
    for offset, data, text in [
        (40 + 4, U16(9), f"page {page}: flags of the free pages must be 8, got 9"),  # 1 would map at a given address
        (88 + 6, U16(0), f"page {page}: a tree of depth 0 has the root {root} of {last} pages"),
        (88 + 40, U64(last + 1), f"page {page}: a tree of depth 1 has the root {last + 1} of {last} pages"),
        (136, U64(1 << 40), f"page {page}: the last page is {1 << 40}, the file holds {len(good) // PAGE} pages"),
    ]:
        changed(folder, at + offset, data)
        refused(folder, text)
        (folder / "data.mdb").write_bytes(good)
    changed(folder, at + 144, U64(transaction - 2))  # one apart again: the state before counts, and it is whole
    open_store(folder, read_only=True).close()
    changed(folder, at + 144, U64(transaction - 4))
    low, high = sorted((transaction - 4, transaction - 1))
    first, second = (low, high) if page == 0 else (high, low)
    refused(folder, f"pages 0 and 1: expected two transactions in a row, got {first} and {second}")


def test_a_page_with_wrong_numbers_is_refused_and_named(stored, pages):
    folder, model = stored
    good = (folder / "data.mdb").read_bytes()
    _, branch, leaf = pages("ids")
    first = leaf * PAGE + struct.unpack_from("=H", good, leaf * PAGE + 16)[0]
    child, second = (branch * PAGE + n for n in struct.unpack_from("=HH", good, branch * PAGE + 16))
    for offset, data, text in [
        (leaf * PAGE, U64(leaf + 1), f"page {leaf}: expected its number, flags {LEAF}"),
        (leaf * PAGE + 10, U16(BRANCH), f"page {leaf}: expected its number, flags {LEAF}"),
        (branch * PAGE + 10, U16(BRANCH | 16), f"page {branch}: expected its number, flags {BRANCH}"),
        (leaf * PAGE + 12, U16(15), f"page {leaf}: lower and upper lie outside the page"),
        (leaf * PAGE + 14, U16(PAGE + 2), f"page {leaf}: lower and upper lie outside the page"),
        (leaf * PAGE + 12, U16(16), f"page {leaf}: holds no node"),
        (leaf * PAGE + 16, U16(PAGE - 6), f"page {leaf}: a node lies outside"),
        (leaf * PAGE + 16, U16(17), f"page {leaf}: a node lies outside"),
        (first, U16(60_000), f"page {leaf}: a node ends outside"),
        (first + 2, U16(60_000), f"page {leaf}: a node ends outside"),
        (first + 4, U16(4), f"page {leaf}: a node has flags that no node of ours has"),
        (first + 6, U16(600), f"page {leaf}: a node ends outside"),
        (first + 6, U16(33), f"page {leaf}: its nodes do not fill it"),
        (child + 6, U16(2), f"page {branch}: a key ends outside"),
        (second + 6, U16(2), f"page {branch}: its nodes do not fill it"),
        (child, U16(leaf + 1), None),
        (child + 2, U16(7), f"page {leaf + (7 << 16)}: expected pages 2..{len(good) // PAGE - 1}"),
    ]:
        changed(folder, offset, data)
        if text is None:
            with pytest.raises(IntegrityError):
                open_store(folder, read_only=False)
        else:
            refused(folder, text)
        reader = open_store(folder, read_only=True)
        assert reader.faults()
        for key, value in list(model["ids"].items())[::40]:
            with suppress(IntegrityError):
                assert reader.get("ids", key) == value
        reader.close()
        (folder / "data.mdb").write_bytes(good)


def test_a_page_used_twice_or_free_and_used_is_refused(stored, pages):
    folder, _ = stored
    good = (folder / "data.mdb").read_bytes()
    _, branch, leaf = pages("ids")
    second = branch * PAGE + struct.unpack_from("=H", good, branch * PAGE + 18)[0]
    changed(folder, second, U16(leaf))
    refused(folder, f"page {leaf}: is used twice")
    (folder / "data.mdb").write_bytes(good)
    file = PageFile(folder / "data.mdb")
    free = View(file, read_meta(file)).leaf(read_meta(file).free.root)
    at = free.number * PAGE + free.offsets[0]
    file.close()
    changed(folder, at + 8 + 8 + 8, U64(leaf))  # node, key, count
    record = good[at + 8 : at + 16].hex()
    refused(folder, f"free pages of {record}: page {leaf} is in use, or free twice")
    changed(folder, at + 8 + 8 + 8, U64(1 << 50))
    refused(folder, f"free pages of {record}: page {1 << 50} lies outside the file")
    changed(folder, at + 8 + 8, U64(1 << 50))
    size = struct.unpack_from("=H", good, at)[0]
    refused(folder, f"free pages of {record}: counts {1 << 50} pages in {size} bytes")


def test_a_file_that_was_cut_is_refused_where_a_page_is_missing(stored):
    folder, model = stored
    good = (folder / "data.mdb").read_bytes()
    (folder.parent / "HEAD").touch()  # without it a short file would be one whose making was interrupted
    for size in (100, PAGE + 100, 10 * PAGE, len(good) // 2 + 7, len(good) - 1):
        (folder / "data.mdb").write_bytes(good[:size])
        try:
            store = open_store(folder, read_only=False)
        except IntegrityError:
            assert (folder / "data.mdb").read_bytes() == good[:size]
            continue
        assert {family: dict(store.scan(family)) for family in model} == model
        assert size > len(good) // 2
        store.close()


@pytest.mark.parametrize("family", ["ids", "tree", "meta"])
def test_a_flip_in_any_value_that_no_id_covers_is_found(stored, family):
    folder, model = stored
    good = (folder / "data.mdb").read_bytes()
    randomly = random.Random(3)
    for key in randomly.sample(sorted(model[family]), 9):
        value = model[family][key]
        at = -1
        while (at := good.find(value, at + 1)) >= 0:  # also the free pages where it once was
            bit = randomly.randrange(8 * len(value))
            changed(folder, at + bit // 8, bytes([good[at + bit // 8] ^ 1 << bit % 8]))
        reader = open_store(folder, read_only=True)
        with pytest.raises(IntegrityError, match=f"{family}/{key.hex()} has another checksum than was written$"):
            reader.get(family, key)
        with pytest.raises(IntegrityError):
            list(reader.scan(family))
        reader.close()
        (folder / "data.mdb").write_bytes(good)


def test_an_id_whose_key_was_flipped_is_never_called_missing(stored):
    folder, model = stored
    good = (folder / "data.mdb").read_bytes()
    randomly = random.Random(4)
    for key in randomly.sample(sorted(model["ids"]), 30):
        at, places = -1, []
        while (at := good.find(key, at + 1)) >= 0:  # the leaf, a branch, the value in the log, free pages
            places.append(at)
        for at in places:
            bit = randomly.choice([randomly.randrange(256), randomly.randrange(8)])
            changed(folder, at + bit // 8, bytes([good[at + bit // 8] ^ 1 << bit % 8]))
        reader = open_store(folder, read_only=True)
        for other in [key, *randomly.sample(sorted(model["ids"]), 5)]:
            with suppress(IntegrityError):
                assert reader.get("ids", other) == model["ids"][other]
        with pytest.raises(IntegrityError):
            reader.get("ids", key)
        reader.close()
        (folder / "data.mdb").write_bytes(good)


def damaged(good, randomly):
    data = bytearray(good)
    pages = len(data) // PAGE
    kind = randomly.choice(["flip", "flip", "header", "header", "meta", "cut", "swap", "zeros"])
    page = randomly.randrange(pages) * PAGE
    if kind == "flip":
        data[randomly.randrange(len(data))] ^= 1 << randomly.randrange(8)
    elif kind == "header":
        data[page + randomly.randrange(90)] ^= 1 << randomly.randrange(8)
    elif kind == "meta":
        data[randomly.randrange(2) * PAGE + randomly.randrange(152)] ^= 1 << randomly.randrange(8)
    elif kind == "cut":
        del data[randomly.randrange(len(data)) :]
    elif kind == "swap":
        other = randomly.randrange(pages) * PAGE
        data[page : page + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[page : page + PAGE]
    else:
        data[page : page + PAGE] = bytes(PAGE)
    return bytes(data)


def read_what_can_be_read(folder, model, randomly):
    try:
        reader = open_store(folder, read_only=True)
    except StorageError:
        return
    for family, held in model.items():
        for key in randomly.sample(sorted(held), 4):
            try:
                found = reader.get(family, key)
                assert found == held[key] or family == "log"  # a value of the log states its id
            except IntegrityError:
                pass
        try:
            found = dict(reader.scan(family))
            assert found == held or family == "log"
        except IntegrityError:
            pass
    reader.close()


def write_where_it_opens(folder, randomly):
    try:
        store = open_store(folder, read_only=False, engine="lmdb", durable=False)
    except IntegrityError:
        return False
    for i in range(12):
        entries = [("ids", randomly.randbytes(32), bytes(8)) for _ in range(20)]
        entries += [("log", randomly.randrange(5000).to_bytes(8, "big"), bytes(41)), ("log", bytes(9), bytes(5000 + i))]
        store.write(entries, sync=False)
    store.close()
    return True


def damage_at_random(folder, model, rounds, seed):
    good = (folder / "data.mdb").read_bytes()
    randomly = random.Random(seed)
    opened = 0
    for _ in range(rounds):
        (folder / "data.mdb").write_bytes(damaged(good, randomly))
        read_what_can_be_read(folder, model, randomly)
        opened += write_where_it_opens(folder, randomly)
    assert 0 < opened < rounds


def test_no_damage_makes_the_process_end_or_gives_out_other_bytes(stored):
    damage_at_random(*stored, rounds=40, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_damage_of_many_makes_the_process_end_or_gives_out_other_bytes(stored, seed):
    damage_at_random(*stored, rounds=250, seed=10 + seed)


@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb"])
def test_a_link_in_the_place_of_a_file_is_not_followed_for_writing(stored, name, tmp_path):
    folder, _ = stored
    target = tmp_path / "somebody's file"
    (folder / name).unlink()
    target.write_bytes(b"x" * 10_000)
    (folder / name).symlink_to(target)
    with pytest.raises(IntegrityError, match=r"expected a regular file, got a link, a folder, a pipe or a device$"):
        open_store(folder, read_only=False, engine="lmdb")
    assert target.read_bytes() == b"x" * 10_000


def test_a_map_that_is_full_grows_and_not_under_a_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(lmdb_store, "MAP_BYTES", 1 << 20)
    store = open_store(tmp_path, read_only=False, engine="lmdb")
    model = {i.to_bytes(8, "big"): os.urandom(5000) for i in range(900)}
    entries = [("log", key, value) for key, value in model.items()]
    for at in range(0, len(entries), 20):
        store.write(entries[at : at + 20], sync=False)
    assert (tmp_path / "data.mdb").stat().st_size > 4 << 20
    assert dict(store.scan("log")) == model
    reader = open_store(tmp_path, read_only=True)
    with pytest.raises(LimitError, match=r"the map of \d+ bytes is full and can't grow beside readers$"):
        store.write([("log", b"large", bytes(16 << 20))], sync=False)
    assert store.get("log", b"large") is None
    reader.close()
    store.write([("log", b"large", bytes(16 << 20))], sync=False)
    assert store.get("log", b"large") == bytes(16 << 20)
    assert store.faults() == []
    store.close()


def test_what_another_program_writes_is_noticed(stored):
    folder, _ = stored
    store = open_store(folder, read_only=False)
    code = (
        "import lmdb, sys; e = lmdb.open(sys.argv[1], max_dbs=4); t = e.begin(write=True)\n"
        "t.put(b'k', b'v', db=e.open_db(b'meta', txn=t)); t.commit()"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    with pytest.raises(IntegrityError, match=r"another program has written to data\.mdb$"):
        store.write([("meta", b"k", b"w")], sync=False)
    store.close()
    with pytest.raises(IntegrityError, match="has another checksum than was written"):
        list(open_store(folder, read_only=True).scan("meta"))

"""Cursors: what lies before one is proven to be what was read, or the reading does not go on."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import (
    ConsumerCursor,
    Cursor,
    ForkError,
    IntegrityError,
    Ledger,
    RollbackError,
    StorageError,
    common_prefix,
)
from storage.layout import tile_key
from storage.tree import EMPTY_ROOT, root_of_leaves

pytestmark = pytest.mark.usefixtures("engine")

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "cursor.md"


@given(st.integers(1, 2**64 - 1), st.binary(min_size=32, max_size=32))
def test_the_text_form_comes_back(rank, root):
    assert Cursor.parse(str(Cursor(rank, root))) == Cursor(rank, root)


def test_the_examples_of_the_page_are_cursors():
    first, second = re.findall(r"```text\n(.*)\n```", PAGE.read_text())
    assert Cursor.parse(first) == Cursor() == Cursor(0, EMPTY_ROOT)
    assert Cursor.parse(second).rank == 2


TEXT = str(Cursor(12, bytes(range(32))))


@pytest.mark.parametrize("position", range(len(TEXT)))
def test_every_changed_character_is_refused(position):
    for other in "0a 9":
        if TEXT[position] != other:
            with pytest.raises(ValueError, match=r"^Cursor\.parse: "):
                Cursor.parse(TEXT[:position] + other + TEXT[position + 1 :])


@pytest.mark.parametrize(
    "text",
    ["", " " + TEXT, TEXT + " ", TEXT + "\n", TEXT.upper(), TEXT.replace(" 12 ", " 012 "),
     TEXT.replace("1", "\u0661", 1), TEXT.replace(" 12 ", " 99999999999999999999 ")],
)  # fmt: skip
def test_another_spelling_is_refused(text):
    with pytest.raises(ValueError, match=r"^Cursor(\.parse)?: "):
        Cursor.parse(text)


def test_fields_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"^Cursor: rank must be a whole number in \[0, 2\*\*64\), got -1$"):
        Cursor(-1)
    with pytest.raises(ValueError, match=r"^Cursor: root must be 32 bytes, got b'x'$"):
        Cursor(1, b"x")
    with pytest.raises(ValueError, match=rf"^Cursor: rank 0 has the root {EMPTY_ROOT.hex()}, got {bytes(32).hex()}$"):
        Cursor(0, bytes(32))


SIZES = (0, 1, 2, 3, 7, 8, 255, 256, 257, 300, 511, 512, 513, 599, 600)


def test_every_cursor_of_a_ledger_has_the_root_of_what_lies_before(run, fill, make_event):
    fill(run, 600)
    from storage.state import leaf_hashes

    with Ledger.open(run, mode="r") as ledger:
        values = [event.encode() for _, event in ledger.scan()]
        leaves = leaf_hashes([make_event(i).id for i in range(600)], [len(value) for value in values])
        for rank in SIZES:
            cursor = ledger.cursor_at(rank)
            assert cursor == Cursor(rank, root_of_leaves(leaves[: 32 * rank]))
            assert next(ledger.scan_from(cursor), (600,))[0] == rank
            assert [rank for rank, _ in ledger.scan_from(cursor, min(rank + 3, 600))] == list(
                range(rank, min(rank + 3, 600))
            )
        for rank in (-1, 601):
            with pytest.raises(IndexError, match=rf"^cursor_at: rank must be in \[0, 600\], got {rank}$"):
                ledger.cursor_at(rank)


def test_a_cursor_goes_on_in_a_ledger_that_has_grown(run, fill, make_event):
    head = fill(run, 40)
    with Ledger.open(run) as ledger:
        end = ledger.cursor_at(40)
        assert (end.rank, end.root) == (head.size, head.root)
        ledger.append_many([make_event(i) for i in range(40, 70)])
        assert [rank for rank, _ in ledger.scan_from(end)] == list(range(40, 70))


def test_a_cursor_of_another_history_is_a_fork_and_of_a_longer_one_a_rollback(tmp_path, fill):
    fill(tmp_path / "a", 40)
    fill(tmp_path / "b", 30, producer="another")
    with Ledger.open(tmp_path / "a", mode="r") as a, Ledger.open(tmp_path / "b", mode="r") as b:
        for rank in (1, 8, 29, 30):
            cursor = a.cursor_at(rank)
            with pytest.raises(ForkError) as caught:
                b.scan_from(cursor)
            assert str(caught.value) == (
                f"{b.path}: the root of the first {rank} events is {b.cursor_at(rank).root.hex()}, the cursor has "
                f"read {cursor.root.hex()}"
            )
        with pytest.raises(RollbackError) as rollback:
            b.scan_from(a.cursor_at(31))
        assert (rollback.value.size_seen, rollback.value.size_now) == (31, 30)
        assert str(rollback.value) == f"{b.path}: the cursor has read 31 events, the ledger has 30"
        assert [rank for rank, _ in b.scan_from(Cursor())] == list(range(30))


@pytest.mark.parametrize(("sizes", "parting"), [
    ((0, 5), 0), ((5, 5), 5), ((9, 300), 9), ((600, 600), 0), ((600, 513), 1), ((600, 513), 255), ((600, 600), 256),
    ((512, 600), 512), ((600, 512), 300), ((600, 600), 599),
])  # fmt: skip
def test_the_common_prefix_ends_where_two_ledgers_part(tmp_path, make_event, sizes, parting):
    opened = []
    for number, size in enumerate(sizes):
        opened.append(Ledger.open(tmp_path / str(number), sync="os"))
        opened[-1].append_many([make_event(i, effect=b"%d" % (number if i >= parting else 7)) for i in range(size)])
    left, right = opened
    common = common_prefix(left, right)
    assert common == common_prefix(right, left) == left.cursor_at(parting) == right.cursor_at(parting)
    for ledger in opened:
        ledger.close()


def test_a_damaged_tile_is_damage_and_no_fork(run, fill, rewrite):
    fill(run, 600)
    with Ledger.open(run, mode="r") as ledger:
        cursors = [ledger.cursor_at(rank) for rank in (100, 300)]
        tile = bytearray(ledger._store.get("tree", tile_key(0, 0)))
    tile[32 * 40] ^= 1
    rewrite(run, [("tree", tile_key(0, 0), bytes(tile))])
    with Ledger.open(run, mode="r") as ledger:
        for cursor in cursors[:1]:
            with pytest.raises(IntegrityError):
                ledger.scan_from(cursor)
        assert next(ledger.scan_from(cursors[1]))[0] == 300


def test_a_consumer_finds_its_cursor_again(tmp_path, run, fill):
    fill(run, 20)
    kept = ConsumerCursor(tmp_path / "dashboard.cursor")
    read = []
    for _ in range(4):
        with Ledger.open(run, mode="r") as ledger:
            for rank, _ in ledger.scan_from(kept.load(), min(20, kept.load().rank + 6)):
                read.append(rank)
            kept.save(ledger.cursor_at(read[-1] + 1))
    assert read == list(range(20))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["dashboard.cursor", "run"]
    assert kept.path.read_text() == f"{kept.load()}\n"


@pytest.mark.parametrize("change", ["flip", "cut", "long", "empty", "two"])
def test_a_damaged_cursor_file_is_told(tmp_path, change):
    kept = ConsumerCursor(tmp_path / "c")
    kept.save(Cursor(3, bytes(32)))
    whole = kept.path.read_bytes()
    damaged = {
        "flip": whole[:20] + bytes([whole[20] ^ 1]) + whole[21:],
        "cut": whole[:-1],
        "long": whole + b"x" * 300,
        "empty": b"",
        "two": whole + whole,
    }[change]
    kept.path.write_bytes(damaged)
    with pytest.raises(IntegrityError, match=f"^{re.escape(str(kept.path))}: ") as caught:
        kept.load()
    assert caught.value.file == str(kept.path)


def test_a_folder_that_can_t_be_written_is_told(tmp_path):
    with pytest.raises(StorageError, match=r"/c: No such file or directory$"):
        ConsumerCursor(tmp_path / "nowhere" / "c").save(Cursor())
    (tmp_path / "c").mkdir()
    with pytest.raises(StorageError, match=r"/c: Is a directory$"):
        ConsumerCursor(tmp_path / "c").save(Cursor())
    assert [file.name for file in tmp_path.iterdir()] == ["c"]

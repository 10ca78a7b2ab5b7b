"""Names and content of published objects: tiles, entries, payload bundles, the list of retired ranks."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import tree
from storage.errors import IntegrityError, StorageError
from storage.mending import retired_list
from storage.publication import payload_bundle, tiles
from storage.publication.payload_bundle import Elsewhere
from storage.publication.places import open_store

LEAF = tree.leaf(bytes(32), 300)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (0, "000"),
        (7, "007"),
        (999, "999"),
        (1000, "x001/000"),
        (1_234_067, "x001/x234/067"),
        (10**9, "x001/x000/x000/000"),
    ],
)
def test_a_tiles_number_is_in_groups_of_three_digits(index, text):
    assert tiles.number(index) == text


def test_seventy_thousand_events_have_the_tiles_that_the_tiled_log_says():
    assert list(tiles.widths(70_000)) == [(0, 273, 112), (1, 1, 17), (2, 0, 1)]
    assert tiles.tile_path(0, 273, 112) == "tile/0/273.p/112"
    assert tiles.tile_path(1, 1, 17) == "tile/1/001.p/17"
    assert tiles.tile_path(2, 0, 1) == "tile/2/000.p/1"


@given(st.integers(0, 63), st.integers(0, 2**56 - 1), st.integers(1, 256))
def test_every_path_that_is_made_is_parsed_to_what_it_was_made_of(level, index, width):
    assert tiles.parse_path(tiles.tile_path(level, index, width)) == tiles.TileName("hashes", level, index, width)
    assert tiles.parse_path(tiles.entries_path(index, width)) == tiles.TileName("entries", 0, index, width)
    assert tiles.parse_path(tiles.payload_path(index, width)) == tiles.TileName("payload", 0, index, width)


@given(st.text("tile/0123456789x.pentris", max_size=40))
def test_a_text_that_is_parsed_is_the_path_of_what_it_is_parsed_to(text):
    found = tiles.parse_path(text)
    if found is not None and found.kind == "hashes":
        assert tiles.tile_path(found.level, found.index, found.width) == text


@pytest.mark.parametrize(
    "path",
    [
        "", "tile", "tile/0", "tile/0/", "tile/0/0", "tile/0/00", "tile/0/0000", "tile/0/x000/001", "tile/0/x001",
        "tile/0/001/", "tile/00/000", "tile/64/000", "tile/-1/000", "tile/0/000.p", "tile/0/000.p/", "tile/0/000.p/0",
        "tile/0/000.p/01", "tile/0/000.p/256", "tile/0/000.p/999", "/tile/0/000", "tile/0/../000", "tile/0/000\n",
        "tile/0/٠٠٠", "tile/entries/1", "tile/0/x999/x999/x999/x999/x999/x999/999", "payload/0/000", "TILE/0/000",
        "tile/0/X001/000",
    ],
)  # fmt: skip
def test_a_path_that_is_not_the_one_of_a_tile_names_nothing(path):
    assert tiles.parse_path(path) is None


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: tiles.tile_path(64, 0), "tile_path: level must be in [0, 63], got 64"),
        (lambda: tiles.number(-1), "tiles.number: index must be in [0, 2**56), got -1"),
        (lambda: tiles.tile_path(0, 0, 0), "tiles: width must be in [1, 256], got 0"),
        (lambda: tiles.entries_path(0, 257), "tiles: width must be in [1, 256], got 257"),
    ],
)
def test_no_path_is_made_of_numbers_that_no_tile_has(call, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        call()


def test_a_full_bundle_of_leaves_has_11008_bytes():
    data = tiles.pack_entries([LEAF] * 256)
    assert len(data) == 11_008
    assert tiles.unpack_entries(data, 256, "p") == [LEAF] * 256
    assert tiles.unpack_entries(data, 3, "p") == [LEAF] * 3


def test_a_malformed_entry_is_none_and_the_others_are_read():
    data = bytearray(tiles.pack_entries([LEAF] * 3))
    data[43] ^= 1
    data[43 * 2 + 2] ^= 4
    assert tiles.unpack_entries(bytes(data), 3, "p") == [LEAF, None, None]


@pytest.mark.parametrize("size", [0, 42, 43, 85, 87, 11_009, 11_051])
def test_a_bundle_of_leaves_of_another_size_is_refused(size):
    with pytest.raises(IntegrityError, match=rf"^p: expected 86 bytes, got {size}$"):
        tiles.unpack_entries(bytes(size), 2, "p")


SIZES = st.integers(1, 40) | st.integers(65_530, 65_540)
PAYLOADS = st.lists(st.tuples(SIZES, st.booleans()), min_size=1, max_size=20)


def bundle(sizes):
    payloads = [
        Elsewhere.RETIRED if gone else Elsewhere.BLOB if payload_bundle.is_blob(size) else bytes([i]) * size
        for i, (size, gone) in enumerate(sizes)
    ]
    return payload_bundle.pack(payloads), [size for size, _ in sizes], payloads


@given(PAYLOADS)
def test_a_bundle_is_unpacked_to_what_was_packed_also_where_some_lengths_are_not_known(sizes):
    data, lengths, payloads = bundle(sizes)
    assert payload_bundle.unpack(data, lengths, "p") == payloads
    assert len(data) <= payload_bundle.bytes_max(lengths) <= payload_bundle.BUNDLE_BYTES_MAX
    unknown = [
        None if isinstance(payload, bytes) else length for payload, length in zip(payloads, lengths, strict=True)
    ]
    assert payload_bundle.unpack(data, unknown, "p") == payloads


@given(PAYLOADS, st.integers(0, 2**31 - 1))
def test_a_flipped_bit_in_the_table_takes_no_other_event_with_it_or_the_whole_bundle_is_refused(sizes, at):
    data, lengths, payloads = bundle([(min(size, 40), gone) for size, gone in sizes])
    bit = at % (32 * len(lengths))
    flipped = bytearray(data)
    flipped[4 + bit // 8] ^= 1 << bit % 8
    found = payload_bundle.unpack(bytes(flipped), lengths, "p")
    wrong = bit // 32
    assert found[wrong] is Elsewhere.DAMAGED
    assert found[:wrong] + found[wrong + 1 :] == payloads[:wrong] + payloads[wrong + 1 :]


def test_the_first_events_of_a_full_bundle_are_read_where_the_partial_one_has_gone():
    data, lengths, payloads = bundle([(5, False), (7, True), (9, False)] + [(3, False)] * 253)
    assert payload_bundle.unpack(data, lengths[:3], "p", more=True) == payloads[:3]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "p: offset 0: magic must be b'DWP1', got b''"),
        (b"DWP2" + bytes(8), "p: offset 0: magic must be b'DWP1', got b'DWP2'"),
        (b"DWP1\0\0", "p: expected at least 8 bytes, got 6"),
        (b"DWP1\0\0\0\5abcd", "p: expected 13 bytes, got 12"),
        (b"DWP1\0\0\0\5abcdef", "p: expected 13 bytes, got 14"),
        (b"DWP1\xff\xff\xff\xffabcde", "p: expected 8 bytes, got 13"),
    ],
)
def test_a_bundle_that_no_reading_explains_is_refused(data, text):
    with pytest.raises(IntegrityError) as caught:
        payload_bundle.unpack(data, [5], "p")
    assert (str(caught.value), caught.value.file) == (text, "p")


RANKS = st.sets(st.integers(0, 60)).map(sorted)


@given(RANKS, RANKS)
def test_ranges_are_subtracted_and_united_as_their_ranks_are(left, right):
    from storage.mending.retire import ranges

    a, b = ranges(left), ranges(right)
    assert retired_list.without(a, b) == ranges(sorted(set(left) - set(right)))
    assert retired_list.union(a, b) == ranges(sorted({*left, *right}))
    assert retired_list.unpack(retired_list.pack(a)) == a


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"3", "retired: expected lines that end in a newline"),
        (b"\n", "retired: line 1: expected ascending ranges FIRST-LAST, got ''"),
        (b"03\n", "retired: line 1: expected ascending ranges FIRST-LAST, got '03'"),
        (b"4-4\n", "retired: line 1: expected ascending ranges FIRST-LAST, got '4-4'"),
        (b"5-4\n", "retired: line 1: expected ascending ranges FIRST-LAST, got '5-4'"),
        (b"3\n4\n", "retired: line 2: expected ascending ranges FIRST-LAST, got '4'"),
        (b"9\n4\n", "retired: line 2: expected ascending ranges FIRST-LAST, got '4'"),
        (b"\xff\n", "retired: line 1: expected ascending ranges FIRST-LAST, got '\\xff'"),
        (b"1\r\n", "retired: line 1: expected ascending ranges FIRST-LAST, got '1\\r'"),
    ],
)
def test_a_list_of_retired_ranks_of_another_form_is_refused(data, text):
    with pytest.raises(IntegrityError) as caught:
        retired_list.unpack(data)
    assert str(caught.value) == text


def test_the_objects_of_the_published_page_are_what_publishing_its_events_writes(repository, page_hex, tmp_path):
    from storage import Event, Ledger, Signer

    text = (repository / "docs/formats/published.md").read_text()
    with Ledger.open(tmp_path / "run") as ledger:
        ledger.append_many([Event.decode(page_hex("event", f"event{i}")) for i in range(2)])
        ledger.publish(str(tmp_path / "web"), Signer("droveway.example/ledger", bytes(range(32))))
    web = tmp_path / "web"
    names = {path.relative_to(web).as_posix() for path in web.rglob("*") if path.is_file()} - {".publishing/lock"}
    assert names == {"checkpoint", "tile/0/000.p/2", "tile/entries/000.p/2", "payload/000.p/2"}
    assert (web / "checkpoint").read_text() == re.search(r"```text checkpoint\n(.*?)```", text, re.DOTALL)[1]
    assert (web / "tile/0/000.p/2").read_bytes() == page_hex("tree", "hash0") + page_hex("tree", "hash1")
    assert (web / "tile/entries/000.p/2").read_bytes() == page_hex("published", "entries")
    assert (web / "payload/000.p/2").read_bytes().startswith(page_hex("published", "payload"))
    assert re.search(r"^Version: ", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("", "expected a path or a URL, got nothing"),
        ("file://", "file://: expected file:///FOLDER, got no folder"),
        ("file://localhost", "file://localhost: expected file:///FOLDER, got no folder"),
        ("http://[::1", "http://[::1: expected a URL: Invalid IPv6 URL"),
    ],
)
def test_a_place_without_a_name_is_not_the_working_folder(place, text):
    with pytest.raises(StorageError) as raised:
        open_store(place, writable=False)
    assert str(raised.value) == text

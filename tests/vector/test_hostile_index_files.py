"""Index files that are not what was saved: every one is refused, by place and field, and none is misread."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensor import budget
from vector import CidMismatch, IndexFileError, UnsupportedIndex, index_file
from vector.index_file import plane_pieces, read_index, write_index
from vector.index_header import JVI, JVIM

SEED_BYTES = range(24, 32)


@pytest.fixture
def read(tmp_path):
    """read(data, magic): what a file with these bytes holds."""
    path = tmp_path / "forged"
    with path.open("w+b", buffering=0) as file:

        def run(data, magic=JVIM):
            os.pwrite(file.fileno(), data, 0)
            os.ftruncate(file.fileno(), len(data))
            return read_index(path, magic)

        yield run


@pytest.fixture
def refused(read, tmp_path):
    """refused(data, magic): the error of such a file, which names it."""

    def run(data, magic=JVIM):
        with pytest.raises(IndexFileError) as caught:
            read(data, magic)
        assert caught.value.path == str(tmp_path / "forged")
        assert str(caught.value).startswith(f"{caught.value.path}: offset {caught.value.offset}: ")
        return caught.value

    return run


def flipped(data, bit):
    data = bytearray(data)
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def patched(data, offset, form, *values):
    data = bytearray(data)
    struct.pack_into("<" + form, data, offset, *values)
    return bytes(data)


def saved_again(content, path):
    """The bytes that saving what was read gives."""
    arrays = {2: content.scales, 3: content.scales_high, 4: content.norms2, 5: content.ids}
    sections = {number: [array] for number, array in arrays.items() if array is not None}
    planes = {0: plane_pieces(content.codes, 0), 1: plane_pieces(content.codes, 1)}
    write_index(path, content.header, {**planes, **sections})
    return path.read_bytes()


def test_every_flipped_bit_is_refused(small, refused):
    hash_table = int.from_bytes(small[40:48], "little")
    bits = [*range(256 * 8), *range(hash_table * 8, len(small) * 8)]
    bits += [8 * byte + byte * 7 % 8 for byte in range(256, hash_table)]
    for bit in bits:
        error = refused(flipped(small, bit))
        assert bit // 8 >= 232 or isinstance(error, CidMismatch) or error.offset <= 224


@pytest.mark.slow
def test_every_flipped_bit_of_the_whole_file_is_refused(small, refused):
    for bit in range(len(small) * 8):
        refused(flipped(small, bit))


def test_every_truncation_is_refused(small, refused):
    for length in range(len(small)):
        error = refused(small[:length])
        assert error.field == "file length"
        assert error.offset == (80 if length >= 256 else length)


@pytest.mark.parametrize("more", [b"\0", b"\n", bytes(64), bytes(4096), b"JVIT", b"JVIT" + bytes(60), b"JVIM" * 400])
def test_every_extension_is_refused(small, refused, more):
    for data in (small, small[:256] + small[256:]):
        error = refused(data + more)
        assert (error.field, error.expected) == (
            "file length",
            f"{len(small) + len(more)}, the size of the file (which was extended)",
        )
        assert error.found == str(len(small))


def test_a_tail_with_the_mark_and_the_present_root_is_a_save_cut_off(small, read, refused):
    mark = b"JVIT" + bytes(4) + small[224:256]
    for tail in (mark, mark + bytes(24), mark + os.urandom(3000)):
        assert read(small + tail).cid == small[224:256].hex()
    for tail in (mark[:-1], flipped(mark, 33), flipped(mark, 8 * 8), b"\0" + mark):
        assert refused(small + tail).field == "file length"


def test_a_file_of_the_other_kind_is_refused(small, rows, refused, tmp_path, forge):
    assert str(refused(small, JVI)).endswith(r"offset 0: magic must be b'JVI\x00', got b'JVIM' (hint: IdMapIndex.load)")
    rows(5, 70, JVI).save(tmp_path / "a.jvi")
    plain = (tmp_path / "a.jvi").read_bytes()
    assert str(refused(plain)).endswith(r"offset 0: magic must be b'JVIM', got b'JVI\x00' (hint: TurboIndex.load)")
    assert refused(forge(JVI + small[4:]), JVI).field == "section 5 (ids) length"
    assert refused(forge(JVIM + plain[4:])).field == "section 5 (ids) length"
    assert refused(b"\x93NUMPY" + bytes(300)).expected == "b'JVIM'"


@pytest.mark.parametrize(
    ("offset", "form", "value", "sentence"),
    [
        (4, "H", 2, "offset 4: version must be 1, got 2"),
        (6, "B", 3, "offset 6: bits must be 1, 2, 4 or 8, got 3"),
        (7, "B", 3, "offset 7: metric must be 0 (ip), 1 (cosine) or 2 (l2), got 3"),
        (8, "I", 0, "offset 8: dim must be 1 to 16384, got 0"),
        (8, "I", 16385, "offset 8: dim must be 1 to 16384, got 16385"),
        (8, "I", 129, "offset 12: padded dim must be 192, got 128"),
        (12, "I", 70, "offset 12: padded dim must be 128, got 70"),
        (16, "Q", 6, "offset 136: section 2 (scales) length must be 24, got 20"),
        (16, "Q", 2**60, f"offset 104: section 0 (codes-high) length must be {2**65}, got 1024"),
        (16, "Q", 2**64 - 1, f"offset 104: section 0 (codes-high) length must be {2**69}, got 1024"),
        (32, "I", 16, "offset 32: block must be 32, got 16"),
        (36, "I", 8, "offset 36: flags must be 0 to 7, got 8"),
        (36, "I", 1, "offset 200: section 6 (calibration) length must be 1040, got 0"),
        (36, "I", 2, "offset 200: section 6 (calibration) length must be a multiple of 8 from 176, got 0"),
        (36, "I", 4, "offset 216: section 7 (sidecar) length must be 700, got 0"),
        (40, "Q", 2**63, "offset 40: hash table offset must be 2560, got 9223372036854775808"),
        (48, "Q", 64, "offset 48: hash table length must be 32, got 64"),
        (56, "Q", 64, "offset 56: patch map offset must be 0, got 64"),
        (64, "Q", 16, "offset 56: patch map offset must be 2656 or more and leave room for the map before 2560, got 0"),
        (64, "Q", 24, "offset 64: patch map length must be 16 to 16, in pairs, got 24"),
        (72, "Q", 2368, "offset 72: body length must be 2304, got 2368"),
        (80, "Q", 2593, "offset 80: file length must be 2592, got 2593"),
        (88, "Q", 1, "offset 88: reserved must be 0, got 1"),
        (96, "Q", 320, "offset 96: section 0 (codes-high) offset must be 256, got 320"),
        (112, "Q", 1216, "offset 112: section 1 (codes-low) offset must be a multiple of 64 from 1280, got 1216"),
        (112, "Q", 1281, "offset 112: section 1 (codes-low) offset must be a multiple of 64 from 1280, got 1281"),
        (120, "Q", 0, "offset 120: section 1 (codes-low) length must be 1024, got 0"),
        (168, "Q", 24, "offset 168: section 4 (norms2) length must be 20, got 24"),
        (192, "Q", 64, "offset 192: section 6 (calibration) offset must be 0 (the section is absent), got 64"),
        (216, "Q", 1399, "offset 216: section 7 (sidecar) length must be 0 or 1400, got 1399"),
        (176, "Q", 2**63, "offset 72: body length must be 9223372036854775616, got 2304"),
        (176, "Q", 2**64 - 64, f"offset 72: body length must be {2**64 - 256}, got 2304"),
    ],
)  # fmt: skip
def test_a_header_with_right_hashes_is_checked_field_by_field(small, refused, forge, offset, form, value, sentence):
    data = patched(small, offset, form, value)
    expected = refused(data)
    assert str(expected).endswith(": " + sentence)
    if offset not in (40, 48, 72):  # what says where the hashes lie
        assert str(refused(forge(data))) == str(expected)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_accepted_is_the_only_file_of_its_content(small, forge, tmp_path, data):
    changed = bytearray(small)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.one_of(st.integers(0, 223), st.integers(0, len(small) - 1)))
        changed[place] = data.draw(st.one_of(st.sampled_from([0, 1, 2, 4, 64, 128, 255]), st.integers(0, 255)))
    path = tmp_path / "forged"
    table = int.from_bytes(changed[40:48], "little")
    path.write_bytes(forge(changed) if table + 32 <= len(changed) else bytes(changed))
    try:
        content = read_index(path, JVIM)
    except IndexFileError:
        return
    assert saved_again(content, tmp_path / "again") == path.read_bytes()


def section_of(data, number):
    return struct.unpack_from("<2Q", data, 96 + 16 * number)


@pytest.mark.parametrize(
    ("section", "place", "form", "value", "sentence"),
    [
        (2, 8, "f", np.nan, "scales of row 2 must be 0, or from 5.42101e-20 to 1.84467e+19, got nan (bits 7fc00000)"),
        (2, 0, "f", np.inf, "scales of row 0 must be 0, or from 5.42101e-20 to 1.84467e+19, got inf (bits 7f800000)"),
        (2, 0, "f", -1, "scales of row 0 must be 0, or from 5.42101e-20 to 1.84467e+19, got -1.0 (bits bf800000)"),
        (2, 16, "f", -0.0, "scales of row 4 must be 0, or from 5.42101e-20 to 1.84467e+19, got -0.0 (bits 80000000)"),
        (2, 0, "I", 1, "scales of row 0 must be 0, or from 5.42101e-20 to 1.84467e+19, got 1e-45 (bits 00000001)"),
        (3, 4, "f", 2.0**64 * 1.01,
         "scales-high of row 1 must be 0, or from 5.42101e-20 to 1.84467e+19, got 1.8631211e+19 (bits 5f8147ae)"),
        (3, 4, "f", 0, "scales-high of row 1 must be above 0, as its scale is, got 0.0"),
        (2, 4, "f", 0, "scales-high of row 1 must be 0, as its scale is, got {}"),
        (4, 12, "f", np.nan, "norms2 of row 3 must be from 0 to 5.31691e+36, got nan (bits 7fc00000)"),
        (4, 0, "f", -0.0, "norms2 of row 0 must be from 0 to 5.31691e+36, got -0.0 (bits 80000000)"),
        (4, 0, "f", 3e38, "norms2 of row 0 must be from 0 to 5.31691e+36, got 3e+38 (bits 7f61b1e6)"),
        (0, 5 * 16 + 3, "B", 7, "codes-high of a row past the last must be 0, got 7"),
        (1, 1024 - 1, "B", 1, "codes-low of a row past the last must be 0, got 1"),
        (2, 20, "B", 1, "gap behind section 2 (scales) must be zero, got 01" + "00" * 43),
        (5, 63, "B", 9, "gap behind section 5 (ids) must be zero, got " + "00" * 23 + "09"),
    ],
)  # fmt: skip
def test_values_are_checked_though_the_hashes_are_right(small, refused, forge, section, place, form, value, sentence):
    offset, length = section_of(small, section)
    error = refused(forge(patched(small, offset + place, form, value)))
    high = np.frombuffer(small, np.float32, 5, section_of(small, 3)[0])[1]
    assert str(error).endswith(": " + sentence.format(str(high)))
    wanted = offset + place
    if "gap" in sentence:
        wanted = offset + length
    elif "as its scale" in sentence:
        wanted = section_of(small, 3)[0] + 4
    assert error.offset == wanted
    assert not isinstance(error, CidMismatch)


def test_a_doubled_id_is_named_with_its_rows(small, refused, forge):
    offset, _ = section_of(small, 5)
    ids = np.frombuffer(small, np.uint64, 5, offset)
    error = refused(forge(patched(small, offset + 24, "Q", int(ids[1]))))
    assert error.offset == offset + 24
    assert str(error).endswith(f"id of row 3 must be one that no other row has, got {ids[1]}, as row 1")


def test_values_that_the_encoder_can_leave_are_read(small, read, forge):
    scales, high, norms, _ = (section_of(small, number)[0] for number in (2, 3, 4, 5))
    for scale, value in ((0.0, 1e-45), (2.0**-64, 2.0**122), (2.0**64, 0.0)):
        data = patched(patched(small, scales, "f", scale), high, "f", scale)
        content = read(forge(patched(data, norms, "f", value)))
        assert (content.scales[0], content.scales_high[0]) == (np.float32(scale),) * 2
        assert content.norms2[0] == np.float32(value)


def craft(n=5, dim=70, bits=4, metric=0, flags=0, sections=None, magic=b"JVI\0", spare=0, patch=False, seed=0):
    """A file of the format with right hashes, made from the page alone. sections: number → bytes in place of zeros."""
    padded, rows = -(-dim // 64) * 64, -(-n // 32) * 32
    lengths = [
        rows * padded * min(bits, 2) // 8, rows * padded // 4 * {4: 1, 8: 3}.get(bits, 0), 4 * n,
        4 * n * (bits == 4), 4 * n * (metric == 2), 8 * n * (magic == b"JVIM"), 0, 0,
    ]  # fmt: skip
    given = sections or {}
    header = bytearray(256)
    struct.pack_into("<4sHBBIIQQII", header, 0, magic, 1, bits, metric, dim, padded, n, seed, 32, flags)
    body = bytearray()
    for number, length in enumerate(lengths):
        content = given.get(number, bytes(length))
        if content:
            struct.pack_into("<2Q", header, 96 + 16 * number, 256 + len(body), len(content))
            body += content + bytes(-len(content) % 64 + (spare if number == 1 else 0))
    table = b"".join(blake3(bytes(body[at : at + 2**20])).digest() for at in range(0, len(body), 2**20))
    tail, place = b"", 256 + len(body)
    if patch:  # as an incremental save that changed block 0 leaves it
        tail = table + bytes(64) + bytes(body[: 2**20])
        struct.pack_into("<2Q", header, 56, place + len(tail), 16)
        tail += struct.pack("<2Q", 0, place + 64)
        tail += bytes(-(place + len(tail)) % 64)
    struct.pack_into("<2Q", header, 40, place + len(tail), len(table))
    struct.pack_into("<2Q", header, 72, len(body), place + len(tail) + len(table))
    header[224:] = blake3(bytes(header) + table).digest()
    return bytes(header) + bytes(body) + tail + table


CALIBRATION = struct.pack("<IIQ", 1, 0, 1024) + bytes(1024)
PARTITION = struct.pack("<IIQ", 2, 0, 156) + struct.pack("<II", 1, 0) + bytes(128) + bytes(20) + bytes(4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"bits": 1}, "offset 6: this version reads files whose bits is 4, got 1; the file may be fine"),
        ({"bits": 2}, "offset 6: this version reads files whose bits is 4, got 2; the file may be fine"),
        ({"bits": 8}, "offset 6: this version reads files whose bits is 4, got 8; the file may be fine"),
        ({"bits": 8, "n": 0}, "offset 6: this version reads files whose bits is 4, got 8; the file may be fine"),
        ({"flags": 1, "sections": {6: CALIBRATION}},
         "offset 36: this version reads files whose flags is 0, got 1; the file may be fine"),
        ({"flags": 2, "sections": {6: PARTITION}},
         "offset 36: this version reads files whose flags is 0, got 2; the file may be fine"),
        ({"flags": 3, "sections": {6: CALIBRATION + PARTITION}},
         "offset 36: this version reads files whose flags is 0, got 3; the file may be fine"),
        ({"flags": 4, "sections": {7: bytes(5 * 70 * 2)}},
         "offset 36: this version reads files whose flags is 0, got 4; the file may be fine"),
        ({"sections": {7: bytes(5 * 70 * 4)}},
         "offset 216: this version reads files whose section 7 (sidecar) length is 0, got 1400; the file may be fine"),
        ({"patch": True},
         "offset 64: this version reads files whose patch map length is 0, got 16; the file may be fine"),
        ({"spare": 128}, "offset 128: this version reads files whose section 2 (scales) offset is 2304, "
         "got 2432 (space is reserved before it); the file may be fine"),
    ],
)  # fmt: skip
def test_what_the_format_allows_and_this_version_does_not_read_is_said_so(refused, arguments, sentence):
    error = refused(craft(**arguments), JVI)
    assert isinstance(error, UnsupportedIndex)
    assert str(error).endswith(": " + sentence)


@pytest.mark.parametrize(
    "arguments",
    [
        {"bits": 2, "sections": {1: bytes(1024)}},
        {"bits": 8, "sections": {1: bytes(1024)}},
        {"flags": 1, "sections": {6: CALIBRATION[:-8]}},
        {"flags": 2, "sections": {6: PARTITION[:-4]}},
        {"flags": 2, "sections": {6: PARTITION[:64]}},
        {"flags": 4},
        {"flags": 4, "n": 0},
        {"flags": 4, "sections": {7: bytes(5 * 70 * 4)}},
        {"sections": {6: CALIBRATION}},
        {"sections": {7: bytes(1396)}},
    ],
)
def test_what_the_format_does_not_allow_is_damage_whatever_the_bits_and_flags(refused, arguments):
    assert not isinstance(refused(craft(**arguments), JVI), UnsupportedIndex)


def test_a_crafted_file_without_fault_is_read(read, rows, tmp_path):
    made = rows(5, 70, JVIM, "l2", 9)
    made.save(tmp_path / "a")
    planes = [b"".join(piece.tobytes() for piece in plane_pieces(made.codes, plane)) for plane in (0, 1)]
    sections = {0: planes[0], 1: planes[1], **{number: array.tobytes() for number, array in made.arrays.items()}}
    assert craft(metric=2, magic=b"JVIM", sections=sections, seed=9) == (tmp_path / "a").read_bytes()


def huge_header(n, dim=64):
    """The 256 bytes of a .jvi with n rows that nobody has, all numbers in it as they must be."""
    header = bytearray(craft(0, dim))[:256]
    struct.pack_into("<Q", header, 16, n)
    end = 256
    for number, length in enumerate((-(-n // 32) * 32 * dim // 4, -(-n // 32) * 32 * dim // 4, 4 * n, 4 * n)):
        struct.pack_into("<2Q", header, 96 + 16 * number, end, length)
        end += -(-length // 64) * 64
    table = -(-(end - 256) // 2**20) * 32
    struct.pack_into("<7Q", header, 40, end, table, 0, 0, end - 256, end + table, 0)
    return bytes(header), end + table


def test_sizes_are_compared_with_the_file_before_anything_is_allocated(tmp_path):
    header, size = huge_header(2**38)
    path = tmp_path / "huge.jvi"
    path.write_bytes(header + bytes(1000))
    with budget(max_bytes=0), pytest.raises(IndexFileError) as caught:
        read_index(path, JVI)
    assert (caught.value.field, caught.value.found) == ("file length", str(size))


def test_sparse_files_of_a_terabyte_are_refused_by_their_root(tmp_path):
    header, size = huge_header(2**34)
    path = tmp_path / "sparse.jvi"
    path.write_bytes(header)
    try:
        os.truncate(path, size)
    except OSError:
        pytest.skip("the file system has no files of a terabyte")
    with budget(max_bytes=0), pytest.raises(CidMismatch) as caught:
        read_index(path, JVI)
    assert (caught.value.field, caught.value.offset) == ("root", 224)


def test_more_rows_than_an_index_holds_are_said_so_before_anything_is_allocated(tmp_path):
    header, size = huge_header(2**32)
    path = tmp_path / "sparse.jvi"
    root = blake3(header[:224] + bytes(32) + bytes(size - struct.unpack_from("<Q", header, 40)[0])).digest()
    path.write_bytes(header[:224] + root)
    try:
        os.truncate(path, size)
    except OSError:
        pytest.skip("the file system has no files of 128 GiB")
    with budget(max_bytes=0), pytest.raises(UnsupportedIndex) as caught:
        read_index(path, JVI)
    assert str(caught.value) == (
        f"{path}: offset 16: this version reads files whose number of rows is at most 4294967232, "
        "got 4294967296; the file may be fine"
    )


def test_no_file_may_have_more_than_2_to_the_44_bytes(tmp_path):
    header, size = huge_header(2**45)
    (tmp_path / "a.jvi").write_bytes(header)
    with pytest.raises(IndexFileError) as caught:
        read_index(tmp_path / "a.jvi", JVI)
    assert str(caught.value).endswith(f": offset 80: file length must be at most {2**44}, got {size}")


def test_a_huge_file_of_right_hashes_is_refused_by_the_budget(rows, tmp_path):
    rows(4000, 128).save(tmp_path / "a")
    with budget(max_bytes=200_000), pytest.raises(MemoryError, match=r"index codes uint8\[125, 2, 32, 32\]"):
        read_index(tmp_path / "a", JVIM)


def test_a_file_that_shrinks_or_changes_while_it_is_read_is_refused(rows, tmp_path, monkeypatch):
    path = tmp_path / "a"
    rows(40_000, 128).save(path)
    check_size = index_file._check_size

    def shrink(*arguments):
        check_size(*arguments)
        os.truncate(path, 3_000_000)

    monkeypatch.setattr(index_file, "_check_size", shrink)
    with pytest.raises(IndexFileError, match=r"file length must be \d+, got 3\d+ \(it changed meanwhile\)$"):
        read_index(path, JVIM)


def test_damage_in_a_later_block_names_the_block(rows, tmp_path):
    rows(40_000, 128).save(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(flipped(data, 8 * (256 + 2 * 2**20 + 5)))
    with pytest.raises(CidMismatch) as caught:
        read_index(tmp_path / "a", JVIM)
    assert (caught.value.field, caught.value.offset) == ("hash of block 2", 256 + 2 * 2**20)


def test_what_is_no_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_index(tmp_path / "none", JVI)
    os.mkfifo(tmp_path / "pipe")
    for path, kind in (
        (tmp_path, "a folder"),
        (tmp_path / "pipe", "a pipe or a device"),
        (Path("/dev/zero"), "a pipe"),
    ):
        with pytest.raises(IndexFileError, match=f": offset 0: file must be a regular file, got {kind}"):
            read_index(path, JVI)


def test_errors_survive_pickling(small, refused):
    for error in (refused(small[:99]), refused(craft(bits=2), JVI), refused(flipped(small, 8 * 300))):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.offset) == (type(error), str(error), error.offset)

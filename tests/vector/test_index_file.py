"""Indexes as files: the page's examples, equal content in equal bytes, and what is read is what was saved."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vector import planes
from vector.index_file import index_cid, plane_pieces, read_index, write_index
from vector.index_header import JVI, JVIM, METRICS, IndexHeader

F = np.float32


@pytest.fixture
def example(repository):
    """example(name): the bytes that a listing of the page shows."""
    text = (repository / "docs" / "formats" / "jvi.md").read_text()

    def decoded(name):
        listing = re.search(rf"```hex-lines {name}\n(.*?)```", text, re.DOTALL)[1]
        data = bytearray()
        for line in listing.splitlines():
            offset, values = line.split("  ")
            data.extend(bytes(int(offset, 16) - len(data)))
            data += bytes.fromhex(values)
        return bytes(data)

    return decoded


def test_the_empty_index_is_the_known_answer(example, tmp_path):
    cid = write_index(tmp_path / "a.jvi", IndexHeader(JVI, dim=100, rows=0), {})
    assert cid == "e40bf47939c967dbf3a550b56eb798f2982294c4cbeac7096c3f6e224ac3fecd"
    assert (tmp_path / "a.jvi").read_bytes() == example("empty")
    content = read_index(tmp_path / "a.jvi", JVI)
    assert (content.cid, content.header.rows, len(content.scales)) == (cid, 0, 0)
    assert content.codes.shape == (0, 2, 32, 32)


def test_the_two_rows_of_the_page_are_written_and_read(example, tmp_path):
    codes = np.zeros((1, 1, 32, 64), np.uint8)
    codes[0, 0, 0] = np.arange(64) % 16
    codes[0, 0, 1] = 15 - np.arange(64) % 16
    nibbles = codes[..., :32] | codes[..., 32:] << 4
    ids = np.array([5, 2**64 - 1], np.uint64)
    sections = {0: plane_pieces(nibbles, 0), 1: plane_pieces(nibbles, 1), 2: [F([0.5, 2])], 3: [F([0.25, 1])]}
    write_index(tmp_path / "a.jvim", IndexHeader(JVIM, 3, 2, 4, "l2", 7), {**sections, 4: [F([4, 9])], 5: [ids]})
    assert (tmp_path / "a.jvim").read_bytes() == example("two-rows")
    content = read_index(tmp_path / "a.jvim", JVIM)
    assert (content.codes == nibbles).all()
    assert content.scales.tolist() == [0.5, 2]
    assert content.scales_high.tolist() == [0.25, 1]
    assert content.norms2.tolist() == [4, 9]
    assert content.ids.tolist() == [5, 2**64 - 1]


@pytest.mark.parametrize(("n", "dim"), [(9000, 192), (70_001, 64), (2048, 1024), (40, 16384)])
def test_sections_that_cross_blocks_of_the_hash_table_are_read_as_they_were(rows, tmp_path, n, dim):
    made = rows(n, dim)
    made.save(tmp_path / "a")
    content = read_index(tmp_path / "a", JVIM)
    assert content.codes.tobytes() == made.codes.tobytes()
    for number, array in {2: content.scales, 3: content.scales_high, 4: content.norms2, 5: content.ids}.items():
        assert array.tobytes() == made.arrays[number].tobytes()


def test_the_page_has_its_table_what_a_reader_rejects_and_a_version_rule(repository):
    text = (repository / "docs" / "formats" / "jvi.md").read_text()
    assert "## A reader rejects" in text
    assert re.search(r"^Version: ", text, re.MULTILINE)
    assert "| offset | size | type | field | rule |" in text


def test_the_plane_of_the_page_holds_two_bits_of_four_coordinates_a_byte():
    codes = np.random.default_rng(1).integers(0, 16, 64).astype(np.uint8)
    high, low = planes.split(codes[:32] | codes[32:] << 4)
    for plane, bits in ((high, codes >> 2), (low, codes & 3)):
        for j in range(16):
            assert [plane[j] >> shift & 3 for shift in (0, 2, 4, 6)] == bits[j::16].tolist()


@given(st.binary(min_size=32, max_size=32 * 40).filter(lambda data: len(data) % 32 == 0))
def test_planes_give_the_nibbles_back(data):
    nibbles = np.frombuffer(data, np.uint8).reshape(-1, 32)
    out = np.empty_like(nibbles)
    planes.join(*planes.split(nibbles), out)
    assert (out == nibbles).all()


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(0, 100),
    dim=st.sampled_from([1, 63, 64, 65, 200, 1000]),
    magic=st.sampled_from([JVI, JVIM]),
    metric=st.sampled_from(METRICS),
    seed=st.integers(0, 2**64 - 1),
)
def test_what_is_read_is_what_was_saved(tmp_path_factory, rows, n, dim, magic, metric, seed):
    path = tmp_path_factory.mktemp("index") / "a"
    made = rows(n, dim, magic, metric, seed)
    cid = made.save(path)
    content = read_index(path, magic)
    assert content.header == made.header
    assert (content.codes == made.codes).all()
    found = {2: content.scales, 3: content.scales_high, 4: content.norms2, 5: content.ids}
    for number, array in found.items():
        assert (array is None) == (number not in made.arrays)
        assert array is None or array.tobytes() == made.arrays[number].tobytes()
    assert content.cid == cid == index_cid(made.header, made.sections())

"""XXH3: the values of the published implementation, kernel and twin alike; the checksum of the engine's blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import _kernels, hashing, xxh3_ref
from storage.engine.sst_file import SstFile

native = pytest.mark.skipif(_kernels.isa() == "ref", reason="DROVEWAY_ISA=ref runs the twins, there is no kernel")

PATTERN = bytes(i * 7 % 251 for i in range(8191))
# Of the first bytes of the pattern, by xxHash itself (the package xxhash 4.1.0): both sides of each change of method.
PUBLISHED = {
    0: 0x2D06800538D394C2, 1: 0xC44BDFF4074EECDB, 3: 0xC3489259E968AD9E, 4: 0xD3D60C1519014E89, 8: 0xB88DEE77F6BF6980,
    9: 0x03688DCAD730D826, 16: 0x9DA23836ADF2BE1E, 17: 0xF34C3C9CF5A112D1, 128: 0x4C659B745F435148,
    129: 0xB85222B83902B6E5, 240: 0xD6DFBF67B0675B54, 241: 0xC614C8C3575348C1, 1024: 0xF22EF3DC84FF47EA,
    1025: 0x43F869A83769A435, 8191: 0x58F2DCE8868BBA8A,
}  # fmt: skip
ALL_LENGTHS = 0x6CB2CF74218AD68A  # of the joined values, little-endian, of its first 0, 1, … 1,200 bytes


@pytest.mark.parametrize("size", PUBLISHED)
def test_xxh3_has_its_published_values(size):
    assert hashing.xxh3(PATTERN[:size]) == xxh3_ref.xxh3(PATTERN[:size]) == PUBLISHED[size]


def test_the_twin_has_the_published_values_of_every_length_up_to_1200():
    joined = b"".join(xxh3_ref.xxh3(PATTERN[:size]).to_bytes(8, "little") for size in range(1201))
    assert xxh3_ref.xxh3(joined) == ALL_LENGTHS


@native
def test_the_kernel_has_the_published_values_of_every_length_up_to_1200():
    joined = b"".join(_kernels.xxh3(PATTERN[:size]).to_bytes(8, "little") for size in range(1201))
    assert _kernels.xxh3(joined) == ALL_LENGTHS


@native
@given(st.one_of(st.binary(max_size=300), st.integers(0, 5000).map(lambda n: PATTERN[1 : n + 1])))
def test_the_kernel_equals_its_twin(data):
    assert _kernels.xxh3(data) == xxh3_ref.xxh3(data)


@native
def test_the_kernel_takes_only_bytes():
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _kernels.xxh3(bytearray(3))


@pytest.fixture
def table(tmp_path):
    """table(checksum, version): path of a table of the engine with 300 keys, in blocks of some 4 kB."""
    import rocksdict

    def make(checksum, version):
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_format_version(version)
        blocks.set_checksum_type(getattr(rocksdict.ChecksumType, checksum)())
        options = rocksdict.Options(raw_mode=True)
        options.set_compression_type(rocksdict.DBCompressionType.none())
        options.set_block_based_table_factory(blocks)
        database = rocksdict.Rdict(str(tmp_path / "db"), options)
        for i in range(300):
            database[i.to_bytes(8, "big")] = PATTERN[: 3 * i]
        database.flush()
        database.close()
        (path,) = (tmp_path / "db").glob("*.sst")
        return path

    return make


def cells_and_faults(path):
    file = SstFile(path)
    try:
        return list(file.cells()), file.faults
    finally:
        file.close()


@pytest.mark.parametrize("version", [2, 5, 6])
@pytest.mark.parametrize("checksum", ["crc32c", "xxh3"])
def test_blocks_are_checked_by_the_checksum_that_the_engine_wrote(table, checksum, version):
    cells, faults = cells_and_faults(table(checksum, version))
    assert faults == []
    assert [(cell.key, cell.value, cell.checked) for cell in cells] == [
        (i.to_bytes(8, "big"), PATTERN[: 3 * i], True) for i in range(300)
    ]


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("checksum", ["crc32c", "xxh3"])
def test_a_flipped_bit_in_a_block_is_found_and_the_other_blocks_stay_checked(table, checksum, version):
    path = table(checksum, version)
    data = bytearray(path.read_bytes())
    data[data.index(PATTERN[:600]) + 300] ^= 4
    path.unlink()
    path.write_bytes(data)
    cells, faults = cells_and_faults(path)
    assert len(faults) == 1
    assert faults[0].endswith("has another checksum")
    wrong = [cell for cell in cells if not cell.checked]
    assert len(cells) == 300
    assert 0 < len(wrong) < 30
    (flipped,) = [cell for cell in cells if cell.value != PATTERN[: 3 * int.from_bytes(cell.key, "big")]]
    assert flipped in wrong


def test_blocks_with_a_checksum_that_is_not_computed_are_given_out_unchecked(table):
    cells, faults = cells_and_faults(table("xxhash64", 6))
    assert faults == []
    assert len(cells) == 300
    assert not any(cell.checked for cell in cells)

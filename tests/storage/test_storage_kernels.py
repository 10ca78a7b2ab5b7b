"""The batch hasher: kernels, twins and published implementations give the same bytes."""

import hashlib

import blake3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import _kernels, hash_ref, hashing, selftest_ref

native = pytest.mark.skipif(_kernels.isa() == "ref", reason="DROVEWAY_ISA=ref runs the twins, there is no kernel")


def levels():
    found = []
    for isa in ("v3", "v4", "neon"):
        try:
            found.append((isa, _kernels.self_test(isa)))
        except ValueError:
            continue
    return found


def test_every_build_prints_the_digests_of_the_twin():
    expected = selftest_ref.digests()
    found = levels()
    assert found
    for isa, digests in found:
        assert digests == expected, isa


def test_an_unknown_build_is_refused():
    with pytest.raises(ValueError, match=r"^self_test: isa must be a build that this CPU has, got .v9.$"):
        _kernels.self_test("v9")


def test_blake3_has_its_published_value():
    assert blake3.blake3(b"abc").hexdigest() == "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"


# Every limit of a block, a chunk and the tree over chunks; of the lanes too, which take 4, 8 or 16 chunks at once.
EDGES = sorted(
    {max(0, size + d) for size in [*range(0, 1088, 64), *(1024 * n for n in range(1, 36))] for d in (-1, 0, 1)}
)


def published_id(data):
    return blake3.blake3(data, derive_key_context="droveway ledger event v1").digest()


def test_ids_of_every_length_equal_the_blake3_package_alone_and_in_a_batch():
    pattern = bytes(i * 7 % 251 for i in range(EDGES[-1]))
    events = [pattern[:size] for size in EDGES]
    expected = [published_id(event) for event in events]
    assert [hashing.event_id(event) for event in events] == expected
    assert hashing.event_ids(events) == expected
    assert hashing.event_ids(events[::-1]) == expected[::-1]


def test_the_twin_hashes_trees_of_chunks_as_the_blake3_package_does():
    for size in (0, 1, 64, 65, 1023, 1024, 1025, 2048, 2049, 3072, 5000, 7168, 7169):
        data = bytes(i * 7 % 251 for i in range(size))
        assert hash_ref.blake3_derive(hash_ref.CONTEXT, data) == hash_ref.event_id(data) == published_id(data)


@given(st.lists(st.one_of(st.binary(max_size=1100), st.integers(0, 9000).map(bytes)), max_size=40))
def test_a_batch_gives_each_event_the_id_it_has_alone(events):
    assert hashing.event_ids(events) == [hashing.event_id(event) for event in events]


@native
@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("width", [1, 40, 41, 54, 55, 56, 62, 63, 64, 65, 119, 120, 127, 128, 1000])
def test_leaf_hashes_equal_hashlib_at_every_padding_limit(width, portable):
    records = bytes(i * 31 % 256 for i in range(width * 5))
    expected = b"".join(hashlib.sha256(b"\0" + records[i : i + width]).digest() for i in range(0, len(records), width))
    assert _kernels.leaf_hashes(records, width, portable) == expected == hash_ref.leaf_hashes(records, width)


@native
@given(st.binary(max_size=640).map(lambda b: b[: len(b) // 64 * 64]))
def test_node_hashes_equal_hashlib_with_and_without_the_cpu_instructions(pairs):
    expected = hash_ref.node_hashes(pairs)
    assert _kernels.node_hashes(pairs) == expected
    assert _kernels.node_hashes(pairs, portable=True) == expected


@native
@given(st.binary(max_size=3000))
def test_crc32c_equals_its_twin(data):
    assert _kernels.crc32c(data) == hash_ref.crc32c(data)


def test_crc32c_has_its_published_value():
    assert hashing.crc32c(b"123456789") == 0xE3069283
    assert hashing.crc32c(b"") == 0


@native
@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: _kernels.leaf_hashes(b"abc", 2), ValueError, "leaf_hashes: records must be a whole number"),
        (lambda: _kernels.leaf_hashes(b"", 0), ValueError, "leaf_hashes: records must be a whole number"),
        (lambda: _kernels.node_hashes(bytes(63)), ValueError, "node_hashes: pairs must be a whole number of 64 bytes"),
        (lambda: _kernels.frontier_extend(3, bytes(32), b""), ValueError, "frontier_extend: a frontier has 32 bytes"),
        (lambda: _kernels.frontier_extend(0, b"", bytes(33)), ValueError, "frontier_extend: leaves must have 32 bytes"),
        (lambda: _kernels.frontier_extend(2**63, bytes(32), b""), ValueError, "frontier_extend: the tree is too large"),
        (lambda: _kernels.frontier_root(b""), ValueError, "frontier_root: a frontier has 32 bytes for each hash"),
        (lambda: _kernels.frontier_root(bytes(33)), ValueError, "frontier_root: a frontier has 32 bytes for each hash"),
        (lambda: _kernels.event_ids(bytes(1025), []), ValueError, "event_ids: context is longer than a chunk"),
        (lambda: _kernels.event_ids(b"x", ["text"]), TypeError, "event_ids: every event must be bytes"),
        (lambda: _kernels.event_ids(b"x", (b"a",)), TypeError, "incompatible function arguments"),
        (
            lambda: _kernels.fingerprint(bytes(31), bytes(32), b"", 1),
            ValueError,
            "fingerprint: key and sum have 32 bytes",
        ),
        (lambda: _kernels.fingerprint(bytes(32), bytes(32), b"abc", 2), ValueError, "fingerprint: records must be"),
        (lambda: _kernels.fingerprint(bytes(32), bytes(32), bytes(1025), 1025), ValueError, "width 1..1024"),
        (lambda: _kernels.crc32c(bytearray(3)), TypeError, "incompatible function arguments"),
    ],
)
def test_hostile_arguments_are_refused(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


@native
def test_large_batches_hashed_without_the_interpreter_lock_are_the_same():
    events = [i.to_bytes(4, "big") * 50 for i in range(2000)]
    assert b"".join(hashing.event_ids(events)) == b"".join(map(hashing.event_id, events))
    leaves = bytes(range(256)) * 41 * 20
    assert _kernels.leaf_hashes(leaves, 41) == hash_ref.leaf_hashes(leaves, 41)
    assert _kernels.frontier_extend(0, b"", leaves[:32000]) == hash_ref.frontier_extend(0, b"", leaves[:32000])

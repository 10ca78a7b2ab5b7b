"""Rotation, codes and scales: the twins define them, the kernels give the same bits, and they do what they are for."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor import reduction_ref
from tensor.random import Key
from tensor.random_ref import philox_block
from tensor.selftest_ref import values
from vector import _kernels, codebook, encoder_ref, rotate_f32, rotation, rotation_ref, unrotate_f32
from vector.nibbles import codes_of_lanes, exchange_in_place, exchanged, lanes_of, rows_of_blocks

F32 = np.dtype(np.float32)
KERNELS = pytest.mark.skipif(_kernels.isa() == "ref", reason="DROVEWAY_ISA=ref has no kernels")
DIMS = st.integers(1, 200) | st.sampled_from([255, 256, 257, 1000, 4096, 4100, 16384])


def test_random_words_are_those_of_philox():
    assert [f"{word:08x}" for word in philox_block(0, (0, 0, 0, 0))] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    order, signs = rotation_ref.tables(128, 77)
    word = philox_block(77, (31, 0, 2 * 1 + rotation_ref.SIGNS, 3))[2]  # round 1, signs, word 126
    assert signs[1, 126] == word & 0x80000000
    assert all(sorted(order[r].tolist()) == list(range(128)) for r in range(2))


def test_the_first_step_of_the_permutation_is_fisher_and_yates():
    words = [philox_block(5, (i // 4, 0, 0, 3))[i % 4] for i in range(64)]
    entries = list(range(64))
    for i in range(63, 0, -1):
        j = words[i] * (i + 1) >> 32
        entries[i], entries[j] = entries[j], entries[i]
    assert rotation_ref.tables(64, 5)[0][0].tolist() == entries


@pytest.mark.parametrize("padded", [64, 128, 192, 1024])
def test_the_transform_is_hadamards_matrix(padded: int):
    size = codebook.block_size(padded)
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    expected = np.kron(np.eye(padded // size), matrix) / np.sqrt(size)
    assert np.abs(rotation_ref.hadamard(np.eye(padded, dtype=np.float32)) - expected).max() < 1e-6


@settings(max_examples=30, deadline=None)
@given(d=DIMS, n=st.integers(0, 40), seed=st.integers(0, 2**64 - 1))
def test_rotation_keeps_lengths_and_comes_back(d: int, n: int, seed: int):
    x = Key(seed).normal((n, d)).numpy()
    y = rotate_f32(x, seed=seed)
    assert np.allclose(np.linalg.norm(y, axis=1), np.linalg.norm(x, axis=1), rtol=1e-5)
    assert np.allclose(unrotate_f32(y, d, seed=seed), x, atol=1e-5 * np.sqrt(d))


@KERNELS
@settings(max_examples=40, deadline=None)
@given(d=DIMS, n=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_kernel_of_the_rotation_has_the_bits_of_the_twin(d: int, n: int, seed: int):
    x = values(seed, n * d, F32).reshape(n, d)
    turn = rotation.rotation_of(codebook.padded_dim(d), seed % 3)
    padded = np.zeros((n, turn.padded), np.float32)
    padded[:, :d] = x
    expected = rotation_ref.rotate(padded, turn.order, turn.signs)
    assert rotate_f32(x, seed=seed % 3).tobytes() == expected.tobytes()
    back = rotation_ref.unrotate(expected, turn.order, turn.signs)[:, :d]
    assert unrotate_f32(expected, d, seed=seed % 3).tobytes() == np.ascontiguousarray(back).tobytes()


@KERNELS
@settings(max_examples=40, deadline=None)
@given(d=DIMS, n=st.integers(1, 70), first=st.integers(0, 60), seed=st.integers(0, 2**32), unit=st.booleans())
def test_kernel_of_the_encoder_has_the_bits_of_the_twin(d: int, n: int, first: int, seed: int, unit: bool):
    x = values(seed, n * d, F32).reshape(n, d) if seed % 2 else Key(seed).normal((n, d)).numpy()
    x[::7] = 0
    turn = rotation.rotation_of(codebook.padded_dim(d), 0)
    limits = codebook.boundaries(turn.padded)
    expected = encoder_ref.encode(x, turn.order, turn.signs, limits, unit)
    places = (first + n + 31) // 32 * 32
    codes = np.full(places * turn.padded // 2, 0xAA, np.uint8)
    columns = [np.full(places, -1, np.float32) for _ in range(3)]
    _kernels.encode_rows(x, turn.order, turn.signs, limits, unit, first, codes, *columns)
    lanes = rows_of_blocks(codes.reshape(-1, turn.padded // 64, 8, 32, 4))
    assert (codes_of_lanes(lanes[first : first + n]) == expected.codes).all()
    assert (lanes[:first] == 0xAA).all()
    assert (lanes[first + n :] == 0xAA).all()
    for column, name in zip(columns, ("scales", "scales_high", "norms2"), strict=True):
        assert column[first : first + n].tobytes() == getattr(expected, name).tobytes()
        assert (column[:first] == -1).all()
        assert (column[first + n :] == -1).all()


@KERNELS
@settings(max_examples=40, deadline=None)
@given(d=DIMS, n=st.integers(1, 40), seed=st.integers(0, 2**32), power=st.integers(-120, 50))
def test_kernel_of_the_queries_has_the_bits_of_the_twin(d: int, n: int, seed: int, power: int):
    q = np.ldexp(Key(seed).normal((n, d)).numpy(), power)
    q[::5] = 0
    turn = rotation.rotation_of(codebook.padded_dim(d), 1)
    found = np.empty((n, turn.padded), np.int8), np.empty(n), np.empty(n)
    _kernels.encode_queries(q, turn.order, turn.signs, *found)
    for one, other in zip(found, encoder_ref.quantise(q, turn.order, turn.signs), strict=True):
        assert one.tobytes() == other.tobytes()


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(1, 9),
    d=st.integers(1, 80) | st.sampled_from([4095, 4096, 4097, 8200, 12300]),
    seed=st.integers(0, 99),
)
def test_sums_are_in_the_order_of_tensor(n: int, d: int, seed: int):
    x, y = (Key(seed + i).normal((n, d)).numpy().astype(np.float64) for i in range(2))
    assert encoder_ref.dot_rows(x, y).tolist() == [float(reduction_ref.dot(a, b)) for a, b in zip(x, y, strict=True)]


def test_each_centroid_is_the_mean_of_its_cell_and_each_boundary_the_middle_of_its_neighbours():
    normal = NormalDist()
    edges = [0.0, *codebook.BOUNDARIES_POSITIVE, 40.0]
    for c, low, high in zip(codebook.CENTROIDS_POSITIVE, edges[:-1], edges[1:], strict=True):
        mass = normal.cdf(high) - normal.cdf(low)
        assert abs((normal.pdf(low) - normal.pdf(high)) / mass - c) < 1e-7
    for c, d, edge in zip(codebook.CENTROIDS_POSITIVE, codebook.CENTROIDS_POSITIVE[1:], edges[1:], strict=False):
        assert abs((c + d) / 2 - edge) < 1e-9
    largest = codebook.CENTROIDS_POSITIVE[-1]
    assert codebook.LEVELS[8:].tolist() == [round(127 * c / largest) for c in codebook.CENTROIDS_POSITIVE]


def test_codes_count_the_boundaries_strictly_below():
    limits = codebook.boundaries(64)
    assert encoder_ref.codes_of(limits[None], limits)[0].tolist() == list(range(15))
    above = np.nextafter(limits, np.float32(np.inf))
    assert encoder_ref.codes_of(above[None], limits)[0].tolist() == list(range(1, 16))
    assert encoder_ref.codes_of(np.array([[-0.0, 9, -9]], np.float32), limits).tolist() == [[7, 15, 0]]


def test_a_lane_holds_eight_coordinates_of_a_row():
    codes = (Key(1).uniform((64, 128)).numpy() * 16).astype(np.uint8)
    lanes = lanes_of(codes)
    assert (codes_of_lanes(lanes) == codes).all()
    assert lanes[9, 1, 3, 2] == codes[9, 64 + 14] | codes[9, 64 + 46] << 4
    blocks = np.ascontiguousarray(lanes.reshape(2, 32, 2, 8, 4).transpose(0, 2, 3, 1, 4))
    by_row = exchanged(blocks)
    assert (by_row[1, 0, 5] == lanes[37, 0].reshape(-1)).all()
    assert (exchange_in_place(by_row.copy()) == blocks).all()
    assert (rows_of_blocks(blocks) == lanes).all()

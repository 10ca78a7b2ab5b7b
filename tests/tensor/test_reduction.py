"""tensor.reduction: one fixed order, whatever the strides, the threads and the kind of array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor import DtypeError, ReadOnlyError, ShapeError, reduction, reduction_ref
from tensor.selftest_ref import awkward, values

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
TYPES = pytest.mark.parametrize("dtype", [F32, F64], ids=str)


def bits(x) -> str:
    return np.asarray(x).tobytes().hex()


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (100, 0x40A5FF00),
        (1000, 0x40EF88FA),
        (4096, 0x410E5258),
        (5000, 0x4111831B),
        (12289, 0x411FE643),
        (100003, 0x4141715E),
    ],
)
def test_sum_of_reciprocals_has_the_published_bits(n, expected):
    x = np.float32(1) / np.arange(1, n + 1, dtype=np.float32)
    assert reduction.sum(x).view(np.uint32) == expected
    assert reduction_ref.sum(x).view(np.uint32) == expected


@TYPES
@settings(max_examples=60, deadline=None)
@given(n=st.integers(0, 9000), seed=st.integers(0, 2**32), stride=st.sampled_from([1, 2, 3, -1, -2]))
def test_strided_sum_and_dot_have_the_bits_of_the_copy_and_of_the_twin(dtype, n, seed, stride):
    x, y = values(seed, n, dtype)[::stride], values(seed + 1, n, dtype)[::stride]
    assert bits(reduction.sum(x)) == bits(reduction.sum(x.copy())) == bits(reduction_ref.sum(x))
    assert bits(reduction.dot(x, y)) == bits(reduction.dot(x.copy(), y.copy())) == bits(reduction_ref.dot(x, y))


@TYPES
@settings(max_examples=60, deadline=None)
@given(n=st.integers(0, 300), seed=st.integers(0, 2**32))
def test_any_bit_patterns_give_the_bits_of_the_twin(dtype, n, seed):
    x, y = awkward(seed, n, dtype), awkward(seed + 1, n, dtype)
    assert bits(reduction.sum(x)) == bits(reduction_ref.sum(x))
    assert bits(reduction.dot(x, y)) == bits(reduction_ref.dot(x, y))


@TYPES
def test_sum_does_not_depend_on_the_number_of_threads(dtype, threads):
    x = values(5, 1_300_001, dtype)
    found = set()
    for n in (1, 2, 3, 7):
        threads(n)
        found.add((bits(reduction.sum(x)), bits(reduction.dot(x, x[::-1]))))
    assert len(found) == 1


@TYPES
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_sum_along_an_axis_equals_the_sum_of_each_line(dtype, axis):
    x = values(9, 5 * 130 * 21, dtype).reshape(5, 130, 21)
    for view in (x, x[::-1, ::2, ::3], x.transpose(2, 0, 1), np.asfortranarray(x)):
        lines = np.moveaxis(view, axis, -1)
        expected = [reduction_ref.sum(line) for line in lines.reshape(-1, lines.shape[-1])]
        found = reduction.sum(view, axis=axis)
        assert found.shape == lines.shape[:-1]
        assert bits(found) == bits(np.array(expected, dtype))


def test_sum_along_a_long_axis_equals_the_sum_of_each_line():
    x = values(9, 9000 * 18, F32).reshape(9000, 18)
    expected = np.array([reduction_ref.sum(x[:, j]) for j in range(18)])
    assert bits(reduction.sum(x, axis=0)) == bits(expected)


def test_sum_of_several_dimensions_is_row_major():
    x = values(3, 7 * 600, F64).reshape(7, 600)
    assert bits(reduction.sum(x.T)) == bits(reduction_ref.sum(x.T.reshape(-1)))


def test_edges_of_the_sum_are_defined():
    assert bits(reduction.sum(np.zeros(0, np.float32))) == "00000000"
    assert bits(reduction.sum(np.float32([-0.0]))) == "00000000"
    assert bits(reduction.sum(np.float32([np.inf, -np.inf]))) == "0000c07f"
    assert bits(reduction.sum(np.array([0xFFC12345], np.uint32).view(np.float32))) == "0000c07f"
    assert bits(reduction.sum(np.float32([1e-45, 1e-45]))) == "02000000"
    assert reduction.sum(np.zeros((0, 3), np.float32), axis=0).tolist() == [0, 0, 0]
    assert reduction.sum(np.zeros((3, 0), np.float32), axis=0).shape == (0,)
    assert reduction.sum(np.float32(4)) == 4


def test_buffers_dlpack_objects_and_misaligned_views_are_arrays():
    x = values(1, 100, F32)

    class OnlyDlpack:
        __dlpack__ = x.__dlpack__
        __dlpack_device__ = x.__dlpack_device__

    packed = np.zeros(100, np.dtype([("tag", "u1"), ("value", "f4")]))
    packed["value"] = x
    for same in (memoryview(x), memoryview(x.tobytes()).cast("f"), OnlyDlpack(), packed["value"]):
        assert bits(reduction.sum(same)) == bits(reduction.sum(x))


def test_out_may_overlap_the_input():
    x = values(1, 64, F32).reshape(8, 8)
    expected = reduction.sum(x, axis=0)
    assert reduction.sum(x, axis=0, out=x[3]) is not None
    assert bits(x[3]) == bits(expected)
    y = np.zeros((8, 2), np.float32)
    reduction.sum(x, axis=0, out=y[:, 1])
    assert bits(y[:, 1]) == bits(reduction.sum(x, axis=0))


def read_only(shape):
    array = np.zeros(shape, np.float32)
    array.flags.writeable = False
    return array


X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: reduction.sum([1.0]),
            DtypeError,
            "sum: x must be an array (buffer or DLPack), got list (hint: numpy.asarray(x, dtype=numpy.float32))",
        ),
        (
            lambda: reduction.sum(np.zeros((2, 3), np.int64)),
            DtypeError,
            "sum: x must be float32 or float64, got int64[2, 3] (hint: x.astype(numpy.float32))",
        ),
        (
            lambda: reduction.sum(np.zeros(2, ">f4")),
            DtypeError,
            "sum: x must be float32 or float64, got >f4[2] (hint: x.astype(numpy.float32))",
        ),
        (
            lambda: reduction.sum(X, axis=2),
            ShapeError,
            "sum: axis must be from -2 to 1 for x = float32[2, 3], got 2",
        ),
        (
            lambda: reduction.sum(X, axis=0, out=np.zeros(2, np.float32)),
            ShapeError,
            "sum: out must have shape (3,), got (2,)",
        ),
        (lambda: reduction.sum(X, axis=0, out=np.zeros(3)), DtypeError, "sum: out must be float32, got float64[3]"),
        (lambda: reduction.sum(X, axis=0, out=read_only(3)), ReadOnlyError, "sum: out is read-only"),
        (
            lambda: reduction.sum(X, out=np.zeros(3, np.float32)),
            ShapeError,
            "sum: out needs an axis, because the sum of all elements is a scalar",
        ),
        (
            lambda: reduction.dot(X[0], X[:, 0]),
            ShapeError,
            "dot: x and y must be vectors of one length, got x = float32[3] and y = float32[2]",
        ),
        (
            lambda: reduction.dot(X[0], np.zeros(3)),
            DtypeError,
            "dot: x and y must have one type, got x = float32[3] and y = float64[3]",
        ),
    ],
)
def test_wrong_arguments_are_named(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text

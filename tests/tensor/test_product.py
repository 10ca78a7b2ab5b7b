"""tensor.product: one chain per element, whatever the tiling, the strides, the threads and the batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor import DtypeError, ReadOnlyError, ShapeError, product, product_ref
from tensor.selftest_ref import awkward, values

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
TYPES = pytest.mark.parametrize("dtype", [F32, F64], ids=str)


def bits(x) -> str:
    return np.ascontiguousarray(x).tobytes().hex()


def matrix(seed, rows, columns, dtype):
    return values(seed, rows * columns, dtype).reshape(rows, columns)


@pytest.mark.parametrize(("k", "expected"), [(5, 0x3E861862), (256, 0x3E7FFE04), (257, 0x3E8000FA), (700, 0x3E7FFFBA)])
def test_row_times_column_has_the_published_bits(k, expected):
    i = np.arange(k, dtype=np.float32)
    a, b = (1 / (i + 1)).reshape(1, k), (np.where(i % 2 == 0, np.float32(1), np.float32(-1)) / (i + 3)).reshape(k, 1)
    assert product.matmul(a, b).view(np.uint32) == expected
    assert product_ref.matmul(a, b).view(np.uint32) == expected


@TYPES
@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(0, 40),
    n=st.integers(0, 70),
    k=st.integers(0, 40) | st.integers(250, 270),
    seed=st.integers(0, 2**32),
    a_order=st.sampled_from("CFR"),
    b_order=st.sampled_from("CFR"),
)
def test_product_has_the_bits_of_the_twin(dtype, m, n, k, seed, a_order, b_order):
    def arranged(x, order):
        return x[::-1].copy()[::-1] if order == "R" else np.asarray(x, order=order)

    a, b = matrix(seed, m, k, dtype), matrix(seed + 1, k, n, dtype)
    assert bits(product.matmul(arranged(a, a_order), arranged(b, b_order))) == bits(product_ref.matmul(a, b))


@TYPES
def test_any_bit_patterns_give_the_bits_of_the_twin(dtype):
    for seed in range(20):
        a, b = awkward(seed, 15 * 9, dtype).reshape(15, 9), awkward(seed + 1, 9 * 34, dtype).reshape(9, 34)
        assert bits(product.matmul(a, b)) == bits(product_ref.matmul(a, b))


@TYPES
def test_product_does_not_depend_on_the_number_of_threads(dtype, threads):
    a, b = matrix(1, 500, 300, dtype), matrix(2, 300, 170, dtype)
    found = set()
    for n in (1, 2, 3, 7):
        threads(n)
        found.add(bits(product.matmul(a, b)))
    assert len(found) == 1


@TYPES
def test_a_row_alone_has_the_bits_of_the_row_in_a_batch(dtype):
    a, b = matrix(1, 64, 784, dtype), matrix(2, 784, 256, dtype)
    batch = product.matmul(a, b)
    for row in (0, 13, 14, 63):
        assert bits(product.matmul(a[row : row + 1], b)) == bits(batch[row])
    for columns in (slice(0, 1), slice(31, 33), slice(200, 256)):
        assert bits(product.matmul(a, b[:, columns])) == bits(batch[:, columns])


def test_products_larger_than_a_packed_part_are_right():
    a, b = matrix(1, 4200, 5, F32), matrix(2, 5, 1100, F32)
    whole = product.matmul(a, b)
    for row in (0, 4095, 4096, 4199):
        assert bits(whole[row]) == bits(product_ref.matmul(a[row : row + 1], b))


def test_nothing_to_multiply_gives_positive_zero():
    assert bits(product.matmul(np.zeros((2, 0), np.float32), np.zeros((0, 2), np.float32))) == "00" * 16
    assert product.matmul(np.zeros((0, 3)), np.zeros((3, 2))).shape == (0, 2)
    assert product.matmul(np.zeros((2, 3)), np.zeros((3, 0))).shape == (2, 0)


def test_infinity_never_reaches_a_neighbour_through_padding():
    a, b = np.zeros((3, 2), np.float32), np.zeros((2, 3), np.float32)
    a[1] = np.inf
    b[:, 2] = np.inf
    assert np.array_equal(
        np.isnan(product.matmul(a, b)), [[False, False, True], [True, True, False], [False, False, True]]
    )


def test_out_may_be_strided_or_overlap_a_factor():
    a, b = matrix(1, 20, 20, F32), matrix(2, 20, 20, F32)
    expected = product.matmul(a, b)
    wide = np.zeros((20, 40), np.float32)
    assert product.matmul(a, b, out=wide[:, ::2]).base is wide
    assert bits(wide[:, ::2]) == bits(expected)
    assert not wide[:, 1::2].any()
    overlapping = a.copy()
    assert product.matmul(overlapping, b, out=overlapping) is overlapping
    assert bits(overlapping) == bits(expected)


def test_failed_allocation_is_a_memory_error(python):
    code = """
import resource
import numpy as np
from tensor import product
a, b, out = np.ones((9000, 256)), np.ones((256, 9000)), np.empty((9000, 9000))
product.matmul(a[:2], b[:, :2])
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 20), used + (2 << 20)))
try:
    product.matmul(a, b, out=out)
except MemoryError as error:
    print(type(error).__name__)
"""
    done = python(code, DROVEWAY_THREADS="1")
    assert (done.stdout, done.returncode) == ("MemoryError\n", 0), done.stderr


A = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: product.matmul(A, A),
            ShapeError,
            "matmul: a must be [m, k] and b [k, n], got a = float32[2, 3] and b = float32[2, 3]",
        ),
        (
            lambda: product.matmul(A, A[0]),
            ShapeError,
            "matmul: a must be [m, k] and b [k, n], got a = float32[2, 3] and b = float32[3]",
        ),
        (
            lambda: product.matmul(A, A.T.astype(float)),
            DtypeError,
            "matmul: a and b must have one type, got a = float32[2, 3] and b = float64[3, 2]",
        ),
        (
            lambda: product.matmul(A, np.zeros((3, 2), np.int32)),
            DtypeError,
            "matmul: b must be float32 or float64, got int32[3, 2] (hint: b.astype(numpy.float32))",
        ),
        (
            lambda: product.matmul(A, A.T, out=np.zeros((2, 3), np.float32)),
            ShapeError,
            "matmul: out must have shape (2, 2), got (2, 3)",
        ),
        (
            lambda: product.matmul(A, A.T, out=np.broadcast_to(np.float32(1), (2, 2))),
            ReadOnlyError,
            "matmul: out is read-only",
        ),
        (
            lambda: product.matmul(
                A, A.T, out=np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2, 2), (0, 0))
            ),
            ReadOnlyError,
            "matmul: out is a broadcast view: several elements share one place in memory",
        ),
    ],
)
def test_wrong_arguments_are_named(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text

"""tensor.sparse: products with scipy's meaning and our order; hostile structures refused before anything is read."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor import DtypeError, ShapeError, _kernels, sparse
from tensor.twins import sparse_ref

TYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def bits(x) -> str:
    return np.ascontiguousarray(x.numpy() if isinstance(x, tn.Tensor) else x).tobytes().hex()


def coo(seed: int, dtype: str, m: int, k: int, stored: int) -> scipy.sparse.coo_array:
    rng = np.random.default_rng(seed)
    places = (rng.integers(0, max(m, 1), stored), rng.integers(0, max(k, 1), stored))
    return scipy.sparse.coo_array((rng.normal(size=stored).astype(dtype), places), shape=(m, k))


@TYPES
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 20), st.integers(0, 30), st.integers(0, 99))
def test_every_format_has_the_bits_of_the_twin_and_scipys_meaning(dtype, m, k, n, stored, seed):
    matrix = coo(seed, dtype, m, k, stored)
    dense = np.random.default_rng(seed).normal(size=(k, n)).astype(dtype)
    a = sparse.from_scipy(matrix)
    assert isinstance(a, sparse.COO)
    found = sparse.spmm(a, tn.asarray(dense))
    order, starts = sparse_ref.grouped(matrix.row.astype(np.int64), m)
    columns = matrix.col.astype(np.int64)[order]
    values = matrix.data[order].reshape(-1, 1, 1)
    assert bits(found) == bits(sparse_ref.product(values, columns, starts, dense))
    by_row = sparse.CSR(*(tn.asarray(part) for part in (values.reshape(-1), columns, starts)), (m, k))
    assert bits(by_row @ tn.asarray(dense)) == bits(found)
    assert np.allclose(found.numpy(), matrix.toarray() @ dense, rtol=1e-4, atol=1e-4)
    assert np.allclose(a.to_dense().numpy(), matrix.toarray(), rtol=1e-5, atol=1e-6)
    assert bits(by_row.to_coo() @ tn.asarray(dense)) == bits(found)


@TYPES
def test_blocks_have_the_bits_of_their_elements_stored_by_row(dtype):
    rng = np.random.default_rng(1)
    matrix = scipy.sparse.bsr_array(
        (rng.normal(size=(5, 2, 3)).astype(dtype), [0, 2, 0, 1, 3], [0, 2, 2, 5]), shape=(6, 12)
    )
    dense = rng.normal(size=(12, 7)).astype(dtype)
    a = sparse.from_scipy(matrix)
    assert isinstance(a, sparse.BSR)
    assert np.allclose((a @ tn.asarray(dense)).numpy(), matrix @ dense, rtol=1e-5, atol=1e-6)
    expanded = sparse.from_scipy(scipy.sparse.coo_array(matrix.toarray()))
    sorted_columns = sparse.BSR(a.values, a.columns, a.starts, (6, 12))
    assert bits(sorted_columns @ tn.asarray(dense)) == bits(expanded @ tn.asarray(dense))


@TYPES
def test_round_trips_through_scipy_keep_every_stored_element(dtype):
    matrix = coo(2, dtype, 6, 5, 12)
    for given_matrix in (matrix, matrix.tocsr(), scipy.sparse.bsr_array(matrix.toarray()[:, :4], blocksize=(2, 2))):
        back = sparse.from_scipy(given_matrix).to_scipy()
        assert back.format == given_matrix.format
        assert np.array_equal(back.toarray(), given_matrix.toarray())
    assert isinstance(sparse.from_scipy(matrix.tocsc()), sparse.CSR)


@TYPES
def test_products_at_chosen_places_have_the_bits_of_the_dense_product(dtype):
    rng = np.random.default_rng(3)
    for k in (0, 1, 255, 256, 700):
        a, b = rng.normal(size=(9, k)).astype(dtype), rng.normal(size=(k, 11)).astype(dtype)
        rows, columns = rng.integers(0, 9, 100), rng.integers(0, 11, 100)
        mask = sparse.COO(tn.ones(100, dtype=dtype), tn.asarray(rows), tn.asarray(columns), (9, 11))
        product = (tn.asarray(a) @ tn.asarray(b)).numpy()
        assert bits(sparse.sddmm(tn.asarray(a), tn.asarray(b), mask).values) == bits(product[rows, columns])
        by_row = sparse.from_scipy(scipy.sparse.csr_array(np.ones((9, 11), dtype)))
        assert bits(sparse.sddmm(tn.asarray(a), tn.asarray(b), by_row).values) == bits(product.reshape(-1))
        strided = tn.asarray(np.asfortranarray(a))[::-1]
        again = sparse.sddmm(strided, tn.asarray(b), mask).values
        assert bits(again) == bits(product[::-1][rows, columns])


def test_duplicates_add_in_stored_order():
    one = np.float32(1)
    values = [2.0**24, 1.0, -(2.0**24)]
    a = sparse.COO(tn.asarray(values), tn.asarray([0, 0, 0]), tn.asarray([0, 0, 0]), (1, 1))
    assert (a @ tn.ones((1, 1))).item() == float((np.float32(2**24) + one) - np.float32(2**24)) == 0.0
    b = sparse.COO(tn.asarray([values[0], values[2], 1.0]), tn.asarray([0, 0, 0]), tn.asarray([0, 0, 0]), (1, 1))
    assert (b @ tn.ones((1, 1))).item() == 1.0


@TYPES
def test_products_do_not_depend_on_the_number_of_threads(dtype, threads):
    a, dense = sparse.from_scipy(coo(4, dtype, 500, 60, 4000)), tn.asarray(np.ones((60, 9), dtype))
    found = set()
    for n in (1, 2, 3, 7):
        threads(n)
        found.add(bits(a @ dense))
    assert len(found) == 1


def test_gradients_reach_the_values_and_the_dense_factor():
    values, dense = tn.asarray([2.0, 3.0, 4.0]).requires_grad_(), tn.ones((2, 2)).requires_grad_()
    a = sparse.COO(values, tn.asarray([0, 1, 1]), tn.asarray([0, 0, 1]), (2, 2))
    (a @ dense).sum().backward()
    assert values.grad.tolist() == [2.0, 2.0, 2.0]
    assert dense.grad.tolist() == [[5.0, 5.0], [4.0, 4.0]]


def three(values=(1.0, 2.0), columns=(0, 1), starts=(0, 1, 2), shape=(2, 2)):
    return sparse.CSR(tn.asarray(list(values)), tn.asarray(list(columns)), tn.asarray(list(starts)), shape)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: three(columns=(0, 2)), IndexError, "CSR: columns[1] is 2, and there are 2"),
        (lambda: three(columns=(-1, 0)), IndexError, "CSR: columns[0] is -1, and there are 2"),
        (lambda: three(columns=(0, -(2**62))), IndexError, f"CSR: columns[1] is {-(2**62)}, and there are 2"),
        (
            lambda: three(starts=(0, 3, 2)),
            ShapeError,
            "CSR: starts must rise from 0 to the number of stored values, 2",
        ),
        (
            lambda: three(starts=(1, 1, 2)),
            ShapeError,
            "CSR: starts must rise from 0 to the number of stored values, 2",
        ),
        (lambda: three(starts=(0, 2)), ShapeError, "CSR: starts must have 3 numbers for 2 rows, got 2"),
        (lambda: three(columns=(0,)), ShapeError, "CSR: 1 columns for 2 stored values"),
        (
            lambda: three(columns=(0.0, 1.0)),
            DtypeError,
            "CSR: columns must be int64 with one dimension, got float32[2]",
        ),
        (lambda: three(values=(1, 2)), DtypeError, "CSR: values must be float32 or float64[stored], got int64[2]"),
        (lambda: three(shape=(2, -1)), ShapeError, "CSR: shape must be two numbers from 0 up, got (2, -1)"),
        (
            lambda: sparse.COO(tn.ones(1), tn.asarray([5]), tn.asarray([0]), (2, 2)),
            IndexError,
            "COO: rows[0] is 5, and there are 2",
        ),
        (
            lambda: sparse.BSR(tn.ones((1, 2, 2)), tn.asarray([0]), tn.asarray([0, 1]), (2, 3)),
            ShapeError,
            "BSR: shape (2, 3) must be whole blocks of 2 by 2",
        ),
        (lambda: three() @ tn.ones((3, 1)), ShapeError, "spmm: a matrix (2, 2) times a tensor of shape (3, 1)"),
        (
            lambda: three() @ tn.ones((2, 1), dtype="float64"),
            DtypeError,
            "spmm: values and dense must have one type, got float32 and float64",
        ),
        (lambda: sparse.spmm(3, tn.ones(2)), TypeError, "spmm: expected a CSR or COO matrix, got int"),
        (lambda: sparse.from_scipy([1]), TypeError, "from_scipy: expected a matrix of scipy.sparse, got list"),
    ],
)
def test_a_structure_that_is_none_is_named(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def test_an_index_changed_after_the_check_is_never_used_to_read():
    columns, starts = tn.asarray([0, 1]), tn.asarray([0, 1, 2])
    a = sparse.CSR(tn.ones(2), columns, starts, (2, 2))
    columns[1] = 10**15
    with pytest.raises(IndexError, match=r"^sparse: columns\[1\] is 1000000000000000, and there are 2$"):
        a @ tn.ones((2, 1))
    columns[1] = 0
    starts[1] = 10**15
    with pytest.raises(ValueError, match=r"^sparse: starts\[1\] is 1000000000000000: starts must rise from 0"):
        a @ tn.ones((2, 1))


def test_the_bindings_refuse_arrays_that_do_not_fit_together():
    good = [np.ones((2, 1, 1), np.float32), np.array([0, 1]), np.array([0, 1, 2]), np.ones((2, 3), np.float32)]
    out = np.zeros((2, 3), np.float32)
    _kernels.sparse_product(*good, out)
    assert out.tolist() == [[1.0] * 3] * 2
    for place, wrong in (
        (0, np.ones((2, 1), np.float32)),
        (0, np.ones((2, 1, 1))),
        (0, np.ones((4, 1, 1), np.float32)[::2]),
        (1, np.array([0, 1], np.int32)),
        (1, np.array([0, 1, 0])),
        (2, np.array([0, 2])),
        (3, np.ones((3, 2), np.float32).T),
        (3, out),
    ):
        arrays = list(good)
        arrays[place] = wrong
        with pytest.raises((ValueError, TypeError)):
            _kernels.sparse_product(*arrays, out)

"""tensor.linalg: what every decomposition promises, for batches, strides and odd shapes, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor import DtypeError, GradientError, LinalgError, ShapeError, _kernels, linalg

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52}


def bits(*tensors) -> str:
    return "".join(np.ascontiguousarray(t.numpy()).tobytes().hex() for t in tensors)


def normal(seed: int, dtype: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype.startswith("complex") else x).astype(dtype)


def hermitian(x: np.ndarray) -> np.ndarray:
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def positive(seed: int, dtype: str, *shape: int) -> np.ndarray:
    x = normal(seed, dtype, *shape).astype(complex if dtype.startswith("complex") else float)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])).astype(dtype)


def close(found, expected, dtype: str, units: float) -> bool:
    """Whether found is within so many last places of the largest expected element."""
    a, b = np.asarray(found, complex), np.asarray(expected, complex)
    size = np.abs(b).max(initial=1e-300)
    return a.shape == b.shape and bool(np.abs(a - b).max(initial=0.0) <= units * EPSILON[dtype] * size)


def wide(x) -> np.ndarray:
    return x.numpy().astype(complex)


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


shapes = st.tuples(st.sampled_from([(), (2,), (0,), (2, 1)]), st.integers(0, 7), st.integers(0, 7))


@DTYPES
@settings(max_examples=15, deadline=None)
@given(shapes, st.integers(0, 999))
def test_q_has_orthonormal_columns_and_q_times_r_is_the_matrix(dtype, shape, seed):
    batch, m, n = shape
    x = normal(seed, dtype, *batch, m, n)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(tn.asarray(x), mode=mode)
        k = q.shape[-1]
        assert k == (m if mode == "complete" else min(m, n))
        assert close(wide(q) @ wide(r), x, dtype, 20)
        assert close(adjoint(wide(q)) @ wide(q), np.broadcast_to(np.eye(k), (*batch, k, k)), dtype, 20)
        assert not np.tril(r.numpy(), -1).any()


@DTYPES
@settings(max_examples=15, deadline=None)
@given(shapes, st.integers(0, 999))
def test_singular_values_descend_and_the_product_is_the_matrix(dtype, shape, seed):
    batch, m, n = shape
    x = normal(seed, dtype, *batch, m, n)
    for full in (False, True):
        u, s, vh = (part.numpy() for part in linalg.svd(tn.asarray(x), full_matrices=full))
        k = min(m, n)
        assert s.dtype == x.real.dtype
        assert (np.diff(s, axis=-1) <= 0).all()
        assert (s >= 0).all()
        assert close((u[..., :k].astype(complex) * s[..., None, :]) @ vh[..., :k, :].astype(complex), x, dtype, 30)
        for vectors in (adjoint(u), vh):
            gram = vectors.astype(complex) @ adjoint(vectors.astype(complex))
            assert close(gram, np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), dtype, 30)


@DTYPES
@settings(max_examples=15, deadline=None)
@given(st.sampled_from([(), (2,), (0,)]), st.integers(0, 8), st.integers(0, 999))
def test_eigenvalues_ascend_and_the_product_is_the_matrix(dtype, batch, n, seed):
    x = hermitian(normal(seed, dtype, *batch, n, n))
    w, v = (part.numpy() for part in linalg.eigh(tn.asarray(x)))
    assert (np.diff(w, axis=-1) >= 0).all()
    assert close((v.astype(complex) * w[..., None, :]) @ adjoint(v.astype(complex)), x, dtype, 30)
    assert close(adjoint(v.astype(complex)) @ v, np.broadcast_to(np.eye(n), (*batch, n, n)), dtype, 30)


@DTYPES
@settings(max_examples=15, deadline=None)
@given(shapes, st.integers(0, 999))
def test_p_l_u_are_what_they_are_called_and_their_product_is_the_matrix(dtype, shape, seed):
    batch, m, n = shape
    x = normal(seed, dtype, *batch, m, n)
    p, lower, upper = (wide(part) for part in linalg.lu(tn.asarray(x)))
    assert close(p @ lower @ upper, x, dtype, 20)
    assert (p.sum(-1) == 1).all()
    assert (p.sum(-2) == 1).all()
    assert not np.triu(lower, 1).any()
    assert not np.tril(upper, -1).any()
    assert (np.abs(lower) <= math.sqrt(2) + 1e-6).all()


@DTYPES
def test_the_pivot_is_the_first_of_several_largest(dtype):
    x = np.array([[1, 0], [-1, 1], [1, 2]], dtype)
    assert linalg.lu(tn.asarray(x)).P.numpy().real.argmax(0).tolist() == [0, 2, 1]


@DTYPES
@settings(max_examples=15, deadline=None)
@given(st.sampled_from([(), (2,), (0,)]), st.integers(0, 8), st.integers(0, 999))
def test_cholesky_times_its_adjoint_is_the_matrix(dtype, batch, n, seed):
    x = positive(seed, dtype, *batch, n, n)
    lower = wide(linalg.cholesky(tn.asarray(x)))
    assert close(lower @ adjoint(lower), hermitian(x), dtype, 20)
    assert not np.triu(lower, 1).any()
    assert np.array_equal(wide(linalg.cholesky(tn.asarray(x), upper=True)), adjoint(lower))


@DTYPES
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 8), st.integers(0, 4), st.integers(0, 999))
def test_solutions_solve(dtype, n, k, seed):
    a, b = positive(seed, dtype, 2, n, n), normal(seed + 1, dtype, n, k)
    y = wide(linalg.solve(tn.asarray(a), tn.asarray(b)))
    assert close(a.astype(complex) @ y, np.broadcast_to(b, (2, n, k)), dtype, 400)
    vector = normal(seed, dtype, n)
    assert close(
        a.astype(complex) @ wide(linalg.solve(tn.asarray(a), tn.asarray(vector)))[..., None],
        np.broadcast_to(vector[:, None], (2, n, 1)),
        dtype,
        400,
    )
    factor = linalg.cholesky(tn.asarray(a))
    assert close(wide(linalg.cholesky_solve(factor, tn.asarray(b))), y, dtype, 400)
    assert close(a.astype(complex) @ wide(linalg.inv(tn.asarray(a))), np.broadcast_to(np.eye(n), a.shape), dtype, 400)
    for lower in (False, True):
        triangle = (np.tril if lower else np.triu)(a)
        for transpose in (False, True):
            y = wide(linalg.tri_solve(tn.asarray(a), tn.asarray(b), lower=lower, transpose=transpose))
            side = np.swapaxes(triangle, -1, -2) if transpose else triangle
            assert close(side.astype(complex) @ y, np.broadcast_to(b, (2, n, k)), dtype, 4000)


@DTYPES
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 8), st.integers(0, 999))
def test_determinants_agree_with_numpy(dtype, n, seed):
    x = normal(seed, dtype, 3, n, n)
    expected = np.linalg.det(x.astype(complex))
    assert close(linalg.det(tn.asarray(x)).numpy(), expected, dtype, 100)
    sign, size = linalg.slogdet(tn.asarray(x))
    assert close(wide(sign) * np.exp(size.numpy().astype(float)), expected, dtype, 100)


@DTYPES
def test_a_matrix_of_a_batch_has_the_bits_of_the_matrix_alone_whatever_its_strides(dtype):
    x = positive(5, dtype, 3, 6, 6)
    calls = [linalg.cholesky, linalg.inv, linalg.det, linalg.slogdet, linalg.qr, linalg.svd, linalg.eigh, linalg.lu]
    spread = np.zeros((3, 12, 18), dtype)
    spread[:, ::2, 17::-3] = x
    for call in calls:
        together = call(tn.asarray(x))
        together = together if isinstance(together, tuple) else (together,)
        view = tn.asarray(spread)[:, ::2, 17::-3]
        strided = call(view)
        assert bits(*(strided if isinstance(strided, tuple) else (strided,))) == bits(*together), call.__name__
        for i in range(3):
            alone = call(tn.asarray(np.asfortranarray(x[i])))
            alone = alone if isinstance(alone, tuple) else (alone,)
            assert bits(*alone) == bits(*(part[i] for part in together)), call.__name__


@DTYPES
def test_results_do_not_depend_on_the_number_of_threads(dtype, threads):
    x = positive(6, dtype, 40, 9, 9)
    found = set()
    for n in (1, 2, 3, 7):
        threads(n)
        found.add(bits(*linalg.svd(tn.asarray(x)), *linalg.eigh(tn.asarray(x)), linalg.inv(tn.asarray(x))))
    assert len(found) == 1


def test_results_do_not_depend_on_the_hosts_float_mode(hostile_mode):
    x = tn.asarray(positive(7, "float32", 5, 5) * np.float32(1e-38))
    calmly = bits(*linalg.svd(x), *linalg.qr(x), linalg.cholesky(x))
    with hostile_mode():
        found = (*linalg.svd(x), *linalg.qr(x), linalg.cholesky(x))
    assert bits(*found) == calmly


@DTYPES
def test_sizes_from_the_smallest_to_the_largest_number_are_decomposed(dtype):
    limits = np.finfo(dtype)
    for scale in (limits.tiny * 4, limits.max / 64):
        x = (normal(8, dtype, 5, 4) * scale).astype(dtype)
        u, s, vh = (part.numpy().astype(complex) for part in linalg.svd(tn.asarray(x), full_matrices=False))
        assert close((u * (s / scale)[..., None, :]) @ vh, x / scale, dtype, 2000)
        q, r = (part.numpy().astype(complex) for part in linalg.qr(tn.asarray(x)))
        assert close(q @ (r / scale), x / scale, dtype, 2000)


@DTYPES
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10**6))
def test_elements_of_very_different_sizes_are_decomposed(dtype, m, n, seed):
    rng = np.random.default_rng(seed)
    wide_range = [0, -10, -40, -100, -154, -170, -300, 20, 154, 300]
    exponents = [0, -10, -30, -38, 20, 37] if EPSILON[dtype] > 1e-10 else wide_range
    x = normal(seed, dtype, m, n).astype(np.clongdouble) * 10.0 ** rng.choice(exponents, size=(m, n))
    x = np.where(rng.random((m, n)) < 0.3, 0, x)
    x = (x if dtype.startswith("complex") else x.real).astype(dtype)
    exact = x.astype(np.clongdouble)
    largest = np.abs(exact).max() or 1.0
    u, s, vh = (part.numpy().astype(np.clongdouble) for part in linalg.svd(tn.asarray(x), full_matrices=False))
    assert close(((u * s) @ vh) / largest, exact / largest, dtype, 60)
    for gram in (adjoint(u) @ u, vh @ adjoint(vh)):
        assert close(gram, np.eye(min(m, n)), dtype, 60)
    h = hermitian(x[: min(m, n), : min(m, n)] / 2)
    w, v = (part.numpy().astype(np.clongdouble) for part in linalg.eigh(tn.asarray(h)))
    exact = h.astype(np.clongdouble)
    largest = np.abs(exact).max() or 1.0
    assert close(((v * w) @ adjoint(v)) / largest, exact / largest, dtype, 60)


@DTYPES
def test_a_matrix_of_low_rank_still_gets_orthonormal_vectors(dtype):
    for x in (np.zeros((4, 3), dtype), np.ones((4, 4), dtype), normal(9, dtype, 6, 1) @ normal(10, dtype, 1, 5)):
        u, _, vh = (part.numpy().astype(complex) for part in linalg.svd(tn.asarray(x)))
        assert close(adjoint(u) @ u, np.eye(len(u)), dtype, 40)
        assert close(vh @ adjoint(vh), np.eye(len(vh)), dtype, 40)
        assert int(linalg.matrix_rank(tn.asarray(x)).item()) == (1 if x.any() else 0)


@DTYPES
def test_the_pseudo_inverse_has_the_four_properties_of_penrose(dtype):
    for x in (normal(11, dtype, 4, 3), normal(12, dtype, 5, 2) @ normal(13, dtype, 2, 4), np.zeros((2, 3), dtype)):
        a, p = x.astype(complex), wide(linalg.pinv(tn.asarray(x)))
        assert close(a @ p @ a, a, dtype, 200)
        assert close(p @ a @ p, p, dtype, 200)
        assert close(adjoint(a @ p), a @ p, dtype, 200)
        assert close(adjoint(p @ a), p @ a, dtype, 200)


@DTYPES
@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_matrix_norms_agree_with_numpy(dtype, ord):
    x = normal(14, dtype, 2, 4, 3)
    expected = np.array([np.linalg.norm(m.astype(complex), ord) for m in x])
    assert close(linalg.matrix_norm(tn.asarray(x), ord=ord).numpy(), expected, dtype, 20)
    kept = linalg.matrix_norm(tn.asarray(x), ord=ord, keepdims=True)
    assert kept.shape == (2, 1, 1)


@DTYPES
@pytest.mark.parametrize("ord", [0, 1, 2, 3, -1, 0.5, math.inf, -math.inf])
def test_vector_norms_agree_with_numpy(dtype, ord):
    x = normal(15, dtype, 3, 5)
    expected = np.linalg.norm(x.astype(complex), ord, axis=1)
    assert close(linalg.vector_norm(tn.asarray(x), axis=1, ord=ord).numpy(), expected, dtype, 50)
    flat = np.linalg.norm(x.astype(complex).ravel(), ord)
    assert close(linalg.vector_norm(tn.asarray(x), ord=ord).numpy(), flat, dtype, 50)
    assert linalg.vector_norm(tn.asarray(x), axis=(0, 1), ord=ord, keepdims=True).shape == (1, 1)


@pytest.mark.parametrize("offset", range(-4, 6))
def test_diagonals_traces_and_cross_products_agree_with_numpy(offset):
    x = np.arange(24).reshape(2, 3, 4)
    for view in (x, x[::-1], np.swapaxes(x, 0, 2)):
        found = linalg.diagonal(tn.asarray(view), offset=offset).numpy()
        assert np.array_equal(found, np.diagonal(view, offset, -2, -1))
        assert np.array_equal(linalg.trace(tn.asarray(view), offset=offset).numpy(), np.trace(view, offset, -2, -1))
    a, b = normal(offset + 9, "float64", 2, 1, 3), normal(offset + 10, "float64", 4, 3)
    assert np.allclose(linalg.cross(tn.asarray(a), tn.asarray(b)).numpy(), np.cross(a, b), rtol=1e-14, atol=1e-15)


def test_powers_are_products_of_the_matrix_or_its_inverse():
    x = normal(16, "float64", 2, 3, 3)
    for n in (0, 1, 2, 5, 8, -1, -3):
        found = linalg.matrix_power(tn.asarray(x), n).numpy()
        assert np.allclose(found, np.linalg.matrix_power(x, n), rtol=1e-9)


@DTYPES
def test_condition_and_logarithm_of_the_determinant_agree_with_numpy(dtype):
    x = positive(17, dtype, 2, 4, 4)
    assert close(linalg.cond(tn.asarray(x)).numpy(), np.linalg.cond(x.astype(complex)), dtype, 100)
    if not dtype.startswith("complex"):
        assert close(linalg.logdet(tn.asarray(x)).numpy(), np.log(np.linalg.det(x.astype(float))), dtype, 100)
        assert math.isnan(linalg.logdet(tn.asarray(np.diag([1, -1]).astype(dtype))).item())


SINGULAR = np.array([[1.0, 2, 3], [2, 4, 6], [1, 1, 1]])
LOPSIDED = np.array([[1.0, 2], [0, 1]])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: linalg.inv(tn.asarray(SINGULAR)), LinalgError, "inv: the matrix is singular: pivot 2 is 0"),
        (
            lambda: linalg.solve(tn.asarray(np.stack([np.eye(3), SINGULAR])), tn.ones((3, 1), dtype="float64")),
            LinalgError,
            "solve: matrix 1 of the batch: the matrix is singular: pivot 2 is 0",
        ),
        (
            lambda: linalg.tri_solve(tn.asarray([[1.0, 1], [0, 0]]), tn.ones(2)),
            LinalgError,
            "tri_solve: the matrix is singular: element 1 of its diagonal is 0",
        ),
        (
            lambda: linalg.cholesky(tn.asarray([[1.0, 2], [2, 1]])),
            LinalgError,
            "cholesky: the matrix is not positive definite: pivot 1 is not above 0",
        ),
        (
            lambda: linalg.eigh(tn.asarray(LOPSIDED)),
            LinalgError,
            "eigh: the matrix must equal its conjugate transpose within 2^-40 of its largest element "
            "(hint: (x + x.mT) / 2, or svd)",
        ),
        (
            lambda: linalg.eigh(tn.asarray([[math.nan]])),
            LinalgError,
            "eigh: the matrix has a NaN or an infinity",
        ),
        (lambda: linalg.svd(tn.asarray([[math.inf]])), LinalgError, "svd: the matrix has a NaN or an infinity"),
        (lambda: linalg.inv(tn.ones((2, 3))), ShapeError, "inv: the matrix must be square, got shape (2, 3)"),
        (lambda: linalg.qr(tn.ones(3)), ShapeError, "qr: expected a matrix, or a batch of them, got shape (3,)"),
        (
            lambda: linalg.det(tn.ones((2, 2), dtype="int32")),
            DtypeError,
            "det: int32 is not computed with (hint: astype(x, float32))",
        ),
        (lambda: linalg.svd([[1.0]]), TypeError, "svd: expected a Tensor, got list (hint: asarray)"),
        (
            lambda: linalg.solve(tn.ones((2, 2)), tn.ones((3, 1))),
            ShapeError,
            "solve: a must be [..., n, n] and b [..., n, k] with the same batch, got a = (2, 2) and b = (3, 1)",
        ),
        (
            lambda: linalg.qr(tn.ones((2, 2)), mode="raw"),
            ValueError,
            "qr: mode must be 'reduced' or 'complete', got 'raw'",
        ),
        (
            lambda: linalg.matrix_norm(tn.ones((2, 2)), ord=3),
            ValueError,
            "matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got 3",
        ),
        (lambda: linalg.matrix_power(tn.ones((2, 2)), 1.5), TypeError, "matrix_power: n must be an int, got float"),
        (
            lambda: linalg.cross(tn.ones(2), tn.ones(2)),
            ShapeError,
            "cross: vectors must have 3 elements, got shapes (2,) and (2,)",
        ),
    ],
)
def test_what_has_no_answer_is_named(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


@pytest.mark.parametrize(("dtype", "exponent"), [("float32", 16), ("float64", 40)])
def test_eigh_takes_an_asymmetry_up_to_its_tolerance_and_no_more(dtype, exponent):
    x = np.array([[1, 0.5], [0.5, 1]], dtype)
    x[0, 1] += 2.0**-exponent
    assert linalg.eigvalsh(tn.asarray(x)).shape == (2,)
    x[0, 1] += 2.0 ** (-exponent - 4)
    with pytest.raises(LinalgError):
        linalg.eigvalsh(tn.asarray(x))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: linalg.qr(x, mode="complete").Q,
            "qr: mode 'complete' of a tall matrix has no gradient (hint: mode='reduced')",
        ),
        (
            lambda x: linalg.svd(x).U,
            "svd: full_matrices=True has no gradient unless the matrix is square (hint: False)",
        ),
    ],
)
def test_what_has_no_gradient_is_named(call, text):
    x = tn.ones((3, 2)).requires_grad_()
    with pytest.raises(GradientError) as caught:
        call(x).sum().backward()
    assert str(caught.value) == text


def test_a_budget_counts_the_workspace():
    x = tn.ones((64, 64), dtype="float64")
    with tn.budget(max_bytes=1 << 20) as budget:
        linalg.qr(x)
    assert budget.peak_bytes > 4 * 64 * 64 * 8
    with tn.budget(max_bytes=100_000), pytest.raises(tn.BudgetExceeded, match="workspace of linalg"):
        linalg.svd(x)


F32, F64 = np.float32, np.float64


@pytest.mark.parametrize(
    ("op", "inputs", "outputs"),
    [
        (-1, [np.eye(2)], [np.eye(2)]),
        (10, [np.eye(2)], [np.eye(2)]),
        (0, [], [np.eye(2)]),
        (0, [np.eye(2)], []),
        (0, [np.eye(2)] * 3, [np.eye(2)]),
        (0, [np.eye(2)], [np.eye(2)] * 4),
        (0, [np.eye(2)], [np.eye(3)]),
        (0, [np.eye(2)], [np.eye(2, dtype=F32)]),
        (0, [np.eye(2, dtype=np.int64)], [np.eye(2, dtype=np.int64)]),
        (0, [np.ones(2)], [np.ones(2)]),
        (0, [np.ones((2, 3))], [np.ones((2, 3))]),
        (0, [np.ones((2, 2, 2))], [np.ones((3, 2, 2))]),
        (1, [np.eye(2)], [np.eye(2), np.zeros(2, np.int32)]),
        (1, [np.eye(2)], [np.eye(2)]),
        (2, [np.eye(2)], [np.zeros(1)]),
        (4, [np.eye(2)], [np.zeros((2, 1))]),
        (4, [np.eye(2), np.zeros((3, 1))], [np.zeros((2, 1))]),
        (4, [np.eye(2), np.zeros((2, 1), F32)], [np.zeros((2, 1))]),
        (7, [np.ones((3, 2))], [np.ones((3, 3)), np.ones((2, 2))]),
        (8, [np.eye(2, dtype=complex)], [np.zeros(2, complex), np.eye(2, dtype=complex)]),
        (9, [np.ones((3, 2))], [np.ones((3, 2)), np.ones(3), np.ones((2, 2))]),
        (0, [[[1.0]]], [np.eye(1)]),
        (0, [np.eye(2)], [np.broadcast_to(0.0, (2, 2))]),
    ],
)
def test_the_binding_refuses_arrays_that_do_not_fit_together(op, inputs, outputs):
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        _kernels.linalg(op, inputs, outputs, False, False, False)

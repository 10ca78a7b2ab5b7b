"""Exact search: the twin's bits for any batch, threads and strides; the order is total; bad input is named."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor import BudgetExceeded, budget, reduction_ref
from vector import VectorTypeError, VectorValueError, _kernels, exact_ref, exact_search, metrics

METRICS = ("ip", "cosine", "l2")
SHAPES = [
    *((1, 1, 1, 1), (2, 5, 1, 2), (7, 6, 5, 7), (100, 6, 100, 10), (300, 40, 64, 7), (70, 17, 65, 70)),
    *((4200, 20, 33, 5), (40, 9, 4097, 3), (6, 7, 9000, 4), (3, 2, 16384, 3)),
]


def vectors(*shape, seed=0, scale=1.0):
    return (np.random.default_rng([*shape, seed]).normal(size=shape) * scale).astype(np.float32)


def of_the_twin(x, q, k, metric):
    number = METRICS.index(metric)
    found = exact_ref.exact_search(x, q, min(k, len(x)), number, metrics.norms(x), metrics.norms(q))
    return found[0].tobytes(), found[1].tobytes()


def search(*arguments):
    return tuple(array.tobytes() for array in exact_search(*arguments))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("n", "nq", "d", "k"), SHAPES)
def test_the_kernel_has_the_bits_of_the_twin(n, nq, d, k, metric):
    x, q = vectors(n, d), vectors(nq, d, seed=1)
    if n > 5:
        x[3], x[4] = x[1], 0
        q[1] = 0
    assert search(x, q, k, metric) == of_the_twin(x, q, k, metric)


@pytest.mark.parametrize("metric", METRICS)
def test_the_answer_depends_neither_on_the_batch_nor_on_threads_nor_on_strides(metric, threads):
    n = 200 if metrics.REFERENCE else 5000
    x, q = vectors(n, 37), vectors(133, 37, seed=1)
    scores, ids = exact_search(x, q, 9, metric)
    for number in (1, 2, 3, 7):
        threads(number)
        again = exact_search(x, q, 9, metric)
        assert again[0].tobytes() == scores.tobytes() and again[1].tobytes() == ids.tobytes()
    for batch in (1, 5, 17, 100):
        for start in range(0, len(q), batch):
            part = exact_search(x, q[start : start + batch], 9, metric)
            assert part[0].tobytes() == scores[start : start + batch].tobytes()
            assert part[1].tobytes() == ids[start : start + batch].tobytes()
    wide = np.zeros((37, 3, n), np.float32)
    wide[::-1, 1] = x.T
    strided = wide[::-1, 1].T
    for some in (q, q[:2], np.repeat(q, 2, axis=1)[:, ::2]):
        again = exact_search(strided, some, 9, metric)
        assert again[0].tobytes() == scores[: len(some)].tobytes()


@pytest.mark.parametrize("metric", METRICS)
def test_shards_of_rows_merge_into_the_same_answer(metric):
    x, q = vectors(3000, 20), vectors(8, 20, seed=1)
    x[1000:2000] = x[:1000]
    scores, ids = exact_search(x, q, 12, metric)
    for shards in (3, 8):
        parts = [exact_search(part, q, 12, metric) for part in np.array_split(x, shards)]
        starts = np.cumsum([0] + [len(part) for part in np.array_split(x, shards)])
        for i in range(len(q)):
            offers = [
                (-float(score), int(row) + int(start))
                for (s, r), start in zip(parts, starts, strict=False)
                for score, row in zip(s[i], r[i], strict=True)
            ]
            merged = sorted(offers)[:12]
            assert [row for _, row in merged] == ids[i].tolist()
            assert [-score for score, _ in merged] == scores[i].tolist()


def test_scores_are_the_exact_values_rounded_once_more_at_most():
    x, q = vectors(30, 50), vectors(4, 50, seed=1)
    scores, ids = exact_search(x, q, 30)
    for i in range(4):
        for score, row in zip(scores[i], ids[i], strict=True):
            exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x[row], q[i], strict=True))
            assert abs(Fraction(float(score)) - exact) <= abs(exact) * Fraction(1, 2**23)


def test_equal_rows_come_by_their_number_also_across_shards():
    x = np.ones((10_000, 3), np.float32)
    for nq in (1, 7):
        for metric in METRICS:
            scores, ids = exact_search(x, np.ones((nq, 3), np.float32), 5, metric)
            assert (ids == np.arange(5)).all()
            assert (scores == {"ip": 3, "cosine": 1, "l2": 0}[metric]).all()


def test_zero_rows_and_queries_score_plus_zero():
    zeros = np.zeros((9, 5), np.float32)
    for q in (zeros, -zeros, zeros[:1]):
        for metric in METRICS:
            scores, ids = exact_search(zeros, q, 9, metric)
            assert (scores.view(np.uint32) == 0).all()
            assert (ids == np.arange(9)).all()


def test_rows_that_differ_in_the_last_bit_of_a_sum_are_ordered_before_rounding():
    x = np.ones((3, 2), np.float32)
    x[1, 1] += np.float32(2**-23)
    x[2, 1] += np.float32(2**-22)
    scores, ids = exact_search(x, np.float32([[2**24, 1]]), 3)
    assert scores[0].tolist() == [2.0**24] * 3 or len(set(scores[0].tolist())) < 3
    assert ids[0].tolist() == [2, 1, 0]


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e15])
@pytest.mark.parametrize("metric", METRICS)
def test_tiny_and_huge_vectors_find_themselves(scale, metric):
    x = vectors(50, 8, scale=scale)
    if metric == "ip":
        x /= np.maximum(np.abs(x).max(axis=1, keepdims=True), np.float32(1e-45))
    for q in (x, x[:2]):
        _, ids = exact_search(x, q, 1, metric)
        if metric != "ip" and scale > 1e-35:
            assert ids[:, 0].tolist() == list(range(len(q)))
        assert search(x, q, 3, metric) == of_the_twin(x, q, 3, metric)


def test_the_host_s_float_mode_does_not_matter(hostile_mode):
    x, q = vectors(100, 30, scale=1e-38), vectors(9, 30, seed=1, scale=1e-20)

    def answers():
        found = [search(x, some, 5, metric) for metric in METRICS for some in (q, q[:2])]
        return [
            *found,
            metrics.cosine(x, q[0]).tobytes(),
            metrics.norm_f32(x).tobytes(),
            metrics.normalize_f32(x).tobytes(),
        ]

    wanted = answers()
    with hostile_mode():
        assert answers() == wanted


def test_k_takes_what_there_is():
    x, q = vectors(4, 3), vectors(2, 3)
    for k, m in ((0, 0), (1, 1), (4, 4), (5, 4), (2**62, 4)):
        scores, ids = exact_search(x, q, k)
        assert scores.shape == ids.shape == (2, m)
        assert (scores.dtype, ids.dtype) == (np.float32, np.uint64)
    assert exact_search(x[:0], q, 3)[0].shape == (2, 0)
    assert exact_search(x, q[:0], 3)[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((vectors(2, 3).astype(float), vectors(1, 3), 1), VectorTypeError,
         "exact_search: x must be float32[n, d], got float64[2, 3] (hint: x.astype(numpy.float32))"),
        ((vectors(2, 3), vectors(1, 3).astype(">f4"), 1), VectorTypeError,
         "exact_search: q must be float32[nq, d], got >f4[1, 3] (hint: q.astype(numpy.float32))"),
        ((vectors(2, 3), vectors(3), 1), VectorValueError,
         "exact_search: x must be float32[n, d] and q float32[nq, d], got x = float32[2, 3] and q = float32[3]"),
        ((vectors(2, 3), vectors(1, 4), 1), VectorValueError,
         "exact_search: x must be float32[n, d] and q float32[nq, d], got x = float32[2, 3] and q = float32[1, 4]"),
        ((vectors(2, 0), vectors(1, 0), 1), VectorValueError, "exact_search: d must be 1 to 16384, got 0"),
        ((vectors(1, 16385), vectors(1, 16385), 1), VectorValueError, "exact_search: d must be 1 to 16384, got 16385"),
        ((vectors(2, 3), vectors(1, 3), -1), VectorValueError, "exact_search: k must not be negative, got -1"),
        ((vectors(2, 3), vectors(1, 3), 1.0), VectorTypeError, "exact_search: k must be an int, got float"),
        ((vectors(2, 3), vectors(1, 3), True), VectorTypeError, "exact_search: k must be an int, got bool"),
        ((vectors(2, 3), vectors(1, 3), 1, "dot"), VectorValueError,
         "exact_search: metric must be 'ip', 'cosine' or 'l2', got 'dot'"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error) as caught:
        exact_search(*arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e16, -1e16])
def test_a_bad_number_is_named_by_row_and_column(value):
    x, q = vectors(3000, 6), vectors(1, 6)
    x[2500, 3] = value
    with pytest.raises(VectorValueError) as caught:
        exact_search(x, q, 1)
    shown = str(np.float32(value))
    assert str(caught.value) == (
        f"exact_search: x must be finite and below 1e16 in magnitude, got {shown} in row 2500, column 3"
    )
    with pytest.raises(VectorValueError, match=r"^exact_search: q must be finite .* in row 2500, column 3$"):
        exact_search(vectors(3, 6), x, 1)


@pytest.mark.skipif(metrics.REFERENCE, reason="what twins allocate isn't counted")
def test_what_a_search_takes_counts_in_the_budget():
    x, q = vectors(3000, 16), vectors(64, 16)
    with budget(max_bytes=50_000), pytest.raises(BudgetExceeded, match="exact_search workspace"):
        exact_search(x, q, 10)
    with budget(max_bytes=2_000_000) as taken:
        exact_search(x, q, 10)
    assert taken.peak_bytes < x.nbytes * 5


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_pair_sum_is_tensor_s_dot_in_float64(data):
    d = data.draw(st.sampled_from([0, 1, 15, 16, 17, 63, 64, 65, 129, 4096, 4097, 8200]))
    words = np.random.default_rng(data.draw(st.integers(0, 2**32))).integers(0, 2**32, (2, d), dtype=np.uint32)
    x, y = words.view(np.float32)
    x, y = np.where(np.isfinite(x), x, 0).astype(np.float32), np.where(np.isfinite(y), y, 1).astype(np.float32)
    dot, l2 = metrics.dot(x, y), metrics.l2(x, y)
    assert dot.tobytes() == reduction_ref.dot(x.astype(float), y.astype(float)).tobytes()
    difference = x.astype(float) - y.astype(float)
    assert l2.tobytes() == reduction_ref.dot(difference, difference).tobytes()


def test_the_binding_refuses_what_does_not_fit():
    if _kernels.isa() == "ref":
        pytest.skip("DROVEWAY_ISA=ref has no kernels")
    none = np.zeros(0)
    x, q, scores, ids = vectors(4, 3), vectors(2, 3), np.zeros((2, 2), np.float32), np.zeros((2, 2), np.uint64)
    _kernels.exact_search(x, q, 0, none, none, scores, ids)
    for arguments, sentence in (
        ((x, q, 3, none, none, scores, ids), "metric must be 0, 1 or 2"),
        ((x, q, 1, none, none, scores, ids), "cosine needs the norm of each row and query"),
        ((x, q[:, :2].copy(), 0, none, none, scores, ids), "x and q must have the same 1 to 16384 columns"),
        ((x[:1], q, 0, none, none, scores, ids), "k must be at most the number of rows"),
        ((x, q, 0, none, none, scores, ids[:1]), r"scores and ids must be \[queries, k\]"),
    ):
        with pytest.raises(ValueError, match=sentence):
            _kernels.exact_search(*arguments)
    with pytest.raises(ValueError, match="y must have one row, or as many as x"):
        _kernels.pair_sums(x, q, False, np.zeros(4))
    with pytest.raises(ValueError, match="out must have one value for each row of x"):
        _kernels.pair_sums(x, x, False, np.zeros(3))

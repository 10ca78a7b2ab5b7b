"""Arguments that make no sense, or too much of it: typed errors say what was expected; no memory on a claim."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor import sparse
from tensor.autograd import grad, jvp, scan, vmap
from tensor.errors import BudgetExceeded, DtypeError, GradientError, LinalgError, ShapeError, TraceError
from tensor.optim import SGD, AdamW, clip_grad_norm_

X = tn.ones((2, 3))
NAN = math.nan
HUGE = tn.asarray([2**62, 2**62])
LAST = tn.asarray([2**64 - 1], dtype=tn.uint64)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tn.repeat(X, HUGE, axis=0), ShapeError, f"repeat: {2**63} elements are more than there are addresses"),
        (
            lambda: tn.repeat(X, tn.asarray([2**61, 2]), axis=0),
            ShapeError,
            "arange: a tensor int64(2305843009213693954,) has more bytes than there are addresses",
        ),
        (
            lambda: tn.repeat(X, tn.asarray([1.5, 2.0]), axis=0),
            DtypeError,
            "repeat: numbers of repetitions must be integers, got float32",
        ),
        (lambda: tn.repeat(X, 1.5), TypeError, "repeat: the number of repetitions must be an int, got float"),
        (lambda: tn.tile(X, 2), TypeError, "tile: repetitions must be a sequence of ints, got int"),
        (lambda: tn.tile(X, (1.5,)), TypeError, "tile: repetitions must be an int, got float"),
        (lambda: tn.roll(X, 1.5), TypeError, "roll: shift must be an int, got float"),
        (lambda: tn.roll(X, (1, 2)), ValueError, "roll: several shifts need as many axes"),
        (
            lambda: tn.pad(X, 1),
            TypeError,
            "pad: widths must be (before, behind), or such a pair for each dimension, got 1",
        ),
        (lambda: tn.pad(X, ((1.5, 2), (0, 0))), TypeError, "pad: a width must be an int, got float"),
        (
            lambda: tn.pad(X, ((1,), (2,))),
            ShapeError,
            "pad: widths must be a pair of lengths for each of 2 dimensions, got ((1,), (2,))",
        ),
        (
            lambda: tn.take(X, LAST, axis=1),
            IndexError,
            "take: index 9223372036854775807 (number 0) is not from -3 to 2",
        ),
        (
            lambda: tn.gather(X, 1, LAST.reshape((1, 1))),
            IndexError,
            "gather: index 9223372036854775807 (number 0) is not from -3 to 2",
        ),
        (
            lambda: vmap(lambda i: X[0][i])(LAST),
            IndexError,
            "take: index 9223372036854775807 (number 0) is not from -3 to 2",
        ),
        (lambda: tn.arange(0, NAN), ValueError, "arange: stop must be finite, got nan"),
        (lambda: tn.arange("a"), TypeError, "arange: stop must be a number, got str"),
        (
            lambda: tn.arange(0, 1, 1e-300),
            ShapeError,
            "arange: 0 to 1 by 1e-300 are more elements than there are addresses",
        ),
        (
            lambda: tn.linalg.vector_norm(X, ord="x"),
            TypeError,
            "vector_norm: ord must be a number, got str",
        ),
        (lambda: grad(tn.sum, argnums=(0, -1))(X), ValueError, "grad: argnums (0, -1) names an argument twice"),
        (
            lambda: grad(tn.sum, argnums="x")(X),
            TypeError,
            "grad: argnums must be an int or a sequence of ints, got 'x'",
        ),
        (
            lambda: grad(tn.sum, has_aux=True)(X),
            GradientError,
            "grad: with has_aux the function must return (result, aux), got Tensor",
        ),
        (
            lambda: jvp(tn.sin, X, X),
            TypeError,
            "jvp: primals must be a tuple, one tree for each argument, got Tensor",
        ),
        (
            lambda: scan(lambda c, x: c, X, X),
            TypeError,
            "scan: the function must return (carry, y), got Tensor",
        ),
        (lambda: tn.einsum(5, X), TypeError, "einsum: the equation must be a str, got int"),
        (
            lambda: tn.searchsorted(tn.ones(2), tn.ones(1), sorter=tn.asarray([0])),
            ShapeError,
            "searchsorted: sorter must have the shape (2,) of x1, got (1,)",
        ),
        (lambda: tn.fft.fft(tn.ones(3), n=1.5), TypeError, "fft: n must be an int, got float"),
        (
            lambda: tn.fft.fft(tn.ones(3), norm=["x"]),
            ValueError,
            "fft: norm must be 'backward', 'ortho' or 'forward', got ['x']",
        ),
        (
            lambda: tn.fft.fftfreq(2**62),
            ShapeError,
            f"arange: a tensor int64({2**61},) has more bytes than there are addresses",
        ),
        (lambda: tn.linalg.pinv(tn.ones(2)), ShapeError, "pinv: expected a matrix, or a batch of them, got shape (2,)"),
        (lambda: tn.linalg.svdvals(None), TypeError, "svdvals: expected a Tensor, got NoneType (hint: asarray)"),
        (lambda: tn.linalg.logdet(tn.ones((2, 0))), ShapeError, "logdet: the matrix must be square, got shape (2, 0)"),
        (
            lambda: sparse.CSR(tn.ones(1), tn.asarray([0]), tn.asarray([0, 1]), None),
            ShapeError,
            "CSR: shape must be two numbers from 0 up, got None",
        ),
        (
            lambda: sparse.CSR(tn.ones(1), tn.asarray([0]), tn.asarray([0, 1]), (True, True)),
            ShapeError,
            "CSR: shape must be two numbers from 0 up, got (True, True)",
        ),
        (
            lambda: sparse.sddmm(None, X, sparse.COO(tn.ones(1), tn.asarray([0]), tn.asarray([0]), (1, 1))),
            TypeError,
            "sddmm: expected Tensors, got NoneType (hint: asarray)",
        ),
        (
            lambda: clip_grad_norm_(X, 1.0),
            TypeError,
            "clip_grad_norm_: parameters must be an iterable of tensors, got a Tensor (hint: [x])",
        ),
        (lambda: clip_grad_norm_([None], 1.0), TypeError, "clip_grad_norm_: parameters must be Tensors, got NoneType"),
        (lambda: AdamW([X[0]], betas=None), ValueError, "AdamW: betas must be two numbers, got None"),
    ],
)
def test_what_makes_no_sense_is_named(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()


def test_repetitions_of_each_element_are_picked_on_the_engine() -> None:
    x = tn.asarray([1.0, 2.0, 3.0])
    counts = tn.asarray([2, 0, 3])
    assert tn.repeat(x, counts).tolist() == [1, 1, 3, 3, 3]
    weights = tn.asarray([1.0, 2.0, 3.0, 4.0, 5.0])
    assert grad(lambda x: (tn.repeat(x, counts) * weights).sum())(x).tolist() == [3, 0, 12]
    with tn.budget(max_bytes=1 << 20), pytest.raises(BudgetExceeded):
        tn.repeat(x, tn.asarray([0, 2**40, 1]))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("d", [1.0, 0.1, 0.0])
def test_frequencies_are_counted_under_the_budget_and_equal_their_quotients(n: int, d: float) -> None:
    numbers = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    with np.errstate(all="ignore"):
        expected = (np.array(numbers, dtype=np.float64) / (n * d)).astype(np.float32)
    np.testing.assert_array_equal(tn.fft.fftfreq(n, d=d).numpy(), expected)
    with tn.budget(max_bytes=1 << 20), pytest.raises(BudgetExceeded):
        tn.fft.rfftfreq(2**30)


def test_a_dense_matrix_is_made_without_a_product() -> None:
    index = tn.asarray([0])
    infinite = sparse.CSR(tn.asarray([math.inf]), index, tn.asarray([0, 1]), (1, 2))
    assert infinite.to_dense().tolist() == [[math.inf, 0.0]]  # not nan, as inf · 0 would be
    with tn.budget(max_bytes=1 << 20) as b:
        wide = sparse.CSR(tn.asarray([5.0]), tn.asarray([9999]), tn.asarray([0, 1]), (1, 10_000))
        assert wide.to_dense()[0, 9999].item() == 5.0
    assert b.peak_bytes < 200_000
    blocks = sparse.BSR(
        tn.arange(8.0, dtype=tn.float32).reshape((2, 2, 2)), tn.asarray([1, 1]), tn.asarray([0, 1, 2]), (4, 4)
    )
    assert blocks.to_dense().tolist() == [[0, 0, 0, 1], [0, 0, 2, 3], [0, 0, 4, 5], [0, 0, 6, 7]]


def test_singular_values_beyond_float32_decide_no_rank() -> None:
    huge = tn.asarray([[2e38, 1e38], [1e38, 3e38]])
    assert tn.linalg.matrix_rank(huge).item() == 2
    assert abs(tn.linalg.cond(huge).item() - 2.618034) < 1e-5
    expected = np.linalg.inv(huge.numpy().astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(tn.linalg.pinv(huge).numpy(), expected, rtol=1e-6, atol=2e-45)
    assert tn.linalg.cond(tn.zeros((2, 2))).item() == math.inf


def test_a_batch_with_one_bad_matrix_names_it() -> None:
    batch = tn.stack([tn.eye(2), tn.zeros((2, 2))])
    for function in (tn.linalg.inv, tn.linalg.cholesky):
        with pytest.raises(LinalgError, match="matrix 1 of the batch"):
            function(batch)


def test_powers_of_integers_run_under_transformations() -> None:
    base, exponent = tn.asarray([2, 3, 2, -1]), tn.asarray([10, 4, -1, -1])
    for run in (vmap(tn.pow), tn.capture(tn.pow)):
        assert run(base, exponent).tolist() == [1024, 81, 0, -1]
    with pytest.raises(ValueError, match=r"^pow: integers to a negative power are no integers"):
        tn.pow(base, exponent)


def test_a_capture_takes_no_value_of_another_transformation() -> None:
    text = "capture of <lambda>: <JvpTracer float32[2, 3] of jvp, level 1> comes from another transformation"
    with pytest.raises(TraceError, match=f"^{re.escape(text)}"):
        jvp(lambda y: tn.capture(lambda z: z + y)(X), (X,), (X,))
    kept = []
    tn.capture(lambda x: kept.append(x + 1.0))(X)
    with pytest.raises(TraceError, match=r"^capture of <lambda>: <GraphTracer .*comes from another transformation"):
        tn.capture(lambda x: x + kept[0])(X)


def test_parameters_that_share_memory_are_refused() -> None:
    flat = tn.zeros((6,))
    AdamW({"a": flat[:3], "b": flat[3:]})
    with pytest.raises(ValueError, match=r"^SGD: parameters 'a' and 'c' share memory$"):
        SGD({"a": flat[:3], "b": flat[4:], "c": flat[2:4]})


@pytest.mark.parametrize(
    ("kind", "value", "error", "text"),
    [
        ("power1", 1.0, ValueError, "AdamW: power1 of 'w' must be a float from 0 to below 1, got 1.0"),
        ("power2", math.nan, ValueError, "AdamW: power2 of 'w' must be a float from 0 to below 1, got nan"),
        ("power1", None, ValueError, "AdamW: power1 of 'w' must be a float from 0 to below 1, got None"),
        ("first", None, TypeError, "AdamW: first of 'w' must be a Tensor, got NoneType"),
        ("second", ..., KeyError, "\"AdamW: second of 'w' is missing\""),
    ],
)
def test_state_that_a_step_would_choke_on_is_refused_when_it_is_loaded(
    kind: str, value: Any, error: type[Exception], text: str
) -> None:
    w = tn.ones((2,)).requires_grad_()
    optimizer = AdamW({"w": w})
    w.grad = tn.ones((2,))
    optimizer.step()
    tree = {k: dict(v) for k, v in optimizer.state_tree().items()}
    before = w.tolist()
    if value is ...:
        del tree[kind]["w"]
    else:
        tree[kind]["w"] = value
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        optimizer.load_state_tree(tree)
    assert w.tolist() == before


def test_a_parameter_named_twice_counts_once_in_the_norm() -> None:
    w = tn.zeros((2,)).requires_grad_()
    w.grad = tn.asarray([3.0, 4.0])
    assert clip_grad_norm_([w, w], 10.0).item() == 5.0


@pytest.mark.parametrize("norm", [tn.layer_norm, tn.rms_norm])
def test_a_norm_over_nothing_has_derivatives(norm: Callable[..., Any]) -> None:
    x = tn.zeros((2, 0))
    assert jvp(lambda v: norm(v, 0), (x,), (x,))[1].shape == (2, 0)
    assert grad(lambda v: grad(lambda u: (norm(u, 0) * u).sum())(v).sum())(x).shape == (2, 0)


def test_differences_beyond_the_last_element_are_nothing_at_once() -> None:
    assert tn.diff(tn.ones(3), n=2**62).shape == (0,)
    assert tn.diff(tn.ones((2, 3)), n=2, axis=0).shape == (0, 3)


def test_ranges_of_numbers_of_other_libraries_are_those_of_pythons() -> None:
    assert tn.arange(np.int64(3)).tolist() == [0, 1, 2]
    assert tn.arange(tn.asarray(5), 0, -2).tolist() == [5, 3, 1]
    assert tn.arange(np.float32(0.5), 2).dtype == tn.float32


@pytest.mark.parametrize("order", [2, 3, 0.5, -1])
def test_a_norm_of_nothing_but_zeros_has_the_gradient_zero(order: float) -> None:
    norm = tn.linalg.vector_norm
    if order >= 1:
        assert grad(lambda x: norm(x, ord=order))(tn.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    for values in ([3.0, 4.0], [0.0, 2.0], [math.inf, 1.0], [math.inf, math.inf], [NAN, 1.0], []):
        with np.errstate(all="ignore"):
            expected = np.linalg.norm(np.array(values), ord=order)
        found = norm(tn.asarray(values, dtype=tn.float64), ord=order).item()
        np.testing.assert_allclose(found, expected, rtol=1e-14)

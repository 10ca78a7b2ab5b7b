"""Norms that are made of rows, and softmax's relatives with zeros: closed forms, properties, whole error texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special  # type: ignore[import-untyped]

import tensor as tn

sys.path.insert(0, str(Path(__file__).parents[1]))
try:
    from composite_checks import CHECKS, Case
finally:
    sys.path.pop(0)

RNG = np.random.default_rng(20261202)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def grouped(x: Any, groups: int, weight: Any, bias: Any, epsilon: float) -> Any:
    flat = x.reshape(x.shape[0], groups, -1)
    flat = (flat - flat.mean(-1, keepdims=True)) / np.sqrt(flat.var(-1, keepdims=True) + epsilon)
    wide = (-1, *(1,) * (x.ndim - 2))
    return flat.reshape(x.shape) * weight.reshape(wide) + bias.reshape(wide)


def nearest_on_simplex(x: Any) -> Any:
    """By bisection on τ, for each row."""

    def tau(row: Any) -> float:
        return float(optimize.brentq(lambda t: np.maximum(row - t, 0).sum() - 1, row.min() - 2, row.max(), xtol=1e-15))

    return np.stack([np.maximum(row - tau(row), 0) for row in x])


def entmax(x: Any) -> Any:
    def tau(row: Any) -> float:
        return float(
            optimize.brentq(lambda t: (np.maximum(row - t, 0) ** 2).sum() - 1, row.min() - 2, row.max(), xtol=1e-15)
        )

    return np.stack([np.maximum(row - tau(row), 0) ** 2 for row in x / 2])


def gates(x: Any, k: int, temperature: float) -> Any:
    def level(row: Any) -> float:
        return float(
            optimize.brentq(
                lambda t: special.expit((row - t) / temperature).sum() - k, row.min() - 99, row.max() + 99, xtol=1e-15
            )
        )

    return np.stack([special.expit((row - level(row)) / temperature) for row in x])


CASES = {
    "group_norm": Case(
        lambda x, w, b: tn.group_norm(x, 2, w, b),
        [normal(2, 4, 3), normal(4), normal(4)],
        lambda x, w, b: grouped(x, 2, w, b, 1e-5),
    ),
    "instance_norm": Case(
        lambda x, w, b: tn.instance_norm(x, w, b, epsilon=1e-3),
        [normal(2, 3, 2, 2), normal(3), normal(3)],
        lambda x, w, b: grouped(x, 3, w, b, 1e-3),
    ),
    "rmsnorm_safe": Case(
        lambda x: tn.rmsnorm_safe(x, epsilon=0.5),
        [np.concatenate([normal(2, 5), 0.1 * normal(2, 5)])],
        lambda x: x / np.maximum(np.sqrt((x**2).mean(-1, keepdims=True)), 0.5),
    ),
    "weight_norm": Case(
        lambda v, g: tn.weight_norm(v, g, axis=1),
        [normal(2, 3, 4), normal(3)],
        lambda v, g: g[:, None] * v / np.sqrt((v**2).sum((0, 2), keepdims=True)),
    ),
    "spectral_norm": Case(
        tn.spectral_norm, [normal(3, 2, 2)], lambda w: w / np.linalg.svd(w.reshape(3, 4), compute_uv=False)[0]
    ),
    "sparsemax": Case(tn.sparsemax, [normal(4, 6)], nearest_on_simplex),
    "sparsemax over the first axis": Case(
        lambda x: tn.sparsemax(x, 0), [2 * normal(6, 4)], lambda x: nearest_on_simplex(x.T).T
    ),
    "entmax15": Case(tn.entmax15, [2 * normal(4, 6)], entmax, tolerance=1e-10),
    "entmax15 over the middle axis": Case(
        lambda x: tn.entmax15(x, axis=1),
        [normal(2, 5, 3)],
        lambda x: np.moveaxis(entmax(np.moveaxis(x, 1, 2).reshape(6, 5)).reshape(2, 3, 5), 2, 1),
        tolerance=1e-10,
    ),
    "soft_top_k": Case(
        lambda x: tn.soft_top_k(x, 2, temperature=0.3), [normal(3, 5)], lambda x: gates(x, 2, 0.3), tolerance=1e-10
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_the_function_passes(name: str, check: str) -> None:
    CHECKS[check](CASES[name])


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "soft_top_k"])
def test_gradients_have_gradients(name: str) -> None:
    case = CASES[name]
    x = tn.asarray(case.inputs[0])
    weights = tn.asarray(np.linspace(0.5, 1.5, x.size).reshape(x.shape))
    tn.autograd.gradcheck(tn.grad(lambda x: (case.fn(x) * weights).sum()), (x,), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("fn", [tn.sparsemax, tn.entmax15])
def test_lines_lie_on_the_simplex_and_large_differences_leave_one(fn: Any) -> None:
    x = tn.asarray(RNG.normal(size=(50, 7)) * 3)
    p = fn(x).numpy()
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-12)
    assert (p >= 0).all()
    assert (p == 0).any()
    assert fn(tn.asarray([1e4, 0.0, -3.0])).tolist() == [1.0, 0.0, 0.0]
    np.testing.assert_allclose(fn(x + 100).numpy(), p, atol=1e-11)
    assert fn(tn.asarray([7.0])).tolist() == [1.0]


@pytest.mark.parametrize("fn", [tn.softmax, tn.sparsemax, tn.entmax15])
def test_lines_that_have_no_answer_are_nan(fn: Any) -> None:
    inf, nan = float("inf"), float("nan")
    wrong = tn.asarray([[1.0, nan, 0.0], [1.0, inf, 0.0], [-inf, -inf, -inf], [1.0, -inf, 9.0]])
    assert np.isnan(fn(wrong).numpy()).all(axis=1).tolist() == [True, True, True, False]
    assert fn(wrong).numpy()[3, 1] == 0


def test_safe_lines_are_not_blown_up_and_do_not_overflow() -> None:
    big = tn.asarray([[1e30, -1e30], [1e-30, 1e-30], [0.0, 0.0]])
    np.testing.assert_allclose(tn.rmsnorm_safe(big).numpy(), [[1, -1], [1e-24, 1e-24], [0, 0]], rtol=1e-6)
    slope = tn.grad(lambda x: tn.rmsnorm_safe(x).sum())(tn.zeros((1, 2)))
    np.testing.assert_allclose(slope.numpy(), [[1e6, 1e6]], rtol=1e-6)
    assert tn.rmsnorm_safe(tn.zeros((2, 0))).shape == (2, 0)


def test_gates_sum_to_k_and_all_of_them_are_open_for_all() -> None:
    x = tn.asarray(RNG.normal(size=(20, 9)) * 30)
    for k in range(1, 9):
        np.testing.assert_allclose(tn.soft_top_k(x, k).sum(axis=-1).numpy(), k, rtol=1e-12)
    assert tn.soft_top_k(x, 9).tolist() == np.ones((20, 9)).tolist()
    top = tn.soft_top_k(x, 3, temperature=1e-3).numpy() > 0.5
    assert (np.sort(np.argsort(-x.numpy())[:, :3]) == np.nonzero(top)[1].reshape(20, 3)).all()


def test_a_group_of_one_channel_each_is_an_instance_and_one_group_is_a_layer() -> None:
    x = tn.asarray(RNG.normal(size=(2, 3, 4)))
    assert tn.group_norm(x, 3).tolist() == tn.instance_norm(x).tolist()
    assert tn.group_norm(x, 1).tolist() == tn.layer_norm(x, (3, 4)).tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: tn.group_norm(x, 4), tn.ShapeError, "group_norm: 6 channels cannot be cut into 4 groups"),
        (lambda x: tn.group_norm(x[0, 0], 1), tn.ShapeError, "group_norm: expected [n, channels, …], got shape (4,)"),
        (
            lambda x: tn.group_norm(x, 2, x[0, 0]),
            tn.ShapeError,
            "group_norm: the weight must have shape (6,), got (4,)",
        ),
        (
            lambda x: tn.instance_norm(x[0]),
            tn.ShapeError,
            "instance_norm: expected [n, channels, places, …], got shape (6, 4)",
        ),
        (lambda x: tn.rmsnorm_safe(x, epsilon=0.0), ValueError, "rmsnorm_safe: epsilon must be above 0, got 0.0"),
        (lambda x: tn.weight_norm(x, x[0, 0]), tn.ShapeError, "weight_norm: g must have shape (2,), got (4,)"),
        (
            lambda x: tn.spectral_norm(x[0, 0]),
            tn.ShapeError,
            "spectral_norm: expected a matrix or more dimensions, got shape (4,)",
        ),
        (lambda x: tn.sparsemax(x[..., :0]), tn.ShapeError, "sparsemax: axis -1 of shape (2, 6, 0) has no elements"),
        (lambda x: tn.soft_top_k(x, 5), ValueError, "soft_top_k: k must be an int from 1 to 4, got 5"),
        (
            lambda x: tn.soft_top_k(x, 1, temperature=0.0),
            ValueError,
            "soft_top_k: temperature must be a finite number above 0, got 0.0",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(tn.ones((2, 6, 4)))
    assert str(caught.value) == message


def test_integers_are_refused_with_a_hint() -> None:
    with pytest.raises(tn.DtypeError, match=r"^entmax15: int64 is not computed with \(hint: astype\(x, float32\)\)$"):
        tn.entmax15(tn.arange(3))

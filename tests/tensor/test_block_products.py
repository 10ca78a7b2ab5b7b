"""Products of groups of rows, products of low rank, tridiagonal systems, convolution over three dimensions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import linalg as scipy_linalg  # type: ignore[import-untyped]
from scipy import signal, special

import tensor as tn

sys.path.insert(0, str(Path(__file__).parents[1]))
try:
    from composite_checks import CHECKS, Case
finally:
    sys.path.pop(0)

RNG = np.random.default_rng(20261204)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def low_rank(a: Any, b: Any, rank: int) -> Any:
    u, s, vh = np.linalg.svd(a @ b)
    return u[:, :rank] * s[:rank] @ vh[:rank]


def grouped(x: Any, weights: Any, sizes: Any) -> Any:
    parts = np.split(x, np.cumsum(sizes)[:-1])
    return np.concatenate([part @ w for part, w in zip(parts, weights, strict=True)])


def gated(x: Any, gate: Any, up: Any, down: Any) -> Any:
    sizes = [2, 0, 3]
    left = grouped(x, gate, sizes)
    return grouped(left * special.expit(left) * grouped(x, up, sizes), down, sizes)


def banded(low: Any, mid: Any, up: Any, b: Any) -> Any:
    def one(low: Any, mid: Any, up: Any, b: Any) -> Any:
        bands = np.stack([np.concatenate([[0], up[:-1]]), mid, np.concatenate([low[1:], [0]])])
        return scipy_linalg.solve_banded((1, 1), bands, b)

    if mid.ndim == 1:
        return one(low, mid, up, b)
    return np.stack([one(*parts) for parts in zip(low, mid, up, b, strict=True)])


def correlated(x: Any, w: Any) -> Any:
    return np.stack(
        [
            np.stack(
                [sum(signal.correlate(image[c], w[o, c], "valid") for c in range(x.shape[1])) for o in range(len(w))]
            )
            for image in x
        ]
    )


def dilated(w: Any) -> Any:
    out = np.zeros((*w.shape[:2], *(2 * n - 1 for n in w.shape[2:])))
    out[:, :, ::2, ::2, ::2] = w
    return out


CASES = {
    "factorized_matmul": Case(
        lambda a, b: tn.factorized_matmul(a, b, 2),
        [normal(4, 3), normal(3, 5)],
        lambda a, b: low_rank(a, b, 2),
        tolerance=1e-10,
    ),
    "grouped_gemm": Case(
        lambda x, w: tn.grouped_gemm(x, w, [2, 0, 3]),
        [normal(5, 4), normal(3, 4, 2)],
        lambda x, w: grouped(x, w, [2, 0, 3]),
    ),
    "moe_swiglu_block": Case(
        lambda x, gate, up, down: tn.moe_swiglu_block(x, gate, up, down, [2, 0, 3]),
        [normal(5, 4), normal(3, 4, 6), normal(3, 4, 6), normal(3, 6, 2)],
        gated,
    ),
    "tridiagonal_solve": Case(
        tn.linalg.tridiagonal_solve, [normal(7), 4 + normal(7), normal(7), normal(7)], banded, tolerance=1e-11
    ),
    "tridiagonal_solve of a batch with two right sides": Case(
        tn.linalg.tridiagonal_solve,
        [normal(2, 6), 5 + normal(2, 6), normal(2, 6), normal(2, 6, 2)],
        banded,
        tolerance=1e-11,
    ),
    "conv3d": Case(tn.conv3d, [normal(2, 3, 4, 5, 4), normal(2, 3, 2, 3, 3)], correlated),
    "conv3d padded, dilated, strided": Case(
        lambda x, w: tn.conv3d(x, w, padding=((1, 0), (0, 1), (1, 1)), dilation=2, stride=(2, 1, 1)),
        [normal(1, 2, 4, 5, 4), normal(2, 2, 2, 2, 2)],
        lambda x, w: correlated(np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1), (1, 1))), dilated(w))[:, :, ::2],
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_the_function_passes(name: str, check: str) -> None:
    CHECKS[check](CASES[name])


def test_a_row_of_a_group_is_the_row_of_the_product() -> None:
    x, w = tn.asarray(normal(6, 300)), tn.asarray(normal(2, 300, 5))
    both = tn.grouped_gemm(x, w, tn.asarray([4, 2]))
    assert both[:4].tolist() == (x[:4] @ w[0]).tolist()
    assert both[5].tolist() == (x[5] @ w[1]).tolist()
    assert tn.grouped_gemm(x[:0], w, [0, 0]).shape == (0, 5)


def test_low_rank_is_the_nearest_and_full_rank_the_product() -> None:
    a, b = tn.asarray(normal(5, 4)), tn.asarray(normal(4, 6))
    np.testing.assert_allclose(tn.factorized_matmul(a, b, 9).numpy(), (a @ b).numpy(), rtol=1e-10, atol=1e-12)
    singular = np.linalg.svd((a @ b).numpy(), compute_uv=False)
    for rank in range(1, 5):
        away = (tn.factorized_matmul(a, b, rank) - a @ b).numpy()
        np.testing.assert_allclose(np.linalg.norm(away), np.linalg.norm(singular[rank:]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 300])
def test_tridiagonal_systems_of_any_size(n: int) -> None:
    low, up = normal(n), normal(n)
    mid, b = 2.5 + np.abs(low) + np.abs(up), normal(n)
    came = tn.linalg.tridiagonal_solve(*map(tn.asarray, (low, mid, up, b))).numpy()
    dense = np.diag(mid) + np.diag(low[1:], -1) + np.diag(up[:-1], 1)
    np.testing.assert_allclose(dense @ came, b, rtol=1e-12, atol=1e-12)


def test_convolution_in_groups_equals_two_and_biases_and_activations_follow() -> None:
    x, w, bias = tn.asarray(normal(2, 4, 3, 4, 4)), tn.asarray(normal(6, 2, 2, 2, 2)), tn.asarray(normal(6))
    both = tn.conv3d(x, w, bias, groups=2, activation="relu")
    halves = [tn.conv3d(x[:, 2 * i : 2 * i + 2], w[3 * i : 3 * i + 3], bias[3 * i : 3 * i + 3]) for i in range(2)]
    assert both.tolist() == tn.relu(tn.concat(halves, axis=1)).tolist()
    assert tn.conv3d(x[0], w, bias, groups=2, activation="relu").tolist() == both[0].tolist()
    flat = tn.conv2d(x[:, :, 1], w[:, :, 0], groups=2)
    assert tn.conv3d(x[:, :, 1:2], w[:, :, :1], groups=2)[:, :, 0].tolist() == flat.tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: tn.grouped_gemm(x, tn.ones((2, 3, 1)), [3, 2]),
            tn.ShapeError,
            "grouped_gemm: 2 group sizes from 0 that sum to 4 rows are needed, got [3, 2]",
        ),
        (
            lambda x: tn.grouped_gemm(x, tn.ones((2, 3, 1)), tn.ones(2)),
            tn.DtypeError,
            "grouped_gemm: group_sizes must be integers [groups], got float32[2]",
        ),
        (
            lambda x: tn.grouped_gemm(x, x, [4]),
            tn.ShapeError,
            "grouped_gemm: expected x [rows, k] and weights [groups, k, n], got shapes (4, 3) and (4, 3)",
        ),
        (
            lambda x: tn.factorized_matmul(x, x.mT, 0),
            ValueError,
            "factorized_matmul: rank must be an int from 1, got 0",
        ),
        (
            lambda x: tn.linalg.tridiagonal_solve(x, x, x[:2], x),
            tn.ShapeError,
            "tridiagonal_solve: expected three diagonals [..., n] and b [..., n] or [..., n, k], got shapes "
            "(4, 3), (4, 3), (2, 3) and (4, 3)",
        ),
        (
            lambda x: tn.linalg.tridiagonal_solve(x, x, x, tn.arange(3)),
            tn.DtypeError,
            "tridiagonal_solve: all must be float32 or float64, got float32, float32, float32, int64",
        ),
        (
            lambda x: tn.conv3d(x, x),
            tn.ShapeError,
            "conv3d: expected x [n, channels, depth, rows, columns], or one without n, and weight of 5 dimensions, "
            "got shapes (4, 3) and (4, 3)",
        ),
        (
            lambda x: tn.conv3d(tn.ones((1, 1, 2, 9, 9)), tn.ones((1, 1, 3, 3, 3))),
            tn.ShapeError,
            "conv3d: a window of 3 (dilation 1) does not fit 2 elements padded by 0 and 0",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(tn.ones((4, 3)))
    assert str(caught.value) == message


def test_sizes_that_differ_within_a_batch_are_refused() -> None:
    with pytest.raises(tn.TraceError, match=r"^vmap: tolist\(\) of a batched tensor is not known"):
        tn.vmap(lambda x, n: tn.grouped_gemm(x, tn.ones((1, 3, 1)), n))(tn.ones((2, 4, 3)), tn.full((2, 1), 4))


def test_sizes_of_groups_are_whole_numbers() -> None:
    with pytest.raises(TypeError, match="float"):
        tn.grouped_gemm(tn.ones((3, 1)), tn.ones((2, 1, 1)), [1.9, 2.2])

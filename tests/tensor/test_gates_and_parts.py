"""Gates, softmax in parts, reductions by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special  # type: ignore[import-untyped]

import tensor as tn

sys.path.insert(0, str(Path(__file__).parents[1]))
try:
    from composite_checks import CHECKS, Case
finally:
    sys.path.pop(0)

RNG = np.random.default_rng(20261201)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def part(x: Any, v: Any) -> Any:
    top = x.max(-1)
    weights = np.exp(x - top[:, None])
    return weights @ v, top, weights.sum(-1)


X, V = normal(3, 8), normal(8, 4)
FIRST, SECOND = part(X[:, :5], V[:5]), part(X[:, 5:], V[5:])

CASES = {
    "silu_mul": Case(tn.silu_mul, [normal(3, 4), normal(4)], lambda a, b: a * special.expit(a) * b),
    "softcap": Case(lambda x: tn.softcap(x, 2.5), [4 * normal(3, 4)], lambda x: 2.5 * np.tanh(x / 2.5)),
    "score_combine": Case(
        lambda a, b: tn.score_combine(a, b, gamma=-1.5), [normal(3), normal(3)], lambda a, b: a - 1.5 * b
    ),
    "online_softmax": Case(
        lambda x, y: tn.online_softmax(y, axis=0, state=tn.online_softmax_state(x, axis=0)),
        [normal(5, 2), 30 * normal(3, 2)],
        lambda x, y: special.softmax(np.concatenate([x, y]), axis=0)[5:],
    ),
    "online_softmax alone": Case(tn.online_softmax, [normal(2, 5)], lambda x: special.softmax(x, axis=-1)),
    "online_softmax_state": Case(
        lambda x, y: tn.online_softmax_state(y, state=tn.online_softmax_state(x)),
        [normal(2, 5), normal(2, 3)],
        lambda x, y: (
            (z := np.concatenate([x, y], 1)).max(1, keepdims=True),
            np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True),
        ),
    ),
    "softmax_merge": Case(tn.softmax_merge, [*FIRST, *SECOND], lambda *_: part(X, V)),
    "softmax_finalize": Case(
        tn.softmax_finalize, [part(X, V)[0], part(X, V)[2]], lambda *_: special.softmax(X, axis=-1) @ V
    ),
} | {
    f"reduce {op}": Case(
        lambda x, op=op: tn.reduce(x, op, axis=(0, 2), keepdims=True),  # type: ignore[misc]
        [normal(2, 3, 4)],
        lambda x, op=op: getattr(np, op)(x, axis=(0, 2), keepdims=True),  # type: ignore[misc]
    )
    for op in ("sum", "prod", "mean", "max", "min")
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_the_function_passes(name: str, check: str) -> None:
    CHECKS[check](CASES[name])


def test_a_row_that_is_masked_everywhere_is_zero_and_changes_nothing() -> None:
    nothing = tn.zeros((1, 2)), tn.asarray([float("-inf")]), tn.zeros(1)
    some = tn.asarray([[2.0, 4.0]]), tn.asarray([3.0]), tn.asarray([2.0])
    for merged in (tn.softmax_merge(*nothing, *some), tn.softmax_merge(*some, *nothing)):
        assert [x.tolist() for x in merged] == [x.tolist() for x in some]
    output, highest, total = tn.softmax_merge(*nothing, *nothing)
    assert (highest.item(), total.item()) == (float("-inf"), 0.0)
    assert tn.softmax_finalize(output, total).tolist() == [[0.0, 0.0]]


def test_blocks_in_order_give_the_softmax_of_the_row() -> None:
    x = tn.asarray(RNG.normal(size=(2, 40)) * 20)
    state = tn.online_softmax_state(x[:, :0], state=tn.online_softmax_state(x[:, :7]))
    for k in range(7, 40, 11):
        state = tn.online_softmax_state(x[:, k : k + 11], state=state)
    highest, total = state
    np.testing.assert_allclose((tn.exp(x - highest) / total).numpy(), tn.softmax(x).numpy(), rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: tn.softcap(x, 0.0), ValueError, "softcap: cap must be a finite number above 0, got 0.0"),
        (lambda x: tn.softcap(x, float("nan")), ValueError, "softcap: cap must be a finite number above 0, got nan"),
        (lambda x: tn.score_combine(x, x[0]), tn.ShapeError, "score_combine: shapes (2, 3) and (3,) differ"),
        (lambda x: tn.reduce(x, "var"), ValueError, "reduce: op must be one of sum, prod, mean, max, min, got 'var'"),
        (lambda x: tn.online_softmax_state(x[:, :0]), tn.ShapeError, "online_softmax: the first chunk has no elements"),
        (
            lambda x: tn.softmax_finalize(x, x),
            tn.ShapeError,
            "softmax_finalize: expected output [..., d], maximum [...] and total [...], "
            "got shapes (2, 3), (2, 3) and (2, 3)",
        ),
        (
            lambda x: tn.softmax_merge(x, x[:, 0], x[:, 0], x[:1], x[:1, 0], x[:1, 0]),
            tn.ShapeError,
            "softmax_merge: parts of shapes (2, 3) and (1, 3)",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(tn.ones((2, 3)))
    assert str(caught.value) == message

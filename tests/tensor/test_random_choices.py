"""Random choices: their distributions, their derivatives, what a mask leaves, members that share a perturbation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats  # type: ignore[import-untyped]

import tensor as tn
from tensor import random
from tensor.random import Key, fold_in

sys.path.insert(0, str(Path(__file__).parents[1]))
try:
    from composite_checks import CHECKS, Case
finally:
    sys.path.pop(0)

RNG = np.random.default_rng(20261208)
KEY = Key(5)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def softened(x: Any) -> Any:
    noise = random.gumbel(KEY, x.shape, dtype="float64").numpy()
    return special.softmax((x + noise) / 0.5, axis=0)


def corrected(x: Any, members: Any) -> Any:
    found = []
    for row, m in zip(x, members, strict=True):
        drawn = random.normal(fold_in(fold_in(KEY, 3), int(m) // 2), (4 + 5, 2), dtype="float64").numpy()
        found.append((-1) ** m * 0.3 / np.sqrt(2) * row @ drawn[:4] @ drawn[4:].T)
    return np.stack(found)


CASES = {
    "gumbel_softmax": Case(
        lambda x: random.gumbel_softmax(KEY, x, temperature=0.5, axis=0), [normal(4, 3)], softened, captured=False
    ),
    "masked_categorical": Case(
        lambda x, m: random.masked_categorical(None, x, m),
        [normal(5, 4), RNG.random((5, 4)) < 0.6],
        lambda x, m: np.where(m, x, -np.inf).argmax(-1),
        moving=(),
    ),
    "es_low_rank_correction": Case(
        lambda x, m: random.es_low_rank_correction(KEY, x, m, 5, sigma=0.3, rank=2, epoch=3),
        [normal(3, 2, 4), np.array([6, 7, 0])],
        corrected,
        captured=False,
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_the_function_passes(name: str, check: str) -> None:
    CHECKS[check](CASES[name])


def test_hard_choices_are_draws_and_have_the_gradient_of_the_soft_ones() -> None:
    logits = tn.log(tn.asarray([0.5, 0.3, 0.2], dtype=tn.float64))
    many = logits.expand((20000, 3))
    hot = random.gumbel_softmax(KEY, many, hard=True)
    assert set(hot.numpy().ravel()) == {0.0, 1.0}
    assert stats.chisquare(hot.sum(axis=0).numpy(), [10000, 6000, 4000]).pvalue > 1e-3
    weights = tn.asarray([1.0, -2.0, 3.0], dtype=tn.float64)
    slopes = [
        tn.grad(lambda x, hard=hard: (random.gumbel_softmax(KEY, x, hard=hard) * weights).sum())(logits).tolist()
        for hard in (True, False)
    ]
    assert slopes[0] == slopes[1]


def test_a_perturbed_argmax_and_its_derivative_are_those_of_the_distribution() -> None:
    """Of two elements: Φ(d / (σ√2)) of their difference d."""
    x, sigma, samples = tn.asarray([0.3, -0.2], dtype=tn.float64), 0.7, 40000
    p = random.perturbed_argmax(KEY, x, sigma=sigma, samples=samples).numpy()
    width = sigma * np.sqrt(2)
    want = stats.norm.cdf(0.5 / width)
    assert p.sum() == 1
    assert abs(p[0] - want) < 4 * np.sqrt(want * (1 - want) / samples)
    slope = tn.grad(lambda x: random.perturbed_argmax(KEY, x, sigma=sigma, samples=samples)[0])(x).numpy()
    steep = stats.norm.pdf(0.5 / width) / width
    np.testing.assert_allclose(slope, [steep, -steep], atol=4 / (sigma * np.sqrt(samples)))
    _, along = tn.jvp(
        lambda x: random.perturbed_argmax(KEY, x, sigma=sigma, samples=samples)[0],
        (x,),
        (tn.asarray([1.0, 2.0], dtype=tn.float64),),
    )
    np.testing.assert_allclose(along.item(), slope[0] + 2 * slope[1], rtol=1e-12)


def test_batches_of_keys_give_what_a_loop_gives() -> None:
    seeds = tn.asarray([3, 9], dtype=tn.uint64)
    x = tn.asarray(normal(2, 4))

    def both(seed: Any, row: Any) -> Any:
        return random.gumbel_softmax(Key(seed), row), random.perturbed_argmax(Key(seed), row, samples=7)

    soft, often = tn.vmap(both)(seeds, x)
    for i in range(2):
        one = both(int(seeds[i].item()), x[i])
        assert [soft[i].tolist(), often[i].tolist()] == [t.tolist() for t in one]


def test_masked_draws_never_leave_the_mask() -> None:
    logits, mask = tn.asarray(normal(300, 5)), tn.asarray(RNG.random((300, 5)) < 0.5) | (tn.arange(5) == 2)
    drawn = random.masked_categorical(KEY, logits, mask)
    assert tn.take_along_axis(mask, drawn.reshape((300, 1))).numpy().all()
    same = tn.where(mask, logits, float("-inf"))
    assert drawn.tolist() == random.categorical(KEY, same).tolist()


def test_members_of_a_pair_are_opposites_and_others_differ() -> None:
    x = tn.ones((4, 3))
    rows = random.es_low_rank_correction(KEY, x, tn.asarray([0, 1, 2, 3]), 2, sigma=1.0)
    assert rows[0].tolist() == (-rows[1]).tolist()
    assert rows[2].tolist() == (-rows[3]).tolist()
    assert rows[0].tolist() != rows[2].tolist()
    alone = random.es_low_rank_correction(KEY, x, tn.asarray([0, 1, 2, 3]), 2, sigma=1.0, antithetic=False)
    assert alone[1].tolist() == rows[2].tolist()
    assert len({tuple(row) for row in alone.tolist()}) == 4


def test_a_population_of_none_and_of_many_dimensions() -> None:
    none = tn.zeros(0, dtype="int64")
    assert random.es_low_rank_correction(KEY, tn.zeros((0, 3)), none, 2, sigma=1.0).shape == (0, 2)
    x, members = tn.asarray(normal(2, 2, 3, 4)), tn.asarray([1, 6])
    whole = random.es_low_rank_correction(KEY, x, members, 5, sigma=1.0)
    flat = random.es_low_rank_correction(KEY, x.reshape((2, 6, 4)), members, 5, sigma=1.0)
    assert whole.reshape((2, 6, 5)).tolist() == flat.tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: random.gumbel_softmax(KEY, x, temperature=0.0),
            ValueError,
            "gumbel_softmax: temperature must be a finite number above 0, got 0.0",
        ),
        (
            lambda x: random.perturbed_argmax(KEY, x, samples=0),
            ValueError,
            "perturbed_argmax: samples must be an int from 1, got 0",
        ),
        (
            lambda x: random.masked_categorical(None, x, x),
            tn.DtypeError,
            "masked_categorical: mask must be boolean, got float32",
        ),
        (
            lambda x: random.masked_categorical(None, x, x < 0),
            ValueError,
            "masked_categorical: a mask leaves no category above -inf",
        ),
        (
            lambda x: random.es_low_rank_correction(KEY, x, tn.arange(3), 2, sigma=1.0),
            tn.ShapeError,
            "es_low_rank_correction: expected x [population, …, inputs] and members [population], got (2, 4) and (3,)",
        ),
        (
            lambda x: random.es_low_rank_correction(KEY, x, tn.arange(2), 0, sigma=1.0),
            ValueError,
            "es_low_rank_correction: outputs must be an int from 1, got 0",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(tn.ones((2, 4)))
    assert str(caught.value) == message

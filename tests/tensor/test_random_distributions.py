"""Draws made of uniform ones: what they are for certain, and their distributions against scipy.stats."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

import tensor as tn
from tensor import random
from tensor.autograd import grad
from tensor.random import Key, categorical, dropout, exponential, gumbel, truncated_normal

BOUNDS = [(-2, 2), (-math.inf, math.inf), (1, math.inf), (-math.inf, -3), (-0.5, math.inf), (3, 5), (-6, -5), (0, 1e-3)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_exponential_numbers_are_minus_log_of_1_minus_u(dtype) -> None:
    u = Key(1).uniform(4000, dtype=dtype)
    x = exponential(Key(1), 4000, dtype=dtype)
    assert x.dtype == dtype
    expected = -np.log1p(-u.to("float64").numpy())
    digits = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-22, "float64": 2**-50}[dtype]
    np.testing.assert_allclose(x.to("float64").numpy(), expected, rtol=digits)
    assert x.min().item() >= 0


def test_slices_of_draws_made_of_uniform_ones_are_those_of_the_whole() -> None:
    for draw in (
        lambda n, offset: exponential(Key(2), n, offset=offset),
        lambda n, offset: gumbel(Key(2), n, offset=offset),
        lambda n, offset: truncated_normal(Key(2), -1, 2, n, offset=offset),
    ):
        assert draw(90, 2**35)[3:60].tolist() == draw(57, 2**35 + 3).tolist()


def test_gumbel_numbers_are_finite_where_u_is_0() -> None:
    assert Key(3).uniform(1, offset=18381124).item() == 0  # one of the few whose upper 24 bits are 0
    assert gumbel(Key(3), 1, offset=18381124).item() == pytest.approx(25 * math.log(2), rel=1e-6)


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_truncated_normal_numbers_keep_within_their_bounds(lower, upper, dtype) -> None:
    x = truncated_normal(Key(3), lower, upper, 5000, dtype=dtype).to("float64")
    least, most = tn.asarray([lower, upper], dtype="float64").to(dtype).to("float64").tolist()
    assert least <= x.min().item()
    assert x.max().item() <= most
    assert len(set(x.tolist())) > (4000 if dtype == "float64" else 10)


def test_mirrored_bounds_give_mirrored_numbers() -> None:
    for lower, upper in ((1, math.inf), (3, 5), (-0.5, 2)):
        x, y = truncated_normal(Key(4), lower, upper, 50), truncated_normal(Key(4), -upper, -lower, 50)
        assert x.tolist() == (-y).tolist()


def test_a_category_is_the_argmax_of_logits_and_gumbel_numbers() -> None:
    logits = Key(5).normal((2, 3, 4))
    for axis in (0, 1, 2, -1):
        drawn = categorical(Key(6), logits, 7, axis=axis)
        expected = tn.argmax(gumbel(Key(6), (7, 2, 3, 4)) + logits, axis=axis - 3 if axis >= 0 else axis)
        assert drawn.dtype == "int64"
        assert drawn.tolist() == expected.tolist()
    assert categorical(Key(6), logits).shape == (2, 3)
    assert categorical(Key(6), logits, (5, 6)).shape == (5, 6, 2, 3)
    assert categorical(Key(6), tn.zeros((0, 3))).shape == (0,)


def test_a_category_of_minus_infinity_is_never_drawn() -> None:
    logits = tn.asarray([0.0, -math.inf, 1.0, -math.inf])
    assert set(categorical(Key(7), logits, 2000).tolist()) == {0, 2}
    assert set(categorical(Key(7), tn.asarray([-math.inf, -1e30]), 2000).tolist()) == {1}


def test_dropout_keeps_what_has_a_uniform_number_of_p_or_more() -> None:
    x, key = Key(8).normal((30, 20)), Key(9)
    u = key.uniform((30, 20))
    for p in (0.0, 0.25, 0.5, 2.0**-24, 0.9):
        expected = tn.where(u >= p, x, 0.0) * (1 / (1 - p))
        assert dropout(key, x, p).tolist() == expected.tolist()
    assert dropout(key, x, 0.0).tolist() == x.tolist()


def test_dropout_of_everything_gives_zeros_and_no_gradient_of_nan() -> None:
    x = tn.asarray([1.0, math.inf, math.nan, -2.0])
    assert dropout(Key(10), x, 1).tolist() == [0.0] * 4
    assert grad(lambda x: dropout(Key(10), x, 1).sum())(x).tolist() == [0.0] * 4


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_gradient_of_dropout_is_its_mask_times_its_scale(dtype) -> None:
    x, key = tn.ones(40, dtype=dtype), Key(11)
    got = grad(lambda x: dropout(key, x, 0.75).sum())(x)
    assert got.dtype == dtype
    assert got.tolist() == dropout(key, x, 0.75).tolist()
    assert set(got.tolist()) == {0.0, 4.0}


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: dropout(Key(1), tn.ones(2), 1.5), ValueError, "dropout: p must be from 0 to 1, got 1.5"),
        (lambda: dropout(Key(1), tn.ones(2), math.nan), ValueError, "dropout: p must be from 0 to 1, got nan"),
        (lambda: dropout(Key(1), tn.ones(2), True), TypeError, "dropout: p must be a number, got bool"),
        (lambda: dropout(Key(1), [1.0], 0.5), tn.DtypeError, "dropout: x must be a tensor of floats, got list"),
        (
            lambda: dropout(Key(1), tn.ones(2, dtype="int8"), 0.5),
            tn.DtypeError,
            "dropout: x must be a tensor of floats, got int8",
        ),
        (
            lambda: dropout(3, tn.ones(2), 0.5),
            TypeError,
            "dropout: key must be a Key, got int (hint: tensor.random.Key(seed))",
        ),
        (
            lambda: categorical(None, tn.ones(2)),
            TypeError,
            "categorical: key must be a Key, got NoneType (hint: tensor.random.Key(seed))",
        ),
        (
            lambda: categorical(Key(1), tn.asarray([0.0, math.nan])),
            ValueError,
            "categorical: logits must be numbers or -inf, got NaN or inf",
        ),
        (
            lambda: categorical(Key(1), tn.asarray([0.0, math.inf])),
            ValueError,
            "categorical: logits must be numbers or -inf, got NaN or inf",
        ),
        (
            lambda: categorical(Key(1), tn.asarray([[0.0], [-math.inf]])),
            ValueError,
            "categorical: a distribution has only -inf, so no category can be drawn",
        ),
        (
            lambda: categorical(Key(1), tn.zeros((3, 0))),
            ValueError,
            "categorical: axis -1 of logits of shape (3, 0) has no category",
        ),
        (
            lambda: categorical(Key(1), tn.zeros(())),
            ValueError,
            "categorical: axis -1 names no dimension of logits of shape ()",
        ),
        (
            lambda: categorical(Key(1), tn.asarray([1, 2])),
            tn.DtypeError,
            "categorical: logits must be a tensor of floats, got int64",
        ),
        (
            lambda: truncated_normal(Key(1), 1, 1, 3),
            ValueError,
            "truncated_normal: lower must be below upper, got 1.0 and 1.0",
        ),
        (
            lambda: truncated_normal(Key(1), math.nan, 1, 3),
            ValueError,
            "truncated_normal: lower must be below upper, got nan and 1.0",
        ),
        (
            lambda: truncated_normal(Key(1), 7, math.inf, 3),
            ValueError,
            "truncated_normal: from 7 to inf there is less than 2**-30 of the distribution",
        ),
        (
            lambda: truncated_normal(Key(1), 0, 1, 3, dtype="int8"),
            tn.DtypeError,
            "truncated_normal: dtype must be one of floats, got int8",
        ),
        (
            lambda: gumbel(Key(1), 3, dtype="float16"),
            tn.DtypeError,
            "gumbel: dtype must be float32 or float64, got float16",
        ),
    ],
)
def test_a_wrong_argument_is_named(call, error, text) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


# --- against scipy.stats ---------------------------------------------------------------------------------------------

N = 200_000
P_MIN = 1e-4  # of the test of Kolmogorov and Smirnov; the keys are fixed, so the outcome is too


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_follow_their_distributions(dtype) -> None:
    from scipy import stats

    for draw, name in (
        (random.uniform, "uniform"),
        (random.normal, "norm"),
        (exponential, "expon"),
        (gumbel, "gumbel_r"),
    ):
        for seed in (100, 101):
            x = draw(Key(seed), N, dtype=dtype).numpy().astype(np.float64)
            assert stats.kstest(x, name).pvalue > P_MIN, (name, seed)
            assert abs(stats.pearsonr(x[1:], x[:-1]).statistic) < 5 / math.sqrt(N)


@pytest.mark.oracle
@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_truncated_normal_numbers_follow_their_distribution(lower, upper) -> None:
    from scipy import stats

    x = truncated_normal(Key(102), lower, upper, N, dtype="float64").numpy()
    assert stats.kstest(x, lambda v: stats.truncnorm.cdf(v, lower, upper)).pvalue > P_MIN


@pytest.mark.oracle
def test_the_inverse_of_the_normal_distribution_agrees_with_scipy() -> None:
    from scipy.special import ndtri

    from tensor.random_distributions import _quantile

    share = np.concatenate([np.linspace(1e-9, 1 - 1e-9, 20_000), 10.0 ** -np.arange(1, 30)])
    np.testing.assert_allclose(_quantile(tn.asarray(share)).numpy(), ndtri(share), rtol=3e-15)


@pytest.mark.oracle
def test_integers_categories_and_orders_are_equally_often_what_they_should_be() -> None:
    from scipy import stats

    share = np.array([0.05, 0.6, 0.1, 0.25])
    drawn = categorical(Key(103), tn.log(tn.asarray(share)), N)
    assert stats.chisquare(np.bincount(drawn.numpy(), minlength=4), share * N).pvalue > P_MIN
    for dtype, low, high in (("int8", -128, 127), ("int64", -5, 12), ("uint64", 0, 3)):
        x = Key(104).randint(low, high, N, dtype=dtype).tolist()
        counts = Counter(x)
        assert set(counts) == set(range(low, high))
        assert stats.chisquare([counts[v] for v in range(low, high)]).pvalue > P_MIN
    first = Counter(key.permutation(6).tolist()[0] for key in Key(105).split(6000))
    assert stats.chisquare([first[v] for v in range(6)]).pvalue > P_MIN
    kept = Counter(tuple(row) for row in Key(106).bernoulli(0.3, (N // 4, 4)).to("int8").tolist())
    chance = [0.3 ** sum(row) * 0.7 ** (4 - sum(row)) * (N // 4) for row in kept]
    assert stats.chisquare(list(kept.values()), np.array(chance) * (sum(kept.values()) / sum(chance))).pvalue > P_MIN

"""Learning rates by step and trees of updates: closed forms over many steps, ends, wrong numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor import schedules, updates


def cosine(k: int) -> float:
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(k, 30) / 30))


def warm(k: int) -> float:
    return k / 5 if k < 5 else cosine_from(k - 5)


def cosine_from(k: int) -> float:
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(k, 25) / 25))


def triangle(k: int) -> float:
    return 0.1 + 0.9 * (1 - abs(k % 14 - 7) / 7)


RATES: dict[str, tuple[schedules.Schedule, Callable[[int], float]]] = {
    "constant_lr": (schedules.constant_lr(0.3), lambda k: 0.3),
    "cosine_lr": (schedules.cosine_lr(1.0, 30, end=0.1), cosine),
    "cosine_warmup_lr": (schedules.cosine_warmup_lr(1.0, warmup_steps=5, steps=30, end=0.1), warm),
    "linear_warmup_lr": (schedules.linear_warmup_lr(2.0, 7), lambda k: 2.0 * min(k, 7) / 7),
    "polynomial_lr": (
        schedules.polynomial_lr(1.0, 20, end=0.1, power=1.7),
        lambda k: 0.1 + 0.9 * (1 - min(k, 20) / 20) ** 1.7,
    ),
    "inverse_sqrt_lr": (schedules.inverse_sqrt_lr(0.5, warmup_steps=9), lambda k: 0.5 * math.sqrt(9 / max(k, 1))),
    "cyclical_lr": (schedules.cyclical_lr(0.1, 1.0, 7), triangle),
    "cyclical_lr that halves": (
        schedules.cyclical_lr(0.1, 1.0, 7, halving=True),
        lambda k: 0.1 + (triangle(k) - 0.1) / 2 ** (k // 14),
    ),
    "chained_schedule": (
        schedules.chained_schedule([schedules.constant_lr(0.5), schedules.linear_warmup_lr(1.0, 4)], [10]),
        lambda k: 0.5 if k < 10 else min(k - 10, 4) / 4,
    ),
}


@pytest.mark.parametrize("name", RATES)
def test_rates_are_those_of_the_formula_at_every_step(name: str) -> None:
    rate, formula = RATES[name]
    for k in [*range(60), 10_000]:
        assert rate(k) == pytest.approx(formula(k), rel=1e-14, abs=1e-15), k


def test_ends_and_middles_are_exact() -> None:
    rate = schedules.cosine_lr(1e-3, 100, end=1e-4)
    assert (rate(0), rate(100), rate(10**9)) == (1e-3, 1e-4, 1e-4)
    assert rate(50) == 1e-4 + (1e-3 - 1e-4) * 0.5
    assert schedules.polynomial_lr(1.0, 3, power=0.0)(9) == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: schedules.constant_lr(-0.1), "constant_lr: value must be a finite number from 0, got -0.1"),
        (lambda: schedules.cosine_lr(float("nan"), 3), "cosine_lr: initial must be a finite number from 0, got nan"),
        (lambda: schedules.cosine_lr(1.0, 0), "cosine_lr: steps must be an int from 1, got 0"),
        (
            lambda: schedules.cosine_warmup_lr(1.0, warmup_steps=5, steps=5),
            "cosine_warmup_lr: steps must be an int from 6, got 5",
        ),
        (lambda: schedules.constant_lr(0.1)(-1), "schedule: a step is an int from 0, got -1"),
        (lambda: schedules.linear_warmup_lr(0.1, 2)(1.5), "schedule: a step is an int from 0, got 1.5"),  # type: ignore[arg-type]
        (
            lambda: schedules.chained_schedule([schedules.constant_lr(1.0)] * 3, [4, 4]),
            "chained_schedule: 3 schedules need 2 ascending boundaries from 1, got [4, 4]",
        ),
        (
            lambda: schedules.chained_schedule([], []),
            "chained_schedule: 0 schedules need 0 ascending boundaries from 1, got []",
        ),
        (lambda: updates.clip_grad_value([], -1.0), "clip_grad_value: limit must be a number from 0, got -1.0"),
        (lambda: updates.ema_update([], [], 1.5), "ema_update: decay must be a number from 0 to 1, got 1.5"),
        (lambda: updates.polyak_avg([], [], -1), "polyak_avg: step must be an int from 0, got -1"),
        (
            lambda: updates.add_decoupled_weight_decay([], [], float("inf")),
            "add_decoupled_weight_decay: weight_decay must be a number from 0, got inf",
        ),
    ],
)
def test_wrong_numbers_are_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the text is compared
        call()
    assert str(caught.value) == message


@settings(deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
def test_the_mean_of_all_parameters_is_kept(values: list[float]) -> None:
    mean = tn.asarray(values[0], dtype=tn.float64)
    for step, value in enumerate(values[1:], 1):
        mean = updates.polyak_avg(mean, tn.asarray(value, dtype=tn.float64), step)
    assert mean.item() == pytest.approx(sum(values) / len(values), abs=1e-12)


def test_trees_keep_their_form_and_leaves_their_rule() -> None:
    rng = np.random.default_rng(1)
    w, b = rng.normal(size=(3, 4)), rng.normal(size=4)
    tree = {"layer": [tn.asarray(w), tn.asarray(b)], "empty": None}
    centred = updates.centralize_grad(tree)
    np.testing.assert_allclose(centred["layer"][0].numpy(), w - w.mean(1, keepdims=True), rtol=1e-12)
    assert centred["layer"][1].tolist() == b.tolist()
    assert centred["empty"] is None
    clipped = updates.clip_grad_value(tree, 0.5)
    np.testing.assert_array_equal(clipped["layer"][0].numpy(), np.clip(w, -0.5, 0.5))
    slow = updates.ema_update(tree, centred, 0.9)
    np.testing.assert_allclose(slow["layer"][0].numpy(), 0.9 * w + 0.1 * centred["layer"][0].numpy(), rtol=1e-12)
    chain = updates.optax_style_chain(
        lambda g, p: updates.centralize_grad(g), lambda g, p: updates.add_decoupled_weight_decay(g, p, 0.1)
    )
    done = chain(tree, tree)["layer"]
    np.testing.assert_allclose(done[0].numpy(), w - w.mean(1, keepdims=True) + 0.1 * w, rtol=1e-12)
    assert updates.optax_style_chain()(tree, tree) is tree


def test_leaves_that_differ_are_named() -> None:
    with pytest.raises(tn.ShapeError, match=r"^ema_update: leaves float32\[2\] and float32\[3\] do not go together$"):
        updates.ema_update([tn.ones(2)], [tn.ones(3)], 0.5)

"""Losses: against numpy, scipy and brute force; the reductions; operands that don't go together."""

from __future__ import annotations

import sys
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats  # type: ignore[import-untyped]

import tensor as tn
from tensor import losses

sys.path.insert(0, str(Path(__file__).parents[1]))
try:
    from composite_checks import CHECKS, Case
finally:
    sys.path.pop(0)

RNG = np.random.default_rng(20261207)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def simplex(*shape: int) -> Any:
    return special.softmax(normal(*shape), axis=-1)


def log_p(logits: Any, targets: Any) -> Any:
    return np.take_along_axis(special.log_softmax(logits, axis=-1), targets[..., None], -1)[..., 0]


def length(x: Any) -> Any:
    return np.linalg.norm(x, axis=-1)


def balance(p: Any) -> Any:
    share = np.stack([np.bincount(rows.argmax(-1), minlength=3) / len(rows) for rows in p])
    return (3 * (share * p.mean(-2)).sum(-1)).mean()


def similar(x: Any, labels: Any) -> Any:
    unit = x / length(x)[:, None]
    total = []
    for i in range(len(x)):
        others = [j for j in range(len(x)) if j != i]
        logs = special.log_softmax([unit[i] @ unit[j] / 0.5 for j in others])
        mine = [logs[k] for k, j in enumerate(others) if labels[j] == labels[i]]
        total.append(-np.mean(mine) if mine else 0.0)
    return np.mean(total)


def nce(q: Any, p: Any, n: Any) -> Any:
    logits = np.concatenate([(q * p).sum(-1)[:, None], np.einsum("id,ikd->ik", q, n)], 1) / 0.3
    return -special.log_softmax(logits, axis=1)[:, 0].mean()


def aligned(log_probabilities: Any, targets: Any, inputs: Any, lengths: Any) -> Any:
    """Every alignment, one by one."""
    found = []
    for b in range(log_probabilities.shape[1]):
        want, total = list(targets[b, : lengths[b]]), []
        for path in product(range(log_probabilities.shape[2]), repeat=int(inputs[b])):
            if [c for c, _ in groupby(path) if c != 0] == want:
                total.append(sum(log_probabilities[t, b, c] for t, c in enumerate(path)))
        found.append(-special.logsumexp(total) if total else np.inf)
    return np.array(found)


def advantage(r: Any) -> Any:
    return (r - r.mean(-1, keepdims=True)) / np.sqrt(r.var(-1, keepdims=True) + 1e-8)


def ppo(new: Any, old: Any, a: Any) -> Any:
    ratio = np.exp(new - old)
    return -np.minimum(ratio * a, np.clip(ratio, 0.8, 1.2) * a)


def penalty(new: Any, reference: Any) -> Any:
    return np.exp(reference - new) - (reference - new) - 1


X, Y = 2 * normal(3, 4), normal(3, 4)
CLASSES = RNG.integers(0, 4, 3)
SIGNS = np.array([1, 0, 1])

CASES = {
    "mse_loss": Case(losses.mse_loss, [X, Y], lambda x, y: ((x - y) ** 2).mean()),
    "mae_loss": Case(losses.mae_loss, [X, Y], lambda x, y: np.abs(x - y).mean()),
    "huber_loss": Case(
        lambda x, y: losses.huber_loss(x, y, delta=1.5, reduction="none"),
        [X, Y],
        lambda x, y: special.huber(1.5, x - y),
    ),
    "smooth_l1_loss": Case(
        lambda x, y: losses.smooth_l1_loss(x, y, beta=1.5, reduction="sum"),
        [X, Y],
        lambda x, y: special.huber(1.5, x - y).sum() / 1.5,
    ),
    "log_cosh_loss": Case(losses.log_cosh_loss, [X, Y], lambda x, y: np.log(np.cosh(x - y)).mean()),
    "binary_cross_entropy_loss": Case(
        losses.binary_cross_entropy_loss,
        [X, special.expit(Y)],
        lambda z, t: -(t * np.log(special.expit(z)) + (1 - t) * np.log(special.expit(-z))).mean(),
    ),
    "asymmetric_bce": Case(
        lambda z, t: losses.asymmetric_bce(z, t, pos_weight=3.0, neg_weight=0.5),
        [X, special.expit(Y)],
        lambda z, t: -(3 * t * np.log(special.expit(z)) + 0.5 * (1 - t) * np.log(special.expit(-z))).mean(),
    ),
    "focal_loss": Case(
        lambda z, t: losses.focal_loss(z, t, gamma=1.7, alpha=0.25),
        [X, CLASSES],
        lambda z, t: (-0.25 * (1 - np.exp(log_p(z, t))) ** 1.7 * log_p(z, t)).mean(),
    ),
    "z_loss": Case(losses.z_loss, [X], lambda z: (special.logsumexp(z, axis=-1) ** 2).mean()),
    "load_balance_loss": Case(losses.load_balance_loss, [simplex(2, 5, 3)], balance),
    "kl_divergence": Case(
        losses.kl_divergence, [simplex(3, 4), simplex(3, 4)], lambda p, q: special.rel_entr(p, q).sum(-1).mean()
    ),
    "js_divergence": Case(
        lambda p, q: losses.js_divergence(p, q, axis=0, reduction="none"),
        [simplex(3, 4).T, simplex(3, 4).T],
        lambda p, q: (special.rel_entr(p, (p + q) / 2) + special.rel_entr(q, (p + q) / 2)).sum(0) / 2,
    ),
    "wasserstein_distance": Case(
        lambda x, y: losses.wasserstein_distance(x, y, reduction="none"),
        [X, Y],
        lambda x, y: np.array([stats.wasserstein_distance(a, b) for a, b in zip(x, y, strict=True)]),
    ),
    "triplet_loss": Case(
        lambda a, p, n: losses.triplet_loss(a, p, n, margin=0.5),
        [X, Y, normal(3, 4)],
        lambda a, p, n: np.maximum(length(a - p) - length(a - n) + 0.5, 0).mean(),
    ),
    "contrastive_loss": Case(
        lambda x, y, t: losses.contrastive_loss(x, y, t, margin=9.0),
        [X, Y, SIGNS],
        lambda x, y, t: (t * length(x - y) ** 2 + (1 - t) * np.maximum(9 - length(x - y), 0) ** 2).mean(),
    ),
    "cosine_embedding_loss": Case(
        lambda x, y, t: losses.cosine_embedding_loss(x, y, t, margin=-0.9, reduction="none"),
        [X, Y, 2 * SIGNS - 1],
        lambda x, y, t: np.where(t > 0, 1 - (c := (x * y).sum(-1) / (length(x) * length(y))), np.maximum(0, c + 0.9)),
    ),
    "info_nce_loss": Case(lambda q, p, n: losses.info_nce_loss(q, p, n, temperature=0.3), [X, Y, normal(3, 2, 4)], nce),
    "nt_xent_loss": Case(losses.nt_xent_loss, [normal(5, 3), np.array([0, 1, 0, 1, 2])], similar),
    "score_matching_loss": Case(losses.score_matching_loss, [X, Y], lambda s, t: 0.5 * ((s - t) ** 2).sum(-1).mean()),
    "implicit_score_matching_loss": Case(
        losses.implicit_score_matching_loss, [X, normal(3)], lambda s, d: (0.5 * (s**2).sum(-1) + d).mean()
    ),
    "denoising_score_matching_loss": Case(
        lambda s, x, n: losses.denoising_score_matching_loss(s, x, n, 0.7),
        [X, Y, normal(3, 4)],
        lambda s, x, n: 0.5 * ((s + (n - x) / 0.49) ** 2).sum(-1).mean(),
    ),
    "contrastive_divergence_loss": Case(
        losses.contrastive_divergence_loss, [normal(3), normal(3)], lambda a, b: a.mean() - b.mean()
    ),
    "vlb_loss": Case(losses.vlb_loss, [X], lambda terms: terms.sum() / 3),
    "seq2seq_loss": Case(
        losses.seq2seq_loss,
        [X, CLASSES, SIGNS],
        lambda z, t, m: -(log_p(z, t) * m).sum() / 2,
    ),
    "ctc_loss": Case(
        lambda x, t, i, n: losses.ctc_loss(tn.log_softmax(x), t, i, n, reduction="none"),
        [normal(5, 4, 3), np.array([[1, 2], [1, 1], [2, 0], [0, 0]]), np.array([5, 4, 3, 2]), np.array([2, 2, 1, 0])],
        lambda x, *rest: aligned(special.log_softmax(x, axis=-1), *rest),
        batched=(0,),
    ),
    "normalize_group_advantages": Case(losses.normalize_group_advantages, [X], advantage),
    "ppo_policy_loss": Case(
        lambda n, o, a, r: losses.ppo_policy_loss(n, o, a, reference=r, kl_weight=0.1),
        [0.3 * X, 0.3 * Y, normal(3, 4), normal(3, 4)],
        lambda n, o, a, r: (ppo(n, o, a) + 0.1 * penalty(n, r)).mean(),
    ),
    "grpo_policy_loss": Case(
        lambda n, o, r: losses.grpo_policy_loss(n, o, r, reduction="none"),
        [0.3 * X, 0.3 * Y, normal(3, 4)],
        lambda n, o, r: ppo(n, o, advantage(r)),
        moving=(0, 1),
    ),
    "cispo_policy_loss": Case(
        lambda n, o, r: losses.cispo_policy_loss(n, o, r, epsilon_high=1.1),
        [0.3 * X, 0.3 * Y, normal(3, 4)],
        lambda n, o, r: (-np.minimum(np.exp(n - o), 1.1) * advantage(r) * n).mean(),
        moving=(),
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_the_loss_passes(name: str, check: str) -> None:
    CHECKS[check](CASES[name])


def test_every_loss_is_checked() -> None:
    assert set(losses.__all__) == {name for name in CASES if hasattr(losses, name)}


def test_large_logits_and_differences_do_not_overflow() -> None:
    z = tn.asarray([1e4, -1e4, 1e4, -1e4])
    t = tn.asarray([1.0, 0.0, 0.0, 1.0])
    assert losses.binary_cross_entropy_loss(z, t, reduction="none").tolist() == [0.0, 0.0, 1e4, 1e4]
    near = losses.log_cosh_loss(z, z * 0, reduction="none").numpy()
    np.testing.assert_allclose(near, 1e4 - np.log(2), rtol=1e-6)
    assert losses.focal_loss(tn.asarray([[1e4, 0.0]]), tn.asarray([0])).item() == 0.0


def test_probabilities_of_0_cost_nothing_and_have_gradients() -> None:
    p, q = tn.asarray([[0.0, 1.0]]), tn.asarray([[0.0, 1.0]])
    assert losses.kl_divergence(p, q).item() == 0.0
    assert losses.js_divergence(p, q).item() == 0.0
    assert np.isfinite(tn.grad(losses.js_divergence)(p, q).numpy()).all()


def test_weights_of_a_cispo_token_are_constants() -> None:
    new, old, rewards = (tn.asarray(x) for x in (0.3 * X, 0.3 * Y, normal(3, 4)))
    slope = tn.grad(lambda n: losses.cispo_policy_loss(n, old, rewards, reduction="sum"))(new).numpy()
    weight = np.minimum(np.exp(new.numpy() - old.numpy()), 5) * advantage(rewards.numpy())
    np.testing.assert_allclose(slope, -weight, rtol=1e-12)


def test_a_mean_under_a_mask_is_over_what_it_leaves() -> None:
    new, mask = tn.asarray(X), tn.asarray(np.arange(12).reshape(3, 4) % 3 == 0)
    each = losses.ppo_policy_loss(new, new * 0, new, reduction="none").numpy()
    masked = losses.ppo_policy_loss(new, new * 0, new, mask=mask).item()
    np.testing.assert_allclose(masked, each[mask.numpy()].mean(), rtol=1e-12)


def test_an_alignment_that_does_not_fit_is_infinite_and_moves_nothing() -> None:
    x = tn.asarray(normal(2, 2, 3))
    one = tn.asarray([1, 1])
    targets = tn.asarray([[1, 1], [2, 1]])

    def loss(x: Any, reduction: str = "sum") -> Any:
        return losses.ctc_loss(tn.log_softmax(x), targets, one * 2, one * 2, reduction=reduction)

    assert np.isinf(loss(x, "none").numpy()).tolist() == [True, False]
    slope = tn.grad(loss)(x).numpy()
    assert np.isfinite(slope).all()
    assert not slope[:, 0].any()
    mean = losses.ctc_loss(tn.log_softmax(x), tn.asarray([[1], [2]]), one * 2, one)
    each = losses.ctc_loss(tn.log_softmax(x), tn.asarray([[1], [2]]), one * 2, one, reduction="none")
    assert mean.item() == each.mean().item()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: losses.mse_loss(x, x[0]),
            tn.ShapeError,
            "mse_loss: the operands must have one shape, got prediction (2, 3), target (3,)",
        ),
        (
            lambda x: losses.mae_loss(x, tn.astype(x, "float64")),
            tn.DtypeError,
            "mae_loss: the operands must have one type, got prediction float32, target float64",
        ),
        (
            lambda x: losses.mse_loss(x, tn.arange(3)),
            tn.DtypeError,
            "mse_loss: int64 is not computed with (hint: astype(x, float32))",
        ),
        (
            lambda x: losses.mse_loss(x, x, reduction="average"),
            ValueError,
            "mse_loss: reduction must be mean, sum or none, got 'average'",
        ),
        (
            lambda x: losses.huber_loss(x, x, delta=0.0),
            ValueError,
            "huber_loss: delta must be a finite number above 0, got 0.0",
        ),
        (
            lambda x: losses.focal_loss(x, tn.arange(3)),
            tn.ShapeError,
            "focal_loss: targets of shape (2,) are needed, got (3,)",
        ),
        (
            lambda x: losses.focal_loss(x, x[:, 0]),
            tn.DtypeError,
            "focal_loss: targets must be integers, got float32",
        ),
        (
            lambda x: losses.seq2seq_loss(x, tn.arange(2), tn.ones(3)),
            tn.ShapeError,
            "seq2seq_loss: a weight for each loss of shape (2,) is needed, got (3,)",
        ),
        (
            lambda x: losses.ctc_loss(x, tn.ones((1, 1)), tn.ones(1), tn.ones(1)),
            tn.ShapeError,
            "ctc_loss: expected log_probabilities [steps, n, classes] and targets [n, longest], got shapes (2, 3) and "
            "(1, 1)",
        ),
        (
            lambda x: losses.info_nce_loss(x, x, x),
            tn.ShapeError,
            "info_nce_loss: expected query [n, d] and negatives [n, k, d], got (2, 3) and (2, 3)",
        ),
        (
            lambda x: losses.implicit_score_matching_loss(x, x),
            tn.ShapeError,
            "implicit_score_matching_loss: a divergence of shape (2,) is needed, got (2, 3)",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(tn.ones((2, 3)))
    assert str(caught.value) == message


def test_what_is_no_probability_is_nan_and_not_0() -> None:
    half = tn.asarray([0.5, 0.5])
    for p in ([float("nan"), 1.0], [-0.5, 1.5]):
        assert np.isnan(losses.kl_divergence(tn.asarray(p), half).item())


def test_lengths_of_alignments_are_checked() -> None:
    x, one = tn.log_softmax(tn.zeros((2, 1, 3))), tn.asarray([1])
    target = tn.asarray([[1]])
    with pytest.raises(ValueError, match=r"^ctc_loss: input_lengths must be from 0 to 2, got 9$"):
        losses.ctc_loss(x, target, one * 9, one)
    with pytest.raises(ValueError, match=r"^ctc_loss: target_lengths must be from 0 to 1, got -1$"):
        losses.ctc_loss(x, target, one, -one)
    with pytest.raises(tn.DtypeError, match=r"^ctc_loss: input_lengths must be integers, got float32$"):
        losses.ctc_loss(x, target, tn.ones(1), one)
    with pytest.raises(IndexError, match="7"):
        losses.ctc_loss(x, target * 7, one, one)
    assert losses.ctc_loss(x, target, one * 0, one).item() == float("inf")
    assert losses.ctc_loss(x, target, one * 0, one * 0).item() == 0.0


def test_targets_that_are_no_class_are_refused() -> None:
    with pytest.raises(IndexError, match="5"):
        losses.load_balance_loss(tn.ones((2, 3)), tn.asarray([5, 0]))
    with pytest.raises(IndexError, match="3"):
        losses.focal_loss(tn.ones((2, 3)), tn.asarray([0, 3]))


def test_a_negative_target_is_not_the_last_class() -> None:
    z, even, one = tn.zeros((1, 3)), tn.log_softmax(tn.zeros((3, 1, 3))), tn.asarray([1])
    calls = {
        "focal_loss: target": lambda t: losses.focal_loss(z, t),
        "load_balance_loss: assignment": lambda t: losses.load_balance_loss(z, t),
        "ctc_loss: target": lambda t: losses.ctc_loss(even, t.reshape((1, 1)), one * 3, one),
    }
    for text, call in calls.items():
        with pytest.raises(IndexError, match=f"^{text} -1 is no class from 0 to 2$"):
            call(tn.asarray([-1]))
        with pytest.raises(IndexError, match=f"^{text} 3 is no class from 0 to 2$"):
            call(tn.asarray([3]))
        for wrong in (tn.asarray([-1]), tn.asarray([2**64 - 1], dtype=tn.uint64)):
            with pytest.raises(IndexError, match="index 3"):
                tn.capture(call)(wrong)


def test_targets_behind_their_length_may_be_anything() -> None:
    x, one = tn.log_softmax(tn.asarray(normal(3, 1, 3))), tn.asarray([1])
    plain = losses.ctc_loss(x, tn.asarray([[2]]), one * 3, one).item()
    for rest in (-1, 0, 2, 100):
        assert losses.ctc_loss(x, tn.asarray([[2, rest]]), one * 3, one).item() == plain

"""Plans that compute values again: every budget from the lower bound to the peak gives the same bits, or a refusal."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as tn
from tensor.errors import BudgetExceeded
from tensor.graph.canonical import renumbered
from tensor.graph.machine import Machine
from tensor.graph.plan import plan_graph
from tensor.graph.recompute import recomputed


def drawn(rng: np.random.Generator, *shape: int) -> tn.Tensor:
    return tn.asarray(rng.normal(size=shape).astype(np.float32))


def same(a: tn.Tensor, b: tn.Tensor) -> bool:
    pair = [bytes(memoryview(t.contiguous())) for t in (a, b)]
    return a.shape == b.shape and a.dtype == b.dtype and pair[0] == pair[1]


def layers(count: int):
    """Layers of a small transformer: norms, a softmax, products, views that turn."""

    def loss(p, x):
        for w, v in p:
            a = tn.layer_norm(x, 32)
            scores = tn.softmax((a @ w) @ a.mT)
            x = x + (scores @ a).reshape((4, 16, 2, 16)).permute((0, 2, 1, 3)).reshape((4, 16, 32))
            x = x + tn.gelu(tn.layer_norm(x, 32) @ v) @ v.T
        return tn.sum(x * x)

    return tn.value_and_grad(loss)


def weights(rng: np.random.Generator, count: int):
    return [(drawn(rng, 32, 32) * 0.1, drawn(rng, 32, 128) * 0.1) for _ in range(count)]


@pytest.mark.parametrize("fusion", [True, False])
def test_every_budget_from_the_smallest_plan_to_the_fastest_gives_the_same_bits(fusion: bool) -> None:
    rng = np.random.default_rng(0)
    p, x = weights(rng, 3), drawn(rng, 4, 16, 32)
    both = layers(3)
    expected = tn.autograd.tree_leaves(both(p, x))
    peak = tn.capture(both, fusion=fusion).plan(p, x).peak_bytes
    peaks = []
    for share in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5):
        f = tn.capture(both, fusion=fusion)
        f.plan(p, x)  # constants that the function makes are not the run's
        with tn.budget(max_bytes=int(peak * share)) as b:
            got = tn.autograd.tree_leaves(f(p, x))
            assert b.peak_bytes <= int(peak * share)
        assert all(same(a, c) for a, c in zip(got, expected, strict=True))
        peaks.append(f.plan().peak_bytes)
        assert bool(f.plan().recomputed) == (share < 1)
    assert peaks == sorted(peaks, reverse=True)


def test_budgets_close_to_each_other_give_plans_that_only_shrink_and_never_another_bit() -> None:
    rng = np.random.default_rng(5)
    p, x = weights(rng, 2), drawn(rng, 4, 16, 32)
    both = layers(2)
    expected = tn.autograd.tree_leaves(both(p, x))
    f = tn.capture(both)
    peak = f.plan(p, x).peak_bytes
    with tn.budget(max_bytes=0), pytest.raises(BudgetExceeded) as caught:
        f(p, x)
    least = caught.value.requested
    before = peak
    for limit in np.linspace(peak, least, 12).astype(int).tolist():
        g = tn.capture(both)
        g.plan(p, x)
        with tn.budget(max_bytes=limit) as b:
            got = tn.autograd.tree_leaves(g(p, x))
            assert b.peak_bytes == g.plan().peak_bytes <= min(limit, before)
        before = g.plan().peak_bytes
        assert all(same(a, c) for a, c in zip(got, expected, strict=True))


def test_a_bound_of_its_own_is_kept_and_the_plan_says_what_runs_again() -> None:
    rng = np.random.default_rng(1)
    p, x = weights(rng, 4), drawn(rng, 4, 16, 32)
    both = layers(4)
    free = tn.capture(both).plan(p, x)
    f = tn.capture(both, max_bytes=free.peak_bytes // 2)
    plan = f.plan(p, x)
    assert plan.peak_bytes <= free.peak_bytes // 2
    assert plan.recomputed
    assert sum(row["again"] for row in plan.table()) == len(plan.recomputed)
    with tn.budget(max_bytes=1 << 22) as b:
        got = f(p, x)
        assert b.peak_bytes == plan.peak_bytes
    assert all(same(a, c) for a, c in zip(*map(tn.autograd.tree_leaves, (got, both(p, x))), strict=True))


def test_cheap_values_are_made_again_before_products() -> None:
    rng = np.random.default_rng(2)
    w, x = drawn(rng, 256, 256), drawn(rng, 64, 256)

    def loss(w, x):
        for _ in range(4):
            x = tn.sigmoid(tn.exp(tn.sin(x @ w)))
        return tn.sum(x)

    both = tn.value_and_grad(loss)
    graph = tn.capture(both, fusion=False).graph(w, x)
    plan = plan_graph(graph)
    slightly = plan_graph(recomputed(graph, plan.peak_bytes - 1))
    assert "matmul" not in slightly.recomputed
    least = plan_graph(recomputed(graph, 0))
    assert "matmul" in least.recomputed
    assert least.peak_bytes < slightly.peak_bytes < plan.peak_bytes


def test_what_no_recomputation_can_fit_is_refused_before_memory_is_taken() -> None:
    rng = np.random.default_rng(3)
    p, x = weights(rng, 2), drawn(rng, 4, 16, 32)
    both = layers(2)
    f = tn.capture(both)
    f.plan(p, x)  # constants that the function makes are not the run's
    with tn.budget(max_bytes=0), pytest.raises(BudgetExceeded) as caught:
        f(p, x)
    least = caught.value.requested
    with tn.budget(max_bytes=least - 1) as b, pytest.raises(BudgetExceeded) as caught:
        f(p, x)
    assert b.peak_bytes == 0
    assert caught.value.requested == least
    assert "steps run a second time" in str(caught.value)
    with tn.budget(max_bytes=least) as b:
        f(p, x)
        assert b.peak_bytes == least
    with pytest.raises(BudgetExceeded, match=r"needs .* of 1000 bytes; largest: %"):
        tn.capture(both, max_bytes=1000)(p, x)
    with pytest.raises(ValueError, match="capture: max_bytes must not be negative, got -1"):
        tn.capture(both, max_bytes=-1)
    with pytest.raises(TypeError, match="capture: max_bytes must be an int, got float"):
        tn.capture(both, max_bytes=1e6)


def test_a_graph_goes_back_to_its_fastest_plan_when_memory_is_there_again() -> None:
    rng = np.random.default_rng(4)
    p, x = weights(rng, 3), drawn(rng, 4, 16, 32)
    f = tn.capture(layers(3))
    peak = f.plan(p, x).peak_bytes
    with tn.budget(max_bytes=peak - 1) as b:
        for _ in range(2):
            f(p, x)
        assert b.peak_bytes <= peak - 1
    small = f.plan().peak_bytes
    f(p, x)
    assert f.plan().peak_bytes == peak > small


UNARY = ("exp", "tanh", "sigmoid", "sin", "gelu")


@pytest.mark.parametrize("seed", range(10))
def test_random_graphs_of_products_views_norms_and_chains_keep_their_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    choices = [(int(rng.integers(6)), int(rng.integers(64)), int(rng.integers(64))) for _ in range(40)]

    def fn(x, y):
        values = [x, y]
        for kind, i, j in choices:
            a, b = values[-1 - i % min(len(values), 12)], values[-1 - j % min(len(values), 30)]
            if kind == 0:
                values.append(getattr(tn, UNARY[i % 5])(a * 0.25))
            elif kind == 1:
                values.append(tn.softmax(a) @ b)
            elif kind == 2:
                values.append(a.T + b)
            elif kind == 3:
                values.append(tn.layer_norm(a, 24))
            elif kind == 4:
                values.append(a.reshape((4, 6, 24)).permute((1, 0, 2)).reshape((24, 24)))
            else:
                values.append(tn.where(a > b, a, b * 2.0)[::-1])
        return values[-1], tn.sum(values[-7] + values[3])

    x, y = drawn(rng, 24, 24), drawn(rng, 24, 24)
    expected = fn(x, y)
    graph = tn.capture(fn).graph(x, y)
    peaks = set()
    for share in (1.0, 0.7, 0.4, 0.0):
        smaller = renumbered(recomputed(graph, int(plan_graph(graph).peak_bytes * share)))
        smaller.verify()
        plan = plan_graph(smaller)
        peaks.add(plan.peak_bytes)
        for _ in range(2):
            got = Machine(smaller, plan).run([x, y])
            assert all(same(a, b) for a, b in zip(got, expected, strict=True))
    assert peaks

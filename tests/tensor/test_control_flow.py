"""scan, cond, switch, while_loop and their kin: values, gradients, batches, memory."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor.autograd import (
    associative_scan,
    cond,
    fori_loop,
    grad,
    gradcheck,
    jvp,
    map,
    scan,
    switch,
    value_and_grad,
    vmap,
    while_loop,
)
from tensor.errors import ShapeError


def f64(values: Any) -> Any:
    return tn.asarray(np.asarray(values, np.float64))


def step(carry: Any, x: Any) -> tuple[Any, Any]:
    after = tn.tanh(carry * 0.9 + x)
    return after, after * x


@given(st.integers(1, 12), st.integers(0, 5), st.booleans())
@settings(max_examples=20, deadline=None)
def test_scan_equals_the_loop_for_every_grouping(n: int, every: int, reverse: bool):
    xs = f64(np.linspace(-1, 1, n))

    def looped(x: Any) -> Any:
        carry, ys = f64(0.5), []
        for i in reversed(range(n)) if reverse else range(n):
            carry, y = step(carry, x[i])
            ys.append(y)
        return carry + sum(y * (k + 1) for k, y in enumerate(ys[::-1] if reverse else ys))

    def scanned(x: Any) -> Any:
        carry, ys = scan(step, f64(0.5), x, reverse=reverse, checkpoint_every=every)
        return carry + (ys * f64(np.arange(1.0, n + 1))).sum()

    (a, da), (b, db) = value_and_grad(looped)(xs), value_and_grad(scanned)(xs)
    assert a.item() == pytest.approx(b.item(), rel=1e-14)
    assert da.tolist() == pytest.approx(db.tolist(), rel=1e-12)


def test_groups_do_not_change_a_bit():
    xs = f64(np.linspace(-1, 1, 30))

    def last(x: Any, every: int) -> Any:
        return scan(step, f64(0.1), x, checkpoint_every=every)[0]

    found = {tuple(grad(partial(last, every=every))(xs).tolist()) for every in (0, 1, 4, 7)}
    assert len(found) == 1


def test_scan_says_what_a_turn_must_give():
    text = "scan: the y of each turn must be a tree of tensors, got float "
    with pytest.raises(TypeError, match=f"^{re.escape(text)}"):
        scan(lambda c, x: (c + x, c), 0.0, tn.ones(3))


def test_scan_without_xs_counts_steps():
    last, ys = scan(lambda c, x: (c * 2, c), f64(1.0), length=4)
    assert (last.item(), ys.tolist()) == (16.0, [1.0, 2.0, 4.0, 8.0])


def test_scan_carries_trees_and_gives_gradients_to_closures():
    w = f64(0.5)

    def f(weight: Any) -> Any:
        state, ys = scan(
            lambda s, x: ({"a": s["a"] * weight + x, "b": s["b"] + s["a"]}, None),
            {"a": f64(1.0), "b": f64(0.0)},
            f64([1.0, 2.0, 3.0, 4.0, 5.0]),
        )
        assert ys is None
        return state["a"] * state["b"]

    gradcheck(f, (w,))
    gradcheck(grad(f), (w,))
    leaf = f64(0.5).requires_grad_()
    f(leaf).backward()
    assert leaf.grad.item() == grad(f)(w).item()


def test_a_long_scan_needs_the_memory_of_its_square_root():
    n, width = 400, 256

    def f(x0: Any, every: int | None) -> Any:
        return scan(lambda c, x: (tn.sin(c) * 1.01, None), x0, length=n, checkpoint_every=every)[0].sum()

    peaks = {}
    for every in (0, None):
        with tn.budget(max_bytes=1 << 26) as budget:
            g = grad(lambda x, every=every: f(x, every))(tn.full((width,), 0.5))
            peaks[every] = (budget.peak_bytes, g.tolist())
    assert peaks[0][1] == peaks[None][1]
    assert peaks[None][0] < peaks[0][0] / 4
    assert peaks[None][0] < 5 * n**0.5 * width * 4


@pytest.mark.slow
def test_4_000_steps_of_a_roll_out_fit_into_8_megabytes():
    with tn.budget(max_bytes=8 << 20) as budget:
        state = tn.full((64, 64), 0.1)
        g = grad(lambda w: scan(lambda c, x: (tn.tanh(c * w), None), state, length=4000)[0].sum())(tn.asarray(0.99))
    assert g.item() == g.item()
    assert budget.peak_bytes < 8 << 20


def test_batches_and_tangents_pass_through_scan():
    starts, xs = f64([0.1, 0.2, 0.3]), f64(np.linspace(0, 1, 9))

    def f(c: Any) -> Any:
        return scan(step, c, xs, checkpoint_every=2)[0]

    mapped = vmap(f)(starts)
    slopes = vmap(grad(f))(starts)
    summed = grad(lambda s: vmap(f)(s).sum())(starts)
    for k in range(3):
        assert mapped[k].item() == f(starts[k]).item()
        assert slopes[k].item() == pytest.approx(grad(f)(starts[k]).item(), rel=1e-13)
        assert summed[k].item() == pytest.approx(grad(f)(starts[k]).item(), rel=1e-13)
        assert jvp(f, (starts[k],), (f64(1.0),))[1].item() == pytest.approx(slopes[k].item(), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: scan(lambda c, x: (c * tn.ones((2,)), None), tn.asarray(1.0), length=2),
            "scan: the carry must keep its shapes and dtypes, float32[] became float32[2]",
        ),
        (
            lambda: scan(lambda c, x: ((c, c), None), tn.asarray(1.0), length=2),
            "scan: the carry must keep its tree, it was * and became (*, *)",
        ),
        (
            lambda: scan(lambda c, x: (c, None), tn.asarray(1.0), (tn.ones((2,)), tn.ones((3,)))),
            "scan: xs must share the length of their first axis, got [2, 3]",
        ),
        (
            lambda: while_loop(lambda s: s < 5, lambda s: s.reshape((1,)), tn.asarray(1.0)),
            "while_loop: the carry must keep its shapes and dtypes, float32[] became float32[1]",
        ),
        (
            lambda: cond(tn.ones((2,)) > 0, lambda: 1, lambda: 2),
            "cond: the condition must be 0-d, got bool[2]",
        ),
    ],
)
def test_wrong_loops_say_what_is_wrong(call: Any, text: str):
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        call()


def test_cond_takes_one_branch_and_under_vmap_each_its_own():
    def f(x: Any) -> Any:
        return cond(x > 0, lambda v: {"y": v * v}, lambda v: {"y": -v}, x)["y"]

    xs = f64([-2.0, 3.0, -0.5])
    assert vmap(f)(xs).tolist() == [f(xs[k]).item() for k in range(3)] == [2.0, 9.0, 0.5]
    assert vmap(grad(f))(xs).tolist() == [-1.0, 6.0, -1.0]
    with pytest.raises(ZeroDivisionError):
        cond(True, lambda: 1 / 0, lambda: 2)
    assert cond(False, lambda: 1 / 0, lambda: 2) == 2


def test_switch_clamps_its_index():
    branches = [lambda x: x + 1, lambda x: x * 10, lambda x: -x]
    assert [switch(i, branches, 5) for i in (-3, 0, 1, 2, 9)] == [6, 6, 50, -5, -5]
    found = vmap(lambda i, x: switch(i, branches, x))(tn.asarray([-1, 1, 7]), f64([1.0, 2.0, 3.0]))
    assert found.tolist() == [2.0, 20.0, -3.0]
    with pytest.raises(ValueError, match=r"^switch: there are no branches$"):
        switch(0, [], 1)


def test_while_loop_runs_each_element_to_its_own_end():
    def f(x: Any) -> Any:
        return while_loop(lambda s: s[0] < 50.0, lambda s: (s[0] * 2, s[1] + 1), (x, f64(0.0)))

    values, counts = vmap(f)(f64([1.0, 49.0, 60.0]))
    assert values.tolist() == [64.0, 98.0, 60.0]
    assert counts.tolist() == [6.0, 1.0, 0.0]
    assert vmap(grad(lambda x: f(x)[0]))(f64([1.0, 49.0, 60.0])).tolist() == [64.0, 2.0, 1.0]
    assert jvp(lambda x: f(x)[0], (f64(3.0),), (f64(1.0),))[1].item() == 32.0


def test_fori_loop_and_map_are_loops():
    assert fori_loop(0, 5, lambda i, s: s + i, 0) == 10
    assert fori_loop(3, 3, lambda i, s: 1 / 0, 7) == 7
    xs = f64([1.0, 2.0, 3.0, 4.0, 5.0])
    assert map(lambda x: {"y": x * x}, xs)["y"].tolist() == [1.0, 4.0, 9.0, 16.0, 25.0]
    assert grad(lambda x: map(lambda e: e * e, x).sum())(xs).tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]


@given(st.integers(1, 17), st.booleans())
@settings(max_examples=20, deadline=None)
def test_associative_scan_gives_all_prefixes(n: int, reverse: bool):
    rng = np.random.default_rng(n)
    slopes, shifts = rng.integers(-2, 3, n).astype(float), rng.integers(-3, 4, n).astype(float)

    def compose(f: Any, g: Any) -> Any:  # first f, then g: x → g.a·(f.a·x + f.b) + g.b
        return {"a": g["a"] * f["a"], "b": g["a"] * f["b"] + g["b"]}

    tree = {"a": f64(slopes), "b": f64(shifts)}
    found = associative_scan(compose, tree, reverse=reverse)
    order = range(n - 1, -1, -1) if reverse else range(n)
    a, b = 1.0, 0.0
    for i in order:
        a, b = slopes[i] * a, slopes[i] * b + shifts[i]
        assert (found["a"][i].item(), found["b"][i].item()) == (a, b)

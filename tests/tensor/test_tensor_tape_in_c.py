"""The reverse pass in C: the order of additions, short cuts that give the bits of the rows' rules, failures."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor import _kernels


def by_the_rules(run: Any, *leaves: Any) -> list[Any]:
    """Gradients with every row's own rule: a pass that is recorded itself takes no short cut."""
    run(*leaves).backward(create_graph=True)
    found = [x.grad.detach().clone() for x in leaves]
    for x in leaves:
        x.grad = None
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("+-*rsn"), min_size=1, max_size=12), st.integers(0, 2**31))
def test_short_cuts_give_the_bits_of_the_rules(steps: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = (tn.asarray(rng.normal(size=(2, 3)).astype(np.float32)).requires_grad_() for _ in range(2))

    kinds = {
        "+": lambda y, z, w: y + z,
        "-": lambda y, z, w: y - z,
        "*": lambda y, z, w: y * z,
        "r": lambda y, z, w: y.T.T * w,
        "s": lambda y, z, w: y.sum(0, keepdims=True) * 0.25 + z,
        "n": lambda y, z, w: -y,
    }

    def run(x: Any, w: Any) -> Any:
        y = x
        for k, step in enumerate(steps):
            y = kinds[step](y, w if k % 2 else y, w)
        return (y * w).sum()

    want = by_the_rules(run, x, w)
    run(x, w).backward()
    for leaf, g in zip((x, w), want, strict=True):
        assert leaf.grad.numpy().tobytes() == g.numpy().tobytes()
        assert not leaf.grad.requires_grad
        assert not leaf.grad.is_view


def test_gradients_add_to_what_is_there_and_belong_to_their_leaf_alone() -> None:
    x, y = tn.ones(3).requires_grad_(), tn.ones(3).requires_grad_()
    for k in range(3):
        (x + y).sum().backward()
        assert x.grad.tolist() == y.grad.tolist() == [k + 1.0] * 3
        assert x.grad.data_address != y.grad.data_address
    z = tn.asarray(2.0).requires_grad_()
    (z * 1.0).backward()
    assert z.grad.item() == 1.0


def test_nothing_is_left_after_the_pass_and_a_second_one_says_why() -> None:
    gc.disable()
    try:
        x = tn.ones(1000).requires_grad_()
        y = (x * x).sum()
        node = weakref.ref(y)
        y.backward()
        with pytest.raises(tn.GradientError, match=r"^backward of sum: what it saved is gone"):
            y.backward()
        del y
        assert node() is None
    finally:
        gc.enable()


def test_a_failing_rule_changes_no_gradient() -> None:
    x, w = tn.ones(3).requires_grad_(), tn.ones(3).requires_grad_()
    y = x * w
    loss = (y * x).sum()
    with_old = tn.ones(3)
    w.grad = with_old
    _kernels.assign(w.detach(), 2.0)
    with pytest.raises(tn.GradientError, match=r"^backward of mul: input 1 \(float32\[3\]\) was changed in place"):
        loss.backward()
    assert x.grad is None
    assert w.grad is with_old


def test_a_chain_of_a_hundred_thousand_operations_passes() -> None:
    x = tn.ones(1).requires_grad_()
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.sum().backward()
    assert x.grad.item() == 1.0


def test_the_pass_in_c_takes_several_outputs() -> None:
    x = tn.ones(2).requires_grad_()
    a, b = x * 2.0, x * 3.0
    pairs = _kernels.backward_pass((a, b, x), (tn.ones(2), tn.ones(2), tn.ones(2)), True)
    assert [(leaf is x, g.tolist()) for leaf, g in pairs] == [(True, [6.0, 6.0])]
    with pytest.raises(TypeError, match="as many seeds as outputs"):
        _kernels.backward_pass((a,), (), True)

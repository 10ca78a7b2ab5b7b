"""Control flow in captured functions is one step with bodies: the same bits as eager, the memory of one turn."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensor as tn
from tensor.autograd import cond, fori_loop, scan, switch, while_loop
from tensor.errors import ShapeError, TensorFileError, TraceError
from tensor.graph.body import Body
from tensor.graph.graph import Graph
from tensor.io import SafetensorsFile, write_safetensors
from tensor.random import Key, Stream


def drawn(rng: np.random.Generator, *shape: int) -> tn.Tensor:
    return tn.asarray(rng.normal(size=shape).astype(np.float32))


def same(a: tn.Tensor, b: tn.Tensor) -> bool:
    pair = [bytes(memoryview(t.contiguous())) for t in (a, b)]
    return a.shape == b.shape and a.dtype == b.dtype and pair[0] == pair[1]


def agree(fn, *args, fusion: bool = True):
    f = tn.capture(fn, fusion=fusion)
    for _ in range(2):
        ours, theirs = map(tn.autograd.tree_leaves, (f(*args), fn(*args)))
        assert all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    return f


def names(f, *args) -> list[str]:
    return [s.primitive.name for s in f.graph(*args).steps]


RNG = np.random.default_rng(0)
W = drawn(RNG, 8, 8) * 0.3


def roll(x, us):
    def turn(carry, u):
        h, count = carry
        h = tn.tanh(h @ W + u["u"] * tn.exp(-h))
        return (h, count + 1), {"sum": tn.sum(h), "same": u["u"], "h": h}

    return scan(turn, (x, tn.asarray(0)), {"u": us})


@pytest.mark.parametrize("fusion", [True, False])
def test_a_scan_is_one_step_with_the_bits_of_its_turns(fusion: bool) -> None:
    x, us = drawn(RNG, 8), drawn(RNG, 50, 8)
    f = agree(roll, x, us, fusion=fusion)
    assert names(f, x, us) == ["scan"]
    agree(lambda x, us: scan(lambda c, u: (c * 0.9 + u, c), x, us, reverse=True), x, us)
    agree(lambda x: scan(lambda c, _: (tn.sin(c + x), None), x, None, 30), x)
    agree(lambda us: tn.autograd.map(lambda u: u @ W, us), us)


def test_four_thousand_turns_take_the_memory_of_one() -> None:
    x, us = drawn(RNG, 8), drawn(RNG, 4000, 8)
    f = tn.capture(lambda x, us: scan(lambda c, u: (tn.tanh(c @ W + u), tn.sum(c)), x, us))
    plan = f.plan(x, us)
    assert plan.arena_bytes < 1000
    assert plan.output_bytes == 32 + 4 * 4000
    with tn.budget(max_bytes=1 << 20) as b:
        f(x, us)
        assert b.peak_bytes == plan.peak_bytes


def test_loops_and_branches_follow_values() -> None:
    def grow(x):
        return while_loop(
            lambda s: tn.sum(s[0]) < 100.0 + W[0, 0], lambda s: (s[0] * 1.5 + W[0], s[1] + 1), (x, tn.asarray(0))
        )

    def either(x):
        y = tn.exp(x)
        return cond(tn.sum(x) > 0, lambda v: {"a": v * y, "b": v}, lambda v: {"a": -v, "b": y[::-1]}, x)

    def one_of(i, x):
        return switch(i, [lambda v: v + 1, lambda v: v @ W, lambda v: v * 0 - 5], x)

    x = tn.ones(8)
    assert names(agree(grow, x), x) == ["while_loop"]
    assert same(tn.capture(grow)(x * 1000)[0], x * 1000)
    for v in (x, -x):
        agree(either, v)
    f = tn.capture(one_of)
    for i in (-3, 0, 1, 2, 9):
        assert same(f(tn.asarray(i), x), one_of(tn.asarray(i), x))


def test_control_flow_nests() -> None:
    def fn(x, us):
        def turn(c, u):
            inner, ys = scan(lambda d, k: (d + tn.sin(d * k), d[0]), c, us[:9, 0])
            c = cond(tn.sum(inner) > 0, lambda v: v - u, lambda v: v * W[1] + x, inner)
            c = while_loop(lambda v: tn.max(v) > 2.0, lambda v: v * 0.5, c)
            return c, tn.sum(ys)

        return scan(turn, x, us)

    agree(fn, drawn(RNG, 8), drawn(RNG, 20, 8))


def test_transformations_inside_a_body_and_around_it() -> None:
    def descend(w, xs):
        return scan(lambda w, x: (w - 0.1 * tn.grad(lambda w: tn.sum(tn.tanh(x @ w) ** 2))(w), None), w, xs)[0]

    w, xs = drawn(RNG, 8, 3), drawn(RNG, 12, 4, 8)
    assert names(agree(descend, w, xs), w, xs) == ["scan"]
    agree(tn.vmap(lambda x: scan(lambda c, u: (c + tn.sin(u), c), x[0], x)[0]), xs)

    agree(tn.vmap(lambda x: scan(lambda c, u: (c + tn.sin(u) * x, c), W[0], W)[0]), drawn(RNG, 5, 8))

    def loss(w):
        return tn.sum(scan(lambda h, x: (tn.tanh(x @ w @ w.T), None), xs[0], xs)[0])

    f = agree(tn.value_and_grad(loss), w)
    assert "scan" not in names(f, w)
    agree(lambda x: fori_loop(0, 3, lambda i, v: v * i + 1, x), w)


def test_streams_advance_in_a_captured_scan_as_they_do_outside() -> None:
    def fn(stream):
        return lambda x: scan(lambda c, _: (c + stream.uniform(3), None), x, None, 10)[0]

    first, second = Stream(5), Stream(5)
    f, g = tn.capture(fn(first)), fn(second)
    for _ in range(2):
        assert same(f(tn.zeros(3)), g(tn.zeros(3)))
    assert first.position == second.position == 20
    agree(lambda key, x: scan(lambda c, _: (c + key.uniform(3), None), x, None, 10)[0], Key(3), tn.zeros(3))


def test_what_is_no_step_is_refused_with_a_hint() -> None:
    x = tn.ones(3)
    stream = Stream(1)
    with pytest.raises(
        TraceError, match=r"cond: where it is captured its functions give tensors, .*hint: tensor.where"
    ):
        tn.capture(lambda x: cond(x[0] > 0, lambda v: 1.0, lambda v: 2.0, x))(x)
    with pytest.raises(TraceError, match="while_loop: where it is captured its functions"):
        tn.capture(lambda x: while_loop(lambda v: v[0] < 9, lambda v: v + stream.uniform(3), x))(x)
    with pytest.raises(TraceError, match="what is carried must be tensors"):
        tn.capture(lambda x: while_loop(lambda s: s[0][0] < 9, lambda s: (s[0] * 2, 1), (x, 1)))(x)
    with pytest.raises(TraceError, match="stands for many values"):
        tn.capture(tn.grad(lambda x: tn.sum(cond(x[0] > 0, lambda v: v * 2, lambda v: v, x))))(x)
    with pytest.raises(ShapeError, match="both branches must give the same trees, shapes and dtypes"):
        tn.capture(lambda x: cond(x[0] > 0, lambda v: v[:2], lambda v: v, x))(x)
    with pytest.raises(ShapeError, match="the carry must keep its shapes and dtypes"):
        tn.capture(lambda x: scan(lambda c, _: (c[:2], None), x, None, 10))(x)


def test_saved_control_flow_runs_with_its_hash_and_bits(tmp_path) -> None:
    def fn(x, us):
        last, ys = roll(x, us)
        y = cond(last[0][0] > 0, lambda v: v * 2, lambda v: v @ W, last[0])
        return while_loop(lambda v: tn.sum(v * v) > 0.5, lambda v: v * 0.7, y), ys

    x, us = drawn(RNG, 8), drawn(RNG, 20, 8)
    f = agree(fn, x, us)
    f.save(tmp_path / "f", x, us)
    g = tn.graph.load(tmp_path / "f")
    assert g.hash() == f.hash(x, us)
    ours, theirs = (tn.autograd.tree_leaves(run(x, us)) for run in (g, fn))
    assert all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    g.save(tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == (tmp_path / "f").read_bytes()


HOSTILE = [
    ('"carry":2', '"carry":1', "inputs and params that the row takes, got 'ValueError: scan: "),
    ('"carry":2', '"carry":-1', "inputs and params that the row takes, got 'ValueError: scan: counts must not"),
    ('"length":20', '"length":21', "inputs and params that the row takes, got 'ValueError: scan: expected 21"),
    ('"length":20', '"length":true', "inputs and params that the row takes, got 'ValueError: scan: counts must not"),
    ('"reverse":false', '"reverse":0', "inputs and params that the row takes, got 'ValueError: scan: counts must not"),
    ('"sliced":1', '"sliced":2', "inputs and params that the row takes, got 'ValueError: scan: "),
    ('"sliced":1', '"other":1', "params in the order of their names"),
    ('"carry":2,', "", "its params, got "),
]


@pytest.mark.parametrize(("text", "instead", "expected"), HOSTILE)
def test_a_hostile_loop_is_refused_by_name(tmp_path, text: str, instead: str, expected: str) -> None:
    tn.capture(roll).save(tmp_path / "f", tn.ones(8), tn.ones((20, 8)))
    file = SafetensorsFile(tmp_path / "f")
    member, whole = next(iter(file.metadata.items()))
    assert text in whole
    tensors = {name: file.tensor(name) for name in file}
    write_safetensors(tmp_path / "g", tensors, {member: whole.replace(text, instead)})
    with pytest.raises(TensorFileError) as caught:
        tn.graph.load(tmp_path / "g")
    assert re.search(f"step 0, 'scan': expected {re.escape(expected[:24])}", str(caught.value))


def test_a_body_has_results_of_its_own_and_no_constants() -> None:
    graph = Graph("f")
    graph.inputs = [graph.value(tn.graph.graph.Spec((2,), "float32"))]
    graph.outputs = list(graph.inputs)
    with pytest.raises(ValueError, match="each result of a body is made by a step"):
        Body(graph)
    graph.constants = {0: tn.ones(2)}
    with pytest.raises(ValueError, match="a body has no constants"):
        Body(graph)

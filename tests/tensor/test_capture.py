"""Captured functions equal the functions, take the memory that their plan says, and refuse before they run."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor.errors import BudgetExceeded, GradientError, TraceError
from tensor.graph.layout import c_strides, reshape_strides
from tensor.graph.plan import Buffer, _first_free


def drawn(rng: np.random.Generator, *shape: int) -> tn.Tensor:
    return tn.asarray(rng.normal(size=shape).astype(np.float32))


def same(a: tn.Tensor, b: tn.Tensor) -> bool:
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and bytes(memoryview(a.contiguous())) == bytes(memoryview(b.contiguous()))
    )


UNARY = ("exp", "tanh", "sigmoid", "relu", "square", "abs", "sin", "gelu")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


def program(rng: np.random.Generator, length: int):
    """A random function of three tensors that broadcast, as a list of choices made once."""
    choices = []
    for i in range(length):
        count = 3 + i
        if rng.random() < 0.4:
            choices.append((str(rng.choice(UNARY)), int(rng.integers(count)), -1))
        else:
            choices.append((str(rng.choice(BINARY)), int(rng.integers(count)), int(rng.integers(count))))
    ends = [int(rng.integers(3 + length)) for _ in range(3)]

    def fn(x, y, z):
        values = [x, y, z]
        for name, a, b in choices:
            f = getattr(tn, name)
            values.append(f(values[a]) if b < 0 else f(values[a], values[b]))
        return values[-1], values[ends[0]] * 1.0, values[ends[1]] + values[ends[2]]

    return fn


@pytest.mark.parametrize("seed", range(12))
def test_a_random_program_captured_fused_or_not_equals_itself_to_the_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fn = program(rng, int(rng.integers(1, 30)))
    args = drawn(rng, 5, 33), drawn(rng, 33), drawn(rng, 5, 1)
    expected = fn(*args)
    for fusion in (True, False):
        captured = tn.capture(fn, fusion=fusion)
        for _ in range(2):
            assert all(same(a, b) for a, b in zip(captured(*args), expected, strict=True))


def test_a_result_takes_no_room_of_an_operand_with_smaller_elements() -> None:
    x = tn.asarray(np.random.default_rng(0).normal(size=1000))

    def chosen(x):
        return tn.where(x > 0, tn.where(x == x, x * 2, x), tn.where(x < 1, x * 3, x)) + 1  # noqa: PLR0124, a NaN is not

    def turned(z):
        real = tn.real(z) * 2
        return tn.conj(z) * tn.astype(real * 0.5, tn.complex128)

    assert same(tn.capture(chosen)(x), chosen(x))
    z = tn.fft.fft(x)
    assert same(tn.capture(turned)(z), turned(z))


@pytest.mark.parametrize("seed", range(90, 120))
def test_steps_of_several_shapes_are_fused_without_waiting_for_themselves(seed: int) -> None:
    """Seed 101 made two groups that each waited for a step of the other."""

    def program(*xs: Any) -> tuple[Any, ...]:
        rng = random.Random(seed)
        held = list(xs)
        for _ in range(rng.randint(3, 40)):
            kind, a, b = rng.random(), rng.choice(held[-10:]), rng.choice(held[-10:])
            if kind < 0.5:
                held.append(a * b + 0.5)
            elif kind < 0.6:
                held.append(tn.maximum(a, b))
            elif kind < 0.7:
                held.append(tn.where(a > b, a, b - a))
            elif kind < 0.8:
                held.append(a.sum(axis=0, keepdims=True) if a.ndim else a - b)
            elif kind < 0.9:
                held.append(tn.tanh(a))
            else:
                held.append(tn.flip(a, axis=0) if a.ndim else a + b)
        return held[-1], held[-2], held[len(held) // 2]

    rng = np.random.default_rng(seed)
    inputs = [tn.asarray(rng.normal(size=shape).astype(np.float32)) for shape in ((3,), (1,), (), (2, 3), (3,))]
    captured = tn.capture(program)(*inputs)
    assert [x.tolist() for x in captured] == [x.tolist() for x in program(*inputs)]


def test_a_long_function_is_captured_in_time_proportional_to_its_length() -> None:
    def steps(count):
        def fn(w, x):
            for _ in range(count):
                w = tn.tanh(w * 0.9 + x)
            return w

        return fn

    seconds = []
    for count in (250, 2000):
        start = time.process_time()
        captured = tn.capture(steps(count))
        captured(tn.ones(3), tn.ones(3))
        seconds.append(time.process_time() - start)
    assert seconds[1] < 24 * seconds[0] + 0.2  # 8 times the steps; 64 and more where each step looks at all before
    x = tn.asarray([0.5, -1.0])
    assert same(tn.capture(steps(500))(x, x), steps(500)(x, x))


def test_a_chain_becomes_one_step() -> None:
    f = tn.capture(lambda x, y: tn.tanh(x * y + x) * 0.5 + y)
    x, y = tn.asarray([1.0, 2.0]), tn.asarray([3.0, 4.0])
    f(x, y)
    assert [s.primitive.name for s in f.graph(x, y).steps] == ["fused"]
    assert f.plan().arena_bytes == 0


def test_a_sum_at_the_end_of_a_chain_is_taken_in_and_keeps_its_bits() -> None:
    rng = np.random.default_rng(3)
    x, y = drawn(rng, 7, 5000), drawn(rng, 5000)

    def fn(x, y):
        return tn.sum(x * y + x, axis=1)

    f = tn.capture(fn)
    assert same(f(x, y), fn(x, y))
    assert [s.primitive.name for s in f.graph(x, y).steps] == ["fused"]


def test_the_predicted_peak_is_what_a_run_takes() -> None:
    rng = np.random.default_rng(0)
    w1, w2 = drawn(rng, 40, 60), drawn(rng, 60, 10)

    def fn(x):
        h = tn.tanh(x @ w1)
        return tn.sum(tn.exp((h * 2.0) @ w2), axis=0)

    f = tn.capture(fn)
    x = drawn(rng, 16, 40)
    predicted = f.plan(x).peak_bytes
    with tn.budget(max_bytes=1 << 20) as b:
        y = f(x)
        assert b.peak_bytes == predicted
    assert same(y, fn(x))


def test_a_run_that_cannot_fit_is_refused_before_it_takes_memory_and_names_what_is_large() -> None:
    x = tn.zeros((256, 256))
    f = tn.capture(lambda x: tn.sum((x @ x) @ x + x.T, axis=0))
    with tn.budget(max_bytes=300_000) as b, pytest.raises(BudgetExceeded) as caught:
        f(x)
    assert b.peak_bytes == 0
    assert "needs" in str(caught.value)
    assert "largest: %" in str(caught.value)
    assert "float32[256, 256]" in str(caught.value)
    assert caught.value.requested == f.plan(x).peak_bytes


def test_equal_steps_are_made_once_and_needless_ones_not_at_all() -> None:
    def fn(x):
        tn.exp(x)
        return tn.sum(tn.sin(x) @ tn.sin(x))

    x = tn.ones((3, 3))
    names = [s.primitive.name for s in tn.capture(fn).graph(x).steps]
    assert names.count("sin") == 1
    assert "exp" not in names


def test_another_shape_is_another_graph_and_equal_graphs_have_equal_hashes() -> None:
    f, g = (tn.capture(lambda x: x * 2.0 + 1.0) for _ in range(2))
    a, b = tn.ones(3), tn.ones(4)
    assert f.hash(a) == g.hash(a)
    assert f.hash(a) != f.hash(b)
    with pytest.raises(ValueError, match="it has 2 plans"):
        f.plan()


def test_a_captured_gradient_equals_the_gradient() -> None:
    rng = np.random.default_rng(1)
    w, x = drawn(rng, 6, 4), drawn(rng, 9, 6)

    def step(w, x):
        value, g = tn.value_and_grad(lambda w: tn.sum(tn.tanh(x @ w) ** 2))(w)
        return value, w - 0.1 * g

    f = tn.capture(step)
    assert all(same(a, b) for a, b in zip(f(w, x), step(w, x), strict=True))


def test_a_constant_is_read_anew_at_each_run() -> None:
    c = tn.ones(3)
    f = tn.capture(lambda x: x + c)
    assert f(tn.ones(3)).tolist() == [2, 2, 2]
    c += 1
    assert f(tn.ones(3)).tolist() == [3, 3, 3]


def test_results_of_two_runs_have_memory_of_their_own() -> None:
    f = tn.capture(lambda x: (x * 2.0, x + 1.0))
    first = f(tn.ones(3))
    second = f(tn.zeros(3))
    assert [t.tolist() for t in (*first, *second)] == [[2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1]]


def test_what_needs_a_value_or_a_tape_is_refused_with_a_hint() -> None:
    x = tn.ones(3)
    with pytest.raises(TraceError, match="stands for many values"):
        tn.capture(lambda x: x if x.sum() > 0 else -x)(x)
    with pytest.raises(TraceError, match="take value_and_grad inside it"):
        tn.capture(lambda x: x * 2.0)(tn.ones(3).requires_grad_())
    w = tn.ones(3).requires_grad_()
    with pytest.raises(GradientError, match="inside capture of <lambda> there are no leaves to write to"):
        tn.capture(lambda x: (x * w).sum().backward())(x)
    assert w.grad is None
    with pytest.raises(TypeError, match="must be tensors or hashable, got bytearray"):
        tn.capture(lambda x, y: x)(x, bytearray())
    with pytest.raises(TypeError, match=r"must be tensors or hashable, got ndarray \(hint: tensor.asarray\)$"):
        tn.capture(lambda x: x)(np.ones(3))


def test_no_two_buffers_that_live_at_once_overlap() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        buffers = []
        for v in range(int(rng.integers(1, 40))):
            first = int(rng.integers(30))
            buffers.append(Buffer("temporary", v, int(rng.integers(1, 5000)), first, first + int(rng.integers(8))))
        total = _first_free(buffers)
        for i, a in enumerate(buffers):
            assert a.offset % 64 == 0
            assert a.offset + a.nbytes <= total
            for b in buffers[:i]:
                apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
                assert apart or a.last < b.first or b.last < a.first


def test_views_of_temporaries_keep_them_alive() -> None:
    rng = np.random.default_rng(6)
    x = drawn(rng, 8, 8)

    def fn(x):
        a = x @ x
        t = a.T
        b = tn.exp(x @ x.T)
        return t @ b + a[0]

    f = tn.capture(fn)
    assert same(f(x), fn(x))
    assert same(f(x), fn(x))


def test_a_reshape_that_no_view_can_make_copies_what_is_there_at_each_run() -> None:
    rng = np.random.default_rng(7)

    def fn(x):
        turned = (x * 2.0 + x).T
        return tn.sum(turned.reshape((3, 8)) * 1.5, axis=0), x.reshape((24,)) + 1.0

    f = tn.capture(fn)
    for _ in range(3):
        x = drawn(rng, 6, 4).T
        assert all(same(a, b) for a, b in zip(f(x), fn(x), strict=True))


def test_strides_of_a_reshape_are_those_of_numpy() -> None:
    rng = np.random.default_rng(8)
    shapes = [(2, 3, 4), (4, 6), (24,), (2, 12), (1, 24, 1), (2, 2, 2, 3), (3, 8), (1, 1)]
    seen = 0
    for _ in range(400):
        shape = shapes[int(rng.integers(7))]
        base = np.arange(96, dtype=np.int64).reshape(*shape, 4)[..., 0 if rng.random() < 0.5 else 2]
        base = base.transpose(rng.permutation(base.ndim))
        wanted = shapes[int(rng.integers(7))]
        ours = reshape_strides(base.shape, tuple(s // 8 for s in base.strides), wanted)
        theirs = base.view()
        try:
            theirs.shape = wanted
        except AttributeError:
            assert ours is None
            continue
        assert ours is not None
        seen += 1
        assert all(a == b // 8 for n, a, b in zip(wanted, ours, theirs.strides, strict=True) if n > 1)
    assert seen > 50
    assert c_strides(()) == ()


def test_checkpoints_and_functions_with_their_own_derivative_are_captured() -> None:
    rng = np.random.default_rng(9)
    x, w = drawn(rng, 192, 256), drawn(rng, 256, 256)

    @tn.autograd.custom_vjp
    def doubled(x):
        return x * 2.0

    doubled.defvjp(lambda x: (x * 2.0, None), lambda residuals, g: (g * 3.0,))

    def value(w, x, wrap):
        for _ in range(4):
            x = wrap(lambda h: tn.tanh(tn.gelu(h @ w) @ w.T))(x)
        return tn.sum(doubled(x))

    peaks = []
    for wrap in (lambda f: f, tn.checkpoint):
        both = tn.value_and_grad(lambda w, x, wrap=wrap: value(w, x, wrap))
        f = tn.capture(both)
        for ours, theirs in zip(f(w, x), both(w, x), strict=True):
            assert same(ours, theirs)
        peaks.append(f.plan().arena_bytes)
    assert peaks[1] < peaks[0] * 0.7


def test_zeros_of_both_signs_among_the_arguments_are_two_graphs() -> None:
    f = tn.capture(lambda x, c: x * tn.full(x.shape, c))
    x = tn.ones(1)
    assert [str(f(x, c).tolist()) for c in (0.0, -0.0, 0.0)] == ["[0.0]", "[-0.0]", "[0.0]"]


def test_operations_of_a_users_own_are_not_taken_for_rows_of_the_same_name() -> None:
    def own(name: str, factor: float):
        return tn.autograd.custom_primitive(
            name, shape=lambda specs, params: specs[0], forward=lambda arrays, params: arrays[0] * np.float32(factor)
        )

    product, sort, sums, twice, thrice = own("matmul", 3), own("sort", 5), own("sum", 7), own("f", 2), own("f", 3)
    x = drawn(np.random.default_rng(11), 4, 4)

    def fn(x):
        e = tn.exp(x - tn.max(x, axis=1, keepdims=True))
        return tn.tanh(product(x, x)), sort(x), e / sums(e), tn.exp(sums(x)), twice(x), thrice(x)

    assert all(same(a, b) for a, b in zip(tn.capture(fn)(x), fn(x), strict=True))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(7, 5000), (3, 4, 70), (9, 3), (2, 1), (5000,)])
def test_reductions_over_the_last_dimensions_take_in_chains_and_single_steps(shape, keepdims: bool) -> None:
    rng = np.random.default_rng(4)
    x, y = drawn(rng, *shape), drawn(rng, shape[-1])

    def fn(x, y):
        sizes = tn.max(tn.exp(tn.sin(tn.abs(x)) * y), axis=-1, keepdims=keepdims)
        squares = tn.mean((x - y) ** 2.0, axis=-1, keepdims=keepdims)
        return sizes, squares, tn.sum(x * y + x, axis=-1, keepdims=keepdims), tn.mean(tn.exp(x)), tn.min(-x, axis=0)

    f = tn.capture(fn)
    for _ in range(2):
        assert all(same(a, b) for a, b in zip(f(x, y), fn(x, y), strict=True))
    names = [s.primitive.name for s in f.graph(x, y).steps]
    assert names.count("fused") == 4 + (len(shape) == 1)
    assert not {"max", "mean", "sum"} & set(names)


@pytest.mark.parametrize(("m", "k", "n"), [(24, 16, 40), (1024, 8, 1100)])
def test_what_follows_a_small_or_a_large_product_runs_on_its_rows(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(10)
    x, w, bias, residual = drawn(rng, m, k), drawn(rng, k, n), drawn(rng, n), drawn(rng, m, n)

    def fn(x, w, bias, residual):
        u = x @ w
        later = tn.exp(residual * 0.5)
        return u, tn.relu(x @ w.T.T * 2.0 + bias), tn.tanh(u + bias) + later, residual - (x * 2.0) @ w

    f = tn.capture(fn)
    for _ in range(2):
        got = f(x, w, bias, residual)
        assert all(same(a, b) for a, b in zip(got, fn(x, w, bias, residual), strict=True))
    names = [s.primitive.name for s in f.graph(x, w, bias, residual).steps]
    assert names.count("fused_product") == 3
    assert "fused_product" not in [
        s.primitive.name for s in tn.capture(fn, fusion=False).graph(x, w, bias, residual).steps
    ]

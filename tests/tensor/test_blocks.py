"""Steps that run slice by slice give the bits of the steps on whole tensors; softmax by hand is softmax."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as tn
from tensor.graph import blocks


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of 1 KiB are cut, into blocks of 512 bytes."""
    monkeypatch.setattr(blocks, "_LARGE", 1 << 10)
    monkeypatch.setattr(blocks, "_STEPS", 2)
    monkeypatch.setattr(blocks, "_BLOCK", 1 << 9)


def drawn(rng: np.random.Generator, *shape: int) -> tn.Tensor:
    return tn.asarray(rng.normal(size=shape).astype(np.float32))


def same(a: tn.Tensor, b: tn.Tensor) -> bool:
    pair = [bytes(memoryview(t.contiguous())) for t in (a, b)]
    return a.shape == b.shape and a.dtype == b.dtype and pair[0] == pair[1]


def names(f, *args) -> list[str]:
    return [s.primitive.name for s in f.graph(*args).steps]


def by_hand(x):
    e = tn.exp(x - tn.max(x, axis=-1, keepdims=True))
    return e / tn.sum(e, axis=-1, keepdims=True)


def norm(x, w, b):
    centred = x - tn.mean(x, axis=-1, keepdims=True)
    return centred / tn.sqrt(tn.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * w + b


FUNCTIONS = {
    "norm": norm,
    "gradient of a norm": lambda x, w, b: tn.value_and_grad(lambda x: tn.sum(norm(x, w, b) ** 2))(x),
    "gradient of softmax": lambda x, w, b: tn.grad(lambda x: tn.sum(by_hand(x) * w))(x),
    "rows between chains": lambda x, w, b: tn.gelu(tn.softmax(tn.tanh(x) * w) + b) + x,
    "columns": lambda x, w, b: tn.softmax(tn.exp(x) * w, axis=0) + tn.sum(x * w, axis=0),
    "views": lambda x, w, b: tn.exp(tn.softmax(x.T * 2.0, axis=1).reshape((24, 1, -1)).permute((0, 2, 1)) + 1.0)[:, 1:],
    "layer_norm": lambda x, w, b: tn.tanh(tn.layer_norm(tn.gelu(x), x.shape[1], w, b) + x) * 0.5,
    "narrow types": lambda x, w, b: tn.softmax(tn.astype(tn.exp(x * 0.1), tn.float16)) > 0.02,
}


@pytest.mark.parametrize("rows", [40, 37])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_rows_run_in_blocks_with_their_bits(small_blocks, name: str, rows: int) -> None:
    rng = np.random.default_rng(0)
    args = drawn(rng, rows, 24), drawn(rng, 24), drawn(rng, 24)
    f = tn.capture(FUNCTIONS[name])
    apart = tn.capture(FUNCTIONS[name], fusion=False)
    expected = tn.autograd.tree_leaves(FUNCTIONS[name](*args))
    for _ in range(2):
        got = tn.autograd.tree_leaves(f(*args))
        assert all(same(a, b) for a, b in zip(got, expected, strict=True))
    assert "blocks" in names(f, *args)
    assert f.plan(*args).peak_bytes <= apart.plan(*args).peak_bytes


def test_arguments_of_any_strides_are_cut(small_blocks) -> None:
    rng = np.random.default_rng(1)
    wide = drawn(rng, 24, 80)
    x, w, b = wide[:, ::-2].T, drawn(rng, 24), drawn(rng, 24)
    f = tn.capture(norm)
    assert same(f(x, w, b), norm(x, w, b))
    assert "blocks" in names(f, x, w, b)


CHOICES = ("unary", "binary", "row", "softmax", "norm", "reduce", "turn", "columns", "product", "where")


@pytest.mark.parametrize("seed", range(25))
def test_random_functions_keep_their_bits_whatever_is_cut(small_blocks, seed: int) -> None:
    rng = np.random.default_rng(seed)
    choices = [(str(rng.choice(CHOICES)), *map(int, rng.integers(64, size=2))) for _ in range(25)]

    def fn(x, y, w):
        values = [x, y]
        for kind, i, j in choices:
            a, b = values[-1 - i % min(len(values), 4)], values[-1 - j % min(len(values), 9)]
            if kind == "unary":
                made = (tn.tanh, tn.exp, tn.gelu, tn.sigmoid)[i % 4](a * 0.25)
            elif kind == "binary":
                made = (tn.add, tn.multiply, tn.maximum)[i % 3](a, b)
            elif kind == "row":
                made = a * w + b
            elif kind == "softmax":
                made = (tn.softmax, tn.log_softmax)[i % 2](a, axis=j % 2)
            elif kind == "norm":
                made = tn.layer_norm(a, 20, w) if i % 2 else tn.rms_norm(a, 20)
            elif kind == "reduce":
                made = a - (tn.sum, tn.max, tn.mean)[i % 3](b, axis=j % 2, keepdims=True)
            elif kind == "turn":
                made = a.reshape((5, 4, 20)).permute((0, 2, 1)).permute((0, 2, 1)).reshape((20, 20)) + b.T
            elif kind == "columns":
                made = tn.broadcast_to(tn.sum(a, axis=0), (20, 20)) * b
            elif kind == "product":
                made = (a * 0.05) @ b
            else:
                made = tn.where(a > 0, a, b)
            values.append(made)
        return values[-1], values[-5], tn.sum(values[-2], axis=1)

    args = drawn(rng, 20, 20), drawn(rng, 20, 20), drawn(rng, 20)
    expected = fn(*args)
    f = tn.capture(fn)
    for _ in range(2):
        assert all(same(a, b) for a, b in zip(f(*args), expected, strict=True))
    peak = f.plan(*args).peak_bytes
    smaller = tn.capture(fn)
    smaller.plan(*args)
    with tn.budget(max_bytes=peak - 1):
        try:
            got = smaller(*args)
        except tn.BudgetExceeded:
            return
    assert all(same(a, b) for a, b in zip(got, expected, strict=True))


def test_softmax_written_out_is_its_row_even_for_awkward_values() -> None:
    rng = np.random.default_rng(2)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30])
    for k in range(60):
        values = rng.normal(size=(7, int(rng.integers(1, 70) if k % 9 else 5000))) * 10.0 ** rng.uniform(-3, 3)
        for row in range(int(rng.integers(6))):
            values[row, int(rng.integers(values.shape[1]))] = special[int(rng.integers(7))]
        values[6] = special[int(rng.integers(2, 5))]
        x = tn.asarray(values.astype(np.float32 if k % 2 else np.float64))
        f = tn.capture(by_hand)
        assert names(f, x) == ["softmax"]
        assert same(f(x), by_hand(x))


def test_what_is_almost_softmax_or_read_by_others_stays_as_it_is() -> None:
    ones = tn.ones((3, 4))

    def other_axis(x):
        e = tn.exp(x - tn.max(x, axis=0, keepdims=True))
        return e / tn.sum(e, axis=1, keepdims=True)

    def kept(x):
        e = tn.exp(x - tn.max(x, axis=1, keepdims=True))
        return e / tn.sum(e, axis=1, keepdims=True), e * 2.0

    for fn, x in ((other_axis, ones), (kept, ones), (by_hand, tn.astype(ones, tn.float16))):
        f = tn.capture(fn)
        assert "softmax" not in names(f, x)
        pairs = zip(*map(tn.autograd.tree_leaves, (f(x), fn(x))), strict=True)
        assert all(same(a, b) for a, b in pairs)

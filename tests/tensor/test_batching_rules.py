"""Rows whose batches become one large problem: every element has its own indices, faults and derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor import _kernels
from tensor.primitives.convolution import conv_params
from tensor.primitives.registry import all_rows, row

SPARSE = ("spmm_csr", "spmm_coo", "sddmm", "bsmm", "csr_rows")


def run(name: str, *inputs: Any, **params: Any) -> Any:
    return _kernels.apply(row(name), inputs, params or None)


def starts_of(rng: np.random.Generator, m: int, stored: int) -> Any:
    return np.searchsorted(np.sort(rng.integers(0, m, stored)), np.arange(m + 1)).astype(np.int64)


def problem(name: str, rng: np.random.Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arrays and params of one call; every call has the same shapes and its own indices."""
    if name in CONVOLUTIONS:
        return convolution(name, rng)
    m, k, n, stored = 4, 5, 3, 7
    values = rng.normal(size=stored).astype(np.float32)
    dense = rng.normal(size=(k, n)).astype(np.float32)
    rows, columns = rng.integers(0, m, stored), rng.integers(0, k, stored)
    if name == "spmm_csr":
        return (values, columns, starts_of(rng, m, stored), dense), {}
    if name == "spmm_coo":
        return (values, rows, columns, dense), {"rows": m}
    if name == "csr_rows":
        return (starts_of(rng, m, stored),), {"count": stored}
    if name == "sddmm":
        a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
        return (a, b, rows, rng.integers(0, n, stored)), {}
    if name == "bsmm":
        blocks = rng.normal(size=(stored, 2, 3)).astype(np.float32)
        dense = rng.normal(size=(3 * k, n)).astype(np.float32)
        return (blocks, columns, starts_of(rng, m, stored), dense), {}
    if name == "put_rows":
        x, new = rng.normal(size=(m, n)).astype(np.float32), rng.normal(size=(6, n)).astype(np.float32)
        return (x, rng.integers(0, m, 6), new), {}
    if name == "unique_groups":
        x = rng.integers(0, 4, 9).astype(np.float32)
        return (x, np.argsort(x, kind="stable")), {}
    if name == "nonzero":
        x = np.zeros(12, np.float32)
        x[rng.permutation(12)[:5]] = 1
        return (x.reshape(3, 4),), {"count": 5}
    if name == "affine":
        pair = rng.normal(size=(2, m, k)).astype(np.float32), dense
        return (*pair, rng.normal(size=n).astype(np.float32)), {"activation": "gelu"}
    assert name == "quantised_matmul"
    codes = rng.integers(0, 256, (n, 32)).astype(np.uint8)
    scale, bias = rng.uniform(0.5, 1, (2, n, 2)).astype(np.float32)
    a, a_scale = rng.integers(-128, 128, (m, 64)).astype(np.int8), rng.uniform(0.5, 1, m).astype(np.float32)
    return (a, a_scale, codes, scale, bias), {}


def convolution(name: str, rng: np.random.Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """One of two groups, with a stride, a padding and taps of its own."""
    x, w, g = rng.normal(size=(2, 4, 6, 5)), rng.normal(size=(6, 2, 3, 2)), rng.normal(size=(2, 6, 3, 6))
    params = conv_params((2, 1), (1, 1), (1, 1), 2)
    arrays = {
        "conv": ((x, w), {"output": (3, 6)}),
        "conv_transpose": ((g, w), {"output": (6, 5)}),
        "conv_weight_gradient": ((x, g), {"kernel": (3, 2)}),
        "conv_affine": ((x, w, rng.normal(size=6)), {"output": (3, 6), "activation": "tanh"}),
    }
    inputs, more = arrays[name]
    return tuple(a.astype(np.float32) for a in inputs), {**params, **more}


CONVOLUTIONS = ("conv", "conv_transpose", "conv_weight_gradient", "conv_affine")
NAMES = (*SPARSE, *CONVOLUTIONS, "put_rows", "unique_groups", "nonzero", "affine", "quantised_matmul")


def together(outs: Any) -> tuple[Any, ...]:
    return outs if isinstance(outs, tuple) else (outs,)


def bits(x: Any) -> bytes:
    return bytes(x.contiguous().numpy().tobytes())


@pytest.mark.parametrize("device", ["cpu", "ref"])
@pytest.mark.parametrize("name", NAMES)
def test_batches_of_different_problems_equal_a_loop(name: str, device: str) -> None:
    """Also batches of batches, and one batched input at a time."""
    rng = np.random.default_rng(5)
    grid = [[problem(name, rng) for _ in range(3)] for _ in range(2)]
    params = grid[0][0][1]
    count = len(grid[0][0][0])

    def stacked(k: int) -> Any:
        return tn.asarray(np.stack([np.stack([p[0][k] for p in line]) for line in grid]), device=device)

    whole = tn.vmap(tn.vmap(lambda *xs: together(run(name, *xs, **params))))(*[stacked(k) for k in range(count)])
    for i in range(2):
        for j in range(3):
            one = together(run(name, *[tn.asarray(x, device=device) for x in grid[i][j][0]], **params))
            assert [bits(x[i, j]) for x in whole] == [bits(x) for x in one], (i, j)
    if name in {"csr_rows", "nonzero"}:
        return
    for k in (0, count - 1):
        if name == "unique_groups" and k == 0:
            continue  # another vector has another order
        line = [p[0][k] for p in grid[0]]
        fixed = [tn.asarray(x, device=device) for x in grid[0][0][0]]

        def with_one(x: Any, k: int = k, fixed: list[Any] = fixed) -> Any:
            return together(run(name, *[x if i == k else f for i, f in enumerate(fixed)], **params))

        if name == "unique_groups":
            line = [fixed[1].numpy(), fixed[1].numpy()]
        for end in (0, -1):
            mapped = tn.vmap(with_one, in_axes=end)(tn.asarray(np.stack(line, end), device=device))
            for i, x in enumerate(line):
                alone = with_one(tn.asarray(x, device=device))
                assert [bits(y[i]) for y in mapped] == [bits(y) for y in alone], (k, end, i)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_none_has_the_shapes_of_its_elements(name: str) -> None:
    arrays, params = problem(name, np.random.default_rng(6))
    for device in ("cpu", "ref"):
        empty = [tn.asarray(np.zeros((0, *x.shape), x.dtype), device=device) for x in arrays]
        outs = tn.vmap(lambda *xs: together(run(name, *xs, **params)))(*empty)
        one = together(run(name, *[tn.asarray(x, device=device) for x in arrays], **params))
        assert [x.shape for x in outs] == [(0, *x.shape) for x in one]


@pytest.mark.parametrize("name", ["put_rows", "spmm_csr", "spmm_coo", "sddmm", "bsmm", "affine", *CONVOLUTIONS])
def test_gradients_of_batches_equal_a_loop(name: str) -> None:
    rng = np.random.default_rng(7)
    problems = [problem(name, rng) for _ in range(3)]
    params = problems[0][1]
    floats = [k for k, x in enumerate(problems[0][0]) if x.dtype == np.float32]
    rest = [k for k in range(len(problems[0][0])) if k not in floats]

    def loss(moving: Any, fixed: Any) -> Any:
        inputs = dict(zip(floats, moving, strict=True)) | dict(zip(rest, fixed, strict=True))
        out = run(name, *[inputs[k] for k in range(len(inputs))], **params)
        return (out * out).sum()

    def at(k: int, i: int) -> Any:
        return tn.asarray(problems[i][0][k])

    slope: Callable[..., Any] = tn.grad(loss)
    many = tn.vmap(slope)(*[[tn.stack([at(k, i) for i in range(3)]) for k in group] for group in (floats, rest)])
    for i in range(3):
        one = slope([at(k, i) for k in floats], [at(k, i) for k in rest])
        assert [bits(x[i]) for x in many] == [bits(x) for x in one]


def test_a_captured_batch_equals_the_batch() -> None:
    rng = np.random.default_rng(8)
    problems = [problem("spmm_csr", rng)[0] for _ in range(3)]
    inputs = [tn.asarray(np.stack([p[k] for p in problems])) for k in range(4)]

    def product(*xs: Any) -> Any:
        return tn.vmap(lambda *one: run("spmm_csr", *one))(*xs)

    graph = tn.capture(product)
    assert bits(graph(*inputs)) == bits(product(*inputs))


@pytest.mark.parametrize("wrong", [-1, 5])
def test_an_index_that_is_out_of_range_in_its_element_is_refused(wrong: int) -> None:
    """In the whole it would name a place of the neighbour."""
    rng = np.random.default_rng(9)
    problems = [problem("spmm_csr", rng)[0] for _ in range(3)]
    inputs = [np.stack([p[k] for p in problems]) for k in range(4)]
    inputs[1][1, 2] = wrong
    with pytest.raises(IndexError, match=r"^sparse: columns\[9\] is 15, and there are 15$"):
        tn.vmap(lambda *xs: run("spmm_csr", *xs))(*map(tn.asarray, inputs))
    x, index, new = (np.stack([p[k] for p in [problem("put_rows", rng)[0]] * 3]) for k in range(3))
    index[0, 0] = wrong
    with pytest.raises(IndexError, match="12"):
        tn.vmap(lambda *xs: run("put_rows", *xs))(*map(tn.asarray, (x, index, new)))


@pytest.mark.parametrize(("at", "wrong"), [((1, 0), 1), ((1, 4), 6), ((0, 4), 8)])
def test_starts_that_do_not_run_from_0_to_the_count_are_refused(at: tuple[int, int], wrong: int) -> None:
    rng = np.random.default_rng(10)
    problems = [problem("spmm_csr", rng)[0] for _ in range(2)]
    inputs = [np.stack([p[k] for p in problems]) for k in range(4)]
    inputs[2][at] = wrong
    for device in ("cpu", "ref"):
        with pytest.raises(ValueError, match=r"sparse: starts\[\d\] is -?\d+: starts must rise from 0 to the number"):
            tn.vmap(lambda *xs: run("spmm_csr", *xs))(*[tn.asarray(x, device=device) for x in inputs])


@pytest.mark.parametrize("device", ["cpu", "ref"])
def test_nonzero_refuses_an_element_with_another_count(device: str) -> None:
    x = tn.asarray([[1, 0, 1], [1, 0, 0]], device=device)
    with pytest.raises(ValueError, match=r"^nonzero: 1 elements are not zero, where count says 2$"):
        tn.vmap(lambda one: run("nonzero", one, count=2))(x)


def test_every_row_has_every_field() -> None:
    """Shapes and dtypes, a twin, what runs it on each device, derivatives, batches, transpose, sharding, cost."""
    for found in all_rows():
        name = found.name
        assert callable(found.shape) and found.dtypes and found.summary.endswith("."), name
        assert callable(found.twin) or callable(found.view), name
        assert list(found.devices) == ["cpu", "ref", "cuda", "webgpu", "npu"], name
        assert found.devices["cpu"] in ("kernel", "view") and found.devices["ref"] in ("twin", "view"), name
        assert set(list(found.devices.values())[2:]) == {"open"}, name
        assert callable(found.batch) or found.in_place, f"{name} has no batching rule"
        assert found.sharding == "open" and callable(found.cost) and callable(found.samples), name
        if found.differentiable:
            assert callable(found.vjp), name
        if found.linear:
            assert callable(found.transpose) and found.transpose is found.vjp and callable(found.jvp), name
        else:
            assert found.transpose is None, name

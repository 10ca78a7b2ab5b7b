"""A plan counts what kernels work in: predicted is used to the byte, and a run is refused before it begins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensor as tn
from tensor import _kernels
from tensor.graph.workspace import workspaces

KERNELS = pytest.mark.skipif(_kernels.isa() == "ref", reason="twins work in numpy's arrays, which are not counted")


def filled(*shape: int, dtype: str = "float32") -> tn.Tensor:
    return tn.astype(tn.reshape(tn.arange(int(np.prod(shape))), shape) % 7, dtype)


CASES: dict[str, tuple[Callable[..., tn.Tensor], tuple[tn.Tensor, ...]]] = {
    "a product that is packed": (lambda a, b: a @ b, (filled(500, 501), filled(501, 502))),
    "of turned factors": (lambda a, b: a.T @ b.T, (filled(301, 300), filled(302, 301))),
    "of parts": (lambda a, b: a[:, 3:200] @ b[5:202], (filled(300, 301), filled(301, 302))),
    "in batches": (lambda a, b: a.permute((0, 2, 1)) @ b, (filled(6, 90, 80), filled(6, 90, 70))),
    "in half precision": (lambda a, b: a @ b, (filled(200, 210, dtype="float16"), filled(210, 220, dtype="float16"))),
    "of complex numbers": (lambda a, b: a @ b, (filled(90, 91, dtype="complex64"), filled(91, 92, dtype="complex64"))),
    "of bytes": (tn.byte_matmul, (filled(200, 210, dtype="uint8"), filled(210, 220, dtype="int8"))),
    "with what follows": (lambda a, b, c: tn.tanh(a @ b + c), (filled(300, 301), filled(301, 302), filled(302))),
    "a convolution": (lambda x, k: tn.relu(tn.conv2d(x, k, padding=1)), (filled(4, 8, 20, 20), filled(16, 8, 3, 3))),
    "sums of long lines": (lambda x: (x * x + x).sum(axis=1), (filled(5, 10_000),)),
    "a sum of everything": (lambda x: (x * x + x).sum(), (filled(300, 300),)),
}


@KERNELS
@pytest.mark.parametrize("case", CASES)
def test_a_run_takes_exactly_what_its_plan_says(case: str) -> None:
    fn, arguments = CASES[case]
    f = tn.capture(fn)
    plan = f.plan(*arguments)
    with tn.budget(max_bytes=1 << 28) as b:
        found = f(*arguments)
        assert b.peak_bytes == plan.peak_bytes
    assert tn.digest(found) == tn.digest(fn(*arguments))


@KERNELS
def test_gradients_of_a_convolution_and_a_product_are_counted_too() -> None:
    x, k, w = filled(4, 3, 16, 16), filled(8, 3, 3, 3) / 7, filled(8 * 256, 10) / 7

    def loss(k: tn.Tensor, w: tn.Tensor) -> tn.Tensor:
        return (tn.conv2d(x, k, padding=1).reshape((4, -1)) @ w).sum()

    f = tn.capture(tn.value_and_grad(loss, (0, 1)))
    plan = f.plan(k, w)
    with tn.budget(max_bytes=1 << 28) as b:
        f(k, w)
        assert b.peak_bytes == plan.peak_bytes > plan.arena_bytes + plan.output_bytes


@KERNELS
def test_a_run_whose_packing_does_not_fit_is_refused_before_it_begins() -> None:
    a, b = filled(500, 501), filled(501, 502)
    f = tn.capture(lambda a, b: a @ b)
    plan = f.plan(a, b)
    assert max(plan.workspace_bytes) > 0
    with tn.budget(max_bytes=plan.peak_bytes - 1) as bound, pytest.raises(tn.BudgetExceeded, match="needs"):
        f(a, b)
    assert bound.peak_bytes == 0
    with tn.budget(max_bytes=plan.peak_bytes):
        f(a, b)


@KERNELS
def test_asking_touches_no_memory_and_counts_nothing() -> None:
    f = tn.capture(lambda a, b: tn.tanh(a @ b).sum())
    graph = f.graph(filled(300, 301), filled(301, 302))
    with tn.budget(max_bytes=0) as b:
        first = workspaces(graph)
        assert workspaces(graph) == first
    assert b.peak_bytes == 0
    assert len(first) == len(graph.steps)

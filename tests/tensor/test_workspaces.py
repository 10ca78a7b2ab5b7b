"""What a plan predicts is what a run takes, workspaces of kernels included: for every row, and for models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensor as tn
from tensor import _kernels
from tensor.primitives.registry import all_rows

pytestmark = pytest.mark.skipif(_kernels.isa() == "ref", reason="twins work in numpy's arrays, which are not counted")

ROWS = [r for r in all_rows() if r.view is None and not r.in_place]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_the_predicted_peak_of_every_row_is_what_a_run_takes(row) -> None:
    for sample in row.samples(np.random.default_rng(0)):
        for dtype in sample.dtypes or row.dtypes:
            given = [tn.asarray(np.array(a, order="C")) for a in sample.inputs]
            inputs = [tn.astype(x, getattr(tn, dtype)) if x.dtype == tn.float64 else x for x in given]
            f = tn.capture(lambda *xs, s=sample: _kernels.apply(row, xs, s.params), fusion=False)
            plan = f.plan(*inputs)
            with tn.budget(max_bytes=1 << 30) as b:
                f(*inputs)
                assert b.peak_bytes == plan.peak_bytes, (sample, dtype)


def layers(p, x):
    """A small network with a convolution, a norm, attention, products that are packed."""
    y = tn.max_pool2d(tn.relu(tn.conv2d(x, p["k"], p["c"], padding=1)), 2).reshape((4, 8, 96))
    y = tn.layer_norm(y, 96) @ p["w"]
    y = y + tn.softmax(y @ y.mT) @ y
    return tn.sum(tn.gelu(y @ p["w"].T @ p["v"]) ** 2)


def parameters(rng: np.random.Generator):
    shapes = {"k": (8, 3, 3, 3), "c": (8,), "w": (96, 96), "v": (96, 600)}
    return {k: tn.asarray(rng.normal(size=s).astype(np.float32) * np.float32(0.1)) for k, s in shapes.items()}


@pytest.mark.parametrize("fusion", [True, False])
def test_the_predicted_peak_of_a_model_is_what_a_run_takes(fusion: bool) -> None:
    rng = np.random.default_rng(1)
    p, x = parameters(rng), tn.asarray(rng.normal(size=(4, 3, 16, 24)).astype(np.float32))
    both = tn.value_and_grad(layers)
    free = tn.capture(both, fusion=fusion).plan(p, x)
    assert max(free.workspace_bytes) > 0
    assert any(row["workspace_bytes"] for row in free.table())
    for share in (1.0, 0.95):
        f = tn.capture(both, fusion=fusion)
        f.plan(p, x)
        with tn.budget(max_bytes=int(free.peak_bytes * share)) as b:
            f(p, x)
            assert b.peak_bytes == f.plan().peak_bytes <= int(free.peak_bytes * share)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Mlp", "Cnn", "Transformer"])
def test_the_predicted_peak_of_the_training_steps_is_what_they_take(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    import train_step

    model = getattr(train_step, name)()
    p = {key: tn.asarray(w) for key, w in train_step.drawn(model.shapes).items()}
    x, y = map(tn.asarray, model.batch)
    f = tn.capture(tn.value_and_grad(model.ours))
    plan = f.plan(p, x, y)
    with tn.budget(max_bytes=plan.peak_bytes) as b:
        f(p, x, y)
        assert b.peak_bytes == plan.peak_bytes


def test_arguments_of_other_strides_are_read_from_the_constants_as_they_lie() -> None:
    turned = tn.ones((200, 700)).T
    f = tn.capture(lambda x: x @ turned)
    x = tn.ones((300, 700))
    plan = f.plan(x)
    with tn.budget(max_bytes=1 << 24) as b:
        f(x)
        assert b.peak_bytes == plan.peak_bytes


def test_asking_takes_no_memory_and_leaves_the_kernels_as_they_were() -> None:
    x = tn.arange(5.0)
    with tn.budget(max_bytes=20) as b:
        plan = tn.capture(lambda x: tn.sort(x, descending=True)).plan(x)
        assert b.peak_bytes == 0
    assert plan.workspace_bytes[0] > 0
    assert tn.sort(x, descending=True).tolist() == [4, 3, 2, 1, 0]
    assert _kernels.only_workspace(False) is False


def test_a_copy_of_a_repeated_argument_is_in_the_plan() -> None:
    def f(x: tn.Tensor) -> tn.Tensor:
        return tn.exp(tn.broadcast_to(x, (2, 3)).reshape((6,)))

    x = tn.asarray([0.0, 1.0, 2.0])
    captured = tn.capture(f)
    plan = captured.plan(x)
    with tn.budget(max_bytes=plan.peak_bytes) as budget:
        values = captured(x)
    assert budget.peak_bytes == plan.peak_bytes
    assert values.tolist() == f(x).tolist()

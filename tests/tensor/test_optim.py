"""Optimizers: steps equal to the twins and to PyTorch's, groups, state that comes back, numbers that are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensor as tn
from tensor.autograd.anomaly import checked
from tensor.errors import AnomalyError, BudgetExceeded, DtypeError, ShapeError
from tensor.optim import SGD, AdamW, clip_grad_norm_
from tensor.twins import optimizer_steps_ref

SHAPES = [(3, 5), (1,), (20_000,), (0, 2), ()]


def parameters(dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    return {f"p{k}": tn.asarray(rng.normal(size=s).astype(dtype)).requires_grad_() for k, s in enumerate(SHAPES)}


def set_gradients(tensors, step):
    rng = np.random.default_rng(100 + step)
    for x in tensors.values():
        x.grad = tn.asarray(rng.normal(size=x.shape).astype(x.dtype.name))


def arrays(tensors):
    return {name: x.detach().numpy().copy() for name, x in tensors.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adamw_steps_equal_the_twin(dtype):
    tensors = parameters(dtype)
    optimizer = AdamW(tensors, lr=0.02, weight_decay=0.1)
    want = {n: [p, np.zeros_like(p), np.zeros_like(p)] for n, p in arrays(tensors).items()}
    power1 = power2 = 1.0
    for step in range(4):
        set_gradients(tensors, step)
        power1, power2 = power1 * 0.9, power2 * 0.999
        for name, state in want.items():
            state[:] = optimizer_steps_ref.adamw(
                state[0], tensors[name].grad.numpy(), *state[1:], decay=1 - 0.02 * 0.1, beta1=0.9, beta2=0.999,
                step=0.02 / (1 - power1), root_scale=1 / math.sqrt(1 - power2), epsilon=1e-8,
            )  # fmt: skip
        assert optimizer.step()
        for name, state in want.items():
            assert tensors[name].detach().numpy().tobytes() == state[0].tobytes(), (step, name)
    tree = optimizer.state_tree()
    assert tree["power1"]["p0"] == 0.9 * 0.9 * 0.9 * 0.9
    assert tree["second"]["p2"].numpy().tobytes() == want["p2"][2].tobytes()


@pytest.mark.parametrize(
    ("momentum", "nesterov", "dampening"), [(0.0, False, 0.0), (0.9, False, 0.25), (0.9, True, 0.0)]
)
def test_sgd_steps_equal_the_twin(momentum, nesterov, dampening):
    tensors = parameters()
    optimizer = SGD(tensors, lr=0.1, momentum=momentum, nesterov=nesterov, dampening=dampening, weight_decay=0.01)
    want = {n: [p, np.zeros_like(p) if momentum else None] for n, p in arrays(tensors).items()}
    for step in range(3):
        set_gradients(tensors, step)
        for name, state in want.items():
            state[:] = optimizer_steps_ref.sgd(
                state[0], tensors[name].grad.numpy(), state[1], rate=0.1, decay=0.01, mu=momentum,
                dampening=dampening, nesterov=nesterov, first_step=step == 0,
            )  # fmt: skip
        optimizer.step()
        for name, state in want.items():
            assert tensors[name].detach().numpy().tobytes() == state[0].tobytes(), (step, name)


# x = [1.0, -2.0], gradients g1 = [0.5, 1.0], g2 = [-1.0, 0.25]; torch 2.13 with foreach=False:
#   torch.optim.AdamW([x], lr=0.1) and torch.optim.SGD([x], lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
TORCH = {
    "adamw": [[0.8990000486373901, -2.0980000495910645], [0.9347113966941833, -2.178961753845215]],
    "sgd": [[0.9031000137329102, -2.186199903488159], [1.0500741004943848, -2.3089261054992676]],
}


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_steps_are_pytorchs(name):
    x = tn.asarray([1.0, -2.0]).requires_grad_()
    optimizer = (
        AdamW([x], lr=0.1) if name == "adamw" else SGD([x], lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    )
    for g, expected in zip(([0.5, 1.0], [-1.0, 0.25]), TORCH[name], strict=True):
        x.grad = tn.asarray(g)
        optimizer.step()
        np.testing.assert_allclose(x.detach().numpy(), expected, rtol=3e-7)


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_steps_do_not_depend_on_threads_or_on_how_a_model_is_cut(threads, number):
    threads(number)
    whole = {"x": tn.asarray(np.linspace(-1, 1, 300_001).astype(np.float32))}
    parts = {str(k): piece.clone() for k, piece in enumerate(tn.split(whole["x"], 100_000))}
    for tensors in (whole, parts):
        for x in tensors.values():
            x.grad = x.clone()
        AdamW(tensors, lr=0.1).step()
    joined = np.concatenate([x.numpy() for x in parts.values()])
    assert joined.tobytes() == whole["x"].numpy().tobytes()


def test_groups_have_numbers_of_their_own():
    a, b = tn.ones(2).requires_grad_(), tn.ones(2).requires_grad_()
    optimizer = SGD([{"params": [a]}, {"params": {"b": b}, "lr": 0.5}], lr=0.25)
    a.grad, b.grad = tn.ones(2), tn.ones(2)
    optimizer.step()
    assert (a.tolist(), b.tolist()) == ([0.75, 0.75], [0.5, 0.5])
    optimizer.groups[1]["lr"] = 0.0
    optimizer.step()
    assert (a.tolist(), b.tolist()) == ([0.5, 0.5], [0.5, 0.5])
    optimizer.zero_grad()
    assert a.grad is None
    optimizer.step()
    assert a.tolist() == [0.5, 0.5]


def test_a_loaded_state_goes_on_bit_for_bit():
    straight, first = parameters(), parameters()
    one, two = AdamW(straight), AdamW(first)
    for step in range(6):
        for tensors, optimizer in ((straight, one), (first, two)):
            set_gradients(tensors, step)
            optimizer.step()
        if step == 2:
            resumed = AdamW(first)
            resumed.load_state_tree(two.state_tree())
            two = resumed
    assert {n: p.tobytes() for n, p in arrays(first).items()} == {n: p.tobytes() for n, p in arrays(straight).items()}


@pytest.mark.parametrize("make", [AdamW, lambda p: SGD(p, momentum=0.9), SGD])
def test_a_training_goes_on_from_a_file_bit_for_bit(tmp_path, make):
    tensors = parameters()
    optimizer = make(tensors)
    for step in range(3):
        set_gradients(tensors, step)
        optimizer.step()
    tn.save(tmp_path / "state", {"model": tensors, "optimizer": optimizer.state_tree()})
    back = tn.load(tmp_path / "state")
    resumed = make(back["model"])
    resumed.load_state_tree(back["optimizer"])
    for step in range(3, 6):
        for model, stepped in ((tensors, optimizer), (back["model"], resumed)):
            set_gradients(model, step)
            stepped.step()
    assert {n: p.tobytes() for n, p in arrays(back["model"]).items()} == {
        n: p.tobytes() for n, p in arrays(tensors).items()
    }
    assert repr(resumed.state_tree()) == repr(optimizer.state_tree())


def test_a_tensor_is_no_list_of_parameters():
    with pytest.raises(TypeError, match=r"^optim: parameters must be an iterable of tensors, got a Tensor"):
        AdamW(tn.ones(3))


def test_a_parameter_without_gradient_keeps_its_own_count():
    a, b = tn.ones(1).requires_grad_(), tn.ones(1).requires_grad_()
    optimizer = AdamW({"a": a, "b": b})
    for step in range(3):
        a.grad = tn.ones(1)
        b.grad = tn.ones(1) if step == 1 else None
        optimizer.step()
    assert optimizer.state_tree()["step"] == {"a": 3, "b": 1}


def test_gradients_may_be_views_of_one_element():
    x = tn.zeros((3, 4)).requires_grad_()
    x.sum().backward()
    SGD([x], lr=1.0).step()
    assert x.tolist() == [[-1] * 4] * 3


def test_a_step_counts_as_a_change_of_what_was_saved():
    x = tn.ones(3).requires_grad_()
    y = (x * x).sum()
    x.grad = tn.ones(3)
    SGD([x], lr=1.0).step()
    with pytest.raises(Exception, match="mul"):
        y.backward()


def test_state_that_does_not_fit_into_the_budget_changes_nothing():
    x = tn.ones(1000).requires_grad_()
    x.grad = tn.ones(1000)
    optimizer = AdamW([x])
    with tn.budget(max_bytes=5000), pytest.raises(BudgetExceeded):
        optimizer.step()
    assert x.tolist() == [1.0] * 1000
    assert optimizer.state_tree()["step"] == {}


def test_a_gradient_that_is_not_finite_can_be_skipped_or_is_named():
    x = tn.ones(2).requires_grad_()
    optimizer = SGD({"weight": x}, lr=1.0)
    x.grad = tn.asarray([1.0, float("nan")])
    assert optimizer.step(skip_nonfinite=True) is False
    assert x.tolist() == [1, 1]
    with (
        checked(),
        pytest.raises(AnomalyError, match=r"^SGD: the gradient of 'weight' is not finite \(step 1\)$"),
    ):
        optimizer.step()


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ({"lr": float("nan")}, "AdamW: lr must be finite and at least 0, got nan"),
        ({"lr": -1.0}, "AdamW: lr must be finite and at least 0, got -1.0"),
        ({"betas": (1.0, 0.9)}, "AdamW: beta must be from 0 to below 1, got 1.0"),
        ({"betas": (0.9,)}, r"AdamW: betas must be two numbers, got \(0.9,\)"),
        ({"eps": float("inf")}, "AdamW: eps must be finite and at least 0, got inf"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(numbers, text):
    with pytest.raises(ValueError, match=f"^{text}$"):
        AdamW([tn.ones(1)], **numbers)


def test_parameters_that_cannot_be_stepped_are_refused():
    with pytest.raises(DtypeError, match=r"^optim: parameter '0' must be float32 or float64, got float16$"):
        SGD([tn.ones(1, dtype="float16")])
    with pytest.raises(ShapeError, match=r"^optim: parameter 'w' must lie in C order \(hint: contiguous\(\)\)$"):
        SGD({"w": tn.ones((2, 3)).permute(1, 0)})
    x = tn.ones(1)
    with pytest.raises(ValueError, match=r"^SGD: a tensor is given twice$"):
        SGD([x, x])
    with pytest.raises(ValueError, match=r"^SGD: no parameters were given$"):
        SGD([])
    with pytest.raises(TypeError, match=r"^SGD: a group has no rate$"):
        SGD([{"params": [x], "rate": 1.0}])
    with pytest.raises(ValueError, match=r"^SGD: nesterov needs a momentum and no dampening$"):
        SGD([x], nesterov=True)


def test_state_of_another_model_is_refused():
    x = tn.ones(2).requires_grad_()
    x.grad = tn.ones(2)
    optimizer = AdamW({"x": x})
    optimizer.step()
    tree = optimizer.state_tree()
    with pytest.raises(KeyError, match="state of an unknown parameter 'x'"):
        AdamW({"y": tn.ones(2)}).load_state_tree(tree)
    with pytest.raises(ShapeError, match=r"^AdamW: first of 'x' does not fit its parameter$"):
        AdamW({"x": tn.ones(3)}).load_state_tree(tree)
    with pytest.raises(ValueError, match=r"^AdamW: the step of 'x' must be from 1 to 2\^63 - 1, got 0$"):
        AdamW({"x": tn.ones(2)}).load_state_tree({**tree, "step": {"x": 0}})


def test_clipping_scales_all_gradients_alike():
    a, b = tn.ones(1).requires_grad_(), tn.ones(1).requires_grad_()
    a.grad, b.grad = tn.asarray([3.0]), tn.asarray([4.0])
    assert clip_grad_norm_([a, b], 10.0).item() == 5
    assert (a.grad.item(), b.grad.item()) == (3, 4)
    assert clip_grad_norm_([a, b], 1.0).item() == 5
    assert (a.grad.item(), b.grad.item()) == pytest.approx((0.6, 0.8), rel=1e-6)
    assert clip_grad_norm_([tn.ones(1)], 1.0).item() == 0
    with pytest.raises(ValueError, match=r"^clip_grad_norm_: max_norm must be finite and at least 0, got nan$"):
        clip_grad_norm_([a], float("nan"))


def test_an_optimizer_shows_its_numbers() -> None:
    shown = repr(tn.optim.SGD([tn.ones(2).requires_grad_(), tn.ones(3).requires_grad_()], lr=0.5))
    assert shown.startswith("SGD(2 parameters, lr=0.5, ")

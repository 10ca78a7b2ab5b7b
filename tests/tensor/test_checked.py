"""Checked mode: the first NaN is an error that names operation, tensor, index and step."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor.errors import AnomalyError, EmptyReductionError


def test_without_checked_mode_nan_goes_on():
    assert np.isnan(tn.log(tn.asarray([-1.0])).tolist()[0])


def test_the_first_nan_is_named():
    x = tn.asarray([[1.0, 2.0], [3.0, -1.0]])
    text = "log: the result float32[2, 2] is nan at (1, 1) (step 12)"
    with tn.checked(step=12), pytest.raises(AnomalyError, match=f"^{re.escape(text)}$"):
        tn.exp(tn.log(x))


def test_a_nan_that_came_with_the_input_is_said_to_have_come_with_it():
    x = tn.asarray([1.0, float("nan")])
    text = "mul: the result float32[2] is nan at (1,); input 0, 'weights' float32[2], holds nan already"
    with tn.checked(names={"weights": x}), pytest.raises(AnomalyError, match=f"^{re.escape(text)}$"):
        x * tn.asarray([2.0, 2.0])


def test_a_nan_that_is_chosen_away_is_no_error():
    x = tn.asarray([1.0, float("nan")])
    with tn.checked():
        assert tn.where(tn.isnan(x), tn.zeros((2,)), x).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("argument", "kind"), [([4.0, 0.0], "inf")])
def test_an_infinite_gradient_names_operation_parameter_and_step(argument: list[float], kind: str):
    x = tn.asarray(argument).requires_grad_()
    y = tn.sqrt(x).sum()
    text = f"backward of sqrt: the gradient of input 0, 'layer.scale' float32[2], is {kind} at (1,) (step 3)"
    with tn.checked(step=3, names={"layer.scale": x}), pytest.raises(AnomalyError, match=f"^{re.escape(text)}$"):
        y.backward()
    assert x.grad is None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda a: a // 0, ZeroDivisionError, "floor_div: the divisor int64[] is 0 at ()"),
        (lambda a: a % tn.asarray([3, 0]), ZeroDivisionError, "mod: the divisor int64[2] is 0 at (1,)"),
        (lambda a: a << tn.asarray([1, -1]), ValueError, "bitwise_left_shift: the shift int64[2] is negative at (1,)"),
        (lambda a: a >> tn.asarray([-2, 1]), ValueError, "bitwise_right_shift: the shift int64[2] is negative at (0,)"),
    ],
)
def test_what_ints_have_no_answer_for_is_an_error(call: Any, error: Any, text: str):
    a = tn.asarray([5, 6])
    call(a)
    with tn.checked(), pytest.raises(error, match=f"^{re.escape(text)}$"):
        call(a)


def test_the_mean_of_nothing_is_an_error():
    x = tn.zeros((2, 0))
    assert np.isnan(tn.mean(x).item())
    text = "mean: float32[2, 0] has no elements along the axes (1,)"
    with tn.checked(), pytest.raises(EmptyReductionError, match=f"^{re.escape(text)}$"):
        tn.mean(x, axis=1)


def test_changes_in_place_of_a_shared_storage_are_refused():
    x = tn.zeros((4,))
    view = x[1:]
    view += 1
    with tn.checked(), pytest.raises(TypeError, match="in place"):
        view += 1
    with (
        tn.checked(),
        pytest.raises(TypeError, match=r"^add: checked mode: in place on a tensor"),
    ):
        x += 1
    alone = tn.zeros((4,))
    with tn.checked():
        alone += 1
    assert (x.tolist(), alone.tolist()) == ([0.0, 1.0, 1.0, 1.0], [1.0] * 4)


def test_checked_mode_looks_into_batches_and_tangents():
    x = tn.asarray([[4.0, 1.0], [-1.0, 9.0]])
    with tn.checked():
        assert tn.autograd.vmap(tn.autograd.grad(lambda a: (a * a).sum()))(x).tolist() == (x * 2).tolist()
        with pytest.raises(AnomalyError, match=r"^sqrt: the result float32\[2, 2\] is nan at \(1, 0\)$"):
            tn.autograd.vmap(tn.sqrt)(x)
        with pytest.raises(ZeroDivisionError, match=r"^floor_div: the divisor int64\[2\] is 0 at \(1,\)$"):
            tn.autograd.vmap(lambda a: 7 // a)(tn.asarray([1, 0]))


def test_checked_mode_ends_with_its_block_and_nests():
    with tn.checked(step=1):
        with tn.checked(step=2), pytest.raises(AnomalyError, match=r"\(step 2\)$"):
            tn.log(tn.asarray(-1.0))
        with pytest.raises(AnomalyError, match=r"\(step 1\)$"):
            tn.log(tn.asarray(-1.0))
    tn.log(tn.asarray(-1.0))


def test_a_captured_function_is_looked_at_step_by_step():
    f = tn.capture(lambda x: tn.log(x) * 2)
    x = tn.asarray([1.0, -1.0])
    assert f(x).tolist()[0] == 0.0
    with (
        tn.checked(step=4),
        pytest.raises(AnomalyError, match=r"^log: the result float32\[2\] is nan at \(1,\) \(step 4\)$"),
    ):
        f(x)
    slope = tn.capture(tn.autograd.grad(lambda x: tn.sqrt(x).sum()))
    with tn.checked(), pytest.raises(AnomalyError, match=r"^backward of sqrt: the gradient of input 0"):
        slope(tn.asarray([0.0, 1.0]))

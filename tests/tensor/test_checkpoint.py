"""Checkpoints: arguments that the function closes over as well, calls inside calls, under every transformation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor.autograd import checkpoint, grad, hessian, jvp, vmap

Function = Callable[[Any], Any]


def f64(*values: float) -> tn.Tensor:
    return tn.asarray(values, dtype=tn.float64)


def closed_over(f: Function) -> Function:
    return lambda x: f(lambda u: u * u + x)(x).sum()


def inside_itself(f: Function) -> Function:
    return lambda x: f(lambda u: f(lambda v: v * u * x)(u) * x)(x).sum()  # the sum of x⁴


def twice(f: Function) -> Function:
    return lambda x: f(lambda u, v: u * v * v * x)(x, x).sum()


def part(f: Function) -> Function:
    return lambda x: (f(lambda u: u * x[0] + x)(x[1:]) * x[0]).sum()


def gradient_inside(f: Function) -> Function:
    return lambda x: f(lambda u: u * grad(lambda v: (v * v * v * x).sum())(u))(x).sum()


def gradient_at_it(f: Function) -> Function:
    return lambda x: f(lambda u: u * grad(lambda v: (v * v * v).sum())(x))(x * x).sum()


@pytest.mark.parametrize("program", [closed_over, inside_itself, twice, part, gradient_inside, gradient_at_it])
def test_an_argument_that_the_function_closes_over_gets_both_gradients(program: Callable[[Function], Function]) -> None:
    kept, plain = program(checkpoint), program(lambda f: f)
    x, batch = f64(0.5, -2.0), tn.asarray([[0.5, -2.0], [1.5, 3.0]], dtype=tn.float64)
    expected = grad(plain)(x)
    assert np.abs(expected.numpy()).min() > 0.1
    found = {
        "grad": grad(kept)(x),
        "captured": tn.capture(grad(kept))(x),
        "vmap": vmap(grad(kept))(batch)[0],
        "of vmap": grad(lambda b: vmap(kept)(b).sum())(batch)[0],
    }
    leaf = x.clone().requires_grad_()
    kept(leaf).backward()
    found["tape"] = leaf.grad
    for name, gradient in found.items():
        np.testing.assert_allclose(gradient.numpy(), expected.numpy(), rtol=1e-14, err_msg=name)
    second = hessian(plain)(x).numpy()
    np.testing.assert_allclose(hessian(kept)(x).numpy(), second, rtol=1e-13)
    along = grad(lambda x: grad(kept)(x).sum())(x)
    np.testing.assert_allclose(along.numpy(), second.sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(jvp(grad(kept), (x,), (tn.ones_like(x),))[1].numpy(), second.sum(axis=1), rtol=1e-13)

"""Control flow, checkpoints and derivatives of one's own inside each other: every transformation gives the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor.autograd import (
    associative_scan,
    checkpoint,
    cond,
    custom_jvp,
    custom_primitive,
    custom_vjp,
    fori_loop,
    grad,
    hessian,
    jvp,
    map,
    scan,
    vmap,
    while_loop,
)
from tensor.errors import GradientError, ShapeError, TraceError

Function = Callable[[Any], Any]

X = tn.asarray([0.5, -2.0, 3.0], dtype=tn.float64)
ONE = tn.asarray(1.0, dtype=tn.float64)
BATCH = tn.stack([X, X * 0.5, -X])

cube = custom_primitive(
    "cube",
    shape=lambda specs, params: specs[0],
    forward=lambda arrays, params: arrays[0] ** 3,
    vjp=lambda g, node: (g * node.inputs[0] * node.inputs[0] * 3,),
)
twice = custom_primitive(
    "twice",
    shape=lambda specs, params: (specs[0], specs[0]),
    forward=lambda arrays, params: (arrays[0] * 2, np.sin(arrays[0])),
    vjp=lambda g, node: (g[0] * 2 + g[1] * tn.cos(node.inputs[0]),),
)


@custom_vjp
def wave(x):
    return tn.sin(x)


wave.defvjp(lambda x: (tn.sin(x), x), lambda x, g: (g * tn.cos(x),))


@custom_vjp
def joined(x, y):
    return x * y, x + y


joined.defvjp(lambda x, y: ((x * y, x + y), (x, y)), lambda r, g: (g[0] * r[1] + g[1], g[0] * r[0] + g[1]))


@custom_jvp
def swell(x):
    return tn.sin(x)


swell.defjvp(lambda primals, tangents: (swell(*primals), tangents[0] * tn.cos(primals[0])))


def product_of(pair: tuple[Any, Any]) -> Any:
    return pair[0] * pair[1]


PROGRAMS: dict[str, Function] = {
    "primitive": lambda x: cube(x).sum(),
    "primitive of two": lambda x: product_of(twice(x)).sum(),
    "rule": lambda x: (wave(x) * x).sum(),
    "rule of two": lambda x: (product_of(joined(x, x)) * x).sum(),
    "rule in checkpoint": lambda x: checkpoint(lambda u: (wave(u) * u * x).sum())(x),
    "rule forward": lambda x: (swell(x) * wave(swell(x))).sum(),
    "rule forward in checkpoint": lambda x: checkpoint(lambda u: (swell(u) * u * x).sum())(x),
    "scan": lambda x: scan(lambda c, q: (c * tn.sin(q) + cube(q), wave(q)), ONE, x)[0],
    "scan in scan": lambda x: scan(lambda c, q: (scan(lambda d, r: (d * r + q, None), c, x)[0], None), ONE, x)[0],
    "scan in checkpoint": lambda x: checkpoint(lambda u: scan(lambda c, q: (c * q + u.sum(), None), u[0], x)[0])(x),
    "while": lambda x: while_loop(lambda v: tn.sum(v * v) < 1000.0, lambda v: v * 1.5 + wave(x), x).sum(),
    "cond": lambda x: cond(tn.sum(x) > 0, lambda v: cube(v).sum(), lambda v: wave(v).sum(), x),
    "for": lambda x: fori_loop(0, 3, lambda i, v: v * x + i, x).sum(),
    "map": lambda x: (map(lambda q: q * wave(q), x) * x).sum(),
    "prefixes": lambda x: (associative_scan(lambda a, b: a * b, x) * x).sum(),
    "batch inside": lambda x: vmap(lambda q: cond(q > 0, lambda v: v * q, lambda v: -v, q))(x).sum(),
    "tangent inside": lambda x: jvp(lambda y: (y * y * x).sum(), (x,), (x,))[1],
    "gradient inside": lambda x: (grad(lambda y: (wave(y) * x).sum())(x) * x).sum(),
    "hessian inside": lambda x: hessian(lambda y: (tn.sin(y) * x).sum())(x).sum(),
}
BY_VALUE = {"while", "cond"}  # captured alone, but their derivatives and batches choose by value


def close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", PROGRAMS)
def test_first_derivatives_agree(name: str) -> None:
    f = PROGRAMS[name]
    g = grad(f)(X)
    steps = tn.eye(3, dtype=tn.float64) * 1e-6
    close(g.numpy(), [(f(X + d).item() - f(X - d).item()) / 2e-6 for d in steps], 1e-5)
    leaf = X.clone().requires_grad_()
    f(leaf).backward()
    close(leaf.grad.numpy(), g.numpy())
    close(grad(checkpoint(f))(X).numpy(), g.numpy())
    close(jvp(f, (X,), (X,))[1].item(), (g * X).sum().item())
    assert vmap(f)(BATCH).tolist() == [f(x).item() for x in BATCH]
    assert vmap(grad(f))(BATCH).tolist() == [grad(f)(x).tolist() for x in BATCH]
    close(grad(lambda b: vmap(f)(b).sum())(BATCH).numpy(), [grad(f)(x).tolist() for x in BATCH])


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_agree(name: str) -> None:
    f = PROGRAMS[name]
    second = grad(lambda x: (grad(f)(x) * X).sum())(X).numpy()
    close(second, (grad(f)(X + X * 1e-6).numpy() - grad(f)(X - X * 1e-6).numpy()) / 2e-6, 1e-4)
    close(jvp(grad(f), (X,), (X,))[1].numpy(), second)
    close(grad(lambda x: jvp(f, (x,), (X,))[1])(X).numpy(), second)
    close((hessian(f)(X) @ X).numpy(), second)
    batched = vmap(lambda x: jvp(grad(f), (x,), (X,))[1])(BATCH)
    close(batched.numpy(), [jvp(grad(f), (x,), (X,))[1].tolist() for x in BATCH])


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_they_are_the_same_to_the_bit(name: str) -> None:
    f = PROGRAMS[name]
    for function, x in ((f, X), (grad(f), X), (hessian(f), X), (vmap(f), BATCH), (vmap(grad(f)), BATCH)):
        if name in BY_VALUE and function is not f:
            try:
                captured = tn.capture(function)(x)
            except TraceError:
                continue
        else:
            captured = tn.capture(function)(x)
        assert captured.tolist() == function(x).tolist()


def test_a_rule_that_gives_something_else_than_a_gradient_is_named() -> None:
    def ruled(rule: Callable[..., Any]) -> Function:
        return custom_primitive(
            "ruled", shape=lambda specs, params: specs[0], forward=lambda arrays, params: arrays[0] * 1, vjp=rule
        )

    for rule, error, text in (
        (lambda g, node: (g[:1],), ShapeError, r"its rule gave float64\[1\] as the gradient of float64\[3\]"),
        (lambda g, node: ("g",), TypeError, r"its rule gave a str as the gradient of float64\[3\]"),
        (lambda g, node: (g, g), GradientError, "its rule gave 2 gradients for 1 inputs"),
    ):
        leaf = X.clone().requires_grad_()
        total = ruled(rule)(leaf).sum()
        with pytest.raises(error, match=rf"^backward of ruled: {text}$"):
            total.backward()


def test_a_primitive_cannot_change_its_inputs() -> None:
    def forward(arrays, params):
        arrays[0][...] = 0
        return arrays[0]

    erased = custom_primitive("erased", shape=lambda specs, params: specs[0], forward=forward)
    before = X.tolist()
    with pytest.raises(ValueError, match="read-only"):
        erased(X)
    assert X.tolist() == before


def level_of_a_batch() -> int:
    levels: list[int] = []
    vmap(lambda x: levels.append(x.main.level) or x)(X)
    return levels[0]


def test_an_error_inside_leaves_no_transformation_behind() -> None:
    def broken(x):
        raise KeyError("broken")

    @custom_vjp
    def refusing(x):
        return x * 1

    refusing.defvjp(lambda x: (x * 1, None), lambda r, g: broken(g))
    for run in (
        tn.capture(broken),
        vmap(broken),
        grad(broken),
        hessian(broken),
        grad(checkpoint(broken)),
        lambda x: jvp(broken, (x,), (x,)),
        tn.capture(vmap(grad(lambda x: checkpoint(broken)(x * 1)))),
        grad(lambda x: refusing(x).sum()),
    ):
        with pytest.raises(KeyError):
            run(X)
        w = X.clone().requires_grad_()
        (w * w).sum().backward()
        assert w.grad.tolist() == [1.0, -4.0, 6.0]
        assert repr(grad(lambda x: (x * x).sum())(X)) == repr(X * 2)
        assert level_of_a_batch() == 1

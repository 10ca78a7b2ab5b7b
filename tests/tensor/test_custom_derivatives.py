"""checkpoint, custom_vjp, custom_primitive: derivatives that are not those of the code, and code that runs twice."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor.autograd import (
    checkpoint,
    custom_primitive,
    custom_vjp,
    grad,
    gradcheck,
    hessian,
    jvp,
    value_and_grad,
    vjp,
    vmap,
)
from tensor.errors import GradientError, ShapeError
from tensor.primitives.spec import Spec


def f64(values: Any) -> Any:
    return tn.asarray(np.asarray(values, np.float64))


def deep(x: Any, w: Any) -> Any:
    for _ in range(4):
        x = tn.tanh(x * w + 0.1)
    return x


# --- checkpoint ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_changes_no_bit_of_the_value_and_adds_gradients_call_by_call():
    x, w = f64([0.3, -0.2, 0.9]), f64([1.1, 0.7, -0.4])
    plain = value_and_grad(lambda a, b: deep(deep(a, b), b).sum(), argnums=(0, 1))(x, w)
    kept = value_and_grad(lambda a, b: checkpoint(deep)(checkpoint(deep)(a, b), b).sum(), argnums=(0, 1))(x, w)
    assert kept[0].item() == plain[0].item()
    assert kept[1][0].tolist() == plain[1][0].tolist()
    assert kept[1][1].tolist() == pytest.approx(plain[1][1].tolist(), rel=1e-15)


def test_the_function_runs_again_once_in_the_pass():
    runs = []

    def counted(x: Any) -> Any:
        runs.append(1)
        return deep(x, x).sum()

    value, g = value_and_grad(checkpoint(counted))(f64([0.5]))
    assert len(runs) == 2
    runs.clear()
    checkpoint(counted)(f64([0.5]))
    assert len(runs) == 1
    assert g.tolist() == grad(counted)(f64([0.5])).tolist()
    assert not value.requires_grad


def test_closures_of_a_checkpoint_get_their_gradients():
    w, v = f64([1.1, 0.7]).requires_grad_(), f64([0.2, 0.4]).requires_grad_()
    x = f64([0.3, -0.2])
    between = v * 2
    checkpoint(lambda a: deep(a, w) * between + w)(x).sum().backward()
    found = (w.grad.tolist(), v.grad.tolist())
    w.grad = v.grad = None
    between = v * 2
    (deep(x, w) * between + w).sum().backward()
    assert found == (w.grad.tolist(), v.grad.tolist())


def test_checkpoints_nest_and_their_closures_too():
    w = f64([1.1, 0.7]).requires_grad_()
    x = f64([0.3, -0.2])
    outer = checkpoint(lambda a: checkpoint(lambda b: deep(b, w))(a * 2) * w)
    outer(x).sum().backward()
    found = w.grad.tolist()
    w.grad = None
    (deep(x * 2, w) * w).sum().backward()
    assert found == pytest.approx(w.grad.tolist(), rel=1e-15)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: hessian(lambda a: f(a).sum())(x),
        lambda f, x: jvp(f, (x,), (x * 2,))[1],
        lambda f, x: jvp(grad(lambda a: f(a).sum()), (x,), (x * 2,))[1],
        lambda f, x: grad(lambda a: jvp(f, (a,), (x * 2,))[1].sum())(x),
        lambda f, x: vmap(f)(x),
        lambda f, x: vmap(grad(lambda a: f(a).sum()))(x),
        lambda f, x: grad(lambda a: vmap(f)(a).sum())(x),
        lambda f, x: grad(lambda a: vmap(lambda b: f(a * b).sum())(x).sum())(x),
        lambda f, x: vmap(lambda b: grad(lambda a: f(a * b).sum())(x))(x),
        lambda f, x: vjp(f, x)[1](x)[0],
    ],
)
def test_every_transformation_passes_through_a_checkpoint(transform: Any):
    x = f64([0.3, -0.2, 0.9])

    def plain(a: Any) -> Any:
        return deep(a, a * 0.5 + 1)

    assert np.allclose(transform(checkpoint(plain), x).tolist(), transform(plain, x).tolist(), rtol=1e-13, atol=1e-15)


def test_a_batched_closure_keeps_its_gradient():
    def f(w: Any) -> Any:
        return vmap(lambda v: checkpoint(lambda a: deep(a, v))(f64([0.3, 0.1])).sum())(w).sum()

    def plain(w: Any) -> Any:
        return vmap(lambda v: deep(f64([0.3, 0.1]), v).sum())(w).sum()

    w = f64([0.5, 1.5])
    assert np.allclose(grad(f)(w).tolist(), grad(plain)(w).tolist(), rtol=1e-13)


def test_arguments_of_a_checkpoint_are_trees_with_constants():
    f = checkpoint(lambda tree, power, *, scale: {"y": tree["x"] ** power * scale, "word": None})
    g = grad(lambda x: f({"x": x}, 3, scale=2.0)["y"].sum())(f64([1.0, 2.0]))
    assert g.tolist() == [6.0, 24.0]


def test_a_checkpoint_saves_memory():
    def layers(x: Any) -> Any:
        for _ in range(20):
            x = tn.sin(x)
        return x

    peaks = []
    for f in (layers, checkpoint(layers)):
        with tn.budget(max_bytes=1 << 26) as budget:
            grad(lambda x, f=f: f(f(f(f(x)))).sum())(tn.full((10_000,), 0.5))
            peaks.append(budget.peak_bytes)
    assert peaks[1] < peaks[0] / 2.5


# --- custom_vjp ------------------------------------------------------------------------------------------------------


@custom_vjp
def log1pexp(x: Any) -> Any:
    return tn.log(1 + tn.exp(x))


log1pexp.defvjp(lambda x: (tn.log(1 + tn.exp(x)), x), lambda x, g: (g / (1 + tn.exp(-x)),))


def test_the_given_derivative_is_taken():
    assert grad(lambda x: log1pexp(x).sum())(f64([0.0, 800.0])).tolist() == [0.5, 1.0]
    assert np.isnan(grad(lambda x: tn.log(1 + tn.exp(x)).sum())(f64([800.0])).tolist()[0])


def test_a_custom_derivative_is_differentiable_batched_and_pushed_forward():
    x = f64([0.3, -1.2, 2.0])
    gradcheck(log1pexp, (x,))
    gradcheck(grad(lambda a: log1pexp(a).sum()), (x,))
    sigmoid = [1 / (1 + np.exp(-v)) for v in x.tolist()]
    assert vmap(grad(log1pexp))(x).tolist() == pytest.approx(sigmoid)
    assert grad(lambda a: vmap(log1pexp)(a).sum())(x).tolist() == pytest.approx(sigmoid)
    assert jvp(log1pexp, (x,), (f64([1.0, 1.0, 1.0]),))[1].tolist() == pytest.approx(sigmoid)
    assert vmap(lambda a, b: grad(lambda c: log1pexp(c * b))(a), in_axes=(0, None))(x, f64(2.0)).tolist() == (
        pytest.approx([2 / (1 + np.exp(-2 * v)) for v in x.tolist()])
    )


def test_an_argument_without_batch_gets_the_sum():
    @custom_vjp
    def scaled(x: Any, w: Any) -> Any:
        return x * w

    scaled.defvjp(lambda x, w: (x * w, (x, w)), lambda kept, g: (g * kept[1], g * kept[0]))
    xs, w = f64([1.0, 2.0, 3.0]), f64(5.0)
    assert grad(lambda v: vmap(lambda x: scaled(x, v))(xs).sum())(w).item() == 6.0
    assert vmap(lambda x: grad(lambda v: scaled(x, v))(w))(xs).tolist() == [1.0, 2.0, 3.0]


def test_constants_and_none_pass_through_a_custom_derivative():
    @custom_vjp
    def power(x: Any, n: int, y: Any) -> Any:
        return x**n + y

    power.defvjp(lambda x, n, y: (x**n + y, (x, n)), lambda kept, g: (g * kept[1] * kept[0], None, None))
    gx, gy = grad(lambda x, y: power(x, 2, y), argnums=(0, 1))(f64(3.0), f64(1.0))
    assert (gx.item(), gy.item()) == (6.0, 0.0)


def test_residuals_make_no_cycle():
    import gc
    import weakref

    @custom_vjp
    def exponential(x: Any) -> Any:
        return tn.exp(x)

    def forward(x: Any) -> Any:
        y = tn.exp(x)
        return y, y

    exponential.defvjp(forward, lambda y, g: (g * y,))
    gc.disable()
    try:
        x = f64([1.0]).requires_grad_()
        y = exponential(x)
        gone = weakref.ref(y)
        del y
        assert gone() is None
        exponential(x).sum().backward()
        assert x.grad.tolist() == [np.e]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("fwd", "bwd", "error", "text"),
    [
        (
            lambda x: x,
            None,
            GradientError,
            "custom_vjp f: fwd must return (result, residuals)",
        ),
        (
            lambda x: (x * 1, None),
            lambda r, g: g,
            GradientError,
            "custom_vjp f: bwd must return a tuple of 1, one gradient for each argument of the function, got Tensor",
        ),
        (
            lambda x: (x * 1, None),
            lambda r, g: (g.reshape((1,)),),
            ShapeError,
            "custom_vjp f: bwd gave float64[1] as the gradient of float64[]",
        ),
    ],
)
def test_a_wrong_custom_derivative_is_named(fwd: Any, bwd: Any, error: Any, text: str):
    @custom_vjp
    def f(x: Any) -> Any:
        return x * 1

    f.defvjp(fwd, bwd)
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        grad(f)(f64(1.0))


def test_a_custom_derivative_must_be_given():
    text = "custom_vjp <lambda>: no derivative (hint: <lambda>.defvjp(fwd, bwd))"
    with pytest.raises(GradientError, match=f"^{re.escape(text)}$"):
        custom_vjp(lambda x: x)(f64(1.0))


# --- custom_primitive ------------------------------------------------------------------------------------------------

softsign = custom_primitive(
    "softsign",
    shape=lambda specs, params: specs[0],
    forward=lambda arrays, params: arrays[0] / (params["scale"] + np.abs(arrays[0])),
    vjp=lambda g, node: (g * node.params["scale"] / ((node.params["scale"] + tn.abs(node.inputs[0])) ** 2.0),),
)


def test_a_new_primitive_takes_part_in_everything():
    x = f64([0.5, -2.0, 3.0])
    assert softsign(x, scale=1.0).tolist() == [0.5 / 1.5, -2 / 3, 0.75]
    gradcheck(lambda a: softsign(a, scale=2.0), (x,))
    gradcheck(grad(lambda a: softsign(a, scale=2.0).sum()), (x,))
    mapped = vmap(lambda a: softsign(a, scale=1.0))(x)
    assert mapped.tolist() == softsign(x, scale=1.0).tolist()
    along = jvp(lambda a: softsign(a, scale=1.0), (x,), (f64([1.0, 1.0, 1.0]),))[1]
    assert along.tolist() == pytest.approx([1 / 1.5**2, 1 / 9, 1 / 16])
    assert softsign(tn.asarray(x, device="ref"), scale=1.0).tolist() == softsign(x, scale=1.0).tolist()


def test_a_new_primitive_may_have_several_results():
    split = custom_primitive(
        "split_sign",
        shape=lambda specs, params: (specs[0], Spec((), specs[0].dtype, specs[0].device)),
        forward=lambda arrays, params: (np.maximum(arrays[0], 0), np.minimum(arrays[0], 0).sum()),
        vjp=lambda g, node: (tn.where(node.inputs[0] > 0, g[0], g[1]),),
    )
    positive, negative = split(f64([1.0, -2.0, -3.0]))
    assert (positive.tolist(), negative.item()) == ([1.0, 0.0, 0.0], -5.0)
    assert grad(lambda x: split(x)[1] * 10)(f64([1.0, -2.0, -3.0])).tolist() == [0.0, 10.0, 10.0]


def test_a_forward_that_breaks_its_shape_rule_is_named():
    wrong = custom_primitive(
        "wrong", shape=lambda specs, params: specs[0], forward=lambda arrays, params: arrays[0][:1]
    )
    text = "wrong: forward gave the shape (1,) where the shape rule says (2,)"
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        wrong(f64([1.0, 2.0]))


def test_a_primitive_without_derivative_says_so():
    plain = custom_primitive(
        "plain", shape=lambda specs, params: specs[0], forward=lambda arrays, params: arrays[0] * 2
    )
    for transform in (lambda: grad(plain)(f64(1.0)), lambda: jvp(plain, (f64(1.0),), (f64(1.0),))):
        with pytest.raises(GradientError, match=r"^plain has no derivative \(hint: \.detach\(\) its inputs\)$"):
            transform()


# --- rules forward ---------------------------------------------------------------------------------------------------


def norm_with_rule() -> Any:
    """√Σx², with the tangent Σx·t / √Σx²."""

    @tn.autograd.custom_jvp
    def length(x: Any, power: int) -> Any:
        return tn.sqrt((x**power).sum())

    def rule(primals: Any, tangents: Any) -> tuple[Any, Any]:
        (x, power), (t, none) = primals, tangents
        assert none is None
        value = length(x, power)
        return value, (x * t).sum() / value

    length.defjvp(rule)
    return length


def test_a_rule_forward_gives_every_derivative() -> None:
    length = norm_with_rule()
    x, t = (tn.asarray(values, dtype=tn.float64) for values in ([3.0, 4.0], [1.0, 2.0]))
    value, along = tn.jvp(lambda x: length(x, 2), (x,), (t,))
    assert (value.item(), along.item()) == (5.0, 2.2)
    assert tn.grad(lambda x: length(x, 2))(x).tolist() == pytest.approx([0.6, 0.8])
    gradcheck = tn.autograd.gradcheck
    gradcheck(lambda x: length(x, 2), (x,))
    gradcheck(tn.grad(lambda x: length(x, 2)), (x,))
    leaf = x.clone().requires_grad_()
    length(leaf, 2).backward()
    assert leaf.grad.tolist() == pytest.approx([0.6, 0.8])


def test_a_rule_forward_is_taken_in_batches_and_captured() -> None:
    length = norm_with_rule()
    x = tn.asarray([[3.0, 4.0], [6.0, 8.0]])
    slopes = tn.vmap(tn.grad(lambda x: length(x, 2)))
    assert slopes(x).tolist() == [slopes(x[None, i])[0].tolist() for i in range(2)]
    assert tn.capture(lambda x: length(x, 2))(x[0]).item() == 5.0
    tangents = tn.vmap(lambda x: tn.jvp(lambda x: length(x, 2), (x,), (x,))[1])(x)
    assert tangents.tolist() == [5.0, 10.0]


def test_rules_that_give_something_else_are_named() -> None:
    @tn.autograd.custom_jvp
    def twice(x: Any) -> Any:
        return x * 2

    with pytest.raises(tn.GradientError, match=r"^custom_jvp twice: no derivative \(hint: twice.defjvp\(rule\)\)$"):
        twice(tn.ones(2))
    twice.defjvp(lambda primals, tangents: primals[0] * 2)
    with pytest.raises(tn.GradientError, match=r"^custom_jvp twice: the rule must return \(result, tangent\)$"):
        tn.jvp(twice, (tn.ones(2),), (tn.ones(2),))
    twice.defjvp(lambda primals, tangents: (primals[0] * 2, tangents[0].sum()))
    with pytest.raises(tn.ShapeError, match=r"^custom_jvp twice: the rule's tangent must be like its result$"):
        tn.grad(lambda x: twice(x).sum())(tn.ones(2))


def test_a_stopped_gradient_is_a_constant_for_every_derivative() -> None:
    stop = tn.autograd.stop_gradient
    x = tn.asarray(3.0)

    def fn(x: Any) -> Any:
        return x * stop(x * x)

    assert tn.grad(fn)(x).item() == 9.0
    assert tn.jvp(fn, (x,), (tn.asarray(1.0),))[1].item() == 9.0
    assert tn.jvp(tn.grad(fn), (x,), (tn.asarray(1.0),))[1].item() == 0.0
    assert tn.grad(lambda x: tn.jvp(fn, (x,), (tn.asarray(1.0),))[1])(x).item() == 0.0
    assert tn.vmap(tn.grad(fn))(tn.asarray([1.0, 2.0])).tolist() == [1.0, 4.0]
    assert tn.capture(fn)(x).item() == fn(x).item() == 27.0
    assert not stop(x.clone().requires_grad_()).requires_grad


def test_a_lowering_runs_on_cpu_and_forward_on_ref() -> None:
    ran: list[str] = []

    def lowering(outs: Any, inputs: Any, params: Any) -> None:
        ran.append(str(inputs[0].device))
        outs[0][...] = inputs[0] * params["by"]

    scaled = tn.autograd.custom_primitive(
        "scaled_by_a_library",
        shape=lambda specs, params: specs[0],
        forward=lambda arrays, params: arrays[0] * np.float32(params["by"]),
        lowering=lowering,
        vjp=lambda g, node: (g * node.params["by"],),
    )
    x = tn.asarray([1.0, 2.0])
    assert scaled(x, by=3.0).tolist() == [3.0, 6.0]
    assert tn.grad(lambda x: scaled(x, by=3.0).sum())(x).tolist() == [3.0, 3.0]
    assert ran == ["cpu", "cpu"]
    assert scaled(x.to_device("ref"), by=3.0).tolist() == [3.0, 6.0]
    assert ran == ["cpu", "cpu"]

"""Functions of functions: grad, vjp, jvp, vmap, hessian, in any order and nesting."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor.autograd import enable_grad, grad, gradcheck, hessian, jvp, no_grad, value_and_grad, vjp, vmap
from tensor.errors import DtypeError, GradientError, ShapeError, TraceError


def f64(values: Any) -> Any:
    return tn.asarray(np.asarray(values, np.float64))


def close(a: Any, b: Any, tolerance: float = 1e-12) -> bool:
    return bool(np.allclose(np.asarray(a.tolist()), np.asarray(b.tolist()), rtol=tolerance, atol=tolerance))


# --- grad ------------------------------------------------------------------------------------------------------------


def test_orders_of_derivatives_of_a_polynomial():
    def f(x: Any) -> Any:
        return x * x * x * x

    found, x = f, f64(1.5)
    for order in range(1, 6):
        found = grad(found)
        exact = math.prod(range(5 - order, 5)) * 1.5 ** max(4 - order, 0) if order <= 4 else 0.0
        assert found(x).item() == pytest.approx(exact, abs=1e-12)


def test_arguments_are_trees_and_gradients_have_their_shape():
    class Layer(NamedTuple):
        weight: Any
        bias: Any

    def loss(model: dict[str, Any], x: Any) -> Any:
        first, second = model["layers"]
        return ((first.weight * x + first.bias) * second[0]).sum()

    model = {"layers": [Layer(f64([1.0, 2.0]), f64(3.0)), (f64(4.0), None)]}
    g = grad(loss)(model, f64([5.0, 6.0]))
    assert type(g["layers"][0]) is Layer
    assert g["layers"][0].weight.tolist() == [20.0, 24.0]
    assert g["layers"][0].bias.item() == 8.0
    assert g["layers"][1][0].item() == 5 + 3 + 12 + 3
    assert g["layers"][1][1] is None


def test_argnums_choose_arguments_and_aux_is_passed_on():
    def f(x: Any, y: Any) -> Any:
        return (x * y).sum(), {"parts": x * y, "word": "kept"}

    (value, aux), (gy, gx) = value_and_grad(f, argnums=(1, 0), has_aux=True)(f64([1.0, 2.0]), f64([3.0, 4.0]))
    assert (value.item(), gx.tolist(), gy.tolist()) == (11.0, [3.0, 4.0], [1.0, 2.0])
    assert (aux["parts"].tolist(), aux["word"]) == ([3.0, 8.0], "kept")
    assert not value.requires_grad
    assert not aux["parts"].requires_grad


def test_an_argument_that_is_not_used_has_gradient_zero():
    assert grad(lambda x, y: (y * y).sum())(f64([1.0, 2.0]), f64([3.0])).tolist() == [0.0, 0.0]


def test_grad_works_inside_no_grad():
    with no_grad():
        assert grad(lambda x: x * x)(f64(3.0)).item() == 6.0


def test_a_closure_that_requires_gradients_gets_them_through_a_gradient():
    w = f64([2.0, 3.0]).requires_grad_()
    slope = grad(lambda x: (w * x * x).sum())(f64([5.0, 7.0]))
    assert slope.requires_grad
    slope.sum().backward()
    assert w.grad.tolist() == [10.0, 14.0]


def test_the_value_keeps_the_history_of_a_closure_only():
    w = f64(2.0).requires_grad_()
    value, g = value_and_grad(lambda x: x * 3 + w)(f64(1.0))
    value.backward()
    assert (w.grad.item(), g.item(), g.requires_grad) == (1.0, 3.0, False)


def test_without_an_outer_tape_gradients_have_no_history():
    value, g = value_and_grad(lambda x: tn.sin(x * x))(f64(1.0))
    assert not value.requires_grad
    assert not g.requires_grad


@pytest.mark.parametrize(
    ("function", "argument", "error", "text"),
    [
        (
            lambda x: x * x,
            [1.0, 2.0],
            GradientError,
            "grad: the function must return one 0-d tensor of floats, got float64[2] "
            "(hint: .sum(), has_aux=True for further results, or vjp)",
        ),
        (
            lambda x: 1.0,
            1.0,
            GradientError,
            "grad: the function must return one 0-d tensor of floats, got float "
            "(hint: .sum(), has_aux=True for further results, or vjp)",
        ),
    ],
)
def test_a_function_that_gives_no_scalar_is_refused(function: Any, argument: Any, error: Any, text: str):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        grad(function)(f64(argument))


def test_a_hessian_of_several_results_is_refused_under_its_name():
    with pytest.raises(
        GradientError, match=r"^hessian: the function must return one 0-d tensor of floats, got float64\[2\]"
    ):
        hessian(lambda x: x * x)(f64([1.0, 2.0]))


def test_arguments_that_have_no_gradient_are_refused():
    text = "grad: argument 0 must hold tensors of floats or complex numbers, got int64[2]"
    with pytest.raises(DtypeError, match=f"^{re.escape(text)}$"):
        grad(lambda x: x.sum())(tn.asarray([1, 2]))
    text = "grad: argument 1 must hold tensors of floats or complex numbers, got float"
    with pytest.raises(DtypeError, match=f"^{re.escape(text)}$"):
        grad(lambda x, y: x.sum(), argnums=1)(f64([1.0]), 2.0)
    with pytest.raises(DtypeError, match=r"got ndarray \(hint: tensor.asarray\)$"):
        grad(lambda x: x.sum())(np.ones(2))
    with pytest.raises(DtypeError, match=r"got Fraction \(hint: tensor.autograd.register_pytree_node makes a type a"):
        grad(lambda x: x)(Fraction(1, 2))
    with pytest.raises(ValueError, match=r"^grad: argnums 2 is out of range for 1 positional arguments$"):
        grad(lambda x: x.sum(), argnums=2)(f64([1.0]))


# --- vjp and jvp -----------------------------------------------------------------------------------------------------


def test_a_pullback_may_be_called_again():
    (a, b), pull = vjp(lambda x: (x * x, x * 3), f64([1.0, 2.0]))
    assert (a.tolist(), b.tolist()) == ([1.0, 4.0], [3.0, 6.0])
    for _ in range(2):
        assert pull((f64([1.0, 1.0]), f64([0.0, 1.0])))[0].tolist() == [2.0, 7.0]


def test_cotangents_must_fit():
    _, pull = vjp(lambda x: x * x, f64([1.0, 2.0]))
    with pytest.raises(ShapeError, match=re.escape("vjp: the cotangent must be float64[2], got float64[3]")):
        pull(f64([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match=re.escape("vjp: the cotangent must have the tree *, got (*,)")):
        pull((f64([1.0, 2.0]),))


def test_tangents_must_fit():
    with pytest.raises(ShapeError, match=re.escape("jvp: the tangent of float64[2] must be like it, got float32[2]")):
        jvp(lambda x: x, (f64([1.0, 2.0]),), (tn.ones((2,)),))
    with pytest.raises(ValueError, match=r"^jvp: 2 primals and 1 tangents$"):
        jvp(lambda x, y: x, (f64(1.0), f64(1.0)), (f64(1.0),))


def test_a_result_that_does_not_move_has_tangent_zero():
    value, along = jvp(lambda x: (x * 2, tn.ones((2,))), (f64(1.0),), (f64(5.0),))
    assert (value[0].item(), along[0].item(), along[1].tolist()) == (2.0, 10.0, [0.0, 0.0])


def test_python_may_branch_on_a_value_with_a_tangent():
    def f(x: Any) -> Any:
        return x * x if x > 0 else -x

    assert jvp(f, (f64(3.0),), (f64(1.0),))[1].item() == 6.0
    assert jvp(f, (f64(-3.0),), (f64(1.0),))[1].item() == -1.0


UNARY = {
    "sin": tn.sin,
    "exp": lambda x: tn.exp(x * 0.3),
    "tanh": tn.tanh,
    "square": lambda x: x * x,
    "reverse": lambda x: tn.flip(x, axis=0),
    "mean": lambda x: x - tn.mean(x),
    "turned": lambda x: x.reshape((2, -1)).permute((1, 0)).reshape((-1,)),
    "product": lambda x: tn.tanh((x.reshape((2, -1)) @ x.reshape((-1, 2))).sum()) * x,
}


@given(st.lists(st.sampled_from(sorted(UNARY)), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_forward_and_reverse_agree_on_any_composition(names: list[str], seed: int):
    rng = np.random.default_rng(seed)
    x, v, u = (f64(rng.normal(size=6) * 0.5) for _ in range(3))

    def f(y: Any) -> Any:
        for name in names:
            y = UNARY[name](y)
        return y

    _, along = jvp(f, (x,), (v,))
    _, pull = vjp(f, x)
    forward, reverse = (u * along).sum().item(), (pull(u)[0] * v).sum().item()
    assert forward == pytest.approx(reverse, rel=1e-9, abs=1e-9)


@given(st.lists(st.sampled_from(sorted(UNARY)), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_four_ways_to_the_second_derivative_agree(names: list[str], seed: int):
    rng = np.random.default_rng(seed)
    x, v = (f64(rng.normal(size=6) * 0.5) for _ in range(2))

    def f(y: Any) -> Any:
        for name in names:
            y = UNARY[name](y)
        return tn.sin(y).sum()

    def pushed(y: Any) -> Any:
        return jvp(f, (y,), (v,))[1]

    ways = [
        jvp(grad(f), (x,), (v,))[1],  # forward over reverse
        grad(pushed)(x),  # reverse over forward
        grad(lambda y: (grad(f)(y) * v).sum())(x),  # reverse over reverse
        (hessian(f)(x) @ v.reshape((-1, 1))).reshape((-1,)),
    ]
    pushed_twice = jvp(pushed, (x,), (v,))[1]  # forward over forward: vᵀHv
    for way in ways:
        assert close(way, ways[0], 1e-8)
    assert pushed_twice.item() == pytest.approx((ways[0] * v).sum().item(), rel=1e-8, abs=1e-8)


# --- vmap ------------------------------------------------------------------------------------------------------------


def test_axes_say_where_the_batch_lies():
    x, y = f64(np.arange(6.0).reshape(2, 3)), f64([10.0, 20.0, 30.0])
    f = vmap(lambda a, b: a * b, in_axes=(1, 0), out_axes=1)
    assert f(x, y).tolist() == [[0.0, 20.0, 60.0], [30.0, 80.0, 150.0]]
    assert vmap(lambda d: d["a"] + d["b"], in_axes=({"a": 0, "b": None},))({"a": y, "b": f64(1.0)}).tolist() == [
        11.0,
        21.0,
        31.0,
    ]


def test_nested_batches_are_the_outer_table():
    x, y = f64([1.0, 2.0, 3.0]), f64([10.0, 20.0])
    table = vmap(lambda a: vmap(lambda b: a * b + y.sum())(y))(x)
    assert table.tolist() == [[a * b + 30 for b in (10.0, 20.0)] for a in (1.0, 2.0, 3.0)]


def test_a_result_that_is_the_same_for_all_is_repeated():
    assert vmap(lambda x: f64(7.0))(f64([1.0, 2.0])).tolist() == [7.0, 7.0]


def test_gradients_of_elements_are_the_gradients_of_the_batch():
    rng = np.random.default_rng(3)
    w, xs = f64(rng.normal(size=(4, 3))), f64(rng.normal(size=(5, 3)))

    def loss(weight: Any, x: Any) -> Any:
        return tn.tanh(weight @ x.reshape((3, 1))).sum()

    each = vmap(grad(loss), in_axes=(None, 0))(w, xs)
    assert each.shape == (5, 4, 3)
    for k in range(5):
        assert each[k].tolist() == grad(loss)(w, xs[k]).tolist()
    total = grad(lambda weight: vmap(loss, in_axes=(None, 0))(weight, xs).sum())(w)
    assert close(total, each.sum(axis=0))


def test_a_gradient_through_gradients_of_elements():
    xs = f64([0.5, 1.5, -0.5])

    def penalty(w: Any) -> Any:
        slopes = vmap(grad(lambda x: tn.sin(w * x)))(xs)
        return (slopes * slopes).sum()

    gradcheck(penalty, (f64(0.7),))
    assert close(jvp(penalty, (f64(0.7),), (f64(1.0),))[1], grad(penalty)(f64(0.7)), 1e-10)


def test_an_outer_leaf_gets_the_gradients_of_a_batch_of_gradients():
    w = f64([0.5, -1.0, 2.0]).requires_grad_()
    slopes = vmap(lambda a, x: grad(lambda y: tn.sin(a * y))(x))(w, f64([1.0, 2.0, 3.0]))
    slopes.sum().backward()
    exact = [math.cos(a * x) - a * x * math.sin(a * x) for a, x in zip([0.5, -1.0, 2.0], [1.0, 2.0, 3.0], strict=True)]
    assert w.grad.tolist() == pytest.approx(exact, rel=1e-12)


def test_a_gradient_with_respect_to_a_constant_of_the_batch_is_followed_from_outside():
    w = f64(0.7)

    def slopes(xs: Any) -> Any:
        return vmap(lambda x: grad(lambda v: tn.sin(v * x))(w))(xs).sum()

    xs = [0.5, 1.5, -0.5]
    exact = [math.cos(0.7 * x) - 0.7 * x * math.sin(0.7 * x) for x in xs]
    assert grad(slopes)(f64(xs)).tolist() == pytest.approx(exact, rel=1e-12)
    leaf = f64(xs).requires_grad_()
    slopes(leaf).backward()
    assert leaf.grad.tolist() == pytest.approx(exact, rel=1e-12)


def test_python_branches_on_batches_are_refused_with_a_hint():
    text = (
        "vmap: the truth of a batched tensor is not known, it stands for many values "
        "(hint: tensor.where, cond and while_loop choose by value)"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        vmap(lambda x: x if x > 0 else -x)(f64([1.0, -1.0]))


@pytest.mark.parametrize("ask", [float, int, lambda x: x.item(), lambda x: x.numpy(), lambda x: x.tolist()])
def test_no_value_comes_out_of_a_batch(ask: Any):
    with pytest.raises(TraceError, match=r"^vmap: .* of a batched tensor is not known"):
        vmap(lambda x: x * ask(x))(f64([1.0, 2.0]))


def test_a_tracer_that_outlives_its_run_is_refused():
    kept = []
    vmap(lambda x: kept.append(x) or x)(f64([1.0, 2.0]))
    text = "mul: an input comes from a vmap that has ended (hint: return it from the function instead of keeping it)"
    with pytest.raises(TraceError, match=f"^{re.escape(text)}$"):
        kept[0] * 2


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: vmap(lambda a, b: a)(f64([1.0]), f64([1.0, 2.0])),
            ShapeError,
            "vmap: the batches differ in size: 1 and 2",
        ),
        (lambda: vmap(lambda a: a, in_axes=1)(f64([1.0])), ShapeError, "vmap: axis 1 is out of range for float64[1]"),
        (
            lambda: vmap(lambda a: a, in_axes=(None,))(f64([1.0])),
            ValueError,
            "vmap: no argument is batched, in_axes is None everywhere",
        ),
        (
            lambda: vmap(lambda a: a, in_axes=(0, 0))(f64([1.0])),
            ValueError,
            "vmap: in_axes has 2 entries for 1 arguments",
        ),
        (
            lambda: vmap(lambda a: a, out_axes=2)(f64([1.0])),
            ShapeError,
            "vmap: out_axes 2 is out of range for a result of 1 dimensions",
        ),
        (lambda: vmap(lambda a: 1.0)(f64([1.0])), TraceError, "vmap: the function must return tensors, got float"),
    ],
)
def test_wrong_batches_say_what_is_wrong(call: Any, error: Any, text: str):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()


def test_an_empty_batch_has_an_empty_result():
    assert vmap(lambda x: tn.sin(x).sum())(tn.zeros((0, 3))).shape == (0,)


# --- hessian, gradcheck ----------------------------------------------------------------------------------------------


def test_the_hessian_is_symmetric_and_has_the_shape_of_the_argument_twice():
    h = hessian(lambda x: (tn.sin(x) * tn.flip(x, axis=1)).sum())(f64([[0.1, 0.2], [0.3, 0.4]]))
    assert h.shape == (2, 2, 2, 2)
    flat = np.asarray(h.tolist()).reshape(4, 4)
    assert np.array_equal(flat, flat.T)


def test_gradcheck_finds_a_wrong_gradient_and_says_where():
    from tensor.autograd import custom_vjp

    @custom_vjp
    def wrong(x: Any) -> Any:
        return x * x

    wrong.defvjp(lambda x: (x * x, x), lambda x, g: (g * x * 2 * f64([1.0, 1.1]),))
    text = (
        "gradcheck: argument 0, float64[2], element (1,): the gradient is 4.858048651, finite differences give 4.4164"
    )
    with pytest.raises(GradientError, match=f"^{re.escape(text)}"):
        gradcheck(wrong, (f64([1.0, 3.0]),))


def test_gradcheck_wants_doubles():
    with pytest.raises(DtypeError, match=re.escape("gradcheck: needs float64 or complex128, got float32[1]")):
        gradcheck(lambda x: x, (tn.ones((1,)),))


def test_enable_grad_records_inside_no_grad():
    x = f64([1.0]).requires_grad_()
    with no_grad(), enable_grad():
        assert (x * x).requires_grad


# --- named batches ---------------------------------------------------------------------------------------------------


def test_elements_of_a_named_batch_know_their_number_and_their_count() -> None:
    index, size = tn.autograd.axis_index, tn.autograd.axis_size

    def place(x: Any, y: Any) -> Any:
        return x * 0 + index("rows") * 100 + index("columns") * 10 + size("rows") + size("columns") + y * 0

    for device in ("cpu", "ref"):
        x, y = (tn.asarray(np.zeros(n), device=device) for n in (2, 3))
        inner = tn.vmap(place, in_axes=(None, 0), axis_name="columns")
        grid = tn.vmap(inner, in_axes=(0, None), axis_name="rows")(x, y)
        assert grid.tolist() == [[100.0 * i + 10 * j + 5 for j in range(3)] for i in range(2)]
    slope = tn.vmap(tn.grad(lambda x: x * index("i")), axis_name="i")(tn.ones(3))
    assert slope.tolist() == [0.0, 1.0, 2.0]


def test_a_name_outside_of_its_batch_is_refused() -> None:
    with pytest.raises(TraceError) as caught:
        tn.vmap(lambda x: x * tn.autograd.axis_size("j"), axis_name="i")(tn.ones(2))
    assert str(caught.value) == "vmap: no axis is named 'j' here, there is i (hint: vmap(fn, axis_name='j'))"
    with pytest.raises(TraceError, match=r"^vmap: no axis is named 'i' here, there is none"):
        tn.autograd.axis_index("i")

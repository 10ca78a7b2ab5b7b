"""Rows of elementwise operations that are exact or rounded once: arithmetic, comparison, logic, bits, moves, casts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor.errors import DtypeError
from tensor.primitives.primitive import (
    ALL,
    COMPLEX,
    CROSSED,
    FLOATS,
    NUMBERS,
    REALS,
    Params,
    Primitive,
    Sample,
    keep,
)
from tensor.primitives.registry import register
from tensor.primitives.rules import (
    ELEMENTWISE_BATCH,
    call,
    elementwise,
    unbroadcast,
    vjp_of_partials,
    zero_divisor,
)
from tensor.primitives.spec import Spec, name_of

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Samples = Callable[["np.random.Generator"], Iterable[Sample]]
Partials = Callable[[Any], Sequence[Callable[[Tensor], Tensor] | None]]

ORDERED = ("bool", *REALS)
INEXACT = (*FLOATS, *COMPLEX)


def twin_of(name: str) -> Callable[[tuple[Any, ...], Params], Any]:
    """The twin of that name in tensor/twins/elementwise_ref.py, which loads numpy when it runs."""

    def twin(arrays: tuple[Any, ...], params: Params) -> Any:
        from tensor.twins.elementwise_ref import TWINS

        return TWINS[name](arrays, params)

    return twin


def numpy_oracle(name: str) -> Callable[[tuple[Any, ...], Params], Any]:
    """The function of numpy of that name, on the inputs."""

    def oracle(arrays: tuple[Any, ...], params: Params) -> Any:
        import numpy as np

        return getattr(np, name)(*arrays)

    return oracle


def part(dtype: Any) -> Any:
    """The dtype of the parts of a complex number, other dtypes as they are."""
    return {"complex64": "float32", "complex128": "float64"}.get(name_of(dtype), dtype)


def _zero(x: Any) -> Tensor:
    from tensor.functions.creation import zeros

    return zeros((), dtype=x.dtype, device=x.device)


def is_complex(x: Any) -> bool:
    """Whether a tensor or Spec holds complex numbers."""
    return name_of(x.dtype).startswith("complex")


# --- samples ---------------------------------------------------------------------------------------------------------


def one_input(rng: np.random.Generator) -> Iterable[Sample]:
    """Away from 0, ±0.5 and ±1: no kink, no step."""
    x = rng.uniform(0.1, 0.4, (3, 5)) + rng.integers(-3, 3, (3, 5))
    yield Sample(x)
    yield Sample(x[0, :1].reshape(()))
    yield Sample(x[:0])


def two_inputs(rng: np.random.Generator) -> Iterable[Sample]:
    """No two elements equal, none 0."""
    x, y = rng.uniform(0.6, 1.4, (3, 5)) * 2, rng.uniform(1.6, 2.4, (3, 5)) * 2
    yield Sample(x, y)
    yield Sample(x, y[0])
    yield Sample(x[:, :1], y[0, :1].reshape(()))
    yield Sample(x[:0], y[:0])


def _choices(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.random((3, 5)) < 0.5, rng.normal(size=5) * 3, rng.normal(size=(3, 1)) * 3)


# --- moves -----------------------------------------------------------------------------------------------------------

elementwise(
    "copy",
    arity=1,
    dtypes=ALL,
    summary="The same elements in memory of their own.",
    linear=True,
    vjp=lambda g, node: (g,),
    twin=twin_of("copy"),
    samples=one_input,
    oracle=lambda arrays, params: arrays[0],
    flops=0,
)


def _where_partials(node: Any) -> tuple[Callable[[Tensor], Tensor] | None, ...]:
    condition = node.inputs[0]
    return None, lambda t: call("where", condition, t, _zero(t)), lambda t: call("where", condition, _zero(t), t)


elementwise(
    "where",
    arity=3,
    dtypes=ALL,
    summary="The second input where the first is true, else the third.",
    free=(0,),
    keeps=keep(inputs=(0,)),
    partials=_where_partials,
    twin=twin_of("where"),
    samples=_choices,
    oracle=numpy_oracle("where"),
)


def _cast_shape(specs: Sequence[Any], params: Params) -> Spec:
    source, target = name_of(specs[0].dtype), params["dtype"]
    if source in COMPLEX and target not in (*COMPLEX, "bool"):
        raise DtypeError(f"cast: {source} has no meaning as {target} (hint: tensor.real)")
    return Spec(specs[0].shape, target, specs[0].device)


def _cast_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    from tensor import _kernels

    _kernels.elementwise(_kernels.ELEMENTWISE["cast"], outs[0], inputs[0])


def _cast_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.bfloat16_ref import BFLOAT16
    from tensor.twins.elementwise_ref import cast

    return cast(arrays[0], BFLOAT16 if params["dtype"] == "bfloat16" else params["dtype"])


def _cast_vjp(g: Tensor, node: Any) -> tuple[Tensor | None]:
    x = node.inputs[0]
    if name_of(x.dtype) not in INEXACT or name_of(g.dtype) not in INEXACT:
        return (None,)
    if is_complex(g) and not is_complex(x):
        g = call("real", g)
    return (g if g.dtype == x.dtype else call("cast", g, dtype=name_of(x.dtype)),)


def _cast_samples(rng: np.random.Generator) -> Iterable[Sample]:
    x = rng.normal(size=(3, 5)) * 100
    yield Sample(x, params={"dtype": "float64"}, dtypes=("bool", *REALS))
    yield Sample(x, params={"dtype": "complex128"})
    yield Sample(x, params={"dtype": "int16"}, dtypes=("bool", *REALS))
    yield Sample(x, params={"dtype": "bool"})
    yield Sample(x, params={"dtype": "bfloat16"}, dtypes=("bool", *REALS), gradcheck=False)


CAST = register(
    Primitive(
        "cast",
        category="elementwise",
        summary="The same numbers in another element type: one rounding; floats to integers truncate and saturate.",
        dtypes=ALL,
        shape=_cast_shape,
        kernel=_cast_kernel,
        twin=_cast_twin,
        linear=True,
        vjp=_cast_vjp,
        batch=ELEMENTWISE_BATCH,
        samples=_cast_samples,
    )
)

# --- arithmetic ------------------------------------------------------------------------------------------------------

elementwise(
    "add",
    arity=2,
    dtypes=NUMBERS,
    summary="Sum, element by element; integers wrap.",
    partials=lambda node: (lambda t: t, lambda t: t),
    twin=twin_of("add"),
    samples=two_inputs,
    oracle=lambda arrays, params: arrays[0] + arrays[1],
)
elementwise(
    "sub",
    arity=2,
    dtypes=NUMBERS,
    summary="Difference, element by element; integers wrap.",
    partials=lambda node: (lambda t: t, lambda t: -t),
    twin=twin_of("sub"),
    samples=two_inputs,
    oracle=lambda arrays, params: arrays[0] - arrays[1],
)


def _mul_partials(node: Any) -> tuple[Callable[[Tensor], Tensor], ...]:
    return lambda t: t * node.inputs[1], lambda t: t * node.inputs[0]


_mul_vjp_of_partials = vjp_of_partials(_mul_partials)


def _mul_vjp(g: Tensor, node: Any) -> Sequence[Tensor | None]:
    """What the partial derivatives give, with less to do: products are the most frequent nodes."""
    if g.dtype.name in COMPLEX:
        return _mul_vjp_of_partials(g, node)
    x, y = node.inputs
    need_x, need_y = node.needs
    shape = g.shape
    left = right = None
    if need_x:
        left = g * y
        if x.shape != shape:
            left = unbroadcast(left, x.shape)
    if need_y:
        right = g * x
        if y.shape != shape:
            right = unbroadcast(right, y.shape)
    return left, right


elementwise(
    "mul",
    arity=2,
    dtypes=NUMBERS,
    summary="Product, element by element; integers wrap.",
    keeps=keep(inputs=(0, 1)),
    alone=CROSSED,
    partials=_mul_partials,
    vjp=_mul_vjp,
    twin=twin_of("mul"),
    samples=two_inputs,
    oracle=lambda arrays, params: arrays[0] * arrays[1],
)
elementwise(
    "div",
    arity=2,
    dtypes=INEXACT,
    summary="Quotient, element by element.",
    keeps=keep(inputs=(1,), outputs=(0,)),
    alone=(keep(inputs=(1,)), keep(inputs=(1,), outputs=(0,))),
    partials=lambda node: (
        lambda t: t / node.inputs[1],
        lambda t: -(t * node.outputs[0] / node.inputs[1]),
    ),
    twin=twin_of("div"),
    samples=two_inputs,
    oracle=lambda arrays, params: arrays[0] / arrays[1],
)
elementwise(
    "floor_div",
    arity=2,
    dtypes=REALS,
    summary="Quotient rounded down; an integer divided by 0 is 0.",
    check=zero_divisor("floor_div"),
    partials=lambda node: (None, None),
    twin=twin_of("floor_div"),
    samples=two_inputs,
    oracle=lambda arrays, params: arrays[0] // arrays[1],
)
elementwise(
    "mod",
    arity=2,
    dtypes=REALS,
    summary="Remainder of floor_div: it has the sign of the divisor; an integer modulo 0 is 0.",
    check=zero_divisor("mod"),
    keeps=keep(inputs=(0, 1)),
    partials=lambda node: (lambda t: t, lambda t: -(t * call("floor_div", node.inputs[0], node.inputs[1]))),
    twin=twin_of("mod"),
    samples=two_inputs,
    oracle=lambda arrays, params: arrays[0] % arrays[1],
)


def _larger_partials(greater: str) -> Partials:
    """Where both are equal, each has half of the gradient."""

    def partials(node: Any) -> tuple[Callable[[Tensor], Tensor], ...]:
        x, y = node.inputs

        def share(t: Tensor, wins: Tensor) -> Tensor:
            return call("where", wins, t, call("where", call("eq", x, y), t * 0.5, _zero(t)))

        return lambda t: share(t, call(greater, x, y)), lambda t: share(t, call(greater, y, x))

    return partials


elementwise(
    "maximum",
    arity=2,
    dtypes=ORDERED,
    summary="The larger one; NaN if either is, and +0 is above −0.",
    keeps=keep(inputs=(0, 1)),
    partials=_larger_partials("gt"),
    twin=twin_of("maximum"),
    samples=two_inputs,
    oracle=numpy_oracle("maximum"),
)
elementwise(
    "minimum",
    arity=2,
    dtypes=ORDERED,
    summary="The smaller one; NaN if either is, and −0 is below +0.",
    keeps=keep(inputs=(0, 1)),
    partials=_larger_partials("lt"),
    twin=twin_of("minimum"),
    samples=two_inputs,
    oracle=numpy_oracle("minimum"),
)
elementwise(
    "neg",
    arity=1,
    dtypes=NUMBERS,
    summary="The number with the other sign; integers wrap.",
    linear=True,
    vjp=lambda g, node: (-g,),
    twin=twin_of("neg"),
    samples=one_input,
    oracle=lambda arrays, params: -arrays[0],
)


def _abs_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    """The gradient of the size of a complex number points along it; at 0 it is 0."""
    x = node.inputs[0]
    direction = call("sign", x)
    return (direction * (call("make_complex", g, g * 0) if is_complex(x) else g),)


def _abs_jvp(tangents: Sequence[Tensor | None], node: Any) -> Tensor:
    (t,), x = tangents, node.inputs[0]
    along = t * call("conj", call("sign", x))
    return call("real", along) if is_complex(x) else along


elementwise(
    "abs",
    arity=1,
    dtypes=NUMBERS,
    summary="The size; of a complex number a float. The smallest signed integer stays itself.",
    result=part,
    keeps=keep(inputs=(0,)),
    vjp=_abs_vjp,
    jvp=_abs_jvp,
    twin=twin_of("abs"),
    samples=one_input,
    oracle=numpy_oracle("abs"),
)


def _sign_turns(t: Tensor, node: Any) -> Tensor | None:
    """How z / |z| moves with z: the part of t across z, over |z|. It is its own transpose."""
    x, direction = node.inputs[0], node.outputs[0]
    if not is_complex(x):
        return None
    along = call("real", call("conj", direction) * t)
    size = call("abs", x)
    return (t - direction * call("make_complex", along, along * 0)) / call("make_complex", size, size * 0)


elementwise(
    "sign",
    arity=1,
    dtypes=NUMBERS,
    summary="−1, 0 or 1; z / |z| of a complex number; NaN of NaN.",
    keeps=keep(inputs=(0,), outputs=(0,)),
    vjp=lambda g, node: (_sign_turns(g, node),),
    jvp=lambda tangents, node: _sign_turns(tangents[0], node),
    twin=twin_of("sign"),
    samples=one_input,
    oracle=numpy_oracle("sign"),
)
elementwise(
    "square",
    arity=1,
    dtypes=NUMBERS,
    summary="The product with itself; integers wrap.",
    keeps=keep(inputs=(0,)),
    partials=lambda node: (lambda t: t * (node.inputs[0] + node.inputs[0]),),
    twin=twin_of("square"),
    samples=one_input,
    oracle=lambda arrays, params: arrays[0] * arrays[0],
)
elementwise(
    "reciprocal",
    arity=1,
    dtypes=INEXACT,
    summary="One divided by the number.",
    keeps=keep(outputs=(0,)),
    partials=lambda node: (lambda t: -(t * node.outputs[0] * node.outputs[0]),),
    twin=twin_of("reciprocal"),
    samples=one_input,
    oracle=lambda arrays, params: 1 / arrays[0],
)


def _clip_partials(node: Any) -> tuple[Callable[[Tensor], Tensor], ...]:
    x, low, high = node.inputs
    above, below = call("gt", x, high), call("lt", x, low)
    crossed = call("gt", low, high)  # then the result is high
    inside = call("logical_not", call("logical_or", above, below))
    at_low = call("logical_and", below, call("logical_not", crossed))
    return (
        lambda t: call("where", inside, t, _zero(t)),
        lambda t: call("where", at_low, t, _zero(t)),
        lambda t: call("where", call("logical_or", above, crossed), t, _zero(t)),
    )


def _clip_samples(rng: np.random.Generator) -> Iterable[Sample]:
    x = rng.uniform(0.1, 0.4, (3, 5)) + rng.integers(0, 6, (3, 5))
    one = x[0, :1].reshape(()) * 0 + 1
    yield Sample(x, one, 4 * one)
    yield Sample(x, x[0] * 0 + 3, 2 * one)


elementwise(
    "clip",
    arity=3,
    dtypes=REALS,
    summary="minimum(maximum(x, low), high): high where low is above it.",
    keeps=keep(inputs=(0, 1, 2)),
    partials=_clip_partials,
    twin=twin_of("clip"),
    samples=_clip_samples,
    oracle=numpy_oracle("clip"),
)


def _both_signs(rng: np.random.Generator) -> Iterable[Sample]:
    for sample in two_inputs(rng):
        x, y = sample.inputs
        yield Sample(x, y * rng.choice([-1.0, 1.0], y.shape))


elementwise(
    "relu",
    arity=1,
    dtypes=REALS,
    summary="0 below 0, else the number itself: NaN and −0 stay.",
    keeps=keep(outputs=(0,)),
    partials=lambda node: (lambda t: call("relu_gradient", t, node.outputs[0]),),
    twin=twin_of("relu"),
    samples=one_input,
    oracle=lambda arrays, params: arrays[0] * (arrays[0] > 0),
)
elementwise(
    "relu_gradient",
    arity=2,
    dtypes=FLOATS,
    summary="x where y is above 0, else +0: the gradient of relu, whose result is y.",
    keeps=keep(inputs=(1,)),
    partials=lambda node: (lambda t: call("relu_gradient", t, node.inputs[1]), None),
    twin=twin_of("relu_gradient"),
    samples=_both_signs,
    oracle=lambda arrays, params: arrays[0] * (arrays[1] > 0),
)


def _positive(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.uniform(0.5, 3, (3, 5)))


def _sqrt_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    if arrays[0].dtype.kind == "c":
        from tensor.twins.complex_ref import TWINS

        return TWINS["sqrt"](arrays, params)
    return twin_of("sqrt")(arrays, params)


elementwise(
    "sqrt",
    arity=1,
    dtypes=INEXACT,
    summary="The square root; NaN below 0 for real numbers, with real part ≥ 0 for complex ones.",
    keeps=keep(outputs=(0,)),
    partials=lambda node: (lambda t: t / (node.outputs[0] + node.outputs[0]),),
    twin=_sqrt_twin,
    samples=_positive,
    oracle=numpy_oracle("sqrt"),
)

"""Rows of reductions over any axes.

`axis` is a tuple counted from the front (all axes named), `keepdims` a bool. Every sum has the order of
tensor/twins/fold_ref.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import DtypeError, EmptyReductionError, ShapeError
from tensor.primitives.primitive import ALL, FLOATS, NUMBERS, REALS, Params, Primitive, Sample, keep
from tensor.primitives.registry import register
from tensor.primitives.rules import call, expand_to, shifted_axes
from tensor.primitives.spec import Spec, name_of, total_bytes

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]
Samples = Callable[["np.random.Generator"], Iterable[Sample]]

CATEGORY = "reduction"
ORDERED = ("bool", *REALS)
SUMMED = ("bool", *NUMBERS)
INEXACT = (*FLOATS, "complex64", "complex128")
_CODES = getattr(_kernels, "REDUCE", {})


# --- what rows of reductions share -----------------------------------------------------------------------------------


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape without the axes, or with 1 for them.

    >>> kept_shape((2, 3, 4), (0, 2), False), kept_shape((2, 3, 4), (0, 2), True)
    ((3,), (1, 3, 1))
    """
    if keepdims:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def widened(dtype: Any) -> Any:
    """The dtype of sums and products: int64 for bool and signed integers, uint64 for unsigned ones, else the same."""
    name = name_of(dtype)
    if name == "bool" or name.startswith("int"):
        return "int64"
    return "uint64" if name.startswith("uint") else dtype


def _always(dtype: str) -> Callable[[Any], Any]:
    return lambda given: dtype


def check_dtype(name: str, x: Any, dtypes: tuple[str, ...]) -> None:
    """DtypeError unless x's dtype is one of them."""
    if name_of(x.dtype) not in dtypes:
        raise DtypeError(f"{name}: {name_of(x.dtype)} is not computed with (hint: {', '.join(dtypes)})")


def mask_of(axes: tuple[int, ...]) -> int:
    """The axes as bits."""
    return sum(1 << a for a in axes)


def spread(g: Tensor, node: Any) -> Tensor:
    """A gradient or result of a reduction, repeated over the axes that were reduced."""
    shape = node.inputs[0].shape
    if g.ndim == 0:
        return g.expand(shape)
    return expand_to(g.reshape(kept_shape(shape, node.params["axis"], True)), shape)


def reduced_count(x: Any, axes: tuple[int, ...]) -> int:
    """How many elements each result is made of."""
    return math.prod(x.shape[a] for a in axes)


def _twin(name: str) -> Callable[[tuple[Any, ...], Params], Any]:
    def twin(arrays: tuple[Any, ...], params: Params) -> Any:
        from tensor.twins.reductions_ref import reduce

        axes = params["axis"]
        result = reduce(name, arrays[0], axes, params.get("correction", 0.0))
        return result.reshape(kept_shape(arrays[0].shape, axes, params["keepdims"]))

    return twin


def _oracle(name: str, **fixed: Any) -> Callable[[tuple[Any, ...], Params], Any]:
    def oracle(arrays: tuple[Any, ...], params: Params) -> Any:
        import numpy as np

        more = {"ddof": params["correction"]} if "correction" in params else {}
        return getattr(np, name)(arrays[0], axis=params["axis"], keepdims=params["keepdims"], **more, **fixed)

    return oracle


def _cost(specs: Specs, outs: Specs, params: Params) -> tuple[int, int]:
    return total_bytes((*specs, *outs)), specs[0].size


def _samples(**more: Any) -> Samples:
    """No two elements equal, none 0; several axes, one, none left, strided, kept."""

    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        x = rng.permutation(60).reshape(3, 4, 5) / 16 + 0.3
        for array, axes, keepdims in (
            (x, (1,), False),
            (x, (0, 2), True),
            (x, (0, 1, 2), False),
            (x.transpose(2, 0, 1)[::-1], (0,), False),
            (x[0, 0, 0], (), False),
        ):
            yield Sample(array, params={"axis": axes, "keepdims": keepdims, **more})

    return samples


def _reduction(
    name: str,
    summary: str,
    dtypes: tuple[str, ...],
    *,
    result: Callable[[Any], Any] = lambda dtype: dtype,
    of_nothing: bool = True,
    one_axis: bool = False,
    **fields: Any,
) -> Primitive:
    """Registers the row of the kernel of that name; `of_nothing` False: no elements are an error."""
    code = _CODES.get(name, -1)

    def shape(specs: Specs, params: Params) -> Spec:
        x, axes = specs[0], params["axis"]
        check_dtype(name, x, dtypes)
        if axes and (min(axes) < 0 or max(axes) >= x.ndim or len(set(axes)) < len(axes)):
            raise ShapeError(f"{name}: axes {axes} do not name dimensions of shape {x.shape} once each, from the front")
        if not of_nothing and reduced_count(x, axes) == 0:
            raise ShapeError(f"{name}: not defined for nothing: shape {x.shape} over axes {axes}")
        return Spec(kept_shape(x.shape, axes, params["keepdims"]), result(x.dtype), x.device)

    def kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
        _kernels.reduce(code, inputs[0], mask_of(params["axis"]), outs[0], params.get("correction", 0.0))

    fields.setdefault("samples", _samples())
    return register(
        Primitive(
            name,
            category=CATEGORY,
            summary=summary,
            shape=shape,
            dtypes=dtypes,
            kernel=kernel,
            twin=_twin(name),
            batch=shifted_axes("axis"),
            cost=_cost,
            **fields,
        )
    )


# --- sums ------------------------------------------------------------------------------------------------------------

SUM = _reduction(
    "sum",
    "The sum over axes, in a fixed order; of nothing 0. Small integers are summed in 64 bits.",
    SUMMED,
    result=widened,
    linear=True,
    vjp=lambda g, node: (spread(g, node),),
    oracle=_oracle("sum"),
)


def _refuse_nothing(inputs: tuple[Tensor, ...], params: Params) -> None:
    """What checked mode asks of a mean."""
    x, axes = inputs[0], params["axis"]
    if reduced_count(x, axes) == 0:
        raise EmptyReductionError(f"mean: {Spec(x.shape, x.dtype)!r} has no elements along the axes {axes}")


MEAN = _reduction(
    "mean",
    "The sum over axes divided by their number of elements; NaN for nothing.",
    INEXACT,
    linear=True,
    check=_refuse_nothing,
    vjp=lambda g, node: (spread(g / max(reduced_count(node.inputs[0], node.params["axis"]), 1), node),),
    oracle=_oracle("mean"),
)

SQUARE_SUM = _reduction(
    "square_sum",
    "The sum of squares over axes, every square fused into its slot.",
    FLOATS,
    keeps=keep(inputs=(0,)),
    vjp=lambda g, node: (spread(g * 2, node) * node.inputs[0],),
    oracle=lambda arrays, params: (arrays[0] ** 2).sum(axis=params["axis"], keepdims=params["keepdims"]),
)


def _norm_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    x, y = node.inputs[0], node.outputs[0]
    zero = y == 0
    scale = call("where", zero, y * 0, g / call("where", zero, y * 0 + 1, y))
    return (spread(scale, node) * x,)


NORM = _reduction(
    "norm",
    "The square root of the sum of squares over axes; its gradient at 0 is 0.",
    FLOATS,
    keeps=keep(inputs=(0,), outputs=(0,)),
    vjp=_norm_vjp,
    oracle=lambda arrays, params: (arrays[0] ** 2).sum(axis=params["axis"], keepdims=params["keepdims"]) ** 0.5,
)


def _deviation(node: Any) -> Tensor:
    x, axes = node.inputs[0], node.params["axis"]
    return x - expand_to(call("mean", x, axis=axes, keepdims=True), x.shape)


def _freedom(node: Any) -> float:
    count = reduced_count(node.inputs[0], node.params["axis"])
    return max(count - float(node.params["correction"]), 0.0)


def _divided(x: Tensor, by: float) -> Tensor:
    return x / by if by != 0 else x * math.nan


VAR = _reduction(
    "var",
    "The mean squared deviation from the mean over axes, divided by n − correction.",
    FLOATS,
    keeps=keep(inputs=(0,)),
    vjp=lambda g, node: (spread(_divided(g * 2, _freedom(node)), node) * _deviation(node),),
    samples=lambda rng: (s for s in _samples(correction=1.0)(rng) if s.inputs[0].ndim),
    oracle=_oracle("var"),
)

STD = _reduction(
    "std",
    "The square root of var.",
    FLOATS,
    keeps=keep(inputs=(0,), outputs=(0,)),
    vjp=lambda g, node: (spread(_divided(g / node.outputs[0], _freedom(node)), node) * _deviation(node),),
    samples=lambda rng: (s for s in _samples(correction=1.0)(rng) if s.inputs[0].ndim),
    oracle=_oracle("std"),
)


def _logsumexp_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    from scipy.special import logsumexp  # type: ignore[import-untyped]

    return logsumexp(arrays[0], axis=params["axis"], keepdims=params["keepdims"]) if params["axis"] else arrays[0]


LOGSUMEXP = _reduction(
    "logsumexp",
    "The logarithm of the sum of exp over axes, without overflow.",
    FLOATS,
    keeps=keep(inputs=(0,), outputs=(0,)),
    vjp=lambda g, node: (spread(g, node) * call("exp", node.inputs[0] - spread(node.outputs[0], node)),),
    oracle=_logsumexp_oracle,
)

# --- products --------------------------------------------------------------------------------------------------------


def conjugate(x: Tensor) -> Tensor:
    return call("conj", x) if name_of(x.dtype).startswith("complex") else x


def exclusive(x: Tensor, backwards: bool) -> Tensor:
    """Along the last axis, the product of what comes before each element (or after it)."""
    from tensor.functions.creation import ones
    from tensor.functions.manipulation import concat, flip

    last = x.ndim - 1
    line = flip(x, axis=last) if backwards else x
    one = ones((*x.shape[:-1], 1), dtype=x.dtype, device=x.device)
    before = call("cumprod", concat((one, line[..., :-1]), axis=last), axis=last)
    return flip(before, axis=last) if backwards else before


def _prod_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    x, axes = node.inputs[0], node.params["axis"]
    order = (*(d for d in range(x.ndim) if d not in axes), *axes)
    kept = kept_shape(x.shape, axes, False)
    if x.size == 0:
        return (spread(g, node) * 0,)
    lines = x.permute(order).reshape((*kept, reduced_count(x, axes)))
    others = exclusive(lines, False) * exclusive(lines, True)
    moved = others.reshape((*kept, *(x.shape[a] for a in axes)))
    back = tuple(order.index(d) for d in range(x.ndim))
    return (spread(g, node) * conjugate(moved.permute(back)),)


PROD = _reduction(
    "prod",
    "The product over axes, in a fixed order; of nothing 1. Small integers are multiplied in 64 bits.",
    SUMMED,
    result=widened,
    keeps=keep(inputs=(0,)),
    vjp=_prod_vjp,
    oracle=_oracle("prod"),
)

# --- extremes --------------------------------------------------------------------------------------------------------


def _extreme_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    """Equal elements share the gradient."""
    x, axes = node.inputs[0], node.params["axis"]
    chosen = call("cast", x == spread(node.outputs[0], node), dtype=name_of(x.dtype))
    count = expand_to(call("sum", chosen, axis=axes, keepdims=True), x.shape)
    return (spread(g, node) * (chosen / count),)


for _name in ("max", "min"):
    _reduction(
        _name,
        f"The {'largest' if _name == 'max' else 'smallest'} element over axes; NaN if there is one; +0 is above −0.",
        ORDERED,
        of_nothing=False,
        keeps=keep(inputs=(0,), outputs=(0,)),
        vjp=_extreme_vjp,
        oracle=_oracle(_name),
    )


def _index_samples(rng: np.random.Generator) -> Iterable[Sample]:
    x = rng.permutation(60).reshape(3, 4, 5) / 16 + 0.3
    for array, axes, keepdims in ((x, (1,), False), (x, (0, 1, 2), True), (x.transpose(2, 0, 1)[::-1], (2,), False)):
        yield Sample(array, params={"axis": axes, "keepdims": keepdims})


def _index_oracle(name: str) -> Callable[[tuple[Any, ...], Params], Any]:
    def oracle(arrays: tuple[Any, ...], params: Params) -> Any:
        import numpy as np

        axes = params["axis"]
        axis = axes[0] if len(axes) == 1 else None
        return getattr(np, name)(arrays[0], axis=axis, keepdims=params["keepdims"])

    return oracle


for _name in ("argmax", "argmin"):
    _reduction(
        _name,
        f"The first index of the {'largest' if _name == 'argmax' else 'smallest'} element, in C order over the axes; "
        "of the first NaN if there is one.",
        ORDERED,
        result=_always("int64"),
        of_nothing=False,
        samples=_index_samples,
        oracle=_index_oracle(_name),
    )

# --- truth -----------------------------------------------------------------------------------------------------------


def _truth_samples(rng: np.random.Generator) -> Iterable[Sample]:
    x = rng.integers(-1, 2, (3, 4, 5)).astype(float)
    for axes in ((1,), (0, 2), (0, 1, 2), ()):
        yield Sample(x, params={"axis": axes, "keepdims": False})


for _name, _summary, _result in (
    ("any", "Whether an element over axes is not zero; NaN is not. False for nothing.", "bool"),
    ("all", "Whether no element over axes is zero; NaN is not. True for nothing.", "bool"),
    ("count_nonzero", "How many elements over axes are not zero.", "int64"),
):
    _reduction(
        _name,
        _summary,
        ALL,
        result=_always(_result),
        samples=_truth_samples,
        oracle=_oracle(_name),
    )

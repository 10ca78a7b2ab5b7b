"""Rows of pooling over the last two dimensions of images [n, channels, rows, columns], and of its gradients.

Params: `window`, `stride`, `padding` (places before the first row and column that hold nothing), `dilation`, pairs; a
window of (0, 0) is adaptive: output o covers inputs ⌊o·size / output⌋ up to ⌈(o + 1)·size / output⌉.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.primitives.convolution import _planes_batched
from tensor.primitives.primitive import FLOATS, Params, Primitive, Sample, keep
from tensor.primitives.registry import register
from tensor.primitives.rules import apply, call
from tensor.primitives.spec import Spec, name_of

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]
Pair = tuple[int, int]


def _require(name: str, x: Any, index: Any = None) -> None:
    if name_of(x.dtype) not in FLOATS:
        raise DtypeError(f"{name}: {name_of(x.dtype)} is not computed with (hint: {', '.join(FLOATS)})")
    if x.ndim != 4:
        raise ShapeError(f"{name}: an image must be [n, channels, rows, columns], got shape {x.shape}")
    if index is not None and (name_of(index.dtype) != "int32" or index.ndim != 4 or index.shape[:2] != x.shape[:2]):
        raise ShapeError(f"{name}: index must be int32 places of the same planes, got {index.dtype} {index.shape}")


def _max_shape(specs: Specs, params: Params) -> tuple[Spec, Spec]:
    x = specs[0]
    _require("max_pool", x)
    shape = (*x.shape[:2], *params["output"])
    return Spec(shape, x.dtype, x.device), Spec(shape, "int32", x.device)


def _max_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    p = params
    _kernels.max_pool(inputs[0], outs[0], outs[1], p["window"], p["stride"], p["padding"], p["dilation"])


def _max_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref, pooling_ref

    p = params
    return contraction_ref.through_float32(
        lambda x: pooling_ref.max_pool(x, p["output"], p["window"], p["stride"], p["padding"], p["dilation"]), arrays[0]
    )


def _max_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    from tensor.twins.pooling_ref import windows

    (x,), p = arrays, params
    taken = [
        windows(x.shape[2 + d], p["output"][d], p["window"][d], p["stride"][d], p["padding"][d], p["dilation"][d])
        for d in (0, 1)
    ]
    out = np.zeros((*x.shape[:2], *p["output"]), x.dtype)
    places = np.zeros(out.shape, np.int32)
    for oy, ox in np.ndindex(*p["output"]):
        part = x[:, :, taken[0][oy]][:, :, :, taken[1][ox]].reshape(*x.shape[:2], -1)
        out[:, :, oy, ox] = part.max(axis=2)
        flat = np.add.outer(np.array(taken[0][oy]) * x.shape[3], np.array(taken[1][ox])).reshape(-1)
        places[:, :, oy, ox] = flat[part.argmax(axis=2)]
    return out, places


# size, window, stride, padding, dilation, output
_CASES: tuple[tuple[Pair, Pair, Pair, Pair, Pair, Pair], ...] = (
    ((6, 8), (2, 2), (2, 2), (0, 0), (1, 1), (3, 4)),
    ((5, 7), (3, 2), (1, 3), (1, 1), (1, 1), (5, 3)),
    ((7, 6), (2, 3), (2, 1), (0, 1), (2, 1), (3, 6)),
    ((5, 3), (0, 0), (1, 1), (0, 0), (1, 1), (2, 2)),
)


def _distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """No two equal, so that a small step changes no maximum."""
    n = 1
    for size in shape:
        n *= size
    return (rng.permutation(n).reshape(shape) - n / 2) * 0.125


def _params(case: Any) -> dict[str, Any]:
    _, window, stride, padding, dilation, output = case
    return {"window": window, "stride": stride, "padding": padding, "dilation": dilation, "output": output}


def _max_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for case in _CASES:
        yield Sample(_distinct(rng, (2, 2, *case[0])), params=_params(case))
    yield Sample(rng.integers(-1, 2, (1, 2, 6, 8)).astype(float), params=_params(_CASES[0]), gradcheck=False)


def _max_gradient(g: Any, node: Any) -> tuple[Tensor | None, ...]:
    x, index = node.inputs[0], node.outputs[1]
    if g[0] is None:
        return (None,)
    return (apply(POOL_SCATTER, (g[0], index), {"size": tuple(x.shape[2:])}),)


def _max_tangent(tangents: Sequence[Tensor | None], node: Any) -> Any:
    return apply(POOL_GATHER, (tangents[0], node.outputs[1])), None


def _scatter_shape(specs: Specs, params: Params) -> Spec:
    g, index = specs
    _require("pool_scatter", g, index)
    if index.shape != g.shape:
        raise ShapeError(f"pool_scatter: index must have the shape of g, got {index.shape} and {g.shape}")
    return Spec((*g.shape[:2], *params["size"]), g.dtype, g.device)


def _gather_shape(specs: Specs, params: Params) -> Spec:
    x, index = specs
    _require("pool_gather", x, index)
    return Spec(index.shape, x.dtype, x.device)


def _contiguous(index: Tensor) -> Tensor:
    return index if index.is_contiguous() else call("copy", index)


def _scatter_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref, pooling_ref

    return contraction_ref.through_float32(lambda g, i: pooling_ref.pool_scatter(g, i, params["size"]), *arrays)


def _gather_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref, pooling_ref

    return contraction_ref.through_float32(pooling_ref.pool_gather, *arrays)


def _scatter_samples(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.normal(size=(2, 1, 3, 4)), rng.integers(0, 30, (2, 1, 3, 4), "i4"), params={"size": (5, 6)})


def _gather_samples(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.normal(size=(2, 1, 5, 6)), rng.integers(0, 30, (2, 1, 3, 4), "i4"))


MAX_POOL: Primitive = register(
    Primitive(
        "max_pool",
        category="pooling",
        summary="The largest element of each window and the place of the first such one in its plane.",
        shape=_max_shape,
        dtypes=FLOATS,
        kernel=_max_kernel,
        twin=_max_twin,
        keeps=keep(outputs=(1,)),
        vjp=_max_gradient,
        sparse_gradients=True,
        jvp=_max_tangent,
        batch=_planes_batched(),
        samples=_max_samples,
        oracle=_max_oracle,
    )
)

POOL_SCATTER: Primitive = register(
    Primitive(
        "pool_scatter",
        category="pooling",
        summary="Planes of zeros with each element added at its place: the gradient of max_pool.",
        shape=_scatter_shape,
        dtypes=FLOATS,
        kernel=lambda outs, inputs, params: _kernels.pool_by_index(inputs[0], _contiguous(inputs[1]), outs[0], True),
        twin=_scatter_twin,
        keeps=keep(inputs=(1,)),
        vjp=lambda g, node: (apply(POOL_GATHER, (g, node.inputs[1])), None),
        jvp=lambda tangents, node: apply(POOL_SCATTER, (tangents[0], node.inputs[1]), node.params),
        batch=_planes_batched(),
        samples=_scatter_samples,
    )
)

POOL_GATHER: Primitive = register(
    Primitive(
        "pool_gather",
        category="pooling",
        summary="The elements of a plane at given places.",
        shape=_gather_shape,
        dtypes=FLOATS,
        kernel=lambda outs, inputs, params: _kernels.pool_by_index(inputs[0], _contiguous(inputs[1]), outs[0], False),
        twin=_gather_twin,
        keeps=keep(inputs=(1,)),
        vjp=lambda g, node: (
            apply(POOL_SCATTER, (g, node.inputs[1]), {"size": tuple(node.inputs[0].shape[2:])}),
            None,
        ),
        jvp=lambda tangents, node: apply(POOL_GATHER, (tangents[0], node.inputs[1])),
        batch=_planes_batched(),
        samples=_gather_samples,
    )
)


# --- means -----------------------------------------------------------------------------------------------------------


def _average_shape(key: str, name: str) -> Callable[[Specs, Params], Spec]:
    def rule(specs: Specs, params: Params) -> Spec:
        x = specs[0]
        _require(name, x)
        return Spec((*x.shape[:2], *params[key]), x.dtype, x.device)

    return rule


def _average_kernel(gradient: bool) -> Callable[[tuple[Tensor, ...], tuple[Tensor, ...], Params], None]:
    def kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
        p = params
        _kernels.average_pool(inputs[0], outs[0], p["window"], p["stride"], p["padding"], p["divisor"], gradient)

    return kernel


def _average_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref, pooling_ref

    p = params
    return contraction_ref.through_float32(
        lambda x: pooling_ref.average_pool(x, p["output"], p["window"], p["stride"], p["padding"], p["divisor"]),
        *arrays,
    )


def _average_gradient_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref, pooling_ref

    p = params
    return contraction_ref.through_float32(
        lambda g: pooling_ref.average_pool_gradient(g, p["size"], p["window"], p["stride"], p["padding"], p["divisor"]),
        *arrays,
    )


def _average_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    from tensor.twins.pooling_ref import windows

    (x,), p = arrays, params
    taken = [windows(x.shape[2 + d], p["output"][d], p["window"][d], p["stride"][d], p["padding"][d]) for d in (0, 1)]
    out = np.zeros((*x.shape[:2], *p["output"]), x.dtype)
    for oy, ox in np.ndindex(*p["output"]):
        part = x[:, :, taken[0][oy]][:, :, :, taken[1][ox]].reshape(*x.shape[:2], -1)
        out[:, :, oy, ox] = part.sum(axis=2) / (p["divisor"] or part.shape[2])
    return out


def _average_params(case: Any, divisor: int) -> dict[str, Any]:
    _, window, stride, padding, _, output = case
    return {"window": window, "stride": stride, "padding": padding, "output": output, "divisor": divisor}


def _average_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for case, divisor in ((_CASES[0], 0), (_CASES[1], 6), (_CASES[1], 0), (_CASES[3], 0)):
        yield Sample(rng.normal(size=(2, 2, *case[0])), params=_average_params(case, divisor))


def _average_gradient_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for case, divisor in ((_CASES[0], 0), (_CASES[1], 6), (_CASES[3], 0)):
        params = _average_params(case, divisor)
        output = params.pop("output")
        yield Sample(rng.normal(size=(2, 2, *output)), params={**params, "size": case[0]})


def _exchanged(params: Params, old: str, new: str, shape: tuple[int, ...]) -> dict[str, Any]:
    changed = {**params, new: tuple(shape[2:])}
    del changed[old]
    return changed


AVERAGE_POOL: Primitive = register(
    Primitive(
        "average_pool",
        category="pooling",
        summary="The sum of each window, divided by `divisor`, or by its number of elements if that is 0.",
        shape=_average_shape("output", "average_pool"),
        dtypes=FLOATS,
        kernel=_average_kernel(False),
        twin=_average_twin,
        linear=True,
        vjp=lambda g, node: (
            apply(AVERAGE_POOL_GRADIENT, (g,), _exchanged(node.params, "output", "size", node.inputs[0].shape)),
        ),
        batch=_planes_batched(),
        samples=_average_samples,
        oracle=_average_oracle,
    )
)

AVERAGE_POOL_GRADIENT: Primitive = register(
    Primitive(
        "average_pool_gradient",
        category="pooling",
        summary="What each element of an image gets back from the means of its windows, in their order.",
        shape=_average_shape("size", "average_pool_gradient"),
        dtypes=FLOATS,
        kernel=_average_kernel(True),
        twin=_average_gradient_twin,
        linear=True,
        vjp=lambda g, node: (
            apply(AVERAGE_POOL, (g,), _exchanged(node.params, "size", "output", node.inputs[0].shape)),
        ),
        batch=_planes_batched(),
        samples=_average_gradient_samples,
    )
)

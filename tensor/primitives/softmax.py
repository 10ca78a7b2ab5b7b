"""Rows of softmax and log_softmax, with their fused backward rows.

Sums have the order of tensor/twins/fold_ref.py. float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import ShapeError
from tensor.primitives.primitive import FLOATS, Params, Primitive, Sample, keep
from tensor.primitives.reductions import check_dtype
from tensor.primitives.registry import register
from tensor.primitives.rules import (
    BatchRule,
    apply,
    batch_size,
    call,
    expand_to,
    flops_each,
    front,
    shifted_axes,
)
from tensor.primitives.spec import Spec

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]
Dims = tuple[int | None, ...]

CATEGORY = "normalization"


def _axis_samples(*count: int) -> Callable[[np.random.Generator], Iterable[Sample]]:
    n = count[0] if count else 1

    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        for shape, axis in (((3, 5), 1), ((4, 2, 3), 1), ((7,), 0), ((2, 0), 1)):
            yield Sample(*(rng.normal(size=shape) for _ in range(n)), params={"axis": axis})

    return samples


def _same_shapes(name: str) -> Callable[[Specs, Params], Spec]:
    def shape(specs: Specs, params: Params) -> Spec:
        x = specs[0]
        check_dtype(name, x, FLOATS)
        for s in specs[1:]:
            if s.shape != x.shape or s.dtype != x.dtype:
                raise ShapeError(f"{name}: inputs must be alike, got {x!r} and {s!r}")
        if not 0 <= params["axis"] < x.ndim:
            raise ShapeError(f"{name}: axis {params['axis']} names no dimension of shape {x.shape}, from the front")
        return Spec(x.shape, x.dtype, x.device)

    return shape


def _all_batched(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    n = batch_size(inputs, dims)
    moved = tuple(expand_to(x, (n, *x.shape)) if d is None else front(x, d) for x, d in zip(inputs, dims, strict=True))
    return apply(primitive, moved, {**params, "axis": params["axis"] + 1}), 0


def _sum_back(x: Tensor, axis: int) -> Tensor:
    return expand_to(call("sum", x, axis=(axis,), keepdims=True), x.shape)


def _softmax_rows(name: str, logarithm: bool, summary: str) -> None:
    def kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
        _kernels.softmax(inputs[0], params["axis"], outs[0], logarithm)

    def twin(arrays: tuple[Any, ...], params: Params) -> Any:
        from tensor.twins.softmax_ref import softmax

        return softmax(arrays[0], params["axis"], logarithm)

    def oracle(arrays: tuple[Any, ...], params: Params) -> Any:
        from scipy import special  # type: ignore[import-untyped]

        return getattr(special, name)(arrays[0], axis=params["axis"]) if arrays[0].size else arrays[0]

    register(
        Primitive(
            name,
            category=CATEGORY,
            summary=summary,
            shape=_same_shapes(name),
            dtypes=FLOATS,
            kernel=kernel,
            twin=twin,
            keeps=keep(outputs=(0,)),
            vjp=lambda g, node: (call(f"{name}_backward", g, node.outputs[0], axis=node.params["axis"]),),
            batch=shifted_axes("axis"),
            cost=flops_each(20),
            samples=_axis_samples(),
            oracle=oracle,
        )
    )

    def backward_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
        _kernels.softmax_backward(inputs[0], inputs[1], params["axis"], outs[0], logarithm)

    def backward_twin(arrays: tuple[Any, ...], params: Params) -> Any:
        from tensor.twins.softmax_ref import softmax_backward

        return softmax_backward(arrays[0], arrays[1], params["axis"], logarithm)

    def backward_vjp(h: Tensor, node: Any) -> tuple[Tensor, Tensor]:
        g, y = node.inputs
        axis = node.params["axis"]
        if logarithm:  # g − exp(y)·sum(g)
            e = call("exp", y)
            hit = _sum_back(h * e, axis)
            return h - hit, -h * e * _sum_back(g, axis)
        hit = _sum_back(h * y, axis)  # (g − sum(g·y))·y
        return (h - hit) * y, h * (g - _sum_back(g * y, axis)) - hit * g

    def backward_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
        import numpy as np

        g, y = arrays
        axis = params["axis"]
        if logarithm:
            return g - np.exp(y) * g.sum(axis, keepdims=True)
        return (g - (g * y).sum(axis, keepdims=True)) * y

    register(
        Primitive(
            f"{name}_backward",
            category=CATEGORY,
            summary=f"The gradient of {name} from that of its result and the result.",
            shape=_same_shapes(f"{name}_backward"),
            dtypes=FLOATS,
            kernel=backward_kernel,
            twin=backward_twin,
            keeps=keep(inputs=(0, 1)),
            vjp=backward_vjp,
            batch=BatchRule(_all_batched),
            cost=flops_each(5),
            samples=_axis_samples(2),
            oracle=backward_oracle,
        )
    )


_softmax_rows("softmax", False, "exp(x) / sum(exp(x)) along an axis, without overflow.")
_softmax_rows("log_softmax", True, "The logarithm of softmax along an axis.")

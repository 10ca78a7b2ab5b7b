"""Operators that reduce axes, or run along one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensor as tn
from tensor.onnx.elementwise import cast, is_float
from tensor.onnx.node import OPERATORS, Node, operator
from tensor.onnx.shapes import axes_of

__all__: list[str] = []

Tensor = Any


def _sum(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return tn.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def _largest(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    if x.dtype.name == "bool":
        return tn.any(x, axis=axis, keepdims=keepdims)
    return _extreme(tn.max, x, axis, keepdims, float("-inf"))


def _smallest(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    if x.dtype.name == "bool":
        return tn.all(x, axis=axis, keepdims=keepdims)
    return _extreme(tn.min, x, axis, keepdims, float("inf"))


def _extreme(function: Callable[..., Any], x: Tensor, axis: Any, keepdims: bool, nothing: float) -> Tensor:
    chosen = range(x.ndim) if axis is None else axis
    if x.size or all(x.shape[a] for a in chosen):
        return function(x, axis=axis, keepdims=keepdims)
    if not is_float(x):
        bounds = tn.iinfo(x.dtype)
        nothing = bounds.min if nothing < 0 else bounds.max
    shape = tuple(1 if i in chosen else n for i, n in enumerate(x.shape) if keepdims or i not in chosen)
    return tn.full(shape, nothing, dtype=x.dtype)


def _mean(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return tn.mean(x, axis=axis, keepdims=keepdims)


def _log_sum_exp(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return cast(tn.logsumexp(x if is_float(x) else cast(x, tn.float64), axis=axis, keepdims=keepdims), x.dtype)


def _root(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    wide = x if is_float(x) else cast(x, tn.float64)
    return cast(tn.sqrt(_sum(wide * wide, axis, keepdims)), x.dtype)


_REDUCTIONS = {
    "ReduceSum": _sum,
    "ReduceProd": lambda x, axis, keepdims: tn.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype),
    "ReduceMean": _mean,
    "ReduceMax": _largest,
    "ReduceMin": _smallest,
    "ReduceL1": lambda x, axis, keepdims: _sum(tn.abs(x), axis, keepdims),
    "ReduceL2": _root,
    "ReduceSumSquare": lambda x, axis, keepdims: _sum(x * x, axis, keepdims),
    "ReduceLogSum": lambda x, axis, keepdims: tn.log(_sum(x, axis, keepdims)),
    "ReduceLogSumExp": _log_sum_exp,
}
# What a reduction over no axes does to each element.
_ALONE: dict[str, Callable[[Tensor], Tensor]] = {
    "ReduceL1": tn.abs,
    "ReduceL2": tn.abs,
    "ReduceSumSquare": tn.square,
    "ReduceLogSum": tn.log,
}


def _reduction(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(node: Node, x: Tensor, axes: Tensor = None) -> Tensor:
        chosen = node.get("axes", axes)
        places = None if chosen is None else axes_of(chosen, x.ndim)
        if not places and node.get("noop_with_empty_axes", 0):
            return _ALONE[name](x) if name in _ALONE else x
        return function(x, places or None, bool(node.get("keepdims", 1)))

    return run


for _name, _function in _REDUCTIONS.items():
    OPERATORS["", _name] = _reduction(_name, _function)


@operator("ArgMax", "ArgMin")
def _arg(node: Node, x: Tensor) -> Tensor:
    find = tn.argmax if node.operator == "ArgMax" else tn.argmin
    axis, keep = node.get("axis", 0), bool(node.get("keepdims", 1))
    if not node.get("select_last_index", 0):
        return find(x, axis=axis, keepdims=keep)
    return x.shape[axis] - 1 - find(tn.flip(x, axis=axis), axis=axis, keepdims=keep)


@operator("CumSum", "CumProd")
def _cumulative(node: Node, x: Tensor, axis: Tensor) -> Tensor:
    at = axes_of(axis, x.ndim)[0]
    total = node.operator == "CumSum"
    y = tn.flip(x, axis=at) if node.get("reverse", 0) else x
    if node.get("exclusive", 0):
        first = list(x.shape)
        first[at] = min(1, x.shape[at])
        start = tn.full(tuple(first), 0 if total else 1, dtype=x.dtype)
        rest = y[tuple(slice(0, max(n - 1, 0)) if i == at else slice(None) for i, n in enumerate(y.shape))]
        y = tn.concat((start, rest), axis=at)
    y = cast((tn.cumsum if total else tn.cumprod)(y, at, dtype=x.dtype), x.dtype)
    return tn.flip(y, axis=at) if node.get("reverse", 0) else y


@operator("TopK")
def _top_k(node: Node, x: Tensor, k: Tensor = None) -> tuple[Tensor, Tensor]:
    count = node.get("k") if k is None else int(k.reshape((-1,))[0].item())
    values, places = tn.top_k(x, count, axis=node.get("axis", -1), largest=bool(node.get("largest", 1)))
    return values, cast(places, tn.int64)


@operator("NonZero")
def _nonzero(node: Node, x: Tensor) -> Tensor:
    return tn.stack(tn.nonzero(x), axis=0)

"""Operators that take elements by place, and put them there."""

from __future__ import annotations

import math
from typing import Any

import tensor as tn
from tensor.onnx.elementwise import cast
from tensor.onnx.node import Node, operator

__all__ = ["counted"]

Tensor = Any

_REDUCE = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def counted(indices: Tensor, n: int) -> Tensor:
    """Indices as int64 counted from the front; IndexError for those out of range."""
    places = cast(indices, tn.int64)
    places = tn.where(places < 0, places + n, places)
    if places.size and (int(tn.min(places).item()) < 0 or int(tn.max(places).item()) >= n):
        raise IndexError(f"an index is not from {-n} to {n - 1}")
    return places


@operator("Gather")
def _gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = node.get("axis", 0) % x.ndim
    places = counted(indices, x.shape[axis])
    y = tn.take(x, places.reshape((-1,)), axis=axis)
    return y.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def _features(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    y = tn.take(x, counted(indices, x.shape[-1]).reshape((-1,)), axis=x.ndim - 1)
    return y.reshape((1, -1)) if x.ndim == 1 else y


@operator("GatherElements")
def _gather_elements(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = node.get("axis", 0) % x.ndim
    return tn.gather(x, axis, counted(indices, x.shape[axis]))


@operator("ScatterElements", "Scatter")
def _scatter_elements(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis = node.get("axis", 0) % x.ndim
    places, reduction = counted(indices, x.shape[axis]), node.get("reduction", "none")
    if reduction == "none":
        return tn.scatter(x, axis, places, updates)
    return tn.scatter_reduce(x, axis, places, updates, _REDUCE[reduction])


def _flat_places(indices: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Tuples of indices, the last axis, as places in C order."""
    place = tn.zeros(indices.shape[:-1], dtype=tn.int64)
    for i, n in enumerate(shape):
        place = place * n + counted(indices[..., i], n)
    return place


@operator("GatherND")
def _gather_nd(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    batch, depth = node.get("batch_dims", 0), indices.shape[-1]
    inner = x.shape[batch : batch + depth]
    place = _flat_places(indices, inner)
    lead, rest = x.shape[:batch], x.shape[batch + depth :]
    n = math.prod(lead)
    flat = x.reshape((n * math.prod(inner), *rest))
    steps = (tn.arange(n, dtype=tn.int64) * math.prod(inner)).reshape((n, 1))
    rows = place.reshape((n, -1)) + steps
    return tn.take(flat, rows.reshape((-1,)), axis=0).reshape((*lead, *indices.shape[batch:-1], *rest))


@operator("ScatterND")
def _scatter_nd(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    depth = indices.shape[-1]
    place = _flat_places(indices, x.shape[:depth]).reshape((-1, 1))
    width = math.prod(x.shape[depth:])
    flat = x.reshape((math.prod(x.shape[:depth]), width))
    index = tn.broadcast_to(place, (place.shape[0], width))
    rows = updates.reshape((place.shape[0], width))
    reduction = node.get("reduction", "none")
    if reduction == "none":
        return tn.scatter(flat, 0, index, rows).reshape(x.shape)
    return tn.scatter_reduce(flat, 0, index, rows, _REDUCE[reduction]).reshape(x.shape)


@operator("TensorScatter")
def _tensor_scatter(node: Node, cache: Tensor, update: Tensor, write: Tensor = None) -> Tensor:
    axis = node.get("axis", -2) % cache.ndim
    room, steps = cache.shape[axis], update.shape[axis]
    start = tn.zeros((cache.shape[0],), dtype=tn.int64) if write is None else cast(write, tn.int64)
    place = start.reshape((-1, 1)) + tn.arange(steps, dtype=tn.int64)
    place = place % room if node.get("mode", "linear") == "circular" else counted(place, room)
    shape = [1] * cache.ndim
    shape[0], shape[axis] = cache.shape[0], steps
    return tn.scatter(cache, axis, tn.broadcast_to(place.reshape(tuple(shape)), update.shape), update)


@operator("Compress")
def _compress(node: Node, x: Tensor, condition: Tensor) -> Tensor:
    axis = node.get("axis")
    line = x.reshape((-1,)) if axis is None else x
    places = [i for i, chosen in enumerate(condition.tolist()) if chosen]
    return tn.take(line, tn.asarray(places, dtype=tn.int64), axis=0 if axis is None else axis % x.ndim)


@operator("Unique")
def _unique(node: Node, x: Tensor) -> tuple[Tensor, ...]:
    axis = node.get("axis")
    lines = x.reshape((-1, 1)) if axis is None else tn.moveaxis(x, axis, 0)
    shape = lines.shape
    rows = [tuple(r) for r in lines.reshape((shape[0], math.prod(shape[1:]))).tolist()]
    first: dict[Any, int] = {}
    for i, row in enumerate(rows):
        first.setdefault(row, i)
    order = sorted(first) if node.get("sorted", 1) else list(first)
    number = {row: i for i, row in enumerate(order)}
    inverse = [number[row] for row in rows]
    counts = [0] * len(order)
    for i in inverse:
        counts[i] += 1
    places = tn.asarray([first[row] for row in order], dtype=tn.int64)
    values = tn.take(lines, places, axis=0)
    values = values.reshape((-1,)) if axis is None else tn.moveaxis(values, 0, axis)
    return values, places, tn.asarray(inverse, dtype=tn.int64), tn.asarray(counts, dtype=tn.int64)

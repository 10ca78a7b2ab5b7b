"""Normalisations and the softmax family."""

from __future__ import annotations

import math
from typing import Any

import tensor as tn
from tensor.onnx.elementwise import cast, like
from tensor.onnx.node import Node, operator

__all__: list[str] = []

Tensor = Any


def _channels(values: Tensor, x: Tensor) -> Tensor:
    """One value a channel, to stand beside x [n, channels, …]."""
    return values.reshape((-1, *(1,) * (x.ndim - 2)))


def _centred(x: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    mean = tn.mean(x, axis=axes, keepdims=True)
    variance = tn.var(x, axis=axes, keepdims=True)
    return (x - mean) / tn.sqrt(variance + epsilon)


@operator("BatchNormalization")
def _batch(node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Any:
    epsilon, momentum = node.get("epsilon", 1e-5), node.get("momentum", 0.9)
    axes = (0, *range(2, x.ndim))
    training = node.get("training_mode", 0)
    used = (tn.mean(x, axis=axes), tn.var(x, axis=axes)) if training else (mean, variance)
    wide = [_channels(v, x) for v in (*used, scale, bias)]
    y = cast((x - wide[0]) / tn.sqrt(wide[1] + epsilon) * wide[2] + wide[3], x.dtype)
    if not training:
        return y
    blend = [a * momentum + cast(b, a.dtype) * (1 - momentum) for a, b in zip((mean, variance), used, strict=True)]
    return (y, *blend)


@operator("InstanceNormalization")
def _instance(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    y = _centred(x, tuple(range(2, x.ndim)), node.get("epsilon", 1e-5))
    return y * _channels(scale, x) + _channels(bias, x)


@operator("GroupNormalization")
def _group(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups = node.require("num_groups")
    y = _centred(x.reshape((x.shape[0], groups, -1)), (2,), node.get("epsilon", 1e-5))
    if node.version < 21 and scale.size == groups:
        scale, bias = (tn.repeat(v, x.shape[1] // groups) for v in (scale, bias))
    return y.reshape(x.shape) * _channels(scale, x) + _channels(bias, x)


@operator("LayerNormalization")
def _layer(node: Node, x: Tensor, scale: Tensor, bias: Tensor = None) -> Any:
    axis, epsilon = node.get("axis", -1) % x.ndim, node.get("epsilon", 1e-5)
    axes = tuple(range(axis, x.ndim))
    weights = [None if v is None else tn.broadcast_to(v, x.shape[axis:]) for v in (scale, bias)]
    y = tn.layer_norm(x, x.shape[axis:], weights[0], weights[1], epsilon=epsilon)
    if len(node.outputs) == 1:
        return y
    wide = cast(x, tn.float32) if x.dtype.itemsize < 4 else x
    mean = tn.mean(wide, axis=axes, keepdims=True)
    return y, mean, 1 / tn.sqrt(tn.var(wide, axis=axes, keepdims=True) + epsilon)


@operator("RMSNormalization")
def _rms(node: Node, x: Tensor, scale: Tensor) -> Tensor:
    axis = node.get("axis", -1) % x.ndim
    weight = tn.broadcast_to(cast(scale, x.dtype), x.shape[axis:])
    return cast(tn.rms_norm(x, x.shape[axis:], weight, epsilon=node.get("epsilon", 1e-5)), scale.dtype)


@operator("MeanVarianceNormalization")
def _mean_variance(node: Node, x: Tensor) -> Tensor:
    axes = tuple(node.get("axes", (0, 2, 3)))
    return (x - tn.mean(x, axis=axes, keepdims=True)) / (tn.std(x, axis=axes, keepdims=True) + 1e-9)


@operator("LpNormalization")
def _lp(node: Node, x: Tensor) -> Tensor:
    axis = node.get("axis", -1)
    if node.get("p", 2) == 1:
        size = tn.sum(tn.abs(x), axis=axis, keepdims=True)
    else:
        size = tn.sqrt(tn.sum(x * x, axis=axis, keepdims=True))
    return tn.where(size == 0, like(0, x), x / tn.where(size == 0, like(1, x), size))


@operator("LRN")
def _lrn(node: Node, x: Tensor) -> Tensor:
    size = node.require("size")
    before = (size - 1) // 2
    squares = tn.pad(x * x, [(0, 0), (before, size - 1 - before)] + [(0, 0)] * (x.ndim - 2))
    total = squares[:, : x.shape[1]]
    for i in range(1, size):
        total = total + squares[:, i : i + x.shape[1]]
    scale = total * (node.get("alpha", 1e-4) / size) + node.get("bias", 1.0)
    return x / tn.pow(scale, like(node.get("beta", 0.75), x))


@operator("Softmax", "LogSoftmax", "Hardmax")
def _softmax(node: Node, x: Tensor) -> Tensor:
    function = {"Softmax": tn.softmax, "LogSoftmax": tn.log_softmax, "Hardmax": _hardmax}[node.operator]
    if node.version >= 13:
        return function(x, node.get("axis", -1))
    axis = node.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    flat = x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return function(flat, -1).reshape(x.shape)


def _hardmax(x: Tensor, axis: int) -> Tensor:
    axis = axis % x.ndim
    best = cast(tn.argmax(x, axis=axis, keepdims=True), tn.int64)
    shape = tuple(n if i == axis else 1 for i, n in enumerate(x.shape))
    return cast(best == tn.arange(x.shape[axis], dtype=tn.int64).reshape(shape), x.dtype)

"""Steps of optimizers, as operators."""

from __future__ import annotations

from typing import Any

import tensor as tn
from tensor.onnx.node import Node, operator

__all__: list[str] = []

Tensor = Any
_DOMAIN = "ai.onnx.preview.training"


def _thirds(tensors: tuple[Tensor, ...], kinds: int) -> list[tuple[Tensor, ...]]:
    """(weight, gradient, states …) of every weight, out of all weights, all gradients, all states."""
    if len(tensors) % kinds:
        raise ValueError(f"expected {kinds} tensors for each weight, got {len(tensors)}")
    n = len(tensors) // kinds
    return [tensors[i::n] for i in range(n)]


def _interleaved(rows: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(t for column in zip(*rows, strict=True) for t in column)


@operator("Adagrad", domain=_DOMAIN)
def _adagrad(node: Node, rate: Tensor, step: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    rate = rate / (1 + step.item() * node.get("decay_factor", 0.0))
    rows = []
    for x, g, h in _thirds(tensors, 3):
        slope = g + x * node.get("norm_coefficient", 0.0)
        total = h + slope * slope
        rows.append((x - rate * slope / (tn.sqrt(total) + node.get("epsilon", 1e-6)), total))
    return _interleaved(rows)


@operator("Adam", domain=_DOMAIN)
def _adam(node: Node, rate: Tensor, step: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    alpha, beta, t = node.get("alpha", 0.9), node.get("beta", 0.999), step.item()
    if t > 0:
        rate = rate * ((1 - beta**t) ** 0.5 / (1 - alpha**t))
    rows = []
    for x, g, v, h in _thirds(tensors, 4):
        slope = g + x * node.get("norm_coefficient", 0.0)
        mean = v * alpha + slope * (1 - alpha)
        square = h * beta + slope * slope * (1 - beta)
        moved = x - rate * mean / (tn.sqrt(square) + node.get("epsilon", 1e-6))
        rows.append((moved * (1 - node.get("norm_coefficient_post", 0.0)), mean, square))
    return _interleaved(rows)


@operator("Momentum", domain=_DOMAIN)
def _momentum(node: Node, rate: Tensor, step: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    alpha = node.require("alpha")
    beta = node.require("beta") if step.item() > 0 else 1.0
    rows = []
    for x, g, v in _thirds(tensors, 3):
        slope = g + x * node.get("norm_coefficient", 0.0)
        speed = v * alpha + slope * beta
        nesterov = node.require("mode") == "nesterov"
        rows.append((x - rate * (slope + speed * alpha if nesterov else speed), speed))
    return _interleaved(rows)

"""Losses over classes."""

from __future__ import annotations

from typing import Any

import tensor as tn
from tensor.onnx.elementwise import cast, like
from tensor.onnx.node import Node, operator

__all__: list[str] = []

Tensor = Any


def _likelihood_loss(node: Node, logs: Tensor, targets: Tensor, weight: Tensor | None) -> Tensor:
    """The negative log-likelihood of targets [n, …] under logs [n, classes, …], weighted by class."""
    classes = cast(targets, tn.int64)
    ignored = node.get("ignore_index")
    kept = tn.full(classes.shape, True) if ignored is None else classes != ignored
    safe = tn.where(kept, classes, tn.zeros((), dtype=tn.int64))
    if safe.size and (int(tn.min(safe).item()) < 0 or int(tn.max(safe).item()) >= logs.shape[1]):
        raise IndexError(f"a target is none of the {logs.shape[1]} classes")
    picked = tn.squeeze(tn.take_along_axis(logs, tn.expand_dims(safe, axis=1), axis=1), 1)
    each = like(1, logs) if weight is None else tn.take(weight, safe.reshape((-1,)), axis=0).reshape(safe.shape)
    used = tn.where(kept, tn.broadcast_to(each, kept.shape), like(0, logs))
    loss = tn.where(kept, -picked * used, like(0, logs))
    reduction = node.get("reduction", "mean")
    if reduction == "none":
        return loss
    total = tn.sum(loss)
    return total if reduction == "sum" else total / tn.sum(used)


@operator("NegativeLogLikelihoodLoss")
def _negative_log_likelihood(node: Node, logs: Tensor, targets: Tensor, weight: Tensor = None) -> Tensor:
    return _likelihood_loss(node, logs, targets, weight)


@operator("SoftmaxCrossEntropyLoss")
def _softmax_cross_entropy(node: Node, scores: Tensor, targets: Tensor, weight: Tensor = None) -> tuple[Tensor, Tensor]:
    logs = tn.log_softmax(scores, 1)
    return _likelihood_loss(node, logs, targets, weight), logs

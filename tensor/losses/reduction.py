"""What losses share: operands of one shape and type, classes named by integers, and the reduction at the end."""

from __future__ import annotations

import math
from typing import Any

from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import rows_of, tensor_of
from tensor.functions.promotion import cast_to

__all__ = ["alike", "class_of", "classes", "classes_within", "floats", "positive", "reduced"]

Tensor = Any

_REDUCTIONS = ("mean", "sum", "none")


def floats(name: str, x: Tensor, least: int = 0) -> Tensor:
    """x, if it holds real floats in at least so many dimensions."""
    rows_of(name, x, ("real floating",), "astype(x, float32)")
    if x.ndim < least:
        raise ShapeError(f"{name}: at least {least} dimensions are needed, got shape {x.shape}")
    return x


def alike(name: str, **operands: Tensor) -> None:
    """TypeError, DtypeError or ShapeError unless all are tensors of real floats of one type and shape."""
    first = None
    for x in operands.values():
        floats(name, x)
        first = x if first is None else first
        if x.dtype != first.dtype:
            names = ", ".join(f"{what} {y.dtype.name}" for what, y in operands.items())
            raise DtypeError(f"{name}: the operands must have one type, got {names}")
        if x.shape != first.shape:
            names = ", ".join(f"{what} {y.shape}" for what, y in operands.items())
            raise ShapeError(f"{name}: the operands must have one shape, got {names}")


def positive(name: str, what: str, value: float, *, zero: bool = False) -> float:
    """The number; ValueError unless it is finite and above 0 (or 0, where that is allowed)."""
    low = value >= 0 if zero else value > 0
    if not (low and value < math.inf):
        raise ValueError(f"{name}: {what} must be a finite number {'from' if zero else 'above'} 0, got {value!r}")
    return float(value)


def classes(name: str, targets: Tensor, logits: Tensor) -> Tensor:
    """Integer classes, one for each line of logits, as int64."""
    if tensor_of(name, targets).dtype.kind not in ("signed integer", "unsigned integer"):
        raise DtypeError(f"{name}: targets must be integers, got {targets.dtype.name}")
    if targets.shape != logits.shape[:-1]:
        raise ShapeError(f"{name}: targets of shape {logits.shape[:-1]} are needed, got {targets.shape}")
    return cast_to(targets, "int64")


def classes_within(name: str, what: str, index: Tensor, count: int) -> Tensor:
    """The classes, int64; IndexError for what is not from 0 to count − 1: plain indexing takes −1 for the last.

    Of traced ones the error comes when they are read.
    """
    from tensor.functions.elementwise import where

    if index.is_traced:
        return where(index < 0, count, index)
    if index.size:
        plain = index.detach()
        low, high = int(plain.min().item()), int(plain.max().item())
        if low < 0 or high >= count:
            raise IndexError(f"{name}: {what} {low if low < 0 else high} is no class from 0 to {count - 1}")
    return index


def class_of(values: Tensor, targets: Tensor) -> Tensor:
    """values[..., targets]: of each line the one of its class."""
    from tensor.functions.index_moves import take_along_axis

    return take_along_axis(values, targets.reshape((*targets.shape, 1))).reshape(targets.shape)


def reduced(name: str, losses: Tensor, reduction: str, weights: Tensor | None = None) -> Tensor:
    """The mean, the sum, or the losses themselves; with weights the weighted ones, their mean over Σ weights."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{name}: reduction must be mean, sum or none, got {reduction!r}")
    if weights is not None:
        if tensor_of(name, weights).shape != losses.shape:
            raise ShapeError(f"{name}: a weight for each loss of shape {losses.shape} is needed, got {weights.shape}")
        weights = cast_to(weights, losses.dtype)
        losses = losses * weights
    if reduction == "none":
        return losses
    if reduction == "sum" or weights is None:
        return losses.mean() if reduction == "mean" else losses.sum()
    return losses.sum() / weights.sum()

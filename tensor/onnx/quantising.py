"""Operators between floats and whole numbers with a scale and a zero point."""

from __future__ import annotations

from typing import Any

import tensor as tn
from tensor.onnx.elementwise import cast
from tensor.onnx.node import Node, operator
from tensor.onnx.values import dtype_of
from tensor.onnx.windows import convolved, geometry

__all__: list[str] = []

Tensor = Any


def _spread(values: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """Scales or zero points, to stand beside x: one, one a slice along the axis, or one a block along it."""
    if values.size == 1 and values.ndim <= 1:
        return values.reshape(())
    if values.ndim == 1 and not block:
        return values.reshape(tuple(-1 if i == axis % x.ndim else 1 for i in range(x.ndim)))
    if block:
        wide = tn.repeat(values, block, axis=axis % x.ndim)
        return wide[tuple(slice(0, n) for n in x.shape)]
    return values


def _rounded(x: Tensor, zero: Tensor | None, dtype: Any) -> Tensor:
    """x rounded to even, moved by the zero point, and held in the type's range."""
    bounds = tn.iinfo(dtype)
    wide = tn.round(cast(x, tn.float64))
    wide = wide if zero is None else wide + cast(zero, tn.float64)
    return cast(tn.clip(wide, float(bounds.min), float(bounds.max)), dtype)


@operator("QuantizeLinear")
def _quantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor = None) -> Tensor:
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    number = node.get("output_dtype", 0)
    dtype = zero.dtype if zero is not None else dtype_of(number, "attribute output_dtype") if number else tn.uint8
    precision = node.get("precision", 0)
    wide = dtype_of(precision, "attribute precision") if precision else scale.dtype
    scaled = cast(x, wide) / cast(_spread(scale, x, axis, block), wide)
    return _rounded(scaled, None if zero is None else _spread(zero, x, axis, block), dtype)


@operator("DequantizeLinear")
def _dequantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor = None) -> Tensor:
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    number = node.get("output_dtype", 0)
    dtype = dtype_of(number, "attribute output_dtype") if number else scale.dtype
    wide = cast(x, tn.int64)
    if zero is not None:
        wide = wide - cast(_spread(zero, x, axis, block), tn.int64)
    return cast(cast(wide, tn.float32) * cast(_spread(scale, x, axis, block), tn.float32), dtype)


@operator("DynamicQuantizeLinear")
def _dynamic(node: Node, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    nothing = tn.zeros((), dtype=x.dtype)
    low, high = tn.minimum(tn.min(x), nothing), tn.maximum(tn.max(x), nothing)
    scale = (high - low) / 255
    zero = _rounded(tn.clip(-low / scale, 0.0, 255.0), None, tn.uint8)
    return _rounded(x / scale, zero, tn.uint8), scale, zero


def _column(values: Tensor, row: bool) -> Tensor:
    """Parameters of the first factor: one for each row."""
    return tn.expand_dims(values, axis=-1) if row and values.ndim >= 1 and values.size > 1 else values


@operator("QLinearMatMul")
def _matmul(
    node: Node, a: Tensor, sa: Tensor, za: Tensor, b: Tensor, sb: Tensor, zb: Tensor, sy: Tensor, zy: Tensor
) -> Tensor:
    wide = tn.int32
    y = tn.matmul(cast(a, wide) - cast(_column(za, a.ndim > 1), wide), cast(b, wide) - cast(zb, wide))
    scale = cast(_column(sa, a.ndim > 1), tn.float64) * cast(sb, tn.float64) / cast(sy, tn.float64)
    return _rounded(cast(y, tn.float64) * scale, zy, zy.dtype)


@operator("QLinearConv")
def _conv(
    node: Node,
    x: Tensor,
    sx: Tensor,
    zx: Tensor,
    w: Tensor,
    sw: Tensor,
    zw: Tensor,
    sy: Tensor,
    zy: Tensor,
    bias: Tensor = None,
) -> Tensor:
    strides, dilations, pads = geometry(node, x.shape[2:], w.shape[2:])
    wide = tn.float64  # exact: the sums are below 2^53
    each = (-1, *(1,) * (w.ndim - 1))
    image, weight = cast(x, wide) - cast(zx, wide), cast(w, wide) - cast(zw, wide).reshape(each if zw.size > 1 else ())
    y = convolved(image, weight, None, strides, dilations, pads, node.get("group", 1))
    if bias is not None:
        y = y + cast(bias, wide).reshape(each[: w.ndim - 1])
    scale = cast(sx, wide) * cast(sw, wide) / cast(sy, wide)
    return _rounded(y * (scale.reshape(each[: w.ndim - 1]) if scale.size > 1 else scale), zy, zy.dtype)

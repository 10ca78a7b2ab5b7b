"""Operators that multiply: matrices, einsum, determinants, and products of whole numbers."""

from __future__ import annotations

from typing import Any

import tensor as tn
from tensor.onnx.elementwise import cast
from tensor.onnx.node import Node, operator
from tensor.onnx.windows import convolved, geometry

__all__: list[str] = []

Tensor = Any


@operator("MatMul")
def _matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    return tn.matmul(a, b)


@operator("Gemm")
def _gemm(node: Node, a: Tensor, b: Tensor, c: Tensor = None) -> Tensor:
    a = tn.matrix_transpose(a) if node.get("transA", 0) else a
    b = tn.matrix_transpose(b) if node.get("transB", 0) else b
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    y = tn.matmul(a, b)
    y = y if alpha == 1 else y * cast(tn.asarray(alpha, dtype=tn.float64), y.dtype)
    if c is None or c.size == 0:
        return y
    return y + (c if beta == 1 else c * cast(tn.asarray(beta, dtype=tn.float64), c.dtype))


@operator("Einsum")
def _einsum(node: Node, *inputs: Tensor) -> Tensor:
    return tn.einsum(node.require("equation").replace(" ", ""), *inputs)


@operator("Det")
def _det(node: Node, x: Tensor) -> Tensor:
    return tn.linalg.det(x)


def _shifted(x: Tensor, zero: Tensor | None, column: bool) -> Tensor:
    """x − zero point as int32; a zero point for every row stands as a column."""
    wide = cast(x, tn.int32)
    if zero is None:
        return wide
    less = cast(zero, tn.int32)
    return wide - (tn.expand_dims(less, axis=-1) if column and less.ndim == 1 and less.size > 1 else less)


@operator("MatMulInteger")
def _matmul_integer(node: Node, a: Tensor, b: Tensor, a_zero: Tensor = None, b_zero: Tensor = None) -> Tensor:
    return tn.matmul(_shifted(a, a_zero, True), _shifted(b, b_zero, False))


@operator("ConvInteger")
def _conv_integer(node: Node, x: Tensor, w: Tensor, x_zero: Tensor = None, w_zero: Tensor = None) -> Tensor:
    strides, dilations, pads = geometry(node, x.shape[2:], w.shape[2:])
    wide = tn.float64  # exact: the sums are below 2^53
    weight = cast(w, wide)
    if w_zero is not None:
        weight = weight - cast(w_zero, wide).reshape((-1, *(1,) * (w.ndim - 1)))
    image = cast(_shifted(x, x_zero, False), wide)
    return cast(convolved(image, weight, None, strides, dilations, pads, node.get("group", 1)), tn.int32)

"""Operators that work on each element: arithmetic, comparisons, bits, activations, casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import tensor as tn
from tensor.functions.elementary import gelu
from tensor.onnx.node import OPERATORS, Node, operator
from tensor.onnx.values import dtype_of

__all__ = ["cast", "is_float", "like", "swish"]

Tensor = Any

_BINARY = {
    "And": tn.logical_and,
    "Or": tn.logical_or,
    "Xor": tn.logical_xor,
    "Add": tn.add,
    "Sub": tn.subtract,
    "Mul": tn.multiply,
    "Equal": tn.equal,
    "Greater": tn.greater,
    "GreaterOrEqual": tn.greater_equal,
    "Less": tn.less,
    "LessOrEqual": tn.less_equal,
    "BitwiseAnd": tn.bitwise_and,
    "BitwiseOr": tn.bitwise_or,
    "BitwiseXor": tn.bitwise_xor,
}
_UNARY = {
    "Abs": tn.abs,
    "Acos": tn.acos,
    "Acosh": tn.acosh,
    "Asin": tn.asin,
    "Asinh": tn.asinh,
    "Atan": tn.atan,
    "Atanh": tn.atanh,
    "BitwiseNot": tn.bitwise_invert,
    "Ceil": tn.ceil,
    "Cos": tn.cos,
    "Cosh": tn.cosh,
    "Erf": tn.erf,
    "Exp": tn.exp,
    "Floor": tn.floor,
    "Identity": lambda x: x,
    "IsNaN": tn.isnan,
    "Log": tn.log,
    "Neg": tn.negative,
    "Not": tn.logical_not,
    "Reciprocal": tn.reciprocal,
    "Relu": tn.relu,
    "Round": tn.round,
    "Sigmoid": tn.sigmoid,
    "Sign": tn.sign,
    "Sin": tn.sin,
    "Sinh": tn.sinh,
    "Softplus": tn.softplus,
    "Softsign": lambda x: x / (1 + tn.abs(x)),
    "Sqrt": tn.sqrt,
    "Tan": tn.tan,
    "Tanh": tn.tanh,
    "HardSwish": lambda x: x * tn.clip(x * (1 / 6) + 0.5, 0.0, 1.0),
    "Mish": lambda x: x * tn.tanh(tn.softplus(x)),
}


def is_float(x: Tensor) -> bool:
    """Whether x holds real floats."""
    return bool(x.dtype.kind == "real floating")


def cast(x: Tensor, dtype: Any) -> Tensor:
    """x in another element type."""
    return x if x.dtype == dtype else tn.astype(x, dtype)


def like(value: float, x: Tensor) -> Tensor:
    """A scalar tensor of x's type."""
    return tn.full((), value, dtype=x.dtype)


def _beside(node: Node, x: Tensor, y: Tensor) -> Tensor:
    """y with the shape it broadcasts in; before operator set 7 an attribute says where its axes begin in x."""
    if node.version >= 7 or not node.get("broadcast", 0) or "axis" not in node.attributes:
        return y
    after = x.ndim - node.get("axis") % max(x.ndim, 1) - y.ndim
    return y.reshape((*y.shape, *(1,) * after))


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda node, x: function(x)


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda node, x, y: function(x, _beside(node, x, y))


for _name, _function in _UNARY.items():
    OPERATORS["", _name] = _unary(_function)
for _name, _function in _BINARY.items():
    OPERATORS["", _name] = _binary(_function)


@operator("Div")
def _divide(node: Node, x: Tensor, y: Tensor) -> Tensor:
    y = _beside(node, x, y)
    if x.dtype.kind not in ("signed integer", "unsigned integer"):
        return x / y
    quotient = x // y  # ONNX rounds to zero
    if x.dtype.kind == "unsigned integer":
        return quotient
    wrong = tn.logical_and(quotient * y != x, (x < 0) != (y < 0))
    return tn.where(wrong, quotient + 1, quotient)


@operator("Mod")
def _mod(node: Node, x: Tensor, y: Tensor) -> Tensor:
    rest = x % y
    if node.get("fmod", 0) == 0:
        return rest
    if is_float(x):
        wide = cast(x, tn.float64) if x.dtype.itemsize < 8 else x
        size = tn.abs(wide) % tn.abs(cast(y, wide.dtype))
        return cast(tn.copysign(size, wide), x.dtype)
    if x.dtype.kind == "unsigned integer":
        return rest
    return tn.where(tn.logical_and(rest != 0, (rest < 0) != (x < 0)), rest - y, rest)


@operator("Pow")
def _pow(node: Node, x: Tensor, y: Tensor) -> Tensor:
    if x.dtype == y.dtype:
        return tn.pow(x, y)
    if is_float(x) and not is_float(y):
        return tn.pow(x, cast(y, x.dtype))
    wide: Any = tn.float64 if is_float(x) or is_float(y) else tn.int64
    return cast(tn.pow(cast(x, wide), cast(y, wide)), x.dtype)


@operator("Max")
def _max(node: Node, *inputs: Tensor) -> Tensor:
    return reduce(tn.maximum, inputs)


@operator("Min")
def _min(node: Node, *inputs: Tensor) -> Tensor:
    return reduce(tn.minimum, inputs)


@operator("Sum")
def _sum(node: Node, *inputs: Tensor) -> Tensor:
    return reduce(tn.add, inputs)


@operator("Mean")
def _mean(node: Node, *inputs: Tensor) -> Tensor:
    return reduce(tn.add, inputs) / len(inputs)


@operator("BitShift")
def _shift(node: Node, x: Tensor, y: Tensor) -> Tensor:
    left = node.require("direction") == "LEFT"
    return tn.bitwise_left_shift(x, y) if left else tn.bitwise_right_shift(x, y)


@operator("Where")
def _where(node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return tn.where(condition, x, y)


@operator("Clip")
def _clip(node: Node, x: Tensor, low: Tensor = None, high: Tensor = None) -> Tensor:
    low, high = node.get("min", low), node.get("max", high)
    if low is not None:
        x = tn.maximum(x, low if isinstance(low, tn.Tensor) else like(low, x))
    return x if high is None else tn.minimum(x, high if isinstance(high, tn.Tensor) else like(high, x))


@operator("IsInf")
def _is_inf(node: Node, x: Tensor) -> Tensor:
    found = tn.isinf(x)
    if not node.get("detect_positive", 1):
        found = tn.logical_and(found, x < 0)
    if not node.get("detect_negative", 1):
        found = tn.logical_and(found, x > 0)
    return found


# --- activations -----------------------------------------------------------------------------------------------------


@operator("PRelu")
def _prelu(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    if node.version < 7 and slope.ndim == 1 and x.ndim > 1:  # one for each channel
        slope = slope.reshape((-1, *(1,) * (x.ndim - 2)))
    return tn.where(x < 0, x * slope, x)


@operator("LeakyRelu")
def _leaky(node: Node, x: Tensor) -> Tensor:
    return tn.where(x < 0, x * node.get("alpha", 0.01), x)


@operator("Elu")
def _elu(node: Node, x: Tensor) -> Tensor:
    return tn.where(x < 0, tn.expm1(x) * node.get("alpha", 1.0), x)


@operator("Selu")
def _selu(node: Node, x: Tensor) -> Tensor:
    alpha, gamma = node.get("alpha", 1.67326319217681884765625), node.get("gamma", 1.05070102214813232421875)
    return tn.where(x <= 0, tn.expm1(x) * alpha, x) * gamma


@operator("Celu")
def _celu(node: Node, x: Tensor) -> Tensor:
    alpha = node.get("alpha", 1.0)
    return tn.maximum(x, like(0, x)) + tn.minimum(tn.expm1(x / alpha) * alpha, like(0, x))


@operator("ThresholdedRelu")
def _thresholded(node: Node, x: Tensor) -> Tensor:
    return tn.where(x > node.get("alpha", 1.0), x, like(0, x))


@operator("HardSigmoid")
def _hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    return tn.clip(x * node.get("alpha", 0.2) + node.get("beta", 0.5), 0.0, 1.0)


@operator("Shrink")
def _shrink(node: Node, x: Tensor) -> Tensor:
    bound, bias = node.get("lambd", 0.5), node.get("bias", 0.0)
    return tn.where(x < -bound, x + bias, tn.where(x > bound, x - bias, like(0, x)))


@operator("Gelu")
def _gelu(node: Node, x: Tensor) -> Tensor:
    return gelu(x, approximate=node.get("approximate", "none"))


def swish(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x·sigmoid(alpha·x)."""
    return x * tn.sigmoid(x * alpha)


@operator("Swish")
def _swish(node: Node, x: Tensor) -> Tensor:
    return swish(x, node.get("alpha", 1.0))


@operator("SwiGLU")
def _swiglu(node: Node, gate: Tensor, x: Tensor) -> Tensor:
    return swish(gate, node.get("alpha", 1.0)) * x


@operator("Binarizer", domain="ai.onnx.ml")
def _binarizer(node: Node, x: Tensor) -> Tensor:
    return cast(x > node.get("threshold", 0.0), x.dtype)


# --- element types ---------------------------------------------------------------------------------------------------


@operator("Cast")
def _cast(node: Node, x: Tensor) -> Tensor:
    return cast(x, dtype_of(node.require("to"), "attribute to"))


@operator("CastLike")
def _cast_like(node: Node, x: Tensor, target: Tensor) -> Tensor:
    return cast(x, target.dtype)


@operator("BitCast")
def _bit_cast(node: Node, x: Tensor) -> Tensor:
    dtype = dtype_of(node.require("to"), "attribute to")
    if dtype.itemsize != x.dtype.itemsize:
        raise ValueError(f"{x.dtype.name} and {dtype.name} have elements of different sizes")
    if dtype.name == "bool":
        return tn.bitcast(x, "uint8") != 0
    return tn.bitcast(cast(x, tn.uint8) if x.dtype.name == "bool" else x, dtype.name)


@operator("Dropout")
def _dropout(node: Node, x: Tensor, ratio: Tensor = None, training: Tensor = None) -> tuple[Tensor, Tensor]:
    share = node.get("ratio", 0.5) if ratio is None else float(ratio.item())
    if training is not None and training.item() and share != 0:
        raise ValueError("dropout in training mode is random, and a model has no key for it")
    return x, tn.full(x.shape, True)


@operator("EyeLike")
def _eye_like(node: Node, x: Tensor) -> Tensor:
    number = node.get("dtype")
    dtype = x.dtype if number is None else dtype_of(number, "attribute dtype")
    return cast(tn.eye(*x.shape, k=node.get("k", 0)), dtype)


@operator("Constant")
def _constant(node: Node) -> Tensor:
    values = node.attributes
    if "value" in values:
        return values["value"]
    for name, dtype in (("float", tn.float32), ("int", tn.int64)):
        if f"value_{name}" in values:
            return tn.asarray(values[f"value_{name}"], dtype=dtype)
        if f"value_{name}s" in values:
            return tn.asarray(values[f"value_{name}s"], dtype=dtype)
    raise ValueError("expected one of value, value_float, value_floats, value_int, value_ints")


@operator("ConstantOfShape")
def _constant_of_shape(node: Node, shape: Tensor) -> Tensor:
    value = node.get("value")
    if value is None:
        return tn.zeros(tuple(shape.tolist()), dtype=tn.float32)
    return tn.full(tuple(shape.tolist()), value.reshape((-1,))[0].item(), dtype=value.dtype)


@operator("Range")
def _range(node: Node, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    first, last, step = start.item(), limit.item(), delta.item()
    if step == 0:
        raise ValueError("delta is 0")
    count = max(math.ceil((last - first) / step), 0)
    number = cast(tn.arange(count, dtype=tn.int64), start.dtype)
    return number * delta + start

"""Twins of the elementary and special functions of the elementwise table, by the name of their row.

`TWINS[name](arrays, params)` takes numpy arrays of one dtype whose shapes broadcast. float16 and bfloat16 go through
float32. Most functions of float32 are those of float64, rounded once more; the others have programs of their own
(`tensor/elementary_ref.py`, `activation_ref.py`), as their kernels do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensor import elementary_ref
from tensor.twins import (
    activation_ref,
    error_function_ref,
    exponential_ref,
    gamma_ref,
    logarithm_ref,
    trigonometric_ref,
)
from tensor.twins.bfloat16_ref import bfloat16_bits, bfloat16_of_bits, is_bfloat16
from tensor.twins.elementwise_ref import canonical, through_float32

__all__ = ["OWN_FLOAT32", "TWINS"]

Array = Any
Twin = Callable[[tuple[Array, ...], Any], Array]

OWN_FLOAT32 = ("exp", "log", "sin", "cos", "tanh", "erf", "pow", "sigmoid", "silu", "gelu")
_FLOAT64_MODULES = (
    elementary_ref,
    exponential_ref,
    logarithm_ref,
    trigonometric_ref,
    error_function_ref,
    gamma_ref,
)


def _float64(name: str) -> Callable[..., Array]:
    for module in _FLOAT64_MODULES:
        found: Callable[..., Array] | None = getattr(module, f"{name}_f64", None)
        if found is not None:
            return found
    raise KeyError(name)


def _float32(name: str) -> Callable[..., Array]:
    if name in OWN_FLOAT32:
        module = activation_ref if f"{name}_f32" in activation_ref.__all__ else elementary_ref
        own: Callable[..., Array] = getattr(module, f"{name}_f32")
        return own
    wide = _float64(name)

    def through_float64(*arrays: Array) -> Array:
        return canonical(wide(*(a.astype(np.float64) for a in arrays)).astype(np.float32))

    return through_float64


def _twin(name: str) -> Twin:
    functions = {np.dtype(np.float32): _float32(name), np.dtype(np.float64): _float64(name)}

    def run(*arrays: Array) -> Array:
        arrays = np.broadcast_arrays(*arrays)
        return functions[arrays[0].dtype](*arrays)

    return through_float32(run)


def _rsqrt(x: Array) -> Array:
    return canonical(x.dtype.type(1) / np.sqrt(x))


def _copysign(x: Array, y: Array) -> Array:
    return canonical(np.copysign(x, y))


def _next(x: Array, y: Array, word: Any) -> Array:
    """Bit patterns of the next numbers after those of x in the direction of y, by the order of signed magnitudes."""
    top = word(1 << (8 * np.dtype(word).itemsize - 1))
    a, b = x & ~top, y & ~top
    away = (a < b) & ((x ^ y) & top == 0)
    moved = np.where(away, x + word(1), x - word(1))
    moved = np.where(a == 0, (y & top) | word(1), moved)
    return np.where((x == y) | ((a == 0) & (b == 0)), y, moved).astype(word)


def _nextafter(arrays: tuple[Array, ...], params: Any) -> Array:
    x, y = np.broadcast_arrays(*arrays)
    with np.errstate(over="ignore"):
        if is_bfloat16(x):
            u, v, nan = bfloat16_bits(x), bfloat16_bits(y), np.uint16(0x7FC0)
            unordered = ((u & np.uint16(0x7FFF)) > 0x7F80) | ((v & np.uint16(0x7FFF)) > 0x7F80)
            return bfloat16_of_bits(np.where(unordered, nan, _next(u, v, np.uint16)))
        word = np.dtype(f"u{x.dtype.itemsize}")
        found = _next(np.array(x).view(word), np.array(y).view(word), word.type).view(x.dtype)
    return canonical(np.where(np.isnan(x) | np.isnan(y), x.dtype.type(np.nan), found))


TWINS: dict[str, Twin] = {
    name: _twin(name)
    for name in (
        *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "pow", "hypot"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("erf", "erfc", "lgamma", "digamma", "trigamma"),
        *("sigmoid", "silu", "gelu", "gelu_tanh", "softplus", "logaddexp"),
    )
} | {"rsqrt": through_float32(_rsqrt), "copysign": through_float32(_copysign), "nextafter": _nextafter}

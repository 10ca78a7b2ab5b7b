"""Twins of the elementwise kernels (tensor/kernels/elementwise_*): what each operation means, to the bit.

A twin takes (arrays, params): numpy arrays of one dtype, any shapes that broadcast. float16 and bfloat16 are computed
in float32 and rounded once. `TWINS` has one for each operation of elementwise_ops.hpp that is exact or rounded once;
functions with an error of their own have theirs in special_ref.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensor.twins.bfloat16_ref import (
    BFLOAT16,
    bfloat16_bits,
    bfloat16_of_bits,
    is_bfloat16,
    narrow_bfloat16,
    widen_bfloat16,
)

__all__ = ["TWINS", "canonical", "cast", "through_float32"]

Array: TypeAlias = Any  # an array of numpy
Twin = Callable[[tuple[Array, ...], Any], Array]

_NAN: dict[Any, Any] = {
    np.dtype(np.float16): np.uint16(0x7E00),
    np.dtype(np.float32): np.uint32(0x7FC00000),
    np.dtype(np.float64): np.uint64(0x7FF8000000000000),
}


def canonical(x: Any) -> Array:
    """x with every NaN as the one quiet NaN of its dtype, part by part for complex numbers.

    >>> hex(int(canonical(np.array([-np.nan], np.float32)).view(np.uint32)[0]))
    '0x7fc00000'
    """
    x = np.array(x)
    if x.dtype.kind == "c":
        parts = canonical(np.ascontiguousarray(x).reshape(-1).view(x.real.dtype))
        return parts.view(x.dtype).reshape(x.shape)
    if x.dtype.kind == "f":
        nan = _NAN[x.dtype]
        x[np.isnan(x)] = nan.view(x.dtype)
    return x


def through_float32(function: Callable[..., Any]) -> Twin:
    """The twin of a function of float32 and float64 (and others), with float16 and bfloat16 by way of float32."""

    def twin(arrays: tuple[Array, ...], params: Any) -> Array:
        arrays = tuple(np.asarray(a) for a in arrays)
        with np.errstate(all="ignore"):
            if is_bfloat16(arrays[-1]):
                wide = np.asarray(function(*(widen_bfloat16(a) if is_bfloat16(a) else a for a in arrays)))
                return narrow_bfloat16(wide) if wide.dtype == np.float32 else wide
            if arrays[-1].dtype == np.float16:
                wide = np.asarray(function(*(a.astype(np.float32) if a.dtype == np.float16 else a for a in arrays)))
                return canonical(wide.astype(np.float16)) if wide.dtype == np.float32 else wide
            return np.asarray(function(*arrays))

    return twin


def _bits(x: Array) -> Array:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _arithmetic(function: Callable[..., Any]) -> Twin:
    return through_float32(lambda *arrays: canonical(function(*arrays)))


def _complex_parts(x: Array) -> tuple[Array, Array]:
    return np.asarray(x.real), np.asarray(x.imag)


def _complex(re: Any, im: Any) -> Array:
    re, im = np.broadcast_arrays(re, im)
    out = np.empty(re.shape, np.complex64 if re.dtype == np.float32 else np.complex128)
    out.real = re
    out.imag = im
    return out


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _mul(x: Array, y: Array) -> Array:
    if x.dtype.kind != "c":
        return x * y
    (a, b), (c, d) = _complex_parts(x), _complex_parts(y)
    return _complex(a * c - b * d, a * d + b * c)


def _add(x: Array, y: Array) -> Array:
    return x + y


def _sub(x: Array, y: Array) -> Array:
    return x - y


def _neg(x: Array) -> Array:
    return _complex(-x.real, -x.imag) if x.dtype.kind == "c" else -x


def _div(x: Any, y: Any) -> Array:
    if x.dtype.kind != "c":
        return x / y
    # Smith 1962: the larger part of the divisor is divided out first
    (x_re, x_im), (y_re, y_im) = _complex_parts(x), _complex_parts(y)
    c, d, one = np.abs(y_re), np.abs(y_im), y_re.dtype.type(1)
    flat = c >= d
    large: Array = np.where(flat, y_re, y_im)
    small: Array = np.where(flat, y_im, y_re)
    ratio = small / large
    scale = one / (large + small * ratio)
    re = (np.where(flat, x_re, x_im) + np.where(flat, x_im, x_re) * ratio) * scale
    im = np.where(flat, x_im - x_re * ratio, x_im * ratio - x_re) * scale
    zero = (c == 0) & (d == 0)
    return _complex(np.where(zero, x_re / c, re), np.where(zero, x_im / c, im))


def _reciprocal(x: Array) -> Array:
    return _div(np.ones((), x.dtype), x)


def _modulo(x: Array, y: Array) -> Array:
    """Floor remainder: the sign of y; 0 for an integer divisor of 0."""
    if x.dtype.kind in "iu":
        return np.where(y == 0, x.dtype.type(0), np.remainder(x, np.where(y == 0, y.dtype.type(1), y)))
    r = np.fmod(x, y)
    moved = np.where((r < 0) & (y > 0) | (r > 0) & (y < 0), r + y, r)
    return np.asarray(np.where(r == 0, np.copysign(x.dtype.type(0), y), moved))


def _floor_divide(x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu":
        quotient = np.floor_divide(x, np.where(y == 0, y.dtype.type(1), y))  # INT_MIN // −1 wraps
        return np.where(y == 0, x.dtype.type(0), quotient)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    r = np.fmod(x, y)
    q = (x - r) / y
    q = np.where((r < 0) & (y > 0) | (r > 0) & (y < 0), q - one, q)
    down = np.floor(q)
    whole = np.where(q - down > x.dtype.type(0.5), down + one, down)
    plain = x / y
    return np.where(y == 0, plain, np.where(q == 0, np.copysign(zero, plain), whole))


def _power(x: Array, y: Array) -> Array:
    """Integers only: wraps; a negative exponent leaves them and gives 0, or ±1 for ±1."""
    x, y = np.broadcast_arrays(x, y)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    result, factor, n = np.ones(x.shape, unsigned), x.astype(unsigned), y.astype(unsigned)
    while n.any():
        result = np.where(n & unsigned.type(1) != 0, result * factor, result)
        factor = factor * factor
        n = n >> unsigned.type(1)
    if x.dtype.kind == "u":
        return result
    odd_sign = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1 != 0, -1, 1), 0)).astype(x.dtype)
    return np.where(y < 0, odd_sign, result.astype(x.dtype))


def _maximum(x: Array, y: Array) -> Array:
    x, y = np.broadcast_arrays(x, y)
    if x.dtype.kind != "f":
        return np.maximum(x, y)
    x, y = np.array(x), np.array(y)
    ordered = np.where(x == y, (_bits(x) & _bits(y)).view(x.dtype), np.where(x < y, y, x))
    return np.where(np.isnan(x) | np.isnan(y), x.dtype.type(np.nan), ordered)


def _minimum(x: Array, y: Array) -> Array:
    x, y = np.broadcast_arrays(x, y)
    if x.dtype.kind != "f":
        return np.minimum(x, y)
    x, y = np.array(x), np.array(y)
    ordered = np.where(x == y, (_bits(x) | _bits(y)).view(x.dtype), np.where(y < x, y, x))
    return np.where(np.isnan(x) | np.isnan(y), x.dtype.type(np.nan), ordered)


def _clip(x: Array, low: Array, high: Array) -> Array:
    return _minimum(_maximum(x, low), high)


def _of_parts(name: str, first: Array, second: Array) -> Array:
    from tensor.twins.special_ref import TWINS as SPECIAL

    return SPECIAL[name]((first, second), None)


def _sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        size = _of_parts("hypot", *_complex_parts(x))
        zero = size.dtype.type(0)
        return _complex(np.where(size == 0, zero, x.real / size), np.where(size == 0, zero, x.imag / size))
    if x.dtype.kind == "u":
        return (x != 0).astype(x.dtype)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    return np.where(x > 0, one, np.where(x < 0, -one, np.where(x == 0, zero, x)))


def _relu(x: Array) -> Array:
    return np.where(x < 0, x.dtype.type(0), x) if x.dtype.kind != "u" else x


def _relu_gradient(g: Array, y: Array) -> Array:
    return np.where(y > 0, g, g.dtype.type(0))


def _abs(x: Array) -> Array:
    return _of_parts("hypot", *_complex_parts(x)) if x.dtype.kind == "c" else np.abs(x)


def _square(x: Array) -> Array:
    return _mul(x, x)


def _rounding(function: Callable[[Array], Any]) -> Twin:
    def round_parts(x: Array) -> Array:
        if x.dtype.kind in "iu":
            return x
        if x.dtype.kind == "c":
            return _complex(function(x.real), function(x.imag))
        return np.asarray(function(x))

    return _arithmetic(round_parts)


# --- predicates, logic, bits -----------------------------------------------------------------------------------------


def _shift_left(x: Array, y: Array) -> Array:
    unsigned, width = np.dtype(f"u{x.dtype.itemsize}"), 8 * x.dtype.itemsize
    inside = (y >= 0) & (y < width)
    moved = x.astype(unsigned) << np.where(inside, y, y.dtype.type(0)).astype(unsigned)
    return np.where(inside, moved, unsigned.type(0)).astype(x.dtype)


def _shift_right(x: Array, y: Array) -> Array:
    width = 8 * x.dtype.itemsize
    inside = (y >= 0) & (y < width)
    if x.dtype.kind == "u":
        return np.where(inside, x >> np.where(inside, y, y.dtype.type(0)), x.dtype.type(0))
    return np.asarray(x >> np.where(inside, y, y.dtype.type(width - 1)))


def _popcount(x: Array) -> Array:
    return np.bitwise_count(x.astype(np.dtype(f"u{x.dtype.itemsize}"))).astype(x.dtype)


def _where(arrays: tuple[Array, ...], params: Any) -> Array:
    condition, x, y = (np.asarray(a) for a in arrays)
    if is_bfloat16(x):
        return bfloat16_of_bits(np.where(condition, bfloat16_bits(x), bfloat16_bits(y)))
    if x.dtype.kind in "fc":  # a move: NaN keeps its payload
        condition, x, y = np.broadcast_arrays(condition, x, y)
        out = np.array(y)
        np.copyto(out, x, where=condition)
        return out
    return np.where(condition, x, y)


def _copy(arrays: tuple[Array, ...], params: Any) -> Array:
    return np.array(arrays[0])


def _conj(x: Array) -> Array:
    return canonical(_complex(x.real, -x.imag))


def _conj_twin(arrays: tuple[Array, ...], params: Any) -> Array:
    x = np.asarray(arrays[0])
    return _conj(x) if x.dtype.kind == "c" else np.array(x)


# --- casts -----------------------------------------------------------------------------------------------------------


def _round_to_odd(x: Array) -> NDArray[np.float32]:
    """float64 to float32 with the last bit set where that is not exact (Boldo and Melquiond 2008)."""
    nearest = x.astype(np.float32)
    u = np.asarray(nearest).view(np.uint32)
    back = np.abs(nearest.astype(np.float64))
    size = np.abs(x)
    one = np.uint32(1)
    return np.asarray(np.where(back > size, (u - one) | one, np.where(back < size, u | one, u))).view(np.float32)


def _integer_to_odd(x: Array) -> NDArray[np.float32]:
    sign = np.where(x < 0, -1.0, 1.0)
    size = np.where(x < 0, np.uint64(0) - x.astype(np.uint64), x.astype(np.uint64))
    large = size >> np.uint64(40) != 0
    kept = np.where(large, size >> np.uint64(16) | (size & np.uint64(0xFFFF) != 0).astype(np.uint64), size)
    return _round_to_odd(sign * kept.astype(np.int64).astype(np.float64) * np.where(large, 65536.0, 1.0))


def _to_integer(x: Array, dtype: np.dtype[Any]) -> Array:
    """Truncates; NaN is 0; out of range saturates."""
    info = np.iinfo(dtype)
    if x.dtype == np.float16:
        x = x.astype(np.float32)  # 2^31 and more would be infinite
    high = x.dtype.type(2.0) ** x.dtype.type(info.bits - (dtype.kind == "i"))
    low = -high if dtype.kind == "i" else x.dtype.type(0)
    above, below = x >= high, x < low
    inside = np.where(above | below | np.isnan(x), x.dtype.type(0), x)
    return np.where(above, dtype.type(info.max), np.where(below, dtype.type(info.min), inside.astype(dtype)))


def cast(x: Array, dtype: np.dtype[Any]) -> Array:
    """x converted to another dtype: one rounding, saturating integers, zero is false; complex to real has no meaning.

    >>> cast(np.array([np.nan, 300.0, -1.0], np.float32), np.dtype(np.uint8))
    array([  0, 255,   0], dtype=uint8)
    """
    x = np.asarray(x)
    dtype = np.dtype(dtype)
    with np.errstate(all="ignore"):
        if x.dtype == dtype:
            return np.array(x)
        if is_bfloat16(x):
            x = widen_bfloat16(x)
        if dtype in (BFLOAT16, np.float16):
            if x.dtype.kind in "iu":
                x = _integer_to_odd(x)
            elif x.dtype == np.float64:
                x = _round_to_odd(x)
            x = canonical(x.astype(np.float32))
            return narrow_bfloat16(x) if dtype == BFLOAT16 else canonical(x.astype(np.float16))
        if dtype.kind == "b":
            return x != 0
        if x.dtype.kind == "f" and dtype.kind in "iu":
            return _to_integer(x, dtype)
        if x.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError(f"cast: {x.dtype} has no meaning as {dtype} (hint: take the real part)")
        return canonical(x.astype(dtype))


TWINS: dict[str, Twin] = {
    "copy": _copy,
    "where": _where,
    "add": _arithmetic(_add),
    "sub": _arithmetic(_sub),
    "mul": _arithmetic(_mul),
    "div": _arithmetic(_div),
    "floor_div": _arithmetic(_floor_divide),
    "mod": _arithmetic(_modulo),
    "pow": _arithmetic(_power),
    "maximum": _arithmetic(_maximum),
    "minimum": _arithmetic(_minimum),
    "neg": _arithmetic(_neg),
    "abs": _arithmetic(_abs),
    "sign": _arithmetic(_sign),
    "square": _arithmetic(_square),
    "reciprocal": _arithmetic(_reciprocal),
    "clip": _arithmetic(_clip),
    "relu": _arithmetic(_relu),
    "relu_gradient": _arithmetic(_relu_gradient),
    "sqrt": _arithmetic(np.sqrt),
    "floor": _rounding(np.floor),
    "ceil": _rounding(np.ceil),
    "trunc": _rounding(np.trunc),
    "round": _rounding(np.rint),
    "eq": through_float32(lambda x, y: x == y),
    "ne": through_float32(lambda x, y: x != y),
    "lt": through_float32(lambda x, y: x < y),
    "le": through_float32(lambda x, y: x <= y),
    "gt": through_float32(lambda x, y: x > y),
    "ge": through_float32(lambda x, y: x >= y),
    "isnan": through_float32(np.isnan),
    "isinf": through_float32(np.isinf),
    "isfinite": through_float32(np.isfinite),
    "signbit": through_float32(np.signbit),
    "logical_and": through_float32(np.logical_and),
    "logical_or": through_float32(np.logical_or),
    "logical_xor": through_float32(np.logical_xor),
    "logical_not": through_float32(np.logical_not),
    "bitwise_and": through_float32(np.bitwise_and),
    "bitwise_or": through_float32(np.bitwise_or),
    "bitwise_xor": through_float32(np.bitwise_xor),
    "bitwise_not": through_float32(np.invert),
    "bitwise_left_shift": through_float32(_shift_left),
    "bitwise_right_shift": through_float32(_shift_right),
    "popcount": through_float32(_popcount),
    "conj": _conj_twin,
    "real": lambda arrays, params: np.array(np.asarray(arrays[0]).real),
    "imag": lambda arrays, params: np.array(np.asarray(arrays[0]).imag),
    "angle": lambda arrays, params: _of_parts("atan2", *_complex_parts(np.asarray(arrays[0]))[::-1]),
    "make_complex": lambda arrays, params: _complex(*arrays),
}

"""Whole numbers for floats: bytes and 4-bit groups with scales, the products that read them, training that feels them.

Rounding is half to even, so quantised values are the same on every machine. 4-bit codes are packed as
`tensor.quantised_matmul` reads them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import rows_of, tensor_of
from tensor.functions.elementwise import abs as size_of
from tensor.functions.elementwise import clip, where
from tensor.functions.elementwise import round as rounded
from tensor.functions.linear_algebra import matmul
from tensor.functions.manipulation import stack
from tensor.functions.promotion import cast_to

__all__ = [
    "CalibrationObserver",
    "calibration_observer",
    "dequant_grouped_gemm",
    "dequant_matmul",
    "dequantize_int4",
    "dequantize_int8",
    "fake_quantize",
    "quantize_int4",
    "quantize_int8",
]

Tensor = Any

_FLOATS = ("real floating",)
_HINT = "astype(x, float32)"


def _scale_of(x: Tensor, axis: Any, steps: int) -> Tensor:
    """What one step stands for so that the largest |x| is `steps` of them; 1 where all is 0."""
    if axis is None and x.size == 0:
        from tensor.functions.creation import ones

        return ones((), dtype=x.dtype, device=x.device)
    largest = size_of(x).max(axis=axis, keepdims=axis is not None)
    return where(largest == 0, 1.0, largest / float(steps))


# --- bytes -----------------------------------------------------------------------------------------------------------


class Int8(NamedTuple):
    """Codes int8 in x's shape, and the scale: x ≈ codes · scale."""

    codes: Tensor
    scale: Tensor


def quantize_int8(x: Tensor, /, scale: Tensor | float | None = None, *, axis: Any = None) -> Int8:
    """x / scale rounded to −127 … 127, and the scale: by default the largest |x| / 127, over axes if they are given.

    With an axis the scale keeps it as a dimension of 1, so that codes · scale broadcasts. A NaN has the code 0, and is
    the scale where that is not given. DtypeError unless x holds real floats.

    >>> import tensor as tn
    >>> codes, scale = tn.quant.quantize_int8(tn.asarray([-1.0, 0.5, 2.0]))
    >>> codes.tolist(), round(scale.item(), 6)
    ([-64, 32, 127], 0.015748)
    """
    rows_of("quantize_int8", x, _FLOATS, _HINT)
    step = _scale_of(x, axis, 127) if scale is None else _as_scale("quantize_int8", scale, x)
    return Int8(cast_to(clip(rounded(x / step), -127.0, 127.0), "int8"), step)


def _as_scale(name: str, scale: Any, x: Tensor) -> Tensor:
    from tensor.functions.creation import asarray

    if isinstance(scale, int | float):
        if not 0 < scale < float("inf"):
            raise ValueError(f"{name}: scale must be a finite number above 0, got {scale!r}")
        return asarray(float(scale), dtype=x.dtype, device=x.device)
    return cast_to(tensor_of(name, scale), x.dtype)


def dequantize_int8(codes: Tensor, scale: Tensor | float, /) -> Tensor:
    """codes · scale in the scale's type, float32 for a number.

    >>> import tensor as tn
    >>> tn.quant.dequantize_int8(tn.asarray([-2, 127], dtype=tn.int8), 0.5).tolist()
    [-1.0, 63.5]
    """
    if tensor_of("dequantize_int8", codes).dtype.name != "int8":
        raise DtypeError(f"dequantize_int8: codes must be int8, got {codes.dtype.name}")
    return cast_to(codes, "float32" if isinstance(scale, int | float) else scale.dtype) * scale


# --- groups of 4 bits ------------------------------------------------------------------------------------------------


class Int4(NamedTuple):
    """Codes uint8 [n, k / 2] (two a byte, the lower four bits first), scale and bias float32 [n, groups]."""

    codes: Tensor
    scale: Tensor
    bias: Tensor


def quantize_int4(weights: Tensor, /, group: int = 64) -> Int4:
    """weights float32 [n, k] as 0 … 15 in groups along k: weight ≈ scale · code + bias, the bias a group's smallest.

    What `quantised_matmul`, `dequant_matmul` and `dequantize_int4` read. ShapeError unless group is even, at most 256
    and divides k.

    >>> import tensor as tn
    >>> codes, scale, bias = tn.quant.quantize_int4(tn.asarray([[-1.0, 0.0, 1.0, 14.0]]), group=4)
    >>> codes.tolist(), scale.tolist(), bias.tolist()
    ([[16, 242]], [[1.0]], [[-1.0]])
    """
    if tensor_of("quantize_int4", weights).dtype.name != "float32":
        raise DtypeError(f"quantize_int4: weights must be float32, got {weights.dtype.name}")
    if weights.ndim != 2 or not 2 <= group <= 256 or group % 2 or weights.shape[1] % group or not weights.shape[1]:
        raise ShapeError(
            f"quantize_int4: expected weights [n, k] and an even group of at most 256 that divides k, got shape "
            f"{weights.shape} and group {group}"
        )
    n, k = weights.shape
    grouped = weights.reshape((n, k // group, group))
    low = grouped.min(axis=-1, keepdims=True)
    span = grouped.max(axis=-1, keepdims=True) - low
    scale = where(span == 0, 1.0, span / 15.0)
    numbers = cast_to(clip(rounded((grouped - low) / scale), 0.0, 15.0), "uint8").reshape((n, k // 2, 2))
    codes = numbers[..., 0] | (numbers[..., 1] << 4)
    return Int4(codes, scale.reshape((n, k // group)), low.reshape((n, k // group)))


def dequantize_int4(codes: Tensor, scale: Tensor, bias: Tensor, /) -> Tensor:
    """scale · code + bias, float32 [n, k]: the weights that `quantize_int4` packed. Differentiable in scale and bias.

    >>> import tensor as tn
    >>> one = tn.ones((1, 1))
    >>> tn.quant.dequantize_int4(tn.asarray([[0x43]], dtype=tn.uint8), one * 2, one).tolist()
    [[7.0, 9.0]]
    """
    if tensor_of("dequantize_int4", codes).dtype.name != "uint8" or codes.ndim != 2:
        raise DtypeError(f"dequantize_int4: codes must be uint8 [n, k / 2], got {codes.dtype.name}{list(codes.shape)}")
    n, half = codes.shape
    if scale.ndim != 2 or scale.shape != bias.shape or scale.shape[0] != n or not scale.shape[1]:
        raise ShapeError(f"dequantize_int4: scale and bias must be [{n}, groups], got {scale.shape} and {bias.shape}")
    groups = scale.shape[1]
    if 2 * half % groups:
        raise ShapeError(f"dequantize_int4: {groups} groups do not divide {2 * half} elements")
    numbers = cast_to(stack([codes & 15, codes >> 4], axis=-1), scale.dtype).reshape((n, groups, 2 * half // groups))
    wide = (n, groups, 1)
    return (numbers * scale.reshape(wide) + bias.reshape(wide)).reshape((n, 2 * half))


def dequant_matmul(x: Tensor, codes: Tensor, scale: Tensor, bias: Tensor, /) -> Tensor:
    """x [..., k] · (scale · code + bias)ᵀ: [..., n], weights as in `quantize_int4`; the bits of `matmul` on them.

    Unlike `quantised_matmul`, x stays in floats. Differentiable in x, scale and bias.

    >>> import tensor as tn
    >>> one = tn.ones((1, 1))
    >>> tn.quant.dequant_matmul(tn.asarray([[1.0, 2.0]]), tn.asarray([[0x43]], dtype=tn.uint8), one, one).tolist()
    [[14.0]]
    """
    return matmul(tensor_of("dequant_matmul", x), dequantize_int4(codes, scale, bias).mT)


def dequant_grouped_gemm(x: Tensor, codes: Tensor, scale: Tensor, bias: Tensor, group_sizes: Any, /) -> Tensor:
    """`grouped_gemm` with the weights of each group packed by `quantize_int4`: codes [groups, n, k / 2] and so on.

    x [rows, k], result [rows, n].

    >>> import tensor as tn
    >>> codes, one = tn.asarray([[[0x43]], [[0x10]]], dtype=tn.uint8), tn.ones((2, 1, 1))
    >>> tn.quant.dequant_grouped_gemm(tn.ones((3, 2)), codes, one, one, [1, 2]).tolist()
    [[9.0], [3.0], [3.0]]
    """
    from tensor.functions.block_products import grouped_gemm

    if tensor_of("dequant_grouped_gemm", codes).ndim != 3:
        raise ShapeError(f"dequant_grouped_gemm: codes must be [groups, n, k / 2], got shape {codes.shape}")
    weights = [dequantize_int4(codes[i], scale[i], bias[i]).mT for i in range(codes.shape[0])]
    return grouped_gemm(x, stack(weights), group_sizes)


# --- in training -----------------------------------------------------------------------------------------------------


def fake_quantize(x: Tensor, /, bits: int = 8, scale: Tensor | float | None = None, *, axis: Any = None) -> Tensor:
    """x rounded to the multiples of scale that `bits` bits hold, still in floats; its gradient is that of clip.

    Straight-through (Bengio, Léonard and Courville 2013): 1 between the ends, 0 beyond; the scale is a constant, by
    default the largest |x| over axes / (2^(bits−1) − 1). ValueError unless bits is from 2 to 16.

    >>> import tensor as tn
    >>> x = tn.asarray([0.26, -5.0])
    >>> tn.quant.fake_quantize(x, 8, 0.01).tolist()
    [0.25999999046325684, -1.2699999809265137]
    >>> tn.grad(lambda x: tn.quant.fake_quantize(x, 8, 0.01).sum())(x).tolist()
    [1.0, 0.0]
    """
    from tensor.autograd import stop_gradient

    if isinstance(bits, bool) or not isinstance(bits, int) or not 2 <= bits <= 16:
        raise ValueError(f"fake_quantize: bits must be an int from 2 to 16, got {bits!r}")
    rows_of("fake_quantize", x, _FLOATS, _HINT)
    last = 2 ** (bits - 1) - 1
    given = _scale_of(stop_gradient(x), axis, last) if scale is None else _as_scale("fake_quantize", scale, x)
    step = stop_gradient(given)
    inside = clip(x / step, -float(last), float(last))
    # inside + (round − inside) is exactly round: the difference of neighbours is a float (Sterbenz).
    return (inside + stop_gradient(rounded(inside) - inside)) * step


class CalibrationObserver:
    """The smallest and the largest number of all that it saw, and the scale that follows.

    >>> import tensor as tn
    >>> seen = tn.quant.calibration_observer()
    >>> for batch in ([1.0, -2.54], [0.5, 0.0]):
    ...     seen.observe(tn.asarray(batch))
    >>> round(seen.scale(), 6)
    0.02
    """

    def __init__(self) -> None:
        self.low: float | None = None
        self.high: float | None = None

    def observe(self, x: Tensor) -> None:
        """Looks at x; ValueError if it holds a NaN. An empty tensor says nothing."""
        plain = rows_of("calibration_observer", x, _FLOATS, _HINT).detach()
        if not plain.size:
            return
        low, high = float(plain.min().item()), float(plain.max().item())
        if math.isnan(low):
            raise ValueError("calibration_observer: x holds a NaN")
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def scale(self, bits: int = 8) -> float:
        """The largest |x| seen / (2^(bits−1) − 1); 1 if that is 0, or nothing was seen."""
        largest = 0.0 if self.low is None or self.high is None else max(abs(self.low), abs(self.high))
        return largest / (2 ** (bits - 1) - 1) if largest else 1.0


def calibration_observer() -> CalibrationObserver:
    """A new observer.

    >>> import tensor as tn
    >>> tn.quant.calibration_observer().scale()
    1.0
    """
    return CalibrationObserver()

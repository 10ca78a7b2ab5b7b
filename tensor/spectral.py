"""Transforms built on `tensor.fft`: cosine transforms, short-time transforms and back, convolution by transform.

Computed in float64 and rounded once to the type of the input, like `tensor.fft`.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from tensor import fft
from tensor.errors import AxisError, DtypeError, ShapeError
from tensor.functions.axes import one_axis, tensor_of
from tensor.functions.creation import arange, full
from tensor.functions.elementary import cos, sin
from tensor.functions.elementwise import maximum, real
from tensor.functions.index_moves import index_add, take
from tensor.functions.manipulation import concat, flip, pad
from tensor.functions.promotion import cast_to

__all__ = ["dct", "istft", "spectral_conv", "stft"]

Tensor = Any
Norm = Literal["backward", "ortho", "forward"]

_REAL = ("float32", "float64")
_COMPLEX = {"float32": "complex64", "float64": "complex128"}


def _real_input(name: str, x: Tensor) -> Tensor:
    """x in float64; DtypeError unless it is float32 or float64."""
    if tensor_of(name, x).dtype.name not in _REAL:
        raise DtypeError(f"{name}: expected float32 or float64, got {x.dtype.name}")
    return cast_to(x, "float64")


def _turn(angles: Tensor) -> Tensor:
    """exp(i·angle), computed by cos and sin."""
    from tensor.primitives.rules import call

    return call("make_complex", cos(angles), sin(angles))


def _last(x: Tensor, at: int) -> tuple[Tensor, tuple[int, ...]]:
    """x with an axis at the end, and the permutation that undoes it."""
    order = (*(d for d in range(x.ndim) if d != at), at)
    return x.permute(order), tuple(order.index(d) for d in range(x.ndim))


# --- cosine transforms -----------------------------------------------------------------------------------------------


def dct(x: Tensor, /, *, type: int = 2, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The discrete cosine transform of type 1, 2, 3 or 4 along an axis, as scipy.fft.dct has it.

    Type 2: 2·Σ x[j]·cos(π(2j+1)k / 2n); "ortho" makes the transform orthonormal, "forward" divides by 2n (type 1:
    2n − 2). ShapeError for no elements, for type 1 fewer than two; ValueError for another type or norm.

    >>> import tensor as tn
    >>> tn.spectral.dct(tn.asarray([1.0, 1.0, 1.0, 1.0]), norm="ortho").tolist()
    [2.0, 0.0, 0.0, 0.0]
    """
    if type not in (1, 2, 3, 4):
        raise ValueError(f"dct: type must be 1, 2, 3 or 4, got {type!r}")
    if norm not in ("backward", "ortho", "forward"):
        raise ValueError(f"dct: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    z = _real_input("dct", x)
    z, back = _last(z, one_axis("dct", axis, z.ndim))
    n = z.shape[-1]
    if n < (2 if type == 1 else 1):
        raise ShapeError(f"dct: type {type} needs {2 if type == 1 else 1} or more elements, got shape {x.shape}")
    ortho = norm == "ortho"
    ends = (0, n - 1) if type == 1 else (0,)
    if ortho and type in (1, 3):
        z = z * _weights(n, ends, math.sqrt(2.0), z)
    result = (_type1, _type2, _type3, _type4)[type - 1](z, n)
    length = 2 * (n - 1) if type == 1 else 2 * n
    if ortho:
        result = result * (1 / math.sqrt(length))
        if type in (1, 2):
            result = result * _weights(n, ends, math.sqrt(0.5), z)
    elif norm == "forward":
        result = result / length
    return cast_to(result, x.dtype).permute(back)


def _weights(n: int, places: tuple[int, ...], weight: float, x: Tensor) -> Tensor:
    """Ones, and `weight` at places."""
    from tensor.functions.creation import asarray

    return asarray([weight if k in places else 1.0 for k in range(n)], dtype="float64", device=x.device)


def _angles(n: int, x: Tensor, scale: float, offset: float = 0.0) -> Tensor:
    return (arange(n, dtype="float64", device=x.device) + offset) * scale


def _type1(x: Tensor, n: int) -> Tensor:
    return real(fft.rfft(concat([x, flip(x[..., 1:-1], axis=-1)], axis=-1)))


def _type2(x: Tensor, n: int) -> Tensor:
    both = fft.rfft(concat([x, flip(x, axis=-1)], axis=-1))[..., :n]
    return real(both * _turn(_angles(n, x, -math.pi / (2 * n))))


def _type3(x: Tensor, n: int) -> Tensor:
    turned = x * _turn(_angles(n, x, math.pi / (2 * n)))
    half = pad(turned, [(0, 0)] * (x.ndim - 1) + [(0, 1)])
    return fft.irfft(half, n=2 * n, norm="forward")[..., :n]


def _type4(x: Tensor, n: int) -> Tensor:
    turned = x * _turn(_angles(n, x, -math.pi / (2 * n), 0.5))
    whole = fft.fft(turned, n=2 * n)[..., :n]
    return real(whole * _turn(_angles(n, x, -math.pi / (2 * n)))) * 2


# --- short-time transforms -------------------------------------------------------------------------------------------


def _window(name: str, window: Tensor, hop: int, n_fft: int | None) -> tuple[Tensor, int]:
    """The window in float64 in the middle of n_fft zeros."""
    w = _real_input(name, window)
    if w.ndim != 1 or w.shape[0] == 0:
        raise ShapeError(f"{name}: the window must be a vector, got shape {window.shape}")
    n = w.shape[0] if n_fft is None else n_fft
    if isinstance(hop, bool) or not isinstance(hop, int) or hop < 1:
        raise ValueError(f"{name}: hop must be an int from 1, got {hop!r}")
    if n < w.shape[0]:
        raise ValueError(f"{name}: n_fft must be at least the window's {w.shape[0]} elements, got {n}")
    before = (n - w.shape[0]) // 2
    return pad(w, [(before, n - w.shape[0] - before)]), n


def stft(
    x: Tensor, window: Tensor, /, hop: int, *, n_fft: int | None = None, center: bool = False, onesided: bool = True
) -> Tensor:
    """Transforms of windows of x [..., samples], `hop` apart: complex [..., frames, frequencies].

    Frame t is the transform of x[t·hop : t·hop + n_fft] · window; a window shorter than n_fft is put in its middle.
    center: zeros of n_fft / 2 on both sides, so that frame t is about sample t·hop. onesided: the n_fft div 2 + 1
    frequencies of `rfft`, else all. Samples behind the last whole frame are left out. ShapeError where none fits.

    >>> import tensor as tn
    >>> tn.spectral.stft(tn.ones(10), tn.ones(4), 3).shape
    (3, 3)
    """
    w, n = _window("stft", window, hop, n_fft)
    z = _real_input("stft", x)
    if z.ndim == 0:
        raise ShapeError("stft: x must be [..., samples], got a number")
    if center:
        z = pad(z, [(0, 0)] * (z.ndim - 1) + [(n // 2, n // 2)])
    frames = (z.shape[-1] - n) // hop + 1
    if frames < 1:
        raise ShapeError(f"stft: a frame of {n} does not fit {z.shape[-1]} samples (hint: center=True)")
    cut = take(z, _frames(frames, n, hop, z), axis=-1) * w
    return cast_to(fft.rfft(cut) if onesided else fft.fft(cut), _COMPLEX[x.dtype.name])


def _frames(frames: int, n: int, hop: int, x: Tensor) -> Tensor:
    """The places of the samples of each frame: [frames, n]."""
    return (arange(frames, device=x.device) * hop).reshape((frames, 1)) + arange(n, device=x.device).reshape((1, n))


def istft(
    spectrum: Tensor,
    window: Tensor,
    /,
    hop: int,
    *,
    n_fft: int | None = None,
    center: bool = False,
    length: int | None = None,
    onesided: bool = True,
) -> Tensor:
    """The samples [..., samples] of a `stft` with the same arguments: frames times the window, added, over Σ window².

    Exact wherever a window is not 0 at a sample; samples under no window are 0. length: cut or filled with zeros to it.
    ShapeError where the frequencies are not those of n_fft.

    >>> import tensor as tn
    >>> x, w = tn.arange(8.0), tn.asarray([0.5, 1.0, 1.0, 0.5])
    >>> tn.spectral.istft(tn.spectral.stft(x, w, 2), w, 2).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    w, n = _window("istft", window, hop, n_fft)
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 0):
        raise ValueError(f"istft: length must be an int from 0, got {length!r}")
    if tensor_of("istft", spectrum).dtype.name not in _COMPLEX.values():
        raise DtypeError(f"istft: expected complex64 or complex128, got {spectrum.dtype.name}")
    if spectrum.ndim < 2:
        raise AxisError(f"istft: expected [..., frames, frequencies], got shape {spectrum.shape}")
    frames, frequencies = spectrum.shape[-2:]
    if frequencies != (n // 2 + 1 if onesided else n) or frames == 0:
        raise ShapeError(f"istft: shape {spectrum.shape} holds no frames of n_fft = {n}, onesided={onesided}")
    z = cast_to(spectrum, "complex128")
    parts = (fft.irfft(z, n=n) if onesided else real(fft.ifft(z))) * w
    lead = parts.shape[:-2]
    total = (frames - 1) * hop + n
    where = _frames(frames, n, hop, z).reshape((-1,))
    empty = full((*lead, total), 0.0, dtype="float64", device=z.device)
    added = index_add(empty, len(lead), where, parts.reshape((*lead, frames * n)))
    squares = (w * w).reshape((1, n)).expand((frames, n)).reshape((-1,))
    weight = index_add(full((total,), 0.0, dtype="float64", device=z.device), 0, where, squares)
    result = added / maximum(weight, 1e-300)
    if center:
        result = result[..., n // 2 : total - n // 2]
    if length is not None:
        kept = min(length, result.shape[-1])
        result = pad(result[..., :kept], [(0, 0)] * len(lead) + [(0, length - kept)])
    return cast_to(result, "float32" if spectrum.dtype.name == "complex64" else "float64")


# --- convolution -----------------------------------------------------------------------------------------------------


def spectral_conv(x: Tensor, w: Tensor, /, *, axis: int = -1) -> Tensor:
    """The full convolution along an axis, Σ x[j]·w[k − j], by transforms: n + m − 1 elements.

    x and w have as many dimensions and broadcast beside the axis. For long w: time n·log n. ShapeError, DtypeError.

    >>> import tensor as tn
    >>> tn.round(tn.spectral.spectral_conv(tn.asarray([1.0, 2.0, 3.0]), tn.asarray([1.0, 10.0]))).tolist()
    [1.0, 12.0, 23.0, 30.0]
    """
    a, b = _real_input("spectral_conv", x), _real_input("spectral_conv", w)
    if x.dtype != w.dtype:
        raise DtypeError(f"spectral_conv: x and w must have one type, got {x.dtype.name} and {w.dtype.name}")
    if a.ndim != b.ndim:
        raise ShapeError(f"spectral_conv: x and w need as many dimensions, got shapes {x.shape} and {w.shape}")
    at = one_axis("spectral_conv", axis, a.ndim)
    n = a.shape[at] + b.shape[at] - 1
    if min(a.shape[at], b.shape[at]) == 0:
        raise ShapeError(f"spectral_conv: nothing to convolve in shapes {x.shape} and {w.shape}")
    room = 1 << max(n - 1, 1).bit_length()
    whole = fft.irfft(fft.rfft(a, n=room, axis=at) * fft.rfft(b, n=room, axis=at), n=room, axis=at)
    return cast_to(whole[(*(slice(None),) * at, slice(0, n))], x.dtype)

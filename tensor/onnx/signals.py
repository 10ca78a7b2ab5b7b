"""Fourier transforms, windows and mel weights."""

from __future__ import annotations

import math
from typing import Any

import tensor as tn
from tensor.onnx.elementwise import cast
from tensor.onnx.node import Node, operator, require_places
from tensor.onnx.shapes import axes_of, pad_by
from tensor.onnx.values import dtype_of

__all__: list[str] = []

Tensor = Any


def _complex(x: Tensor) -> Tensor:
    """[…, 1] or […, 2] real numbers as complex ones."""
    wide = tn.complex128 if x.dtype.name == "float64" else tn.complex64
    y = cast(x[..., 0], wide)
    return y if x.shape[-1] == 1 else y + cast(x[..., 1], wide) * 1j


def _pairs(x: Tensor, dtype: Any) -> Tensor:
    return cast(tn.stack((tn.real(x), tn.imag(x)), axis=-1), dtype)


@operator("DFT")
def _dft(node: Node, x: Tensor, length: Tensor = None, axis: Tensor = None) -> Tensor:
    at = node.get("axis", 1) if node.version < 20 else -2 if axis is None else int(axis.item())
    at = axes_of(at, x.ndim)[0]
    inverse, one_sided = node.get("inverse", 0), node.get("onesided", 0)
    n = None if length is None else int(length.item())
    z = _complex(x)
    if inverse and one_sided:
        return cast(tn.expand_dims(tn.fft.irfft(z, n=n, axis=at), axis=-1), x.dtype)
    if n is not None:
        z = pad_by(z, [(0, n - m) if i == at else (0, 0) for i, m in enumerate(z.shape)])
    y = tn.fft.ifft(z, axis=at) if inverse else tn.fft.fft(z, axis=at)
    if one_sided:
        half = y.shape[at] // 2 + 1
        y = y[tuple(slice(0, half) if i == at else slice(None) for i in range(y.ndim))]
    return _pairs(y, x.dtype)


@operator("STFT")
def _stft(node: Node, x: Tensor, step: Tensor, window: Tensor = None, length: Tensor = None) -> Tensor:
    n = int(length.item()) if length is not None else window.shape[0]
    hop = int(step.item())
    if hop < 1 or not 1 <= n <= x.shape[1]:
        raise ValueError(f"frames of {n} elements with steps of {hop} do not fit {x.shape[1]} elements")
    count = (x.shape[1] - n) // hop + 1
    require_places(count, n)
    places = [i * hop + k for i in range(count) for k in range(n)]
    z = tn.take(_complex(x), tn.asarray(places, dtype=tn.int64), axis=1).reshape((x.shape[0], count, n))
    if window is not None:
        before = (n - window.shape[0]) // 2
        z = z * cast(pad_by(window, [(before, n - window.shape[0] - before)]), z.dtype)
    y = tn.fft.fft(z, axis=-1)
    return _pairs(y[..., : n // 2 + 1] if node.get("onesided", 1) else y, x.dtype)


@operator("HannWindow", "HammingWindow", "BlackmanWindow")
def _window(node: Node, size: Tensor) -> Tensor:
    n = int(size.item())
    steps = n if node.get("periodic", 1) else max(n - 1, 1)
    parts = {
        "HannWindow": (0.5, -0.5),
        "HammingWindow": (25 / 46, -21 / 46),
        "BlackmanWindow": (0.42, -0.5, 0.08),
    }[node.operator]
    angle = tn.arange(n, dtype=tn.float64) * (2 * math.pi / steps)
    y = tn.zeros((n,), dtype=tn.float64)
    for i, part in enumerate(parts):
        y = y + tn.cos(angle * i) * part
    return cast(y, dtype_of(node.get("output_datatype", 1), "attribute output_datatype"))


@operator("MelWeightMatrix")
def _mel(node: Node, bins: Tensor, length: Tensor, rate: Tensor, low: Tensor, high: Tensor) -> Tensor:
    count, n, hertz = int(bins.item()), int(length.item()), int(rate.item())
    require_places(max(count, 0) + 2, max(n, 0) // 2 + 1)
    ends = [2595 * math.log10(1 + edge.item() / 700) for edge in (low, high)]
    mels = [ends[0] + i * (ends[1] - ends[0]) / (count + 2) for i in range(count + 2)]
    places = [int((n + 1) * 700 * (10 ** (m / 2595) - 1) // hertz) for m in mels]
    table = [[0.0] * count for _ in range(n // 2 + 1)]
    if not all(0 <= p <= n // 2 for p in places):
        raise ValueError(f"the edges are not in the spectrum: bins {places}")
    for i, (first, middle, last) in enumerate(zip(places, places[1:], places[2:], strict=False)):
        table[middle][i] = 1.0
        for j in range(first, middle):
            table[j][i] = (j - first) / (middle - first)
        for j in range(middle, last):
            table[j][i] = (last - j) / (last - middle)
    return tn.asarray(table, dtype=dtype_of(node.get("output_datatype", 1), "attribute output_datatype"))

"""Twin of tensor/kernels/convolution.cpp and convolution_weight.cpp: convolutions as products of matrices.

Every output is one element of a product whose second factor holds the patches of the image, zeros outside included; the
order of its sum is that of the product (tensor/product_ref.py). Arrays are [n, channels, rows, columns].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import product_ref

Floats = NDArray[Any]  # float32 or float64
Pair = tuple[int, int]


def taps(
    image: Floats,  # [n, c, h, w]
    kernel: Pair,
    output: Pair,
    stride: Pair,
    dilation: Pair,
    before: Pair,
    spread: Pair = (1, 1),
) -> Floats:  # [n, c, kernel, output]
    """What output o meets under tap t, in each dimension: the input at o·stride + t·dilation − before, 0 where none is.

    Input i lies at i·spread.
    """
    n, c = image.shape[:2]
    out = np.zeros((n, c, *kernel, *output), image.dtype)
    place = [
        np.arange(kernel[d])[:, np.newaxis] * dilation[d] + np.arange(output[d]) * stride[d] - before[d] for d in (0, 1)
    ]
    inside = [
        (p >= 0) & (p % s == 0) & (p // s < size) for p, s, size in zip(place, spread, image.shape[2:], strict=True)
    ]
    for (ty, y), (tx, x) in ((a, b) for a in np.argwhere(inside[0]) for b in np.argwhere(inside[1])):
        out[:, :, ty, tx, y, x] = image[:, :, place[0][ty, y] // spread[0], place[1][tx, x] // spread[1]]
    return out


def correlate(
    image: Floats,  # [n, groups · inputs, h, w]
    weight: Floats,  # [groups, outputs, inputs, kernel]
    output: Pair,
    stride: Pair,
    dilation: Pair,
    before: Pair,
    spread: Pair = (1, 1),
) -> Floats:  # [n, groups · outputs, output]
    """Sums over k = (input channel, tap row, tap column): weights [outputs, k] times patches [k, pixels].

    With a spread (and stride 1), k leaves out the taps that meet what lies between two inputs: outputs of one remainder
    modulo the spread meet the same taps.
    """
    groups, outputs, inputs, *kernel = weight.shape
    patches = taps(image, (kernel[0], kernel[1]), output, stride, dilation, before, spread)
    patches = patches.reshape(len(image), groups, inputs, *kernel, *output)
    out = np.zeros((len(image), groups, outputs, *output), image.dtype)
    for ry, rx in np.ndindex(*spread):
        met = [
            [t for t in range(kernel[d]) if (r + t * dilation[d] - before[d]) % spread[d] == 0]
            for d, r in ((0, ry), (1, rx))
        ]
        part = out[..., ry :: spread[0], rx :: spread[1]]
        if part.size == 0 or not met[0] or not met[1]:
            continue
        w = weight[:, :, :, met[0]][..., met[1]].reshape(groups, outputs, -1)
        p = patches[:, :, :, met[0]][:, :, :, :, met[1]][..., ry :: spread[0], rx :: spread[1]]
        p = p.reshape(len(image), groups, w.shape[2], -1)
        for n in range(len(image)):
            for g in range(groups):
                part[n, g] = product_ref.matmul(w[g], p[n, g]).reshape(outputs, *part.shape[3:])
    return out.reshape(len(image), groups * outputs, *output)


def conv(x: Floats, w: Floats, output: Pair, stride: Pair, before: Pair, dilation: Pair, groups: int) -> Floats:
    """A convolution, the weights [outputs, inputs of a group, kernel] not turned round."""
    return correlate(x, w.reshape(groups, -1, *w.shape[1:]), output, stride, dilation, before)


def conv_transpose(
    g: Floats, w: Floats, output: Pair, stride: Pair, before: Pair, dilation: Pair, groups: int
) -> Floats:  # [n, inputs, output]
    """The gradient of x in conv(x, w): sums over k = (output channel, tap row, tap column) that meet it, ascending."""
    flipped = w.reshape(groups, -1, *w.shape[1:]).swapaxes(1, 2)
    back = (-dilation[0], -dilation[1])
    return correlate(g, flipped, output, (1, 1), back, (-before[0], -before[1]), stride)


def conv_weight_gradient(
    x: Floats, g: Floats, kernel: Pair, stride: Pair, before: Pair, dilation: Pair, groups: int
) -> Floats:  # [outputs, inputs, kernel]
    """The gradient of w in conv(x, w): sums over k = (image, row, column) of the outputs."""
    n, channels = x.shape[:2]
    inputs, outputs, pixels = channels // groups, g.shape[1] // groups, g.shape[2] * g.shape[3]
    patches = taps(x, kernel, (g.shape[2], g.shape[3]), stride, dilation, before)
    patches = patches.reshape(n, groups, inputs * kernel[0] * kernel[1], pixels)
    gradient = g.reshape(n, groups, outputs, pixels)
    out = np.zeros((groups, outputs, inputs * kernel[0] * kernel[1]), x.dtype)
    for i in range(groups):
        left = gradient[:, i].transpose(1, 0, 2).reshape(outputs, n * pixels)
        right = patches[:, i].transpose(0, 2, 1).reshape(n * pixels, -1)
        out[i] = product_ref.matmul(left, right)
    return out.reshape(groups * outputs, inputs, *kernel)

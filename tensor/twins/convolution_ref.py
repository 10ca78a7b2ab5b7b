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
    """Sums over k = (input channel, tap row, tap column): weights [outputs, k] times patches [k, pixels]."""
    groups, outputs, inputs, *kernel = weight.shape
    patches = taps(image, (kernel[0], kernel[1]), output, stride, dilation, before, spread)
    patches = patches.reshape(len(image), groups, inputs * kernel[0] * kernel[1], output[0] * output[1])
    out = np.zeros((len(image), groups, outputs, output[0] * output[1]), image.dtype)
    for n in range(len(image)):
        for g in range(groups):
            out[n, g] = product_ref.matmul(weight[g].reshape(outputs, -1), patches[n, g])
    return out.reshape(len(image), groups * outputs, *output)


def conv(x: Floats, w: Floats, output: Pair, stride: Pair, before: Pair, dilation: Pair, groups: int) -> Floats:
    """A convolution, the weights [outputs, inputs of a group, kernel] not turned round."""
    return correlate(x, w.reshape(groups, -1, *w.shape[1:]), output, stride, dilation, before)


def conv_transpose(
    g: Floats, w: Floats, output: Pair, stride: Pair, before: Pair, dilation: Pair, groups: int
) -> Floats:  # [n, inputs, output]
    """The gradient of x in conv(x, w): sums over k = (output channel, tap row, tap column), ascending."""
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

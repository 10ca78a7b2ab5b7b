"""Convolution over three dimensions, as one over two with the windows of the first among the channels."""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.errors import ShapeError
from tensor.functions.convolution import Padding, Sizes, conv2d, paddings, sizes
from tensor.primitives.convolution import conv_output

__all__ = ["conv3d"]

Tensor = Any


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    activation: str = "none",
) -> Tensor:
    """Convolution of x [n, channels, depth, rows, columns] with weight [outputs, channels / groups, depth, rows, columns].

    Arguments as in `conv2d`, with three numbers where that takes two. Each output is one sum over (channel, depth, row,
    column), in the order of `matmul`. Takes a copy of x for each tap of the depth. ShapeError, DtypeError, ValueError.

    >>> import tensor as tn
    >>> tn.conv3d(tn.ones((1, 1, 3, 4, 4)), tn.ones((2, 1, 2, 3, 3))).shape
    (1, 2, 2, 2, 2)
    """  # noqa: E501
    for t in (x, weight):
        if not isinstance(t, _kernels.Tensor):
            raise TypeError(f"conv3d: expected a Tensor, got {type(t).__name__} (hint: asarray)")
    if x.ndim not in (4, 5) or weight.ndim != 5:
        raise ShapeError(
            "conv3d: expected x [n, channels, depth, rows, columns], or one without n, and weight of 5 dimensions, "
            f"got shapes {x.shape} and {weight.shape}"
        )
    steps = sizes("conv3d", "stride", stride, 3, 1)
    spacing = sizes("conv3d", "dilation", dilation, 3, 1)
    outputs, inner, taps, *plane = weight.shape
    pads = paddings("conv3d", padding, 3, (taps, *plane), steps, spacing)
    images = x if x.ndim == 5 else x.reshape((1, *x.shape))
    n, channels, depth, rows, columns = images.shape
    layers = conv_output("conv3d", depth, taps, steps[0], *pads[0], spacing[0])
    from tensor.functions.creation import arange
    from tensor.functions.index_moves import take
    from tensor.functions.manipulation import pad

    padded = pad(images, [(0, 0), (0, 0), pads[0], (0, 0), (0, 0)]) if pads[0] != (0, 0) else images
    first = (arange(layers, device=x.device) * steps[0]).reshape((layers, 1))
    where = first + (arange(taps, device=x.device) * spacing[0]).reshape((1, taps))
    windows = take(padded, where, axis=2)  # [n, channels, layers, taps, rows, columns]
    turned = windows.permute((0, 2, 1, 3, 4, 5)).reshape((n * layers, channels * taps, rows, columns))
    flat = conv2d(
        turned,
        weight.reshape((outputs, inner * taps, *plane)),
        bias,
        stride=steps[1:],
        padding=pads[1:],
        dilation=spacing[1:],
        groups=groups,
        activation=activation,
    )
    result = flat.reshape((n, layers, *flat.shape[1:])).permute((0, 2, 1, 3, 4))
    return result if x.ndim == 5 else result.reshape(result.shape[1:])

"""Pooling over one and two dimensions: the largest, the smallest, the mean of each window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.functions.convolution import as_images, paddings, sizes
from tensor.functions.dtypes import astype
from tensor.primitives import registry

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "max_pool1d",
    "max_pool2d",
    "min_pool1d",
    "min_pool2d",
]

Tensor = Any
Sizes = int | Sequence[int]
Padding = int | Sequence[int] | Sequence[Sequence[int]]

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _row(name: str, x: Tensor, params: dict[str, Any]) -> Any:
    return _kernels.apply(registry.row(name, "pooling"), (x,), params)


def _images(name: str, x: Tensor, rank: int) -> tuple[Tensor, Any]:
    if not isinstance(x, _kernels.Tensor):
        raise TypeError(f"{name}: expected a Tensor, got {type(x).__name__} (hint: asarray)")
    if x.dtype.name not in _FLOATS:
        raise DtypeError(f"{name}: {x.dtype.name} is not computed with (hint: {', '.join(_FLOATS)})")
    return as_images(name, x, rank)


def _outputs(
    name: str,
    shape: Sequence[int],
    window: Sequence[int],
    stride: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[int, ...]:
    """How many windows there are: every one begins inside the image or the padding before it, and meets the image."""
    found = []
    for size, taps, step, (before, after), spacing in zip(shape, window, stride, pads, dilation, strict=True):
        reach = spacing * (taps - 1)
        if before > reach // 2 + (reach % 2) or after > reach // 2 + (reach % 2):
            raise ShapeError(f"{name}: padding {(before, after)} is more than half of a window that spans {reach + 1}")
        room = size + before + after - reach - 1
        if room < 0 or size == 0:
            raise ShapeError(
                f"{name}: a window of {taps} (dilation {spacing}) does not fit {size} elements "
                f"padded by {before} and {after}"
            )
        count = room // step + 1
        if ceil_mode and room % step and count * step < size + before:
            count += 1
        found.append(count)
    return tuple(found)


def _params(
    name: str,
    images: Tensor,
    rank: int,
    window: Sizes,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    ceil_mode: bool,
) -> dict[str, Any]:
    taps = sizes(name, "window", window, rank, 1)
    steps = taps if stride is None else sizes(name, "stride", stride, rank, 1)
    spacing = sizes(name, "dilation", dilation, rank, 1)
    pads = paddings(name, padding, rank, taps, steps, spacing)
    output = _outputs(name, images.shape[4 - rank :], taps, steps, pads, spacing, ceil_mode)
    before = tuple(p[0] for p in pads)
    if rank == 1:
        taps, steps, spacing, before, output = (1, *taps), (1, *steps), (1, *spacing), (0, *before), (1, *output)
    return {"window": taps, "stride": steps, "padding": before, "dilation": spacing, "output": output}


def _max_pool(
    name: str,
    rank: int,
    x: Tensor,
    window: Sizes,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    images, back = _images(name, x, rank)
    values, places = _row("max_pool", images, _params(name, images, rank, window, stride, padding, dilation, ceil_mode))
    return (back(values), back(astype(places, "int64"))) if return_indices else back(values)


def max_pool2d(
    x: Tensor,
    window: Sizes,
    /,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of x [n, channels, rows, columns] (NaN if one is NaN).

    stride is the window's size unless given; padding never wins. With return_indices also the place of the first
    largest element in its plane, counted row after row (int64). ShapeError, DtypeError, ValueError.

    >>> import tensor as tn
    >>> tn.max_pool2d(tn.asarray([[[[1., 2.], [4., 3.]]]]), 2).item()
    4.0
    """
    return _max_pool("max_pool2d", 2, x, window, stride, padding, dilation, ceil_mode, return_indices)


def max_pool1d(
    x: Tensor,
    window: Sizes,
    /,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool2d` over one dimension: x [n, channels, columns].

    >>> import tensor as tn
    >>> tn.max_pool1d(tn.asarray([[[1., 5., 2., 3.]]]), 2).tolist()
    [[[5.0, 3.0]]]
    """
    return _max_pool("max_pool1d", 1, x, window, stride, padding, dilation, ceil_mode, return_indices)


def min_pool2d(
    x: Tensor, window: Sizes, /, *, stride: Sizes | None = None, padding: Padding = 0, dilation: Sizes = 1
) -> Tensor:
    """The smallest element of each window of x [n, channels, rows, columns] (NaN if one is NaN).

    >>> import tensor as tn
    >>> tn.min_pool2d(tn.asarray([[[[1., 2.], [4., 3.]]]]), 2).item()
    1.0
    """
    return -_max_pool("min_pool2d", 2, -x, window, stride, padding, dilation, False, False)


def min_pool1d(
    x: Tensor, window: Sizes, /, *, stride: Sizes | None = None, padding: Padding = 0, dilation: Sizes = 1
) -> Tensor:
    """`min_pool2d` over one dimension.

    >>> import tensor as tn
    >>> tn.min_pool1d(tn.asarray([[[1., 5., 2., 3.]]]), 2).tolist()
    [[[1.0, 2.0]]]
    """
    return -_max_pool("min_pool1d", 1, -x, window, stride, padding, dilation, False, False)


def _avg_pool(
    name: str,
    rank: int,
    x: Tensor,
    window: Sizes,
    stride: Sizes | None,
    padding: Padding,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Tensor:
    images, back = _images(name, x, rank)
    params = _params(name, images, rank, window, stride, padding, 1, ceil_mode)
    del params["dilation"]
    if count_include_pad and ceil_mode:
        raise ValueError(f"{name}: ceil_mode counts no padding (hint: count_include_pad=False)")
    taps = params["window"]
    return back(_row("average_pool", images, {**params, "divisor": taps[0] * taps[1] if count_include_pad else 0}))


def avg_pool2d(
    x: Tensor,
    window: Sizes,
    /,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of x [n, channels, rows, columns]: the sum, row after row, divided by the count.

    With count_include_pad the count is the window's size, else the elements of the image in it. ShapeError,
    DtypeError, ValueError.

    >>> import tensor as tn
    >>> tn.avg_pool2d(tn.asarray([[[[1., 2.], [4., 3.]]]]), 2).item()
    2.5
    """
    return _avg_pool("avg_pool2d", 2, x, window, stride, padding, ceil_mode, count_include_pad)


def avg_pool1d(
    x: Tensor,
    window: Sizes,
    /,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """`avg_pool2d` over one dimension.

    >>> import tensor as tn
    >>> tn.avg_pool1d(tn.asarray([[[1., 5., 2., 4.]]]), 2).tolist()
    [[[3.0, 3.0]]]
    """
    return _avg_pool("avg_pool1d", 1, x, window, stride, padding, ceil_mode, count_include_pad)


def _adaptive(name: str, rank: int, x: Tensor, output: Sizes) -> tuple[Tensor, Any, dict[str, Any]]:
    images, back = _images(name, x, rank)
    wanted = sizes(name, "output", output, rank, 1)
    if 0 in images.shape[2:]:
        raise ShapeError(f"{name}: an image must have elements, got shape {x.shape}")
    params = {"window": (0, 0), "stride": (1, 1), "padding": (0, 0), "output": (1, *wanted)[-2:]}
    return images, back, params


def adaptive_avg_pool2d(x: Tensor, output: Sizes, /) -> Tensor:
    """Means of windows chosen so that the result has `output` rows and columns.

    Output o covers inputs ⌊o·size / output⌋ up to ⌈(o + 1)·size / output⌉.

    >>> import tensor as tn
    >>> tn.adaptive_avg_pool2d(tn.ones((1, 3, 7, 5)), (2, 1)).shape
    (1, 3, 2, 1)
    """
    images, back, params = _adaptive("adaptive_avg_pool2d", 2, x, output)
    return back(_row("average_pool", images, {**params, "divisor": 0}))


def adaptive_avg_pool1d(x: Tensor, output: Sizes, /) -> Tensor:
    """`adaptive_avg_pool2d` over one dimension.

    >>> import tensor as tn
    >>> tn.adaptive_avg_pool1d(tn.asarray([[[1., 2., 6.]]]), 2).tolist()
    [[[1.5, 4.0]]]
    """
    images, back, params = _adaptive("adaptive_avg_pool1d", 1, x, output)
    return back(_row("average_pool", images, {**params, "divisor": 0}))


def adaptive_max_pool2d(x: Tensor, output: Sizes, /) -> Tensor:
    """The largest elements of the windows of `adaptive_avg_pool2d`.

    >>> import tensor as tn
    >>> tn.adaptive_max_pool2d(tn.ones((1, 3, 7, 5)), 2).shape
    (1, 3, 2, 2)
    """
    images, back, params = _adaptive("adaptive_max_pool2d", 2, x, output)
    return back(_row("max_pool", images, {**params, "dilation": (1, 1)})[0])


def adaptive_max_pool1d(x: Tensor, output: Sizes, /) -> Tensor:
    """`adaptive_max_pool2d` over one dimension.

    >>> import tensor as tn
    >>> tn.adaptive_max_pool1d(tn.asarray([[[1., 2., 6.]]]), 2).tolist()
    [[[2.0, 6.0]]]
    """
    images, back, params = _adaptive("adaptive_max_pool1d", 1, x, output)
    return back(_row("max_pool", images, {**params, "dilation": (1, 1)})[0])

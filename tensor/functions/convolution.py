"""Convolutions over one and two dimensions, and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensor import _kernels
from tensor.errors import ShapeError
from tensor.functions.linear_algebra import _numbers
from tensor.primitives import registry
from tensor.primitives.convolution import conv_output, conv_params

__all__ = ["conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"]

Tensor = Any
Sizes = int | Sequence[int]
Padding = int | str | Sequence[int] | Sequence[Sequence[int]]


def _row(name: str, inputs: tuple[Tensor, ...], params: dict[str, Any]) -> Tensor:
    return _kernels.apply(registry.row(name, "convolution"), inputs, params)


def sizes(name: str, what: str, value: Sizes, rank: int, least: int) -> tuple[int, ...]:
    """One number a dimension; ValueError for too few, too many or too small ones."""
    found = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(found) != rank or not all(isinstance(n, int) and n >= least for n in found):
        raise ValueError(f"{name}: {what} must be an int from {least} up, or {rank} of them, got {value!r}")
    return found


def paddings(
    name: str, value: Padding, rank: int, taps: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """(before, after) a dimension, from a number, numbers, pairs, "valid" or "same"."""
    if value == "valid":
        return ((0, 0),) * rank
    if value == "same":
        if any(s != 1 for s in stride):
            raise ValueError(f"{name}: padding 'same' needs stride 1, got {tuple(stride)}")
        reach = [d * (t - 1) for t, d in zip(taps, dilation, strict=True)]
        return tuple((r // 2, r - r // 2) for r in reach)
    if isinstance(value, int):
        pairs: tuple[Any, ...] = ((value, value),) * rank
    elif isinstance(value, str):
        raise ValueError(f"{name}: padding must be 'valid', 'same' or numbers, got {value!r}")
    else:
        pairs = tuple((p, p) if isinstance(p, int) else tuple(p) for p in value)
    if len(pairs) != rank or any(len(p) != 2 or min(p) < 0 for p in pairs):
        raise ValueError(f"{name}: padding must be an int from 0 up, {rank} of them or {rank} pairs, got {value!r}")
    return pairs


def _batch_of_images(name: str, x: Tensor, rank: int) -> tuple[Tensor, bool]:
    """x as [n, channels, rows, columns], and whether it had no n."""
    if x.ndim not in (rank + 1, rank + 2):
        names = "columns" if rank == 1 else "rows, columns"
        raise ShapeError(f"{name}: expected [n, channels, {names}] or one without n, got shape {x.shape}")
    alone = x.ndim == rank + 1
    if alone:
        x = x.reshape((1, *x.shape))
    return (x.reshape((*x.shape[:2], 1, x.shape[2])) if rank == 1 else x), alone


def as_images(name: str, x: Tensor, rank: int) -> tuple[Tensor, Any]:
    """x as [n, channels, rows, columns], and the way back for a result of that form."""
    images, alone = _batch_of_images(name, x, rank)
    if images is x:
        return images, lambda y: y

    def back(y: Tensor) -> Tensor:
        shape = y.shape if rank == 2 else (*y.shape[:2], y.shape[3])
        return y.reshape(shape[1:] if alone else shape)

    return images, back


def _convolved(
    name: str,
    rank: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    activation: str,
) -> Tensor:
    tensors = _numbers(name, x, weight) if bias is None else _numbers(name, x, weight, bias)
    images, back = as_images(name, tensors[0], rank)
    w = tensors[1]
    if w.ndim != rank + 2:
        raise ShapeError(f"{name}: weight must have {rank + 2} dimensions, got shape {weight.shape}")
    steps, spacing = sizes(name, "stride", stride, rank, 1), sizes(name, "dilation", dilation, rank, 1)
    pads = paddings(name, padding, rank, w.shape[2:], steps, spacing)
    output = tuple(
        conv_output(name, size, taps, s, before, after, d)
        for size, taps, s, (before, after), d in zip(
            images.shape[4 - rank :], w.shape[2:], steps, pads, spacing, strict=True
        )
    )
    if rank == 1:
        w = w.reshape((*w.shape[:2], 1, w.shape[2]))
        steps, spacing, pads, output = (1, *steps), (1, *spacing), ((0, 0), *pads), (1, *output)
    before = tuple(p[0] for p in pads)
    params = conv_params(steps, before, spacing, groups, output=output)  # type: ignore[arg-type]
    if bias is None and activation == "none":
        return back(_row("conv", (images, w), params))
    if bias is None:
        raise ValueError(f"{name}: an activation needs a bias")
    return back(_row("conv_affine", (images, w, tensors[2]), {**params, "activation": activation}))


def conv2d(
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
    """Convolution of images x [n, channels, rows, columns] with weight [outputs, channels / groups, rows, columns].

    stride, dilation: an int or two; padding: zeros around, an int, two, two pairs (before, after), "valid" or "same";
    bias: one value an output; activation: a name as in `affine`. The weights are not turned round. Each output is one
    sum over (channel, row, column), in the order of `matmul`. An x without n gives a result without n.
    ShapeError, DtypeError, ValueError.

    >>> import tensor as tn
    >>> tn.conv2d(tn.ones((1, 1, 4, 4)), tn.ones((2, 1, 3, 3)), padding=1).shape
    (1, 2, 4, 4)
    """
    return _convolved("conv2d", 2, x, weight, bias, stride, padding, dilation, groups, activation)


def conv1d(
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
    """`conv2d` over one dimension: x [n, channels, columns], weight [outputs, channels / groups, columns].

    >>> import tensor as tn
    >>> tn.conv1d(tn.asarray([[[1., 2., 3., 4.]]]), tn.asarray([[[1., -1.]]])).tolist()
    [[[-1.0, -1.0, -1.0]]]
    """
    return _convolved("conv1d", 1, x, weight, bias, stride, padding, dilation, groups, activation)


def _transposed(
    name: str,
    rank: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Padding,
    output_padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    tensors = _numbers(name, x, weight) if bias is None else _numbers(name, x, weight, bias)
    images, back = as_images(name, tensors[0], rank)
    w = tensors[1]
    if w.ndim != rank + 2:
        raise ShapeError(f"{name}: weight must have {rank + 2} dimensions, got shape {weight.shape}")
    steps, spacing = sizes(name, "stride", stride, rank, 1), sizes(name, "dilation", dilation, rank, 1)
    more = sizes(name, "output_padding", output_padding, rank, 0)
    pads = paddings(name, padding, rank, w.shape[2:], steps, spacing)
    output = tuple(
        (size - 1) * s - before - after + d * (taps - 1) + extra + 1
        for size, taps, s, (before, after), d, extra in zip(
            images.shape[4 - rank :], w.shape[2:], steps, pads, spacing, more, strict=True
        )
    )
    if min(output) < 0:
        raise ShapeError(f"{name}: the padding {padding!r} leaves nothing of the result")
    if rank == 1:
        w = w.reshape((*w.shape[:2], 1, w.shape[2]))
        steps, spacing, pads, output = (1, *steps), (1, *spacing), ((0, 0), *pads), (1, *output)
    before = tuple(p[0] for p in pads)
    params = conv_params(steps, before, spacing, groups, output=output)  # type: ignore[arg-type]
    result = _row("conv_transpose", (images, w), params)
    if bias is not None:
        result = result + tensors[2].reshape((tensors[2].shape[0], 1, 1))
    return back(result)


def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `conv2d`: x [n, inputs, rows, columns], weight [inputs, outputs / groups, rows, columns].

    The result has (size − 1)·stride − padding + dilation·(taps − 1) + output_padding + 1 rows and columns.

    >>> import tensor as tn
    >>> tn.conv_transpose2d(tn.ones((1, 2, 3, 3)), tn.ones((2, 1, 2, 2)), stride=2).shape
    (1, 1, 6, 6)
    """
    return _transposed("conv_transpose2d", 2, x, weight, bias, stride, padding, output_padding, dilation, groups)


def conv_transpose1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`conv_transpose2d` over one dimension.

    >>> import tensor as tn
    >>> tn.conv_transpose1d(tn.asarray([[[1., 2.]]]), tn.asarray([[[1., 10.]]])).tolist()
    [[[1.0, 12.0, 20.0]]]
    """
    return _transposed("conv_transpose1d", 1, x, weight, bias, stride, padding, output_padding, dilation, groups)

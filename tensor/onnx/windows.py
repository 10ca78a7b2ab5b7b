"""Convolutions and pooling over any number of dimensions; one and two of them run on the engine's own kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensor as tn
from tensor.onnx.elementwise import cast, is_float, like
from tensor.onnx.node import Node, operator, require_places
from tensor.onnx.shapes import pad_by

__all__ = ["convolved", "geometry", "patches"]

Tensor = Any
Pads = list[tuple[int, int]]


def geometry(node: Node, shape: Sequence[int], taps: Sequence[int]) -> tuple[list[int], list[int], Pads]:
    """Strides, dilations and pads of a node over the spatial sizes of its input."""
    rank = len(shape)
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    numbers = node.get("pads", [0] * (2 * rank))
    for what, given, count in (("strides", strides, rank), ("dilations", dilations, rank), ("pads", numbers, 2 * rank)):
        if len(given) != count:
            raise ValueError(f"{what} must be {count} numbers, got {given}")
    if min(strides, default=1) < 1 or min(dilations, default=1) < 1 or min(taps, default=1) < 1:
        raise ValueError(f"strides, dilations and windows start at 1, got {strides}, {dilations}, {list(taps)}")
    pads = list(zip(numbers[:rank], numbers[rank:], strict=True))
    auto = node.get("auto_pad", "NOTSET")
    if auto == "VALID":
        pads = [(0, 0)] * rank
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = []
        for n, k, s, d in zip(shape, taps, strides, dilations, strict=True):
            more = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            less = more // 2
            pads.append((less, more - less) if auto == "SAME_UPPER" else (more - less, less))
    return strides, dilations, pads


def patches(
    x: Tensor, taps: Sequence[int], strides: Sequence[int], dilations: Sequence[int], counts: Sequence[int]
) -> Tensor:
    """The windows of a padded x [n, c, …]: [n, c, windows of each dimension …, taps of each dimension …]."""
    rank = len(taps)
    for i, (k, s, d, count) in enumerate(zip(taps, strides, dilations, counts, strict=True)):
        require_places(count, k)
        places = [w * s + t * d for w in range(count) for t in range(k)]
        axis = 2 + 2 * i
        x = tn.take(x, tn.asarray(places, dtype=tn.int64), axis=axis)
        x = x.reshape((*x.shape[:axis], count, k, *x.shape[axis + 1 :]))
    order = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))
    return tn.permute_dims(x, order)


def _counts(shape: Sequence[int], taps: Any, strides: Any, dilations: Any, pads: Pads, ceil_mode: bool) -> list[int]:
    found = []
    for n, k, s, d, (before, after) in zip(shape, taps, strides, dilations, pads, strict=True):
        room = n + before + after - d * (k - 1) - 1
        if room < 0:
            raise ValueError(f"a window of {k} (dilation {d}) does not fit {n} elements padded by {before} and {after}")
        count = room // s + 1
        if ceil_mode and room % s and count * s < n + before:
            count += 1
        found.append(count)
    return found


def convolved(
    x: Tensor, weight: Tensor, bias: Tensor | None, strides: Any, dilations: Any, pads: Pads, groups: int
) -> Tensor:
    """The convolution of x [n, c, …] with weight [outputs, c / groups, …]."""
    rank = x.ndim - 2
    if rank in (1, 2):
        convolve = tn.conv1d if rank == 1 else tn.conv2d
        return convolve(x, weight, bias, stride=strides, padding=pads, dilation=dilations, groups=groups)
    taps = weight.shape[2:]
    counts = _counts(x.shape[2:], taps, strides, dilations, pads, False)
    padded = pad_by(x, [(0, 0), (0, 0), *pads])
    windows = patches(padded, taps, strides, dilations, counts)
    n, channels, each = x.shape[0], x.shape[1] // groups, weight.shape[0] // groups
    spread = windows.reshape((n, groups, channels, math.prod(counts), math.prod(taps)))
    columns = spread.permute((0, 1, 3, 2, 4)).reshape((n, groups, math.prod(counts), channels * math.prod(taps)))
    rows = weight.reshape((groups, each, channels * math.prod(taps)))
    y = tn.matmul(columns, tn.matrix_transpose(rows)).permute((0, 1, 3, 2)).reshape((n, groups * each, *counts))
    return y if bias is None else y + bias.reshape((-1, *(1,) * rank))


@operator("Conv")
def _conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor = None) -> Tensor:
    strides, dilations, pads = geometry(node, x.shape[2:], weight.shape[2:])
    return convolved(x, weight, bias, strides, dilations, pads, node.get("group", 1))


def _transpose_pads(node: Node, shape: Sequence[int], taps: Sequence[int], more: Sequence[int]) -> Pads:
    strides, dilations, pads = geometry(node, shape, taps)
    output = node.get("output_shape")
    auto = node.get("auto_pad", "NOTSET")
    if output is None and auto in ("NOTSET", "VALID"):
        return pads
    rank = len(shape)
    wanted = [n * s for n, s in zip(shape, strides, strict=True)] if output is None else output[-rank:]
    pads = []
    for n, k, s, d, e, size in zip(shape, taps, strides, dilations, more, wanted, strict=True):
        total = s * (n - 1) + e + (k - 1) * d + 1 - size
        half = total // 2
        pads.append((half, total - half) if auto == "SAME_UPPER" else (total - half, half))
    return pads


@operator("ConvTranspose")
def _conv_transpose(node: Node, x: Tensor, weight: Tensor, bias: Tensor = None) -> Tensor:
    rank, taps, groups = x.ndim - 2, weight.shape[2:], node.get("group", 1)
    strides, dilations, _ = geometry(node, x.shape[2:], taps)
    more = node.get("output_padding", [0] * rank)
    pads = _transpose_pads(node, x.shape[2:], taps, more)
    if rank in (1, 2) and all(p >= 0 for pair in pads for p in pair):
        convolve = tn.conv_transpose1d if rank == 1 else tn.conv_transpose2d
        return convolve(
            x,
            weight,
            bias,
            stride=strides,
            padding=pads,
            output_padding=more,
            dilation=dilations,
            groups=groups,
        )
    widths: Pads = [(0, 0), (0, 0)]
    for axis, (s, k, d, e, (before, after)) in enumerate(zip(strides, taps, dilations, more, pads, strict=True), 2):
        size = x.shape[axis]
        x = tn.pad(tn.expand_dims(x, axis=axis + 1), [(0, s - 1 if a == axis + 1 else 0) for a in range(x.ndim + 1)])
        x = x.reshape((*x.shape[:axis], size * s, *x.shape[axis + 2 :]))
        reach = d * (k - 1)
        widths.append((reach - before, reach - after + e - (s - 1)))
    channels, each = weight.shape[0] // groups, weight.shape[1]
    turned = tn.flip(weight, axis=tuple(range(2, weight.ndim))).reshape((groups, channels, each, *taps))
    turned = tn.moveaxis(turned, 1, 2).reshape((groups * each, channels, *taps))
    return convolved(pad_by(x, widths), turned, bias, [1] * rank, dilations, [(0, 0)] * rank, groups)


# --- pooling ---------------------------------------------------------------------------------------------------------


def _windows(node: Node, x: Tensor, value: Any) -> tuple[Tensor, Tensor, list[int], Any]:
    """Windows of x padded by a value, the same of a mask of what is x, how many there are, taps, and the geometry."""
    taps = node.require("kernel_shape")
    strides, dilations, pads = geometry(node, x.shape[2:], taps)
    counts = _counts(x.shape[2:], taps, strides, dilations, pads, bool(node.get("ceil_mode", 0)))
    widths: Pads = [(0, 0), (0, 0)]
    for n, k, s, d, (before, after), count in zip(x.shape[2:], taps, strides, dilations, pads, counts, strict=True):
        widths.append((before, max(after, (count - 1) * s + d * (k - 1) + 1 - n - before)))
    padded = pad_by(x, widths, value)
    inside = tn.ones((1, 1, *x.shape[2:]), dtype=tn.float32)
    room = [(0, 0), (0, 0), *pads]
    if node.get("count_include_pad", 0):
        inside = pad_by(inside, room, 1)
        rest: Pads = [(0, wide[1] - pad[1]) for wide, pad in zip(widths, room, strict=True)]
        inside = pad_by(inside, rest)
    else:
        inside = pad_by(inside, widths)
    both = (patches(padded, taps, strides, dilations, counts), patches(inside, taps, strides, dilations, counts))
    flat = tuple(p.reshape((*p.shape[: 2 + len(taps)], -1)) for p in both)
    return flat[0], flat[1], counts, (taps, strides, dilations, pads)


def _on_kernels(node: Node, x: Tensor) -> dict[str, Any] | None:
    """The arguments of the engine's own pooling, where it covers the node's rank, type and padding."""
    rank = x.ndim - 2
    if rank not in (1, 2) or not is_float(x) or node.get("ceil_mode", 0):
        return None
    taps = node.require("kernel_shape")
    strides, dilations, pads = geometry(node, x.shape[2:], taps)
    if any(max(pair) > d * (k - 1) // 2 for pair, d, k in zip(pads, dilations, taps, strict=True)):
        return None
    return {"stride": strides, "padding": pads, "dilation": dilations}


@operator("AveragePool")
def _average_pool(node: Node, x: Tensor) -> Tensor:
    plain = _on_kernels(node, x)
    if plain is not None and set(plain.pop("dilation")) == {1}:
        pool = tn.avg_pool1d if x.ndim == 3 else tn.avg_pool2d
        include = bool(node.get("count_include_pad", 0))
        return pool(x, node.require("kernel_shape"), count_include_pad=include, **plain)
    values, inside, _, _ = _windows(node, x, 0)
    wide = cast(values, tn.float32) if x.dtype.itemsize < 4 else values
    return cast(tn.sum(wide, axis=-1) / cast(tn.sum(inside, axis=-1), wide.dtype), x.dtype)


@operator("LpPool")
def _lp_pool(node: Node, x: Tensor) -> Tensor:
    p = node.get("p", 2)
    values, _, _, _ = _windows(node, x, 0)
    return tn.pow(tn.sum(tn.pow(tn.abs(values), like(p, x)), axis=-1), like(1 / p, x))


@operator("MaxPool")
def _max_pool(node: Node, x: Tensor) -> Any:
    plain = _on_kernels(node, x)
    if plain is not None and len(node.outputs) == 1:
        return (tn.max_pool1d if x.ndim == 3 else tn.max_pool2d)(x, node.require("kernel_shape"), **plain)
    lowest = float("-inf") if is_float(x) else tn.iinfo(x.dtype).min
    values, _, counts, (taps, strides, dilations, pads) = _windows(node, x, lowest)
    best = tn.max(values, axis=-1)
    if len(node.outputs) < 2:
        return best
    tap = cast(tn.argmax(values, axis=-1), tn.int64)
    rank, place, step, rest = len(taps), tn.zeros((), dtype=tn.int64), 1, tap
    column_major = bool(node.get("storage_order", 0))
    parts = []
    for i in reversed(range(rank)):
        start = tn.arange(counts[i], dtype=tn.int64) * strides[i] - pads[i][0]
        shape = tuple(counts[i] if a == i else 1 for a in range(rank))
        parts.append((i, start.reshape(shape) + (rest % taps[i]) * dilations[i]))
        rest = rest // taps[i]
    for i, part in reversed(parts) if column_major else parts:
        place = place + part * step
        step *= x.shape[2 + i]
    planes = tn.arange(x.shape[0] * x.shape[1], dtype=tn.int64).reshape((*x.shape[:2], *(1,) * rank))
    return best, place + planes * math.prod(x.shape[2:])


@operator("MaxUnpool")
def _max_unpool(node: Node, x: Tensor, places: Tensor, output: Tensor = None) -> Tensor:
    rank = x.ndim - 2
    taps = node.require("kernel_shape")
    strides, numbers = node.get("strides", [1] * rank), node.get("pads", [0] * (2 * rank))
    tight = [
        (n - 1) * s + k - numbers[i] - numbers[rank + i]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, taps, strict=True))
    ]
    shape = (*x.shape[:2], *tight)
    flat = tn.zeros((math.prod(shape),), dtype=x.dtype)
    y = tn.scatter(flat, 0, places.reshape((-1,)), x.reshape((-1,))).reshape(shape)
    if output is None:
        return y
    return pad_by(y, [(0, int(wanted) - n) for wanted, n in zip(output.tolist(), y.shape, strict=True)])


@operator("GlobalAveragePool")
def _global_average(node: Node, x: Tensor) -> Tensor:
    return tn.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def _global_max(node: Node, x: Tensor) -> Tensor:
    return tn.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalLpPool")
def _global_lp(node: Node, x: Tensor) -> Tensor:
    p = node.get("p", 2)
    total = tn.sum(tn.pow(tn.abs(x), like(p, x)), axis=tuple(range(2, x.ndim)), keepdims=True)
    return tn.pow(total, like(1 / p, x))


@operator("Col2Im")
def _col2im(node: Node, x: Tensor, image: Tensor, block: Tensor) -> Tensor:
    size, taps = [int(n) for n in image.tolist()], [int(n) for n in block.tolist()]
    strides, dilations, pads = geometry(node, size, taps)
    counts = _counts(size, taps, strides, dilations, pads, False)
    padded = [n + a + b for n, (a, b) in zip(size, pads, strict=True)]
    n, channels = x.shape[0], x.shape[1] // math.prod(taps)
    places = tn.arange(math.prod(padded), dtype=tn.int64).reshape((1, 1, *padded))
    where = patches(places, taps, strides, dilations, counts)  # [1, 1, windows …, taps …]
    rank = len(size)
    where = where.permute((*range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank), 0, 1)).reshape((-1,))
    columns = x.reshape((n * channels, -1))
    index = tn.broadcast_to(where, columns.shape)
    y = tn.scatter_add(tn.zeros((n * channels, math.prod(padded)), dtype=x.dtype), 1, index, columns)
    y = y.reshape((n, channels, *padded))
    return pad_by(y, [(0, 0), (0, 0), *((-a, -b) for a, b in pads)])

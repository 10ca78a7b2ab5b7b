"""Operators that move elements without computing: shapes, slices, joins, padding."""

from __future__ import annotations

import math
from typing import Any

import tensor as tn
from tensor.onnx.elementwise import cast
from tensor.onnx.node import Node, operator

__all__ = ["axes_of", "ints", "pad_by"]

Tensor = Any


def ints(x: Tensor) -> list[int]:
    """The numbers of a tensor of ints, flat."""
    return [int(v) for v in x.reshape((-1,)).tolist()]


def axes_of(axes: Any, ndim: int) -> tuple[int, ...]:
    """Axes from a tensor, a list or a number, counted from the front; IndexError for others."""
    found = ints(axes) if isinstance(axes, tn.Tensor) else [axes] if isinstance(axes, int) else list(axes)
    if any(not -ndim <= a < max(ndim, 1) for a in found):
        raise IndexError(f"axes {found} are not all of a tensor with {ndim} dimensions")
    return tuple(a % ndim if ndim else a for a in found)


@operator("Reshape")
def _reshape(node: Node, x: Tensor, shape: Tensor = None) -> Tensor:
    wanted = node.get("shape") if shape is None else ints(shape)
    if not node.get("allowzero", 0):
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return x.reshape(tuple(wanted))


@operator("Flatten")
def _flatten(node: Node, x: Tensor) -> Tensor:
    axis = node.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Transpose")
def _transpose(node: Node, x: Tensor) -> Tensor:
    return tn.permute_dims(x, tuple(node.get("perm", range(x.ndim)[::-1])))


@operator("Squeeze")
def _squeeze(node: Node, x: Tensor, axes: Tensor = None) -> Tensor:
    axes = node.get("axes", axes)
    chosen = [i for i, n in enumerate(x.shape) if n == 1] if axes is None else axes_of(axes, x.ndim)
    return tn.squeeze(x, tuple(chosen))


@operator("Unsqueeze")
def _unsqueeze(node: Node, x: Tensor, axes: Tensor = None) -> Tensor:
    axes = node.get("axes", axes)
    count = len(axes) if isinstance(axes, list) else axes.size
    chosen = axes_of(axes, x.ndim + count)
    kept = iter(x.shape)
    return x.reshape(tuple(1 if i in chosen else next(kept) for i in range(x.ndim + count)))


@operator("Shape")
def _shape(node: Node, x: Tensor) -> Tensor:
    return tn.asarray(list(x.shape)[node.get("start", 0) : node.get("end")], dtype=tn.int64)


@operator("Size")
def _size(node: Node, x: Tensor) -> Tensor:
    return tn.asarray(x.size, dtype=tn.int64)


@operator("Concat")
def _concat(node: Node, *inputs: Tensor) -> Tensor:
    return tn.concat(inputs, axis=node.get("axis", 1))


@operator("Split")
def _split(node: Node, x: Tensor, sizes: Tensor = None) -> tuple[Tensor, ...]:
    axis = node.get("axis", 0)
    wanted = node.get("split") if sizes is None else ints(sizes)
    if wanted is None:
        size, count = x.shape[axis], node.get("num_outputs", len(node.outputs))
        if not 1 <= count <= max(size, 1):
            raise ValueError(f"{size} elements cannot be split into {count} parts")
        each = -(-size // count)
        wanted = [min(each, size - i * each) for i in range(count)]
    return tuple(tn.split(x, wanted, axis=axis))


@operator("Slice")
def _slice(
    node: Node, x: Tensor, starts: Tensor = None, ends: Tensor = None, axes: Tensor = None, steps: Tensor = None
) -> Tensor:
    first = node.get("starts") if starts is None else ints(starts)
    last = node.get("ends") if ends is None else ints(ends)
    chosen = node.get("axes", axes)
    places = range(len(first)) if chosen is None else axes_of(chosen, x.ndim)
    strides = [1] * len(first) if steps is None else ints(steps)
    cuts = [slice(None)] * x.ndim
    for axis, start, end, step in zip(places, first, last, strides, strict=True):
        n = x.shape[axis]
        begin = start + n if start < 0 else start
        stop = end + n if end < 0 else end
        if step < 0:
            begin, stop = min(max(begin, -1), n - 1), min(max(stop, -1), n - 1)
            cuts[axis] = slice(begin, None if stop < 0 else stop, step) if begin >= 0 else slice(0, 0)
        else:
            cuts[axis] = slice(min(max(begin, 0), n), min(max(stop, 0), n), step)
    return x[tuple(cuts)]


@operator("Expand")
def _expand(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    return tn.broadcast_to(x, tn.broadcast_shapes(x.shape, tuple(ints(shape))))


@operator("Tile")
def _tile(node: Node, x: Tensor, repeats: Tensor) -> Tensor:
    return tn.tile(x, tuple(ints(repeats)))


def pad_by(x: Tensor, widths: list[tuple[int, int]], value: Any = 0) -> Tensor:
    """x with elements of a value around it; negative widths cut."""
    x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, widths, strict=True))]
    grown = [(max(a, 0), max(b, 0)) for a, b in widths]
    return tn.pad(x, grown, value=value) if any(a or b for a, b in grown) else x


def _reflected(n: int, before: int, after: int, mode: str) -> list[int]:
    """Indices that fill a padded axis from its own elements."""
    if mode == "edge":
        return [min(max(i, 0), n - 1) for i in range(-before, n + after)]
    if mode == "wrap":
        return [i % n for i in range(-before, n + after)]
    period = max(2 * (n - 1), 1)
    places = [i % period for i in range(-before, n + after)]
    return [i if i < n else period - i for i in places]


@operator("Pad")
def _pad(node: Node, x: Tensor, pads: Tensor = None, value: Tensor = None, axes: Tensor = None) -> Tensor:
    numbers = node.get("pads", node.get("paddings")) if pads is None else ints(pads)
    chosen = range(x.ndim) if axes is None else axes_of(axes, x.ndim)
    half = len(numbers) // 2
    widths = [(0, 0)] * x.ndim
    for axis, before, after in zip(chosen, numbers[:half], numbers[half:], strict=True):
        widths[axis] = (before, after)
    mode = node.get("mode", "constant")
    if mode == "constant":
        return pad_by(x, widths, node.get("value", 0) if value is None else value.item())
    for axis, (before, after) in enumerate(widths):
        if before or after:
            if x.shape[axis] == 0:
                raise ValueError(f"axis {axis} has no element to repeat")
            places = _reflected(x.shape[axis], before, after, mode)
            x = tn.take(x, tn.asarray(places, dtype=tn.int64), axis=axis)
    return x


@operator("DepthToSpace")
def _depth_to_space(node: Node, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = node.require("blocksize")
    if node.get("mode", "DCR") == "DCR":
        y = x.reshape((n, b, b, c // (b * b), h, w)).permute((0, 3, 4, 1, 5, 2))
    else:
        y = x.reshape((n, c // (b * b), b, b, h, w)).permute((0, 1, 4, 2, 5, 3))
    return y.reshape((n, c // (b * b), h * b, w * b))


@operator("SpaceToDepth")
def _space_to_depth(node: Node, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = node.require("blocksize")
    order = (0, 3, 5, 1, 2, 4) if node.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    y = x.reshape((n, c, h // b, b, w // b, b)).permute(order)
    return y.reshape((n, c * b * b, h // b, w // b))


@operator("Trilu")
def _trilu(node: Node, x: Tensor, k: Tensor = None) -> Tensor:
    shift = 0 if k is None else int(k.item())
    shift = min(max(shift, -(2**31)), 2**31)
    return tn.triu(x, k=shift) if node.get("upper", 1) else tn.tril(x, k=shift)


@operator("CenterCropPad")
def _center_crop_pad(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    widths = [(0, 0)] * x.ndim
    for axis, wanted in zip(axes_of(node.get("axes", range(x.ndim)), x.ndim), ints(shape), strict=True):
        more = wanted - x.shape[axis]
        before = more // 2 if more >= 0 else -(-more // 2)
        widths[axis] = (before, more - before)
    return pad_by(x, widths)


@operator("ReverseSequence")
def _reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    batch, time = node.get("batch_axis", 1), node.get("time_axis", 0)
    steps = x.shape[time]
    rows = []
    for i, length in enumerate(ints(lengths)):
        order = [length - 1 - t if t < length else t for t in range(steps)]
        line = x[tuple(slice(i, i + 1) if a == batch else slice(None) for a in range(x.ndim))]
        rows.append(tn.take(line, tn.asarray(order, dtype=tn.int64), axis=time))
    return tn.concat(rows, axis=batch)


@operator("OneHot")
def _one_hot(node: Node, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    count = int(depth.reshape((-1,))[0].item())
    axis = node.get("axis", -1)
    axis = axis + indices.ndim + 1 if axis < 0 else axis
    places = cast(indices, tn.int64)
    places = tn.where(places < 0, places + count, places)
    shape = [1] * (indices.ndim + 1)
    shape[axis] = count
    hit = tn.expand_dims(places, axis=axis) == tn.arange(count, dtype=tn.int64).reshape(tuple(shape))
    return tn.where(hit, values[1], values[0])

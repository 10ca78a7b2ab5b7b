"""Operators that sample pictures between their elements, and those on boxes."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import tensor as tn
from tensor.onnx.elementwise import cast, is_float, like
from tensor.onnx.node import Node, operator, require_places
from tensor.onnx.windows import geometry

__all__: list[str] = []

Tensor = Any


def _cubic(t: float, a: float) -> float:
    """Keys' kernel of cubic convolution (1981)."""
    t = abs(t)
    if t <= 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a if t < 2 else 0.0


# --- Resize ----------------------------------------------------------------------------------------------------------


def _origin(mode: str, x: int, n: int, output: int, scale: float, roi: tuple[float, float]) -> float:
    """The coordinate in the input, of n elements, that the output's element x is taken from."""
    wide = scale * n
    if mode == "align_corners":
        return 0.0 if wide == 1 else x * (n - 1) / (wide - 1)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_crop_and_resize":
        span = (roi[1] - roi[0]) * (n - 1)
        return roi[0] * (n - 1) + (span / 2 if output == 1 else x * span / (output - 1))
    if mode == "pytorch_half_pixel" and output == 1:
        return -0.5
    if mode == "half_pixel_symmetric":
        return n / 2 * (1 - output / wide) + (x + 0.5) / scale - 0.5
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (x + 0.5) / scale - 0.5
    raise ValueError(f"the engine has no coordinate_transformation_mode {mode}")


def _nearest(x: float, mode: str) -> int:
    if mode == "floor":
        return math.floor(x)
    if mode == "ceil":
        return math.ceil(x)
    return math.ceil(x - 0.5) if mode == "round_prefer_floor" else math.floor(x + 0.5)


def _taps(node: Node, x: float, n: int, scale: float) -> list[float]:
    """The weights of the input's n elements at a coordinate."""
    weights = [0.0] * n
    mode = node.get("mode", "nearest")
    if mode == "nearest":
        weights[min(max(_nearest(x, node.get("nearest_mode", "round_prefer_floor")), 0), n - 1)] = 1.0
        return weights
    squeeze = min(scale, 1.0) if node.get("antialias", 0) else 1.0
    a = node.get("cubic_coeff_a", -0.75)
    reach = math.ceil((1 if mode == "linear" else 2) / squeeze)
    total = 0.0
    for place in range(math.floor(x) - reach, math.floor(x) + reach + 2):
        t = (place - x) * squeeze
        weight = max(1 - abs(t), 0.0) if mode == "linear" else _cubic(t, a)
        if node.get("exclude_outside", 0) and not 0 <= place < n:
            continue
        weights[min(max(place, 0), n - 1)] += weight
        total += weight
    return [w / total for w in weights]


def _resized(node: Node, x: Tensor, axis: int, size: int, scale: float, roi: tuple[float, float]) -> Tensor:
    """x with `size` elements along an axis."""
    n, mode = x.shape[axis], node.get("coordinate_transformation_mode", "half_pixel")
    if n == size and scale == 1 and mode != "tf_crop_and_resize":
        return x
    if n == 0 or size == 0:
        raise ValueError(f"axis {axis} cannot go from {n} elements to {size}")
    require_places(size, n)
    places = [_origin(mode, i, n, size, scale, roi) for i in range(size)]
    matrix = tn.asarray([_taps(node, p, n, scale) for p in places], dtype=x.dtype)
    y = tn.moveaxis(tn.matmul(tn.moveaxis(x, axis, -1), tn.matrix_transpose(matrix)), -1, axis)
    if mode != "tf_crop_and_resize":
        return y
    inside = tn.asarray([0 <= p <= n - 1 for p in places]).reshape((-1, *(1,) * (x.ndim - 1 - axis)))
    return tn.where(inside, y, like(node.get("extrapolation_value", 0.0), y))


def _sizes(node: Node, x: Tensor, axes: list[int], scales: Tensor, sizes: Tensor) -> tuple[list[float], list[int]]:
    shape = [x.shape[a] for a in axes]
    if sizes is None or sizes.size == 0:
        factors = [float(s) for s in scales.tolist()]
        return factors, [math.floor(n * s) for n, s in zip(shape, factors, strict=True)]
    wanted = [int(s) for s in sizes.tolist()]
    factors = [s / n for n, s in zip(shape, wanted, strict=True)]
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        factors = [factor] * len(axes)
        wanted = [math.floor(factor * n + 0.5) for n in shape]
    return factors, wanted


@operator("Resize")
def _resize(node: Node, x: Tensor, roi: Tensor = None, scales: Tensor = None, sizes: Tensor = None) -> Tensor:
    if node.version < 11:
        return _upsample(node, x, roi)
    axes = [a % x.ndim for a in node.get("axes", list(range(x.ndim)))]
    factors, wanted = _sizes(node, x, axes, scales, sizes)
    if not all(s > 0 for s in factors):
        raise ValueError(f"scales are above 0, got {factors}")
    corners = [0.0] * len(axes) + [1.0] * len(axes) if roi is None or roi.size == 0 else roi.tolist()
    wide = x if x.dtype.name in ("float32", "float64") else cast(x, tn.float32)
    for i, (axis, size, scale) in enumerate(zip(axes, wanted, factors, strict=True)):
        wide = _resized(node, wide, axis, size, scale, (corners[i], corners[i + len(axes)]))
    if is_float(x):
        return cast(wide, x.dtype)
    bounds = tn.iinfo(x.dtype)
    return cast(tn.clip(tn.round(wide), float(bounds.min), float(bounds.max)), x.dtype)


@operator("Upsample")
def _upsample(node: Node, x: Tensor, scales: Tensor = None) -> Tensor:
    factors = node.get("scales") if scales is None else [float(s) for s in scales.tolist()]
    mode = node.get("mode", "nearest")
    rules = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "mode": mode}
    inner = Node("Resize", "", 11, node.name, (), (), rules)
    for axis, (n, scale) in enumerate(zip(x.shape, factors, strict=True)):
        x = _resized(inner, x, axis, math.floor(n * scale), scale, (0.0, 1.0))
    return x


# --- sampling at any place -------------------------------------------------------------------------------------------


def _inside(place: Tensor, n: int, padding: str, align: bool) -> tuple[Tensor, Tensor]:
    """Whole places brought into 0 … n − 1, and which of them count."""
    valid = tn.logical_and(place >= 0, place < n)
    if padding == "zeros":
        return tn.clip(place, 0, n - 1), valid
    everywhere = tn.full(place.shape, True)
    if padding == "border":
        return tn.clip(place, 0, n - 1), everywhere
    if align:
        period = max(2 * (n - 1), 1)
        turned = place % period
        return tn.where(turned < n, turned, period - turned), everywhere
    turned = place % (2 * n)
    return tn.where(turned < n, turned, 2 * n - 1 - turned), everywhere


def _tap_weights(x: Tensor, mode: str) -> list[tuple[Tensor, Tensor]]:
    """(whole place, weight) of the elements around coordinates."""
    if mode == "nearest":
        return [(cast(tn.round(x), tn.int64), like(1, x))]
    base = tn.floor(x)
    t = x - base
    whole = cast(base, tn.int64)
    if mode == "linear":
        return [(whole, 1 - t), (whole + 1, t)]
    a = -0.75
    near = [((a + 2) * u - (a + 3)) * u * u + 1 for u in (t, 1 - t)]
    far = [((a * u - 5 * a) * u + 8 * a) * u - 4 * a for u in (t + 1, 2 - t)]
    return [(whole - 1, far[0]), (whole, near[0]), (whole + 1, near[1]), (whole + 2, far[1])]


def _sampled(x: Tensor, coordinates: list[Tensor], mode: str, padding: str, align: bool) -> Tensor:
    """x [n, c, …] at coordinates, one [n, points] for each of its last dimensions: [n, c, points]."""
    shape = x.shape[2:]
    flat = x.reshape((*x.shape[:2], math.prod(shape)))
    choices = [_tap_weights(c, mode) for c in coordinates]
    total = None
    for corner in product(*choices):
        place, weight = tn.zeros((), dtype=tn.int64), like(1, x)
        for (whole, part), n in zip(corner, shape, strict=True):
            found, valid = _inside(whole, n, padding, align)
            place = place * n + found
            weight = weight * cast(tn.where(valid, tn.broadcast_to(part, valid.shape), like(0, part)), x.dtype)
        index = tn.broadcast_to(tn.expand_dims(place, axis=1), (*x.shape[:2], place.shape[1]))
        term = tn.take_along_axis(flat, index, axis=2) * tn.expand_dims(weight, axis=1)
        total = term if total is None else total + term
    return total


@operator("GridSample")
def _grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    align = bool(node.get("align_corners", 0))
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(node.get("mode", "linear"), node.get("mode", "linear"))
    if mode not in ("nearest", "linear", "cubic"):
        raise ValueError(f"the engine has no mode {mode}")
    coordinates = []
    for i, n in enumerate(x.shape[2:]):
        g = grid[..., grid.shape[-1] - 1 - i].reshape((grid.shape[0], -1))
        coordinates.append((g + 1) / 2 * (n - 1) if align else ((g + 1) * n - 1) / 2)
    y = _sampled(x, coordinates, mode, node.get("padding_mode", "zeros"), align)
    return y.reshape((*x.shape[:2], *grid.shape[1:-1]))


@operator("AffineGrid")
def _affine_grid(node: Node, theta: Tensor, size: Tensor) -> Tensor:
    shape = [int(n) for n in size.tolist()][2:]
    align = node.get("align_corners", 0)
    lines = []
    for n in shape:
        require_places(n)
        step = [2 * i / max(n - 1, 1) - 1 if align else (2 * i + 1) / n - 1 for i in range(n)]
        lines.append(tn.asarray(step, dtype=theta.dtype))
    grids = [g.reshape((-1,)) for g in tn.meshgrid(*lines, indexing="ij")][::-1]
    points = tn.stack((*grids, tn.ones(grids[0].shape, dtype=theta.dtype)), axis=0)
    y = tn.matmul(theta, points)  # [n, dimensions, points]
    return tn.matrix_transpose(y).reshape((theta.shape[0], *shape, len(shape)))


@operator("DeformConv")
def _deform_conv(
    node: Node, x: Tensor, weight: Tensor, offset: Tensor, bias: Tensor = None, mask: Tensor = None
) -> Tensor:
    taps = weight.shape[2:]
    strides, dilations, pads = geometry(node, x.shape[2:], taps)
    groups, sets = node.get("group", 1), node.get("offset_group", 1)
    n, channels, tap_count = x.shape[0], x.shape[1], math.prod(taps)
    counts = offset.shape[2:]
    moved = offset.reshape((n, sets, tap_count, len(taps), math.prod(counts)))
    require_places(*taps, *counts)
    starts = list(product(*(range(k) for k in taps)))
    places = list(product(*(range(c) for c in counts)))
    columns = []
    for s in range(sets):
        coordinates = []
        for i in range(len(taps)):
            fixed = [[p[i] * strides[i] - pads[i][0] + k[i] * dilations[i] for p in places] for k in starts]
            at = moved[:, s, :, i, :] + tn.asarray(fixed, dtype=x.dtype)
            coordinates.append(at.reshape((n, -1)))
        each = channels // sets
        found = _sampled(x[:, s * each : (s + 1) * each], coordinates, "linear", "zeros", False)
        if mask is not None:
            parts = mask.reshape((n, sets, 1, tap_count * math.prod(counts)))
            found = found * parts[:, s]
        columns.append(found.reshape((n, each, tap_count, math.prod(counts))))
    wide = tn.concat(columns, axis=1).reshape((n, groups, channels // groups * tap_count, math.prod(counts)))
    rows = weight.reshape((groups, weight.shape[0] // groups, -1))
    y = tn.matmul(rows, wide).reshape((n, weight.shape[0], *counts))
    return y if bias is None else y + bias.reshape((-1, *(1,) * len(taps)))


def _line_weights(start: float, step: float, count: int, grid: int, n: int) -> list[list[float]]:
    """The weights of n elements at `grid` places in each of `count` bins."""
    require_places(count, max(grid, 0), n)
    rows = []
    for bin_, i in product(range(count), range(grid)):
        y = start + bin_ * step + (i + 0.5) * step / grid
        row = [0.0] * n
        if -1 <= y <= n:
            y = min(max(y, 0.0), n - 1.0)
            low = min(int(y), n - 1)
            row[low] += 1 - (y - low)
            row[min(low + 1, n - 1)] += y - low
        rows.append(row)
    return rows


@operator("RoiAlign")
def _roi_align(node: Node, x: Tensor, rois: Tensor, batches: Tensor) -> Tensor:
    high, wide = node.get("output_height", 1), node.get("output_width", 1)
    scale, ratio = node.get("spatial_scale", 1.0), node.get("sampling_ratio", 0)
    half = node.version >= 16 and node.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    shift = 0.5 if half else 0.0
    results = []
    for (x1, y1, x2, y2), batch in zip(rois.tolist(), batches.tolist(), strict=True):
        sizes = [(b - a) * scale if half else max((b - a) * scale, 1.0) for a, b in ((y1, y2), (x1, x2))]
        grids = [ratio if ratio > 0 else math.ceil(s / n) for s, n in zip(sizes, (high, wide), strict=True)]
        lines = [
            tn.asarray(_line_weights(a * scale - shift, s / n, n, g, m), dtype=x.dtype)
            for a, s, n, g, m in zip((y1, x1), sizes, (high, wide), grids, x.shape[2:], strict=True)
        ]
        values = tn.matmul(tn.matmul(lines[0], x[batch]), tn.matrix_transpose(lines[1]))
        values = values.reshape((x.shape[1], high, grids[0], wide, grids[1]))
        combine = tn.max if node.get("mode", "avg") == "max" else tn.mean
        results.append(combine(values, axis=(2, 4)))
    return tn.stack(results, axis=0) if results else tn.zeros((0, x.shape[1], high, wide), dtype=x.dtype)


def _corners(box: list[float], centred: bool) -> tuple[float, float, float, float]:
    if centred:
        x, y, w, h = box
        return y - h / 2, x - w / 2, y + h / 2, x + w / 2
    a, b, c, d = box
    return min(a, c), min(b, d), max(a, c), max(b, d)


def _overlap(p: tuple[float, ...], q: tuple[float, ...]) -> float:
    """Intersection over union of two boxes."""
    common = max(min(p[2], q[2]) - max(p[0], q[0]), 0.0) * max(min(p[3], q[3]) - max(p[1], q[1]), 0.0)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (p, q)]
    return common / (sum(areas) - common) if common else 0.0


@operator("NonMaxSuppression")
def _suppressed(
    node: Node, boxes: Tensor, scores: Tensor, most: Tensor = None, limit: Tensor = None, least: Tensor = None
) -> Tensor:
    count = 0 if most is None else int(most.reshape((-1,))[0].item())
    overlap = 0.0 if limit is None else limit.reshape((-1,))[0].item()
    threshold = None if least is None else least.reshape((-1,))[0].item()
    found: list[list[int]] = []
    for i, (rows, classes) in enumerate(zip(boxes.tolist(), scores.tolist(), strict=True)):
        corners = [_corners(b, bool(node.get("center_point_box", 0))) for b in rows]
        for j, line in enumerate(classes):
            kept: list[int] = []
            for cost, k in sorted((-score, k) for k, score in enumerate(line)):
                if len(kept) >= count or (threshold is not None and -cost <= threshold):
                    break
                if all(_overlap(corners[k], corners[other]) <= overlap for other in kept):
                    kept.append(k)
            found += [[i, j, k] for k in kept]
    return tn.asarray(found, dtype=tn.int64) if found else tn.zeros((0, 3), dtype=tn.int64)

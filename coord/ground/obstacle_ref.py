"""Twin of kernels/obstacle.cpp: which points and which segments an obstacle blocks. Float32, one rounding a step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coord.ground.obstacle import BOX, CIRCLE, F32, Shapes

Mask = NDArray[np.bool_]
_ZERO = np.float32(0)


def _length(dx: F32, dy: F32) -> F32:
    return np.sqrt(dx * dx + dy * dy)


def point_to_segment(px: F32, py: F32, ax: F32, ay: F32, bx: F32, by: F32) -> F32:
    """Distance of p from the segment a–b."""
    vx, vy = bx - ax, by - ay
    wx, wy = px - ax, py - ay
    along = wx * vx + wy * vy
    whole = vx * vx + vy * vy
    inside = (along > _ZERO) & (along < whole)
    t = along / np.where(inside, whole, np.float32(1))
    qx, qy = ax + t * vx, ay + t * vy
    ex = np.where(along <= _ZERO, ax, np.where(inside, qx, bx))
    ey = np.where(along <= _ZERO, ay, np.where(inside, qy, by))
    return _length(px - ex, py - ey)


def segments_cross(ax: F32, ay: F32, bx: F32, by: F32, cx: F32, cy: F32, dx: F32, dy: F32) -> Mask:
    """Whether a–b and c–d cross or touch, by the signs of four orientations; collinear segments do not count."""
    vx, vy = bx - ax, by - ay
    ux, uy = dx - cx, dy - cy
    o1 = vx * (cy - ay) - vy * (cx - ax)
    o2 = vx * (dy - ay) - vy * (dx - ax)
    o3 = ux * (ay - cy) - uy * (ax - cx)
    o4 = ux * (by - cy) - uy * (bx - cx)
    first = ((o1 >= _ZERO) & (o2 <= _ZERO)) | ((o1 <= _ZERO) & (o2 >= _ZERO))
    second = ((o3 >= _ZERO) & (o4 <= _ZERO)) | ((o3 <= _ZERO) & (o4 >= _ZERO))
    collinear = (o1 == _ZERO) & (o2 == _ZERO) & (o3 == _ZERO) & (o4 == _ZERO)
    crossing: Mask = first & second & ~collinear
    return crossing


def point_in_ring(px: F32, py: F32, ring: F32) -> Mask:
    """Even-odd rule over the edges (i, i - 1)."""
    inside = np.zeros(px.shape, np.bool_)
    for i in range(len(ring)):
        xi, yi = ring[i]
        xj, yj = ring[i - 1]
        straddles = (yi > py) != (yj > py)
        rise = yj - yi
        at = (xj - xi) * (py - yi) / (rise if rise != _ZERO else np.float32(1)) + xi
        inside ^= straddles & (px < at)
    return inside


def _corners(shapes: Shapes, o: int) -> F32:
    if shapes.kind[o] == BOX:
        left, right = shapes.x[o] - shapes.half_x[o], shapes.x[o] + shapes.half_x[o]
        low, high = shapes.y[o] - shapes.half_y[o], shapes.y[o] + shapes.half_y[o]
        return np.array([[left, low], [right, low], [right, high], [left, high]], np.float32)
    first, count = int(shapes.first[o]), int(shapes.count[o])
    return shapes.corners[first : first + count]


def _point_distance(px: F32, py: F32, shapes: Shapes, o: int) -> F32:
    if shapes.kind[o] == CIRCLE:
        return _length(px - shapes.x[o], py - shapes.y[o])
    if shapes.kind[o] == BOX:
        ex = np.maximum(np.abs(px - shapes.x[o]) - shapes.half_x[o], _ZERO)
        ey = np.maximum(np.abs(py - shapes.y[o]) - shapes.half_y[o], _ZERO)
        return _length(ex, ey)
    ring = _corners(shapes, o)
    nearest = np.full(px.shape, np.inf, np.float32)
    for i in range(len(ring)):
        nearest = np.minimum(nearest, point_to_segment(px, py, ring[i - 1][0], ring[i - 1][1], ring[i][0], ring[i][1]))
    return np.where(point_in_ring(px, py, ring), _ZERO, nearest)


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def blocked_points(px: F32, py: F32, shapes: Shapes) -> Mask:
    """Whether each point lies at distance ≤ reach of any obstacle (inclusive)."""
    blocked = np.zeros(px.shape, np.bool_)
    for o in range(len(shapes)):
        blocked |= _point_distance(px, py, shapes, o) <= shapes.reach[o]
    return blocked


def _segment_distance(ax: F32, ay: F32, bx: F32, by: F32, shapes: Shapes, o: int) -> F32:
    if shapes.kind[o] == CIRCLE:
        return point_to_segment(shapes.x[o], shapes.y[o], ax, ay, bx, by)
    nearest = np.minimum(_point_distance(ax, ay, shapes, o), _point_distance(bx, by, shapes, o))
    ring = _corners(shapes, o)
    for i in range(len(ring)):
        cx, cy = ring[i - 1]
        dx, dy = ring[i]
        nearest = np.minimum(nearest, point_to_segment(cx, cy, ax, ay, bx, by))
        nearest = np.where(segments_cross(ax, ay, bx, by, cx, cy, dx, dy), _ZERO, nearest)
    return nearest


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def blocked_segments(ax: F32, ay: F32, bx: F32, by: F32, shapes: Shapes) -> Mask:
    """Whether each segment a–b comes within reach of any obstacle (inclusive).

    An obstacle whose bounding box, widened by reach, misses the segment's box is passed over: part of the definition.
    """
    blocked = np.zeros(np.broadcast_shapes(ax.shape, bx.shape), np.bool_)
    ax, ay, bx, by = np.broadcast_arrays(ax, ay, bx, by)
    west, east = np.minimum(ax, bx), np.maximum(ax, bx)
    south, north = np.minimum(ay, by), np.maximum(ay, by)
    for o in range(len(shapes)):
        left, low, right, high = _bounds(shapes, o)
        near = (west <= right) & (east >= left) & (south <= high) & (north >= low)
        if near.any():
            blocked |= near & (_segment_distance(ax, ay, bx, by, shapes, o) <= shapes.reach[o])
    return blocked


def _bounds(shapes: Shapes, o: int) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    reach = shapes.reach[o]
    if shapes.kind[o] == CIRCLE:
        x, y = shapes.x[o], shapes.y[o]
        return x - reach, y - reach, x + reach, y + reach
    ring = _corners(shapes, o)
    return (
        ring[:, 0].min() - reach,
        ring[:, 1].min() - reach,
        ring[:, 0].max() + reach,
        ring[:, 1].max() + reach,
    )

"""The twin of splat/kernels/project.cpp: the definition of how splats become ellipses in the picture.

A visible splat is one record of sixteen float32:

| item | meaning |
|---|---|
| 0, 1 | mean in the picture, pixels |
| 2, 3, 4 | a, b, c: (log2 e)/2 · dᵀ Σ⁻¹ d = (a·dy)² + (b·dx + c·dy)² |
| 5 | log2 of the opacity |
| 6, 7, 8 | red, green, blue, not negative |
| 9 | depth t_z |
| 10 | limit of (a·dy)² + (b·dx + c·dy)² beyond which no pixel reaches alpha_min, roundings included |
| 11 | dy / dx of the best point on a vertical line |
| 12, 13 | bits: first column | end column << 16; first row | end row << 16, of the pixels it may reach |
| 14 | bits: its index in the scene |

How far it reaches: with L = log2(opacity / alpha_min), a pixel counts where the computed (a·dy)² + (b·dx + c·dy)² does
not exceed L. Its error: a, b, c are good to 2^-22 of themselves and each product and difference to 2^-24, so the two
parts differ from the exact ones by less than e = 2^-20·(a + |b| + |c|)·d, where d ≥ |dx| + |dy|; the part of L that the
last additions round away is below 2^-13. The box and the limit are widened by these amounts. Where e exceeds 1/4 (an
ellipse 10^5 times as long as wide, or blur 0), the box is the whole picture and the limit infinite: what counts is
decided at the pixel alone, so neither has any part in a pixel's value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensor.elementary_ref import LOG2E32, canonical, exp_f32, log_f32
from tensor.float_mode import plain_mode
from tensor.fma_ref import fma_f32

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
Mask = NDArray[np.bool_]

RECORD = 16
with plain_mode():  # the host may have another one at the import
    K, INVERSE_K = np.float32(0.8493218), np.float32(1.1774100)  # √((log2 e)/2) and its inverse
    C0 = np.float32(0.28209479177387814)
    C1, C4, C6, C8 = (
        np.float32(c) for c in (0.4886025119029199, 1.0925484305920792, 0.31539156525252005, 0.5462742152960396)
    )
    C9, C10, C11 = (np.float32(c) for c in (0.5900435899266435, 2.890611442640554, 0.4570457994644658))
    C12, C14 = np.float32(0.3731763325901154), np.float32(1.445305721320277)
INF = np.float32(np.inf)


@dataclass(frozen=True)
class View:
    """Camera and settings as the projection takes them; numbers are float32 (splat/projection.py makes them)."""

    numbers: F32  # [26]: rotation 9, translation 3, fx fy cx cy, centre 3, bounds of the slopes 4, near, blur, faintest
    width: int
    height: int
    antialias: bool
    tile_log2: int


class Tally(NamedTuple):
    """What became of the splats, and how many pairs of splat and tile there are."""

    visible: int
    near: int
    not_finite: int
    degenerate: int
    faint: int
    outside: int
    pairs: int


def _lower(a: F32 | np.float32, b: F32 | np.float32) -> F32:
    return np.where(a < b, a, b)


def _upper(a: F32 | np.float32, b: F32 | np.float32) -> F32:
    return np.where(b < a, a, b)


def _clamp(x: F32, low: np.float32, high: np.float32) -> F32:
    return _lower(_upper(x, low), high)


def _finite(*values: F32) -> Mask:
    all_finite: Mask = np.logical_and.reduce([np.isfinite(v) for v in values])
    return all_finite


def basis(x: F32, y: F32, z: F32, count: int) -> list[F32]:
    """Spherical harmonics 1 … count − 1 of unit directions (3DGS order and signs; specification: docs/rendering.md)."""
    out: list[F32] = []
    if count >= 4:
        out += [-(C1 * y), C1 * z, -(C1 * x)]
    if count >= 9:
        xx, yy, zz = x * x, y * y, z * z
        total, less, two_zz = xx + yy, xx - yy, zz + zz
        out += [C4 * (x * y), -(C4 * (y * z)), C6 * (two_zz - total), -(C4 * (x * z)), C8 * less]
    if count >= 16:
        three = np.float32(3)
        four_zz = fma_f32(np.float32(4), zz, -total)
        out += [
            -(C9 * (y * fma_f32(three, xx, -yy))),
            C10 * ((x * y) * z),
            -(C11 * (y * four_zz)),
            C12 * (z * fma_f32(-three, total, two_zz)),
            -(C11 * (x * four_zz)),
            C14 * (z * less),
            -(C9 * (x * fma_f32(-three, yy, xx))),
        ]
    return out


def project(means: F32, log_scales: F32, quats: F32, opacities: F32, sh: F32, view: View) -> tuple[F32, Tally]:
    """Records [m, 16] of the visible splats, in the order of the scene, and the tally of all."""
    with np.errstate(all="ignore"):
        return _project(means, log_scales, quats, opacities, sh, view)


def _columns(array: F32) -> list[F32]:
    return [np.ascontiguousarray(column) for column in array.T]


def _before_camera(view: View, mean: list[F32], r: int) -> F32:
    """Coordinate r of the means before the camera."""
    w, (x, y, z) = view.numbers[3 * r : 3 * r + 3], mean
    return fma_f32(w[0], x, fma_f32(w[1], y, fma_f32(w[2], z, view.numbers[9 + r])))


class _Footprint(NamedTuple):
    """Mean in the picture, covariance before it is widened, and its determinant."""

    mean_x: F32
    mean_y: F32
    xx: F32
    yy: F32
    xy: F32
    det: F32


def _footprint(view: View, mean: list[F32], log_scales: F32, quats: F32, tz: F32) -> _Footprint:
    v = view.numbers
    w, (fx, fy, cx, cy) = v[:9], v[12:16]
    one = np.float32(1)
    inverse_z = one / tz
    u, s = _before_camera(view, mean, 0) * inverse_z, _before_camera(view, mean, 1) * inverse_z
    uc, sc = _clamp(u, v[19], v[20]), _clamp(s, v[21], v[22])
    ax, ay, az = (fma_f32(-uc, w[6 + k], w[k]) for k in range(3))
    bx, by, bz = (fma_f32(-sc, w[6 + k], w[3 + k]) for k in range(3))

    # The rotation of a quaternion of any length.
    qw, qx, qy, qz = _columns(quats)
    twice = np.float32(2) / fma_f32(qw, qw, fma_f32(qx, qx, fma_f32(qy, qy, qz * qz)))
    sx, sy, sz = qx * twice, qy * twice, qz * twice
    xx, xy, xz, yy, yz, zz = qx * sx, qx * sy, qx * sz, qy * sy, qy * sz, qz * sz
    wx, wy, wz = qw * sx, qw * sy, qw * sz
    jx, jy = fx * inverse_z, fy * inverse_z

    def axis(log_scale: F32, r0: F32, r1: F32, r2: F32) -> tuple[F32, F32]:
        deviation = exp_f32(log_scale)
        p = fma_f32(ax, r0, fma_f32(ay, r1, az * r2)) * (jx * deviation)
        q = fma_f32(bx, r0, fma_f32(by, r1, bz * r2)) * (jy * deviation)
        return p, q

    scales = _columns(log_scales)
    p0, q0 = axis(scales[0], one - (yy + zz), xy + wz, xz - wy)
    p1, q1 = axis(scales[1], xy - wz, one - (xx + zz), yz + wx)
    p2, q2 = axis(scales[2], xz + wy, yz - wx, one - (xx + yy))
    # |p × q|² (Cauchy and Binet): of a long thin splat xx·yy and xy² agree in all their digits
    m0, m1, m2 = fma_f32(p1, q2, -(p2 * q1)), fma_f32(p2, q0, -(p0 * q2)), fma_f32(p0, q1, -(p1 * q0))
    return _Footprint(
        mean_x=fma_f32(fx, u, cx),
        mean_y=fma_f32(fy, s, cy),
        xx=fma_f32(p0, p0, fma_f32(p1, p1, p2 * p2)),
        yy=fma_f32(q0, q0, fma_f32(q1, q1, q2 * q2)),
        xy=fma_f32(p0, q0, fma_f32(p1, q1, p2 * q2)),
        det=fma_f32(m0, m0, fma_f32(m1, m1, m2 * m2)),
    )


def _reach(span: F32, a: F32, b: F32, c: F32, mean: tuple[F32, F32], variance: tuple[F32, F32]) -> tuple[F32, F32, F32]:
    """Limit and half-widths, as the head of this module says; span = log2(opacity / alpha_min)."""
    reach = np.sqrt(span + np.float32(2.0**-13))
    root_xx, root_yy = np.sqrt(variance[0]), np.sqrt(variance[1])
    far = (reach + np.float32(1)) * INVERSE_K
    error = ((np.abs(b) + np.abs(c)) + a) * (fma_f32(far, root_xx + root_yy, np.float32(2)) * np.float32(2.0**-20))
    exact = error <= np.float32(0.25)
    edge = fma_f32(np.float32(4), error, reach)
    wider = fma_f32(np.float32(2), error, reach) * INVERSE_K

    def half(root: F32, at: F32) -> F32:
        h = wider * root
        return np.where(exact, h + fma_f32(np.float32(2.0**-16), h + np.abs(at), np.float32(2.0**-7)), INF)

    return np.where(exact, edge * edge, INF), half(root_xx, mean[0]), half(root_yy, mean[1])


def _pixel(at: F32, size: int) -> U32:
    """The first pixel whose centre does not lie before `at`, within the picture."""
    inside = _clamp(np.floor(at + np.float32(0.5)), np.float32(0), np.float32(size))
    return np.where(np.isnan(inside), np.float32(0), inside).astype(np.uint32)


def _colour(view: View, mean: list[F32], sh: F32) -> F32:  # [n, 3], not clamped
    count = sh.shape[1]
    colour = fma_f32(C0, sh[:, 0], np.float32(0.5))
    if count > 1:
        dx, dy, dz = (mean[k] - view.numbers[16 + k] for k in range(3))
        inverse = np.float32(1) / np.sqrt(fma_f32(dx, dx, fma_f32(dy, dy, dz * dz)))
        for k, lit in enumerate(basis(dx * inverse, dy * inverse, dz * inverse, count), 1):
            colour = fma_f32(lit[:, np.newaxis], sh[:, k], colour)
    return colour


def _tiles(first: U32, end: U32, tile_log2: int) -> U32:
    shift, unit = np.uint32(tile_log2), np.uint32(1)
    return ((end - unit) >> shift) - (first >> shift) + unit


def _project(means: F32, log_scales: F32, quats: F32, opacities: F32, sh: F32, view: View) -> tuple[F32, Tally]:
    near, blur, faintest = view.numbers[23:]
    mean = _columns(means)
    left: Mask = np.ones(len(means), np.bool_)
    others = dict.fromkeys(("not_finite", "near", "degenerate", "faint", "outside"), 0)

    def keep(good: Mask, what: str) -> None:
        others[what] += int(np.count_nonzero(left & ~good))
        np.logical_and(left, good, out=left)

    tz = _before_camera(view, mean, 2)
    keep(_finite(*mean, *_columns(quats), *_columns(log_scales), opacities), "not_finite")
    keep(tz > near, "near")

    f = _footprint(view, mean, log_scales, quats, tz)
    cov_xx, cov_yy = f.xx + blur, f.yy + blur
    det = fma_f32(blur, (f.xx + f.yy) + blur, f.det)
    opacity = _lower(opacities, np.float32(1))
    if view.antialias:
        opacity = opacity * np.sqrt(_upper(f.det / det, np.float32(2.5e-5)))
    log_opacity = log_f32(opacity) * LOG2E32
    span = log_opacity - faintest
    inverse_yy = np.float32(1) / cov_yy
    a, b = K * np.sqrt(inverse_yy), K * np.sqrt(cov_yy / det)
    c = -(b * (f.xy * inverse_yy))
    keep(_finite(f.mean_x, f.mean_y, cov_xx, cov_yy, f.xy, det), "not_finite")
    keep((det > 0) & _finite(a, b, c), "degenerate")
    keep(span >= 0, "faint")

    limit, half_x, half_y = _reach(span, a, b, c, (f.mean_x, f.mean_y), (cov_xx, cov_yy))
    x0, x1 = _pixel(f.mean_x - half_x, view.width), _pixel(f.mean_x + half_x, view.width)
    y0, y1 = _pixel(f.mean_y - half_y, view.height), _pixel(f.mean_y + half_y, view.height)
    keep((x0 < x1) & (y0 < y1), "outside")
    colour = _colour(view, mean, sh)
    keep(_finite(*_columns(colour)), "not_finite")
    colour = np.where(colour > 0, colour, np.float32(0))
    slope = canonical(-(b * c) / fma_f32(a, a, c * c))

    index = np.flatnonzero(left).astype(np.uint32)
    records = np.zeros((len(index), RECORD), np.float32)
    columns = (f.mean_x, f.mean_y, a, b, c, log_opacity, *_columns(colour), tz, limit, slope)
    for i, column in enumerate(columns):
        records[:, i] = column[index]
    x0, x1, y0, y1 = x0[index], x1[index], y0[index], y1[index]
    words = records.view(np.uint32)
    words[:, 12], words[:, 13], words[:, 14] = x0 | x1 << np.uint32(16), y0 | y1 << np.uint32(16), index
    pairs = _tiles(x0, x1, view.tile_log2).astype(np.uint64) * _tiles(y0, y1, view.tile_log2)
    return records, Tally(visible=len(index), pairs=int(pairs.sum(dtype=np.uint64)), **others)

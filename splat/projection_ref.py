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
from tensor.fma_ref import fma_f32

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
Mask = NDArray[np.bool_]

RECORD = 16
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


def _difference(x: F32, y: F32, z: F32) -> F32:
    """x·y − z², each product's rounding carried along."""
    w = z * z
    rest = fma_f32(z, z, -w)
    return fma_f32(x, y, -w) - rest


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


def _project(means: F32, log_scales: F32, quats: F32, opacities: F32, sh: F32, view: View) -> tuple[F32, Tally]:
    v = view.numbers
    w, t, (fx, fy, cx, cy), centre = v[:9], v[9:12], v[12:16], v[16:19]
    x_low, x_high, y_low, y_high, near, blur, faintest = v[19:]
    x, y, z = (np.ascontiguousarray(column) for column in means.T)
    qw, qx, qy, qz = (np.ascontiguousarray(column) for column in quats.T)
    scales = [np.ascontiguousarray(column) for column in log_scales.T]
    one, zero = np.float32(1), np.float32(0)
    left = _finite(x, y, z, qw, qx, qy, qz, *scales, opacities)
    not_finite = np.count_nonzero(~left)

    def row(r: int) -> F32:
        return fma_f32(w[3 * r], x, fma_f32(w[3 * r + 1], y, fma_f32(w[3 * r + 2], z, t[r])))

    tz = row(2)
    behind = left & ~(tz > near)
    left &= ~behind

    inverse_z = one / tz
    u, s = row(0) * inverse_z, row(1) * inverse_z
    mean_x, mean_y = fma_f32(fx, u, cx), fma_f32(fy, s, cy)
    uc, sc = _clamp(u, x_low, x_high), _clamp(s, y_low, y_high)
    ax, ay, az = (fma_f32(-uc, w[6 + k], w[k]) for k in range(3))
    bx, by, bz = (fma_f32(-sc, w[6 + k], w[3 + k]) for k in range(3))

    # The rotation of a quaternion of any length.
    twice = np.float32(2) / fma_f32(qw, qw, fma_f32(qx, qx, fma_f32(qy, qy, qz * qz)))
    sx, sy, sz = qx * twice, qy * twice, qz * twice
    xx, xy, xz, yy, yz, zz = qx * sx, qx * sy, qx * sz, qy * sy, qy * sz, qz * sz
    wx, wy, wz = qw * sx, qw * sy, qw * sz
    jx, jy = fx * inverse_z, fy * inverse_z

    def axis(scale: F32, r0: F32, r1: F32, r2: F32) -> tuple[F32, F32]:
        deviation = exp_f32(scale)
        p = fma_f32(ax, r0, fma_f32(ay, r1, az * r2)) * (jx * deviation)
        q = fma_f32(bx, r0, fma_f32(by, r1, bz * r2)) * (jy * deviation)
        return p, q

    p0, q0 = axis(scales[0], one - (yy + zz), xy + wz, xz - wy)
    p1, q1 = axis(scales[1], xy - wz, one - (xx + zz), yz + wx)
    p2, q2 = axis(scales[2], xz + wy, yz - wx, one - (xx + yy))
    plain_xx = fma_f32(p0, p0, fma_f32(p1, p1, p2 * p2))
    plain_yy = fma_f32(q0, q0, fma_f32(q1, q1, q2 * q2))
    cov_xy = fma_f32(p0, q0, fma_f32(p1, q1, p2 * q2))
    cov_xx, cov_yy = plain_xx + blur, plain_yy + blur
    det = _difference(cov_xx, cov_yy, cov_xy)
    opacity = _lower(opacities, one)
    if view.antialias:
        ratio = _difference(plain_xx, plain_yy, cov_xy) / det
        opacity = opacity * np.sqrt(_upper(ratio, np.float32(2.5e-5)))
    log_opacity = log_f32(opacity) * LOG2E32
    span = log_opacity - faintest
    broken = left & ~_finite(mean_x, mean_y, cov_xx, cov_yy, cov_xy, det)
    not_finite += np.count_nonzero(broken)
    left &= ~broken

    inverse_yy = one / cov_yy
    a, b = K * np.sqrt(inverse_yy), K * np.sqrt(cov_yy / det)
    c = -(b * (cov_xy * inverse_yy))
    flat = left & ~((det > 0) & _finite(a, b, c))
    left &= ~flat
    dim = left & ~(span >= 0)
    left &= ~dim

    reach = np.sqrt(span + np.float32(2.0**-13))
    root_xx, root_yy = np.sqrt(cov_xx), np.sqrt(cov_yy)
    far = (reach + one) * INVERSE_K
    error = ((np.abs(b) + np.abs(c)) + a) * (fma_f32(far, root_xx + root_yy, np.float32(2)) * np.float32(2.0**-20))
    exact = error <= np.float32(0.25)
    edge = fma_f32(np.float32(4), error, reach)
    limit = np.where(exact, edge * edge, INF)
    wider = fma_f32(np.float32(2), error, reach) * INVERSE_K

    def half(root: F32, mean: F32) -> F32:
        h = wider * root
        return np.where(exact, h + fma_f32(np.float32(2.0**-16), h + np.abs(mean), np.float32(2.0**-7)), INF)

    half_x, half_y = half(root_xx, mean_x), half(root_yy, mean_y)
    slope = canonical(-(b * c) / fma_f32(a, a, c * c))

    def pixel(at: F32, size: int) -> U32:
        inside = _clamp(np.floor(at + np.float32(0.5)), zero, np.float32(size))
        return np.where(np.isnan(inside), zero, inside).astype(np.uint32)

    x0, x1 = pixel(mean_x - half_x, view.width), pixel(mean_x + half_x, view.width)
    y0, y1 = pixel(mean_y - half_y, view.height), pixel(mean_y + half_y, view.height)
    missed = left & ~((x0 < x1) & (y0 < y1))
    left &= ~missed

    count = sh.shape[1]
    colour = fma_f32(C0, sh[:, 0], np.float32(0.5))  # [n, 3]
    if count > 1:
        dx, dy, dz = x - centre[0], y - centre[1], z - centre[2]
        inverse = one / np.sqrt(fma_f32(dx, dx, fma_f32(dy, dy, dz * dz)))
        for k, lit in enumerate(basis(dx * inverse, dy * inverse, dz * inverse, count), 1):
            colour = fma_f32(lit[:, np.newaxis], sh[:, k], colour)
    mad = left & ~np.isfinite(colour).all(axis=1)
    not_finite += np.count_nonzero(mad)
    left &= ~mad
    colour = np.where(colour > 0, colour, zero)

    index = np.flatnonzero(left).astype(np.uint32)
    records = np.zeros((len(index), RECORD), np.float32)
    columns = (mean_x, mean_y, a, b, c, log_opacity, colour[:, 0], colour[:, 1], colour[:, 2], tz, limit, slope)
    for i, column in enumerate(columns):
        records[:, i] = column[index]
    words = records.view(np.uint32)
    x0, x1, y0, y1 = x0[index], x1[index], y0[index], y1[index]
    words[:, 12], words[:, 13], words[:, 14] = x0 | x1 << np.uint32(16), y0 | y1 << np.uint32(16), index
    shift, unit = np.uint32(view.tile_log2), np.uint32(1)
    wide = ((x1 - unit) >> shift) - (x0 >> shift) + unit
    tall = ((y1 - unit) >> shift) - (y0 >> shift) + unit
    pairs = int((wide.astype(np.uint64) * tall).sum(dtype=np.uint64))
    return records, Tally(
        visible=len(index),
        near=int(np.count_nonzero(behind)),
        not_finite=int(not_finite),
        degenerate=int(np.count_nonzero(flat)),
        faint=int(np.count_nonzero(dim)),
        outside=int(np.count_nonzero(missed)),
        pairs=pairs,
    )

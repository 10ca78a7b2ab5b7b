// Splats become ellipses in the picture; the twin is splat/projection_ref.py.
#include "bounds.hpp"
#include "droveway/fpenv.hpp"
#include "droveway/math_f32.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kBatch = 64;  // splats whose columns are laid side by side before sixteen of them are computed at once
enum Column { kX, kY, kZ, kScale0, kScale1, kScale2, kQuatW, kQuatX, kQuatY, kQuatZ, kOpacity, kColumns };
enum Field { kMeanX, kMeanY, kA, kB, kC, kLog, kRed, kGreen, kBlue, kDepth, kLimit, kSlope, kBoxX, kBoxY, kIndex, kNone };

using F = F32x16;

struct Batch {
  float column[kColumns][kBatch];
};

void lay_out(const Splats& s, size_t first, size_t count, Batch& b) {
  const float *mean = s.means + 3 * first, *scale = s.log_scales + 3 * first, *quat = s.quats + 4 * first;
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < 3; ++k) b.column[kX + k][i] = mean[3 * i + k];
    for (size_t k = 0; k < 3; ++k) b.column[kScale0 + k][i] = scale[3 * i + k];
    for (size_t k = 0; k < 4; ++k) b.column[kQuatW + k][i] = quat[4 * i + k];
    b.column[kOpacity][i] = s.opacities[first + i];
  }
  for (size_t i = count; i < kBatch && i < ((count + 15) & ~size_t(15)); ++i)
    for (size_t k = 0; k < kColumns; ++k) b.column[k][i] = 0.0f;
}

// 0 where all of v are finite, else NaN.
template <class... V>
DW_INLINE F unless_finite(V... v) {
  F sum = F::zero();
  ((sum = fma(v, F::zero(), sum)), ...);
  return sum;
}
DW_INLINE M32x16 is_zero(F v) { return eq(v, F::zero()); }

// Values of the basis functions in sixteen directions.
struct Lit {
  float basis[16][kLanes];
};

// Spherical harmonics of directions (x, y, z), as far as `count` coefficients need them.
DW_INLINE void basis(F x, F y, F z, size_t count, Lit& lit) {
  auto put = [&](int k, F v) DW_LAMBDA { store(lit.basis[k], v); };
  if (count < 4) return;
  const F c1 = F::set1(0.4886025119029199f);
  put(1, -(c1 * y));
  put(2, c1 * z);
  put(3, -(c1 * x));
  if (count < 9) return;
  const F xx = x * x, yy = y * y, zz = z * z, sum = xx + yy, less = xx - yy, two_zz = zz + zz;
  const F c4 = F::set1(1.0925484305920792f);
  put(4, c4 * (x * y));
  put(5, -(c4 * (y * z)));
  put(6, F::set1(0.31539156525252005f) * (two_zz - sum));
  put(7, -(c4 * (x * z)));
  put(8, F::set1(0.5462742152960396f) * less);
  if (count < 16) return;
  const F three = F::set1(3.0f), c9 = F::set1(0.5900435899266435f), c11 = F::set1(0.4570457994644658f);
  const F four_zz = fma(F::set1(4.0f), zz, -sum);
  put(9, -(c9 * (y * fma(three, xx, -yy))));
  put(10, F::set1(2.890611442640554f) * ((x * y) * z));
  put(11, -(c11 * (y * four_zz)));
  put(12, F::set1(0.3731763325901154f) * (z * fma(-three, sum, two_zz)));
  put(13, -(c11 * (x * four_zz)));
  put(14, F::set1(1.445305721320277f) * (z * less));
  put(15, -(c9 * (x * fma(-three, yy, xx))));
}

struct Work {
  const Splats* splats;
  const CameraView* view;
  float* records;
  uint32_t *box, *slot;
  float* z;
  Tally* tallies;
};

struct Splat16 {
  F x, y, z, qw, qx, qy, qz, scale0, scale1, scale2, opacity;
};
Splat16 load16(const Batch& batch, size_t at) {
  auto in = [&](int c) DW_LAMBDA { return F::load(batch.column[c] + at); };
  return {in(kX),     in(kY),     in(kZ),      in(kQuatW),  in(kQuatX),  in(kQuatY),
          in(kQuatZ), in(kScale0), in(kScale1), in(kScale2), in(kOpacity)};
}
// Coordinate r of the mean before the camera.
DW_INLINE F before_camera(const CameraView& v, const Splat16& s, int r) {
  return fma(F::set1(v.w[3 * r]), s.x,
             fma(F::set1(v.w[3 * r + 1]), s.y, fma(F::set1(v.w[3 * r + 2]), s.z, F::set1(v.t[r]))));
}

// Mean in the picture, covariance before it is widened, and its determinant.
struct Footprint {
  F mean_x, mean_y, xx, yy, xy, det;
};
DW_INLINE Footprint footprint(const CameraView& v, const Splat16& s, F tz) {
  const F one = F::set1(1.0f), inverse_z = one / tz;
  const F u = before_camera(v, s, 0) * inverse_z, w = before_camera(v, s, 1) * inverse_z;
  const F uc = clamp(u, F::set1(v.x_low), F::set1(v.x_high)), wc = clamp(w, F::set1(v.y_low), F::set1(v.y_high));
  auto turned = [&](F slope, int r, int k) DW_LAMBDA { return fma(-slope, F::set1(v.w[6 + k]), F::set1(v.w[3 * r + k])); };
  const F ax = turned(uc, 0, 0), ay = turned(uc, 0, 1), az = turned(uc, 0, 2);
  const F bx = turned(wc, 1, 0), by = turned(wc, 1, 1), bz = turned(wc, 1, 2);
  // The rotation of a quaternion of any length.
  const F twice = F::set1(2.0f) / fma(s.qw, s.qw, fma(s.qx, s.qx, fma(s.qy, s.qy, s.qz * s.qz)));
  const F sx = s.qx * twice, sy = s.qy * twice, sz = s.qz * twice;
  const F xx = s.qx * sx, xy = s.qx * sy, xz = s.qx * sz, yy = s.qy * sy, yz = s.qy * sz, zz = s.qz * sz;
  const F wx = s.qw * sx, wy = s.qw * sy, wz = s.qw * sz;
  const F jx = F::set1(v.fx) * inverse_z, jy = F::set1(v.fy) * inverse_z;
  auto axis = [&](F scale, F r0, F r1, F r2, F* p, F* q) DW_LAMBDA {
    const F deviation = exp(scale);
    *p = fma(ax, r0, fma(ay, r1, az * r2)) * (jx * deviation);
    *q = fma(bx, r0, fma(by, r1, bz * r2)) * (jy * deviation);
  };
  F p0, p1, p2, q0, q1, q2;
  axis(s.scale0, one - (yy + zz), xy + wz, xz - wy, &p0, &q0);
  axis(s.scale1, xy - wz, one - (xx + zz), yz + wx, &p1, &q1);
  axis(s.scale2, xz + wy, yz - wx, one - (xx + yy), &p2, &q2);
  // |p × q|² (Cauchy and Binet): of a long thin splat xx·yy and xy² agree in all their digits
  const F m0 = fma(p1, q2, -(p2 * q1)), m1 = fma(p2, q0, -(p0 * q2)), m2 = fma(p0, q1, -(p1 * q0));
  return {fma(F::set1(v.fx), u, F::set1(v.cx)),   fma(F::set1(v.fy), w, F::set1(v.cy)),
          fma(p0, p0, fma(p1, p1, p2 * p2)),      fma(q0, q0, fma(q1, q1, q2 * q2)),
          fma(p0, q0, fma(p1, q1, p2 * q2)),      fma(m0, m0, fma(m1, m1, m2 * m2))};
}

// How far a pixel may lie away that alpha_min still reaches, roundings included: splat/projection_ref.py has the bound.
struct Reach {
  F limit, half_x, half_y;
};
DW_INLINE Reach reach_of(F range, F a, F b, F c, F mean_x, F mean_y, F cov_xx, F cov_yy) {
  const F inverse_k = F::set1(1.1774100f), inf = F::set1(math::kInf);
  const F reach = sqrt(range + F::set1(0x1p-13f)), root_xx = sqrt(cov_xx), root_yy = sqrt(cov_yy);
  const F far = (reach + F::set1(1.0f)) * inverse_k;
  const F error = ((abs(b) + abs(c)) + a) * (fma(far, root_xx + root_yy, F::set1(2.0f)) * F::set1(0x1p-20f));
  const M32x16 exact = le(error, F::set1(0.25f));
  const F edge = fma(F::set1(4.0f), error, reach), wider = fma(F::set1(2.0f), error, reach) * inverse_k;
  auto half = [&](F root, F mean) DW_LAMBDA {
    const F h = wider * root;
    return select(exact, h + fma(F::set1(0x1p-16f), h + abs(mean), F::set1(0x1p-7f)), inf);
  };
  return {select(exact, edge * edge, inf), half(root_xx, mean_x), half(root_yy, mean_y)};
}

// What is written of sixteen splats, lane by lane.
struct Lanes {
  float mean_and_ellipse[6][kLanes], depth[kLanes], limit[kLanes], slope[kLanes];
  uint32_t box_x[kLanes], box_y[kLanes], wide[kLanes], tall[kLanes];
  Lit lit;
};

// The colour of lane l, not clamped. False where it is not finite.
bool colour_of(const Splats& splats, size_t splat, const Lit& lit, int l, float* colour) {
  const float* sh = splats.sh + splat * splats.coefficients * 3;
  for (int ch = 0; ch < 3; ++ch) colour[ch] = fma1(0.28209479177387814f, sh[ch], 0.5f);
  for (size_t i = 1; i < splats.coefficients; ++i)
    for (int ch = 0; ch < 3; ++ch) colour[ch] = fma1(lit.basis[i][l], sh[3 * i + size_t(ch)], colour[ch]);
  return (colour[0] - colour[0]) + (colour[1] - colour[1]) + (colour[2] - colour[2]) == 0.0f;
}

// Records of the lanes in `left`, from place on. Returns how many.
uint32_t write_records(const Work& work, const Lanes& lanes, uint32_t left, size_t first, size_t place, Tally& tally) {
  uint32_t found = 0;
  for (uint32_t rest = left; rest != 0; rest &= rest - 1) {
    const int l = __builtin_ctz(rest);
    float colour[3];
    if (!colour_of(*work.splats, first + size_t(l), lanes.lit, l, colour)) {
      ++tally.not_finite;
      continue;
    }
    const size_t s = place + found++;
    float* r = work.records + s * kRecordFloats;
    for (int f = 0; f < 6; ++f) r[f] = lanes.mean_and_ellipse[f][l];
    for (int ch = 0; ch < 3; ++ch) r[kRed + ch] = colour[ch] > 0.0f ? colour[ch] : 0.0f;
    r[kDepth] = lanes.depth[l];
    r[kLimit] = lanes.limit[l];
    r[kSlope] = lanes.slope[l];
    r[kBoxX] = f32_of(lanes.box_x[l]);
    r[kBoxY] = f32_of(lanes.box_y[l]);
    r[kIndex] = f32_of(uint32_t(first + size_t(l)));
    r[kNone] = 0.0f;
    work.box[2 * s] = lanes.box_x[l];
    work.box[2 * s + 1] = lanes.box_y[l];
    work.slot[s] = uint32_t(s);
    work.z[s] = lanes.depth[l];
    tally.pairs += uint64_t(lanes.wide[l]) * lanes.tall[l];
  }
  return found;
}

// Sixteen splats; the visible ones' records are written from `place` on. Returns how many.
uint32_t sixteen(const Work& work, const Batch& batch, size_t at, size_t first, size_t count, size_t place, Tally& tally) {
  const CameraView& v = *work.view;
  const Splat16 s = load16(batch, at);
  uint32_t left = count < 16 ? (1u << count) - 1u : 0xFFFFu;
  auto keep = [&](M32x16 good, uint64_t& others) {
    const uint32_t out = left & ~lane_bits(good);
    others += uint32_t(__builtin_popcount(out));
    left &= ~out;
  };
  const F tz = before_camera(v, s, 2);
  keep(is_zero(unless_finite(s.x, s.y, s.z, s.qw, s.qx, s.qy, s.qz, s.scale0, s.scale1, s.scale2, s.opacity)),
       tally.not_finite);
  keep(gt(tz, F::set1(v.near)), tally.near);
  if (left == 0) return 0;

  const Footprint f = footprint(v, s, tz);
  const F one = F::set1(1.0f), zero = F::zero(), blur = F::set1(v.blur);
  const F cov_xx = f.xx + blur, cov_yy = f.yy + blur, det = fma(blur, (f.xx + f.yy) + blur, f.det);
  F opacity = lower(s.opacity, one);
  if (v.antialias) opacity = opacity * sqrt(upper(f.det / det, F::set1(2.5e-5f)));
  const F log_opacity = log(opacity) * F::set1(math::kLog2e), range = log_opacity - F::set1(v.faintest);
  // q·(log2 e)/2 = v² + u², v = a·dy, u = b·dx + c·dy: the inverse covariance by Cholesky
  const F k = F::set1(0.8493218f), inverse_yy = one / cov_yy;
  const F a = k * sqrt(inverse_yy), b = k * sqrt(cov_yy / det), c = -(b * (f.xy * inverse_yy));
  keep(is_zero(unless_finite(f.mean_x, f.mean_y, cov_xx, cov_yy, f.xy, det)), tally.not_finite);
  keep(gt(det, zero) & is_zero(unless_finite(a, b, c)), tally.degenerate);
  keep(ge(range, zero), tally.faint);

  const Reach reach = reach_of(range, a, b, c, f.mean_x, f.mean_y, cov_xx, cov_yy);
  auto pixel = [&](F edge, uint32_t size) DW_LAMBDA {
    return to_i32(clamp(floor(edge + F::set1(0.5f)), zero, F::set1(float(size))));
  };
  const U32x16 x0 = pixel(f.mean_x - reach.half_x, v.width), x1 = pixel(f.mean_x + reach.half_x, v.width);
  const U32x16 y0 = pixel(f.mean_y - reach.half_y, v.height), y1 = pixel(f.mean_y + reach.half_y, v.height);
  keep(lt(x0, x1) & lt(y0, y1), tally.outside);
  if (left == 0) return 0;

  Lanes lanes;
  const F values[6] = {f.mean_x, f.mean_y, a, b, c, log_opacity};
  for (int i = 0; i < 6; ++i) store(lanes.mean_and_ellipse[i], values[i]);
  store(lanes.depth, tz);
  store(lanes.limit, reach.limit);
  store(lanes.slope, canonical(-(b * c) / fma(a, a, c * c)));
  store(lanes.box_x, x0 | (x1 << 16));
  store(lanes.box_y, y0 | (y1 << 16));
  auto tiles = [&](U32x16 from, U32x16 end) DW_LAMBDA {
    const int t = int(v.tile_log2);
    return ((end - U32x16::set1(1)) >> t) - (from >> t) + U32x16::set1(1);
  };
  store(lanes.wide, tiles(x0, x1));
  store(lanes.tall, tiles(y0, y1));
  if (work.splats->coefficients > 1) {
    const F dx = s.x - F::set1(v.centre[0]), dy = s.y - F::set1(v.centre[1]), dz = s.z - F::set1(v.centre[2]);
    const F inverse = one / sqrt(fma(dx, dx, fma(dy, dy, dz * dz)));
    basis(dx * inverse, dy * inverse, dz * inverse, work.splats->coefficients, lanes.lit);
  }
  return write_records(work, lanes, left, first, place, tally);
}

void run_block(void* context, size_t block) {
  FpGuard guard;
  const Work& work = *static_cast<const Work*>(context);
  const size_t begin = block * kProjectBlock, n = work.splats->n;
  const size_t end = begin + kProjectBlock < n ? begin + kProjectBlock : n;
  Batch batch;
  Tally tally{};
  size_t found = 0;
  for (size_t first = begin; first < end; first += kBatch) {
    const size_t count = end - first < kBatch ? end - first : kBatch;
    lay_out(*work.splats, first, count, batch);
    for (size_t at = 0; at < count; at += 16) {
      const size_t lanes = count - at < 16 ? count - at : 16;
      found += sixteen(work, batch, at, first + at, lanes, begin + found, tally);
    }
  }
  tally.visible = found;
  work.tallies[block] = tally;
}

}  // namespace

// The tallies of the blocks lie in `slot`, behind what the blocks use of it: nothing here allocates.
Tally project(const Splats& splats, const CameraView& view, float* records, uint32_t* box, uint32_t* slot, float* z,
              Tally* tallies) {
  const size_t blocks = (splats.n + kProjectBlock - 1) / kProjectBlock;
  Work work{&splats, &view, records, box, slot, z, tallies};
  dw_parallel(blocks, run_block, &work);
  Tally sum{};
  for (size_t b = 0; b < blocks; ++b) {
    const Tally& t = tallies[b];
    const size_t from = b * kProjectBlock;
    if (from != sum.visible) {
      memmove(slot + sum.visible, slot + from, t.visible * sizeof *slot);
      memmove(z + sum.visible, z + from, t.visible * sizeof *z);
      memmove(box + 2 * sum.visible, box + 2 * from, t.visible * 2 * sizeof *box);
    }
    sum.visible += t.visible;
    sum.near += t.near;
    sum.not_finite += t.not_finite;
    sum.degenerate += t.degenerate;
    sum.faint += t.faint;
    sum.outside += t.outside;
    sum.pairs += t.pairs;
  }
  return sum;
}

}  // namespace DW_ISA

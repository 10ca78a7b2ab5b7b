// Points sixteen to a group in a given order, under a tree of boxes, sixteen children a node.
//
// Which pairs are near is decided by their own distances; a box passes over points only where the same float32 steps
// prove that none of them is near: subtraction, product and sum round monotonically, so the distance between two boxes
// is at most that of any two of their points. The order therefore never shows in a result, only in the time.
#pragma once
#include "arena.hpp"
#include "droveway/lanes.hpp"
#include "kernels.hpp"

namespace DW_ISA {

inline constexpr int kCrowdLevels = 8;  // 16^8 groups

struct Box16 {
  float x0[16], x1[16], y0[16], y1[16], z0[16], z1[16];
  uint32_t low[16];  // least number of a point below
};

struct Box1 {
  F32x16 x0, x1, y0, y1, z0, z1;  // one box, in every lane
  uint32_t low;
};

// (dx·dx + dy·dy) + dz·dz; without z the last term, an exact +0, is left out.
template <bool flat>
DW_INLINE F32x16 square_distance(F32x16 dx, F32x16 dy, F32x16 dz) {
  const F32x16 plane = dx * dx + dy * dy;
  if constexpr (flat) return plane;
  else return plane + dz * dz;
}
DW_INLINE F32x16 gap(F32x16 a0, F32x16 a1, F32x16 b0, F32x16 b1) {
  const F32x16 left = b0 - a1, right = a0 - b1;
  const F32x16 wider = select(lt(left, right), right, left);
  return select(lt(wider, F32x16::zero()), F32x16::zero(), wider);
}

template <bool flat>
class Crowd {
 public:
  size_t n, groups;
  float *x, *y, *z;  // [16·groups] in order; NaN behind the last
  uint32_t* number;  // [16·groups] which point it is
  Box16* level[kCrowdLevels];  // level 0 has a box for each group
  size_t count[kCrowdLevels];
  int top;

  static size_t bytes(size_t n) {
    const size_t groups = (n + 15) / 16;
    size_t total = 4 * Arena::bytes(groups * 64) + 64;
    for (size_t c = groups, h = 0; h < kCrowdLevels; ++h, c = (c + 15) / 16)
      total += Arena::bytes((c + 15) / 16 * sizeof(Box16));
    return total;
  }

  Crowd(const Points& p, Arena arena) : n(p.n), groups((p.n + 15) / 16), z(nullptr) {
    x = arena.take<float>(16 * groups);
    y = arena.take<float>(16 * groups);
    if constexpr (!flat) z = arena.take<float>(16 * groups);
    number = arena.take<uint32_t>(16 * groups);
    if (p.order == nullptr) {
      memcpy(x, p.x, n * sizeof(float));
      memcpy(y, p.y, n * sizeof(float));
      if constexpr (!flat) memcpy(z, p.z, n * sizeof(float));
      for (size_t i = 0; i < n; ++i) number[i] = uint32_t(i);
    } else {
      for (size_t i = 0; i < n; ++i) {
        const uint32_t from = p.order[i];
        x[i] = p.x[from];
        y[i] = p.y[from];
        if constexpr (!flat) z[i] = p.z[from];
        number[i] = from;
      }
    }
    const float nan = f32_of(kNan32);
    for (size_t i = n; i < 16 * groups; ++i) {
      x[i] = y[i] = nan;
      if constexpr (!flat) z[i] = nan;
      number[i] = 0xFFFFFFFFu;
    }
    size_t entries = groups;
    top = 0;
    for (int h = 0; h < kCrowdLevels; ++h, entries = (entries + 15) / 16) {
      count[h] = entries;
      level[h] = arena.take<Box16>((entries + 15) / 16);
      if (entries > 16) top = h + 1;
    }
    for (size_t g = 0; g < (groups + 15) / 16 * 16; ++g) {
      if (g < groups) enclose(g);
      else clear(level[0][g / 16], g % 16);
    }
    for (int h = 1; h <= top; ++h)
      for (size_t e = 0; e < (count[h] + 15) / 16 * 16; ++e) {
        clear(level[h][e / 16], e % 16);
        if (e < count[h]) gather(level[h][e / 16], e % 16, level[h - 1][e]);
      }
  }

  Box1 box(size_t group) const {
    const Box16& b = level[0][group / 16];
    const size_t l = group % 16;
    return {F32x16::set1(b.x0[l]), F32x16::set1(b.x1[l]), F32x16::set1(b.y0[l]), F32x16::set1(b.y1[l]),
            F32x16::set1(b.z0[l]), F32x16::set1(b.z1[l]), b.low[l]};
  }

  // Square distances from a box to the sixteen boxes of a block, and to the sixteen points of a group.
  DW_INLINE F32x16 to_boxes(const Box1& a, const Box16& b) const {
    F32x16 dz = F32x16::zero();
    if constexpr (!flat) dz = gap(a.z0, a.z1, F32x16::load(b.z0), F32x16::load(b.z1));
    return square_distance<flat>(gap(a.x0, a.x1, F32x16::load(b.x0), F32x16::load(b.x1)),
                                 gap(a.y0, a.y1, F32x16::load(b.y0), F32x16::load(b.y1)), dz);
  }
  DW_INLINE F32x16 to_points(const Box1& a, size_t group) const {
    const F32x16 px = F32x16::load(x + 16 * group), py = F32x16::load(y + 16 * group);
    F32x16 dz = F32x16::zero();
    if constexpr (!flat) {
      const F32x16 pz = F32x16::load(z + 16 * group);
      dz = gap(a.z0, a.z1, pz, pz);
    }
    return square_distance<flat>(gap(a.x0, a.x1, px, px), gap(a.y0, a.y1, py, py), dz);
  }

 private:
  // NaN never wins. Halves are compared with each other, so that the steps do not wait for one another.
  static float least16(const float* p) {
    float v[8];
    for (int i = 0; i < 8; ++i) v[i] = p[i + 8] < p[i] ? p[i + 8] : p[i];
    for (int half = 4; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) v[i] = v[i + half] < v[i] ? v[i + half] : v[i];
    return v[0];
  }
  static float most16(const float* p) {
    float v[8];
    for (int i = 0; i < 8; ++i) v[i] = p[i] < p[i + 8] ? p[i + 8] : p[i];
    for (int half = 4; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) v[i] = v[i] < v[i + half] ? v[i + half] : v[i];
    return v[0];
  }
  void enclose(size_t g) {
    Box16& b = level[0][g / 16];
    const size_t l = g % 16;
    b.x0[l] = least16(x + 16 * g);
    b.x1[l] = most16(x + 16 * g);
    b.y0[l] = least16(y + 16 * g);
    b.y1[l] = most16(y + 16 * g);
    b.z0[l] = b.z1[l] = 0.0f;
    if constexpr (!flat) {
      b.z0[l] = least16(z + 16 * g);
      b.z1[l] = most16(z + 16 * g);
    }
    uint32_t low = number[16 * g];
    for (int i = 1; i < 16; ++i) low = number[16 * g + i] < low ? number[16 * g + i] : low;
    b.low[l] = low;
  }
  static void clear(Box16& b, size_t l) {
    const float inf = __builtin_inff();
    b.x0[l] = b.y0[l] = b.z0[l] = inf;
    b.x1[l] = b.y1[l] = b.z1[l] = -inf;
    b.low[l] = 0xFFFFFFFFu;
  }
  static void gather(Box16& to, size_t l, const Box16& from) {
    to.x0[l] = least16(from.x0);
    to.x1[l] = most16(from.x1);
    to.y0[l] = least16(from.y0);
    to.y1[l] = most16(from.y1);
    to.z0[l] = least16(from.z0);
    to.z1[l] = most16(from.z1);
    for (int i = 0; i < 16; ++i) to.low[l] = from.low[i] < to.low[l] ? from.low[i] : to.low[l];
  }
};

}  // namespace DW_ISA

// Which obstacles a straight way may meet, and which of them block it.
//
// Obstacles lie sixteen to a leaf in Morton order of their bounding boxes, sixteen leaves to a node. docs/planning.md
// passes over an obstacle whose widened box does not meet the way's box, so a leaf or node whose common box does not
// meet it holds none that counts. Nor does one that lies wholly on one side of the way's line, farther from it than every
// rounding of the distance formulas together: those are below 2^-20 of the largest coordinate, 2^-16 and a micrometre are
// kept. In which order the others are tested never shows.
#pragma once
#include "tree.hpp"

namespace DW_ISA {

class WayIndex {
 public:
  static size_t workspace(size_t shapes) {
    return 9 * Arena::bytes(padded(shapes) * 4) + 2 * Arena::bytes((padded(shapes) / 16 + 17) * sizeof(Boxes)) + 256;
  }

  // Without shapes no way is blocked.
  WayIndex(const Shapes* shapes, Arena& arena) : shapes_(shapes) {
    const size_t n = shapes == nullptr ? 0 : shapes->count;
    leaves_ = padded(n) / 16;
    leaf_ = arena.take<Boxes>(leaves_);
    node_ = arena.take<Boxes>(padded(leaves_) / 16);
    if (n == 0) return;
    float *x = arena.take<float>(n), *y = arena.take<float>(n);
    uint32_t* order = arena.take<uint32_t>(n);
    for (size_t o = 0; o < n; ++o) {
      const Rect r = shape_bounds(*shapes, o);
      x[o] = 0.5f * r.x0 + 0.5f * r.x1;
      y[o] = 0.5f * r.y0 + 0.5f * r.y1;
    }
    morton_order(x, y, n, order, arena);
    for (size_t l = 0; l < padded(leaves_); ++l) {
      Rect around = nothing();
      for (size_t i = 16 * l; l < leaves_ && i < 16 * l + 16; ++i) {
        const Rect r = i < n ? shape_bounds(*shapes, order[i]) : nothing();
        leaf_[l].set(i % 16, r, i < n ? order[i] : 0);
        around = {r.x0 < around.x0 ? r.x0 : around.x0, r.y0 < around.y0 ? r.y0 : around.y0,
                  r.x1 > around.x1 ? r.x1 : around.x1, r.y1 > around.y1 ? r.y1 : around.y1};
      }
      node_[l / 16].set(l % 16, around, uint32_t(l < leaves_ ? l : 0));
    }
  }

  const Shapes* shapes() const { return shapes_; }

  // The number of an obstacle that blocks the way from a to b, kDead if none does.
  uint32_t blocker(float ax, float ay, float bx, float by) const {
    Way way{{ax < bx ? ax : bx, ay < by ? ay : by, ax < bx ? bx : ax, ay < by ? by : ay}, ax, ay, bx - ax, by - ay, 0.0f, 0.0f};
    way.length = __builtin_fabsf(way.vx) + __builtin_fabsf(way.vy);
    way.far = farthest(way.box);
    for (size_t n = 0; n < padded(leaves_) / 16; ++n)
      for (uint32_t in = node_[n].met(way); in != 0; in &= in - 1) {
        const Boxes& leaf = leaf_[node_[n].number[__builtin_ctz(in)]];
        for (uint32_t left = leaf.met(way); left != 0; left &= left - 1) {
          const uint32_t o = leaf.number[__builtin_ctz(left)];
          if (shape_within_reach(ax, ay, bx, by, *shapes_, o)) return o;
        }
      }
    return kDead;
  }

 private:
  static constexpr float kShort = 1e-3f;  // the products of shorter ways may be subnormal

  struct Way {
    Rect box;
    float ax, ay, vx, vy, length, far;  // length: the sum of |vx| and |vy|; far: the largest coordinate
  };
  static float farthest(const Rect& r) {
    const float x = __builtin_fabsf(r.x0) < __builtin_fabsf(r.x1) ? __builtin_fabsf(r.x1) : __builtin_fabsf(r.x0);
    const float y = __builtin_fabsf(r.y0) < __builtin_fabsf(r.y1) ? __builtin_fabsf(r.y1) : __builtin_fabsf(r.y0);
    return x < y ? y : x;
  }
  struct Boxes {
    float x0[16], y0[16], x1[16], y1[16], far[16];
    uint32_t number[16];
    void set(size_t i, const Rect& r, uint32_t value) {
      x0[i] = r.x0;
      y0[i] = r.y0;
      x1[i] = r.x1;
      y1[i] = r.y1;
      far[i] = farthest(r);
      number[i] = value;
    }
    uint32_t met(const Way& w) const {
      const F32x16 left = F32x16::load(x0), right = F32x16::load(x1), low = F32x16::load(y0), high = F32x16::load(y1);
      const M32x16 boxes = le(left, F32x16::set1(w.box.x1)) & le(F32x16::set1(w.box.x0), right) &
                           le(low, F32x16::set1(w.box.y1)) & le(F32x16::set1(w.box.y0), high);
      const uint32_t in = lane_bits(boxes);
      if ((in & (in - 1)) == 0 || !(w.length > kShort)) return in;
      const F32x16 half = F32x16::set1(0.5f), x = half * left + half * right, y = half * low + half * high;
      const F32x16 vx = F32x16::set1(w.vx), vy = F32x16::set1(w.vy);
      const F32x16 off = vy * (x - F32x16::set1(w.ax)) - vx * (y - F32x16::set1(w.ay));
      const F32x16 slack = larger(F32x16::load(far), F32x16::set1(w.far)) * F32x16::set1(0x1p-16f) + F32x16::set1(1e-6f);
      const F32x16 wide = (right - x) * larger(vy, -vy) + (high - y) * larger(vx, -vx) + slack * F32x16::set1(w.length);
      return lane_bits(boxes & !lt(wide, larger(off, -off)));
    }
  };
  static Rect nothing() {
    const float inf = __builtin_inff();
    return {inf, inf, -inf, -inf};
  }

  const Shapes* shapes_;
  size_t leaves_;
  Boxes *leaf_, *node_;
};

// The ways of one search. The obstacles that blocked last are tried first, as they mostly block the next way too.
class Blockers {
 public:
  explicit Blockers(const WayIndex* ways) : ways_(ways) {}

  bool block(float ax, float ay, float bx, float by) {
    if (ways_->shapes() == nullptr) return false;
    for (uint32_t r = 0; r < known_; ++r) {
      const Rect& box = box_[r];
      const bool meets = (ax < bx ? ax : bx) <= box.x1 && (ax < bx ? bx : ax) >= box.x0 && (ay < by ? ay : by) <= box.y1 &&
                         (ay < by ? by : ay) >= box.y0;
      if (!meets || !shape_within_reach(ax, ay, bx, by, *ways_->shapes(), recent_[r])) continue;
      const uint32_t last = recent_[r];
      const Rect its = box_[r];
      recent_[r] = recent_[0];
      box_[r] = box_[0];
      recent_[0] = last;
      box_[0] = its;
      return true;
    }
    const uint32_t o = ways_->blocker(ax, ay, bx, by);
    if (o == kDead) return false;
    recent_[1] = recent_[0];
    box_[1] = box_[0];
    recent_[0] = o;
    box_[0] = shape_bounds(*ways_->shapes(), o);
    if (known_ < 2) ++known_;
    return true;
  }
  // True only where one of the last blockers blocks every way from a point of `a` to a point of `b`.
  bool block_all(const Rect& a, const Rect& b) const {
    for (uint32_t r = 0; r < known_; ++r)
      if (shape_blocks_all(a, b, *ways_->shapes(), recent_[r])) return true;
    return false;
  }

 private:
  const WayIndex* ways_;
  uint32_t recent_[2] = {0, 0}, known_ = 0;
  Rect box_[2] = {};  // of the recent ones
};

inline bool path_clear(const Problem& p, Blockers& blockers, size_t a, size_t z) {
  return !blockers.block(p.ax[a], p.ay[a], p.zx[z], p.zy[z]);
}

}  // namespace DW_ISA

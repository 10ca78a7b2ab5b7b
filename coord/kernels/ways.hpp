// Which obstacles a straight way may meet, and which of them block it.
//
// Obstacles lie sixteen to a leaf in Morton order of their bounding boxes, sixteen leaves to a node. docs/planning.md
// passes over an obstacle whose widened box does not meet the way's box, so a leaf or node whose common box does not
// meet it holds none that counts. In which order the others are tested never shows.
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
    const Rect way = {ax < bx ? ax : bx, ay < by ? ay : by, ax < bx ? bx : ax, ay < by ? by : ay};
    for (size_t n = 0; n < padded(leaves_) / 16; ++n)
      for (uint32_t in = node_[n].met(way); in != 0; in &= in - 1) {
        const Boxes& leaf = leaf_[node_[n].number[__builtin_ctz(in)]];
        for (uint32_t left = leaf.met(way); left != 0; left &= left - 1) {
          const uint32_t o = leaf.number[__builtin_ctz(left)];
          if (shape_blocks(ax, ay, bx, by, *shapes_, o)) return o;
        }
      }
    return kDead;
  }

 private:
  struct Boxes {
    float x0[16], y0[16], x1[16], y1[16];
    uint32_t number[16];
    void set(size_t i, const Rect& r, uint32_t value) {
      x0[i] = r.x0;
      y0[i] = r.y0;
      x1[i] = r.x1;
      y1[i] = r.y1;
      number[i] = value;
    }
    uint32_t met(const Rect& w) const {
      return lane_bits(le(F32x16::load(x0), F32x16::set1(w.x1)) & le(F32x16::set1(w.x0), F32x16::load(x1)) &
                       le(F32x16::load(y0), F32x16::set1(w.y1)) & le(F32x16::set1(w.y0), F32x16::load(y1)));
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
      if (!shape_blocks(ax, ay, bx, by, *ways_->shapes(), recent_[r])) continue;
      const uint32_t last = recent_[r];
      recent_[r] = recent_[0];
      recent_[0] = last;
      return true;
    }
    const uint32_t o = ways_->blocker(ax, ay, bx, by);
    if (o == kDead) return false;
    recent_[1] = recent_[0];
    recent_[0] = o;
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
};

inline bool path_clear(const Problem& p, Blockers& blockers, size_t a, size_t z) {
  return !blockers.block(p.ax[a], p.ay[a], p.zx[z], p.zy[z]);
}

}  // namespace DW_ISA

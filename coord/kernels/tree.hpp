// A tree over points in Morton order: sixteen points a leaf, sixteen children a node, so that one pass over sixteen lanes
// looks at a whole leaf or at all children of a node.
//
// A node's entry bounds what its points can offer: their box, largest reach (radius of a zone, speed of an agent),
// largest value (base score; energy), least cost, the capability bits, components and least index. Every step of a
// score is monotone in float32 too, so the same formula on bounds is a bound: it only prunes, exact scores decide.
#pragma once
#include "arena.hpp"
#include "pair.hpp"

namespace DW_ISA {

inline constexpr int kLevels = 8;  // 16^8 points

struct Level {
  size_t count;  // entries
  float *x0, *x1, *y0, *y1, *z0, *z1, *reach, *value, *cost;
  uint32_t *bits, *low, *high, *index;  // index kDead: nothing left
};

inline size_t padded(size_t n) { return (n + 15) & ~size_t(15); }

enum class Of { zones, agents };

// Results never depend on this order, only the time does.
inline uint32_t spread(uint32_t v) {
  v = (v | (v << 8)) & 0x00FF00FFu;
  v = (v | (v << 4)) & 0x0F0F0F0Fu;
  v = (v | (v << 2)) & 0x33333333u;
  return (v | (v << 1)) & 0x55555555u;
}

// Writes the points' numbers in Morton order of (x, y), ties by number. Scratch: 3 arrays of n.
inline void morton_order(const float* x, const float* y, size_t n, uint32_t* order, Arena arena) {
  uint32_t *code = arena.take<uint32_t>(n), *code2 = arena.take<uint32_t>(n), *order2 = arena.take<uint32_t>(n);
  if (n == 0) return;
  float x0 = x[0], x1 = x[0], y0 = y[0], y1 = y[0];
  for (size_t i = 1; i < n; ++i) {
    x0 = x[i] < x0 ? x[i] : x0;
    x1 = x[i] > x1 ? x[i] : x1;
    y0 = y[i] < y0 ? y[i] : y0;
    y1 = y[i] > y1 ? y[i] : y1;
  }
  const float extent = x1 - x0 > y1 - y0 ? x1 - x0 : y1 - y0;
  const float scale = extent > 0.001f ? 65000.0f / extent : 0.0f;
  for (size_t i = 0; i < n; ++i) {
    code[i] = spread(uint32_t((x[i] - x0) * scale)) | (spread(uint32_t((y[i] - y0) * scale)) << 1);
    order[i] = uint32_t(i);
  }
  for (int shift = 0; shift < 32; shift += 8) {
    uint32_t at[256] = {0};
    for (size_t i = 0; i < n; ++i) ++at[(code[i] >> shift) & 255u];
    uint32_t sum = 0;
    for (int b = 0; b < 256; ++b) {
      const uint32_t c = at[b];
      at[b] = sum;
      sum += c;
    }
    for (size_t i = 0; i < n; ++i) {
      const uint32_t to = at[(code[i] >> shift) & 255u]++;
      code2[to] = code[i];
      order2[to] = order[i];
    }
    uint32_t* t = code;
    code = code2;
    code2 = t;
    t = order;
    order = order2;
    order2 = t;
  }
}

template <Of kind>
class Tree {
 public:
  Level level[kLevels];
  int top;             // the level whose entries, at most sixteen, are the root
  uint32_t* position;  // [points] where each point lies in level 0, kDead if it is in no leaf

  static size_t workspace(size_t n) {
    size_t bytes = 4 * Arena::bytes(padded(n) * 4) + Arena::bytes(n * 4) + 256;
    for (size_t count = n, h = 0; h < kLevels; ++h, count = (count + 15) / 16)
      bytes += 13 * Arena::bytes(padded(count) * 4);
    return bytes;
  }

  // skip[i] != 0 leaves a point out.
  void build(const Problem& p, const uint8_t* skip, Arena& arena) {
    const size_t n = kind == Of::zones ? p.m : p.n;
    const float* x = kind == Of::zones ? p.zx : p.ax;
    const float* y = kind == Of::zones ? p.zy : p.ay;
    position = arena.take<uint32_t>(n);
    uint32_t* order = arena.take<uint32_t>(n);
    take_levels(n, arena);
    morton_order(x, y, n, order, arena);
    Level& leaf = level[0];
    size_t used = 0;
    for (size_t i = 0; i < n; ++i) {
      const uint32_t at = order[i];
      position[at] = kDead;
      if (skip != nullptr && skip[at]) continue;
      position[at] = uint32_t(used);
      fill(p, leaf, used++, at);
    }
    shrink(used);
    for (size_t i = used; i < padded(used); ++i) clear(leaf, i);
    for (int h = 1; h <= top; ++h) {
      for (size_t e = 0; e < level[h].count; ++e) gather(h, e);
      for (size_t e = level[h].count; e < padded(level[h].count); ++e) clear(level[h], e);
    }
  }

  // Takes a point out; ancestors' bounds shrink with it.
  void remove(uint32_t point) {
    size_t at = position[point];
    level[0].index[at] = kDead;
    for (int h = 1; h <= top; ++h) {
      at /= 16;
      if (!regather(h, at)) return;
    }
  }

  bool alive(uint32_t point) const { return position[point] != kDead && level[0].index[position[point]] != kDead; }

 private:
  void take_levels(size_t n, Arena& arena) {
    size_t count = n;
    for (int h = 0; h < kLevels; ++h, count = (count + 15) / 16) {
      Level& l = level[h];
      float** floats[] = {&l.x0, &l.x1, &l.y0, &l.y1, &l.z0, &l.z1, &l.reach, &l.value, &l.cost};
      uint32_t** words[] = {&l.bits, &l.low, &l.high, &l.index};
      for (float** f : floats) *f = arena.take<float>(padded(count));
      for (uint32_t** w : words) *w = arena.take<uint32_t>(padded(count));
      if (h == 0) {  // a leaf's box is its point
        l.x1 = l.x0;
        l.y1 = l.y0;
        l.z1 = l.z0;
        l.high = l.low;
      }
    }
  }
  void shrink(size_t used) {
    size_t count = used;
    top = 0;
    for (int h = 0; h < kLevels; ++h, count = (count + 15) / 16) {
      level[h].count = count;
      if (count > 16) top = h + 1;
    }
  }
  static void fill(const Problem& p, Level& l, size_t to, uint32_t i) {
    if constexpr (kind == Of::zones) {
      l.x0[to] = p.zx[i];
      l.y0[to] = p.zy[i];
      l.z0[to] = p.zz[i];
      l.reach[to] = p.radius[i];
      l.value[to] = p.base[i];
      l.cost[to] = p.cost[i];
      l.bits[to] = p.need[i];
      l.low[to] = p.zcomponent[i];
    } else {
      l.x0[to] = p.ax[i];
      l.y0[to] = p.ay[i];
      l.z0[to] = p.az[i];
      l.reach[to] = p.speed[i];
      l.value[to] = p.energy[i];
      l.cost[to] = 0.0f;
      l.bits[to] = p.caps[i];
      l.low[to] = p.acomponent[i];
    }
    l.index[to] = i;
  }
  static void clear(Level& l, size_t e) {
    float* const floats[] = {l.x0, l.x1, l.y0, l.y1, l.z0, l.z1, l.value, l.cost};
    for (float* f : floats) f[e] = 0.0f;
    l.reach[e] = 1.0f;
    l.bits[e] = l.low[e] = l.high[e] = 0;
    l.index[e] = kDead;
  }
  void gather(int h, size_t e) {
    Level &to = level[h], &from = level[h - 1];
    clear(to, e);
    bool first = true;
    const size_t last = 16 * e + 16 < from.count ? 16 * e + 16 : from.count;
    for (size_t c = 16 * e; c < last; ++c) {
      if (from.index[c] == kDead) continue;
      const float value = from.value[c] == from.value[c] ? from.value[c] : __builtin_inff();
      if (first) {
        to.x0[e] = from.x0[c];
        to.x1[e] = from.x1[c];
        to.y0[e] = from.y0[c];
        to.y1[e] = from.y1[c];
        to.z0[e] = from.z0[c];
        to.z1[e] = from.z1[c];
        to.reach[e] = from.reach[c];
        to.value[e] = value;
        to.cost[e] = from.cost[c];
        to.bits[e] = from.bits[c];
        to.low[e] = from.low[c];
        to.high[e] = from.high[c];
        to.index[e] = from.index[c];
        first = false;
        continue;
      }
      least(to.x0[e], from.x0[c]);
      least(to.y0[e], from.y0[c]);
      least(to.z0[e], from.z0[c]);
      most(to.x1[e], from.x1[c]);
      most(to.y1[e], from.y1[c]);
      most(to.z1[e], from.z1[c]);
      most(to.reach[e], from.reach[c]);
      most(to.value[e], value);
      least(to.cost[e], from.cost[c]);
      if constexpr (kind == Of::zones) to.bits[e] &= from.bits[c];
      else to.bits[e] |= from.bits[c];
      least(to.low[e], from.low[c]);
      most(to.high[e], from.high[c]);
      least(to.index[e], from.index[c]);
    }
  }
  // The bounds that shrink usefully when a child goes; false if none did, so that the levels above stay as they are.
  bool regather(int h, size_t e) {
    Level &to = level[h], &from = level[h - 1];
    float value = -__builtin_inff(), reach = 0.0f;
    uint32_t index = kDead;
    for (size_t c = 16 * e; c < 16 * e + 16; ++c) {
      if (from.index[c] == kDead) continue;
      most(value, from.value[c] == from.value[c] ? from.value[c] : __builtin_inff());
      most(reach, from.reach[c]);
      least(index, from.index[c]);
    }
    if (value == to.value[e] && reach == to.reach[e] && index == to.index[e]) return false;
    to.value[e] = value;
    to.reach[e] = reach;
    to.index[e] = index;
    return true;
  }
  template <class T>
  static void least(T& a, T b) {
    a = b < a ? b : a;
  }
  template <class T>
  static void most(T& a, T b) {
    a = a < b ? b : a;
  }
};

using ZoneTree = Tree<Of::zones>;
using AgentTree = Tree<Of::agents>;

DW_INLINE F32x16 larger(F32x16 a, F32x16 b) { return select(lt(a, b), b, a); }

// Distance from a point to sixteen boxes.
DW_INLINE F32x16 box_distance(const Level& l, size_t e, F32x16 x, F32x16 y, F32x16 z) {
  const F32x16 zero = F32x16::zero();
  const F32x16 dx = larger(larger(F32x16::load(l.x0 + e) - x, x - F32x16::load(l.x1 + e)), zero);
  const F32x16 dy = larger(larger(F32x16::load(l.y0 + e) - y, y - F32x16::load(l.y1 + e)), zero);
  const F32x16 dz = larger(larger(F32x16::load(l.z0 + e) - z, z - F32x16::load(l.z1 + e)), zero);
  return sqrt((dx * dx + dy * dy) + dz * dz);
}

// Scores and travels of sixteen entries, and which of them may matter.
struct Sixteen {
  U32x16 score;
  F32x16 q;
  M32x16 mask;
};

// Whether an entry may hold something better than `than`, lane by lane.
DW_INLINE M32x16 may_beat(U32x16 score, F32x16 q, U32x16 index, const Key& than) {
  const U32x16 s = U32x16::set1(uint32_t(score_of(than.rank))), t = U32x16::set1(uint32_t(than.rank));
  const U32x16 travel = bits(q), i = U32x16::set1(than.index);
  return gt_signed(score, s) | (eq(score, s) & (lt(travel, t) | (eq(travel, t) & lt(index, i))));
}

}  // namespace DW_ISA

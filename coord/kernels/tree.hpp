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

// Sixteen entries of a level, together in memory: points, or nodes with the other ends of what they bound.
struct Leaf {
  float x0[16], y0[16], z0[16], reach[16], value[16], cost[16];
  uint32_t bits[16], low[16], index[16];  // index kDead: nothing left
};
struct Block : Leaf {
  float x1[16], y1[16], z1[16];
  uint32_t high[16];
};
template <bool leaf>
struct EntriesOf {
  using type = Block;
};
template <>
struct EntriesOf<true> {
  using type = Leaf;
};
template <bool leaf>
using Entries = typename EntriesOf<leaf>::type;

struct Level {
  size_t count;  // entries
  Block* block;  // nullptr in level 0
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

// Sorts numbers by their codes, ascending and stable; the scratch arrays are as long.
inline void radix_sort(uint32_t* code, uint32_t* order, size_t n, uint32_t* code2, uint32_t* order2) {
  for (int shift = 0; shift < 32; shift += 8) {  // four passes end in the arrays they began with
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
  radix_sort(code, order, n, code2, order2);
}

template <Of kind>
class Tree {
 public:
  Level level[kLevels];
  Leaf* leaf;          // the blocks of level 0
  int top;             // the level whose entries, at most sixteen, are the root
  uint32_t* position;  // [points] where each point lies in level 0, kDead if it is in no leaf

  static size_t workspace(size_t n) {
    size_t bytes = 4 * Arena::bytes(padded(n) * 4) + Arena::bytes(n * 4) + 256;
    for (size_t count = n, h = 0; h < kLevels; ++h, count = (count + 15) / 16)
      bytes += Arena::bytes(padded(count) / 16 * (h == 0 ? sizeof(Leaf) : sizeof(Block)));
    return bytes;
  }

  // skip[i] != 0 leaves a point out.
  void build(const Problem& p, const uint8_t* skip, Arena& arena) {
    const size_t n = kind == Of::zones ? p.m : p.n;
    const float* x = kind == Of::zones ? p.zx : p.ax;
    const float* y = kind == Of::zones ? p.zy : p.ay;
    position = arena.take<uint32_t>(n);
    leaf = arena.take<Leaf>(padded(n) / 16);
    level[0].block = nullptr;
    size_t count = n;
    for (int h = 1; h < kLevels; ++h) {
      count = (count + 15) / 16;
      level[h].block = arena.take<Block>(padded(count) / 16);
    }
    Arena scratch = arena;  // what comes later lies over it
    uint32_t* order = scratch.take<uint32_t>(n);
    morton_order(x, y, n, order, scratch);
    size_t used = 0;
    for (size_t i = 0; i < n; ++i) {
      const uint32_t at = order[i];
      position[at] = kDead;
      if (skip != nullptr && skip[at]) continue;
      position[at] = uint32_t(used);
      fill(p, leaf[used / 16], used % 16, at);
      ++used;
    }
    shrink(used);
    for (size_t i = used; i < padded(used); ++i) clear(leaf[i / 16], i % 16);
    for (int h = 1; h <= top; ++h) {
      for (size_t e = 0; e < level[h].count; ++e) gather(h, e);
      for (size_t e = level[h].count; e < padded(level[h].count); ++e) clear_node(level[h].block[e / 16], e % 16);
    }
  }

  // Takes a point out; ancestors' bounds shrink with it.
  void remove(uint32_t point) {
    size_t at = position[point];
    leaf[at / 16].index[at % 16] = kDead;
    for (int h = 1; h <= top; ++h) {
      at /= 16;
      if (!regather(level[h].block[at / 16], at % 16, entries(h - 1, at))) return;
    }
  }

  bool alive(uint32_t point) const {
    const uint32_t at = position[point];
    return at != kDead && leaf[at / 16].index[at % 16] != kDead;
  }

  const Leaf& entries(int h, size_t e) const { return h == 0 ? leaf[e] : level[h].block[e]; }

 private:
  void shrink(size_t used) {
    size_t count = used;
    top = 0;
    for (int h = 0; h < kLevels; ++h, count = (count + 15) / 16) {
      level[h].count = count;
      if (count > 16) top = h + 1;
    }
  }
  static void fill(const Problem& p, Leaf& b, size_t to, uint32_t i) {
    if constexpr (kind == Of::zones) {
      b.x0[to] = p.zx[i];
      b.y0[to] = p.zy[i];
      b.z0[to] = p.zz[i];
      b.reach[to] = p.radius[i];
      b.value[to] = p.base[i];
      b.cost[to] = p.cost[i];
      b.bits[to] = p.need[i];
      b.low[to] = p.zcomponent[i];
    } else {
      b.x0[to] = p.ax[i];
      b.y0[to] = p.ay[i];
      b.z0[to] = p.az[i];
      b.reach[to] = p.speed[i];
      b.value[to] = p.energy[i];
      b.cost[to] = 0.0f;
      b.bits[to] = p.caps[i];
      b.low[to] = p.acomponent[i];
    }
    b.index[to] = i;
  }
  static void clear(Leaf& b, size_t e) {
    b.x0[e] = b.y0[e] = b.z0[e] = b.value[e] = b.cost[e] = 0.0f;
    b.reach[e] = 1.0f;
    b.bits[e] = b.low[e] = 0;
    b.index[e] = kDead;
  }
  static void clear_node(Block& b, size_t e) {
    clear(b, e);
    b.x1[e] = b.y1[e] = b.z1[e] = 0.0f;
    b.high[e] = 0;
  }
  void gather(int h, size_t entry) {
    Block& to = level[h].block[entry / 16];
    const size_t e = entry % 16;
    const Leaf& from = entries(h - 1, entry);
    const Block* node = h == 1 ? nullptr : level[h - 1].block + entry;
    const float *x1 = node ? node->x1 : from.x0, *y1 = node ? node->y1 : from.y0, *z1 = node ? node->z1 : from.z0;
    const uint32_t* high = node ? node->high : from.low;
    clear_node(to, e);
    const float inf = __builtin_inff();
    to.x0[e] = to.y0[e] = to.z0[e] = to.cost[e] = inf;
    to.x1[e] = to.y1[e] = to.z1[e] = to.value[e] = -inf;
    to.reach[e] = 0.0f;
    to.low[e] = 0xFFFFFFFFu;
    to.bits[e] = kind == Of::zones ? 0xFFFFFFFFu : 0u;
    for (size_t c = 0; c < 16; ++c) {
      if (from.index[c] == kDead) continue;
      least(to.x0[e], from.x0[c]);
      least(to.y0[e], from.y0[c]);
      least(to.z0[e], from.z0[c]);
      most(to.x1[e], x1[c]);
      most(to.y1[e], y1[c]);
      most(to.z1[e], z1[c]);
      most(to.reach[e], from.reach[c]);
      most(to.value[e], from.value[c] == from.value[c] ? from.value[c] : inf);
      least(to.cost[e], from.cost[c]);
      if constexpr (kind == Of::zones) to.bits[e] &= from.bits[c];
      else to.bits[e] |= from.bits[c];
      least(to.low[e], from.low[c]);
      most(to.high[e], high[c]);
      least(to.index[e], from.index[c]);
    }
  }
  // The bounds that shrink usefully when a child goes; false if none did, so that the levels above stay as they are.
  static bool regather(Block& to, size_t e, const Leaf& from) {
    const M32x16 dead = eq(U32x16::load(from.index), U32x16::set1(kDead));
    const F32x16 raw = F32x16::load(from.value), inf = F32x16::set1(__builtin_inff());
    float value[16], reach[16];
    uint32_t index[16];
    store(value, select(dead, -inf, select(is_nan(raw), inf, raw)));
    store(reach, select(dead, F32x16::zero(), F32x16::load(from.reach)));
    memcpy(index, from.index, sizeof index);
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) {
        most(value[i], value[i + half]);
        most(reach[i], reach[i + half]);
        least(index[i], index[i + half]);
      }
    if (value[0] == to.value[e] && reach[0] == to.reach[e] && index[0] == to.index[e]) return false;
    to.value[e] = value[0];
    to.reach[e] = reach[0];
    to.index[e] = index[0];
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

// Which of sixteen entries may hold something of a component; a leaf's are of one each.
template <bool leaf>
DW_INLINE M32x16 may_hold(const Entries<leaf>& b, U32x16 component) {
  if constexpr (leaf) return eq(U32x16::load(b.low), component);
  else return !(gt(U32x16::load(b.low), component) | lt(U32x16::load(b.high), component));
}

// Distance from a point to sixteen boxes; those of a leaf are points.
template <bool leaf>
DW_INLINE F32x16 distance16(const Entries<leaf>& b, F32x16 x, F32x16 y, F32x16 z) {
  F32x16 dx = F32x16::load(b.x0) - x, dy = F32x16::load(b.y0) - y, dz = F32x16::load(b.z0) - z;
  if constexpr (!leaf) {
    const F32x16 zero = F32x16::zero();
    dx = larger(larger(dx, x - F32x16::load(b.x1)), zero);
    dy = larger(larger(dy, y - F32x16::load(b.y1)), zero);
    dz = larger(larger(dz, z - F32x16::load(b.z1)), zero);
  }
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

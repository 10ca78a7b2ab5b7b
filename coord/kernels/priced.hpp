// The objects of an auction in a tree, each with a price, and the search for those that are worth most to a bidder at
// these prices. Prices and profits are the same thing seen from the two sides, so both sides are objects in turn.
#pragma once
#include "ways.hpp"

namespace DW_ISA {

inline constexpr int64_t kNothing = -(int64_t(1) << 62);

// A tree of one side's points with a price each; a node knows the least price below it. Points are named by their
// position in the tree, where neighbours are near each other in memory.
//
// Prices follow bases: a zone that all want is dear. So a node of zones also knows its peak, the most of base · unit − price
// below it, and a bidder's travel goes off that. In float32 base − travel is less than (|base| + |travel|) · 2^-24 above
// the exact difference, and three numbers are rounded to whole scores: `margin` scores cover both. It is -1 where bases or
// w_travel are so large that scores saturate, or not numbers: then peaks are not used.
template <Of kind>
class Priced {
 public:
  Tree<kind> tree;
  int64_t* least[kLevels];  // of each entry; those of level 0 are the prices
  int64_t* peak[kLevels];   // as above, of zones
  int64_t margin = -1;

  static size_t workspace(size_t n) {
    size_t bytes = Tree<kind>::workspace(n) + Arena::bytes(padded(n) * 8);
    for (size_t count = n, h = 0; h < kLevels; ++h, count = (count + 15) / 16) bytes += 2 * Arena::bytes(padded(count) * 8);
    return bytes;
  }
  void build(const Problem& p, const uint8_t* skip, Arena& arena) {
    const size_t n = kind == Of::zones ? p.m : p.n;
    size_t count = n;
    for (size_t h = 0; h < kLevels; ++h) {
      least[h] = arena.take<int64_t>(padded(count));
      peak[h] = arena.take<int64_t>(padded(count));
      count = (count + 15) / 16;
    }
    base_ = arena.take<int64_t>(padded(n));
    tree.build(p, skip, arena);
  }
  // Before `fill`, of zones only.
  void weigh(const Problem& p, int64_t unit) {
    constexpr float kMost = 8192.0f;
    float largest = __builtin_fabsf(p.w_travel);
    bool plain = largest <= kMost;
    for (size_t at = 0; at < count(); ++at) {
      const float base = p.base[id(at)];
      plain &= __builtin_fabsf(base) <= kMost;
      largest = __builtin_fabsf(base) > largest ? __builtin_fabsf(base) : largest;
      base_[at] = int64_t(quantise(base)) * unit;
    }
    margin = plain ? 3 + int64_t(2.0f * largest * 0x1p-8f) : -1;
  }
  size_t count() const { return tree.level[0].count; }
  uint32_t id(size_t at) const { return tree.level[0].block[at / 16].index[at % 16]; }
  int64_t price(size_t at) const { return least[0][at]; }
  // All prices at once: price(position).
  template <class F>
  void fill(F price) {
    for (int h = 0; h <= tree.top; ++h) {
      const size_t count = tree.level[h].count;
      for (size_t e = 0; e < count; ++e) least[h][e] = h == 0 ? price(e) : least_of(h - 1, e);
      for (size_t e = count; e < padded(count); ++e) least[h][e] = int64_t(1) << 61;
      if (margin < 0) continue;
      for (size_t e = 0; e < count; ++e) peak[h][e] = h == 0 ? base_[e] - least[0][e] : peak_of(h - 1, e);
      for (size_t e = count; e < padded(count); ++e) peak[h][e] = -(int64_t(1) << 61);
    }
  }
  void set(size_t at, int64_t price) {
    least[0][at] = price;
    bool lower = true, higher = margin >= 0;
    if (higher) peak[0][at] = base_[at] - price;
    for (int h = 1; h <= tree.top && (lower || higher); ++h) {
      at /= 16;
      if (lower) {
        const int64_t now = least_of(h - 1, at);
        lower = now != least[h][at];
        least[h][at] = now;
      }
      if (higher) {
        const int64_t now = peak_of(h - 1, at);
        higher = now != peak[h][at];
        peak[h][at] = now;
      }
    }
  }

 private:
  int64_t least_of(int h, size_t entry) const {
    const int64_t* child = least[h] + 16 * entry;
    int64_t out = child[0];
    for (int c = 1; c < 16; ++c) out = child[c] < out ? child[c] : out;
    return out;
  }
  int64_t peak_of(int h, size_t entry) const {
    const int64_t* child = peak[h] + 16 * entry;
    int64_t out = child[0];
    for (int c = 1; c < 16; ++c) out = child[c] > out ? child[c] : out;
    return out;
  }

  int64_t* base_;  // of each position: score of the base · unit
};

struct Offer {
  int64_t net;
  int32_t score;
  uint32_t at, id;
  bool above(const Offer& other) const { return net > other.net || (net == other.net && id < other.id); }
};

// The `limit` ≤ 16 objects of highest score · unit − price for a bidder of the other side, ties by lower index.
template <Of objects>
class BestOffers {
 public:
  size_t count = 0;
  Offer offer[16];

  BestOffers(const Problem& p, const Scale& s, const Priced<objects>& side, size_t bidder, size_t limit, int64_t unit,
             const uint32_t* current, size_t current_count)
      : p_(p), s_(s), side_(side), b_(bidder), limit_(limit), unit_(unit), blockers_(s.ways) {
    if (objects == Of::zones ? s.grid && p.acomponent[bidder] == 0 : p.blocked[bidder] != 0) return;
    if (side.count() == 0) return;
    // pairs with the switch bonus are looked at one by one; the tree leaves them out
    for (size_t i = 0; i < current_count; ++i) {
      const uint32_t at = side.tree.position[current[i]];
      if (at == kDead) continue;
      const size_t a = objects == Of::zones ? bidder : current[i], z = objects == Of::zones ? current[i] : bidder;
      const Pair pair = pair_of(p, s, a, z);
      if (pair.feasible) take(pair.score, at, current[i]);
    }
    visit(side.tree.top, 0);
  }

 private:
  bool has_bonus(uint32_t id) const {
    if constexpr (objects == Of::zones) return p_.current[b_] == int32_t(id);
    return p_.current[id] == int32_t(b_);
  }
  void take(int32_t score, uint32_t at, uint32_t id) {
    const Offer now = {int64_t(score) * unit_ - side_.price(at), score, at, id};
    if (count == limit_ && !now.above(offer[count - 1])) return;
    const bool clear = objects == Of::zones ? path_clear(p_, blockers_, b_, id) : path_clear(p_, blockers_, id, b_);
    if (!clear) {
      ++shut_;
      return;
    }
    size_t to = count < limit_ ? count++ : limit_ - 1;
    for (; to > 0 && now.above(offer[to - 1]); --to) offer[to] = offer[to - 1];
    offer[to] = now;
  }

  template <bool leaf>
  DW_INLINE uint32_t look(const Block& b, const int64_t* price, const int64_t* peak, int32_t* score, int64_t* net) const {
    F32x16 far, q;
    M32x16 mask;
    F32x16 value;
    if constexpr (objects == Of::zones) {
      far = distance16<leaf>(b, F32x16::set1(p_.ax[b_]), F32x16::set1(p_.ay[b_]), F32x16::set1(p_.az[b_]));
      q = -floor(-(far / F32x16::set1(p_.speed[b_])));
      q = select(le(far, F32x16::load(b.reach)), F32x16::zero(), q);
      value = F32x16::load(b.value);
      mask = le(F32x16::load(b.cost), F32x16::set1(p_.energy[b_])) &
             eq(U32x16::load(b.bits) & U32x16::set1(~p_.caps[b_]), U32x16::zero());
    } else {
      far = distance16<leaf>(b, F32x16::set1(p_.zx[b_]), F32x16::set1(p_.zy[b_]), F32x16::set1(p_.zz[b_]));
      q = -floor(-(far / F32x16::load(b.reach)));
      q = select(le(far, F32x16::set1(p_.radius[b_])), F32x16::zero(), q);
      value = F32x16::set1(p_.base[b_]);
      const U32x16 need = U32x16::set1(p_.need[b_]);
      mask = le(F32x16::set1(p_.cost[b_]), F32x16::load(b.value)) & eq(U32x16::load(b.bits) & need, need);
    }
    F32x16 share = q / F32x16::set1(s_.denominator);
    if (!leaf && s_.w_travel < 0.0f) share = F32x16::set1(p_.max_travel == 0 ? 0.0f : 1.0f);
    mask = mask & le(q, F32x16::set1(s_.travel_max)) & ne(U32x16::load(b.index), U32x16::set1(kDead));
    if (s_.grid) {
      const U32x16 own = U32x16::set1(objects == Of::zones ? p_.acomponent[b_] : p_.zcomponent[b_]);
      mask = mask & !(gt(U32x16::load(b.low), own) | lt(U32x16::load(leaf ? b.low : b.high), own));
    }
    const F32x16 travel = F32x16::set1(s_.w_travel) * share;
    store(reinterpret_cast<uint32_t*>(score), quantise(value - travel));
    const int64_t worst = count == limit_ ? offer[count - 1].net : INT64_MIN;
    uint32_t near = 0;
    for (int l = 0; l < 16; ++l) net[l] = int64_t(score[l]) * unit_ - price[l];
    if (objects == Of::zones && !leaf && side_.margin >= 0) {
      int32_t off[16];
      store(reinterpret_cast<uint32_t*>(off), quantise(travel));
      for (int l = 0; l < 16; ++l) {
        const int64_t most = peak[l] + (side_.margin - off[l]) * unit_;
        net[l] = most < net[l] ? most : net[l];
      }
    }
    for (int l = 0; l < 16; ++l) near |= uint32_t(net[l] >= worst) << l;
    return lane_bits(mask) & near;
  }
  void visit(int h, size_t e) {
    const Block& b = side_.tree.level[h].block[e];
    int32_t score[16];
    int64_t net[16];
    const int64_t *price = side_.least[h] + 16 * e, *peak = side_.peak[h] + 16 * e;
    if (h == 0) {
      for (uint32_t left = look<true>(b, price, peak, score, net); left != 0; left &= left - 1) {
        const int l = __builtin_ctz(left);
        if (!has_bonus(b.index[l])) take(score[l], uint32_t(16 * e + size_t(l)), b.index[l]);
      }
      return;
    }
    uint8_t order[16];
    int children = 0;
    for (uint32_t left = look<false>(b, price, peak, score, net); left != 0; left &= left - 1) {
      const int l = __builtin_ctz(left);
      int to = children++;
      for (; to > 0 && net[l] > net[order[to - 1]]; --to) order[to] = order[to - 1];
      order[to] = uint8_t(l);
    }
    for (int i = 0; i < children; ++i) {
      const int l = order[i];
      if (count == limit_ && (net[l] < offer[count - 1].net || (net[l] == offer[count - 1].net && b.index[l] > offer[count - 1].id)))
        continue;
      if (!hidden(b, l)) visit(h - 1, 16 * e + size_t(l));
    }
  }
  bool hidden(const Block& node, int lane) const {
    if (shut_ < kShutBefore) return false;
    const Rect box = {node.x0[lane], node.y0[lane], node.x1[lane], node.y1[lane]};
    if constexpr (objects == Of::zones) {
      return blockers_.block_all({p_.ax[b_], p_.ay[b_], p_.ax[b_], p_.ay[b_]}, box);
    } else {
      return blockers_.block_all(box, {p_.zx[b_], p_.zy[b_], p_.zx[b_], p_.zy[b_]});
    }
  }

  static constexpr uint32_t kShutBefore = 16;  // ways found blocked before whole subtrees are tested at once
  const Problem& p_;
  const Scale& s_;
  const Priced<objects>& side_;
  const size_t b_, limit_;
  const int64_t unit_;
  mutable Blockers blockers_;
  uint32_t shut_ = 0;
};

}  // namespace DW_ISA

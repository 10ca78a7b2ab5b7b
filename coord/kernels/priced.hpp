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
// the exact difference, and three numbers are rounded to whole scores: `margin` scores cover both. It is -1 where peaks are
// not used: where all bases are equal, or bases or w_travel so large that scores saturate, or not numbers.
template <Of kind>
class Priced {
 public:
  Tree<kind> tree;
  int64_t* least[kLevels];  // of each entry; those of level 0 are the prices
  int64_t* peak[kLevels];   // as above, of zones
  int64_t margin = -1;
  bool level = true;  // all bases are equal

  static size_t workspace(size_t n) {
    size_t bytes = Tree<kind>::workspace(n) + Arena::bytes(padded(n) * 8);
    for (size_t count = n, h = 0; h < kLevels; ++h, count = (count + 15) / 16) bytes += 2 * Arena::bytes((padded(count) + 16) * 8);
    return bytes;
  }
  void build(const Problem& p, const uint8_t* skip, Arena& arena) {
    const size_t n = kind == Of::zones ? p.m : p.n;
    size_t count = n;
    for (size_t h = 0; h < kLevels; ++h) {
      least[h] = arena.take<int64_t>(padded(count) + 16);
      peak[h] = arena.take<int64_t>(padded(count) + 16);
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
      level &= base == p.base[id(0)];
      largest = __builtin_fabsf(base) > largest ? __builtin_fabsf(base) : largest;
      base_[at] = int64_t(quantise(base)) * unit;
    }
    margin = plain && !level ? 3 + int64_t(2.0f * largest * 0x1p-8f) : -1;
  }
  // Of a position: score of the zone's base · unit; and the rank-th highest of those that count, or the lowest where there
  // are fewer.
  int64_t base(size_t at) const { return base_[at]; }
  int64_t base_of(size_t rank, const uint32_t* counts) const {
    int64_t low = INT64_MAX, high = INT64_MIN;
    size_t all = 0;
    for (size_t at = 0; at < count(); ++at) {
      if (counts[at] == 0) continue;
      low = base_[at] < low ? base_[at] : low;
      high = base_[at] > high ? base_[at] : high;
      ++all;
    }
    if (rank >= all) return low;
    for (++high; high - low > 1;) {  // at least `low` are `rank` of them, at least `high` are fewer
      const int64_t middle = low + (high - low) / 2;
      size_t n = 0;
      for (size_t at = 0; at < count(); ++at) n += base_[at] >= middle && counts[at] != 0;
      (n >= rank ? low : high) = middle;
    }
    return low;
  }
  size_t count() const { return tree.level[0].count; }
  uint32_t id(size_t at) const { return tree.leaf[at / 16].index[at % 16]; }
  int64_t price(size_t at) const { return least[0][at]; }
  // The position of no object, of a price that nobody pays.
  uint32_t nowhere() const { return uint32_t(padded(count())); }
  // All prices at once: price(position).
  template <class F>
  void fill(F price) {
    for (int h = 0; h <= tree.top; ++h) {
      const size_t count = tree.level[h].count;
      for (size_t e = 0; e < count; ++e) least[h][e] = h == 0 ? price(e) : least_of(h - 1, e);
      for (size_t e = count; e < padded(count) + 16; ++e) least[h][e] = int64_t(1) << 61;
      if (margin < 0) continue;
      for (size_t e = 0; e < count; ++e) peak[h][e] = h == 0 ? base_[e] - least[0][e] : peak_of(h - 1, e);
      for (size_t e = count; e < padded(count); ++e) peak[h][e] = -(int64_t(1) << 61);
    }
  }
  // A higher price. Nodes keep bounds that hold but are not the closest ones, until `refresh`.
  void raise(size_t at, int64_t price) { least[0][at] = price; }
  void refresh() {
    fill([this](size_t at) { return least[0][at]; });
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

// Which of sixteen are at least that much.
DW_INLINE uint32_t not_below(const int64_t* net, int64_t floor) {
  const U64x8 least = U64x8::set1(uint64_t(floor));
  const uint64_t* from = reinterpret_cast<const uint64_t*>(net);
  return ~(lane_bits(lt_signed(U64x8::load(from), least)) | lane_bits(lt_signed(U64x8::load(from + 8), least)) << 8) & 0xFFFFu;
}

// The objects of highest score · unit − price for a bidder of the other side, ties by lower index: at most `limit` ≤ 32 of
// those that are worth at least a floor. They stand in no order.
template <Of objects>
class Offers {
 public:
  static constexpr size_t kRoom = 80;
  size_t count;
  int64_t net[kRoom];
  int32_t score[kRoom];
  uint32_t at[kRoom], id[kRoom];

  Offers(const Problem& p, const Scale& s, const Priced<objects>& side, int64_t unit)
      : p_(p), s_(s), side_(side), unit_(unit), blockers_(s.ways) {}

  void find(size_t bidder, size_t limit, int64_t floor, const uint32_t* current, size_t current_count) {
    start(bidder);
    limit_ = limit;
    floor_ = floor;
    last_ = kDead;
    shut_ = 0;
    if (objects == Of::zones ? s_.grid && p_.acomponent[bidder] == 0 : p_.blocked[bidder] != 0) return;
    if (side_.count() == 0) return;
    // pairs with the switch bonus are looked at one by one; the tree leaves them out
    for (size_t i = 0; i < current_count; ++i) {
      const uint32_t place = side_.tree.position[current[i]];
      if (place == kDead) continue;
      const size_t a = objects == Of::zones ? bidder : current[i], z = objects == Of::zones ? current[i] : bidder;
      const Pair pair = pair_of(p_, s_, a, z);
      const int64_t worth = int64_t(pair.score) * unit_ - side_.price(place);
      if (pair.feasible && may_do(worth, current[i])) take(worth, pair.score, place, current[i]);
    }
    visit(side_.tree.top, 0);
    cut();
  }
  // Whether there is an object for the bidder at all; obstacles in the way do not count.
  bool any(size_t bidder) {
    start(bidder);
    floor_ = INT64_MIN;
    if (objects == Of::zones ? s_.grid && p_.acomponent[bidder] == 0 : p_.blocked[bidder] != 0) return false;
    return side_.count() != 0 && any_below(side_.tree.top, 0);
  }

 private:
  // What a search needs of where it starts: speed, energy and capabilities of an agent, or radius, base, cost and needs of
  // a zone.
  struct Origin {
    float x, y, z, reach, value, cost;
    uint32_t bits, component;
  };
  void start(size_t bidder) {
    count = 0;
    b_ = bidder;
    if constexpr (objects == Of::zones)
      o_ = {p_.ax[bidder], p_.ay[bidder], p_.az[bidder], p_.speed[bidder], p_.energy[bidder], 0.0f, p_.caps[bidder], p_.acomponent[bidder]};
    else
      o_ = {p_.zx[bidder], p_.zy[bidder], p_.zz[bidder], p_.radius[bidder], p_.base[bidder], p_.cost[bidder], p_.need[bidder], p_.zcomponent[bidder]};
  }
  bool may_do(int64_t worth, uint32_t found) const { return worth > floor_ || (worth == floor_ && found < last_); }
  bool has_bonus(uint32_t found) const {
    if constexpr (objects == Of::zones) return p_.current[b_] == int32_t(found);
    return p_.current[found] == int32_t(b_);
  }
  DW_INLINE void take(int64_t worth, int32_t points, uint32_t place, uint32_t found) {
    if (s_.ways->shapes() != nullptr) {
      const bool clear = objects == Of::zones ? path_clear(p_, blockers_, b_, found) : path_clear(p_, blockers_, found, b_);
      if (!clear) {
        ++shut_;
        return;
      }
    }
    net[count] = worth;
    score[count] = points;
    at[count] = place;
    id[count] = found;
    if (++count > kRoom - 16) cut();
  }
  size_t at_least(int64_t than) const {
    size_t n = 0;
    for (size_t i = 0; i < count; i += 16) n += size_t(__builtin_popcount(not_below(net + i, than)));
    return n;
  }
  // Leaves the `limit` best; the floor becomes what the last of them is worth, and among equals its index counts.
  void cut() {
    if (count <= limit_) return;
    for (size_t i = count; i < padded(count); ++i) net[i] = INT64_MIN;
    int64_t most = net[0];
    for (size_t i = 1; i < count; ++i) most = net[i] > most ? net[i] : most;
    int64_t low = floor_, high = most + 1;  // at_least(low) ≥ limit > at_least(high)
    if (low < -(int64_t(1) << 61)) {
      low = net[0];
      for (size_t i = 1; i < count; ++i) low = net[i] < low ? net[i] : low;
    }
    size_t kept = at_least(low);
    while (kept != limit_ && high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      const size_t n = at_least(middle);
      if (n >= limit_) {
        low = middle;
        kept = n;
      } else {
        high = middle;
      }
    }
    size_t to = 0;
    for (size_t i = 0; i < padded(count); i += 16)
      for (uint32_t left = not_below(net + i, low); left != 0; left &= left - 1) {
        const size_t from = i + size_t(__builtin_ctz(left));
        net[to] = net[from];
        score[to] = score[from];
        at[to] = at[from];
        id[to] = id[from];
        ++to;
      }
    count = to;
    for (; count > limit_; --count) {  // too many are equal: the highest ids go
      size_t worst = 0;
      for (size_t i = 1; i < count; ++i)
        if (net[i] < net[worst] || (net[i] == net[worst] && id[i] > id[worst])) worst = i;
      net[worst] = net[count - 1];
      score[worst] = score[count - 1];
      at[worst] = at[count - 1];
      id[worst] = id[count - 1];
    }
    floor_ = net[0];
    last_ = id[0];
    for (size_t i = 1; i < count; ++i) {
      if (net[i] > floor_ || (net[i] == floor_ && id[i] < last_)) continue;
      floor_ = net[i];
      last_ = id[i];
    }
  }

  template <bool leaf>
  DW_INLINE uint32_t look(const Entries<leaf>& b, const int64_t* price, const int64_t* peak, int32_t* points, int64_t* worth) const {
    const F32x16 far = distance16<leaf>(b, F32x16::set1(o_.x), F32x16::set1(o_.y), F32x16::set1(o_.z));
    F32x16 q, value;
    M32x16 mask;
    if constexpr (objects == Of::zones) {
      q = -floor(-(far / F32x16::set1(o_.reach)));
      q = select(le(far, F32x16::load(b.reach)), F32x16::zero(), q);
      value = F32x16::load(b.value);
      mask = le(F32x16::load(b.cost), F32x16::set1(o_.value)) & eq(U32x16::load(b.bits) & U32x16::set1(~o_.bits), U32x16::zero());
    } else {
      q = -floor(-(far / F32x16::load(b.reach)));
      q = select(le(far, F32x16::set1(o_.reach)), F32x16::zero(), q);
      value = F32x16::set1(o_.value);
      const U32x16 need = U32x16::set1(o_.bits);
      mask = le(F32x16::set1(o_.cost), F32x16::load(b.value)) & eq(U32x16::load(b.bits) & need, need);
    }
    F32x16 share = q / F32x16::set1(s_.denominator);
    if (!leaf && s_.w_travel < 0.0f) share = F32x16::set1(p_.max_travel == 0 ? 0.0f : 1.0f);
    mask = mask & le(q, F32x16::set1(s_.travel_max)) & ne(U32x16::load(b.index), U32x16::set1(kDead));
    if (s_.grid) {
      mask = mask & may_hold<leaf>(b, U32x16::set1(o_.component));
    }
    const F32x16 travel = F32x16::set1(s_.w_travel) * share;
    const U32x16 exact = quantise(value - travel);
    if (leaf) store(reinterpret_cast<uint32_t*>(points), exact);
    times_unit(exact, price, worth);
    if (objects == Of::zones && !leaf && side_.margin >= 0) {
      int64_t most[16];
      int32_t off[16];
      store(reinterpret_cast<uint32_t*>(off), quantise(travel));
      for (int l = 0; l < 16; ++l) most[l] = peak[l] + (side_.margin - off[l]) * unit_;
      for (int l = 0; l < 16; ++l) worth[l] = most[l] < worth[l] ? most[l] : worth[l];
    }
    return lane_bits(mask) & not_below(worth, floor_);
  }
  // worth = points · unit − price
  DW_INLINE void times_unit(U32x16 points, const int64_t* price, int64_t* worth) const {
    const U64x16 wide = widen(points ^ U32x16::set1(0x80000000u));
    const U64x8 unit = U64x8::set1(uint64_t(unit_)), off = U64x8::set1(uint64_t(unit_) << 31);
    const uint64_t* from = reinterpret_cast<const uint64_t*>(price);
    uint64_t* to = reinterpret_cast<uint64_t*>(worth);
    store(to, mul_low32(wide.low, unit) - off - U64x8::load(from));
    store(to + 8, mul_low32(wide.high, unit) - off - U64x8::load(from + 8));
  }
  bool any_below(int h, size_t e) const {
    const int64_t *price = side_.least[h] + 16 * e, *peak = side_.peak[h] + 16 * e;
    int32_t points[16];
    int64_t worth[16];
    if (h == 0) return look<true>(side_.tree.leaf[e], price, peak, points, worth) != 0;
    const Block& b = side_.tree.level[h].block[e];
    for (uint32_t left = look<false>(b, price, peak, points, worth); left != 0; left &= left - 1)
      if (any_below(h - 1, 16 * e + size_t(__builtin_ctz(left)))) return true;
    return false;
  }
  // All leaves of a node are looked at before any of them is gone through: no look waits for how many another gave.
  void leaves(const Block& node, uint32_t left, const int64_t* most, size_t first) {
    int32_t points[16][16];
    int64_t worth[16][16];
    uint32_t found[16];
    uint8_t lane[16];
    int n = 0;
    for (; left != 0; left &= left - 1) {
      const int l = __builtin_ctz(left);
      if (!may_do(most[l], node.index[l]) || hidden(node, l)) continue;
      const size_t e = first + size_t(l);
      found[n] = look<true>(side_.tree.leaf[e], side_.least[0] + 16 * e, nullptr, points[n], worth[n]);
      lane[n++] = uint8_t(l);
    }
    for (int i = 0; i < n; ++i) {
      const size_t e = first + lane[i];
      const Leaf& b = side_.tree.leaf[e];
      for (uint32_t in = found[i]; in != 0; in &= in - 1) {
        const int l = __builtin_ctz(in);
        if (may_do(worth[i][l], b.index[l]) && !has_bonus(b.index[l]))
          take(worth[i][l], points[i][l], uint32_t(16 * e + size_t(l)), b.index[l]);
      }
    }
  }
  void visit(int h, size_t e) {
    const int64_t *price = side_.least[h] + 16 * e, *peak = side_.peak[h] + 16 * e;
    int64_t worth[16];
    if (h == 0) {
      const Leaf& b = side_.tree.leaf[e];
      int32_t points[16];
      for (uint32_t left = look<true>(b, price, peak, points, worth); left != 0; left &= left - 1) {
        const int l = __builtin_ctz(left);
        if (may_do(worth[l], b.index[l]) && !has_bonus(b.index[l])) take(worth[l], points[l], uint32_t(16 * e + size_t(l)), b.index[l]);
      }
      return;
    }
    const Block& b = side_.tree.level[h].block[e];
    uint32_t left = look<false>(b, price, peak, nullptr, worth);
    if (floor_ > kNothing && h == 1) return leaves(b, left, worth, 16 * e);
    if (floor_ > kNothing) {
      for (; left != 0; left &= left - 1) {
        const int l = __builtin_ctz(left);
        if (may_do(worth[l], b.index[l]) && !hidden(b, l)) visit(h - 1, 16 * e + size_t(l));
      }
      return;
    }
    uint8_t order[16];
    int children = 0;
    for (; left != 0; left &= left - 1) {
      const int l = __builtin_ctz(left);
      int to = children++;
      for (; to > 0 && worth[l] > worth[order[to - 1]]; --to) order[to] = order[to - 1];
      order[to] = uint8_t(l);
    }
    for (int i = 0; i < children; ++i) {
      const int l = order[i];
      cut();
      if (may_do(worth[l], b.index[l]) && !hidden(b, l)) visit(h - 1, 16 * e + size_t(l));
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
  size_t b_, limit_;
  Origin o_;
  const int64_t unit_;
  int64_t floor_;
  uint32_t last_;  // at the floor, only lower indices do
  mutable Blockers blockers_;
  uint32_t shut_ = 0;
};

}  // namespace DW_ISA

// Branch and bound over the trees: the best zones of an agent, the best agent of a zone.
#pragma once
#include "ways.hpp"

namespace DW_ISA {

// The best `limit` keys seen so far, best first.
template <size_t room>
struct Best {
  size_t limit, count = 0;
  Key key[room];
  explicit Best(size_t k) : limit(k) {}
  const Key& worst() const { return count < limit ? kWorst : key[limit - 1]; }
  void offer(uint64_t rank, uint32_t index) {
    if (!better(rank, index, worst())) return;
    size_t at = count < limit ? count++ : limit - 1;
    for (; at > 0 && better(rank, index, key[at - 1]); --at) key[at] = key[at - 1];
    key[at] = {rank, index};
  }
};

// Children that may matter, visited best bound first.
struct Order {
  uint64_t rank[16];
  uint32_t index[16];
  uint8_t lane[16];
  int count = 0;
  void add(uint64_t r, uint32_t i, int l) {
    int at = count++;
    for (; at > 0 && (r < rank[at - 1] || (r == rank[at - 1] && i < index[at - 1])); --at) {
      rank[at] = rank[at - 1];
      index[at] = index[at - 1];
      lane[at] = lane[at - 1];
    }
    rank[at] = r;
    index[at] = i;
    lane[at] = uint8_t(l);
  }
};

// Ways found blocked in one search before whole subtrees are tested at once: where few are, that test only costs.
inline constexpr uint32_t kShutBeforeBoxes = 16;

inline Rect rect_of(const Block& node, int lane) {
  return {node.x0[lane], node.y0[lane], node.x1[lane], node.y1[lane]};
}

inline void spill(const Sixteen& found, const uint32_t* index, Order& order) {
  uint32_t score[16];
  float q[16];
  store(score, found.score);
  store(q, found.q);
  for (uint32_t left = lane_bits(found.mask); left != 0; left &= left - 1) {
    const int l = __builtin_ctz(left);
    order.add(rank_of(int32_t(score[l]), q[l]), index[l], l);
  }
}

template <size_t room>
class ZoneSearch {
 public:
  // `known` is a feasible pair's key, or kWorst: with k = 1 only a better one is looked for.
  ZoneSearch(const Problem& p, const Scale& s, const ZoneTree& tree, size_t agent, size_t k, const Key& known = kWorst)
      : best(k), p_(p), s_(s), tree_(tree), a_(agent), current_(uint32_t(p.current[agent])), blockers_(s.ways) {
    if (s.grid && p.acomponent[agent] == 0) return;
    best.offer(known.rank, known.index);
    if (p.current[agent] >= 0 && tree.alive(current_)) {
      const Pair pair = pair_of(p, s, agent, current_);
      if (pair.feasible && path_clear(p, blockers_, agent, current_)) best.offer(rank_of(pair.score, pair.q), current_);
    }
    if (tree.level[0].count != 0) visit(tree.top, 0);
  }
  Best<room> best;

 private:
  template <bool leaf>
  DW_INLINE Sixteen look(const Block& b) const {
    const F32x16 far =
        distance16<leaf>(b, F32x16::set1(p_.ax[a_]), F32x16::set1(p_.ay[a_]), F32x16::set1(p_.az[a_]));
    Sixteen out;
    out.q = -floor(-(far / F32x16::set1(p_.speed[a_])));
    out.q = select(le(far, F32x16::load(b.reach)), F32x16::zero(), out.q);
    F32x16 share = out.q / F32x16::set1(s_.denominator);
    if (!leaf && s_.w_travel < 0.0f) share = F32x16::set1(p_.max_travel == 0 ? 0.0f : 1.0f);
    out.score = quantise((F32x16::load(b.value) - F32x16::set1(s_.w_travel) * share));
    const U32x16 index = U32x16::load(b.index), bits = U32x16::load(b.bits);
    out.mask = le(out.q, F32x16::set1(s_.travel_max)) & ne(index, U32x16::set1(kDead)) &
               le(F32x16::load(b.cost), F32x16::set1(p_.energy[a_])) &
               eq(bits & U32x16::set1(~p_.caps[a_]), U32x16::zero()) & may_beat(out.score, out.q, index, best.worst());
    if (s_.grid) {
      const U32x16 own = U32x16::set1(p_.acomponent[a_]);
      out.mask = out.mask & !(gt(U32x16::load(b.low), own) | lt(U32x16::load(leaf ? b.low : b.high), own));
    }
    return out;
  }
  void visit(int h, size_t e) {
    const Block& b = tree_.level[h].block[e];
    if (h == 0) return offer(look<true>(b), b.index);
    Order order;
    spill(look<false>(b), b.index, order);
    for (int i = 0; i < order.count; ++i) {
      if (!better(order.rank[i], order.index[i], best.worst())) return;
      if (hidden(b, order.lane[i])) continue;
      const size_t child = 16 * e + order.lane[i];
      const bool pair = h == 1 && i + 1 < order.count;
      if (!pair) {
        visit(h - 1, child);
        continue;
      }
      // two leaves at once: the second may turn out to be needless, but waits for nothing
      const Block &leaf = tree_.level[0].block[child], &next = tree_.level[0].block[16 * e + order.lane[++i]];
      const Sixteen first = look<true>(leaf), second = look<true>(next);
      offer(first, leaf.index);
      offer(second, next.index);
    }
  }
  DW_INLINE void offer(const Sixteen& found, const uint32_t* index) {
    uint32_t score[16];
    float q[16];
    store(score, found.score);
    store(q, found.q);
    for (uint32_t left = lane_bits(found.mask); left != 0; left &= left - 1) {
      const int l = __builtin_ctz(left);
      const uint64_t rank = rank_of(int32_t(score[l]), q[l]);
      if (index[l] == current_ || !better(rank, index[l], best.worst())) continue;
      if (path_clear(p_, blockers_, a_, index[l])) best.offer(rank, index[l]);
      else ++shut_;
    }
  }
  bool hidden(const Block& node, int lane) const {
    if (shut_ < kShutBeforeBoxes) return false;
    return blockers_.block_all({p_.ax[a_], p_.ay[a_], p_.ax[a_], p_.ay[a_]}, rect_of(node, lane));
  }
  const Problem& p_;
  const Scale& s_;
  const ZoneTree& tree_;
  const size_t a_;
  const uint32_t current_;
  Blockers blockers_;
  uint32_t shut_ = 0;
};

class AgentSearch {
 public:
  // `current` lists the agents that have the zone now: they get the switch bonus and are looked at one by one.
  AgentSearch(const Problem& p, const Scale& s, const AgentTree& tree, size_t zone, const uint32_t* current,
              size_t current_count, const Key& known)
      : best(1), p_(p), s_(s), tree_(tree), z_(zone), blockers_(s.ways) {
    best.offer(known.rank, known.index);
    for (size_t i = 0; i < current_count; ++i) {
      if (!tree.alive(current[i])) continue;
      const Pair pair = pair_of(p, s, current[i], zone);
      if (pair.feasible && path_clear(p, blockers_, current[i], zone)) best.offer(rank_of(pair.score, pair.q), current[i]);
    }
    if (tree.level[0].count != 0) visit(tree.top, 0);
  }
  Best<1> best;

 private:
  template <bool leaf>
  DW_INLINE Sixteen look(const Block& b) const {
    const F32x16 far =
        distance16<leaf>(b, F32x16::set1(p_.zx[z_]), F32x16::set1(p_.zy[z_]), F32x16::set1(p_.zz[z_]));
    Sixteen out;
    out.q = -floor(-(far / F32x16::load(b.reach)));
    out.q = select(le(far, F32x16::set1(p_.radius[z_])), F32x16::zero(), out.q);
    F32x16 share = out.q / F32x16::set1(s_.denominator);
    if (!leaf && s_.w_travel < 0.0f) share = F32x16::set1(p_.max_travel == 0 ? 0.0f : 1.0f);
    out.score = quantise((F32x16::set1(p_.base[z_]) - F32x16::set1(s_.w_travel) * share));
    const U32x16 index = U32x16::load(b.index), bits = U32x16::load(b.bits), need = U32x16::set1(p_.need[z_]);
    out.mask = le(out.q, F32x16::set1(s_.travel_max)) & ne(index, U32x16::set1(kDead)) &
               le(F32x16::set1(p_.cost[z_]), F32x16::load(b.value)) & eq(bits & need, need) &
               may_beat(out.score, out.q, index, best.worst());
    if (s_.grid) {
      const U32x16 own = U32x16::set1(p_.zcomponent[z_]);
      out.mask = out.mask & !(gt(U32x16::load(b.low), own) | lt(U32x16::load(leaf ? b.low : b.high), own));
    }
    return out;
  }
  void visit(int h, size_t e) {
    const Block& b = tree_.level[h].block[e];
    if (h == 0) return offer(look<true>(b), b.index);
    Order order;
    spill(look<false>(b), b.index, order);
    for (int i = 0; i < order.count; ++i) {
      if (!better(order.rank[i], order.index[i], best.worst())) return;
      if (!hidden(b, order.lane[i])) visit(h - 1, 16 * e + order.lane[i]);
    }
  }
  DW_INLINE void offer(const Sixteen& found, const uint32_t* index) {
    uint32_t score[16];
    float q[16];
    store(score, found.score);
    store(q, found.q);
    for (uint32_t left = lane_bits(found.mask); left != 0; left &= left - 1) {
      const int l = __builtin_ctz(left);
      const uint64_t rank = rank_of(int32_t(score[l]), q[l]);
      if (p_.current[index[l]] == int32_t(z_) || !better(rank, index[l], best.worst())) continue;
      if (path_clear(p_, blockers_, index[l], z_)) best.offer(rank, index[l]);
      else ++shut_;
    }
  }
  bool hidden(const Block& node, int lane) const {
    if (shut_ < kShutBeforeBoxes) return false;
    return blockers_.block_all(rect_of(node, lane), {p_.zx[z_], p_.zy[z_], p_.zx[z_], p_.zy[z_]});
  }
  const Problem& p_;
  const Scale& s_;
  const AgentTree& tree_;
  const size_t z_;
  Blockers blockers_;
  uint32_t shut_ = 0;
};

}  // namespace DW_ISA

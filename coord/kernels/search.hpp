// Branch and bound over the trees: the best zones of an agent, the best agent of a zone.
#pragma once
#include "ways.hpp"

namespace DW_ISA {

// Up to here a key at a time is put in its place, beyond a leaf's keys are merged in together.
inline constexpr size_t kInserted = 32;

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
  // As offering each of `more` keys, best first, none of which is held: from the back, each key moves once.
  void merge(const Key* more, size_t n) {
    size_t held = count, to = count + n;
    while (to > limit) {  // the worst of all fall out
      if (held != 0 && (n == 0 || better(more[n - 1].rank, more[n - 1].index, key[held - 1]))) --held;
      else --n;
      --to;
    }
    count = to;
    while (n != 0) {
      const bool moves = held != 0 && better(more[n - 1].rank, more[n - 1].index, key[held - 1]);
      key[--to] = moves ? key[--held] : more[--n];
    }
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

// What a search knows of the point it starts from. Taken from the point's place in its own tree, it lies beside its
// neighbours', from which the last searches started; the problem's arrays are in the order of ids.
struct Origin {
  float x, y, z, reach, value, cost;
  uint32_t bits, component;
};
inline Origin origin_agent(const Problem& p, size_t a) {
  return {p.ax[a], p.ay[a], p.az[a], p.speed[a], p.energy[a], 0.0f, p.caps[a], p.acomponent[a]};
}
template <Of kind>
inline Origin origin_in(const Tree<kind>& tree, size_t point) {
  const uint32_t at = tree.position[point];
  const Leaf& b = tree.leaf[at / 16];
  const size_t l = at % 16;
  return {b.x0[l], b.y0[l], b.z0[l], b.reach[l], b.value[l], b.cost[l], b.bits[l], b.low[l]};
}

// From one agent to zones, or from one zone to agents: `kind` is what the tree holds.
template <Of kind, size_t room>
class Search {
 public:
  // `current` lists what makes a current pair with `from`: it gets the switch bonus and is looked at first, one by one.
  // `known` is a feasible pair's key, or kWorst: with k = 1 only a better one is looked for.
  Search(const Problem& p, const Scale& s, const Tree<kind>& tree, size_t from, const Origin& origin, size_t k,
         const uint32_t* current, size_t current_count, const Key& known)
      : best(k), p_(p), s_(s), tree_(tree), from_(from), o_(origin), current_(current),
        current_count_(current_count), blockers_(s.ways) {
    if (kToZones && s.grid && origin.component == 0) return;
    best.offer(known.rank, known.index);
    for (size_t i = 0; i < current_count; ++i) {
      if (!tree.alive(current[i])) continue;
      const Pair pair = pair_of(p, s, agent(current[i]), zone(current[i]));
      if (pair.feasible && clear(current[i])) best.offer(rank_of(pair.score, pair.q), current[i]);
    }
    if (tree.level[0].count != 0) visit(tree.top, 0);
  }
  Best<room> best;

 private:
  static constexpr bool kToZones = kind == Of::zones;

  size_t agent(size_t found) const { return kToZones ? from_ : found; }
  size_t zone(size_t found) const { return kToZones ? found : from_; }
  // A short list is at hand; the agents' own zones lie by id.
  bool is_current(uint32_t found) const {
    if (current_count_ > 8) return p_.current[agent(found)] == int32_t(zone(found));
    for (size_t i = 0; i < current_count_; ++i)
      if (current_[i] == found) return true;
    return false;
  }
  bool clear(size_t found) { return path_clear(p_, blockers_, agent(found), zone(found)); }

  template <bool leaf>
  DW_INLINE Sixteen look(const Entries<leaf>& b) const {
    const F32x16 far = distance16<leaf>(b, F32x16::set1(o_.x), F32x16::set1(o_.y), F32x16::set1(o_.z));
    // a block's reach holds radii of zones or speeds of agents, its value base scores or energies
    const F32x16 reach = F32x16::load(b.reach), value = F32x16::load(b.value);
    const F32x16 own_reach = F32x16::set1(o_.reach);
    const F32x16 own_value = F32x16::set1(o_.value);
    Sixteen out;
    out.q = -floor(-(far / (kToZones ? own_reach : reach)));
    out.q = select(le(far, kToZones ? reach : own_reach), F32x16::zero(), out.q);
    F32x16 share = out.q / F32x16::set1(s_.denominator);
    if (!leaf && s_.w_travel < 0.0f) share = F32x16::set1(p_.max_travel == 0 ? 0.0f : 1.0f);
    out.score = quantise((kToZones ? value : own_value) - F32x16::set1(s_.w_travel) * share);
    const U32x16 index = U32x16::load(b.index), bits = U32x16::load(b.bits);
    out.mask = le(out.q, F32x16::set1(s_.travel_max)) & ne(index, U32x16::set1(kDead)) &
               may_beat(out.score, out.q, index, best.worst());
    if constexpr (kToZones)
      out.mask = out.mask & le(F32x16::load(b.cost), own_value) &
                 eq(bits & U32x16::set1(~o_.bits), U32x16::zero());
    else
      out.mask = out.mask & le(F32x16::set1(o_.cost), value) &
                 eq(bits & U32x16::set1(o_.bits), U32x16::set1(o_.bits));
    if (s_.grid) {
      out.mask = out.mask & may_hold<leaf>(b, U32x16::set1(o_.component));
    }
    return out;
  }
  void visit(int h, size_t e) {
    if (h == 0) return offer(look<true>(tree_.leaf[e]), tree_.leaf[e].index);
    const Block& b = tree_.level[h].block[e];
    Order order;
    spill(look<false>(b), b.index, order);
    for (int i = 0; i < order.count; ++i) {
      if (!better(order.rank[i], order.index[i], best.worst())) return;
      if (hidden(b, order.lane[i])) continue;
      const size_t child = 16 * e + order.lane[i];
      if (!kToZones || h != 1 || i + 1 == order.count) {
        visit(h - 1, child);
        continue;
      }
      // two leaves at once: the second may turn out to be needless, but waits for nothing
      const Leaf &leaf = tree_.leaf[child], &next = tree_.leaf[16 * e + order.lane[++i]];
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
    Key more[16];
    size_t n = 0;
    for (uint32_t left = lane_bits(found.mask); left != 0; left &= left - 1) {
      const int l = __builtin_ctz(left);
      const uint64_t rank = rank_of(int32_t(score[l]), q[l]);
      if (!better(rank, index[l], best.worst()) || is_current(index[l])) continue;
      if (!clear(index[l])) {
        ++shut_;
        continue;
      }
      if constexpr (room <= kInserted) {
        best.offer(rank, index[l]);
      } else {
        size_t at = n++;
        for (; at > 0 && better(rank, index[l], more[at - 1]); --at) more[at] = more[at - 1];
        more[at] = {rank, index[l]};
      }
    }
    if (n != 0) best.merge(more, n);
  }
  bool hidden(const Block& node, int lane) const {
    if (shut_ < kShutBeforeBoxes) return false;
    if constexpr (kToZones)
      return blockers_.block_all({o_.x, o_.y, o_.x, o_.y}, rect_of(node, lane));
    else
      return blockers_.block_all(rect_of(node, lane), {o_.x, o_.y, o_.x, o_.y});
  }
  const Problem& p_;
  const Scale& s_;
  const Tree<kind>& tree_;
  const size_t from_;
  const Origin o_;
  const uint32_t* current_;
  const size_t current_count_;
  Blockers blockers_;
  uint32_t shut_ = 0;
};

// The best k zones of an agent.
template <size_t room>
Best<room> best_zones(const Problem& p, const Scale& s, const ZoneTree& tree, size_t agent, const Origin& origin,
                      size_t k, const Key& known = kWorst) {
  const uint32_t current = uint32_t(p.current[agent]);
  return Search<Of::zones, room>(p, s, tree, agent, origin, k, &current, p.current[agent] >= 0, known).best;
}

// The best agent of a zone; `current` lists the agents that have it now.
inline Best<1> best_agent(const Problem& p, const Scale& s, const AgentTree& tree, size_t zone, const Origin& origin,
                          const uint32_t* current, size_t current_count, const Key& known) {
  return Search<Of::agents, 1>(p, s, tree, zone, origin, 1, current, current_count, known).best;
}

}  // namespace DW_ISA

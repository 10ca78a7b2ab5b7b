// Greedy assignment: repeatedly the best feasible pair; the twin, plan_ref.greedy, does just that.
//
// A pair that is the best of its agent and the best of its zone among those left is in the greedy assignment, as no
// better pair can take either away. So a chain is followed: zone, its best agent, that agent's best zone, … Keys grow
// strictly along it, so it ends in such a pair. The pair leaves the chain, the rest of the chain stays good, and each
// agent and zone enters the chain once: a bounded number of searches for each, whatever the scores are (the nearest
// neighbour chain of Benzécri 1982, on a bipartite graph). A search starts from the pair that led to it, so it only
// looks for better ones.
#include "droveway/fpenv.hpp"
#include "search.hpp"

namespace DW_ISA {
namespace {

class Chain {
 public:
  Chain(const Problem& p, size_t k, const int32_t* zone, const uint32_t* count, int32_t* assigned, Arena& arena)
      : p_(p), s_(scale_of(p)), k_(k), zone_(zone), count_(count), assigned_(assigned), ways_(p.shapes, arena) {
    s_.ways = &ways_;
    zones_.build(p, p.blocked, arena);
    // an agent without candidates has no feasible zone at all
    uint8_t* skip = arena.take<uint8_t>(p.n);
    for (size_t a = 0; a < p.n; ++a) {
      skip[a] = zone != nullptr && count[a] == 0;
      left_ += skip[a] == 0;
    }
    agents_.build(p, skip, arena);
    next_ = arena.take<uint32_t>(p.n);
    chain_ = arena.take<Key>(p.n + p.m + 2);
    room_ = p.n + p.m + 1;
    gone_ = arena.take<uint8_t>(p.m);
    memcpy(gone_, p.blocked, p.m);
    current_of(arena);
    order_zones(arena);
    for (size_t a = 0; a < p.n; ++a) {
      assigned_[a] = -1;
      next_[a] = 0;
    }
  }

  // Zones start chains, highest base first: then the best agent of a zone mostly has no better zone, and chains are
  // short. Of equal bases, a chain starts near the last one: its part of the trees is still at hand.
  void run() {
    for (size_t i = 0; i < p_.m && left_ != 0; ++i) {
      const uint32_t start = order_[i];
      while (left_ != 0 && !gone_[start]) {
        if (length_ == 0) chain_[length_++] = {~uint64_t(0), start};
        left_ -= step();
      }
    }
  }

 private:
  // Even places of the chain are zones, odd ones agents; each holds the key of its pair with the one before.
  // Returns 1 where a pair was matched.
  size_t step() {
    const Key last = chain_[length_ - 1];
    const bool is_zone = length_ % 2 == 1, has_before = length_ >= 2;
    const Key known = has_before ? Key{last.rank, chain_[length_ - 2].index} : kWorst;
    const Key found = is_zone ? best_agent(last.index, known) : best_zone(last.index, known);
    // A full chain is only possible where the caller's candidates are not the best ones, or a number is NaN: then what is
    // known has to do.
    if (has_before && (found.index == known.index || found.index == kDead || length_ == room_)) {
      const uint32_t z = is_zone ? last.index : known.index, a = is_zone ? known.index : last.index;
      assigned_[a] = int32_t(z);
      agents_.remove(a);
      zones_.remove(z);
      gone_[z] = 1;
      length_ -= 2;
      return 1;
    }
    if (found.index == kDead) {  // a zone at the start of the chain that has nothing left
      zones_.remove(last.index);
      gone_[last.index] = 1;
      --length_;
      return 0;
    }
    chain_[length_++] = found;
    return 0;
  }

  Key best_zone(uint32_t a, const Key& known) {
    if (zone_ != nullptr) {
      const int32_t* row = zone_ + size_t(a) * k_;
      for (; next_[a] < count_[a]; ++next_[a]) {
        const uint32_t z = uint32_t(row[next_[a]]);
        if (gone_[z]) continue;
        const Pair pair = pair_of(p_, s_, a, z);
        return {rank_of(pair.score, pair.q), z};
      }
    }
    const Best<1> found = best_zones<1>(p_, s_, zones_, a, origin_in(agents_, a), 1, known);
    return found.count != 0 ? found.key[0] : kWorst;
  }
  Key best_agent(uint32_t z, const Key& known) {
    const Best<1> found = DW_ISA::best_agent(p_, s_, agents_, z, origin_in(zones_, z), of_zone_ + first_[z],
                                             first_[z + 1] - first_[z], known);
    return found.count != 0 ? found.key[0] : kWorst;
  }

  void order_zones(Arena& arena) {
    order_ = arena.take<uint32_t>(p_.m);
    Arena scratch = arena;
    uint32_t* code = scratch.take<uint32_t>(p_.m);
    uint32_t *code2 = scratch.take<uint32_t>(p_.m), *order2 = scratch.take<uint32_t>(p_.m);
    morton_order(p_.zx, p_.zy, p_.m, order_, scratch);
    for (size_t i = 0; i < p_.m; ++i) {
      const uint32_t u = bits1(p_.base[order_[i]]);
      code[i] = u & 0x80000000u ? u : ~u & 0x7FFFFFFFu;  // ascending codes are descending floats
    }
    radix_sort(code, order_, p_.m, code2, order2);
  }

  // of_zone_[first_[z] .. first_[z + 1]): the agents that have zone z now.
  void current_of(Arena& arena) {
    first_ = arena.take<uint32_t>(p_.m + 2);
    of_zone_ = arena.take<uint32_t>(p_.n);
    memset(first_, 0, (p_.m + 2) * sizeof *first_);
    for (size_t a = 0; a < p_.n; ++a)
      if (p_.current[a] >= 0) ++first_[size_t(p_.current[a]) + 2];
    for (size_t z = 2; z < p_.m + 2; ++z) first_[z] += first_[z - 1];
    for (size_t a = 0; a < p_.n; ++a)
      if (p_.current[a] >= 0) of_zone_[first_[size_t(p_.current[a]) + 1]++] = uint32_t(a);
  }

  const Problem& p_;
  Scale s_;
  const size_t k_;
  const int32_t* zone_;
  const uint32_t* count_;
  int32_t* assigned_;
  ZoneTree zones_;
  AgentTree agents_;
  const WayIndex ways_;
  Key* chain_;
  uint8_t* gone_;  // [m] blocked, taken, or with no agent left
  uint32_t *next_, *order_, *first_, *of_zone_;
  size_t room_, length_ = 0, left_ = 0;
};

}  // namespace

void greedy(const Problem& problem, size_t k, const int32_t* zone, const uint32_t* count, int32_t* assigned,
            void* workspace) {
  FpGuard guard;
  Arena arena(workspace);
  Chain chain(problem, k, zone, count, assigned, arena);
  chain.run();
}

}  // namespace DW_ISA

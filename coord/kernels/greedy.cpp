// Greedy assignment: repeatedly the best feasible pair; the twin, plan_ref.greedy, does just that.
//
// A pair that is the best of its agent and the best of its zone among those left is in the greedy assignment, as no
// better pair can take either away. So a chain is followed: agent, its best zone, that zone's best agent, … Keys grow
// strictly along it, so it ends in such a pair. The pair leaves the chain, the rest of the chain stays good, and each
// agent and zone enters the chain once: at most about three searches an agent, whatever the scores are (the nearest
// neighbour chain of Benzécri 1982, on a bipartite graph).
#include "droveway/fpenv.hpp"
#include "search.hpp"

namespace DW_ISA {
namespace {

class Chain {
 public:
  Chain(const Problem& p, size_t k, const int32_t* zone, const uint32_t* count, int32_t* assigned, Arena& arena)
      : p_(p), s_(scale_of(p)), k_(k), zone_(zone), count_(count), assigned_(assigned) {
    zones_.build(p, p.blocked, arena);
    agents_.build(p, nullptr, arena);
    next_ = arena.take<uint32_t>(p.n);
    chain_ = arena.take<uint32_t>(p.n + p.m + 2);
    current_of(arena);
    for (size_t a = 0; a < p.n; ++a) {
      assigned_[a] = -1;
      next_[a] = 0;
    }
  }

  void run() {
    const Level& leaf = agents_.level[0];
    for (size_t start = 0; start < leaf.count; ++start) {
      while (leaf.index[start] != kDead) {
        if (length_ == 0) chain_[length_++] = leaf.index[start];
        step();
      }
    }
  }

 private:
  // Even places of the chain are agents, odd ones zones.
  void step() {
    const uint32_t last = chain_[length_ - 1];
    const bool has_before = length_ >= 2;
    const uint32_t before = has_before ? chain_[length_ - 2] : kDead;
    const uint32_t found = length_ % 2 == 1 ? best_zone(last) : best_agent(last);
    if (found == kDead) {  // only an agent at the start of the chain can have nothing left: it stays without a zone
      agents_.remove(last);
      --length_;
    } else if (has_before && found == before) {
      const uint32_t a = length_ % 2 == 1 ? last : before, z = length_ % 2 == 1 ? before : last;
      assigned_[a] = int32_t(z);
      agents_.remove(a);
      zones_.remove(z);
      length_ -= 2;
    } else {
      chain_[length_++] = found;
    }
  }

  uint32_t best_zone(uint32_t a) {
    if (zone_ != nullptr) {
      const int32_t* row = zone_ + size_t(a) * k_;
      for (; next_[a] < count_[a]; ++next_[a])
        if (zones_.alive(uint32_t(row[next_[a]]))) return uint32_t(row[next_[a]]);
      if (count_[a] < k_) return kDead;  // the list held all feasible zones
    }
    const ZoneSearch<1> search(p_, s_, zones_, a, 1);
    return search.best.count != 0 ? search.best.key[0].index : kDead;
  }
  uint32_t best_agent(uint32_t z) {
    const AgentSearch search(p_, s_, agents_, z, of_zone_ + first_[z], first_[z + 1] - first_[z]);
    return search.best.count != 0 ? search.best.key[0].index : kDead;
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
  const Scale s_;
  const size_t k_;
  const int32_t* zone_;
  const uint32_t* count_;
  int32_t* assigned_;
  ZoneTree zones_;
  AgentTree agents_;
  uint32_t *next_, *chain_, *first_, *of_zone_;
  size_t length_ = 0;
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

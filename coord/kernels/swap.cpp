// Sweeps of moves and exchanges; the twin, plan_ref.swap, says what a test is and in which order they come.
//
// Two things save time and never show: an upper bound on what a holder could gain, in the same integers, before its
// exact score; and an agent whose candidates and own zone have had no change of holder since its last, fruitless scan
// is passed over, its tests counted.
#include "droveway/fpenv.hpp"
#include "ways.hpp"

namespace DW_ISA {
namespace {

class Sweeps {
 public:
  Sweeps(const Problem& p, size_t k, const int32_t* zone, const int32_t* score, const uint32_t* count, int32_t* assigned,
         Arena arena)
      : p_(p), s_(scale_of(p)), k_(k), zone_(zone), score_(score), count_(count), assigned_(assigned),
        ways_(p.shapes, arena), blockers_(&ways_) {
    holder_ = arena.take<int32_t>(p.m);
    ceiling_ = arena.take<int32_t>(p.m);
    changed_ = arena.take<uint32_t>(p.m);
    own_score_ = arena.take<int32_t>(p.n);
    scanned_ = arena.take<uint32_t>(p.n);
    for (size_t z = 0; z < p.m; ++z) {
      holder_[z] = -1;
      changed_[z] = 0;
      const float least = s_.w_travel < 0.0f && p.max_travel != 0 ? s_.w_travel : 0.0f;
      ceiling_[z] = quantise((p.base[z] - least) + (s_.w_switch > 0.0f ? s_.w_switch : 0.0f));
    }
    for (size_t a = 0; a < p.n; ++a) {
      scanned_[a] = 0;
      own_score_[a] = 0;
      if (assigned[a] < 0) continue;
      holder_[assigned[a]] = int32_t(a);
      own_score_[a] = pair_of(p, s_, a, size_t(assigned[a])).score;
    }
  }

  uint64_t run(uint32_t sweeps, uint64_t budget, uint32_t* bound) {
    *bound = 1;
    uint64_t left = budget == 0 ? ~uint64_t(0) : budget;
    for (uint32_t sweep = 0; sweep < sweeps; ++sweep) {
      const uint32_t before = clock_;
      for (size_t a = 0; a < p_.n; ++a) {
        uint32_t tests;
        if (unchanged(a, &tests)) {
          if (tests > left) return done(budget);
          left -= tests;
        } else if (!scan(a, left)) {
          return done(budget);
        }
      }
      if (clock_ == before) {
        *bound = 0;
        break;
      }
    }
    return (budget == 0 ? ~uint64_t(0) : budget) - left;
  }

 private:
  static uint64_t done(uint64_t budget) { return budget; }

  // Whether a fruitless scan would be repeated exactly; *tests is what it would cost.
  bool unchanged(size_t a, uint32_t* tests) const {
    const uint32_t since = scanned_[a];
    if (since == 0) return false;
    const int32_t own = assigned_[a];
    if (own >= 0 && changed_[own] >= since) return false;
    const int32_t* row = zone_ + a * k_;
    uint32_t count = 0;
    bool changed = false;
    for (uint32_t c = 0; c < count_[a]; ++c) {
      changed |= changed_[row[c]] >= since;
      count += row[c] != own;
    }
    *tests = count;
    return !changed;
  }

  // One agent's candidates, best first; false when the budget is used up before a test.
  bool scan(size_t a, uint64_t& left) {
    const int32_t* row = zone_ + a * k_;
    const uint32_t began = clock_;
    for (uint32_t c = 0; c < count_[a]; ++c) {
      const int32_t z = row[c], own = assigned_[a];
      if (z == own) continue;
      if (left == 0) return false;
      --left;
      const int32_t score = score_[a * k_ + c], b = holder_[z];
      if (b < 0) {
        if (own >= 0 && score <= own_score_[a]) continue;
        if (own >= 0) hand(own, -1);
      } else {
        if (own < 0) continue;
        const int64_t before = int64_t(own_score_[a]) + own_score_[b];
        if (int64_t(score) + ceiling_[own] <= before) continue;
        const Pair back = pair_of(p_, s_, size_t(b), size_t(own));
        if (int64_t(score) + back.score <= before || !back.feasible || !path_clear(p_, blockers_, size_t(b), size_t(own))) continue;
        hand(own, b);
        assigned_[b] = own;
        own_score_[b] = back.score;
      }
      hand(z, int32_t(a));
      assigned_[a] = z;
      own_score_[a] = score;
    }
    // 0 says that the next scan can differ; the clock starts at 1 and a later change has a time of at least this one
    scanned_[a] = clock_ == began ? clock_ : 0;
    return true;
  }

  void hand(int32_t zone, int32_t agent) {
    holder_[zone] = agent;
    changed_[zone] = clock_++;
  }

  const Problem& p_;
  const Scale s_;
  const size_t k_;
  const int32_t *zone_, *score_;
  const uint32_t* count_;
  int32_t *assigned_, *holder_, *ceiling_, *own_score_;
  uint32_t *changed_, *scanned_;
  uint32_t clock_ = 1;
  WayIndex ways_;
  Blockers blockers_;
};

}  // namespace

uint64_t swap(const Problem& problem, size_t k, const int32_t* zone, const int32_t* score, const uint32_t* count,
              uint32_t sweeps, uint64_t budget, int32_t* assigned, uint32_t* bound, void* workspace) {
  FpGuard guard;
  Sweeps work(problem, k, zone, score, count, assigned, Arena(workspace));
  return work.run(sweeps, budget, bound);
}

}  // namespace DW_ISA

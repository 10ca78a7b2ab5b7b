// The score of one agent and one zone, for one pair and for sixteen; the twin is plan_ref.pairs.
//
// Travel is kept as its float q (0, or ceil(distance / speed)): not negative, so the order of its bits is its order, and
// ticks up to the limit are exact. A pair's key orders candidates: higher score, shorter travel, then lower index.
#pragma once
#include "droveway/lanes.hpp"
#include "kernels.hpp"

namespace DW_ISA {

class WayIndex;

struct Scale {
  float w_travel, w_switch;
  float travel_max;   // largest float that is not above max_travel: q ≤ it means ticks ≤ max_travel
  float denominator;  // float(max_travel), 1 where that is 0
  bool grid;
  const WayIndex* ways;  // to be set where ways are tested
};

inline Scale scale_of(const Problem& p) {
  Scale s;
  s.w_travel = p.w_travel;
  s.w_switch = p.w_switch;
  s.denominator = p.max_travel == 0 ? 1.0f : float(p.max_travel);
  float limit = float(p.max_travel);
  if (double(limit) > double(p.max_travel)) limit = f32_of(bits1(limit) - 1);
  if (limit >= 4294967296.0f) limit = 4294967040.0f;  // 2^32 and above is unreachable
  s.travel_max = limit;
  s.grid = p.grid != 0;
  s.ways = nullptr;
  return s;
}

inline bool can_travel(float speed) {
  const uint32_t u = bits1(speed);
  return u >= 0x00800000u && u < 0x7F800000u;
}

// round-half-even(value · 65536) saturated to int32; NaN gives 0.
inline int32_t quantise(float value) {
  const float wide = __builtin_rintf(value * 65536.0f);
  if (wide != wide) return 0;
  if (wide >= 2147483648.0f) return 0x7FFFFFFF;
  if (wide < -2147483648.0f) return -0x7FFFFFFF - 1;
  return int32_t(wide);
}
inline bool saturates(float value) {
  const float wide = __builtin_rintf(value * 65536.0f);
  return !(wide < 2147483648.0f && wide >= -2147483648.0f);
}
DW_INLINE U32x16 quantise(F32x16 value) { return to_i32(round_even(value * F32x16::set1(65536.0f))); }

struct Pair {
  float value;
  int32_t score;
  float q;        // travel; infinity where it is unreachable
  bool feasible;  // the way itself is tested apart, by path_clear
};

inline Pair pair_of(const Problem& p, const Scale& s, size_t a, size_t z) {
  const float dx = p.zx[z] - p.ax[a], dy = p.zy[z] - p.ay[a], dz = p.zz[z] - p.az[a];
  const float far = __builtin_sqrtf((dx * dx + dy * dy) + dz * dz);
  Pair out;
  out.q = far <= p.radius[z] ? 0.0f : __builtin_ceilf(far / p.speed[a]);
  if (!(out.q < 4294967296.0f)) out.q = __builtin_inff();
  const float fraction = (out.q < s.travel_max ? out.q : s.travel_max) / s.denominator;
  const float bonus = p.current[a] == int32_t(z) ? s.w_switch : 0.0f;
  // beyond the limit min(travel, max) / max is 1, also where max itself is not a float
  const float share = out.q <= s.travel_max ? fraction : (p.max_travel == 0 ? 0.0f : 1.0f);
  out.value = (p.base[z] - s.w_travel * share) + bonus;
  out.score = quantise(out.value);
  const bool way = !s.grid || (p.acomponent[a] != 0 && p.acomponent[a] == p.zcomponent[z]);
  out.feasible = out.q <= s.travel_max && way && p.blocked[z] == 0 && (p.caps[a] & p.need[z]) == p.need[z] &&
                 p.energy[a] >= p.cost[z];
  return out;
}

// Smaller is better; index is the zone for an agent's candidates, the agent for a zone's.
struct Key {
  uint64_t rank;  // ~(score with its sign flipped), then the bits of q
  uint32_t index;
};
inline uint64_t rank_of(int32_t score, float q) {
  return (uint64_t(~(uint32_t(score) ^ 0x80000000u)) << 32) | bits1(q);
}
inline bool better(uint64_t rank, uint32_t index, const Key& than) {
  return rank < than.rank || (rank == than.rank && index < than.index);
}
inline int32_t score_of(uint64_t rank) { return int32_t(~uint32_t(rank >> 32) ^ 0x80000000u); }

inline constexpr uint32_t kDead = 0xFFFFFFFFu;
inline constexpr Key kWorst = {~uint64_t(0), kDead};

}  // namespace DW_ISA

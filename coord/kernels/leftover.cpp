// What the rows say: scores of assigned pairs, statuses of agents without a zone, and the zones' share of the scores.
// The twins are in plan_ref.
#include "droveway/fpenv.hpp"
#include "arena.hpp"
#include "pair.hpp"

namespace DW_ISA {
namespace {

enum Status : uint8_t { kIdle = 1, kUnreachable = 4, kUnsafe = 6, kConflict = 7, kLowEnergy = 8, kMissing = 9 };

struct ZoneArrays {
  size_t count;
  const float *x, *y, *z, *radius, *cost;
  const uint32_t *need, *component;
  const uint8_t* blocked;
};

// Which of sixteen zones pass each test for one agent.
struct Tests {
  uint32_t capable, charged, near, blocked;
};

Tests test16(const Problem& p, const Scale& s, size_t a, const ZoneArrays& zones, size_t first) {
  const size_t n = zones.count - first < 16 ? zones.count - first : 16;
  const uint32_t all = (1u << n) - 1u;
  const auto load = [&](const float* v) { return F32x16::load_partial(v + first, n, 0.0f); };
  const auto words = [&](const uint32_t* v) { return U32x16::load_partial(v + first, n, 0); };
  const F32x16 dx = load(zones.x) - F32x16::set1(p.ax[a]), dy = load(zones.y) - F32x16::set1(p.ay[a]);
  const F32x16 dz = load(zones.z) - F32x16::set1(p.az[a]);
  const F32x16 far = sqrt((dx * dx + dy * dy) + dz * dz);
  const bool moves = can_travel(p.speed[a]);
  F32x16 q = -floor(-(far / F32x16::set1(moves ? p.speed[a] : 1.0f)));
  q = select(le(far, load(zones.radius)), F32x16::zero(), q);
  Tests out;
  out.near = moves ? lane_bits(le(q, F32x16::set1(s.travel_max))) & all : 0;
  if (s.grid) {
    const U32x16 component = words(zones.component);
    out.near &= p.acomponent[a] == 0
                    ? 0
                    : lane_bits(eq(component, U32x16::zero()) | eq(component, U32x16::set1(p.acomponent[a])));
  }
  out.capable = lane_bits(eq(words(zones.need) & U32x16::set1(~p.caps[a]), U32x16::zero())) & all;
  out.charged = lane_bits(le(load(zones.cost), F32x16::set1(p.energy[a]))) & all;
  out.blocked = 0;
  for (size_t l = 0; l < n; ++l) out.blocked |= uint32_t(zones.blocked[first + l] != 0) << l;
  return out;
}

// Those of `lanes` to which the way is blocked.
uint32_t ways_blocked(const Problem& p, size_t a, const ZoneArrays& zones, size_t first, uint32_t lanes) {
  if (p.shapes == nullptr) return 0;
  uint32_t out = 0;
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const size_t z = first + size_t(l);
    if (segment_blocked(p.ax[a], p.ay[a], zones.x[z], zones.y[z], *p.shapes)) out |= 1u << l;
  }
  return out;
}

uint8_t status_of(const Problem& p, const Scale& s, size_t a, const ZoneArrays& free, const ZoneArrays& all) {
  bool unsafe = false, unreachable = false, low = false, missing = false;
  for (size_t first = 0; first < free.count; first += 16) {
    const Tests t = test16(p, s, a, free, first);
    const uint32_t fit = t.capable & t.charged & t.near;
    const uint32_t shut = t.blocked | ways_blocked(p, a, free, first, fit & ~t.blocked);
    if (fit & ~shut) return kIdle;
    unsafe |= (fit & shut) != 0;
  }
  if (unsafe) return kUnsafe;
  for (size_t first = 0; first < all.count; first += 16) {
    const size_t n = all.count - first < 16 ? all.count - first : 16;
    const Tests t = test16(p, s, a, all, first);
    const uint32_t fit = t.capable & t.charged & ~t.blocked;
    if (fit & t.near & ~ways_blocked(p, a, all, first, fit & t.near)) return kConflict;
    if (!unreachable) {
      const uint32_t far = fit & ~t.near;
      unreachable = (far & ~ways_blocked(p, a, all, first, far)) != 0;
    }
    low |= (t.capable & ~t.charged) != 0;
    missing |= (~t.capable & ((1u << n) - 1u)) != 0;
  }
  return unreachable ? kUnreachable : low ? kLowEnergy : missing ? kMissing : kIdle;
}

}  // namespace

void leftover_status(const Problem& problem, const uint8_t* taken, uint8_t* status, void* workspace) {
  FpGuard guard;
  const Scale scale = scale_of(problem);
  const size_t m = problem.m;
  Arena arena(workspace);
  float *x = arena.take<float>(m), *y = arena.take<float>(m), *z = arena.take<float>(m), *radius = arena.take<float>(m);
  float* cost = arena.take<float>(m);
  uint32_t *need = arena.take<uint32_t>(m), *component = arena.take<uint32_t>(m);
  uint8_t* blocked = arena.take<uint8_t>(m);
  size_t free_count = 0;
  for (size_t i = 0; i < m; ++i) {
    if (taken[i]) continue;
    x[free_count] = problem.zx[i];
    y[free_count] = problem.zy[i];
    z[free_count] = problem.zz[i];
    radius[free_count] = problem.radius[i];
    cost[free_count] = problem.cost[i];
    need[free_count] = problem.need[i];
    component[free_count] = problem.zcomponent[i];
    blocked[free_count] = problem.blocked[i];
    ++free_count;
  }
  const ZoneArrays free{free_count, x, y, z, radius, cost, need, component, blocked};
  const ZoneArrays all{m, problem.zx, problem.zy, problem.zz, problem.radius, problem.cost, problem.need,
                       problem.zcomponent, problem.blocked};
  for (size_t a = 0; a < problem.n; ++a) status[a] = status_of(problem, scale, a, free, all);
}

void pair_values(const Problem& problem, const int32_t* assigned, int32_t* score, uint32_t* travel, uint8_t* saturated) {
  FpGuard guard;
  const Scale scale = scale_of(problem);
  for (size_t a = 0; a < problem.n; ++a) {
    score[a] = 0;
    travel[a] = 0xFFFFFFFFu;
    saturated[a] = 0;
    if (assigned[a] < 0) continue;
    const Pair pair = pair_of(problem, scale, a, size_t(assigned[a]));
    score[a] = pair.score;
    if (pair.q < 4294967296.0f) travel[a] = uint32_t(pair.q);
    saturated[a] = saturates(pair.value);
  }
}

void idle_norm(const uint64_t* idle, size_t n, uint32_t cap, float* out) {
  FpGuard guard;
  const float whole = float(cap);
  for (size_t i = 0; i < n; ++i) out[i] = cap == 0 ? 0.0f : float(idle[i] < cap ? uint32_t(idle[i]) : cap) / whole;
}

void zone_base(const float* priority, const float* idle, const float* cover, const float* avoid, const float* weights,
               size_t n, float* out) {
  FpGuard guard;
  const float w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3];
  for (size_t i = 0; i < n; ++i)
    out[i] = canonical(((w0 * priority[i] + w1 * idle[i]) + w2 * cover[i]) - w3 * avoid[i]);
}

}  // namespace DW_ISA

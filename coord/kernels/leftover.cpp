// What the rows say: scores of assigned pairs, statuses of agents without a zone, and the zones' share of the scores.
// The twins are in plan_ref.
#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "ways.hpp"

namespace DW_ISA {
namespace {

enum Status : uint8_t { kIdle = 1, kUnreachable = 4, kUnsafe = 6, kConflict = 7, kLowEnergy = 8, kMissing = 9 };

constexpr size_t kAgentsPerBlock = 64;

// Zones in Morton order, sixteen of them and the rectangle around them at a time; any order gives the same status.
struct ZoneArrays {
  size_t count;
  float *x, *y, *z, *radius, *cost;
  uint32_t *need, *component;
  uint8_t* blocked;
  Rect* around;

  ZoneArrays(size_t room, Arena& arena)
      : count(0), x(arena.take<float>(room)), y(arena.take<float>(room)), z(arena.take<float>(room)),
        radius(arena.take<float>(room)), cost(arena.take<float>(room)), need(arena.take<uint32_t>(room)),
        component(arena.take<uint32_t>(room)), blocked(arena.take<uint8_t>(room)),
        around(arena.take<Rect>(room / 16 + 1)) {}
  void add(const Problem& p, size_t i) {
    x[count] = p.zx[i];
    y[count] = p.zy[i];
    z[count] = p.zz[i];
    radius[count] = p.radius[i];
    cost[count] = p.cost[i];
    need[count] = p.need[i];
    component[count] = p.zcomponent[i];
    blocked[count] = p.blocked[i];
    Rect& r = around[count / 16];
    if (count % 16 == 0) r = {x[count], y[count], x[count], y[count]};
    r.x0 = x[count] < r.x0 ? x[count] : r.x0;
    r.y0 = y[count] < r.y0 ? y[count] : r.y0;
    r.x1 = x[count] > r.x1 ? x[count] : r.x1;
    r.y1 = y[count] > r.y1 ? y[count] : r.y1;
    ++count;
  }
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
uint32_t ways_blocked(const Problem& p, Blockers& blockers, size_t a, const ZoneArrays& zones, size_t first, uint32_t lanes) {
  if (p.shapes == nullptr || lanes == 0) return 0;
  if ((lanes & (lanes - 1)) != 0 &&
      blockers.block_all({p.ax[a], p.ay[a], p.ax[a], p.ay[a]}, zones.around[first / 16]))
    return lanes;
  uint32_t out = 0;
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const size_t z = first + size_t(l);
    if (blockers.block(p.ax[a], p.ay[a], zones.x[z], zones.y[z])) out |= 1u << l;
  }
  return out;
}

uint8_t status_of(const Problem& p, const Scale& s, size_t a, const ZoneArrays& free, const ZoneArrays& all) {
  Blockers blockers(s.ways);
  bool unsafe = false, unreachable = false, low = false, missing = false;
  for (size_t first = 0; first < free.count; first += 16) {
    const Tests t = test16(p, s, a, free, first);
    const uint32_t fit = t.capable & t.charged & t.near;
    const uint32_t shut = t.blocked | ways_blocked(p, blockers, a, free, first, fit & ~t.blocked);
    if (fit & ~shut) return kIdle;
    unsafe |= (fit & shut) != 0;
  }
  if (unsafe) return kUnsafe;
  for (size_t first = 0; first < all.count; first += 16) {
    const size_t n = all.count - first < 16 ? all.count - first : 16;
    const Tests t = test16(p, s, a, all, first);
    const uint32_t fit = t.capable & t.charged & ~t.blocked;
    if (fit & t.near & ~ways_blocked(p, blockers, a, all, first, fit & t.near)) return kConflict;
    if (!unreachable) {
      const uint32_t far = fit & ~t.near;
      unreachable = (far & ~ways_blocked(p, blockers, a, all, first, far)) != 0;
    }
    low |= (t.capable & ~t.charged) != 0;
    missing |= (~t.capable & ((1u << n) - 1u)) != 0;
  }
  return unreachable ? kUnreachable : low ? kLowEnergy : missing ? kMissing : kIdle;
}

struct Leftover {
  const Problem* problem;
  Scale scale;
  const ZoneArrays *free, *all;
  uint8_t* status;
};

void run_block(void* context, size_t block) {
  FpGuard guard;
  const Leftover& w = *static_cast<Leftover*>(context);
  const size_t first = block * kAgentsPerBlock;
  const size_t last = first + kAgentsPerBlock < w.problem->n ? first + kAgentsPerBlock : w.problem->n;
  for (size_t a = first; a < last; ++a) w.status[a] = status_of(*w.problem, w.scale, a, *w.free, *w.all);
}

}  // namespace

void leftover_status(const Problem& problem, const uint8_t* taken, uint8_t* status, void* workspace) {
  FpGuard guard;
  const size_t m = problem.m;
  Arena arena(workspace);
  ZoneArrays free(m, arena), all(m, arena);
  uint32_t* order = arena.take<uint32_t>(m);
  morton_order(problem.zx, problem.zy, m, order, arena);
  for (size_t i = 0; i < m; ++i) {
    all.add(problem, order[i]);
    if (!taken[order[i]]) free.add(problem, order[i]);
  }
  const WayIndex ways(problem.shapes, arena);
  Leftover work{&problem, scale_of(problem), &free, &all, status};
  work.scale.ways = &ways;
  dw_parallel((problem.n + kAgentsPerBlock - 1) / kAgentsPerBlock, run_block, &work);
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

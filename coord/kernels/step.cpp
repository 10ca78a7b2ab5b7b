// One straight step of many agents; the twin is coord/motion_ref.py, step by step.
#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kAgentsPerBlock = 8192;
constexpr float kNormalMin = 0x1p-126f;

struct Sixteen {
  F32x16 x, y, z, gone;
  M32x16 arrives;
};

// d = goal - position; distance ≤ speed: the goal itself, else position + d·(speed ÷ distance).
DW_INLINE Sixteen step16(F32x16 x, F32x16 y, F32x16 z, F32x16 speed, F32x16 gx, F32x16 gy, F32x16 gz) {
  const F32x16 dx = gx - x, dy = gy - y, dz = gz - z;
  const F32x16 distance = sqrt((dx * dx + dy * dy) + dz * dz);
  const M32x16 moves = le(F32x16::set1(kNormalMin), speed) & lt(speed, F32x16::set1(__builtin_inff()));
  const M32x16 arrives = moves & le(distance, speed);
  const F32x16 share = speed / distance;
  const auto at = [&](F32x16 from, F32x16 d, F32x16 goal) DW_LAMBDA {
    return select(arrives, goal, select(moves, canonical(from + d * share), from));
  };
  return {at(x, dx, gx), at(y, dy, gy), at(z, dz, gz),
          select(arrives, distance, select(moves, speed, F32x16::zero())), arrives};
}

void mark(uint8_t* arrived, size_t count, M32x16 arrives) {
  const uint32_t in = lane_bits(arrives);
  for (size_t l = 0; l < count; ++l) arrived[l] = uint8_t((in >> l) & 1u);
}

// Columns without gaps.
void columns(const Walk& w, float* gone, uint8_t* arrived, size_t first, size_t last) {
  for (size_t i = first; i < last; i += 16) {
    const size_t n = last - i < 16 ? last - i : 16;
    const auto in = [&](const float* p) DW_LAMBDA {
      return n == 16 ? F32x16::load(p + i) : F32x16::load_partial(p + i, n, 0.0f);
    };
    const Sixteen s = step16(in(w.x), in(w.y), in(w.z), in(w.speed), in(w.gx), in(w.gy), in(w.gz));
    const auto out = [&](float* p, F32x16 value) DW_LAMBDA {
      if (n == 16) store(p + i, value);
      else store_partial(p + i, n, value);
    };
    out(w.x, s.x);
    out(w.y, s.y);
    out(w.z, s.z);
    if (gone != nullptr) out(gone, s.gone);
    if (arrived != nullptr) mark(arrived + i, n, s.arrives);
  }
}

// Fields of records, of all or of some rows: sixteen agents at a time through columns on the stack.
void records(const Walk& w, float* gone, uint8_t* arrived, size_t first, size_t last) {
  const float* const field[7] = {w.x, w.y, w.z, w.speed, w.gx, w.gy, w.gz};
  float* const moved[3] = {w.x, w.y, w.z};
  float room[7][16] = {};
  ptrdiff_t row[16];
  for (size_t i = first; i < last; i += 16) {
    const size_t n = last - i < 16 ? last - i : 16;
    for (size_t l = 0; l < n; ++l) row[l] = w.rows == nullptr ? ptrdiff_t(i + l) : ptrdiff_t(w.rows[i + l]);
    for (int f = 0; f < 7; ++f)
      for (size_t l = 0; l < n; ++l) room[f][l] = field[f][row[l] * w.step[f]];
    const Sixteen s = step16(F32x16::load(room[0]), F32x16::load(room[1]), F32x16::load(room[2]), F32x16::load(room[3]),
                             F32x16::load(room[4]), F32x16::load(room[5]), F32x16::load(room[6]));
    store(room[0], s.x);
    store(room[1], s.y);
    store(room[2], s.z);
    for (int f = 0; f < 3; ++f)
      for (size_t l = 0; l < n; ++l) moved[f][row[l] * w.step[f]] = room[f][l];
    if (gone != nullptr) store_partial(gone + i, n, s.gone);
    if (arrived != nullptr) mark(arrived + i, n, s.arrives);
  }
}

bool is_dense(const Walk& w) {
  for (const ptrdiff_t step : w.step)
    if (step != 1) return false;
  return w.rows == nullptr;
}

struct Call {
  const Walk& walk;
  float* gone;
  uint8_t* arrived;
};
}  // namespace

void straight_steps(const Walk& walk, float* gone, uint8_t* arrived) {
  FpGuard guard;
  Call call{walk, gone, arrived};
  const auto run = [](void* context, size_t block) {
    const Call& c = *static_cast<const Call*>(context);
    const size_t first = block * kAgentsPerBlock;
    const size_t last = first + kAgentsPerBlock < c.walk.n ? first + kAgentsPerBlock : c.walk.n;
    (is_dense(c.walk) ? columns : records)(c.walk, c.gone, c.arrived, first, last);
  };
  dw_parallel((walk.n + kAgentsPerBlock - 1) / kAgentsPerBlock, run, &call);
}

}  // namespace DW_ISA

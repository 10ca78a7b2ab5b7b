// One straight step of many agents; the twin is coord/moving/motion_ref.py, step by step.
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

// Rows that arrived, ascending; those of one block of agents begin where the block does, with -1 behind them.
class Arrivals {
 public:
  Arrivals(const Walk& walk, int64_t* rows, size_t first, size_t last)
      : of_(walk.rows), at_(rows == nullptr ? nullptr : rows + first), end_(rows + last) {}
  DW_INLINE void add(size_t i, uint32_t lanes) {
    if (at_ == nullptr) return;
    for (; lanes != 0; lanes &= lanes - 1) {
      const size_t step = i + size_t(__builtin_ctz(lanes));
      *at_++ = of_ == nullptr ? int64_t(step) : of_[step];
    }
  }
  void close() {
    if (at_ != nullptr && at_ < end_) *at_ = -1;
  }

 private:
  const int64_t* of_;
  int64_t *at_, *end_;
};

DW_INLINE uint32_t lanes_below(size_t n) { return n < 16 ? (1u << n) - 1 : 0xFFFFu; }

constexpr size_t kAhead = 512;  // floats: a column is asked for this long before it is read

// Columns without gaps.
void columns(const Walk& w, float* gone, Arrivals& arrived, size_t first, size_t last) {
  for (size_t i = first; i < last; i += 16) {
    const size_t n = last - i < 16 ? last - i : 16;
    const auto in = [&](const float* p) DW_LAMBDA {
      __builtin_prefetch(p + i + kAhead);
      return n == 16 ? F32x16::load(p + i) : F32x16::load_partial(p + i, n, 0.0f);
    };
    const F32x16 z = in(w.z);
    const Sixteen s = step16(in(w.x), in(w.y), z, in(w.speed), in(w.gx), in(w.gy), in(w.gz));
    const auto out = [&](float* p, F32x16 value) DW_LAMBDA {
      if (n == 16) store(p + i, value);
      else store_partial(p + i, n, value);
    };
    out(w.x, s.x);
    out(w.y, s.y);
    if (any(ne(bits(s.z), bits(z)))) out(w.z, s.z);  // most fleets are flat, and memory is what takes the time
    if (gone != nullptr) out(gone, s.gone);
    arrived.add(i, lane_bits(s.arrives) & lanes_below(n));
  }
}

// Fields of records, of all or of some rows: sixteen agents at a time through columns on the stack.
void records(const Walk& w, float* gone, Arrivals& arrived, size_t first, size_t last) {
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
    arrived.add(i, lane_bits(s.arrives) & lanes_below(n));
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
  int64_t* arrived;
};

// Moves the rows of the blocks together; returns how many there are.
size_t join(int64_t* rows, size_t n) {
  size_t count = 0;
  for (size_t first = 0; first < n; first += kAgentsPerBlock)
    for (size_t i = first; i < n && i < first + kAgentsPerBlock && rows[i] >= 0; ++i) rows[count++] = rows[i];
  return count;
}
}  // namespace

size_t straight_steps(const Walk& walk, float* gone, int64_t* arrived) {
  FpGuard guard;
  Call call{walk, gone, arrived};
  const auto run = [](void* context, size_t block) {
    const Call& c = *static_cast<const Call*>(context);
    const size_t first = block * kAgentsPerBlock;
    const size_t last = first + kAgentsPerBlock < c.walk.n ? first + kAgentsPerBlock : c.walk.n;
    Arrivals there(c.walk, c.arrived, first, last);
    (is_dense(c.walk) ? columns : records)(c.walk, c.gone, there, first, last);
    there.close();
  };
  dw_parallel((walk.n + kAgentsPerBlock - 1) / kAgentsPerBlock, run, &call);
  return arrived == nullptr ? 0 : join(arrived, walk.n);
}

}  // namespace DW_ISA

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

// Columns without gaps; `base` is what the first of them is in all.
void columns(const Walk& w, float* gone, Arrivals& arrived, size_t base, size_t first, size_t last) {
  for (size_t i = first; i < last; i += 16) {
    const size_t n = last - i < 16 ? last - i : 16;
    const auto in = [&](const float* p) DW_LAMBDA {
      __builtin_prefetch(p + i + kAhead);
      return n == 16 ? F32x16::load(p + i) : F32x16::load_partial(p + i, n, 0.0f);
    };
    const auto out = [&](float* p, F32x16 value) DW_LAMBDA {
      if (n == 16) store(p + i, value);
      else store_partial(p + i, n, value);
    };
    const F32x16 x = in(w.x), y = in(w.y), z = in(w.z), speed = in(w.speed);
    const F32x16 gx = in(w.gx), gy = in(w.gy), gz = in(w.gz);
    const F32x16 dx = gx - x, dy = gy - y, dz = gz - z;
    const F32x16 distance = sqrt((dx * dx + dy * dy) + dz * dz);
    const F32x16 share = speed / distance;
    // all of them move, none arrives, and no distance is infinite or NaN: then no result is NaN
    if (all(le(F32x16::set1(kNormalMin), speed) & lt(speed, distance) & lt(distance, F32x16::set1(__builtin_inff())))) {
      const F32x16 up = z + dz * share;
      out(w.x, x + dx * share);
      out(w.y, y + dy * share);
      if (any(ne(bits(up), bits(z)))) out(w.z, up);  // most fleets are flat, and memory is what takes the time
      if (gone != nullptr) out(gone, speed);
      continue;
    }
    const Sixteen s = step16(x, y, z, speed, gx, gy, gz);
    out(w.x, s.x);
    out(w.y, s.y);
    out(w.z, s.z);
    if (gone != nullptr) out(gone, s.gone);
    arrived.add(base + i, lane_bits(s.arrives) & lanes_below(n));
  }
}

constexpr size_t kChunk = 256;  // agents whose fields are columns on the stack for a while
using Four = float __attribute__((vector_size(16)));
using FourAnywhere = float __attribute__((vector_size(16), aligned(4)));

// Fields of records, of all or of some rows: gathered into columns, moved there, and put back.
class Chunk {
 public:
  Chunk(const Walk& walk, size_t first, size_t count)
      : w(walk), begin(first), n(count), from{w.x, w.y, w.z, w.speed, w.gx, w.gy, w.gz} {
    const bool quad = quads();
    if (quad) gather_quads();
    for (int f = quad ? 4 : 0; f < 7; ++f) {
      if (dense(f)) continue;
      const ptrdiff_t step = w.step[f];
      for (size_t l = 0; l < n; ++l) room[f][l] = from[f][row(l) * step];
    }
  }
  Walk columns() {
    const auto at = [&](int f) { return dense(f) ? const_cast<float*>(from[f]) + begin : room[f]; };
    return {n, nullptr, at(0), at(1), at(2), at(3), at(4), at(5), at(6), {1, 1, 1, 1, 1, 1, 1}};
  }
  void put_back() {
    float* const to[3] = {w.x, w.y, w.z};
    for (int f = 0; f < 3; ++f) {
      if (dense(f)) continue;
      const ptrdiff_t step = w.step[f];
      for (size_t l = 0; l < n; ++l) to[f][row(l) * step] = room[f][l];
    }
  }

 private:
  const Walk& w;
  size_t begin, n;
  const float* from[7];
  alignas(64) float room[7][kChunk];

  DW_INLINE ptrdiff_t row(size_t l) const {
    return w.rows == nullptr ? ptrdiff_t(begin + l) : ptrdiff_t(w.rows[begin + l]);
  }
  bool dense(int f) const { return w.rows == nullptr && w.step[f] == 1; }
  // x, y, z and speed lie one behind the other, as in AgentState.
  bool quads() const {
    for (int f = 1; f < 4; ++f)
      if (from[f] != from[0] + f || w.step[f] != w.step[0]) return false;
    return !dense(0);
  }
  void gather_quads() {
    const auto load = [&](size_t l) DW_LAMBDA {
      return Four(*reinterpret_cast<const FourAnywhere*>(w.x + row(l < n ? l : n - 1) * w.step[0]));
    };
    for (size_t l = 0; l < n; l += 4) {
      const Four a = load(l), b = load(l + 1), c = load(l + 2), d = load(l + 3);
      const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      const Four ef = __builtin_shufflevector(a, b, 2, 6, 3, 7), gh = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      *reinterpret_cast<Four*>(room[0] + l) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(room[1] + l) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
      *reinterpret_cast<Four*>(room[2] + l) = __builtin_shufflevector(ef, gh, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(room[3] + l) = __builtin_shufflevector(ef, gh, 2, 3, 6, 7);
    }
  }
};

void records(const Walk& w, float* gone, Arrivals& arrived, size_t first, size_t last) {
  for (size_t i = first; i < last; i += kChunk) {
    Chunk chunk(w, i, last - i < kChunk ? last - i : kChunk);
    const Walk there = chunk.columns();
    columns(there, gone == nullptr ? nullptr : gone + i, arrived, i, 0, there.n);
    chunk.put_back();
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
  Call call{walk, gone, arrived};
  const auto run = [](void* context, size_t block) {
    FpGuard guard;
    const Call& c = *static_cast<const Call*>(context);
    const size_t first = block * kAgentsPerBlock;
    const size_t last = first + kAgentsPerBlock < c.walk.n ? first + kAgentsPerBlock : c.walk.n;
    Arrivals there(c.walk, c.arrived, first, last);
    if (is_dense(c.walk)) columns(c.walk, c.gone, there, 0, first, last);
    else records(c.walk, c.gone, there, first, last);
    there.close();
  };
  dw_parallel((walk.n + kAgentsPerBlock - 1) / kAgentsPerBlock, run, &call);
  return arrived == nullptr ? 0 : join(arrived, walk.n);
}

}  // namespace DW_ISA

// Neighbours within a radius and the closest pair; the twin is coord/moving/neighbours_ref.py.
#include "cells.hpp"
#include "crowd.hpp"
#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"
#include "tree.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kGroupsPerBlock = 64;

// Places in the order of points that may be near some of a group; when it is full, what is there is worked off.
constexpr size_t kListed = 496;
struct Listed {
  uint32_t place[kListed + 16];
  size_t count = 0;
};

// Lists the points within reach of the box `a`; calls full() whenever there are many.
template <bool flat, class Full>
void list_near(const Crowd<flat>& c, const Box1& a, F32x16 reach, int h, size_t e, Listed& list, Full& full) {
  for (uint32_t in = lane_bits(le(c.to_boxes(a, c.level[h][e]), reach)); in != 0; in &= in - 1) {
    const size_t child = 16 * e + size_t(__builtin_ctz(in));
    if (h > 0) {
      list_near(c, a, reach, h - 1, child, list, full);
      continue;
    }
    size_t count = list.count;
    for (uint32_t some = lane_bits(le(c.to_points(a, child), reach)); some != 0; some &= some - 1)
      list.place[count++] = uint32_t(16 * child) + uint32_t(__builtin_ctz(some));
    list.count = count;
    if (count >= kListed) full();
  }
}

// Sixteen points, and which of them a point is near.
template <bool flat>
struct Group {
  const float *cx, *cy, *cz;
  F32x16 x, y, z, reach;
  template <class Sorted>
  Group(const Sorted& c, size_t first, float radius)
      : cx(c.x), cy(c.y), cz(c.z), x(F32x16::load(c.x + first)), y(F32x16::load(c.y + first)), z(F32x16::zero()),
        reach(F32x16::set1(radius * radius)) {
    if constexpr (!flat) z = F32x16::load(c.z + first);
  }
  DW_INLINE M32x16 near(size_t place) const {
    F32x16 dz = F32x16::zero();
    if constexpr (!flat) dz = F32x16::set1(cz[place]) - z;
    return le(square_distance<flat>(F32x16::set1(cx[place]) - x, F32x16::set1(cy[place]) - y, dz), reach);
  }
};

template <bool flat>
DW_INLINE U32x16 count_listed(const Group<flat> group, const Listed& list, U32x16 sum) {
  const U32x16 one = U32x16::set1(1);
  for (size_t i = 0; i < list.count; ++i) {
    const M32x16 near = group.near(list.place[i]);
    sum = select(near, sum + one, sum);
  }
  return sum;
}

template <bool flat>
void count_group(const Crowd<flat>& c, size_t g, float radius, uint32_t* count, uint64_t* total) {
  const Group<flat> group(c, 16 * g, radius);
  U32x16 sum = U32x16::zero();
  Listed list;
  auto full = [&] {
    sum = count_listed(group, list, sum);
    list.count = 0;
  };
  list_near(c, c.box(g), group.reach, c.top, 0, list, full);
  full();
  uint32_t found[16];
  store(found, sum);
  for (size_t l = 0; l < 16 && 16 * g + l < c.n; ++l) {
    count[c.number[16 * g + l]] = found[l] - 1;  // itself is always near
    *total += found[l] - 1;
  }
}

// Ascending: by insertion while short, else a heap in place.
void sort_numbers(uint32_t* v, size_t n) {
  if (n <= 32) {
    for (size_t i = 1; i < n; ++i) {
      const uint32_t value = v[i];
      size_t at = i;
      for (; at > 0 && value < v[at - 1]; --at) v[at] = v[at - 1];
      v[at] = value;
    }
    return;
  }
  const auto sink = [v](size_t at, size_t end) {
    const uint32_t value = v[at];
    for (size_t child = 2 * at + 1; child < end; child = 2 * at + 1) {
      if (child + 1 < end && v[child] < v[child + 1]) ++child;
      if (!(value < v[child])) break;
      v[at] = v[child];
      at = child;
    }
    v[at] = value;
  };
  for (size_t at = n / 2; at-- > 0;) sink(at, n);
  for (size_t end = n; end-- > 1;) {
    const uint32_t last = v[0];
    v[0] = v[end];
    v[end] = last;
    sink(0, end);
  }
}

template <bool flat>
void list_group(const Crowd<flat>& c, size_t g, float radius, const uint32_t* start, uint32_t* index) {
  const Group<flat> group(c, 16 * g, radius);
  uint32_t at[16];
  const size_t lanes = c.n - 16 * g < 16 ? c.n - 16 * g : 16;
  for (size_t l = 0; l < lanes; ++l) at[l] = start[c.number[16 * g + l]];
  Listed list;
  auto full = [&] {
    for (size_t i = 0; i < list.count; ++i) {
      const size_t place = list.place[i];
      uint32_t in = lane_bits(group.near(place));
      if (place / 16 == g) in &= ~(1u << (place % 16));
      for (; in != 0; in &= in - 1) {
        const size_t l = size_t(__builtin_ctz(in));
        if (at[l] < start[c.number[16 * g + l] + 1]) index[at[l]++] = c.number[place];
      }
    }
    list.count = 0;
  };
  list_near(c, c.box(g), group.reach, c.top, 0, list, full);
  full();
  for (size_t l = 0; l < lanes; ++l) {
    const uint32_t first = start[c.number[16 * g + l]];
    sort_numbers(index + first, at[l] - first);
  }
}

struct Call {
  const void* sorted;
  float radius;
  uint64_t limit, total;
  uint32_t* count;
  const uint32_t* start;
  uint32_t* index;
};

template <bool flat>
DW_INLINE void count_row(const Cells<flat>& c, uint32_t row, float radius, uint32_t* count, uint64_t* total) {
  const U32x16 one = U32x16::set1(1);
  uint64_t all = 0;
  c.groups(row, [&](size_t first, size_t lanes, const typename Cells<flat>::Runs& runs) DW_LAMBDA {
    const Group<flat> group(c, first, radius);
    U32x16 sum = U32x16::zero();
    for (int i = 0; i < 3; ++i)
      for (size_t place = runs.first[i]; place < runs.end[i]; ++place) {
        const M32x16 near = group.near(place);
        sum = select(near, sum + one, sum);
      }
    uint32_t found[16];
    store(found, sum);
    for (size_t l = 0; l < lanes; ++l) {
      count[c.number[first + l]] = found[l] - 1;  // itself is always near
      all += found[l] - 1;
    }
  });
  *total += all;
}

template <bool flat>
void list_row(const Cells<flat>& c, uint32_t row, float radius, const uint32_t* start, uint32_t* index) {
  c.groups(row, [&](size_t first, size_t lanes, const typename Cells<flat>::Runs& runs) DW_LAMBDA {
    const Group<flat> group(c, first, radius);
    const uint32_t inside = lanes < 16 ? (1u << lanes) - 1 : 0xFFFFu;
    uint32_t at[16], end[16];
    for (size_t l = 0; l < lanes; ++l) {
      at[l] = start[c.number[first + l]];
      end[l] = start[c.number[first + l] + 1];
    }
    for (int i = 0; i < 3; ++i)
      for (size_t place = runs.first[i]; place < runs.end[i]; ++place) {
        uint32_t in = lane_bits(group.near(place)) & inside;
        if (place - first < 16) in &= ~(1u << (place - first));
        for (; in != 0; in &= in - 1) {
          const size_t l = size_t(__builtin_ctz(in));
          if (at[l] < end[l]) index[at[l]++] = c.number[place];
        }
      }
    for (size_t l = 0; l < lanes; ++l) {
      const uint32_t from = start[c.number[first + l]];
      sort_numbers(index + from, at[l] - from);
    }
  });
}

constexpr uint32_t kRowsPerBlock = 16;

template <bool flat>
void run_cells(const Cells<flat>& cells, Call& call) {
  call.sorted = &cells;
  const auto block = [](void* context, size_t b) {
    FpGuard guard;
    Call& job = *static_cast<Call*>(context);
    const Cells<flat>& c = *static_cast<const Cells<flat>*>(job.sorted);
    if (__atomic_load_n(&job.total, __ATOMIC_RELAXED) > job.limit) return;  // refused already
    uint64_t total = 0;
    for (uint32_t r = uint32_t(b) * kRowsPerBlock; r < (b + 1) * kRowsPerBlock && r < c.rows; ++r) {
      if (job.start == nullptr) count_row(c, r, job.radius, job.count, &total);
      else list_row(c, r, job.radius, job.start, job.index);
    }
    __atomic_fetch_add(&job.total, total, __ATOMIC_RELAXED);
  };
  dw_parallel((cells.rows + kRowsPerBlock - 1) / kRowsPerBlock, block, &call);
}

template <bool flat>
void run_crowd(const Points& p, Call& call, Arena arena) {
  const Crowd<flat> crowd(p, arena);
  call.sorted = &crowd;
  const auto block = [](void* context, size_t b) {
    FpGuard guard;
    Call& job = *static_cast<Call*>(context);
    const Crowd<flat>& c = *static_cast<const Crowd<flat>*>(job.sorted);
    if (__atomic_load_n(&job.total, __ATOMIC_RELAXED) > job.limit) return;  // refused already
    uint64_t total = 0;
    for (size_t g = b * kGroupsPerBlock; g < (b + 1) * kGroupsPerBlock && g < c.groups; ++g) {
      if (job.start == nullptr) count_group(c, g, job.radius, job.count, &total);
      else list_group(c, g, job.radius, job.start, job.index);
    }
    __atomic_fetch_add(&job.total, total, __ATOMIC_RELAXED);
  };
  dw_parallel((crowd.groups + kGroupsPerBlock - 1) / kGroupsPerBlock, block, &call);
}

// Cells where they hold few points each, a tree of boxes where points crowd or an order was given.
template <bool flat>
void run(Points p, Call& call, void* workspace) {
  Arena arena(workspace);
  if (p.n == 0) return;
  if (p.order == nullptr) {
    Cells<flat> cells;
    if (cells.fill(p, call.radius, arena)) return run_cells(cells, call);
    uint32_t* order = arena.take<uint32_t>(p.n);
    morton_order(p.x, p.y, p.n, order, arena);
    p.order = order;
  }
  run_crowd<flat>(p, call, arena);
}

// The closest pair so far: by square distance, then by the lower number, then by the higher one.
struct Closest {
  float square;
  uint32_t first, second;
  void offer(float d2, uint32_t a, uint32_t b) {
    const uint32_t low = a < b ? a : b, high = a < b ? b : a;
    if (d2 < square || (d2 == square && (low < first || (low == first && high < second)))) *this = {d2, low, high};
  }
};

template <bool flat>
class ClosestSearch {
 public:
  ClosestSearch(const Crowd<flat>& crowd) : c(crowd) {}
  Closest best{__builtin_inff(), 0xFFFFFFFFu, 0xFFFFFFFFu};

  void run() {
    for (size_t g = 0; g < c.groups; ++g) within(g);
    for (size_t g = 0; g < c.groups; ++g) {
      const Box1 box = c.box(g);
      descend(g, box, c.top, 0);
    }
  }

 private:
  const Crowd<flat>& c;

  // Lanes that may hold a better pair; equal distances only where a lower number may come.
  DW_INLINE uint32_t hopeful(F32x16 square, uint32_t low, U32x16 lows) const {
    const F32x16 reach = F32x16::set1(best.square);
    const U32x16 least = select(lt(lows, U32x16::set1(low)), lows, U32x16::set1(low));
    return lane_bits(lt(square, reach) | (eq(square, reach) & !gt(least, U32x16::set1(best.first))));
  }
  void descend(size_t g, const Box1& box, int h, size_t e) {
    const Box16& block = c.level[h][e];
    for (uint32_t in = hopeful(c.to_boxes(box, block), box.low, U32x16::load(block.low)); in != 0; in &= in - 1) {
      const size_t child = 16 * e + size_t(__builtin_ctz(in));
      if (h > 0) {
        if ((child + 1) << (4 * h) > g) descend(g, box, h - 1, child);
      } else if (child > g) {
        between(g, box, child);
      }
    }
  }
  void between(size_t g, const Box1& box, size_t other) {
    const uint32_t near = hopeful(c.to_points(box, other), box.low, U32x16::load(c.number + 16 * other));
    for (uint32_t in = near; in != 0; in &= in - 1) compare(g, 16 * other + size_t(__builtin_ctz(in)), 0xFFFFu);
  }
  void within(size_t g) {
    for (uint32_t l = 1; l < 16 && 16 * g + l < c.n; ++l) compare(g, 16 * g + l, (1u << l) - 1);
  }
  DW_INLINE void compare(size_t g, size_t at, uint32_t lanes) {
    F32x16 dz = F32x16::zero();
    if constexpr (!flat) dz = F32x16::set1(c.z[at]) - F32x16::load(c.z + 16 * g);
    const F32x16 square = square_distance<flat>(F32x16::set1(c.x[at]) - F32x16::load(c.x + 16 * g),
                                                F32x16::set1(c.y[at]) - F32x16::load(c.y + 16 * g), dz);
    uint32_t in = lane_bits(le(square, F32x16::set1(best.square))) & lanes;
    if (in == 0) return;
    float d2[16];
    store(d2, square);
    for (; in != 0; in &= in - 1) {
      const int l = __builtin_ctz(in);
      best.offer(d2[l], c.number[16 * g + size_t(l)], c.number[at]);
    }
  }
};

template <bool flat>
Closest closest(const Points& p, void* workspace) {
  const Crowd<flat> crowd(p, Arena(workspace));
  ClosestSearch<flat> search(crowd);
  search.run();
  return search.best;
}

}  // namespace

size_t crowd_workspace(size_t n) {
  const size_t tree = Crowd<false>::bytes(n), sort = 3 * Arena::bytes(n * 4) + 64, cells = Cells<false>::bytes(n);
  const size_t ordered = Arena::bytes(n * 4) + (tree < sort ? sort : tree);
  return ordered < cells ? cells : ordered;
}

void crowd_order(const float* x, const float* y, size_t n, uint32_t* order, void* workspace) {
  FpGuard guard;
  morton_order(x, y, n, order, Arena(workspace));
}

uint64_t neighbour_counts(const Points& p, float radius, uint64_t limit, uint32_t* count, void* workspace) {
  FpGuard guard;
  Call call{nullptr, radius, limit, 0, count, nullptr, nullptr};
  (p.z == nullptr ? run<true> : run<false>)(p, call, workspace);
  return call.total;
}

void neighbour_lists(const Points& p, float radius, const uint32_t* start, uint32_t* index, void* workspace) {
  FpGuard guard;
  Call call{nullptr, radius, ~uint64_t(0), 0, nullptr, start, index};
  (p.z == nullptr ? run<true> : run<false>)(p, call, workspace);
}

float closest_pair(const Points& p, uint32_t* pair, void* workspace) {
  FpGuard guard;
  const Closest found = p.z == nullptr ? closest<true>(p, workspace) : closest<false>(p, workspace);
  pair[0] = found.first;
  pair[1] = found.second;
  return found.square;
}

}  // namespace DW_ISA

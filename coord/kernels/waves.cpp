// Distances to goals as one bit a cell; the twin is coord/moving/pibt_ref.py.
#include "arena.hpp"
#include "kernels.hpp"

namespace DW_ISA {

namespace {
// Words of zeros around a bitset, so that a shift by a row may read past its ends.
size_t margin(int32_t width) { return size_t(width) / 64 + 2; }

// Words low..high of the next front; true where it holds a cell.
uint64_t spread(const uint64_t* __restrict f, uint64_t* __restrict next, uint64_t* __restrict unseen,
                uint64_t* __restrict row, size_t low, size_t high, size_t width, uint64_t keep) {
  const size_t far = width / 64;
  const int turn = int(width % 64), rest = 63 - turn;
  const uint64_t *north = f - far, *south = f + far;
  uint64_t any = 0;
  for (size_t k = low; k <= high; ++k) {
    const uint64_t beside = f[k] << 1 | f[k - 1] >> 63 | f[k] >> 1 | f[k + 1] << 63;
    const uint64_t above = north[k] << turn | north[k - 1] >> 1 >> rest;
    const uint64_t below = south[k] >> turn | south[k + 1] << 1 << rest;
    const uint64_t fresh = (beside | above | below) & unseen[k];
    unseen[k] ^= fresh;
    next[k] = fresh;
    row[k] |= fresh & keep;
    any |= fresh;
  }
  return any;
}
}  // namespace

size_t waves_workspace(int32_t cells, int32_t width) {
  const size_t words = (size_t(cells) + 63) / 64;
  return 3 * Arena::bytes((words + 2 * margin(width)) * 8) + 64;
}

// Breadth first, a whole front at once: the front is a bitset, its next is the union of the front moved by one cell in
// each direction, less what was seen. A blocked border keeps rows apart. length[i] is the distance of `start`.
void grid_waves(const uint64_t* free, int32_t cells, int32_t width, const int32_t* start, const int32_t* goal, size_t n,
                uint64_t* bits, int32_t* length, void* workspace) {
  Arena arena(workspace);
  const size_t words = (size_t(cells) + 63) / 64, edge = margin(width), whole = words + 2 * edge;
  const size_t far = size_t(width) / 64;
  uint64_t* fronts[2] = {arena.take<uint64_t>(whole) + edge, arena.take<uint64_t>(whole) + edge};
  uint64_t* unseen = arena.take<uint64_t>(words);
  for (size_t i = 0; i < n; ++i) {
    uint64_t* row = bits + i * words;
    memset(row, 0, words * 8);
    memset(fronts[0] - edge, 0, whole * 8);
    memset(fronts[1] - edge, 0, whole * 8);
    memcpy(unseen, free, words * 8);
    length[i] = start[i] == goal[i] ? 0 : -1;
    const size_t home = size_t(goal[i]) / 64, from = size_t(start[i]) / 64;
    const uint64_t home_bit = uint64_t(1) << (goal[i] % 64), from_bit = uint64_t(1) << (start[i] % 64);
    if ((unseen[home] & home_bit) == 0 || (unseen[from] & from_bit) == 0) {
      length[i] = -1;
      continue;
    }
    unseen[home] ^= home_bit;
    fronts[0][home] = home_bit;
    size_t low = home, high = home;
    for (int32_t level = 1;; ++level) {
      low = low > far + 1 ? low - far - 1 : 0;
      high = high + far + 1 < words - 1 ? high + far + 1 : words - 1;
      const uint64_t any = spread(fronts[(level - 1) & 1], fronts[level & 1], unseen, row, low, high, size_t(width),
                                  (level & 2) != 0 ? ~uint64_t(0) : 0);
      if (any == 0) break;
      if (length[i] < 0 && (fronts[level & 1][from] & from_bit) != 0) length[i] = level;
    }
  }
}

}  // namespace DW_ISA

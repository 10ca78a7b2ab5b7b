// The self-test of conflict-free motion, for selftest.cpp; the twin is coord/selftest_ref.py.
#pragma once
#include <vector>

#include "droveway/selftest_memory.hpp"
#include "table.hpp"

namespace droveway {

// Half of the free cells hold an agent, some without a goal or standing still; ten steps with another order each.
inline void steps_self_test(const CoordTable& table, SelfTestEmit emit, void* context) {
  constexpr size_t kWidth = 39, kCells = kWidth * 31, kWords = (kCells + 63) / 64;
  constexpr int32_t offset[4] = {int32_t(kWidth), 1, -int32_t(kWidth), -1};
  Digest waves, guides, moves;
  for (uint32_t round = 0; round < 3; ++round) {
    SplitMix64 source{0x737465707300ull + round};
    const auto below = [&](uint32_t n) { return uint32_t(source.next() >> 33) % n; };
    std::vector<uint8_t> open(kCells), exits(kCells);
    std::vector<uint64_t> free(kWords);
    std::vector<int32_t> places;
    for (size_t c = 0; c < kCells; ++c) {
      const size_t x = c % kWidth, y = c / kWidth;
      const bool wall = below(100) < 10 + 10 * round;
      if (wall || x == 0 || y == 0 || x == kWidth - 1 || y == kCells / kWidth - 1) continue;
      open[c] = 1;
      free[c / 64] |= uint64_t(1) << (c % 64);
      places.push_back(int32_t(c));
    }
    for (size_t c = 0; c < kCells; ++c)
      for (int d = 0; open[c] && d < 4; ++d) exits[c] |= uint8_t(open[size_t(int32_t(c) + offset[d])] << d);
    std::vector<int32_t> now, goal;
    const auto shuffle = [&](std::vector<int32_t>& list) {
      for (size_t k = list.size(); k > 1; --k) std::swap(list[k - 1], list[below(uint32_t(k))]);
    };
    shuffle(places);
    const size_t n = places.size() / 2;
    now.assign(places.begin(), places.begin() + int64_t(n));
    shuffle(places);
    goal.assign(places.begin(), places.begin() + int64_t(n));
    std::vector<uint64_t> bits(n * kWords);
    std::vector<int32_t> length(n), row(n), order(n), to(n), kept;
    const AlignedMemory fronts(table.waves_workspace(int32_t(kCells), int32_t(kWidth)));
    table.grid_waves(free.data(), int32_t(kCells), int32_t(kWidth), now.data(), goal.data(), n, bits.data(),
                     length.data(), fronts.p);
    waves.add(bits);
    waves.add(length);
    for (size_t i = 0; i < n; ++i) {
      row[i] = order[i] = int32_t(i);
      if (length[i] < 0) goal[i] = -1;
    }
    const Lattice lattice{int32_t(kCells), int32_t(kWidth), exits.data()};
    // guide paths of those that have a goal
    std::vector<int64_t> start = {0}, all_start = {0};
    std::vector<int32_t> g_from, g_goal, g_length, g_order;
    std::vector<uint64_t> g_bits;
    for (size_t i = 0; i < n; ++i) {
      const int64_t cells = goal[i] < 0 ? 0 : length[i] + 1;
      all_start.push_back(all_start.back() + cells);
      if (cells == 0) continue;
      start.push_back(start.back() + cells);
      g_order.push_back(int32_t(g_order.size()));
      g_from.push_back(now[i]);
      g_goal.push_back(goal[i]);
      g_length.push_back(length[i]);
      g_bits.insert(g_bits.end(), bits.begin() + int64_t(i * kWords), bits.begin() + int64_t((i + 1) * kWords));
    }
    std::vector<int32_t> path(size_t(start.back()));
    std::vector<uint16_t> leaving(7 * kCells);
    const AlignedMemory levels(table.guide_workspace(int32_t(kCells)));
    table.guide_paths(lattice, {kWords, g_bits.data()}, {2, 4, 16}, g_from.data(), g_goal.data(), g_length.data(),
                      g_order.data(), g_order.size(), leaving.data(), 7, path.data(), start.data(), levels.p);
    guides.add(path);
    const AlignedMemory memory(table.pibt_workspace(int32_t(kCells), n));
    for (uint32_t tick = 0; tick < 10; ++tick) {
      shuffle(order);
      std::vector<uint8_t> swaps(n);
      for (size_t i = 0; i < n; ++i) {
        swaps[i] = below(8) != 0;
        to[i] = below(16) == 0 ? now[i] : -1;
      }
      const bool guided = tick >= 5;
      const PibtStep step{n, now.data(), goal.data(), row.data(), order.data(), swaps.data(),
                          guided ? path.data() : nullptr, guided ? all_start.data() : nullptr, tick % 2 * source.next()};
      int64_t value = 0;
      moves.add(uint32_t(table.pibt_step(lattice, {kWords, bits.data()}, step, to.data(), &value, memory.p)));
      moves.add(uint64_t(value));
      moves.add(to);
      now = to;
    }
  }
  emit(context, "coord.grid_waves", waves.hash);
  emit(context, "coord.guide_paths", guides.hash);
  emit(context, "coord.pibt_step", moves.hash);
}

}  // namespace droveway

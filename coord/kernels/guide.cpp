// Shortest paths that avoid each other; the twin is coord/moving/pibt_ref.py.
//
// The idea is the use of space of Han and Yu, "Optimizing Space Utilization for More Effective Multi-robot Path
// Planning" (ICRA 2022), which LaCAM takes up. Here only shortest paths count, so that the tick at which a cell is
// entered is known from its distance, and one pass, front after front, finds the cheapest. Integers only.
#include "arena.hpp"
#include "kernels.hpp"

namespace DW_ISA {
using droveway::Distances;
using droveway::GuideCosts;
using droveway::Lattice;

namespace {
// Agents that leave a cell in each direction at a tick: four counts of four bits; a full count stays full.
uint16_t counted(uint16_t word, int direction) {
  const int shift = 4 * direction;
  return (word >> shift & 15) == 15 ? word : uint16_t(word + (1 << shift));
}
uint32_t total(uint16_t word) {
  const uint32_t pairs = (word & 0x0F0Fu) + (word >> 4 & 0x0F0Fu);
  return (pairs & 0xFF) + (pairs >> 8);
}
}  // namespace

size_t guide_workspace(int32_t cells) {
  const size_t bytes = Arena::bytes(size_t(cells) * 4);
  return 4 * bytes + Arena::bytes(size_t(cells)) + 2 * Arena::bytes(size_t(cells) * 4) + 64;
}

// `leaving` has slabs·cells zeros and is left in any state; slab t % slabs is tick t's. The path of agent i, its start
// and its goal included, goes to path + start[i]. false: the bits are not the distances.
bool guide_paths(const Lattice& l, const Distances& d, const GuideCosts& costs, const int32_t* from, const int32_t* goal,
                 const int32_t* length, const int32_t* order, size_t n, uint16_t* leaving, uint32_t slabs, int32_t* path,
                 const int64_t* start, void* workspace) {
  Arena arena(workspace);
  const size_t cells = size_t(l.cells);
  uint32_t* stamp = arena.take<uint32_t>(cells);
  uint32_t* cost = arena.take<uint32_t>(cells);
  int32_t* front = arena.take<int32_t>(cells);
  int32_t* next = arena.take<int32_t>(cells);
  uint8_t* entered = arena.take<uint8_t>(cells);
  uint32_t* arrives = arena.take<uint32_t>(cells);
  memset(stamp, 0, cells * sizeof *stamp);
  memset(arrives, 0xFF, cells * sizeof *arrives);
  const int32_t offset[4] = {l.width, 1, -l.width, -1};
  uint32_t base = 1;  // stamp of an agent's start; a cell that it enters at tick t has base + t
  for (size_t k = 0; k < n; base += uint32_t(length[order[k]]) + 1, ++k) {
    const int32_t i = order[k], home = goal[i];
    const uint64_t* bits = d.bits + size_t(i) * d.words;
    const auto bit = [&](int32_t c) { return uint32_t(bits[size_t(c) / 64] >> (c % 64)) & 1; };
    size_t size = 1;
    front[0] = from[i];
    stamp[from[i]] = base;
    cost[from[i]] = 0;
    for (uint32_t t = 0; t < uint32_t(length[i]); ++t) {
      const uint16_t* now = leaving + size_t(t % slabs) * cells;
      const uint16_t* then = leaving + size_t((t + 1) % slabs) * cells;
      // all of a front lie length - t from the goal; its neighbours' bits tell which of them are nearer
      const uint32_t nearer = (uint32_t(length[i]) - t - 1) >> 1 & 1;
      size_t found = 0;
      for (size_t f = 0; f < size; ++f) {
        const int32_t c = front[f];
        for (int e = 0; e < 4; ++e) {
          if ((l.exits[c] >> e & 1) == 0) continue;
          const int32_t u = c + offset[e];
          if (bit(u) != nearer) continue;
          uint32_t sum = cost[c] + total(then[u]) * costs.meeting + (now[u] >> (4 * (e ^ 2)) & 15u) * costs.exchange;
          if (arrives[u] <= t + 1) sum += costs.parked;
          if (stamp[u] < base) {
            stamp[u] = base + t + 1;
            next[found++] = u;
          } else if (stamp[u] != base + t + 1 || sum >= cost[u]) {
            continue;
          }
          cost[u] = sum;
          entered[u] = uint8_t(e);
        }
      }
      int32_t* held = front;
      front = next;
      next = held;
      size = found;
    }
    if (stamp[home] != base + uint32_t(length[i])) return false;
    arrives[home] = uint32_t(length[i]);
    int32_t* cell = path + start[i];
    cell[length[i]] = home;
    for (int32_t t = length[i]; t > 0; --t) {
      const uint8_t e = entered[cell[t]];
      cell[t - 1] = cell[t] - offset[e];
      uint16_t& word = leaving[size_t(uint32_t(t - 1) % slabs) * cells + size_t(cell[t - 1])];
      word = counted(word, e);
    }
  }
  return true;
}

}  // namespace DW_ISA

// Agents that step from cell to cell of a grid with a blocked border of one cell: what the kernels of conflict-free
// motion are given. The Python twin coord/moving/pibt_ref.py defines every value.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace droveway {

// A grid as bits and as exits. Cell c is bit c % 64 of word c / 64; exits has bit d where the cell in direction d
// (0 north, 1 east, 2 south, 3 west) is free, and is 0 for blocked cells.
struct Lattice {
  int32_t cells, width;  // border included
  const uint8_t* exits;
};

// Where each goal lies: row r of `bits` has ((distance to the goal) >> 1) & 1 of every cell, 0 where there is no way.
struct Distances {
  size_t words;  // of a row
  const uint64_t* bits;
};

// One step of all agents (coord/moving/pibt_ref.py: step).
struct PibtStep {
  size_t n;
  const int32_t* now;    // cells, all different
  const int32_t* goal;   // cells, or -1: the agent has none and stays unless pushed
  const int32_t* row;    // of the goal's distances
  const int32_t* order;  // agents by priority, highest first
  const uint8_t* swaps;  // 1 where the agent may start a swap
  const int32_t* path;   // cells of every agent's guide path, or null
  const int64_t* path_start;  // [n + 1]
  uint64_t salt;         // 0: ties in the order N, E, S, W, else shuffled by it
};

// What a cell of a guide path costs (coord/moving/pibt_ref.py: guide_paths).
struct GuideCosts {
  uint32_t meeting;   // for each agent that is there at that tick
  uint32_t exchange;  // for each agent that comes the other way over the same edge
  uint32_t parked;    // where an agent has reached its goal before
};

}  // namespace droveway

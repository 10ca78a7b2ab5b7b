#include "kernels.hpp"

namespace DW_ISA {

namespace {
constexpr uint32_t blocked = 0xFFFFFFFFu;

// Breadth first from the start, neighbours in the order N, E, S, W, until the goal is entered.
bool search(const Ways& w, const int32_t step[4], int32_t start, int32_t goal, uint32_t generation) {
  if (w.seen[start] == blocked || w.seen[goal] == blocked) return false;
  int32_t head = 0, tail = 0;
  w.seen[start] = generation;
  w.queue[tail++] = start;
  while (head < tail && w.seen[goal] != generation) {
    const int32_t cell = w.queue[head++];
    for (int d = 0; d < 4; ++d) {
      const int32_t next = cell + step[d];
      if (w.seen[next] >= generation) continue;
      w.seen[next] = generation;
      w.entered[next] = uint8_t(d);
      w.queue[tail++] = next;
    }
  }
  return w.seen[goal] == generation;
}
}  // namespace

// Of all shortest paths the search finds the first in the order of its directions, so a path's tail is the path from
// any of its cells, and keeping only the first `horizon` directions loses nothing. Integers only: no guard needed.
void grid_paths(const Ways& w, const int32_t* start, const int32_t* goal, size_t n, uint32_t generation,
                uint8_t* directions, int32_t* length) {
  const int32_t step[4] = {w.width, 1, -w.width, -1};
  for (size_t i = 0; i < n; ++i) {
    uint8_t* out = directions + i * size_t(w.horizon);
    memset(out, 0, size_t(w.horizon));
    length[i] = -1;
    if (!search(w, step, start[i], goal[i], generation + uint32_t(i))) continue;
    int32_t cells = 0;
    for (int32_t cell = goal[i]; cell != start[i]; cell -= step[w.entered[cell]]) ++cells;
    length[i] = cells;
    for (int32_t cell = goal[i]; cell != start[i]; cell -= step[w.entered[cell]])
      if (--cells < w.horizon) out[cells] = w.entered[cell];
  }
}

}  // namespace DW_ISA

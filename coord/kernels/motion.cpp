#include "droveway/fpenv.hpp"
#include "kernels.hpp"

namespace DW_ISA {

// Shortest paths on a grid with a blocked border, breadth first from the start, neighbours in the order N, E, S, W.
// Of all shortest paths that search finds the first in the order of their directions, so a path's tail is the path
// from any of its cells: only the first `horizon` directions are kept.
// seen[c] is 0xFFFFFFFF on a blocked cell, else the generation that saw c last; a lower one means "not yet".
void grid_paths(uint32_t* seen, uint8_t* entered, int32_t* queue, int32_t width, const int32_t* starts,
                const int32_t* goals, size_t n, uint32_t generation, int32_t horizon, uint8_t* directions,
                int32_t* lengths) {
  const int32_t step[4] = {width, 1, -width, -1};
  for (size_t i = 0; i < n; ++i, ++generation) {
    const int32_t start = starts[i], goal = goals[i];
    uint8_t* out = directions + i * size_t(horizon);
    memset(out, 0, size_t(horizon));
    lengths[i] = -1;
    if (seen[start] == 0xFFFFFFFFu || seen[goal] == 0xFFFFFFFFu) continue;
    int32_t head = 0, tail = 0;
    seen[start] = generation;
    queue[tail++] = start;
    while (head < tail && seen[goal] != generation) {
      const int32_t cell = queue[head++];
      for (int d = 0; d < 4; ++d) {
        const int32_t next = cell + step[d];
        if (seen[next] >= generation) continue;
        seen[next] = generation;
        entered[next] = uint8_t(d);
        queue[tail++] = next;
      }
    }
    if (seen[goal] != generation) continue;
    int32_t length = 0;
    for (int32_t cell = goal; cell != start; cell -= step[entered[cell]]) ++length;
    lengths[i] = length;
    int32_t at = length;
    for (int32_t cell = goal; cell != start; cell -= step[entered[cell]])
      if (--at < horizon) out[at] = entered[cell];
  }
}

}  // namespace DW_ISA

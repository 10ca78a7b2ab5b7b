// Which free cells of a grid are connected; the twin is coord/ground/grid_ref.py.
#include "kernels.hpp"

namespace DW_ISA {

void grid_components(const uint8_t* blocked, size_t height, size_t width, uint32_t* label, uint32_t* queue) {
  const size_t cells = height * width;
  memset(label, 0, cells * sizeof *label);
  uint32_t region = 0;
  for (size_t seed = 0; seed < cells; ++seed) {
    if (blocked[seed] || label[seed] != 0) continue;
    ++region;
    size_t head = 0, tail = 0;
    const auto visit = [&](size_t cell) {
      if (blocked[cell] || label[cell] != 0) return;
      label[cell] = region;
      queue[tail++] = uint32_t(cell);
    };
    visit(seed);
    while (head < tail) {
      const size_t cell = queue[head++], column = cell % width;
      if (column > 0) visit(cell - 1);
      if (column + 1 < width) visit(cell + 1);
      if (cell >= width) visit(cell - width);
      if (cell + width < cells) visit(cell + width);
    }
  }
}

}  // namespace DW_ISA

// Splats in order of depth are sorted into tiles, which inherit the order; the twin is splat/tiles_ref.py.
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

struct Work {
  const Binning* binning;
  uint32_t *table, *items;
};

// Calls put(tile, slot) for each tile that the boxes of block `b` touch, splats in order.
template <class Put>
inline __attribute__((always_inline)) void each_pair(const Binning& n, size_t b, Put put) {
  const size_t first = n.m * b / n.blocks, last = n.m * (b + 1) / n.blocks;
  const uint32_t t = n.tile_log2;
  for (size_t i = first; i < last; ++i) {
    const uint32_t slot = n.slot[n.order[i]];
    const uint32_t x = n.box[2 * size_t(slot)], y = n.box[2 * size_t(slot) + 1];
    const uint32_t x0 = (x & 0xFFFFu) >> t, x1 = ((x >> 16) - 1u) >> t;
    const uint32_t y0 = (y & 0xFFFFu) >> t, y1 = ((y >> 16) - 1u) >> t;
    for (uint32_t ty = y0; ty <= y1; ++ty)
      for (uint32_t tx = x0; tx <= x1; ++tx) put(size_t(ty) * n.tiles_x + tx, slot);
  }
}

void count_block(void* context, size_t b) {
  const Work& work = *static_cast<const Work*>(context);
  const size_t tiles = size_t(work.binning->tiles_x) * work.binning->tiles_y;
  uint32_t* row = work.table + b * tiles;
  memset(row, 0, tiles * sizeof *row);
  each_pair(*work.binning, b, [&](size_t tile, uint32_t) { ++row[tile]; });
}

void scatter_block(void* context, size_t b) {
  const Work& work = *static_cast<const Work*>(context);
  const size_t tiles = size_t(work.binning->tiles_x) * work.binning->tiles_y;
  uint32_t* row = work.table + b * tiles;
  each_pair(*work.binning, b, [&](size_t tile, uint32_t slot) { work.items[row[tile]++] = slot; });
}

}  // namespace

void bin(const Binning& binning, uint32_t* table, uint32_t* start, uint32_t* items) {
  Work work{&binning, table, items};
  dw_parallel(binning.blocks, count_block, &work);
  const size_t tiles = size_t(binning.tiles_x) * binning.tiles_y;
  uint32_t sum = 0;
  for (size_t tile = 0; tile < tiles; ++tile) {
    start[tile] = sum;
    for (size_t b = 0; b < binning.blocks; ++b) {
      const uint32_t count = table[b * tiles + tile];
      table[b * tiles + tile] = sum;
      sum += count;
    }
  }
  start[tiles] = sum;
  dw_parallel(binning.blocks, scatter_block, &work);
}

}  // namespace DW_ISA

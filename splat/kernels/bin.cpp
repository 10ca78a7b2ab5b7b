// Splats in order of depth are sorted into tiles, which inherit the order; the twin is splat/tiles_ref.py.
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr uint32_t kTall = 16;
constexpr size_t kAhead = 16;  // splats between a box's prefetch and its use

// Pairs of a few splats, laid out before they are counted or put in place: laying out has no branch for the usual
// splat, which is at most four tiles wide and two tall.
struct Pairs {
  static constexpr size_t kMax = 512;
  uint32_t tile[kMax + 8], slot[kMax + 8];  // a row writes four words and keeps as many as it is wide
};

// What both passes need of a splat, in order of depth: made once, because the way through `order` goes all over memory.
struct Rect {
  uint32_t tile;  // the first of them
  uint16_t wide, tall;
};

struct Work {
  const Binning* binning;
  uint32_t* table;
  uint32_t *slot, *items;
  Rect* rect;
};

size_t first_of(const Binning& n, size_t block) { return n.m * block / n.blocks; }

void lay_out(const Work& work, size_t first, size_t last) {
  const Binning& n = *work.binning;
  const uint32_t t = n.tile_log2;
  for (size_t i = first; i < last; ++i) {
    if (i + kAhead < last) {
      __builtin_prefetch(n.box + 2 * size_t(n.order[i + kAhead]));
      __builtin_prefetch(n.slot + n.order[i + kAhead]);
    }
    const uint32_t k = n.order[i], x = n.box[2 * size_t(k)], y = n.box[2 * size_t(k) + 1];
    const uint32_t x0 = (x & 0xFFFFu) >> t, y0 = (y & 0xFFFFu) >> t;
    work.slot[i] = n.slot[k];
    work.rect[i] = {y0 * n.tiles_x + x0, uint16_t((((x >> 16) - 1u) >> t) - x0 + 1),
                    uint16_t((((y >> 16) - 1u) >> t) - y0 + 1)};
  }
}

// Calls put(tile, slot) for each tile that splats first … last − 1 touch, splats in order.
template <class Put>
inline __attribute__((always_inline)) void each_pair(const Work& work, size_t first, size_t last, Put put) {
  const uint32_t across = work.binning->tiles_x;
  Pairs pairs;
  size_t laid = 0;
  auto flush = [&] {
    for (size_t i = 0; i < laid; ++i) put(size_t(pairs.tile[i]), pairs.slot[i]);
    laid = 0;
  };
  for (size_t i = first; i < last; ++i) {
    const uint32_t slot = work.slot[i], tile = work.rect[i].tile, wide = work.rect[i].wide, tall = work.rect[i].tall;
    if (wide <= 4 && tall <= kTall) {
      if (laid + 4 * kTall > Pairs::kMax) flush();
      auto row = [&](size_t at, uint32_t from) {
        for (uint32_t k = 0; k < 4; ++k) pairs.tile[at + k] = from + k;
        for (uint32_t k = 0; k < 4; ++k) pairs.slot[at + k] = slot;
      };
      row(laid, tile);
      row(laid + wide, tile + across);
      for (uint32_t ty = 2; ty < tall; ++ty) row(laid + ty * wide, tile + ty * across);
      laid += wide * tall;
      continue;
    }
    flush();
    for (uint32_t ty = 0; ty < tall; ++ty)
      for (uint32_t tx = 0; tx < wide; ++tx) put(size_t(tile + ty * across + tx), slot);
  }
  flush();
}

void count_block(void* context, size_t b) {
  const Work& work = *static_cast<const Work*>(context);
  const size_t tiles = size_t(work.binning->tiles_x) * work.binning->tiles_y;
  uint32_t* row = work.table + b * tiles;
  memset(row, 0, tiles * sizeof *row);
  const size_t first = first_of(*work.binning, b), last = first_of(*work.binning, b + 1);
  lay_out(work, first, last);
  each_pair(work, first, last, [&](size_t tile, uint32_t) { ++row[tile]; });
}

void scatter_block(void* context, size_t b) {
  const Work& work = *static_cast<const Work*>(context);
  const size_t tiles = size_t(work.binning->tiles_x) * work.binning->tiles_y;
  uint32_t* row = work.table + b * tiles;
  const size_t first = first_of(*work.binning, b), last = first_of(*work.binning, b + 1);
  each_pair(work, first, last, [&](size_t tile, uint32_t slot) { work.items[row[tile]++] = slot; });
}

}  // namespace

bool bin(const Binning& binning, uint32_t* table, uint32_t* start, uint32_t* items, uint64_t pairs) {
  Work work{&binning, table, binning.room, items, reinterpret_cast<Rect*>(binning.room + binning.m)};
  dw_parallel(binning.blocks, count_block, &work);
  const size_t tiles = size_t(binning.tiles_x) * binning.tiles_y;
  uint64_t sum = 0;
  for (size_t tile = 0; tile < tiles; ++tile) {
    start[tile] = uint32_t(sum);
    for (size_t b = 0; b < binning.blocks; ++b) {
      const uint32_t count = table[b * tiles + tile];
      table[b * tiles + tile] = uint32_t(sum);
      sum += count;
    }
  }
  start[tiles] = uint32_t(sum);
  if (sum != pairs) return false;
  dw_parallel(binning.blocks, scatter_block, &work);
  return true;
}

}  // namespace DW_ISA

// Fields of many kernels at many points by a grid of cells: each cell lists, ascending, every kernel that may reach a
// point of it. The list only leaves out kernels out of range, so the sums are those of kernels/field.cpp to the bit.
#include "arena.hpp"
#include "droveway/compress.hpp"
#include "droveway/fpenv.hpp"
#include "droveway/math_f32.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kPointsPerBlock = 1024;
constexpr size_t kTile = 256;         // listed kernels looked at together
constexpr size_t kGroup = 64;         // points that share a tile
constexpr size_t kAhead = 32;         // points ahead whose place is brought near: they lie anywhere in memory
constexpr size_t kCellsMax = 1 << 17, kSideMax = 1 << 16;
constexpr size_t kEntriesMax = 1 << 22;
constexpr size_t kSamples = 512;      // kernels that the size of the cells is chosen from
constexpr float kCoarser = 1.3f;

struct Packed {
  float x, y, reach, inv, weight;
  uint32_t number;
  uint32_t unused[2];
};
struct Rect {
  uint16_t x0, y0, x1, y1;  // cells, inclusive
};

// Cells of one size over a box. What lies outside belongs to the cells at its edge: `column` and `row` never fall
// where their argument rises, so a kernel's cells hold every point of its square whatever the roundings are.
struct Grid {
  float west, south, inv;
  float last_column, last_row;
  static uint32_t along(float at, float from, float inv, float last) {
    const float t = (at - from) * inv;
    return uint32_t(t < 0.0f ? 0.0f : t > last ? last : t);
  }
  uint32_t column(float x) const { return along(x, west, inv, last_column); }
  uint32_t row(float y) const { return along(y, south, inv, last_row); }
  uint32_t columns() const { return uint32_t(last_column) + 1; }
  uint32_t rows() const { return uint32_t(last_row) + 1; }
  uint32_t cells() const { return columns() * rows(); }
};

struct Box {
  float west, south, east, north;
};

DW_INLINE F32x16 lower(F32x16 a, F32x16 b) { return select(lt(b, a), b, a); }
DW_INLINE F32x16 upper(F32x16 a, F32x16 b) { return select(lt(a, b), b, a); }

void bounds(const float* v, size_t n, float* least, float* most) {
  F32x16 low = F32x16::set1(v[0]), high = low;
  for (size_t i = 0; i < n; i += 16) {
    const F32x16 x = F32x16::load_partial(v + i, n - i, v[0]);
    low = lower(low, x);
    high = upper(high, x);
  }
  float lows[16], highs[16];
  store(lows, low);
  store(highs, high);
  *least = lows[0];
  *most = highs[0];
  for (int l = 1; l < 16; ++l) {
    if (lows[l] < *least) *least = lows[l];
    if (highs[l] > *most) *most = highs[l];
  }
}

// No point in range of a kernel lies farther along an axis: the roundings of a distance's square are far below 1e-5.
DW_INLINE float radius(float reach) { return __builtin_sqrtf(reach) * 1.00001f + 1e-9f; }

Grid grid_of(const Box& box, float size) {
  const float inv = 1.0f / size;
  const auto last = [&](float extent) { return float(uint32_t(extent * inv)); };
  return {box.west, box.south, inv, last(box.east - box.west), last(box.north - box.south)};
}

// A size of cells at which listing the kernels and testing the listed ones together should take least time.
float cell_size(const FieldSum& f, const Box& box) {
  const float wide = box.east - box.west, tall = box.north - box.south, whole = wide > tall ? wide : tall;
  const size_t stride = f.m / kSamples + 1;
  float radii[kSamples];
  size_t samples = 0;
  for (size_t k = stride / 2; k < f.m; k += stride) radii[samples++] = radius(f.reach[k]);
  float best = whole > 1e-3f ? whole * 1.001f : 1e-3f, best_cost = 0.0f;
  for (float size = best;; size *= 1.0f / kCoarser) {
    const float columns = wide / size + 1.0f, rows = tall / size + 1.0f, cells = columns * rows;
    if (size < 1e-3f || cells > float(kCellsMax) || cells > float(f.n) + 1.0f || columns + rows > float(kSideMax)) break;
    float entries = 0.0f, everywhere = 0.0f;
    for (size_t s = 0; s < samples; ++s) {
      const float across = 2.0f * radii[s] / size + 1.0f;
      const float area = (across < columns ? across : columns) * (across < rows ? across : rows);
      if (4.0f * area > cells) everywhere += 1.0f;
      else entries += area;
    }
    const float share = float(f.m) / float(samples), listed = share * (entries / cells + everywhere);
    const float cost = float(f.n) * (listed + 8.0f) * 0.4f + share * entries * 2.0f + cells * (listed * 3.0f + 40.0f);
    if (size == best || cost < best_cost) {
      best = size;
      best_cost = cost;
    }
  }
  return best;
}

size_t entries_max(size_t m) { return 64 * m < kEntriesMax ? 64 * m : kEntriesMax; }

struct Cells {
  Grid grid;
  const Packed* kernel;               // near each other in memory where they are in the plane
  const uint32_t *start, *items;      // places in `kernel` of each cell's kernels, ascending by number
  const uint32_t* everywhere;         // of those that all cells have
  size_t everywhere_count;
  const uint32_t *key, *order, *end;  // cell of each point; points by cell; where in `order` a cell ends
};

// Counts become where each begins in a row of all.
void begin_of_each(uint32_t* count, size_t n) {
  uint32_t at = 0;
  for (size_t c = 0; c < n; ++c) {
    const uint32_t here = count[c];
    count[c] = at;
    at += here;
  }
}

// Lists of cells in `entries_max` numbers.
void list_kernels(const FieldSum& f, const Box& box, Arena& arena, Cells& cells) {
  Packed* packed = arena.take<Packed>(f.m);
  Rect* rects = arena.take<Rect>(f.m);
  uint32_t* place = arena.take<uint32_t>(f.m);
  uint32_t* everywhere = arena.take<uint32_t>(f.m);
  uint32_t* items = arena.take<uint32_t>(entries_max(f.m));
  uint32_t* start = arena.take<uint32_t>(kCellsMax + 1);
  uint32_t* cursor = arena.take<uint32_t>(2 * kCellsMax + 1024);
  size_t wide = 0;
  for (float size = cell_size(f, box);; size *= kCoarser) {
    const Grid g = cells.grid = grid_of(box, size);
    if (g.columns() > kSideMax || g.rows() > kSideMax || g.cells() > kCellsMax) continue;
    uint64_t total = 0;
    wide = 0;
    for (size_t k = 0; k < f.m; ++k) {
      const float far = radius(f.reach[k]);
      const Rect r = {uint16_t(g.column(f.kx[k] - far)), uint16_t(g.row(f.ky[k] - far)),
                      uint16_t(g.column(f.kx[k] + far)), uint16_t(g.row(f.ky[k] + far))};
      const uint32_t area = uint32_t(r.x1 - r.x0 + 1) * uint32_t(r.y1 - r.y0 + 1);
      rects[k] = r;
      everywhere[wide] = uint32_t(k);
      const bool is_wide = 4 * area > g.cells();
      wide += is_wide;
      total += is_wide ? 0 : area;
    }
    if (total <= entries_max(f.m)) break;  // one cell: every kernel is everywhere
  }
  const uint32_t columns = cells.grid.columns(), rows = cells.grid.rows(), pitch = columns + 1;
  const auto middle = [columns](const Rect& r) {
    return uint32_t(r.y0 + r.y1) / 2 * columns + uint32_t(r.x0 + r.x1) / 2;
  };
  memset(cursor, 0, size_t(columns) * rows * sizeof *cursor);
  for (size_t k = 0; k < f.m; ++k) ++cursor[middle(rects[k])];
  begin_of_each(cursor, size_t(columns) * rows);
  for (size_t k = 0; k < f.m; ++k) {
    place[k] = cursor[middle(rects[k])]++;
    packed[place[k]] = {f.kx[k], f.ky[k], f.reach[k], f.inv[k], f.weight[k], uint32_t(k), {0, 0}};
  }
  // how many kernels each cell has: the sums of the corners' steps
  int32_t* step = reinterpret_cast<int32_t*>(cursor);
  memset(step, 0, size_t(pitch) * (rows + 1) * sizeof *step);
  size_t next = 0;
  for (size_t k = 0; k < f.m; ++k) {
    if (next < wide && everywhere[next] == k) {
      ++next;
      continue;
    }
    const Rect r = rects[k];
    ++step[r.y0 * pitch + r.x0];
    --step[r.y0 * pitch + r.x1 + 1];
    --step[(r.y1 + 1u) * pitch + r.x0];
    ++step[(r.y1 + 1u) * pitch + r.x1 + 1];
  }
  uint32_t at = 0;
  for (uint32_t y = 0; y < rows; ++y) {
    int32_t count = 0;
    for (uint32_t x = 0; x < columns; ++x) {
      int32_t& here = step[y * pitch + x];
      const int32_t above = y == 0 ? 0 : step[(y - 1) * pitch + x];
      count += here;
      here = above + count;  // from here on the number of the cell's kernels
      start[y * columns + x] = at;
      at += uint32_t(here);
    }
  }
  start[columns * rows] = at;
  memcpy(cursor, start, size_t(columns) * rows * sizeof *cursor);
  next = 0;
  for (size_t k = 0; k < f.m; ++k) {
    if (next < wide && everywhere[next] == k) {
      everywhere[next++] = place[k];
      continue;
    }
    const Rect r = rects[k];
    for (uint32_t y = r.y0; y <= r.y1; ++y) {
      uint32_t* c = cursor + y * columns;
      for (uint32_t x = r.x0; x <= r.x1; ++x) items[c[x]++] = place[k];
    }
  }
  cells.kernel = packed;
  cells.start = start;
  cells.items = items;
  cells.everywhere = everywhere;
  cells.everywhere_count = wide;
}

DW_INLINE U32x16 along(F32x16 at, float from, float inv, float last) {
  const F32x16 t = (at - F32x16::set1(from)) * F32x16::set1(inv);
  return to_i32(lower(upper(t, F32x16::zero()), F32x16::set1(last)));
}

void sort_points(const FieldSum& f, Arena& arena, Cells& cells) {
  const Grid& g = cells.grid;
  uint32_t* key = arena.take<uint32_t>(f.n + 16);
  uint32_t* order = arena.take<uint32_t>(f.n + kAhead);
  uint32_t* end = arena.take<uint32_t>(kCellsMax + 1);
  memset(end, 0, (size_t(g.cells()) + 1) * sizeof *end);
  const U32x16 columns = U32x16::set1(g.columns());
  for (size_t i = 0; i < f.n; i += 16) {
    const U32x16 column = along(F32x16::load_partial(f.px + i, f.n - i, 0.0f), g.west, g.inv, g.last_column);
    const U32x16 row = along(F32x16::load_partial(f.py + i, f.n - i, 0.0f), g.south, g.inv, g.last_row);
    store(key + i, row * columns + column);
  }
  for (size_t i = 0; i < f.n; ++i) ++end[key[i]];
  begin_of_each(end, g.cells());
  for (size_t i = 0; i < f.n; ++i) order[end[key[i]]++] = uint32_t(i);
  memset(order + f.n, 0, kAhead * sizeof *order);
  cells.key = key;
  cells.order = order;
  cells.end = end;
}

// Columns of the kernels of a tile, filled up to sixteen with some that reach nothing.
struct alignas(64) Tile {
  float x[kTile], y[kTile], reach[kTile], inv[kTile], weight[kTile];
  size_t count;
};
// Where in its lists a cell is read.
struct Reader {
  const Packed* kernel;
  const uint32_t *item, *item_end, *everywhere, *everywhere_end;
  size_t left() const { return size_t(item_end - item) + size_t(everywhere_end - everywhere); }
  const Packed& next() {
    if (everywhere == everywhere_end) return kernel[*item++];
    if (item == item_end || kernel[*everywhere].number < kernel[*item].number) return kernel[*everywhere++];
    return kernel[*item++];
  }
};
DW_INLINE void put(Tile& tile, size_t at, const Packed& k) {
  tile.x[at] = k.x;
  tile.y[at] = k.y;
  tile.reach[at] = k.reach;
  tile.inv[at] = k.inv;
  tile.weight[at] = k.weight;
}
void read(Tile& tile, Reader& reader) {
  const size_t left = reader.left(), count = left < kTile ? left : kTile;
  if (reader.everywhere == reader.everywhere_end) {
    for (size_t at = 0; at < count; ++at) put(tile, at, reader.kernel[reader.item[at]]);
    reader.item += count;
  } else {
    for (size_t at = 0; at < count; ++at) put(tile, at, reader.next());
  }
  const Packed none = {0.0f, 0.0f, -1.0f, 0.0f, 0.0f, 0, {0, 0}};
  for (tile.count = count; tile.count % 16 != 0; ++tile.count) put(tile, tile.count, none);
}

// The kernels in range of one point that are not added yet; compress writes sixteen past the end, and so do the zeros.
template <bool slope>
struct alignas(64) List {
  static constexpr size_t kRoom = kTile + 48;
  float exponent[kRoom], weight[kRoom];
  float inv[slope ? kRoom : 1], dx[slope ? kRoom : 1], dy[slope ? kRoom : 1];
};
// What is kept of a point between tiles.
template <bool slope>
struct alignas(64) Point {
  F32x16 sum[slope ? 2 : 1];
  float exponent[16], weight[16], inv[slope ? 16 : 1], dx[slope ? 16 : 1], dy[slope ? 16 : 1];
  size_t count;
};
template <bool slope>
constexpr size_t kBatch = slope ? 4 : 8;  // points listed before they are added, so that no load waits for a store

template <bool slope, class A, class B>
DW_INLINE void move16(A& to, size_t to_at, const B& from, size_t from_at) {
  store(to.exponent + to_at, F32x16::load(from.exponent + from_at));
  store(to.weight + to_at, F32x16::load(from.weight + from_at));
  if constexpr (slope) {
    store(to.inv + to_at, F32x16::load(from.inv + from_at));
    store(to.dx + to_at, F32x16::load(from.dx + from_at));
    store(to.dy + to_at, F32x16::load(from.dy + from_at));
  }
}

// Appends the kernels of the tile in range of the point to its list of `count`; returns how many it has then.
template <bool slope>
DW_INLINE size_t list_near(const Tile& tile, float x, float y, List<slope>& list, size_t count) {
  const F32x16 px = F32x16::set1(x), py = F32x16::set1(y);
  for (size_t at = 0; at < tile.count; at += 16) {
    const F32x16 dx = px - F32x16::load(tile.x + at), dy = py - F32x16::load(tile.y + at);
    const F32x16 square = dx * dx + dy * dy, inv = F32x16::load(tile.inv + at);
    const M32x16 near = le(square, F32x16::load(tile.reach + at));
    compress(list.weight + count, F32x16::load(tile.weight + at), near);
    if constexpr (slope) {
      compress(list.inv + count, inv, near);
      compress(list.dx + count, dx, near);
      compress(list.dy + count, dy, near);
    }
    count += compress(list.exponent + count, square * inv, near);
  }
  return count;
}

template <bool slope>
DW_INLINE void add(F32x16* sum, const List<slope>& list, size_t at) {
  const F32x16 value = F32x16::load(list.weight + at) * exp(-F32x16::load(list.exponent + at));
  if constexpr (slope) {
    const F32x16 inv = F32x16::load(list.inv + at), steep = value * (inv + inv);
    sum[0] = sum[0] + steep * F32x16::load(list.dx + at);
    sum[1] = sum[1] + steep * F32x16::load(list.dy + at);
  } else {
    sum[0] = sum[0] + value;
  }
}
template <bool slope>
DW_INLINE void end_with_zeros(List<slope>& list, size_t count) {
  store(list.exponent + count, F32x16::zero());
  store(list.weight + count, F32x16::zero());
  if constexpr (slope) {
    store(list.inv + count, F32x16::zero());
    store(list.dx + count, F32x16::zero());
    store(list.dy + count, F32x16::zero());
  }
}
template <bool slope>
DW_INLINE void write(const F32x16* sum, size_t i, float* out) {
  if constexpr (slope) {
    out[2 * i] = 0.0f - add_tree(sum[0]);
    out[2 * i + 1] = 0.0f - add_tree(sum[1]);
  } else {
    out[i] = add_tree(sum[0]);
  }
}

struct Work {
  const FieldSum* field;
  const Cells* cells;
  float* out;
};

// Points of one cell whose list is one tile.
template <bool slope>
void short_list(const Work& work, const Tile& tile, const uint32_t* point, size_t n, List<slope>* list) {
  const FieldSum& f = *work.field;
  for (size_t first = 0; first < n; first += kBatch<slope>) {
    const size_t batch = n - first < kBatch<slope> ? n - first : kBatch<slope>;
    size_t count[kBatch<slope>];
    for (size_t b = 0; b < batch; ++b) {
      const uint32_t i = point[first + b], later = point[first + b + kAhead];
      __builtin_prefetch(f.px + later);
      __builtin_prefetch(f.py + later);
      count[b] = list_near<slope>(tile, f.px[i], f.py[i], list[b], 0);
      end_with_zeros<slope>(list[b], count[b]);
    }
    for (size_t b = 0; b < batch; ++b) {
      F32x16 sum[slope ? 2 : 1];
      for (F32x16& s : sum) s = F32x16::zero();
      for (size_t at = 0; at < count[b]; at += 16) add<slope>(sum, list[b], at);
      write<slope>(sum, point[first + b], work.out);
    }
  }
}

// The same for lists of any length: at most kGroup points.
template <bool slope>
void long_list(const Work& work, Tile& tile, Reader reader, const uint32_t* point, size_t n, List<slope>& list) {
  const FieldSum& f = *work.field;
  Point<slope> kept[kGroup];
  for (size_t p = 0; p < n; ++p) {
    for (F32x16& s : kept[p].sum) s = F32x16::zero();
    kept[p].count = 0;
  }
  while (reader.left() != 0) {
    read(tile, reader);
    for (size_t p = 0; p < n; ++p) {
      Point<slope>& k = kept[p];
      if (k.count != 0) move16<slope>(list, 0, k, 0);
      const uint32_t i = point[p];
      const size_t count = list_near<slope>(tile, f.px[i], f.py[i], list, k.count);
      size_t at = 0;
      for (; at + 16 <= count; at += 16) add<slope>(k.sum, list, at);
      k.count = count - at;
      if (k.count != 0) move16<slope>(k, 0, list, at);
    }
  }
  for (size_t p = 0; p < n; ++p) {
    if (kept[p].count != 0) {
      move16<slope>(list, 0, kept[p], 0);
      end_with_zeros<slope>(list, kept[p].count);
      add<slope>(kept[p].sum, list, 0);
    }
    write<slope>(kept[p].sum, point[p], work.out);
  }
}

template <bool slope>
void run_block(void* context, size_t block) {
  FpGuard guard;
  const Work& work = *static_cast<Work*>(context);
  const Cells& c = *work.cells;
  const size_t first = block * kPointsPerBlock;
  const size_t last = first + kPointsPerBlock < work.field->n ? first + kPointsPerBlock : work.field->n;
  Tile tile;
  List<slope> list[kBatch<slope>];
  for (size_t i = first; i < last;) {
    const uint32_t cell = c.key[c.order[i]];
    const size_t end = c.end[cell] < last ? c.end[cell] : last;
    Reader reader{c.kernel, c.items + c.start[cell], c.items + c.start[cell + 1], c.everywhere,
                  c.everywhere + c.everywhere_count};
    if (reader.left() <= kTile) {
      read(tile, reader);
      short_list<slope>(work, tile, c.order + i, end - i, list);
    } else {
      for (size_t at = i; at < end; at += kGroup)
        long_list<slope>(work, tile, reader, c.order + at, end - at < kGroup ? end - at : kGroup, list[0]);
    }
    i = end;
  }
}

template <bool slope>
void sum_by_cells(const FieldSum& f, float* out, void* workspace) {
  if (f.n == 0) return;
  FpGuard guard;
  if (f.m == 0) {
    memset(out, 0, f.n * (slope ? 2 : 1) * sizeof *out);
    return;
  }
  Box box;
  bounds(f.px, f.n, &box.west, &box.east);
  bounds(f.py, f.n, &box.south, &box.north);
  Box near = {f.kx[0], f.ky[0], f.kx[0], f.ky[0]};
  for (size_t k = 0; k < f.m; ++k) {
    const float far = radius(f.reach[k]);
    if (f.kx[k] - far < near.west) near.west = f.kx[k] - far;
    if (f.kx[k] + far > near.east) near.east = f.kx[k] + far;
    if (f.ky[k] - far < near.south) near.south = f.ky[k] - far;
    if (f.ky[k] + far > near.north) near.north = f.ky[k] + far;
  }
  // the points' box, as far as kernels reach
  if (box.west < near.west) box.west = near.west;
  if (box.south < near.south) box.south = near.south;
  if (box.east > near.east) box.east = near.east;
  if (box.north > near.north) box.north = near.north;
  if (!(box.west < box.east)) box.west = box.east = near.west;
  if (!(box.south < box.north)) box.south = box.north = near.south;
  Arena arena(workspace);
  Cells cells;
  list_kernels(f, box, arena, cells);
  sort_points(f, arena, cells);
  Work work{&f, &cells, out};
  dw_parallel((f.n + kPointsPerBlock - 1) / kPointsPerBlock, run_block<slope>, &work);
}

}  // namespace

size_t field_workspace(size_t n, size_t m) {
  const size_t words[] = {2 * m, m, m, entries_max(m), kCellsMax + 1, 2 * kCellsMax + 1024, n + 16, n + kAhead, kCellsMax + 1};
  size_t bytes = Arena::bytes(m * sizeof(Packed)) + 64;
  for (size_t count : words) bytes += Arena::bytes(4 * count);
  return bytes;
}
void field_by_cells(const FieldSum& field, float* out, void* workspace) { sum_by_cells<false>(field, out, workspace); }
void gradient_by_cells(const FieldSum& field, float* out, void* workspace) {
  sum_by_cells<true>(field, out, workspace);
}

}  // namespace DW_ISA

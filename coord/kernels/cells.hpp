// Points sorted by square cells a little wider than a radius, row by row of cells: whoever is within the radius of a
// point stands in its cell or in one of the eight around it, which lie in three runs of the sorted points.
//
// Why eight are enough: a pair that is near by its float32 distance is at most radius·(1 + 2^-21) apart on each axis,
// a cell is at least radius·(1 + 2^-8) wide, there are at most 2048 cells on an axis, and (x - x0)·inv is wrong by at
// most 2^-12 of a cell; so the two numbers differ by less than 1. A side below 2^-60 m is not used: squares underflow.
#pragma once
#include "arena.hpp"
#include "crowd.hpp"

namespace DW_ISA {

inline constexpr uint32_t kCellsOnAxis = 2048;
inline constexpr size_t kCandidatesAPoint = 32;  // looked at beyond this, a tree of boxes takes less time

template <bool flat>
class Cells {
 public:
  size_t n;
  uint32_t columns, rows;
  float *x, *y, *z;  // [n + 16] by cells; NaN behind the last
  uint32_t* number;  // [n] which point it is
  uint32_t* start;   // [columns·rows + 1] the first point of each cell

  static size_t bytes(size_t n) {
    return 4 * Arena::bytes((n + 16) * 4) + Arena::bytes(n * 4) + Arena::bytes((cells_max(n) + 2) * 4) + 64;
  }

  // False where cells would hold too many points (or what is given is not finite); then nothing else may be called.
  bool fill(const Points& p, float radius, Arena arena) {
    n = p.n;
    x = arena.take<float>(n + 16);
    y = arena.take<float>(n + 16);
    z = flat ? nullptr : arena.take<float>(n + 16);
    number = arena.take<uint32_t>(n);
    uint32_t* cell = arena.take<uint32_t>(n);
    start = arena.take<uint32_t>(cells_max(n) + 2);
    const float *px = p.x, *py = p.y;
    float x0, y0, width = extent(px, n, &x0), height = extent(py, n, &y0);
    if (width < height) {  // rows along the longer side; a sum of two squares has no order
      const float *t = px, other = x0, side = width;
      px = py, x0 = y0, width = height;
      py = t, y0 = other, height = side;
    }
    if (!(width <= 0x1p22f && height <= 0x1p22f && radius <= 0x1p22f)) return false;
    const float most = float(kCellsOnAxis - 1), even = __builtin_sqrtf(width * height / float(n));
    float side = radius * 1.00390625f;
    const float floors[4] = {0x1p-60f, width / most, height / most, even};
    for (const float least : floors) side = side < least ? least : side;
    const float inv = 1.0f / side;
    columns = uint32_t(width * inv) + 1;
    rows = uint32_t(height * inv) + 1;
    if (size_t(columns) * rows > cells_max(n)) return false;
    sort(p, px, py, x0, y0, inv, cell);
    size_t candidates = 0;
    for (uint32_t r = 0; r < rows; ++r)
      groups(r, [&](size_t, size_t, const Runs& runs) DW_LAMBDA {
        for (int i = 0; i < 3; ++i) candidates += runs.end[i] - runs.first[i];
      });
    return candidates <= kCandidatesAPoint * n + 4096;
  }

  struct Runs {
    uint32_t first[3], end[3];  // points [first, end) of three rows of cells
  };
  // Calls f(first, lanes, runs) for the points of a row of cells, sixteen at a time, with all that may be near them.
  template <class F>
  DW_INLINE void groups(uint32_t row, F&& f) const {
    const uint32_t* at = start + size_t(row) * columns;
    uint32_t left = 0, right = 0;
    for (uint32_t first = at[0], end = at[columns]; first < end; first += 16) {
      const uint32_t lanes = end - first < 16 ? end - first : 16;
      while (at[left + 1] <= first) ++left;
      right = right < left ? left : right;
      while (at[right + 1] < first + lanes) ++right;
      const uint32_t from = left == 0 ? 0 : left - 1, to = right + 2 < columns ? right + 2 : columns;
      Runs runs;
      for (uint32_t i = 0; i < 3; ++i) {
        const bool none = (i == 0 && row == 0) || (i == 2 && row + 1 == rows);
        const uint32_t* other = none ? at : at + (ptrdiff_t(i) - 1) * ptrdiff_t(columns);
        runs.first[i] = none ? 0 : other[from];
        runs.end[i] = none ? 0 : other[to];
      }
      f(size_t(first), size_t(lanes), runs);
    }
  }

 private:
  static size_t cells_max(size_t n) { return n + n / 64 + 2 * kCellsOnAxis + 64; }

  static float extent(const float* p, size_t n, float* least) {
    F32x16 low = F32x16::set1(p[0]), high = low;
    for (size_t i = 0; i < n; i += 16) {
      const F32x16 v = n - i < 16 ? F32x16::load_partial(p + i, n - i, p[0]) : F32x16::load(p + i);
      low = select(lt(v, low), v, low);
      high = select(lt(high, v), v, high);
    }
    float l[16], h[16];
    store(l, low);
    store(h, high);
    for (int i = 1; i < 16; ++i) {
      l[0] = l[i] < l[0] ? l[i] : l[0];
      h[0] = h[0] < h[i] ? h[i] : h[0];
    }
    *least = l[0];
    return h[0] - l[0];
  }
  DW_INLINE static uint32_t index(float v, float v0, float inv, float last) {
    const float t = (v - v0) * inv, below = t < last ? t : last;  // NaN becomes the last
    return uint32_t(int32_t(below > 0.0f ? below : 0.0f));
  }
  void sort(const Points& p, const float* px, const float* py, float x0, float y0, float inv, uint32_t* cell) {
    const float last_x = float(columns - 1), last_y = float(rows - 1);
    const uint32_t wide = columns;
    for (size_t i = 0; i < n; ++i) cell[i] = index(py[i], y0, inv, last_y) * wide + index(px[i], x0, inv, last_x);
    const size_t cells = size_t(columns) * rows;
    memset(start, 0, (cells + 2) * sizeof(uint32_t));
    for (size_t i = 0; i < n; ++i) ++start[cell[i] + 2];
    for (size_t c = 2; c <= cells; ++c) start[c] += start[c - 1];
    for (size_t i = 0; i < n; ++i) {
      const uint32_t to = start[cell[i] + 1]++;  // afterwards the end of the cell, the beginning of the next
      x[to] = px[i];
      y[to] = py[i];
      if constexpr (!flat) z[to] = p.z[i];
      number[to] = uint32_t(i);
    }
    const float nan = f32_of(kNan32);
    for (size_t i = n; i < n + 16; ++i) {
      x[i] = y[i] = nan;
      if constexpr (!flat) z[i] = nan;
    }
  }
};

}  // namespace DW_ISA

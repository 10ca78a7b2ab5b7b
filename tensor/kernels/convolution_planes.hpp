// An image laid out for a convolution: zeros all around, and columns sorted by their remainder modulo the stride, so
// that the inputs under one tap of neighbouring outputs are neighbours.
#pragma once
#include "convolution.hpp"
#include "product_pack.hpp"

namespace DW_ISA {
namespace {

using droveway::Window;

inline int64_t below(const Window& w) { return (w.taps - 1) * w.dilation < 0 ? (w.taps - 1) * w.dilation : 0; }
// The first input that any output meets, and how many there are from it to the last one.
inline int64_t first_input(const Window& w) { return below(w) - w.before; }
inline int64_t inputs_met(const Window& w) {
  const int64_t reach = (w.taps - 1) * w.dilation;
  return (w.output - 1) * w.stride + (reach < 0 ? -reach : reach) + 1;
}

struct Planes {
  int64_t rows, columns, pitch;  // of one channel's plane; a row is `stride` runs of `columns`
  explicit Planes(const Window& y, const Window& x)
      : rows(inputs_met(y)), columns((inputs_met(x) + x.stride - 1) / x.stride), pitch(columns * x.stride) {}
  size_t size() const { return size_t(rows * pitch); }
};

// Elements from the place of output (0, 0) to the input that it meets under a tap.
inline ptrdiff_t tap_offset(const Planes& planes, const Window& y, const Window& x, int64_t tap_y, int64_t tap_x) {
  const int64_t row = tap_y * y.dilation - below(y), column = tap_x * x.dilation - below(x);
  return ptrdiff_t(row * planes.pitch + column % x.stride * planes.columns + column / x.stride);
}

// Copies one channel. Reads beyond a row of outputs stay inside the plane and the slack behind the last one.
template <class T>
void lay_out(T* plane, const Planes& planes, const Window& y, const Window& x, const char* channel, Dtype dtype,
             int64_t row_step, int64_t column_step) {
  const ptrdiff_t size = ptrdiff_t(dtype_size(dtype));
  memset(plane, 0, planes.size() * sizeof(T));
  const int64_t from_row = first_input(y), from_column = first_input(x);
  const bool plain = x.stride == 1 && x.spread == 1;
  // Input i lies in column i · spread − from_column; those that some output meets are first ≤ i < end.
  const int64_t first = from_column > 0 ? (from_column + x.spread - 1) / x.spread : 0;
  const int64_t last_place = from_column + planes.columns * x.stride - 1;
  const int64_t fitting = last_place < 0 ? 0 : last_place / x.spread + 1;
  const int64_t end = fitting < x.input ? fitting : x.input;
  if (first >= end) return;
  for (int64_t i = 0; i < y.input; ++i) {
    const int64_t row = i * y.spread - from_row;
    if (row < 0 || row >= planes.rows) continue;
    const char* from = channel + (i * row_step + first * column_step) * size;
    T* to = plane + row * planes.pitch;
    if (plain) {
      T* start = to + first - from_column;
      if constexpr (sizeof(T) == 4) {
        if (dtype != Dtype::f32) {
          widen_strip(start, from, dtype, column_step, size_t(end - first));
          continue;
        }
      }
      if (column_step == 1) {
        memcpy(start, from, size_t(end - first) * sizeof(T));
        continue;
      }
    }
    for (int64_t j = first; j < end; ++j, from += column_step * size) {
      const int64_t place = j * x.spread - from_column;
      T value;
      if constexpr (sizeof(T) == 4) {
        if (dtype == Dtype::f32) memcpy(&value, from, sizeof(T));
        else widen_strip(&value, from, dtype, 1, 1);
      } else {
        memcpy(&value, from, sizeof(T));
      }
      to[place % x.stride * planes.columns + place / x.stride] = value;
    }
  }
}

}  // namespace
}  // namespace DW_ISA

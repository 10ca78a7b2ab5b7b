// An image laid out for a convolution: zeros all around, and rows and columns sorted by their remainders modulo the
// strides, so that the inputs under one tap of neighbouring outputs are neighbours, and those of rows a pitch apart.
#pragma once
#include "convolution.hpp"
#include "lane_pairs.hpp"
#include "product_pack.hpp"

namespace DW_ISA {
namespace {

using droveway::Window;

constexpr size_t kImagesBytes = size_t{1} << 19;  // of planes laid out at a time: they fit the second-level cache
constexpr double kParallelFlops = double(size_t{1} << 22);

inline Dtype sum_dtype(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }
constexpr size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Rows of a product (output channels, or taps) are cut into panels of nearly equal height.
inline int64_t panels(int64_t rows) { return (rows + kRows - 1) / kRows; }
inline int64_t row_of(int64_t panel, int64_t rows) { return panel * rows / panels(rows); }

inline int64_t below(const Window& w) { return (w.taps - 1) * w.dilation < 0 ? (w.taps - 1) * w.dilation : 0; }
// The first input that any output meets, and how many there are from it to the last one.
inline int64_t first_input(const Window& w) { return below(w) - w.before; }
inline int64_t inputs_met(const Window& w) {
  const int64_t reach = (w.taps - 1) * w.dilation;
  return (w.output - 1) * w.stride + (reach < 0 ? -reach : reach) + 1;
}

struct Planes {
  int64_t rows, pitch;  // of the inputs of one pair of remainders
  int64_t parts;        // pairs of remainders
  explicit Planes(const Window& y, const Window& x)
      : rows((inputs_met(y) + y.stride - 1) / y.stride), pitch((inputs_met(x) + x.stride - 1) / x.stride),
        parts(y.stride * x.stride) {}
  int64_t part() const { return rows * pitch; }
  size_t size() const { return size_t(parts * part()); }
  // Where the input of a row and column, counted from the first that is met, lies.
  int64_t place(const Window& y, const Window& x, int64_t row, int64_t column) const {
    return (row % y.stride * x.stride + column % x.stride) * part() + row / y.stride * pitch + column / x.stride;
  }
};

// Elements from the place of output (0, 0) to the input that it meets under a tap.
inline ptrdiff_t tap_offset(const Planes& planes, const Window& y, const Window& x, int64_t tap_y, int64_t tap_x) {
  return ptrdiff_t(planes.place(y, x, tap_y * y.dilation - below(y), tap_x * x.dilation - below(x)));
}

// Rows are short: vectors are faster than a call.
template <class T>
DW_INLINE void copy_row(T* to, const T* from, size_t n) {
  using V = Lanes<T>;
  for (size_t i = 0; i < n; i += size_t(V::width)) store_partial(to + i, n - i, V::load_partial(from + i, n - i, T(0)));
}

// The offsets of all taps of all channels of a group, k after k.
inline void tap_offsets(ptrdiff_t* offset, const Planes& planes, const Window& y, const Window& x, int64_t inputs) {
  for (int64_t i = 0; i < inputs; ++i)
    for (int64_t ty = 0; ty < y.taps; ++ty)
      for (int64_t tx = 0; tx < x.taps; ++tx)
        *offset++ = i * ptrdiff_t(planes.size()) + tap_offset(planes, y, x, ty, tx);
}

// An element in the type of sums.
template <class T>
DW_INLINE T element(const char* from, Dtype dtype) {
  T value;
  if constexpr (sizeof(T) == 4) {
    if (dtype != Dtype::f32) {
      widen_strip(&value, from, dtype, 1, 1);
      return value;
    }
  }
  memcpy(&value, from, sizeof(T));
  return value;
}

// to[i] = from[2 · i] for i < n.
template <class T>
DW_INLINE void copy_every_second(T* to, const T* from, size_t n) {
  using V = Lanes<T>;
  constexpr size_t width = size_t(V::width);
  for (size_t i = 0; i < n; i += width) {
    const size_t reach = 2 * (n - i) - 1;
    const V a = V::load_partial(from + 2 * i, reach, T(0));
    const V b = V::load_partial(from + 2 * i + width, reach > width ? reach - width : 0, T(0));
    store_partial(to + i, n - i, evens(a, b));
  }
}

// A row of inputs from `from` on, the first of which lies in column `place`: inputs that lie a stride apart come together.
template <class T>
void lay_out_row(T* to, int64_t part, const Window& x, int64_t place, const char* from, Dtype dtype, int64_t column_step,
                 int64_t count) {
  const ptrdiff_t size = ptrdiff_t(dtype_size(dtype)), step = ptrdiff_t(column_step) * size;
  const bool native = dtype == (sizeof(T) == 4 ? Dtype::f32 : Dtype::f64);
  if (x.stride != 1 && x.spread != 1) {
    for (int64_t j = 0; j < count; ++j) {
      const int64_t at = place + j * x.spread;
      to[at % x.stride * part + at / x.stride] = element<T>(from + j * step, dtype);
    }
    return;
  }
  if (x.stride == 1) {
    T* out = to + place;
    for (int64_t j = 0; j < count; ++j) out[j * x.spread] = element<T>(from + j * step, dtype);
    return;
  }
  for (int64_t j = 0; j < x.stride && j < count; ++j) {  // without spread: input j + i · stride lies i after input j
    T* out = to + (place + j) % x.stride * part + (place + j) / x.stride;
    const int64_t n = (count - j + x.stride - 1) / x.stride;
    const char* source = from + j * step;
    if (native && column_step == 1 && x.stride == 2) {
      copy_every_second(out, reinterpret_cast<const T*>(source), size_t(n));
      continue;
    }
    for (int64_t i = 0; i < n; ++i) out[i] = element<T>(source + i * x.stride * step, dtype);
  }
}

// Copies one channel. `clear` writes the zeros around it, which stay where they are for the next image. Reads beyond a
// row of outputs stay inside the plane and the slack behind the last one.
template <class T>
void lay_out(T* plane, const Planes& planes, const Window& y, const Window& x, const char* channel, Dtype dtype,
             int64_t row_step, int64_t column_step, bool clear) {
  const ptrdiff_t size = ptrdiff_t(dtype_size(dtype));
  if (clear) memset(plane, 0, planes.size() * sizeof(T));
  const int64_t from_row = first_input(y), from_column = first_input(x);
  const bool plain = x.stride == 1 && x.spread == 1;
  // Input i lies in column i · spread − from_column; those that some output meets are first ≤ i < end.
  const int64_t first = from_column > 0 ? (from_column + x.spread - 1) / x.spread : 0;
  const int64_t last_place = from_column + planes.pitch * x.stride - 1;
  const int64_t fitting = last_place < 0 ? 0 : last_place / x.spread + 1;
  const int64_t end = fitting < x.input ? fitting : x.input;
  if (first >= end) return;
  for (int64_t i = 0; i < y.input; ++i) {
    const int64_t row = i * y.spread - from_row;
    if (row < 0 || row >= planes.rows * y.stride) continue;
    const char* from = channel + (i * row_step + first * column_step) * size;
    T* to = plane + planes.place(y, x, row, 0);
    if (plain) {
      T* start = to + first - from_column;
      if constexpr (sizeof(T) == 4) {
        if (dtype != Dtype::f32) {
          widen_strip(start, from, dtype, column_step, size_t(end - first));
          continue;
        }
      }
      if (column_step == 1) {
        copy_row(start, reinterpret_cast<const T*>(from), size_t(end - first));
        continue;
      }
    }
    lay_out_row(to, planes.part(), x, first * x.spread - from_column, from, dtype, column_step, end - first);
  }
}

}  // namespace
}  // namespace DW_ISA

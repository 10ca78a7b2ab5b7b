// A convolution of an image with zeros between its inputs (the gradient of one with a stride), as one without them for
// each remainder of outputs modulo the spread: outputs of one remainder meet the same taps, a fixed step apart.
#pragma once
#include "convolution.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

inline bool is_spread(const droveway::Convolution& c) { return c.y.spread != 1 || c.x.spread != 1; }

inline int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

// What outputs remainder, remainder + spread, … meet: taps first, first + step, ….
struct Remainder {
  droveway::Window window;
  int64_t first, step;
};

inline Remainder remainder_of(const droveway::Window& w, int64_t remainder) {
  const int64_t s = w.spread, step = s / greatest_divisor(w.dilation, s);
  int64_t first = 0;
  while (first < step && first < w.taps && (remainder + first * w.dilation - w.before) % s != 0) ++first;
  const bool any = first < step && first < w.taps;
  const int64_t taps = any ? (w.taps - first + step - 1) / step : 0;
  const int64_t before = any ? -((remainder + first * w.dilation - w.before) / s) : 0;
  return {{w.input, taps, (w.output - remainder + s - 1) / s, 1, step * w.dilation / s, before, 1}, first, step};
}

// The convolution of one pair of remainders; its result goes to memory of its own.
inline droveway::Convolution part_of(const droveway::Convolution& c, const Remainder& y, const Remainder& x, void* out) {
  droveway::Convolution part = c;
  part.y = y.window;
  part.x = x.window;
  part.weight = static_cast<const char*>(c.weight) +
                (y.first * c.weight_step[3] + x.first * c.weight_step[4]) * int64_t(dtype_size(c.dtype));
  part.weight_step[3] *= y.step;
  part.weight_step[4] *= x.step;
  part.out = out;
  return part;
}

// f(y, x, remainder of y, of x) for each pair that meets a tap; whether all do.
template <class F>
bool each_part(const droveway::Convolution& c, F f) {
  bool all = true;
  for (int64_t ry = 0; ry < c.y.spread && ry < c.y.output; ++ry) {
    const Remainder y = remainder_of(c.y, ry);
    all = all && y.window.taps != 0;
    if (y.window.taps == 0) continue;
    for (int64_t rx = 0; rx < c.x.spread && rx < c.x.output; ++rx) {
      const Remainder x = remainder_of(c.x, rx);
      all = all && x.window.taps != 0;
      if (x.window.taps != 0) f(y, x, ry, rx);
    }
  }
  return all;
}

struct Spread {
  const droveway::Convolution* whole;
  const droveway::Convolution* part;
  int64_t y, x;  // remainders
};

// One plane of a part's outputs goes to its places in the whole.
template <class T>
void spread_plane(void* context, size_t plane) {
  const auto& spread = *static_cast<const Spread*>(context);
  const droveway::Convolution &c = *spread.whole, &part = *spread.part;
  const T* from = static_cast<const T*>(part.out) + int64_t(plane) * part.y.output * part.x.output;
  T* to = static_cast<T*>(c.out) + (int64_t(plane) * c.y.output + spread.y) * c.x.output + spread.x;
  for (int64_t y = 0; y < part.y.output; ++y, to += c.y.spread * c.x.output)
    for (int64_t x = 0; x < part.x.output; ++x) to[x * c.x.spread] = *from++;
}

inline void spread_out(Spread spread) {
  const droveway::Convolution& c = *spread.whole;
  const size_t planes = size_t(c.images * c.groups * c.outputs), size = dtype_size(c.dtype);
  const int threads = planes * size_t(c.y.output * c.x.output) < size_t{1} << 16 ? 1 : 1024;
  dw_parallel_n(planes, size == 8 ? spread_plane<uint64_t> : size == 4 ? spread_plane<uint32_t> : spread_plane<uint16_t>, &spread, threads);
}

inline size_t whole_bytes(const droveway::Convolution& c) {
  return size_t(c.images * c.groups * c.outputs * c.y.output * c.x.output) * dtype_size(c.dtype);
}

}  // namespace
}  // namespace DW_ISA

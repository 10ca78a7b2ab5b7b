// Packing of a factor: panels of a few rows of A, or columns of B, k after k, in the type that sums are computed in.
#pragma once
#include "array/dtype.hpp"
#include "kernels.hpp"
#include "product_tile.hpp"

namespace DW_ISA {
namespace {

using droveway::Dtype;

inline size_t least(size_t a, size_t b) { return a < b ? a : b; }
inline size_t parts(size_t n, size_t size) { return (n + size - 1) / size; }

// N rows of N elements from `from`, `lane` apart, written as columns: rows `width` apart.
template <class T, int N>
struct Square {
  typedef T V __attribute__((vector_size(N * sizeof(T))));
  template <int... I>
  static DW_INLINE V low(V a, V b, Indices<I...>) {
    return __builtin_shufflevector(a, b, (I % 2 * N + I / 2)...);
  }
  template <int... I>
  static DW_INLINE V high(V a, V b, Indices<I...>) {
    return __builtin_shufflevector(a, b, (I % 2 * N + I / 2 + N / 2)...);
  }
  // Interleaving row i with row i + N / 2 rotates the bits of an element's (row, column); log2(N) times swaps them.
  static DW_INLINE void transpose(T* out, size_t width, const T* from, ptrdiff_t lane) {
    using All = typename MakeIndices<N>::type;
    V row[N], mixed[N];
    repeat<N>([&](auto i) DW_LAMBDA { memcpy(&row[i], from + i * lane, sizeof(V)); });
    repeat<N == 16 ? 4 : N == 8 ? 3 : N == 4 ? 2 : 1>([&](auto) DW_LAMBDA {
      repeat<N / 2>([&](auto i) DW_LAMBDA {
        mixed[2 * i] = low(row[i], row[i + N / 2], All{});
        mixed[2 * i + 1] = high(row[i], row[i + N / 2], All{});
      });
      repeat<N>([&](auto i) DW_LAMBDA { row[i] = mixed[i]; });
    });
    repeat<N>([&](auto i) DW_LAMBDA { memcpy(out + size_t(i) * width, &row[i], sizeof(V)); });
  }
  // As many k as squares hold; the last square of lanes may overlap the one before it. At least N lanes.
  static size_t pack(T* out, size_t width, const T* from, ptrdiff_t lane, size_t lanes, size_t depth) {
    size_t k = 0;
    for (; k + N <= depth; k += N)
      for (size_t i = 0; i < lanes; i += N) {
        const size_t start = i + N <= lanes ? i : lanes - N;
        transpose(out + k * width + start, width, from + ptrdiff_t(start) * lane + ptrdiff_t(k), lane);
      }
    return k;
  }
};

// out[k * width + i] = from[i * lane + k * along] for i < lanes; zeros up to width.
template <class T>
void pack(T* out, size_t width, const T* from, ptrdiff_t lane, ptrdiff_t along, size_t lanes, size_t depth) {
  using V = Lanes<T>;
  if (lanes < width) memset(out, 0, width * depth * sizeof(T));
  if (lane == 1) {
    for (size_t k = 0; k < depth; ++k, from += along, out += width)
      for (size_t i = 0; i < lanes; i += size_t(V::width))
        store_partial(out + i, lanes - i, V::load_partial(from + i, lanes - i, T(0)));
    return;
  }
  constexpr int whole = int(V::width / kRegs);  // one register's lanes
  constexpr int half = whole > 4 ? whole / 2 : whole;
  size_t k = 0;
  if (along == 1 && lanes >= size_t(whole)) k = Square<T, whole>::pack(out, width, from, lane, lanes, depth);
  else if (along == 1 && lanes >= size_t(half)) k = Square<T, half>::pack(out, width, from, lane, lanes, depth);
  else if (along == 1 && lanes >= 4) k = Square<T, 4>::pack(out, width, from, lane, lanes, depth);
  for (; k < depth; ++k)
    for (size_t i = 0; i < lanes; ++i) out[k * width + i] = from[ptrdiff_t(i) * lane + ptrdiff_t(k) * along];
}

// out[i] = the value at from + i * step elements, converted; every narrow type fits its wide one exactly.
inline void widen_strip(float* out, const char* from, Dtype dtype, ptrdiff_t step, size_t n) {
  constexpr size_t kStrip = 256;
  const droveway::ElementwiseLoop convert = cast(int(dtype), int(Dtype::f32));
  const size_t size = dtype_size(dtype);
  alignas(64) char gathered[2 * kStrip];
  while (n != 0) {
    const size_t count = least(n, kStrip);
    const char* contiguous = from;
    if (step != 1) {
      for (size_t i = 0; i < count; ++i) memcpy(gathered + i * size, from + ptrdiff_t(i) * step * ptrdiff_t(size), size);
      contiguous = gathered;
    }
    convert({.out = out, .in = {contiguous, nullptr, nullptr}, .n = count, .op = droveway::op_cast});
    out += count;
    from += ptrdiff_t(count) * step * ptrdiff_t(size);
    n -= count;
  }
}

// As pack, from elements of a narrower type (of at most two bytes).
inline void pack_narrow(float* out, size_t width, const char* from, Dtype dtype, ptrdiff_t lane, ptrdiff_t along,
                        size_t lanes, size_t depth) {
  const ptrdiff_t size = ptrdiff_t(dtype_size(dtype));
  if (lane == 1) {
    if (lanes < width) memset(out, 0, width * depth * sizeof(float));
    for (size_t k = 0; k < depth; ++k) widen_strip(out + k * width, from + ptrdiff_t(k) * along * size, dtype, 1, lanes);
    return;
  }
  constexpr size_t kChunk = 128;
  alignas(64) float wide[32 * kChunk];
  for (size_t k = 0; k < depth; k += kChunk) {
    const size_t count = least(kChunk, depth - k);
    for (size_t i = 0; i < lanes; ++i)
      widen_strip(wide + i * kChunk, from + (ptrdiff_t(i) * lane + ptrdiff_t(k) * along) * size, dtype, along, count);
    pack(out + k * width, width, wide, ptrdiff_t(kChunk), 1, lanes, count);
  }
}

// A factor as it lies in memory: the element (lane, k) is at p + lane_step * lane + along * k elements.
struct Factor {
  const char* p;
  Dtype dtype;
  ptrdiff_t lane, along;
};

template <class T>
void pack_factor(T* out, size_t width, const Factor& f, size_t lane, size_t k, size_t lanes, size_t depth) {
  const char* from = f.p + (ptrdiff_t(lane) * f.lane + ptrdiff_t(k) * f.along) * ptrdiff_t(dtype_size(f.dtype));
  if constexpr (sizeof(T) == 4) {
    if (f.dtype != Dtype::f32) return pack_narrow(out, width, from, f.dtype, f.lane, f.along, lanes, depth);
  }
  pack(out, width, reinterpret_cast<const T*>(from), f.lane, f.along, lanes, depth);
}

}  // namespace
}  // namespace DW_ISA

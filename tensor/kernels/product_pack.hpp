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

template <class T>
struct Four {
  typedef T V __attribute__((vector_size(4 * sizeof(T))));
};

// out[k * width + i] = from[i * lane + k * along] for i < lanes; zeros up to width.
template <class T>
void pack(T* out, size_t width, const T* from, ptrdiff_t lane, ptrdiff_t along, size_t lanes, size_t depth) {
  using V = Lanes<T>;
  using V4 = typename Four<T>::V;
  if (lanes < width) memset(out, 0, width * depth * sizeof(T));
  if (lane == 1) {
    for (size_t k = 0; k < depth; ++k, from += along, out += width)
      for (size_t i = 0; i < lanes; i += size_t(V::width))
        store_partial(out + i, lanes - i, V::load_partial(from + i, lanes - i, T(0)));
    return;
  }
  size_t k = 0;
  if (along == 1 && lanes >= 4) {
    // Four lanes and four k at a time are a 4 × 4 transpose; the last group of lanes may overlap the one before it.
    for (; k + 4 <= depth; k += 4) {
      for (size_t i = 0; i < lanes; i += 4) {
        const size_t start = i + 4 <= lanes ? i : lanes - 4;
        V4 r0, r1, r2, r3;
        const T* p = from + ptrdiff_t(start) * lane + ptrdiff_t(k);
        memcpy(&r0, p, sizeof(V4));
        memcpy(&r1, p + lane, sizeof(V4));
        memcpy(&r2, p + 2 * lane, sizeof(V4));
        memcpy(&r3, p + 3 * lane, sizeof(V4));
        const V4 t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), t1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
        const V4 t2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
        r0 = __builtin_shufflevector(t0, t2, 0, 1, 4, 5);
        r1 = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
        r2 = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
        r3 = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
        T* to = out + k * width + start;
        memcpy(to, &r0, sizeof(V4));
        memcpy(to + width, &r1, sizeof(V4));
        memcpy(to + 2 * width, &r2, sizeof(V4));
        memcpy(to + 3 * width, &r3, sizeof(V4));
      }
    }
  }
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

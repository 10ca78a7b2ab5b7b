// Elements of any type and stride as a contiguous run of the type they are computed in, and back.
//
//   storage                      computed in
//   float16 bfloat16 float32     float        float64                   double
//   bool int8 … int64            int64_t      uint8 … uint64            uint64_t
//
// A result is rounded once, when it is stored.
#pragma once
#include "droveway/half.hpp"
#include "../array/view.hpp"

namespace DW_ISA {
namespace lines {

using droveway::Dtype;
using droveway::View;

template <class T> constexpr Dtype kNative = Dtype::f32;
template <> inline constexpr Dtype kNative<double> = Dtype::f64;
template <> inline constexpr Dtype kNative<int64_t> = Dtype::i64;
template <> inline constexpr Dtype kNative<uint64_t> = Dtype::u64;

template <class S, class T>
void load_cast(const void* data, ptrdiff_t stride, size_t n, T* out) {
  const S* p = static_cast<const S*>(data);
  if (stride == 1) {
    for (size_t i = 0; i < n; ++i) out[i] = T(p[i]);
  } else {
    for (size_t i = 0; i < n; ++i) out[i] = T(p[ptrdiff_t(i) * stride]);
  }
}
template <class S, class T>
void store_cast(void* data, ptrdiff_t stride, size_t n, const T* x) {
  S* p = static_cast<S*>(data);
  if (stride == 1) {
    for (size_t i = 0; i < n; ++i) p[i] = S(x[i]);
  } else {
    for (size_t i = 0; i < n; ++i) p[ptrdiff_t(i) * stride] = S(x[i]);
  }
}

// out[i] = element i of a run at p, stride in elements.
inline void load_run(Dtype dtype, const void* data, ptrdiff_t stride, size_t n, float* out) {
  if (dtype == Dtype::f32) return load_cast<float>(data, stride, n, out);
  const uint16_t* p = static_cast<const uint16_t*>(data);
  const bool brain = dtype == Dtype::bf16;
  size_t i = 0;
  if (stride == 1)
    for (; i + 16 <= n; i += 16) store(out + i, brain ? load_bf16(p + i) : load_f16(p + i));
  for (; i < n; i += 16) {
    const size_t m = n - i < 16 ? n - i : 16;
    uint16_t local[16] = {};
    for (size_t k = 0; k < m; ++k) local[k] = p[ptrdiff_t(i + k) * stride];
    store_partial(out + i, m, brain ? load_bf16(local) : load_f16(local));
  }
}
inline void load_run(Dtype, const void* data, ptrdiff_t stride, size_t n, double* out) {
  load_cast<double>(data, stride, n, out);
}
inline void load_run(Dtype dtype, const void* data, ptrdiff_t stride, size_t n, int64_t* out) {
  switch (dtype) {
    case Dtype::i8: return load_cast<int8_t>(data, stride, n, out);
    case Dtype::i16: return load_cast<int16_t>(data, stride, n, out);
    case Dtype::i32: return load_cast<int32_t>(data, stride, n, out);
    case Dtype::i64: return load_cast<int64_t>(data, stride, n, out);
    default: return load_cast<uint8_t>(data, stride, n, out);  // boolean: 0 or 1
  }
}
inline void load_run(Dtype dtype, const void* data, ptrdiff_t stride, size_t n, uint64_t* out) {
  switch (dtype) {
    case Dtype::u8: return load_cast<uint8_t>(data, stride, n, out);
    case Dtype::u16: return load_cast<uint16_t>(data, stride, n, out);
    case Dtype::u32: return load_cast<uint32_t>(data, stride, n, out);
    default: return load_cast<uint64_t>(data, stride, n, out);
  }
}

inline void store_run(Dtype dtype, void* data, ptrdiff_t stride, size_t n, const float* x) {
  if (dtype == Dtype::f32) return store_cast<float>(data, stride, n, x);
  uint16_t* p = static_cast<uint16_t*>(data);
  const bool brain = dtype == Dtype::bf16;
  for (size_t i = 0; i < n; i += 16) {  // NaN is canonical already
    const size_t m = n - i < 16 ? n - i : 16;
    const F32x16 v = m == 16 ? F32x16::load(x + i) : F32x16::load_partial(x + i, m, 0.0f);
    uint16_t local[16];
    uint16_t* const to = stride == 1 && m == 16 ? p + i : local;
    if (brain) store_bf16(to, v);
    else store_f16(to, v);
    if (to == local)
      for (size_t k = 0; k < m; ++k) p[ptrdiff_t(i + k) * stride] = local[k];
  }
}
inline void store_run(Dtype, void* data, ptrdiff_t stride, size_t n, const double* x) {
  store_cast<double>(data, stride, n, x);
}
// Integers wrap; a boolean is whether the value is not 0.
template <class T>
void store_integers(Dtype dtype, void* data, ptrdiff_t stride, size_t n, const T* x) {
  switch (dtype) {
    case Dtype::i8: case Dtype::u8: return store_cast<uint8_t>(data, stride, n, x);
    case Dtype::i16: case Dtype::u16: return store_cast<uint16_t>(data, stride, n, x);
    case Dtype::i32: case Dtype::u32: return store_cast<uint32_t>(data, stride, n, x);
    case Dtype::boolean: {
      uint8_t* p = static_cast<uint8_t*>(data);
      for (size_t i = 0; i < n; ++i) p[ptrdiff_t(i) * stride] = x[i] != 0;
      return;
    }
    default: return store_cast<uint64_t>(data, stride, n, x);
  }
}
inline void store_run(Dtype dtype, void* data, ptrdiff_t stride, size_t n, const int64_t* x) {
  store_integers(dtype, data, stride, n, x);
}
inline void store_run(Dtype dtype, void* data, ptrdiff_t stride, size_t n, const uint64_t* x) {
  store_integers(dtype, data, stride, n, x);
}

// out[i] = 1 where element i is not zero (NaN is not), else 0. Of a complex number both parts are asked.
template <class W>
void truth_cast(const void* data, ptrdiff_t stride, size_t n, W mask, uint8_t* out) {
  const W* p = static_cast<const W*>(data);
  for (size_t i = 0; i < n; ++i) out[i] = (p[ptrdiff_t(i) * stride] & mask) != 0;
}
inline void load_truth(Dtype dtype, const void* data, ptrdiff_t stride, size_t n, uint8_t* out) {
  switch (dtype) {
    case Dtype::boolean: case Dtype::i8: case Dtype::u8: return truth_cast<uint8_t>(data, stride, n, 0xFF, out);
    case Dtype::i16: case Dtype::u16: return truth_cast<uint16_t>(data, stride, n, 0xFFFF, out);
    case Dtype::f16: case Dtype::bf16: return truth_cast<uint16_t>(data, stride, n, 0x7FFF, out);
    case Dtype::i32: case Dtype::u32: return truth_cast<uint32_t>(data, stride, n, 0xFFFFFFFFu, out);
    case Dtype::f32: return truth_cast<uint32_t>(data, stride, n, 0x7FFFFFFFu, out);
    case Dtype::i64: case Dtype::u64: return truth_cast<uint64_t>(data, stride, n, ~uint64_t{0}, out);
    case Dtype::f64: return truth_cast<uint64_t>(data, stride, n, ~uint64_t{0} >> 1, out);
    case Dtype::c64: {
      const uint32_t* p = static_cast<const uint32_t*>(data);
      for (size_t i = 0; i < n; ++i)
        out[i] = ((p[2 * ptrdiff_t(i) * stride] | p[2 * ptrdiff_t(i) * stride + 1]) & 0x7FFFFFFFu) != 0;
      return;
    }
    case Dtype::c128: {
      const uint64_t* p = static_cast<const uint64_t*>(data);
      for (size_t i = 0; i < n; ++i)
        out[i] = ((p[2 * ptrdiff_t(i) * stride] | p[2 * ptrdiff_t(i) * stride + 1]) & ~uint64_t{0} >> 1) != 0;
      return;
    }
  }
}

}  // namespace lines
}  // namespace DW_ISA

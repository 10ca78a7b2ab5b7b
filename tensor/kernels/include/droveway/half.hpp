// float16 and bfloat16 in memory as sixteen float lanes.
//
//   load_f16(p)   load_bf16(p)   -> F32x16, exact; a NaN keeps its payload
//   store_f16(p, x)   store_bf16(p, x)   rounded once, to nearest even; x's NaN must be canonical
//   …_partial(p, n, …)   the first n lanes; nothing beyond p[n-1] is touched, missing lanes are 1
//
// Never the AVX-512 BF16 conversion: it flushes subnormals.
#pragma once
#include "droveway/lanes.hpp"

namespace DW_ISA {

#if defined(DW_ISA_V4)
DW_INLINE F32x16 load_f16(const uint16_t* p) { return {{_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))}}; }
DW_INLINE void store_f16(uint16_t* p, F32x16 x) {
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(x.r[0], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
DW_INLINE U32x16 load_words(const uint16_t* p) {
  return {{(reg::U32)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p))}};
}
DW_INLINE void store_words(uint16_t* p, U32x16 x) {
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16((__m512i)x.r[0]));
}
#elif defined(DW_ISA_V3)
DW_INLINE F32x16 load_f16(const uint16_t* p) {
  return build<F32x16>([&](auto i) DW_LAMBDA {
    return (reg::F32)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8 * i)));
  });
}
DW_INLINE void store_f16(uint16_t* p, F32x16 x) {
  each_register([&](auto i) DW_LAMBDA {
    _mm_storeu_si128((__m128i*)(p + 8 * i), _mm256_cvtps_ph(x.r[i], _MM_FROUND_TO_NEAREST_INT));
  });
}
DW_INLINE U32x16 load_words(const uint16_t* p) {
  return build<U32x16>([&](auto i) DW_LAMBDA {
    return (reg::U32)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)(p + 8 * i)));
  });
}
DW_INLINE void store_words(uint16_t* p, U32x16 x) {
  const __m256i packed = _mm256_packus_epi32((__m256i)x.r[0], (__m256i)x.r[1]);  // halves interleaved
  _mm256_storeu_si256((__m256i*)p, _mm256_permute4x64_epi64(packed, 0xD8));
}
#else
DW_INLINE F32x16 load_f16(const uint16_t* p) {
  return build<F32x16>([&](auto i) DW_LAMBDA {
    return (reg::F32)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
  });
}
DW_INLINE void store_f16(uint16_t* p, F32x16 x) {
  each_register([&](auto i) DW_LAMBDA {
    vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x.r[i])));
  });
}
DW_INLINE U32x16 load_words(const uint16_t* p) {
  return build<U32x16>([&](auto i) DW_LAMBDA { return (reg::U32)vmovl_u16(vld1_u16(p + 4 * i)); });
}
DW_INLINE void store_words(uint16_t* p, U32x16 x) {
  each_register([&](auto i) DW_LAMBDA { vst1_u16(p + 4 * i, vmovn_u32((uint32x4_t)x.r[i])); });
}
#endif

DW_INLINE F32x16 load_bf16(const uint16_t* p) { return f32(load_words(p) << 16); }
DW_INLINE void store_bf16(uint16_t* p, F32x16 x) {
  const U32x16 u = bits(x);
  store_words(p, (u + U32x16::set1(0x7FFFu) + ((u >> 16) & U32x16::set1(1))) >> 16);  // canonical NaN stays 7FC0
}

#define DW_HALF_PARTIAL(NAME, ONE)                                        \
  DW_INLINE F32x16 load_##NAME##_partial(const uint16_t* p, size_t n) {   \
    uint16_t local[16];                                                   \
    for (int l = 0; l < 16; ++l) local[l] = ONE;                          \
    memcpy(local, p, (n < 16 ? n : 16) * 2);                              \
    return load_##NAME(local);                                            \
  }                                                                       \
  DW_INLINE void store_##NAME##_partial(uint16_t* p, size_t n, F32x16 x) { \
    uint16_t local[16];                                                   \
    store_##NAME(local, x);                                               \
    memcpy(p, local, (n < 16 ? n : 16) * 2);                              \
  }
DW_HALF_PARTIAL(f16, 0x3C00)
DW_HALF_PARTIAL(bf16, 0x3F80)
#undef DW_HALF_PARTIAL

}  // namespace DW_ISA

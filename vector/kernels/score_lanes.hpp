// One register whose 32-bit lanes are rows, for score.cpp: kRowLanes rows, each with four bytes or two 16-bit words.
//
//   lanes_load  lanes_store  lanes_broadcast(p): the 32-bit word at p in every lane
//   nibbles_low  nibbles_high: each byte's lower, upper four bits     level_bytes: the level of each code
//   even_words  odd_words: bytes 0 and 2, or 1 and 3, of each lane as two signed words
//   multiply_words(a, b): a0·b0 + a1·b1 in each lane               exact for words of 8 bits
//   multiply_bytes(size, level): Σ of four products of an unsigned with a signed byte, both at most 127 in magnitude: two
//                            such products stay within 16 bits (2·127·127 = 32,258)
#pragma once
#include "droveway/lanes.hpp"

namespace DW_ISA {

#if defined(DW_ISA_V4)

constexpr size_t kRowLanes = 16;
using Lanes = __m512i;

DW_INLINE Lanes lanes_load(const void* p) { return _mm512_loadu_si512(p); }
DW_INLINE void lanes_store(void* p, Lanes x) { _mm512_storeu_si512(p, x); }
DW_INLINE Lanes lanes_broadcast(const void* p) {
  int word;
  memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}
DW_INLINE Lanes lanes_zero() { return _mm512_setzero_si512(); }
DW_INLINE Lanes lanes_add(Lanes a, Lanes b) { return _mm512_add_epi32(a, b); }
DW_INLINE Lanes lanes_xor(Lanes a, Lanes b) { return _mm512_xor_si512(a, b); }
DW_INLINE Lanes nibbles_low(Lanes x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
DW_INLINE Lanes nibbles_high(Lanes x) { return nibbles_low(_mm512_srli_epi16(x, 4)); }
DW_INLINE Lanes level_bytes(const int8_t* table, Lanes codes) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)table)), codes);
}
DW_INLINE Lanes even_words(Lanes x) { return _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8); }
DW_INLINE Lanes odd_words(Lanes x) { return _mm512_srai_epi16(x, 8); }
DW_INLINE Lanes multiply_words(Lanes a, Lanes b) { return _mm512_madd_epi16(a, b); }
DW_INLINE Lanes multiply_bytes(Lanes size, Lanes level) {
  return _mm512_madd_epi16(_mm512_maddubs_epi16(size, level), _mm512_set1_epi16(1));
}
DW_INLINE F64x8 doubles_of(const int32_t* p) {
  return {{(reg::F64)_mm512_cvtepi32_pd(_mm256_loadu_si256((const __m256i*)p))}};
}

#elif defined(DW_ISA_V3)

constexpr size_t kRowLanes = 8;
using Lanes = __m256i;

DW_INLINE Lanes lanes_load(const void* p) { return _mm256_loadu_si256((const __m256i*)p); }
DW_INLINE void lanes_store(void* p, Lanes x) { _mm256_storeu_si256((__m256i*)p, x); }
DW_INLINE Lanes lanes_broadcast(const void* p) {
  int word;
  memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}
DW_INLINE Lanes lanes_zero() { return _mm256_setzero_si256(); }
DW_INLINE Lanes lanes_add(Lanes a, Lanes b) { return _mm256_add_epi32(a, b); }
DW_INLINE Lanes lanes_xor(Lanes a, Lanes b) { return _mm256_xor_si256(a, b); }
DW_INLINE Lanes nibbles_low(Lanes x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
DW_INLINE Lanes nibbles_high(Lanes x) { return nibbles_low(_mm256_srli_epi16(x, 4)); }
DW_INLINE Lanes level_bytes(const int8_t* table, Lanes codes) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)table)), codes);
}
DW_INLINE Lanes even_words(Lanes x) { return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8); }
DW_INLINE Lanes odd_words(Lanes x) { return _mm256_srai_epi16(x, 8); }
DW_INLINE Lanes multiply_words(Lanes a, Lanes b) { return _mm256_madd_epi16(a, b); }
DW_INLINE Lanes multiply_bytes(Lanes size, Lanes level) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(size, level), _mm256_set1_epi16(1));
}
DW_INLINE F64x8 doubles_of(const int32_t* p) {
  return {{(reg::F64)_mm256_cvtepi32_pd(_mm_loadu_si128((const __m128i*)p)),
           (reg::F64)_mm256_cvtepi32_pd(_mm_loadu_si128((const __m128i*)(p + 4)))}};
}

#else  // arm64

constexpr size_t kRowLanes = 4;
using Lanes = int32x4_t;

DW_INLINE Lanes lanes_load(const void* p) { return vreinterpretq_s32_u8(vld1q_u8((const uint8_t*)p)); }
DW_INLINE void lanes_store(void* p, Lanes x) { vst1q_u8((uint8_t*)p, vreinterpretq_u8_s32(x)); }
DW_INLINE Lanes lanes_broadcast(const void* p) {
  int32_t word;
  memcpy(&word, p, 4);
  return vdupq_n_s32(word);
}
DW_INLINE Lanes lanes_zero() { return vdupq_n_s32(0); }
DW_INLINE Lanes lanes_add(Lanes a, Lanes b) { return vaddq_s32(a, b); }
DW_INLINE Lanes lanes_xor(Lanes a, Lanes b) { return veorq_s32(a, b); }
DW_INLINE Lanes nibbles_low(Lanes x) {
  return vreinterpretq_s32_u8(vandq_u8(vreinterpretq_u8_s32(x), vdupq_n_u8(15)));
}
DW_INLINE Lanes nibbles_high(Lanes x) { return vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(x), 4)); }
DW_INLINE Lanes level_bytes(const int8_t* table, Lanes codes) {
  return vreinterpretq_s32_s8(vqtbl1q_s8(vld1q_s8(table), vreinterpretq_u8_s32(codes)));
}
DW_INLINE Lanes even_words(Lanes x) {
  return vreinterpretq_s32_s16(vshrq_n_s16(vshlq_n_s16(vreinterpretq_s16_s32(x), 8), 8));
}
DW_INLINE Lanes odd_words(Lanes x) { return vreinterpretq_s32_s16(vshrq_n_s16(vreinterpretq_s16_s32(x), 8)); }
DW_INLINE Lanes multiply_words(Lanes a, Lanes b) {
  const int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
  return vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
DW_INLINE Lanes multiply_bytes(Lanes size, Lanes level) {
  const int8x16_t x = vreinterpretq_s8_s32(size), y = vreinterpretq_s8_s32(level);
  return vpaddq_s32(vpaddlq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(y))), vpaddlq_s16(vmull_high_s8(x, y)));
}
DW_INLINE F64x8 doubles_of(const int32_t* p) {
  F64x8 out;
  for (int i = 0; i < 4; ++i)
    out.r[i] = (reg::F64)vcvtq_f64_s64(vmovl_s32(vld1_s32(p + 2 * i)));
  return out;
}

#endif

DW_INLINE U32x16 words_of(const int32_t* p) { return U32x16::load(reinterpret_cast<const uint32_t*>(p)); }

}  // namespace DW_ISA

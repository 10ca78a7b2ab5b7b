// The chosen lanes of a vector, side by side.
#pragma once
#include "droveway/lanes.hpp"

namespace DW_ISA {

typedef uint32_t __attribute__((may_alias)) Word;

// Writes the lanes of v where m holds to p, in order, and returns how many; p has room for sixteen words all the same.
#if defined(DW_ISA_V4)
DW_INLINE uint32_t compress(Word* p, U32x16 v, M32x16 m) {
  _mm512_storeu_si512(p, _mm512_maskz_compress_epi32(m.r[0].k, (__m512i)v.r[0]));
  return uint32_t(__builtin_popcount(m.r[0].k));
}
#elif defined(DW_ISA_V3)
// Row m: the positions of the ones of m, one a byte.
struct Rows {
  uint64_t row[256];
};
constexpr Rows make_rows() {
  Rows rows{};
  for (uint32_t m = 0; m < 256; ++m) {
    uint64_t row = 0;
    int at = 0;
    for (uint64_t l = 0; l < 8; ++l)
      if ((m >> l) & 1u) row |= l << (8 * at++);
    rows.row[m] = row;
  }
  return rows;
}
inline constexpr Rows kRows = make_rows();

DW_INLINE uint32_t compress(Word* p, U32x16 v, M32x16 m) {
  uint32_t count = 0;
  each_register([&](auto i) DW_LAMBDA {
    const uint32_t bits = reg::mask_bits(m.r[i]);
    const __m256i to = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)(kRows.row[bits])));
    _mm256_storeu_si256((__m256i*)(p + count), _mm256_permutevar8x32_epi32((__m256i)v.r[i], to));
    count += uint32_t(__builtin_popcount(bits));
  });
  return count;
}
#else
DW_INLINE uint32_t compress(Word* p, U32x16 v, M32x16 m) {
  uint32_t words[kLanes], count = 0;
  store(words, v);
  for (uint32_t rest = lane_bits(m); rest != 0; rest &= rest - 1) p[count++] = words[__builtin_ctz(rest)];
  return count;
}
#endif
DW_INLINE uint32_t compress(float* p, F32x16 v, M32x16 m) {
  return compress(reinterpret_cast<Word*>(p), bits(v), m);
}

}  // namespace DW_ISA

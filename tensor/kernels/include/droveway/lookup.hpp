// table[index mod 32] for floats, by lane: permutations of registers, no gather from memory.
#pragma once
#include "droveway/lanes.hpp"

namespace DW_ISA {
namespace reg {

#if defined(DW_ISA_V4)
DW_INLINE F32 lookup32(const float* table, U32 index) {
  return (F32)_mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)index, _mm512_loadu_ps(table + 16));
}
#elif defined(DW_ISA_V3)
// A permutation looks at the low three bits of the index; bits 3 and 4 choose among four of them.
DW_INLINE F32 lookup32(const float* table, U32 index) {
  const auto eight = [&](int i) { return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + i), (__m256i)index); };
  const __m256 odd = (__m256)(index << 28), upper = (__m256)(index << 27);
  const __m256 low = _mm256_blendv_ps(eight(0), eight(8), odd), high = _mm256_blendv_ps(eight(16), eight(24), odd);
  return _mm256_blendv_ps(low, high, upper);
}
#else
// A byte index beyond the table gives 0 (tbl) or leaves the lane as it is (tbx).
DW_INLINE F32 lookup32(const float* table, U32 index) {
  const uint8_t* p = (const uint8_t*)table;
  const uint8x16x4_t low = {{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
  const uint8x16x4_t high = {{vld1q_u8(p + 64), vld1q_u8(p + 80), vld1q_u8(p + 96), vld1q_u8(p + 112)}};
  const U32 bytes = (index & 31u) * 0x04040404u + 0x03020100u;
  return (F32)vqtbx4q_u8(vqtbl4q_u8(low, (uint8x16_t)bytes), high, (uint8x16_t)(bytes - 0x40404040u));
}
#endif

}  // namespace reg

DW_INLINE F32x16 lookup32(const float* table, U32x16 index) {
  return map<F32x16>([table](auto i) DW_LAMBDA { return reg::lookup32(table, i); }, index);
}

}  // namespace DW_ISA

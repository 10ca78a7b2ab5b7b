// The smaller and the larger of two numbers in one instruction where there is one: the second where they are unordered
// or equal, as a select on lt would say.
#pragma once
#include "droveway/lanes.hpp"

namespace DW_ISA {

#if defined(DW_ISA_V4)
DW_INLINE F32x16 lower(F32x16 a, F32x16 b) { return F32x16{{(reg::F32)_mm512_min_ps(a.r[0], b.r[0])}}; }
DW_INLINE F32x16 upper(F32x16 a, F32x16 b) { return F32x16{{(reg::F32)_mm512_max_ps(a.r[0], b.r[0])}}; }
#elif defined(DW_ISA_V3)
DW_INLINE F32x16 lower(F32x16 a, F32x16 b) {
  return map<F32x16>([](auto x, auto y) DW_LAMBDA { return (reg::F32)_mm256_min_ps(x, y); }, a, b);
}
DW_INLINE F32x16 upper(F32x16 a, F32x16 b) {
  return map<F32x16>([](auto x, auto y) DW_LAMBDA { return (reg::F32)_mm256_max_ps(x, y); }, a, b);
}
#else
DW_INLINE F32x16 lower(F32x16 a, F32x16 b) { return select(lt(a, b), a, b); }
DW_INLINE F32x16 upper(F32x16 a, F32x16 b) { return select(lt(b, a), a, b); }
#endif
DW_INLINE F32x16 clamp(F32x16 x, F32x16 low, F32x16 high) { return lower(upper(x, low), high); }

}  // namespace DW_ISA

// rsqrt(x) and nextafter(x, y) on lanes. Twin: tensor/twins/exponential_ref.py.
#pragma once
#include "droveway/lanes.hpp"

namespace DW_ISA {

// 1 / √x, two roundings.
DW_INLINE F32x16 rsqrt(F32x16 x) { return canonical(F32x16::set1(1.0f) / sqrt(x)); }
DW_INLINE F64x8 rsqrt(F64x8 x) { return canonical(F64x8::set1(1.0) / sqrt(x)); }

// The next number after x in the direction of y; y where they are equal.
template <class F, class U>
DW_INLINE U next_bits(F x, F y, U sign_bit) {
  const U u = bits(x), one = U::set1(1);
  const auto away = lt(abs(x), abs(y)) & eq((bits(x) ^ bits(y)) & sign_bit, U::zero());
  U next = select(away, u + one, u - one);
  next = select(eq(x, F::zero()), (bits(y) & sign_bit) | one, next);
  return select(eq(x, y), bits(y), next);
}
DW_INLINE F32x16 nextafter(F32x16 x, F32x16 y) {
  const U32x16 next = next_bits(x, y, U32x16::set1(0x80000000u));
  return f32(select(unordered(x, y), U32x16::set1(kNan32), next));
}
DW_INLINE F64x8 nextafter(F64x8 x, F64x8 y) {
  const U64x8 next = next_bits(x, y, U64x8::set1(0x8000000000000000ull));
  return f64(select(unordered(x, y), U64x8::set1(kNan64), next));
}

}  // namespace DW_ISA

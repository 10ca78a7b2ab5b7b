// Numbers as an unevaluated sum high + low of two doubles, for functions that must be right in the last bit.
// Twin: tensor/twins/double_double_ref.py, the same operations in the same order.
#pragma once
#include "droveway/lanes.hpp"

namespace DW_ISA {
namespace math64 {

struct Wide {
  F64x8 high, low;
};

// The rounded sum and its exact error (Knuth); fast_sum needs |a| ≥ |b| or a = 0 (Dekker).
DW_INLINE Wide exact_sum(F64x8 a, F64x8 b) {
  const F64x8 sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
DW_INLINE Wide fast_sum(F64x8 a, F64x8 b) {
  const F64x8 sum = a + b;
  return {sum, (a - sum) + b};
}
// The rounded product and its error, exact where nothing underflows.
DW_INLINE Wide exact_product(F64x8 a, F64x8 b) {
  const F64x8 product = a * b;
  return {product, fma(a, b, -product)};
}

DW_INLINE Wide wide(F64x8 x) { return {x, F64x8::zero()}; }
DW_INLINE Wide constant(double high, double low) { return {F64x8::set1(high), F64x8::set1(low)}; }
DW_INLINE F64x8 rounded(Wide a) { return a.high + a.low; }
DW_INLINE Wide negated(Wide a) { return {-a.high, -a.low}; }
DW_INLINE Wide select(M64x8 m, Wide a, Wide b) {
  return {DW_ISA::select(m, a.high, b.high), DW_ISA::select(m, a.low, b.low)};
}
// By a power of two.
DW_INLINE Wide scaled(Wide a, F64x8 power) { return {a.high * power, a.low * power}; }

DW_INLINE Wide sum(Wide a, Wide b) {
  const Wide s = exact_sum(a.high, b.high);
  return fast_sum(s.high, s.low + (a.low + b.low));
}
DW_INLINE Wide sum(Wide a, F64x8 b) {
  const Wide s = exact_sum(a.high, b);
  return fast_sum(s.high, s.low + a.low);
}
DW_INLINE Wide product(Wide a, Wide b) {
  const Wide p = exact_product(a.high, b.high);
  return fast_sum(p.high, fma(a.high, b.low, fma(a.low, b.high, p.low)));
}
DW_INLINE Wide product(Wide a, F64x8 b) {
  const Wide p = exact_product(a.high, b);
  return fast_sum(p.high, fma(a.low, b, p.low));
}
DW_INLINE Wide quotient(Wide a, Wide b) {
  const F64x8 q = a.high / b.high;
  const F64x8 left = fma(-q, b.high, a.high) + fma(-q, b.low, a.low);
  return fast_sum(q, left / b.high);
}
// √a for a ≥ 0.
DW_INLINE Wide square_root(Wide a) {
  const F64x8 root = DW_ISA::sqrt(a.high);
  const F64x8 left = fma(-root, root, a.high) + a.low;
  const F64x8 rest = left / (root + root);
  return fast_sum(root, DW_ISA::select(gt(a.high, F64x8::zero()), rest, F64x8::zero()));
}

DW_INLINE F64x8 nan() { return f64(U64x8::set1(kNan64)); }
DW_INLINE F64x8 infinity() { return F64x8::set1(__builtin_inf()); }
DW_INLINE F64x8 clamp(F64x8 x, double low, double high) {
  const F64x8 y = DW_ISA::select(gt(x, F64x8::set1(high)), F64x8::set1(high), x);
  return DW_ISA::select(lt(y, F64x8::set1(low)), F64x8::set1(low), y);
}

}  // namespace math64
}  // namespace DW_ISA

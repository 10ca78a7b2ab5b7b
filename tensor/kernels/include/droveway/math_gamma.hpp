// Logarithm of the gamma function, and its first two derivatives, on eight double lanes (docs/accuracy.md has the measured errors):
//
//   lgamma digamma trigamma : F64x8 -> F64x8
//
// The definition of every bit is the twin, tensor/twins/gamma_ref.py: same operations, same order, same names.
#pragma once
#include "droveway/math_logarithm.hpp"
#include "droveway/math_trigonometry.hpp"

namespace DW_ISA {
namespace math64 {

// log Γ(y) for 0 < y < ∞ where y·log y is finite.
DW_INLINE Wide lgamma_positive(F64x8 y) {
  const F64x8 one = F64x8::set1(1.0), two = F64x8::set1(2.0), half = F64x8::set1(0.5);
  const M64x8 large = ge(y, F64x8::set1(8.0)), low = lt(y, F64x8::set1(1.5)), lowest = lt(y, half);
  // Γ(y) = Γ(2 + d) · factor, or / factor where y < 1.5
  F64x8 reduced = y;
  Wide factor = wide(one);
  for (int i = 0; i < 6; ++i) {
    const M64x8 more = ge(reduced, F64x8::set1(2.5)) & !large;
    const F64x8 less = reduced - one;
    factor = select(more, product(factor, less), factor);
    reduced = DW_ISA::select(more, less, reduced);
  }
  const Wide twice = product(exact_sum(y, one), y);
  factor = select(low, select(lowest, twice, wide(y)), factor);
  const F64x8 d = DW_ISA::select(low, DW_ISA::select(lowest, y, y - one), reduced - two);
  // log Γ(2 + d) = d · (1 − γ + d · S(d))
  const F64x8 s = horner(
      d, 0x1.4a34cc4a60fa6p-2, -0x1.13e001a557608p-4, 0x1.51322ac7d8746p-6, -0x1.e404fc218e75fp-8,
      0x1.7add6ead6974fp-9, -0x1.38ac5c2cbe1dfp-10, 0x1.0b36afa7a104ap-11, -0x1.d3fd4bd2d0c5dp-13,
      0x1.a127a07be8115p-14, -0x1.78de8263dce2dp-15, 0x1.581048934f90ep-16, -0x1.3cb7227191cd2p-17,
      0x1.255bf2eb14a50p-18, -0x1.122b96deec25fp-19, 0x1.03e1de3acf0d7p-20, -0x1.d604bf3ed555ap-22,
      0x1.8a16f41f91f6ep-23, -0x1.0268c54866b35p-23, 0x1.55b107abf60dep-24, -0x1.79213370473d9p-27);
  const Wide slope = sum(exact_product(s, d), constant(0x1.b0ee6072093cep-2, 0x1.6cb90701fbfabp-58));
  const Wide near = product(slope, d);
  const Wide l = log_wide(select(large, wide(y), factor));
  // Stirling's series: (y − ½)·log y − y + ½ log 2π + 1/y · P(1/y²)
  const F64x8 inverse = one / y, z = inverse * inverse;
  const F64x8 p = horner(z, 0x1.5555555555555p-4, -0x1.6c16c16c10957p-9, 0x1.a01a015d9dfcfp-11, -0x1.381331ca80625p-11,
                         0x1.b920c2e7ceed1p-11, -0x1.ee6910ec571b5p-10, 0x1.466272eadade1p-8);
  const Wide series = sum(constant(0x1.d67f1c864beb5p-1, -0x1.65b5a1b7ff5dfp-55), inverse * p);
  const Wide far = sum(sum(product(l, exact_sum(y, -half)), -y), series);
  return select(large, far, sum(near, select(low, negated(l), l)));
}
// sin πy and cos πy up to their common sign, f = y less the nearest integer.
DW_INLINE void half_turn(F64x8 f, Wide* sine_of, Wide* cosine_of) {
  const F64x8 size = DW_ISA::abs(f);
  const M64x8 steep = gt(size, F64x8::set1(0.25));
  const F64x8 part = DW_ISA::select(steep, F64x8::set1(0.5) - size, size);
  const Wide r = product(constant(0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53), part);
  const Wide s = sine(r.high, r.low), c = cosine(r.high, r.low);
  const Wide first = fast_sum(s.high, s.low), second = fast_sum(c.high, c.low);
  *sine_of = select(steep, second, first);
  *cosine_of = select(steep, first, second);
}

}  // namespace math64

// log |Γ(x)|: +∞ at 0, at negative integers and at ±∞.
DW_INLINE F64x8 lgamma(F64x8 x) {
  using math64::Wide;
  const F64x8 y = abs(x), inf = math64::infinity();
  const F64x8 top = F64x8::set1(0x1p1014);
  const Wide positive = math64::lgamma_positive(select(gt(y, top), top, y));
  F64x8 value = select(gt(y, F64x8::set1(2.556348163871691e305)), inf, math64::rounded(positive));
  const M64x8 negative = lt(x, F64x8::set1(-0x1p-60));
  if (any(negative)) {
    // Γ(−y) · Γ(y) = −π / (y · sin πy)
    const F64x8 f = y - round_even(y);
    Wide sine_of, cosine_of;
    math64::half_turn(f, &sine_of, &cosine_of);
    const Wide l = math64::log_wide(math64::product(sine_of, y));
    const Wide reflected = math64::sum(math64::sum(math64::constant(0x1.250d048e7a1bdp+0, 0x1.7abf2ad8d5088p-57),
                                                   math64::negated(l)), math64::negated(positive));
    value = select(negative, select(eq(f, F64x8::zero()), inf, math64::rounded(reflected)), value);
  }
  value = select(eq(x, F64x8::zero()) | eq(y, inf), inf, value);
  return canonical(select(is_nan(x), x, value));
}

// The derivative of log Γ: −∞ at +0, +∞ at −0, NaN at negative integers and −∞.
DW_INLINE F64x8 digamma(F64x8 x) {
  using math64::Wide;
  const F64x8 one = F64x8::set1(1.0), two = F64x8::set1(2.0), y = abs(x), inf = math64::infinity();
  const M64x8 large = ge(y, F64x8::set1(8.0)), low = lt(y, one);
  // ψ(y) = ψ(1.5 + u) + Σ, u = y − i − 1.5 in −½ … ½
  F64x8 reduced = y;
  Wide total = {F64x8::zero(), F64x8::zero()};
  for (int i = 0; i < 6; ++i) {
    const M64x8 more = ge(reduced, two) & !large;
    const F64x8 less = reduced - one;
    total = math64::select(more, math64::sum(total, math64::quotient(math64::wide(one), math64::wide(less))), total);
    reduced = select(more, less, reduced);
  }
  const F64x8 bottom = select(low, y, one);
  total = math64::select(low, math64::negated(math64::quotient(math64::wide(one), math64::wide(bottom))), total);
  const F64x8 u = select(low, y - F64x8::set1(0.5), reduced - F64x8::set1(1.5));
  // ψ(1.5 + u) = (u − u₀) · P(u), u₀ the zero of ψ
  const F64x8 q = horner(
      u, -0x1.b1cb63005ee98p-2, 0x1.eca189b8e6f6ap-3, -0x1.2feeeb98a7972p-3, 0x1.8512e5903954ap-4,
      -0x1.fb44202a19bf5p-5, 0x1.4de9aa174f15ap-5, -0x1.b9f8b11e7b44dp-6, 0x1.25647183c7b2cp-6, -0x1.863563923e44bp-7,
      0x1.03c0ac00e4548p-7, -0x1.5a06af207949cp-8, 0x1.cd2061568955fp-9, -0x1.336d2ed633b74p-9, 0x1.99cf34c2903a6p-10,
      -0x1.0fb91695aea5bp-10, 0x1.6a6cb75f75eb1p-11, -0x1.fd4ab43c33238p-12, 0x1.529b6d775e398p-12,
      -0x1.3096e3d465526p-13, 0x1.9c4ec473d307cp-14, -0x1.75144b5897e94p-13, 0x1.ece8444d4deffp-14);
  const Wide p = math64::sum(math64::exact_product(q, u), math64::constant(0x1.e6f0cbb873616p-1, 0x1.8f70c7a125e6ap-55));
  const Wide distance = math64::sum(math64::constant(0x1.3a4f395283812p-5, 0x1.e563779a1f5b1p-60), u);
  const Wide near = math64::sum(math64::product(p, distance), total);
  // log y − 1/(2y) − 1/y² · P(1/y²)
  const F64x8 inverse = one / y, z = inverse * inverse;
  const F64x8 series = horner(z, 0x1.5555555555555p-4, -0x1.111111110f590p-7, 0x1.041040f9954efp-8,
                              -0x1.1111028c5fc1ep-8, 0x1.f07151ae0d928p-8, -0x1.586cfdefbfe37p-6,
                              0x1.42b6e32aa3386p-4, -0x1.1d07877cee66dp-2);
  const Wide l = math64::log_wide(math64::wide(select(large, y, one)));
  const Wide far = math64::sum(l, -fma(z, series, F64x8::set1(0.5) * inverse));
  const Wide positive = math64::select(large, far, near);
  F64x8 value = math64::rounded(positive);
  const M64x8 negative = lt(x, F64x8::zero());
  if (any(negative)) {
    // ψ(−y) = ψ(y) + 1/y + π / tan πy
    const F64x8 f = y - round_even(y);
    Wide sine_of, cosine_of;
    math64::half_turn(f, &sine_of, &cosine_of);
    Wide cotangent = math64::product(math64::quotient(cosine_of, sine_of),
                                     math64::constant(0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53));
    cotangent = math64::select(lt(f, F64x8::zero()), math64::negated(cotangent), cotangent);
    const Wide shifted = math64::sum(positive, math64::quotient(math64::wide(one), math64::wide(y)));
    const F64x8 reflected = math64::rounded(math64::sum(shifted, cotangent));
    value = select(negative, select(eq(f, F64x8::zero()), math64::nan(), reflected), value);
  }
  value = select(lt(y, F64x8::set1(0x1p-60)), -one / x, value);
  value = select(eq(x, inf), inf, select(eq(x, -inf), math64::nan(), value));
  return canonical(select(is_nan(x), x, value));
}

// The second derivative of log Γ: +∞ at 0 and at negative integers, NaN at −∞.
DW_INLINE F64x8 trigamma(F64x8 x) {
  using math64::Wide;
  const F64x8 one = F64x8::set1(1.0), y = abs(x), inf = math64::infinity();
  const Wide unit = math64::wide(one);
  // ψ'(y) = ψ'(y + i) + Σ 1 / (y + i)²
  F64x8 shifted = y;
  Wide total = {F64x8::zero(), F64x8::zero()};
  for (int i = 0; i < 8; ++i) {
    const M64x8 more = lt(shifted, F64x8::set1(8.0));
    const Wide term = math64::quotient(unit, math64::exact_product(shifted, shifted));
    total = math64::select(more, math64::sum(total, term), total);
    shifted = select(more, shifted + one, shifted);
  }
  // 1/y + 1/(2y²) + 1/y³ · P(1/y²)
  const Wide inverse = math64::quotient(unit, math64::wide(shifted));
  const F64x8 z = inverse.high * inverse.high;
  const F64x8 p = horner(z, 0x1.5555555555555p-3, -0x1.111111110f973p-5, 0x1.86186178ff949p-6, -0x1.111104e4077d3p-5,
                         0x1.3647c75a5d984p-4, -0x1.026ababbece0fp-2, 0x1.1b9fd705964cdp+0, -0x1.233f7cc5eb4b5p+2);
  const Wide positive = math64::sum(math64::sum(inverse, fma(z * inverse.high, p, F64x8::set1(0.5) * z)), total);
  F64x8 value = math64::rounded(positive);
  const M64x8 negative = lt(x, F64x8::zero());
  if (any(negative)) {
    // ψ'(−y) = (π / sin πy)² + 1/y² − ψ'(y)
    const F64x8 f = y - round_even(y);
    Wide sine_of, cosine_of;
    math64::half_turn(f, &sine_of, &cosine_of);
    const Wide ratio = math64::quotient(math64::constant(0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53), sine_of);
    const Wide square = math64::quotient(unit, math64::exact_product(y, y));
    const F64x8 reflected = math64::rounded(
        math64::sum(math64::sum(math64::product(ratio, ratio), square), math64::negated(positive)));
    value = select(negative, select(eq(f, F64x8::zero()), inf, reflected), value);
  }
  const F64x8 tiny = one / x;
  value = select(lt(y, F64x8::set1(0x1p-60)), tiny * tiny, value);
  value = select(eq(x, inf), F64x8::zero(), select(eq(x, -inf), math64::nan(), value));
  return canonical(select(is_nan(x), x, value));
}

}  // namespace DW_ISA

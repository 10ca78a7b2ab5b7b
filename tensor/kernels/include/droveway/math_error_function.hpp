// The error function and its kin on eight double lanes (docs/accuracy.md has the measured errors):
//
//   erf erfc gelu : F64x8 -> F64x8
//
// The definition of every bit is the twin, tensor/twins/error_function_ref.py: same operations, same order, same names.
#pragma once
#include "droveway/math_exponential.hpp"

namespace DW_ISA {
namespace math64 {

// (1 + 2x) · e^(x²) · erfc x as a polynomial in t = (x − 4) / (x + 4), which is smooth for all x ≥ 0 (Shepherd and
// Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 ≤ x < ∞", Mathematics of Computation 36, 1981).
DW_INLINE Wide complement_factor(F64x8 t) {
  const F64x8 q = horner(
      t, -0x1.1df1ad154a28fp-3, 0x1.f7f5df66fd701p-7, 0x1.16ecefcfa545ap-4, -0x1.9ddb23c3e89f6p-4,
      0x1.7fee004e107cep-4, -0x1.0fb06dfe54b6bp-4, 0x1.3079edf6c15bbp-5, -0x1.09623882af76dp-6, 0x1.49c672745e6efp-8,
      -0x1.8d4a9c36fa028p-11, -0x1.a1df19a7db048p-13, 0x1.3be069ba2eb20p-13, -0x1.995a6f2e67fefp-16,
      -0x1.788d377ae2debp-17, 0x1.7f315ac5316acp-18, 0x1.3ba900fe1bb83p-22, -0x1.bb526e197a057p-21,
      0x1.3f7a12e5de712p-24, 0x1.d95fa110183ffp-24, -0x1.30304cecdc4dap-26, -0x1.e3d4453a6bdf9p-27,
      0x1.e455c15f70101p-30, 0x1.5158bf59f7064p-30);
  const Wide start = exact_product(q, t);
  const Wide top = fast_sum(F64x8::set1(0x1.3ba5916e9fd7fp+0), start.high);
  return {top.high, top.low + (start.low + F64x8::set1(-0x1.aa9c415679e6fp-55))};
}
// e^−square · factor / bottom, times a power of two that is applied by the last product.
struct Complement {
  Wide value;
  U64x8 n;
};
DW_INLINE Complement complement(Wide square, Wide factor, Wide bottom) {
  const Exponential e = exponential(-square.high, -square.low);
  return {product(power_part(e), quotient(factor, bottom)), e.n};
}
// erfc y for 0 ≤ y ≤ 28
DW_INLINE Complement complement_of(F64x8 y) {
  const F64x8 four = F64x8::set1(4.0);
  const F64x8 t = rounded(quotient(exact_sum(y, -four), exact_sum(y, four)));
  return complement(exact_product(y, y), complement_factor(t), exact_sum(F64x8::set1(1.0), y + y));
}
DW_INLINE Wide unscaled(Complement c) { return {scale_by_power(c.value.high, c.n), scale_by_power(c.value.low, c.n)}; }

// erf y for 0 ≤ y ≤ 0.65: 2/√π · y + y·z·P(z), z = y².
DW_INLINE F64x8 near_factor(F64x8 z) {
  return horner(z, -0x1.812746b0379e7p-2, 0x1.ce2f21a042c36p-4, -0x1.b82ce3128b6a1p-6, 0x1.565bcd0f22fddp-8,
                -0x1.c02db43a62eafp-11, 0x1.f9a3327b7f99ap-14, -0x1.f4d3d3e1f8e1ep-17, 0x1.ba0568af2f447p-20,
                -0x1.60f870808d631p-23, 0x1.0873aa6388f1dp-26, -0x1.7407f9cfb5ecap-30);
}
DW_INLINE Wide erf_near(F64x8 y) {
  const F64x8 z = y * y;
  const Wide start = exact_product(y, F64x8::set1(0x1.20dd750429b6dp+0));
  return {start.high, fma(y * z, near_factor(z), fma(y, F64x8::set1(0x1.1ae3a914fed80p-56), start.low))};
}

}  // namespace math64

// Error function.
DW_INLINE F64x8 erf(F64x8 x) {
  using math64::Wide;
  const F64x8 y = abs(x);
  const Wide c = math64::unscaled(math64::complement_of(math64::clamp(y, 0.0, 6.0)));
  const Wide one_less = math64::fast_sum(F64x8::set1(1.0), -c.high);
  const F64x8 far = one_less.high + (one_less.low - c.low);
  return canonical(copysign(select(lt(y, F64x8::set1(0.65)), math64::rounded(math64::erf_near(y)), far), x));
}
// 1 − erf x, without the loss of its digits.
DW_INLINE F64x8 erfc(F64x8 x) {
  using math64::Wide;
  const F64x8 y = abs(x);
  const math64::Complement c = math64::complement_of(math64::clamp(y, 0.0, 28.0));
  const Wide value = math64::unscaled(c);
  const Wide two_less = math64::fast_sum(F64x8::set1(2.0), -value.high);
  const F64x8 right = math64::scale_by_power(math64::rounded(c.value), c.n);
  const F64x8 far = select(lt(x, F64x8::zero()), two_less.high + (two_less.low - value.low), right);
  const Wide e = math64::erf_near(x);
  const Wide one_less = math64::fast_sum(F64x8::set1(1.0), -e.high);
  return canonical(select(lt(y, F64x8::set1(0.65)), one_less.high + (one_less.low - e.low), far));
}
// x · Φ(x), Φ the distribution function of the standard normal; −0 at −∞. With y = |x|:
// y · Φ(−y) = y/2 · erfc(y/√2), and x · Φ(x) for x > 0 is x less that.
DW_INLINE F64x8 gelu(F64x8 x) {
  using math64::Wide;
  const F64x8 y = math64::clamp(abs(x), 0.0, 39.0);
  const Wide shift = math64::constant(0x1.6a09e667f3bcdp+2, -0x1.bdd3413b26456p-52);  // 4·√2
  const F64x8 t = math64::rounded(
      math64::quotient(math64::sum(math64::negated(shift), y), math64::sum(shift, y)));
  const Wide root = math64::constant(0x1.6a09e667f3bcdp+0, -0x1.bdd3413b26456p-54);
  const Wide bottom = math64::sum(math64::product(root, y), F64x8::set1(1.0));
  const Wide half_square = math64::scaled(math64::exact_product(y, y), F64x8::set1(0.5));
  const math64::Complement c = math64::complement(half_square, math64::complement_factor(t), bottom);
  const math64::Complement tail = {math64::product(c.value, F64x8::set1(0.5) * y), c.n};
  const F64x8 left = -math64::scale_by_power(math64::rounded(tail.value), tail.n);
  const Wide u = math64::unscaled(tail);
  const Wide rest = math64::fast_sum(x, -u.high);
  const F64x8 right = rest.high + (rest.low - u.low);
  F64x8 value = select(lt(x, F64x8::zero()), left, select(gt(x, F64x8::set1(39.0)), x, right));
  // x/2 + x/2 · erf(x/√2) = x · (1/2 + x · (1/√(2π) + x²·P(x²/2) / (4·√2)))
  const F64x8 z = F64x8::set1(0.5) * (x * x);
  const F64x8 bent = math64::near_factor(z) * F64x8::set1(0x1.6a09e667f3bcdp-2) * z;
  const Wide slope = math64::fast_sum(F64x8::set1(0x1.9884533d43651p-2), bent);
  const F64x8 slope_low = slope.low + F64x8::set1(-0x1.cbc0d30ebfd15p-56);
  const Wide half = math64::sum(math64::product({slope.high, slope_low}, x), F64x8::set1(0.5));
  const F64x8 near = math64::rounded(math64::product(half, x));
  value = select(lt(abs(x), F64x8::set1(0.9)), near, value);
  return canonical(copysign(value, x));  // what underflows keeps its sign, too
}

}  // namespace DW_ISA

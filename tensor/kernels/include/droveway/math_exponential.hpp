// The exponential family on eight double lanes (docs/accuracy.md has the measured errors):
//
//   exp2 expm1 sinh cosh tanh sigmoid silu : F64x8 -> F64x8
//
// The definition of every bit is the twin, tensor/twins/exponential_ref.py: same operations, same order, same names.
#pragma once
#include "droveway/double_double.hpp"
#include "droveway/math_f64.hpp"

namespace DW_ISA {
namespace math64 {

// e^(x + x_low) = 2^n · (1 + c + r + s): cosh − 1 = c and sinh = r + s of the reduced argument, |r| ≤ ln 2 / 2.
struct Exponential {
  F64x8 r, s, c;
  U64x8 n;
};
DW_INLINE Exponential exponential_reduced(F64x8 r, F64x8 r_low, U64x8 n) {
  const F64x8 z = r * r;
  const F64x8 p = horner(z, 0x1.5555555555555p-3, 0x1.111111111130dp-7, 0x1.a01a019f11386p-13, 0x1.71de3e42d7278p-19,
                         0x1.ae566844a66e5p-26, 0x1.7417c84b806afp-33);
  const F64x8 q = horner(z, 0x1.5555555555555p-5, 0x1.6c16c16c16f3fp-10, 0x1.a01a019eb5a1ep-16, 0x1.27e5001ce46acp-22,
                         0x1.1edeb598983b7p-29, 0x1.b8751f7a5de20p-37);
  const F64x8 odd = (r * z) * p, even = fma(z * z, q, F64x8::set1(0.5) * z);
  // the low part of the argument moves sinh by r_low · cosh and cosh by r_low · sinh
  return {r, odd + fma(r_low, even, r_low), fma(r + odd, r_low, even), n};
}
DW_INLINE Exponential exponential(F64x8 x, F64x8 x_low) {
  const F64x8 t = fma(x, F64x8::set1(0x1.71547652b82fep+0), F64x8::set1(kMagic));
  const F64x8 k = t - F64x8::set1(kMagic);
  const F64x8 first = fma(k, F64x8::set1(-0x1.62e42fefa39efp-1), x);  // exact
  const F64x8 second = k * F64x8::set1(0x1.abc9e3b39803fp-56);
  const F64x8 r = first - second;
  return exponential_reduced(r, ((first - r) - second) + x_low, bits(t) - U64x8::set1(kMagicBits));
}
// 1 + c + r + s
DW_INLINE Wide power_part(Exponential e) {
  const F64x8 one = F64x8::set1(1.0), start = one + e.r, change = e.s + e.c;
  const F64x8 high = start + change;
  return {high, ((start - high) + change) + ((one - start) + e.r)};
}
// x · 2^n for −2044 ≤ n ≤ 2046: the first factor is exact on normal numbers, the last product rounds.
DW_INLINE F64x8 scale_by_power(F64x8 x, U64x8 n) {
  const U64x8 half = ((n + U64x8::set1(4096)) >> 1) - U64x8::set1(2048);
  return x * power_of_2(half) * power_of_2(n - half);
}
DW_INLINE U64x8 at_least(U64x8 n, int64_t least) {
  const U64x8 bound = U64x8::set1(uint64_t(least));
  return DW_ISA::select(lt_signed(n, bound), bound, n);
}
// Tiny arguments for which f(x) = x to the last bit; zeros keep their sign.
DW_INLINE F64x8 unless_tiny(F64x8 x, F64x8 value) {
  return DW_ISA::select(lt(DW_ISA::abs(x), F64x8::set1(0x1p-28)), x, value);
}

// Half of sinh y and of cosh y for 0 ≤ y ≤ 710.6, so that the largest arguments don't overflow on the way.
struct Hyperbolic {
  Wide sine, cosine;
};
DW_INLINE Hyperbolic hyperbolic(F64x8 y) {
  const Exponential e = exponential(y, F64x8::zero());
  const U64x8 two = U64x8::set1(2);
  const F64x8 up = power_of_2(e.n - two);
  const F64x8 down = power_of_2(at_least(U64x8::zero() - e.n, -1020) - two);
  const Wide a = fast_sum(up, -down), b = fast_sum(up, down);
  const Wide ar = exact_product(a.high, e.r), br = exact_product(b.high, e.r);
  const Wide sine = fast_sum(a.high, br.high), cosine = fast_sum(b.high, ar.high);
  const F64x8 sine_low = fma(b.high, e.s, fma(a.high, e.c, fma(b.low, e.r, a.low + br.low)));
  const F64x8 cosine_low = fma(a.high, e.s, fma(b.high, e.c, fma(a.low, e.r, b.low + ar.low)));
  return {fast_sum(sine.high, sine.low + sine_low), fast_sum(cosine.high, cosine.low + cosine_low)};
}

// 1 / (1 + e^−x) = (t + rest) · 2^n for |x| ≤ 760.
struct Logistic {
  Wide value;
  U64x8 n;
};
DW_INLINE Logistic logistic(F64x8 x, F64x8 x_low) {
  const F64x8 zero = F64x8::zero(), one = F64x8::set1(1.0);
  const M64x8 negative = lt(x, zero);
  const Exponential e = exponential(DW_ISA::select(negative, x, -x), DW_ISA::select(negative, x_low, -x_low));
  const Wide p = power_part(e);
  const F64x8 scale = power_of_2(at_least(e.n, -1022));
  const Wide d = fast_sum(one, scale * p.high);
  const Wide bottom = {d.high, fma(scale, p.low, d.low)};
  return {quotient(select(negative, p, wide(one)), bottom), DW_ISA::select(negative, e.n, U64x8::zero())};
}

}  // namespace math64

// 2^x
DW_INLINE F64x8 exp2(F64x8 x) {
  const F64x8 y = math64::clamp(x, -1080.0, 1030.0), magic = F64x8::set1(math64::kMagic);
  const F64x8 t = y + magic, f = y - (t - magic), ln2 = F64x8::set1(0x1.62e42fefa39efp-1);
  const F64x8 r = f * ln2, r_low = fma(f, F64x8::set1(0x1.abc9e3b39803fp-56), fma(f, ln2, -r));
  const math64::Wide p =
      math64::power_part(math64::exponential_reduced(r, r_low, bits(t) - U64x8::set1(math64::kMagicBits)));
  return canonical(math64::scale_by_power(math64::rounded(p), bits(t) - U64x8::set1(math64::kMagicBits)));
}

// e^x − 1
DW_INLINE F64x8 expm1(F64x8 x) {
  const math64::Exponential e = math64::exponential(math64::clamp(x, -50.0, 710.0), F64x8::zero());
  const F64x8 rest = e.s + e.c;
  // half of it, so that the largest arguments don't overflow on the way
  const F64x8 scale = math64::power_of_2(e.n - U64x8::set1(1));
  const math64::Wide start = math64::exact_sum(scale, F64x8::set1(-0.5));
  const math64::Wide next = math64::exact_sum(start.high, scale * e.r);
  const F64x8 value = next.high + fma(scale, rest, next.low + start.low);
  const F64x8 y = select(eq(e.n, U64x8::zero()), e.r + rest, value + value);
  return canonical(select(eq(x, F64x8::zero()), x, y));
}

DW_INLINE F64x8 sinh(F64x8 x) {
  const F64x8 y = math64::rounded(math64::hyperbolic(math64::clamp(abs(x), 0.0, 710.6)).sine);
  return canonical(math64::unless_tiny(x, copysign(y + y, x)));
}
DW_INLINE F64x8 cosh(F64x8 x) {
  const F64x8 y = math64::rounded(math64::hyperbolic(math64::clamp(abs(x), 0.0, 710.6)).cosine);
  return canonical(y + y);
}
DW_INLINE F64x8 tanh(F64x8 x) {
  const math64::Hyperbolic h = math64::hyperbolic(math64::clamp(abs(x), 0.0, 22.0));
  const F64x8 y = math64::rounded(math64::quotient(h.sine, h.cosine));
  return canonical(math64::unless_tiny(x, copysign(y, x)));
}

// 1 / (1 + e^−x)
DW_INLINE F64x8 sigmoid(F64x8 x) {
  const math64::Logistic y = math64::logistic(math64::clamp(x, -760.0, 760.0), F64x8::zero());
  return canonical(math64::scale_by_power(math64::rounded(y.value), y.n));
}
// x · sigmoid(x); −0 at −∞.
DW_INLINE F64x8 silu(F64x8 x) {
  const F64x8 clamped = math64::clamp(x, -760.0, 760.0);
  const math64::Logistic y = math64::logistic(clamped, F64x8::zero());
  const F64x8 near = math64::scale_by_power(math64::rounded(math64::product(y.value, clamped)), y.n);
  const F64x8 far = select(ge(x, F64x8::set1(760.0)), x, near);
  return canonical(copysign(far, x));  // what underflows keeps its sign, too
}
// x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))) = x · sigmoid(2·√(2/π)·(x + 0.044715·x³)); −0 at −∞.
DW_INLINE F64x8 gelu_tanh(F64x8 x) {
  using math64::Wide;
  const F64x8 clamped = math64::clamp(x, -40.0, 40.0);
  const Wide square = math64::exact_product(clamped, clamped);
  const Wide cubic = math64::product(square, math64::constant(0x1.6e4e26d4801f7p-5, 0x1.441355475a31ap-59));
  const Wide inner = math64::product(math64::sum(cubic, F64x8::set1(1.0)), clamped);
  const Wide u = math64::product(inner, math64::constant(0x1.9884533d43651p+0, -0x1.cbc0d30ebfd15p-54));
  const M64x8 low = lt(u.high, F64x8::set1(-760.0));
  const F64x8 v = math64::clamp(u.high, -760.0, 760.0);
  const math64::Logistic y = math64::logistic(v, select(low, F64x8::zero(), u.low));
  const F64x8 near = math64::scale_by_power(math64::rounded(math64::product(y.value, clamped)), y.n);
  const F64x8 far = select(ge(x, F64x8::set1(40.0)), x, near);
  return canonical(copysign(far, x));  // what underflows keeps its sign, too
}

}  // namespace DW_ISA

// The logarithm family on eight double lanes (docs/accuracy.md has the measured errors):
//
//   log1p log2 log10 asinh acosh atanh softplus : F64x8 -> F64x8      pow(x, y)  logaddexp(x, y)
//
// The definition of every bit is the twin, tensor/twins/logarithm_ref.py: same operations, same order, same names.
#pragma once
#include "droveway/math_exponential.hpp"

namespace DW_ISA {
namespace math64 {

// log x = value + k · ln 2 with x = m · 2^k, √½ ≤ m < √2, for finite x > 0.
struct Logarithm {
  Wide value;
  F64x8 k;
};
DW_INLINE Logarithm logarithm(F64x8 x) {
  const F64x8 one = F64x8::set1(1.0);
  const M64x8 small = lt(x, F64x8::set1(0x1p-1022));
  const U64x8 u = bits(DW_ISA::select(small, x * F64x8::set1(0x1p54), x));
  const U64x8 d = u - U64x8::set1(0x3FE6A09E667F3BCDull);
  const U64x8 e = ((d + U64x8::set1(0x4000000000000000ull)) >> 52)  // exponent + 1024
                  - DW_ISA::select(small, U64x8::set1(54), U64x8::zero());
  const F64x8 m = f64((d & U64x8::set1(0x000FFFFFFFFFFFFFull)) + U64x8::set1(0x3FE6A09E667F3BCDull));
  const F64x8 k = f64(U64x8::set1(kMagicBits) + e) - F64x8::set1(kMagic + 1024.0);
  // s = (m − 1) / (m + 1), log m = s · (2 + z · (2/3 + z · Q(z))), z = s²
  const F64x8 f = m - one;
  const Wide below = exact_sum(m, one);
  const F64x8 inverse = one / below.high;
  const F64x8 s = f * inverse;
  const F64x8 s_rest = fma(-s, below.low, fma(-s, below.high, f)) * inverse;
  const F64x8 z = s * s, z_rest = fma(s + s, s_rest, fma(s, s, -z));
  const F64x8 q = horner(z, 0x1.9999999999995p-2, 0x1.249249249314fp-2, 0x1.c71c71c56473bp-3, 0x1.745d183dd16d9p-3,
                         0x1.3b13600773d8cp-3, 0x1.11211164a20c1p-3, 0x1.de265659310b6p-4, 0x1.eb74606c0604cp-4);
  const Wide p = fast_sum(F64x8::set1(0x1.5555555555555p-1), z * q);
  const Wide zp = product({p.high, p.low + F64x8::set1(0x1.5555555555555p-55)}, {z, z_rest});
  const Wide cubic = product(zp, {s, s_rest});
  const Wide start = fast_sum(s + s, cubic.high);
  return {fast_sum(start.high, start.low + (cubic.low + (s_rest + s_rest))), k};
}
// value + k · ln 2
DW_INLINE Wide assembled(Logarithm l) {
  const Wide top = fast_sum(l.k * F64x8::set1(0x1.62e42fee00000p-1), l.value.high);  // the product is exact
  const Wide next = exact_product(l.k, F64x8::set1(0x1.a39ef35793c76p-33));
  const Wide middle = exact_sum(top.low, next.high);
  const Wide all = fast_sum(top.high, middle.high);
  return {all.high, all.low + (middle.low + (next.low + l.value.low))};
}
// log(x.high + x.low) for x > 0 and |x.low| ≤ ulp(x.high).
DW_INLINE Wide log_wide(Wide x) {
  const Wide y = assembled(logarithm(x.high));
  return fast_sum(y.high, y.low + x.low / x.high);
}

// log(1 + e^(x + x_low)) for −∞ < x ≤ 0.
DW_INLINE Wide log1p_exp(F64x8 x, F64x8 x_low) {
  const Exponential e = exponential(clamp(x, -760.0, 0.0), x_low);
  const Wide p = power_part(e);
  const F64x8 one = F64x8::set1(1.0);
  const Wide power = {scale_by_power(p.high, e.n), scale_by_power(p.low, e.n)};
  const Wide u = fast_sum(one, power.high);
  const Wide small = {power.high, fma(F64x8::set1(-0.5) * power.high, power.high, power.low)};
  return select(lt(x, F64x8::set1(-25.0)), small, log_wide({u.high, u.low + power.low}));
}
DW_INLINE M64x8 is_integer(F64x8 y) {
  const F64x8 m = F64x8::set1(0x1p52);
  return ge(y, m) | eq((y + m) - m, y);
}

}  // namespace math64

// log(1 + x): −inf at −1, NaN below.
DW_INLINE F64x8 log1p(F64x8 x) {
  const F64x8 one = F64x8::set1(1.0);
  F64x8 y = math64::rounded(math64::log_wide(math64::exact_sum(one, x)));
  y = select(lt(abs(x), F64x8::set1(0x1p-30)), fma(F64x8::set1(-0.5) * x, x, x), y);
  y = select(eq(x, math64::infinity()), x, y);
  y = select(eq(x, -one), -math64::infinity(), y);
  return select(ge(x, -one), y, math64::nan());
}
namespace math64 {
// What every logarithm of x itself does outside the positive finite numbers.
DW_INLINE F64x8 log_edges(F64x8 x, F64x8 y) {
  y = DW_ISA::select(eq(x, infinity()), x, y);
  y = DW_ISA::select(eq(x, F64x8::zero()), -infinity(), y);
  return DW_ISA::select(ge(x, F64x8::zero()), y, nan());
}
}  // namespace math64
DW_INLINE F64x8 log2(F64x8 x) {
  const math64::Logarithm l = math64::logarithm(x);
  const math64::Wide part = math64::product(l.value, math64::constant(0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56));
  const math64::Wide y = math64::fast_sum(l.k, part.high);
  return math64::log_edges(x, y.high + (y.low + part.low));
}
DW_INLINE F64x8 log10(F64x8 x) {
  const math64::Wide l = math64::assembled(math64::logarithm(x));
  const math64::Wide inverse = math64::constant(0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57);
  return math64::log_edges(x, math64::rounded(math64::product(l, inverse)));
}

DW_INLINE F64x8 asinh(F64x8 x) {
  using math64::Wide;
  const F64x8 y = abs(x), one = F64x8::set1(1.0);
  const M64x8 large = ge(y, F64x8::set1(0x1p30));
  const F64x8 limited = select(large, one, y);
  const Wide root = math64::square_root(math64::sum(math64::exact_product(limited, limited), one));
  const Wide u = math64::select(large, math64::wide(y), math64::sum(root, limited));
  math64::Logarithm l = math64::logarithm(u.high);
  l.k = select(large, l.k + one, l.k);  // 2y
  const Wide a = math64::assembled(l);
  F64x8 value = a.high + (a.low + u.low / u.high);
  value = select(eq(y, math64::infinity()), y, value);
  return canonical(math64::unless_tiny(x, copysign(value, x)));
}
DW_INLINE F64x8 acosh(F64x8 x) {
  using math64::Wide;
  const F64x8 one = F64x8::set1(1.0);
  const M64x8 large = ge(x, F64x8::set1(0x1p30));
  const F64x8 limited = select(large, one, x);
  const Wide root = math64::square_root(math64::sum(math64::exact_product(limited, limited), -one));
  const Wide u = math64::select(large, math64::wide(x), math64::sum(root, limited));
  math64::Logarithm l = math64::logarithm(u.high);
  l.k = select(large, l.k + one, l.k);  // 2x
  const Wide a = math64::assembled(l);
  const F64x8 value = select(eq(x, math64::infinity()), x, a.high + (a.low + u.low / u.high));
  return select(ge(x, one), value, math64::nan());
}
DW_INLINE F64x8 atanh(F64x8 x) {
  using math64::Wide;
  const F64x8 y = abs(x), one = F64x8::set1(1.0);
  const Wide u = math64::quotient(math64::exact_sum(one, y), math64::exact_sum(one, -y));
  F64x8 value = F64x8::set1(0.5) * math64::rounded(math64::log_wide(u));
  value = select(eq(y, one), math64::infinity(), value);
  value = select(gt(y, one), math64::nan(), value);
  return canonical(math64::unless_tiny(x, copysign(value, x)));
}

// log(1 + e^x)
DW_INLINE F64x8 softplus(F64x8 x) {
  const math64::Wide l = math64::log1p_exp(-abs(x), F64x8::zero());
  const math64::Wide y = math64::exact_sum(select(gt(x, F64x8::zero()), x, F64x8::zero()), l.high);
  return canonical(select(gt(x, F64x8::set1(760.0)), x, y.high + (y.low + l.low)));
}
// log(e^x + e^y)
DW_INLINE F64x8 logaddexp(F64x8 x, F64x8 y) {
  const M64x8 swap = lt(x, y);
  const F64x8 large = select(swap, y, x), small = select(swap, x, y);
  const math64::Wide difference = math64::exact_sum(small, -large);
  const M64x8 near = ge(difference.high, F64x8::set1(-760.0));
  const math64::Wide l = math64::log1p_exp(difference.high, select(near, difference.low, F64x8::zero()));
  const math64::Wide sum = math64::exact_sum(large, l.high);
  F64x8 value = select(near, sum.high + (sum.low + l.low), large);
  value = select(eq(x, y) & eq(abs(x), math64::infinity()), x, value);
  return canonical(select(unordered(x, y), math64::nan(), value));
}

// x to the power y; special cases as in C99 annex F.9.4.4.
DW_INLINE F64x8 pow(F64x8 x, F64x8 y) {
  using math64::Wide;
  const F64x8 zero = F64x8::zero(), one = F64x8::set1(1.0), inf = math64::infinity(), size = abs(x);
  const Wide l = math64::assembled(math64::logarithm(size));
  const Wide w = math64::exact_product(l.high, y);
  const F64x8 exponent = math64::clamp(w.high, -746.0, 710.0);
  const F64x8 rest = select(eq(exponent, w.high), fma(l.low, y, w.low), zero);
  const math64::Exponential e = math64::exponential(exponent, rest);
  F64x8 p = math64::scale_by_power(math64::rounded(math64::power_part(e)), e.n);
  const M64x8 is_zero = eq(size, zero), is_inf = eq(size, inf), falling = lt(y, zero);
  p = select(is_zero, select(falling, inf, zero), p);
  p = select(is_inf, select(falling, zero, inf), p);
  p = select(eq(abs(y), inf), select(falling, select(lt(size, one), inf, zero), select(lt(size, one), zero, inf)), p);
  p = select(eq(size, one), one, p);
  const M64x8 whole = math64::is_integer(abs(y));
  const M64x8 odd = whole & !math64::is_integer(abs(y) * F64x8::set1(0.5));
  p = select(odd, copysign(p, x), p);
  p = select(lt(x, zero) & !is_inf & !whole, math64::nan(), p);
  p = select(unordered(x, y), math64::nan(), p);
  return canonical(select(eq(y, zero) | eq(x, one), one, p));
}

}  // namespace DW_ISA

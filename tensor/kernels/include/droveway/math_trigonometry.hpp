// Trigonometry on eight double lanes (docs/accuracy.md has the measured errors):
//
//   sin cos tan asin acos atan : F64x8 -> F64x8      atan2(y, x)  hypot(x, y)
//
// The definition of every bit is the twin, tensor/twins/trigonometric_ref.py: same operations, same order, same names.
#pragma once
#include "droveway/double_double.hpp"
#include "droveway/math_f64.hpp"

namespace DW_ISA {
namespace math64 {

inline constexpr double kReduceShortMax = 0x1p27;  // up to here three parts of π/2 are enough

// x = (r + s) + n·π/2; of n only the last two bits count.
struct Angle {
  F64x8 r, s;
  U64x8 n;
};
DW_INLINE Angle reduce_short(F64x8 x) {
  const F64x8 t = fma(x, F64x8::set1(0x1.45f306dc9c883p-1), F64x8::set1(kMagic));
  const F64x8 k = t - F64x8::set1(kMagic);
  const F64x8 first = fma(k, F64x8::set1(-0x1.921fb54442d18p+0), x);  // exact
  const Wide second = exact_product(k, F64x8::set1(-0x1.1a62633145c07p-54));
  const Wide r = exact_sum(first, second.high);
  return {r.high, r.low + fma(k, F64x8::set1(0x1.f1976b7ed8fbcp-110), second.low), bits(t)};
}

// The same for 2^27 < |x| < ∞ (Payne and Hanek 1983): 192 bits of 2/π from where they begin to matter, in integers.
inline void reduce_long1(double x, double* r, double* s, uint64_t* n) {
  // 2/π in words of 64 bits, the first one before the binary point
  static constexpr uint64_t kTwoByPiWords[20] = {
      0, 0xA2F9836E4E441529ull, 0xFC2757D1F534DDC0ull, 0xDB6295993C439041ull,
      0xFE5163ABDEBBC561ull, 0xB7246E3A424DD2E0ull, 0x06492EEA09D1921Cull, 0xFE1DEB1CB129A73Eull,
      0xE88235F52EBB4484ull, 0xE99C7026B45F7E41ull, 0x3991D639835339F4ull, 0x9C845F8BBDF9283Bull,
      0x1FF897FFDE05980Full, 0xEF2F118B5A0A6D1Full, 0x6D367ECF27CB09B7ull, 0x4F463F669E5FEA2Dull,
      0x7527BAC7EBE5F17Bull, 0x3D0739F78A5292EAull, 0x6BFB5FB11F8D5D08ull, 0x56033046FC7B6BABull};
  const uint64_t u = bits1(x);
  const uint64_t position = ((u >> 52) & 2047u) - 1075u + 62u;  // at least 37, at most 1033
  const uint64_t mantissa = (u & 0x000FFFFFFFFFFFFFull) | 0x0010000000000000ull;
  const uint64_t* word = kTwoByPiWords + (position >> 6);
  const int shift = int(position & 63u);
  uint64_t window[3];
  for (int i = 0; i < 3; ++i) window[i] = shift == 0 ? word[i] : (word[i] << shift) | (word[i + 1] >> (64 - shift));
  // the product modulo 2^192: two bits before the point, 62 + 64 behind it are kept
  __extension__ typedef unsigned __int128 Double;
  const Double low = Double(mantissa) * window[2], middle = Double(mantissa) * window[1] + uint64_t(low >> 64);
  const uint64_t rest = uint64_t(middle);
  const uint64_t turns = mantissa * window[0] + uint64_t(middle >> 64) + (uint64_t{1} << 61);  // quarter turns · 2^62
  const int64_t fraction = int64_t(turns & ((uint64_t{1} << 62) - 1)) - (int64_t{1} << 61);
  double a = double(fraction);
  double b = double(fraction - int64_t(a)) + double(int64_t(rest >> 11)) * 0x1p-53;
  uint64_t quarter = turns >> 62;
  if (u >> 63) {
    a = -a;
    b = -b;
    quarter = 0u - quarter;
  }
  constexpr double kHigh = 0x1.921fb54442d18p-62, kLow = 0x1.1a62633145c07p-116;  // π/2 · 2^-62
  const double p = a * kHigh;
  const double e = fma1(a, kHigh, -p) + fma1(a, kLow, b * kHigh);
  *r = p + e;
  *s = (p - *r) + e;
  *n = quarter;
}
// Only the lanes that need it, so a neighbour never changes a lane.
__attribute__((noinline)) inline void reduce_long(const double* x, uint32_t lanes, double* r, double* s, uint64_t* n) {
  for (int l = 0; l < 8; ++l)
    if ((lanes >> l) & 1u) reduce_long1(x[l], r + l, s + l, n + l);
}
DW_INLINE Angle reduce(F64x8 x) {
  Angle a = reduce_short(x);
  const F64x8 size = DW_ISA::abs(x);
  const M64x8 far = gt(size, F64x8::set1(kReduceShortMax)) & lt(size, infinity());
  if (any(far)) {
    double xs[8], r[8], s[8];
    uint64_t n[8];
    store(xs, x);
    store(r, a.r);
    store(s, a.s);
    store(n, a.n);
    reduce_long(xs, lane_bits(far), r, s, n);
    a = {F64x8::load(r), F64x8::load(s), U64x8::load(n)};
  }
  return a;
}

// sin and cos of r + s, |r| ≤ π/4·1.0001, s the rest of r below its last bit; to be rounded by one addition.
DW_INLINE Wide sine(F64x8 r, F64x8 s) {
  const F64x8 z = r * r;
  const F64x8 p = horner(z, -0x1.5555555555555p-3, 0x1.1111111111089p-7, -0x1.a01a01a0065c9p-13, 0x1.71de3a3f68641p-19,
                         -0x1.ae643c56d3d18p-26, 0x1.61140f231c192p-33, -0x1.a5130e538b3e4p-41);
  return {r, fma(r * z, p, s * fma(z, F64x8::set1(-0.5), F64x8::set1(1.0)))};
}
DW_INLINE Wide cosine(F64x8 r, F64x8 s) {
  const F64x8 one = F64x8::set1(1.0), minus_half = F64x8::set1(-0.5);
  const F64x8 z = r * r, w = fma(z, minus_half, one);
  const F64x8 q = horner(z, 0x1.555555555554bp-5, -0x1.6c16c16c1504cp-10, 0x1.a01a019c97a13p-16, -0x1.27e4f7f911e64p-22,
                         0x1.1ee9e17e6a8d9p-29, -0x1.8fa9a7408319fp-37);
  // 1 − r²/2: what the roundings of r² and of the difference lost is added again
  F64x8 rest = fma(z * z, q, fma(z, minus_half, one - w));
  rest = fma(minus_half, fma(r, r, -z), rest);
  return {w, fma(r, -s, rest)};
}
// The value of quadrant n out of sine and cosine of the reduced angle.
DW_INLINE F64x8 in_quadrant(Angle a, uint64_t shift) {
  const U64x8 n = a.n + U64x8::set1(shift);
  const M64x8 even = eq(n & U64x8::set1(1), U64x8::zero());
  const F64x8 y = rounded(select(even, sine(a.r, a.s), cosine(a.r, a.s)));
  return f64(bits(y) ^ ((n & U64x8::set1(2)) << 62));
}

// The angle of the point (x, y), y ≥ 0, where x is taken as negative in the lanes of `mirrored`, else x ≥ 0.
DW_INLINE F64x8 angle_of(Wide y, Wide x, M64x8 mirrored) {
  const F64x8 zero = F64x8::zero(), one = F64x8::set1(1.0);
  const M64x8 steep = gt(y.high, x.high);
  const Wide top = select(steep, x, y), bottom = select(steep, y, x);
  // beyond tan π/8 the angle is taken from the diagonal: (top − bottom) / (top + bottom)
  const M64x8 middle = gt(top.high, F64x8::set1(0x1.a827999fcef32p-2) * bottom.high);
  const Wide q = quotient(select(middle, sum(top, negated(bottom)), top), select(middle, sum(top, bottom), bottom));
  const F64x8 z = q.high * q.high;
  const F64x8 p = horner(z, -0x1.5555555555554p-2, 0x1.99999999995bcp-3, -0x1.2492492471fbbp-3, 0x1.c71c71b5e7dcdp-4,
                         -0x1.745d148f1c5e8p-4, 0x1.3b136ae4d7964p-4, -0x1.110c47c012ebbp-4, 0x1.e16f09b1a2340p-5,
                         -0x1.ab6c2c3c9143bp-5, 0x1.70acb3fe9b613p-5, -0x1.11acfc3472566p-5, 0x1.efdd58b3c3771p-7);
  const F64x8 rest = fma(q.high * z, p, fma(-z, q.low, q.low));
  // whole multiples of π/4: 0 1 2, mirrored 4 3 2
  F64x8 eighths = DW_ISA::select(middle, one, DW_ISA::select(steep, F64x8::set1(2.0), zero));
  eighths = DW_ISA::select(mirrored, F64x8::set1(4.0) - eighths, eighths);
  const M64x8 three = eq(eighths, F64x8::set1(3.0));
  const Wide start = select(three, constant(0x1.2d97c7f3321d2p+1, 0x1.a79394c9e8a0ap-54),
                            scaled(constant(0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55), eighths));
  const M64x8 down = (steep & !mirrored) | (mirrored & !steep);
  const Wide change = select(down, negated({q.high, rest}), {q.high, rest});
  const Wide total = fast_sum(start.high, change.high);
  return total.high + (total.low + (start.low + change.low));
}
// √(1 − x²) for |x| ≤ 1.
DW_INLINE Wide other_leg(F64x8 x) { return square_root(sum(negated(exact_product(x, x)), F64x8::set1(1.0))); }

}  // namespace math64

DW_INLINE F64x8 sin(F64x8 x) {
  const F64x8 y = math64::in_quadrant(math64::reduce(x), 0);
  return canonical(select(eq(abs(x), math64::infinity()), math64::nan(), select(eq(x, F64x8::zero()), x, y)));
}
DW_INLINE F64x8 cos(F64x8 x) {
  const F64x8 y = math64::in_quadrant(math64::reduce(x), 1);
  return canonical(select(eq(abs(x), math64::infinity()), math64::nan(), y));
}
DW_INLINE F64x8 tan(F64x8 x) {
  using math64::Wide;
  const math64::Angle a = math64::reduce(x);
  const Wide s = math64::sine(a.r, a.s), c = math64::cosine(a.r, a.s);
  const Wide sine = math64::fast_sum(s.high, s.low), cosine = math64::fast_sum(c.high, c.low);
  const M64x8 even = eq(a.n & U64x8::set1(1), U64x8::zero());
  const F64x8 y = math64::rounded(
      math64::quotient(math64::select(even, sine, math64::negated(cosine)), math64::select(even, cosine, sine)));
  return canonical(
      select(eq(abs(x), math64::infinity()), math64::nan(), select(lt(abs(x), F64x8::set1(0x1p-28)), x, y)));
}

DW_INLINE F64x8 atan(F64x8 x) {
  const F64x8 one = F64x8::set1(1.0), y = abs(x);
  // beyond 2^60 the angle is π/2; infinity would make NaN in the division
  const F64x8 limited = select(gt(y, F64x8::set1(0x1p60)), F64x8::set1(0x1p60), y);
  const F64x8 value = math64::angle_of(math64::wide(limited), math64::wide(one), lt(one, one));
  return canonical(select(lt(y, F64x8::set1(0x1p-28)), x, copysign(value, x)));
}
DW_INLINE F64x8 asin(F64x8 x) {
  const F64x8 one = F64x8::set1(1.0), y = abs(x);
  const F64x8 value = math64::angle_of(math64::wide(y), math64::other_leg(y), lt(one, one));
  const F64x8 inside = select(lt(y, F64x8::set1(0x1p-28)), x, copysign(value, x));
  return select(le(y, one), inside, math64::nan());
}
DW_INLINE F64x8 acos(F64x8 x) {
  const F64x8 one = F64x8::set1(1.0), y = abs(x);
  const F64x8 value = math64::angle_of(math64::other_leg(y), math64::wide(y), lt(x, F64x8::zero()));
  return select(le(y, one), value, math64::nan());
}
// The angle of the point (x, y), from −π to π; special cases as in C99 annex F.9.1.4.
DW_INLINE F64x8 atan2(F64x8 y, F64x8 x) {
  const F64x8 zero = F64x8::zero(), one = F64x8::set1(1.0), inf = math64::infinity();
  F64x8 a = abs(y), b = abs(x);
  // neither the sum of the two nor a quotient may leave the range
  const F64x8 largest = select(lt(a, b), b, a);
  F64x8 scale = select(gt(largest, F64x8::set1(0x1p1000)), F64x8::set1(0x1p-100), one);
  scale = select(lt(largest, F64x8::set1(0x1p-900)), F64x8::set1(0x1p170), scale);
  const M64x8 a_inf = eq(a, inf), b_inf = eq(b, inf), none = eq(largest, zero);
  a = select(a_inf, one, select(b_inf, zero, a * scale));
  b = select(b_inf | none, one, select(a_inf, zero, b * scale));
  const M64x8 mirrored = lt_signed(bits(x), U64x8::zero());
  const F64x8 value = math64::angle_of(math64::wide(a), math64::wide(b), mirrored);
  return canonical(select(unordered(x, y), math64::nan(), copysign(value, y)));
}
// √(x² + y²), without overflow on the way; +∞ if either is infinite, whatever the other.
DW_INLINE F64x8 hypot(F64x8 x, F64x8 y) {
  const F64x8 one = F64x8::set1(1.0), inf = math64::infinity(), a = abs(x), b = abs(y);
  const F64x8 largest = select(lt(a, b), b, a);
  const M64x8 large = gt(largest, F64x8::set1(0x1p500)), small = lt(largest, F64x8::set1(0x1p-450));
  const F64x8 scale = select(large, F64x8::set1(0x1p-600), select(small, F64x8::set1(0x1p600), one));
  const F64x8 back = select(large, F64x8::set1(0x1p600), select(small, F64x8::set1(0x1p-600), one));
  const F64x8 p = a * scale, q = b * scale;
  const math64::Wide root = math64::square_root(math64::sum(math64::exact_product(p, p), math64::exact_product(q, q)));
  const F64x8 value = math64::rounded(root) * back;
  return select(eq(a, inf) | eq(b, inf), inf, canonical(value));
}

}  // namespace DW_ISA

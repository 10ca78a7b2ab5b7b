// Elementary functions on sixteen float lanes, at most 1 ulp (docs/accuracy.md has the measured errors).
//
//   exp log sin cos tanh erf : F32x16 -> F32x16      pow(x, y)      sine_and_cosine_2pi(u, &sin, &cos)
//
// The definition of every bit is the twin, tensor/elementary_ref.py: same operations, same order, same names.
// Coefficients: tests/tensor/accuracy/coefficients.py. NaN comes out canonical.
#pragma once
#include "droveway/lanes.hpp"
#include "droveway/polynomial.hpp"

namespace DW_ISA {
namespace math {

// x + kMagic rounds x to an integer and leaves it in the low bits of the sum: no conversion to an integer type.
inline constexpr float kMagic = 12582912.0f;  // 1.5·2^23
inline constexpr uint32_t kMagicBits = 0x4B400000u;
inline constexpr float kLog2e = 0x1.715476p+0f;
inline constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
inline constexpr float kTwoByPi = 0x1.45f306p-1f;
inline constexpr float kHalfPiA = 0x1.921fb6p+0f, kHalfPiB = -0x1.777a5cp-25f, kHalfPiC = -0x1.ee59dap-50f;
inline constexpr float kReduceShortMax = 131072.0f;  // up to here A, B, C give the angle to 2^-30 of itself
inline constexpr float kInf = __builtin_inff();

DW_INLINE F32x16 nan() { return f32(U32x16::set1(kNan32)); }

// 2^n for n in two's complement, −126 ≤ n ≤ 127.
DW_INLINE F32x16 power_of_2(U32x16 n) { return f32((n + U32x16::set1(127)) << 23); }

// x = r + n·ln 2 with |r| ≤ ln 2 / 2; n in two's complement.
DW_INLINE F32x16 reduce_ln2(F32x16 x, U32x16* n) {
  const F32x16 t = fma(x, F32x16::set1(kLog2e), F32x16::set1(kMagic));
  const F32x16 k = t - F32x16::set1(kMagic);
  *n = bits(t) - U32x16::set1(kMagicBits);
  return fma(k, F32x16::set1(-kLn2Low), fma(k, F32x16::set1(-kLn2High), x));
}

// exp for −104 ≤ x ≤ 89 (or NaN). Two scale factors, so that an overflow or a subnormal result is rounded once, by
// the last product.
DW_INLINE F32x16 exp_clamped(F32x16 x) {
  U32x16 n;
  const F32x16 r = reduce_ln2(x, &n);
  const U32x16 half = ((n + U32x16::set1(1024)) >> 1) - U32x16::set1(512);  // floor(n / 2), in unsigned arithmetic
  const F32x16 p = horner(r, 1.0f, 1.0f, 0.5f, 0x1.555556p-3f, 0x1.5554e4p-5f, 0x1.110feep-7f, 0x1.6d514cp-10f,
                          0x1.a2740ap-13f);
  return p * power_of_2(half) * power_of_2(n - half);
}

// x = (r + s) + n·π/2 for |x| ≤ kReduceShortMax; of n only the last two bits count.
struct Angle {
  F32x16 r, s;
  U32x16 n;
};
DW_INLINE Angle reduce_short(F32x16 x) {
  const F32x16 t = fma(x, F32x16::set1(kTwoByPi), F32x16::set1(kMagic));
  const F32x16 k = t - F32x16::set1(kMagic);
  const F32x16 first = fma(k, F32x16::set1(-kHalfPiA), x);  // exact
  const F32x16 second = k * F32x16::set1(-kHalfPiB);
  const F32x16 second_error = fma(k, F32x16::set1(-kHalfPiB), -second);
  const F32x16 r = first + second;
  const F32x16 part = r - first;
  const F32x16 s = (first - (r - part)) + (second - part);
  return {r, s + fma(k, F32x16::set1(-kHalfPiC), second_error), bits(t)};
}

// The same for 2^16 ≤ |x| < ∞ (Payne and Hanek 1983): 96 bits of 2/π from where they begin to matter, in integers.
inline void reduce_long1(float x, float* r, float* s, uint32_t* n) {
  // 2/π in words of 32 bits, the first one before the binary point
  static constexpr uint64_t kTwoByPiWords[8] = {0,          0xA2F9836E, 0x4E441529, 0xFC2757D1,
                                                0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB};
  const uint32_t u = bits1(x);
  const uint32_t position = ((u >> 23) & 255u) - 120u;  // exponent − 150 + 30; at least 23, at most 134
  const uint64_t mantissa = (u & 0x007FFFFFu) | 0x00800000u;
  const uint64_t* word = kTwoByPiWords + (position >> 5);
  const int shift = int(position & 31u);
  const uint64_t window0 = (((word[0] << 32) | word[1]) << shift) >> 32;
  const uint64_t window1 = (((word[1] << 32) | word[2]) << shift) >> 32;
  const uint64_t window2 = (((word[2] << 32) | word[3]) << shift) >> 32;
  const uint64_t middle = ((mantissa * window2) >> 32) + mantissa * window1;
  const uint64_t top = (middle >> 32) + mantissa * window0;
  const uint64_t turns = ((top << 32) | (middle & 0xFFFFFFFFu)) + (uint64_t{1} << 61);  // quarter turns · 2^62
  const int64_t fraction = int64_t(turns & ((uint64_t{1} << 62) - 1)) - (int64_t{1} << 61);
  double angle = double(fraction) * 0x1.921fb54442d18p-62;
  uint32_t quarter = uint32_t(turns >> 62);
  if (u >> 31) {
    angle = -angle;
    quarter = 0u - quarter;
  }
  *r = float(angle);
  *s = float(angle - double(*r));
  *n = quarter;
}
// Only the lanes that need it, so a neighbour never changes a lane.
__attribute__((noinline)) inline void reduce_long(const float* x, uint32_t lanes, float* r, float* s, uint32_t* n) {
  for (int l = 0; l < kLanes; ++l)
    if ((lanes >> l) & 1u) reduce_long1(x[l], r + l, s + l, n + l);
}
DW_INLINE Angle reduce(F32x16 x) {
  Angle a = reduce_short(x);
  const F32x16 size = abs(x);
  const M32x16 far = gt(size, F32x16::set1(kReduceShortMax)) & lt(size, F32x16::set1(kInf));
  if (any(far)) {
    float xs[16], r[16], s[16];
    uint32_t n[16];
    store(xs, x);
    store(r, a.r);
    store(s, a.s);
    store(n, a.n);
    reduce_long(xs, lane_bits(far), r, s, n);
    a = {F32x16::load(r), F32x16::load(s), U32x16::load(n)};
  }
  return a;
}

// sin and cos of r + s, |r| ≤ π/4·1.01, s the rest of r below its last bit.
DW_INLINE void sine_and_cosine(F32x16 r, F32x16 s, F32x16* sine, F32x16* cosine) {
  const F32x16 one = F32x16::set1(1.0f), minus_half = F32x16::set1(-0.5f);
  const F32x16 z = r * r;
  const F32x16 w = fma(z, minus_half, one);
  const F32x16 p = horner(z, -0x1.555556p-3f, 0x1.111164p-7f, -0x1.a04802p-13f, 0x1.77b00ep-19f);
  *sine = r + fma(r * z, p, s * w);
  // 1 − r²/2: what the roundings of r² and of the difference lost is added again
  const F32x16 q = horner(z, 0x1.55554ap-5f, -0x1.6c0c1cp-10f, 0x1.99e1d6p-16f);
  F32x16 rest = fma(z * z, q, fma(z, minus_half, one - w));
  rest = fma(minus_half, fma(r, r, -z), rest);
  *cosine = w + fma(r, -s, rest);
}
// The value of quadrant n out of sine and cosine of the reduced angle.
DW_INLINE F32x16 in_quadrant(U32x16 n, F32x16 sine, F32x16 cosine) {
  const F32x16 y = select(eq(n & U32x16::set1(1), U32x16::zero()), sine, cosine);
  return f32(bits(y) ^ ((n & U32x16::set1(2)) << 30));
}

// log₂ x for finite x > 0 that are normal doubles.
DW_INLINE F64x8 log2_wide(F64x8 x) {
  const U64x8 d = bits(x) - U64x8::set1(0x3FE6A09E667F3BCDull);
  const U64x8 e = (d + U64x8::set1(0x4000000000000000ull)) >> 52;  // exponent + 1024
  const F64x8 m = f64((d & U64x8::set1(0x000FFFFFFFFFFFFFull)) + U64x8::set1(0x3FE6A09E667F3BCDull));
  const F64x8 k = f64(U64x8::set1(0x4338000000000000ull) + e) - F64x8::set1(0x1.8p52 + 1024.0);
  const F64x8 one = F64x8::set1(1.0);
  const F64x8 s = (m - one) / (m + one);
  return fma(s, horner(s * s, 0x1.71547652b82ffp+1, 0x1.ec709dc39cd14p-1, 0x1.2776c51672b64p-1, 0x1.a61756a9261cdp-2,
                       0x1.484fa0feea419p-2, 0x1.0bb8edde56009p-2, 0x1.f16bd9755b414p-3), k);
}
// 2^w, w clamped to what float32 can tell apart.
DW_INLINE F64x8 exp2_wide(F64x8 w) {
  const F64x8 limit = F64x8::set1(160.0), magic = F64x8::set1(0x1.8p52);
  w = select(gt(w, limit), limit, w);
  w = select(lt(w, -limit), -limit, w);
  const F64x8 t = w + magic;
  const F64x8 scale = f64((bits(t) - U64x8::set1(0x4338000000000000ull) + U64x8::set1(1023)) << 52);
  return horner(w - (t - magic), 1.0, 0x1.62e42fefa3a19p-1, 0x1.ebfbdff82c5a6p-3, 0x1.c6b08d703cf01p-5,
                0x1.3b2ab6fb9fd4fp-7, 0x1.5d87fe9d692d6p-10, 0x1.4309130f862b6p-13, 0x1.ffcb542ea7811p-17,
                0x1.62bfc60f5590bp-20, 0x1.b6759baaf843ep-24, 0x1.e61dcc21b6ec9p-28) * scale;
}
// True where y ≥ 0 is an integer; infinity is one.
DW_INLINE M32x16 is_integer(F32x16 y) {
  const F32x16 m = F32x16::set1(8388608.0f);
  return ge(y, m) | eq((y + m) - m, y);
}

}  // namespace math

// e^x
DW_INLINE F32x16 exp(F32x16 x) {
  const F32x16 high = F32x16::set1(89.0f), low = F32x16::set1(-104.0f);
  F32x16 y = select(gt(x, high), high, x);
  y = select(lt(y, low), low, y);
  return canonical(math::exp_clamped(y));
}

// Natural logarithm: −inf at ±0, NaN below.
DW_INLINE F32x16 log(F32x16 x) {
  const M32x16 small = lt(x, F32x16::set1(0x1p-126f));
  const U32x16 u = bits(select(small, x * F32x16::set1(0x1p23f), x));
  // x = m·2^e with √½ ≤ m < √2
  const U32x16 d = u - U32x16::set1(0x3F3504F3u);
  const U32x16 e = sar(d, 23) - select(small, U32x16::set1(23), U32x16::zero());
  const F32x16 m = f32((d & U32x16::set1(0x007FFFFFu)) + U32x16::set1(0x3F3504F3u));
  const F32x16 k = f32(U32x16::set1(math::kMagicBits) + e) - F32x16::set1(math::kMagic);
  const F32x16 f = m - F32x16::set1(1.0f);
  // log(1 + f) = f + f²·(f·P(f) − ½); the sum with k·ln 2 keeps the error of its first addition
  const F32x16 p = horner(f, 0x1.555546p-2f, -0x1.00000ap-2f, 0x1.99a546p-3f, -0x1.555ae4p-3f, 0x1.232cfap-3f,
                          -0x1.fc4da0p-4f, 0x1.e7a54ep-4f, -0x1.dd6510p-4f, 0x1.11c874p-4f);
  const F32x16 q = (f * f) * fma(f, p, F32x16::set1(-0.5f));
  const F32x16 s = fma(k, F32x16::set1(math::kLn2Low), q);
  const F32x16 t = k * F32x16::set1(math::kLn2High);
  const F32x16 high = t + f;
  F32x16 y = high + (((t - high) + f) + s);
  y = select(eq(x, F32x16::set1(math::kInf)), x, y);
  y = select(eq(x, F32x16::zero()), F32x16::set1(-math::kInf), y);
  return select(ge(x, F32x16::zero()), y, math::nan());
}

DW_INLINE F32x16 sin(F32x16 x) {
  const math::Angle a = math::reduce(x);
  F32x16 sine, cosine;
  math::sine_and_cosine(a.r, a.s, &sine, &cosine);
  const F32x16 y = select(eq(x, F32x16::zero()), x, math::in_quadrant(a.n, sine, cosine));
  return canonical(select(eq(abs(x), F32x16::set1(math::kInf)), math::nan(), y));
}
DW_INLINE F32x16 cos(F32x16 x) {
  const math::Angle a = math::reduce(x);
  F32x16 sine, cosine;
  math::sine_and_cosine(a.r, a.s, &sine, &cosine);
  const F32x16 y = math::in_quadrant(a.n + U32x16::set1(1), sine, cosine);
  return canonical(select(eq(abs(x), F32x16::set1(math::kInf)), math::nan(), y));
}
// sin and cos of 2πu for 0 ≤ u ≤ 1: quarter turns are exact, so the reduction is too.
DW_INLINE void sine_and_cosine_2pi(F32x16 u, F32x16* sine, F32x16* cosine) {
  const F32x16 v = u * F32x16::set1(4.0f);
  const F32x16 t = v + F32x16::set1(math::kMagic);
  const F32x16 quarter = v - (t - F32x16::set1(math::kMagic));
  const F32x16 r = quarter * F32x16::set1(math::kHalfPiA);
  const F32x16 s = fma(quarter, F32x16::set1(math::kHalfPiB), fma(quarter, F32x16::set1(math::kHalfPiA), -r));
  F32x16 a, b;
  math::sine_and_cosine(r, s, &a, &b);
  *sine = math::in_quadrant(bits(t), a, b);
  *cosine = math::in_quadrant(bits(t) + U32x16::set1(1), a, b);
}

DW_INLINE F32x16 tanh(F32x16 x) {
  const F32x16 one = F32x16::set1(1.0f), y = abs(x), z = y * y;
  const F32x16 p = horner(z, -0x1.555554p-2f, 0x1.11107cp-3f, -0x1.b9f21cp-5f, 0x1.63acc4p-6f, -0x1.0c8726p-7f,
                          0x1.1ac484p-9f);
  const F32x16 near = fma(y * z, p, y);
  // 1 − 2 / (e^(2y) + 1), with the rest of the denominator and of the quotient carried along
  const F32x16 limit = F32x16::set1(9.5f), clamped = select(gt(y, limit), limit, y);
  U32x16 n;
  const F32x16 r = math::reduce_ln2(clamped + clamped, &n);
  const F32x16 q = fma(r * r, horner(r, 0.5f, 0x1.555556p-3f, 0x1.5554e4p-5f, 0x1.110feep-7f, 0x1.6d514cp-10f,
                                     0x1.a2740ap-13f), r);  // e^r − 1
  const F32x16 scale = math::power_of_2(n), s = scale + one, v = scale * q;
  const F32x16 d = s + v, d_rest = (s - d) + v;
  const F32x16 two = F32x16::set1(2.0f), t = two / d;
  const F32x16 t_rest = fma(-t, d_rest, fma(-t, d, two)) * (t * F32x16::set1(0.5f));
  const F32x16 w = one - t;
  const F32x16 far = w + (((one - w) - t) - t_rest);
  return canonical(copysign(select(lt(y, F32x16::set1(0.625f)), near, far), x));
}

// Error function.
DW_INLINE F32x16 erf(F32x16 x) {
  const F32x16 one = F32x16::set1(1.0f), y = abs(x), z = y * y;
  const F32x16 p = horner(z, 0x1.06eba8p-3f, -0x1.812744p-2f, 0x1.ce2e76p-4f, -0x1.b81966p-6f, 0x1.553cacp-8f,
                          -0x1.aea858p-11f, 0x1.6c9d36p-14f);
  const F32x16 near = fma(y, p, y);
  const F32x16 limit = F32x16::set1(4.0f), clamped = select(gt(y, limit), limit, y);
  const F32x16 q = horner(clamped, 0x1.073ea8p-3f, 0x1.457926p-1f, 0x1.aea78cp-4f, -0x1.716f2ep-6f, 0x1.762d40p-9f,
                          -0x1.83fdacp-16f, -0x1.a88328p-15f, 0x1.662110p-18f);
  // erfc = e^(−x − x·P(x)); what the rounding of the exponent lost is put back as a factor 1 + rest
  const F32x16 exponent = fma(-clamped, q, -clamped);
  const F32x16 rest = fma(-clamped, q, -clamped - exponent);
  const F32x16 e = math::exp_clamped(exponent);
  const F32x16 far = one - fma(e, rest, e);
  return canonical(copysign(select(lt(y, F32x16::set1(0.875f)), near, far), x));
}

// x to the power y, evaluated in float64; special cases as in C99 annex F.9.4.4.
DW_INLINE F32x16 pow(F32x16 x, F32x16 y) {
  const F32x16 zero = F32x16::zero(), one = F32x16::set1(1.0f), inf = F32x16::set1(math::kInf), size = abs(x);
  const F64x16 a = widen(size), b = widen(y);
  F32x16 p = narrow(F64x16{math::exp2_wide(b.low * math::log2_wide(a.low)),
                           math::exp2_wide(b.high * math::log2_wide(a.high))});
  const M32x16 is_zero = eq(size, zero), is_inf = eq(size, inf), falling = lt(y, zero);
  p = select(is_zero, select(falling, inf, zero), p);
  p = select(is_inf, select(falling, zero, inf), p);
  p = select(eq(size, one), one, p);
  const M32x16 whole = math::is_integer(abs(y));
  const M32x16 odd = whole & !math::is_integer(abs(y) * F32x16::set1(0.5f));
  p = select(odd, copysign(p, x), p);
  p = select(lt(x, zero) & !is_inf & !whole, math::nan(), p);
  p = select(unordered(x, y), math::nan(), p);
  return canonical(select(eq(y, zero) | eq(x, one), one, p));
}

}  // namespace DW_ISA

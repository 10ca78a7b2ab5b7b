// Elementary functions on eight double lanes (docs/accuracy.md has the measured errors): exp log : F64x8 -> F64x8.
// The definition of every bit is the twin, tensor/elementary_ref.py: same operations, same order, same names.
#pragma once
#include "droveway/lanes.hpp"
#include "droveway/polynomial.hpp"

namespace DW_ISA {
namespace math64 {

inline constexpr double kMagic = 0x1.8p52;  // x + kMagic rounds x to an integer and leaves it in the low bits
inline constexpr uint64_t kMagicBits = 0x4338000000000000ull;
inline constexpr double kInf = __builtin_inf();

// 2^n for n in two's complement, −1022 ≤ n ≤ 1023.
DW_INLINE F64x8 power_of_2(U64x8 n) { return f64((n + U64x8::set1(1023)) << 52); }

}  // namespace math64

// e^x
DW_INLINE F64x8 exp(F64x8 x) {
  const F64x8 highest = F64x8::set1(710.0), lowest = F64x8::set1(-746.0), one = F64x8::set1(1.0);
  F64x8 y = select(gt(x, highest), highest, x);
  y = select(lt(y, lowest), lowest, y);
  const F64x8 t = fma(y, F64x8::set1(0x1.71547652b82fep+0), F64x8::set1(math64::kMagic));
  const F64x8 k = t - F64x8::set1(math64::kMagic);
  const F64x8 first = fma(k, F64x8::set1(-0x1.62e42fefa39efp-1), y);  // exact
  const F64x8 second = k * F64x8::set1(0x1.abc9e3b39803fp-56);
  const F64x8 r = first - second;
  const F64x8 p = horner(r, 0x1p-1, 0x1.5555555555555p-3, 0x1.5555555555558p-5, 0x1.11111111112cep-7,
                         0x1.6c16c16c1500bp-10, 0x1.a01a019f46dbcp-13, 0x1.a01a01ad76d15p-16, 0x1.71de3d41391d0p-19,
                         0x1.27e4cc2827b2dp-22, 0x1.ae5a80c868a21p-26, 0x1.1f8bb233a25c6p-29, 0x1.6e135bc0cc1a6p-33);
  const F64x8 q = fma(r * r, p, (first - r) - second);
  const F64x8 high = r + one;
  const F64x8 e = high + (((one - high) + r) + q);
  const U64x8 n = bits(t) - U64x8::set1(math64::kMagicBits);
  const U64x8 half = ((n + U64x8::set1(4096)) >> 1) - U64x8::set1(2048);  // floor(n / 2), in unsigned arithmetic
  return canonical(e * math64::power_of_2(half) * math64::power_of_2(n - half));
}

// Natural logarithm: −inf at ±0, NaN below.
DW_INLINE F64x8 log(F64x8 x) {
  const F64x8 one = F64x8::set1(1.0);
  const M64x8 small = lt(x, F64x8::set1(0x1p-1022));
  const U64x8 u = bits(select(small, x * F64x8::set1(0x1p54), x));
  // x = m·2^e with √½ ≤ m < √2
  const U64x8 d = u - U64x8::set1(0x3FE6A09E667F3BCDull);
  const U64x8 e = ((d + U64x8::set1(0x4000000000000000ull)) >> 52)  // exponent + 1024
                  - select(small, U64x8::set1(54), U64x8::zero());
  const F64x8 m = f64((d & U64x8::set1(0x000FFFFFFFFFFFFFull)) + U64x8::set1(0x3FE6A09E667F3BCDull));
  const F64x8 k = f64(U64x8::set1(math64::kMagicBits) + e) - F64x8::set1(math64::kMagic + 1024.0);
  const F64x8 f = m - one;
  // log(1 + f) = f − f²/2 + s·(f²/2 + z·P(z)), s = f / (2 + f), z = s²
  const F64x8 s = f / (m + one), z = s * s;
  const F64x8 p = horner(z, 0x1.5555555555594p-1, 0x1.999999997f73fp-2, 0x1.249249423ac79p-2, 0x1.c71c51d6d7e76p-3,
                         0x1.746647f14b159p-3, 0x1.39a0eaea502f7p-3, 0x1.2f0ccd19fb262p-3);
  const F64x8 h = F64x8::set1(0.5) * (f * f);
  const F64x8 q = fma(s, fma(z, p, h), -h);
  const F64x8 t = k * F64x8::set1(0x1.62e42fee00000p-1);
  const F64x8 high = t + f;
  F64x8 y = high + (((t - high) + f) + fma(k, F64x8::set1(0x1.a39ef35793c76p-33), q));
  y = select(eq(x, F64x8::set1(math64::kInf)), x, y);
  y = select(eq(x, F64x8::zero()), F64x8::set1(-math64::kInf), y);
  return select(ge(x, F64x8::zero()), y, f64(U64x8::set1(kNan64)));
}

}  // namespace DW_ISA

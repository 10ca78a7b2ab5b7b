// Single numbers of the 16-bit float types, through integers: round to nearest even in one step, NaN canonical.
#pragma once
#include <stdint.h>
#include <string.h>

namespace droveway {

// The bits of a float with `exponent_bits` and `mantissa_bits` (all 16 with the sign) nearest to a double.
inline uint16_t narrow_bits(double value, int exponent_bits, int mantissa_bits) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  const uint16_t sign = uint16_t(bits >> 48 & 0x8000);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint16_t infinity = uint16_t(((1 << exponent_bits) - 1) << mantissa_bits);
  const int exponent = int(bits >> 52 & 0x7FF);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 0x7FF) return mantissa != 0 ? uint16_t(infinity | 1 << (mantissa_bits - 1)) : uint16_t(sign | infinity);
  if (exponent == 0) return sign;  // a subnormal double is far below half of the smallest one
  mantissa |= uint64_t{1} << 52;
  int e = exponent - 1023 + bias;         // biased exponent of the result, if it is normal
  int shift = 52 - mantissa_bits;         // bits that fall off
  if (e <= 0) {
    shift += 1 - e;
    e = 0;
    if (shift > 63) return sign;
  }
  uint64_t kept = mantissa >> shift;
  const uint64_t rest = mantissa & ((uint64_t{1} << shift) - 1), half = uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  // kept has its leading one at mantissa_bits for normal results: adding it to the exponent below carries by itself
  const uint64_t result = e == 0 ? kept : (uint64_t(e - 1) << mantissa_bits) + kept;
  return uint16_t(sign | (result >= infinity ? infinity : result));
}

inline uint16_t f16_bits(double value) { return narrow_bits(value, 5, 10); }
inline uint16_t bf16_bits(double value) { return narrow_bits(value, 8, 7); }

inline double bf16_value(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float value;
  memcpy(&value, &wide, 4);
  return double(value);
}

inline double f16_value(uint16_t bits) {
  const uint64_t sign = uint64_t(bits & 0x8000) << 48;
  const int exponent = bits >> 10 & 31;
  const uint64_t mantissa = bits & 0x3FF;
  uint64_t wide;
  if (exponent == 31) {
    wide = sign | uint64_t{0x7FF} << 52 | mantissa << 42;
  } else if (exponent != 0) {
    wide = sign | uint64_t(exponent - 15 + 1023) << 52 | mantissa << 42;
  } else {
    const double small = double(mantissa) * 0x1p-24;
    memcpy(&wide, &small, 8);
    wide |= sign;
  }
  double value;
  memcpy(&value, &wide, 8);
  return value;
}

}  // namespace droveway

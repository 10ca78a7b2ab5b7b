// Arithmetic on float and double, one rounding an operation, NaN canonical. Included by elementwise_f32.cpp and
// elementwise_f64.cpp. The definition of every bit is the twin, tensor/twins/elementwise_ref.py.
#pragma once
#include "elementwise_scalar.hpp"

namespace DW_ISA {
namespace {

DW_INLINE float floor1(float x) { return __builtin_floorf(x); }
DW_INLINE double floor1(double x) { return __builtin_floor(x); }
DW_INLINE float ceil1(float x) { return __builtin_ceilf(x); }
DW_INLINE double ceil1(double x) { return __builtin_ceil(x); }
DW_INLINE float trunc1(float x) { return __builtin_truncf(x); }
DW_INLINE double trunc1(double x) { return __builtin_trunc(x); }
DW_INLINE float sqrt1(float x) { return __builtin_sqrtf(x); }
DW_INLINE double sqrt1(double x) { return __builtin_sqrt(x); }

// Equal operands may be +0 and −0: AND of the bits gives +0, OR gives −0.
template <Float T>
DW_INLINE T maximum1(T x, T y) {
  const T ordered = x == y ? of_bits<T>(bits_of(x) & bits_of(y)) : x < y ? y : x;
  return x != x || y != y ? of_bits<T>(Traits<T>::nan) : ordered;
}
template <Float T>
DW_INLINE T minimum1(T x, T y) {
  const T ordered = x == y ? of_bits<T>(bits_of(x) | bits_of(y)) : y < x ? y : x;
  return x != x || y != y ? of_bits<T>(Traits<T>::nan) : ordered;
}
template <Float T> inline constexpr Bits<T> kSign = Bits<T>(1) << (8 * sizeof(T) - 1);
template <Float T> inline constexpr T kInfinity = T(__builtin_inff());

DW_EACH2(add, Float, T, quiet(x + y))
DW_EACH2(sub, Float, T, quiet(x - y))
DW_EACH2(mul, Float, T, quiet(x * y))
DW_EACH2(div, Float, T, quiet(x / y))
DW_EACH2(maximum, Float, T, maximum1(x, y))
DW_EACH2(minimum, Float, T, minimum1(x, y))
DW_EACH1(neg, Float, T, quiet(-x))
DW_EACH1(abs, Float, T, quiet(of_bits<T>(bits_of(x) & ~kSign<T>)))
DW_EACH1(sign, Float, T, x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? T(0) : of_bits<T>(Traits<T>::nan))
DW_EACH1(square, Float, T, quiet(x * x))
DW_EACH1(reciprocal, Float, T, quiet(T(1) / x))
DW_EACH3(clip, Float, T, minimum1(maximum1(x, y), z))
DW_EACH1(relu, Float, T, x < T(0) ? T(0) : quiet(x))
DW_EACH1(sqrt, Float, T, quiet(sqrt1(x)))
DW_EACH1(floor, Float, T, quiet(floor1(x)))
DW_EACH1(ceil, Float, T, quiet(ceil1(x)))
DW_EACH1(trunc, Float, T, quiet(trunc1(x)))
DW_EACH2(eq, Float, uint8_t, x == y)
DW_EACH2(ne, Float, uint8_t, x != y)
DW_EACH2(lt, Float, uint8_t, x < y)
DW_EACH2(le, Float, uint8_t, x <= y)
DW_EACH2(gt, Float, uint8_t, x > y)
DW_EACH2(ge, Float, uint8_t, x >= y)
DW_EACH1(isnan, Float, uint8_t, x != x)
DW_EACH1(isinf, Float, uint8_t, (bits_of(x) & ~kSign<T>) == bits_of(kInfinity<T>))
DW_EACH1(isfinite, Float, uint8_t, (bits_of(x) & ~kSign<T>) < bits_of(kInfinity<T>))
DW_EACH1(signbit, Float, uint8_t, uint8_t(bits_of(x) >> (8 * sizeof(T) - 1)))

// Half to even, through the sum with 1.5·2^p, which has no fraction bits; from 2^p on every float is whole.
template <Float T>
DW_INLINE T round1(T x) {
  constexpr T magic = sizeof(T) == 4 ? T(8388608.0) : T(4503599627370496.0);
  const T size = of_bits<T>(bits_of(x) & ~kSign<T>);
  const T whole = size < magic ? (size + magic) - magic : size;
  return quiet(of_bits<T>(bits_of(whole) | (bits_of(x) & kSign<T>)));
}
DW_EACH1(round, Float, T, round1(x))

}  // namespace
}  // namespace DW_ISA

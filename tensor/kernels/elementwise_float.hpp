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
DW_EACH2(relu_gradient, Float, T, y > T(0) ? quiet(x) : T(0))
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

// Half to even, through the sum with 2^p, which has no fraction bits; from 2^p on every float is whole.
template <Float T>
DW_INLINE T round1(T x) {
  constexpr T magic = sizeof(T) == 4 ? T(8388608.0) : T(4503599627370496.0);
  const T size = of_bits<T>(bits_of(x) & ~kSign<T>);
  const T whole = size < magic ? (size + magic) - magic : size;
  return quiet(of_bits<T>(bits_of(whole) | (bits_of(x) & kSign<T>)));
}
DW_EACH1(round, Float, T, round1(x))

template <class T> struct LanesOf;
template <> struct LanesOf<float> { using V = F32x16; };
template <> struct LanesOf<double> { using V = F64x8; };

// The remainder of finite x ≥ y > 0 by long division of the mantissas: exact for any quotient.
template <Float T>
__attribute__((noinline)) T long_remainder(T x, T y) {
  constexpr int p = sizeof(T) == 4 ? 23 : 52, room = 63 - p;
  constexpr Bits<T> fraction = (Bits<T>(1) << p) - 1;
  const int x_field = int(bits_of(x) >> p), y_field = int(bits_of(y) >> p);
  uint64_t r = (bits_of(x) & fraction) | (x_field != 0 ? fraction + 1 : 0);
  const uint64_t divisor = (bits_of(y) & fraction) | (y_field != 0 ? fraction + 1 : 0);
  const int unit = y_field != 0 ? y_field : 1;
  int shift = (x_field != 0 ? x_field : 1) - unit;
  for (r %= divisor; shift > 0 && r != 0;) {
    const int s = shift < room ? shift : room;
    r = (r << s) % divisor;
    shift -= s;
  }
  // r units of the last place of y: a power of two, below the normal ones if need be
  const Bits<T> power = unit > p ? Bits<T>(unit - p) << p : Bits<T>(1) << (unit - 1);
  return T(r) * of_bits<T>(power);
}

// The remainder of the quotient rounded towards zero: exact, with the sign of x; NaN for x infinite or y zero.
template <class V, class T>
DW_INLINE V truncated_remainder(V x, V y) {
  const V size = abs(x), divisor = abs(y), zero = V::zero(), infinity = V::set1(kInfinity<T>);
  const V q = floor(size / divisor);
  V r = fnma(q, divisor, size);  // exact up to 2^(p+1): at most one divisor too low, where the quotient was rounded up
  r = select(lt(r, zero), r + divisor, r);
  r = select(lt(size, divisor), size, r);
  const auto defined = lt(size, infinity) & gt(divisor, zero);
  const auto far = ge(q, V::set1(sizeof(T) == 4 ? T(16777216.0) : T(9007199254740992.0))) & defined;
  if (any(far)) {
    T xs[V::width], ys[V::width], rs[V::width];
    store(xs, size);
    store(ys, divisor);
    store(rs, r);
    const uint32_t lanes = lane_bits(far);
    for (int l = 0; l < V::width; ++l)
      if ((lanes >> l & 1) != 0) rs[l] = long_remainder(xs[l], ys[l]);
    r = V::load(rs);
  }
  const V nan = V::set1(of_bits<T>(Traits<T>::nan));
  return select(defined, copysign(r, x), nan);
}
template <class V>
DW_INLINE auto signs_differ(V r, V y) {
  return (lt(r, V::zero()) & gt(y, V::zero())) | (gt(r, V::zero()) & lt(y, V::zero()));
}
template <class V, class T>
DW_INLINE V floor_remainder(V x, V y) {
  const V r = truncated_remainder<V, T>(x, y);
  const V moved = select(signs_differ(r, y), r + y, r);
  return canonical(select(eq(r, V::zero()), copysign(V::zero(), y), moved));
}
// (x − remainder) / y is whole up to its rounding; by zero: x / y.
template <class V, class T>
DW_INLINE V floor_quotient(V x, V y) {
  const V zero = V::zero(), one = V::set1(T(1));
  const V r = truncated_remainder<V, T>(x, y);
  V q = (x - r) / y;
  q = select(signs_differ(r, y), q - one, q);
  const V down = floor(q);
  const V whole = select(gt(q - down, V::set1(T(0.5))), down + one, down);
  const V plain = x / y;
  const V result = select(eq(q, zero), copysign(zero, plain), whole);
  return canonical(select(eq(y, zero), plain, result));
}
template <Float T>
struct LoopOf<T, droveway::op_mod> {
  using V = typename LanesOf<T>::V;
  static void loop(const Strip& s) {
    binary_strip<V, T>(s, [](V x, V y) DW_LAMBDA { return floor_remainder<V, T>(x, y); });
  }
};
template <Float T>
struct LoopOf<T, droveway::op_floor_div> {
  using V = typename LanesOf<T>::V;
  static void loop(const Strip& s) {
    binary_strip<V, T>(s, [](V x, V y) DW_LAMBDA { return floor_quotient<V, T>(x, y); });
  }
};

}  // namespace
}  // namespace DW_ISA

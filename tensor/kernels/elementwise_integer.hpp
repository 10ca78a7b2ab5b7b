// Integers of every width: wrap-around, no trap. Included by elementwise_signed.cpp and elementwise_unsigned.cpp.
// The definition of every bit is the twin, tensor/twins/elementwise_ref.py.
#pragma once
#include "elementwise_scalar.hpp"

namespace DW_ISA {
namespace {

template <Whole T> DW_INLINE Wide<T> wide(T x) { return Wide<T>(x); }

// x / y rounded down; nothing to divide by gives 0, and the one quotient that does not fit wraps. Up to 32 bits the
// quotient of floats finds it: two whole numbers of at most half a float's digits are never so near to the next whole
// quotient that rounding reaches it.
template <Whole T>
DW_INLINE T floor_divide1(T x, T y) {
  const bool minus = Traits<T>::is_signed && y == T(-1);
  const T divisor = y == 0 || minus ? T(1) : y;
  T q;
  if constexpr (sizeof(T) < 4) {
    q = T(int32_t(__builtin_floorf(float(x) / float(divisor))));
  } else if constexpr (sizeof(T) == 4) {
    // the low bits of a sum with 1.5·2^52 are the number in two's complement
    const double whole = __builtin_floor(double(x) / double(divisor)) + 0x1.8p52;
    q = T(uint32_t(__builtin_bit_cast(uint64_t, whole)));
  } else {
    q = T(x / divisor);
    if constexpr (Traits<T>::is_signed) q = T(q - (x % divisor != 0 && (x < 0) != (divisor < 0)));
  }
  return y == 0 ? T(0) : minus ? T(Wide<T>(0) - wide(x)) : q;
}
template <Whole T>
DW_INLINE T modulo1(T x, T y) {
  const T r = T(wide(x) - wide(floor_divide1(x, y)) * wide(y));
  return y == 0 ? T(0) : r;
}
template <Whole T>
struct LoopOf<T, droveway::op_floor_div> {
  static void loop(const Strip& s) {
    FpGuard guard;
    each2<T, T>(s, [](T x, T y) DW_LAMBDA { return floor_divide1(x, y); });
  }
};
template <Whole T>
struct LoopOf<T, droveway::op_mod> {
  static void loop(const Strip& s) {
    FpGuard guard;
    each2<T, T>(s, [](T x, T y) DW_LAMBDA { return modulo1(x, y); });
  }
};
// x to the power y; a negative exponent leaves the integers: 0, but ±1 for x = ±1.
template <Whole T>
DW_INLINE T power1(T x, T y) {
  if constexpr (Traits<T>::is_signed) {
    if (y < 0) return x == 1 ? T(1) : x == -1 ? T((y & 1) != 0 ? -1 : 1) : T(0);
  }
  Wide<T> result = 1, factor = wide(x);
  for (Bits<T> n = Bits<T>(y); n != 0; n = Bits<T>(n >> 1)) {
    if ((n & 1) != 0) result *= factor;
    factor *= factor;
  }
  return T(result);
}
// Shifts by the width or more, or by a negative number, move every bit out.
template <Whole T>
DW_INLINE T left1(T x, T y) {
  constexpr Bits<T> width = Bits<T>(Traits<T>::width);
  const T moved = T(wide(x) << (Bits<T>(y) & Bits<T>(width - 1)));
  return Bits<T>(y) < width ? moved : T(0);
}
template <Whole T>
DW_INLINE T right1(T x, T y) {
  constexpr Bits<T> width = Bits<T>(Traits<T>::width);
  if constexpr (Traits<T>::is_signed) {
    return T(x >> (Bits<T>(y) < width ? Bits<T>(y) : Bits<T>(width - 1)));
  } else {
    const T moved = T(x >> (Bits<T>(y) & Bits<T>(width - 1)));
    return Bits<T>(y) < width ? moved : T(0);
  }
}
template <Whole T>
DW_INLINE T popcount1(T x) {
  using W = Wide<T>;
  W v = W(Bits<T>(x));
  constexpr W ones = W(~W(0));
  v = v - ((v >> 1) & (ones / 3));
  v = (v & (ones / 15 * 3)) + ((v >> 2) & (ones / 15 * 3));
  v = (v + (v >> 4)) & (ones / 255 * 15);
  return T((v * (ones / 255)) >> (8 * sizeof(W) - 8));
}

DW_EACH2(add, Whole, T, T(wide(x) + wide(y)))
DW_EACH2(sub, Whole, T, T(wide(x) - wide(y)))
DW_EACH2(mul, Whole, T, T(wide(x) * wide(y)))
DW_EACH2(pow, Whole, T, power1(x, y))
DW_EACH2(maximum, Whole, T, x < y ? y : x)
DW_EACH2(minimum, Whole, T, y < x ? y : x)
DW_EACH1(neg, Whole, T, T(Wide<T>(0) - wide(x)))
DW_EACH1(abs, SignedWhole, T, x < 0 ? T(Wide<T>(0) - wide(x)) : x)
DW_EACH1(sign, SignedWhole, T, T(x > 0) - T(x < 0))
DW_EACH1(sign, UnsignedWhole, T, T(x != 0))
DW_EACH1(square, Whole, T, T(wide(x) * wide(x)))
DW_EACH3(clip, Whole, T, (x < y ? y : x) < z ? (x < y ? y : x) : z)
DW_EACH1(relu, SignedWhole, T, x < 0 ? T(0) : x)
DW_EACH2(eq, Whole, uint8_t, x == y)
DW_EACH2(ne, Whole, uint8_t, x != y)
DW_EACH2(lt, Whole, uint8_t, x < y)
DW_EACH2(le, Whole, uint8_t, x <= y)
DW_EACH2(gt, Whole, uint8_t, x > y)
DW_EACH2(ge, Whole, uint8_t, x >= y)
DW_EACH1(isnan, Whole, uint8_t, 0)
DW_EACH1(isinf, Whole, uint8_t, 0)
DW_EACH1(isfinite, Whole, uint8_t, 1)
DW_EACH2(bitwise_and, Whole, T, T(x & y))
DW_EACH2(bitwise_or, Whole, T, T(x | y))
DW_EACH2(bitwise_xor, Whole, T, T(x ^ y))
DW_EACH1(bitwise_not, Whole, T, T(~x))
DW_EACH2(bitwise_left_shift, Whole, T, left1(x, y))
DW_EACH2(bitwise_right_shift, Whole, T, right1(x, y))
DW_EACH1(popcount, Whole, T, popcount1(x))

// What changes no integer is a copy, found in elementwise.cpp: abs and relu of unsigned ones, rounding, conj.

}  // namespace
}  // namespace DW_ISA

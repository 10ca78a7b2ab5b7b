// Elementwise operations that are exact or rounded once, written for one element: the compiler makes the vectors, and
// no way of making them can change a bit. Functions with an error of their own are written on lanes instead.
// Included by kernel sources only. `T` is the element; floats are float and double.
#pragma once
#include "elementwise_lanes.hpp"

#if defined(__clang__)
#define DW_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define DW_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace DW_ISA {
namespace {

template <class T> struct Traits { static constexpr bool floating = false, integer = false, is_signed = false; };
template <> struct Traits<float> {
  static constexpr bool floating = true, integer = false, is_signed = true;
  using Bits = uint32_t;
  static constexpr Bits nan = kNan32;
};
template <> struct Traits<double> {
  static constexpr bool floating = true, integer = false, is_signed = true;
  using Bits = uint64_t;
  static constexpr Bits nan = kNan64;
};
// Wide: what arithmetic wraps in. Narrower types are promoted by the language, so they need at least 32 bits.
#define DW_INTEGER_TRAITS(T, U, W, S)                                            \
  template <> struct Traits<T> {                                                 \
    static constexpr bool floating = false, integer = true, is_signed = S;       \
    using Bits = U;                                                              \
    using Wide = W;                                                              \
    static constexpr int width = int(8 * sizeof(T));                             \
    static constexpr T smallest = S ? T(U(1) << (width - 1)) : T(0);             \
  };
DW_INTEGER_TRAITS(int8_t, uint8_t, uint32_t, true)
DW_INTEGER_TRAITS(int16_t, uint16_t, uint32_t, true)
DW_INTEGER_TRAITS(int32_t, uint32_t, uint32_t, true)
DW_INTEGER_TRAITS(int64_t, uint64_t, uint64_t, true)
DW_INTEGER_TRAITS(uint8_t, uint8_t, uint32_t, false)
DW_INTEGER_TRAITS(uint16_t, uint16_t, uint32_t, false)
DW_INTEGER_TRAITS(uint32_t, uint32_t, uint32_t, false)
DW_INTEGER_TRAITS(uint64_t, uint64_t, uint64_t, false)
#undef DW_INTEGER_TRAITS

template <class T> concept Float = Traits<T>::floating;
template <class T> concept Whole = Traits<T>::integer;
template <class T> concept SignedWhole = Traits<T>::integer && Traits<T>::is_signed;
template <class T> concept UnsignedWhole = Traits<T>::integer && !Traits<T>::is_signed;
template <class T> concept Real = Float<T> || Whole<T>;

template <class T> using Bits = typename Traits<T>::Bits;
template <class T> using Wide = typename Traits<T>::Wide;
template <class T> DW_INLINE Bits<T> bits_of(T x) { return __builtin_bit_cast(Bits<T>, x); }
template <class T> DW_INLINE T of_bits(Bits<T> u) { return __builtin_bit_cast(T, u); }
template <Float T> DW_INLINE T quiet(T x) { return x != x ? of_bits<T>(Traits<T>::nan) : x; }

// Every float kernel runs in the standard environment; integers need none.
struct NoGuard {};
template <class T> struct GuardOf { using type = NoGuard; };
template <Float T> struct GuardOf<T> { using type = FpGuard; };

template <class R, class T, class F>
DW_INLINE void each1(const Strip& s, F f) {
  [[maybe_unused]] typename GuardOf<T>::type guard;
  const T* x = static_cast<const T*>(s.in[0]);
  R* out = static_cast<R*>(s.out);
  const size_t n = s.n;
  DW_INDEPENDENT
  for (size_t i = 0; i < n; ++i) out[i] = f(x[i]);
}
template <class R, class T, class F>
DW_INLINE void each2(const Strip& s, F f) {
  [[maybe_unused]] typename GuardOf<T>::type guard;
  const T* x = static_cast<const T*>(s.in[0]);
  const T* y = static_cast<const T*>(s.in[1]);
  R* out = static_cast<R*>(s.out);
  const size_t n = s.n;
  DW_INDEPENDENT
  for (size_t i = 0; i < n; ++i) out[i] = f(x[i], y[i]);
}
template <class R, class T, class F>
DW_INLINE void each3(const Strip& s, F f) {
  [[maybe_unused]] typename GuardOf<T>::type guard;
  const T* x = static_cast<const T*>(s.in[0]);
  const T* y = static_cast<const T*>(s.in[1]);
  const T* z = static_cast<const T*>(s.in[2]);
  R* out = static_cast<R*>(s.out);
  const size_t n = s.n;
  DW_INDEPENDENT
  for (size_t i = 0; i < n; ++i) out[i] = f(x[i], y[i], z[i]);
}

#define DW_EACH1(NAME, CLASS, R, EXPRESSION)                                                     \
  template <CLASS T>                                                                             \
  struct LoopOf<T, droveway::op_##NAME> {                                                        \
    static void loop(const Strip& s) {                                                           \
      each1<R, T>(s, []([[maybe_unused]] T x) DW_LAMBDA -> R { return EXPRESSION; });            \
    }                                                                                            \
  };
#define DW_EACH2(NAME, CLASS, R, EXPRESSION)                                                     \
  template <CLASS T>                                                                             \
  struct LoopOf<T, droveway::op_##NAME> {                                                        \
    static void loop(const Strip& s) {                                                           \
      each2<R, T>(s, [](T x, T y) DW_LAMBDA -> R { return EXPRESSION; });                        \
    }                                                                                            \
  };
#define DW_EACH3(NAME, CLASS, R, EXPRESSION)                                                     \
  template <CLASS T>                                                                             \
  struct LoopOf<T, droveway::op_##NAME> {                                                        \
    static void loop(const Strip& s) {                                                           \
      each3<R, T>(s, [](T x, T y, T z) DW_LAMBDA -> R { return EXPRESSION; });                   \
    }                                                                                            \
  };

}  // namespace
}  // namespace DW_ISA

// Lanes that move: every second lane of two vectors, two vectors mixed, the upper half.
#pragma once
#include "droveway/lanes.hpp"

namespace DW_ISA {
namespace {

template <int N, int... I> struct Shuffle : Shuffle<N - 1, N - 1, I...> {};
template <int... I> struct Shuffle<0, I...> {
  static constexpr int n = sizeof...(I);
  template <class R> static DW_INLINE R evens(R a, R b) { return __builtin_shufflevector(a, b, (2 * I)...); }
  template <class R> static DW_INLINE R odds(R a, R b) { return __builtin_shufflevector(a, b, (2 * I + 1)...); }
  template <class R> static DW_INLINE R low(R a, R b) { return __builtin_shufflevector(a, b, (I / 2 + I % 2 * n)...); }
  template <class R> static DW_INLINE R high(R a, R b) { return __builtin_shufflevector(a, b, (n / 2 + I / 2 + I % 2 * n)...); }
  template <class R, class H> static DW_INLINE R joined(H a, H b) { return __builtin_shufflevector(a, b, I...); }
  template <class R> static DW_INLINE R upper(R a) { return __builtin_shufflevector(a, a, (n / 2 + I % (n / 2))...); }
};
template <class R> using ShuffleOf = Shuffle<int(sizeof(R) / sizeof(R{}[0]))>;

template <int I, class V>
DW_INLINE auto register_of(const V& a, const V& b) {
  if constexpr (I < kRegs) return a.r[I];
  else return b.r[I - kRegs];
}
// Every second lane of a and b, one after the other.
template <class V>
DW_INLINE V evens(V a, V b) {
  return build<V>([&](auto i) DW_LAMBDA {
    constexpr int at = 2 * decltype(i){};
    return ShuffleOf<decltype(+a.r[0])>::evens(register_of<at>(a, b), register_of<at + 1>(a, b));
  });
}
template <class V>
DW_INLINE V odds(V a, V b) {
  return build<V>([&](auto i) DW_LAMBDA {
    constexpr int at = 2 * decltype(i){};
    return ShuffleOf<decltype(+a.r[0])>::odds(register_of<at>(a, b), register_of<at + 1>(a, b));
  });
}
// a0 b0 a1 b1 …: the first vector, then the second.
template <int part, class V>
DW_INLINE V mixed(V a, V b) {
  return build<V>([&](auto i) DW_LAMBDA {
    constexpr int at = part * kRegs + decltype(i){};
    if constexpr (at % 2 == 0) return ShuffleOf<decltype(+a.r[0])>::low(a.r[at / 2], b.r[at / 2]);
    else return ShuffleOf<decltype(+a.r[0])>::high(a.r[at / 2], b.r[at / 2]);
  });
}
// The upper half of the lanes, below.
template <class V>
DW_INLINE V upper(V a) {
  if constexpr (kRegs == 1) return build<V>([&](auto i) DW_LAMBDA { return ShuffleOf<decltype(+a.r[0])>::upper(a.r[i]); });
  else return build<V>([&](auto i) DW_LAMBDA { return a.r[(i + kRegs / 2) % kRegs]; });
}

// Half a vector from each of two places.
template <class V, class T>
DW_INLINE V load_halves(const T* low, const T* high) {
  if constexpr (kRegs == 1) {
    typedef T Half __attribute__((vector_size(V::width / 2 * sizeof(T))));
    Half a, b;
    memcpy(&a, low, sizeof(a));
    memcpy(&b, high, sizeof(b));
    using R = decltype(+V{}.r[0]);
    return build<V>([&](auto) DW_LAMBDA { return ShuffleOf<R>::template joined<R>(a, b); });
  } else {
    return build<V>([&](auto i) DW_LAMBDA {
      constexpr int at = decltype(i){}, half = kRegs / 2;
      return reg::load(at < half ? low + at * V::step : high + (at - half) * V::step);
    });
  }
}

}  // namespace
}  // namespace DW_ISA

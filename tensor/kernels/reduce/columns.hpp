// Operations of reductions, and tiles of 64 neighbouring columns that advance together, each column with its own 64 partial
// values: the order of fold.hpp, vectorised over results.
#pragma once
#include "fold.hpp"

namespace DW_ISA {
namespace lines {

template <class T> constexpr bool kFloating = false;
template <> constexpr bool kFloating<float> = true;
template <> constexpr bool kFloating<double> = true;

// An operation: block() folds contiguous values, row() takes a row of columns into partial values, join() merges two.
struct SumOp {
  template <class T> static T empty() { return T(0); }
  template <class T> static T join(T a, T b) {
    if constexpr (kFloating<T>) return a + b;
    else return T(uint64_t(a) + uint64_t(b));
  }
  template <class T> static T first(T x) { return join(T(0), x); }
  template <class T> static T step(T a, T x) { return join(a, x); }
  template <class T> static T block(const T* x, size_t n) {
    if constexpr (kFloating<T>) return sum_block(x, n);
    uint64_t total = 0;
    for (size_t i = 0; i < n; ++i) total += uint64_t(x[i]);
    return T(total);
  }
};
struct SquareSumOp {
  template <class T> static T empty() { return T(0); }
  template <class T> static T join(T a, T b) { return SumOp::join(a, b); }
  template <class T> static T first(T x) { return step(T(0), x); }
  template <class T> static T step(T a, T x) {
    if constexpr (kFloating<T>) return fma1(x, x, a);
    else return T(uint64_t(a) + uint64_t(x) * uint64_t(x));
  }
  template <class T> static T block(const T* x, size_t n) {
    if constexpr (kFloating<T>) return dot_block(x, x, n);
    uint64_t total = 0;
    for (size_t i = 0; i < n; ++i) total += uint64_t(x[i]) * uint64_t(x[i]);
    return T(total);
  }
};
struct ProductOp {
  template <class T> static T empty() { return T(1); }
  template <class T> static T join(T a, T b) {
    if constexpr (kFloating<T>) return a * b;
    else return T(uint64_t(a) * uint64_t(b));
  }
  template <class T> static T first(T x) { return x; }
  template <class T> static T step(T a, T x) { return join(a, x); }
  template <class T> static T block(const T* x, size_t n) {
    if constexpr (kFloating<T>) {
      struct Step {
        const T* x;
        DW_INLINE V16<T> operator()(size_t i, V16<T> a) const { return a * Sixteen<T>::load(x + i); }
        DW_INLINE V16<T> operator()(size_t i, size_t m, V16<T> a) const { return a * Sixteen<T>::load(x + i, m, T(1)); }
      };
      V16<T> a, b, c, d;
      accumulate(n, Step{x}, a, b, c, d, Sixteen<T>::set1(T(1)));
      T lanes[16];
      store(lanes, (a * b) * (c * d));
      for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) lanes[l] = lanes[l] * lanes[l + half];
      return lanes[0];
    }
    uint64_t total = 1;
    for (size_t i = 0; i < n; ++i) total *= uint64_t(x[i]);
    return T(total);
  }
};
// Max or min. NaN wins; +0 is above −0; so no order matters.
template <bool kMax>
struct ExtremeOp {
  template <class T> static T empty() {
    if constexpr (kFloating<T>) return kMax ? -kInfinity<T> : kInfinity<T>;
    else if constexpr (T(-1) < T(0)) return kMax ? T(uint64_t{1} << 63) : T(~uint64_t{0} >> 1);
    else return kMax ? T(0) : T(~uint64_t{0});
  }
  template <class T> static T join(T a, T b) {
    if constexpr (kFloating<T>) {
      if constexpr (kMax) return maximum1(a, b);
      else return canonical(-maximum1(-a, -b));
    } else {
      return kMax ? (a < b ? b : a) : (b < a ? b : a);
    }
  }
  template <class T> static T first(T x) { return x; }
  template <class T> static T step(T a, T x) { return join(a, x); }
  template <class V> static DW_INLINE V extreme(V a, V b) {
    if constexpr (kMax) return maximum(a, b);
    else return minimum(a, b);
  }
  template <class T> static T block(const T* x, size_t n) {
    if constexpr (kFloating<T>) {
      struct Step {
        const T* x;
        DW_INLINE V16<T> operator()(size_t i, V16<T> a) const { return extreme(a, Sixteen<T>::load(x + i)); }
        DW_INLINE V16<T> operator()(size_t i, size_t m, V16<T> a) const {
          return extreme(a, Sixteen<T>::load(x + i, m, empty<T>()));
        }
      };
      V16<T> a, b, c, d;
      accumulate(n, Step{x}, a, b, c, d, Sixteen<T>::set1(empty<T>()));
      T lanes[16];
      store(lanes, extreme(extreme(a, b), extreme(c, d)));
      T best = lanes[0];
      for (int l = 1; l < 16; ++l) best = join(best, lanes[l]);
      return best;
    }
    T best = empty<T>();
    for (size_t i = 0; i < n; ++i) best = join(best, x[i]);
    return best;
  }
};

template <class T, class Op>
struct JoinOf {
  T operator()(T a, T b) const { return Op::join(a, b); }
};

constexpr size_t kTile = 64;  // columns that advance together

template <class T, class Op>
DW_INLINE void join_rows(T* a, const T* b, size_t w) {
  for (size_t c = 0; c < w; ++c) a[c] = Op::template join<T>(a[c], b[c]);
}
template <class T, class Op>
DW_INLINE void step_row(T* a, const T* x, size_t w) {
  for (size_t c = 0; c < w; ++c) a[c] = Op::template step<T>(a[c], x[c]);
}
template <class T, class Op>
DW_INLINE void first_row(T* a, const T* x, size_t w) {
  for (size_t c = 0; c < w; ++c) a[c] = Op::template first<T>(x[c]);
}
// The same on lanes, where the compiler would not find them.
template <class T, bool kMax>
DW_INLINE void extreme_row(T* a, const T* x, size_t w) {
  for (size_t c = 0; c < w; c += 16)
    store_partial(a + c, w - c, ExtremeOp<kMax>::extreme(Sixteen<T>::load(a + c, w - c, T(0)), Sixteen<T>::load(x + c, w - c, T(0))));
}
#define DW_EXTREME_ROWS(T, MAX)                                                                                      \
  template <> DW_INLINE void join_rows<T, ExtremeOp<MAX>>(T* a, const T* b, size_t w) { extreme_row<T, MAX>(a, b, w); } \
  template <> DW_INLINE void step_row<T, ExtremeOp<MAX>>(T* a, const T* x, size_t w) { extreme_row<T, MAX>(a, x, w); }
DW_EXTREME_ROWS(float, true)
DW_EXTREME_ROWS(float, false)
DW_EXTREME_ROWS(double, true)
DW_EXTREME_ROWS(double, false)

// A tile of w ≤ 64 columns: rows come from row(i) in the order of the line.
template <class T, class Op>
struct Tile {
  T partial[kTile][kTile];
  T waiting[48][kTile];
  int depth = 0;
  size_t count = 0;

  // Folds the partial values of a block of m rows into partial[0].
  void fold(size_t m, size_t w) {
    const size_t present = m < kTile ? m : kTile;
    for (size_t l = 0; l < 16; ++l) {
      if (l + 16 < present) join_rows<T, Op>(partial[l], partial[l + 16], w);
      if (l + 48 < present) join_rows<T, Op>(partial[l + 32], partial[l + 48], w);
      if (l + 32 < present) join_rows<T, Op>(partial[l], partial[l + 32], w);
    }
    for (size_t half = 8; half > 0; half /= 2)
      for (size_t l = 0; l < half && l + half < present; ++l) join_rows<T, Op>(partial[l], partial[l + half], w);
  }
  void push(size_t w) {
    for (size_t k = count++; (k & 1) != 0; k >>= 1) {
      --depth;
      join_rows<T, Op>(waiting[depth], partial[0], w);
      memcpy(partial[0], waiting[depth], sizeof partial[0]);
    }
    memcpy(waiting[depth++], partial[0], sizeof partial[0]);
  }
  const T* total(size_t w) {
    for (int i = depth - 2; i >= 0; --i) join_rows<T, Op>(waiting[i], waiting[i + 1], w);
    return waiting[0];
  }
};

}  // namespace lines
}  // namespace DW_ISA

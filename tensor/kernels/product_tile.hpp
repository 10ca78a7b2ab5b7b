// The tile of every matrix product: a few rows and columns of C held in registers while k runs through one block.
//
// Each element of C is the sum over blocks of 256 along k, in order, of one chain of fused multiply-adds from +0: a
// tile computes some elements' chains side by side and never touches their order. Where the factors come from (packed,
// strided, windows of an image) is the business of the cursors A and B.
#pragma once
#include "droveway/lanes.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kDepth = 256;  // part of the numeric format: never changes

#if defined(__SANITIZE_ADDRESS__)
constexpr int kRows = 3;  // the same template, less to compile
constexpr int kVectors = 1;
#elif defined(DW_ISA_V4)
constexpr int kRows = 14;  // 28 accumulators of 32 registers
constexpr int kVectors = 2;
#else
constexpr int kRows = 6;  // v3: 12 of 16 registers; arm64: 24 of 32
constexpr int kVectors = 1;
#endif

template <class T> struct LanesOf;
template <> struct LanesOf<float> { using V = F32x16; };
template <> struct LanesOf<double> { using V = F64x8; };
template <class T> using Lanes = typename LanesOf<T>::V;

template <class T>
constexpr int kColumns = kVectors * Lanes<T>::width;

template <int... I> struct Indices {};
template <int N, int... I> struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <int... I> struct MakeIndices<0, I...> { using type = Indices<I...>; };

template <class F, int... I>
DW_INLINE void unroll(F f, Indices<I...>) {
  (f(Index<I>{}), ...);
}
template <int N, class F>
DW_INLINE void repeat(F f) {
  unroll(f, typename MakeIndices<N>::type{});
}

// A packed k after k.
template <class T, int rows>
struct PackedRows {
  const T* p;
  DW_INLINE T at(int i) const { return p[i]; }
  DW_INLINE void next() { p += rows; }
};

// A where it lies. One pointer for three rows: an address may add the row's stride once or twice for nothing.
template <class T, int rows>
struct StridedRows {
  const T* p[(rows + 2) / 3];
  ptrdiff_t row, step;
  DW_INLINE StridedRows(const T* a, ptrdiff_t a_row, ptrdiff_t a_column) : row(a_row), step(a_column) {
    repeat<(rows + 2) / 3>([&](auto i) DW_LAMBDA { p[i] = a + 3 * i * a_row; });
  }
  template <int I>
  DW_INLINE T at(Index<I>) const {
    return p[I / 3][(I % 3) * row];
  }
  DW_INLINE void next() {
    repeat<(rows + 2) / 3>([&](auto i) DW_LAMBDA { p[i] += step; });
  }
};

// Whole vectors of B, a fixed step from k to k.
template <class T>
struct WholeColumns {
  const T* p;
  ptrdiff_t step;
  DW_INLINE Lanes<T> load(int j) const { return Lanes<T>::load(p + j * Lanes<T>::width); }
  DW_INLINE void next() { p += step; }
};

// The first `columns` columns of a panel of B.
template <class T>
struct FewColumns {
  const T* p;
  ptrdiff_t step;
  size_t columns;
  DW_INLINE Lanes<T> load(int j) const {
    const size_t from = size_t(j * Lanes<T>::width);
    return Lanes<T>::load_partial(p + from, columns > from ? columns - from : 0, T(0));
  }
  DW_INLINE void next() { p += step; }
};

// sum[i * vectors + j] = the chains of `depth` ≤ 256 products, from +0.
template <class T, int rows, int vectors, class A, class B>
DW_INLINE void chains(Lanes<T> (&sum)[rows * vectors], size_t depth, A a, B b) {
  using V = Lanes<T>;
  repeat<rows * vectors>([&](auto i) DW_LAMBDA { sum[i] = V::zero(); });
  for (size_t k = 0; k < depth; ++k) {
    V column[vectors];
    repeat<vectors>([&](auto j) DW_LAMBDA { column[j] = b.load(j); });
    repeat<rows>([&](auto i) DW_LAMBDA {
      const V factor = V::set1(a.at(i));
      repeat<vectors>([&](auto j) DW_LAMBDA { sum[i * vectors + j] = fma(factor, column[j], sum[i * vectors + j]); });
    });
    a.next();
    b.next();
  }
}

// Takes a block's chains over into C: stored by the first block, added by the others; NaN made canonical by the last.
template <class T, int rows, int vectors>
DW_INLINE void take_over(Lanes<T> (&sum)[rows * vectors], T* c, ptrdiff_t c_row, bool first, bool last) {
  using V = Lanes<T>;
  repeat<rows>([&](auto i) DW_LAMBDA {
    T* row = c + i * c_row;
    repeat<vectors>([&](auto j) DW_LAMBDA {
      V value = sum[i * vectors + j];
      if (!first) value = V::load(row + j * V::width) + value;
      store(row + j * V::width, last ? canonical(value) : value);
    });
  });
}
template <class T, int rows, int vectors>
DW_INLINE void take_over_some(Lanes<T> (&sum)[rows * vectors], T* c, ptrdiff_t c_row, size_t columns, bool first,
                              bool last) {
  using V = Lanes<T>;
  repeat<rows>([&](auto i) DW_LAMBDA {
    T* row = c + i * c_row;
    repeat<vectors>([&](auto j) DW_LAMBDA {
      const size_t from = size_t(j * V::width);
      const size_t count = columns > from ? columns - from : 0;
      V value = sum[i * vectors + j];
      if (!first) value = V::load_partial(row + from, count, T(0)) + value;
      store_partial(row + from, count, last ? canonical(value) : value);
    });
  });
}

}  // namespace
}  // namespace DW_ISA

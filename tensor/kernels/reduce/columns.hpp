// Operations of reductions, and tiles of 64 neighbouring columns that advance together, each column with its own 64 partial
// values: the order of fold.hpp, vectorised over results.
#pragma once
#include "fold.hpp"

namespace DW_ISA {
namespace lines {

template <class T> inline constexpr bool kFloating = false;
template <> inline constexpr bool kFloating<float> = true;
template <> inline constexpr bool kFloating<double> = true;

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

inline int64_t distance(int64_t stride) { return stride < 0 ? -stride : stride; }

// Brings the kept dimension along which x's elements lie closest to the end.
inline void closest_last(Dims* dims) {
  int best = dims->n - 1;
  for (int d = 0; d < dims->n; ++d)
    if (dims->size[d] >= 4 && (distance(dims->stride[0][d]) < distance(dims->stride[0][best]) || dims->size[best] < 4)) best = d;
  const int last = dims->n - 1;
  const int64_t size = dims->size[best];
  dims->size[best] = dims->size[last];
  dims->size[last] = size;
  for (auto& stride : dims->stride) {
    const int64_t step = stride[best];
    stride[best] = stride[last];
    stride[last] = step;
  }
}
// Whether neighbouring lines lie closer together than a line's own elements; they are then along the last kept dimension.
inline bool columns_are_close(Split* s) {
  closest_last(&s->kept);
  const int last = s->kept.n - 1;
  return s->kept.total > 0 && s->line.total > 1 && s->kept.size[last] >= 4 &&
         distance(s->kept.stride[0][last]) < distance(s->line.stride[0][s->line.n - 1]);
}

// Rows of w ≤ 64 columns of one operand: where they lie, or copied into `local`.
template <class T>
struct ColumnRows {
  const View& view;
  const char* base;
  int64_t line_step, column_step;
  size_t w;
  T local[kTile];

  ColumnRows(const View& view, const Split& s, int operand, int64_t offset, size_t w)
      : view(view), base(at_offset(view, offset)), line_step(s.line.stride[operand][0] * int64_t(droveway::dtype_size(view.dtype))),
        column_step(s.kept.stride[operand][s.kept.n - 1]), w(w) {}
  bool direct() const { return view.dtype == kNative<T> && column_step == 1; }
  char* at(size_t i) const { return const_cast<char*>(base) + int64_t(i) * line_step; }
  const T* row(size_t i) {
    if (direct()) return reinterpret_cast<const T*>(at(i));
    load_run(view.dtype, at(i), column_step, w, local);
    return local;
  }
  T* begin(size_t i) { return direct() ? reinterpret_cast<T*>(at(i)) : local; }
  void end(size_t i) {
    if (!direct()) store_run(view.dtype, at(i), column_step, w, local);
  }
};

// Runs work(offsets of the operands, columns) for each tile of up to 64 columns; the line has one dimension.
template <class Work>
void each_tile(const Split& s, int operands, size_t bytes, const Work& work) {
  const int last = s.kept.n - 1;
  struct Context {
    const Split& s;
    const Work& work;
    int operands;
    size_t tiles;
    Dims outer;
  } context{s, work, operands, (size_t(s.kept.size[last]) - 1) / kTile + 1, s.kept};
  context.outer.size[last] = 1;
  context.outer.total = s.kept.total / size_t(s.kept.size[last]);
  dw_parallel_n(context.outer.total * context.tiles, [](void* raw, size_t number) {
        const Context& c = *static_cast<const Context*>(raw);
        const int last = c.s.kept.n - 1;
        Odometer at(c.outer, c.operands, number / c.tiles);
        const size_t first = number % c.tiles * kTile, all = size_t(c.s.kept.size[last]);
        for (int k = 0; k < c.operands; ++k) at.offset[k] += int64_t(first) * c.s.kept.stride[k][last];
        c.work(at.offset, all - first < kTile ? all - first : kTile);
      }, &context, threads_for(bytes));
}

}  // namespace lines
}  // namespace DW_ISA

// Sum and dot product in the fixed order (tensor/reduction_ref.py is the readable twin).
//
// A block is 4096 values: value i goes to accumulator (i div 16) mod 4, lane i mod 16. Block = (a0+a1)+(a2+a3), then
// lanes l + (l+8), +4, +2, +1. Blocks join in a tree whose left part is the largest power of two below their number.
#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kBlock = 4096;
constexpr size_t kGroup = 16;
constexpr size_t kChunkBlocksMin = 16;  // a chunk is a whole subtree: a power of two of blocks
constexpr size_t kChunksMax = 1024;
constexpr size_t kParallelBytes = size_t{1} << 20;  // below this one thread is faster

// Sixteen lanes of T.
DW_INLINE F32x16 load16(const float* p, ptrdiff_t stride) {
  return stride == 1 ? F32x16::load(p) : F32x16::load_strided(p, stride);
}
DW_INLINE F64x16 load16(const double* p, ptrdiff_t stride) {
  if (stride == 1) return {F64x8::load(p), F64x8::load(p + 8)};
  return {F64x8::load_strided(p, stride), F64x8::load_strided(p + 8 * stride, stride)};
}
DW_INLINE F32x16 load16(const float* p, ptrdiff_t stride, size_t n) {
  if (stride == 1) return F32x16::load_partial(p, n, 0.0f);
  float local[16] = {};
  for (size_t i = 0; i < n; ++i) local[i] = p[ptrdiff_t(i) * stride];
  return F32x16::load(local);
}
DW_INLINE F64x16 load16(const double* p, ptrdiff_t stride, size_t n) {
  double local[16] = {};
  for (size_t i = 0; i < n; ++i) local[i] = p[ptrdiff_t(i) * stride];
  return {F64x8::load(local), F64x8::load(local + 8)};
}
DW_INLINE F64x16 operator+(F64x16 a, F64x16 b) { return {a.low + b.low, a.high + b.high}; }
DW_INLINE F64x16 fma(F64x16 a, F64x16 b, F64x16 c) { return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)}; }

template <class T> struct Sixteen;
template <> struct Sixteen<float> { using V = F32x16; static DW_INLINE V zero() { return V::zero(); } };
template <> struct Sixteen<double> { using V = F64x16; static DW_INLINE V zero() { return {F64x8::zero(), F64x8::zero()}; } };

// The cache lines of the group of 64 values that comes 2 KiB after x. The address may lie past the end: it is only a hint.
constexpr uintptr_t kPrefetchBytes = 2048;
template <class T>
DW_INLINE void prefetch(const T* x) {
  for (uintptr_t byte = 0; byte < 4 * kGroup * sizeof(T); byte += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(x) + kPrefetchBytes + byte));
}

// contiguous: the stride is the constant 1, so that the inner loop has no test for it.
template <class T, bool contiguous>
struct SumTerm {
  using V = typename Sixteen<T>::V;
  const T* x;
  ptrdiff_t any_stride;
  DW_INLINE ptrdiff_t step() const { return contiguous ? 1 : any_stride; }
  DW_INLINE void ahead(size_t i) const {
    if constexpr (contiguous) prefetch(x + i);
  }
  DW_INLINE V add(size_t i, V a) const { return a + load16(x + ptrdiff_t(i) * step(), step()); }
  DW_INLINE V add(size_t i, size_t n, V a) const { return a + load16(x + ptrdiff_t(i) * step(), step(), n); }
};
template <class T, bool contiguous>
struct DotTerm {
  using V = typename Sixteen<T>::V;
  const T* x;
  ptrdiff_t any_x_stride;
  const T* y;
  ptrdiff_t any_y_stride;
  DW_INLINE ptrdiff_t x_step() const { return contiguous ? 1 : any_x_stride; }
  DW_INLINE ptrdiff_t y_step() const { return contiguous ? 1 : any_y_stride; }
  DW_INLINE void ahead(size_t) const {}  // two streams: the hardware does better alone
  DW_INLINE V add(size_t i, V a) const {
    return fma(load16(x + ptrdiff_t(i) * x_step(), x_step()), load16(y + ptrdiff_t(i) * y_step(), y_step()), a);
  }
  DW_INLINE V add(size_t i, size_t n, V a) const {
    return fma(load16(x + ptrdiff_t(i) * x_step(), x_step(), n), load16(y + ptrdiff_t(i) * y_step(), y_step(), n), a);
  }
};

// One block: n ≤ 4096 values from number `first`.
template <class T, class Term>
DW_INLINE T block_value(const Term& term, size_t first, size_t n) {
  using V = typename Sixteen<T>::V;
  V a0 = Sixteen<T>::zero(), a1 = a0, a2 = a0, a3 = a0;
  size_t i = 0;
  for (; i + 4 * kGroup <= n; i += 4 * kGroup) {
    term.ahead(first + i);
    a0 = term.add(first + i, a0);
    a1 = term.add(first + i + kGroup, a1);
    a2 = term.add(first + i + 2 * kGroup, a2);
    a3 = term.add(first + i + 3 * kGroup, a3);
  }
  // Names, not an array or a reference: an accumulator whose address is taken lives in memory.
  auto tail = [&](V a) DW_LAMBDA {
    const V next = term.add(first + i, n - i < kGroup ? n - i : kGroup, a);
    i += kGroup;
    return next;
  };
  if (i < n) a0 = tail(a0);
  if (i < n) a1 = tail(a1);
  if (i < n) a2 = tail(a2);
  if (i < n) a3 = tail(a3);
  return add_tree((a0 + a1) + (a2 + a3));
}

// The tree over values that come one after another: whole subtrees wait on a stack until their right side is there.
template <class T>
struct Tree {
  T waiting[64];
  int depth = 0;
  size_t count = 0;
  void push(T value) {
    for (size_t c = count++; (c & 1) != 0; c >>= 1) value = waiting[--depth] + value;
    waiting[depth++] = value;
  }
  T total() const {
    T value = waiting[depth - 1];
    for (int i = depth - 2; i >= 0; --i) value = waiting[i] + value;
    return value;
  }
};

template <class T, class Term>
struct Reduction {
  Term term;
  size_t n;
  size_t chunk;  // values in a chunk
  T partial[kChunksMax];
};

template <class T, class Term>
void reduce_chunk(void* context, size_t c) {
  auto& r = *static_cast<Reduction<T, Term>*>(context);
  const size_t end = r.n - c * r.chunk < r.chunk ? r.n : (c + 1) * r.chunk;
  Tree<T> tree;
  for (size_t first = c * r.chunk; first < end; first += kBlock)
    tree.push(block_value<T>(r.term, first, end - first < kBlock ? end - first : kBlock));
  r.partial[c] = tree.total();
}

template <class T, class Term>
T reduce(const Term& term, size_t n) {
  if (n == 0) return T(0);
  FpGuard guard;
  if (n <= kBlock) return canonical(block_value<T>(term, 0, n));
  Reduction<T, Term> r;
  r.term = term;
  r.n = n;
  r.chunk = kBlock * kChunkBlocksMin;
  while ((n - 1) / r.chunk >= kChunksMax) r.chunk *= 2;
  const size_t chunks = (n - 1) / r.chunk + 1;
  dw_parallel_n(chunks, reduce_chunk<T, Term>, &r, n * sizeof(T) < kParallelBytes ? 1 : 1024);
  Tree<T> tree;
  for (size_t c = 0; c < chunks; ++c) tree.push(r.partial[c]);
  return canonical(tree.total());
}

template <class T>
T sum(const T* x, ptrdiff_t stride, size_t n) {
  return stride == 1 ? reduce<T>(SumTerm<T, true>{x, 1}, n) : reduce<T>(SumTerm<T, false>{x, stride}, n);
}
template <class T>
T dot(const T* x, ptrdiff_t x_stride, const T* y, ptrdiff_t y_stride, size_t n) {
  if (x_stride == 1 && y_stride == 1) return reduce<T>(DotTerm<T, true>{x, 1, y, 1}, n);
  return reduce<T>(DotTerm<T, false>{x, x_stride, y, y_stride}, n);
}

// Rows: a vector sum for each, a block of work is as many rows as make about 4096 values. A row's own chunks find
// themselves inside a block, so they run one after another.
template <class T>
struct Rows {
  const T* x;
  ptrdiff_t row_stride, stride;
  size_t rows, columns, rows_per_block;
  T* out;
};

template <class T>
void sum_row_group(void* context, size_t group) {
  const auto& r = *static_cast<const Rows<T>*>(context);
  const size_t first = group * r.rows_per_block;
  const size_t end = r.rows - first < r.rows_per_block ? r.rows : first + r.rows_per_block;
  for (size_t i = first; i < end; ++i)
    r.out[i] = sum(r.x + ptrdiff_t(i) * r.row_stride, r.stride, r.columns);
}

template <class T>
void sum_rows(const T* x, ptrdiff_t row_stride, ptrdiff_t stride, size_t rows, size_t columns, T* out) {
  if (rows == 0) return;
  Rows<T> r{x, row_stride, stride, rows, columns, columns >= kBlock ? 1 : kBlock / (columns + 1) + 1, out};
  dw_parallel_n((rows - 1) / r.rows_per_block + 1, sum_row_group<T>, &r,
                rows * columns * sizeof(T) < kParallelBytes ? 1 : 1024);
}

// Columns: one lane is one column. Each column keeps its 64 partial sums, so its order is that of sum.
template <class T>
struct Columns {
  const T* x;
  ptrdiff_t row_stride;
  size_t rows, columns;
  T* out;
};

template <class T> struct ColumnLanes;
template <> struct ColumnLanes<float> { using V = F32x16; };
template <> struct ColumnLanes<double> { using V = F64x8; };

template <class T>
void sum_column_group(void* context, size_t group) {
  using V = typename ColumnLanes<T>::V;
  const auto& c = *static_cast<const Columns<T>*>(context);
  const size_t first = group * V::width;
  const size_t width = c.columns - first < size_t(V::width) ? c.columns - first : size_t(V::width);
  V waiting[64];
  int depth = 0;
  size_t count = 0;
  for (size_t start = 0; start < c.rows; start += kBlock) {
    const size_t n = c.rows - start < kBlock ? c.rows - start : kBlock;
    V partial[64];
    for (V& p : partial) p = V::zero();
    const T* row = c.x + ptrdiff_t(start) * c.row_stride + first;
    for (size_t i = 0; i < n; ++i, row += c.row_stride)
      partial[i % 64] = partial[i % 64] + V::load_partial(row, width, T(0));
    for (int lane = 0; lane < 16; ++lane)
      partial[lane] = (partial[lane] + partial[16 + lane]) + (partial[32 + lane] + partial[48 + lane]);
    for (int half = 8; half > 0; half /= 2)
      for (int lane = 0; lane < half; ++lane) partial[lane] = partial[lane] + partial[lane + half];
    V value = partial[0];
    for (size_t k = count++; (k & 1) != 0; k >>= 1) value = waiting[--depth] + value;
    waiting[depth++] = value;
  }
  V value = V::zero();
  if (depth > 0) {
    value = waiting[depth - 1];
    for (int i = depth - 2; i >= 0; --i) value = waiting[i] + value;
  }
  store_partial(c.out + first, width, canonical(value));
}

template <class T>
void sum_columns(const T* x, ptrdiff_t row_stride, size_t rows, size_t columns, T* out) {
  if (columns == 0) return;
  Columns<T> c{x, row_stride, rows, columns, out};
  const size_t groups = (columns - 1) / size_t(ColumnLanes<T>::V::width) + 1;
  dw_parallel_n(groups, sum_column_group<T>, &c, rows * columns * sizeof(T) < kParallelBytes ? 1 : 1024);
}

}  // namespace

float sum_f32(const float* x, ptrdiff_t stride, size_t n) { return sum(x, stride, n); }
double sum_f64(const double* x, ptrdiff_t stride, size_t n) { return sum(x, stride, n); }
float dot_f32(const float* x, ptrdiff_t x_stride, const float* y, ptrdiff_t y_stride, size_t n) {
  return dot(x, x_stride, y, y_stride, n);
}
double dot_f64(const double* x, ptrdiff_t x_stride, const double* y, ptrdiff_t y_stride, size_t n) {
  return dot(x, x_stride, y, y_stride, n);
}
void sum_rows_f32(const float* x, ptrdiff_t row_stride, ptrdiff_t stride, size_t rows, size_t columns, float* out) {
  sum_rows(x, row_stride, stride, rows, columns, out);
}
void sum_rows_f64(const double* x, ptrdiff_t row_stride, ptrdiff_t stride, size_t rows, size_t columns, double* out) {
  sum_rows(x, row_stride, stride, rows, columns, out);
}
void sum_columns_f32(const float* x, ptrdiff_t row_stride, size_t rows, size_t columns, float* out) {
  sum_columns(x, row_stride, rows, columns, out);
}
void sum_columns_f64(const double* x, ptrdiff_t row_stride, size_t rows, size_t columns, double* out) {
  sum_columns(x, row_stride, rows, columns, out);
}

}  // namespace DW_ISA

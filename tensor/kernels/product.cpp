// Matrix product (tensor/product_ref.py is the readable twin).
//
// C = ((p0 + p1) + p2) + …, p_b = the chain of fused multiply-adds over k in block b of 256, from +0. Only the split of
// k is part of the result; tiles over rows and columns are free, because every element has its own chain.
//
// Factors are packed: A in panels of kRows rows, B in panels of kColumns columns, both k after k, padded with zeros.
// A block of work multiplies one slice of A's panels with all packed panels of B.
#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kDepth = 256;           // part of the numeric format: never changes
constexpr size_t kColumnsPacked = 1024;  // columns of B packed at a time: 1 MiB of f32
constexpr size_t kRowsPacked = 4096;     // rows of A packed at a time
constexpr size_t kPanelsPerBlock = 16;   // a block's slice of A stays in the second-level cache
constexpr size_t kParallelFlops = size_t{1} << 22;

#if defined(DW_ISA_V4)
constexpr int kRows = 14;  // 28 accumulators of 32 registers
constexpr int kVectors = 2;
#else
constexpr int kRows = 6;  // v3: 12 of 16 registers; arm64: 24 of 32
constexpr int kVectors = 1;
#endif

template <class T> struct Vector;
template <> struct Vector<float> { using V = F32x16; };
template <> struct Vector<double> { using V = F64x8; };

template <class T>
constexpr int kColumns = kVectors * Vector<T>::V::width;

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

// One tile: rows × columns of C from one panel of A and one of B. A whole tile has no tests for its edges.
template <class T, bool whole>
DW_INLINE void tile(size_t depth, const T* a, const T* b, T* c, ptrdiff_t c_row, size_t rows, size_t columns, bool first,
                    bool last) {
  using V = typename Vector<T>::V;
  constexpr int w = V::width;
  V sum[kRows * kVectors];
  repeat<kRows * kVectors>([&](auto i) DW_LAMBDA { sum[i] = V::zero(); });
  for (size_t k = 0; k < depth; ++k) {
    V column[kVectors];
    repeat<kVectors>([&](auto j) DW_LAMBDA { column[j] = V::load(b + j * w); });
    repeat<kRows>([&](auto i) DW_LAMBDA {
      const V factor = V::set1(a[i]);
      repeat<kVectors>([&](auto j) DW_LAMBDA { sum[i * kVectors + j] = fma(factor, column[j], sum[i * kVectors + j]); });
    });
    a += kRows;
    b += kVectors * w;
  }
  repeat<kRows>([&](auto i) DW_LAMBDA {
    if (!whole && size_t(i) >= rows) return;
    T* row = c + i * c_row;
    repeat<kVectors>([&](auto j) DW_LAMBDA {
      V value = sum[i * kVectors + j];
      if constexpr (whole) {
        if (!first) value = V::load(row + j * w) + value;
        store(row + j * w, last ? canonical(value) : value);
      } else if (columns > size_t(j * w)) {
        const size_t n = columns - size_t(j * w);
        if (!first) value = V::load_partial(row + j * w, n, T(0)) + value;
        store_partial(row + j * w, n, last ? canonical(value) : value);
      }
    });
  });
}

template <class T>
__attribute__((noinline)) void whole_tile(size_t depth, const T* a, const T* b, T* c, ptrdiff_t c_row, bool first,
                                          bool last) {
  tile<T, true>(depth, a, b, c, c_row, kRows, size_t(kColumns<T>), first, last);
}
template <class T>
__attribute__((noinline)) void edge_tile(size_t depth, const T* a, const T* b, T* c, ptrdiff_t c_row, size_t rows,
                                         size_t columns, bool first, bool last) {
  tile<T, false>(depth, a, b, c, c_row, rows, columns, first, last);
}

// What the blocks of one region share.
template <class T>
struct Step {
  const droveway::Matmul<T>* product;
  T* packed_a;
  T* packed_b;
  size_t row, rows;        // rows of A in this step
  size_t column, columns;  // columns of B
  size_t k, depth;
  bool first, last;
};

size_t least(size_t a, size_t b) { return a < b ? a : b; }
size_t parts(size_t n, size_t size) { return (n + size - 1) / size; }

// One panel of A: out[k * kRows + i] = A[row + i, k].
template <class T>
void pack_a(const Step<T>& s, size_t row, T* out) {
  const auto& p = *s.product;
  const size_t rows = least(size_t(kRows), s.row + s.rows - row);
  const T* a = p.a + ptrdiff_t(row) * p.a_row + ptrdiff_t(s.k) * p.a_column;
  for (size_t i = 0; i < size_t(kRows); ++i) {
    if (i < rows) {
      const T* from = a + ptrdiff_t(i) * p.a_row;
      for (size_t k = 0; k < s.depth; ++k) out[k * kRows + i] = from[ptrdiff_t(k) * p.a_column];
    } else {
      for (size_t k = 0; k < s.depth; ++k) out[k * kRows + i] = T(0);
    }
  }
}

// One panel of B: out[k * kColumns + j] = B[k, column + j].
template <class T>
void pack_b(void* context, size_t panel) {
  using V = typename Vector<T>::V;
  constexpr size_t w = size_t(kColumns<T>);
  const auto& s = *static_cast<const Step<T>*>(context);
  const auto& p = *s.product;
  const size_t column = s.column + panel * w;
  const size_t columns = least(w, s.column + s.columns - column);
  T* out = s.packed_b + panel * w * s.depth;
  const T* b = p.b + ptrdiff_t(s.k) * p.b_row + ptrdiff_t(column) * p.b_column;
  if (p.b_column == 1 && columns == w) {
    for (size_t k = 0; k < s.depth; ++k, b += p.b_row, out += w)
      repeat<kVectors>([&](auto j) DW_LAMBDA { store(out + j * V::width, V::load(b + j * V::width)); });
    return;
  }
  for (size_t k = 0; k < s.depth; ++k, b += p.b_row, out += w) {
    for (size_t j = 0; j < w; ++j) out[j] = j < columns ? b[ptrdiff_t(j) * p.b_column] : T(0);
  }
}

// One block: a slice of kPanelsPerBlock panels of A times everything packed of B.
template <class T>
void multiply(void* context, size_t block) {
  constexpr size_t w = size_t(kColumns<T>);
  constexpr size_t slice = kPanelsPerBlock * size_t(kRows);
  const auto& s = *static_cast<const Step<T>*>(context);
  const auto& p = *s.product;
  const size_t row_first = s.row + block * slice;
  const size_t row_end = least(row_first + slice, s.row + s.rows);
  T* packed = s.packed_a + block * slice * s.depth;
  for (size_t row = row_first; row < row_end; row += size_t(kRows)) pack_a(s, row, packed + (row - row_first) * s.depth);

  for (size_t j = 0; j < s.columns; j += w) {
    const T* b = s.packed_b + j * s.depth;
    const size_t columns = least(w, s.columns - j);
    for (size_t row = row_first; row < row_end; row += size_t(kRows)) {
      const T* a = packed + (row - row_first) * s.depth;
      T* c = p.c + ptrdiff_t(row) * p.c_row + ptrdiff_t(s.column + j);
      const size_t rows = least(size_t(kRows), row_end - row);
      if (columns == w && rows == size_t(kRows)) whole_tile(s.depth, a, b, c, p.c_row, s.first, s.last);
      else edge_tile(s.depth, a, b, c, p.c_row, rows, columns, s.first, s.last);
    }
  }
}

template <class T>
size_t packed_rows(size_t m) {
  return parts(least(m, kRowsPacked), size_t(kRows)) * size_t(kRows);
}
template <class T>
size_t packed_columns(size_t n) {
  return parts(least(n, kColumnsPacked), size_t(kColumns<T>)) * size_t(kColumns<T>);
}

template <class T>
size_t matmul_workspace(size_t m, size_t n, size_t k) {
  if (m == 0 || n == 0 || k == 0) return 0;
  const size_t elements = (packed_rows<T>(m) + packed_columns<T>(n)) * least(k, kDepth);
  return elements * sizeof(T) + 64;  // each part starts at a multiple of 64 bytes
}

template <class T>
void matmul(const droveway::Matmul<T>& p, void* workspace) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    for (size_t i = 0; i < p.m; ++i) memset(p.c + ptrdiff_t(i) * p.c_row, 0, p.n * sizeof(T));
    return;
  }
  FpGuard guard;
  const int threads = double(p.m) * double(p.n) * double(p.k) < double(kParallelFlops) ? 1 : 1024;
  Step<T> s;
  s.product = &p;
  s.packed_b = static_cast<T*>(workspace);
  const size_t b_bytes = packed_columns<T>(p.n) * least(p.k, kDepth) * sizeof(T);
  s.packed_a = reinterpret_cast<T*>(static_cast<char*>(workspace) + (b_bytes + 63) / 64 * 64);
  for (s.column = 0; s.column < p.n; s.column += kColumnsPacked) {
    s.columns = least(kColumnsPacked, p.n - s.column);
    for (s.k = 0; s.k < p.k; s.k += kDepth) {
      s.depth = least(kDepth, p.k - s.k);
      s.first = s.k == 0;
      s.last = s.k + s.depth == p.k;
      dw_parallel_n(parts(s.columns, size_t(kColumns<T>)), pack_b<T>, &s, threads);
      for (s.row = 0; s.row < p.m; s.row += kRowsPacked) {
        s.rows = least(kRowsPacked, p.m - s.row);
        dw_parallel_n(parts(s.rows, kPanelsPerBlock * size_t(kRows)), multiply<T>, &s, threads);
      }
    }
  }
}

}  // namespace

size_t matmul_workspace_f32(size_t m, size_t n, size_t k) { return matmul_workspace<float>(m, n, k); }
size_t matmul_workspace_f64(size_t m, size_t n, size_t k) { return matmul_workspace<double>(m, n, k); }
void matmul_f32(const droveway::Matmul<float>& product, void* workspace) { matmul(product, workspace); }
void matmul_f64(const droveway::Matmul<double>& product, void* workspace) { matmul(product, workspace); }

}  // namespace DW_ISA

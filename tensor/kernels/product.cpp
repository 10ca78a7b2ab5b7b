// Matrix product (tensor/product_ref.py is the readable twin).
//
// C = ((p0 + p1) + p2) + …, p_b = the chain of fused multiply-adds over k in block b of 256, from +0. Only the split of
// k is part of the result; tiles over rows and columns are free, because every element has its own chain.
//
// Factors are packed, k after k: A in panels of at most kRows rows, of heights as equal as they can be, B in panels of
// kColumns columns, the last one padded with zeros. A block of work multiplies one slice of A's panels with all packed
// panels of B.
#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kDepth = 256;               // part of the numeric format: never changes
constexpr size_t kDepthPacked = 2 * kDepth;  // two blocks of k at a time halve the traffic of C
constexpr size_t kColumnsPacked = 1024;      // columns of B packed at a time: 2 MiB of f32
constexpr size_t kRowsPacked = 1024;         // rows of A packed at a time: 2 MiB of f32
constexpr size_t kPanelsPerBlock = 4;        // a block's slice of A stays in the second-level cache
constexpr size_t kParallelFlops = size_t{1} << 22;

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

// One tile: `rows` rows of C from one panel of A and one of B.
template <class T, int rows>
__attribute__((noinline)) void tile(size_t depth, const T* a, const T* b, T* c, ptrdiff_t c_row, bool first, bool last) {
  using V = typename Vector<T>::V;
  constexpr int w = V::width;
  V sum[rows * kVectors];
  repeat<rows * kVectors>([&](auto i) DW_LAMBDA { sum[i] = V::zero(); });
  repeat<rows>([&](auto i) DW_LAMBDA {
    repeat<kVectors>([&](auto j) DW_LAMBDA { __builtin_prefetch(c + i * c_row + j * w, 1); });
  });
  for (size_t k = 0; k < depth; ++k) {
    V column[kVectors];
    repeat<kVectors>([&](auto j) DW_LAMBDA { column[j] = V::load(b + j * w); });
    repeat<rows>([&](auto i) DW_LAMBDA {
      const V factor = V::set1(a[i]);
      repeat<kVectors>([&](auto j) DW_LAMBDA { sum[i * kVectors + j] = fma(factor, column[j], sum[i * kVectors + j]); });
    });
    a += rows;
    b += kVectors * w;
  }
  repeat<rows>([&](auto i) DW_LAMBDA {
    T* row = c + i * c_row;
    repeat<kVectors>([&](auto j) DW_LAMBDA {
      V value = sum[i * kVectors + j];
      if (!first) value = V::load(row + j * w) + value;
      store(row + j * w, last ? canonical(value) : value);
    });
  });
}

template <class T>
using Tile = void (*)(size_t, const T*, const T*, T*, ptrdiff_t, bool, bool);

// The tile for a height: Tiles<T>::of_height[rows - 1].
template <class T, class = typename MakeIndices<kRows>::type>
struct Tiles;
template <class T, int... I>
struct Tiles<T, Indices<I...>> {
  static constexpr Tile<T> of_height[] = {tile<T, I + 1>...};
};

// A tile with fewer columns than its panel: computed whole beside C, then the columns that exist are taken over.
template <class T>
void edge_tile(size_t depth, const T* a, const T* b, T* c, ptrdiff_t c_row, size_t rows, size_t columns, bool first,
               bool last) {
  using V = typename Vector<T>::V;
  constexpr size_t w = size_t(kColumns<T>);
  alignas(64) T local[size_t(kRows) * w];
  Tiles<T>::of_height[rows - 1](depth, a, b, local, ptrdiff_t(w), true, false);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; j += size_t(V::width)) {
      T* to = c + ptrdiff_t(i) * c_row + j;
      V value = V::load(local + i * w + j);
      if (!first) value = V::load_partial(to, columns - j, T(0)) + value;
      store_partial(to, columns - j, last ? canonical(value) : value);
    }
  }
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

// Rows are cut into panels of nearly equal height, so that no tile is mostly padding: panel p starts at row_of(p).
size_t panels(size_t rows) { return parts(rows, size_t(kRows)); }
size_t row_of(size_t panel, size_t rows) { return panel * rows / panels(rows); }

template <class T>
struct Four {
  typedef T V __attribute__((vector_size(4 * sizeof(T))));
};

// out[k * width + i] = from[i * lane + k * along] for i < lanes; zeros up to width.
template <class T>
void pack(T* out, size_t width, const T* from, ptrdiff_t lane, ptrdiff_t along, size_t lanes, size_t depth) {
  using V = typename Vector<T>::V;
  using V4 = typename Four<T>::V;
  if (lanes < width) memset(out, 0, width * depth * sizeof(T));
  if (lane == 1) {
    for (size_t k = 0; k < depth; ++k, from += along, out += width)
      for (size_t i = 0; i < lanes; i += size_t(V::width))
        store_partial(out + i, lanes - i, V::load_partial(from + i, lanes - i, T(0)));
    return;
  }
  size_t k = 0;
  if (along == 1 && lanes >= 4) {
    // Four lanes and four k at a time are a 4 × 4 transpose; the last group of lanes may overlap the one before it.
    for (; k + 4 <= depth; k += 4) {
      for (size_t i = 0; i < lanes; i += 4) {
        const size_t start = i + 4 <= lanes ? i : lanes - 4;
        V4 r0, r1, r2, r3;
        const T* p = from + ptrdiff_t(start) * lane + ptrdiff_t(k);
        memcpy(&r0, p, sizeof(V4));
        memcpy(&r1, p + lane, sizeof(V4));
        memcpy(&r2, p + 2 * lane, sizeof(V4));
        memcpy(&r3, p + 3 * lane, sizeof(V4));
        const V4 t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), t1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
        const V4 t2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
        r0 = __builtin_shufflevector(t0, t2, 0, 1, 4, 5);
        r1 = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
        r2 = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
        r3 = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
        T* to = out + k * width + start;
        memcpy(to, &r0, sizeof(V4));
        memcpy(to + width, &r1, sizeof(V4));
        memcpy(to + 2 * width, &r2, sizeof(V4));
        memcpy(to + 3 * width, &r3, sizeof(V4));
      }
    }
  }
  for (; k < depth; ++k)
    for (size_t i = 0; i < lanes; ++i) out[k * width + i] = from[ptrdiff_t(i) * lane + ptrdiff_t(k) * along];
}

template <class T>
void pack_b(void* context, size_t panel) {
  constexpr size_t w = size_t(kColumns<T>);
  const auto& s = *static_cast<const Step<T>*>(context);
  const auto& p = *s.product;
  const size_t column = s.column + panel * w;
  pack(s.packed_b + panel * w * s.depth, w, p.b + ptrdiff_t(s.k) * p.b_row + ptrdiff_t(column) * p.b_column, p.b_column,
       p.b_row, least(w, s.column + s.columns - column), s.depth);
}

// One block: a slice of kPanelsPerBlock panels of A times everything packed of B.
template <class T>
void multiply(void* context, size_t block) {
  constexpr size_t w = size_t(kColumns<T>);
  const auto& s = *static_cast<const Step<T>*>(context);
  const auto& p = *s.product;
  const size_t panel_first = block * kPanelsPerBlock;
  const size_t panel_end = least(panel_first + kPanelsPerBlock, panels(s.rows));
  for (size_t panel = panel_first; panel < panel_end; ++panel) {
    const size_t row = row_of(panel, s.rows), rows = row_of(panel + 1, s.rows) - row;
    pack(s.packed_a + row * s.depth, rows, p.a + ptrdiff_t(s.row + row) * p.a_row + ptrdiff_t(s.k) * p.a_column, p.a_row,
         p.a_column, rows, s.depth);
  }
  for (size_t j = 0; j < s.columns; j += w) {
    const T* b = s.packed_b + j * s.depth;
    const size_t columns = least(w, s.columns - j);
    for (size_t panel = panel_first; panel < panel_end; ++panel) {
      const size_t row = row_of(panel, s.rows), rows = row_of(panel + 1, s.rows) - row;
      const T* a = s.packed_a + row * s.depth;
      T* c = p.c + ptrdiff_t(s.row + row) * p.c_row + ptrdiff_t(s.column + j);
      for (size_t k = 0; k < s.depth; k += kDepth) {
        const size_t depth = least(kDepth, s.depth - k);
        const bool first = s.first && k == 0, last = s.last && k + depth == s.depth;
        if (columns == w) Tiles<T>::of_height[rows - 1](depth, a + k * rows, b + k * w, c, p.c_row, first, last);
        else edge_tile(depth, a + k * rows, b + k * w, c, p.c_row, rows, columns, first, last);
      }
    }
  }
}

template <class T>
size_t packed_columns(size_t n) {
  return parts(least(n, kColumnsPacked), size_t(kColumns<T>)) * size_t(kColumns<T>);
}

template <class T>
size_t matmul_workspace(size_t m, size_t n, size_t k) {
  if (m == 0 || n == 0 || k == 0) return 0;
  const size_t elements = (least(m, kRowsPacked) + packed_columns<T>(n)) * least(k, kDepthPacked);
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
  const size_t b_bytes = packed_columns<T>(p.n) * least(p.k, kDepthPacked) * sizeof(T);
  s.packed_a = reinterpret_cast<T*>(static_cast<char*>(workspace) + (b_bytes + 63) / 64 * 64);
  for (s.column = 0; s.column < p.n; s.column += kColumnsPacked) {
    s.columns = least(kColumnsPacked, p.n - s.column);
    for (s.k = 0; s.k < p.k; s.k += kDepthPacked) {
      s.depth = least(kDepthPacked, p.k - s.k);
      s.first = s.k == 0;
      s.last = s.k + s.depth == p.k;
      dw_parallel_n(parts(s.columns, size_t(kColumns<T>)), pack_b<T>, &s, threads);
      for (s.row = 0; s.row < p.m; s.row += kRowsPacked) {
        s.rows = least(kRowsPacked, p.m - s.row);
        dw_parallel_n(parts(panels(s.rows), kPanelsPerBlock), multiply<T>, &s, threads);
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

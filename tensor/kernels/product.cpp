// Matrix products (tensor/product_ref.py is the readable twin).
//
// C = ((p0 + p1) + p2) + …, p_b = the chain of fused multiply-adds over k in block b of 256, from +0. Only the split of
// k is part of the result; how rows and columns are cut is free, because every element has its own chain.
//
// Two ways lead to a tile (product_tile.hpp). *Direct*: the tile reads A where it lies, and B too unless its columns are
// apart; nothing is allocated, which is best while B stays in the second-level cache. *Packed*: factors are copied k
// after k, A in panels of at most kRows rows, of heights as equal as they can be, B in panels of kColumns columns.
#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "product_batch.hpp"
#include "product_pack.hpp"

namespace DW_ISA {
namespace {

using droveway::Product;

constexpr size_t kDepthPacked = 2 * kDepth;  // two blocks of k at a time halve the traffic of C
constexpr size_t kColumnsPacked = 1024;      // columns of B packed at a time: 2 MiB of f32
constexpr size_t kRowsPacked = 1024;         // rows of A packed at a time: 2 MiB of f32
constexpr size_t kPanelsPerBlock = 2;        // of A: few, so that threads end together
constexpr size_t kPanelsDirect = 2;          // finer, because nothing is packed for a block
constexpr size_t kPanelsTransposed = 5;      // but where B is
constexpr size_t kColumnsDirect = 512;
constexpr size_t kDirectBytes = size_t{1} << 19;  // of B: larger ones are packed
constexpr size_t kRowBlocksWhole = 8;             // so many blocks of rows take all columns, if something follows
constexpr size_t kRowsDirect = 64;                // fewer rows never pay for packing B
constexpr double kParallelFlops = double(size_t{1} << 22);

// Rows are cut into panels of nearly equal height, so that no tile is mostly padding: panel p starts at row_of(p).
size_t panels(size_t rows) { return parts(rows, size_t(kRows)); }
size_t row_of(size_t panel, size_t rows) { return panel * rows / panels(rows); }

Dtype sum_dtype(const Product& p) { return p.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }
bool is_native(const Product& p) { return p.dtype == Dtype::f32 || p.dtype == Dtype::f64; }
int threads_for(const Product& p) {
  return double(p.m) * double(p.n) * double(p.k) * double(product_count(p)) < kParallelFlops ? 1 : 1024;
}
char* element(const Product& p, size_t batch, size_t row, size_t column) {
  const ptrdiff_t at = batch_offset(p, p.c_batch, batch) + ptrdiff_t(row) * p.c_row + ptrdiff_t(column);
  return static_cast<char*>(p.c) + at * ptrdiff_t(dtype_size(p.dtype));
}

// --- direct -----------------------------------------------------------------------------------------------------------

template <class T>
struct DirectTile {
  size_t depth;
  const T* a;
  ptrdiff_t a_row, a_column;
  const T* b;
  ptrdiff_t b_step;
  T* c;
  ptrdiff_t c_row;
  size_t columns;
  bool first, last;
};

template <class T, int rows>
__attribute__((noinline)) void direct_tile(const DirectTile<T>& t) {
  Lanes<T> sum[rows * kVectors];
  const StridedRows<T, rows> a(t.a, t.a_row, t.a_column);
  if (t.columns == size_t(kColumns<T>)) {
    chains<T, rows, kVectors>(sum, t.depth, a, WholeColumns<T>{t.b, t.b_step});
    take_over<T, rows, kVectors>(sum, t.c, t.c_row, t.first, t.last);
  } else {
    chains<T, rows, kVectors>(sum, t.depth, a, FewColumns<T>{t.b, t.b_step, t.columns});
    take_over_some<T, rows, kVectors>(sum, t.c, t.c_row, t.columns, t.first, t.last);
  }
}

// One row of C is one chain a column: only many columns at a time hide the latency of a fused multiply-add.
constexpr int kVectorsWide = 4 * kVectors;
template <class T>
constexpr int kColumnsWide = kVectorsWide * Lanes<T>::width;

template <class T>
__attribute__((noinline)) void wide_tile(const DirectTile<T>& t) {
  Lanes<T> sum[kVectorsWide];
  chains<T, 1, kVectorsWide>(sum, t.depth, StridedRows<T, 1>(t.a, t.a_row, t.a_column), WholeColumns<T>{t.b, t.b_step});
  take_over<T, 1, kVectorsWide>(sum, t.c, t.c_row, t.first, t.last);
}

// The tile for a height: DirectTiles<T>::of_height[rows - 1].
template <class T, class = typename MakeIndices<kRows>::type>
struct DirectTiles;
template <class T, int... I>
struct DirectTiles<T, Indices<I...>> {
  static constexpr void (*of_height[])(const DirectTile<T>&) = {direct_tile<T, I + 1>...};
};

struct DirectWork {
  const Product* product;
  size_t panels_per_block, row_blocks, column_blocks;
  size_t columns;  // of a block
};

template <class T>
void direct_block(void* context, size_t block) {
  const auto& work = *static_cast<const DirectWork*>(context);
  const Product& p = *work.product;
  const size_t batch = block / (work.row_blocks * work.column_blocks);
  const size_t column_block = block % work.column_blocks, row_block = block / work.column_blocks % work.row_blocks;
  const size_t panel_first = row_block * work.panels_per_block;
  const size_t panel_end = least(panel_first + work.panels_per_block, panels(p.m));
  const size_t column_begin = column_block * work.columns, columns_end = least(column_begin + work.columns, p.n);
  const T* a = static_cast<const T*>(p.a) + batch_offset(p, p.a_batch, batch);
  const T* b = static_cast<const T*>(p.b) + batch_offset(p, p.b_batch, batch);
  T* c = static_cast<T*>(p.c) + batch_offset(p, p.c_batch, batch);
  alignas(64) T packed[kDepth * size_t(kColumns<T>)];
  for (size_t column_first = column_begin; column_first < columns_end; column_first += kColumnsDirect) {
    const size_t column_end = least(column_first + kColumnsDirect, columns_end);
    for (size_t k = 0; k < p.k; k += kDepth) {
      DirectTile<T> t;
      t.depth = least(kDepth, p.k - k);
      t.a_row = p.a_row;
      t.a_column = p.a_column;
      t.c_row = p.c_row;
      t.first = k == 0;
      t.last = k + t.depth == p.k;
      for (size_t j = column_first; j < column_end; j += t.columns) {
        const T* from = b + ptrdiff_t(k) * p.b_row + ptrdiff_t(j) * p.b_column;
        const bool wide = p.m == 1 && p.b_column == 1 && column_end - j >= size_t(kColumnsWide<T>);
        t.columns = wide ? size_t(kColumnsWide<T>) : least(size_t(kColumns<T>), column_end - j);
        t.b = from;
        t.b_step = p.b_row;
        if (p.b_column != 1) {
          pack(packed, size_t(kColumns<T>), from, p.b_column, p.b_row, t.columns, t.depth);
          t.b = packed;
          t.b_step = kColumns<T>;
        }
        for (size_t panel = panel_first; panel < panel_end; ++panel) {
          const size_t row = row_of(panel, p.m), rows = row_of(panel + 1, p.m) - row;
          t.a = a + ptrdiff_t(row) * p.a_row + ptrdiff_t(k) * p.a_column;
          t.c = c + ptrdiff_t(row) * p.c_row + ptrdiff_t(j);
          if (wide) wide_tile<T>(t);
          else DirectTiles<T>::of_height[rows - 1](t);
        }
      }
    }
  }
  const size_t row = row_of(panel_first, p.m), rows = row_of(panel_end, p.m) - row;
  finish_rows(p, batch, row, rows, column_begin, columns_end - column_begin);
}

bool is_direct(const Product& p) {
  if (!is_native(p)) return false;
  if (p.m <= kRowsDirect) return true;
  const size_t size = dtype_size(p.dtype);
  return p.b_column == 1 && p.k <= kDirectBytes / size / p.n;
}

template <class T>
void direct(const Product& p) {
  const size_t panels_per_block = p.b_column == 1 ? kPanelsDirect : kPanelsTransposed;
  const size_t row_blocks = parts(panels(p.m), panels_per_block);
  const size_t columns = p.finish != nullptr && row_blocks >= kRowBlocksWhole ? p.n : kColumnsDirect;
  DirectWork work{&p, panels_per_block, row_blocks, parts(p.n, columns), columns};
  dw_parallel_n(product_count(p) * work.row_blocks * work.column_blocks, direct_block<T>, &work, threads_for(p));
}

// --- packed -----------------------------------------------------------------------------------------------------------

template <class T>
struct PackedTile {
  size_t depth;
  const T* a;
  const T* b;
  T* c;
  ptrdiff_t c_row;
  bool first, last;
};

template <class T, int rows>
__attribute__((noinline)) void packed_tile(const PackedTile<T>& t) {
  Lanes<T> sum[rows * kVectors];
  repeat<rows>([&](auto i) DW_LAMBDA {
    repeat<kVectors>([&](auto j) DW_LAMBDA { __builtin_prefetch(t.c + i * t.c_row + j * Lanes<T>::width, 1); });
  });
  chains<T, rows, kVectors>(sum, t.depth, PackedRows<T, rows>{t.a}, WholeColumns<T>{t.b, kColumns<T>});
  take_over<T, rows, kVectors>(sum, t.c, t.c_row, t.first, t.last);
}

template <class T, class = typename MakeIndices<kRows>::type>
struct PackedTiles;
template <class T, int... I>
struct PackedTiles<T, Indices<I...>> {
  static constexpr void (*of_height[])(const PackedTile<T>&) = {packed_tile<T, I + 1>...};
};

// A tile with fewer columns than its panel: computed whole beside C, then the columns that exist are taken over.
template <class T>
void edge_tile(const PackedTile<T>& t, size_t rows, size_t columns) {
  using V = Lanes<T>;
  constexpr size_t w = size_t(kColumns<T>);
  alignas(64) T local[size_t(kRows) * w];
  PackedTiles<T>::of_height[rows - 1]({t.depth, t.a, t.b, local, ptrdiff_t(w), true, false});
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; j += size_t(V::width)) {
      T* to = t.c + ptrdiff_t(i) * t.c_row + j;
      V value = V::load(local + i * w + j);
      if (!t.first) value = V::load_partial(to, columns - j, T(0)) + value;
      store_partial(to, columns - j, t.last ? canonical(value) : value);
    }
  }
}

// A tile of whole numbers: a block of 256 products of bytes is below 2^24, so that its chain in f32 is exact.
void integer_tile(const PackedTile<float>& t, size_t rows, uint32_t* c, size_t columns) {
  constexpr size_t w = size_t(kColumns<float>);
  alignas(64) float local[size_t(kRows) * w];
  PackedTiles<float>::of_height[rows - 1]({t.depth, t.a, t.b, local, ptrdiff_t(w), true, false});
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; j += 16) {
      uint32_t* to = c + ptrdiff_t(i) * t.c_row + j;
      U32x16 value = to_i32(F32x16::load(local + i * w + j));
      if (!t.first) value = U32x16::load_partial(to, columns - j, 0) + value;
      store_partial(to, columns - j, value);
    }
  }
}

// What the blocks of one region share.
template <class T>
struct Step {
  const Product* product;
  size_t batch;
  Factor a, b;
  T* packed_a;
  T* packed_b;
  T* c;  // where sums go: C itself, or the workspace where C is narrower
  ptrdiff_t c_row;
  size_t row, rows;        // rows of A in this step
  size_t column, columns;  // columns of B
  size_t k, depth;
  bool first, last;
};

template <class T>
void pack_b(void* context, size_t panel) {
  constexpr size_t w = size_t(kColumns<T>);
  const auto& s = *static_cast<const Step<T>*>(context);
  const size_t column = panel * w;
  pack_factor(s.packed_b + column * s.depth, w, s.b, s.column + column, s.k, least(w, s.columns - column), s.depth);
}

// One block: a slice of kPanelsPerBlock panels of A times everything packed of B.
template <class T>
void multiply(void* context, size_t block) {
  constexpr size_t w = size_t(kColumns<T>);
  const auto& s = *static_cast<const Step<T>*>(context);
  const Product& p = *s.product;
  const size_t panel_first = block * kPanelsPerBlock;
  const size_t panel_end = least(panel_first + kPanelsPerBlock, panels(s.rows));
  for (size_t panel = panel_first; panel < panel_end; ++panel) {
    const size_t row = row_of(panel, s.rows), rows = row_of(panel + 1, s.rows) - row;
    pack_factor(s.packed_a + row * s.depth, rows, s.a, s.row + row, s.k, rows, s.depth);
  }
  for (size_t j = 0; j < s.columns; j += w) {
    const T* b = s.packed_b + j * s.depth;
    const size_t columns = least(w, s.columns - j);
    for (size_t panel = panel_first; panel < panel_end; ++panel) {
      const size_t row = row_of(panel, s.rows), rows = row_of(panel + 1, s.rows) - row;
      const T* a = s.packed_a + row * s.depth;
      const ptrdiff_t at = ptrdiff_t(s.row + row) * s.c_row + ptrdiff_t(s.column + j);
      for (size_t k = 0; k < s.depth; k += kDepth) {
        const size_t depth = least(kDepth, s.depth - k);
        const PackedTile<T> t{depth,   a + k * rows,     b + k * w,
                              s.c + at, s.c_row, s.first && k == 0, s.last && k + depth == s.depth};
        if constexpr (sizeof(T) == 4) {
          if (p.dtype == Dtype::i32) {
            integer_tile(t, rows, reinterpret_cast<uint32_t*>(s.c) + at, columns);
            continue;
          }
        }
        if (columns == w) PackedTiles<T>::of_height[rows - 1](t);
        else edge_tile(t, rows, columns);
      }
    }
  }
  if (!s.last || (p.dtype != Dtype::i32 && !is_native(p))) return;
  const size_t row = row_of(panel_first, s.rows), rows = row_of(panel_end, s.rows) - row;
  finish_rows(p, s.batch, s.row + row, rows, s.column, s.columns);
}

// Sums of f32 rounded once to the narrower type of C.
struct Narrowing {
  const Product* product;
  size_t batch;
  const float* sums;
};
void narrow_rows(void* context, size_t row) {
  const auto& work = *static_cast<const Narrowing*>(context);
  const Product& p = *work.product;
  const droveway::ElementwiseLoop convert = cast(int(Dtype::f32), int(p.dtype));
  convert({.out = element(p, work.batch, row, 0),
           .in = {work.sums + row * p.n, nullptr, nullptr},
           .n = p.n,
           .op = droveway::op_cast});
  finish_rows(p, work.batch, row, 1, 0, p.n);
}

constexpr size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
template <class T>
size_t packed_b_bytes(const Product& p) {
  const size_t columns = parts(least(p.n, kColumnsPacked), size_t(kColumns<T>)) * size_t(kColumns<T>);
  return aligned(columns * least(p.k, kDepthPacked) * sizeof(T));
}
template <class T>
size_t packed_a_bytes(const Product& p) {
  return aligned(least(p.m, kRowsPacked) * least(p.k, kDepthPacked) * sizeof(T));
}
size_t sums_bytes(const Product& p) {
  return is_native(p) || p.dtype == Dtype::i32 ? 0 : aligned(p.m * p.n * sizeof(float));
}
template <class T>
size_t packed_workspace(const Product& p) {
  return packed_b_bytes<T>(p) + packed_a_bytes<T>(p) + sums_bytes(p);
}

template <class T>
void packed(const Product& p, char* workspace) {
  const int threads = threads_for(p);
  Step<T> s;
  s.product = &p;
  s.packed_b = reinterpret_cast<T*>(workspace);
  s.packed_a = reinterpret_cast<T*>(workspace + packed_b_bytes<T>(p));
  T* sums = reinterpret_cast<T*>(workspace + packed_b_bytes<T>(p) + packed_a_bytes<T>(p));
  const bool own_sums = sums_bytes(p) != 0;
  for (s.batch = 0; s.batch < product_count(p); ++s.batch) {
    const ptrdiff_t a_bytes = ptrdiff_t(dtype_size(p.a_dtype)), b_bytes = ptrdiff_t(dtype_size(p.b_dtype));
    s.a = {static_cast<const char*>(p.a) + batch_offset(p, p.a_batch, s.batch) * a_bytes, p.a_dtype, p.a_row, p.a_column};
    s.b = {static_cast<const char*>(p.b) + batch_offset(p, p.b_batch, s.batch) * b_bytes, p.b_dtype, p.b_column, p.b_row};
    s.c = own_sums ? sums : reinterpret_cast<T*>(element(p, s.batch, 0, 0));
    s.c_row = own_sums ? ptrdiff_t(p.n) : p.c_row;
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
    if constexpr (sizeof(T) == 4) {
      if (own_sums) {
        Narrowing work{&p, s.batch, sums};
        dw_parallel_n(p.m, narrow_rows, &work, threads);
      }
    }
  }
}

// A · x for a column x is xᵀ · Aᵀ: the same chains, with rows of A as columns of a wide product.
Product turned(const Product& given) {
  Product p = given;
  if (p.n != 1 || p.m == 1 || p.c_row != 1 || p.bias != nullptr || p.finish != nullptr || !is_native(p)) return p;
  p.m = 1;
  p.n = given.m;
  p.a = given.b;
  p.a_row = 0;
  p.a_column = given.b_row;
  p.a_batch = given.b_batch;
  p.b = given.a;
  p.b_row = given.a_column;
  p.b_column = given.a_row;
  p.b_batch = given.a_batch;
  return p;
}

}  // namespace

size_t float_product_workspace(const droveway::Product& given) {
  const Product p = turned(given);
  if (is_direct(p)) return 0;
  return sum_dtype(p) == Dtype::f64 ? packed_workspace<double>(p) : packed_workspace<float>(p);
}

void float_product(const droveway::Product& given, void* workspace) {
  FpGuard guard;
  const Product p = turned(given);
  if (is_direct(p)) {
    if (p.dtype == Dtype::f64) direct<double>(p);
    else direct<float>(p);
  } else if (sum_dtype(p) == Dtype::f64) {
    packed<double>(p, static_cast<char*>(workspace));
  } else {
    packed<float>(p, static_cast<char*>(workspace));
  }
}

}  // namespace DW_ISA

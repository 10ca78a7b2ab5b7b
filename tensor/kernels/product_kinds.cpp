// Which way a product is computed, by the type of its result; whole numbers and complex ones.
#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "droveway/parallel.hpp"
#include "product_batch.hpp"

namespace DW_ISA {
namespace {

using droveway::Dtype;
using droveway::Product;

constexpr size_t kParallelWork = size_t{1} << 20;

int threads_for(const Product& p) { return double(p.m) * double(p.n) * double(p.k) < double(kParallelWork) ? 1 : 1024; }

// --- whole numbers: any order gives the same, because sums wrap ---------------------------------------------------------

struct Rows {
  const Product* product;
  size_t batch;
};

// U: unsigned, as wide as the element; W: what the language computes it in.
template <class U, class W>
void whole_row(void* context, size_t row) {
  const auto& work = *static_cast<const Rows*>(context);
  const Product& p = *work.product;
  const U* a = static_cast<const U*>(p.a) + batch_offset(p, p.a_batch, work.batch) + ptrdiff_t(row) * p.a_row;
  const U* b = static_cast<const U*>(p.b) + batch_offset(p, p.b_batch, work.batch);
  U* c = static_cast<U*>(p.c) + batch_offset(p, p.c_batch, work.batch) + ptrdiff_t(row) * p.c_row;
  memset(c, 0, p.n * sizeof(U));
  for (size_t k = 0; k < p.k; ++k) {
    const W factor = a[ptrdiff_t(k) * p.a_column];
    const U* from = b + ptrdiff_t(k) * p.b_row;
    if (p.b_column == 1) {
      for (size_t j = 0; j < p.n; ++j) c[j] = U(c[j] + factor * from[j]);
    } else {
      for (size_t j = 0; j < p.n; ++j) c[j] = U(c[j] + factor * from[ptrdiff_t(j) * p.b_column]);
    }
  }
  finish_rows(p, work.batch, row, 1, 0, p.n);
}

void whole(const Product& p) {
  const size_t size = dtype_size(p.dtype);
  const dw_block_fn row = size == 1   ? whole_row<uint8_t, uint32_t>
                          : size == 2 ? whole_row<uint16_t, uint32_t>
                          : size == 4 ? whole_row<uint32_t, uint32_t>
                                      : whole_row<uint64_t, uint64_t>;
  Rows work{&p, 0};
  for (; work.batch < product_count(p); ++work.batch) dw_parallel_n(p.m, row, &work, threads_for(p));
}

// --- complex numbers: (ArBr − AiBi) + (ArBi + AiBr)i, four real products, each sum rounded once more ---------------------

// The real product of one part of each factor, of product `batch`, into contiguous rows.
template <class T>
Product part(const Product& p, size_t batch, ptrdiff_t a_part, ptrdiff_t b_part, T* out) {
  constexpr Dtype dtype = sizeof(T) == 4 ? Dtype::f32 : Dtype::f64;
  const T* a = static_cast<const T*>(p.a) + 2 * batch_offset(p, p.a_batch, batch) + a_part;
  const T* b = static_cast<const T*>(p.b) + 2 * batch_offset(p, p.b_batch, batch) + b_part;
  return {p.m,   p.n,   p.k,   a,     2 * p.a_row, 2 * p.a_column, b, 2 * p.b_row, 2 * p.b_column, out, ptrdiff_t(p.n),
          dtype, dtype, dtype};
}

template <class T>
size_t sums_bytes(const Product& p) {
  return (p.m * p.n * sizeof(T) + 63) / 64 * 64;
}
template <class T>
size_t complex_workspace(const Product& p) {
  return 2 * sums_bytes<T>(p) + float_product_workspace(part<T>(p, 0, 0, 0, nullptr));
}

template <class T>
void complex(const Product& p, char* workspace) {
  T* first = reinterpret_cast<T*>(workspace);
  T* second = reinterpret_cast<T*>(workspace + sums_bytes<T>(p));
  char* packing = workspace + 2 * sums_bytes<T>(p);
  for (size_t batch = 0; batch < product_count(p); ++batch) {
    T* c = static_cast<T*>(p.c) + 2 * batch_offset(p, p.c_batch, batch);
    for (ptrdiff_t imaginary = 0; imaginary < 2; ++imaginary) {
      float_product(part<T>(p, batch, 0, imaginary, first), packing);
      float_product(part<T>(p, batch, 1, 1 - imaginary, second), packing);
      for (size_t i = 0; i < p.m; ++i) {
        for (size_t j = 0; j < p.n; ++j) {
          const T x = first[i * p.n + j], y = second[i * p.n + j];
          c[2 * (ptrdiff_t(i) * p.c_row + ptrdiff_t(j)) + imaginary] = canonical(imaginary == 1 ? x + y : x - y);
        }
      }
    }
    finish_rows(p, batch, 0, p.m, 0, p.n);
  }
}

bool is_empty(const Product& p) { return p.m == 0 || p.n == 0 || product_count(p) == 0; }
bool is_whole(const Product& p) {
  return is_int(p.dtype) && !(p.dtype == Dtype::i32 && (p.a_dtype != Dtype::i32 || p.b_dtype != Dtype::i32));
}

}  // namespace

size_t product_workspace(const droveway::Product& p) {
  if (is_empty(p) || p.k == 0 || is_whole(p)) return 0;
  if (p.dtype == Dtype::c64) return complex_workspace<float>(p);
  if (p.dtype == Dtype::c128) return complex_workspace<double>(p);
  return float_product_workspace(p);
}

void product(const droveway::Product& p, void* workspace) {
  if (is_empty(p)) return;
  FpGuard guard;
  if (p.k == 0) {
    for (size_t batch = 0; batch < product_count(p); ++batch) {
      for (size_t i = 0; i < p.m; ++i) {
        const ptrdiff_t at = batch_offset(p, p.c_batch, batch) + ptrdiff_t(i) * p.c_row;
        memset(static_cast<char*>(p.c) + at * ptrdiff_t(dtype_size(p.dtype)), 0, p.n * dtype_size(p.dtype));
      }
      finish_rows(p, batch, 0, p.m, 0, p.n);
    }
  } else if (is_whole(p)) {
    whole(p);
  } else if (p.dtype == Dtype::c64) {
    complex<float>(p, static_cast<char*>(workspace));
  } else if (p.dtype == Dtype::c128) {
    complex<double>(p, static_cast<char*>(workspace));
  } else {
    float_product(p, workspace);
  }
}

}  // namespace DW_ISA

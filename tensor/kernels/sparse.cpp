// Sparse times dense, and products at chosen places. Twin: tensor/twins/sparse_ref.py.
#include "sparse.hpp"

#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

using droveway::SampledProduct;
using droveway::SparseProduct;

constexpr size_t kBlockRows = 64;     // block rows a thread takes at a time
constexpr size_t kBlockPlaces = 1024; // places a thread takes at a time
constexpr size_t kDepth = 256;        // as in the matrix product
constexpr size_t kSide = 16;          // places worked on together

// An index that was checked before, and is no more if another thread has changed it since: 0 then.
DW_INLINE size_t inside(const int64_t* index, size_t bound) {
  const size_t i = size_t(*index);
  return i < bound ? i : 0;
}

template <class T>
void product_block(void* context, size_t block) {
  FpGuard guard;
  const SparseProduct<T>& p = *static_cast<const SparseProduct<T>*>(context);
  const size_t first = block * kBlockRows;
  const size_t last = first + kBlockRows < p.block_rows ? first + kBlockRows : p.block_rows;
  for (size_t row = first; row < last; ++row) {
    for (size_t i = 0; i < p.r; ++i) {
      T* __restrict out = p.out + ptrdiff_t(row * p.r + i) * p.out_row;
      for (size_t j = 0; j < p.n; ++j) out[j] = T(0);
      const size_t begin = inside(p.starts + row, p.blocks + 1), end = inside(p.starts + row + 1, p.blocks + 1);
      for (size_t e = begin; e < end; ++e) {
        const T* values = p.values + (e * p.r + i) * p.c;
        const size_t column = inside(p.columns + e, p.block_columns) * p.c;
        for (size_t l = 0; l < p.c; ++l) {
          const T value = values[l];
          const T* __restrict x = p.dense + ptrdiff_t(column + l) * p.dense_row;
          for (size_t j = 0; j < p.n; ++j) out[j] = fma1(value, x[j], out[j]);
        }
      }
      for (size_t j = 0; j < p.n; ++j) out[j] = canonical(out[j]);
    }
  }
}

template <class T>
void sampled_block(void* context, size_t block) {
  FpGuard guard;
  const SampledProduct<T>& p = *static_cast<const SampledProduct<T>*>(context);
  const size_t first = block * kBlockPlaces;
  const size_t last = first + kBlockPlaces < p.count ? first + kBlockPlaces : p.count;
  for (size_t e = first; e < last; e += kSide) {
    const T* a[kSide];
    const T* b[kSide];
    T total[kSide] = {}, chain[kSide];
    for (size_t l = 0; l < kSide; ++l) {
      const size_t at = e + l < last ? e + l : e;
      a[l] = p.a + ptrdiff_t(inside(p.rows + at, p.a_rows)) * p.a_row;
      b[l] = p.b + ptrdiff_t(inside(p.columns + at, p.b_columns)) * p.b_column;
    }
    for (size_t start = 0; start < p.k; start += kDepth) {
      const size_t end = start + kDepth < p.k ? start + kDepth : p.k;
      for (size_t l = 0; l < kSide; ++l) chain[l] = T(0);
      for (size_t k = start; k < end; ++k)
        for (size_t l = 0; l < kSide; ++l)
          chain[l] = fma1(a[l][ptrdiff_t(k) * p.a_column], b[l][ptrdiff_t(k) * p.b_row], chain[l]);
      for (size_t l = 0; l < kSide; ++l) total[l] = start == 0 ? chain[l] : total[l] + chain[l];
    }
    for (size_t l = 0; l < kSide && e + l < last; ++l) p.out[e + l] = canonical(total[l]);
  }
}

template <class T>
void product(const SparseProduct<T>& p) {
  dw_parallel((p.block_rows + kBlockRows - 1) / kBlockRows, product_block<T>, const_cast<SparseProduct<T>*>(&p));
}
template <class T>
void sampled(const SampledProduct<T>& p) {
  dw_parallel((p.count + kBlockPlaces - 1) / kBlockPlaces, sampled_block<T>, const_cast<SampledProduct<T>*>(&p));
}

}  // namespace

const droveway::SparseKernels sparse_kernels = {product<float>, product<double>, sampled<float>, sampled<double>};

}  // namespace DW_ISA

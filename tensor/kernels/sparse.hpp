// Products with sparse matrices: what bindings/sparse.cpp and sparse.cpp say to each other.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace droveway {

// out[m, n] = A · dense[k, n], A in blocks of r × c: those of block row i are starts[i] … starts[i + 1], each with its
// block column. An element of out is one chain of fused multiply-adds over the stored elements of its row, in the order
// in which they are stored, from +0. CSR has r = c = 1. Rows of dense and out are contiguous.
template <class T>
struct SparseProduct {
  size_t block_rows, r, c, n;
  size_t blocks, block_columns;  // so many are stored; dense has so many · c rows
  const T* values;  // [blocks, r, c]
  const int64_t* columns;
  const int64_t* starts;
  const T* dense;
  ptrdiff_t dense_row;
  T* out;
  ptrdiff_t out_row;
};

// out[e] = row rows[e] of a times column columns[e] of b, with the bits of the matrix product: blocks of 256 along k.
template <class T>
struct SampledProduct {
  size_t count, k;
  size_t a_rows, b_columns;
  const int64_t* rows;
  const int64_t* columns;
  const T* a;
  ptrdiff_t a_row, a_column;
  const T* b;
  ptrdiff_t b_row, b_column;
  T* out;
};

// All indices were checked by the caller; one that another thread changes meanwhile is not followed. out overlaps nothing.
struct SparseKernels {
  void (*product_f32)(const SparseProduct<float>& product);
  void (*product_f64)(const SparseProduct<double>& product);
  void (*sampled_f32)(const SampledProduct<float>& product);
  void (*sampled_f64)(const SampledProduct<double>& product);
};

}  // namespace droveway

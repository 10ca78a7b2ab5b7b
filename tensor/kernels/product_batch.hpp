// What all products share: the batch, and what is done to finished rows.
#pragma once
#include "kernels.hpp"

namespace DW_ISA {
namespace {

inline size_t product_count(const droveway::Product& p) {
  size_t n = 1;
  for (int d = 0; d < p.batch_dims; ++d) n *= size_t(p.batch_shape[d]);
  return n;
}

// Elements from the first product's factor (or result) to that of number `batch`, the last dimension counting fastest.
inline ptrdiff_t batch_offset(const droveway::Product& p, const int64_t* steps, size_t batch) {
  ptrdiff_t at = 0;
  for (int d = p.batch_dims - 1; d >= 0; --d) {
    const size_t size = size_t(p.batch_shape[d]);
    at += ptrdiff_t(batch % size) * ptrdiff_t(steps[d]);
    batch /= size;
  }
  return at;
}

// Bias and activation on finished rows of C: the loops of the elementwise operations, so that the bits are theirs.
inline void finish_rows(const droveway::Product& p, size_t batch, size_t row, size_t rows, size_t column, size_t columns) {
  using droveway::ElementwiseLoop;
  if (p.finish != nullptr) p.finish(p.finish_context, batch, row, rows, column, columns);
  if (p.bias == nullptr && p.activation < 0) return;
  const ElementwiseLoop add = p.bias != nullptr ? elementwise(droveway::op_add, int(p.dtype)) : nullptr;
  const ElementwiseLoop act = p.activation >= 0 ? elementwise(p.activation, int(p.dtype)) : nullptr;
  const char* bias = static_cast<const char*>(p.bias) + column * dtype_size(p.dtype);
  for (size_t i = row; i < row + rows; ++i) {
    const ptrdiff_t at = batch_offset(p, p.c_batch, batch) + ptrdiff_t(i) * p.c_row + ptrdiff_t(column);
    char* c = static_cast<char*>(p.c) + at * ptrdiff_t(dtype_size(p.dtype));
    if (add != nullptr) add({.out = c, .in = {c, bias, nullptr}, .n = columns, .op = droveway::op_add});
    if (act != nullptr) act({.out = c, .in = {c, nullptr, nullptr}, .n = columns, .op = p.activation});
  }
}

}  // namespace
}  // namespace DW_ISA

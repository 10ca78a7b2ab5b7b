// Declarations of the kernels of one instruction set, for table.cpp; contracts are in table.hpp.
#pragma once
#include "table.hpp"

namespace DW_ISA {
bool depth_order(const float* z, size_t n, uint32_t* order, void* workspace);
size_t depth_workspace(size_t n);
void pair_sums(const float* x, ptrdiff_t x_row, ptrdiff_t x_step, const float* y, ptrdiff_t y_row, ptrdiff_t y_step,
               size_t n, size_t d, bool squares, double* out);
void exact_search(const droveway::ExactSearch& search, void* workspace);
size_t exact_workspace(size_t n, size_t nq, size_t d, size_t k);
}  // namespace DW_ISA

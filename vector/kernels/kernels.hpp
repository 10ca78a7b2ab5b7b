// Declarations of the kernels of one instruction set, for table.cpp; contracts are in table.hpp.
#pragma once
#include "table.hpp"

namespace DW_ISA {
bool depth_order(const float* z, size_t n, uint32_t* order, void* workspace);
size_t depth_workspace(size_t n);
}  // namespace DW_ISA

// Declarations of the kernels of one instruction set, for table.cpp; contracts are in table.hpp.
#pragma once
#include "table.hpp"

namespace DW_ISA {
void to_bytes(const float* x, size_t n, uint8_t* out);
}  // namespace DW_ISA

// Declarations of the kernels of one instruction set, for table.cpp.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace DW_ISA {
float sum_f32(const float* x, ptrdiff_t stride, size_t n);
}

#include "droveway/fpenv.hpp"
#include "kernels.hpp"

namespace DW_ISA {
float sum_f32(const float* x, ptrdiff_t stride, size_t n) {
  FpGuard guard;
  float s = 0;
  for (size_t i = 0; i < n; ++i) s += x[ptrdiff_t(i) * stride];
  return s;
}
}  // namespace DW_ISA

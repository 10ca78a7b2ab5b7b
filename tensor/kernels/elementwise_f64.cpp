#include "elementwise_float.hpp"
#include "kernels.hpp"

namespace DW_ISA {
DW_LOOP_TABLE(elementwise_f64, double)
}  // namespace DW_ISA

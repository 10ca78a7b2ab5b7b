#include "elementwise_integer.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {
DW_LOOP_TABLE(loops_8, int8_t)
DW_LOOP_TABLE(loops_16, int16_t)
DW_LOOP_TABLE(loops_32, int32_t)
DW_LOOP_TABLE(loops_64, int64_t)
}  // namespace

ElementwiseLoop elementwise_signed(int op, int width) {
  switch (width) {
    case 8: return loops_8(op);
    case 16: return loops_16(op);
    case 32: return loops_32(op);
    default: return loops_64(op);
  }
}
}  // namespace DW_ISA

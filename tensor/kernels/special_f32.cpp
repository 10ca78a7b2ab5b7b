// Elementary and special functions of float32 in the table of elementwise operations.
#include "droveway/math_f32.hpp"
#include "elementwise_lanes.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

DW_LANES_UNARY(F32x16, float, exp, exp(x))
DW_LANES_UNARY(F32x16, float, log, log(x))
DW_LANES_UNARY(F32x16, float, sin, sin(x))
DW_LANES_UNARY(F32x16, float, cos, cos(x))
DW_LANES_UNARY(F32x16, float, tanh, tanh(x))
DW_LANES_UNARY(F32x16, float, erf, erf(x))
DW_LANES_BINARY(F32x16, float, pow, pow(x, y))

}  // namespace
DW_LOOP_TABLE(special_f32, float)
}  // namespace DW_ISA

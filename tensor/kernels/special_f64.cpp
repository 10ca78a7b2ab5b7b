// Elementary and special functions of float64 in the table of elementwise operations.
#include "droveway/math_f64.hpp"
#include "elementwise_lanes.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

DW_LANES_UNARY(F64x8, double, exp, exp(x))
DW_LANES_UNARY(F64x8, double, log, log(x))

}  // namespace
DW_LOOP_TABLE(special_f64, double)
}  // namespace DW_ISA

// Which loop runs an elementwise operation on a dtype.
#include "elementwise_lanes.hpp"
#include "kernels.hpp"

namespace DW_ISA {

ElementwiseLoop elementwise(int op, int dtype) {
  constexpr int f32 = 11, f64 = 12;
  ElementwiseLoop loop = nullptr;
  if (dtype == f32) {
    loop = elementwise_f32(op);
    if (loop == nullptr) loop = special_f32(op);
  } else if (dtype == f64) {
    loop = special_f64(op);
  }
  return loop;
}

ElementwiseLoop cast(int, int) { return nullptr; }

}  // namespace DW_ISA

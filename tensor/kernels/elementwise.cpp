// Which loop runs an elementwise operation on a dtype.
#include "elementwise_lanes.hpp"
#include "kernels.hpp"

namespace DW_ISA {

using droveway::Dtype;

namespace {

// Operations that leave every number of a dtype as it is.
bool changes_nothing(int op, Dtype d) {
  switch (op) {
    case droveway::op_abs:
    case droveway::op_relu: return is_unsigned_int(d);
    case droveway::op_floor:
    case droveway::op_ceil:
    case droveway::op_trunc:
    case droveway::op_round: return is_int(d);
    case droveway::op_conj: return is_int(d) || is_float(d);
    default: return false;
  }
}

ElementwiseLoop first(ElementwiseLoop a, ElementwiseLoop b) { return a != nullptr ? a : b; }

// abs, angle and sign of complex numbers are made from two functions of floats.
bool has_parts(int op, Dtype part) {
  if (op == droveway::op_abs || op == droveway::op_sign) return elementwise(droveway::op_hypot, int(part)) != nullptr;
  if (op == droveway::op_angle) return elementwise(droveway::op_atan2, int(part)) != nullptr;
  return true;
}

}  // namespace

ElementwiseLoop elementwise(int op, int dtype) {
  const Dtype d = Dtype(dtype);
  if (op == droveway::op_copy || changes_nothing(op, d)) return elementwise_copy(dtype_size(d));
  if (op == droveway::op_where) return elementwise_where(dtype_size(d));
  if (op == droveway::op_make_complex) return elementwise_pair(dtype);
  switch (d) {
    case Dtype::f32: return first(elementwise_f32(op), special_f32(op));
    case Dtype::f64: return first(elementwise_f64(op), special_f64(op));
    case Dtype::boolean: return elementwise_boolean(op);
    case Dtype::i8: return elementwise_signed(op, 8);
    case Dtype::i16: return elementwise_signed(op, 16);
    case Dtype::i32: return elementwise_signed(op, 32);
    case Dtype::i64: return elementwise_signed(op, 64);
    case Dtype::u8: return elementwise_unsigned(op, 8);
    case Dtype::u16: return elementwise_unsigned(op, 16);
    case Dtype::u32: return elementwise_unsigned(op, 32);
    case Dtype::u64: return elementwise_unsigned(op, 64);
    case Dtype::f16:
    case Dtype::bf16: return elementwise_half(op, dtype);
    case Dtype::c64: return has_parts(op, Dtype::f32) ? first(elementwise_c64(op), special_c64(op)) : nullptr;
    case Dtype::c128: return has_parts(op, Dtype::f64) ? first(elementwise_c128(op), special_c128(op)) : nullptr;
  }
  return nullptr;
}

}  // namespace DW_ISA

// Elementary and special functions of float64 in the table of elementwise operations.
#include "droveway/math_error_function.hpp"
#include "droveway/math_gamma.hpp"
#include "droveway/math_neighbour.hpp"
#include "elementwise_lanes.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

// One body for whole vectors and for the last, partial one, which is filled with 1: these functions are long.
template <class F>
DW_INLINE void unary_long(const Strip& s, F f) {
  FpGuard guard;
  const double* x = static_cast<const double*>(s.in[0]);
  double* out = static_cast<double*>(s.out);
  for (size_t i = 0; i < s.n; i += 8) {
    const size_t rest = s.n - i;
    const F64x8 y = f(rest >= 8 ? F64x8::load(x + i) : F64x8::load_partial(x + i, rest, 1.0));
    if (rest >= 8) store(out + i, y);
    else store_partial(out + i, rest, y);
  }
}
template <class F>
DW_INLINE void binary_long(const Strip& s, F f) {
  FpGuard guard;
  const double* x = static_cast<const double*>(s.in[0]);
  const double* y = static_cast<const double*>(s.in[1]);
  double* out = static_cast<double*>(s.out);
  for (size_t i = 0; i < s.n; i += 8) {
    const size_t rest = s.n - i;
    const F64x8 z = rest >= 8 ? f(F64x8::load(x + i), F64x8::load(y + i))
                              : f(F64x8::load_partial(x + i, rest, 1.0), F64x8::load_partial(y + i, rest, 1.0));
    if (rest >= 8) store(out + i, z);
    else store_partial(out + i, rest, z);
  }
}

#define DW_LONG_UNARY(NAME)                                                                                     \
  template <>                                                                                                   \
  struct LoopOf<double, droveway::op_##NAME> {                                                                  \
    static void loop(const Strip& s) { unary_long(s, [](F64x8 x) DW_LAMBDA { return DW_ISA::NAME(x); }); }      \
  };
#define DW_LONG_BINARY(NAME)                                                                                    \
  template <>                                                                                                   \
  struct LoopOf<double, droveway::op_##NAME> {                                                                  \
    static void loop(const Strip& s) {                                                                          \
      binary_long(s, [](F64x8 x, F64x8 y) DW_LAMBDA { return DW_ISA::NAME(x, y); });                            \
    }                                                                                                           \
  };

DW_LONG_UNARY(exp)
DW_LONG_UNARY(exp2)
DW_LONG_UNARY(expm1)
DW_LONG_UNARY(log)
DW_LONG_UNARY(log1p)
DW_LONG_UNARY(log2)
DW_LONG_UNARY(log10)
DW_LONG_BINARY(pow)
DW_LONG_UNARY(rsqrt)
DW_LONG_BINARY(hypot)
DW_LONG_UNARY(sin)
DW_LONG_UNARY(cos)
DW_LONG_UNARY(tan)
DW_LONG_UNARY(asin)
DW_LONG_UNARY(acos)
DW_LONG_UNARY(atan)
DW_LONG_BINARY(atan2)
DW_LONG_UNARY(sinh)
DW_LONG_UNARY(cosh)
DW_LONG_UNARY(tanh)
DW_LONG_UNARY(asinh)
DW_LONG_UNARY(acosh)
DW_LONG_UNARY(atanh)
DW_LONG_UNARY(erf)
DW_LONG_UNARY(erfc)
DW_LONG_UNARY(lgamma)
DW_LONG_UNARY(digamma)
DW_LONG_UNARY(trigamma)
DW_LONG_UNARY(sigmoid)
DW_LONG_UNARY(silu)
DW_LONG_UNARY(gelu)
DW_LONG_UNARY(gelu_tanh)
DW_LONG_UNARY(softplus)
DW_LONG_BINARY(logaddexp)
DW_LONG_BINARY(nextafter)
DW_LANES_BINARY(F64x8, double, copysign, canonical(copysign(x, y)))

}  // namespace
DW_LOOP_TABLE(special_f64, double)
}  // namespace DW_ISA

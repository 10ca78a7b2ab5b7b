// Elementary and special functions of float32 in the table of elementwise operations.
#include "droveway/math_activation.hpp"
#include "droveway/math_f32.hpp"
#include "droveway/math_neighbour.hpp"
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
DW_LANES_UNARY(F32x16, float, rsqrt, rsqrt(x))
DW_LANES_UNARY(F32x16, float, sigmoid, sigmoid(x))
DW_LANES_UNARY(F32x16, float, silu, silu(x))
DW_LANES_UNARY(F32x16, float, gelu, gelu(x))
DW_LANES_BINARY(F32x16, float, nextafter, nextafter(x, y))
DW_LANES_BINARY(F32x16, float, copysign, canonical(copysign(x, y)))

constexpr size_t kDoubles = 256;

// The function of float64 on blocks of widened numbers, rounded once more: at most 0.501 ulp of a float.
template <int OP, int ARITY>
void by_double(const Strip& s) {
  FpGuard guard;
  alignas(64) double in[ARITY][kDoubles];
  alignas(64) double out[kDoubles];
  const ElementwiseLoop loop = special_f64(OP);
  for (size_t start = 0; start < s.n; start += kDoubles) {
    const size_t n = s.n - start < kDoubles ? s.n - start : kDoubles;
    for (int k = 0; k < ARITY; ++k) {
      const float* x = static_cast<const float*>(s.in[k]) + start;
      for (size_t i = 0; i < n; i += 16) {
        const F64x16 w = widen(n - i >= 16 ? F32x16::load(x + i) : F32x16::load_partial(x + i, n - i, 1.0f));
        store(in[k] + i, w.low);
        store(in[k] + i + 8, w.high);
      }
    }
    loop(Strip{out, {in[0], in[ARITY - 1], nullptr}, (n + 15) / 16 * 16, OP});
    float* y = static_cast<float*>(s.out) + start;
    for (size_t i = 0; i < n; i += 16) {
      const F32x16 v = canonical(narrow(F64x16{F64x8::load(out + i), F64x8::load(out + i + 8)}));
      if (n - i >= 16) store(y + i, v);
      else store_partial(y + i, n - i, v);
    }
  }
}

#define DW_BY_DOUBLE(NAME, ARITY)                                                                \
  template <>                                                                                    \
  struct LoopOf<float, droveway::op_##NAME> {                                                    \
    static void loop(const Strip& s) { by_double<droveway::op_##NAME, ARITY>(s); }               \
  };

DW_BY_DOUBLE(exp2, 1)
DW_BY_DOUBLE(expm1, 1)
DW_BY_DOUBLE(log1p, 1)
DW_BY_DOUBLE(log2, 1)
DW_BY_DOUBLE(log10, 1)
DW_BY_DOUBLE(hypot, 2)
DW_BY_DOUBLE(tan, 1)
DW_BY_DOUBLE(asin, 1)
DW_BY_DOUBLE(acos, 1)
DW_BY_DOUBLE(atan, 1)
DW_BY_DOUBLE(atan2, 2)
DW_BY_DOUBLE(sinh, 1)
DW_BY_DOUBLE(cosh, 1)
DW_BY_DOUBLE(asinh, 1)
DW_BY_DOUBLE(acosh, 1)
DW_BY_DOUBLE(atanh, 1)
DW_BY_DOUBLE(erfc, 1)
DW_BY_DOUBLE(lgamma, 1)
DW_BY_DOUBLE(digamma, 1)
DW_BY_DOUBLE(trigamma, 1)
DW_BY_DOUBLE(gelu_tanh, 1)
DW_BY_DOUBLE(softplus, 1)
DW_BY_DOUBLE(logaddexp, 2)

}  // namespace
DW_LOOP_TABLE(special_f32, float)
}  // namespace DW_ISA

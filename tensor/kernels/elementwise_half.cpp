// float16 and bfloat16: blocks of float32 in a local buffer, the loop of float32, one rounding back.
#include "droveway/half.hpp"
#include "elementwise_scalar.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

using droveway::kTruth;

constexpr size_t kHalfBlock = 512;

struct F16 {
  static DW_INLINE F32x16 load(const uint16_t* p) { return load_f16(p); }
  static DW_INLINE F32x16 load_partial(const uint16_t* p, size_t n) { return load_f16_partial(p, n); }
  static DW_INLINE void store(uint16_t* p, F32x16 x) { store_f16(p, x); }
  static DW_INLINE void store_partial(uint16_t* p, size_t n, F32x16 x) { store_f16_partial(p, n, x); }
};
struct Bf16 {
  static DW_INLINE F32x16 load(const uint16_t* p) { return load_bf16(p); }
  static DW_INLINE F32x16 load_partial(const uint16_t* p, size_t n) { return load_bf16_partial(p, n); }
  static DW_INLINE void store(uint16_t* p, F32x16 x) { store_bf16(p, x); }
  static DW_INLINE void store_partial(uint16_t* p, size_t n, F32x16 x) { store_bf16_partial(p, n, x); }
};

template <class H>
void widen_half(const uint16_t* x, float* out, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) store(out + i, H::load(x + i));
  if (i < n) store_partial(out + i, n - i, H::load_partial(x + i, n - i));
}
template <class H>
void narrow_half(const float* x, uint16_t* out, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) H::store(out + i, canonical(F32x16::load(x + i)));
  if (i < n) H::store_partial(out + i, n - i, canonical(F32x16::load_partial(x + i, n - i, 1.0f)));
}

template <class H>
void half_strip(const Strip& s) {
  FpGuard guard;
  alignas(64) float in[3][kHalfBlock];
  alignas(64) float result[kHalfBlock];
  const ElementwiseLoop loop = elementwise(s.op, int(droveway::Dtype::f32));
  const bool truth = droveway::elementwise_result_of[s.op] == kTruth;
  const int arity = droveway::elementwise_arity_of[s.op];
  Strip wide{result, {in[0], in[1], in[2]}, 0, s.op};
  for (size_t i = 0; i < s.n; i += kHalfBlock) {
    wide.n = s.n - i < kHalfBlock ? s.n - i : kHalfBlock;
    for (int k = 0; k < arity; ++k) widen_half<H>(static_cast<const uint16_t*>(s.in[k]) + i, in[k], wide.n);
    if (truth) wide.out = static_cast<uint8_t*>(s.out) + i;
    loop(wide);
    if (!truth) narrow_half<H>(result, static_cast<uint16_t*>(s.out) + i, wide.n);
  }
}

// The neighbours of a float16 or bfloat16 are not those of the float32 that it is.
template <uint16_t INFINITY_BITS>
void next_half_strip(const Strip& s) {
  const uint16_t* x = static_cast<const uint16_t*>(s.in[0]);
  const uint16_t* y = static_cast<const uint16_t*>(s.in[1]);
  uint16_t* out = static_cast<uint16_t*>(s.out);
  for (size_t i = 0; i < s.n; ++i) {
    const uint16_t a = x[i] & 0x7FFF, b = y[i] & 0x7FFF;
    const int from = x[i] >> 15 ? -int(a) : a, to = y[i] >> 15 ? -int(b) : b;
    uint16_t r;
    if (a > INFINITY_BITS || b > INFINITY_BITS) r = INFINITY_BITS == 0x7C00 ? 0x7E00 : 0x7FC0;
    else if (from == to) r = y[i];
    else if (a == 0) r = uint16_t(1 | (to < 0 ? 0x8000 : 0));
    else r = uint16_t(x[i] + ((to > from) == (from > 0) ? 1 : -1));
    out[i] = r;
  }
}

}  // namespace

void half_to_f32(int dtype, const uint16_t* x, float* out, size_t n) {
  dtype == int(droveway::Dtype::f16) ? widen_half<F16>(x, out, n) : widen_half<Bf16>(x, out, n);
}
void f32_to_half(int dtype, const float* x, uint16_t* out, size_t n) {
  dtype == int(droveway::Dtype::f16) ? narrow_half<F16>(x, out, n) : narrow_half<Bf16>(x, out, n);
}

ElementwiseLoop elementwise_half(int op, int dtype) {
  const bool f16 = dtype == int(droveway::Dtype::f16);
  if (op == droveway::op_nextafter) return f16 ? next_half_strip<0x7C00> : next_half_strip<0x7F80>;
  if (droveway::elementwise_result_of[op] == droveway::kPair || elementwise(op, int(droveway::Dtype::f32)) == nullptr) return nullptr;
  return f16 ? half_strip<F16> : half_strip<Bf16>;
}

}  // namespace DW_ISA

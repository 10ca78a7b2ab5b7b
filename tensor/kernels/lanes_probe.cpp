// Every lane operation once, for the self-test: what the kernels of all areas stand on.
// Twin: probe_lanes_f32 and probe_lanes_f64 in tensor/selftest_ref.py.
#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

DW_INLINE void put(uint32_t*& out, U32x16 x) {
  store(out, x);
  out += 16;
}
DW_INLINE void put(uint32_t*& out, F32x16 x) { put(out, bits(canonical(x))); }
DW_INLINE void put(uint32_t*& out, M32x16 m) { put(out, U32x16::set1(lane_bits(m))); }
DW_INLINE void put(uint64_t*& out, U64x8 x) {
  store(out, x);
  out += 8;
}
DW_INLINE void put(uint64_t*& out, F64x8 x) { put(out, bits(canonical(x))); }
DW_INLINE void put(uint64_t*& out, M64x8 m) { put(out, U64x8::set1(uint64_t(lane_bits(m)))); }

// What both widths have. V floats, U integers.
template <class V, class U, class W>
DW_INLINE void put_common(W*& out, V a, V b, int shift) {
  put(out, a + b);
  put(out, a - b);
  put(out, a * b);
  put(out, a / b);
  put(out, -a);
  put(out, fma(a, b, a));
  put(out, fnma(a, b, b));
  put(out, sqrt(a));
  put(out, round_even(a));
  put(out, floor(a));
  put(out, maximum(a, b));
  put(out, minimum(a, b));
  put(out, abs(a));
  put(out, copysign(a, b));
  put(out, select(lt(a, b), a, b));
  put(out, lt(a, b));
  put(out, le(a, b));
  put(out, gt(a, b));
  put(out, ge(a, b));
  put(out, eq(a, b));
  put(out, ne(a, b));
  put(out, unordered(a, b));
  put(out, V::set1(add_tree(a)));
  const U x = bits(a), y = bits(b);
  put(out, x + y);
  put(out, x - y);
  put(out, x * y);
  put(out, (x & y) | (~x ^ y));
  put(out, x << shift);
  put(out, x >> shift);
  put(out, sar(x, shift));
  put(out, lt(x, y));
  put(out, gt_signed(x, y));
  put(out, eq(x, y) | !lt_signed(x, y));
}

}  // namespace

void probe_lanes_f32(const float* x, uint32_t* out) {
  FpGuard guard;
  const F32x16 a = F32x16::load(x), b = F32x16::load(x + 16);
  put_common<F32x16, U32x16>(out, a, b, 7);
  put(out, to_i32(a));
  put(out, from_i32(bits(a)));
  const F64x16 wide = widen(a);
  put(out, narrow(wide));
  put(out, narrow({wide.low * widen(b).low, wide.high * widen(b).high}));
  U64x16 words = widen(bits(a));
  words.low = mul_low32(words.low, words.high) >> 16;
  put(out, narrow(words));
  for (size_t n = 0; n <= 17; ++n) {
    put(out, F32x16::load_partial(x, n, 2.0f));
    put(out, U32x16::set1(0xABCDu));
    store_partial(reinterpret_cast<float*>(out - 16), n, canonical(b));
  }
}

void probe_lanes_f64(const double* x, uint64_t* out) {
  FpGuard guard;
  const F64x8 a = F64x8::load(x), b = F64x8::load(x + 8);
  put_common<F64x8, U64x8>(out, a, b, 13);
  put(out, mul_low32(bits(a), bits(b)));
  put(out, F64x8::set1(add_tree(F64x16{a, b})));
  for (size_t n = 0; n <= 9; ++n) {
    put(out, F64x8::load_partial(x, n, 2.0));
    put(out, U64x8::set1(uint64_t{0xABCD}));
    store_partial(reinterpret_cast<double*>(out - 8), n, canonical(b));
  }
}

}  // namespace DW_ISA

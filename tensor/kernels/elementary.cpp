// Elementary functions over contiguous arrays: fixed blocks, full vectors, then one partial vector of the same code.
#include "droveway/fpenv.hpp"
#include "droveway/math_f32.hpp"
#include "droveway/math_f64.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kBlock = 16384;          // elements a thread takes at a time
constexpr size_t kParallelBytes = 1 << 18;  // below this many input bytes the calling thread does all the work

struct Unary {
  const void* x;
  void* out;
  size_t n;
};
struct Binary {
  const float* x;
  const float* y;
  size_t y_step;  // 1, or 0 for one exponent
  float* out;
  size_t n;
};

void run_blocks(size_t n, size_t bytes, dw_block_fn fn, void* context) {
  const size_t blocks = (n + kBlock - 1) / kBlock;
  if (bytes >= kParallelBytes) {
    dw_parallel(blocks, fn, context);
  } else {
    for (size_t b = 0; b < blocks; ++b) fn(context, b);
  }
}

// The partial vector is filled with 1, which every function takes without a slow path.
template <class V, class T, V (*F)(V)>
void unary_block(void* context, size_t block) {
  FpGuard guard;
  const Unary& u = *static_cast<const Unary*>(context);
  const T* x = static_cast<const T*>(u.x);
  T* out = static_cast<T*>(u.out);
  size_t i = block * kBlock;
  const size_t end = i + kBlock < u.n ? i + kBlock : u.n;
  for (; i + V::width <= end; i += V::width) store(out + i, F(V::load(x + i)));
  if (i < end) store_partial(out + i, end - i, F(V::load_partial(x + i, end - i, T(1))));
}

template <class V, class T, V (*F)(V)>
void unary(const T* x, T* out, size_t n) {
  Unary u{x, out, n};
  run_blocks(n, n * sizeof(T), unary_block<V, T, F>, &u);
}

F32x16 sqrt_canonical(F32x16 x) { return canonical(sqrt(x)); }
F64x8 sqrt_canonical(F64x8 x) { return canonical(sqrt(x)); }

void pow_block(void* context, size_t block) {
  FpGuard guard;
  const Binary& p = *static_cast<const Binary*>(context);
  const F32x16 scalar = F32x16::set1(*p.y);
  size_t i = block * kBlock;
  const size_t end = i + kBlock < p.n ? i + kBlock : p.n;
  for (; i + 16 <= end; i += 16) {
    store(p.out + i, pow(F32x16::load(p.x + i), p.y_step != 0 ? F32x16::load(p.y + i) : scalar));
  }
  if (i < end) {
    const F32x16 y = p.y_step != 0 ? F32x16::load_partial(p.y + i, end - i, 1.0f) : scalar;
    store_partial(p.out + i, end - i, pow(F32x16::load_partial(p.x + i, end - i, 1.0f), y));
  }
}

}  // namespace

void exp_f32(const float* x, float* out, size_t n) { unary<F32x16, float, exp>(x, out, n); }
void log_f32(const float* x, float* out, size_t n) { unary<F32x16, float, log>(x, out, n); }
void sin_f32(const float* x, float* out, size_t n) { unary<F32x16, float, sin>(x, out, n); }
void cos_f32(const float* x, float* out, size_t n) { unary<F32x16, float, cos>(x, out, n); }
void tanh_f32(const float* x, float* out, size_t n) { unary<F32x16, float, tanh>(x, out, n); }
void erf_f32(const float* x, float* out, size_t n) { unary<F32x16, float, erf>(x, out, n); }
void sqrt_f32(const float* x, float* out, size_t n) { unary<F32x16, float, sqrt_canonical>(x, out, n); }
void exp_f64(const double* x, double* out, size_t n) { unary<F64x8, double, exp>(x, out, n); }
void log_f64(const double* x, double* out, size_t n) { unary<F64x8, double, log>(x, out, n); }
void sqrt_f64(const double* x, double* out, size_t n) { unary<F64x8, double, sqrt_canonical>(x, out, n); }

void pow_f32(const float* x, const float* y, size_t y_step, float* out, size_t n) {
  if (n == 0) return;
  Binary p{x, y, y_step, out, n};
  run_blocks(n, n * sizeof(float), pow_block, &p);
}

}  // namespace DW_ISA

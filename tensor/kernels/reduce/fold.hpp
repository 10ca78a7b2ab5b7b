// The fixed order of every sum: blocks of 4096, four accumulators of 16 lanes, a tree of lanes, a tree of blocks
// (tensor/twins/fold_ref.py is the definition). Products, sums of squares and of terms have the same shape.
//
// A line is read block by block through a Source: straight from memory where the values lie contiguously in the type they
// are computed in, else through a buffer of one block. So strides and types of storage never reach a result.
#pragma once
#include "convert.hpp"
#include "droveway/fpenv.hpp"
#include "droveway/math_f32.hpp"
#include "droveway/math_f64.hpp"
#include "droveway/parallel.hpp"
#include "split.hpp"

namespace DW_ISA {
namespace lines {

constexpr size_t kBlock = 4096;
constexpr size_t kGroup = 16;
constexpr size_t kParallelBytes = size_t{1} << 20;  // below this one thread is faster
constexpr size_t kLineValues = 16384;               // about as many values make a block of work
constexpr int kAnyThreads = 1024;

inline int threads_for(size_t bytes) { return bytes < kParallelBytes ? 1 : kAnyThreads; }

// Sixteen lanes of T.
DW_INLINE F64x16 operator+(F64x16 a, F64x16 b) { return {a.low + b.low, a.high + b.high}; }
DW_INLINE F64x16 operator-(F64x16 a, F64x16 b) { return {a.low - b.low, a.high - b.high}; }
DW_INLINE F64x16 operator*(F64x16 a, F64x16 b) { return {a.low * b.low, a.high * b.high}; }
DW_INLINE F64x16 operator/(F64x16 a, F64x16 b) { return {a.low / b.low, a.high / b.high}; }
DW_INLINE F64x16 fma(F64x16 a, F64x16 b, F64x16 c) { return {DW_ISA::fma(a.low, b.low, c.low), DW_ISA::fma(a.high, b.high, c.high)}; }
DW_INLINE F64x16 fnma(F64x16 a, F64x16 b, F64x16 c) { return {DW_ISA::fnma(a.low, b.low, c.low), DW_ISA::fnma(a.high, b.high, c.high)}; }
DW_INLINE F64x16 exp(F64x16 a) { return {DW_ISA::exp(a.low), DW_ISA::exp(a.high)}; }
DW_INLINE F64x16 sqrt(F64x16 a) { return {DW_ISA::sqrt(a.low), DW_ISA::sqrt(a.high)}; }
DW_INLINE F64x16 canonical(F64x16 a) { return {DW_ISA::canonical(a.low), DW_ISA::canonical(a.high)}; }
DW_INLINE F64x16 maximum(F64x16 a, F64x16 b) { return {DW_ISA::maximum(a.low, b.low), DW_ISA::maximum(a.high, b.high)}; }
DW_INLINE F64x16 minimum(F64x16 a, F64x16 b) { return {DW_ISA::minimum(a.low, b.low), DW_ISA::minimum(a.high, b.high)}; }
DW_INLINE void store(double* p, F64x16 x) { DW_ISA::store(p, x.low); DW_ISA::store(p + 8, x.high); }
DW_INLINE void store_partial(double* p, size_t n, F64x16 x) {
  DW_ISA::store_partial(p, n, x.low);
  if (n > 8) DW_ISA::store_partial(p + 8, n - 8, x.high);
}
using DW_ISA::canonical;
using DW_ISA::exp;
using DW_ISA::fma;
using DW_ISA::fnma;
using DW_ISA::maximum;
using DW_ISA::minimum;
using DW_ISA::sqrt;
using DW_ISA::store;
using DW_ISA::store_partial;

template <class T> struct Sixteen;
template <> struct Sixteen<float> {
  using V = F32x16;
  static DW_INLINE V set1(float x) { return V::set1(x); }
  static DW_INLINE V load(const float* p) { return V::load(p); }
  static DW_INLINE V load(const float* p, size_t n, float fill) { return V::load_partial(p, n, fill); }
};
template <> struct Sixteen<double> {
  using V = F64x16;
  static DW_INLINE V set1(double x) { const F64x8 y = F64x8::set1(x); return {y, y}; }
  static DW_INLINE V load(const double* p) { return {F64x8::load(p), F64x8::load(p + 8)}; }
  static DW_INLINE V load(const double* p, size_t n, double fill) {
    return {F64x8::load_partial(p, n, fill),
            n > 8 ? F64x8::load_partial(p + 8, n - 8, fill) : F64x8::set1(fill)};
  }
};
template <class T> using V16 = typename Sixteen<T>::V;

template <class T> constexpr T kInfinity = T(__builtin_inf());

// One value through the code for lanes, so that no scalar has other bits.
DW_INLINE float exp1(float x) { float y[16]; store(y, exp(F32x16::set1(x))); return y[0]; }
DW_INLINE double exp1(double x) { double y[8]; store(y, exp(F64x8::set1(x))); return y[0]; }
DW_INLINE float log1(float x) { float y[16]; store(y, log(F32x16::set1(x))); return y[0]; }
DW_INLINE double log1(double x) { double y[8]; store(y, log(F64x8::set1(x))); return y[0]; }
DW_INLINE float sqrt1(float x) { return canonical(__builtin_sqrtf(x)); }
DW_INLINE double sqrt1(double x) { return canonical(__builtin_sqrt(x)); }
DW_INLINE float maximum1(float a, float b) {
  if (a != a || b != b) return f32_of(kNan32);
  return a == b ? f32_of(bits1(a) & bits1(b)) : a < b ? b : a;
}
DW_INLINE double maximum1(double a, double b) {
  if (a != a || b != b) return f64_of(kNan64);
  return a == b ? f64_of(bits1(a) & bits1(b)) : a < b ? b : a;
}

// Where the elements of one line lie.
template <class T>
struct Source {
  const Dims* dims;
  int operand;
  droveway::Dtype dtype;
  const char* data;  // of the line's first element

  DW_INLINE bool direct() const { return dims->n == 1 && dims->stride[operand][0] == 1 && dtype == kNative<T>; }

  // The values first … first + n as T: where they lie, or copied into `local`.
  const T* block(size_t first, size_t n, T* local) const {
    if (direct()) return reinterpret_cast<const T*>(data) + first;
    fill(first, n, local);
    return local;
  }
  void fill(size_t first, size_t n, T* local) const {
    const ptrdiff_t size = ptrdiff_t(droveway::dtype_size(dtype));
    const int last = dims->n - 1;
    const ptrdiff_t stride = dims->stride[operand][last];
    if (last == 0) {
      load_run(dtype, data + ptrdiff_t(first) * stride * size, stride, n, local);
      return;
    }
    Odometer at(*dims, operand + 1, first);
    while (n > 0) {
      const size_t left = size_t(dims->size[last] - at.index[last]), run = left < n ? left : n;
      load_run(dtype, data + at.offset[operand] * size, stride, run, local);
      local += run;
      n -= run;
      // to the start of the next run
      for (int k = 0; k < at.operands; ++k) at.offset[k] -= at.index[last] * dims->stride[k][last];
      at.index[last] = 0;
      if (n > 0) at.advance(last - 1);
    }
  }
};

// The same for results: begin() says where to write a block, end() brings it to its place.
template <class T>
struct Sink {
  const Dims* dims;
  int operand;
  droveway::Dtype dtype;
  char* data;

  DW_INLINE bool direct() const { return dims->n == 1 && dims->stride[operand][0] == 1 && dtype == kNative<T>; }

  T* begin(size_t first, T* local) const { return direct() ? reinterpret_cast<T*>(data) + first : local; }
  void end(size_t first, size_t n, const T* local) const {
    if (direct()) return;
    const ptrdiff_t size = ptrdiff_t(droveway::dtype_size(dtype));
    const int last = dims->n - 1;
    const ptrdiff_t stride = dims->stride[operand][last];
    if (last == 0) {
      store_run(dtype, data + ptrdiff_t(first) * stride * size, stride, n, local);
      return;
    }
    Odometer at(*dims, operand + 1, first);
    while (n > 0) {
      const size_t left = size_t(dims->size[last] - at.index[last]), run = left < n ? left : n;
      store_run(dtype, data + at.offset[operand] * size, stride, run, local);
      local += run;
      n -= run;
      for (int k = 0; k < at.operands; ++k) at.offset[k] -= at.index[last] * dims->stride[k][last];
      at.index[last] = 0;
      if (n > 0) at.advance(last - 1);
    }
  }
};

// The cache lines of the group of 64 values that comes 2 KiB after x. The address may lie past the end: it is only a hint.
template <class T>
DW_INLINE void prefetch(const T* x) {
  for (uintptr_t byte = 0; byte < 4 * kGroup * sizeof(T); byte += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(x) + 2048 + byte));
}

// One block of n ≤ 4096 values: step(i, a) takes values i … i + 16 into accumulator a, step(i, m, a) only the first m of
// them. The accumulators start at `start`.
template <class V, class Step>
DW_INLINE void accumulate(size_t n, Step step, V& a, V& b, V& c, V& d, V start) {
  V a0 = start, a1 = start, a2 = start, a3 = start;
  size_t i = 0;
  for (; i + 4 * kGroup <= n; i += 4 * kGroup) {
    a0 = step(i, a0);
    a1 = step(i + kGroup, a1);
    a2 = step(i + 2 * kGroup, a2);
    a3 = step(i + 3 * kGroup, a3);
  }
  // Names, not an array or a reference: an accumulator whose address is taken lives in memory.
  auto tail = [&](V v) DW_LAMBDA {
    const V next = step(i, n - i < kGroup ? n - i : kGroup, v);
    i += kGroup;
    return next;
  };
  if (i < n) a0 = tail(a0);
  if (i < n) a1 = tail(a1);
  if (i < n) a2 = tail(a2);
  if (i < n) a3 = tail(a3);
  a = a0;
  b = a1;
  c = a2;
  d = a3;
}
// The sum of a block's terms.
template <class T, class Step>
DW_INLINE T add_block(size_t n, Step step) {
  V16<T> a, b, c, d;
  accumulate(n, step, a, b, c, d, Sixteen<T>::set1(T(0)));
  return add_tree((a + b) + (c + d));
}

// The tree over values that come one after another: whole subtrees wait on a stack until their right side is there.
template <class T, class Join>
struct Tree {
  T waiting[64];
  int depth = 0;
  size_t count = 0;
  Join join;
  void push(T value) {
    for (size_t c = count++; (c & 1) != 0; c >>= 1) value = join(waiting[--depth], value);
    waiting[depth++] = value;
  }
  T total() const {
    T value = waiting[depth - 1];
    for (int i = depth - 2; i >= 0; --i) value = join(waiting[i], value);
    return value;
  }
};
struct Add {
  template <class T> DW_INLINE T operator()(T a, T b) const { return a + b; }
};

// The sum over a whole line of block(first, n), in the tree of blocks. Not canonical yet.
template <class T, class Block>
DW_INLINE T add_line(size_t n, Block block) {
  if (n == 0) return T(0);
  if (n <= kBlock) return block(size_t(0), n);
  Tree<T, Add> tree;
  for (size_t first = 0; first < n; first += kBlock) tree.push(block(first, n - first < kBlock ? n - first : kBlock));
  return tree.total();
}

// Terms of sums over contiguous values.
template <class T>
DW_INLINE T sum_block(const T* x, size_t n) {
  struct Step {
    const T* x;
    DW_INLINE V16<T> operator()(size_t i, V16<T> a) const {
      if ((i & 63) == 0) prefetch(x + i);
      return a + Sixteen<T>::load(x + i);
    }
    DW_INLINE V16<T> operator()(size_t i, size_t m, V16<T> a) const { return a + Sixteen<T>::load(x + i, m, T(0)); }
  };
  return add_block<T>(n, Step{x});
}
template <class T>
DW_INLINE T dot_block(const T* x, const T* y, size_t n) {
  struct Step {
    const T *x, *y;
    DW_INLINE V16<T> operator()(size_t i, V16<T> a) const { return fma(Sixteen<T>::load(x + i), Sixteen<T>::load(y + i), a); }
    DW_INLINE V16<T> operator()(size_t i, size_t m, V16<T> a) const {
      return fma(Sixteen<T>::load(x + i, m, T(0)), Sixteen<T>::load(y + i, m, T(0)), a);
    }
  };
  return add_block<T>(n, Step{x, y});
}
// Squares of deviations. Missing lanes deviate by 0, or, where the mean is not finite, by what the sum is anyway.
template <class T>
DW_INLINE T deviation_block(const T* x, size_t n, T mean) {
  struct Step {
    const T* x;
    T mean, fill;
    DW_INLINE V16<T> operator()(size_t i, V16<T> a) const {
      const V16<T> d = Sixteen<T>::load(x + i) - Sixteen<T>::set1(mean);
      return fma(d, d, a);
    }
    DW_INLINE V16<T> operator()(size_t i, size_t m, V16<T> a) const {
      const V16<T> d = Sixteen<T>::load(x + i, m, fill) - Sixteen<T>::set1(mean);
      return fma(d, d, a);
    }
  };
  return add_block<T>(n, Step{x, mean, mean - mean == T(0) ? mean : T(0)});
}
// exp(x − shift).
template <class T>
DW_INLINE T exp_block(const T* x, size_t n, T shift) {
  struct Step {
    const T* x;
    T shift;
    DW_INLINE V16<T> operator()(size_t i, V16<T> a) const { return a + exp(Sixteen<T>::load(x + i) - Sixteen<T>::set1(shift)); }
    DW_INLINE V16<T> operator()(size_t i, size_t m, V16<T> a) const {
      return a + exp(Sixteen<T>::load(x + i, m, -kInfinity<T>) - Sixteen<T>::set1(shift));
    }
  };
  return add_block<T>(n, Step{x, shift});
}

// The largest value, NaN left out and the sign of a zero left open: quick, for shifts. −inf for nothing.
#if defined(DW_ISA_V4)
DW_INLINE F32x16 larger(F32x16 a, F32x16 b) { return {{(reg::F32)_mm512_max_ps((__m512)b.r[0], (__m512)a.r[0])}}; }
#elif defined(DW_ISA_V3)
DW_INLINE F32x16 larger(F32x16 a, F32x16 b) {
  return map<F32x16>([](auto x, auto y) DW_LAMBDA { return (reg::F32)_mm256_max_ps((__m256)y, (__m256)x); }, a, b);
}
#else
DW_INLINE F32x16 larger(F32x16 a, F32x16 b) { return select(gt(b, a), b, a); }
#endif
DW_INLINE F64x8 larger(F64x8 a, F64x8 b) { return select(gt(b, a), b, a); }
DW_INLINE F64x16 larger(F64x16 a, F64x16 b) { return {larger(a.low, b.low), larger(a.high, b.high)}; }

template <class T>
DW_INLINE T shift_block(const T* x, size_t n) {
  struct Step {
    const T* x;
    DW_INLINE V16<T> operator()(size_t i, V16<T> a) const { return larger(a, Sixteen<T>::load(x + i)); }
    DW_INLINE V16<T> operator()(size_t i, size_t m, V16<T> a) const { return larger(a, Sixteen<T>::load(x + i, m, -kInfinity<T>)); }
  };
  V16<T> a, b, c, d;
  accumulate(n, Step{x}, a, b, c, d, Sixteen<T>::set1(-kInfinity<T>));
  T lanes[16];
  store(lanes, larger(larger(a, b), larger(c, d)));
  T best = lanes[0];
  for (int l = 1; l < 16; ++l) best = lanes[l] > best ? lanes[l] : best;
  return best;
}
// What softmax, log_softmax and logsumexp take off before exp: the largest value (NaN left out), as +0 where it is a zero.
template <class T>
DW_INLINE T shift_of(const Source<T>& x, size_t n, T* local) {
  T best = -kInfinity<T>;
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t m = n - first < kBlock ? n - first : kBlock;
    const T value = shift_block(x.block(first, m, local), m);
    best = value > best ? value : best;
  }
  return best + T(0);
}

// Runs work(offsets of the operands) for each line; `bytes` decides whether threads take part.
template <class Work>
void each_line(const Split& s, int operands, size_t bytes, const Work& work) {
  struct Context {
    const Split& s;
    const Work& work;
    int operands;
    size_t per_block;
  };
  if (s.kept.total == 0) return;
  const size_t n = s.line.total;
  Context context{s, work, operands, n >= kLineValues ? 1 : kLineValues / (n + 1) + 1};
  const size_t blocks = (s.kept.total - 1) / context.per_block + 1;
  dw_parallel_n(blocks, [](void* raw, size_t b) {
        const Context& c = *static_cast<const Context*>(raw);
        const size_t first = b * c.per_block;
        const size_t last = c.s.kept.total - first < c.per_block ? c.s.kept.total : first + c.per_block;
        Odometer at(c.s.kept, c.operands, first);
        for (size_t i = first; i < last; ++i, at.next()) c.work(at.offset, i);
      }, &context, threads_for(bytes));
}

DW_INLINE const char* at_offset(const View& v, int64_t offset) {
  return v.data + offset * ptrdiff_t(droveway::dtype_size(v.dtype));
}
DW_INLINE char* out_offset(const View& v, int64_t offset) {
  return v.data + offset * ptrdiff_t(droveway::dtype_size(v.dtype));
}
template <class T>
DW_INLINE void store_one(const View& v, int64_t offset, T value) {
  store_run(v.dtype, out_offset(v, offset), 1, 1, &value);
}

// Passes over contiguous values, 16 at a time, the last ones partly.
template <class T, class F>
DW_INLINE void each_sixteen(size_t n, F f) {  // f(i, how many)
  size_t i = 0;
  for (; i + 16 <= n; i += 16) f(i, size_t(16));
  if (i < n) f(i, n - i);
}
template <class T>
DW_INLINE V16<T> load_some(const T* p, size_t m) {
  return m == 16 ? Sixteen<T>::load(p) : Sixteen<T>::load(p, m, T(0));
}
template <class T>
DW_INLINE void store_some(T* p, size_t m, V16<T> v) {
  if (m == 16) store(p, v);
  else store_partial(p, m, v);
}
template <class T>
DW_INLINE T one_value(const View& v, int64_t offset) {
  T value;
  load_run(v.dtype, at_offset(v, offset), 1, 1, &value);
  return value;
}

}  // namespace lines
}  // namespace DW_ISA

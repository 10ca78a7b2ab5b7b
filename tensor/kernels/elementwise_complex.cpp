// Complex numbers: real and imaginary part, each by the rules of its floats, one rounding an operation.
#include "elementwise_scalar.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

template <class T>
struct Complex {
  T re, im;
};
template <class T> struct GuardOf<Complex<T>> { using type = FpGuard; };

template <class T> DW_INLINE Complex<T> quiet(Complex<T> z) { return {quiet(z.re), quiet(z.im)}; }
template <class T> DW_INLINE T size1(T x) { return of_bits<T>(bits_of(x) & ~(Bits<T>(1) << (8 * sizeof(T) - 1))); }

constexpr size_t kParts = 256;

// Products are computed on planes, real and imaginary parts apart: on pairs side by side, g++ 12 makes fused
// multiply-adds out of them (vfmaddsub), -ffp-contract=off or not.
template <class T>
struct Planes {
  alignas(64) T re[kParts], im[kParts];
  DW_INLINE void read(const Complex<T>* x, size_t n) {
    for (size_t k = 0; k < n; ++k) {
      re[k] = x[k].re;
      im[k] = x[k].im;
    }
  }
  DW_INLINE void write(Complex<T>* out, size_t n) const {
    for (size_t k = 0; k < n; ++k) out[k] = {re[k], im[k]};
  }
};
template <class T>
DW_INLINE void multiply(const Planes<T>& x, const Planes<T>& y, Planes<T>& out, size_t n) {
  for (size_t k = 0; k < n; ++k) out.re[k] = quiet(x.re[k] * y.re[k] - x.im[k] * y.im[k]);
  for (size_t k = 0; k < n; ++k) out.im[k] = quiet(x.re[k] * y.im[k] + x.im[k] * y.re[k]);
}
// Smith 1962: the larger part of the divisor is divided out first, so that no square overflows.
template <class T>
DW_INLINE void divide(const Planes<T>& x, const Planes<T>& y, Planes<T>& out, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    const T c = size1(y.re[k]), d = size1(y.im[k]);
    const bool flat = c >= d;
    const T large = flat ? y.re[k] : y.im[k], small = flat ? y.im[k] : y.re[k];
    const T ratio = small / large;
    const T scale = T(1) / (large + small * ratio);
    const T re = ((flat ? x.re[k] : x.im[k]) + (flat ? x.im[k] : x.re[k]) * ratio) * scale;
    const T im = (flat ? x.im[k] - x.re[k] * ratio : x.im[k] * ratio - x.re[k]) * scale;
    const bool zero = c == T(0) && d == T(0);
    out.re[k] = quiet(zero ? x.re[k] / c : re);
    out.im[k] = quiet(zero ? x.im[k] / c : im);
  }
}
enum class Product { multiply, divide, square, reciprocal };
template <class T, Product P>
DW_INLINE void product_strip(const Strip& s) {
  FpGuard guard;
  Planes<T> x, y, out;
  if constexpr (P == Product::reciprocal) {
    for (size_t k = 0; k < kParts; ++k) {
      x.re[k] = T(1);
      x.im[k] = T(0);
    }
  }
  for (size_t i = 0; i < s.n; i += kParts) {
    const size_t n = s.n - i < kParts ? s.n - i : kParts;
    const Complex<T>* first = static_cast<const Complex<T>*>(s.in[0]) + i;
    const Complex<T>* second = static_cast<const Complex<T>*>(s.in[1]) + i;
    if constexpr (P == Product::reciprocal) {
      y.read(first, n);
    } else {
      x.read(first, n);
      if constexpr (P != Product::square) y.read(second, n);
    }
    if constexpr (P == Product::multiply) multiply(x, y, out, n);
    else if constexpr (P == Product::square) multiply(x, x, out, n);
    else divide(x, y, out, n);
    out.write(static_cast<Complex<T>*>(s.out) + i, n);
  }
}
template <class T> DW_INLINE bool infinite(T x) { return size1(x) == T(__builtin_inff()); }

#define DW_COMPLEX1(NAME, R, EXPRESSION)                                                                  \
  template <class T>                                                                                      \
  struct LoopOf<Complex<T>, droveway::op_##NAME> {                                                        \
    using C = Complex<T>;                                                                                 \
    static void loop(const Strip& s) { each1<R, C>(s, [](C x) DW_LAMBDA -> R { return EXPRESSION; }); }   \
  };
#define DW_COMPLEX2(NAME, R, EXPRESSION)                                                                       \
  template <class T>                                                                                           \
  struct LoopOf<Complex<T>, droveway::op_##NAME> {                                                             \
    using C = Complex<T>;                                                                                      \
    static void loop(const Strip& s) { each2<R, C>(s, [](C x, C y) DW_LAMBDA -> R { return EXPRESSION; }); }   \
  };
DW_COMPLEX2(add, C, (quiet(C{x.re + y.re, x.im + y.im})))
DW_COMPLEX2(sub, C, (quiet(C{x.re - y.re, x.im - y.im})))
DW_COMPLEX1(neg, C, (quiet(C{-x.re, -x.im})))
DW_COMPLEX2(eq, uint8_t, (x.re == y.re) & (x.im == y.im))
DW_COMPLEX2(ne, uint8_t, (x.re != y.re) | (x.im != y.im))
DW_COMPLEX1(isnan, uint8_t, (x.re != x.re) | (x.im != x.im))
DW_COMPLEX1(isinf, uint8_t, infinite(x.re) | infinite(x.im))
DW_COMPLEX1(isfinite, uint8_t, (size1(x.re) < T(__builtin_inff())) & (size1(x.im) < T(__builtin_inff())))
DW_COMPLEX1(conj, C, (quiet(C{x.re, -x.im})))
DW_COMPLEX1(real, T, x.re)
DW_COMPLEX1(imag, T, x.im)

#define DW_COMPLEX_PRODUCT(NAME, KIND)                                                 \
  template <class T>                                                                   \
  struct LoopOf<Complex<T>, droveway::op_##NAME> {                                     \
    static void loop(const Strip& s) { product_strip<T, Product::KIND>(s); }           \
  };
DW_COMPLEX_PRODUCT(mul, multiply)
DW_COMPLEX_PRODUCT(div, divide)
DW_COMPLEX_PRODUCT(square, square)
DW_COMPLEX_PRODUCT(reciprocal, reciprocal)

template <class T, int ROUND>
DW_INLINE void by_parts(const Strip& s, int dtype) {
  Strip parts{s.out, {s.in[0], nullptr, nullptr}, 2 * s.n, ROUND};
  elementwise(ROUND, dtype)(parts);
}

// Two parts to one float by the loop of a function of two floats.
template <class T, int FUNCTION, bool SWAPPED>
DW_INLINE void from_parts(const Complex<T>* x, T* out, size_t n, int dtype) {
  Planes<T> z;
  z.read(x, n);
  Strip parts{out, {SWAPPED ? z.im : z.re, SWAPPED ? z.re : z.im, nullptr}, n, FUNCTION};
  elementwise(FUNCTION, dtype)(parts);
}
template <class T, int FUNCTION, bool SWAPPED>
DW_INLINE void float_strip(const Strip& s, int dtype) {
  const Complex<T>* x = static_cast<const Complex<T>*>(s.in[0]);
  for (size_t i = 0; i < s.n; i += kParts)
    from_parts<T, FUNCTION, SWAPPED>(x + i, static_cast<T*>(s.out) + i, s.n - i < kParts ? s.n - i : kParts, dtype);
}
// z / |z|, part by part; 0 for 0.
template <class T>
DW_INLINE void sign_strip(const Strip& s, int dtype) {
  FpGuard guard;
  alignas(64) T size[kParts];
  const Complex<T>* x = static_cast<const Complex<T>*>(s.in[0]);
  Complex<T>* out = static_cast<Complex<T>*>(s.out);
  for (size_t i = 0; i < s.n; i += kParts) {
    const size_t n = s.n - i < kParts ? s.n - i : kParts;
    from_parts<T, droveway::op_hypot, false>(x + i, size, n, dtype);
    for (size_t k = 0; k < n; ++k) {
      const Complex<T> z = x[i + k];
      out[i + k] = size[k] == T(0) ? Complex<T>{T(0), T(0)} : quiet(Complex<T>{z.re / size[k], z.im / size[k]});
    }
  }
}

#define DW_COMPLEX_PARTS(NAME, CALL)                                                           \
  template <>                                                                                  \
  struct LoopOf<Complex<float>, droveway::op_##NAME> {                                         \
    static void loop(const Strip& s) {                                                         \
      using T = float;                                                                         \
      CALL(s, int(droveway::Dtype::f32));                                                      \
    }                                                                                          \
  };                                                                                           \
  template <>                                                                                  \
  struct LoopOf<Complex<double>, droveway::op_##NAME> {                                        \
    static void loop(const Strip& s) {                                                         \
      using T = double;                                                                        \
      CALL(s, int(droveway::Dtype::f64));                                                      \
    }                                                                                          \
  };
DW_COMPLEX_PARTS(round, (by_parts<T, droveway::op_round>))
DW_COMPLEX_PARTS(abs, (float_strip<T, droveway::op_hypot, false>))
DW_COMPLEX_PARTS(angle, (float_strip<T, droveway::op_atan2, true>))
DW_COMPLEX_PARTS(sign, sign_strip<T>)

template <class T>
void pair_strip(const Strip& s) {
  const T* re = static_cast<const T*>(s.in[0]);
  const T* im = static_cast<const T*>(s.in[1]);
  Complex<T>* out = static_cast<Complex<T>*>(s.out);
  for (size_t i = 0; i < s.n; ++i) out[i] = {re[i], im[i]};
}

}  // namespace

DW_LOOP_TABLE(elementwise_c64, Complex<float>)
DW_LOOP_TABLE(elementwise_c128, Complex<double>)

ElementwiseLoop elementwise_pair(int dtype) {
  return dtype == int(droveway::Dtype::f32) ? pair_strip<float> : dtype == int(droveway::Dtype::f64) ? pair_strip<double> : nullptr;
}

}  // namespace DW_ISA

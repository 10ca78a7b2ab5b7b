// Rows of numbers in f64, real or complex (C), for the decompositions. A complex row is two planes. Every function is
// element by element: the compiler may cut the loops anywhere. Twin: tensor/twins/planes_ref.py.
#pragma once
#include "array/view.hpp"
#include "droveway/lanes.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace linalg {

struct Number {
  double re, im;
};

struct Row {
  double* re;
  double* im;  // the second plane, used only where C

  Row operator+(size_t k) const { return {re + k, im + k}; }
};

template <bool C>
DW_INLINE Number at(Row x, size_t k) {
  return {x.re[k], C ? x.im[k] : 0.0};
}
template <bool C>
DW_INLINE void set(Row x, size_t k, Number v) {
  x.re[k] = v.re;
  if (C) x.im[k] = v.im;
}
template <bool C>
DW_INLINE bool is_zero(Number a) {
  return a.re == 0 && (!C || a.im == 0);
}

// y −= a·x
template <bool C>
inline void minus(Row y, Number a, Row x, size_t n) {
  double *__restrict yr = y.re, *__restrict yi = y.im;
  const double *__restrict xr = x.re, *__restrict xi = x.im;
  if constexpr (!C) {
    for (size_t k = 0; k < n; ++k) yr[k] = fma1(-a.re, xr[k], yr[k]);
  } else {
    for (size_t k = 0; k < n; ++k) {
      yr[k] = fma1(a.im, xi[k], fma1(-a.re, xr[k], yr[k]));
      yi[k] = fma1(-a.im, xr[k], fma1(-a.re, xi[k], yi[k]));
    }
  }
}
// y += a·x
template <bool C>
inline void plus(Row y, Number a, Row x, size_t n) {
  double *__restrict yr = y.re, *__restrict yi = y.im;
  const double *__restrict xr = x.re, *__restrict xi = x.im;
  if constexpr (!C) {
    for (size_t k = 0; k < n; ++k) yr[k] = fma1(a.re, xr[k], yr[k]);
  } else {
    for (size_t k = 0; k < n; ++k) {
      yr[k] = fma1(-a.im, xi[k], fma1(a.re, xr[k], yr[k]));
      yi[k] = fma1(a.im, xr[k], fma1(a.re, xi[k], yi[k]));
    }
  }
}
// y = y·a
template <bool C>
inline void times(Row y, Number a, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    const double re = y.re[k];
    if constexpr (!C) {
      y.re[k] = re * a.re;
    } else {
      const double im = y.im[k];
      y.re[k] = fma1(re, a.re, -(im * a.im));
      y.im[k] = fma1(re, a.im, im * a.re);
    }
  }
}
// x = x − (k·x + conj(w)·y) and y = y − (k·y − w·x) (of the old x)
template <bool C>
inline void turn(Row x, Row y, double c, Number w, size_t n) {
  double *__restrict xr = x.re, *__restrict xi = x.im, *__restrict yr = y.re, *__restrict yi = y.im;
  for (size_t k = 0; k < n; ++k) {
    if constexpr (!C) {
      const double p = xr[k], q = yr[k];
      xr[k] = p - fma1(w.re, q, p * c);
      yr[k] = q - fma1(-w.re, p, q * c);
    } else {
      const double pr = xr[k], pi = xi[k], qr = yr[k], qi = yi[k];
      xr[k] = pr - fma1(w.im, qi, fma1(w.re, qr, pr * c));
      xi[k] = pi - fma1(-w.im, qr, fma1(w.re, qi, pi * c));
      yr[k] = qr - fma1(w.im, pi, fma1(-w.re, pr, qr * c));
      yi[k] = qi - fma1(-w.im, pr, fma1(-w.re, pi, qi * c));
    }
  }
}
template <bool C>
inline void scale(Row x, double factor, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    x.re[k] *= factor;
    if (C) x.im[k] *= factor;
  }
}
template <bool C>
inline void divide(Row x, double divisor, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    x.re[k] /= divisor;
    if (C) x.im[k] /= divisor;
  }
}
template <bool C>
inline void copy(Row y, Row x, size_t n) {
  memcpy(y.re, x.re, n * sizeof(double));
  if (C) memcpy(y.im, x.im, n * sizeof(double));
}
template <bool C>
inline void clear(Row x, size_t n) {
  memset(x.re, 0, n * sizeof(double));
  if (C) memset(x.im, 0, n * sizeof(double));
}

DW_INLINE double magnitude(double x) { return f64_of(bits1(x) & 0x7FFFFFFFFFFFFFFFull); }
DW_INLINE double with_sign(double size, double sign) {
  return f64_of((bits1(size) & 0x7FFFFFFFFFFFFFFFull) | (bits1(sign) & 0x8000000000000000ull));
}
DW_INLINE double root(double x) { return __builtin_sqrt(x); }

// 2^−e for the exponent e of |x|; 1 for 0, infinity and NaN; e at most ±1022.
DW_INLINE double power_of_2_below(double x) {
  const int exponent = int((bits1(x) >> 52) & 2047);
  if (exponent == 2047 || x == 0) return 1.0;
  const int e = 2046 - exponent;
  return f64_of(uint64_t(e < 1 ? 1 : e > 2045 ? 2045 : e) << 52);
}

template <bool C>
DW_INLINE Number product(Number a, Number b) {
  if constexpr (!C) return {a.re * b.re, 0.0};
  return {fma1(a.re, b.re, -(a.im * b.im)), fma1(a.re, b.im, a.im * b.re)};
}

// What divides by one number p, many times.
template <bool C>
struct Divisor {
  double re, im, size, factor;

  explicit Divisor(Number p) : re(p.re), im(p.im), size(0), factor(1) {
    if constexpr (C) {
      const double a = magnitude(p.re), b = magnitude(p.im);
      factor = power_of_2_below(a != a || b != b ? a + b : a > b ? a : b);
      re = p.re * factor;
      im = p.im * factor;
      size = fma1(re, re, im * im);
    }
  }
  DW_INLINE Number operator()(Number a) const {
    if constexpr (!C) return {a.re / re, 0.0};
    const double x = fma1(a.re, re, a.im * im), y = fma1(a.im, re, -(a.re * im));
    return {x / size * factor, y / size * factor};
  }
};
template <bool C>
inline void over(Row x, const Divisor<C>& p, size_t n) {
  for (size_t k = 0; k < n; ++k) set<C>(x, k, p(at<C>(x, k)));
}

// Σ |x|² and Σ x·conj(y) in the fixed order of the dot product.
template <bool C>
inline double norm_squared(Row x, size_t n) {
  const double re = dot_f64(x.re, 1, x.re, 1, n);
  return C ? re + dot_f64(x.im, 1, x.im, 1, n) : re;
}
template <bool C>
inline Number dot(Row x, Row y, size_t n) {
  const double re = dot_f64(x.re, 1, y.re, 1, n);
  if constexpr (!C) return {re, 0.0};
  const double im = dot_f64(x.im, 1, y.re, 1, n) - dot_f64(x.re, 1, y.im, 1, n);
  return {re + dot_f64(x.im, 1, y.im, 1, n), im};
}

// A matrix in the workspace: rows of `width` elements (a multiple of 8), the planes of a row side by side.
template <bool C>
struct Matrix {
  double* data;
  size_t width;

  Row row(size_t i) const {
    double* p = data + i * width * (C ? 2 : 1);
    return {p, C ? p + width : p};
  }
  Number get(size_t i, size_t j) const { return at<C>(row(i), j); }
  void put(size_t i, size_t j, Number v) const { set<C>(row(i), j, v); }
};

constexpr size_t padded(size_t n) { return (n + 7) & ~size_t{7}; }
template <bool C>
constexpr size_t doubles_of(size_t rows, size_t columns) {
  return rows * padded(columns) * (C ? 2 : 1);
}

// Takes pieces of the workspace, each aligned to 64 bytes.
struct Taker {
  double* next;

  double* doubles(size_t n) {
    double* p = next;
    next += padded(n);
    return p;
  }
  template <bool C>
  Matrix<C> matrix(size_t rows, size_t columns) {
    return {doubles(doubles_of<C>(rows, columns)), padded(columns)};
  }
  template <bool C>
  Row vector(size_t n) {
    return matrix<C>(1, n).row(0);
  }
};

template <bool C>
inline double largest(const Matrix<C>& a, size_t m, size_t n) {  // NaN does not count
  double most = 0;
  for (size_t i = 0; i < m; ++i) {
    const Row x = a.row(i);
    for (size_t k = 0; k < n; ++k) {
      if (magnitude(x.re[k]) > most) most = magnitude(x.re[k]);
      if (C && magnitude(x.im[k]) > most) most = magnitude(x.im[k]);
    }
  }
  return most;
}
template <bool C>
inline bool finite(const Matrix<C>& a, size_t m, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < m; ++i) {
    const Row x = a.row(i);
    for (size_t k = 0; k < n; ++k) sum += x.re[k] * 0.0 + (C ? x.im[k] * 0.0 : 0.0);
  }
  return sum == 0;
}

// Elements of a view, of f32 or f64 parts, at `data`.
struct Place {
  char* data;
  bool f64;
  ptrdiff_t row, column;  // strides in elements
};

template <bool C>
DW_INLINE Number read(const Place& p, size_t i, size_t j) {
  const ptrdiff_t at = (ptrdiff_t(i) * p.row + ptrdiff_t(j) * p.column) * (C ? 2 : 1);
  if (p.f64) {
    const double* x = reinterpret_cast<const double*>(p.data) + at;
    return {x[0], C ? x[1] : 0.0};
  }
  const float* x = reinterpret_cast<const float*>(p.data) + at;
  return {double(x[0]), C ? double(x[1]) : 0.0};
}
template <bool C>
DW_INLINE void write(const Place& p, size_t i, size_t j, Number v) {
  const ptrdiff_t at = (ptrdiff_t(i) * p.row + ptrdiff_t(j) * p.column) * (C ? 2 : 1);
  if (p.f64) {
    double* x = reinterpret_cast<double*>(p.data) + at;
    x[0] = canonical(v.re);
    if (C) x[1] = canonical(v.im);
  } else {
    float* x = reinterpret_cast<float*>(p.data) + at;
    x[0] = canonical(float(v.re));
    if (C) x[1] = canonical(float(v.im));
  }
}
template <bool C>
inline void read_all(const Place& p, const Matrix<C>& a, size_t m, size_t n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) a.put(i, j, read<C>(p, i, j));
}
template <bool C>
inline void write_all(const Place& p, const Matrix<C>& a, size_t m, size_t n) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) write<C>(p, i, j, a.get(i, j));
}

}  // namespace linalg
}  // namespace DW_ISA

// Cholesky, LU, triangular solutions, determinants, Householder QR, on matrices in the workspace. Each element is one
// chain of fused multiply-adds, steps ascending. Twin: tensor/twins/linalg_ref.py.
#pragma once
#include "droveway/interrupt.hpp"
#include "droveway/math_f64.hpp"
#include "linalg_planes.hpp"

namespace DW_ISA {
namespace linalg {

// The lower triangle of a becomes L, what is above it 0 (it is not read). Returns 0, or 1 + the first pivot that is not above 0.
template <bool C>
inline int32_t cholesky(const Matrix<C>& a, size_t n, Row column) {
  for (size_t j = 0; j < n && !dw_stop_requested(); ++j) {
    const double pivot = a.row(j).re[j];
    if (!(pivot > 0)) return int32_t(j) + 1;
    const double r = root(pivot);
    clear<C>(a.row(j) + j, n - j);
    a.put(j, j, {r, 0.0});
    for (size_t i = j + 1; i < n; ++i) {
      const Number x = a.get(i, j);
      const Number below{x.re / r, C ? x.im / r : 0.0};
      a.put(i, j, below);
      set<C>(column, i, {below.re, -below.im});
      minus<C>(a.row(i) + (j + 1), below, column + (j + 1), i - j);
    }
  }
  return 0;
}

// P·a = L·U in place; rows[i] is the row of a that row i was. Returns whether the permutation is odd.
template <bool C>
inline bool lu(const Matrix<C>& a, size_t m, size_t n, int64_t* rows, Row spare) {
  bool odd = false;
  for (size_t i = 0; i < m; ++i) rows[i] = int64_t(i);
  const auto size = [&](size_t i, size_t j) {
    const Number x = a.get(i, j);
    return C ? magnitude(x.re) + magnitude(x.im) : magnitude(x.re);
  };
  for (size_t j = 0; j < m && j < n && !dw_stop_requested(); ++j) {
    size_t p = j;
    double most = size(j, j);
    for (size_t i = j + 1; i < m; ++i) {
      const double here = size(i, j);
      if (here > most) {
        most = here;
        p = i;
      }
    }
    if (p != j) {
      copy<C>(spare, a.row(j), n);
      copy<C>(a.row(j), a.row(p), n);
      copy<C>(a.row(p), spare, n);
      const int64_t row = rows[j];
      rows[j] = rows[p];
      rows[p] = row;
      odd = !odd;
    }
    const Number pivot = a.get(j, j);
    if (is_zero<C>(pivot)) continue;
    const Divisor<C> by(pivot);
    for (size_t i = j + 1; i < m; ++i) {
      const Number below = by(a.get(i, j));
      a.put(i, j, below);
      minus<C>(a.row(i) + (j + 1), below, a.row(j) + (j + 1), n - j - 1);
    }
  }
  return odd;
}

template <bool C>
inline int32_t zero_on_diagonal(const Matrix<C>& a, size_t n) {
  for (size_t j = 0; j < n; ++j)
    if (is_zero<C>(a.get(j, j))) return int32_t(j) + 1;
  return 0;
}

// b[n, k] becomes the solution of a·x = b from one triangle of a.
template <bool C>
inline void forward(const Matrix<C>& a, size_t n, const Matrix<C>& b, size_t k, bool unit) {
  for (size_t j = 0; j < n && !dw_stop_requested(); ++j) {
    if (!unit) over<C>(b.row(j), Divisor<C>(a.get(j, j)), k);
    for (size_t i = j + 1; i < n; ++i) minus<C>(b.row(i), a.get(i, j), b.row(j), k);
  }
}
template <bool C>
inline void backward(const Matrix<C>& a, size_t n, const Matrix<C>& b, size_t k, bool unit) {
  for (size_t j = n; j-- > 0 && !dw_stop_requested();) {
    if (!unit) over<C>(b.row(j), Divisor<C>(a.get(j, j)), k);
    for (size_t i = 0; i < j; ++i) minus<C>(b.row(i), a.get(i, j), b.row(j), k);
  }
}

template <bool C>
inline Number diagonal_product(const Matrix<C>& a, size_t n, bool odd) {
  Number total{odd ? -1.0 : 1.0, 0.0};
  for (size_t j = 0; j < n; ++j) total = product<C>(total, a.get(j, j));
  return total;
}

inline double log1(double x) {
  double lanes[8];
  store(lanes, log(F64x8::set1(x)));
  return lanes[0];
}

template <bool C>
inline Number sign_and_log(const Matrix<C>& a, size_t n, bool odd, double* log_size) {
  Number sign{odd ? -1.0 : 1.0, 0.0};
  double total = 0;
  for (size_t j = 0; j < n; ++j) {
    const Number p = a.get(j, j);
    double size;
    Number unit{0.0, 0.0};
    if constexpr (!C) {
      size = magnitude(p.re);
      unit.re = p.re == 0 ? 0.0 : with_sign(1.0, p.re);
    } else {
      const double re = magnitude(p.re), im = magnitude(p.im);
      const double factor = power_of_2_below(re != re ? im : im != im ? re : re > im ? re : im);
      const Number scaled{p.re * factor, p.im * factor};
      const double r = root(fma1(scaled.re, scaled.re, scaled.im * scaled.im));
      size = r / factor;
      if (r == 0) unit = {p.re * 0.0, p.im * 0.0};
      else unit = {scaled.re / r, scaled.im / r};
    }
    sign = product<C>(sign, unit);
    total = total + log1(size);
  }
  *log_size = total;
  return sign;
}

struct Reflector {
  Number tau;
  double beta;
};

// x[n] becomes v with v[0] = 1 and (1 − conj(τ)·v·vᴴ)·x = β·e₁. Where τ = 0, x is not used.
template <bool C>
inline Reflector reflector(Row x, size_t n) {
  double most = 0;
  for (size_t k = 0; k < n; ++k) {
    if (magnitude(x.re[k]) > most) most = magnitude(x.re[k]);
    if (C && magnitude(x.im[k]) > most) most = magnitude(x.im[k]);
  }
  const double factor = power_of_2_below(most);
  scale<C>(x, factor, n);
  const double rest = norm_squared<C>(x + 1, n - 1);
  const Number head = at<C>(x, 0);
  if (rest == 0 && (!C || head.im == 0)) return {{0.0, 0.0}, head.re / factor};
  double size = fma1(head.re, head.re, rest);
  if (C) size = fma1(head.im, head.im, size);
  const double beta = -with_sign(root(size), head.re);
  const Number tau{(beta - head.re) / beta, C ? -head.im / beta : 0.0};
  over<C>(x, Divisor<C>({head.re - beta, head.im}), n);
  set<C>(x, 0, {1.0, 0.0});
  return {tau, beta / factor};
}

// Rows first … first + n of a, columns from … from + k, become (1 − τ·v·vᴴ) times themselves.
template <bool C>
inline void reflect(const Matrix<C>& a, size_t first, size_t n, size_t from, size_t k, Row v, Number tau, Row w) {
  copy<C>(w, a.row(first) + from, k);
  for (size_t i = 1; i < n; ++i) {
    const Number x = at<C>(v, i);
    plus<C>(w, {x.re, -x.im}, a.row(first + i) + from, k);
  }
  times<C>(w, tau, k);
  const Row head = a.row(first) + from;
  for (size_t j = 0; j < k; ++j) {
    head.re[j] = head.re[j] - w.re[j];
    if (C) head.im[j] = head.im[j] - w.im[j];
  }
  for (size_t i = 1; i < n; ++i) minus<C>(a.row(first + i) + from, at<C>(v, i), w, k);
}

// a[m, n] becomes R in its first min(m, n) rows; q[m, columns] becomes Q. vs[min(m, n), m] and taus, betas are scratch.
template <bool C>
inline void householder(const Matrix<C>& a, size_t m, size_t n, const Matrix<C>& q, size_t columns, const Matrix<C>& vs,
                        Row taus, Row w) {
  const size_t steps = m < n ? m : n;
  for (size_t j = 0; j < steps && !dw_stop_requested(); ++j) {
    const Row v = vs.row(j);
    for (size_t i = j; i < m; ++i) set<C>(v, i - j, a.get(i, j));
    const Reflector r = reflector<C>(v, m - j);
    set<C>(taus, j, r.tau);
    if (!is_zero<C>(r.tau)) reflect<C>(a, j, m - j, j + 1, n - j - 1, v, {r.tau.re, -r.tau.im}, w);
    for (size_t i = j; i < m; ++i) a.put(i, j, {0.0, 0.0});
    a.put(j, j, {r.beta, 0.0});
  }
  for (size_t i = 0; i < m; ++i) {
    clear<C>(q.row(i), columns);
    if (i < columns) q.put(i, i, {1.0, 0.0});
  }
  for (size_t j = steps; j-- > 0 && !dw_stop_requested();) {
    const Number tau = at<C>(taus, j);
    if (!is_zero<C>(tau)) reflect<C>(q, j, m - j, j, columns - j, vs.row(j), tau, w);
  }
}

}  // namespace linalg
}  // namespace DW_ISA

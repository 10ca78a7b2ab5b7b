// Eigenvalues of Hermitian matrices and singular values by Jacobi rotations, in rounds of disjoint pairs: place k turns
// with place h + k, then all places but the first move on by one. Twin and sources: tensor/twins/jacobi_ref.py.
#pragma once
#include "linalg_factor.hpp"

namespace DW_ISA {
namespace linalg {

inline constexpr int kSweepsMax = 60;
inline constexpr double kSmall = 0x1p-53, kFloor = 0x1p-106, kSmallDot = 0x1p-50;
inline constexpr double kTiny = 0x1p-900, kLift = 0x1p500;
inline constexpr int32_t kNotFinite = -1, kNotHermitian = -2, kNoEnd = -3;

// The rotations of one round, as `turn` of linalg_planes.hpp takes them.
struct Turns {
  double* k;
  Row w;
  double *app, *aqq;  // the diagonal after the rotation
  bool* turned;
};

template <bool C>
inline Turns take_turns(Taker& take, size_t h) {
  Turns t;
  t.k = take.doubles(h);
  t.w = take.vector<C>(h);
  t.app = take.doubles(h);
  t.aqq = take.doubles(h);
  t.turned = reinterpret_cast<bool*>(take.doubles(h));
  return t;
}
template <bool C>
constexpr size_t doubles_of_turns(size_t h) {
  return 4 * padded(h) + doubles_of<C>(1, h);
}

// What makes [[app, apq], [conj(apq), aqq]] diagonal. Returns whether it needs a rotation.
template <bool C>
inline bool set_turn(const Turns& t, size_t k, double app, double aqq, Number apq, double small, double floor) {
  double size = magnitude(apq.re);
  Number unit{apq.re < 0 ? -1.0 : 1.0, 0.0};
  if constexpr (C) {
    const double a = magnitude(apq.re), b = magnitude(apq.im);
    const double factor = power_of_2_below(a != a ? b : b != b ? a : a > b ? a : b);
    const double re = apq.re * factor, im = apq.im * factor, r = root(fma1(re, re, im * im));
    size = r / factor;
    unit = r == 0 ? Number{1.0, 0.0} : Number{re / r, im / r};
  }
  const bool turned = size > small * (root(magnitude(app)) * root(magnitude(aqq))) && size > floor;
  double s = 0, shift = 0, move = 0;
  if (turned) {
    const double theta = (aqq - app) / (size + size);
    const double angle = with_sign(1.0, theta) / (magnitude(theta) + root(fma1(theta, theta, 1.0)));
    const double c = 1.0 / root(fma1(angle, angle, 1.0));
    s = angle * c;
    shift = s * (s / (1.0 + c));
    move = angle * size;
  } else {
    unit = {1.0, 0.0};
  }
  t.k[k] = shift;
  set<C>(t.w, k, {unit.re * s, unit.im * s});
  t.app[k] = app - move;
  t.aqq[k] = aqq + move;
  t.turned[k] = turned;
  return turned;
}

// The places after a round, for rows that are known by their number.
inline void move_on(uint32_t* rows, size_t even) {
  const size_t h = even / 2;
  if (h < 2) return;
  const uint32_t up = rows[h], down = rows[h - 1];
  for (size_t k = h - 1; k > 1; --k) rows[k] = rows[k - 1];
  rows[1] = up;
  for (size_t k = h; k + 1 < even; ++k) rows[k] = rows[k + 1];
  rows[even - 1] = down;
}

// The columns of one row: turned where there is something to turn, and moved on. out is another row.
template <bool C>
inline void turn_columns(Row out, Row x, const Turns& t, size_t h, bool turning) {
  Row a = x, b = x + h;
  if (turning) {
    double *__restrict ar = a.re, *__restrict ai = a.im, *__restrict br = b.re, *__restrict bi = b.im;
    for (size_t k = 0; k < h; ++k) {
      const double c = t.k[k], wr = t.w.re[k];
      const double pr = ar[k], qr = br[k];
      if constexpr (!C) {
        ar[k] = pr - fma1(wr, qr, pr * c);
        br[k] = qr - fma1(-wr, pr, qr * c);
      } else {
        const double wi = t.w.im[k], pi = ai[k], qi = bi[k];
        ar[k] = pr - fma1(wi, qi, fma1(wr, qr, pr * c));
        ai[k] = pi - fma1(-wi, qr, fma1(wr, qi, pi * c));
        br[k] = qr - fma1(wi, pi, fma1(-wr, pr, qr * c));
        bi[k] = qi - fma1(-wi, pr, fma1(-wr, pi, qi * c));
      }
    }
  }
  const size_t even = 2 * h;
  if (h < 2) {
    copy<C>(out, x, even);
    return;
  }
  set<C>(out, 0, at<C>(x, 0));
  set<C>(out, 1, at<C>(x, h));
  copy<C>(out + 2, x + 1, h - 2);
  copy<C>(out + h, x + (h + 1), h - 1);
  set<C>(out, even - 1, at<C>(x, h - 1));
}

template <bool C>
inline int32_t rotate_until_diagonal(const Matrix<C>& a, size_t even, const Matrix<C>& v, size_t n, const Turns& t,
                                     uint32_t* rows, uint32_t* v_rows) {
  const size_t h = even / 2;
  uint32_t spare = uint32_t(even);  // a has one row more than places
  for (size_t i = 0; i < even; ++i) rows[i] = v_rows[i] = uint32_t(i);
  for (int sweep = 0; sweep < kSweepsMax; ++sweep) {
    bool needed = false;
    for (size_t round = 0; round + 1 < even; ++round) {
      if (dw_stop_requested()) return kNoEnd;
      bool turning = false;
      for (size_t k = 0; k < h; ++k) {
        const Row top = a.row(rows[k]);
        const double app = top.re[k], aqq = a.row(rows[h + k]).re[h + k];
        turning |= set_turn<C>(t, k, app, aqq, at<C>(top, h + k), kSmall, kFloor);
      }
      if (turning) {
        needed = true;
        for (size_t k = 0; k < h; ++k) {
          const Number w = at<C>(t.w, k);
          turn<C>(a.row(rows[k]), a.row(rows[h + k]), t.k[k], {w.re, -w.im}, even);
          turn<C>(v.row(v_rows[k]), v.row(v_rows[h + k]), t.k[k], w, n);
        }
      }
      for (size_t i = 0; i < even; ++i) {
        const Row out = a.row(spare);
        const Row x = a.row(rows[i]);
        turn_columns<C>(out, x, t, h, turning);
        if (turning) {  // the diagonal, and what the rotation made zero, exactly; columns have moved on by now
          const size_t k = i < h ? i : i - h;
          const auto moved = [&](size_t j) -> size_t {
            if (h < 2 || j == 0) return j;
            if (j == h) return 1;
            if (j == h - 1) return even - 1;
            return j < h ? j + 1 : j - 1;
          };
          set<C>(out, moved(i), {i < h ? t.app[k] : t.aqq[k], 0.0});
          if (t.turned[k]) set<C>(out, moved(i < h ? h + k : k), {0.0, 0.0});
        }
        const uint32_t done = spare;
        spare = rows[i];
        rows[i] = done;
      }
      move_on(rows, even);
      move_on(v_rows, even);
    }
    if (!needed) return 0;
  }
  return kNoEnd;
}

// Positions 0 … n − 1 sorted by keys, ascending, equal ones in their order. scratch has n places.
inline void sort_stable(const double* keys, uint32_t* order, uint32_t* scratch, size_t n) {
  for (size_t i = 0; i < n; ++i) order[i] = uint32_t(i);
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t low = 0; low < n; low += 2 * width) {
      const size_t middle = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n;
      size_t i = low, j = middle;
      for (size_t k = low; k < high; ++k)
        scratch[k] = j == high || (i < middle && !(keys[order[j]] < keys[order[i]])) ? order[i++] : order[j++];
    }
    for (size_t k = 0; k < n; ++k) order[k] = scratch[k];
  }
}

// As in eigh of the twin: values[n] ascending, divided by `factor`; row k of v belongs to place k and order[k] names the
// row of v for value k. a: [even + 1, even], v: [even, n], and a holds x in its first n rows and columns.
template <bool C>
inline int32_t eigh(const Matrix<C>& a, size_t n, const Matrix<C>& v, double asymmetry_max, Taker take, double* values,
                    uint32_t* order) {
  const size_t even = n + n % 2;
  if (!finite(a, n, n)) return kNotFinite;
  const double factor = power_of_2_below(largest(a, n, n));
  for (size_t i = 0; i < n; ++i) scale<C>(a.row(i), factor, n);
  double apart = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const Number x = a.get(i, j), y = a.get(j, i);
      const double re = magnitude(x.re - y.re), im = C ? magnitude(x.im - -y.im) : 0.0;
      if (re > apart) apart = re;
      if (im > apart) apart = im;
    }
  }
  if (apart > asymmetry_max * largest(a, n, n)) return kNotHermitian;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const Number x = a.get(i, j), y = a.get(j, i);
      a.put(j, i, {0.5 * (y.re + x.re), C ? 0.5 * (y.im + -x.im) : 0.0});
      a.put(i, j, {0.5 * (x.re + y.re), C ? 0.5 * (x.im + -y.im) : 0.0});
    }
  }
  for (size_t i = 0; i < even; ++i) {
    if (i >= n) clear<C>(a.row(i), even);
    else if (even > n) a.put(i, n, {0.0, 0.0});
    clear<C>(v.row(i), n);
    if (i < n) v.put(i, i, {1.0, 0.0});
  }
  const Turns t = take_turns<C>(take, even / 2);
  uint32_t* rows = reinterpret_cast<uint32_t*>(take.doubles(even));
  uint32_t* v_rows = rows + even;
  const int32_t status = rotate_until_diagonal<C>(a, even, v, n, t, rows, v_rows);
  if (status != 0) return status;
  double* unsorted = take.doubles(n);
  for (size_t k = 0; k < n; ++k) unsorted[k] = a.row(rows[k]).re[k];
  uint32_t* places = reinterpret_cast<uint32_t*>(take.doubles(n));
  sort_stable(unsorted, places, places + n, n);
  for (size_t k = 0; k < n; ++k) {
    values[k] = unsorted[places[k]] / factor;
    order[k] = v_rows[places[k]];
  }
  return 0;
}
template <bool C>
constexpr size_t doubles_for_eigh(size_t n) {
  const size_t even = n + n % 2;
  return doubles_of<C>(even + 1, even) + doubles_of<C>(even, n) + doubles_of_turns<C>(even / 2) + padded(even) + 4 * padded(n);
}

template <bool C>
inline int32_t rotate_until_orthogonal(const Matrix<C>& r, const Matrix<C>& v, size_t n, const Turns& t, uint32_t* rows,
                                       uint32_t* v_rows) {
  const size_t even = n + n % 2, h = even / 2;
  const double small = kSmallDot * root(double(n));
  for (size_t i = 0; i < even; ++i) rows[i] = v_rows[i] = uint32_t(i);
  for (int sweep = 0; sweep < kSweepsMax; ++sweep) {
    bool needed = false;
    for (size_t round = 0; round + 1 < even; ++round) {
      if (dw_stop_requested()) return kNoEnd;
      bool turning = false;
      for (size_t k = 0; k < h; ++k) {
        const Row p = r.row(rows[k]), q = r.row(rows[h + k]);
        const double pp = norm_squared<C>(p, n), qq = norm_squared<C>(q, n);
        const Number pq = pp < kTiny || qq < kTiny ? Number{0.0, 0.0} : dot<C>(p, q, n);
        turning |= set_turn<C>(t, k, pp, qq, pq, small, 0.0);
      }
      if (turning) {
        needed = true;
        for (size_t k = 0; k < h; ++k) {
          const Number w = at<C>(t.w, k);
          turn<C>(r.row(rows[k]), r.row(rows[h + k]), t.k[k], {w.re, -w.im}, n);
          turn<C>(v.row(v_rows[k]), v.row(v_rows[h + k]), t.k[k], w, n);
        }
      }
      move_on(rows, even);
      move_on(v_rows, even);
    }
    if (!needed) return 0;
  }
  return kNoEnd;
}

// What svd works in, for a tall matrix of m rows and n columns, q of `columns` columns.
template <bool C>
struct SvdSpace {
  Matrix<C> a, q, vs, r, v, units, left;
  Row taus, w;
  Turns t;
  uint32_t *rows, *v_rows, *order, *scratch;
  double *sizes, *negative;

  SvdSpace(Taker& take, size_t m, size_t n, size_t columns) {
    const size_t even = n + n % 2;
    a = take.matrix<C>(m, n);
    q = take.matrix<C>(m, columns);
    vs = take.matrix<C>(n, m);
    r = take.matrix<C>(even, n);
    v = take.matrix<C>(even, n);
    units = take.matrix<C>(n, n);
    left = take.matrix<C>(n, n);
    taus = take.vector<C>(n);
    w = take.vector<C>(columns);
    t = take_turns<C>(take, even / 2);
    rows = reinterpret_cast<uint32_t*>(take.doubles(even));
    v_rows = rows + even;
    order = reinterpret_cast<uint32_t*>(take.doubles(even));
    scratch = order + even;
    sizes = take.doubles(n);
    negative = take.doubles(n);
  }
  static constexpr size_t doubles(size_t m, size_t n, size_t columns) {
    const size_t even = n + n % 2;
    return doubles_of<C>(m, n) + doubles_of<C>(m, columns) + doubles_of<C>(n, m) + 2 * doubles_of<C>(even, n) +
           2 * doubles_of<C>(n, n) + doubles_of<C>(1, n) + doubles_of<C>(1, columns) + doubles_of_turns<C>(even / 2) +
           2 * padded(even) + 2 * padded(n);
  }
};

// As _svd_tall of the twin, of s.a: s.q becomes u, s.sizes[order[i]] the values, s.left[i] row i of vh.
template <bool C>
inline int32_t svd_tall(const SvdSpace<C>& s, size_t m, size_t n, size_t columns) {
  const size_t even = n + n % 2;
  householder<C>(s.a, m, n, s.q, columns, s.vs, s.taus, s.w);
  for (size_t i = 0; i < even; ++i) {
    if (i < n) copy<C>(s.r.row(i), s.a.row(i), n);
    else clear<C>(s.r.row(i), n);
    clear<C>(s.v.row(i), n);
    if (i < n) s.v.put(i, i, {1.0, 0.0});
  }
  const int32_t status = rotate_until_orthogonal<C>(s.r, s.v, n, s.t, s.rows, s.v_rows);
  if (status != 0) return status;
  size_t rank = 0;
  for (size_t i = 0; i < n; ++i) {
    const Row x = s.r.row(s.rows[i]);
    const double squared = norm_squared<C>(x, n);
    copy<C>(s.units.row(i), x, n);
    if (squared < kTiny) {  // too short for a direction
      scale<C>(x, kLift, n);
      s.sizes[i] = root(norm_squared<C>(x, n)) / kLift;
    } else {
      ++rank;
      s.sizes[i] = root(squared);
      divide<C>(s.units.row(i), s.sizes[i], n);
    }
    s.negative[i] = -s.sizes[i];
  }
  sort_stable(s.negative, s.order, s.scratch, n);
  for (size_t i = 0; i < n; ++i) copy<C>(s.left.row(i), s.units.row(s.order[i]), n);
  if (rank < n) {  // the other right vectors: any basis of what is left
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < rank; ++j) {
        const Number x = s.left.get(j, i);
        s.units.put(i, j, {x.re, -x.im});
      }
    }
    householder<C>(s.units, n, rank, s.r, n, s.vs, s.taus, s.w);
    for (size_t i = rank; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const Number x = s.r.get(j, i);
        s.left.put(i, j, {x.re, -x.im});
      }
    }
  }
  // u = q·j: column i of j is the row of v at place order[i]
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < n; ++k) s.units.put(k, i, s.v.get(s.v_rows[s.order[i]], k));
  for (size_t row = 0; row < m; ++row) {
    clear<C>(s.w, n);
    for (size_t i = 0; i < n; ++i) plus<C>(s.w, s.q.get(row, i), s.units.row(i), n);
    copy<C>(s.q.row(row), s.w, n);
  }
  return 0;
}

}  // namespace linalg
}  // namespace DW_ISA

// softmax, log_softmax and cross entropy, forward and backward, a line at a time. Twin: tensor/twins/softmax_ref.py.
//
// exp(x − shift) is kept in the result between two passes where the result lies contiguously in the type of the
// computation; elsewhere it is computed again, which gives the same bits.
#include "kernels.hpp"

#include "columns.hpp"

namespace DW_ISA {
namespace {

using namespace lines;
using droveway::CrossEntropy;
using droveway::Dtype;

// The sum of exp(x − shift), whose terms are left in y.
template <class T>
DW_INLINE T exp_store_block(const T* x, T* y, size_t n, T shift) {
  struct Step {
    const T* x;
    T* y;
    T shift;
    DW_INLINE V16<T> operator()(size_t i, V16<T> a) const {
      const V16<T> e = exp(Sixteen<T>::load(x + i) - Sixteen<T>::set1(shift));
      store(y + i, e);
      return a + e;
    }
    DW_INLINE V16<T> operator()(size_t i, size_t m, V16<T> a) const {
      const V16<T> e = exp(Sixteen<T>::load(x + i, m, -kInfinity<T>) - Sixteen<T>::set1(shift));
      store_partial(y + i, m, e);
      return a + e;
    }
  };
  return add_block<T>(n, Step{x, y, shift});
}

template <class T>
void divide(T* y, size_t n, T total) {
  each_sixteen<T>(n, [&](size_t i, size_t m) DW_LAMBDA {
    store_some(y + i, m, canonical(load_some(y + i, m) / Sixteen<T>::set1(total)));
  });
}

template <class T>
void softmax_line(const Source<T>& x, const Sink<T>& out, size_t n) {
  T in_local[kBlock], out_local[kBlock];
  const T shift = shift_of(x, n, in_local);
  const bool keep = out.direct() || n <= kBlock;
  const T total = add_line<T>(n, [&](size_t first, size_t m) {
    const T* p = x.block(first, m, in_local);
    return keep ? exp_store_block(p, out.begin(first, out_local), m, shift) : exp_block(p, m, shift);
  });
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t m = n - first < kBlock ? n - first : kBlock;
    T* y = out.begin(first, out_local);
    if (!keep) exp_store_block(x.block(first, m, in_local), y, m, shift);
    divide(y, m, total);
    out.end(first, m, y);
  }
}
template <class T>
void log_softmax_line(const Source<T>& x, const Sink<T>& out, size_t n) {
  T in_local[kBlock], out_local[kBlock];
  const T shift = shift_of(x, n, in_local);
  const T total = add_line<T>(n, [&](size_t first, size_t m) { return exp_block(x.block(first, m, in_local), m, shift); });
  const V16<T> shifts = Sixteen<T>::set1(shift), logs = Sixteen<T>::set1(log1(total));
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t m = n - first < kBlock ? n - first : kBlock;
    const T* p = x.block(first, m, in_local);
    T* y = out.begin(first, out_local);
    each_sixteen<T>(m, [&](size_t i, size_t k) DW_LAMBDA {
      store_some(y + i, k, canonical((load_some(p + i, k) - shifts) - logs));
    });
    out.end(first, m, y);
  }
}

DW_INLINE F64x16 log(F64x16 a) { return {DW_ISA::log(a.low), DW_ISA::log(a.high)}; }
using DW_ISA::log;

// The same for 64 neighbouring columns at a time.
template <class T>
void softmax_columns(const View& x, const View& out, const Split& s, const int64_t* offset, size_t w, bool logarithm) {
  const size_t n = s.line.total;
  ColumnRows<T> rows(x, s, 0, offset[0], w), results(out, s, 1, offset[1], w);
  const bool keep = results.direct() && !logarithm;
  T shift[kTile], e[kTile];
  for (T& value : shift) value = -kInfinity<T>;
  for (size_t i = 0; i < n; ++i) {
    const T* p = rows.row(i);
    each_sixteen<T>(w, [&](size_t c, size_t m) DW_LAMBDA {
      store_some(shift + c, m, larger(load_some(shift + c, m), load_some(p + c, m)));
    });
  }
  for (T& value : shift) value = value + T(0);
  const auto terms = [&](size_t i, T* y) DW_LAMBDA {
    const T* p = rows.row(i);
    each_sixteen<T>(w, [&](size_t c, size_t m) DW_LAMBDA {
      store_some(y + c, m, exp(load_some(p + c, m) - load_some(shift + c, m)));
    });
  };
  Tile<T, SumOp> tile;
  for (size_t start = 0; start < n; start += kBlock) {
    const size_t m = n - start < kBlock ? n - start : kBlock;
    for (size_t i = 0; i < m; ++i) {
      T* y = keep ? results.begin(start + i) : e;
      terms(start + i, y);
      if (i < kTile) first_row<T, SumOp>(tile.partial[i], y, w);
      else step_row<T, SumOp>(tile.partial[i % kTile], y, w);
    }
    tile.fold(m, w);
    tile.push(w);
  }
  T total[kTile];
  memcpy(total, tile.total(w), sizeof total);
  if (logarithm)
    each_sixteen<T>(w, [&](size_t c, size_t m) DW_LAMBDA { store_some(total + c, m, log(load_some(total + c, m))); });
  for (size_t i = 0; i < n; ++i) {
    T* y = results.begin(i);
    if (logarithm) {
      const T* p = rows.row(i);
      each_sixteen<T>(w, [&](size_t c, size_t m) DW_LAMBDA {
        store_some(y + c, m, canonical((load_some(p + c, m) - load_some(shift + c, m)) - load_some(total + c, m)));
      });
    } else {
      if (!keep) terms(i, y);
      each_sixteen<T>(w, [&](size_t c, size_t m) DW_LAMBDA {
        store_some(y + c, m, canonical(load_some(y + c, m) / load_some(total + c, m)));
      });
    }
    results.end(i);
  }
}
template <class T>
void backward_columns(const View& g, const View& y, const View& out, const Split& s, const int64_t* offset, size_t w, bool logarithm) {
  const size_t n = s.line.total;
  ColumnRows<T> gradients(g, s, 0, offset[0], w), results(y, s, 1, offset[1], w), to(out, s, 2, offset[2], w);
  Tile<T, SumOp> tile;
  for (size_t start = 0; start < n; start += kBlock) {
    const size_t m = n - start < kBlock ? n - start : kBlock;
    for (size_t i = 0; i < m; ++i) {
      const T* a = gradients.row(start + i);
      T* slot = tile.partial[i % kTile];
      if (logarithm) {
        if (i < kTile) first_row<T, SumOp>(slot, a, w);
        else step_row<T, SumOp>(slot, a, w);
      } else {
        const T* b = results.row(start + i);
        if (i < kTile) memset(slot, 0, sizeof tile.partial[0]);
        each_sixteen<T>(w, [&](size_t c, size_t k) DW_LAMBDA {
          store_some(slot + c, k, fma(load_some(a + c, k), load_some(b + c, k), load_some(slot + c, k)));
        });
      }
    }
    tile.fold(m, w);
    tile.push(w);
  }
  const T* total = tile.total(w);
  for (size_t i = 0; i < n; ++i) {
    const T *a = gradients.row(i), *b = results.row(i);
    T* d = to.begin(i);
    each_sixteen<T>(w, [&](size_t c, size_t k) DW_LAMBDA {
      const V16<T> u = load_some(a + c, k), v = load_some(b + c, k), totals = load_some(total + c, k);
      store_some(d + c, k, canonical(logarithm ? fnma(exp(v), totals, u) : (u - totals) * v));
    });
    to.end(i);
  }
}

template <class T>
void softmax_as(const View& x, int axis, const View& out, bool logarithm) {
  const View* views[] = {&x, &out};
  Split s = split(views, 2, uint32_t{1} << axis);
  if (columns_are_close(&s))
    return each_tile(s, 2, s.kept.total * s.line.total * sizeof(T) * 4, [&](const int64_t* offset, size_t w) {
      softmax_columns<T>(x, out, s, offset, w, logarithm);
    });
  each_line(s, 2, s.kept.total * s.line.total * sizeof(T) * 4, [&](const int64_t* offset, size_t) {
    const Source<T> source{&s.line, 0, x.dtype, at_offset(x, offset[0])};
    const Sink<T> sink{&s.line, 1, out.dtype, out_offset(out, offset[1])};
    if (logarithm) log_softmax_line(source, sink, s.line.total);
    else softmax_line(source, sink, s.line.total);
  });
}

template <class T>
void backward_line(const Source<T>& g, const Source<T>& y, const Sink<T>& out, size_t n, bool logarithm) {
  T g_local[kBlock], y_local[kBlock], out_local[kBlock];
  const T total = add_line<T>(n, [&](size_t first, size_t m) {
    const T* gradient = g.block(first, m, g_local);
    return logarithm ? sum_block(gradient, m) : dot_block(gradient, y.block(first, m, y_local), m);
  });
  const V16<T> totals = Sixteen<T>::set1(total);
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t m = n - first < kBlock ? n - first : kBlock;
    const T *gradient = g.block(first, m, g_local), *result = y.block(first, m, y_local);
    T* d = out.begin(first, out_local);
    each_sixteen<T>(m, [&](size_t i, size_t k) DW_LAMBDA {
      const V16<T> a = load_some(gradient + i, k), b = load_some(result + i, k);
      store_some(d + i, k, canonical(logarithm ? fnma(exp(b), totals, a) : (a - totals) * b));
    });
    out.end(first, m, d);
  }
}
template <class T>
void backward_as(const View& g, const View& y, int axis, const View& out, bool logarithm) {
  const View* views[] = {&g, &y, &out};
  Split s = split(views, 3, uint32_t{1} << axis);
  if (columns_are_close(&s))
    return each_tile(s, 3, s.kept.total * s.line.total * sizeof(T) * 4, [&](const int64_t* offset, size_t w) {
      backward_columns<T>(g, y, out, s, offset, w, logarithm);
    });
  each_line(s, 3, s.kept.total * s.line.total * sizeof(T) * 4, [&](const int64_t* offset, size_t) {
    backward_line(Source<T>{&s.line, 0, g.dtype, at_offset(g, offset[0])},
                  Source<T>{&s.line, 1, y.dtype, at_offset(y, offset[1])},
                  Sink<T>{&s.line, 2, out.dtype, out_offset(out, offset[2])}, s.line.total, logarithm);
  });
}

// --- cross entropy ---------------------------------------------------------------------------------------------------

DW_INLINE int64_t target_of(const CrossEntropy& c, size_t row) {
  return reinterpret_cast<const int64_t*>(c.targets.data)[int64_t(row) * c.targets.strides[0]];
}
template <class T>
void cross_entropy_as(const CrossEntropy& c, const View& loss, const View& lse) {
  const View* views[] = {&c.logits};
  const Split s = split(views, 1, 2u);
  const size_t n = s.line.total;
  const T smoothing = T(c.smoothing), rest = T(1.0 - c.smoothing);
  each_line(s, 1, s.kept.total * n * sizeof(T) * 4, [&](const int64_t* offset, size_t row) {
    T local[kBlock];
    const Source<T> x{&s.line, 0, c.logits.dtype, at_offset(c.logits, offset[0])};
    T shift = shift_of(x, n, local);
    shift = shift - shift == T(0) ? shift : T(0);
    const T total = add_line<T>(n, [&](size_t first, size_t m) { return exp_block(x.block(first, m, local), m, shift); });
    const T lse_value = canonical(shift + log1(total));
    store_one(lse, int64_t(row) * lse.strides[0], lse_value);
    const int64_t target = target_of(c, row);
    T value = T(0);
    if (target != c.ignore_index && size_t(target) < n) {  // checked before; another thread may have changed it
      value = lse_value - one_value<T>(c.logits, offset[0] + target * c.logits.strides[1]);
      if (c.smoothing != 0.0) {
        const T mean = add_line<T>(n, [&](size_t first, size_t m) { return sum_block(x.block(first, m, local), m); }) / T(n);
        value = rest * value + smoothing * (lse_value - mean);
      }
      value = canonical(value);
    }
    store_one(loss, int64_t(row) * loss.strides[0], value);
  });
}

template <class T>
void cross_entropy_backward_as(const CrossEntropy& c, const View& g, const View& lse, const View& out) {
  const View* views[] = {&c.logits, &out};
  const Split s = split(views, 2, 2u);
  const size_t n = s.line.total;
  const T share = T(c.smoothing) / T(n), rest = T(1.0 - c.smoothing);
  each_line(s, 2, s.kept.total * n * sizeof(T) * 4, [&](const int64_t* offset, size_t row) {
    T in_local[kBlock], out_local[kBlock];
    const Source<T> x{&s.line, 0, c.logits.dtype, at_offset(c.logits, offset[0])};
    const Sink<T> sink{&s.line, 1, out.dtype, out_offset(out, offset[1])};
    const int64_t target = target_of(c, row);
    const bool ignored = target == c.ignore_index;
    const T gradient = one_value<T>(g, int64_t(row) * g.strides[0]);
    const V16<T> gradients = Sixteen<T>::set1(gradient), shares = Sixteen<T>::set1(share),
                 lses = Sixteen<T>::set1(one_value<T>(lse, int64_t(row) * lse.strides[0]));
    for (size_t first = 0; first < n; first += kBlock) {
      const size_t m = n - first < kBlock ? n - first : kBlock;
      T* d = sink.begin(first, out_local);
      if (ignored) {
        memset(d, 0, m * sizeof(T));
      } else {
        const T* p = x.block(first, m, in_local);
        each_sixteen<T>(m, [&](size_t i, size_t k) DW_LAMBDA {
          store_some(d + i, k, canonical(gradients * (exp(load_some(p + i, k) - lses) - shares)));
        });
        const size_t at = size_t(target) - first;  // large where the target lies in another block
        if (at < m) {
          T e[16];
          store(e, exp(Sixteen<T>::set1(p[at]) - lses));
          d[at] = canonical(gradient * ((e[0] - share) - rest));
        }
      }
      sink.end(first, m, d);
    }
  });
}

}  // namespace

void softmax(const View& x, int axis, const View& out, bool logarithm) {
  FpGuard guard;
  if (x.dtype == Dtype::f64) softmax_as<double>(x, axis, out, logarithm);
  else softmax_as<float>(x, axis, out, logarithm);
}
void softmax_backward(const View& g, const View& y, int axis, const View& out, bool logarithm) {
  FpGuard guard;
  if (g.dtype == Dtype::f64) backward_as<double>(g, y, axis, out, logarithm);
  else backward_as<float>(g, y, axis, out, logarithm);
}
void cross_entropy(const CrossEntropy& c, const View& loss, const View& lse) {
  FpGuard guard;
  if (c.logits.dtype == Dtype::f64) cross_entropy_as<double>(c, loss, lse);
  else cross_entropy_as<float>(c, loss, lse);
}
void cross_entropy_backward(const CrossEntropy& c, const View& g, const View& lse, const View& out) {
  FpGuard guard;
  if (c.logits.dtype == Dtype::f64) cross_entropy_backward_as<double>(c, g, lse, out);
  else cross_entropy_backward_as<float>(c, g, lse, out);
}

}  // namespace DW_ISA

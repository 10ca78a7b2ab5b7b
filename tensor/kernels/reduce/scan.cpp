// Cumulative sums, products, maxima and minima along one axis. Twin: tensor/twins/scan_ref.py.
//
// Values are cut into runs of 256, 16 of which make a block. Each run is one chain; a run's base is the total of what came
// before it: blocks chained, then the runs of its block chained. Result i = base of its run, op its place in the chain.
// Nothing is combined with an identity: the first run of all has no base. Sums start at +0.
#include "kernels.hpp"

#include "columns.hpp"

namespace DW_ISA {
namespace {

using namespace lines;
using droveway::Dtype;
using droveway::Scan;

constexpr size_t kRun = 256;
constexpr size_t kRuns = kBlock / kRun;

// out[i] = the chain of x up to i within its run. The chains of a full block advance side by side: the same values, sooner.
template <class T, class Op>
void chains(const T* x, T* out, size_t n) {
  if (n == kBlock) {
    T a[kRuns];
    for (size_t r = 0; r < kRuns; ++r) out[r * kRun] = a[r] = Op::template first<T>(x[r * kRun]);
    for (size_t i = 1; i < kRun; ++i)
      for (size_t r = 0; r < kRuns; ++r) out[r * kRun + i] = a[r] = Op::template step<T>(a[r], x[r * kRun + i]);
    return;
  }
  for (size_t first = 0; first < n; first += kRun) {
    const size_t end = n - first < kRun ? n : first + kRun;
    T a = Op::template first<T>(x[first]);
    out[first] = a;
    for (size_t i = first + 1; i < end; ++i) out[i] = a = Op::template step<T>(a, x[i]);
  }
}

template <class T>
void make_canonical(T* x, size_t n) {
  if constexpr (kFloating<T>)
    for (size_t i = 0; i < n; i += 16) store_partial(x + i, n - i, canonical(Sixteen<T>::load(x + i, n - i, T(0))));
}

template <class T, class Op>
void scan_line(const Source<T>& x, const Sink<T>& out, size_t n) {
  T in_local[kBlock], out_local[kBlock];
  T blocks{};  // total of the blocks so far, where there are any
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t m = n - first < kBlock ? n - first : kBlock;
    T* y = out.begin(first, out_local);
    chains<T, Op>(x.block(first, m, in_local), y, m);
    T runs{};  // total of the runs so far in this block
    for (size_t start = 0; start < m; start += kRun) {
      const size_t count = m - start < kRun ? m - start : kRun;
      const T total = y[start + count - 1];
      if (first > 0 || start > 0) {
        const T base = first == 0 ? runs : start == 0 ? blocks : Op::template join<T>(blocks, runs);
        for (size_t i = start; i < start + count; ++i) y[i] = Op::template join<T>(base, y[i]);
      }
      runs = start == 0 ? total : Op::template join<T>(runs, total);
    }
    blocks = first == 0 ? runs : Op::template join<T>(blocks, runs);
    make_canonical(y, m);
    out.end(first, m, y);
  }
}

// The largest (or smallest) value so far and the first index that has it; a NaN stays.
template <class T, class Op>
void extreme_line(const Source<T>& x, const Sink<T>& out, const Sink<int64_t>* indices, size_t n) {
  T in_local[kBlock], out_local[kBlock];
  int64_t index_local[kBlock];
  T best{};
  int64_t at = 0;
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t m = n - first < kBlock ? n - first : kBlock;
    const T* p = x.block(first, m, in_local);
    T* y = out.begin(first, out_local);
    int64_t* where = indices != nullptr ? indices->begin(first, index_local) : index_local;
    for (size_t i = 0; i < m; ++i) {
      const T value = p[i];
      if (first + i == 0) {
        best = value;
      } else if (best == best) {
        const T next = Op::template join<T>(best, value);
        if (next != best) at = int64_t(first + i);  // true too where next is NaN
        best = next;
      }
      if constexpr (kFloating<T>) best = canonical(best);
      y[i] = best;
      where[i] = at;
    }
    out.end(first, m, y);
    if (indices != nullptr) indices->end(first, m, where);
  }
}

template <class T>
void scan_as(Scan op, const Split& s, const View& x, const View& out, const View* indices) {
  each_line(s, indices != nullptr ? 3 : 2, s.kept.total * s.line.total * sizeof(T), [&](const int64_t* offset, size_t) {
    const size_t n = s.line.total;
    const Source<T> source{&s.line, 0, x.dtype, at_offset(x, offset[0])};
    const Sink<T> sink{&s.line, 1, out.dtype, out_offset(out, offset[1])};
    if (op == Scan::sum) return scan_line<T, SumOp>(source, sink, n);
    if (op == Scan::prod) return scan_line<T, ProductOp>(source, sink, n);
    Sink<int64_t> where{&s.line, 2, Dtype::i64, nullptr};
    if (indices != nullptr) where.data = out_offset(*indices, offset[2]);
    if (op == Scan::max) return extreme_line<T, ExtremeOp<true>>(source, sink, indices != nullptr ? &where : nullptr, n);
    extreme_line<T, ExtremeOp<false>>(source, sink, indices != nullptr ? &where : nullptr, n);
  });
}

template <class T>
struct Complex {
  T re, im;
};
template <class T>
DW_INLINE Complex<T> product(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
void complex_products(const Split& s, const View& x, const View& out) {
  each_line(s, 2, s.kept.total * s.line.total * 2 * sizeof(T), [&](const int64_t* offset, size_t) {
    const Complex<T>* p = reinterpret_cast<const Complex<T>*>(x.data) + offset[0];
    Complex<T>* y = reinterpret_cast<Complex<T>*>(out.data) + offset[1];
    const int64_t x_step = s.line.stride[0][0], y_step = s.line.stride[1][0];
    const size_t n = s.line.total;
    Complex<T> blocks{}, runs{}, chain{}, base{};
    for (size_t i = 0; i < n; ++i) {
      const size_t in_block = i % kBlock;
      if (i % kRun == 0) {
        if (i > 0) {
          runs = (i - kRun) % kBlock == 0 ? chain : product(runs, chain);
          if (in_block == 0) blocks = i == kBlock ? runs : product(blocks, runs);
          base = in_block == 0 ? blocks : i < kBlock ? runs : product(blocks, runs);
        }
        chain = p[int64_t(i) * x_step];
      } else {
        chain = product(chain, p[int64_t(i) * x_step]);
      }
      const Complex<T> value = i < kRun ? chain : product(base, chain);
      y[int64_t(i) * y_step] = {canonical(value.re), canonical(value.im)};
    }
  });
}

}  // namespace

void scan(Scan op, const View& x, int axis, const View& out, const View* indices) {
  FpGuard guard;
  const View* views[] = {&x, &out, indices};
  Split s = split(views, indices != nullptr ? 3 : 2, uint32_t{1} << axis);
  if (s.kept.total == 0 || s.line.total == 0) return;
  if (x.dtype >= Dtype::c64) {
    if (op == Scan::prod) return x.dtype == Dtype::c64 ? complex_products<float>(s, x, out) : complex_products<double>(s, x, out);
    const Dtype real = x.dtype == Dtype::c64 ? Dtype::f32 : Dtype::f64;
    split_parts(&s);
    const View x_parts{x.data, real, 0, nullptr, nullptr}, out_parts{out.data, real, 0, nullptr, nullptr};
    if (real == Dtype::f32) scan_as<float>(op, s, x_parts, out_parts, nullptr);
    else scan_as<double>(op, s, x_parts, out_parts, nullptr);
    return;
  }
  if (x.dtype == Dtype::f64) scan_as<double>(op, s, x, out, indices);
  else if (x.dtype >= Dtype::f16) scan_as<float>(op, s, x, out, indices);
  else if (x.dtype <= Dtype::i64) scan_as<int64_t>(op, s, x, out, indices);
  else scan_as<uint64_t>(op, s, x, out, indices);
}

}  // namespace DW_ISA

// Reductions over any axes of any strided view: sums, products, extremes, truth, indices of extremes, logsumexp, variance.
// Twin: tensor/twins/reductions_ref.py.
//
// Lines whose elements lie close together are reduced one by one, vectorised along the line. Where instead neighbouring
// lines lie close together ("columns"), 64 of them advance together, each with its own 64 partial values: the same order.
#include "kernels.hpp"

#include "columns.hpp"

namespace DW_ISA {
namespace {

using namespace lines;
using droveway::Dtype;
using droveway::Reduce;

constexpr size_t kChunkBlocksMin = 16;  // a chunk is a whole subtree: a power of two of blocks
constexpr size_t kChunksMax = 1024;
template <class T, class Op>
struct Chunks {
  const Source<T>& x;
  size_t n, chunk;
  T partial[kChunksMax];
};
template <class T, class Op>
T fold_blocks(const Source<T>& x, size_t first, size_t end) {
  T local[kBlock];
  Tree<T, JoinOf<T, Op>> tree;
  for (; first < end; first += kBlock) {
    const size_t m = end - first < kBlock ? end - first : kBlock;
    tree.push(Op::template block<T>(x.block(first, m, local), m));
  }
  return tree.total();
}
template <class T, class Op>
__attribute__((noinline)) T fold_chunks(const Source<T>& x, size_t n) {
  Chunks<T, Op> c{x, n, kBlock * kChunkBlocksMin, {}};
  while ((n - 1) / c.chunk >= kChunksMax) c.chunk *= 2;
  const size_t chunks = (n - 1) / c.chunk + 1;
  dw_parallel_n(chunks, [](void* raw, size_t k) {
        Chunks<T, Op>& c = *static_cast<Chunks<T, Op>*>(raw);
        c.partial[k] = fold_blocks<T, Op>(c.x, k * c.chunk, c.n - k * c.chunk < c.chunk ? c.n : (k + 1) * c.chunk);
      }, &c, threads_for(n * sizeof(T)));
  Tree<T, JoinOf<T, Op>> tree;
  for (size_t k = 0; k < chunks; ++k) tree.push(c.partial[k]);
  return tree.total();
}
template <class T, class Op>
T fold_line(const Source<T>& x, size_t n) {
  if (n == 0) return Op::template empty<T>();
  if (n > kBlock * kChunkBlocksMin) return fold_chunks<T, Op>(x, n);
  if (n <= kBlock && x.direct()) return Op::template block<T>(reinterpret_cast<const T*>(x.data), n);
  return fold_blocks<T, Op>(x, 0, n);
}

template <class T>
T finished(Reduce op, T value, size_t n) {
  if constexpr (kFloating<T>) {
    if (op == Reduce::mean) return canonical(value / T(n));
    if (op == Reduce::norm) return sqrt1(value);
    return canonical(value);
  } else {
    return value;
  }
}

// --- columns ---------------------------------------------------------------------------------------------------------

template <class T, class Op>
struct ColumnJob {
  const Split& s;
  const View& x;
  const View& out;
  Reduce op;
  size_t tiles;  // of one outer position
  Dims outer;
};

template <class T, class Op>
void column_tile(void* raw, size_t number) {
  const ColumnJob<T, Op>& job = *static_cast<const ColumnJob<T, Op>*>(raw);
  const int last = job.s.kept.n - 1;
  const int64_t x_step = job.s.kept.stride[0][last], out_step = job.s.kept.stride[1][last];
  const Odometer at(job.outer, 2, number / job.tiles);
  const size_t first = number % job.tiles * kTile, all = size_t(job.s.kept.size[last]);
  const size_t w = all - first < kTile ? all - first : kTile;
  const ptrdiff_t size = ptrdiff_t(droveway::dtype_size(job.x.dtype));
  const char* base = job.x.data + (at.offset[0] + int64_t(first) * x_step) * size;
  const bool direct = job.x.dtype == kNative<T> && x_step == 1;
  const size_t n = job.s.line.total;

  Tile<T, Op> tile;
  T local[kTile];
  Odometer row(job.s.line, 1, 0);
  const auto next = [&]() -> const T* {
    const char* p = base + row.offset[0] * size;
    row.next();
    if (direct) return reinterpret_cast<const T*>(p);
    load_run(job.x.dtype, p, x_step, w, local);
    return local;
  };
  for (size_t start = 0; start < n; start += kBlock) {
    const size_t m = n - start < kBlock ? n - start : kBlock;
    size_t i = 0;
    for (; i < m && i < kTile; ++i) {
      if (w == kTile) first_row<T, Op>(tile.partial[i], next(), kTile);
      else first_row<T, Op>(tile.partial[i], next(), w);
    }
    for (; i < m; ++i) {
      if (w == kTile) step_row<T, Op>(tile.partial[i % kTile], next(), kTile);
      else step_row<T, Op>(tile.partial[i % kTile], next(), w);
    }
    tile.fold(m, w);
    tile.push(w);
  }
  T values[kTile];
  const T* total = tile.total(w);
  for (size_t c = 0; c < w; ++c) values[c] = finished(job.op, total[c], n);
  store_run(job.out.dtype, out_offset(job.out, at.offset[1] + int64_t(first) * out_step), out_step, w, values);
}

template <class T, class Op>
void reduce_as(Reduce op, Split& s, const View& x, const View& out) {
  const size_t n = s.line.total, bytes = s.kept.total * n * droveway::dtype_size(x.dtype);
  if (columns_are_close(&s)) {
    const int last = s.kept.n - 1;
    ColumnJob<T, Op> job{s, x, out, op, (size_t(s.kept.size[last]) - 1) / kTile + 1, s.kept};
    job.outer.size[last] = 1;
    job.outer.total = s.kept.total / size_t(s.kept.size[last]);
    dw_parallel_n(job.outer.total * job.tiles, column_tile<T, Op>, &job, threads_for(bytes));
    return;
  }
  const auto one = [&](const int64_t* offset, size_t) {
    const Source<T> source{&s.line, 0, x.dtype, at_offset(x, offset[0])};
    store_one(out, offset[1], finished(op, fold_line<T, Op>(source, n), n));
  };
  if (s.kept.total < 8) {  // few lines: threads share each of them
    Odometer at(s.kept, 2, 0);
    for (size_t i = 0; i < s.kept.total; ++i, at.next()) one(at.offset, i);
  } else {
    each_line(s, 2, bytes, one);
  }
}

template <class T>
void reduce_numbers(Reduce op, Split& s, const View& x, const View& out) {
  switch (op) {
    case Reduce::sum: case Reduce::mean: return reduce_as<T, SumOp>(op, s, x, out);
    case Reduce::square_sum: case Reduce::norm: return reduce_as<T, SquareSumOp>(op, s, x, out);
    case Reduce::prod: return reduce_as<T, ProductOp>(op, s, x, out);
    case Reduce::max: return reduce_as<T, ExtremeOp<true>>(op, s, x, out);
    default: return reduce_as<T, ExtremeOp<false>>(op, s, x, out);
  }
}

// --- complex products ------------------------------------------------------------------------------------------------

// Missing values are left out, not multiplied with 1: 1·(∞ + 0i) has a NaN.
template <class T>
struct ComplexProduct {
  T re[64], im[64];
  void take(size_t slot, bool first, T a, T b) {
    if (first) {
      re[slot] = a;
      im[slot] = b;
      return;
    }
    join(re[slot], im[slot], a, b);
  }
  static void join(T& re, T& im, T a, T b) {
    const T x = re * a - im * b, y = re * b + im * a;
    re = x;
    im = y;
  }
  void fold(size_t m) {
    const size_t present = m < 64 ? m : 64;
    for (size_t l = 0; l < 16; ++l) {
      if (l + 16 < present) join(re[l], im[l], re[l + 16], im[l + 16]);
      if (l + 48 < present) join(re[l + 32], im[l + 32], re[l + 48], im[l + 48]);
      if (l + 32 < present) join(re[l], im[l], re[l + 32], im[l + 32]);
    }
    for (size_t half = 8; half > 0; half /= 2)
      for (size_t l = 0; l < half && l + half < present; ++l) join(re[l], im[l], re[l + half], im[l + half]);
  }
};
template <class T>
struct Pair {
  T re, im;
};
template <class T>
struct JoinPairs {
  Pair<T> operator()(Pair<T> a, Pair<T> b) const {
    ComplexProduct<T>::join(a.re, a.im, b.re, b.im);
    return a;
  }
};
template <class T>
void complex_products(const Split& s, const View& x, const View& out) {
  const size_t n = s.line.total;
  each_line(s, 2, s.kept.total * n * 2 * sizeof(T), [&](const int64_t* offset, size_t) {
    Pair<T> value{T(1), T(0)};
    const T* data = reinterpret_cast<const T*>(x.data) + 2 * offset[0];
    Odometer at(s.line, 1, 0);
    Tree<Pair<T>, JoinPairs<T>> tree;
    for (size_t first = 0; first < n; first += kBlock) {
      const size_t m = n - first < kBlock ? n - first : kBlock;
      ComplexProduct<T> p;
      for (size_t i = 0; i < m; ++i, at.next()) p.take(i % 64, i < 64, data[2 * at.offset[0]], data[2 * at.offset[0] + 1]);
      p.fold(m);
      tree.push(Pair<T>{p.re[0], p.im[0]});
    }
    if (n > 0) value = tree.total();
    T* y = reinterpret_cast<T*>(out.data) + 2 * offset[1];
    y[0] = canonical(value.re);
    y[1] = canonical(value.im);
  });
}

// --- truth, indices --------------------------------------------------------------------------------------------------

void reduce_truth(Reduce op, const Split& s, const View& x, const View& out) {
  const size_t n = s.line.total, size = droveway::dtype_size(x.dtype);
  each_line(s, 2, s.kept.total * n * size, [&](const int64_t* offset, size_t) {
    const char* data = at_offset(x, offset[0]);
    const int last = s.line.n - 1;
    const ptrdiff_t stride = s.line.stride[0][last];
    size_t count = 0, left = n;
    Odometer at(s.line, 1, 0);
    uint8_t local[kBlock];
    while (left > 0) {
      const size_t run = size_t(s.line.size[last] - at.index[last]);
      size_t m = run < left ? run : left;
      m = m < kBlock ? m : kBlock;
      load_truth(x.dtype, data + at.offset[0] * ptrdiff_t(size), stride, m, local);
      size_t here = 0;
      for (size_t i = 0; i < m; ++i) here += local[i];
      count += here;
      left -= m;
      if (op == Reduce::any && here > 0) break;
      if (op == Reduce::all && here < m) {
        count = 0;
        break;
      }
      if (left == 0) break;
      at.index[last] += int64_t(m);
      at.offset[0] += int64_t(m) * stride;
      if (at.index[last] == s.line.size[last]) {
        at.offset[0] -= s.line.size[last] * stride;
        at.index[last] = 0;
        if (last > 0) at.advance(last - 1);
      }
    }
    const int64_t value = op == Reduce::any ? count > 0 : op == Reduce::all ? (count > 0 || n == 0) : int64_t(count);
    store_one(out, offset[1], value);
  });
}

template <class T, class Op>
void index_lines(const Split& s, const View& x, const View& out) {
  const size_t n = s.line.total;
  each_line(s, 2, s.kept.total * n * droveway::dtype_size(x.dtype), [&](const int64_t* offset, size_t) {
    const Source<T> source{&s.line, 0, x.dtype, at_offset(x, offset[0])};
    const T best = fold_line<T, Op>(source, n);
    int64_t index = 0;
    T local[kBlock];
    for (size_t first = 0; first < n; first += kBlock) {
      const size_t m = n - first < kBlock ? n - first : kBlock;
      const T* p = source.block(first, m, local);
      size_t i = 0;
      if (best != best) {
        while (i < m && p[i] == p[i]) ++i;
      } else {
        while (i < m && !(p[i] == best)) ++i;
      }
      if (i < m) {
        index = int64_t(first + i);
        break;
      }
    }
    store_one(out, offset[1], index);
  });
}
template <class T>
void reduce_indices(Reduce op, const Split& s, const View& x, const View& out) {
  if (op == Reduce::argmax) index_lines<T, ExtremeOp<true>>(s, x, out);
  else index_lines<T, ExtremeOp<false>>(s, x, out);
}

// --- logsumexp, variance ---------------------------------------------------------------------------------------------

template <class T>
T logsumexp_line(const Source<T>& x, size_t n) {
  T local[kBlock];
  T shift = shift_of(x, n, local);
  shift = shift - shift == T(0) ? shift : T(0);
  const T total = add_line<T>(n, [&](size_t first, size_t m) { return exp_block(x.block(first, m, local), m, shift); });
  return canonical(shift + log1(total));
}
template <class T>
T variance_line(const Source<T>& x, size_t n, double correction) {
  T local[kBlock];
  const T mean = add_line<T>(n, [&](size_t first, size_t m) { return sum_block(x.block(first, m, local), m); }) / T(n);
  const T total = add_line<T>(n, [&](size_t first, size_t m) { return deviation_block(x.block(first, m, local), m, mean); });
  const double freedom = double(n) - correction;
  return canonical(total / T(freedom > 0 ? freedom : 0.0));
}
template <class T>
void reduce_terms(Reduce op, const Split& s, const View& x, const View& out, double parameter) {
  const size_t n = s.line.total;
  each_line(s, 2, s.kept.total * n * sizeof(T), [&](const int64_t* offset, size_t) {
    const Source<T> source{&s.line, 0, x.dtype, at_offset(x, offset[0])};
    T value;
    if (op == Reduce::logsumexp) {
      value = logsumexp_line(source, n);
    } else {
      value = variance_line(source, n, parameter);
      if (op == Reduce::std) value = sqrt1(value);
    }
    store_one(out, offset[1], value);
  });
}

bool is_signed(Dtype d) { return d <= Dtype::i64; }

}  // namespace

void reduce(Reduce op, const View& x, uint32_t axes, const View& out, double parameter) {
  FpGuard guard;
  const View* views[] = {&x, &out};
  Split s = split(views, 2, axes);
  if (op == Reduce::any || op == Reduce::all || op == Reduce::count_nonzero) return reduce_truth(op, s, x, out);
  if (x.dtype >= Dtype::c64) {
    if (op == Reduce::prod) return x.dtype == Dtype::c64 ? complex_products<float>(s, x, out) : complex_products<double>(s, x, out);
    // Sums of complex numbers are those of their parts: one more kept dimension of two.
    const Dtype real = x.dtype == Dtype::c64 ? Dtype::f32 : Dtype::f64;
    split_parts(&s);
    const View x_parts{x.data, real, 0, nullptr, nullptr}, out_parts{out.data, real, 0, nullptr, nullptr};
    if (real == Dtype::f32) reduce_numbers<float>(op, s, x_parts, out_parts);
    else reduce_numbers<double>(op, s, x_parts, out_parts);
    return;
  }
  const bool floating = x.dtype >= Dtype::f16, wide = x.dtype == Dtype::f64;
  if (op == Reduce::argmax || op == Reduce::argmin) {
    if (wide) return reduce_indices<double>(op, s, x, out);
    if (floating) return reduce_indices<float>(op, s, x, out);
    return is_signed(x.dtype) ? reduce_indices<int64_t>(op, s, x, out) : reduce_indices<uint64_t>(op, s, x, out);
  }
  if (op == Reduce::logsumexp || op == Reduce::var || op == Reduce::std)
    return wide ? reduce_terms<double>(op, s, x, out, parameter) : reduce_terms<float>(op, s, x, out, parameter);
  if (wide) return reduce_numbers<double>(op, s, x, out);
  if (floating) return reduce_numbers<float>(op, s, x, out);
  return is_signed(x.dtype) ? reduce_numbers<int64_t>(op, s, x, out) : reduce_numbers<uint64_t>(op, s, x, out);
}

}  // namespace DW_ISA

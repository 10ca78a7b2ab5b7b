// layer_norm and rms_norm, forward and backward. Twin: tensor/twins/norm_ref.py.
//
// Gradients of weight and bias are sums over the lines, for each element in the order of fold.hpp.
#include "kernels.hpp"

#include "columns.hpp"

namespace DW_ISA {
namespace {

using namespace lines;
using droveway::Dtype;

// y = ((x − mean)·rstd)·weight + bias, each where it is there.
template <class T, bool kMean>
DW_INLINE void scale_block(const T* x, T* y, size_t n, T mean, T rstd, const T* weight, const T* bias) {
  const V16<T> means = Sixteen<T>::set1(mean), scales = Sixteen<T>::set1(rstd);
  each_sixteen<T>(n, [&](size_t i, size_t m) DW_LAMBDA {
    V16<T> v = load_some(x + i, m);
    if constexpr (kMean) v = v - means;
    v = v * scales;
    if (weight != nullptr && bias != nullptr) v = fma(v, load_some(weight + i, m), load_some(bias + i, m));
    else if (weight != nullptr) v = v * load_some(weight + i, m);
    else if (bias != nullptr) v = v + load_some(bias + i, m);
    store_some(y + i, m, canonical(v));
  });
}

struct Forward {
  const View* x;
  const View* out;
  const View* rstd;
  const View* mean;    // null: rms_norm
  const View* weight;  // null, or with strides of 0 along the kept dimensions
  const View* bias;
};

template <class T>
void forward_as(const Forward& f, uint32_t axes, double epsilon) {
  const View* views[6] = {f.x, f.out, f.rstd};
  int operands = 3, mean_at = 0, weight_at = 0, bias_at = 0;
  if (f.mean != nullptr) views[mean_at = operands++] = f.mean;
  if (f.weight != nullptr) views[weight_at = operands++] = f.weight;
  if (f.bias != nullptr) views[bias_at = operands++] = f.bias;
  const Split s = split(views, operands, axes);
  const size_t n = s.line.total;
  each_line(s, operands, s.kept.total * n * sizeof(T) * 2, [&](const int64_t* offset, size_t) {
    T local[kBlock], out_local[kBlock], weight_local[kBlock], bias_local[kBlock];
    const Source<T> x{&s.line, 0, f.x->dtype, at_offset(*f.x, offset[0])};
    const Sink<T> out{&s.line, 1, f.out->dtype, out_offset(*f.out, offset[1])};
    T mean = T(0), squares;
    if (f.mean != nullptr) {
      mean = canonical(add_line<T>(n, [&](size_t first, size_t m) { return sum_block(x.block(first, m, local), m); }) / T(n));
      squares = add_line<T>(n, [&](size_t first, size_t m) { return deviation_block(x.block(first, m, local), m, mean); });
      store_one(*f.mean, offset[mean_at], mean);
    } else {
      squares = add_line<T>(n, [&](size_t first, size_t m) {
        const T* p = x.block(first, m, local);
        return dot_block(p, p, m);
      });
    }
    const T rstd = canonical(T(1) / sqrt1(squares / T(n) + T(epsilon)));
    store_one(*f.rstd, offset[2], rstd);
    for (size_t first = 0; first < n; first += kBlock) {
      const size_t m = n - first < kBlock ? n - first : kBlock;
      const T* p = x.block(first, m, local);
      T* y = out.begin(first, out_local);
      const T *weight = nullptr, *bias = nullptr;
      if (f.weight != nullptr)
        weight = Source<T>{&s.line, weight_at, f.weight->dtype, at_offset(*f.weight, offset[weight_at])}.block(first, m, weight_local);
      if (f.bias != nullptr)
        bias = Source<T>{&s.line, bias_at, f.bias->dtype, at_offset(*f.bias, offset[bias_at])}.block(first, m, bias_local);
      if (f.mean != nullptr) scale_block<T, true>(p, y, m, mean, rstd, weight, bias);
      else scale_block<T, false>(p, y, m, mean, rstd, weight, bias);
      out.end(first, m, y);
    }
  });
}

struct Backward {
  const View* g;
  const View* x;
  const View* rstd;
  const View* dx;
  const View* mean;    // null: rms_norm
  const View* weight;  // or null
};

// gw = g·weight, u = (x − mean)·rstd: what both passes over a block need.
template <class T, bool kMean>
DW_INLINE void prepare(const T* g, const T* x, const T* weight, T* gw, T* u, size_t n, T mean, T rstd) {
  const V16<T> means = Sixteen<T>::set1(mean), scales = Sixteen<T>::set1(rstd);
  each_sixteen<T>(n, [&](size_t i, size_t m) DW_LAMBDA {
    V16<T> v = load_some(x + i, m), a = load_some(g + i, m);
    if constexpr (kMean) v = v - means;
    if (weight != nullptr) a = a * load_some(weight + i, m);
    store_some(u + i, m, v * scales);
    store_some(gw + i, m, a);
  });
}

// dx = rstd·((gw − mean(gw)) − u·mean(gw·u)); rms_norm has no mean(gw).
template <class T, bool kMean>
void backward_lines(const Backward& b, uint32_t axes) {
  const View* views[6] = {b.g, b.x, b.rstd, b.dx};
  int operands = 4, mean_at = 0, weight_at = 0;
  if (kMean) views[mean_at = operands++] = b.mean;
  if (b.weight != nullptr) views[weight_at = operands++] = b.weight;
  const Split s = split(views, operands, axes);
  const size_t n = s.line.total;
  each_line(s, operands, s.kept.total * n * sizeof(T) * 2, [&](const int64_t* offset, size_t) {
    T g_local[kBlock], x_local[kBlock], weight_local[kBlock], gw[kBlock], u[kBlock];
    const Source<T> g{&s.line, 0, b.g->dtype, at_offset(*b.g, offset[0])};
    const Source<T> x{&s.line, 1, b.x->dtype, at_offset(*b.x, offset[1])};
    const Sink<T> dx{&s.line, 3, b.dx->dtype, out_offset(*b.dx, offset[3])};
    const T rstd = one_value<T>(*b.rstd, offset[2]);
    T mean = T(0);
    if constexpr (kMean) mean = one_value<T>(*b.mean, offset[mean_at]);
    const auto block = [&](size_t first, size_t m) {
      const T* weight = nullptr;
      if (b.weight != nullptr)
        weight = Source<T>{&s.line, weight_at, b.weight->dtype, at_offset(*b.weight, offset[weight_at])}.block(first, m, weight_local);
      prepare<T, kMean>(g.block(first, m, g_local), x.block(first, m, x_local), weight, gw, u, m, mean, rstd);
    };
    const T both = add_line<T>(n, [&](size_t first, size_t m) {
      block(first, m);
      return dot_block(gw, u, m);
    }) / T(n);
    T alone = T(0);
    if constexpr (kMean)
      alone = add_line<T>(n, [&](size_t first, size_t m) {
        if (n > kBlock) block(first, m);
        return sum_block(gw, m);
      }) / T(n);
    const V16<T> boths = Sixteen<T>::set1(both), alones = Sixteen<T>::set1(alone), scales = Sixteen<T>::set1(rstd);
    for (size_t first = 0; first < n; first += kBlock) {
      const size_t m = n - first < kBlock ? n - first : kBlock;
      if (n > kBlock) block(first, m);
      T* d = dx.begin(first, g_local);
      each_sixteen<T>(m, [&](size_t i, size_t k) DW_LAMBDA {
        V16<T> a = load_some(gw + i, k);
        if constexpr (kMean) a = a - alones;
        store_some(d + i, k, canonical(scales * fnma(load_some(u + i, k), boths, a)));
      });
      dx.end(first, m, d);
    }
  });
}

template <class T>
DW_INLINE void sum_row(T* a, const T* g, size_t w, bool begins) {
  if (begins) first_row<T, SumOp>(a, g, w);
  else step_row<T, SumOp>(a, g, w);
}
template <class T, bool kMean>
DW_INLINE void product_row(T* a, const T* g, const T* x, size_t w, T mean, T rstd, bool begins) {
  if (begins)
    for (size_t c = 0; c < w; ++c) a[c] = T(0);
  const V16<T> means = Sixteen<T>::set1(mean), scales = Sixteen<T>::set1(rstd);
  each_sixteen<T>(w, [&](size_t c, size_t m) DW_LAMBDA {
    V16<T> u = load_some(x + c, m);
    if constexpr (kMean) u = u - means;
    store_some(a + c, m, fma(load_some(g + c, m), u * scales, load_some(a + c, m)));
  });
}

// d_weight[j] = sum over lines of g·u, d_bias[j] = sum over lines of g: tiles of 64 elements j.
template <class T, bool kMean>
void parameter_gradients(const Backward& b, uint32_t axes, const View* d_weight, const View* d_bias) {
  const View* views[6] = {b.g, b.x, b.rstd};
  int operands = 3, mean_at = 0, weight_at = 0, bias_at = 0;
  if (kMean) views[mean_at = operands++] = b.mean;
  if (d_weight != nullptr) views[weight_at = operands++] = d_weight;
  if (d_bias != nullptr) views[bias_at = operands++] = d_bias;
  const Split s = split(views, operands, axes);
  const size_t n = s.line.total, rows = s.kept.total;
  const auto tile = [&](size_t first) {
    const size_t w = n - first < kTile ? n - first : kTile;
    Tile<T, SumOp> weight_tile, bias_tile;
    T g_local[kTile], x_local[kTile];
    // Most often the rows lie one behind the other, and a tile is whole.
    const Source<T> g_line{&s.line, 0, b.g->dtype, nullptr}, x_line{&s.line, 1, b.x->dtype, nullptr};
    const bool plain = s.kept.n == 1 && w == kTile && g_line.direct() && x_line.direct();
    Odometer at(s.kept, operands, 0);
    for (size_t start = 0; start < rows; start += kBlock) {
      const size_t m = rows - start < kBlock ? rows - start : kBlock;
      for (size_t i = 0; plain && i < m; ++i) {
        const int64_t row = int64_t(start + i);
        const T* g = reinterpret_cast<const T*>(b.g->data) + row * s.kept.stride[0][0] + first;
        const T* x = reinterpret_cast<const T*>(b.x->data) + row * s.kept.stride[1][0] + first;
        const T rstd = reinterpret_cast<const T*>(b.rstd->data)[row * s.kept.stride[2][0]];
        T mean = T(0);
        if constexpr (kMean) mean = reinterpret_cast<const T*>(b.mean->data)[row * s.kept.stride[mean_at][0]];
        if (d_bias != nullptr) sum_row<T>(bias_tile.partial[i % kTile], g, kTile, i < kTile);
        if (d_weight != nullptr)
          product_row<T, kMean>(weight_tile.partial[i % kTile], g, x, kTile, mean, rstd, i < kTile);
      }
      for (size_t i = 0; !plain && i < m; ++i, at.next()) {
        const T* g = Source<T>{&s.line, 0, b.g->dtype, at_offset(*b.g, at.offset[0])}.block(first, w, g_local);
        if (d_bias != nullptr) {
          if (w == kTile) sum_row<T>(bias_tile.partial[i % kTile], g, kTile, i < kTile);
          else sum_row<T>(bias_tile.partial[i % kTile], g, w, i < kTile);
        }
        if (d_weight != nullptr) {
          const T* x = Source<T>{&s.line, 1, b.x->dtype, at_offset(*b.x, at.offset[1])}.block(first, w, x_local);
          const T rstd = reinterpret_cast<const T*>(b.rstd->data)[at.offset[2]];
          T mean = T(0);
          if constexpr (kMean) mean = reinterpret_cast<const T*>(b.mean->data)[at.offset[mean_at]];
          if (w == kTile) product_row<T, kMean>(weight_tile.partial[i % kTile], g, x, kTile, mean, rstd, i < kTile);
          else product_row<T, kMean>(weight_tile.partial[i % kTile], g, x, w, mean, rstd, i < kTile);
        }
      }
      if (d_weight != nullptr) {
        weight_tile.fold(m, w);
        weight_tile.push(w);
      }
      if (d_bias != nullptr) {
        bias_tile.fold(m, w);
        bias_tile.push(w);
      }
    }
    T values[kTile];
    const auto write = [&](const View* to, int operand, Tile<T, SumOp>& t) {
      if (to == nullptr) return;
      const T* total = rows > 0 ? t.total(w) : nullptr;
      for (size_t c = 0; c < w; ++c) values[c] = rows > 0 ? canonical(total[c]) : T(0);
      Sink<T>{&s.line, operand, to->dtype, to->data}.direct()
          ? store_run(to->dtype, out_offset(*to, int64_t(first)), 1, w, values)
          : Sink<T>{&s.line, operand, to->dtype, to->data}.end(first, w, values);
    };
    write(d_weight, weight_at, weight_tile);
    write(d_bias, bias_at, bias_tile);
  };
  if (n == 0) return;
  const auto* work = &tile;
  dw_parallel_n((n - 1) / kTile + 1, [](void* raw, size_t k) { (*static_cast<decltype(work)>(raw))(k * kTile); },
                const_cast<void*>(static_cast<const void*>(work)), threads_for(rows * n * sizeof(T) * 2));
}

template <class T>
void backward_as(const Backward& b, uint32_t axes, const View* d_weight, const View* d_bias) {
  const bool parameters = d_weight != nullptr || d_bias != nullptr;
  if (b.mean != nullptr) {
    backward_lines<T, true>(b, axes);
    if (parameters) parameter_gradients<T, true>(b, axes, d_weight, d_bias);
  } else {
    backward_lines<T, false>(b, axes);
    if (parameters) parameter_gradients<T, false>(b, axes, d_weight, d_bias);
  }
}

}  // namespace

void layer_norm(const View& x, const View* weight, const View* bias, uint32_t axes, double epsilon, const View& out,
                const View& mean, const View& rstd) {
  FpGuard guard;
  const Forward f{&x, &out, &rstd, &mean, weight, bias};
  if (x.dtype == Dtype::f64) forward_as<double>(f, axes, epsilon);
  else forward_as<float>(f, axes, epsilon);
}
void rms_norm(const View& x, const View* weight, uint32_t axes, double epsilon, const View& out, const View& rstd) {
  FpGuard guard;
  const Forward f{&x, &out, &rstd, nullptr, weight, nullptr};
  if (x.dtype == Dtype::f64) forward_as<double>(f, axes, epsilon);
  else forward_as<float>(f, axes, epsilon);
}
void norm_backward(const View& g, const View& x, const View* mean, const View& rstd, const View* weight, uint32_t axes,
                   const View& dx, const View* d_weight, const View* d_bias) {
  FpGuard guard;
  const Backward b{&g, &x, &rstd, &dx, mean, weight};
  if (g.dtype == Dtype::f64) backward_as<double>(b, axes, d_weight, d_bias);
  else backward_as<float>(b, axes, d_weight, d_bias);
}

}  // namespace DW_ISA

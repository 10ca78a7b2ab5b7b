// The self-test of products of other types than f32 and f64, of convolutions and of pooling.
// Twin: tensor/selftest_products_ref.py.
#include <vector>

#include "droveway/selftest_memory.hpp"
#include "selftest_values.hpp"
#include "table.hpp"

namespace droveway {
namespace {

uint64_t hash_product(const TensorTable& table, Dtype in, Dtype out) {
  struct Shape { int64_t batch, m, n, k; };
  uint64_t hash = fnv1a(nullptr, 0);
  for (const Shape& s : {Shape{2, 3, 5, 7}, Shape{1, 17, 33, 300}, Shape{3, 1, 40, 20}, Shape{2, 70, 1, 9}}) {
    const Bytes a = values(uint64_t(s.k), size_t(s.batch * s.m * s.k), in), b = values(uint64_t(s.k + 7), size_t(s.k * s.n), in);
    Bytes c(size_t(s.batch * s.m * s.n) * dtype_size(out));
    const int64_t a_batch = s.m * s.k, b_batch = 0, c_batch = s.m * s.n;
    Product p{size_t(s.m), size_t(s.n), size_t(s.k), a.data(), ptrdiff_t(s.k), 1, b.data(), 1, ptrdiff_t(s.k), c.data(),
              ptrdiff_t(s.n), in, in, out};
    p.batch_dims = 1;
    p.batch_shape = &s.batch;
    p.a_batch = &a_batch;
    p.b_batch = &b_batch;
    p.c_batch = &c_batch;
    const AlignedMemory workspace(table.product_workspace(p));
    table.product(p, workspace.p);
    hash = fnv1a(c.data(), c.size(), hash);
  }
  return hash;
}

uint64_t hash_quantised(const TensorTable& table) {
  struct Shape { size_t m, n, k, group; };
  uint64_t hash = fnv1a(nullptr, 0);
  for (const Shape& s : {Shape{1, 3, 64, 64}, Shape{17, 40, 192, 64}, Shape{5, 33, 512, 256}}) {
    const size_t groups = s.k / s.group;
    const Bytes a = values(1, s.m * s.k, Dtype::i8), codes = values(2, s.n * s.k / 2, Dtype::u8);
    const Bytes a_scale = values(3, s.m, Dtype::f32), scale = values(4, s.n * groups, Dtype::f32),
                bias = values(5, s.n * groups, Dtype::f32);
    const auto floats = [](const Bytes& bytes) { return reinterpret_cast<const float*>(bytes.data()); };
    std::vector<float> c(s.m * s.n);
    const QuantisedProduct p{s.m, s.n, s.k, s.group, reinterpret_cast<const int8_t*>(a.data()), floats(a_scale),
                             codes.data(), floats(scale), floats(bias), c.data()};
    const AlignedMemory workspace(table.quantised_workspace(p));
    table.quantised_product(p, workspace.p);
    hash = fnv1a(c.data(), c.size() * sizeof(float), hash);
  }
  return hash;
}

struct ConvolutionCase {
  int64_t images, groups, inputs, outputs, size[2], taps[2], stride[2], before[2], dilation[2];
};
constexpr ConvolutionCase kConvolutions[] = {
    {2, 1, 3, 17, {9, 21}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {1, 2, 2, 3, {8, 19}, {2, 3}, {2, 3}, {1, 0}, {1, 2}},
    {3, 1, 30, 2, {5, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {2, 5, 1, 1, {1, 40}, {1, 5}, {1, 2}, {0, 2}, {1, 1}}};

uint64_t hash_convolution(const TensorTable& table, Dtype d) {
  uint64_t hash = fnv1a(nullptr, 0);
  for (const ConvolutionCase& c : kConvolutions) {
    int64_t output[2];
    for (int i = 0; i < 2; ++i) output[i] = (c.size[i] + 2 * c.before[i] - c.dilation[i] * (c.taps[i] - 1) - 1) / c.stride[i] + 1;
    const int64_t inputs = c.groups * c.inputs, outputs = c.groups * c.outputs, taps = c.taps[0] * c.taps[1];
    const int64_t pixels = c.size[0] * c.size[1], places = output[0] * output[1];
    const Bytes x = values(1, size_t(c.images * inputs * pixels), d), w = values(2, size_t(outputs * c.inputs * taps), d);
    const Bytes g = values(3, size_t(c.images * outputs * places), d);
    Bytes y(g.size()), gx(x.size()), gw(w.size());
    const auto window = [&](int i) {
      return Window{c.size[i], c.taps[i], output[i], c.stride[i], c.dilation[i], c.before[i], 1};
    };
    const auto back = [&](int i) {
      return Window{output[i], c.taps[i], c.size[i], 1, -c.dilation[i], -c.before[i], c.stride[i]};
    };
    const auto run = [&](const Convolution& convolution) {
      const AlignedMemory workspace(table.convolution_workspace(convolution));
      table.convolution(convolution, workspace.p);
    };
    run({c.images, c.groups, c.inputs, c.outputs, window(0), window(1), x.data(), {inputs * pixels, pixels, c.size[1], 1},
         w.data(), {c.outputs * c.inputs * taps, c.inputs * taps, taps, c.taps[1], 1}, y.data(), d});
    run({c.images, c.groups, c.outputs, c.inputs, back(0), back(1), g.data(), {outputs * places, places, output[1], 1},
         w.data(), {c.outputs * c.inputs * taps, taps, c.inputs * taps, c.taps[1], 1}, gx.data(), d});
    const WeightGradient gradient{c.images, c.groups, c.inputs, c.outputs, window(0), window(1), x.data(),
                                  {inputs * pixels, pixels, c.size[1], 1}, g.data(),
                                  {outputs * places, places, output[1], 1}, gw.data(), d};
    const AlignedMemory workspace(table.weight_gradient_workspace(gradient));
    table.weight_gradient(gradient, workspace.p);
    for (const Bytes& bytes : {y, gx, gw}) hash = fnv1a(bytes.data(), bytes.size(), hash);
  }
  return hash;
}

struct PoolCase {
  int64_t size[2], window[2], stride[2], before[2], dilation[2];
};
constexpr PoolCase kPools[] = {{{6, 38}, {2, 2}, {2, 2}, {0, 0}, {1, 1}},
                               {{5, 40}, {3, 2}, {1, 3}, {1, 1}, {1, 1}},
                               {{7, 300}, {2, 3}, {2, 1}, {0, 1}, {1, 1}}};

uint64_t hash_pooling(const TensorTable& table, Dtype d) {
  uint64_t hash = fnv1a(nullptr, 0);
  for (const PoolCase& c : kPools) {
    std::vector<int64_t> first[2], end[2];
    PoolWindows windows[2];
    int64_t output[2];
    for (int i = 0; i < 2; ++i) {
      output[i] = (c.size[i] + 2 * c.before[i] - c.window[i]) / c.stride[i] + 1;
      int64_t regular = output[i], regular_end = output[i];
      for (int64_t o = 0; o < output[i]; ++o) {
        const int64_t start = o * c.stride[i] - c.before[i], stop = start + c.window[i];
        first[i].push_back(start < 0 ? 0 : start);
        end[i].push_back(stop < c.size[i] ? stop : c.size[i]);
        if (start >= 0 && regular == output[i]) regular = o;
        if (stop > c.size[i] && regular_end == output[i]) regular_end = o;
      }
      windows[i] = {c.size[i], output[i], first[i].data(), end[i].data(), 1, c.stride[i], c.before[i], c.window[i], regular,
                    regular_end};
    }
    const int64_t pixels = c.size[0] * c.size[1], places = output[0] * output[1], planes = 3;
    const Bytes x = values(1, size_t(planes * pixels), d), g = values(3, size_t(planes * places), d);
    Bytes y(g.size()), mean(g.size()), gx(x.size()), scattered(x.size());
    std::vector<int32_t> index(size_t(planes * places));
    Pooling p{1, planes, windows[0], windows[1], {planes * pixels, pixels}, c.size[1], 1, 0, d};
    table.max_pool(p, x.data(), y.data(), index.data());
    table.average_pool(p, x.data(), mean.data());
    Pooling q{1, planes, windows[0], windows[1], {planes * places, places}, output[1], 1, c.window[0] * c.window[1], d};
    table.average_pool_gradient(q, g.data(), gx.data());
    table.pool_scatter(q, g.data(), index.data(), scattered.data());
    hash = fnv1a(y.data(), y.size(), hash);
    hash = fnv1a(index.data(), index.size() * sizeof(int32_t), hash);
    for (const Bytes& bytes : {mean, gx, scattered}) hash = fnv1a(bytes.data(), bytes.size(), hash);
  }
  return hash;
}

}  // namespace

void product_self_test(const TensorTable& table, SelfTestEmit emit, void* context) {
  emit(context, "tensor.product_float16", hash_product(table, Dtype::f16, Dtype::f16));
  emit(context, "tensor.product_bfloat16", hash_product(table, Dtype::bf16, Dtype::bf16));
  emit(context, "tensor.product_float32", hash_product(table, Dtype::f32, Dtype::f32));
  emit(context, "tensor.product_float64", hash_product(table, Dtype::f64, Dtype::f64));
  emit(context, "tensor.product_complex64", hash_product(table, Dtype::c64, Dtype::c64));
  emit(context, "tensor.product_complex128", hash_product(table, Dtype::c128, Dtype::c128));
  emit(context, "tensor.product_int16", hash_product(table, Dtype::i16, Dtype::i16));
  emit(context, "tensor.product_uint64", hash_product(table, Dtype::u64, Dtype::u64));
  emit(context, "tensor.product_bytes", hash_product(table, Dtype::i8, Dtype::i32));
  emit(context, "tensor.product_quantised", hash_quantised(table));
  emit(context, "tensor.convolution_f32", hash_convolution(table, Dtype::f32));
  emit(context, "tensor.convolution_f64", hash_convolution(table, Dtype::f64));
  emit(context, "tensor.convolution_f16", hash_convolution(table, Dtype::f16));
  emit(context, "tensor.pooling_f32", hash_pooling(table, Dtype::f32));
  emit(context, "tensor.pooling_f64", hash_pooling(table, Dtype::f64));
}

}  // namespace droveway

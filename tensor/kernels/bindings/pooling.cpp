// Pooling and its gradients. Images are [n, channels, rows, columns] of any strides.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>

#include <array>
#include <vector>

#include "array/caster.hpp"
#include "array/in_use.hpp"
#include "droveway/python_call.hpp"
#include "workspace.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

using Pair = std::array<int64_t, 2>;

constexpr int64_t kSizeMax = int64_t{1} << 31;

[[noreturn]] void refuse(const char* text) { throw nb::value_error(text); }

const TensorTable& kernels() {
  const TensorTable* t = tensor_kernels();
  if (t == nullptr) throw std::runtime_error("pooling: DROVEWAY_ISA=ref has no kernels, only the Python twins");
  return *t;
}

// The windows of one dimension. taps 0: the adaptive ones, from ⌊o·input / output⌋ below ⌈(o + 1)·input / output⌉.
struct Side {
  std::vector<int64_t> first, end;
  PoolWindows windows{};

  Side(int64_t input, int64_t output, int64_t taps, int64_t stride, int64_t before, int64_t dilation) {
    if (taps < 0 || stride < 1 || dilation < 1 || before < 0 || taps >= kSizeMax || stride >= kSizeMax || before >= kSizeMax ||
        dilation >= kSizeMax || input >= kSizeMax || output >= kSizeMax)
      refuse("pooling: windows, steps and sizes must be positive and below 2^31");
    first.resize(size_t(output));
    end.resize(size_t(output));
    int64_t regular = output, regular_end = output;
    for (int64_t o = 0; o < output; ++o) {
      if (taps == 0) {
        first[size_t(o)] = o * input / output;
        end[size_t(o)] = ((o + 1) * input + output - 1) / output;
      } else {
        const int64_t start = o * stride - before, stop = start + (taps - 1) * dilation + 1;
        const int64_t skipped = start < 0 ? (-start + dilation - 1) / dilation : 0;
        first[size_t(o)] = start + skipped * dilation;
        end[size_t(o)] = stop < input ? stop : input;
        if (start >= 0 && stop <= input && regular == output) regular = o;
        if (stop > input && regular_end == output) regular_end = o;
      }
      if (first[size_t(o)] >= end[size_t(o)]) refuse("pooling: a window lies outside the image");
    }
    if (taps == 0) regular = regular_end = output;
    if (regular_end < regular) regular_end = regular;
    windows = {input, output, first.data(), end.data(), dilation, stride, before, taps, regular, regular_end};
  }
};

// A float16 or bfloat16 image goes through float32, and so does what comes out; each element is rounded once.
Dtype sum_dtype(Dtype d) { return d == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

// A view's elements as f32, contiguous, in memory of its own where they are narrower.
class Widened {
 public:
  explicit Widened(const View& v) : view_(v), memory_(v.dtype == sum_dtype(v.dtype) ? 0 : size_t(view_size(v)) * 4, "pooling copy") {
    if (memory_.data() == nullptr) return;
    strides_[3] = 1;
    for (int d = 2; d >= 0; --d) strides_[d] = strides_[d + 1] * v.shape[d + 1];
    const ElementwiseLoop convert = kernels().cast(int(v.dtype), int(Dtype::f32));
    float* out = reinterpret_cast<float*>(memory_.data());
    for (int64_t n = 0; n < v.shape[0]; ++n)
      for (int64_t c = 0; c < v.shape[1]; ++c)
        for (int64_t y = 0; y < v.shape[2]; ++y) {
          const char* row = v.data + 2 * (n * v.strides[0] + c * v.strides[1] + y * v.strides[2]);
          const bool whole = v.strides[3] == 1;
          const int64_t step = whole ? v.shape[3] : 1;
          for (int64_t x = 0; x < v.shape[3]; x += step)
            convert({.out = out + x, .in = {row + 2 * x * v.strides[3], nullptr, nullptr}, .n = size_t(step), .op = op_cast});
          out += v.shape[3];
        }
    view_ = {memory_.data(), Dtype::f32, v.ndim, v.shape, strides_};
  }
  const View& view() const { return view_; }

 private:
  View view_;
  int64_t strides_[4];
  Workspace memory_;
};

// Where a kernel writes: out itself, or f32 that `take_over` rounds into out.
class Rounded {
 public:
  explicit Rounded(const View& out) : out_(out), memory_(out.dtype == sum_dtype(out.dtype) ? 0 : size_t(view_size(out)) * 4, "pooling copy") {}
  void* data() { return memory_.data() != nullptr ? memory_.data() : out_.data; }
  void take_over() {
    if (memory_.data() == nullptr) return;
    const size_t n = size_t(view_size(out_));
    kernels().cast(int(Dtype::f32), int(out_.dtype))({.out = out_.data, .in = {memory_.data(), nullptr, nullptr}, .n = n, .op = op_cast});
  }

 private:
  View out_;
  Workspace memory_;
};

void require(const View& v, Dtype dtype, const char* text) {
  if (v.ndim != 4 || v.dtype != dtype) refuse(text);
}
void require_out(const View& v, const View& like) {
  require(v, like.dtype, "pooling: all images must have four dimensions and one type");
  if (!is_float(v.dtype)) throw nb::type_error("pooling: images must be of a floating type");
  if (!view_contiguous(v)) refuse("pooling: what is written must be contiguous");
}
void require_index(const View& v, const View& pooled) {
  require(v, Dtype::i32, "pooling: index must be int32 of four dimensions");
  for (int d = 0; d < 4; ++d)
    if (v.shape[d] != pooled.shape[d]) refuse("pooling: index must have the shape of the pooled image");
  if (!view_contiguous(v)) refuse("pooling: index must be contiguous");
}

// `image` and `pooled` by shape; steps of what is read.
Pooling describe(const View& image, const View& pooled, const View& read, const Side& y, const Side& x, int64_t divisor) {
  if (image.shape[0] != pooled.shape[0] || image.shape[1] != pooled.shape[1]) refuse("pooling: images and channels must agree");
  if (double(image.shape[2]) * double(image.shape[3]) >= double(kSizeMax)) refuse("pooling: a plane must have fewer than 2^31 elements");
  return {image.shape[0], image.shape[1], y.windows, x.windows, {read.strides[0], read.strides[1]}, read.strides[2],
          read.strides[3], divisor, read.dtype};
}

void max_pool(const In& x_in, const Out& out_in, const Out& index_in, Pair window, Pair stride, Pair before, Pair dilation) {
  const View x = x_in.view(), out = out_in.view(), index = index_in.view();
  require_out(out, x);
  require(x, out.dtype, "pooling: all images must have four dimensions and one type");
  require_index(index, out);
  const Side sy(x.shape[2], out.shape[2], window[0], stride[0], before[0], dilation[0]);
  const Side sx(x.shape[3], out.shape[3], window[1], stride[1], before[1], dilation[1]);
  const Widened from(x);
  Rounded to(out);
  if (only_workspace) return;
  const Pooling p = describe(x, out, from.view(), sy, sx, 0);
  call_kernel([&] {
    kernels().max_pool(p, from.view().data, to.data(), reinterpret_cast<int32_t*>(index.data));
    to.take_over();
  });
}

void average(const In& x_in, const Out& out_in, Pair window, Pair stride, Pair before, int64_t divisor, bool gradient) {
  const View x = x_in.view(), out = out_in.view();
  require_out(out, x);
  require(x, out.dtype, "pooling: all images must have four dimensions and one type");
  if (divisor < 0) refuse("pooling: the divisor must not be negative");
  const View &image = gradient ? out : x, &pooled = gradient ? x : out;
  const Side sy(image.shape[2], pooled.shape[2], window[0], stride[0], before[0], 1);
  const Side sx(image.shape[3], pooled.shape[3], window[1], stride[1], before[1], 1);
  const Widened from(x);
  Rounded to(out);
  if (only_workspace) return;
  const Pooling p = describe(image, pooled, from.view(), sy, sx, divisor);
  call_kernel([&] {
    if (gradient) kernels().average_pool_gradient(p, from.view().data, to.data());
    else kernels().average_pool(p, from.view().data, to.data());
    to.take_over();
  });
}

void by_index(const In& x_in, const In& index_in, const Out& out_in, bool scatter) {
  const View x = x_in.view(), index = index_in.view(), out = out_in.view();
  require_out(out, x);
  require(x, out.dtype, "pooling: all images must have four dimensions and one type");
  const View &image = scatter ? out : x, &pooled = scatter ? x : out;
  require_index(index, pooled);
  const auto side = [](int64_t input, int64_t output) {
    return PoolWindows{input, output, nullptr, nullptr, 1, 1, 0, 1, 0, 0};
  };
  const Widened from(x);
  Rounded to(out);
  if (only_workspace) return;
  if (image.shape[0] != pooled.shape[0] || image.shape[1] != pooled.shape[1]) refuse("pooling: images and channels must agree");
  const View& read = from.view();
  const Pooling p{image.shape[0], image.shape[1], side(image.shape[2], pooled.shape[2]), side(image.shape[3], pooled.shape[3]),
                  {read.strides[0], read.strides[1]}, read.strides[2], read.strides[3], 0, read.dtype};
  const int32_t* places = reinterpret_cast<const int32_t*>(index.data);
  call_kernel([&] {
    if (scatter) kernels().pool_scatter(p, read.data, places, to.data());
    else kernels().pool_gather(p, read.data, places, to.data());
    to.take_over();
  });
}

}  // namespace

void bind_pooling(nb::module_& m) {
  m.def("max_pool", &max_pool, "x"_a, "out"_a, "index"_a, "window"_a, "stride"_a, "before"_a, "dilation"_a,
        "out = the largest input of each window, index = its place in the plane. A window of 0 is an adaptive one.");
  m.def("average_pool", &average, "x"_a, "out"_a, "window"_a, "stride"_a, "before"_a, "divisor"_a, "gradient"_a,
        "out = the mean of each window, or, with gradient, what goes back to each input. Divisor 0: the inputs there are.");
  m.def("pool_by_index", &by_index, "x"_a, "index"_a, "out"_a, "scatter"_a,
        "out[index] += x from zeros, or out = x[index], plane by plane.");
}

}  // namespace droveway

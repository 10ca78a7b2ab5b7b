// Convolutions and their gradients. Images are [n, channels, rows, columns], weights [outputs, inputs of a group, rows,
// columns], of any strides.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>

#include <array>

#include "array/caster.hpp"
#include "array/elementwise.hpp"
#include "array/in_use.hpp"
#include "droveway/python_call.hpp"
#include "workspace.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

constexpr int64_t kSizeMax = int64_t{1} << 31;  // of a step, a padding, a spread: sums of products of two stay in int64

using Pair = std::array<int64_t, 2>;

[[noreturn]] void refuse(const char* text) { throw nb::value_error(text); }

const TensorTable& kernels() {
  const TensorTable* t = tensor_kernels();
  if (t == nullptr) throw std::runtime_error("convolution: DROVEWAY_ISA=ref has no kernels, only the Python twins");
  return *t;
}

void require_four(const View& v, const View& like) {
  if (v.ndim != 4) refuse("convolution: images and weights must have four dimensions");
  if (v.dtype != like.dtype || !is_float(v.dtype)) throw nb::type_error("convolution: arguments must have one floating type");
}

Window window(int64_t input, int64_t taps, int64_t output, int64_t stride, int64_t dilation, int64_t before, int64_t spread) {
  const auto small = [](int64_t x) { return -kSizeMax < x && x < kSizeMax; };
  if (stride < 1 || spread < 1 || taps < 1 || !small(stride) || !small(spread) || !small(dilation) || !small(before) ||
      !small(input) || !small(taps) || !small(output))
    refuse("convolution: steps and sizes must be positive and below 2^31");
  return {input, taps, output, stride, dilation, before, spread};
}

// Bytes that a plan of a kernel adds up must fit: the workspace is never more than a few times what the windows meet.
void require_reach(const Window& y, const Window& x, int64_t channels) {
  const auto met = [](const Window& w) {
    return double(w.output) * double(w.stride) + double(w.taps) * double(w.dilation < 0 ? -w.dilation : w.dilation) + 1;
  };
  if (met(y) * met(x) * double(channels) > 1e15) throw std::bad_alloc();
}

void convolve(const In& x_in, const In& w_in, const Out& out_in, Pair stride, Pair before, Pair dilation, Pair spread,
              int64_t groups, bool transposed, const nb::object& bias_in, int activation, const nb::object& index_in, int64_t index_width) {
  const View x = x_in.view(), w = w_in.view(), out = out_in.view();
  require_four(x, out);
  require_four(w, out);
  require_four(out, out);
  if (groups < 1) refuse("convolution: groups must be positive");
  // Of a transposed one, the weights are [inputs, outputs of a group, rows, columns].
  const int64_t inputs = transposed ? w.shape[0] / groups : w.shape[1];
  const int64_t outputs = transposed ? w.shape[1] : w.shape[0] / groups;
  if (w.shape[0] % groups != 0 || x.shape[1] != groups * inputs || out.shape[1] != groups * outputs || out.shape[0] != x.shape[0])
    refuse("convolution: channels of the image, the weights and out must agree");
  if (!view_contiguous(out)) refuse("convolution: out must be contiguous");
  Convolution c{};
  c.images = x.shape[0];
  c.groups = groups;
  c.inputs = inputs;
  c.outputs = outputs;
  c.y = window(x.shape[2], w.shape[2], out.shape[2], stride[0], dilation[0], before[0], spread[0]);
  c.x = window(x.shape[3], w.shape[3], out.shape[3], stride[1], dilation[1], before[1], spread[1]);
  Out index;
  if (!index_in.is_none()) {
    c.y.output *= 2;
    c.x.output *= 2;
    c.index_width = index_width;
    if (!index.load(index_in.ptr(), true) || index.view().dtype != Dtype::i32 || index.view().ndim != 4 || !view_contiguous(index.view()))
      refuse("convolution: index must be contiguous int32 of four dimensions");
    for (int d = 0; d < 4; ++d)
      if (index.view().shape[d] != out.shape[d]) refuse("convolution: index must have the shape of out");
    if ((out.dtype != Dtype::f32 && out.dtype != Dtype::f64) || index_width < c.x.output ||
        double(index_width) * double(c.y.output) >= double(kSizeMax) || c.x.output * int64_t(dtype_size(out.dtype)) > kPooledRowBytes)
      refuse("convolution: maxima are taken of float32 and float64, in rows of at most 512 bytes and planes below 2^31");
    c.index = reinterpret_cast<int32_t*>(index.view().data);
  }
  if ((spread[0] != 1 || spread[1] != 1) && (stride[0] != 1 || stride[1] != 1 || !bias_in.is_none() || activation >= 0 || c.index != nullptr))
    refuse("convolution: a spread goes with a stride of 1, and without bias, activation and index");
  require_reach(c.y, c.x, x.shape[1]);
  c.image = x.data;
  for (int d = 0; d < 4; ++d) c.image_step[d] = x.strides[d];
  c.weight = w.data;
  c.weight_step[0] = (transposed ? inputs : outputs) * w.strides[0];
  c.weight_step[1] = w.strides[transposed ? 1 : 0];
  c.weight_step[2] = w.strides[transposed ? 0 : 1];
  c.weight_step[3] = w.strides[2];
  c.weight_step[4] = w.strides[3];
  c.out = out.data;
  c.dtype = out.dtype;
  c.activation = activation;
  if (inputs < 1) refuse("convolution: there must be an input channel");
  In bias;
  if (!bias_in.is_none()) {
    if (!bias.load(bias_in.ptr(), false) || bias.view().dtype != out.dtype || bias.view().ndim != 1 ||
        bias.view().shape[0] != out.shape[1] || !view_contiguous(bias.view()))
      refuse("convolution: bias must be one contiguous value of out's type for each channel of out");
    c.bias = bias.view().data;
  }
  const TensorTable& t = kernels();
  if (activation >= 0 && !is_activation(activation, c.dtype))
    refuse("convolution: no such activation for this element type");
  const Workspace workspace(t.convolution_workspace(c), "convolution planes");
  if (only_workspace) return;
  call_kernel([&] { t.convolution(c, workspace.data()); });
}

void weights(const In& x_in, const In& g_in, const Out& out_in, Pair stride, Pair before, Pair dilation, int64_t groups) {
  const View x = x_in.view(), g = g_in.view(), out = out_in.view();
  require_four(x, out);
  require_four(g, out);
  require_four(out, out);
  if (groups < 1 || out.shape[0] % groups != 0 || x.shape[1] != groups * out.shape[1] || g.shape[1] != out.shape[0] ||
      g.shape[0] != x.shape[0])
    refuse("weight_gradient: channels of the image, the gradient and out must agree");
  if (!view_contiguous(out)) refuse("weight_gradient: out must be contiguous");
  WeightGradient w{};
  w.images = x.shape[0];
  w.groups = groups;
  w.inputs = out.shape[1];
  w.outputs = out.shape[0] / groups;
  w.y = window(x.shape[2], out.shape[2], g.shape[2], stride[0], dilation[0], before[0], 1);
  w.x = window(x.shape[3], out.shape[3], g.shape[3], stride[1], dilation[1], before[1], 1);
  require_reach(w.y, w.x, x.shape[1]);
  w.image = x.data;
  w.gradient = g.data;
  for (int d = 0; d < 4; ++d) {
    w.image_step[d] = x.strides[d];
    w.gradient_step[d] = g.strides[d];
  }
  w.out = out.data;
  w.dtype = out.dtype;
  const TensorTable& t = kernels();
  const Workspace workspace(t.weight_gradient_workspace(w), "convolution gradient");
  if (only_workspace) return;
  call_kernel([&] { t.weight_gradient(w, workspace.data()); });
}

}  // namespace

void bind_convolution(nb::module_& m) {
  m.def("convolution", &convolve, "x"_a, "w"_a, "out"_a, "stride"_a, "before"_a, "dilation"_a, "spread"_a, "groups"_a,
        "transposed"_a, "bias"_a.none() = nb::none(), "activation"_a = -1, "index"_a.none() = nb::none(), "index_width"_a = 0,
        "out = x convolved with w; output o and tap t meet input o·stride + t·dilation − before, zeros outside. With an "
        "index, out = the maxima over 2×2 of that and index = their places.");
  m.def("weight_gradient", &weights, "x"_a, "g"_a, "out"_a, "stride"_a, "before"_a, "dilation"_a, "groups"_a,
        "out = the gradient of the weights that made an image of gradient g from x.");
}

}  // namespace droveway

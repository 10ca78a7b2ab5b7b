// Products of matrices, for any strides and batches.
#include <nanobind/nanobind.h>

#include "array/caster.hpp"
#include "array/elementwise.hpp"
#include "array/in_use.hpp"
#include "array/product_call.hpp"
#include "droveway/python_call.hpp"
#include "workspace.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

[[noreturn]] void refuse(const char* text) { throw nb::value_error(text); }

bool takes(const Product& p) {
  const bool bytes = (p.a_dtype == Dtype::i8 || p.a_dtype == Dtype::u8) && (p.b_dtype == Dtype::i8 || p.b_dtype == Dtype::u8);
  if (p.dtype == Dtype::i32 && bytes) return true;
  return p.dtype != Dtype::boolean && p.a_dtype == p.dtype && p.b_dtype == p.dtype;
}

const TensorTable* kernels_for(const char* text) {
  const TensorTable* t = tensor_kernels();
  if (t == nullptr) throw std::runtime_error(text);
  return t;
}

void call(const In& a_in, const In& b_in, const Out& out_in, const nb::object& bias_in, int activation) {
  const View out = out_in.view();
  ProductCall call;
  if (const char* wrong = call.describe(a_in.view(), b_in.view(), out, nullptr, 0)) refuse(wrong);
  Product& p = call.product;
  if (!takes(p)) throw nb::type_error("product: no kernel for these element types");
  In bias;
  if (!bias_in.is_none()) {
    if (!bias.load(bias_in.ptr(), false) || bias.view().dtype != out.dtype || bias.view().ndim != 1 ||
        size_t(bias.view().shape[0]) != p.n || (p.n > 1 && bias.view().strides[0] != 1))
      refuse("product: bias must be n contiguous values of out's type");
    p.bias = bias.view().data;
  }
  p.activation = activation;
  const TensorTable* t = kernels_for("product: DROVEWAY_ISA=ref has no kernels, only the Python twins");
  if (p.bias != nullptr && t->elementwise(op_add, int(p.dtype)) == nullptr) refuse("product: no addition of a bias");
  if (activation >= 0 && !is_activation(activation, p.dtype))
    refuse("product: no such activation for this element type");
  const Workspace workspace(t->product_workspace(p), "product packing");
  if (only_workspace) return;
  call_kernel([&] { t->product(p, workspace.data()); });
}

// --- vecdot -----------------------------------------------------------------------------------------------------------

// NaN in its one pattern: the compiler's constant is it.
template <class T>
void store_pair(T* out, T real, T imaginary) {
  out[0] = real == real ? real : T(__builtin_nan(""));
  out[1] = imaginary == imaginary ? imaginary : T(__builtin_nan(""));
}

// out = Σ conj(a)·b of two strided rows of n elements; wide holds 2·n floats for narrow types.
void dot_row(const TensorTable& t, Dtype dtype, const char* a, ptrdiff_t a_step, const char* b, ptrdiff_t b_step, size_t n,
             char* out, float* wide) {
  const auto f = [](const char* p) { return reinterpret_cast<const float*>(p); };
  const auto d = [](const char* p) { return reinterpret_cast<const double*>(p); };
  switch (dtype) {
    case Dtype::f32: *reinterpret_cast<float*>(out) = t.dot_f32(f(a), a_step, f(b), b_step, n); return;
    case Dtype::f64: *reinterpret_cast<double*>(out) = t.dot_f64(d(a), a_step, d(b), b_step, n); return;
    case Dtype::c64: {
      const auto dot = [&](int i, int j) { return t.dot_f32(f(a) + i, 2 * a_step, f(b) + j, 2 * b_step, n); };
      const float parts[4] = {dot(0, 0), dot(1, 1), dot(0, 1), dot(1, 0)};
      store_pair(reinterpret_cast<float*>(out), parts[0] + parts[1], parts[2] - parts[3]);
      return;
    }
    case Dtype::c128: {
      const auto dot = [&](int i, int j) { return t.dot_f64(d(a) + i, 2 * a_step, d(b) + j, 2 * b_step, n); };
      const double parts[4] = {dot(0, 0), dot(1, 1), dot(0, 1), dot(1, 0)};
      store_pair(reinterpret_cast<double*>(out), parts[0] + parts[1], parts[2] - parts[3]);
      return;
    }
    case Dtype::f16:
    case Dtype::bf16: {
      const ElementwiseLoop widen = t.cast(int(dtype), int(Dtype::f32)), narrow = t.cast(int(Dtype::f32), int(dtype));
      const auto gather = [&](const char* from, ptrdiff_t step, float* to) {
        if (step == 1) return widen({.out = to, .in = {from, nullptr, nullptr}, .n = n, .op = op_cast});
        for (size_t i = 0; i < n; ++i)
          widen({.out = to + i, .in = {from + 2 * ptrdiff_t(i) * step, nullptr, nullptr}, .n = 1, .op = op_cast});
      };
      gather(a, a_step, wide);
      gather(b, b_step, wide + n);
      const float sum = t.dot_f32(wide, 1, wide + n, 1, n);
      narrow({.out = out, .in = {&sum, nullptr, nullptr}, .n = 1, .op = op_cast});
      return;
    }
    default: break;
  }
  uint64_t sum = 0;
  const size_t size = dtype_size(dtype);
  for (size_t i = 0; i < n; ++i) {
    uint64_t x = 0, y = 0;  // the low bits of a product are those of its factors' low bits
    memcpy(&x, a + ptrdiff_t(i) * a_step * ptrdiff_t(size), size);
    memcpy(&y, b + ptrdiff_t(i) * b_step * ptrdiff_t(size), size);
    sum += x * y;
  }
  memcpy(out, &sum, size);
}

int64_t dot_step(const View& v, int after, int64_t size) {
  const Stepped found = product_dimension(v, after, size);
  if (!found.fits) refuse("vecdot: the batches of a and b must broadcast to that of out");
  return found.step;
}

struct Dots {
  const TensorTable* table;
  View a, b, out;
  int64_t a_step[kDimsMax], b_step[kDimsMax];
  size_t n;
  float* wide;  // for narrow types, which run on the calling thread
};

void dot_of(void* context, size_t index) {
  const auto& work = *static_cast<const Dots*>(context);
  const int64_t size = int64_t(dtype_size(work.out.dtype));
  int64_t a = 0, b = 0, out = 0, rest = int64_t(index);
  for (int d = work.out.ndim - 1; d >= 0; --d) {
    const int64_t i = rest % work.out.shape[d];
    rest /= work.out.shape[d];
    a += i * work.a_step[d];
    b += i * work.b_step[d];
    out += i * work.out.strides[d];
  }
  dot_row(*work.table, work.out.dtype, work.a.data + a * size, work.a.strides[work.a.ndim - 1], work.b.data + b * size,
          work.b.strides[work.b.ndim - 1], work.n, work.out.data + out * size, work.wide);
}

void vecdot(const In& a_in, const In& b_in, const Out& out_in) {
  Dots work{tensor_kernels(), a_in.view(), b_in.view(), out_in.view(), {}, {}, 0, nullptr};
  if (work.table == nullptr) throw std::runtime_error("vecdot: DROVEWAY_ISA=ref has no kernels, only the Python twins");
  const View &a = work.a, &b = work.b, &out = work.out;
  if (a.dtype != b.dtype || a.dtype != out.dtype || a.dtype == Dtype::boolean) throw nb::type_error("vecdot: one type of numbers");
  if (a.ndim < 1 || b.ndim < 1 || a.ndim - 1 > out.ndim || b.ndim - 1 > out.ndim || a.shape[a.ndim - 1] != b.shape[b.ndim - 1])
    refuse("vecdot: a and b must be [..., n] and broadcast to out");
  work.n = size_t(a.shape[a.ndim - 1]);
  for (int d = 0; d < out.ndim; ++d) {
    work.a_step[d] = dot_step(a, out.ndim - d, out.shape[d]);
    work.b_step[d] = dot_step(b, out.ndim - d, out.shape[d]);
  }
  const bool narrow = out.dtype == Dtype::f16 || out.dtype == Dtype::bf16;
  const Workspace workspace(narrow ? 2 * work.n * sizeof(float) : 0, "vecdot copy");
  if (only_workspace) return;
  work.wide = reinterpret_cast<float*>(workspace.data());
  const int64_t count = view_size(out);
  call_kernel([&] { dw_parallel_n(size_t(count), dot_of, &work, narrow || count * int64_t(work.n) < (1 << 18) ? 1 : 1024); });
}

void quantised(const In& a_in, const In& a_scale_in, const In& codes_in, const In& scale_in, const In& bias_in, const Out& out_in) {
  const View a = a_in.view(), a_scale = a_scale_in.view(), codes = codes_in.view(), scale = scale_in.view(),
             bias = bias_in.view(), out = out_in.view();
  const auto is = [](const View& v, Dtype dtype, int ndim) { return v.dtype == dtype && v.ndim == ndim && view_contiguous(v); };
  if (!is(a, Dtype::i8, 2) || !is(a_scale, Dtype::f32, 1) || !is(codes, Dtype::u8, 2) || !is(scale, Dtype::f32, 2) ||
      !is(bias, Dtype::f32, 2) || !is(out, Dtype::f32, 2))
    refuse("quantised_product: a int8[m, k], a_scale float32[m], codes uint8[n, k / 2], scale and bias float32[n, groups], "
           "out float32[m, n], all contiguous");
  const int64_t m = a.shape[0], k = a.shape[1], n = codes.shape[0], groups = scale.shape[1];
  const bool fits = a_scale.shape[0] == m && codes.shape[1] * 2 == k && scale.shape[0] == n && bias.shape[0] == n &&
                    bias.shape[1] == groups && out.shape[0] == m && out.shape[1] == n;
  if (!fits || (k == 0) != (groups == 0) || (groups > 0 && (k % groups != 0 || k / groups % 2 != 0 || k / groups > 256)))
    refuse("quantised_product: shapes must agree, and groups be of an even number up to 256");
  const auto data = [](const View& v) { return reinterpret_cast<const float*>(v.data); };
  const QuantisedProduct p{size_t(m), size_t(n), size_t(k), groups > 0 ? size_t(k / groups) : 1,
                           reinterpret_cast<const int8_t*>(a.data), data(a_scale),
                           reinterpret_cast<const uint8_t*>(codes.data), data(scale), data(bias),
                           reinterpret_cast<float*>(out.data)};
  const TensorTable* t = tensor_kernels();
  if (t == nullptr) throw std::runtime_error("quantised_product: DROVEWAY_ISA=ref has no kernels, only the Python twins");
  const Workspace workspace(t->quantised_workspace(p), "quantised product");
  if (only_workspace) return;
  call_kernel([&] { t->quantised_product(p, workspace.data()); });
}

}  // namespace

void bind_contraction(nb::module_& m) {
  m.def("product", &call, "a"_a, "b"_a, "out"_a, "bias"_a.none() = nb::none(), "activation"_a = -1,
        "out[..., m, n] = a[..., m, k] · b[..., k, n], then bias added to each row, then the elementwise operation of that "
        "code.");
  m.def("vecdot", &vecdot, "a"_a, "b"_a, "out"_a, "out[...] = the sum of conj(a[..., n])·b[..., n].");
  m.def("quantised_product", &quantised, "a"_a, "a_scale"_a, "codes"_a, "scale"_a, "bias"_a, "out"_a,
        "out = (a · (codes · scale + bias)ᵀ) · a_scale, with whole numbers summed exactly within a group.");
}

}  // namespace droveway

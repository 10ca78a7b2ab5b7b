// Random numbers as tensors. Shapes are the shape rules' business; what would read or write outside is checked here.
#include "random.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "array/caster.hpp"
#include "array/in_use.hpp"
#include "droveway/python_call.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

void require(bool yes, const char* text) {
  if (!yes) throw nb::value_error(text);
}

const TensorTable& kernels() {
  const TensorTable* table = tensor_kernels();
  if (table == nullptr) throw std::runtime_error("random: DROVEWAY_ISA=ref has no kernels, only the Python twins");
  return *table;
}

// Short work keeps Python's lock: giving it up costs more than the work.
constexpr int64_t kUnlockedElements = 1 << 14;
template <class Work>
void run(int64_t elements, Work work) {
  if (elements < kUnlockedElements) work();
  else call_kernel(work);
}

RandomKind kind_of(const std::string& name, Dtype dtype) {
  const bool is_float = dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::f32 || dtype == Dtype::f64;
  if (name == "uniform" && is_float) return RandomKind::uniform;
  if (name == "normal" && is_float) return RandomKind::normal;
  if (name == "bits" && (dtype == Dtype::u32 || dtype == Dtype::u64)) return RandomKind::bits;
  if (name == "randint" && dtype >= Dtype::i8 && dtype <= Dtype::u64) return RandomKind::randint;
  if (name == "bernoulli" && dtype == Dtype::boolean) return RandomKind::bernoulli;
  throw nb::type_error("random_draw: no such draw of that element type");
}

void draw(const std::string& name, const In& keys_, uint64_t offset, uint64_t low, uint64_t range, const Out& out_) {
  const View keys = keys_.view(), out = out_.view();
  require(keys.dtype == Dtype::u64 && out.ndim >= keys.ndim && view_contiguous(out),
          "random_draw: keys must be uint64, the result contiguous with the dimensions of keys in front");
  for (int d = 0; d < keys.ndim; ++d)
    require(keys.shape[d] == out.shape[d], "random_draw: the first dimensions of the result must be those of keys");
  const int64_t count = view_size(keys), total = view_size(out);
  if (count == 0 || total == 0) return;
  const RandomDraw job{kind_of(name, out.dtype), out.dtype, keys, size_t(total / count), offset, low, range,
                       uint32_t(range <= (1u << 24) ? range : 1u << 24), out.data};
  run(total, [&] { kernels().random_draw(job); });
}

void children(const In& keys_, const In& numbers_, uint32_t tag, const Out& out_) {
  const View keys = keys_.view(), numbers = numbers_.view(), out = out_.view();
  require(keys.dtype == Dtype::u64 && numbers.dtype == Dtype::u64 && out.dtype == Dtype::u64 && view_contiguous(out) &&
              keys.ndim == out.ndim && numbers.ndim == out.ndim,
          "random_children: all must be uint64 of one shape, the result contiguous");
  for (int d = 0; d < out.ndim; ++d)
    require(keys.shape[d] == out.shape[d] && numbers.shape[d] == out.shape[d], "random_children: all must have one shape");
  run(view_size(out) * 16, [&] { kernels().random_children(keys, numbers, tag, reinterpret_cast<uint64_t*>(out.data)); });
}

}  // namespace

void bind_draws(nb::module_& m) {
  m.def("random_draw", &draw, "name"_a, "keys"_a, "offset"_a, "low"_a, "range"_a, "out"_a,
        "out[k, i] = element offset + i of the draw `name` from the stream of keys[k]. low and range: of randint (0: 2^64); "
        "bernoulli takes its limit as range.");
  m.def("random_children", &children, "keys"_a, "numbers"_a, "tag"_a, "out"_a, "The children of keys by number.");
}

}  // namespace droveway

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <new>

#include "droveway/area.hpp"
#include "droveway/python_call.hpp"
#include "table.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using droveway::call_kernel;
using droveway::require_aligned;
using droveway::VectorTable;

namespace {

droveway::Area<VectorTable> area("vector", DW_TABLES(vector_table), droveway::vector_self_test);

const VectorTable& kernels() { return area.kernels(); }

template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* sentence) {
  if (!condition) throw nb::value_error(sentence);
}

std::unique_ptr<uint64_t[]> workspace(size_t bytes) { return std::make_unique_for_overwrite<uint64_t[]>(bytes / 8 + 1); }

bool depth_order(In<float> z, Out<uint32_t> order) {
  const VectorTable& t = kernels();
  require_aligned(z, "z");
  require_aligned(order, "order");
  require(z.size() == order.size(), "depth_order: z and order must have the same length");
  require(z.size() < (size_t(1) << 32), "depth_order: z must be shorter than 2**32");
  const auto memory = workspace(t.depth_workspace(z.size()));
  bool ordered = false;
  call_kernel([&] { ordered = t.depth_order(z.data(), z.size(), order.data(), memory.get()); });
  return ordered;
}

}  // namespace

NB_MODULE(_kernels, m) {
  area.bind(m);
  m.def("compiler", [] { return DW_COMPILER; }, "The compiler that built the kernels.");
  m.def("depth_order", depth_order, "z"_a.noconvert(), "order"_a.noconvert(),
        "Stable ascending order of z into `order`; False, with `order` undefined, where z holds a NaN.");
}

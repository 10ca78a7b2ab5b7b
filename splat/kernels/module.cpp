#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "droveway/area.hpp"
#include "droveway/python_call.hpp"
#include "table.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using droveway::call_kernel;
using droveway::require_aligned;
using droveway::SplatTable;

namespace {

droveway::Area<SplatTable> area("splat", DW_TABLES(splat_table), droveway::splat_self_test);

const SplatTable& kernels() { return area.kernels(); }

template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* sentence) {
  if (!condition) throw nb::value_error(sentence);
}

void to_bytes(In<float> x, Out<uint8_t> out) {
  const SplatTable& t = kernels();
  require_aligned(x, "x");
  require(x.size() == out.size(), "to_bytes: x and out must have the same length");
  call_kernel([&] { t.to_bytes(x.data(), x.size(), out.data()); });
}

}  // namespace

NB_MODULE(_kernels, m) {
  area.bind(m);
  m.def("compiler", [] { return DW_COMPILER; }, "The compiler that built the kernels.");
  m.def("to_bytes", to_bytes, "x"_a.noconvert(), "out"_a.noconvert(), "out = floor(255·clamp(x, 0, 1) + 0.5), NaN 0.");
}

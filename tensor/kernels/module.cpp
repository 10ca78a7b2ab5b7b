#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "droveway/dispatch.hpp"
#include "table.hpp"

namespace nb = nanobind;
using droveway::Isa;
using droveway::TensorTable;

namespace {

Isa chosen = Isa::ref;
const TensorTable* table = nullptr;

const TensorTable* table_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::v4) return &isa_v4::tensor_table;
  if (isa == Isa::v3) return &isa_v3::tensor_table;
#else
  if (isa == Isa::neon) return &isa_neon::tensor_table;
#endif
  return nullptr;
}

using F32Vector = nb::ndarray<const float, nb::ndim<1>, nb::device::cpu>;

}  // namespace

NB_MODULE(_kernels, m) {
  const char* error = droveway::isa_choose(&chosen);
  if (error == nullptr) error = dw_pool_configure();
  if (error != nullptr) throw nb::import_error(error);
  table = table_of(chosen);

  m.def("isa", [] { return droveway::isa_name(chosen); }, "The build in use: 'v3', 'v4', 'neon' or 'ref'.");
  m.def("sum_f32", [](F32Vector x) { return table->sum_f32(x.data(), x.stride(0), x.shape(0)); }, nb::arg("x").noconvert());
  m.def("self_test", [](const std::string& isa) {
        const TensorTable* t = nullptr;
        for (Isa level : {Isa::v3, Isa::v4, Isa::neon})
          if (isa == droveway::isa_name(level) && level <= droveway::isa_best()) t = table_of(level);
        if (t == nullptr) throw nb::value_error("self_test: this CPU or build has no such instruction set");
        nb::dict out;
        droveway::tensor_self_test(*t, [](void* context, const char* name, uint64_t hash) {
              char hex[17];
              std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(hash));
              (*static_cast<nb::dict*>(context))[name] = nb::str(hex);
            }, &out);
        return out;
      }, nb::arg("isa"), "Digest of each kernel on fixed inputs: {name: 16 hex digits}. Needs no numpy.");
}

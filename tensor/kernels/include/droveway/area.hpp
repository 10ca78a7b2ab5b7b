// What module.cpp of every area says in the same words: which build of the kernels runs, and the self-test.
// Included by module.cpp only.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "droveway/dispatch.hpp"
#include "droveway/selftest.hpp"

namespace droveway {

// The tables of an area, one a build; nullptr for builds of other processors.
template <class Table>
struct Tables {
  const Table* v3;
  const Table* v4;
  const Table* neon;

  const Table* of(Isa isa) const {
    switch (isa) {
      case Isa::v3: return v3;
      case Isa::v4: return v4;
      case Isa::neon: return neon;
      case Isa::ref: break;
    }
    return nullptr;
  }
};

#if defined(__x86_64__)
#define DW_TABLES(NAME) {&isa_v3::NAME, &isa_v4::NAME, nullptr}
#else
#define DW_TABLES(NAME) {nullptr, nullptr, &isa_neon::NAME}
#endif

// The kernels of one area. `name` is the package; `self_test` runs all kernels of a table.
template <class Table>
class Area {
 public:
  using SelfTest = void (*)(const Table&, SelfTestEmit, void*);

  Area(const char* name, Tables<Table> tables, SelfTest self_test) : name_(name), tables_(tables), self_test_(self_test) {}

  // Chooses the build and starts the pool's settings; ImportError with one sentence where the environment is wrong.
  // Adds isa() and self_test(isa) to the module. `this` lives as long as the process.
  void bind(nanobind::module_& m) {
    const char* error = isa_choose(&chosen_);
    if (error == nullptr) error = dw_pool_configure();
    if (error != nullptr) throw nanobind::import_error(error);
    table_ = tables_.of(chosen_);
    m.def("isa", [this] { return isa_name(chosen_); }, "The build in use: 'v3', 'v4', 'neon' or 'ref'.");
    m.def("self_test", [this](const std::string& isa) { return digests(isa); }, nanobind::arg("isa"),
          "Digest of each kernel on fixed inputs: {name: 16 hex digits}. Needs no numpy.");
  }

  bool has_kernels() const { return table_ != nullptr; }

  // The table in use. Under DROVEWAY_ISA=ref there is none, and Python calls the twins.
  const Table& kernels() const {
    if (table_ == nullptr)
      throw std::runtime_error(std::string(name_) + "._kernels: DROVEWAY_ISA=ref has no kernels, only the Python twins");
    return *table_;
  }

  // The table of a build by its name; nullptr where this CPU lacks it.
  const Table* kernels_of(const std::string& isa) const {
    const Table* table = nullptr;
    for (Isa level : {Isa::v3, Isa::v4, Isa::neon})
      if (isa == isa_name(level) && level <= isa_best()) table = tables_.of(level);
    return table;
  }

 private:
  nanobind::dict digests(const std::string& isa) const {
    const Table* table = kernels_of(isa);
    if (table == nullptr)
      throw nanobind::value_error(("self_test: isa must be a build that this CPU has, got '" + isa + "'").c_str());
    nanobind::dict out;
    self_test_(*table, [](void* context, const char* kernel, uint64_t hash) {
          char hex[17];
          std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(hash));
          (*static_cast<nanobind::dict*>(context))[kernel] = nanobind::str(hex);
        }, &out);
    return out;
  }

  const char* name_;
  Tables<Table> tables_;
  SelfTest self_test_;
  Isa chosen_ = Isa::ref;
  const Table* table_ = nullptr;
};

// Whatever arrays a binding takes: their elements must lie where the processor's instructions expect them.
template <class Array>
void require_aligned(const Array& array, const char* name) {
  if (array.size() != 0 && reinterpret_cast<uintptr_t>(array.data()) % sizeof(*array.data()) != 0)
    throw nanobind::type_error((std::string(name) + " must be aligned to its elements").c_str());
}

}  // namespace droveway

// How much a kernel works in, for plans.
#include "workspace.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

// The bytes of the first workspace that kernel(outs, ins, params) would take, and no further; 0 where it takes none.
int64_t workspace_of(nb::callable kernel, nb::object outs, nb::object ins, nb::object params) {
  int64_t bytes = -1;
  struct Asking {
    explicit Asking(int64_t* answer) { workspace_answer = answer; }
    ~Asking() { workspace_answer = nullptr; }
  } asking(&bytes);
  try {
    kernel(outs, ins, params);
  } catch (nb::python_error&) {
    if (bytes < 0) throw;
  }
  return bytes < 0 ? 0 : bytes;
}

}  // namespace

void bind_workspace(nb::module_& m) {
  m.def("workspace_of", &workspace_of, "kernel"_a, "outs"_a, "ins"_a, "params"_a.none(),
        "The bytes that kernel(outs, ins, params) would work in; it ends where it would take them.");
}

}  // namespace droveway

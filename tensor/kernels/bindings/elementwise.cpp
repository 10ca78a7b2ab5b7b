// The list of elementwise operations for Python.
#include "array/elementwise.hpp"

#include <nanobind/nanobind.h>

#include "table.hpp"

namespace nb = nanobind;

namespace droveway {
namespace {

// (code, arity, names of the dtypes it takes, result)
nb::dict rows() {
  static const char* const results[] = {"same", "truth", "real", "pair", "given"};
  nb::dict all;
  for (int op = 0; op < kElementwiseOps; ++op) {
    const ElementwiseRow& row = elementwise_rows[op];
    nb::list dtypes;
    for (int d = 0; d < kDtypes; ++d) {
      Dtype out;
      if (elementwise_result(op, Dtype(d), &out)) dtypes.append(dtype_name(Dtype(d)));
    }
    all[row.name] = nb::make_tuple(op, row.arity, nb::tuple(dtypes), results[row.result]);
  }
  return all;
}

}  // namespace

void bind_elementwise(nb::module_& m) {
  nb::dict codes;
  for (int op = 0; op < kElementwiseOps; ++op) codes[elementwise_rows[op].name] = op;
  m.attr("ELEMENTWISE") = codes;
  m.def("elementwise_rows", &rows, "Each elementwise operation: {name: (code, arity, dtypes, result)}.");
}

}  // namespace droveway

// One elementwise operation on anything with a buffer, with the kernels of any build: for tests.
#include "array/elementwise.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "array/caster.hpp"
#include "array/in_use.hpp"
#include "droveway/python_call.hpp"
#include "table.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

const TensorTable& table_of(const std::string& isa) {
  const TensorTable* table = isa.empty() ? tensor_kernels() : tensor_kernels(isa.c_str());
  if (table == nullptr) throw nb::value_error(("elementwise: this CPU has no kernels for isa '" + isa + "'").c_str());
  return *table;
}

void elementwise_call(int op, const Out& out, nb::args inputs, const std::string& dtype, const std::string& isa) {
  if (op < 0 || op >= kElementwiseOps) throw nb::value_error("elementwise: no operation has this code");
  const ElementwiseRow& row = elementwise_rows[op];
  const int count = int(inputs.size());
  if (count != row.arity)
    throw nb::value_error((std::string(row.name) + ": expected " + std::to_string(row.arity) + " inputs").c_str());
  In held[3];
  View in[3];
  for (int k = 0; k < count; ++k) {
    if (!held[k].load(inputs[size_t(k)].ptr(), false)) throw nb::type_error((std::string(row.name) + ": an input holds no elements of ours").c_str());
    in[k] = held[k].view();
    if (dtype == "bfloat16" && in[k].dtype == Dtype::u16) in[k].dtype = Dtype::bf16;
  }
  View target = out.view();
  if (dtype == "bfloat16" && target.dtype == Dtype::u16) target.dtype = Dtype::bf16;

  const Dtype main = in[op == op_where ? 1 : 0].dtype;
  Dtype expected = target.dtype;
  bool fits = elementwise_result(op, main, &expected);
  if (op == op_cast) expected = target.dtype;
  for (int k = op == op_where ? 1 : 0; k < count; ++k) fits = fits && in[k].dtype == main;
  if (op == op_where) fits = fits && in[0].dtype == Dtype::boolean;
  if (!fits || expected != target.dtype)
    throw nb::type_error((std::string(row.name) + ": the dtypes of out and inputs do not fit").c_str());
  int64_t shape[kDimsMax];
  const int ndim = broadcast_views(in, count, shape);
  bool equal = ndim == target.ndim;
  for (int d = 0; equal && d < ndim; ++d) equal = shape[d] == target.shape[d];
  if (!equal) throw nb::value_error((std::string(row.name) + ": the inputs do not broadcast to the shape of out").c_str());
  for (int k = 0; k < count; ++k)
    if (views_may_overlap(in[k], target) && !views_equal(in[k], target))
      throw nb::value_error((std::string(row.name) + ": out overlaps an input").c_str());
  const TensorTable& table = table_of(isa);
  bool ran = false;
  call_kernel([&] { ran = run_elementwise(table, op, target, in, count); });
  if (!ran) throw nb::type_error((std::string(row.name) + ": no kernel for " + dtype_name(main)).c_str());
}

}  // namespace

void bind_elementwise_call(nb::module_& m) {
  m.def("elementwise", &elementwise_call, "op"_a, "out"_a, "inputs"_a, "dtype"_a = "", "isa"_a = "",
        "Runs one elementwise operation into `out`. dtype='bfloat16' reads 16-bit unsigned buffers as such.");
}

}  // namespace droveway

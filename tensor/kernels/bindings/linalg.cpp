// Decompositions for Python: views are checked here, the kernels trust them.
#include "linalg.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "array/caster.hpp"
#include "array/in_use.hpp"
#include "droveway/python_call.hpp"
#include "only_workspace.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

// What a view must look like beyond the leading dimensions, which all share.
struct Core {
  int ndim;
  int64_t shape[2];
  Dtype dtype;
};

void check(const View& v, const View& x, const Core& core, const char* name) {
  bool fits = v.dtype == core.dtype && v.ndim == x.ndim - 2 + core.ndim;
  for (int d = 0; fits && d < v.ndim; ++d)
    fits = v.shape[d] == (d < x.ndim - 2 ? x.shape[d] : core.shape[d - (x.ndim - 2)]);
  if (!fits) throw nb::value_error((std::string("linalg: wrong type or shape of ") + name).c_str());
}

Dtype part_of(Dtype d) { return d == Dtype::c64 ? Dtype::f32 : d == Dtype::c128 ? Dtype::f64 : d; }

void check_all(const LinalgCall& call, int inputs, int outputs) {
  const View& x = call.in[0];
  const bool types = x.dtype == Dtype::f32 || x.dtype == Dtype::f64 || is_complex(x.dtype);
  if (!types || x.ndim < 2) throw nb::type_error("linalg: x must be a matrix of floats or complex numbers");
  const int64_t m = x.shape[x.ndim - 2], n = x.shape[x.ndim - 1];
  const int64_t low = m < n ? m : n, k = call.full ? m : low, k2 = call.full ? n : low;
  const Dtype real = part_of(x.dtype);
  int64_t columns = n;
  int wanted_inputs = 1;
  if (call.op == LinalgOp::solve || call.op == LinalgOp::tri_solve) {
    wanted_inputs = 2;
    if (inputs != 2 || call.in[1].ndim != x.ndim) throw nb::value_error("linalg: b must have as many dimensions as x");
    columns = call.in[1].shape[x.ndim - 1];
    check(call.in[1], x, {2, {n, columns}, x.dtype}, "b");
  }
  const bool square = call.op != LinalgOp::lu && call.op != LinalgOp::qr && call.op != LinalgOp::svd;
  if (square && m != n) throw nb::value_error("linalg: x must be square");
  Core outs[3] = {{2, {n, columns}, x.dtype}, {}, {}};
  int wanted = 1;
  switch (call.op) {
    case LinalgOp::lu:
      outs[0].shape[0] = m;
      outs[1] = {1, {m, 0}, Dtype::i64};
      wanted = 2;
      break;
    case LinalgOp::det: outs[0].ndim = 0; break;
    case LinalgOp::slogdet:
      outs[0].ndim = 0;
      outs[1] = {0, {0, 0}, real};
      wanted = 2;
      break;
    case LinalgOp::qr:
      outs[0] = {2, {m, k}, x.dtype};
      outs[1] = {2, {k, n}, x.dtype};
      wanted = 2;
      break;
    case LinalgOp::eigh:
      outs[0] = {1, {n, 0}, real};
      outs[1] = {2, {n, n}, x.dtype};
      wanted = 2;
      break;
    case LinalgOp::svd:
      outs[0] = {2, {m, k}, x.dtype};
      outs[1] = {1, {low, 0}, real};
      outs[2] = {2, {k2, n}, x.dtype};
      wanted = 3;
      break;
    default: break;
  }
  if (inputs != wanted_inputs || outputs != wanted) throw nb::value_error("linalg: wrong number of arrays");
  for (int i = 0; i < outputs; ++i) check(call.out[i], x, outs[i], "a result");
}

// (index of the first matrix that was refused, its status), or None.
nb::object run(int op, nb::sequence inputs, nb::sequence outputs, bool full, bool lower, bool unit) {
  if (op < 0 || op > int(LinalgOp::svd)) throw nb::value_error("linalg: no such operation");
  LinalgCall call{LinalgOp(op), {}, {}, full, lower, unit, nullptr};
  const size_t in_count = nb::len(inputs), out_count = nb::len(outputs);
  if (in_count < 1 || in_count > 2 || out_count < 1 || out_count > 3) throw nb::value_error("linalg: wrong number of arrays");
  In in[2];
  Out out[3];
  for (size_t i = 0; i < in_count; ++i) {
    if (!in[i].load(nb::object(inputs[i]).ptr(), false)) throw nb::type_error("linalg: inputs must be tensors");
    call.in[i] = in[i].view();
  }
  for (size_t i = 0; i < out_count; ++i) {
    if (!out[i].load(nb::object(outputs[i]).ptr(), true)) throw nb::type_error("linalg: results must be tensors that can be written");
    call.out[i] = out[i].view();
  }
  check_all(call, int(in_count), int(out_count));
  const TensorTable* table = tensor_kernels();
  if (table == nullptr) throw std::runtime_error("linalg: DROVEWAY_ISA=ref has no kernels, only the Python twins");
  size_t batch = 1;
  for (int d = 0; d < call.in[0].ndim - 2; ++d) batch *= size_t(call.in[0].shape[d]);
  if (batch == 0) return nb::none();
  const size_t bytes = table->linalg->workspace(call), status_bytes = (batch * sizeof(int32_t) + 63) / 64 * 64;
  Storage* space = storage_new(bytes + status_bytes, "workspace of linalg");
  if (space == nullptr) throw nb::python_error();
  struct Free {
    Storage* s;
    ~Free() { storage_decref(s); }
  } free_at_end{space};
  if (only_workspace) return nb::none();
  call.status = reinterpret_cast<int32_t*>(space->data);
  call_kernel([&] { table->linalg->run(call, space->data + status_bytes); });
  for (size_t i = 0; i < batch; ++i)
    if (call.status[i] != 0) return nb::make_tuple(i, call.status[i]);
  return nb::none();
}

}  // namespace

void bind_linalg(nb::module_& m) {
  m.def("linalg", &run, "op"_a, "inputs"_a, "outputs"_a, "full"_a, "lower"_a, "unit"_a,
        "A decomposition of each matrix of a batch; None, or which matrix was refused, and why.");
}

}  // namespace droveway

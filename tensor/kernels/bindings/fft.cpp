// Fourier transforms for Python: views are checked here, the kernels trust them.
#include "fft.hpp"

#include <nanobind/nanobind.h>

#include <string>

#include "array/caster.hpp"
#include "array/in_use.hpp"
#include "droveway/python_call.hpp"
#include "only_workspace.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

Dtype part_of(Dtype d) { return d == Dtype::c64 ? Dtype::f32 : d == Dtype::c128 ? Dtype::f64 : d; }

void run(int op, const In& x, const Out& y, bool inverse, int divide) {
  if (op < 0 || op > int(FftOp::complex_to_real) || divide < 0 || divide > 2) throw nb::value_error("fft: no such operation");
  FftCall call{FftOp(op), x.view(), y.view(), 0, inverse, divide};
  const View &in = call.in, &out = call.out;
  const bool real_in = call.op == FftOp::real_to_complex, real_out = call.op == FftOp::complex_to_real;
  const Dtype part = part_of(in.dtype);
  const bool types = (part == Dtype::f32 || part == Dtype::f64) && part_of(out.dtype) == part &&
                     is_complex(in.dtype) != real_in && is_complex(out.dtype) != real_out;
  if (!types) throw nb::type_error("fft: wrong element types");
  bool fits = in.ndim >= 1 && in.ndim == out.ndim;
  for (int d = 0; fits && d + 1 < in.ndim; ++d) fits = in.shape[d] == out.shape[d];
  if (fits) {
    const int64_t given = in.shape[in.ndim - 1], wanted = out.shape[out.ndim - 1];
    const int64_t n = real_out ? wanted : given;
    fits = n >= 1 && given == (real_out ? n / 2 + 1 : n) && wanted == (real_in ? n / 2 + 1 : n);
    call.n = size_t(n);
  }
  if (!fits || views_may_overlap(in, out)) throw nb::value_error("fft: wrong shapes, or arrays that overlap");
  const TensorTable* table = tensor_kernels();
  if (table == nullptr) throw std::runtime_error("fft: DROVEWAY_ISA=ref has no kernels, only the Python twins");
  if (view_size(in) == 0) return;
  Storage* space = storage_new(table->fft->workspace(call), "workspace of fft");
  if (space == nullptr) throw nb::python_error();
  struct Free {
    Storage* s;
    ~Free() { storage_decref(s); }
  } free_at_end{space};
  if (only_workspace) return;
  call_kernel([&] { table->fft->run(call, space->data); });
}

}  // namespace

void bind_fft(nb::module_& m) {
  m.def("fft", &run, "op"_a, "x"_a, "y"_a, "inverse"_a, "divide"_a,
        "y = the transform of the rows of x: complex to complex, real to complex, complex to real.");
}

}  // namespace droveway

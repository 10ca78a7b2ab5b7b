// The fusion machine for Python: a program, checked when it is made, run on tensors or anything with a buffer.
#include "array/fused.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <new>
#include <string>

#include "array/caster.hpp"
#include "array/elementwise.hpp"
#include "array/in_use.hpp"
#include "droveway/python_call.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

Dtype dtype_named(const std::string& name) {
  for (int d = 0; d < kDtypes; ++d)
    if (name == dtype_name(Dtype(d))) return Dtype(d);
  throw nb::value_error(("fused: no dtype is named '" + name + "'").c_str());
}

struct Program {
  FusedProgram program;
  const TensorTable* table;

  // steps: (operation code, target, operands, dtype of a cast's result or "")
  Program(nb::sequence steps, nb::sequence inputs, nb::sequence outs, const std::string& end, const std::string& isa) {
    table = isa.empty() ? tensor_kernels() : tensor_kernels(isa.c_str());
    if (table == nullptr) throw nb::value_error("fused: this build has no kernels, only the Python twins");
    program.end = end == "" ? FusedEnd::none : end == "sum" ? FusedEnd::sum : end == "maximum" ? FusedEnd::maximum : FusedEnd::minimum;
    if (end != "" && end != "sum" && end != "maximum" && end != "minimum")
      throw nb::value_error(("fused: no end is named '" + end + "'").c_str());
    program.steps = int(nb::len(steps));
    program.inputs = int(nb::len(inputs));
    program.outs = int(nb::len(outs));
    if (program.steps <= kFusedSteps && program.inputs <= kFusedInputs && program.outs <= kFusedOuts) {
      for (int j = 0; j < program.inputs; ++j) program.input_dtype[j] = dtype_named(nb::cast<std::string>(inputs[j]));
      for (int k = 0; k < program.outs; ++k) program.out_dtype[k] = dtype_named(nb::cast<std::string>(outs[k]));
      for (int s = 0; s < program.steps; ++s) read_step(nb::cast<nb::tuple>(steps[s]), s);
    }
    if (!program.check(*table)) throw nb::value_error(program.error());
  }

  void read_step(nb::tuple step, int s) {
    if (step.size() != 4) throw nb::value_error(("fused: step " + std::to_string(s) + " must have four fields").c_str());
    FusedStep& now = program.step[s];
    now.op = nb::cast<int>(step[0]);
    now.target = nb::cast<int>(step[1]);
    const nb::tuple in = nb::cast<nb::tuple>(step[2]);
    if (now.op >= 0 && now.op < kElementwiseOps && int(in.size()) != elementwise_rows[now.op].arity)
      throw nb::value_error(("fused: step " + std::to_string(s) + ": " + elementwise_rows[now.op].name + " takes " +
                             std::to_string(elementwise_rows[now.op].arity) + " operands, got " + std::to_string(in.size())).c_str());
    for (size_t a = 0; a < 3; ++a) now.in[a] = a < in.size() ? nb::cast<int>(in[a]) : -1;
    const std::string dtype = nb::cast<std::string>(step[3]);
    if ((now.op == op_cast) != !dtype.empty())
      throw nb::value_error(("fused: step " + std::to_string(s) + ": a dtype belongs to a cast, and to nothing else").c_str());
    now.result = dtype.empty() ? Dtype::f32 : dtype_named(dtype);
  }

  void run(nb::sequence outs, nb::sequence inputs, int axes) {
    if (int(nb::len(outs)) != program.outs || int(nb::len(inputs)) != program.inputs)
      throw nb::value_error(("fused: expected " + std::to_string(program.outs) + " outputs and " + std::to_string(program.inputs) + " inputs").c_str());
    Out held_out[kFusedOuts];
    In held_in[kFusedInputs];
    View out[kFusedOuts], in[kFusedInputs];
    int64_t total = 0;
    for (int k = 0; k < program.outs; ++k) {
      if (!held_out[k].load(nb::object(outs[k]).ptr(), true)) throw nb::type_error("fused: an output holds no elements that can be written");
      out[k] = held_out[k].view();
    }
    for (int j = 0; j < program.inputs; ++j) {
      if (!held_in[j].load(nb::object(inputs[j]).ptr(), false)) throw nb::type_error("fused: an input holds no elements of ours");
      in[j] = held_in[j].view();
      const int64_t n = view_size(in[j]);
      total = n > total ? n : total;
    }
    if (!program.check_views(out, in, axes)) throw nb::value_error(program.error());
    bool ran = true;
    if (total * program.steps < 65536) {
      ran = program.run(*table, out, in, axes);
    } else {
      call_kernel([&] { ran = program.run(*table, out, in, axes); });
    }
    if (!ran) throw std::bad_alloc();
  }
};

}  // namespace

void bind_fused(nb::module_& m) {
  nb::set_leak_warnings(false);  // programs are kept for later runs, by us and by callers: not a leak at exit
  nb::class_<Program>(m, "FusedProgram", "A chain of elementwise operations that runs in one pass.")
      .def(nb::init<nb::sequence, nb::sequence, nb::sequence, const std::string&, const std::string&>(), "steps"_a,
           "inputs"_a, "outs"_a, "end"_a = "", "isa"_a = "")
      .def("run", &Program::run, "outs"_a, "inputs"_a, "axes"_a = 0, "Writes the outputs; `axes` trailing dimensions are reduced by an end.");
}

}  // namespace droveway

// The fusion machine for Python: a program, checked when it is made, run on tensors or anything with a buffer.
#include "array/fused.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <new>
#include <string>

#include "array/caster.hpp"
#include "array/elementwise.hpp"
#include "array/in_use.hpp"
#include "array/product_call.hpp"
#include "droveway/python_call.hpp"
#include "workspace.hpp"

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
    const Workspace workspace(program.workspace(out, in, axes), "partial results of a fused end");
    if (only_workspace) return;
    if (total * program.steps < 65536) {
      program.run(*table, out, in, axes, workspace.data());
    } else {
      call_kernel([&] { program.run(*table, out, in, axes, workspace.data()); });
    }
  }

  // a · b, then the program on each finished block of rows. Its input 0 is the product, which lies in `product`: an
  // output of its own, or that output of the program that is written where input 0 is read no more.
  void run_product(const In& a, const In& b, const Out& product, nb::sequence outs, nb::sequence inputs) {
    if (program.end != FusedEnd::none || program.inputs < 1 || int(nb::len(outs)) != program.outs ||
        int(nb::len(inputs)) != program.inputs - 1)
      throw nb::value_error("fused: after a product a program has no end, and the product as its first input");
    Out held_out[kFusedOuts];
    In held_in[kFusedInputs];
    View views[kFusedOuts + 1 + kFusedInputs];  // outs, the product, other inputs
    for (int k = 0; k < program.outs; ++k) {
      if (!held_out[k].load(nb::object(outs[k]).ptr(), true)) throw nb::type_error("fused: an output holds no elements that can be written");
      views[k] = held_out[k].view();
    }
    View* const in = views + program.outs;
    in[0] = product.view();
    for (int j = 1; j < program.inputs; ++j) {
      if (!held_in[j].load(nb::object(inputs[j - 1]).ptr(), false)) throw nb::type_error("fused: an input holds no elements of ours");
      in[j] = held_in[j].view();
    }
    if (!program.check_views(views, in, 0)) throw nb::value_error(program.error());
    ProductCall call;
    View others[ProductCall::kMost];
    for (int k = 0; k < program.outs; ++k) others[k] = views[k];
    for (int j = 1; j < program.inputs; ++j) others[program.outs + j - 1] = in[j];
    if (const char* wrong = call.describe(a.view(), b.view(), in[0], others, program.outs + program.inputs - 1)) throw nb::value_error(wrong);
    const Product& p = call.product;
    if (p.a_dtype != p.dtype || p.b_dtype != p.dtype || (p.dtype != Dtype::f16 && p.dtype != Dtype::bf16 && p.dtype != Dtype::f32 && p.dtype != Dtype::f64))
      throw nb::type_error("fused: a product of floats of one type comes before a program");
    for (int j = 1; j < program.inputs; ++j)
      if (views_may_overlap(in[0], in[j])) throw nb::value_error("fused: the product overlaps an input");
    if (views_may_overlap(in[0], a.view()) || views_may_overlap(in[0], b.view())) throw nb::value_error("fused: the product overlaps a factor");
    for (int k = 0; k < program.outs; ++k)
      if (views_may_overlap(views[k], a.view()) || views_may_overlap(views[k], b.view())) throw nb::value_error("fused: an output overlaps a factor");
    call.run_after(program, *table);
    const Workspace workspace(table->product_workspace(p), "product packing");
    if (only_workspace) return;
    call_kernel([&] { table->product(p, workspace.data()); });
  }
};

}  // namespace

void bind_fused(nb::module_& m) {
  m.def("only_workspace", [](bool now) {
        const bool before = only_workspace;
        only_workspace = now;
        return before;
      }, "now"_a, "Whether kernels of this thread that need a workspace stop when they have it; returns what was before.");
  nb::set_leak_warnings(false);  // programs are kept for later runs, by us and by callers: not a leak at exit
  nb::class_<Program>(m, "FusedProgram", "A chain of elementwise operations that runs in one pass.")
      .def(nb::init<nb::sequence, nb::sequence, nb::sequence, const std::string&, const std::string&>(), "steps"_a,
           "inputs"_a, "outs"_a, "end"_a = "", "isa"_a = "")
      .def("run", &Program::run, "outs"_a, "inputs"_a, "axes"_a = 0, "Writes the outputs; `axes` trailing dimensions are reduced by an end.")
      .def("run_product", &Program::run_product, "a"_a, "b"_a, "product"_a, "outs"_a, "inputs"_a,
           "product = a · b, then the program on each finished block of its rows, with the product as first input.");
}

}  // namespace droveway

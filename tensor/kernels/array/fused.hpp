// Chains of elementwise operations in one pass over memory: a short program of a register machine that runs on blocks
// of 1024 elements, by the same loops as the operations alone, so fused equals unfused to the bit.
//
// A step is out = op(in…). Operands are numbers: 0 … 7 temporaries, 8 … 63 inputs, 64 … 71 outputs (written only).
// With an end, the last step's value (a temporary) is not stored but reduced over trailing dimensions, in the order of
// the plain reduction.
#pragma once
#include "table.hpp"
#include "view.hpp"

namespace droveway {

constexpr int kFusedTemporaries = 8, kFusedInputs = 56, kFusedOuts = 8, kFusedSteps = 256;
constexpr int kFusedFirstInput = 8, kFusedFirstOut = 64;

enum class FusedEnd : uint8_t { none, sum, maximum, minimum };

struct FusedStep {
  int op, target, in[3];
  Dtype main;    // what the loop is chosen by
  Dtype result;  // of the target; a cast names it, elsewhere it follows
  ElementwiseLoop loop;
  bool widens;  // the target is an operand whose elements are smaller: it needs room of its own
};

class FusedProgram {
 public:
  int inputs = 0, outs = 0, steps = 0;
  FusedEnd end = FusedEnd::none;
  Dtype input_dtype[kFusedInputs], out_dtype[kFusedOuts];
  FusedStep step[kFusedSteps];

  // Checks everything that does not depend on shapes, and finds the loops: operations known and of the right arity,
  // operands in range and defined before use, dtypes that fit, every output written once. false with error() set.
  bool check(const TensorTable& table);

  // Whether the views fit, by shape and overlap; false with error() set. `axes` trailing dimensions are reduced.
  bool check_views(const View* out, const View* in, int axes);

  // The bytes that a run holds partial results of an end in.
  size_t workspace(const View* out, const View* in, int axes) const;
  void run(const TensorTable& table, const View* out, const View* in, int axes, char* workspace) const;

  const char* error() const { return error_; }

 private:
  bool fail(const char* format, ...) __attribute__((format(printf, 2, 3)));
  char error_[200] = "";
};

}  // namespace droveway

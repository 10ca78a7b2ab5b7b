#include "fused.hpp"

#include <alloca.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "droveway/parallel.hpp"
#include "elementwise.hpp"
#include "layout.hpp"

#define DW_ISA fused_environment
#include "droveway/fpenv.hpp"

namespace droveway {

namespace {

constexpr int64_t kChunk = 1024;     // elements that go through the whole program before the next ones
constexpr int64_t kSumBlock = 4096;  // of the sum's order: a multiple of kChunk
constexpr int kOperands = kFusedOuts + kFusedInputs;

bool is_temporary(int operand) { return operand >= 0 && operand < kFusedTemporaries; }
bool is_input(int operand) { return operand >= kFusedFirstInput && operand < kFusedFirstOut; }

struct Run {
  const FusedProgram* program;
  const TensorTable* table;
  Walk walk;
  int stored;                  // outs that are written element by element: the first operands
  Walked operand[kOperands];   // those, then the inputs
  int64_t chunk, stage_bytes;  // of a temporary or staged operand
  int temporaries, staged;     // how many stages they take
  int spare;                   // 1 if a step writes over an operand with smaller elements
  bool out_staged[kFusedOuts];
  // of an end
  int64_t columns, rows, blocks;  // blocks of kSumBlock in a row
  char* result;                   // one value for each block of each row, or the out itself where a row is one block
};

// The stages of one range: temporaries, then operands that are not read or written in place.
struct Stages {
  char* temporary[kFusedTemporaries];
  char* spare;
  char* operand[kOperands];
};

int64_t stage_count(const Run& run) { return run.temporaries + run.spare + run.staged; }

void lay_stages(const Run& run, char* memory, Stages& stages) {
  for (int t = 0; t < run.temporaries; ++t, memory += run.stage_bytes) stages.temporary[t] = memory;
  stages.spare = memory;
  memory += run.spare * run.stage_bytes;
  const int count = run.stored + run.program->inputs;
  for (int k = 0; k < count; ++k) {
    if (run.operand[k].access == Access::direct) continue;
    stages.operand[k] = memory;
    memory += run.stage_bytes;
  }
}

// Elements begin … end through the program; the value of the last step of an end goes to `last`, one after the other.
void run_elements(const Run& run, Stages& stages, int64_t begin, int64_t end, char* last) {
  const FusedProgram& program = *run.program;
  const Walk& walk = run.walk;
  const int64_t last_size = int64_t(dtype_size(program.step[program.steps - 1].result));
  Position position;
  if (walk.staged) walk_seek(walk, begin, position);
  const void* where[kFusedFirstOut + kFusedOuts];
  for (int t = 0; t < run.temporaries; ++t) where[t] = stages.temporary[t];
  const void* spare = stages.spare;
  for (int64_t i = begin; i < end;) {
    int64_t m = end - i < run.chunk ? end - i : run.chunk;
    if (walk.staged) m = walk_step(walk, position, m);
    bool scatter[kFusedOuts];
    for (int k = 0; k < run.stored; ++k) {
      const Walked& out = run.operand[k];
      char* p = out.access == Access::direct ? out.data + i * out.size : walk_in_place(walk, out, position, m);
      scatter[k] = p == nullptr;
      where[kFusedFirstOut + k] = scatter[k] ? stages.operand[k] : p;
    }
    for (int j = 0; j < program.inputs; ++j) {
      const Walked& in = run.operand[run.stored + j];
      const char* p = stages.operand[run.stored + j];
      if (in.access == Access::direct) {
        p = in.data + i * in.size;
      } else if (in.access == Access::strided) {
        const char* there = walk_in_place(walk, in, position, m);
        if (there != nullptr) p = there;
        else walk_gather(walk, in, position, stages.operand[run.stored + j], m);
      }
      where[kFusedFirstInput + j] = p;
    }
    for (int s = 0; s < program.steps; ++s) {
      const FusedStep& step = program.step[s];
      Strip strip;
      strip.out = const_cast<void*>(step.widens ? spare : where[step.target]);
      if (last != nullptr && s == program.steps - 1) strip.out = last + (i - begin) * last_size;
      const int arity = elementwise_arity_of[step.op];
      for (int a = 0; a < arity; ++a) strip.in[a] = where[step.in[a]];
      strip.n = size_t(m);
      strip.op = step.op;
      step.loop(strip);
      if (step.widens) {
        const void* before = where[step.target];
        where[step.target] = spare;
        spare = before;
      }
    }
    for (int k = 0; k < run.stored; ++k)
      if (scatter[k]) walk_scatter(walk, run.operand[k], position, stages.operand[k], m);
    i += m;
    if (walk.staged) walk_advance(walk, m, position);
  }
}

void repeat_constants(const Run& run, Stages& stages, int64_t count) {
  for (int j = 0; j < run.program->inputs; ++j) {
    const Walked& in = run.operand[run.stored + j];
    if (in.access == Access::constant) walk_repeat(stages.operand[run.stored + j], in.data, in.size, count);
  }
}

#define DW_STAGES(run, extra)                                                                                    \
  char* const memory = static_cast<char*>(alloca(size_t(stage_count(run) * (run).stage_bytes + (extra) + 64)));  \
  char* const aligned = memory + (64 - reinterpret_cast<uintptr_t>(memory) % 64) % 64;                           \
  Stages stages;                                                                                                 \
  lay_stages(run, aligned + (extra), stages)

void run_range(const Run& run, int64_t begin, int64_t end) {
  DW_STAGES(run, 0);
  repeat_constants(run, stages, end - begin < run.chunk ? end - begin : run.chunk);
  run_elements(run, stages, begin, end, nullptr);
}
void run_block(void* context, size_t block) {
  const Run& run = *static_cast<const Run*>(context);
  const int64_t begin = int64_t(block) * kWalkBlock;
  run_range(run, begin, begin + kWalkBlock < run.walk.total ? begin + kWalkBlock : run.walk.total);
}

// --- ends

// The values of rows of n elements, one after the other, by the kernel of the plain reduction.
void reduce_values(const Run& run, char* values, int64_t rows, int64_t n, char* out) {
  const Dtype d = run.program->step[run.program->steps - 1].result;
  const FusedEnd end = run.program->end;
  const Reduce op = end == FusedEnd::sum ? Reduce::sum : end == FusedEnd::maximum ? Reduce::max : Reduce::min;
  const int64_t shape[2] = {rows, n}, strides[2] = {n, 1}, kept[2] = {rows, 1}, steps[2] = {1, 1};
  run.table->reduce->reduce(op, {values, d, 2, shape, strides}, 2, {out, d, 2, kept, steps}, 0);
}

// Blocks first … last − 1 of all blocks of all rows: whole rows where they are short, else blocks of one row.
void run_blocks_of_end(const Run& run, int64_t first, int64_t last) {
  const int64_t size = int64_t(dtype_size(run.program->step[run.program->steps - 1].result));
  DW_STAGES(run, kSumBlock * 16);
  char* const values = aligned;
  repeat_constants(run, stages, run.chunk);
  if (run.blocks == 1) {
    const int64_t joined = kSumBlock / run.columns;  // rows that go through the program together
    for (int64_t row = first; row < last;) {
      const int64_t rows = last - row < joined ? last - row : joined;
      run_elements(run, stages, row * run.columns, (row + rows) * run.columns, values);
      reduce_values(run, values, rows, run.columns, run.result + row * size);
      row += rows;
    }
    return;
  }
  for (int64_t b = first; b < last; ++b) {
    const int64_t row = b / run.blocks, block = b % run.blocks;
    const int64_t begin = row * run.columns + block * kSumBlock;
    const int64_t n = run.columns - block * kSumBlock < kSumBlock ? run.columns - block * kSumBlock : kSumBlock;
    run_elements(run, stages, begin, begin + n, values);
    reduce_values(run, values, 1, n, run.result + b * size);
  }
}
int64_t blocks_per_item(const Run& run) {
  return run.blocks > 1 ? kWalkBlock / kSumBlock : run.columns >= kWalkBlock ? 1 : (kWalkBlock + run.columns - 1) / run.columns;
}
void run_item_of_end(void* context, size_t item) {
  const Run& run = *static_cast<const Run*>(context);
  const int64_t all = run.rows * run.blocks, per = blocks_per_item(run);
  const int64_t first = int64_t(item) * per;
  run_blocks_of_end(run, first, first + per < all ? first + per : all);
}

// T(values) = T(the largest power of two below their number) + T(the rest).
template <class T>
T tree(const T* values, int64_t n) {
  if (n == 1) return values[0];
  int64_t h = 1;
  while (2 * h < n) h *= 2;
  return tree(values, h) + tree(values + h, n - h);
}
template <class T>
void sum_of_blocks(const T* values, int64_t n, char* out) {
  fused_environment::FpGuard guard;
  T total = tree(values, n);
  if (total != total) {
    constexpr uint64_t nan = sizeof(T) == 4 ? 0x7FC00000ull : 0x7FF8000000000000ull;
    memcpy(out, &nan, sizeof(T));
  } else {
    memcpy(out, &total, sizeof(T));
  }
}

}  // namespace

bool FusedProgram::fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error_, sizeof error_, format, arguments);
  va_end(arguments);
  return false;
}

bool FusedProgram::check(const TensorTable& table) {
  if (steps < 1 || steps > kFusedSteps) return fail("fused: expected 1 to %d steps, got %d", kFusedSteps, steps);
  if (inputs < 0 || inputs > kFusedInputs) return fail("fused: expected at most %d inputs, got %d", kFusedInputs, inputs);
  if (outs < 1 || outs > kFusedOuts) return fail("fused: expected 1 to %d outputs, got %d", kFusedOuts, outs);
  if (end != FusedEnd::none && outs != 1) return fail("fused: a program with an end has one output, got %d", outs);
  bool defined[kFusedTemporaries] = {}, written[kFusedOuts] = {};
  Dtype temporary[kFusedTemporaries];
  for (int s = 0; s < steps; ++s) {
    FusedStep& now = step[s];
    if (now.op < 0 || now.op >= kElementwiseOps) return fail("fused: step %d: no operation has code %d", s, now.op);
    const ElementwiseRow& row = elementwise_rows[now.op];
    Dtype in[3];
    for (int a = 0; a < row.arity; ++a) {
      const int from = now.in[a];
      if (is_temporary(from)) {
        if (!defined[from]) return fail("fused: step %d: temporary %d is read before it is written", s, from);
        in[a] = temporary[from];
      } else if (is_input(from) && from - kFusedFirstInput < inputs) {
        in[a] = input_dtype[from - kFusedFirstInput];
      } else {
        return fail("fused: step %d: operand %d is neither a temporary nor an input", s, from);
      }
    }
    const int first = now.op == op_where ? 1 : 0;
    if (first == 1 && in[0] != Dtype::boolean) return fail("fused: step %d: where needs a boolean condition", s);
    now.main = in[first];
    for (int a = first; a < row.arity; ++a)
      if (in[a] != now.main) return fail("fused: step %d: %s: inputs of %s and %s", s, row.name, dtype_name(now.main), dtype_name(in[a]));
    Dtype result = now.result;
    if (!elementwise_result(now.op, now.main, &result)) return fail("fused: step %d: %s does not take %s", s, row.name, dtype_name(now.main));
    if (now.op == op_cast) result = now.result;
    now.result = result;
    now.loop = now.op == op_cast ? table.cast(int(now.main), int(result)) : table.elementwise(now.op, int(now.main));
    if (now.loop == nullptr) return fail("fused: step %d: %s has no kernel for %s", s, row.name, dtype_name(now.main));
    const int out = now.target - kFusedFirstOut;
    now.widens = false;
    if (is_temporary(now.target)) {
      for (int a = 0; a < row.arity; ++a) now.widens |= now.in[a] == now.target && dtype_size(in[a]) < dtype_size(result);
      defined[now.target] = true;
      temporary[now.target] = result;
    } else if (out >= 0 && out < outs && end == FusedEnd::none) {
      if (written[out]) return fail("fused: step %d: output %d is written twice", s, out);
      if (out_dtype[out] != result) return fail("fused: step %d: output %d is %s, the step gives %s", s, out, dtype_name(out_dtype[out]), dtype_name(result));
      written[out] = true;
    } else {
      return fail("fused: step %d: target %d is neither a temporary nor an output", s, now.target);
    }
  }
  for (int k = 0; k < outs && end == FusedEnd::none; ++k)
    if (!written[k]) return fail("fused: output %d is never written", k);
  if (end != FusedEnd::none) {
    const Dtype last = step[steps - 1].result;
    if (last != Dtype::f32 && last != Dtype::f64) return fail("fused: an end takes float32 or float64, got %s", dtype_name(last));
    if (out_dtype[0] != last) return fail("fused: output 0 is %s, the end gives %s", dtype_name(out_dtype[0]), dtype_name(last));
  }
  return true;
}

bool FusedProgram::check_views(const View* out, const View* in, int axes) {
  for (int j = 0; j < inputs; ++j)
    if (in[j].dtype != input_dtype[j]) return fail("fused: input %d must be %s, got %s", j, dtype_name(input_dtype[j]), dtype_name(in[j].dtype));
  for (int k = 0; k < outs; ++k)
    if (out[k].dtype != out_dtype[k]) return fail("fused: output %d must be %s, got %s", k, dtype_name(out_dtype[k]), dtype_name(out[k].dtype));
  int64_t shape[kDimsMax];
  const int ndim = broadcast_views(in, inputs, shape);
  if (ndim < 0) return fail("fused: the shapes of the inputs do not broadcast");
  if (end == FusedEnd::none ? axes != 0 : axes < 0 || axes > ndim) return fail("fused: %d dimensions cannot be reduced", axes);
  for (int k = 0; k < outs; ++k) {
    bool equal = out[k].ndim == ndim - axes;
    for (int d = 0; equal && d < out[k].ndim; ++d) equal = out[k].shape[d] == shape[d];
    if (!equal) return fail("fused: output %d does not have the shape of the result", k);
    for (int other = 0; other < k; ++other)
      if (views_may_overlap(out[k], out[other])) return fail("fused: outputs %d and %d overlap", other, k);
    int written = steps;
    for (int s = 0; s < steps; ++s)
      if (step[s].target == kFusedFirstOut + k) written = s;
    for (int j = 0; j < inputs; ++j) {
      if (!views_may_overlap(out[k], in[j])) continue;
      int read = -1;
      for (int s = 0; s < steps; ++s)
        for (int a = 0; a < elementwise_rows[step[s].op].arity; ++a)
          if (step[s].in[a] == kFusedFirstInput + j) read = s;
      if (end != FusedEnd::none || !views_equal(out[k], in[j]) || read > written)
        return fail("fused: output %d overlaps input %d", k, j);
    }
  }
  if (end == FusedEnd::maximum || end == FusedEnd::minimum)
    for (int d = ndim - axes; d < ndim; ++d)
      if (shape[d] == 0) return fail("fused: nothing has no maximum or minimum");
  return true;
}

size_t FusedProgram::workspace(const View* out, const View* in, int axes) const {
  if (end == FusedEnd::none) return 0;
  int64_t shape[kDimsMax], rows = 1, columns = 1;
  const int ndim = broadcast_views(in, inputs, shape);
  for (int d = 0; d < ndim; ++d) (d < ndim - axes ? rows : columns) *= shape[d];
  const int64_t blocks = (columns + kSumBlock - 1) / kSumBlock;
  if (rows == 0 || columns == 0 || (blocks == 1 && view_contiguous(out[0]))) return 0;
  return size_t(rows * (blocks + 1)) * dtype_size(out_dtype[0]);
}

void FusedProgram::run(const TensorTable& table, const View* out, const View* in, int axes, char* workspace) const {
  Run run;
  run.program = this;
  run.table = &table;
  run.stored = end == FusedEnd::none ? outs : 0;
  View views[kOperands];
  for (int k = 0; k < run.stored; ++k) views[k] = out[k];
  for (int j = 0; j < inputs; ++j) views[run.stored + j] = in[j];
  int64_t shape[kDimsMax];
  const int ndim = broadcast_views(in, inputs, shape);
  const int count = run.stored + inputs;
  const bool any = walk_begin(run.walk, run.operand, views, count, ndim, shape, run.stored > 0);
  if (!any) {
    if (end == FusedEnd::sum) {  // sums of nothing
      const uint64_t zero = 0;
      const View z{const_cast<char*>(reinterpret_cast<const char*>(&zero)), out[0].dtype, 0, nullptr, nullptr};
      run_elementwise(table, op_copy, out[0], &z, 1);
    }
    return;
  }
  int64_t widest = 4;
  run.temporaries = run.spare = 0;
  int64_t bytes = 0;
  for (int s = 0; s < steps; ++s) {
    const int64_t size = int64_t(dtype_size(step[s].result));
    widest = size > widest ? size : widest;
    if (step[s].widens) run.spare = 1;
    if (is_temporary(step[s].target) && step[s].target >= run.temporaries) run.temporaries = step[s].target + 1;
  }
  run.staged = 0;
  for (int k = 0; k < count; ++k) {
    widest = run.operand[k].size > widest ? run.operand[k].size : widest;
    if (run.operand[k].access != Access::direct) ++run.staged;
    if (run.operand[k].access != Access::constant) bytes += run.walk.total * run.operand[k].size;
  }
  run.chunk = widest > 8 ? kChunk / 2 : kChunk;
  run.stage_bytes = run.chunk * widest;
  bytes += run.walk.total * steps;  // work that no operand shows

  if (end == FusedEnd::none) {
    const int64_t blocks = (run.walk.total + kWalkBlock - 1) / kWalkBlock;
    if (blocks > 1 && bytes >= kParallelBytes) dw_parallel(size_t(blocks), run_block, &run);
    else run_range(run, 0, run.walk.total);
    return;
  }

  run.columns = 1;
  for (int d = ndim - axes; d < ndim; ++d) run.columns *= shape[d];
  run.rows = run.walk.total / run.columns;
  run.blocks = (run.columns + kSumBlock - 1) / kSumBlock;
  const int64_t size = int64_t(dtype_size(out_dtype[0]));
  char* const partial = workspace;
  const bool straight = run.blocks == 1 && view_contiguous(out[0]);
  if (straight) {
    run.result = out[0].data;
  } else {
    run.result = partial;
  }
  const int64_t all = run.rows * run.blocks, per = blocks_per_item(run), items = (all + per - 1) / per;
  if (items > 1 && bytes >= kParallelBytes) dw_parallel(size_t(items), run_item_of_end, &run);
  else run_blocks_of_end(run, 0, all);
  if (!straight) {
    char* values = run.blocks == 1 ? partial : partial + run.rows * run.blocks * size;
    if (run.blocks > 1) {
      for (int64_t r = 0; r < run.rows; ++r) {
        char* row = partial + r * run.blocks * size;
        if (end != FusedEnd::sum) reduce_values(run, row, 1, run.blocks, values + r * size);
        else if (size == 4) sum_of_blocks(reinterpret_cast<const float*>(row), run.blocks, values + r * size);
        else sum_of_blocks(reinterpret_cast<const double*>(row), run.blocks, values + r * size);
      }
    }
    int64_t strides[kDimsMax], step_of = 1;
    for (int d = out[0].ndim - 1; d >= 0; --d) {
      strides[d] = step_of;
      step_of *= out[0].shape[d];
    }
    const View from{values, out_dtype[0], out[0].ndim, out[0].shape, strides};
    run_elementwise(table, op_copy, out[0], &from, 1);
  }
}

}  // namespace droveway

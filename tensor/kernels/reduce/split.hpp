// A call over several views of one shape, split into the dimensions that stay and those along which each line runs.
//
// Dimensions that lie behind one another in every operand are merged. The line's elements come in row-major order over
// its dimensions whatever the strides: their order is part of the result. The order of the lines is not.
#pragma once
#include "../array/view.hpp"
#include "droveway/lanes.hpp"

namespace DW_ISA {
namespace lines {

using droveway::kDimsMax;
using droveway::View;

constexpr int kOperandsMax = 8;
constexpr int kSplitDimsMax = kDimsMax + 1;  // one more for the parts of complex numbers

struct Dims {
  int n = 0;
  size_t total = 1;
  int64_t size[kSplitDimsMax];
  int64_t stride[kOperandsMax][kSplitDimsMax];

  // Puts a dimension behind the others, or into the last one where all operands allow it.
  void push(int operands, int64_t count, const int64_t* step) {
    total *= size_t(count);
    if (count == 1) return;
    bool merge = n > 0;
    for (int k = 0; k < operands && merge; ++k) merge = stride[k][n - 1] == step[k] * count;
    if (!merge) size[n++] = 1;
    size[n - 1] *= count;
    for (int k = 0; k < operands; ++k) stride[k][n - 1] = step[k];
  }
  // As one dimension at least, so that callers need no case for none.
  void finish() {
    if (n > 0) return;
    n = 1;
    size[0] = int64_t(total);  // 1, or 0 where some dimension is empty
    for (auto& s : stride) s[0] = 0;
  }
};

struct Split {
  Dims kept, line;
};

// All views have the dimensions of views[0]; in the others a size of 1 repeats (its stride counts as 0).
inline Split split(const View* const* views, int operands, uint32_t axes) {
  Split s;
  const View& x = *views[0];
  for (int d = 0; d < x.ndim; ++d) {
    int64_t step[kOperandsMax];
    for (int k = 0; k < operands; ++k)
      step[k] = k > 0 && views[k]->shape[d] == 1 ? 0 : views[k]->strides[d];
    ((axes >> d & 1u) != 0 ? s.line : s.kept).push(operands, x.shape[d], step);
  }
  s.kept.finish();
  s.line.finish();
  return s;
}

// Complex numbers as pairs of reals: one more kept dimension of two, strides in reals. For two operands.
inline void split_parts(Split* s) {
  Dims* const both[] = {&s->kept, &s->line};
  for (Dims* dims : both)
    for (int k = 0; k < 2; ++k)
      for (int d = 0; d < dims->n; ++d) dims->stride[k][d] *= 2;
  const int64_t one[kOperandsMax] = {1, 1};
  s->kept.push(2, 2, one);
}

// Runs over the positions first … of some dimensions, with the offset in elements of every operand.
struct Odometer {
  const Dims& dims;
  int operands;
  int64_t index[kSplitDimsMax];
  int64_t offset[kOperandsMax];

  Odometer(const Dims& dims, int operands, size_t first) : dims(dims), operands(operands) {
    for (int k = 0; k < operands; ++k) offset[k] = 0;
    for (int d = dims.n - 1; d >= 0; --d) {
      const size_t size = dims.size[d] > 0 ? size_t(dims.size[d]) : 1;
      index[d] = int64_t(first % size);
      first /= size;
      for (int k = 0; k < operands; ++k) offset[k] += index[d] * dims.stride[k][d];
    }
  }
  void advance(int last) {  // one step in dimension `last`, carrying upwards
    for (int d = last; d >= 0; --d) {
      for (int k = 0; k < operands; ++k) offset[k] += dims.stride[k][d];
      if (++index[d] < dims.size[d]) return;
      for (int k = 0; k < operands; ++k) offset[k] -= dims.size[d] * dims.stride[k][d];
      index[d] = 0;
    }
  }
  void next() { advance(dims.n - 1); }
};

}  // namespace lines
}  // namespace DW_ISA

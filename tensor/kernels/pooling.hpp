// What a pooling is, for kernels and their callers.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "array/dtype.hpp"

namespace droveway {

// The windows along one dimension: that of output o holds inputs first[o], first[o] + dilation, … below end[o], at least
// one of them, all inside the image. For outputs from `regular` to `regular_end`, first[o] = o·stride − before, and the
// window has `taps` inputs.
struct PoolWindows {
  int64_t input, output;
  const int64_t* first;
  const int64_t* end;
  int64_t dilation, stride, before, taps, regular, regular_end;
};

// Planes of f32 or f64. `pooled` is [planes, y.output, x.output], contiguous, and so is index (places in the plane, counted
// row after row). A plane's elements lie row_step and column_step apart.
struct Pooling {
  int64_t images, channels;
  PoolWindows y, x;
  int64_t plane_step[2];  // image, channel
  int64_t row_step, column_step;
  int64_t divisor;  // of averages; 0: the number of inputs in the window
  Dtype dtype;
};

}  // namespace droveway

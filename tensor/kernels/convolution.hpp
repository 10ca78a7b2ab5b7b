// What a convolution is, for kernels and their callers.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "array/dtype.hpp"

namespace droveway {

// One of the two spatial dimensions. Output o and tap t of the kernel meet input o·stride + t·dilation − before; an
// input that is not there is 0. With `spread` element i lies at i·spread; taps that meet what lies between two of them are no
// part of the sum (a stride is then 1). Dilation may be negative: the gradient of the input walks the taps backwards.
struct Window {
  int64_t input, taps, output;
  int64_t stride, dilation, before, spread;
};

// out[n, g·outputs + o, y, x] = the sum over k = (input channel, tap y, tap x), in this order, of weight · input, as the
// product of the matrices weights [outputs, k] and patches [k, y·x], zeros outside the image included.
// Steps in elements. T of sums is f32, also for f16 and bf16, or f64; out is contiguous.
struct Convolution {
  int64_t images, groups, inputs, outputs;  // inputs and outputs: channels of one group
  Window y, x;
  const void* image;
  int64_t image_step[4];  // image, channel, row, column
  const void* weight;
  int64_t weight_step[5];  // group, output channel, input channel, tap y, tap x
  void* out;
  Dtype dtype;
  const void* bias = nullptr;  // groups · outputs contiguous values, or nullptr
  int activation = -1;
  // Where there is an index, out holds the maxima over 2×2 outputs side by side (y.output and x.output are even, rows at
  // most kPooledRowBytes, dtype f32 or f64), and index their places in planes that are index_width wide.
  int32_t* index = nullptr;
  int64_t index_width = 0;
};
constexpr int64_t kPooledRowBytes = 512;

// weight[g, o, i, ty, tx] = the sum over k = (n, y, x), in this order, of gradient[n, g, o, y, x] · the image under that
// tap: the product of the matrices [outputs, k] and [k, (i, ty, tx)]. `out` is contiguous [groups · outputs, inputs, …].
struct WeightGradient {
  int64_t images, groups, inputs, outputs;
  Window y, x;
  const void* image;
  int64_t image_step[4];
  const void* gradient;
  int64_t gradient_step[4];  // image, channel, row, column
  void* out;
  Dtype dtype;
};

}  // namespace droveway

// Discrete Fourier transforms of the rows of a batch: what bindings/fft.cpp and fft.cpp say to each other.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "array/view.hpp"

namespace droveway {

enum class FftOp : int { complex_to_complex, real_to_complex, complex_to_real };

// The last dimension of in and out is transformed, the leading ones are the same; in and out do not overlap.
//   complex_to_complex  [..., n] → [..., n]               inverse: exp(+2πi·j·k/n)
//   real_to_complex     [..., n] → [..., n div 2 + 1]
//   complex_to_real     [..., n div 2 + 1] → [..., n]     always inverse
// divide: the result by 1 (0), n (1) or √n (2). n ≥ 1. Types: f32 and f64, c64 and c128, both of one width.
struct FftCall {
  FftOp op;
  View in, out;
  size_t n;
  bool inverse;
  int divide;
};

struct FftKernels {
  size_t (*workspace)(const FftCall& call);  // bytes, aligned to 64; they do not depend on the number of threads
  void (*run)(const FftCall& call, void* workspace);
};

}  // namespace droveway

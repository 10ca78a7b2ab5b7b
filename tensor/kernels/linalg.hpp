// Decompositions of small matrices, one call for a batch: what bindings/linalg.cpp and linalg.cpp say to each other.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "array/view.hpp"

namespace droveway {

enum class LinalgOp : int { cholesky, lu, det, slogdet, solve, tri_solve, inv, qr, eigh, svd };

// x is in[0], [..., m, n]; the leading dimensions of all views are the same. Types: f32, f64, c64, c128.
//   cholesky  out [n, n]                        solve      in b [n, k], out [n, k]
//   lu        out [m, n], rows i64[m]           tri_solve  the same; lower, unit
//   det       out []                            inv        out [n, n]
//   slogdet   out [], real []                   qr         out [m, k], [k, n]; full: k = m, else min(m, n)
//   eigh      out real [n], [n, n]; full:       svd        out u [m, k], real s [min(m, n)], vh [k, n]; full: square
//             what is not Hermitian is refused
// status[i] of matrix i: 0, or 1 + the step at which it was refused; −1: not finite, −2: not Hermitian, −3: no end.
struct LinalgCall {
  LinalgOp op;
  View in[2];
  View out[3];
  bool full, lower, unit;
  int32_t* status;
};

struct LinalgKernels {
  // Bytes that run needs, aligned to 64; they do not depend on the number of threads.
  size_t (*workspace)(const LinalgCall& call);
  void (*run)(const LinalgCall& call, void* workspace);
};

}  // namespace droveway

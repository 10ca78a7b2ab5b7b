// Every kernel of vector, once per instruction set. A field is a pointer, its comment the contract.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "droveway/selftest.hpp"

namespace droveway {

// A search of all rows for each of nq queries; rows and queries of d coordinates, 1 ≤ d ≤ 16384, 1 ≤ k ≤ n.
struct ExactSearch {
  const float* x;
  ptrdiff_t x_row, x_step;  // in elements
  size_t n;
  const float* q;  // [nq, d]
  size_t nq, d, k;
  uint32_t metric;        // 0 inner product, 1 cosine, 2 minus the squared distance
  const double* x_norm;   // cosine: [n] and [nq], else null
  const double* q_norm;
  float* scores;  // [nq, k], best first: key descending, row ascending
  uint64_t* ids;
};

struct VectorTable {
  // Stable ascending order of n < 2^32 keys; false, and nothing promised of `order`, where one is NaN.
  // workspace of depth_workspace(n) bytes, aligned to 8
  bool (*depth_order)(const float* z, size_t n, uint32_t* order, void* workspace);
  size_t (*depth_workspace)(size_t n);
  // out[i] = the sum of x[i]·y[i], or of (x[i] − y[i])² where `squares`, in float64; y_row 0: one y for all
  void (*pair_sums)(const float* x, ptrdiff_t x_row, ptrdiff_t x_step, const float* y, ptrdiff_t y_row, ptrdiff_t y_step,
                    size_t n, size_t d, bool squares, double* out);
  // the best k rows of each query; workspace of exact_workspace(…) bytes, aligned to 8. All numbers finite
  void (*exact_search)(const ExactSearch& search, void* workspace);
  size_t (*exact_workspace)(size_t n, size_t nq, size_t d, size_t k);
};

void vector_self_test(const VectorTable& table, SelfTestEmit emit, void* context);

}  // namespace droveway

#if defined(__x86_64__)
namespace isa_v3 { extern const droveway::VectorTable vector_table; }
namespace isa_v4 { extern const droveway::VectorTable vector_table; }
#else
namespace isa_neon { extern const droveway::VectorTable vector_table; }
#endif

// Every kernel of tensor, once per instruction set. A field is a pointer, its comment the contract.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "droveway/selftest.hpp"

namespace droveway {

struct TensorTable {
  // sum of n values read at x[i * stride] (stride in elements), in the fixed order of the blocked tree
  float (*sum_f32)(const float* x, ptrdiff_t stride, size_t n);
};

void tensor_self_test(const TensorTable& table, SelfTestEmit emit, void* context);

}  // namespace droveway

#if defined(__x86_64__)
namespace isa_v3 { extern const droveway::TensorTable tensor_table; }
namespace isa_v4 { extern const droveway::TensorTable tensor_table; }
#else
namespace isa_neon { extern const droveway::TensorTable tensor_table; }
#endif

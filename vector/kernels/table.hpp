// Every kernel of vector, once per instruction set. A field is a pointer, its comment the contract.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "droveway/selftest.hpp"

namespace droveway {

struct VectorTable {
  // Stable ascending order of n < 2^32 keys; false, and nothing promised of `order`, where one is NaN.
  // workspace of depth_workspace(n) bytes, aligned to 8
  bool (*depth_order)(const float* z, size_t n, uint32_t* order, void* workspace);
  size_t (*depth_workspace)(size_t n);
};

void vector_self_test(const VectorTable& table, SelfTestEmit emit, void* context);

}  // namespace droveway

#if defined(__x86_64__)
namespace isa_v3 { extern const droveway::VectorTable vector_table; }
namespace isa_v4 { extern const droveway::VectorTable vector_table; }
#else
namespace isa_neon { extern const droveway::VectorTable vector_table; }
#endif

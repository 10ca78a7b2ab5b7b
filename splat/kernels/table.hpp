// Every kernel of splat, once per instruction set. A field is a pointer, its comment the contract.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "droveway/selftest.hpp"

namespace droveway {

struct SplatTable {
  // out[i] = floor(255·clamp(x[i], 0, 1) + 0.5); NaN becomes 0
  void (*to_bytes)(const float* x, size_t n, uint8_t* out);
};

void splat_self_test(const SplatTable& table, SelfTestEmit emit, void* context);

}  // namespace droveway

#if defined(__x86_64__)
namespace isa_v3 { extern const droveway::SplatTable splat_table; }
namespace isa_v4 { extern const droveway::SplatTable splat_table; }
#else
namespace isa_neon { extern const droveway::SplatTable splat_table; }
#endif

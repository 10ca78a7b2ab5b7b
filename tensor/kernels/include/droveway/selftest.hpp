// What a self-test needs: FNV-1a, a fixed generator of awkward inputs, and the way each area reports.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace droveway {

// Called once a kernel with its name ("tensor.sum_f32") and the FNV-1a 64-bit hash of its outputs.
using SelfTestEmit = void (*)(void* context, const char* name, uint64_t hash);

inline uint64_t fnv1a(const void* data, size_t size, uint64_t hash = 0xCBF29CE484222325ull) {
  const unsigned char* p = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i) hash = (hash ^ p[i]) * 0x100000001B3ull;
  return hash;
}

// splitmix64: the fixed generator of all self-test inputs; its Python twin is tensor/selftest_ref.py.
struct SplitMix64 {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
};

}  // namespace droveway

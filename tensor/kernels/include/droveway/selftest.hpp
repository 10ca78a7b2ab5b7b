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

// Inputs of the self-tests, made from one word of the generator each. Python twins: tensor/selftest_ref.py.

inline float float_of_bits(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
inline double double_of_bits(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }

// Finite values over 32 binary orders of magnitude: (24-bit integer − 2²³) · 2^(−40 … −9), exact.
inline float plain_f32(uint64_t word) {
  const float mantissa = float(int32_t(word >> 40) - (1 << 23));
  return mantissa * float_of_bits((127u - 40u + uint32_t(word >> 8 & 31)) << 23);
}
// (53-bit integer − 2⁵²) · 2^(−60 … −29), exact.
inline double plain_f64(uint64_t word) {
  const double mantissa = double(int64_t(word >> 11) - (int64_t{1} << 52));
  return mantissa * double_of_bits((1023u - 60u + (word & 31)) << 52);
}

// One word in eight a value where arithmetic has an edge, the others any bit pattern.
inline float awkward_f32(uint64_t word) {
  static const uint32_t edges[24] = {
      0x00000000u, 0x80000000u, 0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC12345u, 0x7F800001u, 0x00000001u,
      0x807FFFFFu, 0x00800000u, 0x7F7FFFFFu, 0xFF7FFFFFu, 0x3F800000u, 0xBF800000u, 0x3F000000u, 0xBF000000u,
      0x40200000u, 0xC0200000u, 0x4F000000u, 0xCF000000u, 0x4EFFFFFFu, 0x4B800000u, 0x42B17218u, 0xC2D00000u};
  return float_of_bits((word & 7) == 0 ? edges[(word >> 3) % 24] : uint32_t(word >> 32));
}
inline double awkward_f64(uint64_t word) {
  static const uint64_t edges[16] = {
      0x0000000000000000ull, 0x8000000000000000ull, 0x7FF0000000000000ull, 0xFFF0000000000000ull,
      0x7FF8000000000000ull, 0xFFF8000000012345ull, 0x7FF0000000000001ull, 0x0000000000000001ull,
      0x800FFFFFFFFFFFFFull, 0x0010000000000000ull, 0x7FEFFFFFFFFFFFFFull, 0x3FF0000000000000ull,
      0xBFE0000000000000ull, 0x4004000000000000ull, 0x40862E42FEFA39EFull, 0xC0874910D52D3051ull};
  return double_of_bits((word & 7) == 0 ? edges[(word >> 3) % 16] : word);
}

}  // namespace droveway

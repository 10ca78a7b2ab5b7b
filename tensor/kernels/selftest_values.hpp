// Inputs of self-tests of any dtype. Python twin: _values of tensor/selftest_products_ref.py.
#pragma once
#include <vector>

#include "array/dtype.hpp"
#include "droveway/selftest.hpp"

namespace droveway {

// Bytes of any dtype.
using Bytes = std::vector<unsigned char>;

// Element i of dtype d from a word: whole numbers take its high bits, halves small multiples of 1/16.
inline void put(Bytes& bytes, size_t i, Dtype d, SplitMix64& generator) {
  const size_t size = dtype_size(d);
  const uint64_t word = generator.next();
  const float sixteenth = float(int8_t(word >> 56)) / 16.0f;
  uint64_t bits = word >> (64 - 8 * (size > 8 ? 8 : size));
  if (d == Dtype::f32) {
    const float x = plain_f32(word);
    memcpy(&bits, &x, 4);
  } else if (d == Dtype::f64) {
    const double x = plain_f64(word);
    memcpy(&bits, &x, 8);
  } else if (d == Dtype::bf16) {
    uint32_t u;
    memcpy(&u, &sixteenth, 4);
    bits = u >> 16;
  } else if (d == Dtype::f16) {  // exact: at most 8 significant bits, exponents in range
    uint32_t u;
    memcpy(&u, &sixteenth, 4);
    const uint32_t magnitude = u & 0x7FFFFFFFu;
    bits = (u >> 16 & 0x8000u) | (magnitude == 0 ? 0 : ((magnitude >> 13) - ((127 - 15) << 10)));
  } else if (d == Dtype::c64) {
    const float x = plain_f32(word), y = plain_f32(generator.next());
    memcpy(bytes.data() + i * size, &x, 4);
    memcpy(bytes.data() + i * size + 4, &y, 4);
    return;
  } else if (d == Dtype::c128) {
    const double x = plain_f64(word), y = plain_f64(generator.next());
    memcpy(bytes.data() + i * size, &x, 8);
    memcpy(bytes.data() + i * size + 8, &y, 8);
    return;
  }
  memcpy(bytes.data() + i * size, &bits, size);
}

inline Bytes values(uint64_t seed, size_t n, Dtype d) {
  SplitMix64 generator{seed};
  Bytes bytes(n * dtype_size(d));
  for (size_t i = 0; i < n; ++i) put(bytes, i, d, generator);
  return bytes;
}

}  // namespace droveway

// Random numbers: what bindings/random.cpp and random.cpp say to each other.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "array/view.hpp"

namespace droveway {

enum class RandomKind : int {
  bits,       // the words themselves: u32, or u64 made of two
  uniform,    // in [0, 1): as many upper bits of a word as the type's significand holds (f64: of two words)
  normal,     // Box and Muller; f16 and bf16 are those of f32, rounded
  randint,    // low + ⌊u · range / 2^64⌋ of 64-bit words u, the biased ones drawn again (Lemire 2019)
  bernoulli,  // whether the upper 24 bits of a word are below `limit`
};

// `each` elements for every key, one key after the other: out[key, i] is element offset + i of the key's stream.
struct RandomDraw {
  RandomKind kind;
  Dtype dtype;  // of out
  View keys;    // u64 of any shape and strides
  size_t each;
  uint64_t offset;
  uint64_t low;    // randint: the least result, modulo 2^64
  uint64_t range;  // randint: how many results there are, 0 for 2^64
  uint32_t limit;  // bernoulli: at most 2^24
  void* out;       // contiguous
};

}  // namespace droveway

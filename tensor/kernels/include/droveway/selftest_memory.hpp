// What a self-test keeps: the digest of its outputs, and memory aligned as bindings give it.
#pragma once
#include <stdlib.h>

#include <vector>

#include "droveway/selftest.hpp"

namespace droveway {

struct Digest {
  uint64_t hash = 0xCBF29CE484222325ull;
  template <class T>
  void add(const std::vector<T>& values) {
    if (!values.empty()) hash = fnv1a(values.data(), values.size() * sizeof(T), hash);
  }
  void add(uint64_t value) { hash = fnv1a(&value, sizeof value, hash); }
};

struct AlignedMemory {
  void* p;
  explicit AlignedMemory(size_t bytes) : p(aligned_alloc(64, (bytes + 64) & ~size_t(63))) {}
  ~AlignedMemory() { free(p); }
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
};

}  // namespace droveway

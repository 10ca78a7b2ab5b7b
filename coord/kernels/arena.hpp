// Cuts a caller's workspace into aligned arrays: kernels allocate nothing.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace DW_ISA {

class Arena {
 public:
  explicit Arena(void* memory) : at_(static_cast<char*>(memory)) {}
  template <class T>
  T* take(size_t count) {
    T* out = reinterpret_cast<T*>(at_);
    at_ += bytes(count * sizeof(T));
    return out;
  }
  // What `take` uses up for that many bytes.
  static size_t bytes(size_t size) { return (size + 63) & ~size_t(63); }

 private:
  char* at_;
};

}  // namespace DW_ISA

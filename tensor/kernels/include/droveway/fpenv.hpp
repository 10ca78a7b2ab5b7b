// The floating-point environment a kernel runs in: round to nearest even, subnormals kept, exceptions masked.
// A guard stands at the entry of every kernel and in every block a worker runs, because other libraries set
// flush-to-zero or another rounding mode for the whole thread.
#pragma once
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace DW_ISA {

class FpGuard {
 public:
#if defined(__x86_64__)
  FpGuard() : saved_(_mm_getcsr()) {
    if ((saved_ & 0xFFC0u) != 0x1F80u) _mm_setcsr(0x1F80u);
  }
  ~FpGuard() {
    if ((saved_ & 0xFFC0u) != 0x1F80u) _mm_setcsr(saved_);
  }

 private:
  unsigned saved_;
#else
  FpGuard() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    if (saved_ != 0) asm volatile("msr fpcr, %0" ::"r"(uint64_t{0}));
  }
  ~FpGuard() {
    if (saved_ != 0) asm volatile("msr fpcr, %0" ::"r"(saved_));
  }

 private:
  uint64_t saved_;
#endif
  FpGuard(const FpGuard&) = delete;
  FpGuard& operator=(const FpGuard&) = delete;
};

}  // namespace DW_ISA

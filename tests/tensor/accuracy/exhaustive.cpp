// exhaustive NAME FIRST LAST: compares the float32 kernel NAME with the C library's double function on every input of
// blocks FIRST … LAST−1 of 2^24 bit patterns, and prints for each block: number, largest error in ulp, its input as
// bits, results that are not the nearest float, results that are wrong in kind (NaN, sign, infinity).
// The reference is good to about 2^-29 of a float's ulp. Built and run by exhaustive.py.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "table.hpp"

namespace {

#if defined(__x86_64__)
const droveway::TensorTable& table = __builtin_cpu_supports("x86-64-v4") ? isa_v4::tensor_table : isa_v3::tensor_table;
#else
const droveway::TensorTable& table = isa_neon::tensor_table;
#endif

struct Function {
  const char* name;
  void (*kernel)(const float*, float*, size_t);
  double (*reference)(double);
};
const Function kFunctions[] = {
    {"exp", table.exp_f32, std::exp},   {"log", table.log_f32, std::log},   {"sin", table.sin_f32, std::sin},
    {"cos", table.cos_f32, std::cos},   {"tanh", table.tanh_f32, std::tanh}, {"erf", table.erf_f32, std::erf},
    {"sqrt", table.sqrt_f32, std::sqrt}};

uint32_t bits(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}

// One ulp of float at |x|: the distance of the floats around it, 2^-149 where they are subnormal.
double ulp(double x) {
  int exponent;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, (exponent < -125 ? -125 : exponent > 128 ? 128 : exponent) - 24);
}

struct Block {
  double worst = 0;
  uint32_t worst_bits = 0;
  uint64_t misrounded = 0, wrong = 0;
};

void compare(Block& b, uint32_t input, float got, double want) {
  if (std::isnan(want)) {
    if (bits(got) != 0x7FC00000u) ++b.wrong;
    return;
  }
  const float nearest = float(want);
  if (std::signbit(got) != std::signbit(nearest) || std::isnan(got)) ++b.wrong;
  if (got == nearest) {
    if (std::isinf(got)) return;
  } else {
    ++b.misrounded;
  }
  if (std::isinf(want)) {
    if (!std::isinf(got)) ++b.wrong;
    return;
  }
  const double value = std::isinf(got) ? std::copysign(0x1p128, double(got)) : double(got);
  const double error = std::fabs(value - want) / ulp(want);
  if (error > b.worst) {
    b.worst = error;
    b.worst_bits = input;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Function* f = nullptr;
  for (const Function& candidate : kFunctions)
    if (argc == 4 && std::strcmp(candidate.name, argv[1]) == 0) f = &candidate;
  if (f == nullptr) return 2;
  constexpr size_t kChunk = 1 << 14;
  std::vector<float> x(kChunk), y(kChunk);
  for (uint64_t block = std::strtoull(argv[2], nullptr, 10); block < std::strtoull(argv[3], nullptr, 10); ++block) {
    Block b;
    for (uint64_t start = block << 24; start < (block + 1) << 24; start += kChunk) {
      for (size_t i = 0; i < kChunk; ++i) {
        const uint32_t u = uint32_t(start + i);
        std::memcpy(&x[i], &u, 4);
      }
      f->kernel(x.data(), y.data(), kChunk);
      for (size_t i = 0; i < kChunk; ++i) compare(b, uint32_t(start + i), y[i], f->reference(double(x[i])));
    }
    std::printf("%llu %.6f %08x %llu %llu\n", static_cast<unsigned long long>(block), b.worst, b.worst_bits,
                static_cast<unsigned long long>(b.misrounded), static_cast<unsigned long long>(b.wrong));
    std::fflush(stdout);
  }
}

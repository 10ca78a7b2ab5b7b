// exhaustive NAME FIRST LAST: compares the kernel NAME with the C library in blocks FIRST … LAST−1, and prints for each
// block: number, largest error in ulp, its input as bits, results that are not the nearest number, results that are
// wrong in kind (NaN, sign, infinity). Built and run by exhaustive.py.
// exp log sin cos tanh erf sqrt: float32 against double functions (good to about 2^-29 of a float's ulp); a block is
// 2^24 inputs, all of them are 256 blocks. pow: the same reference, on 2^20 random pairs a block. exp64 log64: float64
// against long double (good to about 2^-11 of an ulp on x86), on 2^20 random inputs a block.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "droveway/selftest.hpp"
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

constexpr size_t kChunk = 1 << 14;

Block all_inputs(const Function& f, uint64_t block) {
  Block b;
  std::vector<float> x(kChunk), y(kChunk);
  for (uint64_t start = block << 24; start < (block + 1) << 24; start += kChunk) {
    for (size_t i = 0; i < kChunk; ++i) {
      const uint32_t u = uint32_t(start + i);
      std::memcpy(&x[i], &u, 4);
    }
    f.kernel(x.data(), y.data(), kChunk);
    for (size_t i = 0; i < kChunk; ++i) compare(b, uint32_t(start + i), y[i], f.reference(double(x[i])));
  }
  return b;
}

double unit(uint64_t word) { return double(word >> 11) * 0x1p-53; }

// Bases of any bits (made positive), and bases near 1; exponents for which most results are in range.
Block random_powers(uint64_t block) {
  Block b;
  droveway::SplitMix64 generator{block};
  std::vector<float> x(kChunk), y(kChunk), out(kChunk);
  for (int chunk = 0; chunk < 64; ++chunk) {
    for (size_t i = 0; i < kChunk; ++i) {
      const uint32_t u = uint32_t(generator.next()) & 0x7FFFFFFFu;
      std::memcpy(&x[i], &u, 4);
      if (i % 2 == 0) x[i] = float(1 + std::ldexp(unit(generator.next()) - 0.5, -int(generator.next() % 20)));
      y[i] = float((unit(generator.next()) - 0.5) * 300 / std::log2(double(x[i])));
    }
    table.pow_f32(x.data(), y.data(), 1, out.data(), kChunk);
    for (size_t i = 0; i < kChunk; ++i) compare(b, bits(x[i]), out[i], std::pow(double(x[i]), double(y[i])));
  }
  return b;
}

// exp: the whole range, and small arguments; log: every exponent, and values around 1.
Block random_doubles(bool is_exp, uint64_t block) {
  Block b;
  droveway::SplitMix64 generator{block};
  std::vector<double> x(kChunk), y(kChunk);
  for (int chunk = 0; chunk < 64; ++chunk) {
    for (double& value : x) {
      const uint64_t choice = generator.next();
      const double u = unit(generator.next());
      if (is_exp) value = choice % 2 != 0 ? -745 + u * 1454.5 : std::ldexp(2 * u - 1, -int(choice >> 8) % 40);
      else value = choice % 2 != 0 ? std::ldexp(1 + u, int(choice >> 8 & 2047) - 1050) : 0.5 + 1.5 * u;
    }
    (is_exp ? table.exp_f64 : table.log_f64)(x.data(), y.data(), kChunk);
    for (size_t i = 0; i < kChunk; ++i) {
      const long double want = is_exp ? std::exp(static_cast<long double>(x[i])) : std::log(static_cast<long double>(x[i]));
      if (std::isinf(y[i]) || std::isnan(y[i])) {
        b.wrong += std::fabs(want) <= 0x1.fffffffffffffp1023L;
        continue;
      }
      int exponent;
      std::frexp(want, &exponent);
      const double error = double(std::fabs(y[i] - want) / std::ldexp(1.0L, (exponent < -1021 ? -1021 : exponent) - 53));
      b.misrounded += y[i] != double(want);
      if (error > b.worst) {
        b.worst = error;
        b.worst_bits = bits(float(x[i]));
      }
    }
  }
  return b;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const char* name = argv[1];
  const Function* f = nullptr;
  for (const Function& candidate : kFunctions)
    if (std::strcmp(candidate.name, name) == 0) f = &candidate;
  const bool is_exp = std::strcmp(name, "exp64") == 0, is_pow = std::strcmp(name, "pow") == 0;
  if (f == nullptr && !is_exp && !is_pow && std::strcmp(name, "log64") != 0) return 2;
  for (uint64_t block = std::strtoull(argv[2], nullptr, 10); block < std::strtoull(argv[3], nullptr, 10); ++block) {
    const Block b = f != nullptr ? all_inputs(*f, block) : is_pow ? random_powers(block) : random_doubles(is_exp, block);
    std::printf("%llu %.6f %08x %llu %llu\n", static_cast<unsigned long long>(block), b.worst, b.worst_bits,
                static_cast<unsigned long long>(b.misrounded), static_cast<unsigned long long>(b.wrong));
    std::fflush(stdout);
  }
}

// exhaustive NAME FIRST LAST: compares the kernel NAME with the C library in blocks FIRST … LAST−1, and prints for each
// block: number, largest error in ulp, its input as bits, results that are not the nearest number, results that are
// wrong in kind (NaN, sign, infinity). Built and run by exhaustive.py.
// Functions of one float32: against double functions (good to about 2^-29 of a float's ulp); a block is 2^24 inputs, all
// of them are 256 blocks. pow: the same reference, on 2^20 random pairs a block. NAME64: float64 against long double
// (good to about 2^-11 of an ulp on x86), on 2^18 random inputs a block.
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

using Loop = droveway::ElementwiseLoop;
constexpr int kF32 = int(droveway::Dtype::f32), kF64 = int(droveway::Dtype::f64);

template <class T>
T sigmoid(T x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
template <class T>
T silu(T x) { return std::isinf(x) && x < 0 ? T(-0.0) : x * sigmoid(x); }
template <class T>
T softplus(T x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
template <class T>
T rsqrt(T x) { return 1 / std::sqrt(x); }

// √½ and what a double, or a long double, leaves of it.
double gelu(double x) {
  if (std::isinf(x)) return x < 0 ? -0.0 : x;
  const double z = -x * 0x1.6a09e667f3bcdp-1;
  const double rest = std::fma(-x, 0x1.6a09e667f3bcdp-1, -z) - x * -0x1.bdd3413b26456p-55;
  return 0.5 * x * (std::erfc(z) - 0x1.20dd750429b6dp+0 * std::exp(-z * z) * rest);
}

struct Function {
  const char* name;
  int op;
  double (*reference)(double);
};
#define DW_FUNCTION(NAME, REFERENCE) {#NAME, droveway::op_##NAME, REFERENCE},
const Function kFunctions[] = {
    // clang-format off
    DW_FUNCTION(exp, std::exp) DW_FUNCTION(exp2, std::exp2) DW_FUNCTION(expm1, std::expm1)
    DW_FUNCTION(log, std::log) DW_FUNCTION(log1p, std::log1p) DW_FUNCTION(log2, std::log2) DW_FUNCTION(log10, std::log10)
    DW_FUNCTION(sqrt, std::sqrt) DW_FUNCTION(rsqrt, rsqrt<double>)
    DW_FUNCTION(sin, std::sin) DW_FUNCTION(cos, std::cos) DW_FUNCTION(tan, std::tan)
    DW_FUNCTION(asin, std::asin) DW_FUNCTION(acos, std::acos) DW_FUNCTION(atan, std::atan)
    DW_FUNCTION(sinh, std::sinh) DW_FUNCTION(cosh, std::cosh) DW_FUNCTION(tanh, std::tanh)
    DW_FUNCTION(asinh, std::asinh) DW_FUNCTION(acosh, std::acosh) DW_FUNCTION(atanh, std::atanh)
    DW_FUNCTION(erf, std::erf) DW_FUNCTION(erfc, std::erfc)
    DW_FUNCTION(sigmoid, sigmoid<double>) DW_FUNCTION(silu, silu<double>) DW_FUNCTION(gelu, gelu)
    DW_FUNCTION(softplus, softplus<double>)
    // clang-format on
};

// Ranges of float64 where the functions have most of their inputs: uniform in low … high, and magnitudes 2^-60 … 2^scale.
struct WideFunction {
  const char* name;
  int op;
  long double (*reference)(long double);
  double low, high;
  int scale;
};
#define DW_WIDE(NAME, REFERENCE, LOW, HIGH, SCALE) {#NAME "64", droveway::op_##NAME, REFERENCE, LOW, HIGH, SCALE},
const WideFunction kWideFunctions[] = {
    // clang-format off
    DW_WIDE(exp, std::exp, -745, 709.7, 3) DW_WIDE(exp2, std::exp2, -1074, 1023.9, 3) DW_WIDE(expm1, std::expm1, -40, 709.7, 3)
    DW_WIDE(log, std::log, 0.5, 2, 1020) DW_WIDE(log1p, std::log1p, -1, 2, 1020) DW_WIDE(log2, std::log2, 0.5, 2, 1020)
    DW_WIDE(log10, std::log10, 0.5, 2, 1020) DW_WIDE(sqrt, std::sqrt, 0, 2, 1020)
    DW_WIDE(sin, std::sin, -100, 100, 30) DW_WIDE(cos, std::cos, -100, 100, 30) DW_WIDE(tan, std::tan, -100, 100, 30)
    DW_WIDE(asin, std::asin, -1, 1, 0) DW_WIDE(acos, std::acos, -1, 1, 0) DW_WIDE(atan, std::atan, -3, 3, 60)
    DW_WIDE(sinh, std::sinh, -710, 710, 3) DW_WIDE(cosh, std::cosh, -710, 710, 3) DW_WIDE(tanh, std::tanh, -20, 20, 3)
    DW_WIDE(asinh, std::asinh, -3, 3, 1020) DW_WIDE(acosh, std::acosh, 1, 3, 1020) DW_WIDE(atanh, std::atanh, -1, 1, 0)
    DW_WIDE(erf, std::erf, -6, 6, 3) DW_WIDE(erfc, std::erfc, -6, 26, 3)
    DW_WIDE(sigmoid, sigmoid<long double>, -708, 40, 5) DW_WIDE(silu, silu<long double>, -708, 40, 5)
    DW_WIDE(softplus, softplus<long double>, -708, 40, 5)
    // clang-format on
};

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
  const Loop loop = table.elementwise(f.op, kF32);
  for (uint64_t start = block << 24; start < (block + 1) << 24; start += kChunk) {
    for (size_t i = 0; i < kChunk; ++i) {
      const uint32_t u = uint32_t(start + i);
      std::memcpy(&x[i], &u, 4);
    }
    loop({y.data(), {x.data(), nullptr, nullptr}, kChunk, f.op});
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

// A third of any magnitude, a third uniform in the range, a third small or around the ends of the range.
Block random_doubles(const WideFunction& f, uint64_t block) {
  Block b;
  droveway::SplitMix64 generator{block};
  std::vector<double> x(kChunk), y(kChunk);
  const Loop loop = table.elementwise(f.op, kF64);
  for (int chunk = 0; chunk < 16; ++chunk) {
    for (double& value : x) {
      const uint64_t choice = generator.next();
      const double u = unit(generator.next()), sign = choice >> 63 ? -1 : 1;
      const int kind = int(choice % 3);
      if (kind == 0) value = sign * std::ldexp(1 + u, int((choice >> 8) % unsigned(f.scale + 60)) - 60);
      else if (kind == 1) value = f.low + u * (f.high - f.low);
      else value = (choice & 8 ? f.low : f.high) * (1 - std::ldexp(u, -int((choice >> 8) % 50)));
    }
    loop({y.data(), {x.data(), nullptr, nullptr}, kChunk, f.op});
    for (size_t i = 0; i < kChunk; ++i) {
      const long double want = f.reference(x[i]);
      if (std::isnan(want) || std::isnan(y[i]) || std::isinf(y[i]) || std::isinf(want)) {
        b.wrong += std::isnan(want) ? !std::isnan(y[i]) : std::fabs(want) < 0x1.fffffffffffff8p1023L;
        continue;
      }
      int exponent;
      std::frexp(want, &exponent);
      const double error = double(std::fabs(y[i] - want) / std::ldexp(1.0L, (exponent < -1021 ? -1021 : exponent) - 53));
      b.misrounded += y[i] != double(want);
      b.wrong += std::signbit(y[i]) != std::signbit(want);
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
  const WideFunction* w = nullptr;
  for (const Function& candidate : kFunctions)
    if (std::strcmp(candidate.name, name) == 0) f = &candidate;
  for (const WideFunction& candidate : kWideFunctions)
    if (std::strcmp(candidate.name, name) == 0) w = &candidate;
  if (f == nullptr && w == nullptr && std::strcmp(name, "pow") != 0) return 2;
  for (uint64_t block = std::strtoull(argv[2], nullptr, 10); block < std::strtoull(argv[3], nullptr, 10); ++block) {
    const Block b = f != nullptr ? all_inputs(*f, block) : w != nullptr ? random_doubles(*w, block) : random_powers(block);
    std::printf("%llu %.6f %08x %llu %llu\n", static_cast<unsigned long long>(block), b.worst, b.worst_bits,
                static_cast<unsigned long long>(b.misrounded), static_cast<unsigned long long>(b.wrong));
    std::fflush(stdout);
  }
}

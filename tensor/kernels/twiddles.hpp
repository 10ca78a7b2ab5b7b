// The n-th roots of unity to about 100 bits, rounded once: cos(2πk/n) and −sin(2πk/n) for k < n.
// Twin and method: tensor/twins/twiddles_ref.py.
#pragma once
#include "droveway/lanes.hpp"

namespace DW_ISA {
namespace {

// A number as a sum of two, high + low.
struct Pair {
  double high, low;
};

DW_INLINE Pair fast(double high, double low) {
  const double total = high + low;
  return {total, low - (total - high)};
}
DW_INLINE Pair add(Pair a, Pair b) {
  const double total = a.high + b.high, part = total - a.high;
  const double error = (a.high - (total - part)) + (b.high - part);
  return fast(total, error + (a.low + b.low));
}
DW_INLINE Pair multiply(Pair a, Pair b) {
  const double product = a.high * b.high;
  const double error = fma1(a.high, b.high, -product);
  return fast(product, fma1(a.low, b.high, fma1(a.high, b.low, error)));
}
DW_INLINE Pair divide(Pair a, double d) {
  const double quotient = a.high / d;
  return fast(quotient, (fma1(-quotient, d, a.high) + a.low) / d);
}
DW_INLINE Pair negative(Pair a) { return {-a.high, -a.low}; }

struct Angle2 {
  Pair cosine, sine;
};

// Of the angle (π/4)·t/n, 0 ≤ t ≤ n.
inline Angle2 cosine_and_sine(double t, double n) {
  constexpr int kTerms = 13;
  const Pair angle = divide(multiply({0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}, {t, 0.0}), n);
  const Pair square = multiply(angle, angle), one{1.0, 0.0};
  Pair cosine = one, sine = one;
  for (int k = kTerms; k > 0; --k) {
    cosine = add(one, negative(divide(multiply(square, cosine), double(2 * k * (2 * k - 1)))));
    sine = add(one, negative(divide(multiply(square, sine), double(2 * k * (2 * k + 1)))));
  }
  return {cosine, multiply(angle, sine)};
}

// The number of angles between two of the coarse table.
constexpr size_t twiddle_step(size_t n) {
  int bits = 0;
  while (n >> bits != 0) ++bits;
  return size_t{1} << ((bits + 1) / 2);
}
// Doubles of scratch that twiddles(n) needs.
constexpr size_t twiddle_scratch(size_t n) {
  const size_t step = twiddle_step(n);
  return 4 * ((step < n + 1 ? step : n + 1) + n / step + 1);
}

inline void twiddles(size_t n, double* re, double* im, double* scratch) {
  const size_t step = twiddle_step(n), fine_count = step < n + 1 ? step : n + 1;
  Angle2* fine = reinterpret_cast<Angle2*>(scratch);
  Angle2* coarse = fine + fine_count;
  for (size_t t = 0; t < fine_count; ++t) fine[t] = cosine_and_sine(double(t), double(n));
  for (size_t t = 0; t <= n; t += step) coarse[t / step] = cosine_and_sine(double(t), double(n));
  for (size_t k = 0; k < n; ++k) {
    const size_t octant = 8 * k / n;
    size_t t = 8 * k % n;
    if (octant % 2 == 1) t = n - t;
    const Angle2 a = coarse[t / step], b = fine[t % step];
    const double cosine = add(multiply(a.cosine, b.cosine), negative(multiply(a.sine, b.sine))).high;
    const double sine = add(multiply(a.sine, b.cosine), multiply(a.cosine, b.sine)).high;
    const bool swapped = octant == 1 || octant == 2 || octant == 5 || octant == 6;
    const double x = swapped ? sine : cosine, y = swapped ? cosine : sine;
    re[k] = (octant >= 2 && octant <= 5 ? -x : x) + 0.0;
    im[k] = (octant < 4 ? -y : y) + 0.0;
  }
}

}  // namespace
}  // namespace DW_ISA

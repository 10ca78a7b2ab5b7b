// Windows of 2×2 side by side over contiguous rows: each output has four inputs of its own, which vectors take and give
// back two rows at a time.
#pragma once
#include "kernels.hpp"
#include "lane_pairs.hpp"
#include "product_tile.hpp"

namespace DW_ISA {
namespace {

using droveway::Pooling;
using droveway::PoolWindows;

template <class T> struct PlacesOf;
template <> struct PlacesOf<float> {
  using V = U32x16;
  using Word = uint32_t;
};
template <> struct PlacesOf<double> {
  using V = U64x8;
  using Word = uint64_t;
};
template <class T> using Places = typename PlacesOf<T>::V;
template <class T> using Word = typename PlacesOf<T>::Word;

DW_INLINE F32x16 both_bits(F32x16 a, F32x16 b) { return f32(bits(a) & bits(b)); }
DW_INLINE F64x8 both_bits(F64x8 a, F64x8 b) { return f64(bits(a) & bits(b)); }

DW_INLINE void store_places(int32_t* to, size_t n, U32x16 places) { store_partial(reinterpret_cast<uint32_t*>(to), n, places); }
DW_INLINE void store_places(int32_t* to, size_t n, U64x8 places) {
  uint64_t wide[8];
  store(wide, places);
  for (size_t i = 0; i < 8 && i < n; ++i) to[i] = int32_t(wide[i]);
}
template <class T>
DW_INLINE Places<T> load_places(const int32_t* from, size_t n) {
  if constexpr (sizeof(T) == 4) {
    return U32x16::load_partial(reinterpret_cast<const uint32_t*>(from), n, 0);
  } else {
    uint64_t wide[8];
    for (size_t i = 0; i < 8; ++i) wide[i] = i < n ? uint64_t(int64_t(from[i])) : 0;
    return U64x8::load(wide);
  }
}

inline bool in_pairs(const PoolWindows& w) {
  return w.taps == 2 && w.stride == 2 && w.dilation == 1 && w.before == 0 && w.regular == 0 && w.regular_end == w.output;
}
inline bool in_pairs(const Pooling& p) { return p.column_step == 1 && in_pairs(p.y) && in_pairs(p.x); }

// The largest of four neighbours, in their order a0 a1 b0 b1, and its place: the first of equal ones, +0 above −0, the
// first NaN above all.
template <class T>
struct Largest {
  Lanes<T> value;
  Places<T> place;
};
template <class T>
DW_INLINE Largest<T> largest_of_four(Lanes<T> a0, Lanes<T> a1, Lanes<T> b0, Lanes<T> b1, Places<T> first, Places<T> width) {
  const auto second = [](Lanes<T> x, Lanes<T> y) DW_LAMBDA { return (!le(y, x)) & eq(x, x); };
  const Places<T> one = Places<T>::set1(1), zero = Places<T>::zero();
  const auto in_a = second(a0, a1), in_b = second(b0, b1);
  const Lanes<T> a = select(in_a, a1, a0), b = select(in_b, b1, b0);
  const auto below = second(a, b);
  const Lanes<T> value = select(below, b, a);
  // Where the largest is a zero, nothing is above it: it is −0 if all have the sign.
  const Lanes<T> zeros = both_bits(both_bits(a0, a1), both_bits(b0, b1));
  const Lanes<T> signed_zero = copysign(Lanes<T>::zero(), zeros);
  const Places<T> step = select(below, select(in_b, width + one, width), select(in_a, one, zero));
  return {canonical(select(eq(value, Lanes<T>::zero()), signed_zero, value)), first + step};
}

// Rows of inputs, two for each row of outputs, and the place of their first element in a plane of some width.
template <class T>
struct PairedRows {
  const T* plane;
  int64_t row_step, rows, columns;  // of outputs
  int64_t place, width;
};

// Outputs of one row; or, where half a vector holds a row, those of two rows in the halves of a vector.
template <class T>
void max_pairs(const PairedRows<T>& in, T* out, int32_t* index) {
  using V = Lanes<T>;
  constexpr int64_t half = V::width / 2;
  const bool halves = in.columns <= half;
  Word<T> step[V::width];
  for (int64_t l = 0; l < V::width; ++l)
    step[l] = Word<T>(halves && l >= half ? 2 * in.width + 2 * (l - half) : 2 * l);
  const Places<T> steps = Places<T>::load(step), width = Places<T>::set1(Word<T>(in.width));
  const T* from = in.plane;
  int64_t place = in.place;
  const int64_t down = 2 * in.row_step;
  if (halves) {
    const size_t n = size_t(in.columns);
    for (int64_t y = 0; y < in.rows; y += 2, from += 2 * down, place += 4 * in.width, out += 2 * n, index += 2 * n) {
      const bool two = y + 1 < in.rows;
      const T* next = from + (two ? down : 0);
      const V a = V::load_partial(from, 2 * n, T(0)), b = V::load_partial(next, 2 * n, T(0));
      const V c = V::load_partial(from + in.row_step, 2 * n, T(0)), d = V::load_partial(next + in.row_step, 2 * n, T(0));
      const Largest<T> found = largest_of_four<T>(evens(a, b), odds(a, b), evens(c, d), odds(c, d),
                                                  steps + Places<T>::set1(Word<T>(place)), width);
      store_partial(out, n, found.value);
      store_places(index, n, found.place);
      if (!two) return;
      store_partial(out + n, n, upper(found.value));
      store_places(index + n, n, upper(found.place));
    }
    return;
  }
  for (int64_t y = 0; y < in.rows; ++y, from += down, place += 2 * in.width, out += in.columns, index += in.columns) {
    for (int64_t x = 0; x < in.columns; x += V::width) {
      const size_t n = size_t(in.columns - x < V::width ? in.columns - x : V::width);
      const size_t rest = 2 * n > size_t(V::width) ? 2 * n - size_t(V::width) : 0;
      const T *top = from + 2 * x, *below = top + in.row_step;
      const V a = V::load_partial(top, 2 * n, T(0)), b = V::load_partial(top + V::width, rest, T(0));
      const V c = V::load_partial(below, 2 * n, T(0)), d = V::load_partial(below + V::width, rest, T(0));
      const Largest<T> found = largest_of_four<T>(evens(a, b), odds(a, b), evens(c, d), odds(c, d),
                                                  steps + Places<T>::set1(Word<T>(place + 2 * x)), width);
      store_partial(out + x, n, found.value);
      store_places(index + x, n, found.place);
    }
  }
}

// A gradient given back to windows side by side; false, with `out` in disorder, where an index points out of its window.
template <class T>
bool scatter_pairs(const Pooling& p, const T* gradient, const int32_t* index, T* out) {
  using V = Lanes<T>;
  const int64_t width = p.x.input;
  if (p.column_step != 1 || p.y.output == 0 || p.x.output == 0 || p.y.input / 2 != p.y.output || width / 2 != p.x.output)
    return false;
  Word<T> lane[V::width];
  for (int64_t l = 0; l < V::width; ++l) lane[l] = Word<T>(l);
  const Places<T> lanes = Places<T>::load(lane), steps = lanes + lanes;
  Places<T> wrong = Places<T>::zero();
  for (int64_t y = 0; y < p.y.output; ++y, index += p.x.output) {
    const T* from = gradient + y * p.row_step;
    T* to = out + 2 * y * width;
    for (int64_t x = 0; x < p.x.output; x += V::width) {
      const int64_t n = p.x.output - x < V::width ? p.x.output - x : V::width;
      const Places<T> first = Places<T>::set1(Word<T>(2 * y * width + 2 * x)) + steps;
      const Places<T> tap = load_places<T>(index + x, size_t(n)) - first;
      const V value = canonical(V::zero() + V::load_partial(from + x, size_t(n), T(0)));  // −0 becomes +0
      const auto at = [&](int64_t k) DW_LAMBDA { return eq(tap, Places<T>::set1(Word<T>(k))); };
      const auto m0 = at(0), m1 = at(1), m2 = at(width), m3 = at(width + 1);
      const auto beyond = !lt(lanes, Places<T>::set1(Word<T>(n)));
      wrong = wrong | select((m0 | m1) | (m2 | m3) | beyond, Places<T>::zero(), Places<T>::set1(1));
      const V t0 = select(m0, value, V::zero()), t1 = select(m1, value, V::zero());
      const V t2 = select(m2, value, V::zero()), t3 = select(m3, value, V::zero());
      T* row = to + 2 * x;
      store_partial(row, size_t(2 * n), mixed<0>(t0, t1));
      store_partial(row + width, size_t(2 * n), mixed<0>(t2, t3));
      if (2 * n <= V::width) continue;
      store_partial(row + V::width, size_t(2 * n - V::width), mixed<1>(t0, t1));
      store_partial(row + width + V::width, size_t(2 * n - V::width), mixed<1>(t2, t3));
    }
    if (width % 2 != 0) to[width - 1] = to[2 * width - 1] = T(0);
  }
  if (p.y.input % 2 != 0) memset(out + (p.y.input - 1) * width, 0, size_t(width) * sizeof(T));
  return !any(ne(wrong, Places<T>::zero()));
}

}  // namespace
}  // namespace DW_ISA

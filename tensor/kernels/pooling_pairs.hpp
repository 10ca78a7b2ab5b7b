// Windows of 2×2 side by side over contiguous rows: each output has four inputs of its own, which vectors take and give
// back two rows at a time.
#pragma once
#include "kernels.hpp"
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

template <int N, int... I> struct Shuffle : Shuffle<N - 1, N - 1, I...> {};
template <int... I> struct Shuffle<0, I...> {
  static constexpr int n = sizeof...(I);
  template <class R> static DW_INLINE R evens(R a, R b) { return __builtin_shufflevector(a, b, (2 * I)...); }
  template <class R> static DW_INLINE R odds(R a, R b) { return __builtin_shufflevector(a, b, (2 * I + 1)...); }
  template <class R> static DW_INLINE R low(R a, R b) { return __builtin_shufflevector(a, b, (I / 2 + I % 2 * n)...); }
  template <class R> static DW_INLINE R high(R a, R b) { return __builtin_shufflevector(a, b, (n / 2 + I / 2 + I % 2 * n)...); }
  template <class R> static DW_INLINE R upper(R a) { return __builtin_shufflevector(a, a, (n / 2 + I % (n / 2))...); }
};
template <class R> using ShuffleOf = Shuffle<int(sizeof(R) / sizeof(R{}[0]))>;

template <int I, class V>
DW_INLINE auto register_of(const V& a, const V& b) {
  if constexpr (I < kRegs) return a.r[I];
  else return b.r[I - kRegs];
}
// Every second lane of a and b, one after the other.
template <class V>
DW_INLINE V evens(V a, V b) {
  return build<V>([&](auto i) DW_LAMBDA {
    constexpr int at = 2 * decltype(i){};
    return ShuffleOf<decltype(+a.r[0])>::evens(register_of<at>(a, b), register_of<at + 1>(a, b));
  });
}
template <class V>
DW_INLINE V odds(V a, V b) {
  return build<V>([&](auto i) DW_LAMBDA {
    constexpr int at = 2 * decltype(i){};
    return ShuffleOf<decltype(+a.r[0])>::odds(register_of<at>(a, b), register_of<at + 1>(a, b));
  });
}
// a0 b0 a1 b1 …: the first vector, then the second.
template <int part, class V>
DW_INLINE V mixed(V a, V b) {
  return build<V>([&](auto i) DW_LAMBDA {
    constexpr int at = part * kRegs + decltype(i){};
    if constexpr (at % 2 == 0) return ShuffleOf<decltype(+a.r[0])>::low(a.r[at / 2], b.r[at / 2]);
    else return ShuffleOf<decltype(+a.r[0])>::high(a.r[at / 2], b.r[at / 2]);
  });
}
// The upper half of the lanes, below.
template <class V>
DW_INLINE V upper(V a) {
  if constexpr (kRegs == 1) return build<V>([&](auto i) DW_LAMBDA { return ShuffleOf<decltype(+a.r[0])>::upper(a.r[i]); });
  else return build<V>([&](auto i) DW_LAMBDA { return a.r[(i + kRegs / 2) % kRegs]; });
}

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

// The larger of two, and its place: the first of equal ones, +0 above −0, the first NaN above all.
template <class T>
struct Largest {
  Lanes<T> best;
  Places<T> at;
};
template <class T>
DW_INLINE Largest<T> larger(Largest<T> a, Largest<T> b) {
  const auto second = (!le(b.best, a.best)) & eq(a.best, a.best);
  const Lanes<T> equal = select(eq(a.best, b.best), both_bits(a.best, b.best), a.best);
  return {select(second, b.best, equal), select(second, b.at, a.at)};
}

// Rows of inputs, two for each row of outputs, and the place of their first element in a plane of some width.
template <class T>
struct PairedRows {
  const T* plane;
  int64_t row_step, rows, columns;  // of outputs
  int64_t place, width;
};

// A vector is two runs of up to half its width, which may lie in two rows: short rows fill it too.
template <class T>
void max_pairs(const PairedRows<T>& in, T* out, int32_t* index) {
  using V = Lanes<T>;
  constexpr int64_t half = V::width / 2;
  const int64_t width = in.width, outputs = in.columns, row_step = in.row_step;
  const T* plane = in.plane;
  Word<T> step[V::width], side[V::width];
  for (int64_t l = 0; l < V::width; ++l) {
    step[l] = Word<T>(2 * (l % half));
    side[l] = Word<T>(l < half ? 0 : -1);
  }
  const Places<T> steps = Places<T>::load(step), sides = Places<T>::load(side);
  struct Run {
    const T* from;
    int64_t place, count;
  };
  int64_t y = 0, x = 0, at = 0;
  const auto next = [&]() DW_LAMBDA {
    if (y == in.rows) return Run{plane, 0, 0};
    const Run run{plane + 2 * y * row_step + 2 * x, in.place + 2 * y * width + 2 * x, outputs - x < half ? outputs - x : half};
    x += run.count;
    if (x == outputs) {
      x = 0;
      ++y;
    }
    return run;
  };
  while (y != in.rows) {
    const Run a = next(), b = next();
    const size_t na = size_t(2 * a.count), nb = size_t(2 * b.count);
    const V a0 = V::load_partial(a.from, na, T(0)), b0 = V::load_partial(b.from, nb, T(0));
    const V a1 = V::load_partial(a.from + row_step, na, T(0)), b1 = V::load_partial(b.from + row_step, nb, T(0));
    const Places<T> place = Places<T>::set1(Word<T>(a.place)) + steps + (sides & Places<T>::set1(Word<T>(b.place - a.place)));
    const Places<T> one = Places<T>::set1(1), below = place + Places<T>::set1(Word<T>(width));
    const Largest<T> found = larger<T>(larger<T>({evens(a0, b0), place}, {odds(a0, b0), place + one}),
                                       larger<T>({evens(a1, b1), below}, {odds(a1, b1), below + one}));
    const V best = canonical(found.best);
    store_partial(out + at, size_t(a.count), best);
    store_places(index + at, size_t(a.count), found.at);
    at += a.count;
    if (b.count == 0) continue;
    store_partial(out + at, size_t(b.count), upper(best));
    store_places(index + at, size_t(b.count), upper(found.at));
    at += b.count;
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

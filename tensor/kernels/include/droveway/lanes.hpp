// Sixteen logical lanes, the same on every machine: one register on v4, two on v3, four on arm64.
//
//   F32x16  16 floats          U32x16  16 unsigned words     M32x16  one truth value for each of 16 lanes
//   F64x8    8 doubles         U64x8    8 unsigned words     M64x8   one truth value for each of 8 lanes
//   F64x16  16 doubles, as two halves .low (lanes 0–7) and .high (lanes 8–15)
//
// With V one of F32x16 F64x8 U32x16 U64x8, T its element, M its mask, U the unsigned V of the same width:
//   V::set1(x)  V::zero()  V::load(p)  V::load_partial(p, n, fill)  V::load_strided(p, stride)
//   store(p, v)  store_partial(p, n, v)      the first n lanes, 0 ≤ n; nothing beyond p[n-1] is read or written
//   a + b  a - b  a * b  a / b (floats)  -a (floats)         each rounded once; integers wrap
//   a & b  a | b  a ^ b  ~a  a << n  a >> n  sar(a, n)        (integers; sar copies the sign bit)
//   fma(a, b, c)  a·b + c, rounded once      fnma(a, b, c)  c − a·b      sqrt  abs  copysign  round_even  floor
//   bits(f) -> U   f32(u), f64(u) -> floats with these bits
//   lt le gt ge eq ne (floats; false with NaN, except ne)    unordered(a, b)    is_nan(a)
//   lt gt eq ne (unsigned)  lt_signed gt_signed (two's complement)
//   select(m, a, b)  a where m, else b       m & n  m | n  !m  any(m)  all(m)  lane_bits(m) -> bit l = lane l
//   canonical(f)   NaN becomes the one quiet NaN: use it before every store of a float result
//   maximum(a, b)  minimum(a, b)   NaN if either is NaN (canonical); +0 is above −0
//   add_tree(f) -> T   lanes l + (l+8), then +4, +2, +1 (F64x8 starts at +4; F64x16 at +8)
//   widen(F32x16) -> F64x16   narrow(F64x16) -> F32x16 (one rounding)   widen/narrow between U32x16 and U64x16
//   from_i32(U32x16) -> F32x16 (signed, nearest even)   to_i32(F32x16) -> U32x16 (truncates; NaN 0; saturates)
//   mul_low32(U64x8, U64x8)   32 × 32 → 64 bits of the low words
// Scalars: canonical(float), canonical(double), fma1(a, b, c), bits1(x), f32_of(u), f64_of(u).
//
// Rules. Names that a loop variable would index are registers in memory: unroll with templates. A tail is a partial
// load and store of the same code, never other code. No approximate reciprocals. Only kernel sources include this.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

#define DW_INLINE inline __attribute__((always_inline))
#define DW_LAMBDA __attribute__((always_inline))

namespace DW_ISA {
namespace reg {
#if defined(DW_ISA_V4)
#include "droveway/registers_v4.hpp"
#elif defined(DW_ISA_V3)
#include "droveway/registers_v3.hpp"
#elif defined(DW_ISA_NEON)
#include "droveway/registers_neon.hpp"
#else
#error "lanes.hpp: no instruction set chosen; it belongs in kernel sources"
#endif
inline constexpr int kF32 = 16 / kRegs;  // float lanes of one register
inline constexpr int kF64 = 8 / kRegs;
}  // namespace reg

inline constexpr int kLanes = 16;
using reg::kRegs;

// A register number known at compile time: as a loop variable it would put the registers into memory.
template <int I>
struct Index {
  constexpr operator int() const { return I; }
};

// V{f(0), f(1), …}, one for each register.
template <class V, class F>
DW_INLINE V build(F f) {
  if constexpr (kRegs == 1) return V{{f(Index<0>{})}};
  else if constexpr (kRegs == 2) return V{{f(Index<0>{}), f(Index<1>{})}};
  else return V{{f(Index<0>{}), f(Index<1>{}), f(Index<2>{}), f(Index<3>{})}};
}
template <class F>
DW_INLINE void each_register(F f) {
  f(Index<0>{});
  if constexpr (kRegs > 1) f(Index<1>{});
  if constexpr (kRegs > 2) {
    f(Index<2>{});
    f(Index<3>{});
  }
}
// V{f of the first registers of v…, f of the second ones, …}.
template <class R, class F, class... V>
DW_INLINE R map(F f, const V&... v) {
  return build<R>([&](auto i) DW_LAMBDA { return f(v.r[i]...); });
}

struct M32x16 { reg::M32 r[kRegs]; };
struct M64x8 { reg::M64 r[kRegs]; };

#define DW_LANES(V, T, R, WIDTH)                                                                                   \
  struct V {                                                                                                       \
    R r[kRegs];                                                                                                    \
    static constexpr int width = WIDTH;                                                                            \
    static constexpr int step = WIDTH / kRegs;                                                                     \
    static DW_INLINE V set1(T x) {                                                                                 \
      const R y = reg::set1(x);                                                                                    \
      return build<V>([&](auto) DW_LAMBDA { return y; });                                                          \
    }                                                                                                              \
    static DW_INLINE V zero() { return set1(T(0)); }                                                               \
    static DW_INLINE V load(const T* p) {                                                                          \
      return build<V>([&](auto i) DW_LAMBDA { return reg::load(p + i * step); });                                  \
    }                                                                                                              \
    static DW_INLINE V load_partial(const T* p, size_t n, T fill) {                                                \
      const R y = reg::set1(fill);                                                                                 \
      return build<V>([&](auto i) DW_LAMBDA {                                                                      \
        return n > size_t(i * step) ? reg::load_partial(p + i * step, n - size_t(i * step), y) : y;                \
      });                                                                                                          \
    }                                                                                                              \
    static DW_INLINE V load_strided(const T* p, ptrdiff_t stride) {                                                \
      T local[WIDTH];                                                                                              \
      for (int i = 0; i < WIDTH; ++i) local[i] = p[i * stride];                                                    \
      return load(local);                                                                                          \
    }                                                                                                              \
  };                                                                                                               \
  DW_INLINE void store(T* p, V x) {                                                                                \
    each_register([&](auto i) DW_LAMBDA { reg::store(p + i * V::step, x.r[i]); });                                 \
  }                                                                                                                \
  DW_INLINE void store_partial(T* p, size_t n, V x) {                                                              \
    each_register([&](auto i) DW_LAMBDA {                                                                          \
      if (n > size_t(i * V::step)) reg::store_partial(p + i * V::step, n - size_t(i * V::step), x.r[i]);           \
    });                                                                                                            \
  }

DW_LANES(F32x16, float, reg::F32, 16)
DW_LANES(F64x8, double, reg::F64, 8)
DW_LANES(U32x16, uint32_t, reg::U32, 16)
DW_LANES(U64x8, uint64_t, reg::U64, 8)
#undef DW_LANES

// p[at[0]], p[at[1]], …; loads one by one, which the processors that we know do faster than their gather instruction.
DW_INLINE U64x8 gather(const uint64_t* p, const uint32_t* at) {
  return build<U64x8>([&](auto i) DW_LAMBDA { return reg::gather(p, at + i * U64x8::step); });
}

// Lane i gets lane i ^ d; d is 1, 2 or 4.
template <int d>
DW_INLINE U64x8 exchange(U64x8 a) {
  if constexpr (d >= U64x8::step) return build<U64x8>([&](auto i) DW_LAMBDA { return a.r[i ^ (d / U64x8::step)]; });
  else return map<U64x8>([](auto x) DW_LAMBDA { return reg::exchange<d>(x); }, a);
}
DW_INLINE uint64_t first_lane(U64x8 a) { return a.r[0][0]; }

struct F64x16 { F64x8 low, high; };
struct U64x16 { U64x8 low, high; };

#define DW_BINARY(V, NAME, EXPRESSION)                                          \
  DW_INLINE V NAME(V a, V b) {                                                  \
    return map<V>([](auto x, auto y) DW_LAMBDA { return EXPRESSION; }, a, b);   \
  }
#define DW_ARITHMETIC(V)            \
  DW_BINARY(V, operator+, (x + y))  \
  DW_BINARY(V, operator-, (x - y))  \
  DW_BINARY(V, operator*, (x * y))
#define DW_INTEGER(V, I)                                                                                   \
  DW_ARITHMETIC(V)                                                                                         \
  DW_BINARY(V, operator&, (x & y))                                                                         \
  DW_BINARY(V, operator|, (x | y))                                                                         \
  DW_BINARY(V, operator^, (x ^ y))                                                                         \
  DW_INLINE V operator~(V a) { return map<V>([](auto x) DW_LAMBDA { return ~x; }, a); }                    \
  DW_INLINE V operator<<(V a, int n) { return map<V>([n](auto x) DW_LAMBDA { return x << n; }, a); }       \
  DW_INLINE V operator>>(V a, int n) { return map<V>([n](auto x) DW_LAMBDA { return x >> n; }, a); }       \
  DW_INLINE V sar(V a, int n) { return map<V>([n](auto x) DW_LAMBDA { return decltype(x)((I)x >> n); }, a); }
DW_INTEGER(U32x16, reg::I32)
DW_INTEGER(U64x8, reg::I64)

#define DW_COMPARE(M, V, NAME) \
  DW_INLINE M NAME(V a, V b) { return map<M>([](auto x, auto y) DW_LAMBDA { return reg::NAME(x, y); }, a, b); }
#define DW_MASK(M)                                                                                                  \
  DW_INLINE M operator&(M a, M b) { return map<M>([](auto x, auto y) DW_LAMBDA { return reg::mask_and(x, y); }, a, b); } \
  DW_INLINE M operator|(M a, M b) { return map<M>([](auto x, auto y) DW_LAMBDA { return reg::mask_or(x, y); }, a, b); }  \
  DW_INLINE M operator!(M a) { return map<M>([](auto x) DW_LAMBDA { return reg::mask_not(x); }, a); }
DW_MASK(M32x16)
DW_MASK(M64x8)

#define DW_FLOAT(V, M, U)                                                                                      \
  DW_ARITHMETIC(V)                                                                                             \
  DW_BINARY(V, operator/, (x / y))                                                                             \
  DW_INLINE V operator-(V a) { return map<V>([](auto x) DW_LAMBDA { return -x; }, a); }                        \
  DW_INLINE V fma(V a, V b, V c) {                                                                             \
    return map<V>([](auto x, auto y, auto z) DW_LAMBDA { return reg::fma(x, y, z); }, a, b, c);                \
  }                                                                                                            \
  DW_INLINE V fnma(V a, V b, V c) { return fma(-a, b, c); }                                                    \
  DW_INLINE V sqrt(V a) { return map<V>([](auto x) DW_LAMBDA { return reg::sqrt(x); }, a); }                   \
  DW_INLINE V round_even(V a) { return map<V>([](auto x) DW_LAMBDA { return reg::round_even(x); }, a); }       \
  DW_INLINE V floor(V a) { return map<V>([](auto x) DW_LAMBDA { return reg::floor(x); }, a); }                 \
  DW_COMPARE(M, V, lt)                                                                                         \
  DW_COMPARE(M, V, le)                                                                                         \
  DW_COMPARE(M, V, eq)                                                                                         \
  DW_COMPARE(M, V, unordered)                                                                                  \
  DW_INLINE M gt(V a, V b) { return lt(b, a); }                                                                \
  DW_INLINE M ge(V a, V b) { return le(b, a); }                                                                \
  DW_INLINE M ne(V a, V b) { return !eq(a, b); }                                                               \
  DW_INLINE M is_nan(V a) { return unordered(a, a); }
DW_FLOAT(F32x16, M32x16, U32x16)
DW_FLOAT(F64x8, M64x8, U64x8)

#define DW_INTEGER_COMPARE(V, M)                           \
  DW_COMPARE(M, V, lt)                                     \
  DW_COMPARE(M, V, eq)                                     \
  DW_COMPARE(M, V, lt_signed)                              \
  DW_INLINE M gt(V a, V b) { return lt(b, a); }            \
  DW_INLINE M gt_signed(V a, V b) { return lt_signed(b, a); } \
  DW_INLINE M ne(V a, V b) { return !eq(a, b); }
DW_INTEGER_COMPARE(U32x16, M32x16)
DW_INTEGER_COMPARE(U64x8, M64x8)

#define DW_SELECT(V, M)                                                                                  \
  DW_INLINE V select(M m, V a, V b) {                                                                    \
    return map<V>([](auto k, auto x, auto y) DW_LAMBDA { return reg::select(k, x, y); }, m, a, b);       \
  }
DW_SELECT(F32x16, M32x16)
DW_SELECT(U32x16, M32x16)
DW_SELECT(F64x8, M64x8)
DW_SELECT(U64x8, M64x8)
#undef DW_SELECT
#undef DW_INTEGER_COMPARE
#undef DW_FLOAT
#undef DW_MASK
#undef DW_COMPARE
#undef DW_INTEGER
#undef DW_ARITHMETIC
#undef DW_BINARY

DW_INLINE uint32_t lane_bits(M32x16 m) {
  uint32_t b = 0;
  each_register([&](auto i) DW_LAMBDA { b |= reg::mask_bits(m.r[i]) << (i * reg::kF32); });
  return b;
}
DW_INLINE uint32_t lane_bits(M64x8 m) {
  uint32_t b = 0;
  each_register([&](auto i) DW_LAMBDA { b |= reg::mask_bits(m.r[i]) << (i * reg::kF64); });
  return b;
}
DW_INLINE bool any(M32x16 m) { return lane_bits(m) != 0; }
DW_INLINE bool any(M64x8 m) { return lane_bits(m) != 0; }
DW_INLINE bool all(M32x16 m) { return lane_bits(m) == 0xFFFFu; }
DW_INLINE bool all(M64x8 m) { return lane_bits(m) == 0xFFu; }

DW_INLINE U32x16 bits(F32x16 a) { return map<U32x16>([](auto x) DW_LAMBDA { return (reg::U32)x; }, a); }
DW_INLINE U64x8 bits(F64x8 a) { return map<U64x8>([](auto x) DW_LAMBDA { return (reg::U64)x; }, a); }
DW_INLINE F32x16 f32(U32x16 a) { return map<F32x16>([](auto x) DW_LAMBDA { return (reg::F32)x; }, a); }
DW_INLINE F64x8 f64(U64x8 a) { return map<F64x8>([](auto x) DW_LAMBDA { return (reg::F64)x; }, a); }

inline constexpr uint32_t kNan32 = 0x7FC00000u;
inline constexpr uint64_t kNan64 = 0x7FF8000000000000ull;

DW_INLINE F32x16 canonical(F32x16 a) { return select(is_nan(a), f32(U32x16::set1(kNan32)), a); }
DW_INLINE F64x8 canonical(F64x8 a) { return select(is_nan(a), f64(U64x8::set1(kNan64)), a); }

DW_INLINE F32x16 abs(F32x16 a) { return f32(bits(a) & U32x16::set1(0x7FFFFFFFu)); }
DW_INLINE F64x8 abs(F64x8 a) { return f64(bits(a) & U64x8::set1(0x7FFFFFFFFFFFFFFFull)); }
DW_INLINE F32x16 copysign(F32x16 size, F32x16 sign) {
  return f32((bits(size) & U32x16::set1(0x7FFFFFFFu)) | (bits(sign) & U32x16::set1(0x80000000u)));
}
DW_INLINE F64x8 copysign(F64x8 size, F64x8 sign) {
  return f64((bits(size) & U64x8::set1(0x7FFFFFFFFFFFFFFFull)) | (bits(sign) & U64x8::set1(0x8000000000000000ull)));
}

// Equal operands may be +0 and −0: AND of the bits gives +0, OR gives −0.
DW_INLINE F32x16 maximum(F32x16 a, F32x16 b) {
  const F32x16 ordered = select(eq(a, b), f32(bits(a) & bits(b)), select(lt(a, b), b, a));
  return select(unordered(a, b), f32(U32x16::set1(kNan32)), ordered);
}
DW_INLINE F32x16 minimum(F32x16 a, F32x16 b) {
  const F32x16 ordered = select(eq(a, b), f32(bits(a) | bits(b)), select(lt(b, a), b, a));
  return select(unordered(a, b), f32(U32x16::set1(kNan32)), ordered);
}
DW_INLINE F64x8 maximum(F64x8 a, F64x8 b) {
  const F64x8 ordered = select(eq(a, b), f64(bits(a) & bits(b)), select(lt(a, b), b, a));
  return select(unordered(a, b), f64(U64x8::set1(kNan64)), ordered);
}
DW_INLINE F64x8 minimum(F64x8 a, F64x8 b) {
  const F64x8 ordered = select(eq(a, b), f64(bits(a) | bits(b)), select(lt(b, a), b, a));
  return select(unordered(a, b), f64(U64x8::set1(kNan64)), ordered);
}

DW_INLINE float add_tree(F32x16 a) { return reg::add_tree(a.r); }
DW_INLINE double add_tree(F64x8 a) { return reg::add_tree(a.r); }
DW_INLINE double add_tree(F64x16 a) { return add_tree(a.low + a.high); }

// Half-width registers are counted through both halves: number f comes from register f / 2.
template <int F, class W>
DW_INLINE auto wide_register(const W& a) {
  if constexpr (F < kRegs) return a.low.r[F];
  else return a.high.r[F - kRegs];
}
template <int F, class N>
DW_INLINE auto widened_register(const N& a) {
  if constexpr (F % 2 == 0) return reg::widen_low(a.r[F / 2]);
  else return reg::widen_high(a.r[F / 2]);
}
#define DW_WIDEN(WIDE, HALF, NARROW)                                                                            \
  DW_INLINE WIDE widen(NARROW a) {                                                                              \
    return {build<HALF>([&](auto i) DW_LAMBDA { return widened_register<decltype(i){}>(a); }),                  \
            build<HALF>([&](auto i) DW_LAMBDA { return widened_register<kRegs + decltype(i){}>(a); })};         \
  }                                                                                                             \
  DW_INLINE NARROW narrow(WIDE a) {                                                                             \
    return build<NARROW>([&](auto i) DW_LAMBDA {                                                                \
      return reg::narrow(wide_register<2 * decltype(i){}>(a), wide_register<2 * decltype(i){} + 1>(a));         \
    });                                                                                                         \
  }
DW_WIDEN(F64x16, F64x8, F32x16)
DW_WIDEN(U64x16, U64x8, U32x16)
#undef DW_WIDEN

DW_INLINE F32x16 from_i32(U32x16 a) { return map<F32x16>([](auto x) DW_LAMBDA { return reg::from_i32(x); }, a); }

// x86 answers 80000000 to everything out of range, arm64 saturates: the selects make them agree.
DW_INLINE U32x16 to_i32(F32x16 a) {
  const U32x16 raw = map<U32x16>([](auto x) DW_LAMBDA { return reg::to_i32_raw(x); }, a);
  const U32x16 high = select(ge(a, F32x16::set1(2147483648.0f)), U32x16::set1(0x7FFFFFFFu), raw);
  return select(is_nan(a), U32x16::zero(), high);
}
DW_INLINE U64x8 mul_low32(U64x8 a, U64x8 b) {
  return map<U64x8>([](auto x, auto y) DW_LAMBDA { return reg::mul_low32(x, y); }, a, b);
}

// Scalars, for the few places where one value is the whole work (the ends of reduction trees).
DW_INLINE uint32_t bits1(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
DW_INLINE uint64_t bits1(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
DW_INLINE float f32_of(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
DW_INLINE double f64_of(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }
DW_INLINE float canonical(float x) { return x != x ? f32_of(kNan32) : x; }
DW_INLINE double canonical(double x) { return x != x ? f64_of(kNan64) : x; }
DW_INLINE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DW_INLINE double fma1(double a, double b, double c) { return __builtin_fma(a, b, c); }

}  // namespace DW_ISA

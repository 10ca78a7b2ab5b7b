// Conversions between all dtypes. Float to integer truncates, NaN becomes 0, out of range saturates; integer to float
// and float to a narrower float round once, to nearest even. Integers wrap into narrower ones. Zero is false.
#include "elementwise_scalar.hpp"
#include "kernels.hpp"

namespace DW_ISA {

using droveway::Dtype;

namespace {

struct Truth { uint8_t v; };
template <class T> struct Complex { T re, im; };
// Narrow floats end in a float that a rounding to nearest even turns into the right one: see round_to_odd.
struct Odd { float v; };

template <class T> inline constexpr bool is_complex_type = false;
template <class T> inline constexpr bool is_complex_type<Complex<T>> = true;

// x in float with the last bit set where the conversion is not exact (Boldo and Melquiond 2008): a second rounding to
// 22 bits or fewer then gives what one rounding of x gives.
DW_INLINE float round_to_odd(double x) {
  const float nearest = float(x);
  uint32_t u = bits_of(nearest);
  const double back = double(nearest);
  const double size = of_bits<double>(bits_of(x) & ~(uint64_t(1) << 63)), back_size = of_bits<double>(bits_of(back) & ~(uint64_t(1) << 63));
  u = back_size > size ? (u - 1) | 1 : back_size < size ? u | 1 : u;
  return of_bits<float>(u);
}
// 2^40 and more: the low 16 bits are put together into one, which no rounding to 24 bits tells apart.
DW_INLINE float round_to_odd(uint64_t m) {
  const uint64_t high = m >> 40 != 0 ? (m >> 16) | uint64_t((m & 0xFFFF) != 0) : m;
  return round_to_odd(double(int64_t(high)) * (m >> 40 != 0 ? 65536.0 : 1.0));
}
DW_INLINE float round_to_odd(int64_t x) {
  const float size = round_to_odd(x < 0 ? uint64_t(0) - uint64_t(x) : uint64_t(x));
  return x < 0 ? -size : size;
}

// Clamped to what converts without overflow; where the largest integer is no float, the one above is put in its place.
template <Float F, Whole I>
DW_INLINE I saturate(F x) {
  constexpr int digits = sizeof(F) == 4 ? 24 : 53, value_bits = Traits<I>::width - int(Traits<I>::is_signed);
  constexpr bool exact = value_bits <= digits;
  constexpr F past = F(uint64_t(1) << (value_bits - 1)) * F(2);                      // the first value that does not fit
  constexpr F highest = exact ? past - F(1) : past - past / F(uint64_t(1) << digits);  // the largest float below it
  constexpr F lowest = Traits<I>::is_signed ? -past : F(0);
  constexpr I most = I(I(~Bits<I>(0)) ^ Traits<I>::smallest);
  F inside = x > lowest ? x : lowest;  // NaN too
  inside = inside < highest ? inside : highest;
  I whole;
  if constexpr (sizeof(I) < 4) whole = I(int32_t(inside));
  else whole = I(inside);
  if constexpr (!exact) whole = x >= past ? most : whole;
  return x != x ? I(0) : whole;
}

template <class R, class T>
DW_INLINE R convert1(T x) {
  if constexpr (__is_same(T, Truth)) {
    return convert1<R>(uint8_t(x.v != 0));
  } else if constexpr (__is_same(R, Truth)) {
    if constexpr (is_complex_type<T>) return {uint8_t((x.re != 0) | (x.im != 0))};
    else return {uint8_t(x != T(0))};
  } else if constexpr (is_complex_type<R>) {
    if constexpr (is_complex_type<T>) return {convert1<decltype(R::re)>(x.re), convert1<decltype(R::re)>(x.im)};
    else return {convert1<decltype(R::re)>(x), 0};
  } else if constexpr (__is_same(R, Odd)) {
    if constexpr (__is_same(T, float)) return {x};
    else if constexpr (__is_same(T, double)) return {round_to_odd(x)};
    else if constexpr (sizeof(T) < 4) return {float(x)};
    else if constexpr (Traits<T>::is_signed) return {round_to_odd(int64_t(x))};
    else return {round_to_odd(uint64_t(x))};
  } else if constexpr (Float<R> && Float<T>) {
    return quiet(R(x));
  } else if constexpr (Float<T>) {
    return saturate<T, R>(x);
  } else {
    return R(x);
  }
}

template <class R, class T>
void cast_strip(const Strip& s) {
  FpGuard guard;
  const T* x = static_cast<const T*>(s.in[0]);
  R* out = static_cast<R*>(s.out);
  DW_INDEPENDENT
  for (size_t i = 0; i < s.n; ++i) out[i] = convert1<R>(x[i]);
}

template <class T>
ElementwiseLoop cast_of(Dtype to) {
  constexpr bool complex = is_complex_type<T>;
  if constexpr (!complex) {
    switch (to) {
      case Dtype::i8: return cast_strip<int8_t, T>;
      case Dtype::i16: return cast_strip<int16_t, T>;
      case Dtype::i32: return cast_strip<int32_t, T>;
      case Dtype::i64: return cast_strip<int64_t, T>;
      case Dtype::u8: return cast_strip<uint8_t, T>;
      case Dtype::u16: return cast_strip<uint16_t, T>;
      case Dtype::u32: return cast_strip<uint32_t, T>;
      case Dtype::u64: return cast_strip<uint64_t, T>;
      case Dtype::f32: return cast_strip<float, T>;
      case Dtype::f64: return cast_strip<double, T>;
      case Dtype::f16:
      case Dtype::bf16: return cast_strip<Odd, T>;  // a part of half_target below
      default: break;
    }
  }
  switch (to) {
    case Dtype::boolean: return cast_strip<Truth, T>;
    case Dtype::c64: return cast_strip<Complex<float>, T>;
    case Dtype::c128: return cast_strip<Complex<double>, T>;
    default: return nullptr;
  }
}

ElementwiseLoop cast_from(Dtype from, Dtype to) {
  switch (from) {
    case Dtype::boolean: return cast_of<Truth>(to);
    case Dtype::i8: return cast_of<int8_t>(to);
    case Dtype::i16: return cast_of<int16_t>(to);
    case Dtype::i32: return cast_of<int32_t>(to);
    case Dtype::i64: return cast_of<int64_t>(to);
    case Dtype::u8: return cast_of<uint8_t>(to);
    case Dtype::u16: return cast_of<uint16_t>(to);
    case Dtype::u32: return cast_of<uint32_t>(to);
    case Dtype::u64: return cast_of<uint64_t>(to);
    case Dtype::f32: return cast_of<float>(to);
    case Dtype::f64: return cast_of<double>(to);
    case Dtype::c64: return cast_of<Complex<float>>(to);
    case Dtype::c128: return cast_of<Complex<double>>(to);
    default: return nullptr;
  }
}

constexpr size_t kCastBlock = 512;

// From float16 or bfloat16: exactly to float32, on from there.
template <Dtype FROM, Dtype TO>
void half_source(const Strip& s) {
  FpGuard guard;
  alignas(64) float wide[kCastBlock];
  const ElementwiseLoop loop = cast_from(Dtype::f32, TO);
  const bool half = TO == Dtype::f16 || TO == Dtype::bf16;
  for (size_t i = 0; i < s.n; i += kCastBlock) {
    const size_t n = s.n - i < kCastBlock ? s.n - i : kCastBlock;
    half_to_f32(int(FROM), static_cast<const uint16_t*>(s.in[0]) + i, wide, n);
    if (half) {
      f32_to_half(int(TO), wide, static_cast<uint16_t*>(s.out) + i, n);
    } else {
      loop({static_cast<char*>(s.out) + i * dtype_size(TO), {wide, nullptr, nullptr}, n, s.op});
    }
  }
}
// To float16 or bfloat16: rounded to odd to float32, then to nearest even.
template <Dtype FROM, Dtype TO>
void half_target(const Strip& s) {
  FpGuard guard;
  alignas(64) float odd[kCastBlock];
  const ElementwiseLoop loop = cast_from(FROM, TO);
  for (size_t i = 0; i < s.n; i += kCastBlock) {
    const size_t n = s.n - i < kCastBlock ? s.n - i : kCastBlock;
    loop({odd, {static_cast<const char*>(s.in[0]) + i * dtype_size(FROM), nullptr, nullptr}, n, s.op});
    f32_to_half(int(TO), odd, static_cast<uint16_t*>(s.out) + i, n);
  }
}

template <Dtype HALF>
ElementwiseLoop half_source_to(Dtype to) {
  switch (to) {
    case Dtype::boolean: return half_source<HALF, Dtype::boolean>;
    case Dtype::i8: return half_source<HALF, Dtype::i8>;
    case Dtype::i16: return half_source<HALF, Dtype::i16>;
    case Dtype::i32: return half_source<HALF, Dtype::i32>;
    case Dtype::i64: return half_source<HALF, Dtype::i64>;
    case Dtype::u8: return half_source<HALF, Dtype::u8>;
    case Dtype::u16: return half_source<HALF, Dtype::u16>;
    case Dtype::u32: return half_source<HALF, Dtype::u32>;
    case Dtype::u64: return half_source<HALF, Dtype::u64>;
    case Dtype::f16: return half_source<HALF, Dtype::f16>;
    case Dtype::bf16: return half_source<HALF, Dtype::bf16>;
    case Dtype::f32: return half_source<HALF, Dtype::f32>;
    case Dtype::f64: return half_source<HALF, Dtype::f64>;
    case Dtype::c64: return half_source<HALF, Dtype::c64>;
    case Dtype::c128: return half_source<HALF, Dtype::c128>;
  }
  return nullptr;
}
template <Dtype HALF>
ElementwiseLoop half_target_from(Dtype from) {
  switch (from) {
    case Dtype::boolean: return half_target<Dtype::boolean, HALF>;
    case Dtype::i8: return half_target<Dtype::i8, HALF>;
    case Dtype::i16: return half_target<Dtype::i16, HALF>;
    case Dtype::i32: return half_target<Dtype::i32, HALF>;
    case Dtype::i64: return half_target<Dtype::i64, HALF>;
    case Dtype::u8: return half_target<Dtype::u8, HALF>;
    case Dtype::u16: return half_target<Dtype::u16, HALF>;
    case Dtype::u32: return half_target<Dtype::u32, HALF>;
    case Dtype::u64: return half_target<Dtype::u64, HALF>;
    case Dtype::f32: return half_target<Dtype::f32, HALF>;
    case Dtype::f64: return half_target<Dtype::f64, HALF>;
    default: return nullptr;
  }
}

}  // namespace

ElementwiseLoop cast(int from, int to) {
  const Dtype source = Dtype(from), target = Dtype(to);
  if (source == target) return elementwise_copy(dtype_size(source));
  if (source == Dtype::f16) return half_source_to<Dtype::f16>(target);
  if (source == Dtype::bf16) return half_source_to<Dtype::bf16>(target);
  if (target == Dtype::f16) return half_target_from<Dtype::f16>(source);
  if (target == Dtype::bf16) return half_target_from<Dtype::bf16>(source);
  return cast_from(source, target);
}

}  // namespace DW_ISA

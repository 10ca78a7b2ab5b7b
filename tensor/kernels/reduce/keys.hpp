// Unsigned keys that order elements: NaN last, −0 equal to +0, and reversed (NaN still last) for descending orders.
#pragma once
#include "convert.hpp"

namespace DW_ISA {
namespace lines {

// Element types by what their bits are. Key is uint32_t, or uint64_t for types of eight bytes.
template <class B, class K, B kSign, B kInfinityBits>
struct FloatBits {  // kSign: the sign bit; above kInfinityBits lies NaN
  using Bits = B;
  using Key = K;
  static DW_INLINE K key(B u, bool descending) {
    const B size = u & B(~kSign);
    if (size > kInfinityBits) return ~K{0};
    if (size == 0) u = 0;
    const B ordered = (u & kSign) != 0 ? B(~u) : B(u | kSign);
    return descending ? K(B(~ordered)) : K(ordered);
  }
  static DW_INLINE bool is_nan(B u) { return (u & B(~kSign)) > kInfinityBits; }
};
template <class B, class K, B kSign>
struct IntegerBits {  // kSign: the sign bit, 0 for unsigned types
  using Bits = B;
  using Key = K;
  static DW_INLINE K key(B u, bool descending) {
    const B ordered = B(u ^ kSign);
    return K(descending ? B(~ordered) : ordered);
  }
  static DW_INLINE bool is_nan(B) { return false; }
};

// Calls f(Kind{}) with the kind of the dtype. Complex numbers have no order.
template <class F>
void with_kind(droveway::Dtype dtype, F f) {
  using droveway::Dtype;
  switch (dtype) {
    case Dtype::f32: return f(FloatBits<uint32_t, uint32_t, 0x80000000u, 0x7F800000u>{});
    case Dtype::f64: return f(FloatBits<uint64_t, uint64_t, uint64_t{1} << 63, 0x7FF0000000000000ull>{});
    case Dtype::f16: return f(FloatBits<uint16_t, uint32_t, 0x8000u, 0x7C00u>{});
    case Dtype::bf16: return f(FloatBits<uint16_t, uint32_t, 0x8000u, 0x7F80u>{});
    case Dtype::i8: return f(IntegerBits<uint8_t, uint32_t, 0x80u>{});
    case Dtype::i16: return f(IntegerBits<uint16_t, uint32_t, 0x8000u>{});
    case Dtype::i32: return f(IntegerBits<uint32_t, uint32_t, 0x80000000u>{});
    case Dtype::i64: return f(IntegerBits<uint64_t, uint64_t, uint64_t{1} << 63>{});
    case Dtype::u16: return f(IntegerBits<uint16_t, uint32_t, 0u>{});
    case Dtype::u32: return f(IntegerBits<uint32_t, uint32_t, 0u>{});
    case Dtype::u64: return f(IntegerBits<uint64_t, uint64_t, 0u>{});
    default: return f(IntegerBits<uint8_t, uint32_t, 0u>{});
  }
}

// An element's key and its place; unique, so that any sort by (key, place) is the stable one.
struct NarrowPair {  // key << 32 | place
  uint64_t word;
  static DW_INLINE NarrowPair make(uint32_t key, size_t place) { return {uint64_t(key) << 32 | uint32_t(place)}; }
  DW_INLINE size_t place() const { return uint32_t(word); }
  DW_INLINE bool below(NarrowPair other) const { return word < other.word; }
  DW_INLINE unsigned digit(int d) const { return unsigned(word >> (8 * d)) & 255u; }  // of key and place, lowest first
  static constexpr int kPlaceDigits = 4, kDigits = 8;
};
struct WidePair {
  uint64_t key, at;
  static DW_INLINE WidePair make(uint64_t key, size_t place) { return {key, place}; }
  DW_INLINE size_t place() const { return at; }
  DW_INLINE bool below(const WidePair& other) const { return key != other.key ? key < other.key : at < other.at; }
  DW_INLINE unsigned digit(int d) const { return unsigned((d < 8 ? at : key) >> (8 * (d & 7))) & 255u; }
  static constexpr int kPlaceDigits = 8, kDigits = 16;
};

// Sorts by the digits from `lowest` on; what they leave equal keeps its order. The result lies in `a` or in `b`.
template <class P, int lowest = P::kPlaceDigits>
P* sort_pairs(P* a, P* b, size_t n) {
  if (n <= 48) {
    for (size_t i = 1; i < n; ++i) {
      const P p = a[i];
      size_t j = i;
      for (; j > 0 && p.below(a[j - 1]); --j) a[j] = a[j - 1];
      a[j] = p;
    }
    return a;
  }
  constexpr int digits = P::kDigits - lowest;
  size_t counts[digits][256] = {};
  for (size_t i = 0; i < n; ++i)
    for (int d = 0; d < digits; ++d) ++counts[d][a[i].digit(lowest + d)];
  for (int d = 0; d < digits; ++d) {
    const int digit = lowest + d;
    if (counts[d][a[0].digit(digit)] == n) continue;  // all alike
    size_t next = 0;
    for (size_t& count : counts[d]) {
      const size_t here = count;
      count = next;
      next += here;
    }
    for (size_t i = 0; i < n; ++i) b[counts[d][a[i].digit(digit)]++] = a[i];
    P* const swap = a;
    a = b;
    b = swap;
  }
  return a;
}

// Moves the k smallest pairs to the front, in no order. 0 < k ≤ n.
template <class P>
void select_pairs(P* a, P* scratch, size_t n, size_t k) {
  for (int digit = P::kDigits - 1; digit >= 0 && k < n; --digit) {
    size_t counts[256] = {};
    for (size_t i = 0; i < n; ++i) ++counts[a[i].digit(digit)];
    unsigned bucket = 0;
    size_t below = 0;
    while (below + counts[bucket] < k) below += counts[bucket++];
    if (counts[bucket] == n) continue;
    size_t low = 0, equal = 0;  // the lower ones stay in front, the bucket waits in scratch
    for (size_t i = 0; i < n; ++i) {
      const P p = a[i];
      const unsigned d = p.digit(digit);
      if (d < bucket) a[low++] = p;
      else if (d == bucket) scratch[equal++] = p;
    }
    for (size_t i = 0; i < equal; ++i) a[low + i] = scratch[i];
    a += low;
    k -= low;
    n = equal;
  }
}

}  // namespace lines
}  // namespace DW_ISA

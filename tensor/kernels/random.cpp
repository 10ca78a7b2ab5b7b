// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), sixteen counters
// at a time. Word w of counter c is a function of (key, c) only, so the cut into blocks and threads is free.
#include "random.hpp"

#include "droveway/fpenv.hpp"
#include "droveway/half.hpp"
#include "droveway/math_f32.hpp"
#include "droveway/math_f64.hpp"
#include "droveway/math_trigonometry.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kBlockCounters = 4096;         // counters a thread takes at a time: 16384 words
constexpr size_t kParallelElements = 1 << 16;   // below this many elements the calling thread does all the work
constexpr int kRounds = 10;

// The words of eight counters, each in the lower half of a lane; the upper halves are left over from products.
struct Half {
  U64x8 w0, w1, w2, w3;
};
struct Words {
  Half low, high;  // counters 0–7 and 8–15
  DW_INLINE U32x16 word0() const { return narrow(U64x16{low.w0, high.w0}); }
  DW_INLINE U32x16 word1() const { return narrow(U64x16{low.w1, high.w1}); }
  DW_INLINE U32x16 word2() const { return narrow(U64x16{low.w2, high.w2}); }
  DW_INLINE U32x16 word3() const { return narrow(U64x16{low.w3, high.w3}); }
};

DW_INLINE Half start(U64x8 counter, uint32_t c2, uint32_t c3) {
  return {counter, counter >> 32, U64x8::set1(c2), U64x8::set1(c3)};
}
// A product of 32-bit words is one lane: its lower half is read where the lane is, its upper half is shifted down.
DW_INLINE Half next(Half c, U64x8 k0, U64x8 k1) {
  const U64x8 p = mul_low32(c.w0, U64x8::set1(0xD2511F53u)), q = mul_low32(c.w2, U64x8::set1(0xCD9E8D57u));
  return {(q >> 32) ^ c.w1 ^ k0, q, (p >> 32) ^ c.w3 ^ k1, p};
}

DW_INLINE Words philox(uint64_t key, uint64_t counter, uint32_t c2, uint32_t c3) {
  static constexpr uint64_t kLane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const U64x8 base = U64x8::set1(counter);
  Words c{start(base + U64x8::load(kLane), c2, c3), start(base + U64x8::load(kLane + 8), c2, c3)};
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const U64x8 a = U64x8::set1(k0), b = U64x8::set1(k1);
    c = {next(c.low, a, b), next(c.high, a, b)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// (u >> 8)·2^-24, exact
DW_INLINE F32x16 unit(U32x16 u) { return from_i32(u >> 8) * F32x16::set1(0x1p-24f); }
// Box–Muller; u1 is above 0, so its logarithm is finite
DW_INLINE void normal_pair(U32x16 w, U32x16 v, F32x16* even, F32x16* odd) {
  const F32x16 u1 = from_i32((w >> 8) + U32x16::set1(1)) * F32x16::set1(0x1p-24f);
  const F32x16 radius = sqrt(log(u1) * F32x16::set1(-2.0f));
  F32x16 sine, cosine;
  sine_and_cosine_2pi(unit(v), &sine, &cosine);
  *even = radius * cosine;
  *odd = radius * sine;
}

// A pair of words as a number of 64 bits, the first one low.
DW_INLINE U64x8 joined(U64x8 low, U64x8 high) { return (low & U64x8::set1(0xFFFFFFFFull)) | (high << 32); }
DW_INLINE U64x16 joined_even(const Words& c) { return {joined(c.low.w0, c.low.w1), joined(c.high.w0, c.high.w1)}; }
DW_INLINE U64x16 joined_odd(const Words& c) { return {joined(c.low.w2, c.low.w3), joined(c.high.w2, c.high.w3)}; }
// The upper 53 bits as a number, exact: the parts lie in the significands of 2^52 and 2^84.
DW_INLINE F64x8 upper_bits(U64x8 u) {
  const U64x8 low = (u >> 11) & U64x8::set1(0xFFFFFFFFull), high = u >> 43;
  return (f64(high | U64x8::set1(0x4530000000000000ull)) - F64x8::set1(0x1p84)) +
         (f64(low | U64x8::set1(0x4330000000000000ull)) - F64x8::set1(0x1p52));
}
DW_INLINE void normal_pair(U64x8 u, U64x8 v, F64x8* even, F64x8* odd) {
  const F64x8 u1 = (upper_bits(u) + F64x8::set1(1.0)) * F64x8::set1(0x1p-53);
  const F64x8 radius = sqrt(log(u1) * F64x8::set1(-2.0));
  const F64x8 angle = (upper_bits(v) * F64x8::set1(0x1p-53)) * F64x8::set1(0x1.921fb54442d18p+2);
  *even = radius * cos(angle);
  *odd = radius * sin(angle);
}

// What becomes of the words of sixteen counters: out[e] holds element e of each, `per` elements a counter.
struct AsWords {
  using T = uint32_t;
  static constexpr size_t per = 4;
  uint32_t c2 = 0, c3 = 0;
  DW_INLINE void convert(uint64_t, uint64_t, Words c, T (*out)[16]) const {
    store(out[0], c.word0());
    store(out[1], c.word1());
    store(out[2], c.word2());
    store(out[3], c.word3());
  }
};
struct AsLongWords : AsWords {
  using T = uint64_t;
  static constexpr size_t per = 2;
  DW_INLINE void convert(uint64_t, uint64_t, Words c, T (*out)[16]) const {
    const U64x16 even = joined_even(c), odd = joined_odd(c);
    store(out[0], even.low);
    store(out[0] + 8, even.high);
    store(out[1], odd.low);
    store(out[1] + 8, odd.high);
  }
};
struct AsUniform : AsWords {
  using T = float;
  DW_INLINE void convert(uint64_t, uint64_t, Words c, T (*out)[16]) const {
    store(out[0], unit(c.word0()));
    store(out[1], unit(c.word1()));
    store(out[2], unit(c.word2()));
    store(out[3], unit(c.word3()));
  }
};
struct AsNormal : AsWords {
  using T = float;
  DW_INLINE void convert(uint64_t, uint64_t, Words c, T (*out)[16]) const {
    F32x16 z[4];
    normal_pair(c.word0(), c.word1(), &z[0], &z[1]);
    normal_pair(c.word2(), c.word3(), &z[2], &z[3]);
    store(out[0], z[0]);
    store(out[1], z[1]);
    store(out[2], z[2]);
    store(out[3], z[3]);
  }
};
struct AsUniformDouble : AsWords {
  using T = double;
  static constexpr size_t per = 2;
  DW_INLINE void convert(uint64_t, uint64_t, Words c, T (*out)[16]) const {
    const U64x16 even = joined_even(c), odd = joined_odd(c);
    const F64x8 scale = F64x8::set1(0x1p-53);
    store(out[0], upper_bits(even.low) * scale);
    store(out[0] + 8, upper_bits(even.high) * scale);
    store(out[1], upper_bits(odd.low) * scale);
    store(out[1] + 8, upper_bits(odd.high) * scale);
  }
};
struct AsNormalDouble : AsWords {
  using T = double;
  static constexpr size_t per = 2;
  DW_INLINE void convert(uint64_t, uint64_t, Words c, T (*out)[16]) const {
    const U64x16 u = joined_even(c), v = joined_odd(c);
    F64x8 even, odd;
    normal_pair(u.low, v.low, &even, &odd);
    store(out[0], even);
    store(out[1], odd);
    normal_pair(u.high, v.high, &even, &odd);
    store(out[0] + 8, even);
    store(out[1] + 8, odd);
  }
};
// float16: 11 bits of a word. bfloat16: 8 bits. Exact, so no result is rounded up to 1.
template <bool kBrain>
struct AsUniformHalf : AsWords {
  using T = uint16_t;
  static DW_INLINE void put(uint16_t* out, U32x16 w) {
    if constexpr (kBrain) store_bf16(out, from_i32(w >> 24) * F32x16::set1(0x1p-8f));
    else store_f16(out, from_i32(w >> 21) * F32x16::set1(0x1p-11f));
  }
  DW_INLINE void convert(uint64_t, uint64_t, Words c, T (*out)[16]) const {
    put(out[0], c.word0());
    put(out[1], c.word1());
    put(out[2], c.word2());
    put(out[3], c.word3());
  }
};
template <bool kBrain>
struct AsNormalHalf : AsWords {
  using T = uint16_t;
  static DW_INLINE void put(uint16_t* out, U32x16 w, U32x16 v) {
    F32x16 even, odd;
    normal_pair(w, v, &even, &odd);
    if constexpr (kBrain) {
      store_bf16(out, even);
      store_bf16(out + 16, odd);
    } else {
      store_f16(out, even);
      store_f16(out + 16, odd);
    }
  }
  DW_INLINE void convert(uint64_t, uint64_t, Words c, T (*out)[16]) const {
    put(out[0], c.word0(), c.word1());
    put(out[2], c.word2(), c.word3());
  }
};
struct AsBernoulli : AsWords {
  using T = uint8_t;
  uint32_t limit;
  DW_INLINE void put(uint8_t* out, U32x16 w) const {
    uint32_t yes[16];
    store(yes, select(lt(w >> 8, U32x16::set1(limit)), U32x16::set1(1), U32x16::zero()));
    for (int l = 0; l < 16; ++l) out[l] = uint8_t(yes[l]);
  }
  DW_INLINE void convert(uint64_t, uint64_t, Words c, T (*out)[16]) const {
    put(out[0], c.word0());
    put(out[1], c.word1());
    put(out[2], c.word2());
    put(out[3], c.word3());
  }
};

// One counter, in plain integers.
struct Block {
  uint32_t w[4];
};
Block philox1(uint64_t key, Block c) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p = uint64_t{0xD2511F53u} * c.w[0], q = uint64_t{0xCD9E8D57u} * c.w[2];
    c = {{uint32_t(q >> 32) ^ c.w[1] ^ k0, uint32_t(q), uint32_t(p >> 32) ^ c.w[3] ^ k1, uint32_t(p)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

__extension__ typedef unsigned __int128 Product128;

// Lemire, "Fast random integer generation in an interval", 2019. Attempt a of an element reads its words where the
// third word of the counter is a.
template <class Out>
struct AsInteger : AsWords {
  using T = Out;
  static constexpr size_t per = 2;
  uint64_t low, range, rejected;  // lower halves below `rejected`, 2^64 mod range, would be drawn once too often

  __attribute__((noinline)) uint64_t again(uint64_t key, uint64_t counter, int word) const {
    for (uint32_t attempt = 1;; ++attempt) {
      const Block c = philox1(key, {{uint32_t(counter), uint32_t(counter >> 32), attempt, 0}});
      const Product128 p = Product128(c.w[word] | uint64_t{c.w[word + 1]} << 32) * range;
      if (uint64_t(p) >= rejected) return uint64_t(p >> 64);
    }
  }
  DW_INLINE void convert(uint64_t key, uint64_t counter, Words c, T (*out)[16]) const {
    uint64_t u[2][16];
    AsLongWords{}.convert(key, counter, c, u);
    for (int e = 0; e < 2; ++e) {
      for (int l = 0; l < 16; ++l) {
        uint64_t value = u[e][l];
        if (range != 0) {
          const Product128 p = Product128(value) * range;
          value = uint64_t(p >> 64);
          if (uint64_t(p) < rejected) value = again(key, counter + uint64_t(l), 2 * e);
        }
        out[e][l] = T(low + value);
      }
    }
  }
};

// Elements begin … end − 1 of a key's stream, counted from the first element of `counter`; out is where element `skip`
// goes.
template <class Kind>
void draw_part(const Kind& kind, uint64_t key, uint64_t counter, size_t skip, size_t begin, size_t end,
               typename Kind::T* out) {
  constexpr size_t per = Kind::per, step = 16 * per;
  for (size_t p = begin; p < end; p += step) {
    typename Kind::T values[per][16];
    const uint64_t first = counter + p / per;
    kind.convert(key, first, philox(key, first, kind.c2, kind.c3), values);
    const size_t from = p < skip ? skip - p : 0;
    const size_t to = end - p < step ? end - p : step;
    typename Kind::T* to_here = out + (p + from - skip);
    if (to - from == step) {
      for (size_t l = 0; l < 16; ++l)
        for (size_t e = 0; e < per; ++e) to_here[per * l + e] = values[e][l];
    } else {
      for (size_t i = from; i < to; ++i) *to_here++ = values[i % per][i / per];
    }
  }
}

uint64_t at_index(const droveway::View& v, size_t i) {
  ptrdiff_t at = 0;
  for (int d = v.ndim - 1; d >= 0; --d) {
    at += ptrdiff_t(int64_t(i % size_t(v.shape[d])) * v.strides[d]);
    i /= size_t(v.shape[d]);
  }
  return reinterpret_cast<const uint64_t*>(v.data)[at];
}

template <class Kind>
struct Draw {
  Kind kind;
  droveway::View keys;
  size_t count;       // of keys
  uint64_t counter;   // of the first element
  size_t skip;        // elements of that counter that are left out
  size_t each;        // elements of a key
  size_t key_blocks;  // blocks of work that a key is cut into, or 0:
  size_t keys_block;  // keys of a block of work
  typename Kind::T* out;
};

constexpr size_t block_elements(size_t per) { return kBlockCounters * per; }

template <class Kind>
void draw_block(void* context, size_t block) {
  FpGuard guard;
  const Draw<Kind>& d = *static_cast<const Draw<Kind>*>(context);
  constexpr size_t size = block_elements(Kind::per);
  const size_t last = d.skip + d.each;
  if (d.key_blocks != 0) {
    const size_t k = block / d.key_blocks, begin = block % d.key_blocks * size;
    draw_part(d.kind, at_index(d.keys, k), d.counter, d.skip, begin, begin + size < last ? begin + size : last,
              d.out + k * d.each);
    return;
  }
  const size_t first = block * d.keys_block;
  const size_t end = first + d.keys_block < d.count ? first + d.keys_block : d.count;
  for (size_t k = first; k < end; ++k)
    draw_part(d.kind, at_index(d.keys, k), d.counter, d.skip, 0, last, d.out + k * d.each);
}

template <class Kind>
void draw(const Kind& kind, const droveway::View& keys, uint64_t counter, size_t skip, size_t each, typename Kind::T* out) {
  const size_t count = size_t(droveway::view_size(keys));
  if (count == 0 || each == 0) return;
  constexpr size_t size = block_elements(Kind::per);
  Draw<Kind> d{kind, keys, count, counter, skip, each, 0, 0, out};
  size_t blocks;
  if (skip + each > size) {
    d.key_blocks = (skip + each + size - 1) / size;
    blocks = count * d.key_blocks;
  } else {
    d.keys_block = (size + each - 1) / each;
    blocks = (count + d.keys_block - 1) / d.keys_block;
  }
  if (count * each >= kParallelElements) {
    dw_parallel(blocks, draw_block<Kind>, &d);
  } else {
    for (size_t b = 0; b < blocks; ++b) draw_block<Kind>(&d, b);
  }
}

template <class Kind>
void draw_one(const Kind& kind, uint64_t key, uint64_t counter, size_t skip, size_t n, typename Kind::T* out) {
  draw(kind, {reinterpret_cast<char*>(&key), droveway::Dtype::u64, 0, nullptr, nullptr}, counter, skip, n, out);
}
template <class Kind>
void draw_many(const Kind& kind, const droveway::RandomDraw& d) {
  draw(kind, d.keys, d.offset / Kind::per, size_t(d.offset % Kind::per), d.each, static_cast<typename Kind::T*>(d.out));
}

template <class T>
void draw_integers(const droveway::RandomDraw& d) {
  AsInteger<T> kind;
  kind.low = d.low;
  kind.range = d.range;
  kind.rejected = d.range == 0 ? 0 : (0 - d.range) % d.range;
  draw_many(kind, d);
}

struct Children {
  droveway::View keys, numbers;
  uint32_t tag;
  uint64_t* out;
  size_t count;
};
constexpr size_t kBlockChildren = 1024;

void children_block(void* context, size_t block) {
  const Children& c = *static_cast<const Children*>(context);
  const size_t first = block * kBlockChildren;
  const size_t end = first + kBlockChildren < c.count ? first + kBlockChildren : c.count;
  for (size_t i = first; i < end; ++i) {
    const uint64_t number = at_index(c.numbers, i);
    const Block b = philox1(at_index(c.keys, i), {{uint32_t(number), uint32_t(number >> 32), 0, c.tag}});
    c.out[i] = b.w[0] | uint64_t{b.w[1]} << 32;
  }
}

}  // namespace

void philox_words(uint64_t key, uint64_t counter, uint32_t c2, uint32_t c3, size_t skip, uint32_t* out, size_t n) {
  draw_one(AsWords{c2, c3}, key, counter, skip, n, out);
}
void philox_uniform_f32(uint64_t key, uint64_t counter, size_t skip, float* out, size_t n) {
  draw_one(AsUniform{}, key, counter, skip, n, out);
}
void philox_normal_f32(uint64_t key, uint64_t counter, size_t skip, float* out, size_t n) {
  draw_one(AsNormal{}, key, counter, skip, n, out);
}

void random_draw(const droveway::RandomDraw& d) {
  using droveway::Dtype;
  using droveway::RandomKind;
  switch (d.kind) {
    case RandomKind::bits:
      return d.dtype == Dtype::u32 ? draw_many(AsWords{}, d) : draw_many(AsLongWords{}, d);
    case RandomKind::uniform:
      return d.dtype == Dtype::f32   ? draw_many(AsUniform{}, d)
             : d.dtype == Dtype::f64 ? draw_many(AsUniformDouble{}, d)
             : d.dtype == Dtype::f16 ? draw_many(AsUniformHalf<false>{}, d)
                                     : draw_many(AsUniformHalf<true>{}, d);
    case RandomKind::normal:
      return d.dtype == Dtype::f32   ? draw_many(AsNormal{}, d)
             : d.dtype == Dtype::f64 ? draw_many(AsNormalDouble{}, d)
             : d.dtype == Dtype::f16 ? draw_many(AsNormalHalf<false>{}, d)
                                     : draw_many(AsNormalHalf<true>{}, d);
    case RandomKind::randint:
      switch (droveway::dtype_size(d.dtype)) {
        case 1: return draw_integers<uint8_t>(d);
        case 2: return draw_integers<uint16_t>(d);
        case 4: return draw_integers<uint32_t>(d);
        default: return draw_integers<uint64_t>(d);
      }
    case RandomKind::bernoulli: {
      AsBernoulli kind;
      kind.limit = d.limit;
      return draw_many(kind, d);
    }
  }
}

void random_children(const droveway::View& keys, const droveway::View& numbers, uint32_t tag, uint64_t* out) {
  Children c{keys, numbers, tag, out, size_t(droveway::view_size(keys))};
  const size_t blocks = (c.count + kBlockChildren - 1) / kBlockChildren;
  dw_parallel(blocks, children_block, &c);
}

}  // namespace DW_ISA

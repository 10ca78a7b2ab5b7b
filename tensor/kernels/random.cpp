// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), sixteen counters
// at a time. Word w of counter c is a function of (key, c) only, so the cut into blocks and threads is free.
#include "droveway/fpenv.hpp"
#include "droveway/math_f32.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kBlockCounters = 4096;      // counters a thread takes at a time: 16384 words
constexpr size_t kParallelWords = 1 << 16;   // below this many words the calling thread does all the work
constexpr int kRounds = 10;

struct Words {
  U32x16 w0, w1, w2, w3;
};

// High and low words of m · a.
DW_INLINE void multiply(uint32_t m, U32x16 a, U32x16* high, U32x16* low) {
  const U64x16 wide = widen(a);
  const U64x8 factor = U64x8::set1(m);
  const U64x16 product{mul_low32(wide.low, factor), mul_low32(wide.high, factor)};
  *low = narrow(product);
  *high = narrow(U64x16{product.low >> 32, product.high >> 32});
}

DW_INLINE Words philox(uint64_t key, uint64_t counter, uint32_t c2, uint32_t c3) {
  static constexpr uint32_t kLane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const U32x16 base = U32x16::set1(uint32_t(counter));
  Words c;
  c.w0 = base + U32x16::load(kLane);
  // a low word that wrapped carries into the high one
  const U32x16 carry = select(lt(c.w0, base), U32x16::set1(1), U32x16::zero());
  c.w1 = U32x16::set1(uint32_t(counter >> 32)) + carry;
  c.w2 = U32x16::set1(c2);
  c.w3 = U32x16::set1(c3);
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    U32x16 high0, low0, high1, low1;
    multiply(0xD2511F53u, c.w0, &high0, &low0);
    multiply(0xCD9E8D57u, c.w2, &high1, &low1);
    c = {high1 ^ c.w1 ^ U32x16::set1(k0), low1, high0 ^ c.w3 ^ U32x16::set1(k1), low0};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

struct AsWords {
  using T = uint32_t;
  static DW_INLINE void convert(Words c, T (*out)[16]) {
    store(out[0], c.w0);
    store(out[1], c.w1);
    store(out[2], c.w2);
    store(out[3], c.w3);
  }
};
// (u >> 8)·2^-24, exact
DW_INLINE F32x16 unit(U32x16 u) { return from_i32(u >> 8) * F32x16::set1(0x1p-24f); }
struct AsUniform {
  using T = float;
  static DW_INLINE void convert(Words c, T (*out)[16]) {
    store(out[0], unit(c.w0));
    store(out[1], unit(c.w1));
    store(out[2], unit(c.w2));
    store(out[3], unit(c.w3));
  }
};
struct AsNormal {
  using T = float;
  // Box–Muller; u1 is above 0, so its logarithm is finite
  static DW_INLINE void pair(U32x16 w, U32x16 v, float* cosine_out, float* sine_out) {
    const F32x16 u1 = from_i32((w >> 8) + U32x16::set1(1)) * F32x16::set1(0x1p-24f);
    const F32x16 radius = sqrt(log(u1) * F32x16::set1(-2.0f));
    F32x16 sine, cosine;
    sine_and_cosine_2pi(unit(v), &sine, &cosine);
    store(cosine_out, radius * cosine);
    store(sine_out, radius * sine);
  }
  static DW_INLINE void convert(Words c, T (*out)[16]) {
    pair(c.w0, c.w1, out[0], out[1]);
    pair(c.w2, c.w3, out[2], out[3]);
  }
};

template <class Kind>
struct Draw {
  uint64_t key, counter;
  uint32_t c2, c3;
  size_t skip;  // words of the first counter that are left out
  typename Kind::T* out;
  size_t n;
};

template <class Kind>
void draw_block(void* context, size_t block) {
  FpGuard guard;
  const Draw<Kind>& d = *static_cast<const Draw<Kind>*>(context);
  // Positions count words from the first counter; output position p − skip holds word p mod 4 of counter p div 4.
  const size_t last = d.skip + d.n;
  const size_t begin = block * kBlockCounters * 4;
  const size_t end = begin + kBlockCounters * 4 < last ? begin + kBlockCounters * 4 : last;
  for (size_t p = begin; p < end; p += 64) {
    typename Kind::T words[4][16];
    Kind::convert(philox(d.key, d.counter + p / 4, d.c2, d.c3), words);
    const size_t from = p < d.skip ? d.skip - p : 0;
    const size_t to = end - p < 64 ? end - p : 64;
    typename Kind::T* out = d.out + (p + from - d.skip);
    if (to - from == 64) {
      for (size_t l = 0; l < 16; ++l)
        for (size_t w = 0; w < 4; ++w) out[4 * l + w] = words[w][l];
    } else {
      for (size_t i = from; i < to; ++i) *out++ = words[i % 4][i / 4];
    }
  }
}

template <class Kind>
void draw(Draw<Kind> d) {
  if (d.n == 0) return;
  const size_t blocks = (d.skip + d.n + kBlockCounters * 4 - 1) / (kBlockCounters * 4);
  if (d.n >= kParallelWords) {
    dw_parallel(blocks, draw_block<Kind>, &d);
  } else {
    for (size_t b = 0; b < blocks; ++b) draw_block<Kind>(&d, b);
  }
}

}  // namespace

void philox_words(uint64_t key, uint64_t counter, uint32_t c2, uint32_t c3, size_t skip, uint32_t* out, size_t n) {
  draw<AsWords>({key, counter, c2, c3, skip, out, n});
}
void philox_uniform_f32(uint64_t key, uint64_t counter, size_t skip, float* out, size_t n) {
  draw<AsUniform>({key, counter, 0, 0, skip, out, n});
}
void philox_normal_f32(uint64_t key, uint64_t counter, size_t skip, float* out, size_t n) {
  draw<AsNormal>({key, counter, 0, 0, skip, out, n});
}

}  // namespace DW_ISA

// SHA-256 (FIPS 180-4) for the leaves and nodes of the Merkle tree (RFC 6962, section 2.1), with the processor's
// SHA instructions where it has them: the same bytes without.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr uint32_t initial[8] = {0x6A09E667u, 0xBB67AE85u, 0x3C6EF372u, 0xA54FF53Au,
                                 0x510E527Fu, 0x9B05688Cu, 0x1F83D9ABu, 0x5BE0CD19u};

alignas(16) constexpr uint32_t round_constants[64] = {
    0x428A2F98u, 0x71374491u, 0xB5C0FBCFu, 0xE9B5DBA5u, 0x3956C25Bu, 0x59F111F1u, 0x923F82A4u, 0xAB1C5ED5u,
    0xD807AA98u, 0x12835B01u, 0x243185BEu, 0x550C7DC3u, 0x72BE5D74u, 0x80DEB1FEu, 0x9BDC06A7u, 0xC19BF174u,
    0xE49B69C1u, 0xEFBE4786u, 0x0FC19DC6u, 0x240CA1CCu, 0x2DE92C6Fu, 0x4A7484AAu, 0x5CB0A9DCu, 0x76F988DAu,
    0x983E5152u, 0xA831C66Du, 0xB00327C8u, 0xBF597FC7u, 0xC6E00BF3u, 0xD5A79147u, 0x06CA6351u, 0x14292967u,
    0x27B70A85u, 0x2E1B2138u, 0x4D2C6DFCu, 0x53380D13u, 0x650A7354u, 0x766A0ABBu, 0x81C2C92Eu, 0x92722C85u,
    0xA2BFE8A1u, 0xA81A664Bu, 0xC24B8B70u, 0xC76C51A3u, 0xD192E819u, 0xD6990624u, 0xF40E3585u, 0x106AA070u,
    0x19A4C116u, 0x1E376C08u, 0x2748774Cu, 0x34B0BCB5u, 0x391C0CB3u, 0x4ED8AA4Au, 0x5B9CCA4Fu, 0x682E6FF3u,
    0x748F82EEu, 0x78A5636Fu, 0x84C87814u, 0x8CC70208u, 0x90BEFFFAu, 0xA4506CEBu, 0xBEF9A3F7u, 0xC67178F2u};

using Compress = void (*)(uint32_t* state, const uint8_t* blocks, size_t count);

inline uint32_t load_big(const uint8_t* p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return __builtin_bswap32(x);
}

inline void store_big(uint8_t* p, uint32_t x) {
  x = __builtin_bswap32(x);
  memcpy(p, &x, 4);
}

inline uint32_t rotate_right(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

void compress_portable(uint32_t* state, const uint8_t* blocks, size_t count) {
  for (; count != 0; --count, blocks += 64) {
    uint32_t w[64];
    for (int t = 0; t < 16; ++t) w[t] = load_big(blocks + 4 * t);
    for (int t = 16; t < 64; ++t) {
      const uint32_t x = w[t - 15], y = w[t - 2];
      w[t] = w[t - 16] + (rotate_right(x, 7) ^ rotate_right(x, 18) ^ (x >> 3)) + w[t - 7] +
             (rotate_right(y, 17) ^ rotate_right(y, 19) ^ (y >> 10));
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; ++t) {
      const uint32_t t1 = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                          ((e & f) ^ (~e & g)) + round_constants[t] + w[t];
      const uint32_t t2 = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
                          ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
  }
}

#if defined(__x86_64__)
// The instructions keep the state as (A B E F) and (C D G H) and do two rounds each; four message words in flight.
struct Halves {
  __m128i abef, cdgh;
};

__attribute__((target("sha,sse4.1"))) inline Halves halves_of(const uint32_t* state) {
  const __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state));
  const __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1B);
  return {_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xF0)};
}

__attribute__((target("sha,sse4.1"))) inline void put_back(const Halves& x, uint32_t* state) {
  const __m128i feba = _mm_shuffle_epi32(x.abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(x.cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

struct Message {
  __m128i w[4];
};

__attribute__((target("sha,sse4.1"))) inline Message message_of(const uint8_t* block) {
  const __m128i swap = _mm_set_epi64x(0x0C0D0E0F08090A0Bll, 0x0405060700010203ll);
  Message m;
  for (int i = 0; i < 4; ++i)
    m.w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 16 * i)), swap);
  return m;
}

__attribute__((target("sha,sse4.1"))) inline void four_rounds(Halves& x, Message& m, __m128i constants) {
  const __m128i words = _mm_add_epi32(m.w[0], constants);
  x.cdgh = _mm_sha256rnds2_epu32(x.cdgh, x.abef, words);
  x.abef = _mm_sha256rnds2_epu32(x.abef, x.cdgh, _mm_shuffle_epi32(words, 0x0E));
  const __m128i middle = _mm_alignr_epi8(m.w[3], m.w[2], 4);
  const __m128i next = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(m.w[0], m.w[1]), middle), m.w[3]);
  m.w[0] = m.w[1], m.w[1] = m.w[2], m.w[2] = m.w[3], m.w[3] = next;
}

__attribute__((target("sha,sse4.1"))) inline void add(Halves& x, const Halves& before) {
  x.abef = _mm_add_epi32(x.abef, before.abef);
  x.cdgh = _mm_add_epi32(x.cdgh, before.cdgh);
}

__attribute__((target("sha,sse4.1"))) void compress_sha_ni(uint32_t* state, const uint8_t* blocks, size_t count) {
  const __m128i* constants = reinterpret_cast<const __m128i*>(round_constants);
  Halves x = halves_of(state);
  for (; count != 0; --count, blocks += 64) {
    const Halves before = x;
    Message m = message_of(blocks);
    for (int group = 0; group < 16; ++group) four_rounds(x, m, _mm_load_si128(constants + group));
    add(x, before);
  }
  put_back(x, state);
}

// Two inputs side by side: the rounds of one fill the time in which those of the other wait for their own results.
__attribute__((target("sha,sse4.1"))) void compress_sha_ni_pair(uint32_t* state, const uint8_t* blocks, size_t count) {
  const __m128i* constants = reinterpret_cast<const __m128i*>(round_constants);
  Halves x = halves_of(state), y = halves_of(state + 8);
  const uint8_t* others = blocks + 64 * count;
  for (size_t i = 0; i < count; ++i) {
    const Halves before_x = x, before_y = y;
    Message m = message_of(blocks + 64 * i), n = message_of(others + 64 * i);
    for (int group = 0; group < 16; ++group) {
      const __m128i k = _mm_load_si128(constants + group);
      four_rounds(x, m, k);
      four_rounds(y, n, k);
    }
    add(x, before_x);
    add(y, before_y);
  }
  put_back(x, state);
  put_back(y, state + 8);
}

// Asked once: on a virtual machine the cpuid instruction takes longer than hashing fifty leaves.
int sha_ni_known = -1;

bool has_sha_ni() {
  int known = __atomic_load_n(&sha_ni_known, __ATOMIC_RELAXED);
  if (known < 0) {
    uint32_t eax = 7, ebx = 0, ecx = 0, edx = 0;
    asm("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    known = int(ebx >> 29 & 1u);
    __atomic_store_n(&sha_ni_known, known, __ATOMIC_RELAXED);
  }
  return known != 0;
}
#endif

Compress pick(int portable) {
#if defined(__x86_64__)
  if (!portable && has_sha_ni()) return compress_sha_ni;
#else
  (void)portable;
#endif
  return compress_portable;
}

// The last blocks of SHA256(prefix || data) for data of at most 118 bytes; returns how many.
[[maybe_unused]] size_t pad(uint8_t* blocks, uint8_t prefix, const uint8_t* data, size_t size) {
  const size_t count = size <= 54 ? 1 : 2;
  blocks[0] = prefix;
  memcpy(blocks + 1, data, size);
  blocks[size + 1] = 0x80;
  memset(blocks + size + 2, 0, count * 64 - 8 - (size + 2));
  store_big(blocks + count * 64 - 8, 0);
  store_big(blocks + count * 64 - 4, uint32_t(size + 1) * 8);
  return count;
}

void store_state(uint8_t* out, const uint32_t* state) {
  for (int i = 0; i < 8; ++i) store_big(out + 4 * i, state[i]);
}

// SHA256(prefix || data)
void prefixed(Compress compress, uint8_t prefix, const uint8_t* data, size_t size, uint8_t* out) {
  uint32_t state[8];
  memcpy(state, initial, sizeof state);
  uint8_t last[128];
  last[0] = prefix;
  const uint64_t bits = (uint64_t(size) + 1) * 8;
  size_t held = 1;
  if (size >= 63) {
    memcpy(last + 1, data, 63);
    compress(state, last, 1);
    data += 63, size -= 63;
    compress(state, data, size / 64);
    data += size / 64 * 64, size %= 64;
    held = 0;
  }
  if (size != 0) memcpy(last + held, data, size);
  held += size;
  last[held++] = 0x80;
  const size_t blocks = held <= 56 ? 1 : 2;
  memset(last + held, 0, blocks * 64 - 8 - held);
  store_big(last + blocks * 64 - 8, uint32_t(bits >> 32));
  store_big(last + blocks * 64 - 4, uint32_t(bits));
  compress(state, last, blocks);
  store_state(out, state);
}

// SHA256(prefix || record) of n records, one behind the other.
void prefixed_each(uint8_t prefix, const uint8_t* records, size_t width, size_t n, uint8_t* out, int portable) {
  size_t i = 0;
#if defined(__x86_64__)
  if (!portable && width <= 118 && has_sha_ni()) {
    for (; i + 2 <= n; i += 2) {
      uint8_t blocks[256];
      uint32_t state[16];
      memcpy(state, initial, sizeof initial);
      memcpy(state + 8, initial, sizeof initial);
      const size_t count = pad(blocks, prefix, records + width * i, width);
      pad(blocks + 64 * count, prefix, records + width * (i + 1), width);
      compress_sha_ni_pair(state, blocks, count);
      store_state(out + 32 * i, state);
      store_state(out + 32 * (i + 1), state + 8);
    }
  }
#endif
  const Compress compress = pick(portable);
  for (; i < n; ++i) prefixed(compress, prefix, records + width * i, width, out + 32 * i);
}

}  // namespace

int sha_instructions() { return pick(0) != compress_portable; }

void leaf_hashes(const uint8_t* records, size_t width, size_t n, uint8_t* out, int portable) {
  prefixed_each(0, records, width, n, out, portable);
}

void node_hashes(const uint8_t* pairs, size_t n, uint8_t* out, int portable) {
  prefixed_each(1, pairs, 64, n, out, portable);
}

size_t frontier_extend(uint64_t size, uint8_t* frontier, const uint8_t* leaves, size_t n, int portable) {
  const Compress compress = pick(portable);
  size_t count = size_t(__builtin_popcountll(size));
  for (size_t i = 0; i < n; ++i, ++size) {
    memcpy(frontier + 32 * count++, leaves + 32 * i, 32);
    for (uint64_t carry = size; carry & 1; carry >>= 1) {
      --count;
      prefixed(compress, 1, frontier + 32 * (count - 1), 64, frontier + 32 * (count - 1));
    }
  }
  return count;
}

int inclusion_root(uint64_t index, uint64_t size, uint8_t* hash, const uint8_t* proof, size_t count, int portable) {
  const Compress compress = pick(portable);
  uint64_t fn = index, sn = size - 1;
  uint8_t pair[64];
  for (size_t i = 0; i < count; ++i) {
    if (sn == 0) return 0;
    const bool left = (fn & 1) != 0 || fn == sn;
    memcpy(pair + (left ? 0 : 32), proof + 32 * i, 32);
    memcpy(pair + (left ? 32 : 0), hash, 32);
    prefixed(compress, 1, pair, 64, hash);
    if (left)
      for (; fn != 0 && (fn & 1) == 0; fn >>= 1) sn >>= 1;
    fn >>= 1, sn >>= 1;
  }
  return sn == 0;
}

void frontier_root(const uint8_t* frontier, size_t count, uint8_t* out, int portable) {
  const Compress compress = pick(portable);
  uint8_t pair[64];
  memcpy(out, frontier + 32 * (count - 1), 32);
  for (size_t i = count - 1; i != 0; --i) {
    memcpy(pair, frontier + 32 * (i - 1), 32);
    memcpy(pair + 32, out, 32);
    prefixed(compress, 1, pair, 64, out);
  }
}

}  // namespace DW_ISA

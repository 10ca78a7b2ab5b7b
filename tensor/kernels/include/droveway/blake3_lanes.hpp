// The rounds of BLAKE3 on vectors: every lane of a vector holds an input of its own. Source: the BLAKE3 paper, sections
// 2.1 to 2.5.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace DW_ISA {
namespace {

#if defined(DW_ISA_V4)
constexpr int lanes = 16;
#elif defined(DW_ISA_V3)
constexpr int lanes = 8;
#else
constexpr int lanes = 4;
#endif
using Words = uint32_t __attribute__((vector_size(4 * lanes)));

constexpr uint32_t chunk_start = 1, chunk_end = 2, parent = 4, root = 8, keyed = 16, derive_context = 32,
                   derive_material = 64;
constexpr size_t chunk_bytes = 1024, block_bytes = 64, hash_size = 32;
constexpr uint32_t iv[8] = {0x6A09E667u, 0xBB67AE85u, 0x3C6EF372u, 0xA54FF53Au,
                            0x510E527Fu, 0x9B05688Cu, 0x1F83D9ABu, 0x5BE0CD19u};

// Which message word goes where in round r: the permutation applied r times.
struct Schedule {
  uint8_t word[7][16];
};

constexpr Schedule make_schedule() {
  constexpr uint8_t permutation[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
  Schedule s{};
  for (int i = 0; i < 16; ++i) s.word[0][i] = uint8_t(i);
  for (int r = 1; r < 7; ++r)
    for (int i = 0; i < 16; ++i) s.word[r][i] = s.word[r - 1][permutation[i]];
  return s;
}

constexpr Schedule schedule = make_schedule();

template <int n, class Word>
inline Word rotate_right(Word x) {
  return (x >> n) | (x << (32 - n));
}

template <class Word>
inline void quarter(Word& a, Word& b, Word& c, Word& d, Word first, Word second) {
  a += b + first;
  d = rotate_right<16>(d ^ a);
  c += d;
  b = rotate_right<12>(b ^ c);
  a += b + second;
  d = rotate_right<8>(d ^ a);
  c += d;
  b = rotate_right<7>(b ^ c);
}

template <int r, class Word>
inline void round(Word (&v)[16], const Word (&m)[16]) {
  constexpr const uint8_t* w = schedule.word[r];
  quarter(v[0], v[4], v[8], v[12], m[w[0]], m[w[1]]);
  quarter(v[1], v[5], v[9], v[13], m[w[2]], m[w[3]]);
  quarter(v[2], v[6], v[10], v[14], m[w[4]], m[w[5]]);
  quarter(v[3], v[7], v[11], v[15], m[w[6]], m[w[7]]);
  quarter(v[0], v[5], v[10], v[15], m[w[8]], m[w[9]]);
  quarter(v[1], v[6], v[11], v[12], m[w[10]], m[w[11]]);
  quarter(v[2], v[7], v[8], v[13], m[w[12]], m[w[13]]);
  quarter(v[3], v[4], v[9], v[14], m[w[14]], m[w[15]]);
}

template <class Word>
inline void rounds(Word (&v)[16], const Word (&m)[16]) {
  round<0>(v, m);
  round<1>(v, m);
  round<2>(v, m);
  round<3>(v, m);
  round<4>(v, m);
  round<5>(v, m);
  round<6>(v, m);
}

#if defined(DW_ISA_V4)
#define DW_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define DW_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(DW_ISA_V3)
#define DW_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define DW_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
#define DW_LOW 0, 4, 1, 5
#define DW_HIGH 2, 6, 3, 7
#endif

// Interleaving row i with row i + half rotates the bits of an element's (row, column); log2(lanes) times swaps them.
inline void transpose(Words* rows) {
  for (int step = lanes; step > 1; step /= 2) {
    Words mixed[lanes];
    for (int i = 0; i < lanes / 2; ++i) {
      mixed[2 * i] = __builtin_shufflevector(rows[i], rows[i + lanes / 2], DW_LOW);
      mixed[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + lanes / 2], DW_HIGH);
    }
    for (int i = 0; i < lanes; ++i) rows[i] = mixed[i];
  }
}

#undef DW_LOW
#undef DW_HIGH

inline Words load(const uint32_t* p) {
  Words x;
  memcpy(&x, p, sizeof x);
  return x;
}

}  // namespace
}  // namespace DW_ISA

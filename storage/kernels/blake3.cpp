// BLAKE3 of inputs of one chunk, in derive-key mode. The four rows of the state are vectors of four words; the
// diagonal step rotates rows 1, 2 and 3. Source: the BLAKE3 paper, sections 2.2 and 2.3.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.hpp"

namespace DW_ISA {
namespace {

using Row = uint32_t __attribute__((vector_size(16)));

constexpr uint32_t chunk_start = 1, chunk_end = 2, root = 8, derive_context = 32, derive_material = 64;
constexpr Row iv_low = {0x6A09E667u, 0xBB67AE85u, 0x3C6EF372u, 0xA54FF53Au};
constexpr Row iv_high = {0x510E527Fu, 0x9B05688Cu, 0x1F83D9ABu, 0x5BE0CD19u};

struct Key {
  Row low, high;
};

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

template <int n>
inline Row rotate_right(Row x) {
  return (x >> n) | (x << (32 - n));
}

inline void quarters(Row& a, Row& b, Row& c, Row& d, Row first, Row second) {
  a += b + first;
  d = rotate_right<16>(d ^ a);
  c += d;
  b = rotate_right<12>(b ^ c);
  a += b + second;
  d = rotate_right<8>(d ^ a);
  c += d;
  b = rotate_right<7>(b ^ c);
}

template <int r>
inline void round(Row& a, Row& b, Row& c, Row& d, const uint32_t* m) {
  constexpr const uint8_t* w = schedule.word[r];
  quarters(a, b, c, d, Row{m[w[0]], m[w[2]], m[w[4]], m[w[6]]}, Row{m[w[1]], m[w[3]], m[w[5]], m[w[7]]});
  b = __builtin_shufflevector(b, b, 1, 2, 3, 0);
  c = __builtin_shufflevector(c, c, 2, 3, 0, 1);
  d = __builtin_shufflevector(d, d, 3, 0, 1, 2);
  quarters(a, b, c, d, Row{m[w[8]], m[w[10]], m[w[12]], m[w[14]]}, Row{m[w[9]], m[w[11]], m[w[13]], m[w[15]]});
  b = __builtin_shufflevector(b, b, 3, 0, 1, 2);
  c = __builtin_shufflevector(c, c, 2, 3, 0, 1);
  d = __builtin_shufflevector(d, d, 1, 2, 3, 0);
}

inline Key compress(Key key, const uint8_t* block, uint32_t size, uint32_t flags) {
  uint32_t m[16];
  if (size == 64) {
    memcpy(m, block, 64);
  } else {
    memset(m, 0, 64);
    if (size != 0) memcpy(m, block, size);
  }
  Row a = key.low, b = key.high, c = iv_low, d = {0, 0, size, flags};
  round<0>(a, b, c, d, m);
  round<1>(a, b, c, d, m);
  round<2>(a, b, c, d, m);
  round<3>(a, b, c, d, m);
  round<4>(a, b, c, d, m);
  round<5>(a, b, c, d, m);
  round<6>(a, b, c, d, m);
  return {a ^ c, b ^ d};
}

Key chunk(Key key, const uint8_t* data, size_t size, uint32_t mode) {
  uint32_t flags = mode | chunk_start;
  for (; size > 64; data += 64, size -= 64) {
    key = compress(key, data, 64, flags);
    flags = mode;
  }
  return compress(key, data, uint32_t(size), flags | chunk_end | root);
}

}  // namespace

void derive_chunks(const uint8_t* context, size_t context_bytes, const uint8_t* const* data, const size_t* sizes,
                   size_t n, uint8_t* out) {
  const Key key = chunk({iv_low, iv_high}, context, context_bytes, derive_context);
  for (size_t i = 0; i < n; ++i) {
    const Key id = chunk(key, data[i], sizes[i], derive_material);
    memcpy(out + 32 * i, &id.low, 16);
    memcpy(out + 32 * i + 16, &id.high, 16);
  }
}

}  // namespace DW_ISA

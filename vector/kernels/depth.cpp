// Stable radix sort of float keys, least significant digit first; twin: vector/depth_ref.py.
//
// The input is cut into blocks of a fixed size. In each pass every block counts its digits, the counts are summed in the
// order (digit, block), and every block moves its entries to where those sums say: equal digits keep their order, whoever
// runs a block.
#include <string.h>

#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kBlock = 32768;  // two of its passes' 256 kB stay in a second-level cache
constexpr int kDigitBits = 11;    // three passes; 2,048 counters fit the first-level cache
constexpr size_t kDigits = size_t(1) << kDigitBits;

struct Entry {
  uint32_t key, item;
};

struct Sort {
  const float* z;
  size_t n;
  Entry *from, *to;
  uint32_t* order;   // written by the last pass
  uint32_t* counts;  // [blocks][kDigits]
  int shift;
  uint8_t* nan;  // [blocks]: 1 where a key is NaN
};

size_t blocks_of(size_t n) { return (n + kBlock - 1) / kBlock; }
size_t end_of(const Sort& s, size_t block) {
  const size_t end = (block + 1) * kBlock;
  return end < s.n ? end : s.n;
}

// Ascending as unsigned numbers; both zeros have the key of +0.
uint32_t key_of(uint32_t u) {
  if (u == 0x80000000u) u = 0;
  return u >> 31 ? ~u : u | 0x80000000u;
}

void make_keys(void* context, size_t block) {
  const Sort& s = *static_cast<const Sort*>(context);
  bool nan = false;
  for (size_t i = block * kBlock; i < end_of(s, block); ++i) {
    uint32_t u;
    memcpy(&u, s.z + i, 4);
    nan |= (u & 0x7FFFFFFFu) > 0x7F800000u;
    s.from[i] = {key_of(u), uint32_t(i)};
  }
  s.nan[block] = nan;
}

void count(void* context, size_t block) {
  const Sort& s = *static_cast<const Sort*>(context);
  uint32_t* counts = s.counts + block * kDigits;
  memset(counts, 0, kDigits * sizeof *counts);
  for (size_t i = block * kBlock; i < end_of(s, block); ++i) ++counts[(s.from[i].key >> s.shift) & (kDigits - 1)];
}

void move(void* context, size_t block) {
  const Sort& s = *static_cast<const Sort*>(context);
  uint32_t* place = s.counts + block * kDigits;
  const bool last = s.shift == 2 * kDigitBits;
  for (size_t i = block * kBlock; i < end_of(s, block); ++i) {
    const Entry entry = s.from[i];
    const uint32_t where = place[(entry.key >> s.shift) & (kDigits - 1)]++;
    if (last) s.order[where] = entry.item;
    else s.to[where] = entry;
  }
}

}  // namespace

size_t depth_workspace(size_t n) {
  return 2 * n * sizeof(Entry) + blocks_of(n) * (kDigits * sizeof(uint32_t) + 1);
}

bool depth_order(const float* z, size_t n, uint32_t* order, void* workspace) {
  const size_t blocks = blocks_of(n);
  Entry* entries = static_cast<Entry*>(workspace);
  uint32_t* counts = reinterpret_cast<uint32_t*>(entries + 2 * n);
  Sort s{z, n, entries, entries + n, order, counts, 0, reinterpret_cast<uint8_t*>(counts + blocks * kDigits)};
  dw_parallel(blocks, make_keys, &s);
  for (size_t b = 0; b < blocks; ++b)
    if (s.nan[b]) return false;
  for (s.shift = 0; s.shift <= 2 * kDigitBits; s.shift += kDigitBits) {
    dw_parallel(blocks, count, &s);
    uint32_t sum = 0;
    for (size_t digit = 0; digit < kDigits; ++digit)
      for (size_t b = 0; b < blocks; ++b) {
        uint32_t& place = counts[b * kDigits + digit];
        const uint32_t number = place;
        place = sum;
        sum += number;
      }
    dw_parallel(blocks, move, &s);
    Entry* spare = s.from;
    s.from = s.to;
    s.to = spare;
  }
  return true;
}

}  // namespace DW_ISA

// BLAKE3 of many inputs at once: every lane of a vector holds a chunk, or a parent, of its own, and takes the next one
// as soon as it is done. Source: the BLAKE3 paper, sections 2.1 to 2.5 and 5.3.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "droveway/blake3_lanes.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

// One input of at most one chunk, a word at a time.
void single(uint32_t (&h)[8], const uint8_t* data, size_t size, uint32_t mode) {
  uint32_t flags = mode | chunk_start;
  for (bool last = false; !last;) {
    last = size <= block_bytes;
    const size_t held = last ? size : block_bytes;
    uint32_t m[16] = {};
    if (held != 0) memcpy(m, data, held);
    uint32_t v[16];
    memcpy(v, h, 32);
    memcpy(v + 8, iv, 16);
    v[12] = v[13] = 0;
    v[14] = uint32_t(held);
    v[15] = last ? flags | chunk_end | root : flags;
    rounds(v, m);
    for (int i = 0; i < 8; ++i) h[i] = v[i] ^ v[i + 8];
    data += held, size -= held, flags = mode;
  }
}

// Inputs on their way through the lanes. Every input is at most a chunk; where it is done its 32 bytes go to `out`.
class Stream {
 public:
  Stream(const uint32_t (&key)[8], uint32_t mode) : mode_(mode) {
    memcpy(key_, key, sizeof key_);
    memset(zeros_, 0, sizeof zeros_);
    memset(tails_, 0, sizeof tails_);
    memset(state_, 0, sizeof state_);
  }

  // flags: for the first block, for the last block, for all
  void add(const uint8_t* data, size_t size, uint64_t counter, uint32_t first, uint32_t last, uint32_t all,
           uint8_t* out) {
    while (free_ == 0) step();
    const int lane = __builtin_ctz(free_);
    free_ &= free_ - 1;
    for (int i = 0; i < 8; ++i) state_[i][lane] = key_[i];
    counter_low_[lane] = uint32_t(counter), counter_high_[lane] = uint32_t(counter >> 32);
    at_[lane] = data, left_[lane] = uint32_t(size), out_[lane] = out;
    flags_[lane] = mode_ | all | first, next_flags_[lane] = mode_ | all, last_flags_[lane] = last;
  }

  void drain() {
    while (free_ != every) step();
  }

 private:
  static constexpr uint32_t every = uint32_t((uint64_t(1) << lanes) - 1);

  void step() {
    const uint8_t* block[lanes];
    alignas(64) uint32_t length[lanes];
    alignas(64) uint32_t flags[lanes];
    uint32_t done = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      block[lane] = zeros_, length[lane] = 0, flags[lane] = 0;
      if (free_ >> lane & 1) continue;
      const uint32_t left = left_[lane];
      block[lane] = at_[lane], length[lane] = block_bytes, flags[lane] = flags_[lane];
      flags_[lane] = next_flags_[lane];
      if (left > block_bytes) {
        at_[lane] += block_bytes, left_[lane] = left - block_bytes;
        continue;
      }
      done |= 1u << lane;
      length[lane] = left, flags[lane] |= last_flags_[lane];
      if (left == block_bytes) continue;
      memset(tails_[lane], 0, block_bytes);
      if (left != 0) memcpy(tails_[lane], at_[lane], left);
      block[lane] = tails_[lane];
    }
    compress(block, length, flags);
    for (uint32_t rest = done; rest != 0; rest &= rest - 1) {
      const int lane = __builtin_ctz(rest);
      uint32_t h[8];
      for (int i = 0; i < 8; ++i) h[i] = state_[i][lane];
      memcpy(out_[lane], h, hash_size);
    }
    free_ |= done;
  }

  void compress(const uint8_t* const* block, const uint32_t* length, const uint32_t* flags) {
    Words m[16];
    for (int part = 0; part < 16; part += lanes) {
      for (int lane = 0; lane < lanes; ++lane) memcpy(&m[part + lane], block[lane] + 4 * part, sizeof(Words));
      transpose(m + part);
    }
    Words v[16];
    for (int i = 0; i < 8; ++i) v[i] = load(state_[i]);
    for (int i = 0; i < 4; ++i) v[8 + i] = Words{} + iv[i];
    v[12] = load(counter_low_), v[13] = load(counter_high_), v[14] = load(length), v[15] = load(flags);
    rounds(v, m);
    for (int i = 0; i < 8; ++i) {
      const Words h = v[i] ^ v[i + 8];
      memcpy(state_[i], &h, sizeof h);
    }
  }

  uint32_t mode_, free_ = every;
  uint32_t key_[8];
  alignas(64) uint32_t state_[8][lanes];
  alignas(64) uint32_t counter_low_[lanes] = {};
  alignas(64) uint32_t counter_high_[lanes] = {};
  const uint8_t* at_[lanes] = {};
  uint8_t* out_[lanes] = {};
  uint32_t left_[lanes] = {}, flags_[lanes] = {}, next_flags_[lanes] = {}, last_flags_[lanes] = {};
  uint8_t tails_[lanes][block_bytes];
  uint8_t zeros_[block_bytes];
};

inline size_t chunks_of(size_t size) { return (size + chunk_bytes - 1) / chunk_bytes; }

// The nodes above the chunks of the inputs longer than one chunk, a level at a time; the last one of a level that has
// no partner goes up as it is.
void join(Stream& stream, const size_t* sizes, size_t n, uint8_t* scratch, uint8_t* out) {
  bool more = true;
  for (size_t rounding = 0, level = 0; more; ++level, rounding = (size_t(1) << level) - 1) {
    more = false;
    uint8_t* values = scratch;
    for (size_t i = 0; i < n; ++i) {
      if (sizes[i] <= chunk_bytes) continue;
      const size_t chunks = chunks_of(sizes[i]), count = (chunks + rounding) >> level;
      for (size_t p = 0; p < count / 2; ++p)
        stream.add(values + 64 * p, block_bytes, 0, 0, count == 2 ? root : 0, parent,
                   count == 2 ? out + hash_size * i : values + hash_size * p);
      more |= count > 2;
      values += hash_size * chunks;
    }
    stream.drain();
    values = scratch;
    for (size_t i = 0; i < n; ++i) {
      if (sizes[i] <= chunk_bytes) continue;
      const size_t chunks = chunks_of(sizes[i]), count = (chunks + rounding) >> level;
      if (count > 1 && count % 2 == 1) memcpy(values + hash_size * (count / 2), values + hash_size * (count - 1), hash_size);
      values += hash_size * chunks;
    }
  }
}

}  // namespace

void derive_hashes(const uint8_t* context, size_t context_bytes, const uint8_t* const* data, const size_t* sizes,
                   size_t n, uint8_t* scratch, uint8_t* out) {
  uint32_t key[8];
  memcpy(key, iv, sizeof key);
  single(key, context, context_bytes, derive_context);
  if (n == 1 && sizes[0] <= chunk_bytes) {
    single(key, data[0], sizes[0], derive_material);
    memcpy(out, key, hash_size);
    return;
  }
  Stream stream(key, derive_material);
  uint8_t* values = scratch;
  for (size_t i = 0; i < n; ++i) {
    if (sizes[i] <= chunk_bytes) {
      stream.add(data[i], sizes[i], 0, chunk_start, chunk_end | root, 0, out + hash_size * i);
      continue;
    }
    for (size_t c = 0, at = 0; at < sizes[i]; ++c, at += chunk_bytes, values += hash_size) {
      const size_t held = sizes[i] - at < chunk_bytes ? sizes[i] - at : chunk_bytes;
      stream.add(data[i] + at, held, c, chunk_start, chunk_end, 0, values);
    }
  }
  stream.drain();
  if (values != scratch) join(stream, sizes, n, scratch, out);
}

void fingerprint(const uint8_t* key, const uint8_t* records, size_t width, size_t n, uint8_t* sum) {
  uint32_t words[8];
  memcpy(words, key, sizeof words);
  Stream stream(words, keyed);
  uint64_t total[4];
  memcpy(total, sum, sizeof total);
  constexpr size_t group = 256;
  uint8_t hashes[group * hash_size];
  for (size_t start = 0; start < n; start += group) {
    const size_t count = n - start < group ? n - start : group;
    for (size_t i = 0; i < count; ++i)
      stream.add(records + width * (start + i), width, 0, chunk_start, chunk_end | root, 0, hashes + hash_size * i);
    stream.drain();
    for (size_t i = 0; i < count; ++i) {
      uint64_t part[4];
      memcpy(part, hashes + hash_size * i, sizeof part);
      for (int j = 0; j < 4; ++j) total[j] += part[j];
    }
  }
  memcpy(sum, total, sizeof total);
}

}  // namespace DW_ISA

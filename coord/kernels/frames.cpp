// Decision frames from one buffer: the rules of each and the chain from one to the next. Twin:
// coord/frames/frame_chain_ref.py.
//
// The digest of a frame is BLAKE3 of 128 bytes, two blocks of one chunk; frames need nothing of each other for it, so
// every lane takes one.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "droveway/blake3_lanes.hpp"
#include "droveway/crc32c.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t frame_bytes = 128, crc_at = 124, digest_bytes = 16;
enum Fault : uint32_t { none, magic, version, crc, reserved, counts, flags, planner, health, frame_number, prev_digest };

template <class T>
inline T read(const uint8_t* frame, size_t at) {
  T x;
  memcpy(&x, frame + at, sizeof x);
  return x;
}

// The first rule that a frame breaks by itself, in the order of coord/frames/frame_chain_ref.py.
inline uint32_t own_fault(const uint8_t* f) {
  if (read<uint32_t>(f, 0) != 0x3146444Au) return magic;
  if (read<uint16_t>(f, 4) != 1) return version;
  if (read<uint32_t>(f, crc_at) != crc32c_of(f, crc_at)) return crc;
  if (read<uint16_t>(f, 122) != 0) return reserved;
  if (uint64_t(read<uint32_t>(f, 88)) + read<uint32_t>(f, 92) > read<uint32_t>(f, 80)) return counts;
  if ((read<uint16_t>(f, 6) & ~7u) != 0) return flags;
  if (f[120] > 4) return planner;
  if (f[121] > 4) return health;
  return none;
}

// The first 16 bytes of BLAKE3 of each of `lanes` frames.
inline void digests(const uint8_t* const* frame, uint8_t (&out)[lanes][digest_bytes]) {
  Words h[8];
  for (int i = 0; i < 8; ++i) h[i] = Words{} + iv[i];
  for (int half = 0; half < 2; ++half) {
    Words m[16];
    for (int part = 0; part < 16; part += lanes) {
      for (int lane = 0; lane < lanes; ++lane)
        memcpy(&m[part + lane], frame[lane] + block_bytes * half + 4 * part, sizeof(Words));
      transpose(m + part);
    }
    Words v[16];
    for (int i = 0; i < 8; ++i) v[i] = h[i];
    for (int i = 0; i < 4; ++i) v[8 + i] = Words{} + iv[i];
    v[12] = v[13] = Words{};
    v[14] = Words{} + uint32_t(block_bytes);
    v[15] = Words{} + (half == 0 ? chunk_start : chunk_end | root);
    rounds(v, m);
    for (int i = 0; i < 8; ++i) h[i] = v[i] ^ v[i + 8];
  }
  for (int lane = 0; lane < lanes; ++lane)
    for (int i = 0; i < 4; ++i) {
      const uint32_t word = h[i][lane];
      memcpy(out[lane] + 4 * i, &word, 4);
    }
}

}  // namespace

size_t check_frames(const uint8_t* data, const uint64_t* offsets, size_t n, bool chained, bool known, uint64_t number,
                    uint8_t* prev, uint32_t* fault) {
  *fault = none;
  for (size_t start = 0; start < n; start += lanes) {
    const size_t count = n - start < size_t(lanes) ? n - start : size_t(lanes);
    const uint8_t* frame[lanes];
    for (size_t i = 0; i < size_t(lanes); ++i) {
      const size_t at = start + (i < count ? i : count - 1);
      frame[i] = data + (offsets == nullptr ? frame_bytes * at : offsets[at]);
    }
    uint8_t digest[lanes][digest_bytes];
    if (chained) digests(frame, digest);
    for (size_t i = 0; i < count; ++i) {
      uint32_t found = own_fault(frame[i]);
      if (found == none && chained) {
        const uint64_t own = read<uint64_t>(frame[i], 8);
        if (known && own != number) found = frame_number;
        else if (known && memcmp(frame[i] + 64, prev, digest_bytes) != 0) found = prev_digest;
        number = own + 1, known = true;
        if (found == none) memcpy(prev, digest[i], digest_bytes);
      }
      if (found != none) {
        *fault = found;
        return start + i;
      }
    }
  }
  return n;
}

}  // namespace DW_ISA

// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), by the processor's instruction on x86, by table on arm64.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace DW_ISA {
namespace {

#if defined(__x86_64__)
inline uint32_t crc32c_of(const uint8_t* data, size_t size) {
  uint64_t crc = 0xFFFFFFFFu;
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word;
    memcpy(&word, data, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  uint32_t rest = uint32_t(crc);
  for (; size != 0; --size) rest = _mm_crc32_u8(rest, *data++);
  return ~rest;
}
#else
struct Table {
  uint32_t entry[256];
};

constexpr Table make_table() {
  Table t{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0);
    t.entry[byte] = crc;
  }
  return t;
}

constexpr Table table = make_table();

inline uint32_t crc32c_of(const uint8_t* data, size_t size) {
  uint32_t crc = 0xFFFFFFFFu;
  for (; size != 0; --size) crc = (crc >> 8) ^ table.entry[(crc ^ *data++) & 0xFF];
  return ~crc;
}
#endif

}  // namespace
}  // namespace DW_ISA

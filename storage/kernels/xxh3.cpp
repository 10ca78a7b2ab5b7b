// XXH3, 64 bits, without a seed and with its own secret: what RocksDB's tables carry for every block. 64-bit words are
// read as they lie: both processors are little-endian. Twin: storage/xxh3_ref.py.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.hpp"

namespace DW_ISA {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr uint64_t p32_1 = 0x9E3779B1u, p32_2 = 0x85EBCA77u, p32_3 = 0xC2B2AE3Du;
constexpr uint64_t p64_1 = 0x9E3779B185EBCA87u, p64_2 = 0xC2B2AE3D27D4EB4Fu, p64_3 = 0x165667B19E3779F9u;
constexpr uint64_t p64_4 = 0x85EBCA77C2B2AE63u, p64_5 = 0x27D4EB2F165667C5u;
constexpr size_t lanes = 8, stripe_bytes = 64, block_stripes = 16;

constexpr uint8_t secret[192] = {
    0xB8, 0xFE, 0x6C, 0x39, 0x23, 0xA4, 0x4B, 0xBE, 0x7C, 0x01, 0x81, 0x2C, 0xF7, 0x21, 0xAD, 0x1C,
    0xDE, 0xD4, 0x6D, 0xE9, 0x83, 0x90, 0x97, 0xDB, 0x72, 0x40, 0xA4, 0xA4, 0xB7, 0xB3, 0x67, 0x1F,
    0xCB, 0x79, 0xE6, 0x4E, 0xCC, 0xC0, 0xE5, 0x78, 0x82, 0x5A, 0xD0, 0x7D, 0xCC, 0xFF, 0x72, 0x21,
    0xB8, 0x08, 0x46, 0x74, 0xF7, 0x43, 0x24, 0x8E, 0xE0, 0x35, 0x90, 0xE6, 0x81, 0x3A, 0x26, 0x4C,
    0x3C, 0x28, 0x52, 0xBB, 0x91, 0xC3, 0x00, 0xCB, 0x88, 0xD0, 0x65, 0x8B, 0x1B, 0x53, 0x2E, 0xA3,
    0x71, 0x64, 0x48, 0x97, 0xA2, 0x0D, 0xF9, 0x4E, 0x38, 0x19, 0xEF, 0x46, 0xA9, 0xDE, 0xAC, 0xD8,
    0xA8, 0xFA, 0x76, 0x3F, 0xE3, 0x9C, 0x34, 0x3F, 0xF9, 0xDC, 0xBB, 0xC7, 0xC7, 0x0B, 0x4F, 0x1D,
    0x8A, 0x51, 0xE0, 0x4B, 0xCD, 0xB4, 0x59, 0x31, 0xC8, 0x9F, 0x7E, 0xC9, 0xD9, 0x78, 0x73, 0x64,
    0xEA, 0xC5, 0xAC, 0x83, 0x34, 0xD3, 0xEB, 0xC3, 0xC5, 0x81, 0xA0, 0xFF, 0xFA, 0x13, 0x63, 0xEB,
    0x17, 0x0D, 0xDD, 0x51, 0xB7, 0xF0, 0xDA, 0x49, 0xD3, 0x16, 0x55, 0x26, 0x29, 0xD4, 0x68, 0x9E,
    0x2B, 0x16, 0xBE, 0x58, 0x7D, 0x47, 0xA1, 0xFC, 0x8F, 0xF8, 0xB8, 0xD1, 0x7A, 0xD0, 0x31, 0xCE,
    0x45, 0xCB, 0x3A, 0x8F, 0x95, 0x16, 0x04, 0x28, 0xAF, 0xD7, 0xFB, 0xCA, 0xBB, 0x4B, 0x40, 0x7E,
};

inline uint32_t u32(const uint8_t* p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return x;
}

inline uint64_t u64(const uint8_t* p) {
  uint64_t x;
  memcpy(&x, p, 8);
  return x;
}

inline uint64_t key(size_t at) { return u64(secret + at); }

inline uint64_t rotated(uint64_t x, int n) { return x << n | x >> (64 - n); }

inline uint64_t folded(uint64_t a, uint64_t b) {
  const Wide product = Wide(a) * b;
  return uint64_t(product) ^ uint64_t(product >> 64);
}

inline uint64_t avalanche(uint64_t h) {
  h = (h ^ h >> 37) * 0x165667919E3779F9u;
  return h ^ h >> 32;
}

inline uint64_t old_avalanche(uint64_t h) {
  h = (h ^ h >> 33) * p64_2;
  h = (h ^ h >> 29) * p64_3;
  return h ^ h >> 32;
}

inline uint64_t mixed(const uint8_t* p, size_t at) { return folded(u64(p) ^ key(at), u64(p + 8) ^ key(at + 8)); }

// Up to 16 bytes.
uint64_t of_few(const uint8_t* p, size_t n) {
  if (n > 8) {
    const uint64_t low = u64(p) ^ key(24) ^ key(32), high = u64(p + n - 8) ^ key(40) ^ key(48);
    return avalanche(n + __builtin_bswap64(low) + high + folded(low, high));
  }
  if (n >= 4) {
    uint64_t h = (u32(p + n - 4) + (uint64_t(u32(p)) << 32)) ^ key(8) ^ key(16);
    h ^= rotated(h, 49) ^ rotated(h, 24);
    h *= 0x9FB21C651E98DF25u;
    h = (h ^ ((h >> 35) + n)) * 0x9FB21C651E98DF25u;
    return h ^ h >> 28;
  }
  if (n == 0) return old_avalanche(key(56) ^ key(64));
  const uint32_t h = uint32_t(p[0]) << 16 | uint32_t(p[n >> 1]) << 24 | p[n - 1] | uint32_t(n) << 8;
  return old_avalanche(h ^ u32(secret) ^ u32(secret + 4));
}

// 17 to 240 bytes.
uint64_t of_some(const uint8_t* p, size_t n) {
  uint64_t sum = n * p64_1;
  if (n <= 128) {
    for (size_t i = 0; i <= (n - 1) / 32; ++i)
      sum += mixed(p + 16 * i, 32 * i) + mixed(p + n - 16 * i - 16, 32 * i + 16);
    return avalanche(sum);
  }
  for (size_t i = 0; i < 8; ++i) sum += mixed(p + 16 * i, 16 * i);
  sum = avalanche(sum);
  for (size_t i = 8; i < n / 16; ++i) sum += mixed(p + 16 * i, 16 * (i - 8) + 3);
  return avalanche(sum + mixed(p + n - 16, 119));
}

inline void accumulate(uint64_t* sums, const uint8_t* p, size_t at) {
  uint64_t values[lanes];
  memcpy(values, p, stripe_bytes);
  for (size_t i = 0; i < lanes; ++i) {
    const uint64_t keyed = values[i] ^ key(at + 8 * i);
    sums[i] += values[i ^ 1] + (keyed & 0xFFFFFFFFu) * (keyed >> 32);
  }
}

// More than 240 bytes: all whole stripes before the last byte, and the last 64 bytes.
uint64_t of_many(const uint8_t* p, size_t n) {
  uint64_t sums[lanes] = {p32_3, p64_1, p64_2, p64_3, p64_4, p32_2, p64_5, p32_1};
  const size_t stripes = (n - 1) / stripe_bytes;
  for (size_t first = 0; first < stripes; first += block_stripes) {
    const size_t count = stripes - first < block_stripes ? stripes - first : block_stripes;
    for (size_t i = 0; i < count; ++i) accumulate(sums, p + stripe_bytes * (first + i), 8 * i);
    if (count == block_stripes)
      for (size_t i = 0; i < lanes; ++i) sums[i] = (sums[i] ^ sums[i] >> 47 ^ key(128 + 8 * i)) * p32_1;
  }
  accumulate(sums, p + n - stripe_bytes, 121);
  uint64_t sum = n * p64_1;
  for (size_t i = 0; i < 4; ++i) sum += folded(sums[2 * i] ^ key(11 + 16 * i), sums[2 * i + 1] ^ key(19 + 16 * i));
  return avalanche(sum);
}

}  // namespace

uint64_t xxh3(const uint8_t* data, size_t size) {
  return size <= 16 ? of_few(data, size) : size <= 240 ? of_some(data, size) : of_many(data, size);
}

}  // namespace DW_ISA

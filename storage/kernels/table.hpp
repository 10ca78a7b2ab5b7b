// Every kernel of storage, once per instruction set. A field is a pointer, its comment the contract.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "droveway/selftest.hpp"
#include "event_format.hpp"

namespace droveway {

constexpr size_t blake3_chunk_bytes = 1024;  // the longest input of a BLAKE3 hash without a tree
constexpr size_t hash_bytes = 32;
constexpr size_t frontier_hashes_max = 64;

// `portable` = 1 keeps SHA-256 off the processor's own instructions: the same bytes, for tests and for CPUs without.
struct StorageTable {
  // BLAKE3 in derive-key mode of n inputs of any length; the context is at most blake3_chunk_bytes; scratch: 32 bytes
  // for each chunk of the inputs longer than one; out: 32 bytes each
  void (*derive_hashes)(const uint8_t* context, size_t context_bytes, const uint8_t* const* data, const size_t* sizes,
                        size_t n, uint8_t* scratch, uint8_t* out);
  // adds the keyed BLAKE3 of n records of `width` <= blake3_chunk_bytes to `sum`, four little-endian u64 modulo 2^64
  void (*fingerprint)(const uint8_t* key, const uint8_t* records, size_t width, size_t n, uint8_t* sum);
  // the fields of n events; returns how many there are before the first one that is not canonical
  size_t (*parse_events)(const uint8_t* const* data, const size_t* sizes, size_t n, EventFields* out);
  // the bytes of an event, returns how many; only counts them where out is null
  size_t (*write_event)(const EventFields& fields, uint8_t* out);
  // SHA256(0x00 || record) of n records of `width` bytes; out: 32 bytes each
  void (*leaf_hashes)(const uint8_t* records, size_t width, size_t n, uint8_t* out, int portable);
  // SHA256(0x01 || pair) of n pairs of 64 bytes; out: 32 bytes each
  void (*node_hashes)(const uint8_t* pairs, size_t n, uint8_t* out, int portable);
  // appends n leaf hashes to the frontier of a tree of `size` leaves, in place (room for frontier_hashes_max);
  // returns the number of hashes that it then has
  size_t (*frontier_extend)(uint64_t size, uint8_t* frontier, const uint8_t* leaves, size_t n, int portable);
  // the root over a frontier of count >= 1 hashes
  void (*frontier_root)(const uint8_t* frontier, size_t count, uint8_t* out, int portable);
  // walks up a proof of count hashes from the leaf hash in `hash`, index < size, to what should be the root, in place; 1
  // where the proof has the right number of hashes (RFC 9162, section 2.1.3.2)
  int (*inclusion_root)(uint64_t index, uint64_t size, uint8_t* hash, const uint8_t* proof, size_t count, int portable);
  // 1 where SHA-256 runs on the processor's own instructions
  int (*sha_instructions)();
  // CRC-32C (Castagnoli)
  uint32_t (*crc32c)(const uint8_t* data, size_t size);
  // XXH3, 64 bits, seed 0
  uint64_t (*xxh3)(const uint8_t* data, size_t size);
};

void storage_self_test(const StorageTable& table, SelfTestEmit emit, void* context);

}  // namespace droveway

#if defined(__x86_64__)
namespace isa_v3 { extern const droveway::StorageTable storage_table; }
namespace isa_v4 { extern const droveway::StorageTable storage_table; }
#else
namespace isa_neon { extern const droveway::StorageTable storage_table; }
#endif

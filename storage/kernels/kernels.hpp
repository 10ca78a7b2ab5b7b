// Declarations of the kernels of one instruction set, for table.cpp.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "event_format.hpp"

namespace DW_ISA {
void derive_hashes(const uint8_t* context, size_t context_bytes, const uint8_t* const* data, const size_t* sizes,
                   size_t n, uint8_t* scratch, uint8_t* out);
void fingerprint(const uint8_t* key, const uint8_t* records, size_t width, size_t n, uint8_t* sum);
size_t parse_events(const uint8_t* const* data, const size_t* sizes, size_t n, droveway::EventFields* out);
size_t write_event(const droveway::EventFields& fields, uint8_t* out);
void leaf_hashes(const uint8_t* records, size_t width, size_t n, uint8_t* out, int portable);
void node_hashes(const uint8_t* pairs, size_t n, uint8_t* out, int portable);
size_t frontier_extend(uint64_t size, uint8_t* frontier, const uint8_t* leaves, size_t n, int portable);
void frontier_root(const uint8_t* frontier, size_t count, uint8_t* out, int portable);
int inclusion_root(uint64_t index, uint64_t size, uint8_t* hash, const uint8_t* proof, size_t count, int portable);
int sha_instructions();
uint32_t crc32c(const uint8_t* data, size_t size);
uint64_t xxh3(const uint8_t* data, size_t size);
}  // namespace DW_ISA

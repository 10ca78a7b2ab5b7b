// The fields of an event v1, as they lie in its bytes (docs/formats/event.md).
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace droveway {

constexpr size_t event_bytes_max = size_t(16) << 20;
constexpr size_t name_bytes_max = 64;  // of the producer, and of the kind
constexpr size_t parents_max = 16;

struct EventFields {
  const uint8_t* producer;
  const uint8_t* effect;
  const uint8_t* kind;
  const uint8_t* parents;  // ids of 32 bytes, the next one `parent_stride` bytes on
  uint64_t sequence, tick;
  int64_t wall_ns;
  uint32_t schema, effect_bytes;
  uint8_t producer_bytes, kind_bytes, parent_count, parent_stride;
  uint8_t has_wall;
};

}  // namespace droveway

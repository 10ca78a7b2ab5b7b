#include "table.hpp"

#include "kernels.hpp"

namespace DW_ISA {
extern const droveway::StorageTable storage_table;
const droveway::StorageTable storage_table = {
    .derive_hashes = derive_hashes,
    .fingerprint = fingerprint,
    .parse_events = parse_events,
    .write_event = write_event,
    .leaf_hashes = leaf_hashes,
    .node_hashes = node_hashes,
    .frontier_extend = frontier_extend,
    .frontier_root = frontier_root,
    .inclusion_root = inclusion_root,
    .sha_instructions = sha_instructions,
    .crc32c = crc32c,
    .xxh3 = xxh3,
};
}  // namespace DW_ISA

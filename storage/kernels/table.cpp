#include "table.hpp"

#include "kernels.hpp"

namespace DW_ISA {
extern const droveway::StorageTable storage_table;
const droveway::StorageTable storage_table = {
    .derive_chunks = derive_chunks,
    .leaf_hashes = leaf_hashes,
    .node_hashes = node_hashes,
    .frontier_extend = frontier_extend,
    .frontier_root = frontier_root,
    .sha_instructions = sha_instructions,
    .crc32c = crc32c,
};
}  // namespace DW_ISA

#include "table.hpp"

#include "kernels.hpp"

namespace DW_ISA {
extern const droveway::VectorTable vector_table;
const droveway::VectorTable vector_table = {
    .depth_order = depth_order,
    .depth_workspace = depth_workspace,
    .pair_sums = pair_sums,
    .exact_search = exact_search,
    .exact_workspace = exact_workspace,
    .rotate = rotate,
    .rotate_workspace = rotate_workspace,
    .encode_rows = encode_rows,
    .encode_queries = encode_queries,
    .encode_workspace = encode_workspace,
    .scan = scan,
    .scan_shards = scan_shards,
    .scan_workspace = scan_workspace,
    .id_table_insert = id_table_insert,
    .id_table_find = id_table_find,
    .id_table_erase = id_table_erase,
    .id_table_move = id_table_move,
};
}  // namespace DW_ISA

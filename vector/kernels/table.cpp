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
};
}  // namespace DW_ISA

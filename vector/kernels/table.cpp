#include "table.hpp"

#include "kernels.hpp"

namespace DW_ISA {
extern const droveway::VectorTable vector_table;
const droveway::VectorTable vector_table = {
    .depth_order = depth_order,
    .depth_workspace = depth_workspace,
};
}  // namespace DW_ISA

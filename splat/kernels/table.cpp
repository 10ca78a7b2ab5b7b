#include "table.hpp"

#include "kernels.hpp"

namespace DW_ISA {
extern const droveway::SplatTable splat_table;
const droveway::SplatTable splat_table = {
    .to_bytes = to_bytes,
};
}  // namespace DW_ISA

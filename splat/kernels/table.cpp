#include "table.hpp"

#include "kernels.hpp"

namespace DW_ISA {
extern const droveway::SplatTable splat_table;
const droveway::SplatTable splat_table = {
    .project = project,
    .bin = bin,
    .blend = blend,
};
}  // namespace DW_ISA

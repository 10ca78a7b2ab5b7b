#include "table.hpp"

#include "kernels.hpp"

namespace DW_ISA {
extern const droveway::ReduceTable reduce_table;
const droveway::ReduceTable reduce_table = {
    .reduce = reduce,
    .scan = scan,
    .softmax = softmax,
    .softmax_backward = softmax_backward,
    .layer_norm = layer_norm,
    .norm_backward = norm_backward,
    .rms_norm = rms_norm,
    .cross_entropy = cross_entropy,
    .cross_entropy_backward = cross_entropy_backward,
    .sort_workspace = sort_workspace,
    .sort = sort,
    .searchsorted = searchsorted,
    .unique_groups = unique_groups,
    .bad_index = bad_index,
    .take = take,
    .gather = gather,
    .copy = copy,
    .scatter_workspace = scatter_workspace,
    .scatter = scatter,
    .nonzero = nonzero,
    .adamw = adamw,
    .sgd = sgd,
};
}  // namespace DW_ISA

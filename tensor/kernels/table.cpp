#include "table.hpp"

#include "kernels.hpp"

namespace DW_ISA {
extern const droveway::TensorTable tensor_table;
const droveway::TensorTable tensor_table = {
    .sum_f32 = sum_f32,
};
}  // namespace DW_ISA

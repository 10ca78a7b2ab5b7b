#include "table.hpp"

#include "kernels.hpp"

namespace DW_ISA {
extern const droveway::TensorTable tensor_table;
const droveway::TensorTable tensor_table = {
    .sum_f32 = sum_f32,
    .sum_f64 = sum_f64,
    .dot_f32 = dot_f32,
    .dot_f64 = dot_f64,
    .sum_columns_f32 = sum_columns_f32,
    .sum_columns_f64 = sum_columns_f64,
    .matmul_workspace_f32 = matmul_workspace_f32,
    .matmul_workspace_f64 = matmul_workspace_f64,
    .matmul_f32 = matmul_f32,
    .matmul_f64 = matmul_f64,
};
}  // namespace DW_ISA

#include "table.hpp"

#include "kernels.hpp"

namespace DW_ISA {
extern const droveway::ReduceTable reduce_table;  // reduce/table.cpp
extern const droveway::TensorTable tensor_table;
const droveway::TensorTable tensor_table = {
    .probe_lanes_f32 = probe_lanes_f32,
    .probe_lanes_f64 = probe_lanes_f64,
    .sum_f32 = sum_f32,
    .sum_f64 = sum_f64,
    .dot_f32 = dot_f32,
    .dot_f64 = dot_f64,
    .sum_rows_f32 = sum_rows_f32,
    .sum_rows_f64 = sum_rows_f64,
    .sum_columns_f32 = sum_columns_f32,
    .sum_columns_f64 = sum_columns_f64,
    .product_workspace = product_workspace,
    .product = product,
    .quantised_workspace = quantised_workspace,
    .quantised_product = quantised_product,
    .convolution_workspace = convolution_workspace,
    .convolution = convolution,
    .weight_gradient_workspace = weight_gradient_workspace,
    .weight_gradient = weight_gradient,
    .max_pool = max_pool,
    .average_pool = average_pool,
    .average_pool_gradient = average_pool_gradient,
    .pool_scatter = pool_scatter,
    .pool_gather = pool_gather,
    .exp_f32 = exp_f32,
    .log_f32 = log_f32,
    .sin_f32 = sin_f32,
    .cos_f32 = cos_f32,
    .tanh_f32 = tanh_f32,
    .erf_f32 = erf_f32,
    .sqrt_f32 = sqrt_f32,
    .exp_f64 = exp_f64,
    .log_f64 = log_f64,
    .sqrt_f64 = sqrt_f64,
    .pow_f32 = pow_f32,
    .elementwise = elementwise,
    .cast = cast,
    .reduce = &reduce_table,
    .linalg = &linalg_kernels,
    .fft = &fft_kernels,
    .sparse = &sparse_kernels,
    .philox_words = philox_words,
    .philox_uniform_f32 = philox_uniform_f32,
    .philox_normal_f32 = philox_normal_f32,
};
}  // namespace DW_ISA

// Declarations of the kernels of one instruction set, for table.cpp. Contracts: table.hpp.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "table.hpp"

namespace DW_ISA {

void probe_lanes_f32(const float* x, uint32_t* out);
void probe_lanes_f64(const double* x, uint64_t* out);

float sum_f32(const float* x, ptrdiff_t stride, size_t n);
double sum_f64(const double* x, ptrdiff_t stride, size_t n);
float dot_f32(const float* x, ptrdiff_t x_stride, const float* y, ptrdiff_t y_stride, size_t n);
double dot_f64(const double* x, ptrdiff_t x_stride, const double* y, ptrdiff_t y_stride, size_t n);
void sum_rows_f32(const float* x, ptrdiff_t row_stride, ptrdiff_t stride, size_t rows, size_t columns, float* out);
void sum_rows_f64(const double* x, ptrdiff_t row_stride, ptrdiff_t stride, size_t rows, size_t columns, double* out);
void sum_columns_f32(const float* x, ptrdiff_t row_stride, size_t rows, size_t columns, float* out);
void sum_columns_f64(const double* x, ptrdiff_t row_stride, size_t rows, size_t columns, double* out);

size_t product_workspace(const droveway::Product& product);
void product(const droveway::Product& product, void* workspace);
size_t float_product_workspace(const droveway::Product& product);  // sums in f32 or f64; m, n, k > 0
void float_product(const droveway::Product& product, void* workspace);
size_t quantised_workspace(const droveway::QuantisedProduct& product);
void quantised_product(const droveway::QuantisedProduct& product, void* workspace);
size_t convolution_workspace(const droveway::Convolution& convolution);
void convolution(const droveway::Convolution& convolution, void* workspace);
size_t weight_gradient_workspace(const droveway::WeightGradient& gradient);
void weight_gradient(const droveway::WeightGradient& gradient, void* workspace);
void max_pool(const droveway::Pooling& pooling, const void* x, void* out, int32_t* index);
void average_pool(const droveway::Pooling& pooling, const void* x, void* out);
void average_pool_gradient(const droveway::Pooling& pooling, const void* g, void* out);
void pool_scatter(const droveway::Pooling& pooling, const void* g, const int32_t* index, void* out);
void pool_gather(const droveway::Pooling& pooling, const void* x, const int32_t* index, void* out);

void exp_f32(const float* x, float* out, size_t n);
void log_f32(const float* x, float* out, size_t n);
void sin_f32(const float* x, float* out, size_t n);
void cos_f32(const float* x, float* out, size_t n);
void tanh_f32(const float* x, float* out, size_t n);
void erf_f32(const float* x, float* out, size_t n);
void sqrt_f32(const float* x, float* out, size_t n);
void pow_f32(const float* x, const float* y, size_t y_step, float* out, size_t n);
void exp_f64(const double* x, double* out, size_t n);
void log_f64(const double* x, double* out, size_t n);
void sqrt_f64(const double* x, double* out, size_t n);

droveway::ElementwiseLoop elementwise(int op, int dtype);
droveway::ElementwiseLoop cast(int from, int to);
// One function a family of dtypes; elementwise() chooses.
droveway::ElementwiseLoop elementwise_f32(int op);
droveway::ElementwiseLoop elementwise_f64(int op);
droveway::ElementwiseLoop elementwise_signed(int op, int width);
droveway::ElementwiseLoop elementwise_unsigned(int op, int width);
droveway::ElementwiseLoop elementwise_boolean(int op);
droveway::ElementwiseLoop elementwise_half(int op, int dtype);
droveway::ElementwiseLoop elementwise_c64(int op);
droveway::ElementwiseLoop elementwise_c128(int op);
droveway::ElementwiseLoop elementwise_pair(int dtype);
droveway::ElementwiseLoop elementwise_copy(size_t bytes);
droveway::ElementwiseLoop elementwise_where(size_t bytes);
void half_to_f32(int dtype, const uint16_t* x, float* out, size_t n);
void f32_to_half(int dtype, const float* x, uint16_t* out, size_t n);
droveway::ElementwiseLoop special_f32(int op);
droveway::ElementwiseLoop special_f64(int op);
droveway::ElementwiseLoop special_c64(int op);
droveway::ElementwiseLoop special_c128(int op);

extern const droveway::LinalgKernels linalg_kernels;
extern const droveway::FftKernels fft_kernels;
extern const droveway::SparseKernels sparse_kernels;

void philox_words(uint64_t key, uint64_t counter, uint32_t c2, uint32_t c3, size_t skip, uint32_t* out, size_t n);
void philox_uniform_f32(uint64_t key, uint64_t counter, size_t skip, float* out, size_t n);
void philox_normal_f32(uint64_t key, uint64_t counter, size_t skip, float* out, size_t n);
void random_draw(const droveway::RandomDraw& draw);
void random_children(const droveway::View& keys, const droveway::View& numbers, uint32_t tag, uint64_t* out);

}  // namespace DW_ISA

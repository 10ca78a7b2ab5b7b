// Every kernel of tensor, once per instruction set. A field is a pointer, its comment the contract.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "array/dtype.hpp"
#include "convolution.hpp"
#include "droveway/selftest.hpp"
#include "elementwise_ops.hpp"
#include "pooling.hpp"
#include "random.hpp"
#include "reduce/table.hpp"

namespace droveway {

// C[m, n] = A[m, k] · B[k, n], for each product of a batch. Strides in elements; a row of C is contiguous, and C overlaps
// neither factor. `dtype` is that of C and says how sums are computed: f64 in f64; f32, f16 and bf16 in f32, rounded once;
// i32 of factors of i8 and u8 exactly; other whole numbers of equal types wrapping; complex ones part by part. But for the
// bytes, factors have C's type.
struct Product {
  size_t m, n, k;
  const void* a;
  ptrdiff_t a_row, a_column;
  const void* b;
  ptrdiff_t b_row, b_column;
  void* c;
  ptrdiff_t c_row;
  Dtype a_dtype, b_dtype, dtype;
  int batch_dims = 0;  // dimensions of the batch; their sizes, and the steps of a, b and c along them
  const int64_t* batch_shape = nullptr;
  const int64_t* a_batch = nullptr;
  const int64_t* b_batch = nullptr;
  const int64_t* c_batch = nullptr;
  const void* bias = nullptr;  // n values that op_add adds to each row of C, or nullptr
  int activation = -1;         // the elementwise operation applied last, or −1
  // What is called, by any thread, for each block of rows of C that is finished, while it is in the cache; or nullptr.
  void (*finish)(void* context, size_t batch, size_t row, size_t rows, size_t column, size_t columns) = nullptr;
  void* finish_context = nullptr;
};

// c[m, n] = (the sum over groups g of k, ascending, of scale[n, g] · S + bias[n, g] · T, each fused into the sum) · a_scale[m]
// with the whole numbers S = sum of a[m, k] · code[n, k] and T = sum of a[m, k] over the group. All contiguous; codes hold
// two of 4 bits a byte, the lower one first. `group` is even, divides k, and is at most 256.
struct QuantisedProduct {
  size_t m, n, k, group;
  const int8_t* a;        // [m, k]
  const float* a_scale;   // [m]
  const uint8_t* codes;   // [n, k / 2]
  const float* scale;     // [n, k / group]
  const float* bias;
  float* c;
};

// One contiguous strip of an elementwise operation: out[i] = op(in[0][i], in[1][i], in[2][i]), i < n. out is aligned to
// its elements and may be one of the inputs; another overlap is not allowed. Inputs beyond the arity are not read.
struct Strip {
  void* out;
  const void* in[3];
  size_t n;
  int op;  // the code again: one loop serves several operations of narrow types
};
using ElementwiseLoop = void (*)(const Strip& strip);

// Words that the probes of the lane operations write: 38 results and 18 partial loads and stores; 35 and 10.
constexpr size_t kProbeWordsF32 = (38 + 2 * 18) * 16;
constexpr size_t kProbeWordsF64 = (35 + 2 * 10) * 8;

struct LinalgKernels;
struct FftKernels;
struct SparseKernels;

struct TensorTable {
  // Every lane operation on x[0 … 32) (f32) or x[0 … 16) (f64), for the self-test.
  void (*probe_lanes_f32)(const float* x, uint32_t* out);
  void (*probe_lanes_f64)(const double* x, uint64_t* out);
  // Sum of n values x[i * stride], in the fixed order of the blocked tree; sum of nothing is +0.
  float (*sum_f32)(const float* x, ptrdiff_t stride, size_t n);
  double (*sum_f64)(const double* x, ptrdiff_t stride, size_t n);
  // Sum of x[i * x_stride] · y[i * y_stride], each product fused into its accumulator, in the order of sum.
  float (*dot_f32)(const float* x, ptrdiff_t x_stride, const float* y, ptrdiff_t y_stride, size_t n);
  double (*dot_f64)(const double* x, ptrdiff_t x_stride, const double* y, ptrdiff_t y_stride, size_t n);
  // out[i] = sum over j < columns of x[i * row_stride + j * stride], each in the order of sum. out does not overlap x.
  void (*sum_rows_f32)(const float* x, ptrdiff_t row_stride, ptrdiff_t stride, size_t rows, size_t columns, float* out);
  void (*sum_rows_f64)(const double* x, ptrdiff_t row_stride, ptrdiff_t stride, size_t rows, size_t columns, double* out);
  // out[j] = sum over i of x[i * row_stride + j], each in the order of sum. out does not overlap x.
  void (*sum_columns_f32)(const float* x, ptrdiff_t row_stride, size_t rows, size_t columns, float* out);
  void (*sum_columns_f64)(const double* x, ptrdiff_t row_stride, size_t rows, size_t columns, double* out);
  // Matrix products, one chain of fused multiply-adds in each block of 256 along k. The workspace has the size that
  // product_workspace names and is aligned to 64 bytes.
  size_t (*product_workspace)(const Product& product);
  void (*product)(const Product& product, void* workspace);
  size_t (*quantised_workspace)(const QuantisedProduct& product);
  void (*quantised_product)(const QuantisedProduct& product, void* workspace);
  // Convolutions and the gradients of their weights (convolution.hpp), workspaces as above.
  size_t (*convolution_workspace)(const Convolution& convolution);
  void (*convolution)(const Convolution& convolution, void* workspace);
  size_t (*weight_gradient_workspace)(const WeightGradient& gradient);
  void (*weight_gradient)(const WeightGradient& gradient, void* workspace);
  // Pooling (pooling.hpp). The gradients' planes are contiguous, and plane_step, row_step, column_step those of g.
  void (*max_pool)(const Pooling& pooling, const void* x, void* out, int32_t* index);
  void (*average_pool)(const Pooling& pooling, const void* x, void* out);
  void (*average_pool_gradient)(const Pooling& pooling, const void* g, void* out);
  void (*pool_scatter)(const Pooling& pooling, const void* g, const int32_t* index, void* out);  // out[index] += g
  void (*pool_gather)(const Pooling& pooling, const void* x, const int32_t* index, void* out);   // out = x[index]
  // out[i] = f(x[i]), contiguous. out may be x itself; another overlap is not allowed.
  void (*exp_f32)(const float* x, float* out, size_t n);
  void (*log_f32)(const float* x, float* out, size_t n);
  void (*sin_f32)(const float* x, float* out, size_t n);
  void (*cos_f32)(const float* x, float* out, size_t n);
  void (*tanh_f32)(const float* x, float* out, size_t n);
  void (*erf_f32)(const float* x, float* out, size_t n);
  void (*sqrt_f32)(const float* x, float* out, size_t n);
  void (*exp_f64)(const double* x, double* out, size_t n);
  void (*log_f64)(const double* x, double* out, size_t n);
  void (*sqrt_f64)(const double* x, double* out, size_t n);
  // out[i] = x[i] to the power y[i * y_step]; y_step is 1, or 0 for one exponent.
  void (*pow_f32)(const float* x, const float* y, size_t y_step, float* out, size_t n);
  // The loop of an operation on inputs of a dtype (Dtype of array/dtype.hpp; where: of its second input), or nullptr
  // where there is none. An operation on float16, bfloat16 or complex may call the loops of its parts.
  ElementwiseLoop (*elementwise)(int op, int dtype);
  // The loop that converts one dtype to another (Strip.op is op_cast), or nullptr: complex to real has none.
  ElementwiseLoop (*cast)(int from, int to);
  // Reductions, normalisation, sorting, indexing, optimizer steps: reduce/table.hpp.
  const ReduceTable* reduce;
  // Decompositions of matrices (linalg.hpp).
  const LinalgKernels* linalg;
  // Discrete Fourier transforms (fft.hpp).
  const FftKernels* fft;
  // Products with sparse matrices (sparse.hpp).
  const SparseKernels* sparse;
  // Philox4x32-10: out[j] = word (skip + j) mod 4 at counter (lo, hi, c2, c3) of counter + (skip + j) div 4; skip < 4.
  void (*philox_words)(uint64_t key, uint64_t counter, uint32_t c2, uint32_t c3, size_t skip, uint32_t* out, size_t n);
  // The same words, with c2 = c3 = 0, as uniform numbers in [0, 1) and as normal ones.
  void (*philox_uniform_f32)(uint64_t key, uint64_t counter, size_t skip, float* out, size_t n);
  void (*philox_normal_f32)(uint64_t key, uint64_t counter, size_t skip, float* out, size_t n);
  // Draws for many keys (random.hpp), and children: out[i] is the first two words at counter (lo, hi, 0, tag) of
  // numbers[i] under keys[i], both of one shape.
  void (*random_draw)(const RandomDraw& draw);
  void (*random_children)(const View& keys, const View& numbers, uint32_t tag, uint64_t* out);
};

void tensor_self_test(const TensorTable& table, SelfTestEmit emit, void* context);
void linalg_self_test(const TensorTable& table, SelfTestEmit emit, void* context);  // its part in selftest_linalg.cpp

}  // namespace droveway

#if defined(__x86_64__)
namespace isa_v3 { extern const droveway::TensorTable tensor_table; }
namespace isa_v4 { extern const droveway::TensorTable tensor_table; }
#else
namespace isa_neon { extern const droveway::TensorTable tensor_table; }
#endif

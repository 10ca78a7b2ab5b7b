// Declarations of the kernels of one instruction set. Contracts: table.hpp.
#pragma once
#include "table.hpp"

namespace DW_ISA {

void reduce(droveway::Reduce op, const droveway::View& x, uint32_t axes, const droveway::View& out, double parameter);
void scan(droveway::Scan op, const droveway::View& x, int axis, const droveway::View& out, const droveway::View* indices);

void softmax(const droveway::View& x, int axis, const droveway::View& out, bool logarithm);
void softmax_backward(const droveway::View& g, const droveway::View& y, int axis, const droveway::View& out, bool logarithm);
void layer_norm(const droveway::View& x, const droveway::View* weight, const droveway::View* bias, uint32_t axes,
                double epsilon, const droveway::View& out, const droveway::View& mean, const droveway::View& rstd);
void norm_backward(const droveway::View& g, const droveway::View& x, const droveway::View* mean, const droveway::View& rstd,
                   const droveway::View* weight, uint32_t axes, const droveway::View& dx, const droveway::View* d_weight,
                   const droveway::View* d_bias);
void rms_norm(const droveway::View& x, const droveway::View* weight, uint32_t axes, double epsilon,
              const droveway::View& out, const droveway::View& rstd);
void cross_entropy(const droveway::CrossEntropy& c, const droveway::View& loss, const droveway::View& lse);
void cross_entropy_backward(const droveway::CrossEntropy& c, const droveway::View& g, const droveway::View& lse,
                            const droveway::View& out);

size_t sort_workspace(const droveway::SortJob& job);
void sort(const droveway::SortJob& job, void* workspace);
void searchsorted(const droveway::View& sorted, const droveway::View& values, bool right, const droveway::View& out);
size_t unique_groups(const droveway::View& x, const int64_t* order, int64_t* first, int64_t* inverse, int64_t* counts);

int64_t bad_index(const droveway::View& indices, int64_t n);
void take(const droveway::View& x, int axis, const droveway::View& indices, const droveway::View& out);
void gather(const droveway::View& x, int axis, const droveway::View& indices, const droveway::View& out);
void copy(const droveway::View& x, char* out);
size_t scatter_workspace(const droveway::ScatterJob& job);
void scatter(const droveway::ScatterJob& job, void* workspace);
void nonzero(const droveway::View& x, int64_t* out, size_t count);

void adamw(const droveway::StepTensor* tensors, size_t count, droveway::Dtype dtype, const droveway::AdamWStep& step);
void sgd(const droveway::StepTensor* tensors, size_t count, droveway::Dtype dtype, const droveway::SgdStep& step);

}  // namespace DW_ISA

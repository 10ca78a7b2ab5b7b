// Kernels of reductions, normalisation, sorting, indexing and optimizer steps. A field is a pointer, its comment the
// contract. Views may have any strides; outputs overlap no input except where it says so. Nothing is allocated: a
// workspace is the caller's, aligned to 64 bytes, of the size that the function beside it names.
#pragma once
#include "../array/view.hpp"

namespace droveway {

enum class Reduce : int {
  sum, prod, mean, square_sum, norm, max, min,  // norm: square root of square_sum
  any, all, count_nonzero,                      // boolean, boolean, int64
  argmax, argmin,                               // int64, the first index; of a NaN where there is one
  logsumexp, var, std,                          // var, std: divided by max(n − parameter, 0)
  count
};

enum class Scan : int { sum, prod, max, min, count };

// One tensor of an optimizer step: n values, contiguous. All of one type; `second` only for AdamW.
struct StepTensor {
  char* parameter;
  const char* gradient;
  char* first;   // m of AdamW, momentum of SGD or nullptr
  char* second;  // v of AdamW
  size_t n;
};
struct AdamWStep {
  double decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step, root_scale, epsilon;
};
struct SgdStep {
  double rate, decay, momentum, one_minus_dampening;
  bool nesterov, first_step;
};

// rows × columns of logits against classes, for cross_entropy.
struct CrossEntropy {
  View logits;   // [rows, classes]
  View targets;  // int64[rows], each a class or ignore_index: checked by the caller
  int64_t ignore_index;
  double smoothing;
};

// Sorting along an axis. k: how many of the order are wanted, the size along the axis or less (then `values` and
// `indices` have k there). Either result may be null.
struct SortJob {
  View x;
  int axis;
  bool descending;  // NaN is last all the same
  size_t k;
  const View* values;   // of x's dtype
  const View* indices;  // int64
};

// Updates of rows: update i goes to row destinations[i] of out. What a row gets is combined in the order of i.
enum class Combine : int { set, sum, prod, mean, max, min };
struct ScatterJob {
  Dtype dtype;
  char* out;            // [rows, width], contiguous
  const char* updates;  // [count, width], contiguous
  const int64_t* destinations;  // [count], each from 0 to rows − 1: checked by the caller
  size_t rows, width, count;
  Combine combine;
  bool include_out;  // whether what lies in out takes part
};

struct ReduceTable {
  // out = x reduced over the dimensions whose bits are set in axes; out has x's dimensions with 1 for these.
  void (*reduce)(Reduce op, const View& x, uint32_t axes, const View& out, double parameter);
  // out[…, i, …] = x[…, 0, …] op … op x[…, i, …] along one axis. `indices` (int64) of max and min may be null.
  void (*scan)(Scan op, const View& x, int axis, const View& out, const View* indices);

  // Along one axis: exp(x − m) / sum, m the largest value; with `logarithm` (x − m) − log(sum).
  void (*softmax)(const View& x, int axis, const View& out, bool logarithm);
  // From g and y, the result: (g − g·y) y, g·y the sum of products; with `logarithm` g − exp(y)·sum(g).
  void (*softmax_backward)(const View& g, const View& y, int axis, const View& out, bool logarithm);
  // y = (x − mean)·rstd·weight + bias over the dimensions in axes; rstd = 1 / sqrt(variance + epsilon). weight and bias
  // have x's dimensions with 1 for the others, or are null. mean and rstd: 1 for the dimensions in axes.
  void (*layer_norm)(const View& x, const View* weight, const View* bias, uint32_t axes, double epsilon, const View& out,
                     const View& mean, const View& rstd);
  // dx; and d_weight, d_bias where they are not null. Without mean it is that of rms_norm.
  void (*norm_backward)(const View& g, const View& x, const View* mean, const View& rstd, const View* weight,
                        uint32_t axes, const View& dx, const View* d_weight, const View* d_bias);
  // y = x·rstd·weight, rstd = 1 / sqrt(mean of squares + epsilon).
  void (*rms_norm)(const View& x, const View* weight, uint32_t axes, double epsilon, const View& out, const View& rstd);
  // loss[row] = (1 − s)·(lse − x[target]) + s·(lse − mean(x)), 0 where the target is ignored; lse[row] = logsumexp.
  void (*cross_entropy)(const CrossEntropy& c, const View& loss, const View& lse);
  // out[row, k] = g[row]·((exp(x − lse) − s / classes) − (k is the target ? 1 − s : 0)), 0 where the target is ignored.
  void (*cross_entropy_backward)(const CrossEntropy& c, const View& g, const View& lse, const View& out);

  // Stable orders along an axis; the workspace has the size that sort_workspace names.
  size_t (*sort_workspace)(const SortJob& job);
  void (*sort)(const SortJob& job, void* workspace);
  // out[…] = how many elements of the sorted vector come before values[…]: those below it, or (right) not above it.
  void (*searchsorted)(const View& sorted, const View& values, bool right, const View& out);
  // Groups of equal values of the vector x, in `order`, its stable ascending order: the number of groups; for group g the
  // smallest index first[g] and how many there are; for each index its group. All int64[n].
  size_t (*unique_groups)(const View& x, const int64_t* order, int64_t* first, int64_t* inverse, int64_t* counts);

  // The place of the first index that is not in [−n, n), or −1.
  int64_t (*bad_index)(const View& indices, int64_t n);
  // out[o, j, i] = x[o, indices[j], i]: x has `axis` dimensions before the axis; indices are one-dimensional, out is
  // contiguous. Indices from −n to n − 1.
  void (*take)(const View& x, int axis, const View& indices, const View& out);
  // out[o, j, i] = x[o, indices[o, j, i], i], all of one number of dimensions; sizes of 1 of x repeat except along the axis.
  void (*gather)(const View& x, int axis, const View& indices, const View& out);
  // Every element of x, in C order.
  void (*copy)(const View& x, char* out);
  size_t (*scatter_workspace)(const ScatterJob& job);
  void (*scatter)(const ScatterJob& job, void* workspace);
  // The indices of the elements that are not zero, row-major: out int64[ndim, count], contiguous, as count_nonzero counts.
  void (*nonzero)(const View& x, int64_t* out, size_t count);

  // One step of an optimizer on all tensors, in place.
  void (*adamw)(const StepTensor* tensors, size_t count, Dtype dtype, const AdamWStep& step);
  void (*sgd)(const StepTensor* tensors, size_t count, Dtype dtype, const SgdStep& step);
};

}  // namespace droveway

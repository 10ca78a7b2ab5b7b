// A product of views, as the kernels take it: which dimensions are the batch, and what runs on finished rows.
#pragma once
#include "fused.hpp"
#include "table.hpp"
#include "view.hpp"

namespace droveway {

// The step of a view along one of the result's dimensions, `after` of them behind it; 0 where it is repeated, −1 in
// `fits` where it cannot be.
struct Stepped {
  int64_t step;
  bool fits;
};
Stepped product_dimension(const View& v, int after, int64_t size);

struct ProductCall {
  Product product;
  int64_t shape[kDimsMax], a[kDimsMax], b[kDimsMax], c[kDimsMax];  // the batch

  // Operands of a program that runs on finished rows, as wide as the result: the first bytes and the steps of each.
  static constexpr int kMost = kFusedInputs + kFusedOuts;
  struct Operand {
    char* data;
    Dtype dtype;
    int64_t row, column, batch[kDimsMax];
  } operand[kMost];
  const FusedProgram* program = nullptr;
  const TensorTable* table = nullptr;

  // out[..., m, n] = a[..., m, k] · b[..., k, n]; leading dimensions that a row of out just continues become rows, if they
  // do so in each of the `count` others, which broadcast to out. nullptr, or what is wrong.
  const char* describe(const View& a, const View& b, const View& out, const View* others, int count);

  // The program runs on each finished block: its outs are the first of the others, its inputs the product and the rest.
  void run_after(const FusedProgram& chain, const TensorTable& kernels);
};

}  // namespace droveway

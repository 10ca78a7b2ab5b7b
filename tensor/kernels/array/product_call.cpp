#include "product_call.hpp"

namespace droveway {

namespace {

void exchange(int64_t* steps, int i, int j) {
  const int64_t t = steps[i];
  steps[i] = steps[j];
  steps[j] = t;
}

size_t least(size_t a, size_t b) { return a < b ? a : b; }

// The `count` rows of an operand behind the first `rows`, which the same thread most often takes next: their way from
// memory overlaps with the product of the next block.
void fetch_rows(const View& v, size_t rows, size_t count) {
  constexpr size_t kLine = 64, kMost = 1 << 17;  // bytes
  const int64_t size = int64_t(dtype_size(v.dtype));
  const size_t bytes = size_t(v.shape[1] * size);
  if (bytes * count > kMost) return;
  for (size_t r = 0; r < count; ++r) {
    const char* p = v.data + int64_t(rows + r) * v.strides[0] * size;
    for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(p + at, 0, 2);
  }
}

void run_program(void* context, size_t batch, size_t row, size_t rows, size_t column, size_t columns) {
  const auto& call = *static_cast<const ProductCall*>(context);
  const FusedProgram& program = *call.program;
  const int64_t shape[2] = {int64_t(rows), int64_t(columns)};
  const Product& p = call.product;
  int64_t index[kDimsMax];
  for (int d = p.batch_dims - 1; d >= 0; --d) {
    index[d] = int64_t(batch % size_t(p.batch_shape[d]));
    batch /= size_t(p.batch_shape[d]);
  }
  int64_t strides[ProductCall::kMost + 1][2];
  View views[ProductCall::kMost + 1];  // outs, the product, other inputs
  const int count = program.outs + program.inputs;
  for (int k = 0; k < count; ++k) {
    const bool product = k == program.outs;
    const ProductCall::Operand& from = call.operand[k < program.outs ? k : k - 1];
    strides[k][0] = product ? int64_t(p.c_row) : from.row;
    strides[k][1] = product ? 1 : from.column;
    const int64_t* steps = product ? p.c_batch : from.batch;
    int64_t at = int64_t(row) * strides[k][0] + int64_t(column) * strides[k][1];
    for (int d = 0; d < p.batch_dims; ++d) at += index[d] * steps[d];
    const Dtype dtype = product ? p.dtype : from.dtype;
    char* data = product ? static_cast<char*>(p.c) : from.data;
    views[k] = {data + at * int64_t(dtype_size(dtype)), dtype, 2, shape, strides[k]};
  }
  program.run(*call.table, views, views + program.outs, 0, nullptr);  // it has no end
  const size_t after = row + rows < p.m ? least(p.m - row - rows, rows) : 0;
  for (int k = program.outs + 1; k < count && after != 0; ++k)
    if (strides[k][0] != 0 && strides[k][1] == 1) fetch_rows(views[k], rows, after);
}

}  // namespace

Stepped product_dimension(const View& v, int after, int64_t size) {
  const int d = v.ndim - 1 - after;
  if (d < 0) return {0, true};
  return {v.shape[d] == 1 ? 0 : v.strides[d], v.shape[d] == size || v.shape[d] == 1};
}

const char* ProductCall::describe(const View& left, const View& right, const View& out, const View* others, int count) {
  if (left.ndim < 2 || right.ndim < 2 || out.ndim < 2 || left.ndim > out.ndim || right.ndim > out.ndim)
    return "product: a, b and out must be matrices, or batches of them";
  const auto size = [](const View& v, int from_end) { return v.shape[v.ndim - from_end]; };
  const auto step = [](const View& v, int from_end) { return ptrdiff_t(v.strides[v.ndim - from_end]); };
  if (size(left, 1) != size(right, 2) || size(out, 2) != size(left, 2) || size(out, 1) != size(right, 1))
    return "product: shapes of a [..., m, k], b [..., k, n] and out [..., m, n] must agree";
  Product& p = product;
  p = {.m = size_t(size(left, 2)), .n = size_t(size(right, 1)), .k = size_t(size(left, 1)), .a = left.data,
       .a_row = step(left, 2), .a_column = step(left, 1), .b = right.data, .b_row = step(right, 2),
       .b_column = step(right, 1), .c = out.data, .c_row = step(out, 2), .a_dtype = left.dtype, .b_dtype = right.dtype,
       .dtype = out.dtype};
  if (p.n > 1 && step(out, 1) != 1) return "product: a row of out must be contiguous";
  constexpr const char* apart = "product: the batches of a and b must broadcast to that of out";
  for (int i = 0; i < count; ++i) {
    const Stepped row = product_dimension(others[i], 1, size(out, 2)), column = product_dimension(others[i], 0, size(out, 1));
    if (!row.fits || !column.fits || others[i].ndim > out.ndim) return "product: what follows must broadcast to out";
    operand[i].data = others[i].data;
    operand[i].dtype = others[i].dtype;
    operand[i].row = row.step;
    operand[i].column = column.step;
  }
  int dims = 0;
  for (int d = out.ndim - 3; d >= 0; --d) {
    const int after = out.ndim - 1 - d;
    const int64_t n = out.shape[d], c_step = out.strides[d];
    const Stepped a_step = product_dimension(left, after, n), b_step = product_dimension(right, after, n);
    if (!a_step.fits || !b_step.fits) return apart;
    bool joined = dims == 0 && b_step.step == 0 && a_step.step == int64_t(p.m) * p.a_row && c_step == int64_t(p.m) * p.c_row;
    for (int i = 0; i < count; ++i) {
      const Stepped other = product_dimension(others[i], after, n);
      if (!other.fits) return "product: what follows must broadcast to out";
      operand[i].batch[dims] = other.step;
      joined = joined && other.step == int64_t(p.m) * operand[i].row;
    }
    if (n == 1) continue;
    if (joined) {
      p.m *= size_t(n);
      continue;
    }
    shape[dims] = n;
    a[dims] = a_step.step;
    b[dims] = b_step.step;
    c[dims] = c_step;
    ++dims;
  }
  for (int i = 0, j = dims - 1; i < j; ++i, --j) {
    int64_t* const all[] = {shape, a, b, c};
    for (int64_t* steps : all) exchange(steps, i, j);
    for (int k = 0; k < count; ++k) exchange(operand[k].batch, i, j);
  }
  p.batch_dims = dims;
  p.batch_shape = shape;
  p.a_batch = a;
  p.b_batch = b;
  p.c_batch = c;
  return nullptr;
}

void ProductCall::run_after(const FusedProgram& chain, const TensorTable& kernels) {
  program = &chain;
  table = &kernels;
  product.finish = run_program;
  product.finish_context = this;
}

}  // namespace droveway

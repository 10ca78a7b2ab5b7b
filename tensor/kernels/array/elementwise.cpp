#include "elementwise.hpp"

#include <string.h>

#include "droveway/parallel.hpp"
#include "in_use.hpp"
#include "layout.hpp"
#include "table.hpp"

namespace droveway {

#define DW_ROW(name, arity, classes, result) {#name, arity, classes, result},
const ElementwiseRow elementwise_rows[] = {DW_ELEMENTWISE_OPS(DW_ROW)};
#undef DW_ROW

namespace {

constexpr int kOperandsMax = 4;        // out, then up to three inputs
constexpr int64_t kStageBytes = 4096;  // of one operand that is gathered, repeated or scattered

unsigned class_of(Dtype d) {
  if (d == Dtype::boolean) return kBoolean;
  if (is_signed_int(d)) return kSigned;
  if (is_unsigned_int(d)) return kUnsigned;
  return is_complex(d) ? kComplex : kFloating;
}

struct Job {
  ElementwiseLoop loop;
  int op, operands;
  int64_t tiles;
  Walk walk;
  Walked operand[kOperandsMax];
};

void run_range(const Job& job, int64_t begin, int64_t end) {
  const Walk& walk = job.walk;
  Strip strip;
  strip.op = job.op;
  if (!walk.staged) {
    strip.out = job.operand[0].data + begin * job.operand[0].size;
    for (int k = 1; k < job.operands; ++k) strip.in[k - 1] = job.operand[k].data + begin * job.operand[k].size;
    strip.n = size_t(end - begin);
    job.loop(strip);
    return;
  }
  alignas(64) char stage[kOperandsMax][kStageBytes];
  int64_t widest = 1;
  for (int k = 0; k < job.operands; ++k) widest = job.operand[k].size > widest ? job.operand[k].size : widest;
  int64_t longest = kStageBytes / widest;
  if (longest > end - begin) longest = end - begin;
  for (int k = 1; k < job.operands; ++k)
    if (job.operand[k].access == Access::constant) walk_repeat(stage[k], job.operand[k].data, job.operand[k].size, longest);

  Position position;
  walk_seek(walk, begin, position);
  for (int64_t i = begin; i < end;) {
    const int64_t m = walk_step(walk, position, end - i < longest ? end - i : longest);
    bool scatter = false;
    for (int k = 0; k < job.operands; ++k) {
      const Walked& operand = job.operand[k];
      char* p = stage[k];
      if (operand.access == Access::direct) {
        p = operand.data + i * operand.size;
      } else if (operand.access == Access::strided) {
        char* there = walk_in_place(walk, operand, position, m);
        if (there != nullptr) {
          p = there;
        } else if (k == 0) {
          scatter = true;
        } else {
          walk_gather(walk, operand, position, p, m);
        }
      }
      if (k == 0) strip.out = p;
      else strip.in[k - 1] = p;
    }
    strip.n = size_t(m);
    job.loop(strip);
    if (scatter) walk_scatter(walk, job.operand[0], position, stage[0], m);
    i += m;
    walk_advance(walk, m, position);
  }
}

void run_block(void* context, size_t block) {
  const Job& job = *static_cast<const Job*>(context);
  const int64_t begin = int64_t(block) * kWalkBlock;
  run_range(job, begin, begin + kWalkBlock < job.walk.total ? begin + kWalkBlock : job.walk.total);
}

// Tile number t: the last two dimensions cut into tiles, row by row of tiles, over all other dimensions.
void run_tile(const Job& job, int64_t t, char (*stage)[kTileRows * kTileColumns * 16]) {
  const Walk& walk = job.walk;
  const int last = walk.ndim - 1;
  const int64_t across = (walk.shape[last] + kTileColumns - 1) / kTileColumns;
  const int64_t down = (walk.shape[last - 1] + kTileRows - 1) / kTileRows;
  const int64_t column = t % across * kTileColumns, row = t / across % down * kTileRows;
  const int64_t columns = walk.shape[last] - column < kTileColumns ? walk.shape[last] - column : kTileColumns;
  const int64_t rows = walk.shape[last - 1] - row < kTileRows ? walk.shape[last - 1] - row : kTileRows;
  char* first[kOperandsMax];
  for (int k = 0; k < job.operands; ++k) {
    const int64_t* strides = job.operand[k].strides;
    first[k] = job.operand[k].data + row * strides[last - 1] + column * strides[last];
    for (int64_t rest = t / across / down, d = last - 2; d >= 0; --d) {
      first[k] += rest % walk.shape[d] * strides[d];
      rest /= walk.shape[d];
    }
  }
  int64_t row_step[kOperandsMax];
  bool scatter = false;
  for (int k = 0; k < job.operands; ++k) {
    const Walked& operand = job.operand[k];
    row_step[k] = operand.strides[last - 1];
    if (operand.strides[last] == operand.size) continue;
    row_step[k] = columns * operand.size;
    if (k == 0) scatter = true;
    else walk_gather_tile(first[k], operand.size, operand.strides[last - 1], operand.strides[last], rows, columns, stage[k]);
    if (k > 0) first[k] = stage[k];
  }
  Strip strip;
  strip.op = job.op;
  strip.n = size_t(columns);
  for (int64_t r = 0; r < rows; ++r) {
    strip.out = scatter ? stage[0] : first[0] + r * row_step[0];
    for (int k = 1; k < job.operands; ++k) strip.in[k - 1] = first[k] + r * row_step[k];
    job.loop(strip);
    if (scatter) {
      const Walked& out = job.operand[0];
      char* p = first[0] + r * out.strides[last - 1];
      for (int64_t c = 0; c < columns; ++c, p += out.strides[last]) memcpy(p, stage[0] + c * out.size, size_t(out.size));
    }
  }
}

constexpr int64_t kTilesPerItem = kWalkBlock / (kTileRows * kTileColumns);

void run_tiles(void* context, size_t item) {
  const Job& job = *static_cast<const Job*>(context);
  alignas(64) char stage[kOperandsMax][kTileRows * kTileColumns * 16];
  const int64_t first = int64_t(item) * kTilesPerItem;
  const int64_t end = first + kTilesPerItem < job.tiles ? first + kTilesPerItem : job.tiles;
  for (int64_t t = first; t < end; ++t) run_tile(job, t, stage);
}

void run_transposed(Job& job) {
  const Walk& walk = job.walk;
  const int last = walk.ndim - 1;
  job.tiles = ((walk.shape[last] + kTileColumns - 1) / kTileColumns) * ((walk.shape[last - 1] + kTileRows - 1) / kTileRows);
  for (int d = 0; d < last - 1; ++d) job.tiles *= walk.shape[d];
  const int64_t items = (job.tiles + kTilesPerItem - 1) / kTilesPerItem;
  if (walk.total * job.operand[0].size >= kParallelBytes / 2) {
    dw_parallel(size_t(items), run_tiles, &job);
  } else {
    for (int64_t item = 0; item < items; ++item) run_tiles(&job, size_t(item));
  }
}

void run_all(Job& job) {
  int64_t bytes = 0;
  for (int k = 0; k < job.operands; ++k)
    if (job.operand[k].access != Access::constant) bytes += job.walk.total * job.operand[k].size;
  const int64_t blocks = (job.walk.total + kWalkBlock - 1) / kWalkBlock;
  if (blocks > 1 && bytes >= kParallelBytes) {
    dw_parallel(size_t(blocks), run_block, &job);
  } else {
    run_range(job, 0, job.walk.total);
  }
}

bool same_layout(const View& a, const View& b) {
  if (a.ndim != b.ndim) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.shape[d] != b.shape[d] || a.strides[d] != b.strides[d]) return false;
  return true;
}

}  // namespace

bool elementwise_result(int op, Dtype in, Dtype* out) {
  const ElementwiseRow& row = elementwise_rows[op];
  if ((row.classes & class_of(in)) == 0) return false;
  *out = in;
  if (row.result == kTruth) *out = Dtype::boolean;
  if (row.result == kReal && is_complex(in)) *out = in == Dtype::c64 ? Dtype::f32 : Dtype::f64;
  if (row.result == kPair) {
    if (in != Dtype::f32 && in != Dtype::f64) return false;
    *out = in == Dtype::f32 ? Dtype::c64 : Dtype::c128;
  }
  return true;
}

int broadcast_views(const View* in, int count, int64_t* shape) {
  int ndim = 0;
  for (int k = 0; k < count; ++k) ndim = in[k].ndim > ndim ? in[k].ndim : ndim;
  for (int d = 0; d < ndim; ++d) shape[d] = 1;
  for (int k = 0; k < count; ++k) {
    const int skip = ndim - in[k].ndim;
    for (int d = 0; d < in[k].ndim; ++d) {
      const int64_t n = in[k].shape[d];
      if (n == 1 || shape[skip + d] == n) continue;
      if (shape[skip + d] != 1) return -1;
      shape[skip + d] = n;
    }
  }
  return ndim;
}

static ElementwiseLoop loop_of(const TensorTable& table, int op, const View& out, const View* in) {
  if (op == op_cast) return table.cast(int(in[0].dtype), int(out.dtype));
  return table.elementwise(op, int(in[op == op_where ? 1 : 0].dtype));
}

bool run_elementwise(const TensorTable& table, int op, const View& out, const View* in, int count) {
  Job job;
  job.loop = loop_of(table, op, out, in);
  if (job.loop == nullptr) return false;
  job.op = op;
  job.operands = count + 1;

  // The usual case: everything of one shape, in C order.
  bool plain = view_contiguous(out);
  for (int k = 0; plain && k < count; ++k) plain = same_layout(in[k], out);
  if (plain) {
    job.walk.total = view_size(out);
    if (job.walk.total == 0) return true;
    job.walk.staged = false;
    for (int k = 0; k <= count; ++k) {
      const View& v = k == 0 ? out : in[k - 1];
      job.operand[k].data = v.data;
      job.operand[k].size = int64_t(dtype_size(v.dtype));
      job.operand[k].access = Access::direct;
    }
  } else {
    View views[kOperandsMax] = {out};
    for (int k = 0; k < count; ++k) views[k + 1] = in[k];
    if (!walk_begin(job.walk, job.operand, views, count + 1, out.ndim, out.shape, true)) return true;
    if (walk_transposes(job.walk, job.operand, count + 1)) {
      run_transposed(job);
      return true;
    }
  }
  run_all(job);
  return true;
}

bool run_elementwise(int op, const View& out, const View* in, int count) {
  const TensorTable* table = tensor_kernels();
  return table != nullptr && run_elementwise(*table, op, out, in, count);
}

bool is_activation(int op, Dtype d) {
  Dtype result;
  return op >= 0 && op < kElementwiseOps && op != op_cast && elementwise_rows[op].arity == 1 && elementwise_result(op, d, &result) && result == d &&
         has_elementwise(op, d);
}

bool has_elementwise(int op, Dtype in) {
  const TensorTable* table = tensor_kernels();
  if (table == nullptr) return false;
  return op == op_cast ? table->cast(int(in), int(in)) != nullptr : table->elementwise(op, int(in)) != nullptr;
}

}  // namespace droveway

#include "elementwise.hpp"

#include <string.h>

#include "droveway/parallel.hpp"
#include "in_use.hpp"
#include "table.hpp"

namespace droveway {

#define DW_ROW(name, arity, classes, result) {#name, arity, classes, result},
const ElementwiseRow elementwise_rows[] = {DW_ELEMENTWISE_OPS(DW_ROW)};
#undef DW_ROW

namespace {

constexpr int64_t kBlock = 16384;              // elements a thread takes at a time
constexpr int64_t kParallelBytes = 1 << 18;    // below this many bytes the calling thread does all the work
constexpr int kOperandsMax = 4;                // out, then up to three inputs
constexpr int64_t kStageBytes = 4096;          // of one operand that is gathered, repeated or scattered

unsigned class_of(Dtype d) {
  if (d == Dtype::boolean) return kBoolean;
  if (is_signed_int(d)) return kSigned;
  if (is_unsigned_int(d)) return kUnsigned;
  return is_complex(d) ? kComplex : kFloating;
}

enum class Access : uint8_t {
  direct,    // consecutive elements lie one after the other over all dimensions
  constant,  // one element
  strided,   // whatever else
};

struct Job {
  ElementwiseLoop loop;
  int op, operands, ndim;
  bool staged;  // some operand is not direct
  int64_t total, chunk;
  char* data[kOperandsMax];
  int64_t size[kOperandsMax];
  Access access[kOperandsMax];
  int64_t shape[kDimsMax];
  int64_t strides[kOperandsMax][kDimsMax];  // in bytes
};

// Copies count elements from the multi-index `at` on, into consecutive ones (Gather) or out of them.
template <class E, bool Gather>
void move_elements(const Job& job, int operand, const int64_t* at, char* stage, int64_t count) {
  const int last = job.ndim - 1;
  const int64_t* strides = job.strides[operand];
  const int64_t inner = job.shape[last], step = strides[last];
  int64_t index[kDimsMax];
  char* row = job.data[operand];
  for (int d = 0; d < last; ++d) {
    index[d] = at[d];
    row += at[d] * strides[d];
  }
  int64_t i = at[last];
  E* flat = reinterpret_cast<E*>(stage);
  while (count > 0) {
    int64_t m = inner - i;
    if (m > count) m = count;
    char* p = row + i * step;
    if constexpr (Gather) {
      if (step == 0) {
        const E value = *reinterpret_cast<const E*>(p);
        for (int64_t k = 0; k < m; ++k) flat[k] = value;
      } else if (step == int64_t(sizeof(E))) {
        memcpy(flat, p, size_t(m) * sizeof(E));
      } else {
        for (int64_t k = 0; k < m; ++k, p += step) flat[k] = *reinterpret_cast<const E*>(p);
      }
    } else {
      for (int64_t k = 0; k < m; ++k, p += step) *reinterpret_cast<E*>(p) = flat[k];
    }
    flat += m;
    count -= m;
    i = 0;
    for (int d = last - 1; d >= 0; --d) {
      row += strides[d];
      if (++index[d] < job.shape[d]) break;
      row -= job.shape[d] * strides[d];
      index[d] = 0;
    }
  }
}

struct Wide {
  uint64_t low, high;
};

template <bool Gather>
void move(const Job& job, int operand, const int64_t* at, char* stage, int64_t count) {
  switch (job.size[operand]) {
    case 1: return move_elements<uint8_t, Gather>(job, operand, at, stage, count);
    case 2: return move_elements<uint16_t, Gather>(job, operand, at, stage, count);
    case 4: return move_elements<uint32_t, Gather>(job, operand, at, stage, count);
    case 8: return move_elements<uint64_t, Gather>(job, operand, at, stage, count);
    default: return move_elements<Wide, Gather>(job, operand, at, stage, count);
  }
}

void repeat(char* stage, const char* element, int64_t size, int64_t count) {
  memcpy(stage, element, size_t(size));
  for (int64_t have = 1; have < count;) {
    const int64_t more = have < count - have ? have : count - have;
    memcpy(stage + have * size, stage, size_t(more * size));
    have += more;
  }
}

void run_range(const Job& job, int64_t begin, int64_t end) {
  Strip strip;
  strip.op = job.op;
  if (!job.staged) {
    strip.out = job.data[0] + begin * job.size[0];
    for (int k = 1; k < job.operands; ++k) strip.in[k - 1] = job.data[k] + begin * job.size[k];
    strip.n = size_t(end - begin);
    job.loop(strip);
    return;
  }
  alignas(64) char stage[kOperandsMax][kStageBytes];
  const int last = job.ndim - 1;
  int64_t at[kDimsMax];
  for (int64_t rest = begin, d = last; d >= 0; --d) {
    at[d] = rest % job.shape[d];
    rest /= job.shape[d];
  }
  const int64_t longest = end - begin < job.chunk ? end - begin : job.chunk;
  for (int k = 1; k < job.operands; ++k)
    if (job.access[k] == Access::constant) repeat(stage[k], job.data[k], job.size[k], longest);

  const int64_t inner = job.shape[last];
  const bool by_row = inner >= 64;  // else a chunk takes several rows
  for (int64_t i = begin; i < end;) {
    int64_t m = end - i < longest ? end - i : longest;
    if (by_row && m > inner - at[last]) m = inner - at[last];
    const bool in_row = at[last] + m <= inner;
    bool scatter = false;
    for (int k = 0; k < job.operands; ++k) {
      char* p = stage[k];
      if (job.access[k] == Access::direct) {
        p = job.data[k] + i * job.size[k];
      } else if (job.access[k] == Access::strided) {
        if (in_row && job.strides[k][last] == job.size[k]) {
          p = job.data[k];
          for (int d = 0; d <= last; ++d) p += at[d] * job.strides[k][d];
        } else if (k == 0) {
          scatter = true;
        } else {
          move<true>(job, k, at, p, m);
        }
      }
      if (k == 0) strip.out = p;
      else strip.in[k - 1] = p;
    }
    strip.n = size_t(m);
    job.loop(strip);
    if (scatter) move<false>(job, 0, at, stage[0], m);
    i += m;
    at[last] += m;
    if (at[last] >= inner) {
      int64_t carry = at[last] / inner;
      at[last] %= inner;
      for (int d = last - 1; d >= 0 && carry != 0; --d) {
        at[d] += carry;
        carry = at[d] / job.shape[d];
        at[d] %= job.shape[d];
      }
    }
  }
}

void run_block(void* context, size_t block) {
  const Job& job = *static_cast<const Job*>(context);
  const int64_t begin = int64_t(block) * kBlock;
  run_range(job, begin, begin + kBlock < job.total ? begin + kBlock : job.total);
}

void run_all(Job& job) {
  int64_t bytes = 0;
  for (int k = 0; k < job.operands; ++k)
    if (job.access[k] != Access::constant) bytes += job.total * job.size[k];
  const int64_t blocks = (job.total + kBlock - 1) / kBlock;
  if (blocks > 1 && bytes >= kParallelBytes) {
    dw_parallel(size_t(blocks), run_block, &job);
  } else {
    run_range(job, 0, job.total);
  }
}

// Strides of all operands over out's dimensions; dimensions of size 1 left out. False if there is no element.
bool lay_out(Job& job, const View& out, const View* in, int count) {
  int kept[kDimsMax];
  job.ndim = 0;
  job.total = 1;
  for (int d = 0; d < out.ndim; ++d) {
    if (out.shape[d] == 0) return false;
    if (out.shape[d] == 1) continue;
    job.total *= out.shape[d];
    job.shape[job.ndim] = out.shape[d];
    kept[job.ndim++] = d;
  }
  for (int k = 0; k <= count; ++k) {
    const View& v = k == 0 ? out : in[k - 1];
    job.data[k] = v.data;
    job.size[k] = int64_t(dtype_size(v.dtype));
    for (int j = 0; j < job.ndim; ++j) {
      const int d = kept[j] - (out.ndim - v.ndim);
      job.strides[k][j] = d < 0 || v.shape[d] == 1 ? 0 : v.strides[d] * job.size[k];
    }
  }
  return true;
}

// Out's dimensions from the largest stride to the smallest, all of them upwards; then dimensions that follow each
// other without a gap in every operand become one.
void collapse(Job& job) {
  const int n = job.ndim;
  for (int j = 0; j < n; ++j) {
    if (job.strides[0][j] >= 0) continue;
    for (int k = 0; k < job.operands; ++k) {
      job.data[k] += (job.shape[j] - 1) * job.strides[k][j];
      job.strides[k][j] = -job.strides[k][j];
    }
  }
  for (int j = 1; j < n; ++j) {
    for (int i = j; i > 0 && job.strides[0][i - 1] < job.strides[0][i]; --i) {
      int64_t t = job.shape[i];
      job.shape[i] = job.shape[i - 1];
      job.shape[i - 1] = t;
      for (int k = 0; k < job.operands; ++k) {
        t = job.strides[k][i];
        job.strides[k][i] = job.strides[k][i - 1];
        job.strides[k][i - 1] = t;
      }
    }
  }
  int last = 0;
  for (int j = 1; j < n; ++j) {
    bool joined = true;
    for (int k = 0; k < job.operands; ++k)
      joined = joined && job.strides[k][last] == job.strides[k][j] * job.shape[j];
    if (joined) {
      job.shape[last] *= job.shape[j];
    } else {
      ++last;
      job.shape[last] = job.shape[j];
    }
    for (int k = 0; k < job.operands; ++k) job.strides[k][last] = job.strides[k][j];
  }
  job.ndim = last + 1;
}

void classify(Job& job) {
  int64_t widest = 1;
  job.staged = false;
  for (int k = 0; k < job.operands; ++k) {
    if (job.size[k] > widest) widest = job.size[k];
    bool direct = true, constant = k > 0;
    int64_t expected = job.size[k];
    for (int j = job.ndim - 1; j >= 0; --j) {
      direct = direct && job.strides[k][j] == expected;
      constant = constant && job.strides[k][j] == 0;
      expected *= job.shape[j];
    }
    job.access[k] = direct ? Access::direct : constant ? Access::constant : Access::strided;
    job.staged = job.staged || !direct;
  }
  job.chunk = kStageBytes / widest;
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
    job.total = view_size(out);
    if (job.total == 0) return true;
    job.staged = false;
    for (int k = 0; k <= count; ++k) {
      const View& v = k == 0 ? out : in[k - 1];
      job.data[k] = v.data;
      job.size[k] = int64_t(dtype_size(v.dtype));
      job.access[k] = Access::direct;
    }
    run_all(job);
    return true;
  }
  if (!lay_out(job, out, in, count)) return true;
  if (job.ndim == 0) {  // one element
    job.ndim = 1;
    job.shape[0] = 1;
    for (int k = 0; k <= count; ++k) job.strides[k][0] = job.size[k];
  }
  collapse(job);
  classify(job);
  run_all(job);
  return true;
}

bool run_elementwise(int op, const View& out, const View* in, int count) {
  const TensorTable* table = tensor_kernels();
  return table != nullptr && run_elementwise(*table, op, out, in, count);
}

bool has_elementwise(int op, Dtype in) {
  const TensorTable* table = tensor_kernels();
  if (table == nullptr) return false;
  return op == op_cast ? table->cast(int(in), int(in)) != nullptr : table->elementwise(op, int(in)) != nullptr;
}

}  // namespace droveway

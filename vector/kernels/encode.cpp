// Rows to codes and scales, queries to int8 (vector/encoder_ref.py): sixteen rows at a time, each lane a row.
#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"
#include "rotate.hpp"

namespace DW_ISA {
namespace {

using droveway::EncodeJob;
using droveway::QueryJob;
using droveway::Turn;

constexpr size_t kSumBlock = 4096;  // of tensor's sums: four accumulators of sixteen lanes in each block
constexpr size_t kPartials = 64;
constexpr double kNormMin = 1e-10;

// |level| of the 4-bit code: 6, and what each boundary below |u| adds; with the count of those boundaries above it.
constexpr uint32_t kFirstLevel = 6;
constexpr uint32_t kSteps[7] = {12, 13, 13, 14, 17, 21, 31};
constexpr uint32_t kOne = 1u << 16;
constexpr float kHighNear = 39.0f, kHighFar = 127.0f;

// Block totals joined as tensor's tree joins them: the first power of two of them, then the rest.
struct Tree {
  double waiting[4];
  int depth = 0;
  size_t count = 0;
  void add(double value) {
    for (size_t k = count++; (k & 1) != 0; k >>= 1) value = waiting[--depth] + value;
    waiting[depth++] = value;
  }
  double total() const {
    double value = waiting[depth - 1];
    for (int i = depth - 2; i >= 0; --i) value = waiting[i] + value;
    return value;
  }
};

double square_sum(const float* x, size_t n) {
  Tree tree;
  for (size_t start = 0; start < n; start += kSumBlock) {
    const size_t end = n - start < kSumBlock ? n : start + kSumBlock;
    F64x16 sum[4];
    for (F64x16& s : sum) s = {F64x8::zero(), F64x8::zero()};
    for (size_t i = start; i < end; i += 16) {
      const F64x16 v = widen(F32x16::load_partial(x + i, end - i, 0.0f));
      F64x16& s = sum[i / 16 % 4];
      s = {fma(v.low, v.low, s.low), fma(v.high, v.high, s.high)};
    }
    const F64x16 a = {sum[0].low + sum[1].low, sum[0].high + sum[1].high};
    const F64x16 b = {sum[2].low + sum[3].low, sum[2].high + sum[3].high};
    tree.add(add_tree(F64x16{a.low + b.low, a.high + b.high}));
  }
  return tree.total();
}

// Sixteen sums at once, one a lane, in the order of square_sum: value i belongs to partial i mod 64.
struct LaneSums {
  F64x16 partial[kPartials];
  double blocks[16][4];
  size_t count = 0;

  DW_INLINE void start() {
    for (F64x16& p : partial) p = {F64x8::zero(), F64x8::zero()};
  }
  DW_INLINE void add(size_t i, F64x16 a, F64x16 b) {
    F64x16& p = partial[i % kPartials];
    p = {fma(a.low, b.low, p.low), fma(a.high, b.high, p.high)};
  }
  void end_block() {
    const auto plus = [](F64x16 a, F64x16 b) { return F64x16{a.low + b.low, a.high + b.high}; };
    for (size_t l = 0; l < 16; ++l)
      partial[l] = plus(plus(partial[l], partial[16 + l]), plus(partial[32 + l], partial[48 + l]));
    for (size_t half = 8; half > 0; half /= 2)
      for (size_t l = 0; l < half; ++l) partial[l] = plus(partial[l], partial[l + half]);
    double lanes[16];
    store(lanes, partial[0].low);
    store(lanes + 8, partial[0].high);
    for (size_t r = 0; r < 16; ++r) blocks[r][count] = lanes[r];
    ++count;
  }
  double total(size_t row) const {
    Tree tree;
    for (size_t b = 0; b < count; ++b) tree.add(blocks[row][b]);
    return tree.total();
  }
};

// Row r becomes lane r of the first d columns.
template <class Divide>
DW_INLINE void put_row(float* rows, size_t r, const float* x, size_t d, Divide divide) {
  for (size_t i = 0; i < d; i += 16) {
    const size_t width = d - i < 16 ? d - i : 16;
    float part[16];
    store(part, divide(F32x16::load_partial(x + i, width, 0.0f)));
    for (size_t l = 0; l < width; ++l) rows[(i + l) * kRotateRows + r] = part[l];
  }
}


// Codes of all columns into `codes` (uint32[padded][16]), and the two sums.
void code_columns(const float* rows, size_t padded, const float* boundaries, uint32_t* codes, LaneSums& full,
                  LaneSums& high) {
  U32x16 bound[7];
  for (int b = 0; b < 7; ++b) bound[b] = U32x16::set1(bits1(boundaries[8 + b]));  // the positive ones
  for (size_t start = 0; start < padded; start += kSumBlock) {
    const size_t end = padded - start < kSumBlock ? padded : start + kSumBlock;
    full.start();
    high.start();
    for (size_t i = start; i < end; ++i) {
      const F32x16 u = column(rows, i), size = abs(u);
      const M32x16 positive = gt(u, F32x16::zero());
      // Boundaries strictly below u: with u ≤ 0 those mirrored ones at |u| count too.
      const U32x16 limit = bits(size) + select(positive, U32x16::zero(), U32x16::set1(1));
      U32x16 packed = U32x16::set1(kFirstLevel);
      for (int b = 0; b < 7; ++b)
        packed = packed + select(lt(bound[b], limit), U32x16::set1(kOne + kSteps[b]), U32x16::zero());
      const U32x16 below = packed >> 16;
      store(codes + i * kRotateRows, select(positive, below + U32x16::set1(8), U32x16::set1(7) - below));
      // u and its level have one sign, so their product is that of their sizes.
      const F64x16 wide = widen(size);
      full.add(i, wide, widen(from_i32(packed & U32x16::set1(kOne - 1))));
      high.add(i, wide, widen(select(lt(below, U32x16::set1(4)), F32x16::set1(kHighNear), F32x16::set1(kHighFar))));
    }
    full.end_block();
    high.end_block();
  }
}

// Rows from ≤ r < to of the sixteen go into lanes `lane` + r of a block of 32 rows (vector/nibbles.py).
void put_codes(const uint32_t* codes, size_t padded, uint8_t* block, size_t lane, size_t from, size_t to) {
  for (size_t octet = 0; octet < padded / 8; ++octet) {
    const size_t c = octet / 8 * 64 + octet % 8 * 4;
    U32x16 word = U32x16::zero();
    for (size_t b = 4; b-- > 0;) {
      const U32x16 low = U32x16::load(codes + (c + b) * kRotateRows);
      const U32x16 high = U32x16::load(codes + (c + b + 32) * kRotateRows);
      word = (word << 8) | low | (high << 4);
    }
    uint32_t words[16];
    store(words, word);
    memcpy(block + (octet * 32 + lane + from) * 4, words + from, (to - from) * 4);
  }
}

struct Work {
  const EncodeJob& job;
  Runs runs;
  size_t units_before;  // sixteens of the segment before the first row's
};

void encode_run(void* context, size_t number) {
  FpGuard guard;
  const Work& w = *static_cast<const Work*>(context);
  const EncodeJob& j = w.job;
  const size_t padded = j.turn.padded, block_bytes = padded * 16;
  float* rows = reinterpret_cast<float*>(static_cast<char*>(j.workspace) + number * w.runs.bytes_each);
  float* spare = rows + padded * kRotateRows;
  for (size_t u = w.runs.first(number); u < w.runs.first(number + 1); ++u) {
    const size_t base = (w.units_before + u) * kRotateRows;  // first place of this sixteen in the segment
    const size_t from = base < j.first ? j.first - base : 0;
    const size_t end = j.first + j.n - base;
    const size_t to = end < kRotateRows ? end : kRotateRows;
    memset(rows, 0, padded * kRotateRows * sizeof(float));
    double norm[16];
    for (size_t r = from; r < to; ++r) {
      const float* x = j.x + (base + r - j.first) * j.d;
      const double norm2 = square_sum(x, j.d);
      norm[r] = __builtin_sqrt(norm2);
      if (j.norms2 != nullptr) j.norms2[base + r] = float(norm2);
      if (norm[r] <= kNormMin) continue;  // stays zero
      const F64x8 divisor = F64x8::set1(norm[r]);
      put_row(rows, r, x, j.d, [&](F32x16 v) DW_LAMBDA {
        const F64x16 wide = widen(v);
        return narrow(F64x16{wide.low / divisor, wide.high / divisor});
      });
    }
    rotate16(j.turn, rows, spare);
    LaneSums full, high;
    uint32_t* codes = reinterpret_cast<uint32_t*>(spare);
    code_columns(rows, padded, j.boundaries, codes, full, high);
    put_codes(codes, padded, j.codes + base / 32 * block_bytes, base % 32, from, to);
    for (size_t r = from; r < to; ++r) {
      const bool zero = norm[r] <= kNormMin;
      const double numerator = j.unit_norm ? 1.0 : norm[r];
      j.scales[base + r] = zero ? 0.0f : float(numerator / full.total(r));
      j.scales_high[base + r] = zero ? 0.0f : float(numerator / high.total(r));
    }
  }
}

Work work_of(const EncodeJob& job) {
  const size_t before = job.first / kRotateRows;
  const size_t after = (job.first + job.n + kRotateRows - 1) / kRotateRows;
  return {job, Runs(after - before, 2 * job.turn.padded * kRotateRows * sizeof(float)), before};
}

struct QueryWork {
  const QueryJob& job;
  Runs runs;
};

void query_run(void* context, size_t number) {
  FpGuard guard;
  const QueryWork& w = *static_cast<const QueryWork*>(context);
  const QueryJob& j = w.job;
  const size_t padded = j.turn.padded;
  float* rows = reinterpret_cast<float*>(static_cast<char*>(j.workspace) + number * w.runs.bytes_each);
  float* spare = rows + padded * kRotateRows;
  for (size_t u = w.runs.first(number); u < w.runs.first(number + 1); ++u) {
    const size_t first = u * kRotateRows;
    const size_t count = j.n - first < kRotateRows ? j.n - first : kRotateRows;
    memset(rows, 0, padded * kRotateRows * sizeof(float));
    float largest[16] = {};
    for (size_t r = 0; r < count; ++r) {
      const float* q = j.q + (first + r) * j.d;
      for (size_t i = 0; i < j.d; ++i) {
        const float size = __builtin_fabsf(q[i]);
        if (size > largest[r]) largest[r] = size;
      }
      j.norms2[first + r] = square_sum(q, j.d);
      if (largest[r] == 0.0f) continue;
      const F32x16 divisor = F32x16::set1(largest[r]);
      put_row(rows, r, q, j.d, [&](F32x16 v) DW_LAMBDA { return v / divisor; });
    }
    rotate16(j.turn, rows, spare);
    F32x16 most = F32x16::zero();
    for (size_t i = 0; i < padded; ++i) {
      const F32x16 size = abs(column(rows, i));
      most = select(lt(most, size), size, most);
    }
    const F64x16 t = widen(most);
    const F64x8 one = F64x8::set1(1.0), zero = F64x8::zero(), full = F64x8::set1(127.0);
    const F64x16 divisor = {select(eq(t.low, zero), one, t.low), select(eq(t.high, zero), one, t.high)};
    for (size_t i = 0; i < padded; ++i) {
      const F64x16 x = widen(column(rows, i));
      // |x·127 / t| is at most 127, as |x| ≤ t and division rounds monotonously
      const F64x16 y = {round_even(x.low * full / divisor.low), round_even(x.high * full / divisor.high)};
      uint32_t values[16];
      store(values, to_i32(narrow(y)));
      for (size_t r = 0; r < count; ++r) j.values[(first + r) * padded + i] = int8_t(values[r]);
    }
    float tops[16];
    store(tops, most);
    for (size_t r = 0; r < count; ++r) j.scales[first + r] = double(largest[r]) * double(tops[r]) / 127.0;
  }
}

Runs query_runs(size_t n, size_t padded) {
  return Runs((n + kRotateRows - 1) / kRotateRows, 2 * padded * kRotateRows * sizeof(float));
}

}  // namespace

size_t encode_workspace(size_t n, size_t padded) {
  return query_runs(n + kRotateRows - 1, padded).bytes();  // rows need not start at a sixteen
}

void encode_rows(const EncodeJob& job) {
  if (job.n == 0) return;
  Work work = work_of(job);
  dw_parallel(work.runs.count, encode_run, &work);
}

void encode_queries(const QueryJob& job) {
  if (job.n == 0) return;
  QueryWork work{job, query_runs(job.n, job.turn.padded)};
  dw_parallel(work.runs.count, query_run, &work);
}

}  // namespace DW_ISA

// Sums over pairs of vectors, and the best rows for each query by them (vector/exact_ref.py is the readable twin).
//
// A sum has the order of tensor/kernels/reduction.cpp: a block is 4096 coordinates, coordinate i goes to accumulator
// (i div 16) mod 4, lane i mod 16; block = (a0+a1)+(a2+a3), then lanes l + (l+8), +4, +2, +1; blocks join in a tree.
// Terms are computed in float64. With few queries the lanes of a register are those 16; with many they are queries, and
// each of the 64 accumulators is summed in its turn: the same additions, so the same bits.
#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kBlock = 4096;
constexpr size_t kWidth = 16;           // queries of a tile: two registers of F64x8
constexpr size_t kChunkMax = 64;        // rows packed at a time …
constexpr size_t kChunkBytes = 65536;   // … that stay in the second-level cache
constexpr size_t kShardRowsMin = 2048;  // rows of one block of work
constexpr size_t kShardsMax = 64;
constexpr size_t kFewQueries = 6;  // below this a row is read as it lies

#if defined(DW_ISA_V4)
constexpr size_t kTileRows = 4;  // 8 accumulators, and as many of two sums that wait
#else
constexpr size_t kTileRows = 1;  // measured: two rows and more spill
#endif

enum Metric : uint32_t { kIp = 0, kCosine = 1, kL2 = 2 };

// Values that come one after another: whole subtrees wait until their right side is there.
template <class V, int levels>
struct Tree {
  V waiting[levels];
  int depth = 0;
  size_t count = 0;
  DW_INLINE void push(V value) {
    for (size_t c = count++; (c & 1) != 0; c >>= 1) value = waiting[--depth] + value;
    waiting[depth++] = value;
  }
  DW_INLINE V total() const {
    V value = waiting[depth - 1];
    for (int i = depth - 2; i >= 0; --i) value = waiting[i] + value;
    return value;
  }
};

DW_INLINE F64x16 operator+(F64x16 a, F64x16 b) { return {a.low + b.low, a.high + b.high}; }
DW_INLINE F64x16 operator-(F64x16 a, F64x16 b) { return {a.low - b.low, a.high - b.high}; }
DW_INLINE F64x16 fma(F64x16 a, F64x16 b, F64x16 c) { return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)}; }

template <bool squares, class V>
DW_INLINE V add_term(V x, V y, V sum) {
  if constexpr (!squares) return fma(x, y, sum);
  const V difference = x - y;
  return fma(difference, difference, sum);
}

DW_INLINE F64x16 load16(const float* p, ptrdiff_t step, size_t n) {
  if (step == 1) return widen(n >= 16 ? F32x16::load(p) : F32x16::load_partial(p, n, 0.0f));
  float local[16] = {};
  for (size_t i = 0; i < n && i < 16; ++i) local[i] = p[ptrdiff_t(i) * step];
  return widen(F32x16::load(local));
}

// One pair, lanes along the coordinates.
template <bool squares>
DW_INLINE double pair_sum(const float* x, ptrdiff_t x_step, const float* y, ptrdiff_t y_step, size_t d) {
  if (d == 0) return 0.0;
  Tree<double, 64> tree;
  for (size_t first = 0; first < d; first += kBlock) {
    const size_t n = d - first < kBlock ? d - first : kBlock;
    F64x16 a0 = {F64x8::zero(), F64x8::zero()}, a1 = a0, a2 = a0, a3 = a0;
    size_t i = 0;
    const auto term = [&](F64x16 a) DW_LAMBDA {
      const ptrdiff_t at = ptrdiff_t(first + i);
      const F64x16 sum = add_term<squares>(load16(x + at * x_step, x_step, n - i), load16(y + at * y_step, y_step, n - i), a);
      i += 16;
      return sum;
    };
    while (i + 64 <= n) {
      a0 = term(a0);
      a1 = term(a1);
      a2 = term(a2);
      a3 = term(a3);
    }
    if (i < n) a0 = term(a0);
    if (i < n) a1 = term(a1);
    if (i < n) a2 = term(a2);
    if (i < n) a3 = term(a3);
    tree.push(add_tree((a0 + a1) + (a2 + a3)));
  }
  return tree.total();
}

// The order in which a tile goes through the coordinates: lanes as the tree joins them, in each the four accumulators.
constexpr uint8_t kLaneOrder[16] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
DW_INLINE size_t chain_length(size_t n, size_t place) { return n > place ? (n - place - 1) / 64 + 1 : 0; }
template <class F>
DW_INLINE void each_place(size_t d, F f) {
  for (size_t first = 0; first < d; first += kBlock) {
    const size_t n = d - first < kBlock ? d - first : kBlock;
    for (size_t lane : kLaneOrder)
      for (size_t place = lane; place < 64; place += 16)
        for (size_t i = place; i < n; i += 64) f(first + i);
  }
}

// out[p · width + i] = coordinate number p of vector i, for i < count; zeros up to width.
void pack(const float* x, ptrdiff_t row, ptrdiff_t step, size_t count, size_t width, size_t d, double* out) {
  for (size_t i = 0; i < width; ++i) {
    double* to = out + i;
    const float* from = x + ptrdiff_t(i) * row;
    each_place(d, [&](size_t at) DW_LAMBDA {
      *to = i < count ? double(from[ptrdiff_t(at) * step]) : 0.0;
      to += width;
    });
  }
}

// rows × 2 registers of sums that are made together.
template <size_t rows>
struct Sums {
  F64x8 v[2 * rows];
};
template <size_t rows>
DW_INLINE Sums<rows> operator+(const Sums<rows>& a, const Sums<rows>& b) {
  Sums<rows> out;
  for (size_t i = 0; i < 2 * rows; ++i) out.v[i] = a.v[i] + b.v[i];
  return out;
}

// Sums of kTileRows packed rows with 16 packed queries.
template <bool squares>
DW_INLINE Sums<kTileRows> tile(const double* x, const double* q, size_t d) {
  Tree<Sums<kTileRows>, 4> blocks;  // 4 blocks at most
  for (size_t first = 0; first < d; first += kBlock) {
    const size_t n = d - first < kBlock ? d - first : kBlock;
    Tree<Sums<kTileRows>, 5> lanes;
    for (size_t lane : kLaneOrder) {
      const auto chain = [&](size_t accumulator) DW_LAMBDA {
        Sums<kTileRows> sum;
        for (F64x8& v : sum.v) v = F64x8::zero();
        for (size_t left = chain_length(n, lane + 16 * accumulator); left > 0; --left) {
          const F64x8 q0 = F64x8::load(q), q1 = F64x8::load(q + 8);
          for (size_t r = 0; r < kTileRows; ++r) {
            const F64x8 value = F64x8::set1(x[r]);
            sum.v[2 * r] = add_term<squares>(value, q0, sum.v[2 * r]);
            sum.v[2 * r + 1] = add_term<squares>(value, q1, sum.v[2 * r + 1]);
          }
          x += kTileRows;
          q += kWidth;
        }
        return sum;
      };
      const Sums<kTileRows> a0 = chain(0), a01 = a0 + chain(1), a2 = chain(2), a23 = a2 + chain(3);
      lanes.push(a01 + a23);
    }
    blocks.push(lanes.total());
  }
  return blocks.total();
}

// The best k of what is offered: a heap whose root is the worst. Better: a higher key, or the same key and a lower id.
struct Best {
  double* keys;
  uint64_t* ids;
  size_t k, count;

  static bool worse(double key_a, uint64_t id_a, double key_b, uint64_t id_b) {
    return key_a < key_b || (key_a == key_b && id_a > id_b);
  }
  void sink(size_t at, double key, uint64_t id) {
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
      if (child + 1 < count && worse(keys[child + 1], ids[child + 1], keys[child], ids[child])) ++child;
      if (!worse(keys[child], ids[child], key, id)) break;
      keys[at] = keys[child];
      ids[at] = ids[child];
      at = child;
    }
    keys[at] = key;
    ids[at] = id;
  }
  void offer(double key, uint64_t id) {
    if (count == k) {
      if (worse(keys[0], ids[0], key, id)) sink(0, key, id);
      return;
    }
    size_t at = count++;
    for (; at > 0 && worse(key, id, keys[(at - 1) / 2], ids[(at - 1) / 2]); at = (at - 1) / 2) {
      keys[at] = keys[(at - 1) / 2];
      ids[at] = ids[(at - 1) / 2];
    }
    keys[at] = key;
    ids[at] = id;
  }
  // Sorts, the best first; it is no heap any more.
  void sort() {
    const size_t all = count;
    while (count > 1) {
      const double key = keys[--count];
      const uint64_t id = ids[count];
      keys[count] = keys[0];
      ids[count] = ids[0];
      sink(0, key, id);
    }
    count = all;
  }
};

size_t shard_rows(size_t n) {
  const size_t even = (n + kShardsMax - 1) / kShardsMax;
  const size_t rows = even > kShardRowsMin ? even : kShardRowsMin;
  return (rows + kChunkMax - 1) / kChunkMax * kChunkMax;
}
size_t chunk_rows(size_t d) {
  const size_t rows = kChunkBytes / (d * sizeof(double)) / kTileRows * kTileRows;
  return rows < kTileRows ? kTileRows : rows > kChunkMax ? kChunkMax : rows;
}
size_t shard_count(size_t n) { return (n + shard_rows(n) - 1) / shard_rows(n); }
size_t padded(size_t queries) { return (queries + kWidth - 1) / kWidth * kWidth; }
size_t least(size_t a, size_t b) { return a < b ? a : b; }

// The workspace: packed queries; for each shard packed rows; for each shard and query, and for each query, a heap.
struct Work {
  const droveway::ExactSearch& s;
  size_t shards, rows, chunk, shard_k;
  double *queries, *packed, *shard_keys, *keys;
  uint64_t *shard_ids, *ids;
  size_t* counts;

  explicit Work(const droveway::ExactSearch& search)
      : s(search), shards(shard_count(s.n)), rows(shard_rows(s.n)), chunk(chunk_rows(s.d)), shard_k(least(s.k, rows)) {}

  size_t words() const {
    const size_t heaps = shards * s.nq * shard_k + s.nq * s.k;
    return padded(s.nq) * s.d + shards * chunk * s.d + 2 * heaps + shards * s.nq;
  }
  void take(void* workspace) {
    queries = static_cast<double*>(workspace);
    packed = queries + padded(s.nq) * s.d;
    shard_keys = packed + shards * chunk * s.d;
    keys = shard_keys + shards * s.nq * shard_k;
    shard_ids = reinterpret_cast<uint64_t*>(keys + s.nq * s.k);
    ids = shard_ids + shards * s.nq * shard_k;
    counts = reinterpret_cast<size_t*>(ids + s.nq * s.k);
  }
  Best shard_best(size_t shard, size_t query) const {
    const size_t at = (shard * s.nq + query) * shard_k;
    return {shard_keys + at, shard_ids + at, shard_k, counts[shard * s.nq + query]};
  }
};

DW_INLINE double finish(double sum, const droveway::ExactSearch& s, size_t row, size_t query) {
  if (s.metric == kIp) return sum + 0.0;
  if (s.metric == kL2) return 0.0 - sum;
  const double norms = s.x_norm[row] * s.q_norm[query];
  return norms == 0.0 ? 0.0 : sum / norms + 0.0;
}
DW_INLINE F64x8 finish(F64x8 sum, const droveway::ExactSearch& s, size_t row, F64x8 q_norm) {
  const F64x8 zero = F64x8::zero();
  if (s.metric == kIp) return sum + zero;
  if (s.metric == kL2) return zero - sum;
  const F64x8 norms = F64x8::set1(s.x_norm[row]) * q_norm;
  return select(eq(norms, zero), zero, sum / norms + zero);
}

template <bool squares>
void few_queries(const Work& w, size_t shard, size_t first, size_t end) {
  const auto& s = w.s;
  for (size_t query = 0; query < s.nq; ++query) {
    Best best = w.shard_best(shard, query);
    for (size_t row = first; row < end; ++row) {
      const double key =
          finish(pair_sum<squares>(s.x + ptrdiff_t(row) * s.x_row, s.x_step, s.q + query * s.d, 1, s.d), s, row, query);
      if (best.count < best.k || key > best.keys[0]) best.offer(key, row);  // later rows have higher ids
    }
    w.counts[shard * s.nq + query] = best.count;
  }
}

// Offers the keys of one row to 8 queries. least_key: what a key must be above to be taken.
DW_INLINE void offer_lanes(const Work& w, size_t shard, size_t row, size_t query, F64x8 key, double* least_key) {
  uint32_t taken = lane_bits(gt(key, F64x8::load(least_key)));
  if (taken == 0) return;
  double keys[8];
  store(keys, key);
  for (size_t lane = 0; lane < 8; ++lane) {
    if ((taken >> lane & 1) == 0 || query + lane >= w.s.nq) continue;
    Best best = w.shard_best(shard, query + lane);
    best.offer(keys[lane], row);
    w.counts[shard * w.s.nq + query + lane] = best.count;
    if (best.count == best.k) least_key[lane] = best.keys[0];
  }
}

template <bool squares>
void many_queries(const Work& w, size_t shard, size_t first, size_t end) {
  const auto& s = w.s;
  double* packed = w.packed + shard * w.chunk * s.d;
  for (size_t chunk = first; chunk < end; chunk += w.chunk) {
    const size_t rows = least(w.chunk, end - chunk);
    for (size_t r = 0; r < rows; r += kTileRows)
      pack(s.x + ptrdiff_t(chunk + r) * s.x_row, s.x_row, s.x_step, least(kTileRows, rows - r), kTileRows, s.d,
           packed + r * s.d);
    for (size_t query = 0; query < s.nq; query += kWidth) {
      double least_key[kWidth], q_norm[kWidth] = {};
      for (size_t lane = 0; lane < kWidth; ++lane) {
        least_key[lane] = -__builtin_huge_val();
        if (query + lane >= s.nq) continue;
        const Best best = w.shard_best(shard, query + lane);
        if (best.count == best.k) least_key[lane] = best.keys[0];
        if (s.metric == kCosine) q_norm[lane] = s.q_norm[query + lane];
      }
      for (size_t r = 0; r < rows; r += kTileRows) {
        const auto sums = tile<squares>(packed + r * s.d, w.queries + query * s.d, s.d);
        for (size_t i = 0; i < kTileRows && r + i < rows; ++i)
          for (size_t half = 0; half < 2; ++half)
            offer_lanes(w, shard, chunk + r + i, query + 8 * half,
                        finish(sums.v[2 * i + half], s, chunk + r + i, F64x8::load(q_norm + 8 * half)),
                        least_key + 8 * half);
      }
    }
  }
}

void search_shard(void* context, size_t shard) {
  const Work& w = *static_cast<const Work*>(context);
  const size_t first = shard * w.rows, end = least(first + w.rows, w.s.n);
  for (size_t query = 0; query < w.s.nq; ++query) w.counts[shard * w.s.nq + query] = 0;
  const bool squares = w.s.metric == kL2;
  if (w.s.nq < kFewQueries) squares ? few_queries<true>(w, shard, first, end) : few_queries<false>(w, shard, first, end);
  else squares ? many_queries<true>(w, shard, first, end) : many_queries<false>(w, shard, first, end);
}

void pack_queries(void* context, size_t block) {
  const Work& w = *static_cast<const Work*>(context);
  const size_t query = block * kWidth;
  pack(w.s.q + query * w.s.d, ptrdiff_t(w.s.d), 1, least(kWidth, w.s.nq - query), kWidth, w.s.d, w.queries + query * w.s.d);
}

void merge_query(void* context, size_t query) {
  const Work& w = *static_cast<const Work*>(context);
  const auto& s = w.s;
  Best best{w.keys + query * s.k, w.ids + query * s.k, s.k, 0};
  for (size_t shard = 0; shard < w.shards; ++shard) {
    const Best part = w.shard_best(shard, query);
    for (size_t i = 0; i < part.count; ++i) best.offer(part.keys[i], part.ids[i]);
  }
  best.sort();
  for (size_t i = 0; i < s.k; ++i) {
    const bool there = i < best.count;  // NaN keys are never taken: what calls this lets none in
    s.scores[query * s.k + i] = there ? canonical(float(best.keys[i])) : f32_of(kNan32);
    s.ids[query * s.k + i] = there ? best.ids[i] : 0;
  }
}

template <bool squares>
struct Pairs {
  const float* x;
  ptrdiff_t x_row, x_step;
  const float* y;
  ptrdiff_t y_row, y_step;
  size_t n, d, rows;
  double* out;
};
template <bool squares>
void sum_pairs(void* context, size_t block) {
  const auto& p = *static_cast<const Pairs<squares>*>(context);
  for (size_t i = block * p.rows; i < least((block + 1) * p.rows, p.n); ++i)
    p.out[i] = canonical(
        pair_sum<squares>(p.x + ptrdiff_t(i) * p.x_row, p.x_step, p.y + ptrdiff_t(i) * p.y_row, p.y_step, p.d));
}
template <bool squares>
void all_pairs(const float* x, ptrdiff_t x_row, ptrdiff_t x_step, const float* y, ptrdiff_t y_row, ptrdiff_t y_step,
               size_t n, size_t d, double* out) {
  if (n == 0) return;
  Pairs<squares> p{x, x_row, x_step, y, y_row, y_step, n, d, kBlock / (d + 1) + 1, out};
  dw_parallel((n - 1) / p.rows + 1, sum_pairs<squares>, &p);
}

}  // namespace

void pair_sums(const float* x, ptrdiff_t x_row, ptrdiff_t x_step, const float* y, ptrdiff_t y_row, ptrdiff_t y_step,
               size_t n, size_t d, bool squares, double* out) {
  FpGuard guard;
  if (squares) all_pairs<true>(x, x_row, x_step, y, y_row, y_step, n, d, out);
  else all_pairs<false>(x, x_row, x_step, y, y_row, y_step, n, d, out);
}

size_t exact_workspace(size_t n, size_t nq, size_t d, size_t k) {
  droveway::ExactSearch s{};
  s.n = n;
  s.nq = nq;
  s.d = d;
  s.k = k;
  return Work(s).words() * sizeof(double);
}

void exact_search(const droveway::ExactSearch& search, void* workspace) {
  if (search.nq == 0 || search.k == 0) return;
  FpGuard guard;
  Work w(search);
  w.take(workspace);
  if (search.nq >= kFewQueries) dw_parallel(padded(search.nq) / kWidth, pack_queries, &w);
  dw_parallel(w.shards, search_shard, &w);
  dw_parallel(search.nq, merge_query, &w);
}

}  // namespace DW_ISA

// Keys of all rows for a batch of queries, and the best k of each (vector/score_ref.py).
//
// A key is an exact integer times an exact scale, so nothing about the order of work shows in it: tiles, panels, shards
// and groups are free. Rows come in tiles of 64 (two blocks of memory). For a group of queries a tile's codes become
// 16-bit levels once, two coordinates of a row in a lane, and meet all queries of the group, six at a time. A few
// queries are answered from the codes directly: the sign of a coordinate of the query is moved to the code (code 15 − c
// has the level −level(c)), so that unsigned times signed bytes cannot saturate.
#include "score_lanes.hpp"

#include "best.hpp"
#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

using droveway::ScanJob;
using droveway::Segment;

constexpr size_t kTileRows = 64;
constexpr size_t kGroup = 192;         // queries that share one expansion of a tile: it then costs about 1 % of the work
constexpr size_t kDirect = 4;          // up to so many queries are answered without expanding
constexpr size_t kPanelGroups = 4;     // groups of 64 coordinates expanded at a time: 32 KiB of levels
constexpr size_t kPanelPairs = kPanelGroups * 32;
constexpr size_t kShardTiles = 32;     // at least so many tiles a shard

#if defined(DW_ISA_V4)
constexpr int kRegisters = 4;  // of rows in a tile of the product: 24 accumulators of 32 registers
constexpr int kQueries = 6;
#elif defined(DW_ISA_V3)
constexpr int kRegisters = 2;  // 12 accumulators of 16
constexpr int kQueries = 6;
#else
constexpr int kRegisters = 4;  // 24 accumulators of 32
constexpr int kQueries = 6;
#endif
constexpr size_t kStripRows = kRegisters * kRowLanes;
constexpr size_t kStrips = kTileRows / kStripRows;
constexpr size_t kTileRegisters = kTileRows / kRowLanes;

constexpr int8_t kLevels[16] = {-127, -96, -75, -58, -44, -31, -18, -6, 6, 18, 31, 44, 58, 75, 96, 127};

template <int... I> struct Numbers {};
template <int N, int... I> struct MakeNumbers : MakeNumbers<N - 1, N - 1, I...> {};
template <int... I> struct MakeNumbers<0, I...> { using type = Numbers<I...>; };
template <class F, int... I>
DW_INLINE void unroll(F f, Numbers<I...>) { (f(Index<I>{}), ...); }
template <int N, class F>
DW_INLINE void repeat(F f) { unroll(f, typename MakeNumbers<N>::type{}); }

// First coordinate of an octet (vector/nibbles.py): its bytes hold c … c+3, their upper halves c+32 … c+35.
DW_INLINE size_t octet_coordinate(size_t octet) { return octet / 8 * 64 + octet % 8 * 4; }

struct Tile {
  const uint8_t* blocks[2];  // the second one may not exist (nullptr) at the end of a segment
};

// Levels of some octets of a tile: [strip][pair][row][2], four pairs an octet: bytes (0, 2) and (1, 3) of the lower
// halves, then of the upper ones.
void expand(const Tile& tile, size_t first_octet, size_t octets, int16_t* out) {
  const size_t pairs = octets * 4;
  for (size_t o = 0; o < octets; ++o)
    for (size_t v = 0; v < kTileRegisters; ++v) {
      const uint8_t* block = tile.blocks[v * kRowLanes / 32];
      if (block == nullptr) continue;
      const Lanes x = lanes_load(block + ((first_octet + o) * 32 + v * kRowLanes % 32) * 4);
      const Lanes low = level_bytes(kLevels, nibbles_low(x)), high = level_bytes(kLevels, nibbles_high(x));
      int16_t* place = out + ((v / kRegisters * pairs + o * 4) * kStripRows + v % kRegisters * kRowLanes) * 2;
      lanes_store(place, even_words(low));
      lanes_store(place + kStripRows * 2, odd_words(low));
      lanes_store(place + kStripRows * 4, even_words(high));
      lanes_store(place + kStripRows * 6, odd_words(high));
    }
}

// acc[query][64] of Q queries for one strip of rows; `first`: from zero, else on top of what is there.
template <int Q>
__attribute__((noinline)) void product(size_t pairs, const int16_t* rows, const uint32_t* queries, int32_t* acc,
                                       bool first) {
  Lanes sum[Q * kRegisters];
  repeat<Q>([&](auto q) DW_LAMBDA {
    repeat<kRegisters>([&](auto r) DW_LAMBDA {
      sum[q * kRegisters + r] = first ? lanes_zero() : lanes_load(acc + q * kTileRows + r * kRowLanes);
    });
  });
  for (size_t p = 0; p < pairs; ++p) {
    Lanes row[kRegisters];
    repeat<kRegisters>([&](auto r) DW_LAMBDA { row[r] = lanes_load(rows + r * kRowLanes * 2); });
    repeat<Q>([&](auto q) DW_LAMBDA {
      const Lanes pair = lanes_broadcast(queries + q);
      repeat<kRegisters>([&](auto r) DW_LAMBDA {
        sum[q * kRegisters + r] = lanes_add(sum[q * kRegisters + r], multiply_words(row[r], pair));
      });
    });
    rows += kStripRows * 2;
    queries += Q;
  }
  repeat<Q>([&](auto q) DW_LAMBDA {
    repeat<kRegisters>([&](auto r) DW_LAMBDA {
      lanes_store(acc + q * kTileRows + r * kRowLanes, sum[q * kRegisters + r]);
    });
  });
}

using Product = void (*)(size_t, const int16_t*, const uint32_t*, int32_t*, bool);
constexpr Product kProducts[kQueries] = {product<1>, product<2>, product<3>, product<4>, product<5>, product<6>};

// acc[64] of one query, straight from the codes. `query`: four words an octet: sizes of the coordinates in the lower
// halves, in the upper ones, and 15 in each byte whose coordinate is negative, for both.
void direct(const Tile& tile, size_t octets, const uint32_t* query, int32_t* acc) {
  for (size_t strip = 0; strip < kTileRegisters; strip += 4) {
    const uint8_t* block = tile.blocks[strip * kRowLanes / 32];
    if (block == nullptr) return;
    // On v4 a strip is the whole tile: registers 2 and 3 belong to the second block.
    const uint8_t* other = tile.blocks[(strip + 2) * kRowLanes / 32];
    if (other == nullptr) other = block;  // its rows are not valid, so neither are their values
    const uint8_t* from[4] = {block + strip * kRowLanes % 32 * 4, block + (strip + 1) * kRowLanes % 32 * 4,
                              other + (strip + 2) * kRowLanes % 32 * 4, other + (strip + 3) * kRowLanes % 32 * 4};
    Lanes sum[4], more[4];
    repeat<4>([&](auto r) DW_LAMBDA { sum[r] = more[r] = lanes_zero(); });
    const uint32_t* q = query;
    for (size_t o = 0; o < octets; ++o, q += 4) {
      const Lanes low = lanes_broadcast(q), high = lanes_broadcast(q + 1);
      const Lanes low_sign = lanes_broadcast(q + 2), high_sign = lanes_broadcast(q + 3);
      repeat<4>([&](auto r) DW_LAMBDA {
        const Lanes x = lanes_load(from[r] + o * 128);
        const Lanes a = level_bytes(kLevels, lanes_xor(nibbles_low(x), low_sign));
        const Lanes b = level_bytes(kLevels, lanes_xor(nibbles_high(x), high_sign));
        sum[r] = lanes_add(sum[r], multiply_bytes(low, a));
        more[r] = lanes_add(more[r], multiply_bytes(high, b));
      });
    }
    repeat<4>([&](auto r) DW_LAMBDA { lanes_store(acc + (strip + r) * kRowLanes, lanes_add(sum[r], more[r])); });
  }
}

void pack_direct(const int8_t* q, size_t octets, uint32_t* out) {
  uint8_t* bytes = reinterpret_cast<uint8_t*>(out);
  for (size_t o = 0; o < octets; ++o, bytes += 16)
    for (size_t b = 0; b < 8; ++b) {
      const int value = q[octet_coordinate(o) + b % 4 + b / 4 * 32];
      bytes[b] = uint8_t(value < 0 ? -value : value);
      bytes[8 + b] = value < 0 ? 15 : 0;
    }
}

// One of Q queries that are multiplied together: [pair][Q].
void pack_pairs(const int8_t* q, size_t octets, size_t Q, uint32_t* out) {
  for (size_t o = 0; o < octets; ++o)
    for (size_t j = 0; j < 4; ++j, out += Q) {
      const int8_t* c = q + octet_coordinate(o) + j / 2 * 32 + j % 2;
      const int16_t pair[2] = {c[0], c[2]};
      memcpy(out, pair, 4);
    }
}

size_t group_of(size_t nq) {
  if (nq <= kDirect) return nq;
  const size_t groups = (nq + kGroup - 1) / kGroup;
  const size_t even = (nq + groups - 1) / groups;  // groups as equal as they can be, in whole products
  return (even + kQueries - 1) / kQueries * kQueries;
}

size_t aligned(size_t bytes) { return (bytes + 63) & ~size_t(63); }

// The memory of one unit: a group of queries against a shard of the rows.
struct Layout {
  size_t group, groups, queries, levels, acc, best, keys, ids, bytes;
  Layout(size_t nq, size_t k, size_t padded) {
    group = group_of(nq);
    groups = group == 0 ? 0 : (nq + group - 1) / group;
    const size_t pairs = padded / 2 < kPanelPairs ? padded / 2 : kPanelPairs;
    size_t at = 0;
    const auto take = [&](size_t size) {
      const size_t begin = at;
      at += aligned(size);
      return begin;
    };
    queries = take(group * padded * 2);
    levels = take(nq <= kDirect ? 0 : pairs * kTileRows * 4);
    acc = take(group * kTileRows * 4);
    best = take(group * sizeof(Best));
    keys = take(group * Best::room(k) * sizeof(double));
    ids = take(group * Best::room(k) * sizeof(uint64_t));
    bytes = at;
  }
};

struct Scan {
  const ScanJob& job;
  Layout layout;
  size_t tiles;

  char* unit(size_t number) const { return static_cast<char*>(job.workspace) + number * layout.bytes; }
  Best* best(size_t number) const { return reinterpret_cast<Best*>(unit(number) + layout.best); }
  size_t queries_of(size_t group) const {
    const size_t first = group * layout.group;
    return job.nq - first < layout.group ? job.nq - first : layout.group;
  }
};

size_t tiles_of(const Segment& s) { return (s.rows + kTileRows - 1) / kTileRows; }

// A float32 below which no product float(acc)·scale of a key at or above `threshold` can fall: both roundings of that
// product and the one here are off by less than 2^-22 of the size, and no size comes near the ends of float32.
float lowered(double threshold) {
  return float(threshold - (threshold < 0.0 ? -threshold : threshold) * 0x1p-20);
}

// Offers the rows of a tile whose keys may be among the best of one query.
struct Filter {
  const ScanJob& job;
  const Segment& segment;
  size_t first;  // row of the segment
  size_t count;  // rows of the tile that are there
  uint64_t valid;

  // One bit for each row whose key may reach the threshold.
  DW_INLINE uint64_t passing(const int32_t* acc, double threshold) const {
    const F32x16 limit = F32x16::set1(lowered(threshold));
    uint64_t passed = 0;
    for (size_t i = 0; i < kTileRows; i += 16) {
      const size_t left = i < count ? count - i : 0;
      const F32x16 scales = F32x16::load_partial(segment.scales + first + (left ? i : 0), left, 0.0f);
      passed |= uint64_t(lane_bits(ge(from_i32(words_of(acc + i)) * scales, limit))) << i;
    }
    return passed;
  }
  // The same for l2, where keys are differences: exact.
  DW_INLINE uint64_t passing_l2(const int32_t* acc, double threshold, double factor) const {
    const F64x8 limit = F64x8::set1(threshold), by = F64x8::set1(factor);
    uint64_t passed = 0;
    for (size_t i = 0; i < kTileRows; i += 16) {
      const size_t left = i < count ? count - i : 0, at = first + (left ? i : 0);
      const F64x16 scales = widen(F32x16::load_partial(segment.scales + at, left, 0.0f));
      const F64x16 norms2 = widen(-F32x16::load_partial(segment.norms2 + at, left, 0.0f));
      const F64x8 low = fma(by, doubles_of(acc + i) * scales.low, norms2.low);
      const F64x8 high = fma(by, doubles_of(acc + i + 8) * scales.high, norms2.high);
      passed |= uint64_t(lane_bits(ge(low, limit)) | lane_bits(ge(high, limit)) << 8) << i;
    }
    return passed;
  }
  void offer(size_t query, const int32_t* acc, Best& best) const {
    const bool l2 = job.l2_factor != nullptr;
    uint64_t passed =
        valid & (l2 ? passing_l2(acc, best.threshold, job.l2_factor[query]) : passing(acc, best.threshold));
    for (; passed != 0; passed &= passed - 1) {
      const size_t i = size_t(__builtin_ctzll(passed)), row = first + i;
      double key = double(acc[i]) * double(segment.scales[row]);
      if (l2) key = fma1(job.l2_factor[query], key, -double(segment.norms2[row]));
      key += 0.0;  // −0 becomes +0
      if (key < best.threshold) continue;
      best.offer(key, segment.ids != nullptr ? segment.ids[row] : segment.first + row);
    }
  }
};

void scan_tile(const Scan& scan, size_t group, char* unit, Best* best, const Tile& tile, const Filter& filter) {
  const ScanJob& j = scan.job;
  const size_t octets = j.padded / 8, count = scan.queries_of(group), before = group * scan.layout.group;
  const uint32_t* queries = reinterpret_cast<const uint32_t*>(unit + scan.layout.queries);
  int16_t* levels = reinterpret_cast<int16_t*>(unit + scan.layout.levels);
  int32_t* acc = reinterpret_cast<int32_t*>(unit + scan.layout.acc);
  if (j.nq <= kDirect) {
    for (size_t q = 0; q < count; ++q) {
      direct(tile, octets, queries + q * octets * 4, acc);
      filter.offer(before + q, acc, best[q]);
    }
    return;
  }
  for (size_t panel = 0; panel < octets; panel += kPanelGroups * 8) {
    const size_t width = octets - panel < kPanelGroups * 8 ? octets - panel : kPanelGroups * 8;
    const bool last = panel + width == octets;
    expand(tile, panel, width, levels);
    // The products below take long enough for the next tile to come from memory.
    const uint8_t* next = tile.blocks[0] + 64 * (j.padded / 2) + panel * 128;
    for (size_t at = 0; at < width * 128; at += 64) {
      __builtin_prefetch(next + at);
      __builtin_prefetch(next + 16 * j.padded + at);
    }
    for (size_t q = 0; q < count; q += kQueries) {
      const size_t Q = count - q < size_t(kQueries) ? count - q : kQueries;
      const uint32_t* pairs = queries + q * octets * 4 + panel * 4 * Q;
      for (size_t s = 0; s < kStrips; ++s)
        if (s * kStripRows < 32 || tile.blocks[1] != nullptr)
          kProducts[Q - 1](width * 4, levels + s * width * 4 * kStripRows * 2, pairs, acc + q * kTileRows + s * kStripRows,
                           panel == 0);
      if (last)
        for (size_t i = q; i < q + Q; ++i) filter.offer(before + i, acc + i * kTileRows, best[i]);
    }
  }
}

void scan_unit(void* context, size_t number) {
  FpGuard guard;
  const Scan& scan = *static_cast<const Scan*>(context);
  const ScanJob& j = scan.job;
  const size_t group = number / j.shards, shard = number % j.shards;
  const size_t count = scan.queries_of(group), octets = j.padded / 8;
  char* unit = scan.unit(number);
  uint32_t* queries = reinterpret_cast<uint32_t*>(unit + scan.layout.queries);
  Best* best = scan.best(number);
  for (size_t q = 0; q < count; ++q) {
    const int8_t* values = j.queries + (group * scan.layout.group + q) * j.padded;
    const size_t first = q / kQueries * kQueries;
    const size_t Q = count - first < size_t(kQueries) ? count - first : kQueries;
    if (j.nq <= kDirect) pack_direct(values, octets, queries + q * octets * 4);
    else pack_pairs(values, octets, Q, queries + first * octets * 4 + (q - first));
    best[q].start(reinterpret_cast<double*>(unit + scan.layout.keys) + q * Best::room(j.k),
                  reinterpret_cast<uint64_t*>(unit + scan.layout.ids) + q * Best::room(j.k), j.k);
  }
  const size_t from = scan.tiles * shard / j.shards, to = scan.tiles * (shard + 1) / j.shards;
  size_t number_of_tile = 0;
  for (size_t s = 0; s < j.segment_count; ++s) {
    const Segment& segment = j.segments[s];
    for (size_t t = 0; t < tiles_of(segment); ++t, ++number_of_tile) {
      if (number_of_tile < from || number_of_tile >= to) continue;
      const size_t row = t * kTileRows, left = segment.rows - row;
      uint64_t valid = left >= kTileRows ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
      if (j.allowed != nullptr) {
        uint64_t allowed;
        memcpy(&allowed, j.allowed + (segment.first + row) / 32, 8);
        valid &= allowed;
      }
      if (valid == 0) continue;
      const uint8_t* codes = segment.codes + row * (j.padded / 2);
      const Tile tile{{codes, left > 32 ? codes + 16 * j.padded : nullptr}};
      scan_tile(scan, group, unit, best, tile, Filter{j, segment, row, left < kTileRows ? left : kTileRows, valid});
    }
  }
}

// The best of all shards of some queries, sorted.
constexpr size_t kMergeQueries = 16;
void merge(void* context, size_t block) {
  const Scan& scan = *static_cast<const Scan*>(context);
  const ScanJob& j = scan.job;
  const size_t end = (block + 1) * kMergeQueries < j.nq ? (block + 1) * kMergeQueries : j.nq;
  for (size_t q = block * kMergeQueries; q < end; ++q) {
    const size_t group = q / scan.layout.group, at = q % scan.layout.group;
    Best& best = scan.best(group * j.shards)[at];
    for (size_t s = 1; s < j.shards; ++s) {
      const Best& other = scan.best(group * j.shards + s)[at];
      for (size_t i = 0; i < other.count; ++i) best.offer(other.rows.keys[i], other.rows.ids[i]);
    }
    best.sort();
    memcpy(j.keys + q * j.k, best.rows.keys, j.k * sizeof(double));
    memcpy(j.ids + q * j.k, best.rows.ids, j.k * sizeof(uint64_t));
  }
}

}  // namespace

size_t scan_shards(size_t nq, size_t rows) {
  const size_t threads = size_t(dw_threads()), group = group_of(nq);
  if (group == 0 || threads == 1) return 1;
  const size_t groups = (nq + group - 1) / group, most = rows / (kTileRows * kShardTiles);
  const size_t wanted = (2 * threads + groups - 1) / groups;
  const size_t shards = wanted < most ? wanted : most;
  return shards == 0 ? 1 : shards;
}

size_t scan_workspace(size_t nq, size_t k, size_t padded, size_t shards) {
  const Layout layout(nq, k, padded);
  return layout.groups * shards * layout.bytes;
}

void scan(const ScanJob& job) {
  if (job.nq == 0 || job.k == 0) return;
  Scan work{job, Layout(job.nq, job.k, job.padded), 0};
  for (size_t s = 0; s < job.segment_count; ++s) work.tiles += tiles_of(job.segments[s]);
  dw_parallel(work.layout.groups * job.shards, scan_unit, &work);
  dw_parallel((job.nq + kMergeQueries - 1) / kMergeQueries, merge, &work);
}

}  // namespace DW_ISA

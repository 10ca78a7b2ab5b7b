// Every kernel of vector, once per instruction set. A field is a pointer, its comment the contract.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "droveway/selftest.hpp"

namespace droveway {

// A search of all rows for each of nq queries; rows and queries of d coordinates, 1 ≤ d ≤ 16384, 1 ≤ k ≤ n.
struct ExactSearch {
  const float* x;
  ptrdiff_t x_row, x_step;  // in elements
  size_t n;
  const float* q;  // [nq, d]
  size_t nq, d, k;
  uint32_t metric;        // 0 inner product, 1 cosine, 2 minus the squared distance
  const double* x_norm;   // cosine: [n] and [nq], else null
  const double* q_norm;
  float* scores;  // [nq, k], best first: key descending, row ascending
  uint64_t* ids;
};

// The tables of a rotation of `padded` coordinates, two rounds of each (vector/rotation_ref.py).
struct Turn {
  size_t padded;
  const uint32_t* order;
  const uint32_t* signs;  // 0 or the sign bit
};

// Rows to be encoded into places first … first + n − 1 of a segment (vector/encoder_ref.py).
struct EncodeJob {
  Turn turn;
  const float* boundaries;  // 15
  const float* x;
  size_t n, d;
  bool unit_norm;
  size_t first;
  uint8_t* codes;  // blocks of 32 rows (vector/nibbles.py)
  float *scales, *scales_high;
  float* norms2;  // may be null
  void* workspace;
};

struct QueryJob {
  Turn turn;
  const float* q;
  size_t n, d;
  int8_t* values;  // [n][padded]
  double *scales, *norms2;
  void* workspace;
};

// Rows of an index that lie together; all but the last segment hold a multiple of 64 rows.
struct Segment {
  const uint8_t* codes;
  const float* scales;
  const float* norms2;    // l2 only
  const uint64_t* ids;    // null: the slot is the id
  size_t first, rows;     // slot of the first row
};

struct ScanJob {
  const Segment* segments;
  size_t segment_count, padded;
  const int8_t* queries;    // [nq][padded]
  const double* l2_factor;  // 2·s_q of each query, null where the metric is not l2
  size_t nq, k, shards;     // at least k rows are allowed
  const uint32_t* allowed;  // one bit a slot, null: all; readable to a multiple of 64 slots
  double* keys;             // [nq][k], best first
  uint64_t* ids;
  void* workspace;
};

// Slots by id: chunks[slot >> shift][slot mod 2^shift] is the id of a slot (vector/id_table.py).
struct IdTable {
  uint32_t* slots;
  size_t capacity;  // above the number of rows
  const uint64_t* const* chunks;
  uint32_t shift;
  size_t rows;  // that the chunks hold; an entry from there on is nobody's, and never followed
};

struct VectorTable {
  // Stable ascending order of n < 2^32 keys; false, and nothing promised of `order`, where one is NaN.
  // workspace of depth_workspace(n) bytes, aligned to 8
  bool (*depth_order)(const float* z, size_t n, uint32_t* order, void* workspace);
  size_t (*depth_workspace)(size_t n);
  // out[i] = the sum of x[i]·y[i], or of (x[i] − y[i])² where `squares`, in float64; y_row 0: one y for all
  void (*pair_sums)(const float* x, ptrdiff_t x_row, ptrdiff_t x_step, const float* y, ptrdiff_t y_row, ptrdiff_t y_step,
                    size_t n, size_t d, bool squares, double* out);
  // the best k rows of each query; workspace of exact_workspace(…) bytes, aligned to 8. All numbers finite
  void (*exact_search)(const ExactSearch& search, void* workspace);
  size_t (*exact_workspace)(size_t n, size_t nq, size_t d, size_t k);
  // out[n][padded] = rows of x[n][d], padded with zeros and rotated; inverse: the rotation back, with d = padded
  void (*rotate)(const Turn& turn, const float* x, size_t n, size_t d, bool inverse, float* out, void* workspace);
  size_t (*rotate_workspace)(size_t n, size_t padded);
  void (*encode_rows)(const EncodeJob& job);
  void (*encode_queries)(const QueryJob& job);
  size_t (*encode_workspace)(size_t n, size_t padded);
  // the best k allowed rows of each query
  void (*scan)(const ScanJob& job);
  size_t (*scan_shards)(size_t nq, size_t rows);
  size_t (*scan_workspace)(size_t nq, size_t k, size_t padded, size_t shards);
  // enters slots first … first + count − 1, up to the first whose id is there already; returns how many
  size_t (*id_table_insert)(const IdTable& table, uint32_t first, size_t count);
  // the slot of each id, 2^32 − 1 where there is none
  void (*id_table_find)(const IdTable& table, const uint64_t* ids, size_t count, uint32_t* slots);
  void (*id_table_erase)(const IdTable& table, uint64_t id);
  // the id, which is there, has another slot now
  void (*id_table_move)(const IdTable& table, uint64_t id, uint32_t slot);
};

void vector_self_test(const VectorTable& table, SelfTestEmit emit, void* context);

}  // namespace droveway

#if defined(__x86_64__)
namespace isa_v3 { extern const droveway::VectorTable vector_table; }
namespace isa_v4 { extern const droveway::VectorTable vector_table; }
#else
namespace isa_neon { extern const droveway::VectorTable vector_table; }
#endif

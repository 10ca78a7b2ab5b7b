#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "droveway/area.hpp"
#include "droveway/python_call.hpp"
#include "table.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using droveway::call_kernel;
using droveway::require_aligned;
using droveway::IdTable;
using droveway::Segment;
using droveway::Turn;
using droveway::VectorTable;

namespace {

droveway::Area<VectorTable> area("vector", DW_TABLES(vector_table), droveway::vector_self_test);

const VectorTable& kernels() { return area.kernels(); }

template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Out2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* sentence) {
  if (!condition) throw nb::value_error(sentence);
}

std::unique_ptr<uint64_t[]> workspace(size_t bytes) { return std::make_unique_for_overwrite<uint64_t[]>(bytes / 8 + 1); }

bool depth_order(In<float> z, Out<uint32_t> order) {
  const VectorTable& t = kernels();
  require_aligned(z, "z");
  require_aligned(order, "order");
  require(z.size() == order.size(), "depth_order: z and order must have the same length");
  require(z.size() < (size_t(1) << 32), "depth_order: z must be shorter than 2**32");
  const auto memory = workspace(t.depth_workspace(z.size()));
  bool ordered = false;
  call_kernel([&] { ordered = t.depth_order(z.data(), z.size(), order.data(), memory.get()); });
  return ordered;
}

template <class T> using Strided = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;

void pair_sums(Strided<float> x, Strided<float> y, bool squares, Out<double> out) {
  const VectorTable& t = kernels();
  require_aligned(x, "x");
  require_aligned(y, "y");
  require_aligned(out, "out");
  require(x.shape(1) == y.shape(1), "pair_sums: x and y must have the same number of columns");
  require(y.shape(0) == x.shape(0) || y.shape(0) == 1, "pair_sums: y must have one row, or as many as x");
  require(out.size() == x.shape(0), "pair_sums: out must have one value for each row of x");
  call_kernel([&] {
    t.pair_sums(x.data(), x.stride(0), x.stride(1), y.data(), y.shape(0) == 1 ? 0 : y.stride(0), y.stride(1), x.shape(0),
                x.shape(1), squares, out.data());
  });
}

void exact_search(Strided<float> x, In2<float> q, uint32_t metric, In<double> x_norm, In<double> q_norm,
                  Out2<float> scores, Out2<uint64_t> ids) {
  const VectorTable& t = kernels();
  require_aligned(x, "x");
  require_aligned(q, "q");
  require_aligned(x_norm, "x_norm");
  require_aligned(q_norm, "q_norm");
  require_aligned(scores, "scores");
  require_aligned(ids, "ids");
  const size_t n = x.shape(0), nq = q.shape(0), d = x.shape(1), k = scores.shape(1);
  require(metric <= 2, "exact_search: metric must be 0, 1 or 2");
  require(d >= 1 && d <= 16384 && q.shape(1) == d, "exact_search: x and q must have the same 1 to 16384 columns");
  require(k <= n, "exact_search: k must be at most the number of rows");
  require(n < (size_t(1) << 40) && nq <= 65536, "exact_search: at most 2**40 rows and 65536 queries");
  require(scores.shape(0) == nq && ids.shape(0) == nq && ids.shape(1) == k,
          "exact_search: scores and ids must be [queries, k]");
  require(metric != 1 || (x_norm.size() == n && q_norm.size() == nq),
          "exact_search: cosine needs the norm of each row and query");
  if (nq == 0 || k == 0) return;
  const auto memory = workspace(t.exact_workspace(n, nq, d, k));
  const droveway::ExactSearch search{x.data(), x.stride(0), x.stride(1), n, q.data(), nq, d, k, metric, x_norm.data(),
                                     q_norm.data(), scores.data(), ids.data()};
  call_kernel([&] { t.exact_search(search, memory.get()); });
}

size_t exact_workspace(size_t n, size_t nq, size_t d, size_t k) { return kernels().exact_workspace(n, nq, d, k); }

// Working memory of a kernel, aligned to its registers. Not by aligned_alloc: glibc's looks for more room than it keeps,
// so what was freed rarely fits the same request again, and the heap grew by a MiB at one add after the other.
struct Working {
  void* start;
  void* p;
  explicit Working(size_t bytes) : start(std::malloc(bytes + 64)) {
    if (start == nullptr) throw std::bad_alloc();
    p = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(start) + 63) & ~uintptr_t(63));
  }
  ~Working() { std::free(start); }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;
};

constexpr size_t kDimMax = 16384;
constexpr size_t kRowsMax = (size_t(1) << 32) - 64;

Turn turn_of(const In2<uint32_t>& order, const In2<uint32_t>& signs) {
  require_aligned(order, "order");
  require_aligned(signs, "signs");
  const size_t padded = order.shape(1);
  require(order.shape(0) == 2 && signs.shape(0) == 2 && signs.shape(1) == padded, "order and signs must be [2, padded]");
  require(padded % 64 == 0 && padded >= 64 && padded <= kDimMax, "padded must be a multiple of 64 up to 16384");
  for (size_t i = 0; i < 2 * padded; ++i) require(order.data()[i] < padded, "order must hold numbers below padded");
  return {padded, order.data(), signs.data()};
}

void rotate(In2<float> x, In2<uint32_t> order, In2<uint32_t> signs, bool inverse, Out2<float> out) {
  const VectorTable& t = kernels();
  const Turn turn = turn_of(order, signs);
  require_aligned(x, "x");
  require_aligned(out, "out");
  const size_t n = x.shape(0), d = x.shape(1);
  require(inverse ? d == turn.padded : d <= turn.padded, "rotate: x must have as many columns as the rotation, or fewer");
  require(out.shape(0) == n && out.shape(1) == turn.padded, "rotate: out must be [n, padded]");
  const Working memory(t.rotate_workspace(n, turn.padded));
  call_kernel([&] { t.rotate(turn, x.data(), n, d, inverse, out.data(), memory.p); });
}

void encode_rows(In2<float> x, In2<uint32_t> order, In2<uint32_t> signs, In<float> boundaries, bool unit_norm,
                 size_t first, Out<uint8_t> codes, Out<float> scales, Out<float> scales_high, Out<float> norms2) {
  const VectorTable& t = kernels();
  const Turn turn = turn_of(order, signs);
  require_aligned(x, "x");
  require_aligned(boundaries, "boundaries");
  require_aligned(scales, "scales");
  require_aligned(scales_high, "scales_high");
  require_aligned(norms2, "norms2");
  const size_t n = x.shape(0), d = x.shape(1), room = scales.size();
  require(d >= 1 && d <= turn.padded, "encode_rows: x must have at least one column, and at most padded ones");
  require(boundaries.size() == 15, "encode_rows: boundaries must be 15 numbers");
  require(room % 32 == 0 && room <= kRowsMax && n <= room && first <= room - n,
          "encode_rows: the rows must have places in the segment");
  require(scales_high.size() == room && codes.size() == room * (turn.padded / 2) &&
              (norms2.size() == room || norms2.size() == 0),
          "encode_rows: the arrays of the segment must have one size");
  const Working memory(t.encode_workspace(n, turn.padded));
  const droveway::EncodeJob job{turn, boundaries.data(), x.data(), n, d, unit_norm, first, codes.data(), scales.data(),
                                scales_high.data(), norms2.size() == 0 ? nullptr : norms2.data(), memory.p};
  call_kernel([&] { t.encode_rows(job); });
}

void encode_queries(In2<float> q, In2<uint32_t> order, In2<uint32_t> signs, Out2<int8_t> values, Out<double> scales,
                    Out<double> norms2) {
  const VectorTable& t = kernels();
  const Turn turn = turn_of(order, signs);
  require_aligned(q, "q");
  require_aligned(scales, "scales");
  require_aligned(norms2, "norms2");
  const size_t n = q.shape(0), d = q.shape(1);
  require(d >= 1 && d <= turn.padded, "encode_queries: q must have at least one column, and at most padded ones");
  require(values.shape(0) == n && values.shape(1) == turn.padded && scales.size() == n && norms2.size() == n,
          "encode_queries: the outputs must have one row for each query");
  const Working memory(t.encode_workspace(n, turn.padded));
  const droveway::QueryJob job{turn, q.data(), n, d, values.data(), scales.data(), norms2.data(), memory.p};
  call_kernel([&] { t.encode_queries(job); });
}

// Segments are tuples (codes, scales, norms2, ids, first, rows); norms2 and ids may be empty. The arrays stay held.
struct Held {
  std::vector<In<uint8_t>> codes;
  std::vector<In<float>> floats;
  std::vector<In<uint64_t>> ids;
  std::vector<Segment> segments;

  Held(const nb::list& list, size_t padded, bool l2) {
    size_t slot = 0;
    for (const nb::handle item : list) {
      const nb::tuple t = nb::cast<nb::tuple>(item);
      In<uint8_t> code;
      In<float> scale, norm;
      In<uint64_t> id;
      if (t.size() != 6 || !nb::try_cast(t[0], code, false) || !nb::try_cast(t[1], scale, false) ||
          !nb::try_cast(t[2], norm, false) || !nb::try_cast(t[3], id, false))
        throw nb::type_error("scan: a segment must be (uint8, float32, float32, uint64, int, int)");
      require_aligned(scale, "scales");
      require_aligned(norm, "norms2");
      require_aligned(id, "ids");
      size_t first = 0, rows = 0;
      if (!nb::try_cast(t[4], first, false) || !nb::try_cast(t[5], rows, false))
        throw nb::type_error("scan: first and rows of a segment must be ints from 0 on");
      require(first == slot && rows <= kRowsMax - slot && first % 64 == 0, "scan: segments must follow each other");
      require(rows <= scale.size() && (rows <= id.size() || id.size() == 0) && (!l2 || rows <= norm.size()) &&
                  (rows + 31) / 32 * 32 * (padded / 2) <= code.size(),
              "scan: a segment must hold its rows");
      slot += rows;
      segments.push_back({code.data(), scale.data(), norm.data(), id.size() == 0 ? nullptr : id.data(), first, rows});
      codes.push_back(code);
      floats.push_back(scale);
      floats.push_back(norm);
      ids.push_back(id);
    }
    rows = slot;
  }
  size_t rows;
};

void scan(const nb::list& segments, size_t padded, In2<int8_t> queries, In<double> l2_factor, size_t shards,
          In<uint32_t> allowed, Out2<double> keys, Out2<uint64_t> ids) {
  const VectorTable& t = kernels();
  require_aligned(l2_factor, "l2_factor");
  require_aligned(allowed, "allowed");
  require_aligned(keys, "keys");
  require_aligned(ids, "ids");
  require(padded % 64 == 0 && padded >= 64 && padded <= kDimMax, "padded must be a multiple of 64 up to 16384");
  const Held held(segments, padded, l2_factor.size() != 0);
  const size_t nq = queries.shape(0), k = keys.shape(1);
  require(queries.shape(1) == padded, "scan: queries must be [nq, padded]");
  require(l2_factor.size() == nq || l2_factor.size() == 0, "scan: l2_factor must have one value for each query");
  require(keys.shape(0) == nq && ids.shape(0) == nq && ids.shape(1) == k, "scan: keys and ids must be [nq, k]");
  require(shards >= 1 && shards <= 4096 && nq <= 65536, "scan: at most 4096 shards and 65536 queries");
  size_t usable = held.rows;
  if (allowed.size() != 0) {
    require(allowed.size() >= (held.rows + 63) / 64 * 2, "scan: allowed must have a bit for each slot, in whole 64s");
    usable = 0;
    for (size_t w = 0; w < (held.rows + 31) / 32; ++w) {
      const uint32_t tail = held.rows - w * 32 >= 32 ? ~0u : (1u << (held.rows - w * 32)) - 1;
      usable += size_t(__builtin_popcount(allowed.data()[w] & tail));
    }
  }
  require(k <= usable, "scan: k must be at most the number of allowed rows");
  if (nq == 0 || k == 0) return;
  const Working memory(t.scan_workspace(nq, k, padded, shards));
  const droveway::ScanJob job{held.segments.data(), held.segments.size(), padded, queries.data(),
                              l2_factor.size() == 0 ? nullptr : l2_factor.data(), nq, k, shards,
                              allowed.size() == 0 ? nullptr : allowed.data(), keys.data(), ids.data(), memory.p};
  call_kernel([&] { t.scan(job); });
}

// An id table over the ids of `rows` slots, kept in chunks of 2^shift.
struct Ids {
  std::vector<In<uint64_t>> arrays;
  std::vector<const uint64_t*> chunks;
  IdTable table;
  Ids(Out<uint32_t>& slots, const nb::list& list, uint32_t shift, size_t rows) {
    require_aligned(slots, "slots");
    require(shift >= 5 && shift < 32, "id table: shift must be from 5 to 31");
    require(slots.size() > rows && slots.size() < (size_t(1) << 33), "id table: it must have more places than rows");
    size_t held = 0;
    for (const nb::handle item : list) {
      In<uint64_t> ids;
      if (!nb::try_cast(item, ids, false)) throw nb::type_error("id table: a chunk must be uint64[n]");
      require_aligned(ids, "ids");
      const size_t wanted = rows - held < (size_t(1) << shift) ? rows - held : size_t(1) << shift;
      require(ids.size() >= wanted, "id table: a chunk is too short");
      held += wanted;
      arrays.push_back(ids);
      chunks.push_back(ids.data());
    }
    require(held == rows, "id table: the chunks must hold all rows");
    table = {slots.data(), slots.size(), chunks.data(), shift, rows};
  }
};

size_t id_table_insert(Out<uint32_t> slots, const nb::list& chunks, uint32_t shift, size_t rows, size_t first) {
  const Ids ids(slots, chunks, shift, rows);
  require(first <= rows, "id table: first must be a row");
  return kernels().id_table_insert(ids.table, uint32_t(first), rows - first);
}
void id_table_find(Out<uint32_t> slots, const nb::list& chunks, uint32_t shift, size_t rows, In<uint64_t> wanted,
                   Out<uint32_t> found) {
  const Ids ids(slots, chunks, shift, rows);
  require_aligned(wanted, "wanted");
  require_aligned(found, "found");
  require(found.size() == wanted.size(), "id table: found must be as long as wanted");
  kernels().id_table_find(ids.table, wanted.data(), wanted.size(), found.data());
}
void id_table_erase(Out<uint32_t> slots, const nb::list& chunks, uint32_t shift, size_t rows, In<uint64_t> wanted) {
  const Ids ids(slots, chunks, shift, rows);
  require_aligned(wanted, "wanted");
  for (size_t i = 0; i < wanted.size(); ++i) kernels().id_table_erase(ids.table, wanted.data()[i]);
}
void id_table_relocate(Out<uint32_t> slots, const nb::list& chunks, uint32_t shift, size_t rows, In<uint64_t> wanted,
                       In<uint32_t> places) {
  const Ids ids(slots, chunks, shift, rows);
  require_aligned(wanted, "wanted");
  require_aligned(places, "places");
  require(places.size() == wanted.size(), "id table: places must be as long as wanted");
  for (size_t i = 0; i < wanted.size(); ++i) {
    uint32_t at = 0;
    kernels().id_table_find(ids.table, wanted.data() + i, 1, &at);
    require(at != 0xFFFFFFFFu && places.data()[i] < rows, "id table: the id must be there, and its place be a row");
    kernels().id_table_move(ids.table, wanted.data()[i], places.data()[i]);
  }
}

}  // namespace

NB_MODULE(_kernels, m) {
  area.bind(m);
  m.def("compiler", [] { return DW_COMPILER; }, "The compiler that built the kernels.");
  m.def("depth_order", depth_order, "z"_a.noconvert(), "order"_a.noconvert(),
        "Stable ascending order of z into `order`; False, with `order` undefined, where z holds a NaN.");
  m.def("pair_sums", pair_sums, "x"_a.noconvert(), "y"_a.noconvert(), "squares"_a, "out"_a.noconvert(),
        "out[i] = the sum over row i of x·y, or of (x − y)², in float64; y may have one row for all.");
  m.def("exact_search", exact_search, "x"_a.noconvert(), "q"_a.noconvert(), "metric"_a, "x_norm"_a.noconvert(),
        "q_norm"_a.noconvert(), "scores"_a.noconvert(), "ids"_a.noconvert(), "The best rows of each query, best first.");
  m.def("exact_workspace", exact_workspace, "n"_a, "nq"_a, "d"_a, "k"_a, "Bytes that a search works in.");
  m.def("rotate", rotate, "x"_a.noconvert(), "order"_a.noconvert(), "signs"_a.noconvert(), "inverse"_a,
        "out"_a.noconvert(), "Rows of x, padded with zeros, rotated into `out`.");
  m.def("encode_rows", encode_rows, "x"_a.noconvert(), "order"_a.noconvert(), "signs"_a.noconvert(),
        "boundaries"_a.noconvert(), "unit_norm"_a, "first"_a, "codes"_a.noconvert(), "scales"_a.noconvert(),
        "scales_high"_a.noconvert(), "norms2"_a.noconvert(), "Rows of x into the places of a segment from `first` on.");
  m.def("encode_queries", encode_queries, "q"_a.noconvert(), "order"_a.noconvert(), "signs"_a.noconvert(),
        "values"_a.noconvert(), "scales"_a.noconvert(), "norms2"_a.noconvert(), "Queries as int8, s_q and squared norms.");
  m.def("scan", scan, "segments"_a, "padded"_a, "queries"_a.noconvert(), "l2_factor"_a.noconvert(), "shards"_a,
        "allowed"_a.noconvert(), "keys"_a.noconvert(), "ids"_a.noconvert(), "The best rows of each query, best first.");
  m.def("scan_shards", [](size_t nq, size_t rows) { return kernels().scan_shards(nq, rows); }, "nq"_a, "rows"_a,
        "Into how many shards the rows are cut, for the threads in use.");
  m.def("scan_workspace", [](size_t nq, size_t k, size_t padded, size_t shards) {
          return kernels().scan_workspace(nq, k, padded, shards);
        }, "nq"_a, "k"_a, "padded"_a, "shards"_a, "Bytes that a scan works in.");
  m.def("id_table_insert", id_table_insert, "slots"_a.noconvert(), "chunks"_a, "shift"_a, "rows"_a, "first"_a,
        "Enters the rows from `first` on, up to one whose id is there already; returns how many.");
  m.def("id_table_find", id_table_find, "slots"_a.noconvert(), "chunks"_a, "shift"_a, "rows"_a, "wanted"_a.noconvert(),
        "found"_a.noconvert(), "The slot of each id, 2**32 - 1 where there is none.");
  m.def("id_table_erase", id_table_erase, "slots"_a.noconvert(), "chunks"_a, "shift"_a, "rows"_a,
        "wanted"_a.noconvert(), "Takes ids out.");
  m.def("id_table_relocate", id_table_relocate, "slots"_a.noconvert(), "chunks"_a, "shift"_a, "rows"_a,
        "wanted"_a.noconvert(), "places"_a.noconvert(), "The ids have other slots now.");
}

// The self-test of the kernels of indexes: rows are rotated, encoded, searched and found by id. Twin:
// vector/selftest_index_ref.py.
#include "selftest_index.hpp"

#include <vector>

#include "droveway/selftest_memory.hpp"

namespace droveway {
namespace {

struct Case {
  size_t padded, d, n, first, nq, k;
  bool unit_norm, l2, wide;  // wide: values over 32 orders of magnitude
};
constexpr Case kCases[] = {
    {64, 1, 37, 0, 3, 5, false, false, false}, {128, 100, 150, 5, 20, 10, false, false, false},
    {192, 190, 70, 31, 7, 70, true, false, true}, {256, 256, 129, 16, 4, 9, false, true, false},
    {1024, 1000, 33, 0, 5, 4, false, true, true}, {4160, 4100, 18, 2, 5, 3, false, false, false},
    {64, 63, 700, 0, 5, 150, false, false, false},
};

struct Tables {
  std::vector<uint32_t> order, signs;
  explicit Tables(SplitMix64& source, size_t padded) {
    for (int round = 0; round < 2; ++round) {
      const size_t start = order.size();
      for (uint32_t i = 0; i < padded; ++i) order.push_back(i);
      for (size_t i = padded - 1; i > 0; --i) {
        const size_t j = size_t(source.next() % (i + 1));
        const uint32_t held = order[start + i];
        order[start + i] = order[start + j];
        order[start + j] = held;
      }
    }
    for (size_t i = 0; i < 2 * padded; ++i) signs.push_back(uint32_t(source.next()) & 0x80000000u);
  }
};

std::vector<float> vectors(SplitMix64& source, size_t count, bool wide) {
  std::vector<float> out(count);
  for (float& value : out) {
    const uint64_t word = source.next();
    value = wide ? plain_f32(word) : float(int32_t(word >> 40) - (1 << 23)) * 0x1p-20f;
  }
  return out;
}

}  // namespace

void index_self_test(const VectorTable& table, SelfTestEmit emit, void* context) {
  Digest rotated, rows, queries, found, slots;
  for (const Case& c : kCases) {
    SplitMix64 source{0x696E646578ull + c.padded + c.d};
    const Tables tables(source, c.padded);
    const Turn turn{c.padded, tables.order.data(), tables.signs.data()};
    std::vector<float> x = vectors(source, c.n * c.d, c.wide), q = vectors(source, c.nq * c.d, c.wide);
    for (size_t i = 0; i < c.d; ++i) x[3 * c.d + i] = 0.0f, x[9 * c.d + i] = x[11 * c.d + i], q[c.d + i] = 0.0f;

    std::vector<float> turned(c.n * c.padded), back(c.n * c.padded);
    const AlignedMemory rotating(table.rotate_workspace(c.n, c.padded));
    table.rotate(turn, x.data(), c.n, c.d, false, turned.data(), rotating.p);
    table.rotate(turn, turned.data(), c.n, c.padded, true, back.data(), rotating.p);
    for (size_t i = 0; i < turned.size(); i += 17) rotated.add(std::vector<float>{turned[i], back[i]});

    // Boundaries of the codes for N(0, 1/padded), from its root as a power of two nearby.
    std::vector<float> boundaries(15);
    for (int i = 0; i < 15; ++i) boundaries[size_t(i)] = float(i - 7) * 0.3125f / float(c.padded < 1024 ? 16 : 64);
    const size_t places = (c.first + c.n + 63) / 64 * 64;
    std::vector<uint8_t> codes(places * c.padded / 2);
    std::vector<float> scales(places), scales_high(places), norms2(places);
    std::vector<uint64_t> ids(places);
    for (size_t i = 0; i < places; ++i) ids[i] = source.next() >> 3;
    const AlignedMemory encoding(table.encode_workspace(c.n > c.nq ? c.n : c.nq, c.padded));
    // The places before the first row hold the rows that follow it.
    for (size_t first : {size_t(0), c.first})
      table.encode_rows({turn, boundaries.data(), x.data(), c.n, c.d, c.unit_norm, first, codes.data(), scales.data(),
                         scales_high.data(), norms2.data(), encoding.p});
    rows.add(codes);
    rows.add(scales);
    rows.add(scales_high);
    rows.add(norms2);

    std::vector<int8_t> values(c.nq * c.padded);
    std::vector<double> q_scales(c.nq), q_norms2(c.nq), factor(c.nq);
    table.encode_queries({turn, q.data(), c.nq, c.d, values.data(), q_scales.data(), q_norms2.data(), encoding.p});
    queries.add(values);
    queries.add(q_scales);
    queries.add(q_norms2);
    for (size_t i = 0; i < c.nq; ++i) factor[i] = 2.0 * q_scales[i];

    std::vector<uint32_t> allowed(places / 32);
    for (uint32_t& word : allowed) word = uint32_t(source.next());
    const Segment segment{codes.data(), scales.data(), norms2.data(), ids.data(), 0, c.first + c.n};
    size_t usable = 0;
    for (size_t i = 0; i < segment.rows; ++i) usable += allowed[i / 32] >> (i % 32) & 1;
    for (size_t shards : {1u, 3u})
      for (size_t nq : {size_t(1), c.nq})
        for (bool masked : {false, true}) {
          const size_t k = masked && usable < c.k ? usable : c.k;
          std::vector<double> keys(nq * k);
          std::vector<uint64_t> best(nq * k);
          const AlignedMemory scanning(table.scan_workspace(nq, k, c.padded, shards));
          table.scan({&segment, 1, c.padded, values.data(), c.l2 ? factor.data() : nullptr, nq, k, shards,
                      masked ? allowed.data() : nullptr, keys.data(), best.data(), scanning.p});
          found.add(keys);
          found.add(best);
        }

    // Ids of all rows but the last, every third one taken out again.
    std::vector<const uint64_t*> chunks;
    for (size_t i = 0; i < places; i += 32) chunks.push_back(ids.data() + i);
    std::vector<uint32_t> entries(segment.rows + 9, 0xFFFFFFFFu), places_found(segment.rows);
    const IdTable id_table{entries.data(), entries.size(), chunks.data(), 5, segment.rows};
    slots.add(std::vector<uint64_t>{table.id_table_insert(id_table, 0, segment.rows - 1),
                                    table.id_table_insert(id_table, 7, 5)});
    for (size_t i = 0; i < segment.rows; i += 3) table.id_table_erase(id_table, ids[i]);
    table.id_table_move(id_table, ids[1], 0);
    ids[0] = ids[1];
    table.id_table_find(id_table, ids.data(), segment.rows, places_found.data());
    slots.add(places_found);
  }
  emit(context, "vector.rotate", rotated.hash);
  emit(context, "vector.encode_rows", rows.hash);
  emit(context, "vector.encode_queries", queries.hash);
  emit(context, "vector.scan", found.hash);
  emit(context, "vector.id_table", slots.hash);
}

}  // namespace droveway

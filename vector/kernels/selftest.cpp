// One digest a kernel over fixed inputs; the twin is vector/selftest_ref.py.
#include <vector>

#include "droveway/selftest_memory.hpp"
#include "selftest_index.hpp"
#include "table.hpp"

namespace droveway {
namespace {

void depth_order(const VectorTable& table, SelfTestEmit emit, void* context) {
  Digest digest;
  for (size_t n : {0u, 1u, 2u, 1000u, 32768u, 32769u, 70001u}) {
    SplitMix64 source{0x6465707468ull + n};
    std::vector<float> z(n);
    for (float& value : z) {
      const uint64_t word = source.next();
      value = awkward_f32(word);
      if (value != value) value = float(word >> 60);  // no NaN, and many equal keys
    }
    std::vector<uint32_t> order(n);
    std::vector<uint64_t> workspace(table.depth_workspace(n) / 8 + 1);
    digest.add(uint64_t(table.depth_order(z.data(), n, order.data(), workspace.data())));
    digest.add(order);
    if (n == 0) continue;
    z[n - 1] = float_of_bits(0xFFC00000u);
    digest.add(uint64_t(table.depth_order(z.data(), n, order.data(), workspace.data())));
  }
  emit(context, "vector.depth_order", digest.hash);
}

// n, queries, d, k
constexpr size_t kSearches[][4] = {{1, 1, 1, 1},     {5, 2, 16, 5},  {70, 5, 17, 9},    {70, 6, 64, 70},
                                   {2113, 7, 3, 40}, {67, 35, 65, 3}, {6, 3, 4097, 2}, {9, 17, 4160, 4}};

void exact(const VectorTable& table, SelfTestEmit emit, void* context) {
  Digest sums, found;
  for (const auto& [n, queries, d, k] : kSearches) {
    std::vector<float> x((n + queries) * d);
    SplitMix64 source{0x6578616374ull + n};
    for (float& value : x) value = plain_f32(source.next());
    for (size_t i = 0; n > 4 && i < d; ++i) {  // two equal rows, a row of zeros
      x[3 * d + i] = x[1 * d + i];
      x[4 * d + i] = 0.0f;
    }
    const float* q = x.data() + n * d;
    std::vector<double> norms(n + queries), out(n);
    table.pair_sums(x.data(), ptrdiff_t(d), 1, x.data(), ptrdiff_t(d), 1, n + queries, d, false, norms.data());
    sums.add(norms);
    table.pair_sums(x.data() + d - 1, ptrdiff_t(d), -1, q, 0, 1, n, d, true, out.data());
    sums.add(out);
    for (uint32_t metric = 0; metric < 3; ++metric) {
      std::vector<float> scores(queries * k);
      std::vector<uint64_t> ids(queries * k);
      std::vector<uint64_t> workspace(table.exact_workspace(n, queries, d, k) / 8 + 1);
      // any positive numbers serve as norms
      const ExactSearch search{x.data(), ptrdiff_t(d), 1, n, q, queries, d, k, metric, norms.data(),
                               norms.data() + n, scores.data(), ids.data()};
      table.exact_search(search, workspace.data());
      found.add(scores);
      found.add(ids);
    }
  }
  emit(context, "vector.pair_sums", sums.hash);
  emit(context, "vector.exact_search", found.hash);
}

}  // namespace

void vector_self_test(const VectorTable& table, SelfTestEmit emit, void* context) {
  depth_order(table, emit, context);
  exact(table, emit, context);
  index_self_test(table, emit, context);
}

}  // namespace droveway

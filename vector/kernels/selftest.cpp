// One digest a kernel over fixed inputs; the twin is vector/selftest_ref.py.
#include <cstdlib>
#include <vector>

#include "table.hpp"

namespace droveway {
namespace {

struct Digest {
  uint64_t hash = 0xCBF29CE484222325ull;
  template <class T>
  void add(const std::vector<T>& values) {
    if (!values.empty()) hash = fnv1a(values.data(), values.size() * sizeof(T), hash);
  }
  void add(uint64_t value) { hash = fnv1a(&value, sizeof value, hash); }
};

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

}  // namespace

void vector_self_test(const VectorTable& table, SelfTestEmit emit, void* context) { depth_order(table, emit, context); }

}  // namespace droveway

// One digest a kernel over fixed inputs; the twin is splat/selftest_ref.py.
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
};

void to_bytes(const SplatTable& table, SelfTestEmit emit, void* context) {
  Digest digest;
  for (size_t n : {0u, 1u, 15u, 16u, 17u, 1000u, 70001u}) {
    SplitMix64 source{0x6279746573ull + n};
    std::vector<float> x(n);
    for (float& value : x) {
      const uint64_t word = source.next();
      value = (word & 3) == 0 ? awkward_f32(word) : float(word >> 40) * (1.0f / 16777216.0f);
    }
    std::vector<uint8_t> out(n);
    table.to_bytes(x.data(), n, out.data());
    digest.add(out);
  }
  emit(context, "splat.to_bytes", digest.hash);
}

}  // namespace

void splat_self_test(const SplatTable& table, SelfTestEmit emit, void* context) { to_bytes(table, emit, context); }

}  // namespace droveway

// The self-test of draws for many keys and of children. Twin: tensor/selftest_random_ref.py.
#include <initializer_list>
#include <string>
#include <vector>

#include "table.hpp"

namespace droveway {
namespace {

constexpr uint64_t kKeys[3] = {0x299F31D0A4093822ull, 0, 0xFFFFFFFFFFFFFFFFull};
constexpr uint64_t kOffset = (uint64_t{1} << 34) + 5;
constexpr int64_t kCount = 3, kStep = 1;

View keys() { return {reinterpret_cast<char*>(const_cast<uint64_t*>(kKeys)), Dtype::u64, 1, &kCount, &kStep}; }

uint64_t hash_draw(const TensorTable& table, RandomKind kind, Dtype dtype, size_t each, uint64_t hash, uint64_t low = 0,
                   uint64_t range = 0, uint32_t limit = 0) {
  std::vector<char> out(size_t(kCount) * each * dtype_size(dtype));
  table.random_draw({kind, dtype, keys(), each, kOffset, low, range, limit, out.data()});
  return fnv1a(out.data(), out.size(), hash);
}

uint64_t hash_floats(const TensorTable& table, RandomKind kind) {
  uint64_t hash = fnv1a(nullptr, 0);
  for (Dtype d : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64}) hash = hash_draw(table, kind, d, 301, hash);
  return hash;
}

uint64_t hash_bits(const TensorTable& table) {
  uint64_t hash = hash_draw(table, RandomKind::bits, Dtype::u32, 301, fnv1a(nullptr, 0));
  return hash_draw(table, RandomKind::bits, Dtype::u64, 8300, hash);  // more than a block of work
}

uint64_t hash_integers(const TensorTable& table) {
  uint64_t hash = hash_draw(table, RandomKind::randint, Dtype::i8, 301, fnv1a(nullptr, 0), uint64_t(-100), 200);
  hash = hash_draw(table, RandomKind::randint, Dtype::u16, 301, hash, 3, 1000);
  hash = hash_draw(table, RandomKind::randint, Dtype::i32, 301, hash, uint64_t(-7), uint64_t{1} << 31);
  hash = hash_draw(table, RandomKind::randint, Dtype::u64, 301, hash, 5, uint64_t{3} << 62);  // a quarter is drawn again
  return hash_draw(table, RandomKind::randint, Dtype::i64, 301, hash, uint64_t{1} << 63, 0);
}

uint64_t hash_children(const TensorTable& table) {
  constexpr uint64_t numbers[3] = {7, uint64_t{1} << 32, 0xFFFFFFFFFFFFFFFFull};
  const View at{reinterpret_cast<char*>(const_cast<uint64_t*>(numbers)), Dtype::u64, 1, &kCount, &kStep};
  uint64_t out[6];
  table.random_children(keys(), at, 1, out);
  table.random_children(keys(), at, 2, out + 3);
  return fnv1a(out, sizeof out);
}

}  // namespace

void random_self_test(const TensorTable& table, SelfTestEmit emit, void* context) {
  emit(context, "tensor.random_bits", hash_bits(table));
  emit(context, "tensor.random_uniform", hash_floats(table, RandomKind::uniform));
  emit(context, "tensor.random_normal", hash_floats(table, RandomKind::normal));
  emit(context, "tensor.random_randint", hash_integers(table));
  emit(context, "tensor.random_bernoulli",
       hash_draw(table, RandomKind::bernoulli, Dtype::boolean, 301, fnv1a(nullptr, 0), 0, 0, 5033165));
  emit(context, "tensor.random_child", hash_children(table));
}

}  // namespace droveway

// The self-test of tensor: every kernel on fixed inputs, one hash each. Twin: tensor/selftest_ref.py.
#include <vector>

#include "table.hpp"

namespace droveway {
namespace {

// n values from the generator started at seed.
template <class T>
T plain(uint64_t word);
template <>
float plain<float>(uint64_t word) { return plain_f32(word); }
template <>
double plain<double>(uint64_t word) { return plain_f64(word); }

template <class T>
std::vector<T> values(uint64_t seed, size_t n) {
  SplitMix64 generator{seed};
  std::vector<T> x(n);
  for (T& value : x) value = plain<T>(generator.next());
  return x;
}
std::vector<float> awkward(uint64_t seed, size_t n, float) {
  SplitMix64 generator{seed};
  std::vector<float> x(n);
  for (float& value : x) value = awkward_f32(generator.next());
  return x;
}
std::vector<double> awkward(uint64_t seed, size_t n, double) {
  SplitMix64 generator{seed};
  std::vector<double> x(n);
  for (double& value : x) value = awkward_f64(generator.next());
  return x;
}

constexpr size_t kLengths[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 1000, 4095, 4096, 4097, 8192, 12289, 270001};
constexpr size_t kShort = 200;

template <class T>
uint64_t hash_sum(T (*sum)(const T*, ptrdiff_t, size_t)) {
  uint64_t hash = fnv1a(nullptr, 0);
  for (size_t n : kLengths) {
    const std::vector<T> x = values<T>(n, n + 1);
    const T contiguous = sum(x.data() + 1, 1, n);
    hash = fnv1a(&contiguous, sizeof(T), hash);
    if (n > 20000) continue;
    const T backwards = sum(x.data() + n, -1, n), strided = sum(x.data(), 3, n / 3);
    hash = fnv1a(&backwards, sizeof(T), hash);
    hash = fnv1a(&strided, sizeof(T), hash);
  }
  for (size_t n = 0; n < kShort; ++n) {
    const std::vector<T> x = awkward(n, n, T(0));
    const T value = sum(x.data(), 1, n);
    hash = fnv1a(&value, sizeof(T), hash);
  }
  return hash;
}

template <class T>
uint64_t hash_dot(T (*dot)(const T*, ptrdiff_t, const T*, ptrdiff_t, size_t)) {
  uint64_t hash = fnv1a(nullptr, 0);
  for (size_t n : kLengths) {
    const std::vector<T> x = values<T>(n, n + 1), y = values<T>(n + 7, n);
    const T contiguous = dot(x.data() + 1, 1, y.data(), 1, n);
    hash = fnv1a(&contiguous, sizeof(T), hash);
    if (n > 20000) continue;
    const T strided = dot(x.data() + n, -1, y.data(), 2, n / 2);
    hash = fnv1a(&strided, sizeof(T), hash);
  }
  for (size_t n = 0; n < kShort; ++n) {
    const std::vector<T> x = awkward(n, n, T(0)), y = awkward(n + 7, n, T(0));
    const T value = dot(x.data(), 1, y.data(), 1, n);
    hash = fnv1a(&value, sizeof(T), hash);
  }
  return hash;
}

template <class T>
uint64_t hash_rows(void (*sum_rows)(const T*, ptrdiff_t, ptrdiff_t, size_t, size_t, T*)) {
  uint64_t hash = fnv1a(nullptr, 0);
  for (size_t rows : {0, 1, 5, 60}) {
    for (size_t columns : {0, 1, 15, 300, 4100}) {
      const std::vector<T> x = values<T>(rows, rows * (2 * columns + 1) + 1);
      std::vector<T> out(rows);
      sum_rows(x.data(), ptrdiff_t(2 * columns + 1), 2, rows, columns, out.data());
      hash = fnv1a(out.data(), rows * sizeof(T), hash);
    }
  }
  return hash;
}

template <class T>
uint64_t hash_columns(void (*sum_columns)(const T*, ptrdiff_t, size_t, size_t, T*)) {
  uint64_t hash = fnv1a(nullptr, 0);
  for (size_t rows : {0, 1, 63, 65, 4100}) {
    for (size_t columns : {1, 15, 37}) {
      const std::vector<T> x = values<T>(rows, (rows + 1) * (columns + 2));
      std::vector<T> out(columns);
      sum_columns(x.data() + 1, ptrdiff_t(columns + 2), rows, columns, out.data());
      hash = fnv1a(out.data(), columns * sizeof(T), hash);
    }
  }
  return hash;
}

struct ProductCase {
  size_t m, n, k;
  bool a_transposed, b_transposed, awkward;
};
constexpr ProductCase kProducts[] = {
    {1, 1, 0, false, false, false},   {1, 1, 1, false, false, false},     {3, 5, 7, false, false, true},
    {14, 32, 256, false, false, false}, {6, 16, 257, false, true, false}, {29, 65, 20, true, false, true},
    {15, 33, 700, true, true, false}, {300, 70, 257, false, false, false}};

template <class T>
uint64_t hash_matmul(const TensorTable& table) {
  constexpr Dtype dtype = sizeof(T) == 4 ? Dtype::f32 : Dtype::f64;
  uint64_t hash = fnv1a(nullptr, 0);
  for (const ProductCase& c : kProducts) {
    const std::vector<T> a = c.awkward ? awkward(c.k, c.m * c.k, T(0)) : values<T>(c.k, c.m * c.k);
    const std::vector<T> b = c.awkward ? awkward(c.k + 7, c.k * c.n, T(0)) : values<T>(c.k + 7, c.k * c.n);
    std::vector<T> out(c.m * c.n, T(1));
    const Product product{c.m, c.n, c.k, a.data(), c.a_transposed ? 1 : ptrdiff_t(c.k), c.a_transposed ? ptrdiff_t(c.m) : 1,
                          b.data(), c.b_transposed ? 1 : ptrdiff_t(c.n), c.b_transposed ? ptrdiff_t(c.k) : 1, out.data(),
                          ptrdiff_t(c.n), dtype, dtype, dtype};
    std::vector<char> space(table.product_workspace(product) + 64);
    char* aligned = space.data() + (64 - reinterpret_cast<uintptr_t>(space.data()) % 64) % 64;
    table.product(product, aligned);
    hash = fnv1a(out.data(), out.size() * sizeof(T), hash);
  }
  return hash;
}

template <class T, class W, size_t words>
uint64_t hash_lanes(void (*probe)(const T*, W*)) {
  uint64_t hash = fnv1a(nullptr, 0);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<T> x = awkward(seed, 32, T(0));
    W out[words];
    probe(x.data(), out);
    hash = fnv1a(out, sizeof out, hash);
  }
  return hash;
}

// Any bit pattern, then plain values, of a length that several threads share and that leaves a partial vector.
template <class T>
uint64_t hash_unary(void (*function)(const T*, T*, size_t)) {
  uint64_t hash = fnv1a(nullptr, 0);
  const std::vector<T> inputs[] = {awkward(21, 70001, T(0)), values<T>(22, 20011)};
  for (const std::vector<T>& x : inputs) {
    std::vector<T> out(x.size());
    function(x.data(), out.data(), x.size());
    hash = fnv1a(out.data(), out.size() * sizeof(T), hash);
  }
  return hash;
}

uint64_t hash_pow(void (*pow)(const float*, const float*, size_t, float*, size_t)) {
  uint64_t hash = fnv1a(nullptr, 0);
  const std::vector<float> bases[] = {awkward(21, 70001, 0.0f), values<float>(22, 20011)};
  const std::vector<float> exponents[] = {awkward(23, 70001, 0.0f), values<float>(24, 20011)};
  std::vector<float> out(70001);
  for (int i = 0; i < 2; ++i) {
    const size_t n = bases[i].size();
    pow(bases[i].data(), exponents[i].data(), 1, out.data(), n);
    hash = fnv1a(out.data(), n * sizeof(float), hash);
  }
  const float cube = 3.0f;
  pow(bases[1].data(), &cube, 0, out.data(), bases[1].size());
  return fnv1a(out.data(), bases[1].size() * sizeof(float), hash);
}

constexpr uint64_t kKey = 0x299F31D0A4093822ull;
constexpr uint64_t kCounter = 0xFFFFFFFFFFFFFFF0ull;  // wraps soon

uint64_t hash_words(const TensorTable& table) {
  std::vector<uint32_t> out(70001);
  table.philox_words(kKey, kCounter, 7, 1, 3, out.data(), out.size());
  return fnv1a(out.data(), out.size() * sizeof(uint32_t));
}
uint64_t hash_draw(void (*draw)(uint64_t, uint64_t, size_t, float*, size_t)) {
  std::vector<float> out(70001);
  draw(kKey, kCounter, 1, out.data(), out.size());
  return fnv1a(out.data(), out.size() * sizeof(float));
}

}  // namespace

void product_self_test(const TensorTable& table, SelfTestEmit emit, void* context);  // selftest_products.cpp
void elementwise_self_test(const TensorTable& table, SelfTestEmit emit, void* context);  // selftest_elementwise.cpp
void reduce_self_test(const TensorTable& table, SelfTestEmit emit, void* context);  // selftest_reduce.cpp
void special_self_test(const TensorTable& table, SelfTestEmit emit, void* context);      // selftest_special.cpp
void random_self_test(const TensorTable& table, SelfTestEmit emit, void* context);       // selftest_random.cpp

void tensor_self_test(const TensorTable& table, SelfTestEmit emit, void* context) {
  emit(context, "tensor.lanes_f32", hash_lanes<float, uint32_t, kProbeWordsF32>(table.probe_lanes_f32));
  emit(context, "tensor.lanes_f64", hash_lanes<double, uint64_t, kProbeWordsF64>(table.probe_lanes_f64));
  emit(context, "tensor.sum_f32", hash_sum(table.sum_f32));
  emit(context, "tensor.sum_f64", hash_sum(table.sum_f64));
  emit(context, "tensor.dot_f32", hash_dot(table.dot_f32));
  emit(context, "tensor.dot_f64", hash_dot(table.dot_f64));
  emit(context, "tensor.sum_rows_f32", hash_rows(table.sum_rows_f32));
  emit(context, "tensor.sum_rows_f64", hash_rows(table.sum_rows_f64));
  emit(context, "tensor.sum_columns_f32", hash_columns(table.sum_columns_f32));
  emit(context, "tensor.sum_columns_f64", hash_columns(table.sum_columns_f64));
  emit(context, "tensor.matmul_f32", hash_matmul<float>(table));
  emit(context, "tensor.matmul_f64", hash_matmul<double>(table));
  emit(context, "tensor.exp_f32", hash_unary(table.exp_f32));
  emit(context, "tensor.log_f32", hash_unary(table.log_f32));
  emit(context, "tensor.sin_f32", hash_unary(table.sin_f32));
  emit(context, "tensor.cos_f32", hash_unary(table.cos_f32));
  emit(context, "tensor.tanh_f32", hash_unary(table.tanh_f32));
  emit(context, "tensor.erf_f32", hash_unary(table.erf_f32));
  emit(context, "tensor.sqrt_f32", hash_unary(table.sqrt_f32));
  emit(context, "tensor.exp_f64", hash_unary(table.exp_f64));
  emit(context, "tensor.log_f64", hash_unary(table.log_f64));
  emit(context, "tensor.sqrt_f64", hash_unary(table.sqrt_f64));
  emit(context, "tensor.pow_f32", hash_pow(table.pow_f32));
  product_self_test(table, emit, context);
  elementwise_self_test(table, emit, context);
  reduce_self_test(table, emit, context);
  special_self_test(table, emit, context);
  emit(context, "tensor.philox_words", hash_words(table));
  emit(context, "tensor.philox_uniform_f32", hash_draw(table.philox_uniform_f32));
  emit(context, "tensor.philox_normal_f32", hash_draw(table.philox_normal_f32));
  random_self_test(table, emit, context);
  linalg_self_test(table, emit, context);
}

}  // namespace droveway

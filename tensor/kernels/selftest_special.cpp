// The self-test of the elementary and special functions: one hash a dtype over all of them.
// Twin: tensor/selftest_special_ref.py.
#include <string>
#include <vector>

#include "table.hpp"

namespace droveway {
namespace {

constexpr size_t kElements = 301;

// Any bit pattern, then plain values, whose magnitudes are those that the functions are used with.
std::vector<float> parts(uint64_t seed, size_t n, float) {
  SplitMix64 any{seed}, plain{seed + 50};
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = i < n / 2 ? awkward_f32(any.next()) : plain_f32(plain.next());
  return x;
}
std::vector<double> parts(uint64_t seed, size_t n, double) {
  SplitMix64 any{seed}, plain{seed + 50};
  std::vector<double> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = i < n / 2 ? awkward_f64(any.next()) : plain_f64(plain.next());
  return x;
}

template <class T>
uint64_t hash_functions(const TensorTable& table, Dtype d) {
  const size_t n = is_complex(d) ? 2 * kElements : kElements;
  const std::vector<T> x = parts(1, n, T(0)), y = parts(2, n, T(0));
  uint64_t hash = fnv1a(nullptr, 0);
  for (int op = op_sqrt; op < kElementwiseOps; op = op == op_sqrt ? int(op_exp) : op + 1) {
    const ElementwiseLoop loop = table.elementwise(op, int(d));
    if (loop == nullptr) continue;
    std::vector<T> out(n);
    loop({out.data(), {x.data(), y.data(), nullptr}, kElements, op});
    hash = fnv1a(out.data(), out.size() * sizeof(T), hash);
  }
  return hash;
}

}  // namespace

void special_self_test(const TensorTable& table, SelfTestEmit emit, void* context) {
  emit(context, "tensor.special_float32", hash_functions<float>(table, Dtype::f32));
  emit(context, "tensor.special_float64", hash_functions<double>(table, Dtype::f64));
  emit(context, "tensor.special_complex64", hash_functions<float>(table, Dtype::c64));
  emit(context, "tensor.special_complex128", hash_functions<double>(table, Dtype::c128));
}

}  // namespace droveway

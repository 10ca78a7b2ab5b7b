// The self-test of the elementwise loops: one hash a dtype over the exact operations, one over all casts.
// Twin: tensor/selftest_elementwise_ref.py.
#include <string>
#include <vector>

#include "table.hpp"

namespace droveway {
namespace {

constexpr size_t kElements = 301;

using Bytes = std::vector<unsigned char>;

template <class T>
void put(Bytes& bytes, size_t i, T value) {
  memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

// An integer of 8·bytes bits: one word in four at an edge of the range.
uint64_t integer_of(uint64_t word, Dtype d) {
  const int bits = int(8 * dtype_size(d));
  const uint64_t smallest = is_signed_int(d) ? uint64_t(1) << (bits - 1) : 0;
  const uint64_t edges[8] = {0, 1, 2, 3, 7, ~uint64_t(0), smallest, smallest - 1};
  return (word & 3) == 0 ? edges[(word >> 2) & 7] : word >> (64 - bits);
}

uint16_t half_of(uint64_t word) {
  static const uint16_t edges[16] = {0x0000, 0x8000, 0x7C00, 0xFC00, 0x7F80, 0xFF80, 0x7E00, 0xFFC1,
                                     0x3C00, 0x3F80, 0x0001, 0x8001, 0x7BFF, 0x7F7F, 0x4200, 0xC040};
  return (word & 3) == 0 ? edges[(word >> 2) & 15] : uint16_t(word >> 48);
}

Bytes values(uint64_t seed, Dtype d) {
  SplitMix64 generator{seed};
  Bytes bytes(kElements * dtype_size(d));
  for (size_t i = 0; i < kElements; ++i) {
    switch (d) {
      case Dtype::boolean: bytes[i] = generator.next() & 1; break;
      case Dtype::f16:
      case Dtype::bf16: put(bytes, i, half_of(generator.next())); break;
      case Dtype::f32: put(bytes, i, awkward_f32(generator.next())); break;
      case Dtype::f64: put(bytes, i, awkward_f64(generator.next())); break;
      case Dtype::c64:
        put(bytes, 2 * i, awkward_f32(generator.next()));
        put(bytes, 2 * i + 1, awkward_f32(generator.next()));
        break;
      case Dtype::c128:
        put(bytes, 2 * i, awkward_f64(generator.next()));
        put(bytes, 2 * i + 1, awkward_f64(generator.next()));
        break;
      default: {
        const uint64_t value = integer_of(generator.next(), d);
        switch (dtype_size(d)) {
          case 1: put(bytes, i, uint8_t(value)); break;
          case 2: put(bytes, i, uint16_t(value)); break;
          case 4: put(bytes, i, uint32_t(value)); break;
          default: put(bytes, i, value);
        }
      }
    }
  }
  return bytes;
}

size_t result_size(int op, Dtype d) {
  switch (elementwise_result_of[op]) {
    case kTruth: return 1;
    case kReal: return is_complex(d) ? dtype_size(d) / 2 : dtype_size(d);
    case kPair: return 2 * dtype_size(d);
    default: return dtype_size(d);
  }
}

uint64_t hash_operations(const TensorTable& table, Dtype d) {
  uint64_t hash = fnv1a(nullptr, 0);
  const Bytes truths = values(99, Dtype::boolean);
  const Bytes in[3] = {values(1, d), values(2, d), values(3, d)};
  for (int op = 0; op < op_exp; ++op) {
    if (op == op_cast || (op == op_sqrt && is_complex(d))) continue;  // special functions have their own tests
    const ElementwiseLoop loop = table.elementwise(op, int(d));
    if (loop == nullptr) continue;
    Bytes out(kElements * result_size(op, d));
    const void* first = op == op_where ? truths.data() : in[0].data();
    loop({out.data(), {first, in[1].data(), in[2].data()}, kElements, op});
    hash = fnv1a(out.data(), out.size(), hash);
  }
  return hash;
}

uint64_t hash_casts(const TensorTable& table) {
  uint64_t hash = fnv1a(nullptr, 0);
  for (int from = 0; from < kDtypes; ++from) {
    const Bytes in = values(4, Dtype(from));
    for (int to = 0; to < kDtypes; ++to) {
      const ElementwiseLoop loop = table.cast(from, to);
      if (loop == nullptr) continue;
      Bytes out(kElements * dtype_size(Dtype(to)));
      loop({out.data(), {in.data(), nullptr, nullptr}, kElements, op_cast});
      hash = fnv1a(out.data(), out.size(), hash);
    }
  }
  return hash;
}

}  // namespace

void elementwise_self_test(const TensorTable& table, SelfTestEmit emit, void* context) {
  for (int d = 0; d < kDtypes; ++d)
    emit(context, ("tensor.elementwise_" + std::string(dtype_name(Dtype(d)))).c_str(), hash_operations(table, Dtype(d)));
  emit(context, "tensor.cast", hash_casts(table));
}

}  // namespace droveway

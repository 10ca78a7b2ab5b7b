// Element types: their order is part of docs/formats/tensor-abi.md. No Python and no library here, so that kernels of
// every instruction set may include it; functions are static, so that no weak symbol comes out of it.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace droveway {

enum class Dtype : uint8_t { boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, c64, c128 };
constexpr int kDtypes = 15;

// Where a tensor computes. Both lie in host memory: `ref` runs the Python twins.
enum class DeviceKind : uint8_t { cpu, ref };

[[maybe_unused]] static constexpr size_t dtype_size(Dtype d) {
  constexpr uint8_t sizes[kDtypes] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return sizes[static_cast<int>(d)];
}

[[maybe_unused]] static constexpr size_t dtype_alignment(Dtype d) {
  return dtype_size(d) == 16 ? 8 : d == Dtype::c64 ? 4 : dtype_size(d);
}

[[maybe_unused]] static constexpr bool is_signed_int(Dtype d) { return d >= Dtype::i8 && d <= Dtype::i64; }
[[maybe_unused]] static constexpr bool is_unsigned_int(Dtype d) { return d >= Dtype::u8 && d <= Dtype::u64; }
[[maybe_unused]] static constexpr bool is_int(Dtype d) { return d >= Dtype::i8 && d <= Dtype::u64; }
[[maybe_unused]] static constexpr bool is_float(Dtype d) { return d >= Dtype::f16 && d <= Dtype::f64; }  // real ones
[[maybe_unused]] static constexpr bool is_complex(Dtype d) { return d >= Dtype::c64; }

[[maybe_unused]] static constexpr const char* dtype_name(Dtype d) {
  constexpr const char* names[kDtypes] = {"bool",   "int8",   "int16",    "int32",   "int64",   "uint8",     "uint16", "uint32",
                                          "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
  return names[static_cast<int>(d)];
}

}  // namespace droveway

// droveway_selftest [--isa NAME] [--threads N] [--hostile 1]: one `kernel hash` line per kernel, of all areas linked in.
// --hostile first sets flush-to-zero and rounding up, as other libraries do, and fails if a kernel changes that mode.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "droveway/dispatch.hpp"
#if defined(DW_AREA_TENSOR)
#include "../table.hpp"
#endif
#if defined(DW_AREA_VECTOR)
#include "../../../vector/kernels/table.hpp"
#endif
#if defined(DW_AREA_SPLAT)
#include "../../../splat/kernels/table.hpp"
#endif
#if defined(DW_AREA_STORAGE)
#include "../../../storage/kernels/table.hpp"
#endif
#if defined(DW_AREA_COORD)
#include "../../../coord/kernels/table.hpp"
#endif

namespace {

void print(void*, const char* name, uint64_t hash) {
  std::printf("%s %016llx\n", name, static_cast<unsigned long long>(hash));
}

#if defined(__x86_64__)
uint64_t mode() { return __builtin_ia32_stmxcsr() & 0xFFC0u; }
void set_hostile_mode() { __builtin_ia32_ldmxcsr(0x1F80u | 0x8040u | 0x4000u); }  // flush both ways, round up
#else
uint64_t mode() {
  uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void set_hostile_mode() { asm volatile("msr fpcr, %0" ::"r"(uint64_t{(1u << 24) | (1u << 22)})); }
#endif

int usage() {
  std::fprintf(stderr, "usage: droveway_selftest [--isa v3|v4|neon] [--threads 1..1024] [--hostile 1]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  using droveway::Isa;
  Isa isa = droveway::isa_best();
  bool hostile = false;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return usage();
    const char* value = argv[i + 1];
    if (std::strcmp(argv[i], "--threads") == 0) {
      const int n = std::atoi(value);
      if (n < 1 || n > 1024) return usage();
      dw_set_threads(n);
    } else if (std::strcmp(argv[i], "--hostile") == 0) {
      hostile = std::strcmp(value, "1") == 0;
    } else if (std::strcmp(argv[i], "--isa") == 0) {
      bool found = false;
      for (Isa level : {Isa::v3, Isa::v4, Isa::neon}) {
        if (std::strcmp(value, droveway::isa_name(level)) != 0 || level > droveway::isa_best()) continue;
        isa = level;
        found = true;
      }
      if (!found) return usage();
    } else {
      return usage();
    }
  }
  if (isa == Isa::ref) {
    std::fprintf(stderr, "droveway_selftest: this CPU has no x86-64-v3\n");
    return 2;
  }
#if defined(__x86_64__)
#define DW_PICK(area) (isa == Isa::v4 ? isa_v4::area##_table : isa_v3::area##_table)
#else
#define DW_PICK(area) (isa_neon::area##_table)
#endif
  if (hostile) set_hostile_mode();
  const uint64_t before = mode();
#if defined(DW_AREA_TENSOR)
  droveway::tensor_self_test(DW_PICK(tensor), print, nullptr);
#endif
#if defined(DW_AREA_VECTOR)
  droveway::vector_self_test(DW_PICK(vector), print, nullptr);
#endif
#if defined(DW_AREA_SPLAT)
  droveway::splat_self_test(DW_PICK(splat), print, nullptr);
#endif
#if defined(DW_AREA_STORAGE)
  droveway::storage_self_test(DW_PICK(storage), print, nullptr);
#endif
#if defined(DW_AREA_COORD)
  droveway::coord_self_test(DW_PICK(coord), print, nullptr);
#endif
  if (mode() != before) {
    std::fprintf(stderr, "droveway_selftest: a kernel changed the caller's floating-point mode\n");
    return 1;
  }
  return 0;
}

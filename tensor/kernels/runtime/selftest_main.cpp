// droveway_selftest [--isa NAME] [--threads N]: prints one `kernel hash` line per kernel, of all areas linked in.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "droveway/dispatch.hpp"
#include "../table.hpp"

namespace {
void print(void*, const char* name, uint64_t hash) {
  std::printf("%s %016llx\n", name, static_cast<unsigned long long>(hash));
}
}  // namespace

int main(int argc, char** argv) {
  using droveway::Isa;
  Isa isa = droveway::isa_best();
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0) dw_set_threads(std::atoi(argv[i + 1]));
    if (std::strcmp(argv[i], "--isa") == 0) {
      for (Isa level : {Isa::v3, Isa::v4, Isa::neon})
        if (std::strcmp(argv[i + 1], droveway::isa_name(level)) == 0) isa = level;
    }
  }
#if defined(__x86_64__)
#define DW_PICK(area) (isa == Isa::v4 ? isa_v4::area##_table : isa_v3::area##_table)
#else
#define DW_PICK(area) (isa_neon::area##_table)
#endif
#if defined(DW_AREA_TENSOR)
  droveway::tensor_self_test(DW_PICK(tensor), print, nullptr);
#endif
  return 0;
}

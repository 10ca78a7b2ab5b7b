// Which build of the kernels runs: chosen once, at import, by module.cpp of each area.
// Included by module.cpp only (baseline flags), never by a kernel source.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "droveway/parallel.hpp"

namespace droveway {

enum class Isa { ref, v3, v4, neon };

inline const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::ref: return "ref";
    case Isa::v3: return "v3";
    case Isa::v4: return "v4";
    case Isa::neon: return "neon";
  }
  return "";
}

#if defined(__x86_64__) && defined(__clang__)
// Clang before 18 doesn't know the levels by name; no CPU has these features without the rest of its level.
inline bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}
inline bool has_v4() {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#elif defined(__x86_64__)
inline bool has_v3() { return __builtin_cpu_supports("x86-64-v3"); }
inline bool has_v4() { return __builtin_cpu_supports("x86-64-v4"); }
#endif

// The best level this CPU and operating system support; ref where even v3 is missing.
inline Isa isa_best() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (has_v4()) return Isa::v4;
  if (has_v3()) return Isa::v3;
  return Isa::ref;
#else
  return Isa::neon;
#endif
}

// Which build the word `want` (nullptr or empty: none) selects on a CPU whose best level is `best`. Fills isa and
// returns nullptr, or returns one sentence for an ImportError; the text lives until the next call.
inline const char* isa_select(Isa best, const char* want, Isa* isa) {
  static char text[256];
  const bool x86 = best != Isa::neon;
  const char* has = best == Isa::ref ? "nothing above x86-64-v2" : isa_name(best);
  if (want == nullptr || *want == '\0') {
    *isa = best;
    if (best != Isa::ref) return nullptr;
    return "droveway needs a CPU with x86-64-v3 (AVX2, FMA), and this one has nothing above x86-64-v2: set "
           "DROVEWAY_ISA=ref to run the Python twins (slow, the same bits)";
  }
  for (Isa level : {Isa::ref, Isa::v3, Isa::v4, Isa::neon}) {
    if (std::strcmp(want, isa_name(level)) != 0 || (level != Isa::ref && (level == Isa::neon) == x86)) continue;
    *isa = level;
    if (level <= best) return nullptr;
    std::snprintf(text, sizeof text, "DROVEWAY_ISA=%s needs a CPU with x86-64-%s, and this one has %s: unset it, or "
                  "set DROVEWAY_ISA=ref", isa_name(level), isa_name(level), has);
    return text;
  }
  std::snprintf(text, sizeof text, "DROVEWAY_ISA=%.40s is not a build of droveway: expected %s or ref (this CPU has %s)",
                want, x86 ? "v3, v4" : "neon", has);
  return text;
}

inline const char* isa_choose(Isa* isa) { return isa_select(isa_best(), std::getenv("DROVEWAY_ISA"), isa); }

}  // namespace droveway

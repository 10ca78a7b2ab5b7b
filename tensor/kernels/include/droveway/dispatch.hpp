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

// The best level this CPU and operating system support; ref where even v3 is missing.
inline Isa isa_best() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return Isa::v4;
  if (__builtin_cpu_supports("x86-64-v3")) return Isa::v3;
  return Isa::ref;
#else
  return Isa::neon;
#endif
}

// Fills isa; returns nullptr, or one sentence for an ImportError. The text lives until the next call.
inline const char* isa_choose(Isa* isa) {
  static char text[256];
  const Isa best = isa_best();
  const char* has = best == Isa::ref ? "nothing above x86-64-v2" : isa_name(best);
  const char* want = std::getenv("DROVEWAY_ISA");
  if (want == nullptr || *want == '\0') {
    if (best == Isa::ref) {
      return "droveway needs a CPU with x86-64-v3 (AVX2, FMA), and this one has nothing above x86-64-v2: set "
             "DROVEWAY_ISA=ref to run the Python twins (slow, the same bits)";
    }
    *isa = best;
    return nullptr;
  }
  if (std::strcmp(want, "ref") == 0) {
    *isa = Isa::ref;
    return nullptr;
  }
#if defined(__x86_64__)
  for (Isa level : {Isa::v3, Isa::v4}) {
    if (std::strcmp(want, isa_name(level)) != 0) continue;
    if (level <= best) {
      *isa = level;
      return nullptr;
    }
    std::snprintf(text, sizeof text, "DROVEWAY_ISA=%s needs a CPU with x86-64-%s, and this one has %s: unset it, or "
                  "set DROVEWAY_ISA=ref", isa_name(level), isa_name(level), has);
    return text;
  }
  std::snprintf(text, sizeof text, "DROVEWAY_ISA=%.40s is not a build of droveway: expected v3, v4 or ref (this CPU "
                "has %s)", want, has);
#else
  if (std::strcmp(want, "neon") == 0) {
    *isa = Isa::neon;
    return nullptr;
  }
  std::snprintf(text, sizeof text, "DROVEWAY_ISA=%.40s is not a build of droveway: expected neon or ref", want);
#endif
  return text;
}

}  // namespace droveway

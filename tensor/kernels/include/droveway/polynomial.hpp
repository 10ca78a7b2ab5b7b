// Polynomials on lanes: one chain of fma, highest coefficient first (Horner).
#pragma once
#include "droveway/lanes.hpp"

namespace DW_ISA {

// horner(x, c0, c1, …, cn) = c0 + x·(c1 + x·(… + x·cn))
template <class V, class T>
DW_INLINE V horner(V, T c) {
  return V::set1(c);
}
template <class V, class T, class... More>
DW_INLINE V horner(V x, T c, More... more) {
  return fma(horner(x, more...), x, V::set1(c));
}

}  // namespace DW_ISA

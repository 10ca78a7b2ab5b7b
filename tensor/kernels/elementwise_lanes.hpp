// Loops over contiguous strips for functions on lanes, and the table of one dtype. Included by kernel sources only.
//
// A source says what it has, then makes its table of all operations (nullptr where it has none):
//
//   namespace DW_ISA {
//   namespace {
//   DW_LANES_UNARY(F32x16, float, exp, math::exp(x))          // x is an F32x16
//   DW_LANES_BINARY(F32x16, float, hypot, hypot(x, y))
//   }
//   DW_LOOP_TABLE(special_f32, float)                          // ElementwiseLoop special_f32(int op)
//   }
#pragma once
#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "table.hpp"

namespace DW_ISA {
namespace {

using droveway::ElementwiseLoop;
using droveway::Strip;

template <class T, int OP>
struct LoopOf {
  static constexpr ElementwiseLoop loop = nullptr;
};

// A tail is the same code on a partial vector, filled with 1, which every function takes without a slow path.
template <class V, class T, class F>
DW_INLINE void unary_strip(const Strip& s, F f) {
  FpGuard guard;
  const T* x = static_cast<const T*>(s.in[0]);
  T* out = static_cast<T*>(s.out);
  size_t i = 0;
  for (; i + V::width <= s.n; i += V::width) store(out + i, f(V::load(x + i)));
  if (i < s.n) store_partial(out + i, s.n - i, f(V::load_partial(x + i, s.n - i, T(1))));
}
template <class V, class T, class F>
DW_INLINE void binary_strip(const Strip& s, F f) {
  FpGuard guard;
  const T* x = static_cast<const T*>(s.in[0]);
  const T* y = static_cast<const T*>(s.in[1]);
  T* out = static_cast<T*>(s.out);
  size_t i = 0;
  for (; i + V::width <= s.n; i += V::width) store(out + i, f(V::load(x + i), V::load(y + i)));
  if (i < s.n) {
    const size_t rest = s.n - i;
    store_partial(out + i, rest, f(V::load_partial(x + i, rest, T(1)), V::load_partial(y + i, rest, T(1))));
  }
}

}  // namespace
}  // namespace DW_ISA

#define DW_LANES_UNARY(V, T, NAME, EXPRESSION)                                            \
  template <>                                                                             \
  struct LoopOf<T, droveway::op_##NAME> {                                                 \
    static void loop(const Strip& s) {                                                    \
      unary_strip<V, T>(s, [](V x) DW_LAMBDA { return EXPRESSION; });                     \
    }                                                                                     \
  };
#define DW_LANES_BINARY(V, T, NAME, EXPRESSION)                                           \
  template <>                                                                             \
  struct LoopOf<T, droveway::op_##NAME> {                                                 \
    static void loop(const Strip& s) {                                                    \
      binary_strip<V, T>(s, [](V x, V y) DW_LAMBDA { return EXPRESSION; });               \
    }                                                                                     \
  };
// ElementwiseLoop FUNCTION(int op) over everything that LoopOf<T, …> has been told before.
#define DW_LOOP_TABLE(FUNCTION, T)                                                                          \
  ElementwiseLoop FUNCTION(int op) {                                                                        \
    using Element = T;                                                                                      \
    static constexpr ElementwiseLoop loops[] = {DW_ELEMENTWISE_OPS(DW_LOOP_ENTRY)};                         \
    return loops[op];                                                                                       \
  }
#define DW_LOOP_ENTRY(name, arity, classes, result) LoopOf<Element, droveway::op_##name>::loop,
